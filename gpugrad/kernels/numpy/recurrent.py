"""Twins of the ops in gpugrad/ops/recurrent.py.

The arrays of one step are so small that they stay in the cache, and so do those of a few steps
together. Products of matrices then take most of the time; writing into arrays that are there
already halves the rest.

Each step needs the state of the one before, and its arrays are too small to be shared by threads.
But the products with the inputs, and those for the gradients of the weights, need not wait for all
steps: while the calling thread goes through the steps, other threads compute these products, for
one part of the times after the other.
"""

from functools import cache, partial
from itertools import pairwise

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.numpy.threads import (
    has_several,
    is_divided,
    matmul,
    run,
    with_one_thread,
)
from ...ops.recurrent import _gru, _lstm, shape_error

_IN_CACHE = 1 << 16  # elements of the arrays of a few steps
_ROWS = 256  # in parts with fewer rows, the products for the weights' gradients take longer
_WORK = 6 << 20  # the fewest multiplications of a part that are worth waking a thread
_FEW = 1 << 13  # of a GRU with fewer elements in its output, compile makes the definition faster


def _covers(*arrays):
    """Whether the arrays, of which some may be None, share a dtype that is computed with."""
    first, *others = [x for x in arrays if x is not None]
    return first.dtype in (float32, float64) and all(x.dtype == first.dtype for x in others)


@cache
def _for_gates(*values, dtype):
    return np.array(values, dtype).reshape(len(values), 1, 1)


def _by_gate(a, gates):
    """A weight or bias, ``(gates * h, ...)``, with an axis for the gates: ``(gates, h, ...)``."""
    return a.reshape(gates, len(a) // gates, *a.shape[1:])


def _transposed(weight, factor):
    """The transposed matrices of the gates, ``(gates, in, h)``, times a factor for each gate."""
    return np.multiply(_by_gate(weight, len(factor)).swapaxes(1, 2), factor, order="C")


def _length_of_parts(x, h, gates):
    """How many times there are in a part whose products are computed beside the steps.

    None if nothing is computed beside them: for few times, with one thread, and if the product of
    a single step is large enough for several threads.
    """
    length, batch, features = x.shape
    # With h + features rows, a part takes no less memory than the weights' gradients by it.
    rows = max(_ROWS, h + features, _WORK // max(gates * h * (h + features), 1))
    part = -(-rows // max(batch, 1))
    if length < 3 * part or not has_several() or is_divided((batch, h), (gates, h, h)):
        return None
    return part


def _product_of_steps(gates, batch, h):
    """What multiplies the state of a step: `matmul`, or NumPy's function, which takes less time."""
    return matmul if is_divided((batch, h), (gates, h, h)) else np.matmul


def _rows(a):
    """All times below each other: ``(..., length * batch, h)`` of ``(..., length, batch, h)``."""
    shape = a.shape
    return a.reshape(*shape[:-3], shape[-3] * shape[-2], shape[-1])


def _in_order(times, reverse):
    """The times of a slice, in the order of the steps."""
    times = range(times.start, times.stop)
    return times[::-1] if reverse else times


def _go_through(x, h, gates, project, go, reverse):
    """Compute all steps: ``project`` the inputs of all times, and ``go`` through the times.

    project: called with a slice of the times.
    go: called with a slice of the times, and with the time of the step before, or None.
    """
    length = len(x)
    part = _length_of_parts(x, h, gates)
    if part is None:
        whole = slice(0, length)
        project(whole)
        with_one_thread(go, whole, None)
        return
    first, later, parts = _divided(length, part, reverse)

    def go_first():
        yield from parts  # which other threads project meanwhile
        go(first, None)

    project(first)
    run(project, go_first())
    with_one_thread(go, later, later.stop if reverse else later.start - 1)


def _divided(length, part, reverse):
    """The first third of the steps and the later ones, as slices, and the latter in parts."""
    bounds = [length // 3, *range(length // 3 + part, length, part), length]
    slices = [slice(0, bounds[0]), slice(bounds[0], length), *[slice(*p) for p in pairwise(bounds)]]
    if reverse:
        slices = [slice(length - s.stop, length - s.start) for s in slices]
    first, later, *parts = slices
    return first, later, parts


def _back_in_parts(length, elements, reverse, part):
    """Iterate over slices of few times, whose arrays stay in the cache, against the order of steps.

    elements: how many there are in the largest array of one step.
    part: how many times, or a few more, make a part.
    Yields each slice with that of the part that ends with it, or with None.
    """
    some = max(1, _IN_CACHE // max(elements, 1))
    done = begun = 0
    while done < length:
        few = min(some, length - done)
        done += few
        is_end = done - begun >= part or done == length
        if reverse:
            yield slice(done - few, done), slice(begun, done) if is_end else None
        else:
            start = length - done
            yield slice(start, start + few), slice(start, length - begun) if is_end else None
        if is_end:
            begun = done


def _to_weights(steps_back, part, to_input, to_recurrent):
    """What the two functions return for the slices of times that an iterator yields, summed.

    part: None if other threads do not call the functions while the calling one iterates.
    """
    if part is None:
        (whole,) = with_one_thread(list, steps_back)
        return *to_input(whole), *to_recurrent(whole)
    calls = (partial(f, times) for times in steps_back for f in (to_input, to_recurrent))
    found = run(lambda call: call(), calls)
    by_part = [(*x, *y) for x, y in zip(found[::2], found[1::2], strict=True)]
    return tuple(map(_sum, zip(*by_part, strict=True)))


def _with_before(function, a, states, initial, part, reverse, out):
    """Write a function of the states before each step, and of ``a``, to ``out``.

    part: the times of ``a``, a slice.
    """
    by = 1 if reverse else -1  # the time of the step before
    start, stop = max(part.start + by, 0), min(part.stop + by, len(states))
    same = slice(start - by - part.start, stop - by - part.start)
    function(states[start:stop], a[same], out[same])
    if stop - start < part.stop - part.start:  # the layer begins here
        first = -1 if reverse else 0
        function(0 if initial is None else initial, a[first], out[first])


def _to_input(d, x, weight, to_x, times, wants_weight):
    """Write the cotangents of the inputs of some times, unless ``to_x`` is None.

    weight: ``(gates, h, in)``.
    Returns a tuple with the cotangent of the weight, or with None.
    """
    flat, rows = _rows(d[:, times]), _rows(x[times])
    if to_x is not None:
        np.add.reduce(matmul(flat, weight), 0, None, to_x[times].reshape(rows.shape))
    return (_to_weight(flat, rows) if wants_weight else None,)


def _to_states_weight(d, states, h0, times, reverse):
    """The cotangent of the weight of the states, by the steps of some times."""
    by = 1 if reverse else -1  # the time of the step before
    start, stop = max(times.start, -by), min(times.stop, len(states) - by)
    parts = []
    if start < stop:
        parts.append(_to_weight(_rows(d[:, start:stop]), _rows(states[start + by : stop + by])))
    if h0 is not None and stop - start < times.stop - times.start:  # the layer begins here
        parts.append(_to_weight(d[:, -1 if reverse else 0], h0))
    h = states.shape[2]
    return _sum(parts) if parts else np.zeros((len(d) * h, h), d.dtype)


def _to_weight(flat, rows):
    out = matmul(flat.swapaxes(1, 2), rows)
    return out.reshape(out.shape[0] * out.shape[1], out.shape[2])


def _to_bias(d):
    flat = _rows(d)
    return matmul(np.ones(flat.shape[1], flat.dtype), flat).reshape(-1)


def _sum(parts):
    total, *others = parts
    for other in others:
        if total is not None:
            total += other
    return total


# Long short-term memory


def _lstm_forward(
    xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, c0=None, /, *, reverse
):
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0
    if not _covers(*inputs) or shape_error(4, *inputs):
        return NotImplemented
    length, batch, _ = x.shape
    h = weight_hh.shape[1]
    # sigmoid(x) is tanh(x / 2) / 2 + 1 / 2, so that tanh serves all gates.
    factor = _for_gates(0.5, 0.5, 1, 0.5, dtype=x.dtype)
    shift = _for_gates(0.5, 0.5, 0, 0.5, dtype=x.dtype)
    by_input, by_state = _transposed(weight_ih, factor), _transposed(weight_hh, factor)
    biases = [bias for bias in (bias_ih, bias_hh) if bias is not None]
    bias = sum(biases[1:], biases[0]).reshape(4, 1, h) * factor if biases else None
    gates = np.empty((4, length, batch, h), x.dtype)
    out, cells = np.empty((2, length, batch, h), x.dtype)

    def project(times):
        """Write what the inputs add to the gates' arguments."""
        rows = _rows(x[times])
        projected = matmul(rows, by_input, _rows(gates[:, times]))
        if bias is not None:
            projected += bias

    def go(times, before):
        states = (h0, c0) if before is None else (out[before], cells[before])
        arrays = gates, by_state, *states, out, cells, factor, shift
        _steps(_in_order(times, reverse), *arrays)

    _go_through(x, h, 4, project, go, reverse)
    last = 0 if reverse else -1
    return out, out[last].copy(), cells[last].copy(), cells, gates


def _steps(times, gates, weight, state, cell, out, cells, factor, shift):
    """Compute the gates from what the inputs add to them; write the states and the cells."""
    _, _, batch, h = gates.shape
    multiply = _product_of_steps(4, batch, h)
    recurrent, product = np.empty((4, batch, h), out.dtype), np.empty((batch, h), out.dtype)
    for t in times:
        a = gates[:, t]
        if state is not None:
            a += multiply(state, weight, recurrent)
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


def _lstm_joint(xp, g, x, weight_ih, weight_hh, h0, c0, out, wanted, reverse):
    g_out, g_h, g_c, g_cells, g_gates = g
    states, _, _, cells, gates = out
    given = [a for a in g if a is not None]
    if g_cells is not None or g_gates is not None or not _covers(gates, *given):
        return NotImplemented
    length, batch, h = states.shape
    d = np.empty(gates.shape, gates.dtype)
    dh, dc = (np.zeros((batch, h), gates.dtype) if a is None else a.copy() for a in (g_h, g_c))
    to_x = np.empty(x.shape, x.dtype) if wanted[0] else None

    def to_input(times):
        return _to_input(d, x, _by_gate(weight_ih, 4), to_x, times, wanted[1])

    def to_recurrent(times):
        to_weight = _to_states_weight(d, states, h0, times, reverse) if wanted[2] else None
        return to_weight, _to_bias(d[:, times]) if wanted[3] or wanted[4] else None

    part = _length_of_parts(x, h, 4)
    arrays = d, gates, cells, states, c0, _by_gate(weight_hh, 4), g_out, dh, dc
    back = _steps_back(*arrays, reverse, wanted[5], part or length)
    to_weight_ih, to_weight_hh, to_bias = _to_weights(back, part, to_input, to_recurrent)
    return to_x, to_weight_ih, to_weight_hh, to_bias, to_bias, dh, dc


def _steps_back(d, gates, cells, states, c0, weight, g_out, dh, dc, reverse, to_initial, part):
    """Write the cotangents of the gates' arguments to ``d``, and update those of state and cell.

    to_initial: whether the cotangent of the initial state is wanted.
    part: how many times, or a few more, to go through before yielding a slice of them.
    """
    length, batch, h = states.shape
    multiply, add = _product_of_steps(4, batch, h), np.add.reduce
    products = np.empty((4, batch, h), gates.dtype)
    last = length - 1 if reverse else 0
    for few, done in _back_in_parts(length, products.size, reverse, part):
        through = _slopes(d[:, few], gates[:, few], cells, states[few], c0, few, reverse)
        for t in _in_order(few, not reverse):
            if g_out is not None:
                dh += g_out[t]
            own = d[:, t]
            own[3] *= dh
            slope = through[t - few.start]
            slope *= dh
            dc += slope
            own[:3] *= dc
            dc *= gates[1, t]
            if to_initial or t != last:
                add(multiply(own, weight, products), 0, None, dh)
        if done is not None:
            yield done


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
    _with_before(np.multiply, f, cells, c0, part, reverse, product)
    np.multiply(product, f, by_f)  # c * f * (1 - f), with the cells before the step
    np.subtract(product, by_f, by_f)
    np.multiply(states, o, by_o)  # tanh(c) * o * (1 - o), with those after it
    np.subtract(states, by_o, by_o)
    np.tanh(cells[part], product)
    product *= states  # o * (1 - tanh(c) * tanh(c))
    return np.subtract(o, product, product)


_lstm.twin("numpy", _lstm_forward, joint=_lstm_joint)


# Gated recurrent units. With the gates in the order n, r, z, q, those that have a part from the
# inputs, n, r and z, lie together, and so do those that have one from the states, r, z and q.


def _n_first(a, h):
    """The rows of a weight or bias for n, r and z, given those for r, z and n."""
    return np.concatenate([a[2 * h :], a[: 2 * h]])


def _n_last(a, h):
    return None if a is None else np.concatenate([a[h:], a[:h]])


def _gru_forward(xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, /, *, reverse):
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0
    if not _covers(*inputs) or shape_error(3, *inputs):
        return NotImplemented
    length, batch, _ = x.shape
    h = weight_hh.shape[1]
    if length * batch * h < _FEW:
        return NotImplemented
    factor = _for_gates(1, 0.5, 0.5, dtype=x.dtype)  # for sigmoids, see above
    by_input = _transposed(_n_first(weight_ih, h), factor)
    by_state = _transposed(weight_hh, _for_gates(0.5, 0.5, 1, dtype=x.dtype))
    bias, bias_q = np.zeros((3, 1, h), x.dtype), np.zeros(h, x.dtype)
    if bias_ih is not None:
        bias += _by_gate(_n_first(bias_ih, h), 3)[:, None]
    if bias_hh is not None:
        bias[1:] += _by_gate(bias_hh, 3)[:2, None]
        bias_q = bias_hh[2 * h :]
    bias *= factor
    gates = np.empty((4, length, batch, h), x.dtype)
    out = np.empty((length, batch, h), x.dtype)

    def project(times):
        """Write what the inputs add to the arguments of n, r and z."""
        projected = matmul(_rows(x[times]), by_input, _rows(gates[:3, times]))
        projected += bias

    def go(times, before):
        state = h0 if before is None else out[before]
        if state is None:
            state = np.zeros((batch, h), x.dtype)
        _gru_steps(_in_order(times, reverse), gates, by_state, bias_q, state, out)

    _go_through(x, h, 3, project, go, reverse)
    return out, out[0 if reverse else -1].copy(), gates


def _gru_steps(times, gates, weight, bias_q, state, out):
    """Compute the gates from what the inputs add to them; write the states."""
    _, _, batch, h = gates.shape
    multiply = _product_of_steps(3, batch, h)
    recurrent, product = np.empty((3, batch, h), out.dtype), np.empty((batch, h), out.dtype)
    to_rz, to_q = recurrent[:2], recurrent[2]
    for t in times:
        n, r, z, q = gates[:, t]
        rz = gates[1:3, t]
        multiply(state, weight, recurrent)
        np.add(to_q, bias_q, q)
        rz += to_rz
        np.tanh(rz, rz)
        rz *= 0.5
        rz += 0.5
        n += np.multiply(r, q, product)
        np.tanh(n, n)
        state = np.subtract(state, n, out[t])
        state *= z
        state += n


def _gru_joint(xp, g, x, weight_ih, weight_hh, h0, out, wanted, reverse):
    g_out, g_h, g_gates = g
    states, _, gates = out
    given = [a for a in g if a is not None]
    if g_gates is not None or states.size < _FEW or not _covers(gates, *given):
        return NotImplemented
    length, batch, h = states.shape
    d = np.empty(gates.shape, gates.dtype)
    dh = np.zeros((batch, h), gates.dtype) if g_h is None else g_h.copy()
    to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
    by_input = _by_gate(_n_first(weight_ih, h), 3)

    def to_input(times):
        to_bias = _to_bias(d[:3, times]) if wanted[3] else None
        return *_to_input(d[:3], x, by_input, to_x, times, wanted[1]), to_bias

    def to_recurrent(times):
        to_weight = _to_states_weight(d[1:], states, h0, times, reverse) if wanted[2] else None
        return to_weight, _to_bias(d[1:, times]) if wanted[4] else None

    part = _length_of_parts(x, h, 3)
    arrays = d, gates, states, h0, _by_gate(weight_hh, 3), g_out, dh
    back = _gru_steps_back(*arrays, reverse, wanted[5], part or length)
    to_weight_ih, to_bias_ih, to_weight_hh, to_bias_hh = _to_weights(
        back, part, to_input, to_recurrent
    )
    to_inputs = to_x, _n_last(to_weight_ih, h), to_weight_hh
    return *to_inputs, _n_last(to_bias_ih, h), to_bias_hh, dh


def _gru_steps_back(d, gates, states, h0, weight, g_out, dh, reverse, to_initial, part):
    """Write the cotangents of the gates' arguments to ``d``, and update that of the state.

    The other arguments and what it yields are those of `_steps_back`.
    """
    _, _, batch, h = gates.shape
    multiply, add = _product_of_steps(3, batch, h), np.add.reduce
    products, product = np.empty((3, batch, h), d.dtype), np.empty((batch, h), d.dtype)
    last = len(states) - 1 if reverse else 0
    for few, done in _back_in_parts(len(states), 4 * batch * h, reverse, part):
        _gru_slopes(d[:, few], gates[:, few], states, h0, few, reverse)
        for t in _in_order(few, not reverse):
            if g_out is not None:
                dh += g_out[t]
            own = d[:, t]
            own *= dh
            dh *= gates[2, t]
            if to_initial or t != last:
                dh += add(multiply(own[1:], weight, products), 0, None, product)
        if done is not None:
            yield done


def _gru_slopes(d, gates, states, h0, part, reverse):
    """Write the slope of the state after each step by each gate's argument to ``d``."""
    n, r, z, q = gates
    by_n, by_r, by_z, by_q = d
    product = 1 - z
    np.multiply(n, n, by_n)  # (1 - z) * (1 - n * n)
    np.subtract(1, by_n, by_n)
    by_n *= product
    np.multiply(by_n, r, by_q)
    np.multiply(by_q, q, by_r)  # of n by r, times r * (1 - r)
    np.multiply(by_r, r, product)
    by_r -= product
    _with_before(np.subtract, n, states, h0, part, reverse, by_z)
    by_z *= z  # (h - n) * z * (1 - z), with the states before the step
    np.multiply(by_z, z, product)
    by_z -= product


_gru.twin("numpy", _gru_forward, joint=_gru_joint)
