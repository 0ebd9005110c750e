"""Twins of the ops in gpugrad/ops/recurrent.py: all steps by a function of the library.

They have the bits of the definitions, which run where the library is not there. What is computed of
all times at once, before the steps and after them, is computed as in the definitions.
"""

import ctypes
from functools import lru_cache, partial

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.native.base import base, is_expected, is_reported, place
from ...backends.numpy.threads import (
    SMALL,
    get_num_threads,
    has_several,
    product_of,
    run,
    run_kernel,
)
from ...ops.recurrent import (
    _added,
    _before,
    _cotangents,
    _gru,
    _lstm,
    _rnn,
    _transposed,
    shape_error,
)
from .whole import whole

_LONG = 1 << 28  # multiplications after which a call returns, so that Ctrl-C can end it
_WORTH = 1 << 21  # multiplications that are worth waking a thread
_ROWS = 8, 12  # threads have a multiple of the first one, or else of the second one
_MOST = 1 << 22  # elements of the weights up to which threads share the rows
# Of native/recurrent.c, the kinds of layers with their number of gates and of arrays that are kept
# of all gates, and the names of the arrays:
_KINDS = {"tanh": (1, 1), "relu": (1, 1), "lstm": (4, 4), "gru": (3, 4)}
_ARRAYS = "gates states cells h0 c0 weight bias bias_hh products g_out d dh dc".split()


def _covers(kind, *arrays):
    """Whether the function supports the inputs, of which some may be None."""
    x, _, weight_hh, *_ = arrays
    return (
        is_expected()
        and kind in _KINDS
        and x.dtype in (float32, float64)
        and all(a is None or (a.dtype == x.dtype and a.size) for a in arrays)
        and shape_error(_KINDS[kind][0], *arrays) is None
        and weight_hh.shape[1] > 1  # products with one term have other bits
    )


def _is_there(*operands):
    """Whether there is the function, and operands of products lie in C order, as it needs them."""
    is_there = hasattr(base(), "gg_recurrent_f")
    return is_there and all(x is None or x.flags.c_contiguous for x in operands)


@lru_cache(256)
def _rows_of_a_thread(gates, batch, h, dtype, is_back, number):
    """With how many rows a thread goes through all steps; all of them if the bits depend on it.

    BLAS may compute products of fewer rows in another way, with sums in another order.
    """
    rng = np.random.default_rng(0)
    for step in _ROWS:
        rows = -(-batch // (number * step)) * step
        is_uneven = 4 * rows * min(number, gates) > 5 * batch  # threads better share the gates
        if rows >= batch or is_uneven or gates * h * h > _MOST:
            continue
        shapes = ((gates, batch, h) if is_back else (batch, h)), (gates, h, h)
        x, weight = (rng.standard_normal(shape, dtype) for shape in shapes)
        parts = run(partial(_part, x, weight, rows), range(0, batch, rows))
        if np.array_equal(np.concatenate(parts, axis=-2), product_of(x, weight)(x, weight)):
            return rows
    return batch


def _part(x, weight, rows, start):
    return np.matmul(x[..., start : start + rows, :], weight)


def _go(kind, reverse, **arrays):
    """Go through all steps. Returns the products of the last one, or None if NumPy would report
    an error.

    arrays: those of native/recurrent.c.
    """
    weight, (length, batch, h) = arrays["weight"], arrays["states"].shape
    gates, is_back = len(weight), "d" in arrays
    arrays["products"] = products = np.empty((gates, batch, h), weight.dtype)
    given = (ctypes.c_void_p * len(_ARRAYS))(*[place(arrays.get(name)) for name in _ARRAYS])
    is_large = max(batch * h * (gates if is_back else 1), weight.size) > SMALL
    is_worth_it = has_several() and length * products.size * h >= _WORTH
    number = get_num_threads() if is_worth_it else 1
    in_part = _rows_of_a_thread(gates, batch, h, weight.dtype, is_back, number)
    layer = [*_KINDS].index(kind), is_back, reverse, is_large, gates, length, batch, h, in_part
    function = getattr(base(), f"gg_recurrent_{'f' if weight.dtype == float32 else 'd'}")
    few, errors = _LONG // (products.size * h) or 1, 0
    for first in range(0, length, few):
        numbers = (ctypes.c_int64 * 11)(*layer, first, min(first + few, length))
        errors |= run_kernel(function, numbers, given)
    return None if errors and is_reported(errors) else products


def _in_order(array):
    return None if array is None else np.ascontiguousarray(array)


def _or_nothing(bias, weight):
    """A bias, or what changes no number to which it is added."""
    return np.full(len(weight), -0.0, weight.dtype) if bias is None else _in_order(bias)


def _own(state, like):
    """A copy of a state, or zeros for None."""
    return np.zeros_like(like) if state is None else np.array(state, order="C")


def _forward(xp, kind, reverse, x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0=None):
    """The states, the last of them, the cells and the gates, or what the twin is to return."""
    if not _covers(kind, x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0):
        return NotImplemented
    if not _is_there(h0):
        return None
    (number, kept), (length, batch, features) = _KINDS[kind], x.shape
    gates = np.empty((kept, length, batch, weight_hh.shape[1]), x.dtype)
    projected = gates[:number].reshape(number, length * batch, -1)
    rows = x.reshape(length * batch, features)
    by_input, by_state = (_transposed(xp, w, number) for w in (weight_ih, weight_hh))
    states = gates[0] if kept == 1 else np.empty_like(gates[0])
    cells = np.empty_like(states)  # which take no memory where nothing is written
    if kind == "gru":
        h0 = _own(h0, states[0])
    else:
        bias_ih = _added(bias_ih, bias_hh)
    c0 = _own(c0, states[0])
    bias_ih, bias_hh = (_or_nothing(bias, weight_ih) for bias in (bias_ih, bias_hh))
    xp.matmul(rows, by_input, out=projected)  # with threads that are still awake when steps begin
    done = _go(
        kind, reverse, gates=gates, states=states, cells=cells, h0=h0, c0=c0, weight=by_state,
        bias=bias_ih, bias_hh=bias_hh,
    )  # fmt: skip
    return None if done is None else (states, _last(states, reverse), cells, gates)


def _last(states, reverse):
    return states[0 if reverse else -1].copy()


def _back(xp, kind, reverse, g, x, weight_ih, weight_hh, h0, c0, kept, wanted):
    """The cotangents of all inputs, or what the twin is to return.

    g: the cotangents of the states, and of the last state and cells.
    kept: the states, cells and gates.
    """
    if not _covers(kind, x, weight_ih, weight_hh, None, None, h0, c0):
        return NotImplemented
    if any(a is not None and a.dtype != x.dtype for a in g):
        return NotImplemented
    if not _is_there(weight_hh):
        return None
    g_out, g_h, g_c = map(_in_order, g)
    states, cells, gates = map(_in_order, kept)
    (number, kept_of_gates), like = _KINDS[kind], states[0]
    before = _before(xp, states, h0, reverse)
    h0, c0, dh, dc = (_own(a, like) for a in (h0, c0, g_h, g_c))
    d = d_hh = np.empty((kept_of_gates, *states.shape), x.dtype)
    products = _go(
        kind, reverse, gates=gates, states=states, cells=cells, h0=h0, c0=c0,
        weight=weight_hh.reshape(number, -1, like.shape[1]), g_out=g_out, d=d, dh=dh, dc=dc,
    )  # fmt: skip
    if products is None:
        return None
    to_h0 = xp.sum(products, axis=0) if number > 1 else products[0]
    if kind == "gru":
        to_h0 = dh + to_h0
        d, d_hh = np.concatenate([d[:2], d[3:]]), d[:3]
    found = _cotangents(xp, d, d_hh, x, weight_ih, before, wanted)
    return *found, to_h0, dc


def _without_cells(found):
    return found[:-1] if isinstance(found, tuple) else found


@whole(_rnn)
def _rnn_forward(
    xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, /, *, nonlinearity, reverse
):
    found = _forward(xp, nonlinearity, reverse, x, weight_ih, weight_hh, bias_ih, bias_hh, h0)
    return found[:2] if isinstance(found, tuple) else found


@whole(_rnn, "joint")
def _rnn_joint(xp, g, x, weight_ih, weight_hh, h0, out, wanted, nonlinearity, reverse):
    given = (*g, None), x, weight_ih, weight_hh, h0, None, (out[0], None, None), wanted
    return _without_cells(_back(xp, nonlinearity, reverse, *given))


@whole(_lstm)
def _lstm_forward(
    xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, c0=None, /, *, reverse
):
    inputs = x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0
    found = _forward(xp, "lstm", reverse, *inputs)
    if not isinstance(found, tuple):
        return found
    states, h, cells, gates = found
    return states, h, _last(cells, reverse), cells, gates


@whole(_lstm, "joint")
def _lstm_joint(xp, g, x, weight_ih, weight_hh, h0, c0, out, wanted, reverse):
    *g, g_cells, g_gates = g
    if g_cells is not None or g_gates is not None:
        return NotImplemented
    kept = out[0], out[3], out[4]
    return _back(xp, "lstm", reverse, g, x, weight_ih, weight_hh, h0, c0, kept, wanted)


@whole(_gru)
def _gru_forward(xp, x, weight_ih, weight_hh, bias_ih=None, bias_hh=None, h0=None, /, *, reverse):
    found = _forward(xp, "gru", reverse, x, weight_ih, weight_hh, bias_ih, bias_hh, h0)
    return (*found[:2], found[3]) if isinstance(found, tuple) else found


@whole(_gru, "joint")
def _gru_joint(xp, g, x, weight_ih, weight_hh, h0, out, wanted, reverse):
    *g, g_gates = g
    if g_gates is not None:
        return NotImplemented
    given = (*g, None), x, weight_ih, weight_hh, h0, None, (out[0], None, out[2]), wanted
    return _without_cells(_back(xp, "gru", reverse, *given))


_rnn.twin("numpy", _rnn_forward, joint=_rnn_joint)
_lstm.twin("numpy", _lstm_forward, joint=_lstm_joint)
_gru.twin("numpy", _gru_forward, joint=_gru_joint)
