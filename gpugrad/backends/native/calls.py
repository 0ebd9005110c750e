"""Bound calls of NumPy as operations of which a kernel can be made.

`operations` takes the calls that `numpy.binding` returns. So what the functions of the namespace
choose by shapes, dtypes and strides holds for calls and for kernels.
"""

import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..declarations import GUARD, SELECT, expression_of
from ..numpy import namespace, noting, threads
from ..numpy.binding import address_of
from .base import in_piece, loop_of, rows, zero

_LONG = "int64_t" if np.dtype("l").itemsize == 8 else "int32_t"  # the latter on Windows
TYPES = {
    "?": "uint8_t", "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t",
    "i": "int32_t", "I": "uint32_t", "l": _LONG, "L": f"u{_LONG}", "q": "int64_t",
    "Q": "uint64_t", "f": "float", "d": "double",
}  # fmt: skip

LONGEST = 1 << 13  # elements of a row whose values a buffer keeps until the row is reduced
REDUCTIONS = "rows", "columns", "total"
_HAS_PRODUCTS = sys.platform != "win32"  # there the library has no gg_matmul


@dataclass(eq=False)
class Operation:
    """What one call does.

    kind: "map" for an expression of elements; "call" for the inner loop of a ufunc; "rows" and
        "columns" for a reduction along the last axes or the first ones; "total" for the sum of a
        long row; "product" for a product of matrices; "gather" for elements of a flat array at
        places; "library" for a kernel of the library, which has all its arrays as inputs.
    function: the ufunc, or an expression; of a product, whether it may be divided among threads.
    inputs, out: arrays. others: more arrays that it writes.
    types: the characters of the dtypes with which it computes, that of the result last.
    """

    kind: str
    function: Any
    inputs: list
    out: np.ndarray
    types: str
    others: tuple = ()

    @property
    def written(self):
        """The arrays that it writes."""
        return self.out, *self.others

    @property
    def shape(self):
        """The shape of the elements that it goes through."""
        return self.inputs[0].shape if self.kind in REDUCTIONS else self.out.shape


def operations(step):
    """The operations of a bound call; None if a kernel cannot make it."""
    try:
        found = _operations(step)
    except _Cannot:
        return None
    arrays = [x for operation in found for x in (*operation.inputs, operation.out)]
    is_possible = all(x.flags.aligned and x.dtype.isnative for x in arrays)
    return found if is_possible and all(map(_is_apart, found)) else None


def _is_apart(operation):
    """Whether the operation writes no element that it still has to read for another one."""
    kind, out = operation.kind, operation.out
    if kind == "library":
        return True
    place = _layout(out) if kind in ("map", "call") else None
    return all(_layout(x) == place or not np.may_share_memory(x, out) for x in operation.inputs)


def _layout(x):
    return address_of(x), x.shape, x.strides, x.itemsize


def _operations(step):
    if type(step) is not partial:
        raise _Cannot
    function, args = step.func, step.args
    if function is namespace._where and len(args) == 3 and step.keywords.keys() == {"out"}:
        return _select(*args, step.keywords["out"])
    if function is namespace._zero_discarded_nans:
        c, g, out = args
        return [Operation("map", GUARD, [c, g], out, _types(c, g, out))]
    if function is rows:
        return _rows(step)
    if step.keywords:
        raise _Cannot
    if type(function) is np.ufunc and function.signature is None and function.nout == 1:
        return _map(function, args[:-1], args[-1])
    if function is noting.with_named_out:
        return _map(args[0], args[1:-1], args[-1])
    if function is np.copyto or function is noting.cast:
        return _copy(*args[:2])
    if function is noting.by_copy:
        return _by_copy(*args)
    if function in (np.matmul, threads.matmul):
        return _product(function, *args)
    if function is np.ndarray.take and args[2] is None and args[4] == "clip":
        return _gather(args[0], args[1], args[3])
    if getattr(function, "__name__", "") == "reduce":
        return _reduce(function.__self__, *args)
    raise _Cannot


class _Cannot(Exception):
    pass


def _types(*dtypes):
    """The characters of dtypes; raises `_Cannot` if kernels do not compute with one of them."""
    found = "".join([np.dtype(getattr(x, "dtype", x)).char for x in dtypes])
    if not all(map(TYPES.__contains__, found)):
        raise _Cannot
    return found


def _check_conversion(dtype, to):
    """Raise `_Cannot` unless C converts each number as NumPy does."""
    _types(dtype, to)
    if dtype.kind == "f" and to.kind in "iu":
        raise _Cannot  # a float that is out of range becomes any integer


def _map(ufunc, inputs, out):
    try:
        dtypes = noting.resolved_dtypes(ufunc, inputs)
        inputs = noting.as_arrays(inputs, dtypes)
    except (TypeError, OverflowError, AttributeError):
        raise _Cannot from None
    types = _types(*dtypes)
    for x, dtype in zip(inputs, dtypes, strict=False):
        _check_conversion(x.dtype, dtype)
    _check_conversion(dtypes[-1], out.dtype)
    kind = dtypes[0].kind
    if kind in "iu" and any(x.kind != kind for x in dtypes[1:-1]):
        raise _Cannot  # C would convert a negative number to an unsigned one
    expression = expression_of(ufunc, kind, types[-1] == "?")
    if ufunc is noting.clip and kind == "f":
        if out.size == 1 or inputs[1].size * inputs[2].size != 1:
            raise _Cannot  # by arrays it clips -0 in another way than by numbers
        expression = "CLIP({0}, {1}, {2})"
    if expression is not None:
        return [Operation("map", expression, inputs, out, types)]
    # NumPy's loops have the same bits for a whole array in one piece as for its parts.
    are_rows = all(x.flags.c_contiguous or x.size == 1 for x in (*inputs, out))
    are_rows = are_rows and all(x.shape == out.shape or x.size == 1 for x in inputs)
    is_possible = kind == "f" and len(inputs) < 3 and are_rows and _types(*inputs, out) == types
    if not is_possible or loop_of(ufunc, types) is None:
        raise _Cannot
    return [Operation("call", ufunc, inputs, out, types)]


def _copy(out, x):
    x = x if isinstance(x, np.ndarray) else np.array(x, out.dtype)
    _check_conversion(x.dtype, out.dtype)
    expression = "{0} != 0" if out.dtype.char == "?" else "{0}"
    return [Operation("map", expression, [x], out, _types(x.dtype, out.dtype))]


def _by_copy(out, function, *args):
    if type(function) is np.ufunc:
        between = noting.empty_result(function, args)
        return [*_map(function, args, between), *_copy(out, between)]
    x, axis, dtype, _, keepdims = args
    between = np.empty(out.shape, out.dtype)
    return [*_reduce(function.__self__, x, axis, dtype, between, keepdims), *_copy(out, between)]


def _select(condition, x1, x2, out):
    is_mask = isinstance(condition, np.ndarray) and condition.dtype.char == "?"
    if not is_mask or not any(isinstance(x, np.ndarray) for x in (x1, x2)):
        raise _Cannot
    dtype = np.result_type(x1, x2)
    x1, x2 = noting.as_arrays((x1, x2), (dtype, dtype))
    for x in (x1, x2):
        _check_conversion(x.dtype, dtype)
    _check_conversion(dtype, out.dtype)
    return [Operation("map", SELECT, [condition, x1, x2], out, _types(bool, dtype, dtype, dtype))]


def _reduce(ufunc, x, axis, dtype, out, keepdims):
    types = _types(x.dtype, out.dtype)
    if types[0] != types[1] or dtype not in (None, x.dtype) or not x.size or not x.ndim:
        raise _Cannot
    if ufunc not in (np.maximum, np.minimum) and (ufunc is not np.add or types[0] not in "fd"):
        raise _Cannot
    if not x.flags.c_contiguous or not out.flags.c_contiguous:
        raise _Cannot
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = {a % x.ndim for a in axes}
    kept = [i for i, n in enumerate(x.shape) if n > 1 and i not in axes]
    gone = [i for i, n in enumerate(x.shape) if n > 1 and i in axes]
    if not gone:
        expression = f"{{0}} + (T){zero()}" if ufunc is np.add else "{0}"
        return [Operation("map", expression, [x.reshape(out.shape)], out, types)]
    if not kept or max(kept) < min(gone):
        kind = "rows"
    elif max(gone) < min(kept):
        kind = "columns"
    else:
        raise _Cannot
    count, length = (math.prod([x.shape[i] for i in axes]) for axes in (kept, gone))
    if count == 1 and length > LONGEST and ufunc is np.add:
        return [Operation("total", ufunc, [x.reshape(-1)], out.reshape(()), types)]
    shape = (count, length) if kind == "rows" else (length, count)
    return [Operation(kind, ufunc, [x.reshape(shape)], out.reshape(count), types)]


def _product(function, x1, x2, out):
    types = _types(x1.dtype, x2.dtype, out.dtype)
    if x1.ndim == x2.ndim == 1:
        x1, x2, out = x1[None], x2[:, None], out.reshape(1, 1)
    are_matrices = x1.ndim > 1 < x2.ndim and out.size and x1.shape[-1]
    if types not in ("fff", "ddd") or not are_matrices or not _HAS_PRODUCTS:
        raise _Cannot
    return [Operation("product", function is threads.matmul, [x1, x2], out, types)]


def _rows(step):
    """The operation of a kernel of rows; see `base.step_of_rows`."""
    name, dtype, items, length, *arrays = step.args
    options = {"n": 0, "m": 0, "s": 0.0, "t": 0.0, "cost": None} | step.keywords
    integers = [items, in_piece(length, options["cost"]), length, *[int(options[k]) for k in "nm"]]
    floats = [float(options[k]) for k in "st"]
    given = [x for x in arrays if x is not None]
    if not all(x.flags.c_contiguous and x.size for x in given):
        raise _Cannot
    function = name, integers, floats, [x is not None for x in arrays]
    out, *others = [arrays[i] for i in step.written]
    return [Operation("library", function, given, out, dtype.char, tuple(others))]


def _gather(x, places, out):
    types = _types(places.dtype, x.dtype, out.dtype)
    if types[1] != types[2] or places.dtype.kind not in "iu" or not x.flags.c_contiguous:
        raise _Cannot
    return [Operation("gather", None, [places, x], out, types)]
