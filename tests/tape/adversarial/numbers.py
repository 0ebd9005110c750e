"""Python's and NumPy's numbers that change from call to call."""

import dataclasses
import fractions
import functools

import numpy as np

import gpugrad as gg
from gpugrad import nn

from .harness import add, normal, puts, uses


def counted(name, use, start, advance):
    """A program whose number advances inside the function in each call."""

    def runs(world):
        state = {"k": start}

        def f(x):
            state["k"] = advance(state["k"])
            return use(x, state["k"])

        world.check(f, changes=[lambda: state.update(k=start)], calls=9, watch=[state])

    add(name, __name__, runs)


counted("an_integer", lambda x, k: (x * k + k, k), 0, lambda k: k + 1)
counted("a_float", lambda x, k: (x * k, gg.full((2,), k), k), 0.1, lambda k: k * 1.1)
counted("an_integer_that_grows_without_end", lambda x, k: (x + float(k), k.bit_length()), 1,
        lambda k: k * 1000)  # fmt: skip
counted("a_complex_number", lambda x, k: (x * k, k), 1 + 1j, lambda k: k * 1j)
counted("a_float_of_numpy", lambda x, k: (x * k, k), np.float32(0.1), lambda k: k * np.float32(1.1))
counted("an_integer_of_numpy", lambda x, k: (x * k, k), np.int8(120),
        lambda k: np.int8((int(k) + 3 + 128) % 256 - 128))  # fmt: skip
counted("a_fraction", lambda x, k: (x * float(k), k), fractions.Fraction(1, 3), lambda k: k / 2)
counted("a_truth_value", lambda x, k: x * 2 if k else x * 3, True, lambda k: not k)
counted("an_index", lambda x, k: (x[k] * 2, x[:k], gg.roll(x, k)), 0, lambda k: (k + 1) % 3)
counted("a_shape",
        lambda x, k: (gg.ones((k, 3)) * x, x.reshape(1, 3) * gg.arange(k).reshape(k, 1)), 1,
        lambda k: k % 4 + 1)  # fmt: skip
counted("the_number_of_repeats",
        lambda x, k: functools.reduce(lambda x, _: x * 1.5 + 1, range(k), x), 0,
        lambda k: (k + 1) % 4)  # fmt: skip
counted("a_zero_that_changes_its_sign", lambda x, k: (1 / (x * 0 + k), x * k), 0.0, lambda k: -k)
counted("a_text", lambda x, k: (x * len(k), k), "a", lambda k: k + "b")
counted("a_tuple", lambda x, k: (x * sum(k), k), (1,), lambda k: (*k, len(k)))
counted("nothing_and_something", lambda x, k: x if k is None else x * k, None,
        lambda k: 2.0 if k is None else None)  # fmt: skip
counted("a_raw_array", lambda x, k: (x * k, k), np.array([1.0, 2.0, 3.0]), lambda k: k * 2)
counted("a_number_that_changes_its_type", lambda x, k: x.astype(gg.int64) * k, 2,
        lambda k: k + 0.5 if isinstance(k, int) else int(k))  # fmt: skip
OTHERS = gg.asarray(2.0), np.float64(2), np.array(2), 2, gg.asarray(2)
uses("numbers_that_are_tensors_at_times", lambda x, table: x * table["k"], lambda: {"k": 2.0},
     *puts("k", *OTHERS))  # fmt: skip


def configured(x, table):
    y = (gg.abs(x) + table["eps"]) ** table["p"]
    return y.sum(table["axis"]), gg.softmax(x, table["axis"]), gg.tril(x, k=table["k"])


uses("hyper_parameters_of_functions", configured, lambda: {"p": 2, "axis": 0, "eps": 1e-5, "k": 1},
     *puts("p", 3, 3.0), *puts("axis", 1), *puts("eps", 0), *puts("k", -1), *puts("axis", (0, 1)),
     inputs=lambda i: (normal(3, 3, seed=i),))  # fmt: skip


class Plain:
    total = 0

    def __init__(self, n=0):
        self.n, self.m, self.is_on = n, 0, True


class Slots:
    __slots__ = ("is_on", "n")

    def __init__(self):
        self.n, self.is_on = 0, True


class Doubling(Plain):
    def __setattr__(self, name, value):
        super().__setattr__(name, value * 2)


class Bounded(Plain):
    n = property(lambda self: self.m, lambda self, value: setattr(self, "m", min(value, 4)))


@dataclasses.dataclass
class Record:
    n: int = 0
    is_on: bool = True


class Module(nn.Module):
    def __init__(self):
        self.n, self.is_on, self.weight = 0, True, nn.Parameter(gg.ones(3))


def counts(x, state):
    if state.is_on:
        state.n += 5
    state.n -= 3
    return x * 2


def counts_once(x, state):
    state.n += 1
    return x * 2


def counts_in_a_class(x, state):
    type(state).total += 1
    return x * 2


def counts_and_reads(x, state):
    state.n += 1
    return x * state.n


def reads(x, state):
    return x * state.n


def counts_and_calls(x, state):
    state.n += 1
    return reads(x, state)


def counts_and_copies(x, state):
    state.n += 1
    return x * dataclasses.astuple(state)[0]


def counts_and_looks(x, state):
    state.n += 1
    return x * getattr(state, "n", 0)


def counts_by_the_other(x, state):
    state.n += 1
    state.m += state.n
    return x * 2


COUNT = 0


def counts_in_a_global(x, state):
    global COUNT
    COUNT += 1
    state.m = 0
    return x * 2


NUMBERS = *puts("n", 10, True, 1.5, np.int64(3), 2**70), *puts("is_on", False), *puts("n", -1)
for _use in (counts, counts_and_reads, counts_and_calls, counts_and_looks, counts_by_the_other):
    for _make in (Plain, Doubling, Bounded):
        uses(f"{_use.__name__}_{_make.__name__}", _use, _make, *NUMBERS)
TEXT, NAME, put = "{0.n}", "n", setattr
uses("counts_and_formats", lambda x, s: counts_once(x, s) * len(TEXT.format(s)), Plain, *NUMBERS)
to_4 = {"__setattr__": lambda self, name, x: object.__setattr__(self, name, min(x, 4))}
uses("counts_up_to_a_limit", counts_once, type("Limited", (Plain,), to_4), *puts("n", 1, 3, 2))
uses("counts_after_setting", lambda x, s: counts_once(x, s) if setattr(s, NAME, 0) is None else x,
     lambda: Plain(5), *puts("n", 5, 5, 5, 7))  # fmt: skip
uses("counts_after_putting", lambda x, s: counts_once(x, s) if put(s, NAME, 0) is None else x,
     lambda: Plain(5), *puts("n", 5, 5, 5, 7))  # fmt: skip
uses("counts_in_a_dict_that_has_a_name",
     lambda x, both: counts_once(x, both[0]) * (2 if max(both[1].values()) > 4 else 3),
     lambda: (state := Plain(), vars(state)), calls=9)  # fmt: skip
for _use in (counts, counts_and_copies):
    uses(f"{_use.__name__}_in_a_record", _use, Record, *NUMBERS)
for _make in (Slots, Module):
    uses(f"counts_in_{_make.__name__}", counts, _make, *NUMBERS)
uses("counts_in_a_class", counts_in_a_class, Plain)
uses("counts_in_a_global", counts_in_a_global, Plain, lambda _: globals().update(COUNT=3))


def counts_outside(world):
    number = 0

    def f(x):
        nonlocal number
        number += 1
        return x * 2

    world.check(f, watch=[lambda: number])


def counts_and_lists_variables(world):
    number = 0

    def f(x):
        nonlocal number
        number += 1
        return x * (3 if sum([y for y in locals().values() if type(y) is int]) > 4 else 2)

    world.check(f)


for _runs in (counts_outside, counts_and_lists_variables):
    add(_runs.__name__, __name__, _runs)
