"""``numpy.random`` itself, whose numbers are constants; see `gpugrad.numpy`.

Its generators are NumPy's, so that a seed gives the same numbers as there. `gpugrad.random` draws
on a GPU.
"""

from typing import Any as _Any

from ._namespace import found as _found
from ._namespace import numpy as _numpy

__all__ = list(_numpy.random.__all__)
__dir__ = __all__.copy


def __getattr__(name: str) -> _Any:
    value = globals()[name] = _found("random", name)
    return value
