"""Python numbers that may change from call to call, such as learning rates and step counts.

While a function is recorded, a `Number` stands for each of them. Arithmetic with it is recorded,
and the program computes it again in each call. The outcome of a comparison decides what is
recorded, so it becomes a condition of the program, and so does the value itself where a plain
number is needed, as in ``math.sqrt(number)``.
"""

import math
import numbers
import operator
from typing import Any

from ..backends.numpy import backend
from .record import Unsupported

_PLAIN = (int, float)


class Number:
    """A number whose value, now ``value``, a program finds or computes: the variable ``var``.

    is_unique: whether no other Number has this value, so that it may be a key of a dict without
        becoming a condition of the program.
    """

    __slots__ = ("recording", "var", "value", "is_unique")
    __array_ufunc__ = None

    def __init__(self, recording, var, value):
        self.recording = recording
        self.var = var
        self.value = value
        self.is_unique = False

    def _plain(self):
        """The value, which becomes a condition of the program."""
        self.recording.require(operator.eq, (self,), self.value)
        return self.value

    def __float__(self):
        return float(self._plain())

    def __int__(self):
        return int(self._plain())

    def __index__(self):
        return operator.index(self._plain())

    def __array__(self, dtype=None, copy=None):
        return backend.asarray(self._plain(), dtype=dtype)

    def __round__(self, *digits):
        return round(self._plain(), *digits)

    def __getattr__(self, name):
        return getattr(self._plain(), name)

    def __hash__(self):
        return id(self) if self.is_unique else hash(self._plain())

    def __repr__(self):
        return repr(self._plain())

    def __format__(self, form):
        return format(self._plain(), form)

    def __bool__(self):
        return self.recording.require(operator.truth, (self,), bool(self.value))

    def __deepcopy__(self, memo):
        return self

    def sqrt(self):
        return self.recording.compute(math.sqrt, (self,))


def _binary(function):
    def forward(self, other):
        if not isinstance(other, (Number, *_PLAIN)):
            return NotImplemented
        return self.recording.compute(function, (self, other))

    def reflected(self, other):
        if not isinstance(other, _PLAIN):
            return NotImplemented
        return self.recording.compute(function, (other, self))

    return forward, reflected


def _unary(function):
    return lambda self: self.recording.compute(function, (self,))


def _of_plain(name):
    def method(self, *args):
        args = [x._plain() if isinstance(x, Number) else x for x in args]
        return getattr(self._plain(), name)(*args)

    return method


def _comparison(function):
    def compare(self, other):
        if not isinstance(other, (Number, *_PLAIN)):
            return NotImplemented
        values = [x.value if isinstance(x, Number) else x for x in (self, other)]
        return self.recording.require(function, (self, other), function(*values))

    return compare


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _forward, _reflected = _binary(getattr(operator, _name))
    setattr(Number, f"__{_name}__", _forward)
    setattr(Number, f"__r{_name}__", _reflected)
for _name in ("divmod", "and", "or", "xor", "lshift", "rshift"):  # seldom used, so not recorded
    setattr(Number, f"__{_name}__", _of_plain(f"__{_name}__"))
    setattr(Number, f"__r{_name}__", _of_plain(f"__r{_name}__"))
for _name in ("trunc", "floor", "ceil", "invert"):
    setattr(Number, f"__{_name}__", _of_plain(f"__{_name}__"))
for _name in ("neg", "pos", "abs"):
    setattr(Number, f"__{_name}__", _unary(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparison(getattr(operator, _name)))
numbers.Real.register(Number)


class Later:
    """What stands for a number once a scheduler that the function calls has changed it.

    A program calls schedulers when its arrays are computed, so it cannot use what they set.
    """

    def __init__(self, where):
        self.where = where

    def _refuse(self, *args):
        raise Unsupported(f"it uses what {self.where} has set, in the same call")

    def __deepcopy__(self, memo):
        return self


for _name in """add radd sub rsub mul rmul truediv rtruediv pow rpow neg float int index bool
                lt le gt ge eq ne repr format""".split():
    setattr(Later, f"__{_name}__", Later._refuse)
Later.__hash__ = object.__hash__  # type: ignore[method-assign]


class Key:
    """A random key, as `gpugrad.random.Generator.key` returns one: a pair of `Number`s."""

    __slots__ = ("recording", "var", "value")

    def __init__(self, recording, var, value):
        self.recording = recording
        self.var = var
        self.value = value

    def __iter__(self) -> Any:
        return iter([self[0], self[1]])

    def __getitem__(self, i):
        return self.recording.compute(operator.getitem, (self, i))

    def __len__(self):
        return len(self.value)
