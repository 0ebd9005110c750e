"""The library of fixed kernels: rows of arrays, elementwise functions, and threads for both.

Every kernel has the bits of the functions of NumPy that would otherwise be called, and calls the
inner loops of some of them. So it does not matter when the library is compiled.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from ..dtypes import float32, float64
from ..registry import on_change

_FILES = (
    "pool.c objects.c prelude.h rows.c recurrent.c products.h attention.c convolution.c".split()
)
_LOOPS = np.exp, np.log, np.tanh, np.expm1, np.log1p, np.maximum, np.minimum
_HEADER = object.__basicsize__  # bytes of an array object before the pointer to its elements
_PIECE = 1 << 15  # elements that a thread computes at a time
_OLDEST = 4  # the oldest minor version of NumPy 2 that it works with
_BLOCK = 1 << 10  # elements that an elementwise kernel computes at a time
_ERRORS = {"divide": 1, "over": 2, "under": 4, "invalid": 8}
_OTHERS = 16 | 32 | 64  # no memory, a nan whose sign is not known, an array that is not aligned

arrivals: list[Callable] = []  # functions to call with the library once it is loaded
limits: list[Callable] = []  # functions that return whether there may be several threads now
LEAST = 1 << 18  # elements of a large array: for fewer, threads gain nothing; see `numpy.large`
has_large = False  # whether there has been a large array
_kernels: dict | None = None  # from dtype and name to the function and the kernel's number


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
def _source():
    pool, objects, prelude, *kernels = map(text_of, _FILES)
    both = [
        "\n".join((f"#define T {t}\n#define NAME(x) x##_{t[0]}", *kernels, "#undef T\n#undef NAME"))
        for t in ("float", "double")
    ]
    return "\n".join((pool, objects, prelude, *both))


def text_of(name):
    """The text of a file in this folder."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


@cache
def _build():
    from .compiler import build

    return build(_source(), "base")


def base():
    """The library; None if there is none, or none yet."""
    global _kernels
    if not is_expected():
        return None
    library = _build().library
    if library is not None and _kernels is None:
        _kernels = _set_up(library)
        for function in arrivals:
            function(library)
    return library


def is_done():
    """Whether the library is there, or cannot be had."""
    return not is_expected() or _build().is_done


def wait():
    """Return `base()` once that does not change any more."""
    if is_expected():
        _build().wait()
    return base()


def _set_up(library):
    """Tell the library where NumPy's loops are; returns its kernels, see `_kernels`."""
    numbers = ctypes.c_int64
    library.gg_set_loop.argtypes = [numbers, numbers, ctypes.c_void_p, ctypes.c_void_p]
    library.gg_set_zero.argtypes = [ctypes.c_double]
    library.gg_set_zero(zero())
    for number, ufunc in enumerate(_LOOPS):
        for is_double in (0, 1):
            library.gg_set_loop(is_double, number, *loop_of(ufunc, "fd"[is_double]))
    names = ctypes.c_char_p.in_dll(library, "gg_names")
    names = ctypes.string_at(ctypes.addressof(names)).decode().split()
    found = {}
    for dtype, letter in ((float32, "f"), (float64, "d")):
        function = library[f"gg_rows_{letter}"]
        function.argtypes = [numbers] * 6 + [ctypes.c_double] * 3 + [ctypes.c_void_p] * 5
        function.restype = numbers
        found |= {(dtype, name): (function, i) for i, name in enumerate(names)}
    return found


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


def rows(name, dtype, items, length, *arrays, cost=None, n=0, m=0, s=0.0, t=0.0, u=0.0):
    """Have a kernel of `rows.c` compute ``items``; returns whether it did.

    It does not if the library is not there, if an array is not aligned, or if NumPy would report
    an error.

    arrays: in C order, or None. cost: elements that an item reads, ``length`` by default.
    """
    if _kernels is None and base() is None:
        return False
    function, number = _kernels[dtype, name]
    places = [None if x is None else id(x) + _HEADER for x in arrays]
    places += [None] * (5 - len(places))
    step = in_piece(length, cost)
    if items > step and not are_allowed():
        step = items
    errors = function(number, items, step, length, n, m, s, t, u, *places)
    return not errors or not is_reported(errors)


def are_allowed():
    """Whether there may be several threads now."""
    return all(allow() for allow in limits)


def notice(x):
    """Have ops look at the sizes of arrays from now on, if this one is large."""
    global has_large
    if not has_large and x.size >= LEAST and is_expected() and are_allowed():
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
    """The number of a kernel of the library, which must be loaded."""
    return _kernels[float32, name][1]


@cache
def zero():
    """The number with which NumPy's sums begin, 0 or -0."""
    return float(np.add.reduce(np.array([-0.0])))


def each(name, x, g=None, *, guarded=False, s=0.0, t=0.0, u=0.0):
    """An elementwise kernel's result for arrays in C order; None if `rows` does not compute it."""
    out = np.empty(x.shape, x.dtype)
    items = -(-x.size // _BLOCK)
    options = {"n": x.size, "m": guarded, "s": s, "t": t, "u": u}
    return out if rows(name, x.dtype, items, _BLOCK, x, g, out, **options) else None


def step_of_each(name, x, g, out, **options):
    """A call of an elementwise kernel that can become a part of a generated one."""
    sizes = -(-x.size // _BLOCK), _BLOCK
    return step_of_rows([2], name, x.dtype, *sizes, x, g, out, n=x.size, **options)


def is_reported(errors):
    """Whether NumPy would warn or raise for these errors, or has to compute the result itself."""
    if errors & _OTHERS:
        return True
    return any(errors & _ERRORS[name] for name, way in np.geterr().items() if way != "ignore")
