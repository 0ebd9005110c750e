"""Losses: functions of `gpugrad.nn.functional`, and the modules that apply them.

All losses take a ``reduction``: ``"mean"`` or ``"sum"`` over the losses, or ``"none"``. If a
docstring does not say otherwise, input and target must have the same shape: nothing is broadcast.
"""

import math
from operator import index
from typing import Any, ClassVar

from .._arguments import one_of, require
from .._creation import asarray
from .._dtypes import isdtype
from .._limits import finfo
from .._tensor import Tensor
from ..autograd.casting import in_float32
from ..backends import backend_of
from ..backends.dtypes import int64
from ..ops import neural
from ..ops.activations import softplus
from ..ops.elementwise import abs as _abs
from ..ops.elementwise import clip, minimum, sqrt, where
from ..ops.manipulation import broadcast_shapes, moveaxis, reshape
from ..ops.transcendental import exp, log
from .common import check_shape, shape_of
from .function_layer import FunctionLayer
from .vectors import pairwise_distance

REDUCTIONS = "mean", "sum", "none"


def _check_shapes(name, input, **others):
    shape = shape_of(name, input)
    for other, x in others.items():
        if tuple(getattr(x, "shape", ())) != shape:
            raise ValueError(
                f"{name}: {other} must have the shape of the input {shape}, not "
                f"{shape_of(name, x, other)}; nothing is broadcast"
            )


def _reduced(name, losses, reduction):
    one_of(f"{name}: reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


# Of numbers


def mse_loss(input: Tensor, target: Any, *, reduction: str = "mean", weight: Any = None) -> Tensor:
    """Squared error ``(input - target) ** 2``.

    input, target: ``(...)``, of the same shape; nothing is broadcast.
    reduction: ``"mean"`` or ``"sum"`` over all elements, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(...)``.
    weight: factors of the losses, of the same shape; by default 1. The mean is weighted: the sum
        divided by that of the weights.

    Raises ValueError if the shapes differ.
    """
    if weight is None:
        return neural.mse(input, target, reduction=reduction)
    losses = neural.mse(input, target, reduction="none")
    return _weighted_mean("mse_loss", input, losses, weight, reduction)


def _weighted_mean(name, input, losses, weight, reduction):
    if weight is None:
        return _reduced(name, losses, reduction)
    _check_shapes(name, input, weight=weight)
    weight = asarray(weight)
    losses = _reduced(name, losses * weight, reduction)
    # This divides means, because in float16 the sums could overflow.
    return losses / weight.mean() if reduction == "mean" else losses


@in_float32
def l1_loss(input: Tensor, target: Any, *, reduction: str = "mean", weight: Any = None) -> Tensor:
    """Absolute error ``abs(input - target)``; its gradient is 0 where they are equal.

    ``input (...), target (...) -> ()``, or with ``reduction="none"`` ``(...)``. For ``reduction``,
    ``weight`` and errors see `mse_loss`.
    """
    _check_shapes("l1_loss", input, target=target)
    return _weighted_mean("l1_loss", input, _abs(input - target), weight, reduction)


@in_float32
def huber_loss(
    input: Tensor, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Tensor:
    """``(input - target) ** 2 / 2`` where the error is at most ``delta``, and linear beyond.

    The linear pieces are ``delta * (abs(input - target) - delta / 2)``, so that values and slopes
    meet. ``delta`` must be positive.

    weight: factors of the losses, of the same shape. As in PyTorch, and unlike that of `mse_loss`,
        the mean is over all elements, whatever their weights.

    ``input (...), target (...) -> ()``, or with ``reduction="none"`` ``(...)``. For ``reduction``
    and errors see `mse_loss`.
    """
    require(delta > 0, "huber_loss: delta must be positive", delta)
    _check_shapes("huber_loss", input, target=target)
    losses = neural.huber(input, target, delta)
    if weight is not None:
        _check_shapes("huber_loss", input, weight=weight)
        losses = losses * weight
    return _reduced("huber_loss", losses, reduction)


@in_float32
def smooth_l1_loss(
    input: Tensor, target: Any, *, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """``(input - target) ** 2 / (2 * beta)`` where the error is at most ``beta``, linear beyond.

    The linear pieces are ``abs(input - target) - beta / 2``; this is `huber_loss` divided by
    ``beta``. With a ``beta`` of 0 it is `l1_loss`; less is an error.

    ``input (...), target (...) -> ()``, or with ``reduction="none"`` ``(...)``. For ``reduction``
    and errors see `mse_loss`.
    """
    require(beta >= 0, "smooth_l1_loss: beta must be at least 0", beta)
    _check_shapes("smooth_l1_loss", input, target=target)
    losses = neural.huber(input, target, beta, divisor=beta) if beta else _abs(input - target)
    return _reduced("smooth_l1_loss", losses, reduction)


# Of classes


def cross_entropy(
    input: Tensor,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of ``softmax(input)``, in nats: ``-log(softmax(input))`` at the label.

    Of probabilities it is ``-sum(target * log(softmax(input)))``, over the classes.

    input: logits, ``(n, classes, ...)`` or ``(classes,)``.
    target: integer labels, ``(n, ...)`` or ``()``; or floating probabilities of the
        classes, with the shape of ``input``.
    weight: ``(classes,)``, factors of the classes' losses; by default 1.
    ignore_index: for targets of labels, one that gives a loss of 0 and does not count in the mean.
    reduction: ``"mean"`` or ``"sum"`` over the losses, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(n, ...)`` or ``()``. For labels the mean is weighted: the sum divided
        by the sum of the labels' weights. Without any it is nan.
    label_smoothing: the share of the target, from 0 to 1, that is spread evenly over all classes.

    Raises ValueError if the shapes do not fit, TypeError for targets that are neither integers nor
    floating, and IndexError for a label that is not a class. On a GPU this does not check labels,
    because it would have to wait for the device; see `gpugrad.one_hot`.
    """
    of_labels = not _is_floating(target)
    if of_labels and weight is None and label_smoothing == 0:
        return _plain(input, target, reduction, ignore_index)
    name = "cross_entropy"
    is_share = 0 <= label_smoothing <= 1
    require(is_share, f"{name}: label_smoothing must be from 0 to 1", label_smoothing)
    target, weight = asarray(target), _class_weights(name, input, weight)
    if of_labels:
        _check_labels(name, input, target)
        log_p = neural.log_softmax(_classes_last(input))
        return _label_losses(name, log_p, target, weight, ignore_index, reduction, label_smoothing)
    if target.shape != shape_of(name, input) or not target.ndim:
        labels = "if it holds labels, make them integers by target.astype(gpugrad.int64)"
        remedy = labels if _is_floating(input) else f"the logits come first, {name}(logits, labels)"
        raise ValueError(
            f"{name}: a target of {target.dtype} holds probabilities, which must have the shape "
            f"of the logits (n, classes, ...), {input.shape}, not {target.shape}; {remedy}"
        )
    if index(ignore_index) >= 0:  # a negative one, such as the default, would not be a class anyway
        raise ValueError(f"{name}: ignore_index is for labels, but the target is floating")
    log_p, target = neural.log_softmax(_classes_last(input)), _classes_last(target)
    if label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / log_p.shape[-1]
    if weight is not None:
        target = target * weight
    return _reduced(name, -(target * log_p).sum(axis=-1), reduction)


def _plain(input, target, reduction, ignore_index):
    """The cross entropy of labels without weights and smoothing, which is a single op."""
    options = {"reduction": reduction, "ignore_index": ignore_index}
    if getattr(input, "ndim", 0) < 3:  # the op says of a list that it takes none
        return neural.cross_entropy(input, target, **options)
    target = asarray(target)
    _check_labels("cross_entropy", input, target)
    rows = reshape(_classes_last(input), (target.size, input.shape[1]))
    losses = neural.cross_entropy(rows, reshape(target, (target.size,)), **options)
    return reshape(losses, target.shape) if reduction == "none" else losses


def nll_loss(
    input: Tensor,
    target: Any,
    weight: Any = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of labels, given the logarithms of probabilities.

    input: log-probabilities, ``(n, classes, ...)`` or ``(classes,)``, as of `log_softmax`.
    target: integer labels, ``(n, ...)`` or ``()``. Their losses are ``-input`` at the labels, and
        with ``reduction="none"`` have the shape of the labels; else the result is ``()``.

    For all else see `cross_entropy`, which is this and `log_softmax` in one.
    """
    one_of("nll_loss: reduction", reduction, REDUCTIONS)
    target, weight = asarray(target), _class_weights("nll_loss", input, weight)
    _check_labels("nll_loss", input, target)
    return _label_losses("nll_loss", _classes_last(input), target, weight, ignore_index, reduction)


def _is_floating(x):
    backend = backend_of.get(type(getattr(x, "_like", x)))
    return backend is not None and backend.is_floating(x.dtype)


def _classes_last(x):
    return x if x.ndim < 3 else moveaxis(x, 1, -1)


def _class_weights(name, input, weight):
    if weight is None or not (shape := shape_of(name, input)):
        return None
    weight, classes = asarray(weight), shape[min(len(shape) - 1, 1)]
    check_shape(weight, (classes,), "{}: weight, a factor for each class,", name)
    return weight


def _check_labels(name, input, target):
    shape = shape_of(name, input)
    if not shape or target.shape != shape[:1] * (len(shape) > 1) + shape[2:]:
        raise ValueError(
            f"{name}: the input must have shape (n, classes, ...) and target, the labels, shape "
            f"(n, ...), but they have {shape} and {target.shape}"
        )
    if not isdtype(target.dtype, "integral"):
        raise TypeError(f"{name}: target must be integer labels, not {target.dtype}")


def _label_losses(name, log_p, target, weight, ignore_index, reduction, label_smoothing=0.0):
    """The losses of labels, given log-probabilities whose last axis is that of the classes."""
    target = target.astype(int64, copy=False)  # an unsigned dtype has no -100
    counted = target != index(ignore_index)
    target = where(counted, target, 0)
    losses = neural.nll(log_p, target)
    weights = 1.0
    if weight is not None:
        weights = weight[target]
        losses = losses * weights
    if label_smoothing:
        others = log_p if weight is None else log_p * weight
        spread = -others.sum(axis=-1) / log_p.shape[-1]
        losses = losses * (1 - label_smoothing) + spread * label_smoothing
    losses = _reduced(name, where(counted, losses, 0.0), reduction)
    if reduction != "mean":
        return losses
    # This divides means, because in float16 the sums could overflow.
    return losses / where(counted, weights, 0.0).astype(losses.dtype).mean()


# Of probabilities


def binary_cross_entropy(
    input: Tensor, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))`` for probabilities.

    weight: factors of the losses, which broadcast to their shape.

    Logarithms are at least -100, see `gpugrad.binary_cross_entropy`. The loss is nan for an input
    outside ``[0, 1]``.

    ``input (...), target (...) -> ()``, or with ``reduction="none"`` ``(...)``. The mean is over
    all elements, whatever their weights. For ``reduction`` and errors see `mse_loss`.
    """
    _check_shapes("binary_cross_entropy", input, target=target)
    losses = neural.binary_cross_entropy(input, target)
    return _weighted("binary_cross_entropy", losses, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Any,
    weight: Any = None,
    *,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """`binary_cross_entropy` of ``sigmoid(input)``, without overflow and loss of digits.

    The losses are ``-(target * log(p) + (1 - target) * log(1 - p))`` with ``p = sigmoid(input)``.

    weight: factors of the losses, which broadcast to their shape.
    pos_weight: factors of the targets' part, ``target * log(sigmoid(input))``, which broadcast
        too; above 1 they favour recall over precision.

    ``input (...), target (...) -> ()``, or with ``reduction="none"`` ``(...)``. The mean is over
    all elements, whatever their weights. For ``reduction`` and errors see `mse_loss`.
    """
    name = "binary_cross_entropy_with_logits"
    _check_shapes(name, input, target=target)
    if pos_weight is None:
        losses = neural.binary_cross_entropy_with_logits(input, target)
    else:
        # Both terms are positive, so that nothing cancels.
        factor = _factor(name, "pos_weight", pos_weight, input.shape)
        losses = factor * target * _softplus(-input) + (1 - target) * _softplus(input)
    return _weighted(name, losses, weight, reduction)


def _softplus(x):
    return softplus(x, threshold=math.inf)


def _weighted(name, losses, weight, reduction):
    if weight is not None:
        losses = losses * _factor(name, "weight", weight, losses.shape)
    return _reduced(name, losses, reduction)


def _factor(name, parameter, factor, shape):
    factor = asarray(factor)
    try:
        fits = broadcast_shapes(factor.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name}: {parameter} must broadcast to the shape of the input {shape}, but has shape "
            f"{factor.shape}"
        )
    return factor


@in_float32
def kl_div(
    input: Tensor, target: Any, *, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Kullback-Leibler divergence, elementwise ``target * (log(target) - input)``.

    input: log-probabilities, ``(n, classes)`` or of any other shape ``(...)``.
    target: probabilities of this shape, or with ``log_target`` their logarithms. Where a
        probability is 0, so is the loss.
    reduction: ``"batchmean"``, the sum divided by the length of the first axis, is the mean of the
        divergences of ``(n, classes)`` inputs; ``"mean"`` also divides by the number of classes.
        These and ``"sum"`` have the shape ``()``, and ``"none"`` that of the input.

    Raises ValueError if the shapes differ.
    """
    one_of("kl_div: reduction", reduction, ("batchmean", *REDUCTIONS))
    _check_shapes("kl_div", input, target=target)
    if log_target:
        losses = exp(target) * (target - input)
    else:
        losses = target * (log(where(asarray(target) == 0, 1.0, target)) - input)
    if reduction != "batchmean":
        return _reduced("kl_div", losses, reduction)
    if not losses.ndim:
        raise ValueError("kl_div: 'batchmean' needs an input with a first axis, not a number")
    return losses.sum() / losses.shape[0]


# Of vectors


@in_float32
def cosine_embedding_loss(
    input1: Tensor, input2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """``1 - c`` where the target is 1, and ``max(c - margin, 0)`` where it is -1.

    ``c`` is the cosine of the angle between the vectors; 1e-12 (in float16, 6e-5) is added to
    their squared lengths. At the margin, the gradient is that of ``c``.

    input1, input2: ``(n, d)`` or ``(d,)``.
    target: ``(n,)`` or ``()``.
    reduction: ``"mean"`` or ``"sum"`` over the n losses, of shape ``()``, or ``"none"`` for the
        losses themselves, which have the target's shape.

    Raises ValueError if the shapes do not fit.
    """
    shape = shape_of("cosine_embedding_loss", input1)
    target, input2 = asarray(target), asarray(input2)
    fits = len(shape) in (1, 2) and input2.shape == shape and target.shape == shape[:-1]
    what = "cosine_embedding_loss: the inputs must have shape (n, d) and the target (n,)"
    require(fits, what, (shape, input2.shape, target.shape))
    least = max(1e-12, finfo(input1.dtype).smallest_normal)

    def length(x):
        return sqrt((x * x).sum(axis=-1) + least)

    cosine = (input1 * input2).sum(axis=-1) / (length(input1) * length(input2))
    apart = where(target == -1, clip(cosine - margin, 0), 0.0)
    return _reduced("cosine_embedding_loss", where(target == 1, 1 - cosine, apart), reduction)


@in_float32
def triplet_margin_loss(
    anchor: Tensor, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, *, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``max(d(anchor, positive) - d(anchor, negative) + margin, 0)``.

    ``d(x, y)`` is the norm of order ``p`` of ``x - y + eps``. If the difference and the margin add
    up to 0, the gradient is that of the distances.

    anchor, positive, negative: ``(n, d)`` or ``(d,)``.
    margin: must be positive.
    swap: whether to replace the second distance by ``d(positive, negative)`` where that is less.
    reduction: ``"mean"`` or ``"sum"`` over the n losses, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(n,)`` or ``()``.

    From Balntas et al. (2016). Raises ValueError if the shapes differ.
    """
    name = "triplet_margin_loss"
    require(margin > 0, f"{name}: margin must be positive", margin)
    _check_shapes(name, anchor, positive=positive, negative=negative)
    if not len(anchor.shape):
        raise ValueError(f"{name}: the inputs must have shape (n, d) or (d,), not ()")

    near, far = (pairwise_distance(anchor, x, p, eps) for x in (positive, negative))
    if swap:
        far = minimum(far, pairwise_distance(asarray(positive), negative, p, eps))
    return _reduced(name, clip(near - far + margin, 0), reduction)


# Modules


class _Loss(FunctionLayer):
    """A loss as a module. Of its options, weights that are given are buffers."""

    reductions: ClassVar[tuple[str, ...]] = REDUCTIONS
    weight: Tensor | None
    pos_weight: Tensor | None

    def _set_options(self, reduction, **options):
        one_of(f"{type(self).__name__}: reduction", reduction, self.reductions)
        for name in ("weight", "pos_weight"):
            if options.get(name) is not None:
                self.register_buffer(name, asarray(options.pop(name)))
        super()._set_options(reduction=reduction, **options)

    def forward(self, input: Tensor, target: Any) -> Tensor:  # type: ignore[override]
        return self.function(input, target, **self._kwargs())

    def extra_repr(self) -> str:
        return ""


class MSELoss(_Loss, function=mse_loss, options="reduction"):
    """Squared error ``(input - target) ** 2``; see `functional.mse_loss`.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """


class L1Loss(_Loss, function=l1_loss, options="reduction"):
    """Absolute error ``abs(input - target)``; see `functional.l1_loss`.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """


class SmoothL1Loss(_Loss, function=smooth_l1_loss):
    """Squared error up to ``beta``, linear beyond; see `functional.smooth_l1_loss`.

    The losses are ``error ** 2 / (2 * beta)`` and ``abs(error) - beta / 2``, where the error is
    ``input - target``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """


class HuberLoss(_Loss, function=huber_loss, options="reduction delta"):
    """Half the squared error up to ``delta``, linear beyond; see `functional.huber_loss`.

    The losses are ``error ** 2 / 2`` and ``delta * (abs(error) - delta / 2)``, where the error is
    ``input - target``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """


class CrossEntropyLoss(_Loss, function=cross_entropy):
    """Cross entropy of logits and labels or probabilities; see `functional.cross_entropy`.

    The loss of a label is ``-log(softmax(input))`` at the label.

    ``input (n, classes, ...), target (n, ...) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n, ...)``. A target of
    probabilities has the input's shape. The weight ``(classes,)``, if there is one, is a buffer.
    """


class NLLLoss(_Loss, function=nll_loss):
    """Negative log-likelihood, ``-input`` at the label; see `functional.nll_loss`.

    ``input (n, classes, ...), target (n, ...) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n, ...)``. The weight
    ``(classes,)``, if there is one, is a buffer.
    """


class BCELoss(_Loss, function=binary_cross_entropy):
    """Binary cross entropy of probabilities; see `functional.binary_cross_entropy`.

    The losses are ``-(target * log(input) + (1 - target) * log(1 - input))``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``. The weight, if there is one, is a buffer.
    """


class BCEWithLogitsLoss(_Loss, function=binary_cross_entropy_with_logits):
    """Binary cross entropy of logits; see `functional.binary_cross_entropy_with_logits`.

    The losses are ``-(target * log(p) + (1 - target) * log(1 - p))`` with ``p = sigmoid(input)``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``. The weights, if there are any, are buffers.
    """


class KLDivLoss(_Loss, function=kl_div):
    """Kullback-Leibler divergence, ``target * (log(target) - input)``; see `functional.kl_div`.

    ``input (n, classes), target (n, classes) -> ()``: the mean over all elements, or with a
    ``reduction`` of ``"batchmean"`` the mean of the n divergences, or with ``"sum"`` their sum.
    With ``"none"`` the result is ``(n, classes)``.
    """

    reductions = "batchmean", *REDUCTIONS


class CosineEmbeddingLoss(_Loss, function=cosine_embedding_loss):
    """Draws pairs of vectors together or apart; see `functional.cosine_embedding_loss`.

    The loss is ``1 - cosine`` where the target is 1, and ``max(cosine - margin, 0)`` where it is
    -1.

    ``input1 (n, d), input2 (n, d), target (n,) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``.
    """

    def forward(self, input1: Tensor, input2: Any, target: Any) -> Tensor:  # type: ignore[override]
        return self.function(input1, input2, target, **self._kwargs())


class TripletMarginLoss(_Loss, function=triplet_margin_loss):
    """Draws vectors nearer to one than to another; see `functional.triplet_margin_loss`.

    The loss is ``max(d(anchor, positive) - d(anchor, negative) + margin, 0)``.

    ``anchor (n, d), positive (n, d), negative (n, d) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``.
    """

    def _set_options(self, margin, **options):
        require(margin > 0, "TripletMarginLoss: margin must be positive", margin)
        super()._set_options(margin=margin, **options)

    def forward(self, anchor: Tensor, positive: Any, negative: Any) -> Tensor:  # type: ignore[override]
        return self.function(anchor, positive, negative, **self._kwargs())
