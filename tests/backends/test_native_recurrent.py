"""The steps of recurrent layers by the library have the bits of the definitions."""

import threading
from itertools import product
from unittest import mock

import native
import numpy as np
import pytest
from test_native_rows import values

import gpugrad as gg
from gpugrad import nn
from gpugrad.backends.native import base
from gpugrad.backends.numpy import threads
from gpugrad.backends.numpy.namespace import xp
from gpugrad.kernels.numpy import recurrent
from gpugrad.ops.recurrent import _gru, _lstm, _rnn

pytestmark = native.needs_library
# The op, its gates, its states and its static arguments.
KINDS = {
    "tanh": (_rnn, 1, 1, {"nonlinearity": "tanh"}),
    "relu": (_rnn, 1, 1, {"nonlinearity": "relu"}),
    "lstm": (_lstm, 4, 2, {}),
    "gru": (_gru, 3, 1, {}),
}
# Length, batch, inputs and states. Elements are computed by several threads in the last ones. From
# 16 steps on, the matrices of the steps are copied.
SHAPES = (
    (1, 1, 3, 2), (15, 2, 3, 4), (17, 3, 1, 5), (6, 1, 30, 70), (3, 40, 64, 128), (3, 300, 8, 33),
    (16, 40, 8, 128),
)  # fmt: skip
# Which of two biases and of the states: all, none, one bias, no states.
GIVEN = (1, 1, 1), (0, 0, 0), (1, 0, 1), (0, 1, 0)


def arguments(kind, shape, given=(1, 1, 1), dtype=np.float32, values_of="ordinary"):
    _, gates, states, _ = KINDS[kind]
    length, batch, features, h = shape
    biases, last = [(gates * h,)] * 2, [(batch, h)] * states
    shapes = (length, batch, features), (gates * h, features), (gates * h, h), *biases, *last
    x, *found = [
        values(s, dtype, "ordinary" if len(s) < 3 else values_of, i) for i, s in enumerate(shapes)
    ]
    is_given = 1, 1, *given[:2], *given[2:] * states
    found = [a if is_there else None for a, is_there in zip(found, is_given, strict=True)]
    return [x, *[a / 8 for a in found[:2]], *found[2:]]


def compare(kind, args, cotangents, reverse, **options):
    """Compare the twin's results and cotangents with those of the definition.

    cotangents: several lists. Only with the first one are cotangents left out.
    """
    op, _, states, static = KINDS[kind]
    out = native.check_twin(op.op, "forward", *args, reverse=reverse, **static, **options)
    every, some = (True,) * (5 + states), (False, True, False, False, True, *[False] * states)
    for g, wanted in [(cotangents[0], some), *((g, every) for g in cotangents)]:
        g = [*g, *[None] * (len(out) - len(g))]
        given = g, *args[:3], *args[5:], out, wanted, *static.values(), reverse
        native.check_twin(op.op, "joint", *given, **options)


@pytest.mark.parametrize("threads_", [1, 3])
@pytest.mark.parametrize("values_of", ["ordinary", "some special", "zeros"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind, dtype, values_of, threads_, number):
    gg.set_num_threads(threads_)
    for reverse, given, shape in product((False, True), GIVEN, SHAPES):
        length, batch, _, h = shape
        args = arguments(kind, shape, given, dtype, values_of)
        shapes = [(length, batch, h), (batch, h), (batch, h)][: 2 + (kind == "lstm")]
        whole, *last = (values(s, dtype, "ordinary", 9 + i) for i, s in enumerate(shapes))
        compare(kind, args, ([whole, *last], [None, *last], [whole]), reverse)


def test_threads_share_rows_only_where_products_keep_their_bits(number, monkeypatch):
    divide = recurrent._division.__wrapped__
    given = 4, 960, 32, np.dtype(np.float32), False, True, False
    assert divide(*given, 1) == (960, 32)
    assert divide(4, 960, 2048, *given[3:], 2) == (960, 2048)
    assert divide(*given, 2) in ((480, 32), (960, 32))
    assert divide(*given[:-2], False, True, 2) in ((480, 32), (960, 32))
    monkeypatch.setattr(recurrent, "_part", lambda x, weight, rows, i: np.zeros((4, 1, 480, 32)))
    assert divide(*given, 2) == (960, 32)
    whole = np.einsum("bi,gij->gbj", *[np.ones(s, "f") for s in ((960, 32), (4, 32, 32))])
    monkeypatch.setattr(recurrent, "_part", lambda x, weight, rows, i: whole[:, None, i : i + rows])
    monkeypatch.setattr(threads, "product_of", lambda *_: lambda *_: whole)
    assert divide(*given, 2) == (480, 32)


def test_columns_of_weights_lie_together_only_where_products_keep_their_bits(monkeypatch):
    divide = recurrent._division.__wrapped__
    given = 2, 4, 128, np.dtype(np.float32), False

    def part(x, panels, rows, i):
        return np.zeros((2, panels.shape[1], 4, panels.shape[3]))

    monkeypatch.setattr(recurrent, "_part", part)
    monkeypatch.setattr(threads, "product_of", lambda *_: lambda *_: np.zeros((2, 4, 128)))
    monkeypatch.setattr(threads, "_SMALL", 1 << 20)
    assert divide(*given, True, False, 1) == (4, 64)
    assert divide(*given, False, False, 1) == (4, 128)  # the weight is not copied
    monkeypatch.setattr(threads, "_SMALL", 0)
    assert divide(*given, True, False, 1) == (4, 128)  # BLAS has no functions for few rows
    monkeypatch.setattr(threads, "_SMALL", 1 << 20)
    monkeypatch.setattr(threads, "product_of", lambda *_: lambda *_: np.ones((2, 4, 128)))
    assert divide(*given, True, False, 1) == (4, 128)


@pytest.mark.parametrize("rows", [3, 16, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_the_rows_of_a_thread(kind, rows, number):
    op, _, _, static = KINDS[kind]
    args, static = arguments(kind, (5, 300, 8, 33)), {"reverse": True, **static}
    expected = native.check_twin(op.op, "forward", *args, **static)
    with mock.patch.object(recurrent, "_division", return_value=(rows, args[2].shape[1])) as asked:
        found = op.op.twins["numpy"]["forward"].twin(xp, *args, **static)
    assert asked.called
    for x, y in zip(found, expected, strict=True):  # these parts of products may add otherwise
        assert x is y is None or np.allclose(x, y, 1e-4, 1e-5)
    if rows == 300:
        native.assert_same(found, expected)


@pytest.mark.parametrize("length", [4, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_any_order(kind, length):
    args = arguments(kind, (length, 3, 5, 6))
    g = values((3, length, 6), np.float32, "ordinary", 7).swapaxes(0, 1)
    for i, arg in enumerate(args):
        turned = np.repeat(arg.T, 2, -1)[..., ::2].T  # flattened, its transpose is a view
        others = arg.copy("F"), np.repeat(arg, 2, -1)[..., ::2], turned, arg[::-1].copy()[::-1]
        for other in (*others, native.misaligned(arg)):
            compare(kind, [*args[:i], other, *args[i + 1 :]], [[g]], False, may_decline=True)
    others = np.broadcast_to(g[0], g.shape), g[::-1], g[..., ::-1], native.misaligned(g)
    compare(kind, args, [[other] for other in others], True, may_decline=True)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_layers_use_the_library(kind, monkeypatch):
    calls = native.watch(monkeypatch, recurrent, "_run_steps")
    layer = kind(5, 7, bidirectional=True)

    @gg.compile
    def step(x):
        out, last = layer(x)
        loss = sum((s * s * s).sum() for s in (out[1:], *last))
        return loss.detach(), *gg.autograd.grad(loss, [*layer.parameters()])

    for _ in range(3):
        step(gg.ones((4, 3, 5)))
    assert len(calls) == 3 * 4  # both directions, forward and back


def test_what_is_left_to_the_definitions():
    args = arguments("lstm", (4, 3, 5, 6))
    *others, state, cell = args
    left = [[a.astype(dtype) for a in args] for dtype in (np.float16, np.int64)]
    left += [[*others, state.astype(np.float64), cell]]
    shapes = (4, 0, 5, 6), (4, 3, 0, 6), (4, 3, 5, 1), (0, 3, 5, 6)
    left += [arguments("lstm", shape) for shape in shapes]
    twin = _lstm.op.twins["numpy"]["forward"].twin
    assert isinstance(twin(xp, *args, reverse=False), tuple)
    assert [twin(xp, *x, reverse=False) for x in left] == [NotImplemented] * 7
    assert gg.lstm(*map(gg.asarray, left[3]))[0].shape == (4, 0, 6)


def test_errors_are_reported_as_by_numpy():
    assert base.function_of("gg_recurrent_f") is not None
    args = arguments("gru", (4, 3, 5, 6))
    args[5][1, :2] = np.inf, -np.inf
    native.check_errors(lambda: gg.gru(*map(gg.asarray, args)), "invalid value")


def test_ctrl_c_ends_a_long_sequence(number, timer, monkeypatch):
    calls = native.watch(monkeypatch, threads, "run_kernel", timer)
    x, weight = gg.ones((500, 64, 8)), gg.ones((4 * 256, 256))
    with pytest.raises(native.Interrupted):
        gg.lstm(x, weight[:, :8], weight)
    assert len(calls) < 6  # of 31
    assert threads._blas.get() == threads._blas.usual


def test_other_threads_of_python_go_on_meanwhile(monkeypatch):
    began, ended, run_kernel = threading.Event(), threading.Event(), threads.run_kernel

    def signalled(*args):
        began.set()
        found = run_kernel(*args)
        ended.set()
        return found

    monkeypatch.setattr(threads, "run_kernel", signalled)
    monkeypatch.setattr(threads, "_LONG", 1 << 40)
    x, weight = gg.ones((50, 64, 8)), gg.ones((4 * 256, 256))
    thread = threading.Thread(target=gg.lstm, args=(x, weight[:, :8], weight))
    thread.start()
    began.wait(60)
    count = 0
    while not ended.is_set():
        count += 1
    thread.join()
    assert count > 1000
