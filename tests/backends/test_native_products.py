"""Products by the threads of `native/pool.c`: NumPy's bits, and nobody who waits for nothing."""

import ctypes
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import product

import numpy as np
import pytest
from native import Interrupted, check_errors, run, watch
from numpy.testing import assert_array_equal
from test_threads_of_numpy import PROGRAM, SIZES, laid_out, operands

import gpugrad as gg
from gpugrad.backends.native import base
from gpugrad.backends.numpy import threads

library = base.wait() if sys.platform != "win32" else None
pytestmark = pytest.mark.skipif(library is None, reason="there is no C compiler")
WORK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
RUNS = [library and library.gg_run, library and library.gg_run_short]
IS_ALONE = len(threads.usable_processors()) < 2
has_processors = pytest.mark.skipif(IS_ALONE, reason="there is one processor")


@pytest.fixture
def several():
    """Four threads in the pool."""
    library.gg_threads(4)
    yield
    library.gg_threads(threads._threads.number or 1)


def in_pieces(work, pieces, run_pieces=library and library.gg_run):
    """Call ``work`` with the number of each piece, by the pool."""
    errors = []

    def call(context, piece):
        try:
            work(piece)
        except BaseException as error:  # noqa: BLE001, which C cannot pass on
            errors.append(error)

    run_pieces(WORK(call), None, ctypes.c_int64(pieces))
    assert not errors


def multiplied(x1, x2, out, number):
    """Have the library multiply, with several threads or, if ``number`` is 0, as NumPy does."""
    numbers = threads.description(x1, x2, out)
    numbers = (ctypes.c_int64 * len(numbers))(*numbers)
    places = [ctypes.c_void_p(x.ctypes.data) for x in (x1, x2, out)]
    library.gg_matmul(ctypes.c_int64(number), numbers, *places)


def same_bits(found, expected):
    return found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("seed", range(8))
def test_whole_products_have_the_bits_of_numpy(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        x1, x2 = operands(rng)
        expected = np.matmul(x1, x2)
        out = laid_out(rng, expected.shape, expected.dtype.char)
        expected = np.matmul(x1, x2, out.copy("K"))
        multiplied(x1, x2, out, 0)
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
                part = slice(0, found // 4)
                keys = part, (..., part, slice(None)), (..., part)
                assert (division and division[2][0][2]) == (keys[found % 4] if found else None)
                divided += bool(found)
    assert divided > 1000


@pytest.fixture
def asked(monkeypatch):
    """The calls of the library for large products; the result is negative if it declines."""
    return watch(monkeypatch, library, "gg_product")


LARGE_SIZES = 1, 16, 40, 64, 130, 256, 300


@pytest.mark.parametrize("are_small", [False, True])
def test_the_same_bits_with_and_without_the_library(are_small, number, asked, request, monkeypatch):
    if are_small:
        request.getfixturevalue("small_pieces")
    rng, sizes = np.random.default_rng(are_small), SIZES if are_small else LARGE_SIZES
    for _ in range(400 if are_small else 100):
        x1, x2 = operands(rng, sizes)
        expected = threads.matmul(x1, x2)
        out = laid_out(rng, expected.shape, expected.dtype.char)
        threads.matmul(x1, x2, out)
        with monkeypatch.context() as patch:
            patch.setattr(threads, "_library", None)
            patch.setattr(threads, "base", lambda: None)
            assert same_bits(threads.matmul(x1, x2), expected)
            assert same_bits(threads.matmul(x1, x2, out.copy("K")), out)
        again = np.empty_like(out)
        threads._blas.with_one_thread(multiplied, x1, x2, again, number)
        assert same_bits(again, out)
    assert len(asked) > 50
    assert all(found >= 0 for found, _ in asked)


def test_what_is_left_to_numpy(number, small_pieces, asked):
    x1, x2 = np.ones((200, 60), "f"), np.ones((60, 90), "f")
    shifted = np.empty(4 * x1.size + 1, np.uint8)[1:].view("f").reshape(x1.shape)
    shifted[...] = x1
    swapped, expected = x1.astype(">f4"), np.full((200, 90), 60, "f")
    for other in (shifted, swapped, swapped.view("f").byteswap()):
        assert_array_equal(threads.matmul(other, x2), expected)
    assert_array_equal(threads.matmul(x1, x2, np.zeros((200, 90))), expected)
    expected.flags.writeable = False
    for message, out in {"read-only": expected, "mismatch": np.zeros((200, 91), "f")}.items():
        with pytest.raises(ValueError, match=message):
            threads.matmul(x1, x2, out)
    square = np.ones((200, 200), "f")
    threads.matmul(square, square + 1, square)
    # All are declined but that of the copy in the machine's order.
    assert [found >= 0 for found, _ in asked].count(True) == 1 < len(asked)


def test_errors_are_reported_as_by_numpy(number):
    x1, x2 = np.full((300, 300), 1e30, "f"), np.ones((300, 300), "f")
    x2[:, -1] = 1e30
    assert_array_equal(np.isinf(check_errors(lambda: threads.matmul(x1, x2), "overflow")), x2 > 1)


@pytest.mark.parametrize("run_pieces", RUNS)
def test_all_pieces_once(run_pieces, several):
    for pieces, pause in product((0, 1, 2, 3, 100, 1000), (0, 1e-3)):
        done = []
        time.sleep(pause)  # the other threads fall asleep in 1e-3 seconds
        in_pieces(done.append, pieces, run_pieces)
        assert sorted(done) == [*range(pieces)]


@has_processors
@pytest.mark.parametrize("run_pieces", RUNS)
def test_several_threads_take_pieces(run_pieces):
    """The pieces wait for a second thread to take one."""
    who, end = set(), time.monotonic() + 60

    def work(piece):
        who.add(threading.get_ident())
        wait = time.monotonic() + 0.01
        while len(who) < 2 and time.monotonic() < wait:
            time.sleep(1e-4)

    with helpers_on_other_processors(4):
        while len(who) < 2 and time.monotonic() < end:
            in_pieces(work, 4, run_pieces)
    assert threading.get_ident() in who
    assert 2 <= len(who) <= 4


@has_processors
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

    A helper takes no piece on the processor on which the calling thread began. Yields the helpers'
    numbers in the system.
    """
    library.gg_threads(1)
    before, processors = numbers_of_threads(), threads.usable_processors()
    mine = {min(processors)}
    library.gg_threads(count)
    in_pieces(lambda piece: None, count)  # starts them
    helpers = numbers_of_threads() - before
    try:
        place([0], mine)
        place(helpers, processors - mine)
        yield helpers
    finally:
        place([0], processors)
        library.gg_threads(1)
        library.gg_threads(threads._threads.number or 1)


@has_processors
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be moved")
def test_a_helper_moves_from_the_processor_of_the_caller():
    who, usable, end = set(), threads.usable_processors(), time.monotonic() + 60

    def work(piece):
        who.add(threading.get_ident())
        time.sleep(0.002 if len(who) < 2 else 0)

    with helpers_on_other_processors(2) as helpers:
        place(helpers, threads.usable_processors())  # the caller's
        place(helpers, usable)
        while len(who) < 2 and time.monotonic() < end:  # the system may put it back
            in_pieces(work, 500)
        assert len(who) == 2
        helpers &= numbers_of_threads()
        assert all(os.sched_getaffinity(helper) == usable for helper in helpers)


def place(numbers, processors):
    """Let the threads of these numbers use these processors, if the system lets threads choose."""
    for number in numbers if hasattr(os, "sched_setaffinity") else ():
        with suppress(ProcessLookupError):  # another thread, which has ended
            os.sched_setaffinity(number, processors)


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


def test_calls_in_several_threads(several):
    def call(i):
        done = []
        for _ in range(50):
            in_pieces(done.append, 20)
        return sorted(done) == sorted([*range(20)] * 50)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(8)))


@pytest.mark.skipif(not numbers_of_threads(), reason="nothing lists the threads")
@pytest.mark.parametrize("set_number", [gg.set_num_threads, library and library.gg_threads])
def test_threads_end_and_sleep(set_number, number):
    set_number(1)
    who = set()
    in_pieces(lambda piece: who.add(threading.get_ident()), 100)
    assert who == {threading.get_ident()}
    others = numbers_of_threads()  # one that ends may be listed for a moment
    for count in (4, 2, 7, 1, 3):
        set_number(count)
        in_pieces(lambda piece: None, 100)
        end = time.monotonic() + 10
        while len(numbers_of_threads() - others) != count - 1:
            assert time.monotonic() < end
            time.sleep(0.01)
    start = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - start < 0.05
    library.gg_threads(number)


def test_ctrl_c_ends_a_long_product(number, timer, monkeypatch):
    x, calls = np.ones((2200, 2200), "f"), watch(monkeypatch, library, "gg_product", timer)
    with pytest.raises(Interrupted):
        threads.matmul(x, x + 1)
    assert len(calls) == 1  # of several
    assert_array_equal(threads.matmul(x, x + 1), np.full_like(x, 4400))
    assert len(calls) > 3


def test_the_interpreter_ends_while_threads_multiply():
    text = """
base.wait()
gg.set_num_threads(3)
assert threads._library is not None
def multiply():
    while True:
        x @ (x + 1)
threading.Thread(target=multiply, daemon=True).start()
threading.Event().wait(0.1)
"""
    for _ in range(3):
        assert run(PROGRAM + text) == ""
