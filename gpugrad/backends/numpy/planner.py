"""What a program needs of NumPy to keep its values in memory that is planned once."""

import math
import operator

import numpy as np

from ..dtypes import float32, float64
from . import namespace
from .lowering import _IN_PLACE, OUT, Keyword, Part, Seen, Weak, check_labels, lower

__all__ = [
    "CHECKS",
    "OUT",
    "Keyword",
    "Part",
    "Seen",
    "Weak",
    "arena",
    "empty",
    "empty_array",
    "is_in_order",
    "lower",
    "may_fail",
    "place",
    "placeholder",
    "scalar",
]

_LARGE = 1 << 20  # bytes
_ARITHMETIC = {operator.add, operator.sub, operator.mul, operator.truediv, operator.neg}
_WITH_NUMBER = {namespace._maximum, namespace._minimum}
_PRODUCTS = {namespace._matmul, operator.matmul, np.matmul}

empty_array = np.empty
CHECKS = {check_labels}  # functions that only raise, so that once is enough for equal arguments


def may_fail(call):
    """Whether the values of its operands may make a call raise an error."""
    if "linalg" in (getattr(call.function, "__module__", None) or ""):
        return True
    if (check := getattr(call.function, "check", None)) is not None:
        # Arguments are checked before any other call.
        operands = check(*call.args, **call.kwargs)[1]
        return not all(_is_of_argument(x) for x in operands if hasattr(x, "kind"))
    name = call.name
    if name in _KEYS:
        before = sum(hasattr(x, "kind") for x in call.args[: _KEYS[name]])
        return any(x.kind == "array" for x in call.operands()[before:])
    if name in ("pow", "power", "ipow"):  # of integers, exponents may not be negative
        return call.outs[0].dtype.kind in "iu"
    return name in _CHECKING


def _is_of_argument(x):
    """Whether a variable has its value before all calls, or is a view of one that has."""
    if x.call is None:
        return True
    only_views = x.base is not None and all(y is x.base for y in x.call.operands())
    return only_views and _is_of_argument(x.base)


_CHECKING = {
    "add_along_axis", "cholesky_solve", "made_of_numbers", "one_hot", "pick", "put_along_axis",
    "repeat", "solve_triangular", "take", "take_along_axis",
}  # fmt: skip
_KEYS = {"getitem": 1, "assigned": 2, "setitem": 2, "scatter_add": 2}  # which argument is the key


def arena(nbytes):
    """Memory for ``nbytes`` bytes, which begins at a multiple of 64."""
    data = np.empty(nbytes + 64, np.uint8)
    start = -data.__array_interface__["data"][0] % 64
    return data[start : start + nbytes]


def place(memory, offset, shape, dtype, strides):
    """An array at ``offset`` in an `arena`; in C order if ``strides`` is None."""
    return np.ndarray(shape, dtype, memory, offset, strides)


def empty(shape, dtype, strides):
    """A new array with these strides."""
    if strides is None:
        return np.empty(shape, dtype)
    axes = sorted(range(len(shape)), key=lambda i: -strides[i])
    whole = np.empty([shape[i] for i in axes], dtype)
    return whole.transpose([axes.index(i) for i in range(len(shape))])


def placeholder(function, args):
    """An array with the layout of a large result, whose memory the system has not provided yet.

    Recording needs no values. None if the result is not large, or its layout not certain.
    """
    if len(args) == 2 and type(args[0]) in (int, float) and function in _ARITHMETIC:
        args = args[::-1]
    first = args[0] if args else None
    if type(first) is not np.ndarray or first.dtype not in (float32, float64):
        return None
    if function in _PRODUCTS:
        second = args[1]
        if type(second) is not np.ndarray or second.dtype is not first.dtype:
            return None
        if not (first.ndim == second.ndim == 2 and first.shape[1] == second.shape[0] > 1):
            return None
        shape = first.shape[0], second.shape[1]
        return np.empty(shape, first.dtype) if math.prod(shape) * first.itemsize >= _LARGE else None
    if first.nbytes < _LARGE:
        return None
    others = args[1:]
    if getattr(function, "__name__", "") in _IN_PLACE:
        alike = all(_broadcasts(x, first) for x in others)
    elif function in _ARITHMETIC:
        alike = all(type(x) in (int, float) or _is_alike(x, first) for x in others)
    elif function in _WITH_NUMBER:
        alike = type(args[1]) in (int, float)
    else:
        alike = isinstance(function, np.ufunc) and "f->f" in function.types
    return np.empty_like(first) if alike else None


def _broadcasts(x, first):
    if type(x) in (int, float):
        return True
    if type(x) is not np.ndarray or x.dtype is not first.dtype or x.ndim > first.ndim:
        return False
    sizes = zip(reversed(x.shape), reversed(first.shape), strict=False)
    return all(n in (1, size) for n, size in sizes)


def _is_alike(x, first):
    same = type(x) is np.ndarray and x.dtype is first.dtype
    return same and x.shape == first.shape and x.strides == first.strides


def is_in_order(x):
    """Whether an array of this shape and these strides is what ``numpy.empty`` makes."""
    step = x.dtype.itemsize
    for n, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if n > 1 and stride != step:
            return False
        step *= n
    return True


def scalar(value, dtype):
    """A 0-d array."""
    return np.array(value, dtype)
