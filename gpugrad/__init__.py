"""Automatic differentiation for the arrays people already have.

A `Tensor` wraps a NumPy array on the CPU or a CuPy array on a CUDA GPU, and
remembers how it was computed. Array functions are named as in the Python array
API standard, everything about gradients and training as in PyTorch.
"""

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import autograd, cuda, random
from .autograd.call import install as _install
from .autograd.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .autograd.operation import op
from .tensor import Tensor

_install(Tensor, _sys.modules[__name__])

from .backends.numpy import bool_ as bool
from .backends.numpy import (
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .creation import (
    arange,
    asarray,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from .io import load, save
from .ops import *
from .ops import operators as _operators
from .random import manual_seed

if _TYPE_CHECKING:
    from . import data, nn, optim

__version__ = "0.1.0"


def __getattr__(name):
    # Imported when first used: they would add a tenth to the time of `import gpugrad`.
    if name in ("data", "nn", "optim"):
        return _import_module(f".{name}", __name__)
    raise AttributeError(f"module 'gpugrad' has no attribute {name!r}")
