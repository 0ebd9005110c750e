"""Twins of the ops in gpugrad/ops/recurrent.py: a function of the library goes through all steps.

They have the bits of the definitions, which run where the library is missing. What the definitions
compute of all times at once, before the steps and after them, the twins compute in the same way.
"""

import ctypes
import math
from functools import lru_cache, partial

import numpy as np

from ...autograd.rules import kept_names
from ...backends.dtypes import float32, float64
from ...backends.native.base import function_of, place
from ...backends.numpy import threads
from ...backends.numpy.binding import arena
from ...ops import recurrent as ops
from .common import or_definition

_WORTH = 1 << 21  # multiplications that are worth waking a thread
_ROWS = 8, 12  # threads have a multiple of the first one, or else of the second one
_PANEL = 256  # bytes of columns of a weight that lie together: a panel fits the nearest cache
_LEAST = 1 << 14  # bytes of arrays that are worth being aligned, which takes a microsecond
_MOST = 1 << 22  # elements of the weights up to which threads share the rows
# The kinds of layers in native/recurrent.c, each with its number of gates and the number of arrays
# that keep values of all gates; and the names of the arrays:
_KINDS = {"tanh": (1, 1), "relu": (1, 1), "lstm": (4, 4), "gru": (3, 4)}
_ARRAYS = "gates states cells h0 c0 given weight bias bias_hh products g_out d dh dc".split()


def _covers(kind, *arrays):
    """Whether the function supports the inputs, of which some may be None."""
    x, _, weight_hh, *_ = arrays
    if kind not in _KINDS or x.dtype not in (float32, float64):
        return False
    are_alike = all(a is None or (a.dtype == x.dtype and a.size) for a in arrays)
    fit = are_alike and ops.shape_error(_KINDS[kind][0], *arrays) is None
    return fit and weight_hh.shape[1] > 1  # products with one term have other bits


def _can_run(weight, state=None):
    """Whether the library has the function, and the operands of products lie in memory for it."""
    has_function = function_of(f"gg_recurrent_{weight.dtype.char}") is not None
    has_order = weight.flags.c_contiguous or weight.mT.flags.c_contiguous
    return has_function and has_order and (state is None or state.flags.c_contiguous)


@lru_cache(256)
def _division(gates, batch, h, dtype, is_back, is_copied, is_transposed, number):
    """How many rows of the batch a thread computes, and how many columns of weights lie together.

    They are all if the bits depend on that: BLAS may compute smaller products in another way, with
    sums in another order.
    """
    rng = np.random.default_rng(0)
    for step in _ROWS:
        rows = min(-(-batch // (number * step)) * step, batch)
        is_uneven = 4 * rows * min(number, gates) > 5 * batch  # threads better share the gates
        if (rows == batch and number > 1) or is_uneven or gates * h * h > _MOST:
            continue
        shapes = (batch, *[gates] * is_back, h), (gates, h, h)
        x, weight = (rng.standard_normal(shape, dtype) for shape in shapes)
        x = x.swapaxes(0, -2)
        weight = weight.mT if is_transposed and not is_copied else weight
        whole = threads.product_of(x, weight)(x, weight)
        narrow = _PANEL // dtype.itemsize
        is_fit = is_copied and h % narrow == 0 and rows * narrow * h <= threads._SMALL
        for panel in (narrow, h) if is_fit else (h,):
            panels = _in_panels(weight, panel)
            parts = threads.run(partial(_part, x, panels, rows), range(0, batch, rows))
            if np.array_equal(np.concatenate(parts, axis=-2), _in_panels(whole, panel)):
                return rows, panel
    return batch, h


def _in_panels(matrices, panel):
    """Matrices ``(..., n, m)`` as ``(..., m / panel, n, panel)``."""
    *lead, columns = matrices.shape
    return matrices.reshape(*lead, columns // panel, panel).swapaxes(-2, -3)


def _part(x, panels, rows, start):
    return np.matmul(x[..., None, start : start + rows, :], panels)


def _run_steps(kind, reverse, **arrays):
    """Go through all steps. Returns the products of the last one, or None if NumPy would report
    an error.

    arrays: those of native/recurrent.c.
    """
    weight, (length, batch, h) = arrays["given"], arrays["states"].shape
    gates, is_back = len(weight), "d" in arrays
    arrays["products"] = products = _aligned((gates, batch, h), weight.dtype)
    is_large = max(batch * h * (gates if is_back else 1), weight.size) > threads.SMALL
    is_worth_it = threads.has_several() and length * products.size * h >= _WORTH
    number = threads.get_num_threads() if is_worth_it else 1
    is_transposed = not weight.flags.c_contiguous
    is_copied = length >= ops._MANY_STEPS and not (is_back and is_transposed)  # else other bits
    about = is_back, is_copied, is_transposed, number
    in_part, panel = _division(gates, batch, h, weight.dtype, *about)
    if is_copied:
        arrays["weight"] = _aligned(weight.shape, weight.dtype)
    given = (ctypes.c_void_p * len(_ARRAYS))(*[place(arrays.get(name)) for name in _ARRAYS])
    flags = is_back, reverse, is_large, is_transposed
    g = arrays.get("g_out")
    steps = (0, 0) if g is None else [step // g.itemsize for step in g.strides[:2]]
    layer = [*_KINDS].index(kind), *flags, gates, length, batch, h, panel, in_part, *steps
    function = function_of(f"gg_recurrent_{weight.dtype.char}")
    numbers = (ctypes.c_int64 * len(layer))(*layer)
    work = 16 * length * products.size * h  # small products take longer
    done = threads.run_pieces(function, numbers, given, pieces=length, work=work)
    return products if done else None


def _aligned(shape, dtype):
    """An array that begins at a multiple of 64 if it is large.

    So vectors are parts of single lines of the cache: a step's product takes up to a fifth less.
    """
    size = math.prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if size < _LEAST else np.ndarray(shape, dtype, arena(size))


def _contiguous(array):
    return None if array is None else np.ascontiguousarray(array)


def _bias_or_zeros(bias, weight):
    """A bias, or -0.0 for each gate, which changes no number that it is added to."""
    return np.full(len(weight), -0.0, weight.dtype) if bias is None else _contiguous(bias)


def _copied(state, like):
    """A copy of a state, or zeros for None."""
    return np.zeros(like.shape, like.dtype) if state is None else np.array(state, order="C")


def _forward(xp, kind, reverse, x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0=None):
    """The results of the op of this kind, or what its twin returns instead."""
    if not _covers(kind, x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0):
        return NotImplemented
    (number, kept), (length, batch, features) = _KINDS[kind], x.shape
    by_input, by_state = (ops._transposed(xp, w, number) for w in (weight_ih, weight_hh))
    if not _can_run(by_state, h0):
        return None
    gates = _aligned((kept, length, batch, weight_hh.shape[1]), x.dtype)
    projected = gates[:number].reshape(number, length * batch, -1)
    rows = x.reshape(length * batch, features)
    states = gates[0] if kept == 1 else _aligned(gates.shape[1:], x.dtype)
    cells = _aligned(states.shape, x.dtype)  # which take no memory where nothing is written
    if kind == "gru":
        h0 = _copied(h0, states[0])
    else:
        bias_ih = ops._added(bias_ih, bias_hh)
    c0 = _copied(c0, states[0])
    bias_ih, bias_hh = (_bias_or_zeros(bias, weight_ih) for bias in (bias_ih, bias_hh))
    xp.matmul(rows, by_input, out=projected)  # with threads that are still awake when steps begin
    done = _run_steps(
        kind, reverse, gates=gates, states=states, cells=cells, h0=h0, c0=c0, given=by_state,
        bias=bias_ih, bias_hh=bias_hh,
    )  # fmt: skip
    if done is None:
        return None
    last = 0 if reverse else -1
    if kind == "lstm":
        return states, states[last].copy(), cells[last].copy(), cells, gates
    return states, states[last].copy(), *[gates] * (kind == "gru")


def _back(xp, kind, g, x, weight_ih, weight_hh, h0, c0, out, wanted, reverse):
    """The cotangents of all inputs, or what the twin of the op's rule returns instead."""
    if not _covers(kind, x, weight_ih, weight_hh, None, None, h0, c0):
        return NotImplemented
    number_of_states = 3 if kind == "lstm" else 2
    if any(a is not None for a in g[number_of_states:]):  # of the cells or of the gates
        return NotImplemented
    if any(a is not None and a.dtype != x.dtype for a in g):
        return NotImplemented
    number, _ = _KINDS[kind]
    weight = weight_hh.reshape(number, -1, weight_hh.shape[1])
    if not _can_run(weight):
        return None
    g_out, g_h, g_c = (*g[:number_of_states], None)[:3]
    if g_out is not None and not (g_out.flags.aligned and g_out.strides[2] == g_out.itemsize):
        g_out = g_out.copy(order="C")
    g_h, g_c = map(_contiguous, (g_h, g_c))
    states, cells, gates = map(_contiguous, _kept(kind, out))
    initial, like = h0, states[0]
    h0, c0, dh, dc = (_copied(a, like) for a in (h0, c0, g_h, g_c))
    d = _aligned((2 if kind == "gru" else 1, *states.shape[:2], len(weight_hh)), x.dtype)
    products = _run_steps(
        kind, reverse, gates=gates, states=states, cells=cells, h0=h0, c0=c0,
        given=weight, g_out=g_out, d=d, dh=dh, dc=dc,
    )  # fmt: skip
    if products is None:
        return None
    to_h0 = xp.sum(products, axis=0) if number > 1 else products[0]
    if kind == "gru":
        to_h0 = dh + to_h0
    parts = [*d]  # those from the states, and from the inputs if these are others
    found = ops._cotangents(xp, parts[-1], parts[0], x, weight_ih, states, initial, reverse, wanted)
    return (*found, to_h0, dc)[: len(wanted)]


def _kept(kind, out):
    """The states, the cells and the gates among the results of an op, or None."""
    if kind == "lstm":
        return out[0], *out[3:]
    return out[0], None, out[2] if kind == "gru" else None


def _define_twins(call, kind):
    names = kept_names(call.op.joint)

    @or_definition(call, in_kernels=False)
    def forward(xp, *inputs, reverse, nonlinearity=kind):
        return _forward(xp, nonlinearity, reverse, *inputs)

    @or_definition(call, "joint", in_kernels=False)
    def joint(xp, g, *saved):
        given = {"c0": None, **dict(zip(names, saved, strict=True))}
        return _back(xp, given.pop("nonlinearity", kind), g, **given)

    call.twin("numpy", forward, joint=joint)


_define_twins(ops._rnn, "tanh")
_define_twins(ops._lstm, "lstm")
_define_twins(ops._gru, "gru")
