"""Automatic differentiation for the arrays people already have.

A `Tensor` wraps a NumPy array on the CPU or a CuPy array on a CUDA GPU, and
remembers how it was computed. Array functions are named as in the Python array
API standard, everything about gradients and training as in PyTorch.
"""

import sys as _sys
from importlib import import_module as _import_module
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

from . import autograd as autograd
from . import batched as _batched
from . import cuda as cuda
from . import random as random
from .autograd.call import install as _install
from .autograd.mode import enable_grad as enable_grad
from .autograd.mode import is_grad_enabled as is_grad_enabled
from .autograd.mode import no_grad as no_grad
from .autograd.mode import set_grad_enabled as set_grad_enabled
from .autograd.operation import exports as _exports
from .autograd.operation import op as op
from .backends.bfloat16 import bfloat16 as _bfloat16
from .backends.numpy import bool_ as bool
from .backends.numpy import complex64 as complex64
from .backends.numpy import complex128 as complex128
from .backends.numpy import float16 as float16
from .backends.numpy import float32 as float32
from .backends.numpy import float64 as float64
from .backends.numpy import int8 as int8
from .backends.numpy import int16 as int16
from .backends.numpy import int32 as int32
from .backends.numpy import int64 as int64
from .backends.numpy import uint8 as uint8
from .backends.numpy import uint16 as uint16
from .backends.numpy import uint32 as uint32
from .backends.numpy import uint64 as uint64
from .creation import arange as arange
from .creation import asarray as asarray
from .creation import empty as empty
from .creation import empty_like as empty_like
from .creation import eye as eye
from .creation import from_dlpack as from_dlpack
from .creation import full as full
from .creation import full_like as full_like
from .creation import linspace as linspace
from .creation import ones as ones
from .creation import ones_like as ones_like
from .creation import tensor as tensor
from .creation import zeros as zeros
from .creation import zeros_like as zeros_like
from .dtypes import can_cast as can_cast
from .dtypes import finfo as finfo
from .dtypes import iinfo as iinfo
from .dtypes import isdtype as isdtype
from .dtypes import result_type as result_type
from .foreign_names import missing as _missing
from .io import load as load
from .io import save as save
from .ops import operators as _operators
from .ops.manipulation import broadcast_shapes as broadcast_shapes
from .random import manual_seed as manual_seed
from .tensor import Tensor as Tensor

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

newaxis = None


def __array_namespace_info__():
    """What this namespace has: its devices, dtypes and capabilities."""
    from . import info

    return info


# Imported when first used: together they would add a tenth to the time of `import gpugrad`.
_LAZY = ("data", "fft", "linalg", "nn", "optim", "special", "testing", "tools", "transforms")
_FROM = dict.fromkeys(
    (
        "checkpoint custom_vjp grad hessian hvp jacobian jvp linearize stop_gradient "
        "value_and_grad vjp vmap"
    ).split(),
    "transforms",
)
_FROM |= dict.fromkeys("detect_anomaly draw memory_report profile".split(), "tools")

if _TYPE_CHECKING:
    bfloat16 = float16
    from . import data as data
    from . import fft as fft
    from . import linalg as linalg
    from . import nn as nn
    from . import optim as optim
    from . import special as special
    from . import testing as testing
    from . import tools as tools
    from . import transforms as transforms
    from .ops.dropout import *
    from .ops.elementwise import *
    from .ops.indexing import *
    from .ops.manipulation import *
    from .ops.neural import *
    from .ops.normalization import *
    from .ops.products import *
    from .ops.reductions import *
    from .ops.searching import *
    from .ops.transcendental import *
    from .tools import *
    from .transforms import *
else:
    # Every op is exported by being defined.
    globals().update(_exports())

    def __getattr__(name):
        if name in _LAZY:
            return _import_module(f".{name}", __name__)
        if name == "bfloat16":
            value = globals()[name] = _bfloat16()
            return value
        if name in _FROM:
            value = globals()[name] = getattr(_import_module(f".{_FROM[name]}", __name__), name)
            return value
        raise _missing("gpugrad", name)

    # The modules that these names come from are nothing to import from.
    _WITHIN = {"arguments", "backends", "creation", "dtypes", "foreign_names", "info", "io", "ops"}
    __all__ = sorted({name for name in globals() if name[0] != "_"} - _WITHIN | {*_LAZY, *_FROM})

    def __dir__():
        return __all__


_install(Tensor, _batched.BatchedTensor, _batched.call_batched, _sys.modules[__name__])
