"""The twin of `topk` for a few of many elements: it sorts only those that are returned."""

import numpy as np

from ...backends.dtypes import float32, float64
from ...ops.searching import TopK, topk


def _topk(xp, x, /, k, *, axis=-1, largest=True):
    if not -x.ndim <= axis < x.ndim:
        return NotImplemented
    n = x.shape[axis]
    # For fewer elements, to sort all of them is faster.
    if not 0 < 4 * k <= n or x.size < 4096 or x.dtype not in (float32, float64):
        return NotImplemented
    moved = np.moveaxis(x, axis, -1)
    rows = moved.reshape(-1, n)
    if np.isnan(rows.max()):
        order = xp.argsort(rows, axis=-1, descending=largest)[:, :k]
    else:
        order = _of_numbers(xp, rows, k, largest)
    values = np.take_along_axis(rows, order, -1)
    shape = (*moved.shape[:-1], k)
    return TopK(*[np.moveaxis(y.reshape(shape), -1, axis) for y in (values, order)])


def _of_numbers(xp, rows, k, largest):
    """The indices (rows, k) of the elements sought, of which none is nan."""
    place = rows.shape[1] - k if largest else k - 1
    last = np.partition(rows, place, -1)[:, place : place + 1]
    chosen = rows > last if largest else rows < last
    missing = k - np.count_nonzero(chosen, axis=-1, keepdims=True)
    tied = rows == last
    if np.count_nonzero(tied) > missing.sum():
        tied &= np.cumsum(tied, -1) <= missing
    chosen |= tied
    order = np.nonzero(chosen)[1].reshape(-1, k)
    values = np.take_along_axis(rows, order, -1)
    # The sort is stable, so equal elements stay in their order.
    return np.take_along_axis(order, xp.argsort(values, axis=-1, descending=largest), -1)


topk.twin("numpy", _topk)
