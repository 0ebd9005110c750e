"""Convolution, correlation and linear filters."""

from collections.abc import Sequence
from typing import Any

from .._arguments import axis_of, is_complex, one_of, require
from .._foreign_names import explain_names
from .._tensor import Tensor
from ..autograd.operation import op
from ..backends import backend_of
from ..ops import fft
from ._tensors import call_in_rule, floating, ops

__all__ = "convolve correlate fftconvolve lfilter".split()
explain_names(__name__)

_MOST_IN_A_DIRECT_FILTER = 64  # elements; larger ones are faster by Fourier transforms


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """The convolution of two arrays with the same number of axes.

    mode: ``"full"``; ``"same"``, the middle part of the shape of ``in1``; or ``"valid"``, the part
        for which nothing beyond the ends is needed. For this one of them must be at least as long
        as the other along every axis.
    method: ``"direct"`` for sums of products, ``"fft"`` for `fftconvolve`, ``"auto"`` for whichever
        is likely to be faster.
    """
    one_of("convolve: method", method, ("auto", "direct", "fft"))
    x, y = _two("convolve", in1, in2)
    if method == "fft" or (method == "auto" and min(x.size, y.size) > _MOST_IN_A_DIRECT_FILTER):
        return fftconvolve(x, y, mode).astype(x.dtype, copy=False)
    require(x.size and y.size, "convolve: in1 and in2 must have elements", (x.shape, y.shape))
    if not x.ndim:
        return x * y
    long, short = (x, y) if x.size >= y.size else (y, x)
    ends, kernel = tuple([n - 1 for n in short.shape]), ops.flip(short)
    full = ops.convolution(long[None, None, ...], kernel[None, None, ...], padding=ends)
    return _part("convolve", full[0, 0, ...], x.shape, y.shape, mode, range(x.ndim))


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Tensor:
    """The cross-correlation: `convolve` with the conjugate of ``in2`` in reverse order.

    Of vectors, the sums ``sum(in1[i + k] * conj(in2[i]))`` for all k. ``mode`` and ``method`` are
    those of `convolve`. Raises ValueError for arrays with different numbers of axes.
    """
    x, y = _two("correlate", in1, in2)
    return convolve(x, ops.conj(ops.flip(y)), mode, method)


def fftconvolve(
    in1: Any, in2: Any, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Tensor:
    """The convolution of two arrays by Fourier transforms.

    mode: as for `convolve`.
    axes: the axes to convolve along, by default all; along the others the arrays broadcast.
    """
    x, y = _two("fftconvolve", in1, in2)
    chosen = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    chosen = [axis_of("fftconvolve: axes", axis, x.ndim) for axis in chosen]
    if not chosen:
        return x * y
    shape = [x.shape[axis] + y.shape[axis] - 1 for axis in chosen]
    there, back = (fft.fftn, fft.ifftn) if is_complex(x) else (fft.rfftn, fft.irfftn)
    product = there(x, s=shape, axes=chosen) * there(y, s=shape, axes=chosen)
    return _part("fftconvolve", back(product, s=shape, axes=chosen), x.shape, y.shape, mode, chosen)


def _two(name, in1, in2):
    x, y = floating(in1, in2)
    if x.ndim != y.ndim:
        raise ValueError(
            f"{name}: in1 and in2 must have the same number of axes, not {x.shape} and {y.shape}"
        )
    return x, y


def _part(name, full, shape1, shape2, mode, axes):
    """The part of a full convolution that ``mode`` asks for."""
    if one_of(f"{name}: mode", mode, ("full", "same", "valid")) == "full":
        return full
    key, differences = [slice(None)] * full.ndim, [shape1[i] - shape2[i] for i in axes]
    if mode == "valid" and min(differences) < 0 < max(differences):
        raise ValueError(
            f"{name}: for mode 'valid' one of {shape1} and {shape2} must be at least as long "
            f"as the other along every axis"
        )
    for axis, difference in zip(axes, differences, strict=True):
        length = shape1[axis] if mode == "same" else abs(difference) + 1
        start = (full.shape[axis] - length) // 2
        key[axis] = slice(start, start + length)
    return full[tuple(key)]


def lfilter(b: Any, a: Any, x: Any, axis: int = -1, zi: Any = None) -> Any:
    """Filter a signal by a rational transfer function, ``sum(a[k] y[n-k]) = sum(b[k] x[n-k])``.

    b, a: coefficients (p,), (q,); those of both are divided by ``a[0]``, which must not be 0.
    x: the signal, along ``axis``.
    zi: the state to begin with, as `scipy.signal.lfilter` takes it, of length ``max(p, q) - 1``
        along ``axis``; by default 0. If it is given, the result is ``(y, zf)`` with the last state.

    The recursive part is SciPy's function: for arrays on a GPU it goes through the host's memory.
    """
    b, a, x, *state = floating(b, a, x) if zi is None else floating(b, a, x, zi)
    if b.ndim != 1 or a.ndim != 1 or not (b.size and a.size and x.ndim):
        raise ValueError(
            f"lfilter: b and a must have 1 axis, and x at least 1, not {b.shape}, {a.shape}, "
            f"{x.shape}"
        )
    b, a, x = b / a[0], a / a[0], ops.moveaxis(x, axis, -1)
    n, order = x.shape[-1], max(a.size, b.size) - 1
    drive = _moving_sum(b, x)
    if state:
        first = ops.moveaxis(state[0], axis, -1)
        require(first.shape[-1] == order, f"lfilter: zi must have length {order}", first.shape)
        drive = drive + _fitted(first, n)
    y = _recursion(a, drive) if a.size > 1 and n else drive
    if not state:
        return ops.moveaxis(y, -1, axis)
    after = _moving_sum(b, _after(x, order)) - _moving_sum(a, _after(y, order))
    rest = after[..., n:] + _fitted(first[..., min(n, order) :], order)
    return ops.moveaxis(y, -1, axis), ops.moveaxis(rest, -1, axis)


def _after(x, count):
    """The signal, with zeros after it."""
    return ops.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)])


def _fitted(x, length):
    """The signal, cut or continued by zeros to a length."""
    kept = min(length, x.shape[-1])
    return _after(x[..., :kept], length - kept)


def _moving_sum(b, x):
    """``sum(b[k] x[n-k])`` along the last axis."""
    if not x.shape[-1]:
        return x
    before = ops.pad(x, [(0, 0)] * (x.ndim - 1) + [(b.size - 1, 0)])
    return ops.flip(b) @ ops.sliding_windows(before, size=(b.size,))


@op
def _recursion(xp, a, drive, /):
    """The solution of ``sum(a[k] y[n-k]) = drive[n]`` along the last axis."""
    from scipy.signal import lfilter

    backend = backend_of[type(drive)]
    coefficients, values = map(backend.to_numpy, (a, drive))
    y = lfilter([1.0], coefficients, values).astype(values.dtype, copy=False)
    return backend.asarray(y, device=backend.device(drive))


def _recursion_vjp(xp, g, a, out):
    """The cotangent of ``drive`` is ``g``, filtered from the end to the beginning."""
    back = xp.flip(call_in_rule(_recursion, xp, a, xp.flip(g, axis=-1)), axis=-1)
    delayed = xp.sliding_windows(out, size=(a.shape[0],), padding=((a.shape[0] - 1, 0),))
    products = xp.expand_dims(back, axis=-2) * delayed
    axes = (*range(products.ndim - 2), products.ndim - 1)
    return -xp.flip(xp.sum(products, axis=axes)), back


_recursion.vjp(joint=_recursion_vjp)
_recursion.vmap(lambda call, batched, a, drive: NotImplemented if batched[0] else call(a, drive))
