"""The loss of sequences without an alignment: a function of `gpugrad.nn.functional`, a module."""

from typing import Any

from .._arguments import require, whole
from .._creation import asarray, create
from .._dtypes import is_half, isdtype
from .._tensor import Tensor
from ..autograd.casting import in_float32
from ..backends.dtypes import float32, int64
from ..ops.elementwise import clip, maximum, where
from ..ops.indexing import take, take_along_axis
from ..ops.manipulation import broadcast_to, concat, stack, unstack
from ..ops.reductions import cumulative_sum, logsumexp
from .common import can_be_read, largest, shape_of
from .losses import _Loss, _reduced

_LEAST = -1e30  # for the logarithm of 0: with -inf, differences would be nan


@in_float32
def ctc_loss(
    log_probs: Tensor,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Connectionist temporal classification (Graves et al. 2006): ``-log p(target)``.

    The probability is the sum over all alignments. In an alignment each label of the target may be
    repeated, and there may be blanks between labels; between equal labels there must be one.

    log_probs: ``(time, n, classes)`` or ``(time, classes)``, such as of `log_softmax`.
    targets: labels, ``(n, most)``, or all one after the other; ``(length,)`` without a batch.
    input_lengths, target_lengths: ``(n,)``, or a number without a batch.
    blank: the class that stands for no label.
    reduction: ``"none"``, ``"sum"``, or ``"mean"`` over the examples of losses that are divided by
        the targets' lengths. The result is ``()``, and with ``"none"`` ``(n,)`` if there is a
        batch.
    zero_infinity: whether the loss of a target that is too long for its input is 0, and not inf.

    Gradients are derivatives of this formula, of any order, and 0 where it is infinite. PyTorch
    differentiates the loss of ``log_softmax(log_probs)`` instead, which has the same value if
    ``log_probs`` are normalized.
    For float16, intermediate values are computed in float32.
    Raises ValueError for shapes that do not fit, and TypeError for labels and lengths that are not
    integers.
    """
    blank = whole("ctc_loss: blank", blank, 0)
    is_single = len(shape_of("ctc_loss", log_probs, "log_probs")) == 2
    targets = asarray(targets)
    lengths = [asarray(x).reshape((-1,)) for x in (input_lengths, target_lengths)]
    for name, x in zip(("targets", "lengths", "lengths"), (targets, *lengths), strict=True):
        if x.size and not isdtype(x.dtype, "integral"):  # an empty list is floating
            raise TypeError(f"ctc_loss: {name} must be integers, not {x.dtype}")
    if is_single:
        log_probs, targets = log_probs[:, None], targets.reshape((1, -1))
    fits = log_probs.ndim == 3 and all(x.shape == log_probs.shape[1:2] for x in lengths)
    if not fits or targets.ndim not in (1, 2) or blank >= log_probs.shape[2]:
        raise ValueError(
            f"ctc_loss: log_probs must be (time, n, classes), with more than {blank} classes, both "
            f"lengths (n,), and targets (n, most) or one after the other, but the shapes are "
            f"{log_probs.shape}, {lengths[0].shape}, {lengths[1].shape} and {targets.shape}"
        )
    input_lengths, target_lengths = (x.to(log_probs.device, int64) for x in lengths)
    targets = targets.to(log_probs.device, int64)
    numbers = targets, input_lengths, target_lengths
    if log_probs.device == "cpu" and all(map(can_be_read, numbers)):  # a GPU would be waited for
        _check_numbers(log_probs, targets, input_lengths, target_lengths)
    targets = _padded(targets, target_lengths, blank)
    dtype = log_probs.dtype
    if is_half(dtype):
        log_probs = log_probs.astype(float32)
    losses = _negative_log(log_probs, targets, input_lengths, target_lengths, blank)
    losses = where(losses < -_LEAST / 2, losses, 0.0 if zero_infinity else float("inf"))
    if is_single:
        losses, target_lengths = losses[0, ...], target_lengths[0, ...]
    if reduction == "mean":
        losses = losses / maximum(target_lengths, 1).astype(losses.dtype)
    losses = _reduced("ctc_loss", losses, reduction)
    return losses.astype(dtype) if is_half(dtype) else losses


def _check_numbers(log_probs, targets, input_lengths, target_lengths):
    """Raise ValueError for lengths and labels that cannot be."""
    steps, n, classes = log_probs.shape
    longest = targets.shape[-1]
    for name, lengths, bound in (
        ("input_lengths", input_lengths.tolist(), steps),
        ("target_lengths", target_lengths.tolist(), longest),
    ):
        if n and not 0 <= min(lengths) <= max(lengths) <= bound:
            raise ValueError(f"ctc_loss: {name} must be from 0 to {bound}, not {lengths[:8]}")
    fits = targets.ndim == 2 or sum(lengths) == longest
    require(fits, f"ctc_loss: target_lengths must add up to {longest} targets", sum(lengths))
    rows = targets.tolist() if targets.ndim == 2 else [targets.tolist()]
    used = rows if targets.ndim == 1 else [x[:m] for x, m in zip(rows, lengths, strict=True)]
    if not all(0 <= label < classes for row in used for label in row):
        raise ValueError(f"ctc_loss: targets must be from 0 to {classes - 1}")


def _padded(targets, lengths, blank):
    """Targets as ``(n, most)``, with blanks after the end of each."""
    longest = targets.shape[-1] if targets.ndim == 2 else largest(lengths, targets.shape[0])
    places = create("arange", longest, dtype="int64", like=targets)
    if targets.ndim == 1 and longest:
        starts = cumulative_sum(lengths) - lengths
        at = clip(starts[:, None] + places, 0, targets.shape[0] - 1)
        targets = take(targets, at.reshape((-1,)), axis=0).reshape(at.shape)
    return where(places < lengths[:, None], targets.reshape((lengths.shape[0], longest)), blank)


def _negative_log(log_probs, targets, input_lengths, target_lengths, blank):
    """The losses ``(n,)``, of at least ``-_LEAST`` where there is no alignment.

    The states are a blank, the first label, a blank, the second label, and so on to a blank. Before
    the first input, each example is in the first state.
    """
    n, longest = targets.shape
    blanks = create("full", (n, longest), blank, dtype="int64", like=targets)
    states = stack([blanks, targets], axis=-1).reshape((n, 2 * longest))
    states = concat([states, create("full", (n, 1), blank, dtype="int64", like=targets)], axis=1)
    before = concat([states[:, :1], states[:, :1], states], axis=1)[:, : 2 * longest + 1]
    skipping = where((states != blank) & (states != before), 0.0, _LEAST)
    shape = (log_probs.shape[0], *states.shape)
    own = take_along_axis(clip(log_probs, _LEAST), broadcast_to(states, shape), axis=-1)
    nowhere = create("full", (n, 2), _LEAST, like=own)
    skipping = skipping.astype(own.dtype)
    here = create("arange", 2 * longest + 1, dtype="int64", like=own)
    alpha = where(here == 0, 0.0, _LEAST).astype(own.dtype)
    alphas = [broadcast_to(alpha, states.shape)]
    for log_p in unstack(own):
        reached = concat([nowhere, alphas[-1]], axis=1)
        ways = [reached[:, 2:], reached[:, 1:-1], reached[:, :-2] + skipping]
        alphas.append(logsumexp(stack(ways), axis=0) + log_p)
    at = broadcast_to(input_lengths[None, :, None], (1, *states.shape))
    last = take_along_axis(stack(alphas), at, axis=0)[0, ...]
    # An alignment ends with the last label or with a blank after it.
    is_end = (here == 2 * target_lengths[:, None]) | (here == 2 * target_lengths[:, None] - 1)
    return -logsumexp(where(is_end, last, _LEAST), axis=1)


class CTCLoss(_Loss, function=ctc_loss, options="blank reduction zero_infinity"):
    """Loss of sequences that are not aligned; see `functional.ctc_loss`.

    Called with log-probabilities ``(time, n, classes)``, targets ``(n, most)`` and the lengths of
    both, ``(n,)``, it returns the loss ``()``, or with ``reduction="none"`` the losses ``(n,)``.
    """

    def forward(  # type: ignore[override]
        self, log_probs: Tensor, targets: Any, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        return self.function(log_probs, targets, input_lengths, target_lengths, **self._kwargs())
