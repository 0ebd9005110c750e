"""Discrete Fourier transforms."""

from typing import Any as _Any
from typing import SupportsIndex as _SupportsIndex

from ._arguments import whole as _whole
from ._creation import arange as _arange
from ._foreign_names import explain_names as _explain_names
from ._tensor import Tensor as _Tensor
from .autograd.operation import exports as _exports
from .backends.dtypes import float32 as _float32
from .ops import fft as _ops

globals().update(_exports("fft"))
__all__ = sorted([*_exports("fft"), "fftfreq", "rfftfreq"])
_explain_names(__name__)


def fftfreq(
    n: _SupportsIndex, /, *, d: float = 1.0, dtype: _Any = None, device: str | None = None
) -> _Tensor:
    """The frequencies of `fft` of ``n`` samples ``d`` apart, in cycles per unit of ``d``.

    >>> import gpugrad
    >>> gpugrad.fft.fftfreq(5, d=0.1)
    tensor([ 0.,  2.,  4., -4., -2.])
    """
    count = _whole("fftfreq: n", n, 1)
    start, stop = -(count // 2), (count + 1) // 2
    return _ops.ifftshift(_frequencies("fftfreq", start, stop, count * d, dtype, device))


def rfftfreq(
    n: _SupportsIndex, /, *, d: float = 1.0, dtype: _Any = None, device: str | None = None
) -> _Tensor:
    """The frequencies of `rfft` of ``n`` samples ``d`` apart, in cycles per unit of ``d``.

    >>> import gpugrad
    >>> gpugrad.fft.rfftfreq(5, d=0.1)
    tensor([0., 2., 4.])
    """
    count = _whole("rfftfreq: n", n, 1)
    return _frequencies("rfftfreq", 0, count // 2 + 1, count * d, dtype, device)


def _frequencies(name, start, stop, length, dtype, device):
    cycles = _arange(start, stop, dtype=_float32 if dtype is None else dtype, device=device)
    frequencies = cycles / length
    if frequencies.dtype != cycles.dtype:
        raise ValueError(f"{name}: frequencies need a floating dtype, not {dtype}")
    return frequencies
