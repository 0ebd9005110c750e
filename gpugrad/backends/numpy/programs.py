"""What a program needs of NumPy to keep its values in memory that is planned once."""

from functools import partial

import numpy as np

from ..declarations import UFUNCS
from .binding import bind
from .namespace import duplicate, owner

__all__ = [
    "arena", "bind", "copy_into", "duplicate", "maker", "ones_with_strides", "place",
    "scalar", "shares_memory", "sharing", "stand_in", "takes_arrays", "ufunc_of",
]  # fmt: skip

copy_into = np.copyto


def native():
    """The module that makes kernels, or None if it cannot."""
    from ..native import kernel  # here, since only compiled functions need it

    return kernel if kernel.is_available() else None


def arena(nbytes):
    """Memory for ``nbytes`` bytes, which begins at a multiple of 64."""
    data = np.empty(nbytes + 64, np.uint8)
    start = -data.__array_interface__["data"][0] % 64
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
    ordered = [shape[i] for i in axes]
    return lambda: np.empty(ordered, dtype).transpose(inverse)


def ones_with_strides(array, strides):
    """Ones of the shape and dtype of an array, with these strides; None if one is negative."""
    if any(step < 0 for step in strides):
        return None
    ones = stand_in(array.shape, array.dtype, strides)
    ones[...] = 1
    return ones


def stand_in(shape, dtype, strides):
    """An array of any values in memory of its own."""
    steps = (
        [(n - 1) * step for n, step in zip(shape, strides, strict=True)] if 0 not in shape else []
    )
    first = -sum([step for step in steps if step < 0])
    memory = np.empty(first + sum([step for step in steps if step > 0]) + dtype.itemsize, np.uint8)
    return np.ndarray(shape, dtype, memory, first, strides)


def shares_memory(x, array):
    """Whether ``x``, any object, is a view that may share memory with an array."""
    return type(x) is np.ndarray and x.base is not None and np.may_share_memory(x, array)


def sharing(arrays):
    """A function that returns whether an array lies in the memory of one of these."""
    owners = [owner(x) for x in arrays]
    by_id = {id(x): x for x in owners}
    addresses = {_address(x) for x in owners}
    own_all = all(x.base is None for x in owners)

    def shares(array):
        found = owner(array)
        if own_all and found.base is None:  # otherwise several may wrap memory of another library
            return id(found) in by_id
        return _address(found) in addresses

    return shares


def _address(array):
    return array.__array_interface__["data"][0]


def scalar(dtype):
    """A 0-d array that can stand for a Python number beside arrays of ``dtype``; or None."""
    return np.zeros((), dtype) if dtype.char in "fd" else None


def takes_arrays(function):
    """Whether a function does the same with a 0-d array and with a scalar of its dtype."""
    return type(function) is np.ufunc or UFUNCS.get(function) in _OF_SCALARS


_OF_SCALARS = {
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.less, np.less_equal,
    np.greater, np.greater_equal, np.equal, np.not_equal,
}  # fmt: skip


def ufunc_of(function):
    """The ufunc that a function or an operator is, or None."""
    return function if type(function) is np.ufunc else UFUNCS.get(function)
