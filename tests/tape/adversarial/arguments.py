"""How a function is called: positions and names, trees, kinds, numbers, shapes."""

import collections
import dataclasses
import typing

import numpy as np

import gpugrad as gg
from gpugrad import optim

from .harness import add, leaf, model, normal, plays, program, puts, training, uses


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

        return add(function.__name__, __name__, runs)

    return decorate


X, Y = normal(3), normal(3, seed=1)


@script((X, Y), ((X,), {"y": Y}), ((), {"x": X, "y": Y}), ((), {"y": Y, "x": X}), (Y, X))
def positions_and_names(x, y):
    return x - y * 2


@script((X,), (X, 2.0), ((X,), {"k": 3.0}), (X, 2), (X, True), (X, Y))
def defaults(x, k=2.0):
    return x * k


class Config:
    scale = 2.0


def scaled(record):
    return record.a * record.b * Config.scale


class Point(typing.NamedTuple):
    a: typing.Any
    b: typing.Any
    scaled = scaled


@dataclasses.dataclass
class Batch:
    a: typing.Any
    b: typing.Any = 2.0
    scaled = scaled


Other = collections.namedtuple("Other", "a b")


@script((Point(X, 2),), (Batch(X, 2),), (Other(X, 2),), (Point(X, 2.0),), (Batch(X, Y),))
def records(record):
    return record.a * record.b, type(record).__name__


@script((X, slice(0, 2)), (X, slice(1, 3)), (X, 1), (X, ...), (X, None), (X, [0, 2]))
def indices(x, place):
    return x[place] * 2


@script((X, (0, 1)), (X, [0, 1]), (X, np.array([0, 1])), (X, gg.asarray([1, 2])))
def indices_in_containers(x, place):
    return x[[*place] if isinstance(place, tuple) else place] * 2


@script((X,), (X.astype(gg.float64),), (X.reshape(3, 1),), (X[:2],), (X.array,), (leaf(3),))
def shapes_and_dtypes(x):
    return x * 2 + gg.ones(x.shape, dtype=x.dtype), x.ndim


@script((3.0,), (2,), (True,), (None,), ("a",))
def no_tensor_at_all(value):
    return [value, gg.ones(2) * (value if isinstance(value, (int, float)) else 1)]


@script((), (1,), (X, X, X), ((X,), {"z": 1}), (X, Y))
def arguments_that_do_not_fit(x, y):
    return x + y


@program
def requires_grad_of_an_argument(world):
    f = world.compile(lambda x: x * x)
    inputs = [normal(3), leaf(3), normal(3, seed=1), leaf(3, seed=1), leaf(3).detach()]

    def whole(x):
        y = f(x)
        if y.requires_grad:
            y.sum().backward()
        return y, x.requires_grad

    world.play(whole, lambda i: (inputs[i % 5],), calls=15, watch=[inputs])


@program
def requires_grad_that_is_set_inside(world):
    def f(x):
        x.requires_grad_()
        (x * x).sum().backward()
        return x.grad * 2

    inputs = [normal(3, seed=i) for i in range(8)]
    world.check(f, lambda i: (inputs[i],), watch=[inputs])


@program
def arguments_that_the_function_changes(world):
    def takes(table):
        table["z"] = table.pop("y") * 2
        return table["x"] + table["z"]

    def appends(items):
        items[0] = items[0] + 1
        items.append(items[0] * 2)
        return items[1] + 1

    def assigns(batch):
        batch.a = batch.a * 2
        return batch.a * batch.b

    for function, make in (
        (takes, lambda x: {"x": x, "y": Y}), (appends, lambda x: [x]), (assigns, Batch),
    ):  # fmt: skip
        f = world.compile(function)
        calls = lambda given, f=f: (f(given), given)  # noqa: E731
        world.play(calls, lambda i, make=make: (make(normal(3, seed=i)),))


@program
def a_model_and_an_optimizer_as_arguments(world):
    net = model(3, 3)
    optimizer, bias = optim.Adam(net.parameters(), lr=0.1), net[0].bias

    @world.compile
    def step(net, optimizer, x):
        return training(optimizer, lambda: (net(x) ** 2).sum())()

    group = optimizer.param_groups[0]
    changes = lambda: group.update(lr=0.5), lambda: bias.requires_grad_(False)
    world.play(lambda x: step(net, optimizer, x), changes=changes, watch=[net, optimizer])


def extended(batch, extra):
    batch.extra = extra
    return batch


plays("iterators", lambda numbers: sum(numbers),
      lambda i: ((normal(3, seed=k) for k in range(1 + i % 3)),))  # fmt: skip
plays("attributes_that_are_no_fields", lambda batch: batch.a * batch.extra,
      lambda i: (extended(Batch(X), 2.0 + i // 3),))  # fmt: skip
plays("an_attribute_that_is_no_field_in_a_result", lambda x, k: extended(Batch(x), k),
      lambda i: (X, 2.0 + i // 3), look=lambda batch: batch.extra)  # fmt: skip
plays("methods_of_records", lambda record: record.scaled(),
      lambda i: ((Batch, Point)[i % 2](X, 2.0 + i // 3),),
      changes=[lambda k=k: setattr(Config, "scale", k) for k in (3.0, 2.0)])  # fmt: skip
W = normal(3, seed=6)
plays("more_numbers_than_programs", lambda x, k: x * k,
      lambda i: (normal(3, seed=i), 0.5 * (i % 25)), calls=60)  # fmt: skip
plays("whether_two_arguments_are_one", lambda x, y: x * 2 if x is y else x + y,
      lambda i: (X, X) if i % 3 else (X, Y), calls=10)  # fmt: skip
plays("the_identity_of_an_argument_and_state", lambda x: x * 2 if x is W else x + W,
      lambda i: (W,) if i % 3 else (X,), calls=10)  # fmt: skip
# It may be recorded in vain 16 times in a row.
plays("hooks_of_arguments_for_a_while", lambda x: x * x,
      lambda i: (x := leaf(3), i > 16 or x.register_hook(lambda g: g))[:1], calls=34)  # fmt: skip


class Counting:
    def __init__(self):
        self.n, self.k, self.w = 0, 2, gg.ones(3)

    def __index__(self):
        self.n += 1
        return self.k

    def __float__(self):
        self.n += 1
        return float(self.k)

    def __array__(self, dtype=None, copy=None):
        self.n += 1
        return np.full(3, self.k, np.float32)


def written(x, s):
    s.w.array[0] = s
    return x * s.w


def counted(use, x, s):
    s.n += 1
    return use(x, s)


for _name, _use in {
    "an_axis": lambda x, s: gg.sum(x[None, None], axis=s),
    "a_value": written,
    "an_operand": lambda x, s: x * gg.asarray(np.multiply(s.w.array, s)),
}.items():
    uses(f"an_object_as_{_name}", lambda x, s, use=_use: counted(use, x, s), Counting,
         *puts("n", 50), *puts("k", 1))  # fmt: skip
