"""Importing ``gpugrad.einops`` makes einops accept Tensors.

It supports rearrange, reduce, repeat, einsum and pack. einops looks for an array's library
among the subclasses of its backend class; this module defines the subclass for `Tensor`.
"""

from types import SimpleNamespace
from typing import Any

from einops._backends import AbstractBackend

from . import _arguments, _creation
from ._tensor import Tensor
from .autograd.operation import exports

__all__ = ["Backend"]
__dir__ = __all__.copy

_ops: Any = SimpleNamespace(**exports())


class Backend(AbstractBackend):
    """The operations that einops needs from an array library."""

    framework_name = "gpugrad"

    def is_appropriate_type(self, tensor):
        return isinstance(tensor, Tensor)

    from_numpy = staticmethod(_creation.asarray)
    arange = staticmethod(_creation.arange)
    transpose = staticmethod(_ops.permute_dims)
    stack_on_zeroth_dimension = staticmethod(_ops.stack)
    tile = staticmethod(_ops.tile)
    einsum = staticmethod(_ops.einsum)
    is_float_type = staticmethod(_arguments.is_floating)

    def to_numpy(self, x):
        return x.numpy()

    def reshape(self, x, shape):
        return _ops.reshape(x, tuple(shape))

    def reduce(self, x, operation, axes):
        return getattr(_ops, operation)(x, axis=tuple(axes))

    def add_axis(self, x, new_position):
        return _ops.expand_dims(x, axis=new_position)

    def concat(self, tensors, axis):
        return _ops.concat(tensors, axis=axis)
