"""``numpy.fft``, differentiable; see `gpugrad.numpy`."""

from typing import Any as _Any

from ._namespace import found as _found
from ._namespace import numpy as _numpy

__all__ = list(_numpy.fft.__all__)
__dir__ = __all__.copy


def __getattr__(name: str) -> _Any:
    value = globals()[name] = _found("fft", name)
    return value
