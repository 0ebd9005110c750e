"""What a program needs of NumPy: calls bound to fixed operands, and memory that is planned once.

`bind` decides once all that depends on shapes, dtypes and strides, so that a bound call takes only
the time of NumPy's own function.
"""

import operator
from functools import partial

import numpy as np

from ..base import address_range
from ..declarations import UFUNCS, declaration
from . import namespace
from .namespace import duplicate as duplicate
from .namespace import in_c_order as in_c_order
from .noting import CannotNote, bound_ufunc, clip, note

copy_into = np.copyto

_POWERS = operator.pow, operator.ipow
_EXTREMA = {namespace._maximum: np.maximum, namespace._minimum: np.minimum}
# Functions that compute with numbers in another way than with 0-d arrays.
_WITH_NUMBERS = namespace.power, *_EXTREMA, *_POWERS
_OPERANDS = np.ndarray, bool, int, float, complex, np.generic


def bind(function, args, kwargs, out, *, checked=False):
    """A list of functions without arguments that fill ``out`` with ``function(*args, **kwargs)``.

    They are to be called in this order, and have the bits of the function. Returns None if the
    function cannot be bound.

    args, kwargs: arrays, whose memory stays the same while their values may change; numbers, also
        as 0-d arrays of the dtype of the operands; tuples and other constants.
    out: an array of the dtype and the shape of the result, in any order in memory. It may be an
        operand where `declaration` says that the function is elementwise.
    checked: whether the declared ``check`` has been made before.
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
    """Whether a 0-d operand may stand for a number, with which the function computes otherwise."""
    if not isinstance(x2, np.ndarray) or x2.ndim or not isinstance(x1, np.ndarray):
        return False
    return function not in _EXTREMA or namespace._is_large(x1)


def _ufunc_of(function, args):
    """The ufunc that an operator calls, or None."""
    if function not in _POWERS:
        return UFUNCS[function]
    x, n = args
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f" or type(n) not in (int, float):
        return np.power
    if n in (0, 1):
        return None
    return namespace.OF_POWERS.get(n, np.power)


def _bound_ufunc(ufunc, args, out):
    if ufunc is None or len(args) < ufunc.nin or out.dtype.char == "O":
        return None
    args = args[: ufunc.nin]
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    if not arrays or [x for x in args if not isinstance(x, _OPERANDS)]:
        return None
    if "c" in [x.dtype.kind for x in (*arrays, out)]:
        # NumPy rounds complex products in another way if they are in place or have gaps.
        if not all(x.flags.c_contiguous and x.shape == out.shape for x in (*arrays, out)):
            return None
        if any(np.may_share_memory(x, out) for x in arrays):
            return None
    return [bound_ufunc(ufunc, args, out)]


def owner(array):
    """The array that owns the memory of ``array``, at the end of its chain of views."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def address_of(array):
    """The address of the element with indices 0."""
    return array.__array_interface__["data"][0]


def arena(nbytes):
    """Memory for ``nbytes`` bytes, which begins at a multiple of 64."""
    data = np.empty(nbytes + 64, np.uint8)
    start = -address_of(data) % 64
    return data[start : start + nbytes]


def place(memory, offset, shape, dtype, strides):
    """An array at ``offset`` in an `arena`; in C order if ``strides`` is None."""
    return np.ndarray(shape, dtype, memory, offset, strides)


def maker(shape, dtype, strides):
    """A function that makes new arrays with these strides."""
    axes = sorted(range(len(shape)), key=lambda i: -strides[i])
    if axes == [*range(len(shape))]:
        return partial(np.empty, shape, dtype)
    inverse = [axes.index(i) for i in range(len(shape))]
    strides = np.empty([shape[i] for i in axes], dtype).transpose(inverse).strides
    return partial(np.ndarray, shape, dtype, None, 0, strides)  # which owns its memory


def stand_in(shape, dtype, strides):
    """An array of any values in memory of its own."""
    lowest, end = address_range(0, shape, strides, dtype.itemsize)
    return np.ndarray(shape, dtype, np.empty(end - lowest, np.uint8), -lowest, strides)


def shares_memory(x, array):
    """Whether ``x``, any object, is a view that may share memory with an array."""
    return type(x) is np.ndarray and x.base is not None and np.may_share_memory(x, array)


def sharing(arrays):
    """A function that returns whether an array lies in the memory of one of these."""
    owners = [owner(x) for x in arrays]
    by_id = {id(x): x for x in owners}
    addresses = {address_of(x) for x in owners}
    own_all = all(x.base is None for x in owners)

    def shares(array):
        found = array if array.base is None else owner(array)
        if own_all and found.base is None:  # else several may wrap the same foreign memory
            return id(found) in by_id
        return address_of(found) in addresses

    return shares


def scalar(dtype):
    """A 0-d array that can stand for a Python number beside arrays of ``dtype``, or None."""
    return np.zeros((), dtype) if dtype.char in "fd" else None


def takes_arrays(function):
    """Whether a function computes the same with a 0-d array as with a scalar of its dtype."""
    return type(function) is np.ufunc or ufunc_of(function) in _OF_SCALARS


_OF_SCALARS = {
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.less, np.less_equal,
    np.greater, np.greater_equal, np.equal, np.not_equal, np.maximum, np.minimum,
}  # fmt: skip


def ufunc_of(function):
    """The ufunc that a function or an operator is, or None."""
    function = clip if function is namespace.xp.clip else _EXTREMA.get(function, function)
    return function if type(function) is np.ufunc else UFUNCS.get(function)
