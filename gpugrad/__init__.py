"""Automatic differentiation for the arrays people already have.

A `Tensor` wraps a NumPy array on the CPU or a CuPy array on a CUDA GPU, and
remembers how it was computed. Array functions are named as in the Python array
API standard, everything about gradients and training as in PyTorch.
"""

import sys as _sys
from importlib import import_module as _import_module
from math import e, inf, nan, pi
from types import ModuleType as _Module
from typing import Any as _Any

# This module comes first because it imports NumPy; a comment in it says why that matters.
from . import backends as _backends

# isort: split
from . import autograd
from ._foreign_names import missing as _missing
from ._tensor import Tensor
from .autograd.call import install as _install
from .autograd.implementation import twin_modules as _twin_modules
from .autograd.operation import exports as _exports
from .backends.dtypes import bfloat16 as _bfloat16
from .backends.dtypes import bool_ as bool
from .ops import operators as _operators

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

newaxis = None


def __array_namespace_info__() -> _Any:
    """What this namespace has: its devices, dtypes and capabilities."""
    from . import _info

    return _info


# Imported when first used: together the rooms would add a fifth to the time of `import gpugrad`.
_LAZY = (
    "amp cuda data distributed fft io linalg nn numpy optim random scipy special testing tools "
    "training transforms tree"
).split()
_FROM = {
    name: module
    for module, names in {
        "_creation": """
            arange asarray empty empty_like eye from_dlpack full full_like linspace ones ones_like
            tensor zeros zeros_like
        """,
        "_dtypes": "can_cast isdtype result_type",
        "_limits": "finfo iinfo",
        "autograd.mode": "enable_grad is_grad_enabled no_grad set_grad_enabled",
        "autograd.operation": "op",
        "backends": "get_num_threads set_num_threads",
        "backends.dtypes": """
            complex64 complex128 float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32
            uint64
        """,
        "io": "load save",
        "ops.manipulation": "broadcast_shapes",
        "random": "manual_seed",
        "tape": "compile",
        "tools": "detect_anomaly draw memory_report profile",
        "transforms": """
            checkpoint custom_vjp grad hessian hvp jacobian jvp linearize stop_gradient
            value_and_grad vjp vmap
        """,
    }.items()
    for name in names.split()
}

# Every op is exported by being defined.
globals().update(_exports())
_public = {name for name, x in globals().items() if name[0] != "_" and type(x) is not _Module}
# These are not public: programs write x[key], and only VJPs call the others.
_public -= {
    "add_along_axis", "convolution_weight", "dropout_mask", "find_in_windows", "getitem",
    "last_written", "put_in_windows", "setitem", "take_from_windows", "zero_discarded_nans",
}  # fmt: skip
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
    if name == "lib":  # of NumPy; xarray asks a tensor's namespace for lib.stride_tricks
        return _import_module(".numpy", __name__).lib
    raise _missing("gpugrad", name, place=_place(name))


def _place(name):
    """The full name of what NumPy or PyTorch has at the top and gpugrad in a namespace, or None."""
    spaces = "linalg special fft random nn nn.functional optim optim.lr_scheduler data numpy"
    spaces = spaces.split() if name[0] != "_" else []
    found = (space for space in spaces if name in dir(_import_module(f".{space}", __name__)))
    return next((f"gpugrad.{space}.{name}" for space in found), None)


_install(Tensor, _sys.modules[__name__])
_twin_modules["cupy"] = "gpugrad.kernels.cuda"
_twin_modules["numpy"] = "gpugrad.kernels.numpy"
