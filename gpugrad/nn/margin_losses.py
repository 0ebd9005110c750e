"""Losses of scores that are to lie apart: functions of `gpugrad.nn.functional`, and modules.

Where a hinge ``max(z, 0)`` is at its kink, its slope is 1, and 0 in the losses of several classes.
"""

import math
from typing import Any

from .._creation import arange, asarray
from .._dtypes import isdtype
from .._tensor import Tensor
from ..autograd.casting import in_float32
from ..ops.activations import softplus
from ..ops.elementwise import clip, where
from ..ops.indexing import take_along_axis
from .common import can_be_read, shape_of
from .losses import _check_shapes, _class_weights, _Loss, _reduced, binary_cross_entropy_with_logits


@in_float32
def soft_margin_loss(input: Tensor, target: Any, *, reduction: str = "mean") -> Tensor:
    """``log(1 + exp(-target * input))`` elementwise, for targets of 1 and -1.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``. Raises ValueError if the shapes differ.
    """
    _check_shapes("soft_margin_loss", input, target=target)
    losses = softplus(asarray(target) * -input, threshold=math.inf)
    return _reduced("soft_margin_loss", losses, reduction)


@in_float32
def hinge_embedding_loss(
    input: Tensor, target: Any, margin: float = 1.0, *, reduction: str = "mean"
) -> Tensor:
    """``input`` where the target is 1, and ``max(margin - input, 0)`` where it is -1.

    At the margin, the slope in the input is -1.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``. Raises ValueError if the shapes differ.
    """
    _check_shapes("hinge_embedding_loss", input, target=target)
    losses = where(asarray(target) == 1, input, clip(margin - input, 0))
    return _reduced("hinge_embedding_loss", losses, reduction)


@in_float32
def margin_ranking_loss(
    input1: Tensor, input2: Any, target: Any, margin: float = 0.0, *, reduction: str = "mean"
) -> Tensor:
    """``max(margin - target * (input1 - input2), 0)``: 1 ranks the first higher, -1 the second.

    At the margin, the gradient is that of ``margin - target * (input1 - input2)``.

    ``input1 (...), input2 (...), target (...) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(...)``. Raises ValueError if the
    shapes differ.
    """
    _check_shapes("margin_ranking_loss", input1, input2=input2, target=target)
    losses = clip(margin - asarray(target) * (input1 - input2), 0)
    return _reduced("margin_ranking_loss", losses, reduction)


@in_float32
def multi_margin_loss(
    input: Tensor,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    *,
    reduction: str = "mean",
) -> Tensor:
    """The mean over all classes of ``max(margin - input[label] + input[class], 0) ** p``.

    The label's own class counts 0. Where ``margin - input[label] + input[class]`` is 0, so is the
    gradient.

    input: ``(n, classes)`` or ``(classes,)``.
    target: labels, ``(n,)`` or ``()``.
    weight: of the classes, ``(classes,)``; the loss of an example has that of its label.
    reduction: ``"mean"`` or ``"sum"`` over the losses, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(n,)`` or ``()``.

    Raises ValueError for shapes that do not fit, and on the CPU IndexError for a label that is no
    class. On other devices the check would have to wait.
    """
    name = "multi_margin_loss"
    labels = _labels(name, input, target, shape_of(name, input)[:-1], 0)
    losses = margin - take_along_axis(input, labels[..., None], axis=-1) + input
    losses = where(losses > 0, losses, 0.0) ** p  # at the kink, PyTorch's slope is 0 here
    if weight is not None:
        losses = losses * _class_weights(name, input, weight)[labels][..., None]
    others = arange(input.shape[-1], device=input.device) != labels[..., None]
    return _reduced("multi_margin_loss", where(others, losses, 0.0).mean(axis=-1), reduction)


@in_float32
def multilabel_margin_loss(input: Tensor, target: Any, *, reduction: str = "mean") -> Tensor:
    """The sum of ``max(1 - input[label] + input[class], 0)`` over labels and other classes.

    It is divided by the number of classes. Where ``1 - input[label] + input[class]`` is 0, so is
    the gradient.

    input: ``(n, classes)`` or ``(classes,)``.
    target: of the input's shape; the labels of an example come first, and a -1 ends them.
    reduction: ``"mean"`` or ``"sum"`` over the losses, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(n,)`` or ``()``.

    Raises ValueError for shapes that do not fit, and on the CPU IndexError for a label that is no
    class. On other devices the check would have to wait.
    """
    name = "multilabel_margin_loss"
    labels = _labels(name, input, target, shape_of(name, input), -1)
    classes = arange(input.shape[-1], device=input.device)
    ends = where(labels == -1, classes, input.shape[-1]).min(axis=-1, keepdims=True)
    is_label = classes < ends  # by the position in the target
    labels = where(is_label, labels, 0)
    own = take_along_axis(input, labels, axis=-1)[..., :, None]
    is_target = (labels[..., :, None] == classes) & is_label[..., :, None]
    counts = is_label[..., :, None] & ~is_target.any(axis=-2, keepdims=True)
    losses = 1 - own + input[..., None, :]
    losses = where(counts & (losses > 0), losses, 0.0)
    losses = losses.sum(axis=(-2, -1)) / input.shape[-1]
    return _reduced(name, losses, reduction)


@in_float32
def multilabel_soft_margin_loss(
    input: Tensor, target: Any, weight: Any = None, *, reduction: str = "mean"
) -> Tensor:
    """The mean over the classes of the binary cross entropy of logits and targets of 0 and 1.

    For its formula see `binary_cross_entropy_with_logits`.

    input, target: ``(..., classes)``. weight: broadcasts to them.
    reduction: ``"mean"`` or ``"sum"`` over the losses, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(...)``.

    Raises ValueError if the shapes differ.
    """
    _check_shapes("multilabel_soft_margin_loss", input, target=target)
    losses = binary_cross_entropy_with_logits(input, target, weight, reduction="none")
    return _reduced("multilabel_soft_margin_loss", losses.mean(axis=-1), reduction)


def _labels(name, input, target, shape, least):
    """The target as integers of this shape, from ``least`` to the last class; else an error."""
    target = asarray(target)
    if input.ndim not in (1, 2) or target.shape != shape:
        raise ValueError(
            f"{name}: the input must have shape (n, classes) or (classes,) and the target {shape}, "
            f"but they have {input.shape} and {target.shape}"
        )
    if not isdtype(target.dtype, "integral"):
        raise TypeError(f"{name}: the labels must be integers, not {target.dtype}")
    if target.size and target.device == "cpu" and can_be_read(target):
        low, high, most = int(target.min()), int(target.max()), input.shape[-1] - 1
        if low < least or high > most:
            raise IndexError(
                f"{name}: the labels must be from {least} to {most}, but go from {low} to {high}"
            )
    return target


class SoftMarginLoss(_Loss, function=soft_margin_loss, options="reduction"):
    """Logistic loss of scores and signs; see `functional.soft_margin_loss`.

    The losses are ``log(1 + exp(-target * input))``, for targets of 1 and -1.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """


class HingeEmbeddingLoss(_Loss, function=hinge_embedding_loss):
    """Distances that are to be small or large; see `functional.hinge_embedding_loss`.

    The loss is ``input`` where the target is 1, and ``max(margin - input, 0)`` where it is -1.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """


class MarginRankingLoss(_Loss, function=margin_ranking_loss):
    """Pairs of scores in their order; see `functional.margin_ranking_loss`.

    The losses are ``max(margin - target * (input1 - input2), 0)``, for targets of 1 and -1.

    ``input1 (...), input2 (...), target (...) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(...)``.
    """

    def forward(self, input1: Tensor, input2: Any, target: Any) -> Tensor:  # type: ignore[override]
        return self.function(input1, input2, target, **self._kwargs())


class MultiMarginLoss(_Loss, function=multi_margin_loss):
    """Hinge loss of several classes; see `functional.multi_margin_loss`.

    The loss is the mean over all classes of ``max(margin - input[label] + input[class], 0) ** p``,
    in which the label's own class counts 0.

    ``input (n, classes), target (n,) -> ()``: the mean of the losses, or with ``reduction="sum"``
    their sum. With ``"none"`` the result is ``(n,)``. The weight ``(classes,)``, if there is one,
    is a buffer.
    """


class MultiLabelMarginLoss(_Loss, function=multilabel_margin_loss, options="reduction"):
    """Hinge loss of several labels; see `functional.multilabel_margin_loss`.

    The loss is the sum of ``max(1 - input[label] + input[class], 0)`` over labels and other
    classes, divided by the number of classes.

    ``input (n, classes), target (n, classes) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``.
    """


class MultiLabelSoftMarginLoss(_Loss, function=multilabel_soft_margin_loss):
    """Logistic loss of several labels; see `functional.multilabel_soft_margin_loss`.

    The loss is the mean over the classes of `BCEWithLogitsLoss`, for targets of 0 and 1.

    ``input (n, classes), target (n, classes) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``. The weight, if there is
    one, is a buffer.
    """
