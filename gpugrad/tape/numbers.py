"""Python numbers that may change from call to call, such as learning rates and step counts.

While a function is recorded, each of them is replaced by a `Number`, which ``isinstance`` takes for
a ``float`` or an ``int``. The recorder notes arithmetic with it, and each run of the tape computes
the results again. What the function does next may depend on a comparison, so the outcome of one
becomes a condition of the tape. Where only a plain number will do, as in ``math.sin(number)``, the
value itself becomes a condition.
"""

import math
import numbers
import operator

from ..backends.numpy import backend
from .cells import same

_PLAIN = (int, float)


class Number:
    """Replaces a number, ``value``, and refers to the `Value` ``var`` of the tape.

    is_unique: whether no other Number has this value. It can then be a key of a dict without
        becoming a condition of the tape.
    """

    __slots__ = ("recorder", "var", "value", "is_unique", "__weakref__")

    def __init__(self, recorder, var, value):
        self.recorder, self.var, self.value = recorder, var, value
        self.is_unique = False

    __class__ = property(lambda self: type(self.value))  # for isinstance

    def plain(self):
        """The plain number, which becomes a condition of the tape."""
        self.recorder.require(same, (self, self.value), True)
        return self.value

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return self.recorder.call(getattr(ufunc, method), inputs, kwargs)

    def __array__(self, dtype=None, copy=None):
        return backend.asarray(self.plain(), dtype=dtype)

    def __getattr__(self, name):
        return getattr(self.plain(), name)

    def __hash__(self):
        return id(self) if self.is_unique else hash(self.plain())

    def __bool__(self):
        return self.recorder.require(operator.truth, (self,), bool(self.value))

    def sqrt(self):
        return self.recorder.compute(math.sqrt, (self,))


def _binary(function):
    def forward(self, other):
        if isinstance(other, complex):
            return function(self.plain(), other)
        if type(other) is not Number and not isinstance(other, _PLAIN):
            return NotImplemented
        return self.recorder.compute(function, (self, other))

    def reflected(self, other):
        if isinstance(other, complex):
            return function(other, self.plain())
        if not isinstance(other, _PLAIN):
            return NotImplemented
        return self.recorder.compute(function, (other, self))

    return forward, reflected


# These are used too seldom to be noted: they make the value a condition.
_OF_PLAIN = (
    "float int index round trunc floor ceil invert repr format reduce_ex divmod rdivmod and rand "
    "or ror xor rxor lshift rlshift rshift rrshift"
).split()


def _of_plain(name):
    def method(self, *args):
        args = [x.plain() if type(x) is Number else x for x in args]
        found = getattr(self.plain(), name, None)  # a float has no __index__, for example
        return NotImplemented if found is None else found(*args)

    return method


def _comparison(function):
    def compare(self, other):
        if type(other) is not Number and not isinstance(other, _PLAIN):
            return NotImplemented
        values = [x.value if type(x) is Number else x for x in (self, other)]
        return self.recorder.require(function, (self, other), function(*values))

    return compare


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _forward, _reflected = _binary(getattr(operator, _name))
    setattr(Number, f"__{_name}__", _forward)
    setattr(Number, f"__r{_name}__", _reflected)
for _name in _OF_PLAIN:
    setattr(Number, f"__{_name}__", _of_plain(f"__{_name}__"))
for _name in ("neg", "pos", "abs"):
    _function = getattr(operator, _name)
    setattr(Number, f"__{_name}__", lambda self, f=_function: self.recorder.compute(f, (self,)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _comparison(getattr(operator, _name)))
numbers.Real.register(Number)


class Key:
    """Replaces a random key, which is a pair of numbers: see `gpugrad.random.Generator.key`."""

    __slots__ = ("recorder", "var", "value")

    def __init__(self, recorder, var, value):
        self.recorder, self.var, self.value = recorder, var, value
        var.dtype = "key"

    def __getitem__(self, i):
        return self.recorder.compute(operator.getitem, (self, i))

    def __len__(self):
        return len(self.value)
