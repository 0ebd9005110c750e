"""Elementwise functions of large arrays, by several threads and with NumPy's bits.

NumPy computes a ufunc in the calling thread. Here, the threads of `native/pool.c` call the ufunc's
own inner loop for parts of the arrays. They also copy and join arrays, and fill them with zeros. A
forward or a rule of several ufuncs becomes one kernel, so that what it computes in between does not
go through memory.

A look at the size of each array would be a part of the time of a small op. So ops do not look
before a large array has been made by a copy, summed or multiplied, see `native.base.notice`.
"""

import ctypes
import sys
from functools import cache, partial, wraps
from itertools import accumulate, chain
from math import prod

import numpy as np

from ..native import base
from ..placing import broadcast_strides, merged
from . import noting
from .threads import divided

_WORTH = 1 << 16  # elements, where each takes long
_PIECES = 8  # of arrays that a ufunc goes through
_LONG = 1 << 9  # bytes of an array in a row, on average, of arrays that are joined
_HEAVY = 1 << 15  # and in all rows, which take longer than Python's look at the array
_SIZES = 1, 2, 4, 8  # bytes of an element of matrices that are copied transposed
_MOST_ARRAYS = 4  # of a ufunc
_SHORTEST = 64  # elements of a row of arrays that broadcast
_Places = ctypes.c_void_p * _MOST_ARRAYS
_SAMPLE = 1 << 18  # elements of arrays that stand for those of a call while a kernel is made
_MOST_KERNELS = 16  # of a rule, such as those for several numbers beside the arrays
_MOST_SEEN = 64  # constants of a rule that are remembered, such as the last keys of dropout


def in_parts(function, native, ufunc=None):
    """The forward of an elementwise op for large arrays: one kernel, or ufuncs in parts.

    native: see `Kernels`.
    ufunc: the one that the forward calls, if it does nothing else.
    """
    kernels = Kernels(function, native)

    @wraps(function)
    def run(xp, *arrays, **static):
        for x in arrays:
            if type(x) is np.ndarray and x.size >= base.LEAST:
                break
        else:
            return function(xp, *arrays, **static)
        found = kernels.result(xp, arrays, static) if ufunc is None else computed(ufunc, arrays)
        if found is not None:
            return found
        return plain(function(xp, *(arrays if ufunc else map(_large, arrays)), **static))

    return run


class Large(np.ndarray):
    """A view of an array, whose ufuncs are divided among threads."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        inputs = [plain(x) for x in inputs]
        if method == "__call__" and not options:
            found = computed(ufunc, inputs, None if out is None else plain(out[0]))
            if found is not None:
                return _large(found) if out is None else out[0]
        if out is not None:
            options["out"] = tuple(map(plain, out))
        found = getattr(ufunc, method)(*inputs, **options)
        return _large(found) if out is None else out[0]


def _large(x):
    return x.view(Large) if type(x) is np.ndarray and x.size >= base.LEAST else x


def plain(x):
    """The array of a view: the owner of the memory itself, where it is the same array."""
    if type(x) is not Large:
        return x
    owner = x.base
    is_same = type(owner) is np.ndarray and owner.dtype is x.dtype
    is_same = is_same and (owner.shape, owner.strides) == (x.shape, x.strides)
    return owner if is_same else x.view(np.ndarray)


def computed(ufunc, inputs, out=None):
    """The result of a ufunc, in ``out`` if that is given; None if NumPy has to compute it.

    inputs: arrays, at least one of them with axes, and Python numbers.
    """
    arrays, kinds = [], []
    for x in inputs:
        if not isinstance(x, np.ndarray):
            kinds.append(type(x))
        elif not x.flags.aligned or (x.ndim and type(x) is not np.ndarray):
            return None
        elif x.ndim == 0:
            kinds.append((x.dtype,))
        else:
            arrays.append(x)
            kinds.append(x.dtype)
    loop = arrays and _loop(ufunc, *kinds)
    if not loop or not _has_threads() or _reports_errors(ufunc):
        return None
    if loop.has_numbers:
        try:
            inputs = noting.as_arrays(inputs, loop.dtypes)
        except OverflowError:  # a number that the dtype cannot hold
            return None
    shape = arrays[0].shape
    are_plain = all(_is_plain(x, shape) for x in arrays)
    if not are_plain:
        try:
            shape = np.broadcast_shapes(*[x.shape for x in arrays])
        except ValueError:  # as NumPy will say
            return None
        if ufunc not in noting.EXACT or prod(shape) < base.LEAST:
            return None
    dtype = loop.dtypes[-1]
    is_fit = out is None or (_is_plain(out, shape) and out.dtype == dtype and out.flags.writeable)
    if not is_fit:
        return None
    # NumPy computes again where it reports an error, and needs the inputs for that.
    is_apart = out is not None and not any(np.may_share_memory(x, out) for x in inputs)
    result = out if is_apart else np.empty(shape, dtype)
    lengths, steps = ([result.size], loop.steps) if are_plain else _rows(shape, *inputs, result)
    if not lengths:
        return None
    errors = base.base().gg_map(
        loop.function, loop.data, len(lengths) - 1, _int64(*lengths), _PIECES, loop.count,
        _Places(*map(base.place, (*inputs, result))), steps,
    )  # fmt: skip
    if errors and base.is_reported(errors):
        return None
    if out is None:
        return result
    if not is_apart:
        out[...] = result
    return out


def concat(arrays, /, axis=0, **options):
    is_known = type(arrays) in (tuple, list) and not options
    is_large = is_known and sum([getattr(x, "size", 0) for x in arrays]) >= base.LEAST
    out = _joined(arrays, axis) if is_large else None
    return np.concat(arrays, axis, **options) if out is None else out


def _joined(arrays, axis):
    """The arrays, joined; None if NumPy has to do it."""
    if any(type(x) is not np.ndarray for x in arrays) or type(axis) is not int:
        return None
    if sum([x.nbytes for x in arrays]) < _HEAVY * len(arrays):
        return None
    ndim, dtype = arrays[0].ndim, arrays[0].dtype
    is_known = dtype.isnative and not dtype.hasobject  # else NumPy converts or counts references
    if not is_known or not -ndim <= axis < ndim or not _has_threads():
        return None
    axis %= ndim
    before, after = arrays[0].shape[:axis], arrays[0].shape[axis + 1 :]
    rows, parts = prod(before), []
    for x in arrays:
        is_like = x.ndim == ndim and x.dtype == dtype
        if not is_like or (x.shape[:axis], x.shape[axis + 1 :]) != (before, after):
            return None
        parts.append(_as_rows(x, rows))
        if parts[-1] is None:
            return None
    out = np.empty((*before, sum([x.shape[axis] for x in arrays]), *after), dtype)
    if out.nbytes < _LONG * rows * len(parts):
        return None
    pairs = zip(parts, accumulate([x.shape[1] * x.itemsize for x in parts]), strict=True)
    return _filled(out, rows, [(x.ctypes.data, x.strides[0], end) for x, end in pairs])


def _as_rows(x, rows):
    """An array as so many rows, whose elements lie side by side; None if they do not.

    Nor if rows overlap, as those of a repeated one do: then NumPy's result is not in C order.
    """
    if not x.size:
        return None
    try:
        x = x.reshape(rows, -1, copy=False)
    except ValueError:
        return None
    are_apart = rows == 1 or abs(x.strides[0]) >= x.shape[1] * x.itemsize
    return x if are_apart and (x.strides[1] == x.itemsize or x.shape[1] == 1) else None


def copied(x, empty=np.empty):
    """A copy of a large array in C order; None if NumPy has to make it."""
    if x.dtype.hasobject or not x.flags.aligned or not _has_threads():
        return None
    if x.flags.c_contiguous:
        return _filled(empty(x.shape, x.dtype), 1, [(x.ctypes.data, 0, x.nbytes)])
    if (matrices := _as_transposed(x)) is None or x.itemsize not in _SIZES:
        return None
    out = empty(x.shape, x.dtype)
    base.base().gg_transpose(x.ctypes.data, out.ctypes.data, x.itemsize, *matrices, _PIECES)
    return out


def _as_transposed(x):
    """The number of matrices, and their rows and columns, if ``x`` is transposed matrices that lie
    in memory in C order, without gaps; otherwise None.

    Several axes may be one axis of the matrices, as after ``x.transpose(2, 0, 1)``.
    """
    axes = [(n, step) for n, step in zip(x.shape, x.strides, strict=True) if n > 1]
    lengths, (steps,) = merged(*zip((1, x.nbytes), *axes, strict=True))
    if len(lengths) != 3:
        return None
    (matrices, columns, rows), (whole, step, row) = lengths, steps
    is_in_order = step == x.itemsize and row == columns * step and whole == rows * row
    return (matrices, rows, columns) if is_in_order else None


def zeros_like(x, /, dtype=None, **options):
    is_large = type(x) is np.ndarray and x.size >= base.LEAST and x.flags.c_contiguous
    if options or not is_large or not _has_threads():
        return np.zeros_like(x, dtype, **options)
    out = np.empty(x.shape, x.dtype if dtype is None else dtype)
    if out.dtype.hasobject:
        out[...] = 0
        return out
    return _filled(out, 1, [(0, 0, out.nbytes)])


def _filled(out, rows, parts):
    """``out`` with rows of parts side by side: addresses, steps between rows, and their ends."""
    parts = np.array(parts, np.int64)
    base.base().gg_join(out.ctypes.data, rows, parts.ctypes.data, len(parts), _PIECES)
    return out


def _has_threads():
    """Whether the library may be used, and has threads, which on Windows it has not."""
    return base.are_allowed() and hasattr(base.base(), "gg_map")


def _int64(*numbers):
    return (ctypes.c_int64 * len(numbers))(*numbers)


def _rows(shape, *arrays):
    """The lengths of as few axes as possible for arrays in C order that broadcast to a shape, and
    the steps of each array along them; no lengths for other arrays, and for short rows."""
    rows = [broadcast_strides(x, shape) for x in arrays]
    for row in rows:
        steps = [step for step in row if step]
        if steps != sorted(steps, reverse=True) or (steps and steps[-1] < 0):
            return (), None
    lengths, rows = merged([n for n in shape if n > 1], *rows)
    return (lengths, _int64(*chain(*rows))) if lengths[-1:] >= (_SHORTEST,) else ((), None)


def _is_plain(x, shape):
    flags = x.flags
    return type(x) is np.ndarray and x.shape == shape and flags.c_contiguous and flags.aligned


def _reports_errors(ufunc):
    """Whether it is one of SciPy's, which report errors themselves, and `errstate` has it do so.

    Only in a call of NumPy can it raise them.
    """
    special = sys.modules.get("scipy.special")
    function = getattr(special, ufunc.__name__, None)
    if getattr(function, "__wrapped__", function) is not ufunc:
        return False
    ways = special.geterr()
    return any(ways[name] != "ignore" for name in ways if name != "memory")  # "raise" at first


class _Loop:
    """A loop over the elements of arrays that lie side by side.

    function, data: the addresses of the loop and of its data.
    dtypes: of the inputs and the result.
    steps: bytes from one element to the next, 0 for a single one. count: how many there are.
    has_numbers: whether Python numbers are among the inputs.
    """

    def __init__(self, function, data, dtypes, steps, has_numbers=False):
        self.function, self.data, self.dtypes = function, data, dtypes
        self.steps, self.count = _int64(*steps), len(steps)
        self.has_numbers = has_numbers


@cache
def _loop(ufunc, *kinds):
    """The `_Loop` of a ufunc; None if there is none.

    kinds: of each input the dtype, of an array without axes in a tuple, or a number's type.
    """
    if ufunc.signature is not None or ufunc.nout != 1 or ufunc.nargs > _MOST_ARRAYS:
        return None
    given = [k[0] if isinstance(k, tuple) else k for k in kinds]
    try:
        dtypes = ufunc.resolve_dtypes((*[noting.TYPES.get(k, k) for k in given], None))
    except TypeError:
        return None
    if any(isinstance(k, np.dtype) and k != d for k, d in zip(given, dtypes, strict=False)):
        return None  # NumPy converts this operand
    if not all(d.isnative and d.kind in "fiub" for d in dtypes):
        return None
    if ufunc is np.power and dtypes[-1].kind != "f":
        return None  # this loop raises an error, which only a call of NumPy passes on
    found = base.loop_of(ufunc, "".join([d.char for d in dtypes]))
    if found is None:
        return None
    pairs = zip([*kinds, dtypes[-1]], dtypes, strict=True)
    steps = [d.itemsize if isinstance(k, np.dtype) else 0 for k, d in pairs]
    return _Loop(*found, dtypes, steps, any(isinstance(k, type) for k in kinds))


def as_kernel(function, native):
    """A function ``rule(xp, g, saved)`` of an elementwise op for large arrays, as `in_parts`."""
    kernels = Kernels(lambda xp, g, *saved: function(xp, g, saved), native)

    def run(xp, g, saved):
        if type(g) is not np.ndarray or g.size < base.LEAST:
            return function(xp, g, saved)
        found = kernels.result(xp, (g, *saved), {})
        if found is not None:
            return found
        found = function(xp, _large(g), [*map(_large, saved)])
        return tuple(map(plain, found)) if type(found) is tuple else plain(found)

    return run


class Kernels:
    """The kernels of a function of an elementwise op.

    A kernel is made when the function meets the same constants for the second time.

    native: a function that returns the module that makes kernels, or None.
    """

    def __init__(self, function, native):
        self._function, self._native = function, native
        self._kernels, self._seen = {}, set()

    def result(self, xp, values, static):
        """The result for some values, of which an array has axes; None without a kernel for it."""
        arrays = [x for x in values if type(x) is np.ndarray]
        for x in arrays:
            if shape := x.shape:
                break
        if [x for x in arrays if x.shape != shape or not x.flags.c_contiguous]:
            values = [_number_in(x, shape) for x in values]
            arrays = [x for x in values if type(x) is np.ndarray]
            if not all(x.ndim == 0 or _is_plain(x, shape) for x in arrays):
                return None
        # What is constant in a kernel: all but the elements of arrays and their number.
        kinds = [(x.dtype, x.ndim > 0) if type(x) is np.ndarray else repr(x) for x in values]
        key = *kinds, repr(static)
        if (found := self._kernels.get(key)) is None:
            if key not in self._kernels:
                self._order(key, xp, values, static)
            return None
        dtype, kernel = found
        out = np.empty(shape, dtype)
        return out if kernel([*arrays, out], out.size) else None

    def _order(self, key, xp, values, static):
        seen = self._seen
        if key in seen and len(self._kernels) < _MOST_KERNELS:
            self._kernels[key] = self._kernel(xp, values, static)
        elif len(seen) == _MOST_SEEN:
            seen.clear()
        seen.add(key)

    def _kernel(self, xp, values, static):
        """A kernel and the dtype of its result; None if there can be none."""
        native = self._native()
        if native is None:
            return None
        samples = [
            np.empty(_SAMPLE if x.ndim else (), x.dtype) if type(x) is np.ndarray else x
            for x in values
        ]
        try:
            steps, out = noting.note_result(partial(self._function, xp, **static), *samples)
        except Exception:  # noqa: BLE001  # whatever these views cannot do, the arrays can
            return None
        found = [native.operations(step) for step in steps]
        if None in found or out.shape != (_SAMPLE,):
            return None
        arrays = [x for x in samples if type(x) is np.ndarray]
        kernel = native.Formula([x for part in found for x in part], [*arrays, out])
        return None if kernel.build is None else (out.dtype, kernel)


def _number_in(x, shape):
    """``x``, or its only number, an array without axes, if it is one number in this shape."""
    if type(x) is np.ndarray and x.shape == shape and not any(x.strides):
        return x[(slice(1),) * x.ndim].reshape(())
    return x


def divided_ufunc(ufunc):
    """A function that computes a ufunc that takes long for each element by several threads."""
    by_python = divided(ufunc)

    def call(*args):
        args = [plain(x) for x in args]
        is_large = any(type(x) is np.ndarray and x.size >= _WORTH for x in args)
        if is_large and _reports_errors(ufunc):
            return ufunc(*args)
        found = computed(ufunc, args) if is_large else None
        return by_python(*args) if found is None else found

    return call
