"""Automatic differentiation for the arrays people already have.

A `Tensor` wraps a NumPy array on the CPU or a CuPy array on a CUDA GPU, and
remembers how it was computed. Array functions are named as in the Python array
API standard, everything about gradients and training as in PyTorch.
"""

import sys as _sys
from importlib import import_module as _import_module
from inspect import ismodule as _ismodule
from math import e, inf, nan, pi
from typing import Any as _Any

# This module comes first because it imports NumPy; a comment in it says why that matters.
from . import backends as _backends

# isort: split
from . import autograd
from ._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from ._dtypes import can_cast, isdtype, result_type
from ._foreign_names import missing as _missing
from ._tensor import Tensor
from .autograd.call import install as _install
from .autograd.implementation import twin_modules as _twin_modules
from .autograd.mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .autograd.operation import exports as _exports
from .autograd.operation import op
from .backends.dtypes import bfloat16 as _bfloat16
from .backends.dtypes import bool_ as bool
from .backends.dtypes import complex64 as complex64
from .backends.dtypes import complex128 as complex128
from .backends.dtypes import float16 as float16
from .backends.dtypes import float32 as float32
from .backends.dtypes import float64 as float64
from .backends.dtypes import int8 as int8
from .backends.dtypes import int16 as int16
from .backends.dtypes import int32 as int32
from .backends.dtypes import int64 as int64
from .backends.dtypes import uint8 as uint8
from .backends.dtypes import uint16 as uint16
from .backends.dtypes import uint32 as uint32
from .backends.dtypes import uint64 as uint64
from .ops import operators as _operators
from .ops.manipulation import broadcast_shapes

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

newaxis = None


def __array_namespace_info__() -> _Any:
    """What this namespace has: its devices, dtypes and capabilities."""
    from . import _info

    return _info


# Imported when first used: together they would add a fifth to the time of `import gpugrad`.
_LAZY = (
    "amp cuda data distributed fft io linalg nn numpy optim random scipy special testing tools "
    "training transforms tree"
).split()
_FROM = dict.fromkeys(
    (
        "checkpoint custom_vjp grad hessian hvp jacobian jvp linearize stop_gradient "
        "value_and_grad vjp vmap"
    ).split(),
    "transforms",
)
_FROM |= dict.fromkeys("detect_anomaly draw memory_report profile".split(), "tools")
_FROM |= {
    "compile": "tape",
    "finfo": "_limits",
    "get_num_threads": "backends",
    "iinfo": "_limits",
    "load": "io",
    "save": "io",
    "set_num_threads": "backends",
    "manual_seed": "random",
}

# Every op is exported by being defined.
globals().update(_exports())
_public = {name for name, value in globals().items() if name[0] != "_" and not _ismodule(value)}
# These are not public: programs write x[key], and only VJPs call the others.
_public -= set(
    """
    add_along_axis convolution_weight dropout_mask find_in_windows getitem last_written
    put_in_windows setitem take_from_windows zero_discarded_nans
    """.split()
)
__all__ = sorted(_public | {"autograd", *_LAZY, *_FROM})
__dir__ = __all__.copy


def __getattr__(name):
    if name in _LAZY:
        return _import_module(f".{name}", __name__)
    if name == "bfloat16":
        value = globals()[name] = _bfloat16()
        return value
    if name in _FROM:
        value = globals()[name] = getattr(_import_module(f".{_FROM[name]}", __name__), name)
        return value
    raise _missing("gpugrad", name, place=_place(name))


def _place(name):
    """Where a name is that NumPy or PyTorch has at the top, and gpugrad in a namespace."""
    if name[0] == "_":
        return None
    for space in "linalg special fft random nn.functional numpy".split():
        if name in dir(_import_module(f".{space}", __name__)):
            return f"gpugrad.{space}.{name}"
    return None


_install(Tensor, _sys.modules[__name__])
_twin_modules["cupy"] = "gpugrad.kernels.cuda"
_twin_modules["numpy"] = "gpugrad.kernels.numpy"
