"""Threads for large products and for other work on the CPU, which sleep while they wait.

The threads of OpenBLAS, which NumPy calls, wait for each other in busy loops. On processors that
other programs use too, a product may then take many times as long as with one thread. So large
products are divided here into pieces, which OpenBLAS computes with one thread each. The calling
thread and a few others take one piece after the other, and nobody waits for a thread that has not
begun. The pieces are computed by NumPy's own loop, called by the threads of `native/pool.c`; and
without a compiler, or until it has compiled that, by threads of Python, where it is worth it.

How a product is divided depends on the shapes, on the number of threads and on which axis of the
second operand is contiguous only, so its bits do not depend on who computes which piece.
"""

import ctypes
import math
import os
from contextlib import suppress
from contextvars import copy_context
from functools import lru_cache, partial
from operator import index
from threading import Lock, RLock, Thread, get_ident
from typing import NamedTuple

import numpy as np

from ..native.base import arrivals, base, is_reported, limits, loop_of
from .noting import CannotNote, Noted

SMALL = 4096  # elements of the operands: OpenBLAS computes smaller products without threads
_WORTH = 12 << 20  # the fewest multiplications that are worth waking a thread of Python
# Rules for native/pool.c, too. Multiplications in a product that is divided, and about in a piece:
_LEAST, _PIECE = 1 << 20, 1 << 19
# Up to so many multiplications and, if the second operand is transposed, elements of the result,
# OpenBLAS does not rearrange the operands first on a processor with AVX-512. Then a product of a
# few rows takes 0.6 to 0.9 of the time, in up to so many pieces. Elsewhere _SMALL is 0.
_SMALL, _ELEMENTS, _MANY = 1_000_000, 1200, 16
_LARGE = 1 << 28  # multiplications in a product that is divided into twice as many pieces
_ROWS, _ALIGNED = 64, 16  # the fewest rows or columns in other pieces; all are a multiple of this
_DIVIDED = frozenset("fdFD")  # the dtypes of products that BLAS computes
_MOST = 1024  # threads; a mistyped number is not to take all that the system has
_VARIABLES = "OPENBLAS_NUM_THREADS GOTO_NUM_THREADS OMP_NUM_THREADS".split()
# Kernels of OpenBLAS that use these instructions, by the processors that they are named after.
_OF_AVX512 = ("skylakex", "cooperlake", "sapphirerapids")
_OF_AVX2 = ("haswell", "zen", *_OF_AVX512)


def set_num_threads(number: int) -> None:
    """Compute large products and similar work on the CPU with ``number`` threads of gpugrad.

    By default, there are as many as processors that the process may use. But where the program's
    user has set a number, by OPENBLAS_NUM_THREADS, OMP_NUM_THREADS or threadpoolctl, and where
    NumPy calls a library other than OpenBLAS, products are left to NumPy and to the threads of that
    library. `set_num_threads` overrides the variables, but not a limit by threadpoolctl while it
    lasts; products are divided for OpenBLAS only. With 1, OpenBLAS too computes with one thread
    from then on, also where the program calls NumPy itself: even waiting, its threads take time.
    Processes that `gpugrad.distributed.init` joins divide the processors of a machine.

    The rounding of large products may depend on the number, but not on chance. Threads of the
    program itself may call gpugrad, too; then only one of them at a time has the help of others.
    Where the system allows no more threads, there are fewer than ``number``.

    Raises TypeError if ``number`` is not an integer, and ValueError if it is not from 1 to 1024.
    """
    try:
        count = index(number)
    except TypeError:
        raise TypeError(f"set_num_threads: the number must be an int, not {number!r}") from None
    if not 1 <= count <= _MOST:
        raise ValueError(f"set_num_threads: the number must be from 1 to {_MOST}, not {count}")
    _threads.resize(count)
    _blas.be_alone(count == 1)


def share_processors(number):
    """Leave to this process its part of processors that ``number`` processes may use.

    A number of threads that the program or its user has set stays.
    """
    default = _default()
    if number > 1 and default is not None and _threads.number == default:
        set_num_threads(max(1, default // number))


def usable_processors():
    """The numbers of the processors that the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return {*range(os.cpu_count() or 1)}


def get_num_threads() -> int:
    """The number of threads that compute large products on the CPU; see `set_num_threads`."""
    return _blas.get() if _is_left_to_blas() else _threads.number


def has_several():
    """Whether `run` has several threads."""
    return _threads.number != 1 and not _is_left_to_blas()


def description(x1, x2, out):
    """The numbers that describe a product to `gg_matmul`, see native/pool.c."""
    steps = [step for x in (x1, x2, out) for step in x.strides[-2:]]
    numbers = ["fdFD".index(out.dtype.char), out.ndim - 2, *x1.shape[-2:], x2.shape[-1], *steps]
    for i, length in enumerate(out.shape[:-2]):
        axes = [(x, i - out.ndim + x.ndim) for x in (x1, x2, out)]
        numbers += [length, *[0 if k < 0 or x.shape[k] == 1 else x.strides[k] for x, k in axes]]
    return numbers if out.ndim > 2 else [*numbers, 1, 0, 0, 0]


def product_of(x1, x2):
    """The function that multiplies arrays of these sizes: `matmul`, or NumPy's for small ones."""
    return matmul if x1.size > SMALL or x2.size > SMALL else np.matmul


def matmul(x1, x2, out=None):
    """`numpy.matmul` by several threads, or by one if the product is too small to be divided."""
    if type(x1) is Noted or type(x2) is Noted:
        if type(out) is not Noted:
            raise CannotNote
        out.note(matmul, x1, x2, out)
        return out
    number = _threads.number
    if number is None or x1.dtype.char not in _DIVIDED:
        return _product(x1, x2, out)
    if x2.dtype is not x1.dtype and x2.dtype != x1.dtype:  # arrays may have dtypes of their own
        return _product(x1, x2, out)
    if _blas.is_limited():
        return _product(x1, x2, out)
    division = None
    if number > 1 and _blas.is_known and x1.ndim > 1 < x2.ndim:
        division = _division(x1.shape, x2.shape, number, x2.strides[-2] == x2.itemsize)
    if division is None or _have_same_memory(x1, x2):  # NumPy makes x @ x.T symmetric
        return _blas.with_one_thread(_product, x1, x2, out)
    if out is None:
        out = np.empty(division.shape, x1.dtype)
    _blas.with_one_thread(_multiply, x1, x2, out, number, division)
    return out


def _multiply(x1, x2, out, number, division):
    """Fill ``out`` with a product, in pieces."""
    if _library is None:
        base()  # which calls `use`, if it is there
    if _library is not None:
        arrays = number, id(x1), id(x2), id(out)
        errors = piece = 0
        while piece >= 0:  # Ctrl-C may end it between parts of a product that takes long
            found = _library.gg_product(*arrays, piece)
            errors |= found & 15
            piece = (found >> 4) or -1
        if found >= 0 and not (errors and is_reported(errors)):
            return

    def multiply(keys):
        key1, key2, key = keys
        _product(x1[key1], x2[key2], out[key])

    if division.work < _WORTH:
        for keys in division.pieces:
            multiply(keys)
    else:
        _threads.run(multiply, division.pieces)


def _product(x1, x2, out):
    """`numpy.matmul`, with the operands in the order that OpenBLAS computes faster.

    A layer multiplies a few rows by the transpose of its weight. With AVX-512, OpenBLAS rearranges
    a large second operand of this kind so slowly that a product in float32 takes up to twice as
    long as ``(x2.T @ x1.T).T``. Elsewhere they take about the same time.
    """
    if (
        x1.dtype.char == "f"
        and x1.ndim == 2 == x2.ndim
        and 8 <= x1.shape[0] <= 64
        and x2.shape[0] == x1.shape[1] >= 256
        and x2.shape[1] >= 2 * x1.shape[0]
        and x2.shape[1] * x1.shape[0] > _ELEMENTS
        and x2.flags.f_contiguous
        and x2.dtype == x1.dtype
    ):
        transposed = np.matmul(x2.T, x1.T)
        if out is None:
            return transposed.T.copy()
        out[...] = transposed.T
        return out
    return np.matmul(x1, x2, out)


def run_kernel(function, *args):
    """Call a kernel with the number of threads that compute its products as its last argument."""
    if _is_left_to_blas():
        return function(*args, ctypes.c_int64(1))
    return _blas.with_one_thread(function, *args, ctypes.c_int64(_threads.number))


def run(function, items):
    """Return ``[function(item) for item in items]``, computed by several threads.

    The calls must be independent of each other, and mostly consist of functions of NumPy, which
    let other threads work. They may come in any order, and after an error some are left out.

    items: a sequence.
    """
    if _is_left_to_blas():
        return [function(item) for item in items]
    return _blas.with_one_thread(_threads.run, function, items)


def _is_left_to_blas():
    """Whether the program or its user has decided with how many threads BLAS computes."""
    return _threads.number is None or _blas.is_limited()


class _Division(NamedTuple):
    """How a product is divided: its shape, multiplications, and the operands' and its own parts."""

    shape: tuple
    work: int
    pieces: list


@lru_cache(1024)
def _division(shape1, shape2, number, is_transposed):
    """The `_Division` of a product of matrices; None if it is not divided.

    is_transposed: whether the columns of the second operand are contiguous.
    """
    *lead, rows, inner = shape1
    columns = shape2[-1]
    try:
        lead = np.broadcast_shapes(lead, shape2[:-2])
    except ValueError:
        return None
    result = math.prod(lead) * rows * columns
    work = result * inner
    if inner != shape2[-2] or work < _LEAST:
        return None
    by_matrix = lead and lead[0] >= number
    length, least, step = (lead[0], 1, 1) if by_matrix else (max(rows, columns), _ROWS, _ALIGNED)
    count = min(number * (2 if work < _LARGE else 4), work // _PIECE, length // least)
    if not by_matrix:
        elements = _SMALL // inner
        if is_transposed and inner > 1 < columns:
            elements = min(elements, _ELEMENTS)
        width = elements // (result // length) // step * step
        if length <= width * max(_MANY, 4 * number):
            count = -(-length // width)
    if count < 2:
        return None
    width = -(-length // (count * step)) * step
    parts = [slice(i, i + width) for i in range(0, length, width)]
    if by_matrix:
        is_whole = [len(s) < len(lead) + 2 or s[0] == 1 for s in (shape1, shape2)]
        pieces = [(*[... if whole else p for whole in is_whole], p) for p in parts]
    elif rows >= columns:
        pieces = [((..., p, slice(None)), ..., (..., p, slice(None))) for p in parts]
    else:
        pieces = [(..., (..., p), (..., p)) for p in parts]
    return _Division((*lead, rows, columns), work, pieces)


def _have_same_memory(x1, x2):
    if not np.may_share_memory(x1, x2):
        return False
    return x1.__array_interface__["data"] == x2.__array_interface__["data"]


def use(library):
    """Have products computed by the threads of `native/pool.c`, which is in the library."""
    global _library
    if not hasattr(library, "gg_product"):
        return  # there are none on Windows
    number, place = ctypes.c_int64, ctypes.c_void_p
    library.gg_start.argtypes = [number, place, place, place]
    library.gg_start.restype = library.gg_threads.restype = library.gg_after_fork.restype = None
    library.gg_threads.argtypes = [number]
    library.gg_product.argtypes = [number, place, place, place, number]
    library.gg_product.restype = number
    dtypes = [np.dtype(char) for char in "fdFD"]
    library.gg_start(
        object.__basicsize__,
        (place * 4)(*map(id, dtypes)),
        (place * 4)(*[loop_of(np.matmul, dtype.char)[0] for dtype in dtypes]),
        (number * 6)(_LEAST, _PIECE, _SMALL, _ELEMENTS, _MANY, _LARGE),
    )
    library.gg_threads(_threads.number or 1)
    _library = library


class _BLAS:
    """The OpenBLAS that NumPy has loaded.

    is_known: False if NumPy has another library, or an OpenBLAS that has threads of OpenMP.
    get, set: its functions for its number of threads; without effect if it is not known.
    kernels: the kind of processors whose kernels it uses.
    first, usual: its number of threads outside of this module's functions, at first and now.
    inside: the identifiers of threads that compute something with one thread of it.
    lock: held while ``inside`` and the number are changed.
    """

    def __init__(self):
        functions = _functions_of_openblas()
        self.is_known = functions is not None
        self.get, self.set, self.kernels = functions or (lambda: 1, lambda number: None, "")
        self.first = self.usual = self.get()
        self.inside = set()
        self.lock = RLock()  # a signal handler may use it too

    def is_limited(self):
        """Whether the program has changed the number, for example by threadpoolctl."""
        if self.inside or self.get() == self.usual:
            return False
        with self.lock:  # another thread may have changed the number since
            return not self.inside and self.get() != self.usual

    def be_alone(self, is_alone):
        """Have it compute with one thread everywhere, or outside of here with as many as first."""
        with self.lock:
            if not self.is_limited():
                self.usual = 1 if is_alone else self.first
                if not self.inside:
                    self.set(self.usual)

    def with_one_thread(self, function, *args):
        """Return ``function(*args)``, during which OpenBLAS computes with one thread."""
        if get_ident() in self.inside:
            return function(*args)
        try:
            try:
                with self.lock:
                    self.inside.add(get_ident())
                    self.set(1)
                return function(*args)
            finally:
                self._leave()
        except BaseException:
            self._leave()  # for Ctrl-C in the line above
            raise

    def _leave(self):
        with self.lock:
            if self.inside <= {get_ident()}:  # first: `is_limited` looks without the lock
                self.set(self.usual)
            self.inside.discard(get_ident())

    def after_fork(self):
        self.lock = RLock()
        if self.inside:
            self.inside = set()
            self.set(self.usual)


def describe_kernels(kernels=None, features=None):
    """Which kernels OpenBLAS uses, and the variable for better ones if the processor has them."""
    kernels = _blas.kernels if kernels is None else kernels
    if features is None:
        features = getattr(np._core._multiarray_umath, "__cpu_features__", {})
    for instructions, better, feature, enough in (
        ("AVX-512", "SkylakeX", "AVX512_SKX", _OF_AVX512),
        ("AVX2", "Haswell", "AVX2", _OF_AVX2),
    ):
        if kernels and features.get(feature) and kernels.lower() not in enough:
            return f"{kernels}; this processor has {instructions}: try OPENBLAS_CORETYPE={better}"
    return kernels or "are not known"


def _functions_of_openblas():
    for path in _files_with_openblas():
        for name in ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}"):
            try:
                library = ctypes.PyDLL(path)  # does not let other threads of Python in
                get, set_, kind, kernels = [
                    library[name.format(verb)]
                    for verb in "get_num_threads set_num_threads get_parallel get_corename".split()
                ]
            except (OSError, AttributeError):
                continue
            set_.restype, kernels.restype = None, ctypes.c_char_p
            return (get, set_, kernels().decode()) if kind() == 1 else None  # 2 for OpenMP
    return None


def _files_with_openblas():
    if hasattr(np, "_core"):
        yield np._core._multiarray_umath.__file__
    # Symbols are looked up in what NumPy's own module is linked with, but not on Windows.
    from glob import glob

    yield from glob(f"{os.path.dirname(np.__file__)}.libs/*openblas*")


class _Threads:
    """A number of threads, of which all but the calling one sleep until there are calls.

    number: None if all work is left to the calling thread and to BLAS.
    busy: held by the thread that the others help.
    calls: what the others do next, as functions; None while there are no others.
    """

    def __init__(self, number):
        self.number = number
        self.after_fork()

    def after_fork(self):  # the child has only the thread that called fork
        self.busy, self.calls = Lock(), None

    def resize(self, number):
        with self.busy:
            if self.calls is not None:
                for _ in range(self.number - 1):
                    self.calls.put(None)
            self.calls, self.number = None, number
            if _library is not None:
                _library.gg_threads(number or 1)

    def run(self, function, items):
        """The calling thread hands out all calls, and then makes those that nobody has begun."""
        is_alone = self.number == 1 or self.busy.locked()  # by this call, if nested
        if is_alone or len(items) < 2:
            return [function(item) for item in items]
        futures: list = []
        with self.busy:
            try:
                try:
                    for item in items:
                        self._begin(futures, function, item)
                    numbers = range(len(items))
                    # With an ``if`` behind ``for``, Python 3.14 has a jump there at which Ctrl-C
                    # would not leave the ``with`` block, and keep it locked.
                    own = [
                        function(items[i]) if futures[i].cancel() else None for i in numbers[::-1]
                    ]
                    return [
                        own[~i] if futures[i].cancelled() else futures[i].result() for i in numbers
                    ]
                finally:
                    _end(futures)
            except BaseException:
                _end(futures)  # for Ctrl-C in the line above
                raise

    def _begin(self, futures, function, item):
        from concurrent.futures import Future  # here, since they take time to import
        from queue import SimpleQueue

        if self.calls is None and self.number > 1:
            calls: SimpleQueue = SimpleQueue()
            try:
                for i in range(self.number - 1):
                    Thread(target=_serve, args=(calls,), name=f"gpugrad {i}", daemon=True).start()
                    self.calls = calls  # now that somebody takes calls off it
            except RuntimeError:  # the system allows no more threads
                if self.calls is None:
                    self.number = 1
        future: Future = Future()
        futures.append(future)  # first, so that Ctrl-C leaves none that `_end` does not know
        if self.calls is not None:
            self.calls.put(partial(copy_context().run, _call, future, function, item))


def _serve(calls):
    while (call := calls.get()) is not None:
        call()
        call = None  # so that what it refers to can be freed


def _call(future, function, item):
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(function(item))
        except BaseException as error:  # noqa: BLE001, raised in the thread that waits
            future.set_exception(error)
            del future  # which the error refers to


def _end(futures):
    """Wait until no call is under way; empty the list, to which errors of the calls refer."""
    while futures:
        if not futures[-1].cancel():
            futures[-1].exception()
        futures.pop()


def _processors():
    """How many processors the process can keep busy, by its affinity and by its control group."""
    number = len(usable_processors())
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/cpu.max") as file:
        quota, period = map(int, file.read().split())  # or "max", which is a ValueError
        number = min(number, max(1, math.ceil(quota / period)))
    return number


def _default():
    if _blas.first == 1 or any(os.environ.get(name) for name in _VARIABLES):
        return None
    return min(_blas.first, _processors())


def _after_fork():
    _blas.after_fork()
    _threads.after_fork()
    if _library is not None:
        _library.gg_after_fork()


_blas = _BLAS()
if _blas.kernels.lower() not in _OF_AVX512:
    _SMALL = 0
_threads = _Threads(_default())
_library: ctypes.CDLL | None = None  # see `use`
arrivals.append(use)
limits.append(has_several)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
