"""Differences, integrals, interpolation, convolution and polynomials."""

from .._arguments import is_complex
from .._tensor import Tensor
from ..backends.numpy import library as numpy
from ..ops.manipulation import sliced
from ._table import FUNCTIONS, enter, enter_functions
from ._tensors import axes_in, constant, flat, floating, gg, shape_along, tensor, tensors


def diff(a, n=1, axis=-1, prepend=None, append=None):
    a = tensor(a)
    if not n:  # then NumPy does not join them
        return a
    shape = tuple([1 if i == axis % a.ndim else m for i, m in enumerate(a.shape)])
    ends = [x if x is None else tensor(x, a) for x in (prepend, append)]
    ends = [gg.broadcast_to(x, shape) if x is not None and not x.ndim else x for x in ends]
    if gg.isdtype(gg.result_type(a, *[x for x in ends if x is not None]), "bool"):
        a, *ends = [x if x is None else gg.astype(x, gg.int8) for x in (a, *ends)]
        return gg.diff(a, *ends, axis=axis, n=n) % 2 != 0
    return gg.diff(a, *ends, axis=axis, n=n)


def ediff1d(ary, to_end=None, to_begin=None):
    pieces = to_begin, gg.diff(flat(ary)), to_end
    return gg.concat([flat(tensor(x, ary)) for x in pieces if x is not None])


def gradient(f, *varargs, axis=None, edge_order=1):
    f = floating(f, next((h for h in varargs if isinstance(h, Tensor)), None))
    axes = axes_in(axis, f.ndim)
    spacings = list(varargs) or [1.0]
    if len(spacings) == 1 and not getattr(spacings[0], "ndim", numpy.ndim(spacings[0])):
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    slopes = [_slope(f, h, place, edge_order) for h, place in zip(spacings, axes, strict=True)]
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _slope(f, h, axis, edge_order):
    """The derivative along an axis, by second-order differences inside."""
    n = f.shape[axis]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) "
            "elements are required."
        )
    h = h if isinstance(h, (int, float)) else floating(h, f)
    is_even = not getattr(h, "ndim", 0)
    if not is_even:
        if h.shape != (n,):
            raise ValueError(
                "when 1d, distances must match the length of the corresponding dimension"
            )
        h = gg.reshape(gg.diff(h), shape_along(axis, f.ndim))

    def step(start, stop=None):
        return h if is_even else sliced(h, axis, start, stop)

    def at(start, stop=None):
        return sliced(f, axis, start, stop)

    left, middle, right = at(0, -2), at(1, -1), at(2)
    before, after = step(0, -1), step(1)
    inside = (
        before / (after * (before + after)) * right
        + (after - before) / (before * after) * middle
        - after / (before * (before + after)) * left
    )
    if edge_order == 1:
        start = (at(1, 2) - at(0, 1)) / step(0, 1)
        stop = (at(-1) - at(-2, -1)) / step(-1)
    else:
        start = _edge(at(0, 1), at(1, 2), at(2, 3), step(0, 1), step(1, 2))
        stop = -_edge(at(-1), at(-2, -1), at(-3, -2), step(-1), step(-2, -1))
    return gg.concat([start, inside, stop], axis=axis)


def _edge(f0, f1, f2, h1, h2):
    """The slope at the first of three values, which are h1 and h2 apart."""
    whole = h1 + h2
    return -(h1 + whole) / (h1 * whole) * f0 + whole / (h1 * h2) * f1 - h1 / (h2 * whole) * f2


def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = floating(y, x if isinstance(x, Tensor) else None)
    if x is None:
        width = dx
    else:
        x = tensor(x, y)
        width = gg.diff(x, axis=axis if x.ndim > 1 else -1)
        if x.ndim == 1:
            width = gg.reshape(width, shape_along(axis, y.ndim))
    return gg.sum((sliced(y, axis, 1, None) + sliced(y, axis, None, -1)) / 2 * width, axis=axis)


def interp(x, xp, fp, left=None, right=None, period=None):
    beyond = [y for y in (left, right) if y is not None]
    x, xp, fp = map(floating, tensors(x, xp, fp, *beyond)[:3])
    if xp.ndim != 1 or fp.shape != xp.shape or not xp.size:
        raise ValueError("fp and xp are not of the same length.")
    if period is not None:
        left = right = None
        period = abs(period)
        x, xp = gg.remainder(x, period), gg.remainder(xp, period)
        order = gg.argsort(xp)
        xp, fp = gg.take(xp, order), gg.take(fp, order)
        xp = gg.concat([xp[-1:] - period, xp, xp[:1] + period])
        fp = gg.concat([fp[-1:], fp, fp[:1]])
    if xp.size == 1:
        inside = gg.broadcast_to(fp[0], x.shape)
    else:
        places = flat(x)
        above = gg.clip(gg.searchsorted(xp, places, side="right"), 1, xp.size - 1)
        x1, f1 = gg.take(xp, above - 1), gg.take(fp, above - 1)
        x2, f2 = gg.take(xp, above), gg.take(fp, above)
        inside = gg.reshape(f1 + (f2 - f1) / (x2 - x1) * (places - x1), x.shape)
    low = fp[0] if left is None else tensor(left, fp)
    high = fp[-1] if right is None else tensor(right, fp)
    return gg.where(x < xp[0], low, gg.where(x > xp[-1], high, inside))


def _full_convolution(a, b):
    """The sums of products of two vectors, ``(n + m - 1,)``."""
    a, b = tensors(a, b)
    if a.ndim > 1 or b.ndim > 1 or not a.size or not b.size:
        raise ValueError("convolve: needs two vectors with elements")
    a, b = flat(a), flat(b)
    a, b = (b, a) if b.size > a.size else (a, b)
    return gg.flip(b) @ gg.sliding_windows(a, size=(b.size,), padding=b.size - 1)


def convolve(a, v, mode="full"):
    a, v = tensors(a, v)
    return _part(_full_convolution(a, v), *sorted([a.size, v.size]), mode)


def _part(full, shorter, longer, mode):
    if mode == "full":
        return full
    if mode not in ("same", "valid"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full', not {mode!r}")
    length = longer if mode == "same" else longer - shorter + 1
    start = (full.size - length) // 2
    return full[start : start + length]


def correlate(a, v, mode="valid"):
    a, v = tensors(a, v)
    v = gg.conj(v) if is_complex(v) else v
    full = _full_convolution(a, gg.flip(v))
    if mode == "same" and v.size > a.size:
        start = a.size // 2
        return full[start : start + v.size]
    return _part(full, *sorted([a.size, v.size]), mode)


# Polynomials


enter({"polymul": lambda a1, a2: _full_convolution(a1, a2)})


def polyval(p, x):
    p, x = tensors(p, x)
    value = gg.zeros_like(x)
    for coefficient in gg.unstack(p):
        value = value * x + coefficient
    return value


def polyadd(a1, a2):
    a1, a2 = [flat(a) if not a.ndim else a for a in tensors(a1, a2)]
    n = max(a1.size, a2.size)
    return gg.pad(a1, ((n - a1.size, 0),)) + gg.pad(a2, ((n - a2.size, 0),))


def polysub(a1, a2):
    a1, a2 = tensors(a1, a2)
    return polyadd(a1, -a2)


def polyder(p, m=1):
    p = tensor(p)
    for _ in range(m):
        p = p[:-1] * constant(numpy.arange(p.size - 1, 0, -1), p, p.dtype)
    return p


def polyint(p, m=1, k=None):
    p = floating(p)
    constants = gg.astype(gg.broadcast_to(flat(tensor(0.0 if k is None else k, p)), (m,)), p.dtype)
    for i in range(m):
        terms = p / constant(numpy.arange(p.size, 0, -1), p, p.dtype)
        p = gg.concat([terms, constants[i : i + 1]])
    return p


def polyfit(x, y, deg, rcond=None, *, w=None):
    x, y, w = tensors(floating(x), y, 1.0 if w is None else w)
    if x.ndim != 1 or y.ndim not in (1, 2) or y.shape[0] != x.shape[0] or not x.size:
        raise TypeError(f"polyfit: needs x (n,) and y (n,) or (n, k), not {x.shape} and {y.shape}")
    y, w = floating(y), gg.broadcast_to(floating(w, x), x.shape)
    powers = FUNCTIONS["vander"](x, deg + 1) * w[:, None]
    # Of columns of the same length the solution is more exact.
    scale = gg.sqrt(gg.sum(powers * powers, axis=0))
    rtol = x.size * gg.finfo(x.dtype).eps if rcond is None else rcond
    weighted = y * (w if y.ndim == 1 else w[:, None])
    solution = gg.linalg.pinv(powers / scale, rtol=rtol) @ weighted
    return solution / (scale if y.ndim == 1 else scale[:, None])


enter_functions(globals())
