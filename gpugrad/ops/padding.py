"""Padding: elements added at the ends of axes."""

from operator import index

from .._arguments import one_of, require
from ..autograd.operation import composite, op
from ..backends import backend_of
from .indexing import take


@composite
def pad(x, /, pad_width, mode="constant", *, constant_values=0.0):
    """``x`` with elements added at the ends of its axes.

    pad_width: the number of elements at each end, an int; ``(before, after)`` for all axes; or a
        pair for each axis.
    mode: ``"constant"`` for the number ``constant_values``; ``"edge"`` to repeat the last element;
        ``"reflect"`` or ``"symmetric"`` to go back, without or with repeating the last
        element; ``"wrap"`` to begin again at the other end.

    This is NumPy's function; that of PyTorch is ``nn.functional.pad``. Raises ValueError for
    another mode, for widths that do not fit, and for an axis without elements to repeat.
    """
    widths = _widths(pad_width, len(x.shape))
    if mode == "constant":
        return _pad(x, widths=widths, value=constant_values)
    one_of("pad: mode", mode, ("constant", *_PLACES))
    like = getattr(x, "_like", x)
    backend = backend_of[type(like)]
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        if not before and not after:
            continue
        if not n:
            raise ValueError(f"pad: axis {axis} has no elements to repeat, for mode={mode!r}")
        xp = backend.xp
        with backend.scope(like):
            places = backend.create("arange", -before, n + after, dtype=xp.int64, like=like)
            places = _PLACES[mode](xp, places, n)
        x = take(x, places, axis=axis)
    return x


# For each mode of `pad`, the places in 0 to n - 1 whose elements are copied to the places ``i``.
_PLACES = {
    "edge": lambda xp, i, n: xp.clip(i, 0, n - 1),
    "reflect": lambda xp, i, n: xp.minimum(i % max(2 * n - 2, 1), -i % max(2 * n - 2, 1)),
    "symmetric": lambda xp, i, n: xp.minimum(i % (2 * n), (-1 - i) % (2 * n)),
    "wrap": lambda xp, i, n: i % n,
}


def _widths(pad_width, ndim):
    """A pair of ints for each axis."""
    given = pad_width if isinstance(pad_width, (tuple, list)) else (pad_width,)
    if not any(isinstance(pair, (tuple, list)) for pair in given):
        given = (given,)
    pairs = [tuple(map(index, pair)) for pair in given]
    pairs = [pair * 2 if len(pair) == 1 else pair for pair in pairs]
    pairs = pairs * ndim if len(pairs) == 1 else pairs
    fits = len(pairs) == ndim and all(len(pair) == 2 and min(pair) >= 0 for pair in pairs)
    what = f"pad: pad_width must be an int of at least 0, a pair, or a pair for each of {ndim} axes"
    require(fits, what, pad_width)
    return tuple(pairs)


def _inside(shape, widths):
    """The key that selects the original elements in the padded array, and its shape."""
    key = [slice(before, before + n) for n, (before, _) in zip(shape, widths, strict=True)]
    padded = [n + before + after for n, (before, after) in zip(shape, widths, strict=True)]
    return tuple(key), tuple(padded)


@op
def _pad(xp, x, /, *, widths, value):
    key, shape = _inside(x.shape, widths)
    if not value:
        return xp.scatter_add(x, shape, key)
    out = backend_of[type(x)].create("full", shape, value, dtype=x.dtype, like=x)
    out[key] = x
    return out


_pad.vjp(x=lambda xp, g, x_shape, widths: g[_inside(x_shape, widths)[0]])
_pad.vmap(lambda call, batched, x, *, widths, value: call(x, widths=((0, 0), *widths), value=value))
