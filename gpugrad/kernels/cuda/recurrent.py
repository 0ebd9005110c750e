"""Twins of the ops of LSTM and GRU in gpugrad/ops/recurrent.py.

A step is a product and a kernel. The products with the inputs, and those for the gradients of the
weights, are each one of all steps. All arrays of a call must have the same dtype.
"""

import cupy

from ...backends.cupy.kernels.loader import accumulator, contiguous, covers, kernel
from ...ops.recurrent import _before, _gru, _lstm, shape_error

_THREADS = 128


def _supports(gates, inputs, cotangents=()):
    """Whether the kernels take these arrays; the definition takes or rejects all others."""
    given, dtype = [x for x in (*inputs, *cotangents) if x is not None], inputs[0].dtype
    if not covers(dtype) or any(x.dtype != dtype for x in given):
        return False
    return all(x.size for x in given) and shape_error(gates, *inputs) is None


def _times(length, reverse):
    """Pairs of each time and the one before, which is -1 for the first."""
    times = [-1, *(range(length - 1, -1, -1) if reverse else range(length))]
    return list(zip(times[1:], times[:-1], strict=True))


def _carried(state, shape, dtype):
    """A copy of a state, or zeros, in the dtype of sums; the steps overwrite it."""
    wide = accumulator(dtype)
    return cupy.zeros(shape, wide) if state is None else state.astype(wide, order="C")


def _launch(name, dtype, n, args):
    kernel("recurrent", name, dtype)((-(-n // _THREADS),), (_THREADS,), args)


def _steps(xp, name, gates, inputs, state, reverse, kept):
    """Go through all times; return the states, the last of those that the kernel carries from step
    to step, and the arrays that it keeps besides.

    state: the first that is carried, or None. kept: the axes of the arrays before those of states.
    """
    x, weight_ih, weight_hh, *biases, h0 = map(contiguous, inputs)
    length, rows, _ = x.shape
    width, dtype = weight_hh.shape[1], x.dtype
    carried = _carried(state, (rows, width), dtype)
    projected = xp.matmul(x.reshape(length * rows, -1), weight_ih.T)
    states = cupy.empty((length, rows, width), dtype)
    more = [cupy.empty((*n, length, rows, width), dtype) for n in kept]
    recurrent = cupy.empty((rows, gates * width), dtype)
    for t, before in _times(length, reverse):
        h = h0 if before < 0 else states[before]
        product = None if h is None else xp.matmul(h, weight_hh.T, out=recurrent)
        args = projected, product, *biases, carried, states, *more, t, length, rows, width
        _launch(name, dtype, rows * width, args)
    return states, carried.astype(dtype, copy=False), more


def _lstm_forward(xp, *inputs, reverse):
    if not _supports(4, inputs):
        return NotImplemented
    *others, c0 = inputs
    states, cell, more = _steps(xp, "lstm_cell", 4, others, c0, reverse, kept=((), (4,)))
    return states, states[0 if reverse else -1].copy(), cell, *more


def _gru_forward(xp, *inputs, reverse):
    if not _supports(3, inputs):
        return NotImplemented
    states, state, more = _steps(xp, "gru_cell", 3, inputs, inputs[-1], reverse, kept=((4,),))
    return states, state, *more


def _back(xp, name, g_out, g_h, carried, kept, first, weight_hh, reverse, results, is_wanted):
    """Go back through all times; return the cotangent of the first state by its product, if it
    is wanted."""
    length, rows, width = kept[-1].shape
    dtype, product = weight_hh.dtype, cupy.empty((rows, width), weight_hh.dtype)
    g_out, through, first, weight_hh, *kept = map(contiguous, (g_out, g_h, first, weight_hh, *kept))
    for t, before in reversed(_times(length, reverse)):
        args = g_out, through, carried, *kept, first, *results, t, before, length, rows, width
        _launch(name, dtype, rows * width, args)
        if before >= 0 or is_wanted:
            through = xp.matmul(results[-1][t], weight_hh, out=product)
    return product if is_wanted else None


def _lstm_vjp(xp, g, x, weight_ih, weight_hh, h0, c0, out, wanted, reverse):
    g_out, g_h, g_c, *others = g
    states, _, _, cells, gates = out
    given = x, weight_ih, weight_hh, None, None, h0, c0
    if any(c is not None for c in others) or not _supports(4, given, (g_out, g_h, g_c)):
        return NotImplemented
    length, rows, width = states.shape
    dcell = _carried(g_c, (rows, width), x.dtype)
    d = cupy.empty((length, rows, 4 * width), x.dtype)
    rest = c0, weight_hh, reverse, (d,), wanted[5]
    dh = _back(xp, "lstm_cell_backward", g_out, g_h, dcell, (gates, cells), *rest)
    found = _cotangents(xp, d, d, x, weight_ih, states, h0, wanted, reverse)
    return *found, dh, dcell.astype(x.dtype, copy=False)


def _gru_vjp(xp, g, x, weight_ih, weight_hh, h0, out, wanted, reverse):
    g_out, g_h, g_gates = g
    states, _, gates = out
    given = x, weight_ih, weight_hh, None, None, h0
    if g_gates is not None or not _supports(3, given, (g_out, g_h)):
        return NotImplemented
    length, rows, width = states.shape
    dstate = _carried(None, (rows, width), x.dtype)
    dx, dh = (cupy.empty((length, rows, 3 * width), x.dtype) for _ in range(2))
    rest = h0, weight_hh, reverse, (dx, dh), wanted[5]
    first = _back(xp, "gru_cell_backward", g_out, g_h, dstate, (gates, states), *rest)
    found = _cotangents(xp, dx, dh, x, weight_ih, states, h0, wanted, reverse)
    if wanted[5]:
        first += dstate  # which is rounded once
    return *found, first


def _cotangents(xp, dx, dh, x, weight_ih, states, h0, wanted, reverse):
    """The cotangents of the input, both weights and both biases.

    dx, dh: those of the gates' parts from the input and from the states, perhaps the same array.
    """
    is_same, (dx, dh) = dx is dh, [d.reshape(-1, d.shape[-1]) for d in (dx, dh)]
    to_hh = bias_hh = None
    to_x = xp.matmul(dx, weight_ih).reshape(x.shape) if wanted[0] else None
    to_ih = xp.matmul(dx.T, contiguous(x).reshape(len(dx), -1)) if wanted[1] else None
    if wanted[2]:
        to_hh = xp.matmul(dh.T, _before(xp, states, h0, reverse).reshape(len(dh), -1))
    bias_ih = xp.sum(dx, axis=0) if wanted[3] else None
    if wanted[4]:
        bias_hh = bias_ih if is_same and wanted[3] else xp.sum(dh, axis=0)
    return to_x, to_ih, to_hh, bias_ih, bias_hh


_lstm.twin("cupy", _lstm_forward, joint=_lstm_vjp)
_gru.twin("cupy", _gru_forward, joint=_gru_vjp)
