"""How the functions of this package read their arguments: as Tensors, and axes as NumPy does."""

from types import SimpleNamespace
from typing import Any

from .. import _creation, _dtypes, _limits, fft, linalg, special
from .._arguments import is_floating, require
from .._creation import holds_tensor
from .._tensor import Tensor
from ..autograd.operation import exports
from ..backends import SCALARS, backend_of, dtypes
from ..backends.numpy import library as numpy

# The functions and dtypes of the floors below, under their names in gpugrad.
gg: Any = SimpleNamespace(
    **(vars(dtypes) | vars(_limits) | vars(_dtypes) | vars(_creation) | exports()),
    bool=dtypes.bool_, fft=fft, linalg=linalg, special=special,
)  # fmt: skip


def tensor(x, like=None):
    """``x`` as a Tensor, in the dtype that it has in NumPy.

    like: a tensor on whose device numbers and lists are put.
    """
    if isinstance(x, Tensor):
        return x
    if isinstance(x, (list, tuple)) and holds_tensor(x):
        return gg.asarray(x)
    # Arrays are left as they are, since a matrix or a masked array would lose its class here.
    if not isinstance(x, (list, tuple, bool, int, float, complex, numpy.generic)):
        return gg.asarray(x)
    values = numpy.asarray(x)
    return gg.asarray(values) if like is None else constant(values, like)


def constant(values, like, dtype=None):
    """A NumPy array as a Tensor on the device, and in the array library, of a tensor."""
    backend = backend_of[type(like._like)]
    return gg.asarray(backend.asarray(values, dtype=dtype, device=backend.device(like._like)))


def tensors(*values):
    """The values as Tensors; at least one of them is a tensor."""
    for x in values:
        if type(x) is not Tensor:
            like = next((x for x in values if isinstance(x, Tensor)), None)
            return [tensor(x, like) for x in values]
    return values


def operands(x1, x2):
    """The two as Tensors; a Python number beside a floating tensor does not widen it."""
    first, second = tensors(x1, x2)
    if type(x2) in SCALARS and is_floating(first):
        second = gg.astype(second, gg.result_type(first, x2))
    elif type(x1) in SCALARS and is_floating(second):
        first = gg.astype(first, gg.result_type(second, x1))
    return first, second


def flat(x):
    """The elements of a tensor in row-major order, along one axis."""
    return x if x.ndim == 1 else gg.reshape(x, (-1,))


def along(x, axis):
    """A tensor and the axis, which is not negative; for None, its elements and their only axis."""
    if axis is None:
        return flat(x), 0
    return x, numpy.lib.array_utils.normalize_axis_index(axis, x.ndim or 1)


def axes_in(axis, ndim):
    """An axis, several or None for all of them, as a tuple of numbers that are not negative."""
    return numpy.lib.array_utils.normalize_axis_tuple(range(ndim) if axis is None else axis, ndim)


def axes_of(axes):
    """An axis or a tuple of axes; NumPy also takes lists."""
    return tuple(axes) if isinstance(axes, list) else axes


def shape_along(axis, ndim):
    """The shape that puts a vector along one of the axes."""
    return tuple([-1 if i == axis % ndim else 1 for i in range(ndim)])


def either(first, second):
    """The one of two parameters with the same meaning that is given, or None."""
    require(first is None or second is None, "give one of a parameter's names", (first, second))
    return second if first is None else first


def is_true(x):
    """Where the elements of a tensor are true: not 0."""
    return x if gg.isdtype(x.dtype, "bool") else x != 0


def floating(x, like=None):
    """``x`` as a Tensor in a floating dtype: float64 for integers, as in NumPy."""
    x = tensor(x, like)
    return x if is_floating(x) else x.astype(gg.float64)
