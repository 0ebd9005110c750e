"""How a function is called: positions and names, trees, kinds, numbers, shapes."""

import collections
import dataclasses
import functools
import typing

import numpy as np

import gpugrad as gg
from gpugrad import nn

from .harness import leaf, model, normal, program


def script(*arguments):
    """A program that calls a function with these arguments in turn, three times over."""

    def decorate(function):
        def runs(world):
            f = world.compile(function)
            for _ in range(3):
                for args in arguments:
                    named = len(args) == 2 and type(args[0]) is tuple and type(args[1]) is dict
                    args, kwargs = args if named else (args, {})
                    world.call(f, *args, **kwargs)

        runs.__name__, runs.__module__ = function.__name__, function.__module__
        return program(runs)

    return decorate


X, Y = normal(3), normal(3, seed=1)


@script((X, Y), ((X,), {"y": Y}), ((), {"x": X, "y": Y}), ((), {"y": Y, "x": X}), (Y, X))
def positions_and_names(x, y):
    return x - y * 2


@script(((), {"a": X, "b": Y}), ((), {"b": Y, "a": X}), ((), {"b": X, "a": Y}))
def the_order_of_names(**kwargs):
    total = 0
    for value in kwargs.values():
        total = total * 2 + value
    return total, [*kwargs]


@script((X,), (X, Y), (X, Y, X), (Y, X), (X, X))
def any_number_of_arguments(*args):
    total = 0
    for value in args:
        total = total * 2 + value
    return total, len(args)


@script((X,), (X, 2.0), ((X,), {"k": 3.0}), (X, 2), (X, True), (X, Y))
def defaults(x, k=2.0):
    return x * k


@script((X, 1), (X, True), (X, 1.0), (X, np.float64(1)), (X, np.int32(1)), (X, np.ones(1)))
def numbers_of_all_kinds(x, k):
    return x.astype(gg.int32) * k


@script((X, 0.0), (X, -0.0), (X, 0), (X, float("nan")), (X, float("inf")))
def numbers_that_are_special(x, k):
    return 1 / (x * 0 + k), x * k


@script((X, "a"), (X, "b"), (X, None), (X, "a"), (X, ("a", 1)))
def texts_and_none(x, mode):
    return x * {"a": 2, "b": 3, None: 4, ("a", 1): 5}[mode]


@script((X, [Y, 1]), (X, (Y, 1)), (X, [Y, 1.0]), (X, [[Y], 1]), (X, [Y, True]))
def trees(x, tree):
    first = tree[0]
    return x * (first[0] if isinstance(first, list) else first) * tree[1], type(tree)


class Point(typing.NamedTuple):
    a: typing.Any
    b: typing.Any


@dataclasses.dataclass
class Batch:
    a: typing.Any
    b: typing.Any = 2.0


Other = collections.namedtuple("Other", "a b")


@script((Point(X, 2),), (Batch(X, 2),), (Other(X, 2),), (Point(X, 2.0),), (Batch(X, Y),))
def records(record):
    return record.a * record.b, type(record).__name__


@script((gg.float32,), (gg.float64,), ("float32",), (float,), (gg.int8,))
def data_types(dtype):
    return X.astype(dtype if not isinstance(dtype, (str, type)) else gg.float64) * 2, str(dtype)


@script((X, slice(0, 2)), (X, slice(1, 3)), (X, 1), (X, ...), (X, None), (X, [0, 2]))
def indices(x, place):
    return x[place] * 2


@script((X, (0, 1)), (X, [0, 1]), (X, np.array([0, 1])), (X, gg.asarray([1, 2])))
def indices_in_containers(x, place):
    return x[[*place] if isinstance(place, tuple) else place] * 2


@script((X, min), (X, max), (X, lambda *a: 7.0), (X, abs), (X, functools.partial(max, 5.0)))
def functions_as_arguments(x, function):
    return x * function(2.0, 3.0)


@script((X, range(2)), (X, range(3)), (X, {1, 2}), (X, frozenset({1, 3})), (X, {1: 1, 3: 2}))
def iterables(x, numbers):
    for k in sorted(numbers):
        x = x * 2 + k
    return x


@script((X,), (X.astype(gg.float64),), (X.reshape(3, 1),), (X[:2],), (X.array,), (leaf(3),))
def shapes_and_dtypes(x):
    return x * 2 + gg.ones(x.shape, dtype=x.dtype), x.ndim


@script((X.array, Y), (X, Y.array), (X.array, Y.array), (X, Y), (X.tolist(), Y))
def raw_arrays_and_tensors(x, y):
    return y + (sum(x) if isinstance(x, list) else x), type(x)


@script((3.0,), (2,), (True,), (None,), ("a",))
def no_tensor_at_all(value):
    return [value, gg.ones(2) * (value if isinstance(value, (int, float)) else 1)]


@script((), (1,), (X, X, X), ((X,), {"z": 1}), (X, Y))
def arguments_that_do_not_fit(x, y):
    return x + y


@program
def more_numbers_than_programs(world):
    f = world.compile(lambda x, k: x * k)
    world.play(f, lambda i: (normal(3, seed=i), 0.5 * (i % 25)), calls=60)


@program
def more_shapes_than_programs(world):
    total = gg.zeros(())

    @world.compile
    def f(x):
        total.__iadd__(x.sum())
        return x * total

    world.watch(total)
    world.play(f, lambda i: (normal(1 + i % 23, seed=i),), calls=60)


@program
def a_generator_as_an_argument(world):
    f = world.compile(lambda items: sum(items))
    world.play(f, lambda i: ((normal(3, seed=k) for k in range(2 + i % 2)),))


@program
def an_iterator_that_is_used_in_part(world):
    numbers = iter([float(k) for k in range(20)])
    f = world.compile(lambda x, items: x * next(items))
    world.play(f, lambda i: (normal(3, seed=i), numbers))


@program
def an_object_that_changes_between(world):
    class Config:
        k = 2.0

    config = Config()
    f = world.compile(lambda x, c: x * c.k)
    world.play(
        f,
        lambda i: (normal(3, seed=i), config),
        changes=[lambda: setattr(config, "k", 3.0), lambda: setattr(Config, "k", 4.0)]
        + [lambda: delattr(config, "k")],
    )


@program
def an_object_that_the_function_writes(world):
    class State:
        calls = 0

    state = State()

    @world.compile
    def f(x, s):
        s.calls += 1
        s.last = x * s.calls
        return s.last + 1

    world.watch(state)
    world.play(
        f, lambda i: (normal(3, seed=i), state), changes=[lambda: setattr(state, "calls", 9)]
    )


@program
def a_list_that_the_function_writes(world):
    @world.compile
    def f(x, items):
        items.append(x * len(items))
        return items[-1] + 1

    items = []
    world.watch(items)
    world.play(f, lambda i: (normal(3, seed=i), items), changes=[items.clear])


@program
def a_dict_that_the_function_writes(world):
    @world.compile
    def f(x, table):
        table["n"] = table.get("n", 0) + 1
        table["x"] = x
        return x * table["n"]

    table = {}
    world.watch(table)
    world.play(f, lambda i: (normal(3, seed=i), table), changes=[table.clear])


@program
def a_module_as_an_argument(world):
    nets = [model(3, 3), model(3, 3, seed=7), nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))]
    for p in nets[2].parameters():
        p.array[...] = 0.5
    f = world.compile(lambda net, x: net(x).detach())
    world.play(
        f,
        lambda i: (nets[i % 3], normal(4, 3, seed=i)),
        changes=[nets[2].eval, lambda: nets[0][0].weight.detach().__imul__(2)],
    )


@program
def requires_grad_of_an_argument(world):
    f = world.compile(lambda x: x * x)
    inputs = [normal(3), leaf(3), normal(3, seed=1), leaf(3, seed=1), leaf(3).detach()]

    def whole(x):
        y = f(x)
        if y.requires_grad:
            y.sum().backward()
        return y, x.requires_grad

    world.watch(inputs)
    world.play(whole, lambda i: (inputs[i % 5],), calls=15)


@program
def requires_grad_that_is_toggled(world):
    x = normal(3)

    @world.compile
    def f(x):
        return x * 2, x.requires_grad

    world.watch(x)
    world.play(
        f,
        lambda i: (x,),
        changes=[x.requires_grad_, lambda: x.requires_grad_(False), x.requires_grad_],
    )


@program
def requires_grad_that_is_set_inside(world):
    @world.compile
    def f(x):
        x.requires_grad_()
        (x * x).sum().backward()
        return x.grad * 2

    inputs = [normal(3, seed=i) for i in range(8)]
    world.watch(inputs)
    world.play(f, lambda i: (inputs[i],))


@program
def an_argument_with_a_graph(world):
    w = leaf(3)
    f = world.compile(lambda x: (x * x).sum())

    def whole(k):
        w.grad = None
        y = w * k
        f(y).backward()

    world.watch(w)
    world.play(whole, lambda i: (float(i % 3),), calls=9)


@program
def the_same_list_twice(world):
    @world.compile
    def f(a, b):
        a.append(1.0)
        return X * len(b), a is b

    def inputs(i):
        items = [2.0]
        return (items, items) if i % 2 else (items, [2.0])

    world.play(f, inputs, calls=10)


@program
def whether_two_arguments_are_one(world):
    f = world.compile(lambda x, y: x * 2 if x is y else x + y)
    world.play(f, lambda i: (X, X) if i % 3 else (X, Y), calls=10)


@program
def the_identity_of_an_argument_and_state(world):
    w = normal(3, seed=6)
    f = world.compile(lambda x: x * 2 if x is w else x + w)
    world.play(f, lambda i: (w,) if i % 3 else (X,), calls=10)


@program
def a_partial_of_a_function(world):
    table = {"k": 2.0}
    f = world.compile(functools.partial(lambda x, k, y: x * k["k"] + y, k=table, y=Y))
    world.play(f, changes=[lambda: table.update(k=3.0)])
