"""The computations of the layers, as functions of tensors."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._arguments import is_floating
from .._batched import behind, levels_now, levels_of, lifted, physical
from .._creation import asarray
from .._draws import is_repeated
from .._dtypes import isdtype
from .._foreign_names import answer
from .._tensor import Tensor
from .._thread_state import restores_state
from ..autograd.casting import as_input
from ..autograd.mode import no_grad
from ..backends import as_shape, backend_of
from ..ops.dropout import dropout as _dropout
from ..ops.elementwise import sqrt, where
from ..ops.indexing import take
from ..ops.manipulation import expand_dims, reshape
from ..ops.normalization import batch_norm as _batch_norm
from ..ops.normalization import layer_norm as _layer_norm
from ..ops.products import einsum
from ..random import Generator, default_generator
from .activations import (
    celu,
    elu,
    gelu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    softsign,
    tanh,
    tanhshrink,
)
from .losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    triplet_margin_loss,
)
from .module import is_unshared

if TYPE_CHECKING:
    from .._ops import linear
else:
    from ..ops.neural import linear

__all__ = [
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "cosine_embedding_loss",
    "cross_entropy",
    "dropout",
    "elu",
    "flatten",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "softsign",
    "tanh",
    "tanhshrink",
    "triplet_margin_loss",
]
__dir__ = __all__.copy


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the axes from ``start_dim`` to ``end_dim``, both included, into one axis."""
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


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2 + bias[k]`` for each output k.

    input1: ``(..., in1)``. input2: ``(..., in2)``, with the same leading axes.
    weight: ``(out, in1, in2)``. bias: ``(out,)``, or None.

    The result is ``(..., out)``. Raises ValueError if the shapes do not fit.
    """
    a, b, w = input1.shape, input2.shape, weight.shape
    if not (a and b and a[:-1] == b[:-1] and w[1:] == (a[-1], b[-1])):
        raise ValueError(
            f"bilinear: inputs (..., in1) and (..., in2) need a weight (out, in1, in2), but the "
            f"shapes are {a}, {b} and {w}"
        )
    if bias is not None and bias.shape != w[:1]:
        raise ValueError(f"bilinear: bias must have shape {w[:1]}, not {bias.shape}")
    out = einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias


def embedding(input: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of ``weight`` at the indices ``input``.

    input: ``(...)``, integers. weight: ``(rows, d)``. The result is ``(..., d)``.
    padding_idx: a row that gets no gradient; negative counts from the end.

    Raises TypeError for indices that are not integers. An index that is out of range is the array
    library's error where finding it does not wait for a device; negative ones count from the end.
    """
    input = asarray(input)
    if not isdtype(input.dtype, "integral"):
        raise TypeError(f"embedding: the indices must be integers, not {input.dtype}")
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight must have shape (rows, d), not {weight.shape}")
    shape = (*input.shape, weight.shape[1])
    out = reshape(take(weight, reshape(input, (-1,)), axis=0), shape)
    if padding_idx is None:
        return out
    padded = expand_dims(input == padding_idx % weight.shape[0], -1)
    return where(padded, out.detach(), out)


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, generator: Generator | None = None
) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    training: if False, return ``input`` itself.
    generator: its next `key` decides which elements to zero; by default the generator of the
        input's device.

    The same seed drops the same elements on every device. Nothing as large as ``input`` is kept
    for backward. Inside `vmap` each example gets its own mask. Raises TypeError unless
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
    # All examples together are one input, so that each gets its own part of the mask.
    return behind(_dropout(physical(lifted(input, levels)), p=p, key=key), levels)


def check_probability(name, p):
    if not 0 <= p <= 1:
        raise ValueError(f"{name}: the probability p must be from 0 to 1, not {p!r}")


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias``, with statistics of the last axes.

    The mean and variance are over the axes of ``normalized_shape``.

    input: ``(..., *normalized_shape)``.
    weight, bias: ``normalized_shape``; by default 1 and 0.

    Raises ValueError if the shapes do not fit.
    """
    shape = as_shape(normalized_shape)
    ndim = len(shape)
    if not ndim or input.shape[input.ndim - ndim :] != shape:
        raise ValueError(
            f"layer_norm: the input's last axes, at least one, must be normalized_shape {shape}, "
            f"but its shape is {input.shape}"
        )
    return _layer_norm(input, weight, bias, ndim=ndim, eps=eps)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias``, with a mean and variance per channel.

    input: ``(n, channels, ...)``.
    running_mean, running_var, weight, bias: ``(channels,)``, or None.
    training: if True, normalize by the statistics of the input and update the running
        statistics, if given: ``running = (1 - momentum) * running + momentum * statistic``,
        with the unbiased variance. If False, normalize by the running statistics.

    When `checkpoint` recomputes a call, the running statistics are not updated again. Inside
    `vmap` the statistics differ between examples, so a running mean shared by all cannot follow
    them: give each example its own, or None. Raises ValueError for shared running statistics
    inside `vmap`, for shapes that do not fit, for running statistics that are missing without
    ``training``, and for a single element per channel in training.
    """
    shape = input.shape
    if len(shape) < 2:
        raise ValueError(f"batch_norm: the input must be (n, channels, ...), not {shape}")
    channels = shape[1]
    parameters = {
        "running_mean": running_mean,
        "running_var": running_var,
        "weight": weight,
        "bias": bias,
    }
    for name, x in parameters.items():
        if x is not None and x.shape != (channels,):
            raise ValueError(
                f"batch_norm: {name} must have shape ({channels},), as the input of shape {shape} "
                f"has {channels} channels, not {x.shape}"
            )
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm: without training it needs running_mean and running_var")
        return as_input(input, _by_running(input, running_mean, running_var, weight, bias, eps))
    count = shape[0] * math.prod(shape[2:])
    if count == 1:
        raise ValueError(
            f"batch_norm: in training each channel needs more than one element, but the input's "
            f"shape is {shape}"
        )
    out, mean, var = _batch_norm(input, weight, bias, eps=eps)
    if count and not is_repeated():
        _follow(running_mean, mean, 1, momentum)
        _follow(running_var, var, count / (count - 1), momentum)
    return out


def _by_running(input, mean, var, weight, bias, eps):
    scale = 1 / sqrt(var + eps)
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale
    if bias is not None:
        shift = shift + bias
    if input.ndim > 2:
        column = (input.shape[1],) + (1,) * (input.ndim - 2)
        scale, shift = reshape(scale, column), reshape(shift, column)
    return input * scale + shift


@restores_state
def _follow(running, statistic, factor, momentum):
    """Move a running statistic, in place, towards ``factor * statistic`` of a batch."""
    if running is None:
        return
    if not {*levels_of(statistic)} <= {*levels_of(running)}:
        raise ValueError(
            "batch_norm: inside vmap the examples' statistics differ, and cannot all be kept in "
            "one running_mean and running_var; give each example its own by functional_call, "
            "keep none (track_running_stats=False), or use those there are (eval())"
        )
    kept, share = 1 - momentum, momentum * factor
    if not _blended(running, statistic, kept, share):
        with no_grad():
            running *= kept
            running += statistic * share


def _blended(running, statistic, kept, share):
    """Overwrite ``running`` at once if nothing else can see its memory; whether that was done."""
    if not (type(running) is type(statistic) is Tensor and isinstance(share, (int, float))):
        return False
    blend = backend_of[type(running.array)].blend
    return (
        blend is not None
        and is_unshared(running)
        and blend(running.array, statistic.array, kept, share)
    )


if not TYPE_CHECKING:
    __getattr__ = answer(__name__)
