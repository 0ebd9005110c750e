"""The libraries of fixed kernels: for rows of arrays, windows and layers, and with threads.

Every kernel has the bits of the functions of NumPy that would otherwise be called, and calls the
inner loops of some of them. So it does not matter when a library is compiled. Each is compiled when
it is first asked for, so that nobody waits for kernels that the program does not use.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from ..dtypes import float32, float64
from ..registry import on_change

# The files of libraries, and functions of those for rows and layers. Of all but "pool" there are
# two libraries: for float and for double.
_ROWS = "common.h prelude.h rows.c"
_FILES = {
    "pool": "common.h pool.c objects.c", "rows": f"{_ROWS} table.h",
    "windows": f"{_ROWS} windows.c table.h",
    "layers": f"{_ROWS} windows.c recurrent.c products.h attention.c convolution.c",
}  # fmt: skip
_FUNCTIONS = {
    "rows": {"gg_rows", "gg_sum"}, "layers": {"gg_recurrent", "gg_attention", "gg_convolve"},
}  # fmt: skip
ALL = ("pool", *(f"{name}_{letter}" for name in _FILES if name != "pool" for letter in "fd"))
_LOOPS = np.exp, np.log, np.tanh, np.maximum, np.minimum
_HEADER = object.__basicsize__  # bytes of an array object before the pointer to its elements
_PIECE = 1 << 15  # elements that a thread computes at a time
_OLDEST = 4  # the oldest minor version of NumPy 2 that it works with
_ERRORS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}
_OTHERS = 16 | 32 | 64  # no memory, a nan whose sign is not known, an array that is not aligned

arrivals: list[Callable] = []  # functions to call with the library "pool" once it is loaded
limits: list[Callable] = []  # functions that return whether there may be several threads now
LEAST = 1 << 18  # elements of a large array: for fewer, threads gain nothing; see `numpy.large`
has_large = False  # whether there has been a large array
_arrived: set[str] = set()  # the libraries that are in use
_kernels: dict = {}  # from dtype and name to the function and the kernel's number


@cache
def is_expected():
    """Whether there will be a library, unless the compiler fails."""
    from .compiler import command  # here, since it takes time to import

    # The library reads the memory of arrays and ufuncs. The loops of older versions of NumPy add in
    # another order, and compute small products in other ways.
    major, minor = map(int, np.__version__.split(".")[:2])
    is_known = sys.implementation.name == "cpython" and major == 2 and minor >= _OLDEST
    return is_known and np.intp(0).itemsize == 8 and command() is not None


@cache
def _source(name):
    name, _, letter = name.partition("_")
    lines = [*map(text_of, _FILES[name].split())]
    if letter:
        number = {"f": "float", "d": "double"}[letter]
        lines.insert(2, f"#define T {number}")
    return "\n".join(lines)


def text_of(name):
    """The text of a file in this folder."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


@cache
def _build(name):
    from .compiler import build

    return build(_source(name), name, is_long=name != "pool")


def base(name="pool"):
    """A library; None if there is none, or none yet."""
    if not is_expected():
        return None
    library = _build(name).library
    if library is not None and name not in _arrived:
        if name == "pool":
            for function in arrivals:
                function(library)
        elif (pool := base()) is None:
            return None
        else:
            _set_up(library, pool, name)
        _arrived.add(name)  # last, since another thread may ask for the library meanwhile
    return library


@cache
def library_of(function):
    """The name of the library that has a function."""
    name, _, letter = function.rpartition("_")
    return next((f"{x}_{letter}" for x in _FUNCTIONS if name in _FUNCTIONS[x]), "pool")


def function_of(name):
    """A function of one of the libraries; None if there is none, or none yet."""
    library = library_of(name)
    return getattr(base(library), name if library == "pool" else name[:-2], None)


def is_done(*names):
    """Whether libraries are there, or cannot be had."""
    return not is_expected() or all(_build(name).is_done for name in names)


def wait(*names):
    """Return `base()` once these libraries, by default all, are there; None if one is not."""
    if not is_expected():
        return None
    builds = [*map(_build, names or ALL)]  # so that all of them are compiled together
    for build in builds:
        build.wait()
    return None if None in [*map(base, names or ALL)] else base()


def _set_up(library, pool, name):
    """Tell a library where its threads and NumPy's loops are, and look at what it has."""
    letter, numbers = name[-1], ctypes.c_int64
    names = "gg_run", "gg_run_short", "gg_run_by", "gg_matmul"  # the last two need threads
    told = [address(getattr(pool, x, None)) for x in names]
    told += [loop_of(np.matmul, char)[0] for char in "fd"]
    library.gg_set_pool((ctypes.c_void_p * len(told))(*told))
    library.gg_set_loop.argtypes = [numbers, ctypes.c_void_p, ctypes.c_void_p]
    library.gg_set_zero.argtypes = [ctypes.c_double]
    library.gg_set_zero(zero())
    for number, ufunc in enumerate(_LOOPS):
        library.gg_set_loop(number, *loop_of(ufunc, letter))
    if not name.startswith("layers"):
        names = ctypes.c_char_p.in_dll(library, "gg_names")
        names = ctypes.string_at(ctypes.addressof(names)).decode().split()
        function = library.gg_rows
        function.argtypes = [numbers] * 6 + [ctypes.c_double] * 2 + [ctypes.c_void_p] * 5
        function.restype = numbers
        dtype = float32 if letter == "f" else float64
        _kernels.update({(dtype, x): (function, i) for i, x in enumerate(names)})


def address(function):
    """The address of a function in C, 0 for None."""
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value


class _Ufunc(ctypes.Structure):
    """The beginning of a ufunc, after the header that all objects have."""

    _fields_ = [
        *[(name, ctypes.c_int) for name in ("nin", "nout", "nargs", "identity")],
        *[(name, ctypes.POINTER(ctypes.c_void_p)) for name in ("functions", "data")],
    ]


def loop_of(ufunc, types):
    """The addresses of NumPy's inner loop and of its data; None if there is none.

    types: the characters of the dtypes of operands and results, or one for all.
    """
    every = types * (ufunc.nargs // len(types))
    wanted = f"{every[: ufunc.nin]}->{every[ufunc.nin :]}"
    if wanted not in ufunc.types:
        return None
    at = ufunc.types.index(wanted)
    found = _Ufunc.from_address(id(ufunc) + _HEADER)
    return found.functions[at], found.data[at] if found.data else None


def rows(
    name, dtype, items, length, *arrays, cost=None, n=0, m=0, s=0.0, t=0.0, library="rows"
):  # fmt: skip
    """Have a kernel of ``library`` compute ``items``; returns whether it did.

    It does not if the library is not there, if an array is not aligned, or if NumPy would report
    an error.

    arrays: in C order, or None. cost: elements that an item reads, ``length`` by default.
    """
    if (dtype, name) not in _kernels and base(f"{library}_{dtype.char}") is None:
        return False
    function, number = _kernels[dtype, name]
    places = [None if x is None else id(x) + _HEADER for x in arrays]
    places += [None] * (5 - len(places))
    step = in_piece(length, cost)
    if items > step and not are_allowed():
        step = items
    errors = function(number, items, step, length, n, m, s, t, *places)
    return not errors or not is_reported(errors)


def are_allowed():
    """Whether there may be several threads now."""
    return all(allow() for allow in limits)


def notice(x):
    """Have ops look at the sizes of arrays from now on, if this one is large."""
    global has_large
    if not has_large and x.size >= LEAST and is_expected():
        has_large = True
        for changed in on_change:
            changed()


def place(array):
    """The address of an array's pointer to its elements; None for None."""
    return None if array is None else id(array) + _HEADER


def in_piece(length, cost=None):
    """How many items a thread computes at a time."""
    return _PIECE // (cost or length) or 1


def step_of_rows(written, *args, **options):
    """A call of `rows` that can become a part of a generated kernel.

    written: the numbers of the arrays that are written.
    """
    step = partial(rows, *args, **options)
    step.written = written
    return step


def number_of(name):
    """The number of a kernel in its library for rows, which must be loaded."""
    return next(number for (_, x), (_, number) in _kernels.items() if x == name)


@cache
def zero():
    """The number with which NumPy's sums begin, 0 or -0."""
    return float(np.add.reduce(np.array([-0.0])))


def is_reported(errors):
    """Whether NumPy would warn or raise for these errors, or has to compute the result itself."""
    if errors & _OTHERS:
        return True
    return any(errors & _ERRORS[name] for name, way in np.geterr().items() if way != "ignore")
