"""The steps of recurrent layers by the library have the bits of the definitions."""

import threading
from itertools import product

import numpy as np
import pytest
from test_native_products import Interrupted, has_timer, timer  # noqa: F401, a fixture
from test_native_rows import assert_same, library, values  # noqa: F401, a fixture
from test_threads_of_numpy import number  # noqa: F401, a fixture

import gpugrad as gg
from gpugrad import nn
from gpugrad.backends.native import base
from gpugrad.backends.numpy import threads
from gpugrad.backends.numpy.namespace import xp
from gpugrad.kernels.numpy import recurrent
from gpugrad.ops.recurrent import _gru, _lstm, _rnn

# The op, its gates, its states and its static arguments.
KINDS = {
    "tanh": (_rnn, 1, 1, {"nonlinearity": "tanh"}),
    "relu": (_rnn, 1, 1, {"nonlinearity": "relu"}),
    "lstm": (_lstm, 4, 2, {}),
    "gru": (_gru, 3, 1, {}),
}
# Length, batch, inputs and states. Elements are computed by several threads in the last ones.
SHAPES = [
    (1, 1, 3, 2),
    (5, 2, 3, 4),
    (7, 3, 1, 5),
    (6, 1, 30, 70),
    (3, 40, 64, 128),
    (3, 300, 8, 33),
]
GIVEN = {"all": (1, 1, 1), "none": (0, 0, 0), "one bias": (1, 0, 1), "no states": (0, 1, 0)}


def arguments(kind, shape, dtype, given, values_of):
    _, gates, states, _ = KINDS[kind]
    length, batch, features, h = shape
    shapes = (length, batch, features), (gates * h, features), (gates * h, h)
    shapes = *shapes, (gates * h,), (gates * h,), *[(batch, h)] * states
    is_given = 1, 1, 1, *given[:2], *given[2:] * states
    found = [
        values(s, dtype, "ordinary" if len(s) < 3 else values_of, i) if is_there else None
        for i, (s, is_there) in enumerate(zip(shapes, is_given, strict=True))
    ]
    return [found[0], *[a / 8 for a in found[1:3]], *found[3:]]


def compare(kind, args, cotangents, reverse, reached=lambda twin: twin.twin):
    """Compare the twin's results and cotangents with those of the definition.

    cotangents: several lists. Only with the first one are cotangents left out.
    """
    op, _, states, static = KINDS[kind]
    op, twins = op.op, op.op.twins["numpy"]
    expected = op.forward(xp, *args, reverse=reverse, **static)
    assert_same(reached(twins["forward"])(xp, *args, reverse=reverse, **static), expected)
    every, some = (True,) * (5 + states), (False, True, False, False, True, *[False] * states)
    for g, wanted in [(cotangents[0], some), *((g, every) for g in cotangents)]:
        g = [*g, *[None] * (len(expected) - len(g))]
        given = g, *args[:3], *args[5:], expected, wanted, *static.values(), reverse
        found = reached(twins["joint"])(xp, *given)
        assert_same(tuple(found), tuple(op.joint(xp, *given)))


@pytest.mark.parametrize("threads_", [1, 3])
@pytest.mark.parametrize("values_of", ["ordinary", "some special", "zeros"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_bits(kind, dtype, values_of, threads_, number):  # noqa: F811
    gg.set_num_threads(threads_)
    for reverse, given, shape in product((False, True), GIVEN.values(), SHAPES):
        length, batch, _, h = shape
        args = arguments(kind, shape, dtype, given, values_of)
        shapes = [(length, batch, h), (batch, h), (batch, h)][: 2 + (kind == "lstm")]
        whole, *last = (values(s, dtype, "ordinary", 9 + i) for i, s in enumerate(shapes))
        compare(kind, args, ([whole, *last], [None, *last], [whole]), reverse)


def test_threads_share_rows_only_where_products_keep_their_bits(number, monkeypatch):  # noqa: F811
    rows = recurrent._rows_of_a_thread.__wrapped__
    given = 4, 960, 32, np.dtype(np.float32), False
    assert rows(*given, 1) == 960
    assert rows(4, 960, 2048, *given[3:], 2) == 960
    assert rows(*given, 2) in (480, 960)
    monkeypatch.setattr(recurrent, "_part", lambda x, weight, rows, i: np.zeros((4, 480, 32)))
    assert rows(*given, 2) == 960
    one_after_the_other = np.einsum(
        "bi,gij->gbj", *[np.ones(s, "f") for s in ((960, 32), (4, 32, 32))]
    )
    monkeypatch.setattr(
        recurrent, "_part", lambda x, weight, rows, i: one_after_the_other[:, i : i + rows]
    )
    monkeypatch.setattr(recurrent.threads, "product_of", lambda *_: lambda *_: one_after_the_other)
    assert rows(*given, 2) == 480


@pytest.mark.parametrize("rows", [3, 16, 300])
@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_the_rows_of_a_thread(kind, rows, number, monkeypatch):  # noqa: F811
    args = arguments(kind, (5, 300, 8, 33), np.float32, (1, 1, 1), "ordinary")
    twin = KINDS[kind][0].op.twins["numpy"]["forward"].twin
    static = {"reverse": True, **KINDS[kind][3]}
    expected = twin(xp, *args, **static)
    seen = []
    monkeypatch.setattr(recurrent, "_rows_of_a_thread", lambda *a: seen.append(a) or rows)
    found = twin(xp, *args, **static)
    assert seen
    for x, y in zip(found, expected, strict=True):  # these parts of products may add otherwise
        assert x is y is None or np.allclose(x, y, 1e-4, 1e-5)
    if rows == 300:
        assert_same(found, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_any_order(kind):
    args = arguments(kind, (4, 3, 5, 6), np.float32, (1, 1, 1), "ordinary")
    g = values((3, 4, 6), np.float32, "ordinary", 7).swapaxes(0, 1)
    for i, arg in enumerate(args):
        for other in (
            arg.copy("F"),
            np.repeat(arg, 2, -1)[..., ::2],
            np.repeat(arg.T, 2, -1)[..., ::2].T,  # flattened, its transpose is a view
            arg[::-1].copy()[::-1],
        ):
            changed = [*args[:i], other, *args[i + 1 :]]
            compare(kind, changed, [[g]], False, reached=lambda twin: twin)


@pytest.mark.parametrize("dtype", [gg.float32, gg.float64])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("batch_first", [False, True])
def test_layers_with_and_without_the_library(kind, dtype, batch_first, monkeypatch):
    layer = kind(5, 7, 2, bidirectional=True, batch_first=batch_first, dtype=dtype)
    rng = np.random.default_rng(0)
    x = gg.tensor(rng.standard_normal((3, 4, 5)), dtype=dtype, requires_grad=True)

    def run(compiled):
        def step():
            out, last = layer(x)
            last = last if isinstance(last, tuple) else (last,)
            loss = (out * out).sum() + sum((s * s * s).sum() for s in last)
            return loss.detach(), *gg.autograd.grad(loss, [x, *layer.parameters()])

        step = gg.compile(step) if compiled else step
        for _ in range(3):
            found = step()
        return [a.numpy() for a in found]

    calls = []
    go = recurrent._run_steps
    monkeypatch.setattr(
        recurrent, "_run_steps", lambda *args, **more: calls.append(1) or go(*args, **more)
    )
    found = run(False), run(True)
    assert len(calls) >= 2 * 3 * 4
    monkeypatch.setattr(recurrent, "base", lambda: None)
    calls.clear()
    for other in (*found, run(True)):
        for a, b in zip(run(False), other, strict=True):
            assert_same(a, b)
    assert not calls


def test_what_is_left_to_the_definitions():
    args = arguments("lstm", (4, 3, 5, 6), np.float32, (1, 1, 1), "ordinary")
    twin = _lstm.op.twins["numpy"]["forward"].twin
    assert isinstance(twin(xp, *args, reverse=False), tuple)
    for dtype in (np.float16, np.int64):
        assert twin(xp, *[a.astype(dtype) for a in args], reverse=False) is NotImplemented
    mixed = [*args[:5], args[5].astype(np.float64), args[6]]
    assert twin(xp, *mixed, reverse=False) is NotImplemented
    for shape in ((4, 0, 5, 6), (4, 3, 0, 6), (4, 3, 5, 1), (0, 3, 5, 6)):
        other = arguments("lstm", shape, np.float32, (1, 1, 1), "ordinary")
        assert twin(xp, *other, reverse=False) is NotImplemented
    out, *_ = gg.lstm(*map(gg.asarray, arguments("lstm", (4, 0, 5, 6), "f", (1, 1, 1), "ordinary")))
    assert out.shape == (4, 0, 6)


def test_errors_are_reported_as_by_numpy():
    assert hasattr(base.base(), "gg_recurrent_f")
    args = arguments("gru", (4, 3, 5, 6), np.float32, (1, 1, 1), "ordinary")
    args[5][1, :2] = np.inf, -np.inf
    with np.errstate(invalid="warn"), pytest.warns(RuntimeWarning, match="invalid value"):
        gg.gru(*map(gg.asarray, args))
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        gg.gru(*map(gg.asarray, args))


@has_timer
def test_ctrl_c_ends_a_long_sequence(number, timer, monkeypatch):  # noqa: F811
    calls, run_kernel = [], recurrent.threads.run_kernel

    def counted(*args):
        if not calls:
            timer()
        calls.append(1)
        return run_kernel(*args)

    monkeypatch.setattr(recurrent.threads, "run_kernel", counted)
    x, weight = gg.ones((2000, 64, 8)), gg.ones((4 * 512, 512))
    with pytest.raises(Interrupted):
        gg.lstm(x, weight[:, :8], weight)
    assert len(calls) < 100  # of 500
    assert threads._blas.get() == threads._blas.usual


def test_other_threads_of_python_go_on_meanwhile(monkeypatch):
    began, ended = threading.Event(), threading.Event()
    run_kernel = recurrent.threads.run_kernel

    def signalled(*args):
        began.set()
        found = run_kernel(*args)
        ended.set()
        return found

    monkeypatch.setattr(recurrent.threads, "run_kernel", signalled)
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
