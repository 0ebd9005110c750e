"""Steps of schedulers by other names and between other effects; gradients in any memory order."""

import json
import math

import gpugrad as gg
from gpugrad import optim

from .harness import add, leaf, normal, program
from .optimizers import changing, setting, training

NAMES = ["last_epoch"]
StepLR, LambdaLR = optim.lr_scheduler.StepLR, optim.lr_scheduler.LambdaLR


def scheduling(name, after, period=4, times=0):
    """A step that ends with ``after(optimizer, scheduler)()``; the scheduler may step outside."""

    def runs(world):
        w, optimizer = setting()
        scheduler = StepLR(optimizer, period)
        step = training(world, w, optimizer, after=after(optimizer, scheduler))
        world.play(step, changes=[scheduler.step] * times, calls=12, watch=[scheduler])

    add(name, __name__, runs)


scheduling("a_step_by_a_bound_method", lambda o, s: s.step)
scheduling("a_rate_after_a_step", lambda o, s: lambda: (s.step(), o.param_groups[0]["lr"]))
scheduling("a_rate_by_a_bound_method", lambda o, s: lambda f=s.get_last_lr: f(), 1, 3)
scheduling("an_epoch_by_a_name", lambda o, s: lambda k=NAMES[:]: getattr(s, k[0]), 100, 3)


@program
def a_step_that_is_replaced(world):
    (w, optimizer), log = setting(), []
    scheduler = StepLR(optimizer, 3)
    scheduler.step = lambda original=scheduler.step: (log.append(1), original())
    step = training(world, w, optimizer, after=lambda: scheduler.gamma)
    world.play(lambda x: (step(x), scheduler.step()), watch=[scheduler, log])


@program
def functions_of_schedulers(world):
    (w, optimizer), state = setting(), {"flag": False}
    reads = LambdaLR(optimizer, lambda epoch: 0.5 if state["flag"] else 1.0)
    writes = LambdaLR(setting()[1], lambda epoch: state.update(flag=epoch > 5) or 1.0)

    def after():
        reads.step()
        writes.step()
        state["flag"] = not state["flag"]

    world.play(training(world, w, optimizer, after=after), calls=9, watch=[state])


class Warm(optim.Optimizer):
    def apply_single(self, array, grad, state, step, lr=0.1, warm=5):
        array -= grad * (lr / (warm - step) if step < warm else lr) * abs(1j * step)


class ByC(optim.Optimizer):
    def apply_single(self, array, grad, state, step, lr=0.1):
        array -= grad * math.ldexp(lr, -pow(step, 2, 3)) * len(json.dumps(lr))


for _kind in Warm, ByC:
    changing(f"numbers_of_{_kind.__name__}", _kind, {"lr": 0.5})


@program
def numbers_that_an_optimizer_keeps(world):
    keys, items, table = set(), [], {}

    class Keeping(optim.Optimizer):
        def apply_single(self, array, grad, state, step, lr=0.1):
            keys.add(step)
            items.append((step, [lr]))
            table[step] = {"lr": lr}
            array -= grad * lr

    step = training(world, *setting(Keeping))
    world.play(step, watch=[lambda: [sorted(map(repr, x)) for x in (keys, items, table.items())],
                            lambda: [*map(type, [*keys, *table])]])  # fmt: skip


@program
def gradients_in_several_orders(world):
    w, v = leaf(20, 30), leaf(30, 20, seed=1)
    f = world.compile(lambda x: x @ w.T + x @ (w.T * 2))

    def whole(x):
        w.grad = v.grad = None
        ((f(x) ** 2).mean() + (gg.einsum("bi,io->bo", x, v) ** 2).mean()).backward()
        return [(p.grad**2).sum() + p.grad.sum(0).sum() for p in (w, v)]

    compiled = world.compile(whole)
    world.play(lambda x: (whole(x), compiled(x)), lambda i: (normal(40, 30, seed=i),))
