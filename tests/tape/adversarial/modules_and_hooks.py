"""Modules: modes, attributes, parameters, buffers, hooks, running statistics."""

from functools import partial

import gpugrad as gg
from gpugrad import nn

from .harness import batch, leaf, model, normal, program, swept


def step_of(world, net):
    @world.compile
    def f(x):
        net.zero_grad()
        y = (net(x) ** 2).sum()
        y.backward()
        return y.detach()

    return f


@program
def training_and_evaluation(world):
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    world.watch(net, gg.random.default_generator)
    changes = net.eval, net.train, partial(setattr, net[2], "p", 0.7), net[1].eval, net[2].eval
    world.check(lambda x: net(x).detach(), batch, changes=changes)


@program
def a_buffer_that_is_rebound_inside(world):
    class Net(nn.Module):
        def __init__(self):
            self.register_buffer("mean", gg.zeros(3))

        def forward(self, x):
            self.mean = self.mean * 0.5 + x.mean(0)
            return x - self.mean

    net = Net()
    changes = [partial(setattr, net, "mean", normal(3, seed=5)), lambda: net.mean.__iadd__(1)]
    changes.append(partial(net.load_state_dict, {"mean": gg.ones(3)}))
    world.check(net, batch, changes=changes, watch=[net])


@program
def parameters_that_become_shared(world):
    net = model(3, 3, 3)
    other = net[1].weight
    changes = [partial(setattr, net[1], "weight", w) for w in (net[0].weight, other)]
    world.play(step_of(world, net), batch, changes=changes, watch=[net, other])


@program
def layers_that_are_added_and_removed(world):
    net = model(3, 3, 3)
    changes = [partial(net.append, nn.Tanh()), partial(net.__delitem__, 0)]
    changes += [partial(net.insert, 0, nn.ReLU()), partial(net.__setitem__, 0, nn.Sigmoid())]
    world.check(lambda x: net(x).detach(), batch, changes=changes)


@program
def an_attribute_that_is_added(world):
    class Net(nn.Module):
        def forward(self, x):
            return x * self.gain if hasattr(self, "gain") else x

    net = Net()
    changes = [partial(setattr, net, "gain", gain) for gain in (2.0, nn.Parameter(normal(3)))]
    world.play(world.compile(net), changes=[*changes, lambda: delattr(net, "gain")])


@program
def forward_hooks_that_come_and_go(world):
    net, log, handles = model(3, 3), [], []

    def hook(module, args, output):
        log.append(output.shape)
        return output * 2

    changes = (
        lambda: handles.append(net[0].register_forward_hook(hook)),
        lambda: handles.append(net[0].register_forward_pre_hook(lambda m, args: args[0] + 1)),
        *[lambda: handles.pop(0).remove()] * 2,
    )
    world.check(lambda x: net(x).detach(), batch, changes=changes, watch=[log])


@program
def backward_hooks_that_log(world):
    net, log = model(3, 3), []
    net[0].register_full_backward_hook(lambda m, gx, gy: log.append(gy[0].detach()))
    world.play(step_of(world, net), batch, changes=[log.clear], watch=[net, log])


@program
def hooks_after_accumulation_that_step(world):
    w, table = leaf(3), {"lr": 0.1}

    def step(p):
        p.detach().__isub__(p.grad * table["lr"])
        p.grad = None

    w.register_post_accumulate_grad_hook(step)

    def f(x):
        y = (w * x).sum()
        y.backward()
        return y.detach()

    world.check(f, changes=[lambda: table.update(lr=0.5), lambda: table.update(lr=0)], watch=[w])


@program
def hooks_that_a_function_adds(world):
    w, kept = leaf(3), []
    inputs = [leaf(3, seed=i) for i in range(7)]

    def adds(x):
        w.register_hook(lambda g: g * 2)
        return (w * x).sum()

    def adds_to_argument(x):
        x.register_hook(lambda g: g * 3)
        return (x * x).sum()

    def adds_after(x):
        w.register_post_accumulate_grad_hook(lambda w: kept.append(w.grad))
        return (w * x).sum()

    world.watch(w, inputs, kept)
    for f in adds, adds_to_argument, adds_after:
        world.play(world.compile(swept(f, w)), lambda i: (inputs[i],))
        world.play(swept(world.compile(f), w), lambda i: (inputs[i] * 1,))
