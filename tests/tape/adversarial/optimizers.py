"""Optimizers: hyper-parameters, groups, state that is loaded, numbers that are looked at."""

import decimal
import functools
import math

import numpy as np

import gpugrad as gg
from gpugrad import data, optim

from . import harness
from .harness import add, leaf, normal, one_vector, program


def setting(make=None):
    w, make = leaf(3), make or functools.partial(optim.SGD, lr=0.1)
    return w, make([w])


def training(world, w, optimizer, loss_of=None, after=None):
    """A compiled step; ``after`` is called at its end, for what the step returns besides."""
    train = harness.training(optimizer, loss_of or (lambda x: ((w * x) ** 2).sum()))
    world.watch(w, optimizer)
    return world.compile(lambda x: (train(x), x * 2, None if after is None else after()))


def put(optimizer, **values):
    return lambda: optimizer.param_groups[0].update(values)


def changing(name, make, *options):
    """A program that trains with an optimizer whose options change."""

    def runs(world):
        w, optimizer = setting(make)
        world.play(training(world, w, optimizer), changes=[put(optimizer, **o) for o in options])

    add(name, __name__, runs)


ADAM = functools.partial(optim.Adam, lr=0.1)
changing("rates_of_adam", ADAM, {"lr": 0.5}, {"lr": 0.0}, {"lr": 0.1})
changing("rates_that_are_invalid", ADAM, {"lr": -1.0}, {"lr": 0.1})
changing("rates_that_are_no_numbers", ADAM, {"lr": "0.5"}, {"lr": math.nan},
         {"lr": 10**400}, {"lr": 0.1})  # fmt: skip
changing("momentum_on_and_off", functools.partial(optim.SGD, lr=0.1, momentum=0.9), {"momentum": 0},
         {"momentum": 0.5}, {"nesterov": True}, {"weight_decay": 0.1})  # fmt: skip
changing("options_of_adam", ADAM, {"betas": (0.5, 0.5)}, {"amsgrad": True}, {"maximize": True},
         {"eps": 1.0}, {"amsgrad": False})  # fmt: skip
changing("an_option_that_is_a_number_or_none", functools.partial(optim.Adafactor, lr=0.1),
         *[{"eps": eps} for eps in ((0.1, 1e-3), (0.1, 0.5), (None, 0.5))])  # fmt: skip


@program
def groups_in_another_order(world):
    w, v = leaf(3), leaf(3, seed=1)
    optimizer = optim.SGD([{"params": [w], "lr": 0.1}, {"params": [v], "lr": 0.5}])
    step = training(world, w, optimizer, lambda x: (((w + v) * x) ** 2).sum())

    def replace():
        optimizer.param_groups[1] = {**optimizer.param_groups[1], "params": [w]}

    world.play(step, changes=[optimizer.param_groups.reverse, replace], watch=[v])


@program
def a_group_without_a_rate(world):
    w, optimizer = setting()
    step = training(world, w, optimizer)
    world.play(step, changes=[lambda: optimizer.param_groups[0].pop("lr"), put(optimizer, lr=0.1)])


@program
def an_option_that_is_a_name(world):
    w = leaf(3, 2)
    optimizer = optim.Muon([w], lr=0.1)
    step = training(world, w, optimizer, lambda x: ((w * x[:, None]) ** 2).sum())
    names = "match_rms_adamw", "original", None, "match_rms_adamw", "adam"
    world.play(step, changes=[put(optimizer, adjust_lr_fn=name) for name in names])


@program
def a_weight_that_is_rebound(world):
    w, optimizer = setting(ADAM)

    def double():
        with gg.no_grad():
            w.__imul__(2)

    world.play(training(world, w, optimizer), changes=[double, put(optimizer, lr=0.5), double])


@program
def weights_that_the_function_clips(world):
    for make in ADAM, None, functools.partial(optim.RMSprop, lr=0.1, momentum=0.9):
        w, optimizer = setting(make)

        def clip(w=w, scale=1.0):
            with gg.no_grad():
                w[...] = gg.clip(w * scale, -0.5, 0.5)

        double = functools.partial(clip, scale=2.0)
        step = training(world, w, optimizer, after=clip)
        world.play(step, changes=[double, put(optimizer, lr=0.5), double])


@program
def a_group_that_is_added(world):
    v = leaf(3, seed=5)
    w, optimizer = setting(ADAM)
    changes = (
        lambda: optimizer.add_param_group({"params": [v], "lr": 0.5}),
        lambda: optimizer.param_groups[-1].update(lr=0.0),
        lambda: optimizer.param_groups.reverse(),
    )
    world.watch(v)
    world.play(training(world, w, optimizer, lambda x: ((w * x + v) ** 2).sum()), changes=changes)


@program
def a_rate_that_the_function_changes(world):
    w, optimizer = setting()

    def halve():
        optimizer.param_groups[0]["lr"] *= 0.5

    step = training(world, w, optimizer, after=halve)
    world.play(step, changes=[put(optimizer, lr=1.0), put(optimizer, lr=1)])


@program
def gradients_that_are_missing_at_times(world):
    w, v = leaf(3), leaf(3, seed=4)
    optimizer, use = optim.Adam([w, v], lr=0.1), {"v": True}
    step = training(world, w, optimizer, lambda x: (w * x * v if use["v"] else w * x).sum())
    world.play(step, changes=[lambda: use.update(v=False), lambda: use.update(v=True)], watch=[v])


@program
def gradients_that_are_not_reset(world):
    w, optimizer = setting()

    def step(x):
        (w * x).sum().backward()
        optimizer.step()

    changes = [optimizer.zero_grad, functools.partial(optimizer.zero_grad, set_to_none=False)]
    settings = ("grad", normal(3, seed=9)), ("requires_grad", False)
    changes += [functools.partial(setattr, w, *setting) for setting in settings]
    world.check(step, changes=changes, watch=[w])


@program
def a_step_with_a_closure(world):
    w, optimizer = setting(ADAM)
    table = {"calls": 0, "k": 1.0}

    def step(x):
        def closure():
            table["calls"] += 1
            optimizer.zero_grad()
            loss = (w * x * table["k"]).sum()
            loss.backward()
            return loss

        return optimizer.step(closure).detach()

    world.watch(w, optimizer, table)
    world.check(step, changes=[lambda: table.update(k=2.0), lambda: table.update(calls=0)])


@program
def an_optimizer_of_the_program(world):
    class Plain(optim.Optimizer):
        gain = 1.0

        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})
            self.scale = np.array([1.0, 0.5, 0.25], np.float32)

        def check(self, group):
            pass

        def init_single(self, array, group):
            return {"total": array * 0}

        def apply_single(self, array, grad, state, step, lr):
            state[0][...] += grad
            array -= lr * self.gain * state[0] / step
            array -= self.scale * lr
            array += np.sqrt(lr) * 0.1 + np.float32(lr)

    w, optimizer = setting(functools.partial(Plain, lr=0.1))
    gains = lambda: setattr(optimizer, "gain", 2.0), lambda: setattr(Plain, "gain", 9.0)
    changes = put(optimizer, lr=0.5), *gains, lambda: optimizer.scale.fill(1)
    world.play(training(world, w, optimizer), changes=changes)


@program
def an_optimizer_of_the_program_that_goes_two_ways(world):
    rate = 1.0
    rates = [lambda: rate, lambda: 0.5]

    class Alternating(optim.Optimizer):
        keeps_step = True

        def apply_single(self, array, grad, state, step, lr=0.1):
            array -= lr * grad * (rates[0]() if step % 2 == 0 else rates[1]())

    def inputs(i):
        nonlocal rate
        rate = {2: 2.0, 10: 5.0, 11: 5.0}.get(i, 1.0)
        return one_vector(i)

    world.play(training(world, *setting(Alternating)), inputs, calls=12)


@program
def a_plateau_inside(world):
    w, optimizer = setting(functools.partial(optim.SGD, lr=0.5, momentum=0.1))
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    step = training(world, w, optimizer, after=lambda: schedule.step(1.0))
    world.play(step, changes=[put(optimizer, lr=1.0)], calls=9)


@program
def rates_for_averaged_weights(world):
    w, optimizer = setting()
    schedule = optim.swa_utils.SWALR(optimizer, swa_lr=0.01, anneal_epochs=3)
    step = training(world, w, optimizer, after=schedule.step)
    world.play(step, changes=[put(optimizer, swa_lr=0.5)], watch=[schedule])


@program
def passes_through_loaders(world):
    samples = data.TensorDataset(normal(5, 3), normal(5))
    options = {}, {"shuffle": True, "prefetch": 1}
    loaders = [data.DataLoader(samples, batch_size=2, **given) for given in options]
    w = leaf(3)
    step = harness.training(optim.SGD([w], lr=0.1), lambda x, y: ((x @ w - y) ** 2).mean())
    world.watch(w, *[loader.state_dict for loader in loaders])
    world.check(lambda loader: [step(x, y) for x, y in loader], lambda i: (loaders[i % 2],))


# Numbers that the function looks at


def looking(name, look):
    """A program whose function looks at the learning rate in some way."""

    def runs(world):
        w, optimizer = setting()
        step = training(world, w, optimizer, after=lambda: look(optimizer.param_groups[0]["lr"]))
        world.play(step, changes=[put(optimizer, lr=lr) for lr in (0.5, 1, 2.0, 0.1)])

    add(name, __name__, runs)


looking("a_rate_in_containers_as_a_result", lambda lr: [lr, (lr * 2, -lr), {"lr": lr}])
KINDS = int, float, round, functools.partial(round, ndigits=1), complex, decimal.Decimal, bool
looking("a_rate_converted", lambda lr: [kind(lr) for kind in KINDS])
looking("a_branch_on_a_rate", lambda lr: "low" if lr < 0.3 else "high")


@program
def a_step_count_that_is_looked_at(world):
    w, optimizer = setting(ADAM)

    def look():
        step = optimizer.state_dict()["state"][0]["step"]
        kinds = step, type(step), f"{step}", [*range(int(step))], {1: "a"}.get(step)
        return *kinds, "third" if step % 3 == 0 else w * step

    world.play(training(world, w, optimizer, after=look), changes=[put(optimizer, lr=0.5)])
