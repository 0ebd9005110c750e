# Written by tests/write_stubs.py.

from collections.abc import Sequence
from typing import Any, SupportsIndex

from ._tensor import Tensor as Tensor
from ._typing import Array

def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along an axis, complex."""

def fftfreq(
    n: SupportsIndex, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None
) -> Tensor:
    """The frequencies of `fft` of ``n`` samples ``d`` apart, in cycles per unit of ``d``.

    >>> import gpugrad
    >>> gpugrad.fft.fftfreq(5, d=0.1)
    tensor([ 0.,  2.,  4., -4., -2.])
    """

def fftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The discrete Fourier transform along several axes, complex."""

def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Move frequency 0 from the start to the middle of each of ``axes``, by default all axes."""

def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real spectrum of a signal whose second half mirrors its first, given that first half.

    It has ``n`` frequencies, by default ``2 * (x.shape[axis] - 1)``. The imaginary parts of
    element 0 and, for even ``n``, of element ``n / 2`` have no effect.
    """

def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`."""

def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The inverse of `fftn`."""

def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`; the two differ where the length is odd."""

def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`: the first ``n // 2 + 1`` elements of the signal, complex."""

def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: ``n`` real numbers, by default ``2 * (x.shape[axis] - 1)``.

    The imaginary parts at frequency 0 and, for even ``n``, at ``n / 2`` have no effect.
    """

def irfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The inverse of `rfftn`: real numbers.

    By default, their length along the last of the axes is ``2 * (x.shape[axis] - 1)``.
    """

def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The first ``n // 2 + 1`` frequencies of the `fft` of real numbers; the rest mirror them."""

def rfftfreq(
    n: SupportsIndex, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None
) -> Tensor:
    """The frequencies of `rfft` of ``n`` samples ``d`` apart, in cycles per unit of ``d``.

    >>> import gpugrad
    >>> gpugrad.fft.rfftfreq(5, d=0.1)
    tensor([0., 2., 4.])
    """

def rfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """`rfft` along the last of the axes, then `fftn` along the others."""
