"""Discrete Fourier transforms."""

from typing import TYPE_CHECKING

from .autograd.operation import exports as _exports
from .ops import fft as _ops

if TYPE_CHECKING:
    from .ops.fft import *
else:
    globals().update(_exports("fft"))
