"""The threads that share large products: the same bits each time, and NumPy left as it was."""

import gc
import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context

import numpy as np
import pytest
from native import assert_same, memory, needs_compiler, run
from numpy.testing import assert_allclose, assert_array_equal
from test_interrupts import interrupted

import gpugrad as gg
from gpugrad import nn
from gpugrad.__main__ import report
from gpugrad.backends.numpy import threads

blas = threads._blas
is_openblas = pytest.mark.skipif(not blas.is_known, reason="NumPy's BLAS is another one")


def drawn(*shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def laid_out(rng, shape, dtype):
    layout = rng.choice(["C", "C", "transposed", "transposed", "gaps", "second", "upside down"])
    x = memory(dtype, shape, layout)
    x[...] = rng.normal(size=shape)
    if dtype in "FD":
        x.imag = rng.normal(size=shape)
    return x


SIZES = 0, 1, 1, 2, 3, 7, 16, 33, 64, 130
LEADS = ((), ()), ((), ()), ((3,), (3,)), ((3,), ()), ((), (2, 3)), ((2, 1), (3,)), ((1, 4), (5, 1))


def operands(rng, sizes=SIZES):
    dtype, (lead1, lead2) = rng.choice([*"fdFD"]), LEADS[rng.integers(len(LEADS))]
    m, k, n = (int(rng.choice(sizes)) for _ in range(3))
    if rng.random() < 0.1:  # the product with its own transpose
        x1 = laid_out(rng, (m, k), dtype)
        return x1, x1.T
    return laid_out(rng, (*lead1, m, k), dtype), laid_out(rng, (*lead2, k, n), dtype)


@pytest.mark.parametrize("seed", range(8))
def test_products(seed, number, small_pieces):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        x1, x2 = operands(rng)
        found = threads.matmul(x1, x2)
        assert_allclose(found, np.matmul(x1, x2), rtol=1e-5, atol=1e-5, strict=True)
        out = np.full_like(found, 7)
        assert threads.matmul(x1, x2, out) is out
        assert_array_equal(out, found)
    x = drawn(150, 70, seed=seed)
    found = threads.matmul(x, x.T)
    assert_array_equal(found, found.T)


def test_few_rows_by_the_transpose_of_a_weight(number):
    for rows in (7, 8, 40, 64, 65):
        x1, x2 = drawn(rows, 300, dtype="float32"), drawn(260, 300, dtype="float32").T
        found = threads.matmul(x1, x2)
        assert found.flags.c_contiguous
        assert_allclose(found, x1.astype(float) @ x2, rtol=1e-5, atol=1e-4)
        out = np.zeros((rows, 2 * 260), "float32")
        assert threads.matmul(x1, x2, out[:, 3:263]).base is out
        assert_array_equal(out[:, 3:263], found)
        out[:, 3:263] = 0
        assert not out.any()


@pytest.mark.parametrize("shapes", [((300, 40), (41, 70)), ((3, 300, 40), (2, 40, 70))], ids=str)
def test_shapes_that_do_not_fit(shapes, number, small_pieces):
    with pytest.raises(ValueError, match=r"mismatch|broadcast"):
        threads.matmul(*(drawn(*shape) for shape in shapes))


@is_openblas
def test_openblas_has_one_thread_inside_only(number):
    seen = []

    def look(i):
        seen.append(blas.get())
        if i == 3:
            raise KeyError(i)

    threads.run(look, range(3))
    with pytest.raises(KeyError):
        threads.run(look, range(3, 20))
    assert set(seen) == {1}


@is_openblas
def test_a_limit_of_the_program_is_left_alone(number, small_pieces, monkeypatch):
    # What threadpoolctl does, where there is one processor or a limit of one.
    blas.set(2 if blas.usual == 1 else 1)
    try:
        monkeypatch.setattr(threads._threads, "run", None)
        monkeypatch.setattr(threads, "_multiply", None)
        threads.matmul(drawn(300, 40), drawn(40, 70))
        assert threads.run(str, [1, 2]) == ["1", "2"]
        assert not threads.has_several()
        assert gg.get_num_threads() == blas.get() != blas.usual
    finally:
        blas.set(blas.usual)


@is_openblas
def test_another_thread_that_leaves_is_no_limit(number, monkeypatch):
    seen, set_number = [], blas.set

    def look_and_set(number):
        seen.append(blas.is_limited())
        set_number(number)
        seen.append(blas.is_limited())

    monkeypatch.setattr(blas, "set", look_and_set)
    blas.with_one_thread(int)
    assert seen == [False] * 4


@is_openblas
@pytest.mark.skipif(blas.usual == 1, reason="OpenBLAS has one thread anyway")
def test_another_thread_that_enters_is_no_limit(number, monkeypatch):
    entered, end = threading.Event(), threading.Event()
    get = blas.get

    def work():
        entered.set()
        end.wait(60)

    def enter_and_get():  # another thread begins to compute just before the number is read
        if not entered.is_set():
            pool.submit(blas.with_one_thread, work)
            entered.wait(60)
        return get()

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(blas, "get", enter_and_get)
        assert not blas.is_limited()
        end.set()


@is_openblas
@pytest.mark.skipif(blas.usual == 1, reason="OpenBLAS has one thread anyway")
def test_openblas_has_one_thread_while_another_thread_leaves(number, monkeypatch):
    set_number, looking, end = blas.set, threading.Event(), threading.Event()
    found = []

    def look():
        looking.set()
        end.wait(60)
        return blas.get()

    def enter_and_set(number):  # another thread begins to compute just before the number is set
        if number != 1 and not found:
            found.append(pool.submit(blas.with_one_thread, look))
            looking.wait(0.1)
        set_number(number)

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(blas, "set", enter_and_set)
        blas.with_one_thread(int)
        end.set()
        assert found[0].result(60) == 1


PROGRAM = """
import os, sys, threading
import numpy as np
import gpugrad as gg
from gpugrad.backends.native import base
from gpugrad.backends.numpy import threads
x = gg.asarray(np.random.default_rng(0).normal(size=(250, 250)))
(x @ (x + 1)).sum()
"""


@pytest.mark.slow
@is_openblas
@pytest.mark.parametrize("variable", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", None])
def test_the_environment_and_the_default(variable):
    """A limit is left alone; threads of the default end with the program."""
    text = """
alive = [t for t in threading.enumerate() if t.name != "gpugrad compiler"]
print(gg.get_num_threads(), threads._threads.number, threads._blas.usual, len(alive))
"""
    number, own, usual, active = run(PROGRAM + text, **{variable: "1"} if variable else {}).split()
    if variable:
        assert (number, own, active) == ("1", "None", "1")
    else:
        processors = str(min(threads._processors(), int(usual)))
        assert (number, own) == (processors, processors if int(usual) > 1 else "None")


EITHER = pytest.param(True, marks=needs_compiler), pytest.param(False, marks=pytest.mark.slow)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.parametrize("has_library", EITHER)
def test_after_a_fork(has_library):
    text = f"""
base.wait()
gg.set_num_threads(2)
y = (x @ (x + 1)).numpy()
assert (threads._library is not None) is {has_library}
for _ in range(10):
    child = os.fork()
    if not child:
        same = [((x @ (x + 1)).numpy() == y).all() for _ in range(5)]
        os._exit(not all(same) or threading.active_count() != {1 if has_library else 2})
    x @ (x + 1)
    print(os.waitpid(child, 0)[1])
"""
    variables = {} if has_library else {"GPUGRAD_NATIVE": "0"}
    warnings = "ignore::DeprecationWarning"  # of Python 3.12, about threads and fork
    assert run(PROGRAM + text, PYTHONWARNINGS=warnings, **variables).split() == ["0"] * 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_fork_while_a_thread_runs_a_program():
    text = """
step = gg.compile(lambda x: gg.sum(gg.exp(x) * gg.tanh(x) + x))
x = gg.ones(20_000)
for _ in range(3):
    y = step(x)
step.program(x)
is_over = False
def work():
    while not is_over:
        step(x)
thread = threading.Thread(target=work)
thread.start()
for _ in range(20):
    child = os.fork()
    if not child:
        signal.alarm(30)  # which ends the process
        os._exit(step(x).item() != y.item())
    print(os.waitpid(child, 0)[1])
is_over = True
thread.join()
"""
    program = "import os, signal, threading\nimport gpugrad as gg\n" + text
    warnings = "ignore::DeprecationWarning"
    assert run(program, PYTHONWARNINGS=warnings).split() == ["0"] * 20


def test_results_in_order(number):
    def square(i):
        time.sleep(0.001 * (i % 3))
        return i * i

    assert threads.run(square, range(20)) == [i * i for i in range(20)]
    assert threads.run(square, []) == []
    found = threads.run(lambda i: threads.run(lambda k: 10 * i + k, range(3)), range(4))
    assert found == [[10 * i + k for k in range(3)] for i in range(4)]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_errors_and_other_threads(where, number):
    """One here waits for the others' work; one elsewhere is raised here."""
    working, main, together = set(), threading.current_thread(), threading.Barrier(2)

    def call(i):
        is_main = threading.current_thread() is main
        working.add(i)
        together.wait(60)
        time.sleep(0 if is_main else 0.05)
        working.remove(i)
        if is_main == (where == "here"):
            raise KeyboardInterrupt if is_main else KeyError(where)

    gg.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt if where == "here" else KeyError):
        threads.run(call, range(2))
    assert not working
    assert threads.run(str, range(5)) == list("01234")


def test_where_no_thread_can_start_nothing_is_held(monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    pool, held = threads._Threads(3), set()  # which a weak reference can follow
    reference = weakref.ref(held)
    assert pool.run(lambda item: item[1], [(held, 1), (held, 2), (held, 3)]) == [1, 2, 3]
    del held
    gc.collect()
    assert reference() is None
    assert pool.run(str, [1, 2]) == ["1", "2"]


def test_an_interrupt_while_the_first_thread_starts(monkeypatch):
    """Later work is divided, and nothing waits in a queue that no thread reads."""

    def start(self):
        raise KeyboardInterrupt

    def call(i):
        both.wait(60)
        return 2 * i

    pool, both = threads._Threads(2), threading.Barrier(2)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(KeyboardInterrupt):
            pool.run(pytest.fail, [1, 2])
    assert pool.run(call, [1, 2]) == [2, 4]  # by two threads
    pool.resize(1)


@pytest.mark.usefixtures("no_collector")
def test_calls_that_are_over_hold_nothing(number):
    """What they referred to is freed at once, without the garbage collector."""
    main, variable = threading.current_thread(), ContextVar("variable")

    def call(fails):
        held, both = set(), threading.Barrier(2)

        def work(i, held=held):
            if i < 2:
                both.wait(60)
            if fails == ("here" if threading.current_thread() is main else "elsewhere"):
                raise ValueError(fails)

        gg.set_num_threads(2)
        with suppress(ValueError):
            context = copy_context()
            context.run(variable.set, held)
            context.run(threads.run, work, range(2))
        return weakref.ref(held)

    for fails in ("nowhere", "here", "elsewhere"):
        held, end = call(fails), time.monotonic() + 10
        while held() is not None and time.monotonic() < end:  # the other thread still works
            time.sleep(0.01)
        assert held() is None, fails


def test_settings_of_numpy_hold_in_all_threads(number):
    def overflow(i):
        time.sleep(0.002)
        return np.exp(np.full(2, 1e10))

    with np.errstate(over="ignore"):
        threads.run(overflow, range(10))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        threads.run(overflow, range(10))


@pytest.mark.parametrize("call", [
    lambda: threads.matmul(drawn(300, 40), drawn(40, 70)),
    lambda: np.stack(threads.run(np.exp, drawn(4, 40))),
], ids=["product", "items"])  # fmt: skip
def test_an_interrupt_anywhere(call, number, small_pieces):
    gg.set_num_threads(2)
    expected, number = call(), 1
    while interrupted(call, number) is not None:
        assert blas.get() == blas.usual
        assert not threads._threads.busy.locked()
        number += 1
    assert number > 10
    assert_array_equal(call(), expected)


def test_bits_do_not_depend_on_who_computes(number, small_pieces):
    x1, x2 = drawn(500, 100, dtype="float32"), drawn(100, 300, dtype="float32")
    alone = threads.matmul(x1, x2)
    with threads._threads.busy:  # as if another thread of the program had the help
        assert_array_equal(threads.matmul(x1, x2), alone)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: threads.matmul(x1, x2), range(100)):
            assert_array_equal(found, alone)


LAYERS = {
    "conv": (lambda: nn.Conv2d(3, 8, 3, padding=1), (40, 3, 24, 24)),
    "transposed conv": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), (40, 4, 12, 12)),
    "max": (lambda: nn.MaxPool2d(3, 2, padding=1), (40, 8, 24, 24)),
    "mean": (lambda: nn.AvgPool2d(2), (40, 8, 24, 24)),
    "attention": (lambda: nn.MultiheadAttention(16, 4, batch_first=True), (9, 70, 16)),
}


def outputs(layer, x):
    x = gg.tensor(x, requires_grad=True)
    layer.zero_grad()
    out = layer(x, x, x)[0] if isinstance(layer, nn.MultiheadAttention) else layer(x)
    (out * out).sum().backward()
    return [a.numpy() for a in (out.detach(), x.grad, *[p.grad for p in layer.parameters()])]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_have_the_same_bits_with_any_number_of_threads(name, number, monkeypatch):
    monkeypatch.setattr(type(gg.backends.backend_of[np.ndarray]), "column_block", 1 << 14)
    monkeypatch.setattr("gpugrad.ops.attention._BLOCK", 1 << 12)
    make, shape = LAYERS[name]
    layer, x = make(), drawn(*shape, dtype="float32")
    many = outputs(layer, x)
    gg.set_num_threads(1)
    assert_same(outputs(layer, x), many)


def test_numbers():
    before = gg.get_num_threads()
    for number in 0, -1, 1025, 10**9, 2**64:
        with pytest.raises(ValueError, match=f"from 1 to 1024, not {number}$"):
            gg.set_num_threads(number)
    with pytest.raises(TypeError):
        gg.set_num_threads(1.5)
    assert gg.get_num_threads() == before >= 1


@pytest.mark.parametrize("kernels, features, described", [
    ("SkylakeX", {"AVX2": True, "AVX512_SKX": True}, "SkylakeX"),
    ("Haswell", {"AVX2": True, "AVX512_SKX": False}, "Haswell"),
    ("Haswell", {"AVX2": True, "AVX512_SKX": True}, "OPENBLAS_CORETYPE=SkylakeX"),
    ("Prescott", {"AVX2": True}, "OPENBLAS_CORETYPE=Haswell"),
    ("Prescott", {"AVX2": False}, "Prescott"),
    ("neoversen1", {}, "neoversen1"), ("", {"AVX2": True}, "are not known"),
])  # fmt: skip
def test_better_kernels_are_named_where_the_processor_has_them(kernels, features, described):
    assert threads.describe_kernels(kernels, features).endswith(described)


@is_openblas
def test_the_report_names_the_kernels_of_openblas():
    assert dict(report())["kernels of OpenBLAS"].startswith(blas.kernels)
