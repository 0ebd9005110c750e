"""Calls of array functions with fixed operands, ready to be made again and again into one memory.

Calling what `bind` returns costs what NumPy's own function costs: everything that depends on
shapes, dtypes and strides is decided when it is made.
"""

import operator
from functools import partial

import numpy as np

from ..declarations import UFUNCS, declaration
from . import namespace
from .noting import CannotNote, bound_ufunc, note

_POWERS = operator.pow, operator.ipow
# Functions that treat numbers and 0-d arrays differently.
_WITH_NUMBERS = namespace.power, namespace._maximum, namespace._minimum, *_POWERS
_OPERANDS = np.ndarray, bool, int, float, complex, np.generic


def bind(function, args, kwargs, out, *, checked=False):
    """Functions without arguments, which fill ``out`` with ``function(*args, **kwargs)``.

    args, kwargs: arrays, whose memory stays the same while their values may change; numbers, also
        as 0-d arrays of the dtype of the operands; tuples and other constants.
    out: an array of the dtype and the shape of the result, in any order in memory. It may be an
        operand where `declaration` says that the function is elementwise.
    checked: whether the values have been checked, by the ``check`` that is declared.

    The bits are those of ``function(*args, **kwargs)``. Returns None if it cannot be done, else
    a list of the functions in the order in which they are to be called.
    """
    declared = declaration(function)
    if not declared.out or (kwargs and "out" in kwargs):
        return None
    if function in _WITH_NUMBERS and _may_be_number(function, *args):
        return None
    if function in UFUNCS or function in _POWERS:
        return _bound_ufunc(_ufunc_of(function, args), args, out)
    if type(function) is np.ufunc and function.signature is None:
        return None if kwargs else _bound_ufunc(function, args, out)
    if not out.size:
        return []
    function = np.matmul if function is operator.matmul else function
    is_any = out.flags.c_contiguous or declared.holds("elementwise", args, kwargs)
    target = out if is_any else np.empty(out.shape, out.dtype)
    try:
        calls = note(function, args, kwargs, target)
    except CannotNote:
        calls = [partial(function, *args, **kwargs, out=target)]
    if checked:
        calls = [f for f in calls if getattr(f, "func", None) is not namespace.check_labels]
    if target is not out:
        calls.append(partial(np.copyto, out, target))
    return calls


def _may_be_number(function, x1, x2):
    """Whether an operand may stand for a number with which the function does something else."""
    if not isinstance(x2, np.ndarray) or x2.ndim or not isinstance(x1, np.ndarray):
        return False
    is_bound = function in (namespace._maximum, namespace._minimum)
    return not is_bound or namespace._is_large(x1)


def _ufunc_of(function, args):
    """The ufunc that an operator calls, or None."""
    if function not in _POWERS:
        return UFUNCS[function]
    x, n = args
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f" or type(n) not in (int, float):
        return np.power
    if n in (0, 1):
        return None
    return {2: np.square, -1: np.reciprocal, 0.5: np.sqrt}.get(n, np.power)


def _bound_ufunc(ufunc, args, out):
    if ufunc is None or len(args) < ufunc.nin or out.dtype.char == "O":
        return None
    args = args[: ufunc.nin]
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    if not arrays or [x for x in args if not isinstance(x, _OPERANDS)]:
        return None
    if "c" in [x.dtype.kind for x in (*arrays, out)]:
        # NumPy rounds complex products in place, or with gaps, in another way.
        if not all(x.flags.c_contiguous and x.shape == out.shape for x in (*arrays, out)):
            return None
        if any(np.may_share_memory(x, out) for x in arrays):
            return None
    return [bound_ufunc(ufunc, args, out)]
