"""The twin of `cross_entropy`.

The definition goes through the labels to leave out those that are ignored. Here that is done only
where there are such labels, and one is subtracted at the labels rather than an array of zeros and
ones.
"""

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.numpy.lowering import check_labels as check_all_labels
from ...backends.numpy.namespace import check_labels
from ...ops.neural import cross_entropy


def _covers(logits, target, reduction, ignore_index):
    return (
        type(ignore_index) is int
        and logits.dtype in (float32, float64)
        and logits.ndim == 2
        and target.shape == logits.shape[:1]
        and target.dtype.kind in "iu"
        and 0 not in logits.shape
        and reduction in ("mean", "sum", "none")
    )


def _places(logits, target, ignore_index):
    """The index of each label's element in the logits, how many labels count, and which do not.

    The last is None if all count.
    """
    n, classes = logits.shape
    ignored = target == ignore_index
    count = n - int(np.count_nonzero(ignored))
    if count == n:
        ignored = None
    else:
        target = np.where(ignored, 0, target)
    check_labels(target, classes)
    return (np.arange(n), target), count, ignored


def _cross_entropy(xp, logits, target, /, *, reduction="mean", ignore_index=-100):
    if not _covers(logits, target, reduction, ignore_index):
        return NotImplemented
    places, count, ignored = _places(logits, target, ignore_index)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    picked = shifted[places]
    losses = np.log(xp.sum(np.exp(shifted, shifted), axis=-1))
    losses -= picked
    if ignored is not None:
        losses[ignored] = 0
    if reduction == "none":
        return losses
    total = xp.sum(losses)
    if reduction == "mean":
        total /= total.dtype.type(count)
    return total


def _check(target, classes, ignore_index):
    """Raise IndexError for labels that are no classes, as the twin does."""
    try:
        check_all_labels(target, classes)  # faster, and mostly enough
    except IndexError:
        check_labels(target[target != ignore_index], classes)


# What a program calls, and with which arguments, before it changes anything.
def _check_of(logits, target, *, reduction="mean", ignore_index=-100):
    return _check, (target, logits.shape[-1], ignore_index)


_cross_entropy.check = _check_of  # type: ignore[attr-defined]


def _cross_entropy_vjp(xp, g, logits, target, reduction, ignore_index):
    if not _covers(logits, target, reduction, ignore_index) or g.dtype != logits.dtype:
        return NotImplemented
    places, count, ignored = _places(logits, target, ignore_index)
    p = logits - xp.max(logits, axis=-1, keepdims=True)
    np.exp(p, p)
    p /= xp.sum(p, axis=-1, keepdims=True)
    p[places] -= 1
    if reduction == "none":
        g = g[:, None]
    elif reduction == "mean":
        g = g / max(count, 1)
    p *= g
    if ignored is not None:
        p[ignored] = 0
    return p


cross_entropy.twin("numpy", _cross_entropy, logits=_cross_entropy_vjp)
