"""``numpy.random`` itself, whose numbers are constants; see `gpugrad.numpy`.

Its generators are NumPy's, so that a seed gives the same numbers as there. `gpugrad.random` draws
on a GPU.
"""

from typing import Any as _Any

from ._namespace import module as _module

__all__, __dir__, _find = _module("random", globals())


def __getattr__(name: str) -> _Any:
    return _find(name)
