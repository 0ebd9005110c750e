"""Discrete Fourier transforms, by the array library.

``axis`` or ``axes`` are transformed, by default the last axis or all of them. ``n`` or ``s``
are the lengths there: the input is cut off, or padded with zeros, at its end. ``norm`` says
which direction is divided by the number of elements, ``"backward"`` or ``"forward"``; with
``"ortho"`` each is divided by its square root.

The dtype's precision is kept, but complex results of float16 are complex64. A real input
where a complex one is due is one without imaginary part.

The matrix of a transform is symmetric: its VJP is the same transform of the cotangent, with
what was cut off padded again and what was padded cut off. Of those of half a spectrum,
`rfft` and `hfft` are each other's transpose, and so are `irfft` and `ihfft`, up to the
weight of the frequencies that stand for two.
"""

from ..autograd.operation import op
from ..batched import shifted
from .manipulation import over_axis


def _restore(xp, g, shape):
    """The cotangent of an input of ``shape`` from that of what it was cut off or padded to."""
    if g.shape == shape:
        return g
    key = tuple([slice(min(n, m)) for n, m in zip(g.shape, shape, strict=True)])
    g = g[key]
    return g if g.shape == shape else xp.scatter_add(g, shape, key)


def _weigh(xp, g, weight, n, axis):
    """Half a spectrum of ``n`` frequencies, with those times ``weight`` that stand for two."""
    key = [slice(None)] * len(g.shape)
    key[axis] = slice(1, (n + 1) // 2)
    key = tuple(key)
    return xp.setitem(g, g[key] * weight, key)


def _axes(shape, s, axes):
    """The transformed axes; ValueError if one is named twice."""
    if axes is None:
        return tuple(range(0 if s is None else len(shape) - len(s), len(shape)))
    if len({a % max(len(shape), 1) for a in axes}) < len(axes):
        raise ValueError(f"each axis can be transformed once, but axes is {axes}")
    return tuple(axes)


def _along_axes_of_batch(call, batched, x, s, axes, norm):
    """The rule in `vmap` of transforms along several axes."""
    ndim = x.ndim - 1
    axes = _axes(x.shape[1:], s, axes)
    return call(x, s=s, axes=shifted(call.op, axes, ndim), norm=norm)


def _of_real(xp, out, x):
    """A real result in the dtype of ``x`` if that is real too: libraries make float16 float32."""
    return xp.astype(out, x.dtype, copy=False) if xp.isdtype(x.dtype, "real floating") else out


@op(discards=True)
def fft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The discrete Fourier transform along an axis, complex."""
    return xp.fft.fft(x, n=n, axis=axis, norm=norm)


fft.vjp(
    x=lambda xp, g, x_shape, axis, norm: _restore(xp, xp.fft.fft(g, axis=axis, norm=norm), x_shape)
)
fft.vmap(over_axis)


@op(discards=True)
def ifft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `fft`."""
    return xp.fft.ifft(x, n=n, axis=axis, norm=norm)


ifft.vjp(
    x=lambda xp, g, x_shape, axis, norm: _restore(xp, xp.fft.ifft(g, axis=axis, norm=norm), x_shape)
)
ifft.vmap(over_axis)


@op(discards=True)
def fftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """The discrete Fourier transform along several axes, complex."""
    return xp.fft.fftn(x, s=s, axes=_axes(x.shape, s, axes), norm=norm)


def _fftn_vjp(xp, g, x_shape, s, axes, norm):
    g = xp.fft.fftn(g, axes=_axes(x_shape, s, axes), norm=norm)
    return _restore(xp, g, x_shape)


fftn.vjp(x=_fftn_vjp)
fftn.vmap(_along_axes_of_batch)


@op(discards=True)
def ifftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of `fftn`."""
    return xp.fft.ifftn(x, s=s, axes=_axes(x.shape, s, axes), norm=norm)


def _ifftn_vjp(xp, g, x_shape, s, axes, norm):
    g = xp.fft.ifftn(g, axes=_axes(x_shape, s, axes), norm=norm)
    return _restore(xp, g, x_shape)


ifftn.vjp(x=_ifftn_vjp)
ifftn.vmap(_along_axes_of_batch)


def _check_real(xp, x, instead):
    if xp.isdtype(x.dtype, "complex floating"):
        raise TypeError(f"it takes real numbers; use {instead}")


# Of a real signal, half the spectrum; n is the length of the signal.


@op(discards=True)
def rfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The first ``n // 2 + 1`` frequencies of `fft` of real numbers; the others mirror them."""
    _check_real(xp, x, "fft")
    return xp.fft.rfft(x, n=n, axis=axis, norm=norm)


def _rfft_vjp(xp, g, x_shape, n, axis, norm):
    n = x_shape[axis] if n is None else n
    g = xp.fft.hfft(_weigh(xp, g, 0.5, n, axis), n=n, axis=axis, norm=norm)
    return _restore(xp, g, x_shape)


rfft.vjp(x=_rfft_vjp)
rfft.vmap(over_axis)


@op(discards=True)
def irfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `rfft`: ``n`` real numbers, by default ``2 * (x.shape[axis] - 1)``.

    The imaginary parts of the first and, for even ``n``, the middle frequency have no effect.
    """
    return _of_real(xp, xp.fft.irfft(x, n=n, axis=axis, norm=norm), x)


def _irfft_vjp(xp, g, x_shape, axis, norm):
    n = g.shape[axis]
    g = _weigh(xp, xp.fft.ihfft(g, axis=axis, norm=norm), 2.0, n, axis)
    return _restore(xp, g, x_shape)


irfft.vjp(x=_irfft_vjp)
irfft.vmap(over_axis)


@op(discards=True)
def rfftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """`rfft` along the last of the axes, then `fftn` along the others."""
    _check_real(xp, x, "fftn")
    return xp.fft.rfftn(x, s=s, axes=_axes(x.shape, s, axes), norm=norm)


def _rfftn_vjp(xp, g, x_shape, s, axes, norm):
    *others, axis = _axes(x_shape, s, axes)
    n = x_shape[axis] if s is None or s[-1] == -1 else s[-1]
    if others:
        g = xp.fft.fftn(g, axes=others, norm=norm)
    g = xp.fft.hfft(_weigh(xp, g, 0.5, n, axis), n=n, axis=axis, norm=norm)
    return _restore(xp, g, x_shape)


rfftn.vjp(x=_rfftn_vjp)
rfftn.vmap(_along_axes_of_batch)


@op(discards=True)
def irfftn(xp, x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of `rfftn`: real, by default of ``2 * (n - 1)`` elements along the last axis."""
    return _of_real(xp, xp.fft.irfftn(x, s=s, axes=_axes(x.shape, s, axes), norm=norm), x)


def _irfftn_vjp(xp, g, x_shape, s, axes, norm):
    *others, axis = _axes(x_shape, s, axes)
    n = g.shape[axis]
    g = _weigh(xp, xp.fft.ihfft(g, axis=axis, norm=norm), 2.0, n, axis)
    if others:
        g = xp.fft.ifftn(g, axes=others, norm=norm)
    return _restore(xp, g, x_shape)


irfftn.vjp(x=_irfftn_vjp)
irfftn.vmap(_along_axes_of_batch)


@op(discards=True)
def hfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The real spectrum, of ``n`` frequencies, of a signal whose second half mirrors its first.

    By default ``n`` is ``2 * (x.shape[axis] - 1)``. The imaginary parts of the first and, for
    even ``n``, the middle element have no effect.
    """
    return _of_real(xp, xp.fft.hfft(x, n=n, axis=axis, norm=norm), x)


def _hfft_vjp(xp, g, x_shape, axis, norm):
    n = g.shape[axis]
    g = _weigh(xp, xp.fft.rfft(g, axis=axis, norm=norm), 2.0, n, axis)
    return _restore(xp, g, x_shape)


hfft.vjp(x=_hfft_vjp)
hfft.vmap(over_axis)


@op(discards=True)
def ihfft(xp, x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of `hfft`: the first ``n // 2 + 1`` elements of the signal, complex."""
    _check_real(xp, x, "ifft")
    return xp.fft.ihfft(x, n=n, axis=axis, norm=norm)


def _ihfft_vjp(xp, g, x_shape, n, axis, norm):
    n = x_shape[axis] if n is None else n
    g = xp.fft.irfft(_weigh(xp, g, 0.5, n, axis), n=n, axis=axis, norm=norm)
    return _restore(xp, g, x_shape)


ihfft.vjp(x=_ihfft_vjp)
ihfft.vmap(over_axis)


def _shift(xp, x, axes, direction):
    if not isinstance(axes, (tuple, list)):
        axes = range(len(x.shape)) if axes is None else (axes,)
    return xp.roll(x, tuple([direction * (x.shape[a] // 2) for a in axes]), axis=tuple(axes))


def _shift_of_batch(call, batched, x, axes):
    return call(x, axes=shifted(call.op, axes, x.ndim - 1))


@op
def fftshift(xp, x, /, *, axes=None):
    """A spectrum with frequency 0 moved from the start of all or some axes to their middle."""
    return _shift(xp, x, axes, 1)


fftshift.vjp(x=lambda xp, g, axes: _shift(xp, g, axes, -1))
fftshift.vmap(_shift_of_batch)


@op
def ifftshift(xp, x, /, *, axes=None):
    """The inverse of `fftshift`; it differs from it where the length is odd."""
    return _shift(xp, x, axes, -1)


ifftshift.vjp(x=lambda xp, g, axes: _shift(xp, g, axes, 1))
ifftshift.vmap(_shift_of_batch)
