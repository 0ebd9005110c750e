"""Attributes of all kinds of objects: their order, new ones, and special ones of classes."""

import builtins
import copy
import functools
import inspect
import operator
import pickle
import string
import types
from operator import attrgetter as getter

import numpy as np

import gpugrad as gg
from gpugrad import nn, optim

from .harness import normal, program, puts, training, uses

INITIAL = {"a": 2.0, "b": 3.0}


def given(state, values):
    for name, value in values.items():
        setattr(state, name, value)
    return state


class Weight(nn.Parameter):
    k = 2.0

    def scaled(self):
        return self * self.k


class Layer(nn.Module):
    def __init__(self):
        self.a, self.b = nn.Parameter(normal(3)), nn.Parameter(normal(3, seed=1))


def optimizer():
    return optim.SGD([Weight(normal(3))], lr=0.1)


def scheduler():
    return optim.lr_scheduler.ExponentialLR(optimizer(), 0.9)


def in_order(x, table):
    for name in table:
        if name in INITIAL:
            x = x * 0.3 + table[name]
    return x


def turn(name, state):
    """Take something out and put it in again, so that it comes last."""
    if isinstance(state, dict):
        state[name] = state.pop(name)
        return
    value = getattr(state, name)
    delattr(state, name)
    setattr(state, name, value)


TURNS = [functools.partial(turn, name) for name in ("a", "b", "a")]
for _name, _make in {
    "an_object": types.SimpleNamespace, "a_class": lambda: type("Kind", (), {}),
    "a_tensor": lambda: Weight(normal(3)), "an_optimizer": optimizer,
}.items():  # fmt: skip
    uses(f"the_order_in_{_name}", lambda x, s: in_order(x, vars(s)),
         lambda make=_make: given(make(), INITIAL), *TURNS)  # fmt: skip
uses("the_order_in_a_layer", lambda x, s: in_order(x, dict(s.named_parameters())), Layer, *TURNS)


@program
def the_order_in_a_group(world):
    group = (state := optimizer()).param_groups[0]
    group.update(INITIAL)
    changes = [functools.partial(turn, name, group) for name in ("a", "b")]
    world.check(lambda x: in_order(x, state.param_groups[0]), changes=changes)


@program
def the_order_changed_inside(world):
    state = types.SimpleNamespace(**INITIAL)

    def f(x):
        x = in_order(x, vars(state))
        turn(next(iter(vars(state))), state)
        return x

    world.check(f, watch=[lambda: [*vars(state)]])


for _name, _make in {
    "a_scheduler": scheduler, "a_random_generator": lambda: gg.random.Generator(1),
    "a_tensor": lambda: Weight(normal(3)), "an_error": lambda: ValueError("text"),
}.items():  # fmt: skip
    uses(f"an_attribute_that_{_name}_gets", lambda x, s: x * getattr(s, "late", 1.0), _make,
         *[lambda s, value=value: setattr(s, "late", value) for value in (3.0, 2.0)])  # fmt: skip


def subclass(state):
    state.__class__ = type("Kind", (type(state),), {"late": 3.0})


for _name, _make in {"a_scheduler": scheduler, "an_optimizer": optimizer}.items():
    uses(f"a_class_that_{_name}_gets", lambda x, s: x * getattr(s, "late", 1.0), _make, subclass,
         lambda s: setattr(type(s), "late", 4.0))  # fmt: skip


@program
def the_class_of_a_partial(world):
    sin = (kind := type("Kind", (functools.partial,), {"late": 2.0}))(gg.sin)
    world.check(lambda x: sin(x) * sin.late, changes=[lambda: setattr(kind, "late", 3.0)])


@program
def attributes_that_functions_get(world):
    twice = gg.op(lambda xp, x: x * 2)
    for f in (world.compile(lambda x: x * 2), twice, functools.partial(gg.multiply, 2.0)):
        changes = [functools.partial(setattr, f, "late", value) for value in (3.0, 2.0)]
        world.check(lambda x, f=f: f(x) * getattr(f, "late", 1.0), changes=changes)


@program
def twins_that_an_op_gets(world):
    op = gg.op(lambda xp, x: x * 2)
    twins = [functools.partial(lambda k, xp, x: x * k, k) for k in (3, 4)]
    world.check(op, changes=[lambda twin=twin: op.twin("numpy", twin) for twin in twins])


@program
def attributes_of_a_weight(world):
    weight = given(Weight(normal(3)), {"uses": 0, "by": 1.0})

    def loss(x):
        weight.uses += weight.by > 2
        return (x * weight.scaled() * weight.by).sum()

    changes = [functools.partial(setattr, weight, "by", value) for value in (2.0, 3.0)]
    changes.append(functools.partial(setattr, weight, "k", 5.0))
    step = training(optim.Adam([weight]), loss)
    world.check(step, changes=changes, watch=[weight, lambda: weight.uses])


class Rate(float):
    pass


@program
def attributes_of_arguments(world):
    weight, rate = Weight(normal(3)), Rate(2.0)
    f = world.compile(lambda x, rate: x * rate * getattr(x, "by", 1.0) + getattr(rate, "by", 0.0))
    for number in range(12):
        weight.by = rate.by = 1.0 + (number > 5)
        world.call(f, normal(3), 2.0 if number < 3 else rate)
        world.call(f, normal(3) if number < 3 else weight, 2.0)


@program
def attributes_of_results(world):
    weight = functools.partial(Weight, requires_grad=False)
    for kind in (weight, Rate, lambda x: type("Kind", (), {})):
        f = world.compile(lambda x, kind=kind: (x * 2, kind(2.0)))
        for _ in range(4):
            result = world.call(f, normal(3))[1]
            world.note(hasattr(result, "late"))
            result.late = 1.0


def special(name, value):
    """Makes an instance of a new class that has this special attribute."""
    return lambda: type("Kind", (), {name: value, **INITIAL})()


def replaced(name, *values):
    return [lambda state, value=value: setattr(type(state), name, value) for value in values]


def matched(x, state):
    match state:
        case Pair(first, second):
            return x * first + second


class Pair:
    __match_args__ = "a", "b"
    a, b = 2.0, 3.0


table = {"k": 2.0}
CALLS = [functools.partial(lambda k, x: x * k, k) for k in (2.0, 3.0, 4.0)]
uses("a_partial_as_a_special_method", lambda x, s: s(x), special("__call__", CALLS[0]),
     *replaced("__call__", *CALLS[1:]))  # fmt: skip
uses("what_a_special_property_reads", lambda x, s: x * s.__k__,
     special("__k__", property(lambda self: table["k"])),
     *[lambda _, k=k: table.update(k=k) for k in (3.0, 2.0)])  # fmt: skip
uses("what_a_pattern_matches", matched, Pair, *replaced("__match_args__", ("b", "a"), ("a", "b")))
for _name in ("__doc__", "__name__", "__qualname__"):
    uses(f"the_{_name.strip('_')}_of_a_class", lambda x, s, name=_name: x * len(s.__doc__) +
         len(type(s).__name__) + len(type(s).__qualname__), special("__doc__", "text"),
         *replaced(_name, "longer_than_before", "x"))  # fmt: skip
uses("the_annotations_of_a_class", lambda x, s: x * s.__annotations__["k"],
     lambda: special("__annotations__", {"k": 2.0})(), lambda s: s.__annotations__.update(k=3.0),
     *replaced("__annotations__", {"k": 4.0}))  # fmt: skip


class Scale:
    """Its attribute ``k`` is read below by code that does not name it."""

    def __init__(self):
        self.k, self.total = 2.0, 0.0

    def k_doubled(self):
        return 2 * self.k


class Matched(Scale):
    __match_args__ = ("k",)


class Summing(Scale):
    def __setstate__(self, values):
        self.total = sum(values.values())


def matched(scale):
    match scale:
        case Matched(number):
            return number


TEXT, PATH, METHOD = "{0.k}", ("k",), "k_doubled"
get, look, by_text, by_object = getattr, vars, TEXT.format, object.__getattribute__
for _name, _read in {
    "a_format": lambda s: TEXT.format(s), "a_copy": lambda s: copy.copy(s).total,
    "a_method_that_formats": lambda s: by_text(s),
    "the_method_of_objects": lambda s: by_object(s, PATH[0]),
    "a_formatter": lambda s: string.Formatter().format(TEXT, s), "a_positional_pattern": matched,
    "getattr_as_a_value": lambda s: functools.reduce(getattr, PATH, s),
    "getattr_by_another_name": lambda s: get(s, PATH[0]),
    "getattr_of_its_module": lambda s: builtins.getattr(s, PATH[0]),
    "vars_by_another_name": lambda s: look(s)[PATH[0]],
    "an_attribute_getter": lambda s: getter(PATH[0])(s),
    "a_method_caller": lambda s: operator.methodcaller(METHOD)(s),
    "pickle": lambda s: pickle.loads(pickle.dumps(s)).total,
    "a_search_for_members": lambda s: dict(inspect.getmembers(s))[PATH[0]],
}.items():  # fmt: skip
    uses(f"an_attribute_that_is_read_by_{_name}", lambda x, s, read=_read: x * float(read(s)),
         Matched if _read is matched else Summing, *puts("k", 3.0, 4.0))  # fmt: skip


class Hiding(nn.Module):
    def __init__(self, value):
        self.w, self.head = nn.Parameter(normal(3)), value


def square(x, module):
    return x * sum([(p * p).sum() for p in module.parameters()]).detach()


for _name, _value in {"nothing": None, "a_number": 1.0, "a_tensor": gg.ones(3)}.items():
    uses(
        f"{_name}_that_becomes_a_member", square, functools.partial(Hiding, _value),
        lambda m: setattr(m, "head", nn.BatchNorm1d(3)),
        lambda m: setattr(m, "head", nn.Parameter(gg.ones(2))),
    )  # fmt: skip


class Viewed:
    def __init__(self, number):
        self.memory = np.full(3, number, np.float32)
        self.__array_interface__ = self.memory.__array_interface__

    def __repr__(self):
        return f"Viewed({self.memory})"


uses("an_attribute_that_numpy_reads", lambda x, s: x * gg.asarray(np.asarray(s[0])),
     lambda: [Viewed(2)], *[lambda s, k=k: s[0].__init__(k) for k in (3, 4)])  # fmt: skip
