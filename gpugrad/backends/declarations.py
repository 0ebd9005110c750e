"""What functions of arrays say about themselves, for whoever is to repeat their calls.

A declaration stands beside the function and belongs to that object, whatever its name. Nothing is
known of a function without one, such as a user's: it is called as it is.
"""

import operator
from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

import numpy as np


class Declaration(NamedTuple):
    """What is known of a function.

    Some properties depend on the arguments. A callable then takes them as ``(args, kwargs)``, in
    which arrays have at least a shape and a dtype, and returns the property. Whoever asks the
    field only whether it is true takes "it depends" for "yes".

    out: it takes the keyword ``out``, an array of the dtype, shape and order in memory that its
        result would have, fills and returns it, with the bits of a call without it. `numpy.bind`
        takes memory in any order.
    elementwise: each element of the result depends on the elements of the operands at the same
        place only. So ``out`` may be an operand, and of a block of the arrays it computes that
        block of the result. The way may depend on the size: see ``whole`` of `numpy.bind`.
    fails: the values of its operands may make it raise an error.
    aliases: its result may be one of its operands or a view of one, which their values decide.
    values_shape: the shape of its result depends on values.
    view: it returns a view of its first operand where it can.
    check: takes the arguments as ``(args, kwargs)`` and returns a function and its arguments, which
        raises the errors that the call would raise because of values, and does nothing else.
    steps: takes the arguments and ``out``, and returns bound calls of NumPy's own functions that
        do the same as the call without a look at values, for kernels.
    """

    out: bool = False
    elementwise: bool | Callable = False
    fails: bool | Callable = False
    aliases: bool = False
    values_shape: bool | Callable = False
    view: bool = False
    check: Callable | None = None
    steps: Callable | None = None

    def holds(self, name: str, args, kwargs) -> bool:
        """Whether the property ``name`` holds for a call with these arguments."""
        value = getattr(self, name)
        return bool(value(args, kwargs)) if callable(value) else value


_UNKNOWN = Declaration()
_UFUNC = Declaration(out=True, elementwise=True)
# The functions too, so that no other object takes the identity of one that is gone.
_declared: dict[Any, tuple[Any, Declaration]] = {}

# Operators and their forms in place, which call these ufuncs. Those of powers and products choose
# between several functions.
UFUNCS = {
    getattr(operator, prefix + name.rstrip("_") if prefix else name): ufunc
    for name, ufunc in {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
        "floordiv": np.floor_divide, "mod": np.remainder, "and_": np.bitwise_and,
        "or_": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
        "rshift": np.right_shift,
    }.items()
    for prefix in ("", "i")
} | {
    operator.neg: np.negative, operator.pos: np.positive, operator.abs: np.absolute,
    operator.invert: np.invert, operator.lt: np.less, operator.le: np.less_equal,
    operator.gt: np.greater, operator.ge: np.greater_equal, operator.eq: np.equal,
    operator.ne: np.not_equal,
}  # fmt: skip


def _key(function):
    # Each access to a bound method makes another object.
    if type(function) is MethodType:
        return id(function.__func__), id(function.__self__)
    return id(function)


def declare(function=None, /, **properties):
    """Say what a function is, as a decorator with properties or as a call; return the function.

    What is said later adds to what was said before. See `Declaration` for the properties.
    """
    if function is None:
        return lambda function: declare(function, **properties)
    known = declaration(function)._replace(**properties)
    _declared[_key(function)] = function, known
    return function


def declaration(function) -> Declaration:
    """What is known of any callable."""
    found = _declared.get(_key(function))
    if found is not None:
        return found[1]
    if type(function) is np.ufunc:
        is_plain = function.nout == 1 and function.signature is None
        return _UFUNC if is_plain else _UNKNOWN
    return _UNKNOWN


def are_integers(args, kwargs):
    """Whether a power is one of integers, whose exponents may not be negative."""
    return all(_kind(x) in "iub" for x in args[:2])


def _kind(x):
    dtype = getattr(x, "dtype", None)
    if dtype is None:
        return "i" if type(x) is int else "f"
    return getattr(dtype, "kind", "f")


def has_array(first):
    """Whether there are arrays among the arguments from the one with number ``first`` on."""

    def has(args, kwargs):
        return _has_array((args[first:], kwargs))

    return has


def _has_array(x, kinds=None):
    if isinstance(x, (tuple, list)):
        return any(_has_array(item, kinds) for item in x)
    if isinstance(x, dict):
        return _has_array(list(x.values()), kinds)
    if isinstance(x, slice):
        return _has_array((x.start, x.stop, x.step), kinds)
    return hasattr(x, "dtype") and hasattr(x, "shape") and (kinds is None or _kind(x) in kinds)


def _selects_by_values(args, kwargs):
    """Whether the values of an index say how many elements it selects."""
    key = args[1] if type(args[1]) is tuple else (args[1],)
    return any(_has_array(k, None if type(k) is slice else "b") for k in key)


for _operator in UFUNCS:
    declare(_operator, out=True, elementwise=True)
for _function in (operator.pow, operator.ipow, np.power):
    declare(_function, out=True, elementwise=True, fails=are_integers)
for _function in (operator.matmul, np.matmul):
    declare(_function, out=True)
for _function in (np.fmax, np.fmin):  # of 0 and -0 they return the one or the other, by the place
    declare(_function, out=True, elementwise=False)
declare(operator.getitem, view=True, fails=has_array(1), values_shape=_selects_by_values)
declare(operator.setitem, fails=has_array(1), values_shape=_selects_by_values)
