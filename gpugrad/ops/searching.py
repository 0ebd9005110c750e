"""Searching, sorting and sets."""

import math
from typing import Any, NamedTuple

from .._arguments import axis_of, one_of, require, whole
from .._batched import shifted
from .._dtypes import isdtype
from .._foreign_names import explains_arguments
from .._tensor import is_recorded
from ..autograd.operation import composite, op
from ..backends import SCALARS, backend_of
from .by_name import library_function
from .elementwise import ceil, floor, isnan, maximum, minimum, where
from .elementwise import round as rounded
from .indexing import take
from .manipulation import astype, moveaxis, normalized_axes, reshape, sliced, stack, vmap_over_axis


def _vmap_over_axis_or_all(call, batched, x, *, axis, keepdims):
    if axis is not None and len(x.shape) > 1:
        return vmap_over_axis(call, batched, x, axis=axis, keepdims=keepdims)
    shifted(call.op, axis, len(x.shape) - 1)
    size, *shape = x.shape
    out = call(reshape(x, (size, math.prod(shape))), axis=1)
    return reshape(out, (size, *[1] * len(shape))) if keepdims else out


@library_function(reduces=True, vmap=_vmap_over_axis_or_all, differentiable=False)
def argmax(x, /, axis=None, *, keepdims=False):
    """Index of the first maximum along ``axis``; None means an index into the flattened array."""


@library_function(reduces=True, vmap=_vmap_over_axis_or_all, differentiable=False)
def argmin(x, /, axis=None, *, keepdims=False):
    """Index of the first minimum along ``axis``; None means an index into the flattened array."""


@op(differentiable=False)
def nonzero(xp, x, /):
    """Indices of the elements that are not 0, in row-major order: an array for each axis.

    Raises ValueError for a 0-d array.
    """
    if not x.shape:
        raise ValueError("the array must have at least one axis")
    return tuple(xp.nonzero(x))


@composite
def argwhere(x, /):
    """Indices of the elements that are not 0, in row-major order: ``(n, ndim)``.

    See `nonzero`, whose result can be used as an index. Raises ValueError for a 0-d array.
    """
    return stack(nonzero(x), axis=1)


@op(differentiable=False, integer=("sorter",))
def searchsorted(xp, x1, x2, sorter=None, *, side="left"):
    """Positions at which inserting the elements of ``x2`` into ``x1`` would keep it sorted.

    x1: an array (n,), ascending.
    x2: an array (...), or a number.
    sorter: integers (n,) that put ``x1`` in ascending order, if it is not sorted.
    side: ``"left"`` for the position before equal elements, ``"right"`` for that after them.

    Returns integers from 0 to n, with the shape of ``x2``.
    """
    if type(x2) in SCALARS:
        backend = backend_of[type(x1)]
        weak = type(x2) is not float or backend.is_floating(x1.dtype)
        dtype = x1.dtype if weak else None
        x2 = backend.asarray(x2, dtype=dtype, device=backend.device(x1))
    elif x1.dtype != x2.dtype:
        dtype = xp.result_type(x1, x2)
        x1, x2 = xp.astype(x1, dtype, copy=False), xp.astype(x2, dtype, copy=False)
    return xp.searchsorted(x1, x2, side=side, sorter=sorter)


def _searchsorted_vmap(call, batched, x1, x2, sorter, *, side):
    return NotImplemented if batched[0] or batched[2] else call(x1, x2, sorter, side=side)


searchsorted.vmap(_searchsorted_vmap)


@library_function(differentiable=False, vmap=vmap_over_axis)
def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """Indices that sort ``x`` along ``axis``.

    If ``stable``, equal elements keep their order, even if ``descending``.
    """


@library_function(differentiable=False, vmap=vmap_over_axis)
def _sort(x, /, *, axis=-1, descending=False, stable=True):
    """The values of `sort`."""


@composite
@explains_arguments
def sort(x, /, *, axis=-1, descending=False, stable=True):
    """``x`` sorted along ``axis``.

    Each element of the result passes its gradient to the element of ``x`` that it came from. If
    ``stable``, equal elements keep their order, even if ``descending``. PyTorch's also returns
    the indices, as `argsort` does. NumPy's method sorts in place, but ``x.sort()`` here does not.
    """
    order = {"axis": axis, "descending": descending, "stable": stable}
    if is_recorded(x):
        # Sorting only the values is several times faster, but backward would have to sort again.
        return _take(x, argsort(x, **order), axis)
    return _sort(x, **order)


class TopK(NamedTuple):
    """The largest or smallest elements, and their indices; see `topk`."""

    values: Any
    indices: Any


@op(discards=True, vmap=vmap_over_axis)
def topk(xp, x, /, k, *, axis=-1, largest=True):
    """The ``k`` largest elements along ``axis``, in descending order, and where they are.

    largest: if False, the smallest elements, in ascending order.

    Returns a named tuple ``(values, indices)``. Equal elements keep their order. Raises ValueError
    if there are fewer elements.
    """
    (axis,) = normalized_axes(axis, len(x.shape))
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"k must be from 0 to {x.shape[axis]}, the length of axis {axis}, not {k}")
    order = sliced(xp.argsort(x, axis=axis, descending=largest), axis, k)
    return TopK(xp.take_along_axis(x, order, axis=axis), order)


topk.vjp(x=lambda xp, g, x_shape, out, axis: xp.add_along_axis(g[0], out[1], x_shape, axis))


@op(integer=("order",), vmap=vmap_over_axis)
def _take(xp, x, order, /, axis):
    return xp.take_along_axis(x, order, axis=axis)


_take.vjp(x=lambda xp, g, x_shape, order, axis: xp.add_along_axis(g, order, x_shape, axis)).jvp("x")


@library_function(discards=True)
def unique_all(x, /):
    """The distinct elements, ascending, with their positions and counts.

    Returns a named tuple: ``values`` (n,); ``indices`` (n,) of their first occurrences in the
    flattened ``x``, which receive the gradients; ``inverse_indices``, of the shape of ``x``,
    such that ``values[inverse_indices]`` is ``x``; and ``counts`` (n,). Every nan is distinct.
    """


@library_function(discards=True)
def unique_counts(x, /):
    """The distinct elements and how often each occurs: a named tuple ``(values, counts)``.

    See `unique_all`.
    """


@library_function(discards=True)
def unique_inverse(x, /):
    """The distinct elements and where they are: a named tuple ``(values, inverse_indices)``.

    See `unique_all`.
    """


@library_function(discards=True)
def unique_values(x, /):
    """The distinct elements, (n,), ascending; every nan is distinct. See `unique_all`."""


def _unique_vjp(xp, g, x):
    return _to_first_places(xp, g[0], xp.unique_all(x)[1], x.shape)


def _to_first_places(xp, g, indices, shape):
    """The cotangents of the distinct elements, each at the first of its equal elements."""
    return xp.reshape(xp.add_along_axis(g, indices, (math.prod(shape),), 0), shape)


unique_all.vjp(x=lambda xp, g, x_shape, out: _to_first_places(xp, g[0], out[1], x_shape))
unique_counts.vjp(x=_unique_vjp)
unique_inverse.vjp(x=_unique_vjp)
unique_values.vjp(x=lambda xp, g, x: _unique_vjp(xp, (g,), x))


@library_function(differentiable=False)
def isin(x1, x2, *, invert=False):
    """Whether each element of ``x1`` equals an element of ``x2``, or none of them if ``invert``."""


def _isin_vmap(call, batched, x1, x2, *, invert):
    return NotImplemented if batched[1] else call(x1, x2, invert=invert)


isin.vmap(_isin_vmap)


# Quantiles


# For the methods that interpolate, alpha and beta of Hyndman and Fan (1996).
_INTERPOLATING = {
    "linear": (1, 1), "hazen": (1 / 2, 1 / 2), "interpolated_inverted_cdf": (0, 1),
    "median_unbiased": (1 / 3, 1 / 3), "normal_unbiased": (3 / 8, 3 / 8), "weibull": (0, 0),
}  # fmt: skip
_BETWEEN = "lower", "higher", "midpoint", "nearest"


@composite
@explains_arguments
def quantile(x, q, /, axis=None, *, keepdims=False, method="linear"):
    """Quantiles of the elements along ``axis``, by default of all; that of 0.5 is the median.

    q: a number from 0 to 1, or several: a sequence of numbers, or an array ``(n,)``, along the
        first axis of the result.
    method: what to do between two elements. ``"linear"`` interpolates, as do ``"hazen"``,
        ``"interpolated_inverted_cdf"``, ``"median_unbiased"``, ``"normal_unbiased"`` and
        ``"weibull"``, which place the elements differently, as in NumPy; ``"lower"``, ``"higher"``,
        ``"nearest"`` and ``"midpoint"`` choose one of the two, or the middle.

    The gradient goes to the elements that the result is made of, and to ``q`` if it interpolates.
    Where there is a nan, the result is nan. Integers become float32. Raises ValueError for numbers
    that are not from 0 to 1, for which the result of an array ``q`` is nan, and where there are no
    elements.
    """
    one_of("quantile: method", method, (*_INTERPOLATING, *_BETWEEN))
    ndim = len(x.shape)
    if axis is None:
        x, kept = reshape(x, (-1,)), (1,) * ndim
        axis = 0
    else:
        axis = axis_of("quantile", axis, ndim)
        kept = tuple([1 if i == axis else n for i, n in enumerate(x.shape)])
    n = x.shape[axis]
    if not n:
        raise ValueError("quantile: there are no elements")
    if not isdtype(x.dtype, "real floating"):
        x = astype(x, "float32")
    x = moveaxis(sort(x, axis=axis), axis, 0)
    last = x[n - 1, ...]

    def finished(out):
        """``out``, but nan where the last sorted element is nan, and with the axis that is kept."""
        out = where(isnan(last), last, out)
        return reshape(out, (*out.shape[: out.ndim - last.ndim], *kept)) if keepdims else out

    if isinstance(q, (tuple, list)):
        return finished(stack([_at_number(x, p, n, method) for p in q]))
    if type(q) in SCALARS:
        return finished(_at_number(x, q, n, method))
    if len(q.shape) > 1:
        raise ValueError(f"quantile: q must be a number or have one axis, not shape {q.shape}")
    inside = (q >= 0) & (q <= 1)
    out = _at_array(x, where(inside, q, 0), n, method)
    return finished(where(reshape(inside, (*q.shape, *[1] * last.ndim)), out, math.nan))


def _position(q, n, method):
    """Where the quantile ``q`` of ``n`` sorted elements is, from 0 to ``n - 1``."""
    alpha, beta = _INTERPOLATING.get(method, (1, 1))
    return q * (n + 1 - alpha - beta) + (alpha - 1)


def _at_number(x, q, n, method):
    """The quantile of the sorted ``x`` along its first axis for a Python number."""
    require(0 <= q <= 1, "quantile: q must be from 0 to 1", q)
    at = min(max(_position(q, n, method), 0), n - 1)
    low = math.floor(at)
    weight = {"lower": 0, "higher": at > low, "midpoint": 0.5 * (at > low)}.get(method, at - low)
    if method == "nearest":
        low, weight = round(at), 0
    if not weight:
        return x[low, ...]
    if weight == 1:
        return x[low + 1, ...]
    return x[low, ...] * (1 - weight) + x[low + 1, ...] * weight


def _at_array(x, q, n, method):
    """The quantiles of the sorted ``x`` along its first axis for an array of numbers."""
    at = minimum(maximum(_position(q, n, method), 0), n - 1)
    low = {"nearest": rounded, "higher": ceil}.get(method, floor)(at)
    places = reshape(astype(low, "int64"), (-1,))
    shape = (*q.shape, *x.shape[1:])
    out = reshape(take(x, places, axis=0), shape)
    if method in ("nearest", "lower", "higher"):
        return out
    weight = where(at > low, 0.5, 0.0) if method == "midpoint" else at - low
    weight = astype(reshape(weight, (*q.shape, *[1] * (len(x.shape) - 1))), x.dtype)
    above = reshape(take(x, minimum(places + 1, n - 1), axis=0), shape)
    return out * (1 - weight) + above * weight


@op(integer=("x",))
def bincount(xp, x, weights=None, /, *, minlength=0):
    """How often each integer from 0 to the greatest in ``x`` occurs, or the sum of its weights.

    x: ``(n,)``, integers of at least 0.
    weights: ``(n,)``, for which the result is differentiable; integers and bools add up as int64.
    minlength: the least length of the result.

    The length of the result depends on the elements: on a GPU this waits for the device. Raises
    ValueError for integers below 0.
    """
    if len(x.shape) != 1 or not xp.isdtype(x.dtype, "integral"):
        raise ValueError("x must be integers with 1 axis")
    if weights is not None and weights.shape != x.shape:
        raise ValueError("weights must have the shape of x")
    low, high = (int(xp.min(x)), int(xp.max(x))) if x.shape[0] else (0, -1)
    if low < 0:
        raise ValueError(f"x must be at least 0, but has {low}")
    length = max(high + 1, whole("minlength", minlength, 0))
    values = xp.ones_like(x, dtype=xp.int64) if weights is None else weights
    if xp.isdtype(values.dtype, ("bool", "integral")):
        values = xp.astype(values, xp.int64, copy=False)
    return xp.scatter_add(values, (length,), xp.astype(x, xp.int64))


bincount.vjp(weights=lambda xp, g, x: xp.take(g, xp.astype(x, xp.int64), axis=0))
