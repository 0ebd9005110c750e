"""What a function returns: kinds, aliases, memory, and what the caller does to it."""

import collections
import dataclasses
import typing
import weakref

import numpy as np

import gpugrad as gg

from .harness import leaf, normal, program


@program
def results_that_the_caller_changes(world):
    f = world.compile(lambda x: (x * 2, x + 1, (x * x).sum()))
    world.play(f, after=lambda result: [y.__imul__(0) for y in result])


@program
def results_that_share_memory_with_each_other(world):
    @world.compile
    def f(x):
        y = x * 2
        return y, y[1:], y.reshape(3, 1), y.detach()

    world.play(f, after=lambda result: result[0].__imul__(-1))


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
def results_of_equal_operations_are_two(world):
    f = world.compile(lambda x: (x * 2, x * 2, gg.zeros(3), gg.zeros(3)))
    world.play(f, after=lambda result: [y.__iadd__(5) for y in result[::2]])


@program
def results_that_are_arguments(world):
    f = world.compile(lambda x, y: (x, y, x))

    def whole(x, y):
        a, b, c = f(x, y)
        return a is x, b is y, c is x

    world.play(whole, lambda i: (normal(3, seed=i), normal(3)))


@program
def results_that_are_views_of_arguments(world):
    f = world.compile(lambda x: (x[1:], x.T, x.reshape(3, 4), x.detach(), x[::2, 1]))
    inputs = [normal(4, 3, seed=i) for i in range(8)]
    world.watch(inputs)
    world.play(f, lambda i: (inputs[i],), after=lambda result: [y.__iadd__(1) for y in result])


@program
def results_that_are_gradients_of_arguments(world):
    @world.compile
    def f(x):
        (x * x).sum().backward()
        return x.grad

    def whole(x):
        x = x.detach().requires_grad_()
        g = f(x)
        return g, x.grad, g is x.grad

    world.play(whole)


@program
def results_that_are_gradients_from_before(world):
    w = leaf(3)

    @world.compile
    def f(x):
        return w.grad, x.grad, x * 2

    def whole(x):
        x = x.detach().requires_grad_()
        w.grad = None
        (w * x).sum().backward()
        g, h, y = f(x)
        return g, h, y, g is w.grad, h is x.grad

    world.play(whole)


@program
def results_that_are_state(world):
    w = normal(3, seed=9)
    f = world.compile(lambda x: (w, x * w))
    world.watch(w)
    world.play(
        lambda x: (lambda r: (r, r[0] is w))(f(x)),
        after=lambda result: result[0][0].__iadd__(1),
    )


@program
def results_that_are_views_of_state(world):
    w = normal(4, 3, seed=9)
    f = world.compile(lambda x: (w[1], w.T, w.detach(), w[0] + x))
    world.watch(w)
    world.play(f, after=lambda result: result[0].__iadd__(1))


@program
def results_that_are_constants(world):
    f = world.compile(lambda x: (x * 2, gg.ones(3), gg.arange(4), gg.eye(2), gg.asarray(2.5)))
    world.play(f, after=lambda result: [y.__imul__(0) for y in result])


@program
def results_that_are_raw_arrays(world):
    raw = np.arange(3.0)

    @world.compile
    def f(x):
        return x, raw, x * 2

    world.play(lambda x: f(x.numpy()), changes=[lambda: raw.fill(7)], after=lambda r: r[2].fill(0))


@program
def results_that_are_no_tensors(world):
    table = {"n": 0}

    @world.compile
    def f(x):
        return x.shape, x.dtype, x.ndim, table["n"], "text", None, 2.5, x.device, len(x)

    world.play(f, lambda i: (normal(2 + i % 2),), changes=[lambda: table.update(n=3)])


@program
def results_that_are_lists_the_caller_changes(world):
    f = world.compile(lambda x: [x * 2, [1, 2], {"a": [3]}, (4, [5])])

    def change(result):
        result[1].append(9)
        result[2]["a"].clear()
        result[3][1].append(7)
        result.append(0)

    world.play(f, after=change)


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
def results_of_many_kinds(world):
    @world.compile
    def f(x):
        plain = Plain()
        plain.x = x * 3
        ordered = collections.OrderedDict(b=x, a=x * 2)
        return Point(x * 2, [x]), Output(x + 1, [2]), plain, ordered, collections.deque([x])

    world.play(f, after=lambda result: result[1].extra.append(5))


@program
def results_with_sets_and_ranges(world):
    f = world.compile(lambda x: (x * 2, {1, 2}, range(3), frozenset({4}), slice(1), {x.shape: 1}))
    world.play(f, after=lambda result: (result[1].clear(), result[5].clear()))


@program
def a_result_that_is_a_generator(world):
    def f(x):
        return (x * k for k in range(3))

    compiled = world.compile(f)
    world.play(lambda x: [*compiled(x)])


@program
def a_function_that_is_a_generator(world):
    table = {"k": 2.0}

    @world.compile
    def f(x):
        yield x * table["k"]
        yield x + table["k"]

    world.play(lambda x: [*f(x)], changes=[lambda: table.update(k=3.0)])


@program
def a_function_that_is_a_coroutine(world):
    table = {"k": 2.0}

    @world.compile
    async def f(x):
        return x * table["k"]

    def whole(x):
        try:
            f(x).send(None)
        except StopIteration as end:
            return end.value

    world.play(whole, changes=[lambda: table.update(k=3.0)])


@program
def a_result_that_is_a_function(world):
    @world.compile
    def f(x):
        y = x * 2
        return lambda z: y + z

    world.play(lambda x: f(x)(normal(3)))


@program
def gradients_that_the_caller_keeps(world):
    w, kept = leaf(3), []

    @world.compile
    def f(x):
        w.grad = None
        (w * w * x).sum().backward()

    def whole(x):
        f(x)
        kept.append(w.grad)

    world.watch(kept)
    world.play(whole, changes=[lambda: kept[-1].__imul__(0)])


@program
def results_that_die_at_once(world):
    dead = []

    @world.compile
    def f(x):
        return x * 2

    def whole(x):
        y = f(x)
        reference = weakref.ref(y)
        del y
        dead.append(reference() is None)

    world.watch(dead)
    world.play(whole)


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


@program
def labels_of_results(world):
    @world.compile
    def f(x):
        y = x * 2
        y.label = "double"
        return y

    world.play(lambda x: (lambda y: (y, y.label))(f(x)))
