"""Products by the threads of `native/pool.c`: NumPy's bits, and nobody who waits for nothing."""

import ctypes
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import product

import numpy as np
import pytest
import test_threads_of_numpy as of_python
from numpy.testing import assert_array_equal
from test_threads_of_numpy import is_openblas, run_program

import gpugrad as gg
from gpugrad.backends.native import base
from gpugrad.backends.native.compiler import build
from gpugrad.backends.numpy import threads

if base.is_expected() and sys.platform != "win32":
    build(base._source(), "base").wait(120)
library = base.base()
pytestmark = pytest.mark.skipif(library is None, reason="there is no compiler")
WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
DTYPES = "fdFD"
number, small_pieces = of_python.number, of_python.small_pieces  # fixtures


@pytest.fixture
def several():
    """Four threads in the pool."""
    library.gg_threads(4)
    yield
    library.gg_threads(threads._threads.number or 1)


def in_pieces(work, pieces, run=library and library.gg_run):
    """Call ``work`` with the number of each piece, by the pool."""
    errors = []

    def call(context, piece):
        try:
            work(piece)
        except BaseException as error:  # noqa: BLE001, which C cannot pass on
            errors.append(error)

    run(WORK(call), None, ctypes.c_int64(pieces))
    assert not errors


def described(x1, x2, out):
    numbers = threads.description(x1, x2, out)
    return (ctypes.c_int64 * len(numbers))(*numbers)


def multiplied(function, x1, x2, out, *numbers):
    places = [ctypes.c_void_p(x.ctypes.data) for x in (x1, x2, out)]
    return function(*map(ctypes.c_int64, numbers), described(x1, x2, out), *places)


def drawn(rng, shape, dtype, layout):
    """An array in C order, transposed, with gaps, or reversed."""
    if layout == "transposed":
        return drawn(rng, (*shape[:-2], shape[-1], shape[-2]), dtype, "C").swapaxes(-1, -2)
    if layout == "gaps":
        return drawn(rng, (*shape[:-1], shape[-1] + 3), dtype, "C")[..., : shape[-1]]
    if layout == "steps":
        return drawn(rng, (*shape[:-1], 2 * shape[-1]), dtype, "C")[..., ::2]
    if layout == "reversed":
        return drawn(rng, shape, dtype, "C")[..., ::-1, :]
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype in "FD" else x).astype(dtype)


LAYOUTS = "C", "C", "transposed", "transposed", "gaps", "steps", "reversed"
SIZES = 0, 1, 1, 2, 3, 7, 16, 33, 64, 130
LEADS = ((), ()), ((), ()), ((3,), (3,)), ((3,), ()), ((), (2, 3)), ((2, 1), (3,)), ((1, 4), (5, 1))


def operands(rng, sizes=SIZES):
    dtype, lead = rng.choice(list(DTYPES)), LEADS[rng.integers(len(LEADS))]
    m, k, n = (int(rng.choice(sizes)) for _ in range(3))
    if rng.random() < 0.1:  # the product with its own transpose
        x1 = drawn(rng, (m, k), dtype, rng.choice(LAYOUTS))
        return x1, x1.T
    return tuple(
        drawn(rng, (*a, *b), dtype, rng.choice(LAYOUTS))
        for a, b in zip(lead, ((m, k), (k, n)), strict=True)
    )


def same_bits(found, expected):
    return found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("seed", range(8))
def test_whole_products_have_the_bits_of_numpy(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        x1, x2 = operands(rng)
        expected = np.matmul(x1, x2)
        out = drawn(rng, expected.shape, expected.dtype.char, rng.choice(LAYOUTS))
        expected = np.matmul(x1, x2, out.copy("K"))
        multiplied(library.gg_matmul, x1, x2, out, 0)
        assert same_bits(out, expected), (x1.shape, x1.strides, x2.shape, x2.strides, out.strides)


def test_the_division_is_that_of_python():
    sizes = 1, 10, 17, 64, 100, 256, 784, 1000, 5000
    divided = 0
    for m, k, n, is_transposed in product(sizes, sizes, sizes, (False, True)):
        steps = 4 * k, 4, *((4, 4 * k) if is_transposed else (4 * n, 4)), 4 * n, 4
        for lead in ((), (2,), (40,), (3, 4)):
            axes = [i for length in lead or (1,) for i in (length, 0, 0, 0)]
            d = (ctypes.c_int64 * (11 + len(axes)))(0, len(lead), m, k, n, *steps, *axes)
            for count in (2, 3, 16, 1000):
                found = library.gg_pieces(ctypes.c_int64(count), d)
                division = threads._division((*lead, m, k), (k, n), count, steps[2] == 4)
                assert found == (0 if division is None else width_and_axis(division[2][0][2]))
                divided += bool(found)
    assert divided > 1000


def width_and_axis(key):
    if isinstance(key, slice):
        return 4 * key.stop
    return 4 * key[1].stop + (1 if len(key) == 3 else 2)


@pytest.mark.parametrize("are_small", [False, True])
def test_the_same_bits_with_and_without_the_library(are_small, number, request, monkeypatch):
    if are_small:
        request.getfixturevalue("small_pieces")
    sizes = SIZES if are_small else (1, 16, 40, 64, 130, 256, 300, 784)
    rng = np.random.default_rng(are_small)
    monkeypatch.setattr(threads, "_library", counting := Counting(library))
    for _ in range(400 if are_small else 100):
        x1, x2 = operands(rng, sizes)
        expected = threads.matmul(x1, x2)
        out = drawn(rng, expected.shape, expected.dtype.char, rng.choice(LAYOUTS))
        threads.matmul(x1, x2, out)
        with monkeypatch.context() as patch:
            patch.setattr(threads, "_library", None)
            patch.setattr(threads, "base", lambda: None)
            assert same_bits(threads.matmul(x1, x2), expected)
            assert same_bits(threads.matmul(x1, x2, out.copy("K")), out)
        again = np.empty_like(out)
        threads._blas.with_one_thread(multiplied, library.gg_matmul, x1, x2, again, number)
        assert same_bits(again, out)
    assert counting.calls > 50
    assert not counting.declined


class Counting:
    """The library, which counts the products that it is asked for, and those that it declines."""

    def __init__(self, library):
        self.library, self.calls, self.declined = library, 0, 0

    def gg_product(self, *args):
        self.calls += 1
        found = self.library.gg_product(*args)
        self.declined += found < 0
        return found


def test_what_is_left_to_numpy(number, small_pieces, monkeypatch):
    x1, x2 = np.ones((200, 60), "f"), np.ones((60, 90), "f")
    memory = np.empty(4 * x1.size + 1, np.uint8)
    shifted = memory[1:].view("f").reshape(x1.shape)
    shifted[...] = x1
    swapped = x1.astype(">f4")
    expected = np.full((200, 90), 60, "f")
    square = np.ones((200, 200), "f")
    monkeypatch.setattr(threads, "_library", counting := Counting(library))
    for other in (shifted, swapped, swapped.view("f").byteswap()):
        assert_array_equal(threads.matmul(other, x2), expected)
    assert_array_equal(threads.matmul(x1, x2, np.zeros((200, 90))), expected)
    locked = np.zeros((200, 90), "f")
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        threads.matmul(x1, x2, locked)
    with pytest.raises(ValueError, match="mismatch"):
        threads.matmul(x1, x2, np.zeros((200, 91), "f"))
    threads.matmul(square, square + 1, square)
    assert counting.calls == counting.declined + 1  # that of the copy in the machine's order


def test_floating_point_errors(number):
    x1, x2 = np.full((300, 300), 1e30, "f"), np.ones((300, 300), "f")
    x2[:, -1] = 1e30
    with pytest.warns(RuntimeWarning, match="overflow"):
        threads.matmul(x1, x2)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        threads.matmul(x1, x2)
    with np.errstate(over="ignore"):
        found = threads.matmul(x1, x2)
    assert np.isinf(found[:, -1]).all()
    assert np.isfinite(found[:, :-1]).all()


@pytest.mark.parametrize("run", [library and library.gg_run, library and library.gg_run_short])
def test_all_pieces_once(run, several):
    for pieces in (0, 1, 2, 3, 100, 1000):
        for pause in (0, 1e-3):  # in which the other threads fall asleep
            done = []
            time.sleep(pause)
            in_pieces(done.append, pieces, run)
            assert sorted(done) == [*range(pieces)]


@pytest.mark.skipif(len(threads.usable_processors()) < 2, reason="there is one processor")
@pytest.mark.parametrize("run", [library and library.gg_run, library and library.gg_run_short])
def test_several_threads_take_pieces(run):
    with helpers_on_other_processors(4):
        who = who_takes_pieces(4, run)
    assert threading.get_ident() in who
    assert 2 <= len(who) <= 4


@pytest.mark.skipif(len(threads.usable_processors()) < 2, reason="there is one processor")
def test_the_calling_thread_takes_the_first_pieces():
    took = {}

    def work(piece):
        took[piece] = threading.get_ident()
        time.sleep(1e-4)

    with helpers_on_other_processors(2):
        for _ in range(20):
            in_pieces(work, 50)
            mine = [piece for piece in range(50) if took[piece] == threading.get_ident()]
            assert mine == [*range(len(mine))]


@contextmanager
def helpers_on_other_processors(count):
    """``count`` threads in the pool, which cannot be in this one's way as long as they are apart.

    A helper takes no piece on the processor on which the calling thread began, and on a busy
    machine the system may leave it there for minutes.
    """
    library.gg_threads(1)
    before = numbers_of_threads()
    processors = threads.usable_processors()
    library.gg_threads(count)
    in_pieces(lambda piece: None, count)  # starts them
    try:
        if hasattr(os, "sched_setaffinity"):
            mine = min(processors)
            os.sched_setaffinity(0, {mine})
            for helper in numbers_of_threads() - before:
                with suppress(ProcessLookupError):  # another thread, which has ended
                    os.sched_setaffinity(helper, processors - {mine})
        yield
    finally:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, processors)
        library.gg_threads(1)
        library.gg_threads(threads._threads.number or 1)


def numbers_of_threads():
    """The system's numbers of the threads of this process, where it lists them."""
    tasks = "/proc/self/task"
    return {int(name) for name in os.listdir(tasks)} if os.path.exists(tasks) else set()


def test_nested_calls_are_left_to_their_thread(several):
    who = []

    def work(piece):
        me = threading.get_ident()
        in_pieces(lambda inner: who.append(threading.get_ident() == me), 5)

    in_pieces(work, 6)
    assert who == [True] * 30


def test_calls_in_several_threads(several, number):
    def call(i):
        done = []
        for _ in range(50):
            in_pieces(done.append, 20)
        return sorted(done) == sorted([*range(20)] * 50)

    x1, x2 = np.random.default_rng(0).normal(size=(2, 300, 300))
    expected = threads.matmul(x1, x2)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))
        for found in pool.map(lambda _: threads.matmul(x1, x2), range(200)):
            assert same_bits(found, expected)


def who_takes_pieces(count, run=library and library.gg_run):
    """The threads that take ``count`` pieces, which wait for a second thread to take one."""
    who, end = set(), time.monotonic() + 60

    def work(piece):
        who.add(threading.get_ident())
        wait = time.monotonic() + 0.01
        while len(who) < 2 and time.monotonic() < wait:
            time.sleep(1e-4)

    while len(who) < 2 and time.monotonic() < end:
        in_pieces(work, count, run)
    return who


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="nothing lists the threads")
@pytest.mark.parametrize("set_number", [gg.set_num_threads, library and library.gg_threads])
def test_threads_end_and_sleep(set_number, number):
    set_number(1)
    who = set()
    in_pieces(lambda piece: who.add(threading.get_ident()), 100)
    assert who == {threading.get_ident()}
    others = set(os.listdir("/proc/self/task"))  # one that ends may be listed for a moment
    for count in (4, 2, 7, 1, 3):
        set_number(count)
        in_pieces(lambda piece: None, 100)
        end = time.monotonic() + 10
        while len(set(os.listdir("/proc/self/task")) - others) != count - 1:
            assert time.monotonic() < end
            time.sleep(0.01)
    start = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - start < 0.05
    library.gg_threads(number)


class Interrupted(BaseException):
    pass


@pytest.fixture
def timer():
    """A function that has `Interrupted` raised in a millisecond."""

    def interrupt(*args):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 1e-3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


has_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer")


@has_timer
def test_ctrl_c_ends_a_long_product(number, timer, monkeypatch):
    class Interrupting(Counting):
        def gg_product(self, *args):
            if not self.calls:
                timer()
            return super().gg_product(*args)

    x = np.ones((2200, 2200), "f")
    monkeypatch.setattr(threads, "_library", counting := Interrupting(library))
    with pytest.raises(Interrupted):
        threads.matmul(x, x + 1)
    assert counting.calls == 1  # of several
    assert_array_equal(threads.matmul(x, x + 1), np.full_like(x, 4400))
    assert counting.calls > 3


PROGRAM = """
from gpugrad.backends.native import base
from gpugrad.backends.native.compiler import build
build(base._source(), "base").wait(120)
gg.set_num_threads(3)
y = (x @ (x + 1)).numpy()
assert threads._library is not None
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_after_a_fork():
    text = """
for _ in range(20):
    child = os.fork()
    if not child:
        same = [((x @ (x + 1)).numpy() == y).all() for _ in range(20)]
        os._exit(0 if all(same) else 1)
    x @ (x + 1)
    print(os.waitpid(child, 0)[1])
"""
    warnings = "ignore::DeprecationWarning"  # of Python 3.12, about threads and fork
    assert run_program(PROGRAM + text, PYTHONWARNINGS=warnings) == ["0"] * 20


def test_the_interpreter_ends_while_threads_multiply():
    text = """
def multiply():
    while True:
        x @ (x + 1)
threading.Thread(target=multiply, daemon=True).start()
import time
time.sleep(0.1)
"""
    for _ in range(3):
        assert run_program(PROGRAM + text) == []


@is_openblas
def test_a_limit_by_threadpoolctl(number, monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    x1, x2 = np.random.default_rng(0).normal(size=(2, 300, 300))
    if threads._blas.usual == 1:
        pytest.skip("OpenBLAS has one thread anyway")
    monkeypatch.setattr(threads, "_library", counting := Counting(library))
    with threadpoolctl.threadpool_limits(1):
        assert gg.get_num_threads() == 1
        assert same_bits(threads.matmul(x1, x2), np.matmul(x1, x2))
    assert not counting.calls
    threads.matmul(x1, x2)
    assert counting.calls == 1
