"""Recurrent layers: one op goes through all times of a layer in one direction.

Users call a function that returns the first results of an op. The op's other results are what its
rule needs of every step, such as the gates; they have cotangents only in derivatives of second
order. The gates are along the first axis, so that each gate of one step is contiguous.
"""

from functools import update_wrapper

from .._arguments import one_of
from .._batched import equally
from ..autograd.operation import composite, op
from .manipulation import moveaxis, reshape
from .normalization import cast, common_dtypes, widen

_MANY_STEPS = 16  # that are worth a copy of the weights


def shape_error(gates, x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0=None):
    """An error message if the shapes do not fit, else None.

    gates: how many matrices of shape ``(h, in)`` the weight consists of.
    """
    shape, ih, hh = tuple(x.shape), tuple(weight_ih.shape), tuple(weight_hh.shape)
    h = hh[-1] if hh else 0
    if len(shape) != 3:
        return f"x must have the shape (length, batch, in), not {shape}"
    if hh != (gates * h, h) or ih != (gates * h, shape[2]):
        rows = "h" if gates == 1 else f"{gates} * h"
        return (
            f"for x of shape {shape}, weight_ih must have the shape ({rows}, {shape[2]}) and "
            f"weight_hh ({rows}, h), but they have {ih} and {hh}"
        )
    for name, bias in (("bias_ih", bias_ih), ("bias_hh", bias_hh)):
        if bias is not None and tuple(bias.shape) != ih[:1]:
            return f"{name} must have the shape {ih[:1]}, not {tuple(bias.shape)}"
    for name, state in (("h0", h0), ("c0", c0)):
        if state is not None and tuple(state.shape) != (shape[1], h):
            return (
                f"{name} must have the shape (batch, h) = {shape[1], h}, not {tuple(state.shape)}"
            )
    return None if shape[0] else "x has no times: its first axis, the length, is 0"


def _checked(xp, gates, *inputs):
    """The dtype of the results, and the inputs in the dtype to compute in.

    Raises ValueError if the shapes do not fit.
    """
    if problem := shape_error(gates, *inputs):
        raise ValueError(problem)
    return common_dtypes(xp, *inputs)[0], *widen(xp, *inputs)


def _by_gate(xp, x, gates):
    """A weight or bias, ``(gates * h, ...)``, with an axis for the gates: ``(gates, h, ...)``."""
    return xp.reshape(x, (gates, x.shape[0] // gates, *x.shape[1:]))


def _transposed(xp, weight, gates):
    """The transposed matrix of each gate: ``(gates, in, h)``."""
    return xp.matrix_transpose(_by_gate(xp, weight, gates))


def _for_steps(xp, weight, gates, length):
    """The transposed matrix of each gate, ``(gates, h, h)``; for many steps in contiguous memory.

    For a product with few rows OpenBLAS takes up to twice the time if the matrix is a transposed
    view, and a copy takes as long as ten products.
    """
    weight = _transposed(xp, weight, gates)
    if length < _MANY_STEPS:
        return weight
    return xp.reshape(xp.reshape(weight, (-1,)), weight.shape)


def _projected(xp, x, weight, gates, bias):
    """The part of all steps that does not depend on the states: ``(gates, length, batch, h)``."""
    out = xp.matmul(_merged(xp, x), _transposed(xp, weight, gates))
    if bias is not None:
        out += xp.expand_dims(_by_gate(xp, bias, gates), axis=1)
    return xp.reshape(out, (gates, *x.shape[:2], out.shape[-1]))


def _merged(xp, x):
    """``x`` with its first two axes merged into one."""
    return xp.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def _times(length, reverse):
    return range(length - 1, -1, -1) if reverse else range(length)


def _in_order(steps, reverse):
    """The results of the steps, in the order of the times."""
    return steps[::-1] if reverse else steps


def _stacked(xp, steps, reverse):
    """The arrays of all steps, several for each, as one: ``(number, length, batch, h)``."""
    out = xp.stack([x for kind in zip(*_in_order(steps, reverse), strict=True) for x in kind])
    return xp.reshape(out, (out.shape[0] // len(steps), len(steps), *out.shape[1:]))


def _side_by_side(xp, steps, reverse):
    """The gates of all steps, ``(gates, batch, h)`` each, as ``(length, batch, gates * h)``."""
    out = xp.permute_dims(xp.stack(_in_order(steps, reverse)), (0, 2, 1, 3))
    return xp.reshape(out, (*out.shape[:2], out.shape[2] * out.shape[3]))


def _before(xp, states, initial, reverse):
    """The state before each step, given that after each step: ``(length, batch, h)``."""
    first = xp.zeros_like(states[:1, ...]) if initial is None else xp.expand_dims(initial, axis=0)
    pieces = [states[1:, ...], first] if reverse else [first, states[:-1, ...]]
    return xp.concat(pieces, axis=0)


def _initial(xp, state, like):
    """The state to begin with, for a step ``(batch, h)``."""
    return xp.zeros_like(like) if state is None else state


def _logistic(xp, x):
    return 0.5 * xp.tanh(0.5 * x) + 0.5  # takes less time than with exp, and cannot overflow


def _added(x1, x2):
    """``x1 + x2``, of which either may be None."""
    if x1 is None or x2 is None:
        return x1 if x2 is None else x2
    return x1 + x2


def _unstack(xp, x, axis, length):
    """The array of each time; None for each if ``x`` is None."""
    return [None] * length if x is None else xp.unstack(x, axis=axis)


def _cotangents(xp, d, d_hh, x, weight_ih, states, h0, reverse, wanted):
    """The cotangents of ``x``, of both weights and of both biases.

    d, d_hh: those of the gates' parts from the inputs and from the states, ``(length, batch, gates
        * h)``, which may be one array. So all gates' gradients are one product.
    states, h0: those after the steps, and the one before the first step or None.
    """
    flat = _merged(xp, d)
    to_x = to_ih = to_hh = bias_ih = bias_hh = None
    if wanted[0]:
        to_x = xp.reshape(xp.matmul(flat, weight_ih), x.shape)
    if wanted[1]:
        to_ih = xp.matmul(xp.matrix_transpose(flat), _merged(xp, x))
    if wanted[3]:
        bias_ih = xp.sum(xp.sum(d, axis=0), axis=0)
    if wanted[4]:
        is_same = wanted[3] and d is d_hh
        bias_hh = bias_ih if is_same else xp.sum(xp.sum(d_hh, axis=0), axis=0)
    if wanted[2]:
        before, later = (slice(1, None), slice(-1)) if reverse else (slice(-1), slice(1, None))
        if h0 is None:  # the first step, from zeros, adds nothing: so no state has to be copied
            d_hh, before = d_hh[later, ...], states[before, ...]
        else:
            before = _before(xp, states, h0, reverse)
        to_hh = xp.matmul(xp.matrix_transpose(_merged(xp, d_hh)), _merged(xp, before))
    return to_x, to_ih, to_hh, bias_ih, bias_hh


def _vmap(call, batched, x, *others, reverse, **static):
    """Batching rule: one call with the batches of all examples side by side."""
    parameters, states = others[:4], others[4:]
    if any(batched[1:5]) or len(x.shape) != 3 + batched[0]:
        return NotImplemented
    x, *states = equally((batched[0], *batched[5:]), (x, *states))
    size, length, batch, features = x.shape
    x = reshape(moveaxis(x, 0, 1), (length, size * batch, features))
    if any(len(s.shape) != 3 or s.shape[1] != batch for s in states if s is not None):
        return NotImplemented  # the call for each example then raises the error
    states = [None if s is None else reshape(s, (size * batch, s.shape[2])) for s in states]
    results = []
    for out in call(x, *parameters, *states, reverse=reverse, **static):
        *lead, _, h = out.shape
        results.append(moveaxis(reshape(out, (*lead, size, batch, h)), len(lead), 0))
    return tuple(results)


def _public(call, number):
    """A function, exported under the op's name, that returns the op's first ``number`` results."""

    def function(*inputs, **options):
        return call(*inputs, **options)[:number]

    return composite(update_wrapper(function, call, updated=()))


# Without gates


@op(materialize=False, discards=True)
def _rnn(
    xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, /, *,
    nonlinearity="tanh", reverse=False,
):  # fmt: skip
    """A recurrent layer in one direction: ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` at each time.

    x: ``(length, batch, in)``, with a length of at least 1.
    weight_ih, weight_hh: ``(h, in)`` and ``(h, h)``.
    bias_ih, bias_hh: ``(h,)``; by default 0.
    h0: ``(batch, h)``, the state before the first step; by default 0.
    nonlinearity: ``"tanh"`` or ``"relu"``.
    reverse: whether to go from the last time to the first.

    Returns ``(out, h_n)``: the states after all steps, ``(length, batch, h)``, and that after the
    last step, ``(batch, h)``. For float16, intermediate values are computed in float32.
    (Elman 1990, "Finding structure in time")
    """
    one_of("nonlinearity", nonlinearity, ("tanh", "relu"))
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0
    dtype, x, weight_ih, weight_hh, bias_ih, bias_hh, h0 = _checked(xp, 1, *inputs)
    steps = _projected(xp, x, weight_ih, 1, _added(bias_ih, bias_hh))[0, ...]
    weight = _for_steps(xp, weight_hh, 1, x.shape[0])[0, ...]
    h, states = h0, []
    for t in _times(x.shape[0], reverse):
        a = steps[t, ...]
        if h is not None:
            a = a + xp.matmul(h, weight)
        h = xp.tanh(a) if nonlinearity == "tanh" else xp.maximum(a, 0)
        states.append(h)
    return cast(xp, xp.stack(_in_order(states, reverse)), dtype), cast(xp, h, dtype)


def _rnn_vjp(xp, g, x, weight_ih, weight_hh, h0, out, wanted, nonlinearity, reverse):
    g_out, g_h, x, weight_ih, weight_hh, h0, out = widen(
        xp, *g, x, weight_ih, weight_hh, h0, out[0]
    )
    length = x.shape[0]
    tanh = nonlinearity == "tanh"
    slopes = xp.unstack(1 - out * out if tanh else out > 0, axis=0)
    gs = _unstack(xp, g_out, 0, length)
    dh, steps = _initial(xp, g_h, out[0, ...]), []
    for t in _times(length, not reverse):
        dh = _added(dh, gs[t])
        d = dh * slopes[t] if tanh else xp.where(slopes[t], dh, 0.0)
        dh = xp.matmul(d, weight_hh)
        steps.append(d)
    d = xp.stack(_in_order(steps, not reverse))
    return *_cotangents(xp, d, d, x, weight_ih, out, h0, reverse, wanted), dh


_rnn.vjp(joint=_rnn_vjp).vmap(_vmap)


rnn = _public(_rnn, 2)


# Long short-term memory


@op(materialize=False)
def _lstm(
    xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, c0=None, /, *, reverse=False
):
    """A layer of long short-term memory in one direction.

    At each time, with the rows of ``W_ih x + b_ih + W_hh h + b_hh`` for i, f, g and o one below
    the other: ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``.

    x: ``(length, batch, in)``, with a length of at least 1.
    weight_ih, weight_hh: ``(4 * h, in)`` and ``(4 * h, h)``.
    bias_ih, bias_hh: ``(4 * h,)``; by default 0.
    h0, c0: ``(batch, h)``, the state and the cells before the first step; by default 0.
    reverse: whether to go from the last time to the first.

    Returns ``(out, h_n, c_n)``: the states after all steps, ``(length, batch, h)``, and the state
    and the cells after the last step, ``(batch, h)``. For float16, intermediate values are
    computed in float32.
    (Hochreiter and Schmidhuber 1997, "Long short-term memory", with the forget gate of Gers,
    Schmidhuber and Cummins 2000)
    """
    # After these results come the cells ``(length, batch, h)`` and the gates i, f, g and o,
    # ``(4, length, batch, h)``.
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0
    dtype, x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0 = _checked(xp, 4, *inputs)
    steps = xp.unstack(_projected(xp, x, weight_ih, 4, _added(bias_ih, bias_hh)), axis=1)
    weight = _for_steps(xp, weight_hh, 4, x.shape[0])
    c = _initial(xp, c0, steps[0][0, ...])
    h = h0
    states, cells, gates = [], [], []
    for t in _times(x.shape[0], reverse):
        a = steps[t]
        if h is not None:
            a = a + xp.matmul(h, weight)
        i, f, o = (_logistic(xp, a[k, ...]) for k in (0, 1, 3))
        g = xp.tanh(a[2, ...])
        c = f * c + i * g
        h = o * xp.tanh(c)
        states.append(h)
        cells.append(c)
        gates.append((i, f, g, o))
    states, cells = (xp.stack(_in_order(a, reverse)) for a in (states, cells))
    gates = _stacked(xp, gates, reverse)
    return tuple([cast(xp, a, dtype) for a in (states, h, c, cells, gates)])


def _lstm_vjp(xp, g, x, weight_ih, weight_hh, h0, c0, out, wanted, reverse):
    g_out, g_h, g_c, g_cells, g_gates = widen(xp, *g)
    x, weight_ih, weight_hh, h0, c0, states, cells, gates = widen(
        xp, x, weight_ih, weight_hh, h0, c0, out[0], *out[3:]
    )
    length = x.shape[0]
    weight = _by_gate(xp, weight_hh, 4)
    i, f, g, o = (gates[k, ...] for k in range(4))
    tanh = xp.tanh(cells)
    slopes = xp.stack([i * (1 - i), f * (1 - f), 1 - g * g, o * (1 - o)])
    by_cell = xp.stack([g, _before(xp, cells, c0, reverse), i]) * slopes[:3, ...]
    by_state = tanh * slopes[3, ...]
    more = None if g_gates is None else g_gates * slopes
    by_cell, more = (_unstack(xp, a, 1, length) for a in (by_cell, more))
    through = xp.unstack(o * (1 - tanh * tanh), axis=0)
    fs, by_state = xp.unstack(f, axis=0), xp.unstack(by_state, axis=0)
    gs, gs_cells = _unstack(xp, g_out, 0, length), _unstack(xp, g_cells, 0, length)
    like = cells[0, ...]
    dh, dc, steps = _initial(xp, g_h, like), _initial(xp, g_c, like), []
    for t in _times(length, not reverse):
        dh = _added(dh, gs[t])
        dc = _added(dc + dh * through[t], gs_cells[t])
        d = xp.concat([dc * by_cell[t], xp.expand_dims(dh * by_state[t], axis=0)], axis=0)
        d = _added(d, more[t])
        steps.append(d)
        dh = xp.sum(xp.matmul(d, weight), axis=0)
        dc = dc * fs[t]
    d = _side_by_side(xp, steps, not reverse)
    return *_cotangents(xp, d, d, x, weight_ih, states, h0, reverse, wanted), dh, dc


_lstm.vjp(joint=_lstm_vjp).vmap(_vmap)


lstm = _public(_lstm, 3)


# Gated recurrent units


@op(materialize=False)
def _gru(xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, /, *, reverse=False):
    """A layer of gated recurrent units in one direction.

    At each time, with the weights' and biases' rows for r, z and n one below the other::

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h = (1 - z) * n + z * h

    x: ``(length, batch, in)``, with a length of at least 1.
    weight_ih, weight_hh: ``(3 * h, in)`` and ``(3 * h, h)``.
    bias_ih, bias_hh: ``(3 * h,)``; by default 0.
    h0: ``(batch, h)``, the state before the first step; by default 0.
    reverse: whether to go from the last time to the first.

    Returns ``(out, h_n)``: the states after all steps, ``(length, batch, h)``, and that after the
    last step, ``(batch, h)``. For float16, intermediate values are computed in float32.
    (Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder for statistical
    machine translation"; r is applied after the product, as in PyTorch)
    """
    # After these results come n, r, z and q, ``(4, length, batch, h)``; q is ``W_hn h + b_hn``.
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0
    dtype, x, weight_ih, weight_hh, bias_ih, bias_hh, h0 = _checked(xp, 3, *inputs)
    steps = xp.unstack(_projected(xp, x, weight_ih, 3, bias_ih), axis=1)
    weight = _for_steps(xp, weight_hh, 3, x.shape[0])
    bias = None if bias_hh is None else xp.expand_dims(_by_gate(xp, bias_hh, 3), axis=1)
    h = _initial(xp, h0, steps[0][0, ...])
    states, gates = [], []
    for t in _times(x.shape[0], reverse):
        recurrent = xp.matmul(h, weight)
        if bias is not None:
            recurrent += bias
        a = steps[t]
        rz = _logistic(xp, a[:2, ...] + recurrent[:2, ...])
        q = recurrent[2, ...]
        r, z = rz[0, ...], rz[1, ...]
        n = xp.tanh(a[2, ...] + r * q)
        h = n + z * (h - n)
        states.append(h)
        gates.append((n, r, z, q))
    states = xp.stack(_in_order(states, reverse))
    gates = _stacked(xp, gates, reverse)
    return tuple([cast(xp, a, dtype) for a in (states, h, gates)])


def _gru_vjp(xp, g, x, weight_ih, weight_hh, h0, out, wanted, reverse):
    g_out, g_h, g_gates = widen(xp, *g)
    x, weight_ih, weight_hh, h0, states, gates = widen(
        xp, x, weight_ih, weight_hh, h0, out[0], out[2]
    )
    length = x.shape[0]
    weight = _by_gate(xp, weight_hh, 3)
    n, r, z, q = (gates[k, ...] for k in range(4))
    before = _before(xp, states, h0, reverse)
    slope_r, slope_z, slope_n = r * (1 - r), z * (1 - z), 1 - n * n
    by_n = (1 - z) * slope_n
    by_state = xp.stack([by_n * q * slope_r, (before - n) * slope_z, by_n * r, by_n])
    more = None
    if g_gates is not None:
        to_n, to_r, to_z, to_q = (g_gates[k, ...] for k in range(4))
        to_n = to_n * slope_n
        more = xp.stack([(to_n * q + to_r) * slope_r, to_z * slope_z, to_n * r + to_q, to_n])
    by_state, more = (_unstack(xp, a, 1, length) for a in (by_state, more))
    zs, gs = xp.unstack(z, axis=0), _unstack(xp, g_out, 0, length)
    dh, steps = _initial(xp, g_h, states[0, ...]), []
    for t in _times(length, not reverse):
        dh = _added(dh, gs[t])
        d = _added(dh * by_state[t], more[t])
        steps.append(d)
        dh = dh * zs[t] + xp.sum(xp.matmul(d[:3, ...], weight), axis=0)
    d, h = _side_by_side(xp, steps, not reverse), weight_hh.shape[1]
    to_inputs = xp.concat([d[..., : 2 * h], d[..., 3 * h :]], axis=-1)
    given = x, weight_ih, states, h0, reverse, wanted
    return *_cotangents(xp, to_inputs, d[..., : 3 * h], *given), dh


_gru.vjp(joint=_gru_vjp).vmap(_vmap)


gru = _public(_gru, 2)
