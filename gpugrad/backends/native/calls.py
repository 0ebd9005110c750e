"""Bound calls of NumPy as operations of which a kernel can be made.

`operations` takes what `numpy.binding` returns, so what the functions of the namespace choose from
shapes, dtypes and strides is chosen in one place, for calls and for kernels.
"""

import math
from functools import partial

import numpy as np

from ..declarations import SELECT, expression_of
from ..numpy import namespace, noting, threads
from .base import in_piece, loop_of, rows, zero

TYPES = {
    "?": "uint8_t", "b": "int8_t", "B": "uint8_t", "h": "int16_t", "H": "uint16_t",
    "i": "int32_t", "I": "uint32_t", "l": "int64_t", "L": "uint64_t", "q": "int64_t",
    "Q": "uint64_t", "f": "float", "d": "double",
}  # fmt: skip

LONGEST = 1 << 13  # elements of a row whose values wait in a buffer for a reduction of the row
REDUCTIONS = "rows", "columns", "total"


class Operation:
    """What one call does.

    kind: "map" for an expression of elements; "call" for the inner loop of a ufunc; "rows" and
        "columns" for a reduction along the last axes or the first ones; "total" for the sum of a
        long row; "product" for that of
        matrices; "gather" for elements of a flat array at places; "library" for a kernel of the
        library, which has all its arrays as inputs.
    function: the ufunc, or an expression; of a product, whether it may be divided among threads.
    inputs: arrays. out: an array.
    types: the characters of the dtypes with which it computes, that of the result last.
    """

    __slots__ = ("kind", "function", "inputs", "out", "types")

    def __init__(self, kind, function, inputs, out, types):
        self.kind = kind
        self.function = function
        self.inputs = inputs
        self.out = out
        self.types = types

    @property
    def written(self):
        """The arrays that it writes."""
        if self.kind != "library":
            return (self.out,)
        *_, is_given, written = self.function
        given = iter(self.inputs)
        arrays = [next(given) if x else None for x in is_given]
        return tuple([arrays[i] for i in written])

    @property
    def shape(self):
        """That of the elements which it goes through."""
        return self.inputs[0].shape if self.kind in REDUCTIONS else self.out.shape


def operations(step):
    """The operations of a bound call, or None if a kernel cannot make it."""
    found = _operations(step)
    arrays = [x for operation in found or () for x in (*operation.inputs, operation.out)]
    is_possible = all(x.flags.aligned and x.dtype.isnative for x in arrays)
    return found if is_possible and all(map(_is_apart, found or ())) else None


def _is_apart(operation):
    """Whether no element is written before it is read for another one."""
    kind, out = operation.kind, operation.out
    if kind == "library":
        return True
    place = _layout(out) if kind in ("map", "call") else None
    return all(_layout(x) == place or not np.may_share_memory(x, out) for x in operation.inputs)


def _layout(x):
    return x.__array_interface__["data"][0], x.shape, x.strides, x.itemsize


def _operations(step):
    if type(step) is not partial:
        return None
    function, args = step.func, step.args
    try:
        if function is namespace._where and len(args) == 3 and step.keywords.keys() == {"out"}:
            return _select(*args, step.keywords["out"])
        if function is rows:
            return _rows(step)
        if step.keywords:
            return None
        if type(function) is np.ufunc and function.signature is None and function.nout == 1:
            return _map(function, args[:-1], args[-1])
        if function is noting._named_out:
            return _map(args[0], args[1:-1], args[-1])
        if function is np.copyto or function is noting.cast:
            return _copy(*args[:2])
        if function is noting._by_copy:
            return _by_copy(*args)
        if function in (np.matmul, threads.matmul):
            return _product(function, *args)
        if function is np.ndarray.take and args[2] is None and args[4] == "clip":
            return _gather(args[0], args[1], args[3])
        if getattr(function, "__name__", "") == "reduce":
            return _reduce(function.__self__, *args)
    except _Cannot:
        pass
    return None


class _Cannot(Exception):
    pass


def _types(*dtypes):
    """The characters of dtypes, all of which kernels compute with."""
    found = "".join([np.dtype(getattr(x, "dtype", x)).char for x in dtypes])
    if not all(map(TYPES.__contains__, found)):
        raise _Cannot
    return found


def _converts(dtype, to):
    """Whether C converts each number as NumPy does."""
    _types(dtype, to)
    if dtype.kind == "f" and to.kind in "iu":
        raise _Cannot  # of those that are out of range, any number comes
    return True


def _map(ufunc, inputs, out):
    inputs = [*inputs]
    given = [x.dtype if isinstance(x, (np.ndarray, np.generic)) else type(x) for x in inputs]
    try:
        dtypes = ufunc.resolve_dtypes((*given, None))
        inputs = [
            x if isinstance(x, np.ndarray) else np.array(x, dtype)
            for x, dtype in zip(inputs, dtypes, strict=False)
        ]
    except (TypeError, OverflowError, AttributeError):
        raise _Cannot from None
    types = _types(*dtypes)
    for x, dtype in zip(inputs, dtypes, strict=False):
        _converts(x.dtype, dtype)
    _converts(dtypes[-1], out.dtype)
    kind = dtypes[0].kind
    if kind in "iu" and any(x.kind != kind for x in dtypes[1:-1]):
        raise _Cannot  # C makes an unsigned number of the negative one
    expression = expression_of(ufunc, kind, types[-1] == "?")
    if ufunc is noting.clip and kind == "f":
        expression = _clip(*inputs[1:], out)
    if expression is not None:
        return [Operation("map", expression, inputs, out, types)]
    # The loops of NumPy go through memory in one piece as they go through any part of it.
    if kind != "f" or not all(x.flags.c_contiguous or x.size == 1 for x in (*inputs, out)):
        raise _Cannot
    if not all(x.shape == out.shape or x.size == 1 for x in inputs):
        raise _Cannot
    if _types(*inputs, out) != types or loop_of(ufunc, types) is None:
        raise _Cannot
    return [Operation("call", ufunc, inputs, out, types)]


def _clip(low, high, out):
    """The expression of a ufunc that clips -0 in another way by arrays than by numbers."""
    if out.size > 1 and low.size == high.size == 1:
        return "CLIP({0}, {1}, {2})"
    if out.size == 1 or not any(x.shape == out.shape and 0 not in x.strides for x in (low, high)):
        raise _Cannot
    return "CLIP_EACH({0}, {1}, {2})"


def _copy(out, x):
    x = x if isinstance(x, np.ndarray) else np.array(x, out.dtype)
    _converts(x.dtype, out.dtype)
    expression = "{0} != 0" if out.dtype.char == "?" else "{0}"
    return [Operation("map", expression, [x], out, _types(x.dtype, out.dtype))]


def _by_copy(out, function, *args):
    if type(function) is np.ufunc:
        arrays = [x for x in args if isinstance(x, np.ndarray)]
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
        given = [x.dtype if isinstance(x, (np.ndarray, np.generic)) else type(x) for x in args]
        between = np.empty(shape, function.resolve_dtypes((*given, None))[-1])
        return [*_map(function, args, between), *_copy(out, between)]
    x, axis, dtype, _, keepdims = args
    between = np.empty(out.shape, out.dtype)
    return [*_reduce(function.__self__, x, axis, dtype, between, keepdims), *_copy(out, between)]


def _select(condition, x1, x2, out):
    arrays = [x for x in (x1, x2) if isinstance(x, np.ndarray)]
    given = [x.dtype if isinstance(x, np.ndarray) else x for x in (x1, x2)]
    if not arrays or not isinstance(condition, np.ndarray) or condition.dtype.char != "?":
        raise _Cannot
    dtype = np.result_type(*given)
    x1, x2 = (x if isinstance(x, np.ndarray) else np.array(x, dtype) for x in (x1, x2))
    for x in (x1, x2):
        _converts(x.dtype, dtype)
    _converts(dtype, out.dtype)
    return [Operation("map", SELECT, [condition, x1, x2], out, _types(bool, dtype, dtype, dtype))]


def _reduce(ufunc, x, axis, dtype, out, keepdims):
    types = _types(x.dtype, out.dtype)
    if types[0] != types[1] or dtype not in (None, x.dtype) or not x.size or not x.ndim:
        raise _Cannot
    is_float = types[0] in "fd"
    if not (ufunc is np.add and is_float) and ufunc not in (np.maximum, np.minimum):
        raise _Cannot
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = {a % x.ndim for a in axes}
    kept = [i for i, n in enumerate(x.shape) if n > 1 and i not in axes]
    gone = [i for i, n in enumerate(x.shape) if n > 1 and i in axes]
    if not x.flags.c_contiguous or not out.flags.c_contiguous:
        raise _Cannot
    if not gone:
        expression = f"{{0}} + (T){zero()}" if ufunc is np.add else "{0}"
        return [Operation("map", expression, [x.reshape(out.shape)], out, types)]
    if not kept or max(kept) < min(gone):
        kind = "rows"
    elif max(gone) < min(kept):
        kind = "columns"
    else:
        raise _Cannot
    kept, gone = ([x.shape[i] for i in axes] for axes in (kept, gone))
    shape = (*kept, *gone) if kind == "rows" else (*gone, *kept)
    flat = (math.prod(kept), math.prod(gone))
    if len(shape) > 2:
        shape = flat if kind == "rows" else flat[::-1]
    elif kind == "rows":
        shape = flat
    if flat[0] == 1 and flat[1] > LONGEST and ufunc is np.add:
        return [Operation("total", ufunc, [x.reshape(-1)], out.reshape(()), types)]
    target = out.reshape(flat[0])
    return [Operation(kind, ufunc, [x.reshape(shape)], target, types)]


def _product(function, x1, x2, out):
    types = _types(x1.dtype, x2.dtype, out.dtype)
    if types not in ("fff", "ddd") or x1.ndim < 2 or x2.ndim < 2 or not out.size:
        raise _Cannot
    if not x1.shape[-1]:
        raise _Cannot
    return [Operation("product", function is threads.matmul, [x1, x2], out, types)]


def _rows(step):
    """Of a kernel of rows, see `base.step_of_rows`."""
    name, dtype, items, length, *arrays = step.args
    options = {"in_piece": in_piece(length, step.keywords.get("cost"))}
    options |= {key: value for key, value in step.keywords.items() if key != "cost"}
    given = [x for x in arrays if x is not None]
    if not all(x.flags.c_contiguous and x.size for x in given):
        raise _Cannot
    function = name, items, length, options, [x is not None for x in arrays], step.written
    return [Operation("library", function, given, arrays[step.written[0]], dtype.char)]


def _gather(x, places, out):
    types = _types(places.dtype, x.dtype, out.dtype)
    if types[1] != types[2] or places.dtype.kind not in "iu" or not x.flags.c_contiguous:
        raise _Cannot
    return [Operation("gather", None, [places, x], out, types)]
