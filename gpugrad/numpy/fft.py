"""``numpy.fft``, differentiable; see `gpugrad.numpy`."""

from typing import Any as _Any

from ._namespace import module as _module

__all__, __dir__, _find = _module("fft", globals())


def __getattr__(name: str) -> _Any:
    return _find(name)
