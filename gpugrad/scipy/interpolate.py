"""Interpolation in one dimension, differentiable by the points, the values and the places."""

import math
from typing import Any

from .. import linalg
from .._arguments import one_of
from .._creation import create
from .._foreign_names import explain_names
from .._tensor import Tensor
from ._tensors import floating, ops, values

__all__ = ["CubicSpline", "interp1d"]
explain_names(__name__)


def _points(name, x, y, axis):
    """The points ``(n,)`` and values ``(n, ...)`` as tensors."""
    x, y = floating(x, y)
    if x.ndim != 1 or not y.ndim or y.shape[axis] != x.size or x.size < 2:
        raise ValueError(
            f"{name}: x must be (n,) with n at least 2, and y of length n along axis {axis}, "
            f"not {x.shape} and {y.shape}"
        )
    return x, ops.moveaxis(y, axis, 0)


def _pieces(x, places):
    """The number of the interval that each of the places ``(m,)`` is in, or of the nearest one."""
    return ops.clip(ops.searchsorted(x, places, side="right") - 1, 0, x.size - 2)


def _column(x, like):
    """A tensor ``(n,)`` with axes after it, so that it broadcasts with ``like (n, ...)``."""
    return x.reshape(x.size, *[1] * (like.ndim - 1))


class interp1d:
    """The piecewise linear function through points, or their cubic spline: call it with places.

    x: the points ``(n,)``; they are sorted unless ``assume_sorted``.
    y: the values, along ``axis``.
    kind: ``"linear"``, or ``"cubic"`` for `CubicSpline`.
    bounds_error: whether a place outside the points raises ValueError, for which the places are
        read; by default it does unless ``fill_value`` is given. False uses ``fill_value``.
    fill_value: the result outside; a pair, for those below and above; or ``"extrapolate"``.
    copy: has no effect.

    The result of a call has the shape of ``y`` with that of the places instead of ``axis``.
    """

    def __init__(
        self, x: Any, y: Any, kind: str = "linear", axis: int = -1, copy: bool = True,
        bounds_error: bool | None = None, fill_value: Any = None, assume_sorted: bool = False,
    ) -> None:  # fmt: skip
        one_of("interp1d: kind", kind, ("linear", "cubic"))
        x, y = _points("interp1d", x, y, axis)
        if not assume_sorted:
            order = ops.argsort(x)
            x, y = ops.take(x, order), ops.take(y, order, axis=0)
        extrapolates = isinstance(fill_value, str)
        if extrapolates and (fill_value != "extrapolate" or bounds_error):
            raise ValueError(
                f"interp1d: fill_value {fill_value!r} with bounds_error {bounds_error}; it is a "
                f"number, a pair or 'extrapolate', and then there is no error"
            )
        self.x, self.y, self.axis = x, y, axis
        self._spline = CubicSpline(x, y) if kind == "cubic" else None
        self._checks = fill_value is None if bounds_error is None else bounds_error
        fill = math.nan if fill_value is None else fill_value
        self._fill = None if extrapolates else fill if isinstance(fill, tuple) else (fill, fill)

    def __call__(self, x: Any) -> Tensor:
        """The values at places of any shape."""
        places, points, y = floating(x, self.x, self.y)
        flat = places.reshape(places.size)
        below, above = flat < points[0], flat > points[-1]
        if self._checks and values(ops.any(below | above)).any():
            raise ValueError(
                "interp1d: a place is outside the points; give fill_value, or bounds_error=False"
            )
        if self._spline is None:
            piece = _pieces(points, flat)
            left, right = ops.take(points, piece), ops.take(points, piece + 1)
            first, second = ops.take(y, piece, axis=0), ops.take(y, piece + 1, axis=0)
            result = first + _column((flat - left) / (right - left), first) * (second - first)
        else:
            result = self._spline(flat)
        if self._fill is not None:
            low, high = floating(*self._fill, result)[:2]
            result = ops.where(_column(below, result), low, result)
            result = ops.where(_column(above, result), high, result)
        return _placed(result, places.shape, self.axis, self.y.ndim)


def _placed(result, shape, axis, ndim):
    """``(m, ...)`` with the first axis in the ``shape`` of the places, at the values' ``axis``."""
    result = result.reshape(*shape, *result.shape[1:])
    at = axis % ndim
    return ops.moveaxis(result, tuple(range(len(shape))), tuple(range(at, at + len(shape))))


class CubicSpline:
    """The cubic spline through points, with two continuous derivatives: call it with places.

    x: the points ``(n,)``, ascending; where they are not, the coefficients are nan.
    y: the values, along ``axis``.
    bc_type: ``"not-a-knot"``: the first two pieces are one polynomial, as are the last two;
        ``"natural"``: second derivatives of 0 at the ends; ``"clamped"``: first derivatives of 0;
        ``"periodic"``, for which the first and the last value must be equal; or a pair of these or
        of ``(order, value)``, for the derivatives at the two ends, order 1 or 2.
    extrapolate: whether places outside the points use the first or last polynomial, rather than
        being nan; by default they do. ``"periodic"`` continues periodically, and is the default
        for that ``bc_type``.

    ``c (4, n - 1, ...)`` has the coefficients of each piece, that of the cube first.
    (C. de Boor, "A Practical Guide to Splines", 1978, IV) The slopes solve a system of n equations
    that is solved as a dense one.
    """

    def __init__(
        self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None
    ) -> None:
        x, y = _points("CubicSpline", x, y, axis)
        self.x, self.axis, self._ndim = x, axis, y.ndim
        periodic = isinstance(bc_type, str) and bc_type == "periodic"
        extrapolate = True if extrapolate is None else extrapolate
        self.extrapolate = "periodic" if periodic and extrapolate is True else extrapolate
        h = ops.where(ops.diff(x) > 0, ops.diff(x), math.nan)  # not an error, which the host awaits
        column = _column(h, y)
        slope = ops.diff(y, axis=0) / column
        s = _periodic_slopes(h, slope) if periodic else _slopes(h, slope, _conditions(bc_type))
        curve = (s[:-1, ...] + s[1:, ...] - 2 * slope) / column
        self.c = ops.stack(
            [curve / column, (slope - s[:-1, ...]) / column - curve, s[:-1, ...], y[:-1, ...]]
        )

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Tensor:
        """The values at places of any shape, or their derivatives of order ``nu``."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        places, points, c = floating(x, self.x, self.c)
        flat = places.reshape(places.size)
        if extrapolate == "periodic":
            flat = points[0] + (flat - points[0]) % (points[-1] - points[0])
        piece = _pieces(points, flat)
        c = ops.take(c, piece, axis=1)
        t = _column(flat - ops.take(points, piece), c[0, ...])
        result = c[0, ...] * 0
        for power in range(3, nu - 1, -1):  # Horner's scheme
            result = result * t + c[3 - power, ...] * math.perm(power, nu)
        if not extrapolate:
            outside = (flat < points[0]) | (flat > points[-1])
            result = ops.where(_column(outside, result), math.nan, result)
        return _placed(result, places.shape, self.axis, self._ndim)


_DERIVATIVES = {"natural": (2, 0.0), "clamped": (1, 0.0)}


def _conditions(bc_type):
    """The conditions at the two ends: ``"not-a-knot"``, or a derivative's order and value."""
    pair = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    pair = tuple([_DERIVATIVES.get(c, c) if isinstance(c, str) else tuple(c) for c in pair])
    wrong = [c for c in pair if c != "not-a-knot" and (len(c) != 2 or c[0] not in (1, 2))]
    if len(pair) != 2 or wrong:
        raise ValueError(
            f"CubicSpline: bc_type must be 'not-a-knot', 'natural', 'clamped', 'periodic', or a "
            f"pair of these or of (order, value) with order 1 or 2, not {bc_type!r}"
        )
    return pair


def _slopes(h, slope, conditions):
    """The derivatives at the points ``(n, ...)`` by continuity of the second derivatives."""
    n = h.size + 1
    if n == 2:
        # The line or parabola that the conditions leave.
        conditions = [(1, slope[0, ...]) if c == "not-a-knot" else c for c in conditions]
    if n == 3 and conditions == ("not-a-knot", "not-a-knot"):
        # One parabola through three points: its slopes at the ends are known.
        bend = (slope[1, ...] - slope[0, ...]) / (h[0] + h[1])
        conditions = [(1, slope[0, ...] - bend * h[0]), (1, slope[1, ...] + bend * h[1])]
    first, first_value = _end(h, slope, conditions[0], 1)
    last, last_value = _end(ops.flip(h), ops.flip(slope, axis=0), conditions[1], -1)
    one = create("eye", n, like=h)
    inside, right = _equations(
        (h[:-1], h[1:]), (slope[:-1, ...], slope[1:, ...]), (one[:-2, :], one[1:-1, :], one[2:, :])
    )
    matrix = ops.concat([_row(first, n), inside, ops.flip(_row(last, n), axis=1)])
    return _solve(matrix, ops.concat([first_value[None, ...], right, last_value[None, ...]]))


def _equations(lengths, slopes, places):
    """What makes the second derivative continuous at some points: a matrix and the right side.

    lengths, slopes: those of the intervals before and after each point.
    places: rows of the identity for the points before, at and after each point.
    """
    (before, after), (earlier, later) = lengths, slopes
    previous, own, following = places
    matrix = after[:, None] * previous + before[:, None] * following
    matrix = matrix + 2 * (before + after)[:, None] * own
    return matrix, 3 * (_column(after, earlier) * earlier + _column(before, later) * later)


def _end(h, slope, condition, sign):
    """The equation at the first point: up to three coefficients, and the right-hand side.

    sign: -1 at the last point, where the intervals come in reverse order.
    """
    if condition == "not-a-knot":
        both = h[0] + h[1]
        value = ((h[0] + 2 * both) * h[1] * slope[0, ...] + h[0] ** 2 * slope[1, ...]) / both
        return [h[1], both], value
    order, value = condition
    value = floating(value, slope)[0] + slope[0, ...] * 0
    if order == 1:
        return [h[0] * 0 + 1], value
    return [h[0] * 0 + 2, h[0] * 0 + 1], 3 * slope[0, ...] - sign * h[0] * value / 2


def _row(coefficients, n):
    """A row ``(1, n)`` that begins with coefficients."""
    return ops.pad(ops.stack(coefficients), (0, n - len(coefficients)))[None, :]


def _periodic_slopes(h, slope):
    """As `_slopes`, with a last point that is the first."""
    one = create("eye", h.size, like=h)
    places = ops.roll(one, 1, axis=0), one, ops.roll(one, -1, axis=0)
    s = _solve(*_equations((ops.roll(h, 1), h), (ops.roll(slope, 1, axis=0), slope), places))
    return ops.concat([s, s[:1, ...]])


def _solve(matrix, right):
    flat = right.reshape(right.shape[0], right.size // right.shape[0])
    return linalg.solve(matrix, flat).reshape(*right.shape)
