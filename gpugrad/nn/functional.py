"""What layers do, as functions of tensors."""

import math
from typing import TYPE_CHECKING, Any

from ..arguments import is_floating
from ..backends import backend_of
from ..batched import behind, levels_now, lifted, physical
from ..habits import OF_FUNCTIONAL, answer
from ..ops.dropout import dropout as _dropout
from ..ops.manipulation import reshape
from ..ops.neural import cross_entropy as _cross_entropy
from ..ops.neural import linear, log_softmax, mse, relu, sigmoid, softmax
from ..ops.reductions import sum as _sum
from ..ops.transcendental import tanh
from ..random import Generator, default_generator
from ..tensor import Tensor

__all__ = [
    "cross_entropy",
    "dropout",
    "flatten",
    "linear",
    "log_softmax",
    "mse_loss",
    "relu",
    "sigmoid",
    "softmax",
    "tanh",
]


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """One axis in place of the axes from ``start_dim`` to ``end_dim``, both included."""
    shape = input.shape
    ndim = len(shape)
    first = start_dim + ndim if start_dim < 0 else start_dim
    last = end_dim + ndim if end_dim < 0 else end_dim
    if ndim == 0 and start_dim in (0, -1) and end_dim in (0, -1):
        return reshape(input, (1,))
    if not 0 <= first <= last < ndim:
        raise ValueError(
            f"flatten: start_dim {start_dim} and end_dim {end_dim} are not axes in order "
            f"of a tensor of shape {shape}"
        )
    size = math.prod(shape[first : last + 1])
    return reshape(input, (*shape[:first], size, *shape[last + 1 :]))


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    training: if False, ``input`` itself.
    generator: whose next `key` decides which; by default that of the device of ``input``.

    The same seed drops the same elements on every device. Nothing of the size of ``input`` is
    kept for backward. Inside `vmap` each example has others dropped. Raises TypeError unless
    ``input`` is floating.
    """
    check_probability("dropout", p)
    if not is_floating(input):
        raise TypeError(f"dropout: the input must be floating, not {input.dtype}; use astype")
    if not training or p == 0:
        return input
    if generator is None:
        device = input.device
        generator = default_generator(device if device.startswith("cuda") else "cpu")
    key = generator.key()
    levels = levels_now("dropout", input)
    if not levels:
        return _dropout(input, p=p, key=key)
    # One mask for all examples together.
    return behind(_dropout(physical(lifted(input, levels)), p=p, key=key), levels)


def check_probability(name, p):
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: the probability p must be from 0 to 1, not {p!r}")


def mse_loss(input: Tensor, target: Any, *, reduction: str = "mean") -> Tensor:
    """Squared error ``(input - target) ** 2``.

    input, target: of one shape: nothing is broadcast.
    reduction: ``"mean"`` or ``"sum"`` over all elements, or ``"none"``.

    Raises ValueError where the shapes differ.
    """
    return mse(input, target, reduction=reduction)


def cross_entropy(input: Tensor, target: Any, *, reduction: str = "mean") -> Tensor:
    """Cross entropy of ``softmax(input)``, in nats.

    input: logits, ``(n, classes)`` or ``(classes,)``.
    target: integer labels, ``(n,)`` or ``()``; or floating probabilities of the
        classes, of the shape of ``input``.
    reduction: ``"mean"`` or ``"sum"`` over the n losses, or ``"none"``.

    Raises ValueError where the shapes do not fit, IndexError for a label that is no class.
    """
    backend = backend_of.get(type(getattr(target, "_like", target)))
    if backend is None or not backend.is_floating(target.dtype):
        return _cross_entropy(input, target, reduction=reduction)
    if tuple(target.shape) != input.shape or not 1 <= input.ndim <= 2:
        raise ValueError(
            f"cross_entropy: probabilities must have the shape of logits (n, classes), but logits "
            f"are {input.shape} and target {tuple(target.shape)}; labels are integers"
        )
    losses = -_sum(target * log_softmax(input), axis=-1)
    if reduction == "none":
        return losses
    if reduction not in ("mean", "sum"):
        raise ValueError(
            f"cross_entropy: reduction must be 'mean', 'sum' or 'none', not {reduction!r}"
        )
    return losses.mean() if reduction == "mean" else losses.sum()


if not TYPE_CHECKING:
    __getattr__ = answer(__name__, OF_FUNCTIONAL)
