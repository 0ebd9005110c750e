"""What a function returns: kinds, aliases, memory, and what the caller does to it."""

import dataclasses
import typing

import numpy as np

import gpugrad as gg

from .harness import leaf, normal, program


@program
def results_of_which_two_are_one(world):
    @world.compile
    def f(x):
        y = x * 2
        return y, y, [y]

    world.play(
        lambda x: (lambda r: (r, r[0] is r[1], r[0] is r[2][0]))(f(x)),
        after=lambda result: result[0][0].__imul__(-1),
    )


@program
def results_that_are_raw_arrays(world):
    raw = np.arange(3.0)

    @world.compile
    def f(x):
        return x, raw, x * 2

    world.play(lambda x: f(x.numpy()), changes=[lambda: raw.fill(7)], after=lambda r: r[2].fill(0))


@program
def results_that_are_lists_of_state(world):
    table = {"seen": [1]}
    f = world.compile(lambda x: (x * 2, table["seen"]))

    def whole(x):
        result = f(x)
        return result, result[1] is table["seen"]

    world.watch(table)
    world.play(whole, after=lambda result: result[0][1].append(2))


class Point(typing.NamedTuple):
    a: typing.Any
    b: typing.Any


@dataclasses.dataclass
class Output:
    loss: typing.Any
    extra: list = dataclasses.field(default_factory=list)


class Plain:
    pass


@program
def a_result_that_is_the_gradient(world):
    w = leaf(3)

    @world.compile
    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    world.watch(w)
    world.play(f, after=lambda result: result.__imul__(5))


@program
def gradients_that_are_aliased_by_the_caller(world):
    a, b = leaf(3), leaf(3, seed=1)

    @world.compile
    def f(x):
        (a * b * x).sum().backward()

    def alias():
        b.grad = a.grad

    world.watch(a, b)
    world.play(f, changes=[alias, lambda: setattr(a, "grad", None), alias])


@program
def results_that_may_be_written_and_flags(world):
    f = world.compile(lambda x: (x * 2, gg.zeros(3), x[1:], gg.broadcast_to(x, (2, 3))))
    world.play(lambda x: [(y, y.array.flags.writeable) for y in f(x)])


@program
def results_under_no_grad(world):
    w = leaf(3)
    f = world.compile(lambda x: w * x)

    def whole(x, mode):
        with gg.set_grad_enabled(mode):
            y = f(x)
        return y, y.requires_grad

    world.play(whole, lambda i: (normal(3, seed=i), i % 3 == 0), calls=9)


@program
def results_of_which_some_are_detached(world):
    w = leaf(3)

    @world.compile
    def f(x):
        y = w * x
        with gg.no_grad():
            z = w * 2
        return y, y.detach(), z, gg.stop_gradient(y) * w

    def whole(x):
        w.grad = None
        y, *_, z = f(x)
        (y + z).sum().backward()

    world.watch(w)
    world.play(whole)


@program
def the_recording_of_gradients_is_switched_inside(world):
    w = leaf(3)

    @world.compile
    def f(x):
        gg.set_grad_enabled(not gg.is_grad_enabled())
        return w * x

    def whole(x):
        y = f(x)
        return y, gg.is_grad_enabled()

    world.play(whole)


@program
def leaves_that_are_made_inside(world):
    @world.compile
    def f(x):
        y = gg.tensor(x.detach()).requires_grad_()
        (y * y * x).sum().backward()
        return y, y.grad

    def whole(x):
        y, g = f(x)
        (y * 3).sum().backward()
        return y, g, y.is_leaf

    world.play(whole)
