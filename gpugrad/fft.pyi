# Written by tests/write_stubs.py.

from collections.abc import Sequence
from typing import Any, SupportsIndex

from ._tensor import Tensor as Tensor
from ._typing import Array

def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along an axis, complex: ``(..., m) -> (..., n)``.

    Element k is the sum of ``x[t] * exp(-2j * pi * k * t / n)`` over all t.

    n: the length, by default m: the input is truncated, or padded with zeros, at its end.
    norm: ``"backward"``, ``"ortho"`` or ``"forward"``: the sum is divided by 1, ``sqrt(n)`` or n.
    """

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
    """The discrete Fourier transform along several axes, complex: `fft` along each of them.

    s: the lengths along ``axes``, as ``n`` is of `fft`; by default those of the input.
    axes: by default all, or with ``s`` as many of the last ones as it has lengths.
    norm: as of `fft`, with the product of the lengths in place of n.
    """

def fftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """Move frequency 0 from the start to the middle of each of ``axes``, by default all axes.

    The shape stays, ``(...) -> (...)``.
    """

def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The real spectrum of a signal whose second half mirrors its first, given that first half.

    ``(..., m) -> (..., n)``. It has ``n`` frequencies, by default ``2 * (x.shape[axis] - 1)``. The
    imaginary parts of element 0 and, for even ``n``, of element ``n / 2`` have no effect.
    """

def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`, complex: ``(..., m) -> (..., n)``.

    Element k is the sum of ``x[t] * exp(2j * pi * k * t / n) / n`` over all t. For ``n`` see `fft`.

    norm: ``"backward"``, ``"ortho"`` or ``"forward"``: the divisor is n, ``sqrt(n)`` or 1.
    """

def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str = "backward",
) -> Tensor:
    """The inverse of `fftn`, complex: `ifft` along each of the axes. The arguments are the same."""

def ifftshift(x: Array, /, *, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`, ``(...) -> (...)``; the two differ where the length is odd."""

def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`: the first ``n // 2 + 1`` elements of the signal, complex.

    ``(..., m) -> (..., n // 2 + 1)``: the conjugates of `rfft`, with the divisors of `ifft`. Raises
    TypeError for complex numbers.
    """

def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Tensor:
    """The inverse of `rfft`: ``n`` real numbers, by default ``2 * (x.shape[axis] - 1)``.

    ``(..., m) -> (..., n)``. The imaginary parts at frequency 0 and, for even ``n``, at ``n / 2``
    have no effect.
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
    """The first ``n // 2 + 1`` frequencies of the `fft` of real numbers; the rest mirror them.

    ``(..., m) -> (..., n // 2 + 1)``, complex. The arguments are those of `fft`. Raises TypeError
    for complex numbers.
    """

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
    """`rfft` along the last of the axes, then `fftn` along the others.

    The last of the axes gets ``n // 2 + 1`` elements, for its length n in ``s`` or in the input.
    The arguments are those of `fftn`. Raises TypeError for complex numbers.
    """
