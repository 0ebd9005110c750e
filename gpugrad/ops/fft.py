"""Discrete Fourier transforms, computed by the array library.

The transform runs along ``axis`` or ``axes``, by default the last axis or all of them. ``n`` or
``s`` gives the lengths there: the input is truncated, or padded with zeros, at its end. ``norm``
says which direction is divided by the number of elements, ``"backward"`` or ``"forward"``; with
``"ortho"``, each direction is divided by the square root of that number.

Transforms keep the precision of the dtype, except that complex results for float16 are complex64.
Where a complex input is expected, a real one counts as having imaginary part 0.

The matrix of a full transform is symmetric, so its VJP is the same transform of the cotangent,
which is then padded where the input was truncated and truncated where it was padded. Among the
transforms with half a spectrum, `rfft` and `hfft` are transposes of each other, and so are
`irfft` and `ihfft`, up to a factor for each frequency that also stands for its mirror image.
"""

from .._arguments import axis_of
from .._batched import shifted
from ..autograd.operation import composite, op
from .by_name import library_function
from .manipulation import normalized_axes, roll, vmap_over_axis


def _resize(xp, g, shape):
    """``g`` truncated, or padded with zeros, at its end to ``shape``."""
    if g.shape == shape:
        return g
    key = tuple([slice(min(n, m)) for n, m in zip(g.shape, shape, strict=True)])
    g = g[key]
    return g if g.shape == shape else xp.scatter_add(g, shape, key)


def _scale_mirrored(xp, g, weight, n, axis):
    """Half a spectrum of ``n`` frequencies; those that have a mirror image are multiplied."""
    key = (slice(None),) * (axis % len(g.shape)) + (slice(1, (n + 1) // 2), ...)
    return xp.setitem(g, g[key] * weight, key)


def _fft_axes(shape, s, axes):
    """The transformed axes as a tuple of non-negative ints. Raises IndexError or ValueError."""
    if axes is None:
        return tuple(range(0 if s is None else len(shape) - len(s), len(shape)))
    return normalized_axes(tuple(axes), len(shape))


def _vmap_along_axes(call, batched, x, s, axes, norm):
    """Batching rule for transforms along several axes."""
    axes = _fft_axes(x.shape[1:], s, axes) if axes is None else axes
    axes = shifted(call.op, tuple(axes), x.ndim - 1)
    return call(x, s=s, axes=axes, norm=norm)


def _in_real_dtype(xp, out, x):
    """A real result in the dtype of ``x`` if that is real: libraries turn float16 into float32."""
    return xp.astype(out, x.dtype, copy=False) if xp.isdtype(x.dtype, "real floating") else out


def _by(name):
    """A transform's VJP, which applies the transform ``name`` to the cotangent."""

    def along_axis(xp, g, x_shape, axis, norm):
        return _resize(xp, getattr(xp.fft, name)(g, axis=axis, norm=norm), x_shape)

    def along_axes(xp, g, x_shape, s, axes, norm):
        axes = _fft_axes(x_shape, s, axes)
        return _resize(xp, getattr(xp.fft, name)(g, axes=axes, norm=norm), x_shape)

    return along_axes if name.endswith("n") else along_axis


@library_function("xp.fft", discards=True, vmap=vmap_over_axis)
def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The discrete Fourier transform along an axis, complex: ``(..., m) -> (..., n)``.

    Element k is the sum of ``x[t] * exp(-2j * pi * k * t / n)`` over all t.

    n: the length, by default m: the input is truncated, or padded with zeros, at its end.
    norm: ``"backward"``, ``"ortho"`` or ``"forward"``: the sum is divided by 1, ``sqrt(n)`` or n.
    """


fft.vjp(x=_by("fft"))


@library_function("xp.fft", discards=True, vmap=vmap_over_axis)
def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `fft`, complex: ``(..., m) -> (..., n)``.

    Element k is the sum of ``x[t] * exp(2j * pi * k * t / n) / n`` over all t. For ``n`` see `fft`.

    norm: ``"backward"``, ``"ortho"`` or ``"forward"``: the divisor is n, ``sqrt(n)`` or 1.
    """


ifft.vjp(x=_by("ifft"))


@op(discards=True, vmap=_vmap_along_axes)
def fftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """The discrete Fourier transform along several axes, complex: `fft` along each of them.

    s: the lengths along ``axes``, as ``n`` is of `fft`; by default those of the input.
    axes: by default all, or with ``s`` as many of the last ones as it has lengths.
    norm: as of `fft`, with the product of the lengths in place of n.
    """
    return xp.fft.fftn(x, s=s, axes=_fft_axes(x.shape, s, axes), norm=norm)


fftn.vjp(x=_by("fftn"))


@op(discards=True, vmap=_vmap_along_axes)
def ifftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of `fftn`, complex: `ifft` along each of the axes. The arguments are the same."""
    return xp.fft.ifftn(x, s=s, axes=_fft_axes(x.shape, s, axes), norm=norm)


ifftn.vjp(x=_by("ifftn"))


def _real(xp, x, instead):
    """Return ``x``; raise TypeError if it is complex."""
    if xp.isdtype(x.dtype, "complex floating"):
        raise TypeError(f"the input must be real; use {instead}")
    return x


# Transforms with half a spectrum; n is the length of the whole one, and of the signal.


def _from_half(name):
    """The VJP of a transform to half a spectrum, which applies the transform ``name``."""

    def rule(xp, g, x_shape, n, axis, norm):
        n = x_shape[axis] if n is None else n
        g = _scale_mirrored(xp, g, 0.5, n, axis)
        return _resize(xp, getattr(xp.fft, name)(g, n=n, axis=axis, norm=norm), x_shape)

    return rule


def _to_half(name):
    """The VJP of a transform from half a spectrum, which applies the transform ``name``."""

    def rule(xp, g, x_shape, axis, norm):
        c = getattr(xp.fft, name)(g, axis=axis, norm=norm)
        return _resize(xp, _scale_mirrored(xp, c, 2.0, g.shape[axis], axis), x_shape)

    return rule


@op(discards=True, vmap=vmap_over_axis)
def rfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The first ``n // 2 + 1`` frequencies of the `fft` of real numbers; the rest mirror them.

    ``(..., m) -> (..., n // 2 + 1)``, complex. The arguments are those of `fft`. Raises TypeError
    for complex numbers.
    """
    return xp.fft.rfft(_real(xp, x, "fft"), n=n, axis=axis, norm=norm)


_rfft_vjp = _from_half("hfft")
rfft.vjp(x=_rfft_vjp)


@op(discards=True, vmap=vmap_over_axis)
def irfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `rfft`: ``n`` real numbers, by default ``2 * (x.shape[axis] - 1)``.

    ``(..., m) -> (..., n)``. The imaginary parts at frequency 0 and, for even ``n``, at ``n / 2``
    have no effect.
    """
    return _in_real_dtype(xp, xp.fft.irfft(x, n=n, axis=axis, norm=norm), x)


irfft.vjp(x=_to_half("ihfft"))


@op(discards=True, vmap=_vmap_along_axes)
def rfftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """`rfft` along the last of the axes, then `fftn` along the others.

    The last of the axes gets ``n // 2 + 1`` elements, for its length n in ``s`` or in the input.
    The arguments are those of `fftn`. Raises TypeError for complex numbers.
    """
    return xp.fft.rfftn(_real(xp, x, "fftn"), s=s, axes=_fft_axes(x.shape, s, axes), norm=norm)


def _rfftn_vjp(xp, g, x_shape, s, axes, norm):
    *others, axis = _fft_axes(x_shape, s, axes)
    if others:
        g = xp.fft.fftn(g, axes=others, norm=norm)
    return _rfft_vjp(xp, g, x_shape, None if s is None or s[-1] == -1 else s[-1], axis, norm)


rfftn.vjp(x=_rfftn_vjp)


@op(discards=True, vmap=_vmap_along_axes)
def irfftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of `rfftn`: real numbers.

    By default, their length along the last of the axes is ``2 * (x.shape[axis] - 1)``.
    """
    return _in_real_dtype(xp, xp.fft.irfftn(x, s=s, axes=_fft_axes(x.shape, s, axes), norm=norm), x)


def _irfftn_vjp(xp, g, x_shape, s, axes, norm):
    *others, axis = _fft_axes(x_shape, s, axes)
    g = _scale_mirrored(xp, xp.fft.ihfft(g, axis=axis, norm=norm), 2.0, g.shape[axis], axis)
    if others:
        g = xp.fft.ifftn(g, axes=others, norm=norm)
    return _resize(xp, g, x_shape)


irfftn.vjp(x=_irfftn_vjp)


@op(discards=True, vmap=vmap_over_axis)
def hfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The real spectrum of a signal whose second half mirrors its first, given that first half.

    ``(..., m) -> (..., n)``. It has ``n`` frequencies, by default ``2 * (x.shape[axis] - 1)``. The
    imaginary parts of element 0 and, for even ``n``, of element ``n / 2`` have no effect.
    """
    return _in_real_dtype(xp, xp.fft.hfft(x, n=n, axis=axis, norm=norm), x)


hfft.vjp(x=_to_half("rfft"))


@op(discards=True, vmap=vmap_over_axis)
def ihfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `hfft`: the first ``n // 2 + 1`` elements of the signal, complex.

    ``(..., m) -> (..., n // 2 + 1)``: the conjugates of `rfft`, with the divisors of `ifft`. Raises
    TypeError for complex numbers.
    """
    return xp.fft.ihfft(_real(xp, x, "ifft"), n=n, axis=axis, norm=norm)


ihfft.vjp(x=_from_half("irfft"))


def _shift(x, axes, direction):
    if not isinstance(axes, (tuple, list)):
        axes = range(len(x.shape)) if axes is None else (axes,)
    axes = [axis_of("fftshift", a, len(x.shape)) for a in axes]
    return roll(x, tuple([direction * (x.shape[a] // 2) for a in axes]), axis=tuple(axes))


@composite
def fftshift(x, /, *, axes=None):
    """Move frequency 0 from the start to the middle of each of ``axes``, by default all axes.

    The shape stays, ``(...) -> (...)``.
    """
    return _shift(x, axes, 1)


@composite
def ifftshift(x, /, *, axes=None):
    """The inverse of `fftshift`, ``(...) -> (...)``; the two differ where the length is odd."""
    return _shift(x, axes, -1)
