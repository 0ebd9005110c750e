"""The NumPy backend: conversion, memory and random numbers of arrays on the CPU."""

import ctypes
import sys
from contextlib import suppress
from functools import partial

import numpy as np

from ..base import Backend, address_range
from ..declarations import declare, has_array
from ..dtypes import float32, is_bfloat16
from ..native import base as library
from ..native import windows as native_windows
from ..native.reductions import added_slices
from ..special import scipy_function
from . import binding
from .binding import address_of, owner
from .linalg import steps_of_vector_norm
from .namespace import add_at, pick, places_along, power, xp
from .threads import describe_kernels, get_num_threads, run, undivided

# The context variable with the options that `numpy.errstate` sets and that `numpy.geterr` takes
# 0.7 µs to describe; None if this version of NumPy has it elsewhere.
_config = sys.modules.get("numpy._core._ufunc_config")
_options = getattr(_config, "_extobj_contextvar", None)
_quiet: list = [None]  # the latest options that do not report errors
_ignoring: list = [(None, None)]  # options, and the same ones but for ignoring all errors


def reports_errors():
    """Whether `numpy.errstate` has floating-point errors raise, call or print something."""
    options = object() if _options is None else _options.get()
    if options is not _quiet[0]:
        if not {"ignore", "warn"}.issuperset(np.geterr().values()):
            return True
        _quiet[0] = options
    return False


class _Quiet:
    """A context like ``numpy.errstate(all="ignore")`` that takes half the time."""

    __slots__ = ("_token",)

    def __enter__(self):
        options, known = _options.get(), _ignoring[0]
        if options is not known[0]:
            with np.errstate(all="ignore"):
                _ignoring[0] = known = options, _options.get()
        self._token = _options.set(known[1])

    def __exit__(self, *exc_info):
        _options.reset(self._token)


class NumPy(Backend):
    name = "numpy"
    in_single = True
    column_block = 1 << 18
    array_types = (np.ndarray,)
    # Infinite slopes are normal in a sweep, and NumPy's warnings about them would not help.
    sweep_context = staticmethod(_Quiet if _options else partial(np.errstate, all="ignore"))
    scalar_types = tuple({t for t in np.sctypeDict.values() if issubclass(t, (np.number, np.bool))})

    reports_errors = staticmethod(reports_errors)
    binder, windows, convolutions = binding, native_windows, native_windows
    run = staticmethod(run)
    pow = staticmethod(power)
    pick = staticmethod(pick)
    special = staticmethod(scipy_function)

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if dtype is copy is None and type(data) is np.ndarray:
            return data
        if isinstance(data, np.ndarray) and hasattr(data, "filled"):
            raise TypeError("a masked array lacks values; fill them first with x.filled(value)")
        if isinstance(data, np.matrix):
            raise TypeError("a matrix has products of its own; make it an array, numpy.asarray(x)")
        if copy and dtype is None and type(data) is np.ndarray:
            return self._copy(data)
        return np.array(data, dtype=dtype, copy=copy, order=None if copy is None else "C")

    def _copy(self, array):
        """A copy in C order, of large arrays by several threads."""
        library.notice(array)
        if library.has_large and array.size >= library.LEAST:
            from .large import copied

            if (found := copied(array)) is not None:
                return found
        return np.array(array, order="C")

    def add_along_axis(self, values, indices, /, shape, axis):
        if (out := added_slices(values, indices, shape, axis)) is None:
            out = np.zeros(shape, values.dtype)
            add_at(out, np.broadcast_to(places_along(shape, indices, axis), values.shape), values)
        return out

    def in_order(self, x):
        return x if x.flags.c_contiguous and x.flags.aligned else np.array(x, order="C")

    def undivided(self, x1, x2):
        return (undivided if x1.dtype.char in "fd" else self.xp.matmul)(x1, x2)

    def clip(self, x, min, max, /, *, out=None):
        if max is None:
            return np.positive(x, out=out) if min is None else self.xp.maximum(x, min, out=out)
        return self.xp.minimum(x, max, out=out) if min is None else x.clip(min, max, out)

    def to_numpy(self, array):
        return array

    def format(self, array, prefix):
        """The values as text, for a repr."""
        if is_bfloat16(array.dtype):  # NumPy would print its 1.0 as 1
            array = array.astype(float32)
        # Shorter than NumPy's own default, unless the program has chosen another.
        chosen = np.get_printoptions()
        threshold = 200 if chosen["threshold"] == 1000 else chosen["threshold"]
        precision = 5 if chosen["precision"] == 8 else chosen["precision"]
        return np.array2string(
            array, separator=", ", prefix=prefix, threshold=threshold, precision=precision
        )

    def solve_triangular(self, a, b, *, lower, unit_diagonal):
        if max(a.ndim, b.ndim) == 2 and b.size:
            with suppress(ModuleNotFoundError):
                from scipy.linalg import solve_triangular

                return solve_triangular(
                    a, b, lower=lower, unit_diagonal=unit_diagonal, check_finite=False
                )
        return super().solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal)

    def buffer(self, array):
        # Not id(array): several arrays may wrap the same memory of another library.
        return address_of(owner(array))

    def address_range(self, array):
        return address_range(address_of(array), array.shape, array.strides, array.itemsize)

    def memory_owner(self, array):
        found = owner(array)
        return found if found.flags.owndata else None

    def buffer_size(self, array):
        return owner(array).nbytes

    def is_unshared(self, array):
        return not isinstance(array, np.ndarray) or (array.base is None and array.flags.owndata)

    def report(self):
        built = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return [
            ("numpy", np.__version__),
            ("BLAS of numpy", f"{built.get('name')} {built.get('version')}"),
            ("kernels of OpenBLAS", describe_kernels()),
            ("threads for products", str(get_num_threads())),
        ]

    def generator(self, seed, device):
        from .random import Random  # here, since not every program draws

        return Random(seed)

    def native(self):
        from ..native import kernel  # here, since only compiled functions need it

        return kernel if kernel.is_available() else None

    def in_parts(self, forward):
        if not library.has_large:
            return forward
        from .large import in_parts  # here, since few programs have large arrays

        found = getattr(xp, getattr(forward, "function", None) or "", None)
        return in_parts(forward, self.native, found if isinstance(found, np.ufunc) else None)

    def as_kernel(self, rule):
        if not library.has_large:
            return rule
        from .large import as_kernel

        return as_kernel(rule, self.native)

    def release_freed_memory(self):
        if sys.platform == "linux":
            with suppress(OSError, AttributeError):  # the C library is not glibc
                ctypes.CDLL(None).malloc_trim(0)


backend = NumPy(xp)
declare(xp.add_along_axis, fails=True)
declare(xp.clip, out=True, elementwise=True)
declare(xp.linalg.vector_norm, steps=steps_of_vector_norm)
declare(xp.setitem, fails=has_array(2))
declare(xp.last_written, fails=has_array(1))


def ufunc_module(ufunc):
    """The module, ``"numpy"`` or ``"scipy.special"``, that has ``ufunc`` by its name, or None."""
    for module in ("numpy", "scipy.special"):
        if getattr(sys.modules.get(module), ufunc.__name__, None) is ufunc:
            return module
    return None


def array_of_bytes(data, dtype, shape, *, byteorder="="):
    """Copy the elements in ``data`` into a new array."""
    array = np.frombuffer(data, np.dtype(dtype).newbyteorder(byteorder))
    return array.reshape(shape).astype(dtype)


def position(flat, shape):
    """The index in an array of ``shape`` of the element that is at ``flat`` when flattened."""
    return tuple(map(int, np.unravel_index(flat, shape)))


def keep_freed_memory():
    """Tell glibc to keep freed blocks up to 32 MB instead of returning them to the kernel.

    A graph frees and allocates the same sizes at every step, and a fresh page costs more than the
    arithmetic on it.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # the C library is not glibc
            mallopt = ctypes.pythonapi.mallopt  # which is loaded already
            m_trim_threshold, m_mmap_threshold = -1, -3
            mallopt(m_mmap_threshold, 32 << 20)
            mallopt(m_trim_threshold, 1 << 30)


keep_freed_memory()
