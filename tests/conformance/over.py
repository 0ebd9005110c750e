"""gpugrad on top of another array library, for the conformance suite.

By default gpugrad creates NumPy arrays. This namespace is gpugrad with creation functions that
create arrays of another library, and with that library's dtypes and devices. The variable
``GPUGRAD_OVER`` names the library's namespace, such as ``array_api_strict``.
"""

import importlib
import os
from functools import wraps
from types import SimpleNamespace

import gpugrad
from gpugrad import _creation
from gpugrad.backends import backend_of

_zero = gpugrad.asarray(importlib.import_module(os.environ["GPUGRAD_OVER"]).zeros(1))
_backend = backend_of[type(_zero.array)]
_info = gpugrad.__array_namespace_info__()
_creation.backend_for_device = lambda device: _backend


def _of_library(function):
    @wraps(function)
    def dtypes(*, device=None, **options):
        return {name: _backend.dtype(dtype) for name, dtype in function(**options).items()}

    return dtypes


def __array_namespace_info__():
    return SimpleNamespace(
        capabilities=_info.capabilities,
        default_device=lambda: _zero.device,
        devices=lambda: (_zero.device,),
        default_dtypes=_of_library(_info.default_dtypes),
        dtypes=_of_library(_info.dtypes),
    )


@wraps(gpugrad.asarray)
def _asarray(obj, /, *, dtype=None, device=None, copy=None):
    if isinstance(obj, gpugrad.Tensor):
        return gpugrad.asarray(obj, dtype=dtype, device=device, copy=copy)
    host = gpugrad.asarray(obj, dtype=dtype, copy=copy).array
    return gpugrad.asarray(_backend.asarray(host, device=device))


globals().update(
    {name: getattr(gpugrad, name) for name in (*dir(gpugrad), "__array_api_version__")},
    **__array_namespace_info__().dtypes(),
    asarray=_asarray,
    __version__=gpugrad.__version__,
)
