"""Searching, sorting and sets."""

import math

from .._batched import equally, shifted
from .._tensor import is_recorded
from ..autograd.operation import composite, op
from ..backends import SCALARS, backend_of
from .manipulation import reshape, vmap_over_axis
from .reductions import no_axis


def _vmap_over_axis_or_all(call, batched, x, *, axis, keepdims):
    if axis is not None and len(x.shape) > 1:
        return vmap_over_axis(call, batched, x, axis=axis, keepdims=keepdims)
    shifted(call.op, axis, len(x.shape) - 1)
    size, *shape = x.shape
    out = call(reshape(x, (size, math.prod(shape))), axis=1)
    return reshape(out, (size, *[1] * len(shape))) if keepdims else out


@op(differentiable=False)
def argmax(xp, x, /, axis=None, *, keepdims=False):
    """Index of the first maximum along ``axis``; None means an index into the flattened array."""
    return xp.argmax(x, axis=axis if x.ndim else no_axis(axis), keepdims=keepdims)


@op(differentiable=False)
def argmin(xp, x, /, axis=None, *, keepdims=False):
    """Index of the first minimum along ``axis``; None means an index into the flattened array."""
    return xp.argmin(x, axis=axis if x.ndim else no_axis(axis), keepdims=keepdims)


argmax.vmap(_vmap_over_axis_or_all)
argmin.vmap(_vmap_over_axis_or_all)


@op(differentiable=False)
def nonzero(xp, x, /):
    """Indices of the elements that are not 0, in row-major order: an array for each axis.

    Raises ValueError for a 0-d array.
    """
    if not x.shape:
        raise ValueError("the array must have at least one axis")
    return tuple(xp.nonzero(x))


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


@op(differentiable=False)
def argsort(xp, x, /, *, axis=-1, descending=False, stable=True):
    """Indices that sort ``x`` along ``axis``.

    If ``stable``, equal elements keep their order, even if ``descending``.
    """
    return xp.argsort(x, axis=axis, descending=descending, stable=stable)


argsort.vmap(vmap_over_axis)


@op(differentiable=False)
def _sort(xp, x, /, *, axis=-1, descending=False, stable=True):
    return xp.sort(x, axis=axis, descending=descending, stable=stable)


_sort.vmap(vmap_over_axis)


@composite
def sort(x, /, *, axis=-1, descending=False, stable=True):
    """``x`` sorted along ``axis``.

    Each element of the result passes its gradient to the element of ``x`` that it came from. If
    ``stable``, equal elements keep their order, even if ``descending``.
    """
    order = {"axis": axis, "descending": descending, "stable": stable}
    if is_recorded(x):
        # Sorting only the values is several times faster, but backward would have to sort again.
        return _take(x, argsort(x, **order), axis)
    return _sort(x, **order)


@op(integer=("order",))
def _take(xp, x, order, /, axis):
    return xp.take_along_axis(x, order, axis=axis)


_take.vjp(x=lambda xp, g, x_shape, order, axis: xp.add_along_axis(g, order, x_shape, axis))
_take.jvp(x=lambda xp, t, order, axis: xp.take_along_axis(t, order, axis=axis))


def _take_vmap(call, batched, x, order, axis):
    x, order = equally(batched, (x, order))
    return call(x, order, shifted(call.op, axis, len(x.shape) - 1))


_take.vmap(_take_vmap)


@op(differentiable=False)
def _unique_all(xp, x, /):
    return xp.unique_all(x)


@op(differentiable=False)
def _unique_counts(xp, x, /):
    return xp.unique_counts(x)


@op(differentiable=False)
def _unique_inverse(xp, x, /):
    return xp.unique_inverse(x)


@op(differentiable=False)
def _unique_values(xp, x, /):
    return xp.unique_values(x)


@composite
def unique_all(x, /):
    """The distinct elements, ascending, with their positions and counts.

    Returns a named tuple: ``values`` (n,); ``indices`` (n,) of their first occurrences in the
    flattened ``x``, which receive the gradients; ``inverse_indices``, of the shape of ``x``,
    such that ``values[inverse_indices]`` is ``x``; and ``counts`` (n,). Every nan is distinct.
    """
    found = _unique_all(x)
    if is_recorded(x):
        return found._replace(values=_take(reshape(x, (-1,)), found.indices, 0))
    return found


@composite
def unique_counts(x, /):
    """The distinct elements and how often each occurs: a named tuple ``(values, counts)``.

    See `unique_all`.
    """
    found = _unique_counts(x)
    return found._replace(values=unique_values(x)) if is_recorded(x) else found


@composite
def unique_inverse(x, /):
    """The distinct elements and where they are: a named tuple ``(values, inverse_indices)``.

    See `unique_all`.
    """
    found = _unique_inverse(x)
    return found._replace(values=unique_values(x)) if is_recorded(x) else found


@composite
def unique_values(x, /):
    """The distinct elements, (n,), ascending; every nan is distinct. See `unique_all`."""
    return unique_all(x).values if is_recorded(x) else _unique_values(x)


@op(differentiable=False)
def isin(xp, x1, x2, *, invert=False):
    """Whether each element of ``x1`` equals an element of ``x2``, or none of them if ``invert``."""
    return xp.isin(x1, x2, invert=invert)


def _isin_vmap(call, batched, x1, x2, *, invert):
    return NotImplemented if batched[1] else call(x1, x2, invert=invert)


isin.vmap(_isin_vmap)
