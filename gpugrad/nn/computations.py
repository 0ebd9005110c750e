"""Functions of `gpugrad.nn.functional` for dropout, attention, embedding and normalization."""

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from .._arguments import one_of, require
from .._batched import behind, levels_now, levels_of, lifted, physical
from .._creation import asarray, create
from .._draws import is_repeated
from .._dtypes import isdtype
from .._foreign_names import explains_arguments
from .._tensor import Tensor
from ..autograd.casting import as_input
from ..autograd.mode import no_grad
from ..backends import as_shape, backend_of
from ..backends.dtypes import int64
from ..ops import activations, neural, normalization
from ..ops.attention import attention as _attention
from ..ops.dropout import dropout as drop_elements
from ..ops.elementwise import maximum, where
from ..ops.indexing import add_along_axis, take
from ..ops.manipulation import expand_dims, reshape
from ..ops.products import einsum
from ..ops.searching import searchsorted
from ..random import Generator
from . import common
from .common import check_axes, check_probability, check_shape, floating, generator_for, shape_of
from .function_layer import for_axes
from .module import is_unshared

# PyTorch's activations can write to their input. Ops never do, so that ``inplace`` is ignored.


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(x, 0)`` elementwise, ``(...) -> (...)``; see `gpugrad.relu`."""
    return neural.relu(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``negative_slope * x``; see `gpugrad.leaky_relu`.

    Elementwise, ``(...) -> (...)``.
    """
    return activations.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``; see `gpugrad.elu`.

    Elementwise, ``(...) -> (...)``. The slope at 0 is ``alpha``.
    """
    return activations.elu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)`` elementwise, ``(...) -> (...)``; see `gpugrad.silu`."""
    return activations.silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * tanh(log(1 + exp(x)))`` elementwise, ``(...) -> (...)``; see `gpugrad.mish`."""
    return activations.mish(input)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """``x`` limited to ``[min_val, max_val]``; see `gpugrad.hardtanh`.

    Elementwise, ``(...) -> (...)``. The slope at the bounds is 0.
    """
    return activations.hardtanh(input, min_val, max_val)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * min(max(x + 3, 0), 6) / 6`` elementwise; see `gpugrad.hardswish`.

    ``(...) -> (...)``. The slope is 0 at -3 and 1 at 3.
    """
    return activations.hardswish(input)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the axes from ``start_dim`` to ``end_dim``, both included; see `Tensor.flatten`.

    By default all axes become one: ``(...) -> (size,)``.
    """
    shape_of("flatten", input)
    return Tensor.flatten(input, start_dim, end_dim)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input1 @ weight[k] @ input2 + bias[k]`` for each output k.

    input1: ``(..., in1)``. input2: ``(..., in2)``, with the same leading axes.
    weight: ``(out, in1, in2)``. bias: ``(out,)``, or None.

    The result is ``(..., out)``. Raises ValueError if the shapes do not fit.
    """
    a, b, w = (shape_of("bilinear", x, "each operand") for x in (input1, input2, weight))
    fits = a and b and a[:-1] == b[:-1] and w[1:] == (a[-1], b[-1])
    what = "bilinear: inputs and weight must have shapes (..., in1), (..., in2) and (out, in1, in2)"
    require(fits, what, (a, b, w))
    check_shape(bias, w[:1], "bilinear: bias")
    out = einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias


@explains_arguments
def embedding(input: Any, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """The rows of ``weight`` at the indices ``input``.

    input: ``(...)``, integers. weight: ``(rows, d)``. The result is ``(..., d)``.
    padding_idx: a row that gets no gradient; negative counts from the end.

    Raises TypeError for indices that are not integers, and ValueError for a ``padding_idx`` that is
    not a row. Negative indices count from the end. An index out of range raises the array library's
    error, unless the check would have to wait for a device.
    """
    input = asarray(input)
    if not isdtype(input.dtype, "integral"):
        raise TypeError(f"embedding: the indices must be integers, not {input.dtype}")
    table = shape_of("embedding", weight, "weight")
    require(len(table) == 2, "embedding: weight must have shape (rows, d)", table)
    rows, shape = table[0], (*input.shape, table[1])
    padding_idx = common.padding_row("embedding", padding_idx, rows)
    try:
        out = reshape(take(weight, reshape(input, (-1,)), axis=0), shape)
    except IndexError as error:
        raise IndexError(f"embedding: an index is not one of the {rows} rows ({error})") from None
    if padding_idx is None:
        return out
    return where(expand_dims(_is_row(input, padding_idx, rows), -1), out.detach(), out)


def _is_row(input, row, rows):
    return (input == row) | (input == row - rows)


def embedding_bag(
    input: Any,
    weight: Tensor,
    offsets: Any = None,
    *,
    mode: str = "mean",
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of ``weight`` at the indices of each bag.

    input: ``(bags, n)``, integers; or ``(n,)``, with bags one after the other.
    weight: ``(rows, d)``. The result is ``(bags, d)``; of an empty bag it is 0.
    offsets: for ``(n,)``, where each bag begins, ``(bags,)``.
    mode: ``"sum"``, ``"mean"`` or ``"max"``.
    per_sample_weights: factors of the rows in a sum, of the shape of ``input``.
    include_last_offset: whether ``offsets`` has one number more, where the last bag ends.
    padding_idx: a row that counts in no bag; negative counts from the end.

    With ``"max"`` and ``offsets``, the function waits for the device, to find the longest bag.
    Raises ValueError for shapes that do not fit; for the other errors see `embedding`.
    """
    one_of("embedding_bag: mode", mode, ("sum", "mean", "max"))
    input, name = asarray(input), "embedding_bag"
    if input.ndim != (2 if offsets is None else 1):
        given = f"{input.shape}, {'without' if offsets is None else 'with'} offsets"
        raise ValueError(f"{name}: input must be (bags, n), or (n,) with offsets, not {given}")
    if per_sample_weights is not None and mode != "sum":
        raise ValueError(f"{name}: per_sample_weights are for mode 'sum', not {mode!r}")
    rows, counts = embedding(input, weight), input == input
    padding_idx = common.padding_row(name, padding_idx, weight.shape[0])
    if padding_idx is not None:
        counts = ~_is_row(input, padding_idx, weight.shape[0])
        rows = where(expand_dims(counts, -1), rows, 0.0)
    if per_sample_weights is not None:
        per_sample_weights = asarray(per_sample_weights)
        check_shape(per_sample_weights, input.shape, "{}: per_sample_weights", name)
        rows = rows * expand_dims(per_sample_weights, -1)
    if offsets is None:

        def total(x):
            return x.sum(axis=1)
    else:
        offsets = _checked_offsets(asarray(offsets), input.shape[0], include_last_offset)
        places = create("arange", input.shape[0], dtype=offsets.dtype, like=input)
        bag = searchsorted(offsets, places, side="right") - 1

        def total(x):
            return _at(x, bag, offsets.shape[0])

    number = expand_dims(total(counts.astype(int64)), -1)
    if mode != "max":
        sums = total(rows)
        return sums if mode == "sum" else sums / maximum(number, 1).astype(sums.dtype)
    if offsets is not None:  # make a table of bags, each as long as the longest one
        place = places - offsets[bag]
        longest = common.largest(place, input.shape[0] - 1) + 1
        shape, at = (offsets.shape[0], longest), bag * longest + place
        counts = reshape(_at(counts.astype(int64), at, math.prod(shape)), shape) > 0
        rows = reshape(_at(rows, at, math.prod(shape)), (*shape, weight.shape[1]))
    if not rows.shape[1]:
        return rows.sum(axis=1)
    greatest = where(expand_dims(counts, -1), rows, -math.inf).max(axis=1)
    return where(number > 0, greatest, 0.0)


def _checked_offsets(offsets, n, include_last_offset):
    """The places where bags begin among n indices; ValueError for wrong ones on the CPU."""
    if not isdtype(offsets.dtype, "integral") or offsets.ndim != 1:
        given = f"{offsets.dtype} {offsets.shape}"
        raise TypeError(f"embedding_bag: offsets must be integers of one axis, not {given}")
    if offsets.shape[0] < include_last_offset:
        raise ValueError("embedding_bag: include_last_offset needs an offset at least")
    if offsets.shape[0] and offsets.device == "cpu" and common.can_be_read(offsets):
        found = offsets.tolist()
        if found[0] != 0 or found != sorted(found) or found[-1] > n:
            raise ValueError(
                f"embedding_bag: offsets must begin with 0, go up, and end with at most the number "
                f"of indices, {n}, not {found[:8]}"
            )
    return offsets[: offsets.shape[0] - include_last_offset]


def _at(values, indices, n):
    """Zeros of the length n, with values added at these indices along the first axis."""
    indices = reshape(indices, (-1, *[1] * (values.ndim - 1)))
    return add_along_axis(values, indices, (n, *values.shape[1:]), axis=0)


def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    input: ``(...)``; the result has its shape.
    training: if False, return ``input`` itself.
    inplace: ignored, since ops never write to their inputs.
    generator: its next `key` decides which elements to zero; by default the generator of the
        input's device.

    The same seed drops the same elements on every device. For backward the op keeps nothing as
    large as ``input``. Inside `vmap` each example gets its own mask. Raises TypeError unless
    ``input`` is floating.
    """
    check_probability("dropout", p)
    input = floating("dropout", input)
    if not training or p == 0:
        return input
    key = generator_for(input, generator).key()
    levels = levels_now("dropout", input)
    if not levels:
        return drop_elements(input, p=p, key=key)
    # All examples together are one input, so that each gets its own part of the mask.
    return behind(drop_elements(physical(lifted(input, levels)), p=p, key=key), levels)


def _dropout(
    name: str,
    n: int,
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Zero each channel of ``(n, channels, height, width)`` with probability ``p``, as a whole.

    The result has this shape too. The other channels are scaled by ``1 / (1 - p)``. The other
    parameters are those of `dropout`.
    """
    check_axes(name, input, n)
    if n == 2 and input.ndim == 3:
        raise ValueError(
            f"{name}: the input must be (n, channels, height, width), not of shape {input.shape}: "
            f"its first axis could also count examples of one channel"
        )
    shape = input.shape[:-n]
    check_probability(name, p)
    input = floating(name, input)
    if not training or p == 0:
        return input
    kept = dropout(create("ones", shape, like=input), p, generator=generator)
    kept = reshape(kept, (*shape, *[1] * n))
    return where(kept > 0, input * kept, 0.0)


dropout1d, dropout2d, dropout3d = for_axes(_dropout, keep_lengths=True)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False, *, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """``softmax(query @ key.T * scale + attn_mask) @ value``; memory grows linearly with lengths.

    query: ``(..., n, d)``. key: ``(..., m, d)``. value: ``(..., m, e)``. The result is
        ``(..., n, e)``; leading axes broadcast.
    attn_mask: broadcasts to ``(..., n, m)``: bools, False where a query must not use a key, or
        numbers of the query's dtype to add. A query without any key gives 0.
    dropout_p: the probability with which each weight is dropped, also in evaluation.
    is_causal: whether query i may use only the keys up to i; then there can be no mask.
    scale: by default ``1 / sqrt(d)``.
    enable_gqa: whether several heads of the query, one after the other, share a head of key and
        value. Axis -3 is that of the heads, and the query has a multiple of the others' heads.
    generator: as for `dropout`.

    Raises ValueError for shapes that do not fit, and TypeError for a mask of another dtype.
    """
    name = "scaled_dot_product_attention"
    check_probability(name, dropout_p)
    operands = [query, key, value]
    if attn_mask is not None:
        if is_causal:
            raise ValueError(f"{name}: give attn_mask or is_causal, not both")
        attn_mask = asarray(attn_mask)
        if not isdtype(attn_mask.dtype, "bool") and attn_mask.dtype != query.dtype:
            raise TypeError(
                f"{name}: attn_mask must be of bools or of the query's dtype {query.dtype}, "
                f"not {attn_mask.dtype}"
            )
        operands.append(attn_mask)
    if enable_gqa:
        operands = _grouped(*operands)
    dropping: dict[str, Any] = {}
    levels: list[Any] = []
    if dropout_p:
        dropping = {"dropout_p": dropout_p, "dropout_key": generator_for(query, generator).key()}
        found = {level for x in operands for level in levels_now(name, x)}
        # All examples together are one input, so that each gets its own part of a mask.
        if levels := sorted(found, key=attrgetter("number")):
            ndim = max(x.ndim for x in operands)
            operands = [reshape(x, (1,) * (ndim - x.ndim) + x.shape) for x in operands]
            operands = [physical(lifted(x, levels)) for x in operands]
    out = _attention(*operands, is_causal=is_causal, scale=scale, **dropping)
    out = behind(out, levels)
    if enable_gqa:
        out = reshape(out, (*out.shape[:-4], out.shape[-4] * out.shape[-3], *out.shape[-2:]))
    return out


def _grouped(query, key, value, mask=None):
    """The operands with the axis of the heads split into groups and heads of a group."""
    q, k, v = shapes = query.shape, key.shape, value.shape
    if min(map(len, shapes)) < 3 or k[-3] != v[-3] or q[-3] % max(k[-3], 1):
        raise ValueError(
            f"scaled_dot_product_attention: with enable_gqa the query's heads, axis -3, must be a "
            f"multiple of those of key and value, but the shapes are {', '.join(map(str, shapes))}"
        )

    def split(x):
        return reshape(x, (*x.shape[:-3], k[-3], -1, *x.shape[-2:]))

    operands = [split(query), expand_dims(key, -3), expand_dims(value, -3)]
    if mask is not None:
        if mask.ndim > 2:
            mask = expand_dims(mask, -3) if mask.shape[-3] == 1 else split(mask)
        operands.append(mask)
    return operands


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias``, with statistics of the last axes.

    The mean and variance are over the axes of ``normalized_shape``.

    input: ``(..., *normalized_shape)``; the result has its shape.
    weight, bias: ``normalized_shape``; by default 1 and 0.

    Raises ValueError if the shapes do not fit.
    """
    ndim = _normalized_axes("layer_norm", input, normalized_shape)
    return normalization.layer_norm(input, weight, bias, ndim=ndim, eps=eps)


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """``input / sqrt(mean(input**2) + eps) * weight``, with the mean over the last axes.

    input: ``(..., *normalized_shape)``; the result has its shape.
    weight: ``normalized_shape``; by default 1.
    eps: by default the distance from 1 to the next number of the input's dtype.

    Raises ValueError if the shapes do not fit.
    """
    ndim = _normalized_axes("rms_norm", input, normalized_shape)
    return normalization.rms_norm(input, weight, ndim=ndim, eps=eps)


def _normalized_axes(name, input, normalized_shape):
    """How many axes are normalized; ValueError if they are not the input's last ones."""
    shape = as_shape(normalized_shape)
    ndim, given = len(shape), shape_of(name, input)
    if not ndim or given[len(given) - ndim :] != shape:
        raise ValueError(
            f"{name}: the input's last axes, at least one, must be normalized_shape {shape}, "
            f"but its shape is {given}"
        )
    return ndim


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias``, with statistics of groups of channels.

    input: ``(n, channels, ...)``; the channels of each example are split into ``num_groups``. The
        result has this shape.
    weight, bias: ``(channels,)``; by default 1 and 0.

    Raises ValueError if the shapes do not fit.
    """
    return normalization.group_norm(input, weight, bias, groups=num_groups, eps=eps)


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
    momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """``(input - mean) / sqrt(var + eps) * weight + bias``, for each channel of each example.

    input: ``(n, channels, ...)``; the result has its shape.
    running_mean, running_var, weight, bias: ``(channels,)``, or None.
    use_input_stats: if True, normalize each channel of each example by its own statistics, and
        update the running statistics, if given, by the averages over the examples, as
        `batch_norm` does. If False, normalize by the running statistics.

    For `checkpoint` and `vmap` see `batch_norm`. Raises ValueError for shapes that do not fit, for
    missing running statistics without ``use_input_stats``, and for a single element per channel
    with it.
    """
    shape = shape_of("instance_norm", input)
    require(len(shape) > 2, "instance_norm: the input must be (n, channels, ...)", shape)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise ValueError(
                "instance_norm: without use_input_stats it needs running_mean and running_var"
            )
        return normalization._by_statistics(input, running_mean, running_var, weight, bias, eps=eps)
    n, channels, *rest = shape
    count = math.prod(rest)
    what = "instance_norm: the input's shape must hold more than one element per channel"
    require(count != 1, what, shape)
    out = normalization.group_norm(input, weight, bias, groups=channels, eps=eps)
    if n and count and not (running_mean is running_var is None or is_repeated()):
        axes = tuple(range(2, len(shape)))
        values = input.detach()
        statistics = values.mean(axis=(0, *axes)), values.var(axis=axes).mean(axis=0)
        running = running_mean, running_var
        _track(running, statistics, (1, count / (count - 1)), momentum, "instance_norm")
    return out


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
    weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
    momentum: float | Tensor = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """``(input - mean) / sqrt(var + eps) * weight + bias``, with a mean and variance per channel.

    input: ``(n, channels, ...)``; the result has its shape.
    running_mean, running_var, weight, bias: ``(channels,)``, or None.
    training: if True, normalize by the statistics of the input and update the running
        statistics, if given: ``running = (1 - momentum) * running + momentum * statistic``,
        with the unbiased variance. If False, normalize by the running statistics.

    If `checkpoint` computes a call again, this does not update the running statistics again.
    Inside `vmap` the statistics differ between examples, so a running mean shared by all cannot
    follow them: give each example its own, or None. Raises ValueError for shared running statistics
    inside `vmap`, for shapes that do not fit, for missing running statistics without ``training``,
    and for a single element per channel in training.
    """
    running, affine = (running_mean, running_var), (weight, bias)
    return _counted_batch_norm(input, running, affine, training, momentum, eps)


def _counted_batch_norm(input, running, affine, training, momentum, eps, batches=None):
    """`batch_norm` that adds 1 to the tensor ``batches`` when it updates the statistics."""
    shape = shape_of("batch_norm", input)
    require(len(shape) > 1, "batch_norm: the input must be (n, channels, ...)", shape)
    channels = shape[1]
    names = "running_mean", "running_var", "weight", "bias"
    for name, x in zip(names, (*running, *affine), strict=True):
        check_shape(x, (channels,), "batch_norm: for an input of shape {}, {}", shape, name)
    if not training:
        if any(x is None for x in running):
            raise ValueError("batch_norm: without training it needs running_mean and running_var")
        return as_input(input, normalization._by_statistics(input, *running, *affine, eps=eps))
    count = shape[0] * math.prod(shape[2:])
    what = "batch_norm: in training the input's shape must hold more than one element per channel"
    require(count != 1, what, shape)
    out, mean, var = normalization.batch_norm(input, *affine, eps=eps)
    if not is_repeated():
        if count:
            _track(running, (mean, var), (1, count / (count - 1)), momentum, batches=batches)
        elif batches is not None:
            batches += 1
    return out


def _track(running, statistics, factors, momentum, name="batch_norm", batches=None):
    """Move running statistics, in place, towards those of a batch times ``factors``.

    running: tensors, or None.
    batches: a count, a tensor, that this increases by 1; or None.
    """
    given = [x for x in zip(running, statistics, factors, strict=True) if x[0] is not None]
    for mine, statistic, _ in given:
        if not {*levels_of(statistic)} <= {*levels_of(mine)}:
            raise ValueError(
                f"{name}: inside vmap the examples' statistics differ, and cannot all be kept in "
                "one running_mean and running_var; give each example its own by functional_call, "
                "keep none (track_running_stats=False), or use those there are (eval())"
            )
    try:
        kept = 1 - momentum
    except TypeError:
        raise ValueError(f"{name}: momentum must be a number, not {momentum!r}") from None
    steps = [(x, y, momentum * factor) for x, y, factor in given]
    if steps and _track_by_one_kernel(steps, kept, batches):
        return
    with no_grad():
        for mine, statistic, share in steps:
            mine *= kept
            mine += statistic * share
        if batches is not None:
            batches += 1


def _track_by_one_kernel(steps, kept, batches):
    """Update running statistics by one kernel, if the backend has one; returns whether it did.

    If something else can see the memory of a statistic, the statistic gets a new array. The results
    have the same bits as those of `_track`, which compiled functions use.
    """
    running, statistics, shares = zip(*steps, strict=True)
    written = [*running, batches] if batches is not None else [*running]
    if {*map(type, (*written, *statistics))} != {Tensor} or not isinstance(kept, (int, float)):
        return False
    backend = backend_of[type(running[0].array)]
    if backend.blend is None:
        return False
    shared = [x for x in written if not is_unshared(x)]
    copies = {id(x): backend.asarray(x.array, copy=True) for x in shared}
    arrays = [copies.get(id(x), x.array) for x in written]
    is_done = backend.blend(arrays, [x.array for x in statistics], kept, shares)
    if is_done:
        for x in shared:
            x.array = copies[id(x)]
    return is_done
