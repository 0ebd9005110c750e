"""Twins of the ops in gpugrad/ops/recurrent.py.

The arrays of one step are so small that they stay in the cache, and so do those of a few steps
together. Products of matrices then take most of the time; writing into arrays that are there
already halves the rest.
"""

from math import prod

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.numpy.threads import matmul, with_one_thread
from ...ops.recurrent import _lstm, shape_error

_IN_CACHE = 1 << 16  # elements of the arrays of a few steps


def _covers(*arrays):
    """Whether the arrays, of which some may be None, share a dtype that is computed with."""
    first, *others = [x for x in arrays if x is not None]
    return first.dtype in (float32, float64) and all(x.dtype == first.dtype for x in others)


def _for_gates(values, dtype):
    return np.array(values, dtype).reshape(4, 1, 1)


def _transposed(weight, factor):
    """The transposed matrices of the gates, ``(4, in, h)``, times a factor for each gate."""
    by_gate = weight.reshape(4, -1, weight.shape[1]).swapaxes(1, 2)
    return np.multiply(by_gate, factor, order="C")


def _lstm_forward(
    xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, c0=None, /, *, reverse
):
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0
    if not _covers(*inputs) or shape_error(4, *inputs):
        return NotImplemented
    length, batch, features = x.shape
    h = weight_hh.shape[1]
    # sigmoid(x) is tanh(x / 2) / 2 + 1 / 2, so that tanh serves all gates.
    factor, shift = _for_gates([0.5, 0.5, 1, 0.5], x.dtype), _for_gates([0.5, 0.5, 0, 0.5], x.dtype)
    gates = matmul(x.reshape(length * batch, features), _transposed(weight_ih, factor))
    biases = [bias for bias in (bias_ih, bias_hh) if bias is not None]
    if biases:
        gates += sum(biases[1:], biases[0]).reshape(4, 1, h) * factor
    gates = gates.reshape(4, length, batch, h)
    weight = _transposed(weight_hh, factor)
    out, cells = np.empty((2, length, batch, h), x.dtype)
    states = with_one_thread(_steps, gates, weight, h0, c0, out, cells, factor, shift, reverse)
    return out, *states, cells, gates


def _steps(gates, weight, state, cell, out, cells, factor, shift, reverse):
    """Compute the gates from what the inputs add to them; write the states and the cells.

    Returns copies of the last ones.
    """
    _, length, batch, h = gates.shape
    recurrent, product = np.empty((4, batch, h), out.dtype), np.empty((batch, h), out.dtype)
    for t in range(length - 1, -1, -1) if reverse else range(length):
        a = gates[:, t]
        if state is not None:
            a += matmul(state, weight, recurrent)
        np.tanh(a, a)
        a *= factor
        a += shift
        i, f, g, o = a
        new = np.multiply(i, g, cells[t])
        if cell is not None:
            new += np.multiply(f, cell, product)
        cell = new
        state = np.tanh(cell, out[t])
        state *= o
    return state.copy(), cell.copy()


def _lstm_joint(xp, g, x, weight_ih, weight_hh, h0, c0, out, wanted, reverse):
    g_out, g_h, g_c, g_cells, g_gates = g
    states, _, _, cells, gates = out
    given = [a for a in g if a is not None]
    if g_cells is not None or g_gates is not None or not _covers(gates, *given):
        return NotImplemented
    _, batch, h = states.shape
    weight = weight_hh.reshape(4, h, h)
    d = np.empty(gates.shape, gates.dtype)
    dh, dc = (np.zeros((batch, h), gates.dtype) if a is None else a.copy() for a in (g_h, g_c))
    arrays = d, gates, cells, states, c0, weight, g_out, dh, dc
    with_one_thread(_steps_back, *arrays, reverse, wanted[5])
    return *_to_parameters(d, x, weight_ih, states, h0, wanted, reverse), dh, dc


def _steps_back(d, gates, cells, states, c0, weight, g_out, dh, dc, reverse, to_initial):
    """Write the cotangents of the gates' arguments to ``d``, and update those of state and cell.

    to_initial: whether the cotangent of the initial state is wanted.
    """
    length, batch, h = states.shape
    some = max(1, _IN_CACHE // max(prod((4, batch, h)), 1))
    products, add = np.empty((4, batch, h), gates.dtype), np.add.reduce
    number = 0
    for low in range(0, length, some) if reverse else range((length - 1) // some * some, -1, -some):
        part = slice(low, min(low + some, length))
        times = range(part.start, part.stop)
        through = _slopes(d[:, part], gates[:, part], cells, states[part], c0, part, reverse)
        for t in times if reverse else times[::-1]:
            if g_out is not None:
                dh += g_out[t]
            own = d[:, t]
            own[3] *= dh
            slope = through[t - low]
            slope *= dh
            dc += slope
            own[:3] *= dc
            dc *= gates[1, t]
            number += 1
            if number < length or to_initial:
                add(matmul(own, weight, products), 0, None, dh)


def _slopes(d, gates, cells, states, c0, part, reverse):
    """Write the slope by each gate's argument to ``d``; returns that of the state by the cell.

    The slopes of the gates i, f and g are those of the cell, that of o is of the state.
    """
    i, f, g, o = gates
    by_i, by_f, by_g, by_o = d
    product = i * g
    np.multiply(product, g, by_g)  # i * (1 - g * g)
    np.subtract(i, by_g, by_g)
    np.multiply(product, i, by_i)  # g * i * (1 - i)
    np.subtract(product, by_i, by_i)
    _times_cells_before(f, cells, c0, part, reverse, product)
    np.multiply(product, f, by_f)  # c * f * (1 - f), with the cells before the step
    np.subtract(product, by_f, by_f)
    np.multiply(states, o, by_o)  # tanh(c) * o * (1 - o), with those after it
    np.subtract(states, by_o, by_o)
    np.tanh(cells[part], product)
    product *= states  # o * (1 - tanh(c) * tanh(c))
    return np.subtract(o, product, product)


def _times_cells_before(f, cells, c0, part, reverse, out):
    """Write ``f`` times the cells before each step to ``out``; ``part`` is the times of ``f``."""
    by = 1 if reverse else -1  # the time of the step before
    start, stop = max(part.start + by, 0), min(part.stop + by, len(cells))
    same = slice(start - by - part.start, stop - by - part.start)
    np.multiply(f[same], cells[start:stop], out[same])
    if stop - start < part.stop - part.start:  # the layer begins here
        first = -1 if reverse else 0
        out[first] = 0 if c0 is None else f[first] * c0


def _to_parameters(d, x, weight_ih, states, h0, wanted, reverse):
    """The cotangents of the input, the weights and the biases."""
    _, length, batch, h = d.shape
    rows = length * batch
    flat = d.reshape(4, rows, h)
    to_x = to_weight_ih = to_weight_hh = to_bias = None
    if wanted[0]:
        to_x = matmul(flat, weight_ih.reshape(4, h, x.shape[2])).sum(0).reshape(x.shape)
    if wanted[1]:
        to_weight_ih = _product(flat, x.reshape(rows, x.shape[2]))
    if wanted[2]:
        after, before = (slice(-1), slice(1, None)) if reverse else (slice(1, None), slice(-1))
        later, earlier = d[:, after], states[before]
        rows = (length - 1) * batch
        to_weight_hh = _product(later.reshape(4, rows, h), earlier.reshape(rows, h))
        if h0 is not None:
            to_weight_hh += _product(d[:, -1 if reverse else 0], h0)
    if wanted[3] or wanted[4]:
        to_bias = matmul(np.ones(flat.shape[1], d.dtype), flat).reshape(-1)
    return to_x, to_weight_ih, to_weight_hh, to_bias, to_bias


def _product(flat, x):
    return matmul(flat.swapaxes(1, 2), x).reshape(-1, x.shape[1])


_lstm.twin("numpy", _lstm_forward, joint=_lstm_joint)
