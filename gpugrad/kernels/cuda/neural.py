"""Twins of the ops in gpugrad/ops/neural.py.

Arrays that are not contiguous are copied. All arrays of a call must have the same dtype.
"""

from functools import cache
from math import prod

import cupy
import numpy as np

from ...backends.cupy.kernels.loader import (
    accumulator,
    contiguous,
    covers,
    kernel,
    launch_elementwise,
)
from ...backends.cupy.kernels.reductions import ROWS, arrivals, sums_of_columns
from ...backends.declarations import Joint, declare
from ...ops.neural import cross_entropy, dense, linear, log_softmax, mse, sigmoid, softmax

# The constants in neural.cu, in their order.
_ACTIVATIONS = {name: np.int32(i) for i, name in enumerate(["none", "relu", "sigmoid", "tanh"])}
_THREADS = 256  # in a block; of a kernel that processes rows at most, as in neural.cu
_BLOCKS = 2048  # more would not be faster; then each thread processes several elements


# Activations


def _activate(x, bias, out, activation):
    """Compute ``out = activation(x + bias)``; ``out`` may be ``x``."""
    columns = out.size if bias is None else bias.size
    return launch_elementwise(
        "neural", "activate", (x, bias, out), columns, _ACTIVATIONS[activation]
    )


def _activation_vjp(g, y, activation, has_sums):
    """The cotangent of an activation's input, given its output ``y``, and its sums over rows.

    The sums are None if they are not wanted.
    """
    g, y, out = contiguous(g), contiguous(y), cupy.empty(y.shape, y.dtype)
    number, dtype, columns = _ACTIVATIONS[activation], y.dtype, y.shape[-1]
    if not has_sums:
        return launch_elementwise("neural", "activate_backward", (g, y, out), number), None
    rows = g.size // columns
    grid, packed, parts = sums_of_columns(rows, columns, dtype, (g, y, out))
    total = cupy.empty(columns, dtype)
    args = g, y, out, total, *parts, rows, columns, number, packed
    kernel("neural", "activate_backward_and_sum", dtype)(grid, (32, ROWS), args)
    return out, total


def _sigmoid(xp, x):
    if not covers(x.dtype):
        return NotImplemented
    return _activate(contiguous(x), None, cupy.empty(x.shape, x.dtype), "sigmoid")


# Linear layers


def _layer(xp, x, weight, bias, activation):
    """The result of a layer, unless the definition has to handle or to reject the inputs."""
    dtype = x.dtype
    has_dtype = covers(dtype) and weight.dtype == dtype and (bias is None or bias.dtype == dtype)
    fits = weight.ndim == 2 and x.ndim > 0 and x.shape[-1] == weight.shape[1]
    if not (has_dtype and fits and (bias is None or bias.shape == weight.shape[:1])):
        return NotImplemented
    out = xp.matmul(x, weight.T)
    return _activate(out, contiguous(bias), out, activation)


def _dense(xp, x, weight, bias=None, /, *, activation):
    if activation not in _ACTIVATIONS or activation == "none":  # which the definition rejects
        return NotImplemented
    return _layer(xp, x, weight, bias, activation)


def _linear(xp, x, weight, bias=None):
    return NotImplemented if bias is None else _layer(xp, x, weight, bias, "none")


def _dense_vjp(xp, g, x, weight, out, activation, wanted):
    is_supported = activation in _ACTIVATIONS and covers(out.dtype) and g.dtype == out.dtype
    if not is_supported or out.ndim < 2 or not out.size:
        return NotImplemented
    g, bias = _activation_vjp(g, out, activation, len(wanted) > 2 and wanted[2])
    rows = out.size // out.shape[-1]
    return (
        xp.matmul(g, weight) if wanted[0] else None,
        xp.matmul(g.reshape(rows, -1).T, x.reshape(rows, x.shape[-1])) if wanted[1] else None,
        bias,
    )


# Rows


_COLUMNS = 1 << 14  # that keep a GPU busy if a thread processes each
_FEW = 1 << 16  # elements


@cache
def _groups(columns, dtype):
    """The number of threads per row, as a kernel's parameter, threads per block, and rows per
    block."""
    items = 128 // accumulator(dtype).itemsize  # that a thread keeps in registers
    if columns <= 32 * items:
        width, pack = 4, 16 // dtype.itemsize
        pack = 1 if columns % pack else pack
        while width < 32 and 2 * pack * width < columns:
            width *= 2
        return np.int32(width), 128, 128 // width
    threads = min(-(-columns // (32 * items)) * 32, _THREADS)
    return np.int32(threads), threads, 1


def _is_along(x, axis):
    """Whether the kernels take ``x``: along other axes than the last, of enough columns."""
    if not (covers(x.dtype) and x.size and type(axis) is int and -x.ndim <= axis < x.ndim):
        return False
    return axis in (-1, x.ndim - 1) or x.size <= _FEW or x.size // x.shape[axis] >= _COLUMNS


def _softmax_twin(is_log):
    def forward(xp, x, /, axis=-1):
        if not _is_along(x, axis):
            return NotImplemented
        return run("", (contiguous(x), cupy.empty(x.shape, x.dtype)), axis)

    def rule(xp, g, out, axis):
        if not _is_along(out, axis) or g.dtype != out.dtype or g.shape != out.shape:
            return NotImplemented
        arrays = contiguous(g), contiguous(out), cupy.empty(out.shape, out.dtype)
        return run("_backward", arrays, axis)

    def run(direction, arrays, axis):
        out = arrays[-1]
        length = out.shape[axis]
        number = out.size // length
        if axis in (-1, out.ndim - 1):
            name = f"softmax{direction}"
            width, threads, at_once = _groups(length, out.dtype)
            args = *arrays, number, length, width, is_log
        else:
            name, threads = f"softmax_columns{direction}", _THREADS
            inner, pack = prod(out.shape[axis:][1:]), 16 // out.itemsize
            packed = number >= pack * _COLUMNS and inner % pack == 0
            packed = packed and not any(x.data.ptr % 16 for x in arrays)
            at_once = _THREADS * (pack if packed else 1)
            args = *arrays, number, length, inner, packed, is_log
        blocks = min(-(-number // at_once), 1 << 20)
        kernel("neural", name, out.dtype)((blocks,), (threads,), args)
        return out

    return {"forward": forward, "x": rule}


_REDUCTIONS = "mean", "sum", "none"


def _is_labelled(logits, target, ignore_index):
    is_known = type(ignore_index) is int and covers(logits.dtype) and logits.ndim in (1, 2)
    are_labels = target.shape == logits.shape[:-1] and target.dtype.name in ("int32", "int64")
    return is_known and are_labels and logits.size


def _entropy(name, logits, target, reduction, ignore_index, g=None, bias=None, has_sums=False):
    """Run a kernel that computes the loss, the cotangent of the logits, or both.

    Returns the loss, the cotangent and, if they are wanted, the sums of its columns; None for what
    the kernel does not compute.
    """
    dtype, columns, per_row = logits.dtype, logits.shape[-1], reduction == "none"
    loss_shape = target.shape if per_row else ()
    loss = None if name == "cross_entropy_backward" else cupy.empty(loss_shape, dtype)
    out = None if g is None else cupy.empty(logits.shape, dtype)
    sums = cupy.empty(columns, dtype) if has_sums else None
    rows = prod(target.shape)
    width, threads, rows_at_once = _groups(columns, dtype)
    blocks = -(-rows // rows_at_once)
    is_mean, is_long = reduction == "mean", target.dtype.itemsize == 8
    target = contiguous(target)
    counted = parts = arrived = None
    counting = min(-(-rows // 4096), 32) if is_mean and out is not None else 0
    if counting > 1:
        counted = cupy.empty(counting, accumulator(dtype))
        args = target, counted, rows, is_long, ignore_index
        kernel("neural", "count_labels", dtype)((counting,), (1024,), args)
    if loss is None or (per_row and sums is None):
        blocks = min(blocks, 1 << 20)
    elif out is None and rows * int(width) <= 4096 and threads == 128:  # one block is fastest
        blocks, threads = 1, _THREADS
    else:
        blocks = min(blocks, 1024)
        parts, arrived = _parts(blocks, dtype, 2 + (columns if sums is not None else 0))
    losses = (loss, None) if per_row else (None, loss)
    logits, bias, g = map(contiguous, (logits, bias, g))
    args = logits, bias, target, g, counted, *losses, out, sums, parts, arrived
    args = *args, rows, columns, ignore_index, counting
    kernel("neural", name, dtype)((blocks,), (threads,), (*args, width, is_long, is_mean, per_row))
    return loss, out, sums


def _parts(blocks, dtype, columns=2):
    """Memory for the parts of the sums of a kernel's blocks, and `arrivals`; None for one sum of
    one block."""
    if blocks == 1 and columns == 2:
        return None, None
    return cupy.empty((columns, blocks), accumulator(dtype)), arrivals()


def _cross_entropy(xp, logits, target, /, *, reduction="mean", ignore_index=-100):
    if not _is_labelled(logits, target, ignore_index) or reduction not in _REDUCTIONS:
        return NotImplemented
    return _entropy("cross_entropy", logits, target, reduction, ignore_index)[0]


def _cross_entropy_vjp(xp, g, logits, target, reduction, ignore_index):
    if not _is_labelled(logits, target, ignore_index) or g.dtype != logits.dtype:
        return NotImplemented
    return _entropy("cross_entropy_backward", logits, target, reduction, ignore_index, g)[1]


def _cross_entropy_and_vjp(has_sums, g, logits, target, reduction, ignore_index, bias=None):
    logits, name = logits.reshape(*target.shape, logits.shape[-1]), "cross_entropy_and_backward"
    found = _entropy(name, logits, target, reduction, ignore_index, g, bias, has_sums)
    return found if has_sums else found[:2]


def _is_in_registers(shape, dtype):
    return shape[-1] <= 128 // accumulator(dtype).itemsize * _groups(shape[-1], dtype)[0]


def _sums_entropy(shape, dtype):
    """Whether one block can add up the sums of columns of all blocks in a short time."""
    blocks = -(-prod(shape[:-1]) // _groups(shape[-1], dtype)[2])
    return _is_in_registers(shape, dtype) and min(blocks, 1024) * shape[-1] <= 1 << 14


def _is_pair(x, target):
    dtype = x.dtype
    return covers(dtype) and target.dtype == dtype and x.shape == target.shape and x.size


def _squares(x, target, reduction, g=None, has_loss=True, sign=1):
    """Run the kernel that computes the loss, the cotangent of one of the arrays, or both.

    Returns the loss and the cotangent; None for the one that the kernel does not compute.
    """
    n, dtype, per_element = x.size, x.dtype, reduction == "none"
    loss = cupy.empty(x.shape if per_element else (), dtype) if has_loss else None
    out = None if g is None else cupy.empty(x.shape, dtype)
    blocks, threads, parts, arrived = min(-(-n // _THREADS), _BLOCKS), _THREADS, None, None
    if not (loss is None or per_element):
        blocks = 1 if n <= 1 << 14 else min(-(-n // (16 * _THREADS)), 1024)
        threads = 1024 if blocks == 1 else _THREADS
        parts, arrived = _parts(blocks, dtype)
    factor = 1 / n if reduction == "mean" else 1.0
    args = contiguous(x), contiguous(target), contiguous(g)
    args = *args, loss if per_element else None, loss, out, parts, arrived, n
    args = *args, factor, 2 * sign * factor, per_element
    kernel("neural", "mse", dtype)((blocks,), (threads,), args)
    return loss, out


def _mse(xp, x, target, /, *, reduction="mean"):
    if not _is_pair(x, target) or reduction not in _REDUCTIONS:
        return NotImplemented
    return _squares(x, target, reduction)[0]


def _mse_rule(sign):
    def rule(xp, g, x, target, reduction):
        if not _is_pair(x, target) or g.dtype != x.dtype:
            return NotImplemented
        return _squares(x, target, reduction, g, False, sign)[1]

    return rule


def _mse_and_vjp(has_sums, g, x, target, reduction):
    return _squares(x, target, reduction, g)


_mse_x = _mse_rule(1)
_joint = Joint(_cross_entropy_and_vjp, _is_in_registers, _sums_entropy)
declare(_cross_entropy, joint=_joint)
declare(_cross_entropy_vjp, joint=_joint)
_joint = Joint(_mse_and_vjp)
declare(_mse, joint=_joint)
declare(_mse_x, joint=_joint)
sigmoid.twin("cupy", _sigmoid)
_linear.is_eager = True  # type: ignore[attr-defined]  # a program's generated kernels add the bias
linear.twin("cupy", _linear)
dense.twin("cupy", _dense, joint=_dense_vjp)
softmax.twin("cupy", **_softmax_twin(False))
log_softmax.twin("cupy", **_softmax_twin(True))
mse.twin("cupy", _mse, x=_mse_x, target=_mse_rule(-1))
cross_entropy.twin("cupy", _cross_entropy, logits=_cross_entropy_vjp)
