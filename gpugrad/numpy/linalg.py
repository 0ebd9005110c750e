"""``numpy.linalg``, differentiable; see `gpugrad.numpy`."""

from ._namespace import module as _module

__all__, __dir__, __getattr__ = _module("linalg", globals())
