"""The twins of `softmax`, `log_softmax`, `nll` and `cross_entropy`.

The definition of the last goes through the labels to leave out those that are ignored. Here that is
done only where there are such labels, and one is subtracted at the labels rather than an array of
zeros and ones.
"""

from functools import partial

import numpy as np

from ...backends.declarations import Joint, declare
from ...backends.dtypes import float32, float64
from ...backends.native.base import is_expected, rows, step_of_rows
from ...backends.numpy.namespace import check_labels, xp
from ...ops.neural import cross_entropy, log_softmax, nll, softmax
from .common import are_alike, or_definition

_COST = 4  # a kernel takes as long for a logit as to read so many numbers
FEW = 1024  # elements: for fewer the definitions, whose calls a program can divide


def _of_rows(name, axis, *arrays, into=None):
    """Have a kernel compute a function of rows along the last axis."""
    x = arrays[-1]
    if not (x.size >= FEW and axis in (-1, x.ndim - 1) and are_alike(*arrays)):
        return NotImplemented
    n = x.shape[-1]
    if into is not None:
        return [step_of_rows([len(arrays)], name, x.dtype, x.size // n, n, *arrays, into)]
    out = np.empty(x.shape, x.dtype)
    return out if rows(name, x.dtype, x.size // n, n, *arrays, out) else None


def _define_twin(call):
    name = call.op.name

    @or_definition(call)
    def forward(xp, x, /, axis=-1, into=None):
        return _of_rows(name, axis, x, into=into)

    @or_definition(call, "x")
    def rule(xp, g, out, axis, into=None):
        return _of_rows(f"{name}_vjp", axis, g, out, into=into)

    call.twin("numpy", forward, x=rule)


_define_twin(softmax)
_define_twin(log_softmax)


def _nll_vjp(xp, g, target, x_shape):
    # The definition compares each class with the label.
    out = np.zeros(x_shape, g.dtype)
    np.put_along_axis(out, np.expand_dims(target, -1), np.expand_dims(-g, -1), -1)
    return out


_nll_vjp.is_eager = True  # type: ignore[attr-defined]  # programs divide the definition
nll.twin("numpy", x=_nll_vjp)

# Cross-entropy

# How many classes are copied into rows; the gradient has to be copied back.
_FEW, _FEW_FOR_GRADIENT = 64, 16


def _covers(logits, target, reduction, ignore_index):
    are_logits = logits.dtype in (float32, float64) and logits.ndim == 2 and 0 not in logits.shape
    are_labels = target.shape == logits.shape[:1] and target.dtype.kind in "iu"
    is_known = type(ignore_index) is int and reduction in ("mean", "sum", "none")
    return are_logits and are_labels and is_known


def _counted(target, classes, ignore_index):
    """The labels with 0 in place of those that do not count, and how many count.

    Also a mask of those that do not count, or None if all do. Raises IndexError for other labels
    that are no classes.
    """
    ignored, count = None, target.size
    try:
        check_labels(target, classes)  # faster, and mostly enough
        is_checked = not 0 <= ignore_index < classes
    except IndexError:
        is_checked = False
    if not is_checked:
        ignored = _is(target, ignore_index)
        count -= int(np.count_nonzero(ignored))
        target = np.where(ignored, 0, target)
        check_labels(target, classes)
    return target, count, ignored


def _is(target, ignore_index):
    # NumPy before 2.2 may crash where it compares an unsigned dtype with a negative number.
    if ignore_index < 0 and target.dtype.kind == "u":
        return np.zeros(target.shape, bool)  # also for numbers that int64 lacks
    return target.astype(np.int64, copy=False) == ignore_index


def _shifted(xp, logits, few):
    """The transposed logits less the largest of each example, in new memory.

    At most ``few`` classes are the rows of an array, so that operations on all examples vectorise.
    """
    if logits.shape[1] <= few and not is_expected():  # kernels of rows need no other layout
        x = np.array(logits.T, order="C")
        x -= np.maximum.reduce(x, 0)
        return x
    return (logits - xp.max(logits, axis=-1, keepdims=True)).T


def _by_kernel(logits, target, ignore_index, losses=None, to_logits=None, weight=None):
    """Have a kernel of rows fill ``losses`` or ``to_logits``; returns whether it did."""
    if not (is_expected() and type(logits) is np.ndarray and logits.flags.c_contiguous):
        return False
    # Labels are known to be classes or this number, which may be one that int64 lacks.
    label = ignore_index if abs(ignore_index) >> 63 == 0 else -1
    options = {"n": label, "cost": _COST * logits.shape[-1]}
    if weight is not None:
        weight = np.ascontiguousarray(weight)
        options["m"] = int(weight.size > 1)
    arrays = logits, np.ascontiguousarray(target, np.int64), losses, to_logits, weight
    return rows("cross_entropy", logits.dtype, *logits.shape, *arrays, **options)


def _sum(xp, x):
    """The sums over the classes, which are the first axis."""
    return np.add.reduce(x, 0) if x.flags.c_contiguous else xp.sum(x.T, axis=-1)


def _cross_entropy(xp, logits, target, /, *, reduction="mean", ignore_index=-100):
    if not _covers(logits, target, reduction, ignore_index):
        return NotImplemented
    labels, count, ignored = _counted(target, logits.shape[1], ignore_index)
    losses = np.empty(target.shape, logits.dtype)
    if not _by_kernel(logits, target, ignore_index, losses):
        shifted = _shifted(xp, logits, _FEW)
        picked = shifted[labels, np.arange(len(labels))]
        losses = _sum(xp, np.exp(shifted, shifted))
        np.log(losses, losses)
        losses -= picked
        if ignored is not None:
            losses[ignored] = 0
    if reduction == "none":
        return losses
    total = np.add.reduce(losses)
    if reduction == "mean":
        total /= total.dtype.type(count)
    return total


# A program calls the function that this returns, with these arguments, before it changes anything.
def _check_of(logits, target, reduction="mean", ignore_index=-100):
    return _counted, (target, logits.shape[-1], ignore_index)


def _steps_of(
    logits, target, reduction="mean", ignore_index=-100, loss=None, g=None, to_logits=None
):
    """Calls that fill ``loss``, ``to_logits`` or both, where all labels are known to be classes or
    the ignored number."""
    dtype = logits.dtype
    has_kernel = is_expected() and logits.flags.c_contiguous and (g is None or g.dtype == dtype)
    if not has_kernel or not _covers(logits, target, reduction, ignore_index):
        return None
    # The largest labels of uint64 are none of int64; float32 can count less than 2**24.
    if target.dtype == np.uint64 or abs(ignore_index) >> 63 or target.size >= 1 << 24:
        return None
    labels, count = np.empty(target.shape, np.int64), np.empty((), dtype)
    steps = [partial(np.copyto, labels, target)]
    steps += _count(labels, ignore_index, count) if reduction == "mean" else []
    options = {"n": ignore_index, "cost": _COST * logits.shape[-1]}
    losses, weight, after = None, None, []
    if loss is not None:
        losses = loss if reduction == "none" else np.empty(target.shape, dtype)
        after += [partial(np.add.reduce, losses, None, None, loss, False)] * (reduction != "none")
        after += [partial(np.divide, loss, count, loss)] * (reduction == "mean")
    if g is not None:
        weight, least = np.empty(g.shape, dtype), np.empty((), dtype)
        if reduction == "mean":
            steps.append(partial(np.maximum, count, np.ones((), dtype), least))
            steps.append(partial(np.divide, g, least, weight))
        else:
            steps.append(partial(np.copyto, weight, g))
        options["m"] = int(g.size > 1)
    arrays = logits, labels, losses, to_logits, weight
    written = [k for k in (2, 3) if arrays[k] is not None]
    steps.append(step_of_rows(written, "cross_entropy", dtype, *logits.shape, *arrays, **options))
    return steps + after


def _count(labels, ignore_index, count):
    """Calls that fill ``count`` with the number of labels that are not ignored."""
    counts, ones = np.empty(labels.shape, bool), np.empty(labels.shape, count.dtype)
    return [
        partial(np.not_equal, labels, np.array(ignore_index, np.int64), counts),
        partial(np.copyto, ones, counts),
        partial(np.add.reduce, ones, None, None, count, False),
    ]


def _cross_entropy_vjp(xp, g, logits, target, reduction, ignore_index):
    if not _covers(logits, target, reduction, ignore_index) or g.dtype != logits.dtype:
        return NotImplemented
    labels, count, ignored = _counted(target, logits.shape[1], ignore_index)
    weight = g / max(count, 1) if reduction == "mean" else g
    out = np.empty(logits.shape, logits.dtype)
    if _by_kernel(logits, target, ignore_index, to_logits=out, weight=weight):
        return out
    p = _shifted(xp, logits, _FEW_FOR_GRADIENT)
    np.exp(p, p)
    p /= _sum(xp, p)
    p[labels, np.arange(len(labels))] -= 1
    p *= weight
    if ignored is not None:
        p[:, ignored] = 0
    return np.ascontiguousarray(p.T)


def _cross_entropy_and_vjp(has_sums, g, logits, target, /, *, reduction, ignore_index):
    loss = _cross_entropy(xp, logits, target, reduction=reduction, ignore_index=ignore_index)
    return np.asarray(loss), _cross_entropy_vjp(xp, g, logits, target, reduction, ignore_index)


_both = Joint(_cross_entropy_and_vjp)
declare(
    _cross_entropy, fails=True, joint=_both, check=lambda args, kwargs: _check_of(*args, **kwargs),
    steps=lambda x, target, out, **static: _steps_of(x, target, loss=out, **static),
)  # fmt: skip
declare(
    _cross_entropy_vjp, fails=True, joint=_both, check=lambda args, kwargs: _check_of(*args[1:]),
    steps=lambda g, x, target, reduction, ignore_index, out: _steps_of(
        x, target, reduction, ignore_index, g=g, to_logits=out
    ),
)  # fmt: skip
declare(
    _cross_entropy_and_vjp, fails=True, check=lambda args, kwargs: _check_of(*args[2:], **kwargs),
    steps=lambda _, g, x, target, out, **static: _steps_of(
        x, target, loss=out[0], g=g, to_logits=out[1], **static
    ),
)  # fmt: skip
cross_entropy.twin("numpy", _cross_entropy, logits=_cross_entropy_vjp)
