"""Threads for large products and for other work on the CPU, which sleep while they wait.

The threads of OpenBLAS, which NumPy calls, wait for each other in busy loops. On processors that
other programs use too, a product may then take many times as long as with one thread. So `matmul`
divides large products into pieces, which OpenBLAS computes with one thread each. The calling
thread and a few others take one piece after the other, and nobody waits for a thread that has not
begun. Where `native/pool.c` is compiled, its threads call NumPy's own loop for each piece. Without
a compiler, or until it is done, threads of Python compute the pieces, if that is worth waking them.

A product is divided by its shapes, the number of threads, and which axis of the second operand is
contiguous, and by nothing else. So its bits do not depend on which thread computes which piece.
"""

import ctypes
import math
import os
from contextlib import suppress
from contextvars import Context, copy_context
from functools import lru_cache, partial
from operator import index
from threading import Lock, RLock, get_ident

import numpy as np

from ..native.base import arrivals, base, is_reported, limits, loop_of, notice
from .noting import CannotNote, Noted

SMALL = 4096  # elements of the operands: OpenBLAS computes smaller products without threads
_WORTH = 12 << 20  # the fewest multiplications that are worth waking a thread of Python
# The following rules hold for native/pool.c, too.
_LEAST = 1 << 20  # the fewest multiplications in a product that is divided
_PIECE = 1 << 19  # about the fewest in a piece
# On a processor with AVX-512, OpenBLAS does not rearrange the operands of a product with at most
# _SMALL multiplications and, if the second operand is transposed, _ELEMENTS elements. A product of
# a few rows takes 0.6 to 0.9 of the time in up to _MANY such pieces. Elsewhere _SMALL is 0.
_SMALL, _ELEMENTS, _MANY = 1_000_000, 1200, 16
_VECTOR = 4  # 2 ** _VECTOR times fewer multiplications take as long if one operand is a vector
_LONG = 1 << 32  # multiplications after which a call of a kernel returns
# Several pieces for each thread are a help where another program has one of the processors. But for
# each, OpenBLAS rearranges an operand anew, a twentieth of the time of 2 ** 27 multiplications.
_LARGE, _HUGE = 1 << 28, 1 << 32  # multiplications from which on each thread has 2 pieces, and 4
_ROWS, _ALIGNED = 64, 16  # other pieces have at least _ROWS rows or columns, a multiple of _ALIGNED
_PART = 1 << 15  # elements of which a thread computes a slow function at a time
_DIVIDED = frozenset("fdFD")  # the dtypes of products that BLAS computes
_MOST = 1024  # threads, so that a mistyped number does not take all that the system has
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
    """Use only this process's part of the processors, which ``number`` processes share.

    Does nothing if the program or its user has set a number of threads.
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
    """The numbers that describe a product to `gg_matmul`; see native/pool.c."""
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
    if x1.dtype.char not in _DIVIDED or x1.dtype != x2.dtype or _is_left_to_blas():
        return _product(x1, x2, out)
    number, division = _threads.number, None
    if number > 1 and _blas.is_known and x1.ndim > 1 < x2.ndim:
        division = _division(x1.shape, x2.shape, number, x2.strides[-2] == x2.itemsize)
    if division is None or _have_same_memory(x1, x2):  # NumPy makes x @ x.T symmetric
        return _blas.with_one_thread(_product, x1, x2, out)
    if out is None:
        out = np.empty(division[0], x1.dtype)
    _blas.with_one_thread(_multiply, x1, x2, out, number, division)
    return out


def _multiply(x1, x2, out, number, division):
    """Fill ``out`` with a product, piece by piece."""
    notice(out)
    if _library is None:
        base()  # which calls `use`, if it is there
    if _library is not None:
        arrays = number, id(x1), id(x2), id(out)
        errors = piece = 0
        while piece >= 0:  # a long product has several parts, between which Ctrl-C can end it
            found = _library.gg_product(*arrays, piece)
            errors |= found & 15
            piece = (found >> 4) or -1
        if found >= 0 and not (errors and is_reported(errors)):
            return

    def multiply(keys):
        key1, key2, key = keys
        _product(x1[key1], x2[key2], out[key])

    _, work, pieces = division
    if work < _WORTH:
        for keys in pieces:
            multiply(keys)
    else:
        _threads.run(multiply, pieces)


def _product(x1, x2, out):
    """`numpy.matmul`, with the operands in the order that OpenBLAS computes faster.

    A layer multiplies a few rows by the transpose of its weight. With AVX-512, OpenBLAS rearranges
    a large second operand of this kind so slowly that a product in float32 takes up to twice as
    long as ``(x2.T @ x1.T).T``. Elsewhere they take about the same time.
    """
    if x1.dtype.char == "f" and x1.ndim == 2 == x2.ndim and 8 <= len(x1) <= 64:
        (rows, inner), columns = x1.shape, x2.shape[1]
        is_wide = columns >= 2 * rows and columns * rows > _ELEMENTS
        if is_wide and len(x2) == inner >= 256 and x2.flags.f_contiguous and x2.dtype == x1.dtype:
            transposed = np.matmul(x2.T, x1.T)
            if out is None:
                return transposed.T.copy()
            out[...] = transposed.T
            return out
    return np.matmul(x1, x2, out)


def undivided(x1, x2):
    """A product by one thread, with the bits of `multiplied` in native/products.h."""
    if x1.shape[-1] == 1:
        return x1 * x2
    if x1.shape[-2] == x2.shape[-1] == 1:
        terms = np.multiply(x1, np.swapaxes(x2, -1, -2), order="C")
        return np.add.reduce(terms, -1, keepdims=True)
    return np.matmul(x1, x2)


def run_kernel(function, *args):
    """Call a kernel, whose last argument is the number of threads that compute its products."""
    if _is_left_to_blas():
        return function(*args, ctypes.c_int64(1))
    return _blas.with_one_thread(function, *args, ctypes.c_int64(_threads.number))


def run_pieces(function, *args, pieces, work):
    """Call a kernel for some pieces at a time; returns False if NumPy would report an error.

    Between the calls, Ctrl-C can end long work. work: the multiplications in all pieces.
    """
    few, errors = max(_LONG * pieces // work, _threads.number or 1), 0
    for first in range(0, pieces, few):
        part = ctypes.c_int64(first), ctypes.c_int64(min(few, pieces - first))
        errors |= run_kernel(function, *args, *part)
    return not (errors and is_reported(errors))


def run(function, items):
    """Return ``[function(item) for item in items]``, computed by several threads.

    The calls must be independent of each other, and spend most of their time in functions of NumPy,
    during which other threads can work. They come in any order, and after an error some do not.

    items: a sequence.
    """
    if _is_left_to_blas():
        return [function(item) for item in items]
    return _blas.with_one_thread(_threads.run, function, items)


def divided(function):
    """A function that takes long for each element, with large arrays divided among threads."""

    def call(*args):
        arrays = [x for x in args if isinstance(x, np.ndarray) and x.ndim]
        if not arrays or arrays[0].size < 2 * _PART:
            return function(*args)
        shape = arrays[0].shape
        if any(x.shape != shape or not x.flags.c_contiguous for x in arrays):
            return function(*args)

        def of_part(part):
            return function(*[x.reshape(-1)[part] if np.ndim(x) else x for x in args])

        out = np.empty(shape, of_part(slice(0)).dtype)

        def compute(start):
            part = slice(start, start + _PART)
            out.reshape(-1)[part] = of_part(part)

        run(compute, range(0, out.size, _PART))
        return out

    return call


def _is_left_to_blas():
    """Whether the program or its user has decided with how many threads BLAS computes."""
    return _threads.number is None or _blas.is_limited()


@lru_cache(1024)
def _division(shape1, shape2, number, is_transposed):
    """How a product of matrices is divided; None if it is not.

    Returns its shape, the number of multiplications, and for each piece the keys of the operands'
    parts and of the product's.

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
    shift = _VECTOR if min(rows, columns) == 1 else 0
    if inner != shape2[-2] or work < _LEAST >> shift:
        return None
    is_transposed = is_transposed and inner > 1 < columns
    by_matrix = lead and lead[0] >= number
    # OpenBLAS rearranges a transposed operand slowly, so each piece better has a part of it.
    by_rows = rows >= columns * (3 if is_transposed and columns >= 2 * number * _ROWS else 1)
    length = rows if by_rows else columns
    length, least, step = (lead[0], 1, 1) if by_matrix else (length, _ROWS, _ALIGNED)
    each = 1 if work < _LARGE and not (by_matrix or shift) else 2 if work < _HUGE else 4
    count = min(number * each, work // (_PIECE >> shift), length // least)
    if not by_matrix and not shift:
        elements = _SMALL // inner
        if is_transposed:
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
    elif by_rows:
        pieces = [((..., p, slice(None)), ..., (..., p, slice(None))) for p in parts]
    else:
        pieces = [(..., (..., p), (..., p)) for p in parts]
    return (*lead, rows, columns), work, pieces


def _have_same_memory(x1, x2):
    if not np.may_share_memory(x1, x2):
        return False
    return x1.__array_interface__["data"] == x2.__array_interface__["data"]


def use(library):
    """Have the threads of `native/pool.c`, which is in the library, compute products."""
    global _library
    if not hasattr(library, "gg_product"):
        return  # on Windows, it has no threads
    number, place = ctypes.c_int64, ctypes.c_void_p
    library.gg_start.argtypes = [number, place, place, place]
    library.gg_start.restype = library.gg_threads.restype = library.gg_after_fork.restype = None
    library.gg_threads.argtypes = [number]
    library.gg_product.argtypes = [number, place, place, place, number]
    library.gg_product.restype = library.gg_map.restype = number
    library.gg_map.argtypes = [place, place, number, place, number, number, place, place]
    library.gg_join.argtypes = [place, number, place, number, number]
    library.gg_transpose.argtypes = [place, place, *[number] * 5]
    library.gg_join.restype = library.gg_transpose.restype = None
    dtypes = [np.dtype(char) for char in "fdFD"]
    loops = [loop_of(np.matmul, dtype.char)[0] for dtype in dtypes]
    rules = (number * 7)(_LEAST, _PIECE, _SMALL, _ELEMENTS, _MANY, _LARGE, _HUGE)
    arrays = (place * 4)(*map(id, dtypes)), (place * 4)(*loops), rules
    library.gg_start(object.__basicsize__, *arrays)
    library.gg_threads(_threads.number or 1)
    _library = library


class _BLAS:
    """The OpenBLAS that NumPy has loaded.

    is_known: False if NumPy has another library, or an OpenBLAS with threads of OpenMP.
    get, set: its functions for its number of threads; they have no effect if it is not known.
    kernels: the kind of processors whose kernels it uses.
    first, usual: its number of threads outside of `with_one_thread`, at first and now.
    inside: the identifiers of the threads that are in `with_one_thread`.
    lock: held while ``inside`` and the number change.
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
        """Have it always compute with one thread, or with as many as at first where it may."""
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
            with self.lock:
                self.inside.add(get_ident())
                self.set(1)
            result = function(*args)
            self._leave()
        except BaseException:
            self._leave()  # perhaps again, after Ctrl-C in the line above
            raise
        return result

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
    """The kernels that OpenBLAS uses, and how to get better ones if the processor has them."""
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
    verbs = "get_num_threads set_num_threads get_parallel get_corename".split()
    for path in _files_with_openblas():
        for name in ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}"):
            try:
                library = ctypes.PyDLL(path)  # whose functions are too short to release the GIL
                get, set_, kind, kernels = [library[name.format(verb)] for verb in verbs]
            except (OSError, AttributeError):
                continue
            set_.restype, kernels.restype = None, ctypes.c_char_p
            return (get, set_, kernels().decode()) if kind() == 1 else None  # 2 for OpenMP
    return None


def _files_with_openblas():
    yield np._core._multiarray_umath.__file__
    # Symbols are looked up in what NumPy's own module is linked with, but not on Windows.
    from glob import glob

    yield from glob(f"{os.path.dirname(np.__file__)}.libs/*openblas*")


class _Threads:
    """The calling thread and others of Python, which sleep until there are calls.

    number: how many threads there are; None if gpugrad leaves all work to the calling one and BLAS.
    busy: the lock held by the thread that the others help.
    pool: the executor that has the others; None until they are needed.
    """

    def __init__(self, number):
        self.number = number
        self.after_fork()

    def after_fork(self):  # the child has only the thread that called fork
        self.busy, self.pool = Lock(), None

    def resize(self, number):
        with self.busy:
            self._close()
            self.number = number
            if _library is not None:
                _library.gg_threads(number or 1)

    def run(self, function, items):
        is_alone = self.number == 1 or self.busy.locked()  # by this call, if nested
        if is_alone or len(items) < 2:
            return [function(item) for item in items]
        with self.busy:
            try:
                return self._share(function, items)
            except BaseException:
                self._close()  # so that no call is under way when the caller sees the error
                raise

    def _share(self, function, items):
        """The calling thread hands out all calls, and then makes those that nobody has begun."""
        from concurrent.futures import ThreadPoolExecutor  # here, since it takes time to import

        if self.pool is None:
            self.pool = ThreadPoolExecutor(self.number - 1, "gpugrad")
        try:
            # Without a global lock, a thread keeps the context in which it starts.
            submit = partial(Context().run, self.pool.submit)
            futures = [submit(copy_context().run, function, item) for item in items]
        except RuntimeError:  # the system allows no more threads, or the interpreter ends
            self._close()
            self.number = 1
            return [function(item) for item in items]
        try:
            own, numbers = {}, range(len(items))
            for i in reversed(numbers):
                if futures[i].cancel():
                    own[i] = function(items[i])
            return [own[i] if i in own else futures[i].result() for i in numbers]
        finally:
            futures.clear()  # which this frame has, to which their errors refer

    def _close(self):
        """Wait until no call is under way, and end the threads."""
        pool, self.pool = self.pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _processors():
    """How many processors the affinity and the control group of the process let it keep busy."""
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
