"""What a program needs of NumPy to keep its values in memory that is planned once."""

import numpy as np

from .lowering import OUT, Keyword, Part, Seen, Weak, lower
from .namespace import check_labels

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
    "place",
    "scalar",
]

empty_array = np.empty
CHECKS = {check_labels}  # functions that only raise, so that once is enough for equal arguments


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
