"""Twins of the ops in gpugrad/ops/neural.py, and of the slopes of activations.

The arrays are copied where they are not contiguous; their dtypes must be the same.
"""

from functools import cache
from math import prod

import cupy
import numpy as np

from ...backends.cupy.kernels.loader import covers, kernel
from ...backends.dtypes import float32, float64
from ...ops.neural import (
    cross_entropy,
    dense,
    linear,
    log_softmax,
    mse,
    relu,
    sigmoid,
    softmax,
)
from ...ops.transcendental import tanh

# In the order of the constants in neural.cu.
_ACTIVATIONS = {name: np.int32(i) for i, name in enumerate(["none", "relu", "sigmoid", "tanh"])}
_THREADS = 256
_BLOCKS = 2048  # as many as are worth starting; then each thread has several elements
_ROWS = 16  # of threads in a block that sums columns, as in neural.cu
_contiguous = cupy.ascontiguousarray


# Activations


def _activate(x, bias, out, activation):
    """``out = activation(x + bias)``, which may be x."""
    n, dtype = x.size, x.dtype
    if n:
        blocks = min(-(-n * dtype.itemsize // (16 * _THREADS)), _BLOCKS)
        columns = n if bias is None else bias.size
        args = x, bias, out, n, columns, _ACTIVATIONS[activation]
        kernel("neural", "activate", dtype)((blocks,), (_THREADS,), args)
    return out


def _slope(g, out, activation):
    """The cotangent of what was activated to ``out``."""
    n, dtype = out.size, out.dtype
    result = cupy.empty(out.shape, dtype)
    if n:
        blocks = min(-(-n * dtype.itemsize // (16 * _THREADS)), _BLOCKS)
        args = _contiguous(g), _contiguous(out), result, n, _ACTIVATIONS[activation]
        kernel("neural", "activate_backward", dtype)((blocks,), (_THREADS,), args)
    return result


def _sigmoid(xp, x):
    if not covers(x.dtype):
        return NotImplemented
    return _activate(_contiguous(x), None, cupy.empty(x.shape, x.dtype), "sigmoid")


def _rule_of(activation):
    def rule(xp, g, out):
        if not covers(out.dtype) or g.dtype != out.dtype or g.shape != out.shape:
            return NotImplemented
        return _slope(g, out, activation)

    return rule


# Linear layers


def _is_linear(x, weight, bias):
    """Whether the inputs are what kernels take; if not, the generic op says why or does it."""
    dtype = x.dtype
    return (
        covers(dtype)
        and weight.dtype == dtype
        and weight.ndim == 2
        and x.ndim > 0
        and x.shape[-1] == weight.shape[1]
        and (bias is None or (bias.dtype == dtype and bias.shape == weight.shape[:1]))
    )


def _layer(xp, x, weight, bias, activation):
    if not _is_linear(x, weight, bias):
        return NotImplemented
    out = _contiguous(xp.matmul(x, weight.T))
    bias = bias if bias is None else _contiguous(bias)
    return _activate(out, bias, out, activation)


def _dense(xp, x, weight, bias=None, /, *, activation):
    if activation not in _ACTIVATIONS:
        return NotImplemented
    return _layer(xp, x, weight, bias, activation)


def _linear(xp, x, weight, bias=None):
    if bias is None:
        return NotImplemented
    return _layer(xp, x, weight, bias, "none")


def _linear_bias(xp, g):
    if g.ndim < 2 or not g.size or not covers(g.dtype):
        return NotImplemented
    return _sum_rows(_contiguous(g), None, None, "none")


def _dense_vjp(xp, g, x, weight, out, activation, wanted):
    dtype = out.dtype
    if activation not in _ACTIVATIONS:
        return NotImplemented
    if out.ndim < 2 or not out.size or not covers(dtype) or g.dtype != dtype:
        return NotImplemented
    bias = None
    if len(wanted) > 2 and wanted[2]:
        given, g = _contiguous(g), cupy.empty(out.shape, dtype)
        bias = _sum_rows(given, _contiguous(out), g, activation)
    else:
        g = _slope(g, out, activation)
    columns = out.shape[-1]
    rows = out.size // columns
    return (
        xp.matmul(g, weight) if wanted[0] else None,
        xp.matmul(g.reshape(rows, columns).T, x.reshape(rows, x.shape[-1])) if wanted[1] else None,
        bias,
    )


def _sum_rows(g, y, out, activation):
    """``out`` = the cotangent of what was activated to ``y``; returns the sums over its rows."""
    dtype, columns = g.dtype, g.shape[-1]
    rows = g.size // columns
    packed = rows * columns >= 1 << 20 and _can_pack(columns, dtype, (g, y, out))
    strips = -(-columns // (32 * (16 // dtype.itemsize if packed else 1)))
    chunks = 1 if rows <= 256 else min(-(-rows // 64), max(528 // strips, 1))
    total = cupy.empty(columns, dtype)
    parts = None if chunks == 1 else cupy.empty((chunks, columns), _accumulator(dtype))
    args = g, y, out, total, parts, rows, columns, _ACTIVATIONS[activation], packed
    kernel("neural", "activate_backward_and_sum", dtype)((strips, chunks), (32, _ROWS), args)
    if parts is not None:
        args = parts, total, chunks, columns
        kernel("neural", "sum_parts", dtype)((-(-columns // 32),), (32, _ROWS), args)
    return total


def _can_pack(columns, dtype, arrays):
    """Whether rows start where 16 bytes can be read at a time."""
    if columns * dtype.itemsize % 16:
        return False
    return not any(x is not None and x.data.ptr % 16 for x in arrays)


def _accumulator(dtype):
    return float64 if dtype == float64 else float32


# Rows


@cache
def _groups(columns):
    """How many threads have a row, as a kernel's parameter, and a block; and its rows."""
    if columns <= 256:
        width = 4
        while width < 32 and 4 * width < columns:
            width *= 2
        return np.int32(width), 128, 128 // width
    threads = min(-(-columns // 128) * 32, 1024)
    return np.int32(threads), threads, 1


def _is_rows(x, axis):
    return covers(x.dtype) and x.size and x.ndim and axis in (-1, x.ndim - 1)


def _each_row(name, arrays, *options):
    """A kernel of rows: the last of the arrays is the result."""
    out = arrays[-1]
    columns = out.shape[-1]
    rows = out.size // columns
    width, threads, rows_at_once = _groups(columns)
    blocks = min(-(-rows // rows_at_once), 1 << 20)
    args = *arrays, rows, columns, width, *options
    kernel("neural", name, out.dtype)((blocks,), (threads,), args)
    return out


def _softmax_of(is_log):
    def forward(xp, x, /, axis=-1):
        if not _is_rows(x, axis):
            return NotImplemented
        return _each_row("softmax", (_contiguous(x), cupy.empty(x.shape, x.dtype)), is_log)

    def rule(xp, g, out, axis):
        if not _is_rows(out, axis) or g.dtype != out.dtype or g.shape != out.shape:
            return NotImplemented
        arrays = _contiguous(g), _contiguous(out), cupy.empty(out.shape, out.dtype)
        return _each_row("softmax_backward", arrays, is_log)

    return {"forward": forward, "x": rule}


_REDUCTIONS = "mean", "sum", "none"


def _is_labelled(logits, target):
    return (
        covers(logits.dtype)
        and logits.size
        and logits.ndim in (1, 2)
        and target.shape == logits.shape[:-1]
        and target.dtype.name in ("int32", "int64")
    )


def _cross_entropy(xp, logits, target, /, *, reduction="mean"):
    if not _is_labelled(logits, target) or reduction not in _REDUCTIONS:
        return NotImplemented
    dtype, columns = logits.dtype, logits.shape[-1]
    rows = prod(target.shape)
    width, threads, rows_at_once = _groups(columns)
    losses = out = parts = None
    if reduction == "none":
        out = losses = cupy.empty(target.shape, dtype)
        blocks = min(-(-rows // rows_at_once), 1 << 20)
    else:
        out = cupy.empty((), dtype)
        if rows * int(width) <= 4096 and threads == 128:  # soonest done by one block
            blocks, threads = 1, 1024
        else:
            blocks = min(-(-rows // rows_at_once), 1024)
            parts = cupy.empty(blocks, _accumulator(dtype)) if blocks > 1 else None
    factor = 1 / rows if reduction == "mean" else 1.0
    is_long = target.dtype.itemsize == 8
    args = _contiguous(logits), _contiguous(target), losses, out, parts
    args = *args, rows, columns, factor, width, is_long
    kernel("neural", "cross_entropy", dtype)((blocks,), (threads,), args)
    return _sum_losses(parts, out)


def _sum_losses(parts, out):
    if parts is not None:
        kernel("neural", "sum_losses", out.dtype)((1,), (_THREADS,), (parts, out, parts.size))
    return out


def _cross_entropy_vjp(xp, g, logits, target, reduction):
    if not _is_labelled(logits, target) or g.dtype != logits.dtype:
        return NotImplemented
    is_long, of_each = target.dtype.itemsize == 8, reduction == "none"
    factor = 1 / prod(target.shape) if reduction == "mean" else 1.0
    out = cupy.empty(logits.shape, logits.dtype)
    columns = logits.shape[-1]
    width, threads, rows_at_once = _groups(columns)
    rows = logits.size // columns
    blocks = min(-(-rows // rows_at_once), 1 << 20)
    args = _contiguous(logits), _contiguous(target), _contiguous(g), out
    args = *args, rows, columns, factor, width, is_long, of_each
    kernel("neural", "cross_entropy_backward", out.dtype)((blocks,), (threads,), args)
    return out


def _is_pair(x, target):
    dtype = x.dtype
    return covers(dtype) and target.dtype == dtype and x.shape == target.shape and x.size


def _mse(xp, x, target, /, *, reduction="mean"):
    if not _is_pair(x, target) or reduction not in _REDUCTIONS:
        return NotImplemented
    n, dtype = x.size, x.dtype
    losses = out = parts = None
    if reduction == "none":
        out = losses = cupy.empty(x.shape, dtype)
        blocks, threads = min(-(-n // _THREADS), _BLOCKS), _THREADS
    else:
        out = cupy.empty((), dtype)
        blocks = 1 if n <= 1 << 14 else min(-(-n // (16 * _THREADS)), 1024)
        threads = 1024 if blocks == 1 else _THREADS
        parts = cupy.empty(blocks, _accumulator(dtype)) if blocks > 1 else None
    factor = 1 / n if reduction == "mean" else 1.0
    args = _contiguous(x), _contiguous(target), losses, out, parts, n, factor
    kernel("neural", "mse", dtype)((blocks,), (threads,), args)
    return _sum_losses(parts, out)


def _mse_of(sign):
    def rule(xp, g, x, target, reduction):
        if not _is_pair(x, target) or g.dtype != x.dtype:
            return NotImplemented
        n, dtype, of_each = x.size, x.dtype, reduction == "none"
        factor = sign * (2 / n if reduction == "mean" else 2.0)
        out = cupy.empty(x.shape, dtype)
        args = _contiguous(x), _contiguous(target), _contiguous(g), out, n, factor, of_each
        blocks = min(-(-n // _THREADS), _BLOCKS)
        kernel("neural", "mse_backward", dtype)((blocks,), (_THREADS,), args)
        return out

    return rule


relu.twin("cupy", x=_rule_of("relu"))
sigmoid.twin("cupy", _sigmoid, x=_rule_of("sigmoid"))
tanh.twin("cupy", x=_rule_of("tanh"))
linear.twin("cupy", _linear, bias=_linear_bias)
dense.twin("cupy", _dense, joint=_dense_vjp)
softmax.twin("cupy", **_softmax_of(False))
log_softmax.twin("cupy", **_softmax_of(True))
mse.twin("cupy", _mse, x=_mse_of(1), target=_mse_of(-1))
cross_entropy.twin("cupy", _cross_entropy, logits=_cross_entropy_vjp)
