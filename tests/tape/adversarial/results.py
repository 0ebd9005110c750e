"""What a function returns: kinds, aliases, memory, and what the caller does to it."""

import collections
import dataclasses
import typing
import weakref

import gpugrad as gg

from .harness import leaf, normal, plays, program, uses


def adds_one(result):
    for y in result:
        y += 1


def clears(result):
    for y in result:
        y *= 0


plays("results_that_the_caller_changes", lambda x: (x * 2, x + 1, (x * x).sum()), after=clears)
plays("results_that_share_memory_with_each_other",
      lambda x: ((y := x * 2), y[1:], y.reshape(3, 1), y.detach()),
      after=lambda result: result[0].__imul__(-1))  # fmt: skip
plays("results_of_which_two_are_one", lambda x: ((y := x * 2), y, [y]),
      look=lambda r: (r, r[0] is r[1], r[0] is r[2][0]),
      after=lambda result: result[0][0].__imul__(-1))  # fmt: skip
plays("results_of_equal_operations_are_two", lambda x: (x * 2, x * 2, gg.zeros(3), gg.zeros(3)),
      after=lambda result: adds_one(result[::2]))  # fmt: skip
plays("results_that_are_constants",
      lambda x: (x * 2, gg.ones(3), gg.arange(4), gg.eye(2), gg.asarray(2.5)),
      after=clears)  # fmt: skip
plays("results_that_may_be_written_and_flags",
      lambda x: (x * 2, gg.zeros(3), x[1:], gg.broadcast_to(x, (2, 3))),
      look=lambda result: [(y, y.array.flags.writeable) for y in result])  # fmt: skip


@program
def results_that_are_views_of_arguments(world):
    f = world.compile(lambda x: (x[1:], x.T, x.reshape(3, 4), x.detach(), x[::2, 1]))
    inputs = [normal(4, 3, seed=i) for i in range(8)]
    world.play(f, lambda i: (inputs[i],), after=adds_one, watch=[inputs])


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
def results_that_are_state(world):
    w, lists = normal(3, seed=9), {"seen": [1]}
    f = world.compile(lambda x: (w, x * w, lists["seen"]))

    def change(result):
        result[0][0].__iadd__(1)
        result[0][2].append(2)

    world.watch(w, lists)
    world.play(lambda x: (lambda r: (r, r[0] is w, r[2] is lists["seen"]))(f(x)), after=change)


uses("results_that_are_views_of_state", lambda x, w: (w[1], w.T, w.detach(), w[0] + x),
     lambda: normal(4, 3, seed=9), after=lambda result: result[0].__iadd__(1))  # fmt: skip


def changes_lists(result):
    result[1].append(9)
    result[2]["a"].clear()
    result[3][1].append(7)
    result.append(0)


class Point(typing.NamedTuple):
    a: typing.Any
    b: typing.Any


@dataclasses.dataclass
class Output:
    loss: typing.Any
    extra: list = dataclasses.field(default_factory=list)


class Plain:
    def __init__(self, x):
        self.x = x


def labelled(x):
    y = x * 2
    y.label = "double"
    return y


def generator(x):
    yield x * 2
    yield x + 2


async def coroutine(x):
    return x * 2


def ended(running):
    try:
        running.send(None)
    except StopIteration as end:
        return end.value


def a_closure(x):
    y = x * 2
    return lambda z: y + z


plays("results_that_are_lists_the_caller_changes", lambda x: [x * 2, [1, 2], {"a": [3]}, (4, [5])],
      after=changes_lists)  # fmt: skip
plays("results_of_many_kinds",
      lambda x: (Point(x * 2, [x]), Output(x + 1, [2]), Plain(x * 3),
                 collections.OrderedDict(b=x, a=x * 2), collections.deque([x])),
      after=lambda result: result[1].extra.append(5))  # fmt: skip
plays("results_with_sets_and_ranges",
      lambda x: (x * 2, {1, 2}, range(3), frozenset({4}), slice(1), {x.shape: 1}),
      after=lambda result: (result[1].clear(), result[5].clear()))  # fmt: skip
plays("results_that_are_no_tensors",
      lambda x: (x.shape, x.dtype, x.ndim, "text", None, 2.5, x.device, len(x)),
      lambda i: (normal(2 + i % 2),))  # fmt: skip
plays("a_function_that_is_a_generator", generator, look=list)
plays("a_function_that_is_a_coroutine", coroutine, look=ended)
plays("a_result_that_is_a_generator", lambda x: (x * k for k in range(3)), look=list)
plays("a_result_that_is_a_function", a_closure, look=lambda result: result(normal(3)))
plays("labels_of_results", labelled, look=lambda y: (y, y.label))


@program
def the_recording_of_gradients_is_switched_inside(world):
    w = leaf(3)

    @world.compile
    def f(x):
        gg.set_grad_enabled(not gg.is_grad_enabled())
        return w * x

    world.play(lambda x: (f(x), gg.is_grad_enabled()))


@program
def results_under_no_grad(world):
    w = leaf(3)
    f = world.compile(lambda x: w * x)

    def whole(x, mode):
        with gg.set_grad_enabled(mode):
            return f(x)

    world.play(whole, lambda i: (normal(3, seed=i), i % 3 == 0), calls=9)


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
def gradients_that_the_caller_keeps(world):
    w, v, kept = leaf(3), leaf(3, seed=1), []

    @world.compile
    def f(x):
        w.grad = v.grad = None
        ((w + v) * x).sum().backward()

    def whole(x):
        f(x)
        kept.append(w.grad)

    world.play(whole, changes=[lambda: kept[-1].__imul__(0)], watch=[kept, v])


@program
def results_that_die_at_once(world):
    f = world.compile(lambda x: x * 2)

    world.play(lambda x: weakref.ref(f(x))() is None)
