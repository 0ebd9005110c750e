"""Twins of the ops of LSTM and GRU in gpugrad/ops/recurrent.py.

A step is a product and a kernel. The products with the inputs, and those for the gradients of the
weights, are each one of all steps. All arrays of a call must have the same dtype.
"""

import cupy

from ...backends.cupy.kernels.loader import accumulator, contiguous, covers, kernel
from ...backends.cupy.kernels.reductions import sum_rows
from ...ops.recurrent import _gru, _lstm, shape_error

_THREADS = 128


def _supports(gates, *arrays):
    """Whether the kernels take these inputs; the definition takes or rejects all others."""
    dtype = arrays[0].dtype
    if not covers(dtype) or any(x is not None and x.dtype != dtype for x in arrays):
        return False
    return all(x is None or x.size for x in arrays) and shape_error(gates, *arrays) is None


def _arrays(*arrays):
    return [None if x is None else contiguous(x) for x in arrays]


def _times(length, reverse):
    """Pairs of each time and the one before, which is -1 for the first."""
    times = [-1, *(range(length - 1, -1, -1) if reverse else range(length))]
    return list(zip(times[1:], times[:-1], strict=True))


def _carried(state, shape, dtype):
    """A state that steps overwrite, as wide as sums."""
    wide = accumulator(dtype)
    return cupy.zeros(shape, wide) if state is None else state.astype(wide, order="C")


def _launch(name, dtype, n, args):
    kernel("recurrent", name, dtype)((-(-n // _THREADS),), (_THREADS,), args)


def _steps(xp, name, gates, x, weight_ih, weight_hh, biases, h0, carried, reverse, kept):
    """Go through all times; return the states, and the arrays that the kernel keeps besides."""
    length, rows, _ = x.shape
    width, dtype = weight_hh.shape[1], x.dtype
    projected = xp.matmul(x.reshape(length * rows, -1), weight_ih.T)
    states = cupy.empty((length, rows, width), dtype)
    more = [cupy.empty((*n, length, rows, width), dtype) for n in kept]
    recurrent = cupy.empty((rows, gates * width), dtype)
    for t, before in _times(length, reverse):
        h = h0 if before < 0 else states[before]
        product = None if h is None else xp.matmul(h, weight_hh.T, out=recurrent)
        args = projected, product, *biases, carried, states, *more, t, length, rows, width
        _launch(name, dtype, rows * width, args)
    return states, more


def _lstm_forward(
    xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, c0=None, /, *, reverse
):
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0
    if not _supports(4, *inputs):
        return NotImplemented
    x, weight_ih, weight_hh, bias_ih, bias_hh, h0 = _arrays(*inputs[:-1])
    cell = _carried(c0, (x.shape[1], weight_hh.shape[1]), x.dtype)
    weights = x, weight_ih, weight_hh, (bias_ih, bias_hh)
    states, (cells, gates) = _steps(
        xp, "lstm_cell", 4, *weights, h0, cell, reverse, kept=((), (4,))
    )
    last = 0 if reverse else -1
    return states, states[last].copy(), cell.astype(x.dtype, copy=False), cells, gates


def _gru_forward(xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, /, *, reverse):
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0
    if not _supports(3, *inputs):
        return NotImplemented
    x, weight_ih, weight_hh, bias_ih, bias_hh, h0 = _arrays(*inputs)
    state = _carried(h0, (x.shape[1], weight_hh.shape[1]), x.dtype)
    weights = x, weight_ih, weight_hh, (bias_ih, bias_hh)
    states, (gates,) = _steps(xp, "gru_cell", 3, *weights, h0, state, reverse, kept=((4,),))
    return states, state.astype(x.dtype, copy=False), gates


def _back(xp, name, g_out, g_h, carried, kept, first, weight_hh, reverse, results, is_wanted):
    """Go back through all times; return the cotangent of the first state by its product, if it
    is wanted."""
    length, rows, width = kept[-1].shape
    dtype = weight_hh.dtype
    through, product = g_h, cupy.empty((rows, width), dtype)
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
    if any(c is not None for c in others) or not _supports(4, *given):
        return NotImplemented
    if any(c is not None and c.dtype != x.dtype for c in (g_out, g_h, g_c)):
        return NotImplemented
    g_out, g_h, x, weight_hh, h0, c0 = _arrays(g_out, g_h, x, weight_hh, h0, c0)
    states, cells, gates = _arrays(states, cells, gates)
    length, rows, width = states.shape
    dcell = _carried(g_c, (rows, width), x.dtype)
    d = cupy.empty((length, rows, 4 * width), x.dtype)
    kept = gates, cells
    rest = c0, weight_hh, reverse, (d,), wanted[5]
    dh = _back(xp, "lstm_cell_backward", g_out, g_h, dcell, kept, *rest)
    to_x, to_weight_ih, to_weight_hh = _to_weights(
        xp, d, d, x, weight_ih, states, h0, wanted, reverse
    )
    to_bias = _to_bias(d) if wanted[3] or wanted[4] else None
    dcell = dcell.astype(x.dtype, copy=False)
    return to_x, to_weight_ih, to_weight_hh, to_bias, to_bias, dh, dcell


def _gru_vjp(xp, g, x, weight_ih, weight_hh, h0, out, wanted, reverse):
    g_out, g_h, g_gates = g
    states, _, gates = out
    if g_gates is not None or not _supports(3, x, weight_ih, weight_hh, None, None, h0):
        return NotImplemented
    if any(c is not None and c.dtype != x.dtype for c in (g_out, g_h)):
        return NotImplemented
    g_out, g_h, x, weight_hh, h0 = _arrays(g_out, g_h, x, weight_hh, h0)
    states, gates = _arrays(states, gates)
    length, rows, width = states.shape
    dstate = _carried(None, (rows, width), x.dtype)
    dx, dh = (cupy.empty((length, rows, 3 * width), x.dtype) for _ in range(2))
    kept = gates, states
    rest = h0, weight_hh, reverse, (dx, dh), wanted[5]
    first = _back(xp, "gru_cell_backward", g_out, g_h, dstate, kept, *rest)
    to_x, to_weight_ih, to_weight_hh = _to_weights(
        xp, dx, dh, x, weight_ih, states, h0, wanted, reverse
    )
    to_bias_ih = _to_bias(dx) if wanted[3] else None
    to_bias_hh = _to_bias(dh) if wanted[4] else None
    if wanted[5]:
        first += dstate  # which is rounded once
    return to_x, to_weight_ih, to_weight_hh, to_bias_ih, to_bias_hh, first


def _to_weights(xp, dx, dh, x, weight_ih, states, h0, wanted, reverse):
    """The cotangents of the input and of the weights, from those of the gates' parts."""
    rows = dx.shape[0] * dx.shape[1]
    dx, dh = dx.reshape(rows, -1), dh.reshape(rows, -1)
    to_x = to_weight_ih = to_weight_hh = None
    if wanted[0]:
        to_x = xp.matmul(dx, weight_ih).reshape(x.shape)
    if wanted[1]:
        to_weight_ih = xp.matmul(dx.T, x.reshape(rows, -1))
    if wanted[2]:
        first = cupy.zeros_like(states[:1]) if h0 is None else h0[None]
        before = [states[1:], first] if reverse else [first, states[:-1]]
        before = xp.concat(before, axis=0).reshape(rows, -1)
        to_weight_hh = xp.matmul(dh.T, before)
    return to_x, to_weight_ih, to_weight_hh


def _to_bias(d):
    return sum_rows(d, d.shape[-1:])


_lstm.twin("cupy", _lstm_forward, joint=_lstm_vjp)
_gru.twin("cupy", _gru_forward, joint=_gru_vjp)
