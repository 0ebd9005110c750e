"""Forked processes, pickles and copies of what compiled functions use."""

import copy
import os
import sys

from gpugrad import optim

from .harness import batch, bits, in_child, missing, model, normal, program, training

UNSAFE = "fork is not safe" if sys.platform == "darwin" else None
NO_FORK = missing(os, "fork", "waitpid") or UNSAFE


@program(needs=NO_FORK)
def a_child_that_trains_on(world):
    net = model(3, 3, 1)
    optimizer = optim.Adam(net.parameters(), lr=0.1)

    step = world.compile(training(optimizer, lambda x: (net(x) ** 2).mean()))

    def whole(x):
        def further():
            return bits([[step(x * k) for k in (1.0, 2.0, 3.0)], net, optimizer])

        return step(x), in_child(further)

    world.play(whole, batch, watch=[net, optimizer])


@program(needs=NO_FORK)
def the_number_of_the_process(world):
    start = os.getpid()
    f = world.compile(lambda x: x * (2.0 if os.getpid() == start else 3.0))
    world.play(lambda x: (f(x), in_child(lambda: bits(f(x))), f(x)))


@program
def a_deep_copy_of_an_object_with_a_compiled_method(world):
    class Net:
        def __init__(self):
            self.k, self.fast = 2.0, world.compile(self.slow)

        def slow(self, x):
            return x * self.k

    net = Net()
    net.fast(normal(3))

    def whole(x):
        other = copy.deepcopy(net)
        other.k = 7.0
        return net.fast(x), other.slow(x)

    world.play(whole, changes=[lambda: setattr(net, "k", 3.0)])
