"""What a program needs of NumPy to keep its values in memory that is planned once."""

import operator

import numpy as np

from ..declarations import UFUNCS
from . import namespace
from .binding import bind, flat
from .noting import _EXACT

__all__ = ["arena", "bind", "copy_into", "divides", "empty", "flat", "ones_with_strides", "place", "scalar",
           "ufunc_of"]  # fmt: skip

copy_into = np.copyto


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
    axes = sorted(range(len(shape)), key=lambda i: -strides[i])
    whole = np.empty([shape[i] for i in axes], dtype)
    return whole.transpose([axes.index(i) for i in range(len(shape))])


def ones_with_strides(array, strides):
    """Ones of the shape and dtype of an array, with these strides; None if one is negative."""
    if any(step < 0 for step in strides):
        return None
    last = sum([(n - 1) * step for n, step in zip(array.shape, strides, strict=True)])
    whole = np.ones(last // array.itemsize + 1, array.dtype)
    return np.ndarray(array.shape, array.dtype, whole, 0, strides)


def scalar(dtype):
    """A 0-d array that can stand for a Python number beside arrays of ``dtype``; or None."""
    return np.zeros((), dtype) if dtype.char in "fd" else None


def divides(function, args, out):
    """Whether an elementwise call may be made block by block, with the same bits.

    args: in which operands have a dtype and strides. NumPy computes most functions in another way
    where elements lie apart.
    """
    arrays = [x for x in args if getattr(x, "shape", ()) != ()]
    if any(x.dtype.kind == "c" for x in (*arrays, out)):
        return False
    if ufunc_of(function) in _EXACT or function in _MOVING:
        return True
    steps = [out.dtype.itemsize]
    for n in reversed(out.shape[1:]):
        steps.append(steps[-1] * n)
    steps.reverse()
    return out.strides == (*steps,) and all(
        x.shape == out.shape and [*x.strides] == [s * x.dtype.itemsize // steps[-1] for s in steps]
        for x in arrays
    )


_MOVING = {namespace._astype, namespace._where, namespace.duplicate, operator.setitem}


def ufunc_of(function):
    """The ufunc that a function or an operator is, or None."""
    return function if type(function) is np.ufunc else UFUNCS.get(function)
