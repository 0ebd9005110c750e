"""Errors: which are raised, when, with what left behind; values that a function looks at."""

from functools import partial

import numpy as np

import gpugrad as gg
from gpugrad.nn import functional

from .harness import add, batch, leaf, model, normal, plays, program, training

GOOD = gg.eye(3)
BAD = -gg.eye(3)


def at(*bad):
    """Arguments that are bad in these calls, counted from 0."""
    return lambda i: (BAD * (i + 1.0) if i in bad else GOOD * (i + 1.0),)


def every(function):
    """Programs that fail first in the call 0, 1, 2, 3 and 5, and then in later ones."""
    for first in (0, 1, 2, 3, 5):
        runs = partial(function, inputs=at(first, first + 3))
        add(f"{function.__name__}_first_in_call_{first + 1}", __name__, runs)
    return function


def handles(x):
    with np.errstate(divide="raise"):
        try:
            return 1.0 / x
        except FloatingPointError:
            return x * 5


plays("errors_of_numbers_that_numpy_raises", handles, lambda i: (gg.tensor([float(i < 4)]),))


@every
def a_factor_that_nothing_uses(world, inputs):
    def f(x):
        gg.linalg.cholesky(x)
        return x * 2

    world.check(f, inputs, calls=10)


@every
def an_error_that_is_handled(world, inputs):
    handled = []

    def f(x):
        try:
            return gg.linalg.cholesky(x)
        except Exception as error:  # noqa: BLE001
            handled.append(str(error))
            return x * 3

    world.check(f, inputs, calls=10, watch=[handled])


@every
def an_error_after_writes(world, inputs):
    w, table = normal(3, 3), {"calls": 0}

    def f(x):
        table["calls"] += 1
        w.__iadd__(1)
        w.__iadd__(gg.linalg.cholesky(x))
        table["calls"] += 100
        return w * 2

    world.check(f, inputs, calls=10, watch=[w, table])


@program
def labels_that_are_out_of_range(world):
    w = leaf(3)

    def f(x, labels):
        loss = functional.cross_entropy(x * w, labels)
        loss.backward()
        return loss.detach()

    last = 1, 5, 1, 1, 5, 1, 5, 1, 1
    inputs = [(normal(4, 3, seed=i), gg.asarray([0, 1, 2, k])) for i, k in enumerate(last)]
    world.check(f, inputs.__getitem__, calls=9, watch=[w])


@program
def an_error_in_a_hook(world):
    w, state = leaf(3), {"fails": False}

    def hook(g):
        if state["fails"]:
            raise ValueError("own")
        return g * 2

    w.register_hook(hook)
    changes = [lambda k=k: state.update(fails=k) for k in (True, False, True)]
    world.check(lambda x: (w * x).sum().backward(), changes=changes, watch=[w])


@program
def an_error_in_the_step_of_an_optimizer(world):
    net = model(3, 3)
    optimizer = gg.optim.SGD(net.parameters(), lr=0.1)

    step = training(optimizer, lambda x: (net(x) ** 2).sum())
    spoil = optimizer.param_groups[0].update
    changes = [partial(spoil, momentum=value) for value in (-1.0, 0.5, "a", 0)]
    world.check(step, batch, changes=changes, watch=[net])
