"""How NumPy repeats a recorded call without allocating: with ``out=``, to the same bits.

`lower` decides from shapes and dtypes alone, and as the functions in `namespace` themselves would.
A call for which it knows nothing is repeated as it was.
"""

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import bool_, float32, float64
from . import namespace
from .threads import product_of

OUT = object()  # among the arguments of a step: the memory of the result


class Part(NamedTuple):
    """Among the arguments of a step: memory that only the call itself needs."""

    number: int


class Seen(NamedTuple):
    """Among the arguments of a step: ``function`` of an operand, of `OUT` or a `Part`, a view."""

    of: Any
    function: Any


class Keyword(NamedTuple):
    """The last argument of a step, if it is to be passed by name."""

    name: str
    of: Any


class Weak(NamedTuple):
    """Among the arguments of a step: a Python number, to be used as a 0-d array of ``dtype``."""

    of: Any
    dtype: Any


class Lowered(NamedTuple):
    """A call as steps ``(function, args)`` that write its result; see `Keyword`.

    parts: the shape and dtype of each `Part`.
    is_elementwise: whether an element of the result depends on one of each operand only, so that
        it may be written where an operand lies, and be computed in blocks.
    """

    steps: list
    parts: tuple = ()
    is_elementwise: bool = False


_OPERATORS = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply,
    operator.truediv: np.divide, operator.neg: np.negative, operator.abs: np.absolute,
    operator.lt: np.less, operator.le: np.less_equal, operator.gt: np.greater,
    operator.ge: np.greater_equal, operator.eq: np.equal, operator.ne: np.not_equal,
    operator.and_: np.bitwise_and, operator.or_: np.bitwise_or, operator.xor: np.bitwise_xor,
    operator.invert: np.invert, operator.floordiv: np.floor_divide, operator.mod: np.remainder,
}  # fmt: skip
_IN_PLACE = {
    "iadd": np.add, "isub": np.subtract, "imul": np.multiply, "itruediv": np.divide,
    "iand": np.bitwise_and, "ior": np.bitwise_or, "ixor": np.bitwise_xor,
}  # fmt: skip
# Ufuncs of operands that have one dtype, to which a Python number adapts.
_PLAIN = {*_OPERATORS.values(), np.maximum, np.minimum, np.power, np.arctan2, np.hypot}


def lower(call):
    """The `Lowered` call, or None."""
    if len(call.outs) != 1 or call.several or not call.is_pure:
        return None
    (out,) = call.outs
    if out.kind != "array" or out.base is not None or 0 in out.shape:
        return None
    function, args, kwargs = call.function, call.args, call.kwargs
    if isinstance(function, np.ufunc):
        return None if kwargs else _ufunc(function, args, out)
    if function in _OPERATORS:
        return _ufunc(_OPERATORS[function], args, out)
    if function is operator.pow and _is_array(args[0]) and args[0].dtype in (float32, float64):
        exponent = args[1]
        if type(exponent) in (int, float) and exponent == 2:
            return _ufunc(np.square, args[:1], out)
        return None
    if function is operator.matmul:
        return _product(*args, out)
    name = getattr(function, "__name__", "")
    if name in _IN_PLACE:
        return _ufunc(_IN_PLACE[name], args, out)
    rule = _RULES.get(function) or _RULES_BY_NAME.get(name)
    if rule is None:
        return None
    return rule(out, *args, **kwargs)


def _is_array(x):
    return getattr(x, "kind", None) == "array"


def _ufunc(ufunc, args, out):
    if ufunc.nout != 1 or ufunc.nin != len(args) or ufunc.signature is not None:
        return None
    dtypes = {x.dtype for x in args if _is_array(x)}
    if any(dtype.kind == "c" for dtype in dtypes):
        return None  # NumPy rounds complex products in place in another way
    if ufunc in _PLAIN and len(dtypes) == 1 and (dtype := dtypes.pop()) in (float32, float64):
        args = [Weak(x, dtype) if _is_weak(x) else x for x in args]
    # NumPy is to take a third argument of these for another input.
    target = Keyword("out", OUT) if ufunc in (np.maximum, np.minimum) else OUT
    return Lowered([(ufunc, (*args, target))], is_elementwise=True)


def _is_weak(x):
    return type(x) in (int, float) or getattr(x, "kind", None) == "number"


def _power(out, x1, x2):
    if not (_is_array(x1) and type(x2) in (int, float) and x1.dtype in (float32, float64)):
        return None
    work = Part(0)  # the result may lie where x1 does
    parts = ((x1.shape, x1.dtype),)
    if x1.size <= namespace.MANY and not (type(x2) is int and x2 == 3):
        return None
    if x2 == 3:
        steps = [(np.multiply, (x1, x1, work)), (np.multiply, (work, x1, OUT))]
        return Lowered(steps, parts, is_elementwise=True)
    if x2 in (-1, 0.5, 2):
        return _ufunc({-1: np.reciprocal, 0.5: np.sqrt, 2: np.square}[x2], (x1,), out)
    if x2 in (-2, 4):
        first = np.reciprocal if x2 == -2 else np.square
        steps = [(first, (x1, OUT)), (np.multiply, (OUT, OUT, OUT))]
        return Lowered(steps, is_elementwise=True)
    if x2 in (0, 1) or not namespace.is_small_integer(x2):
        return None
    steps = [(np.absolute, (x1, work))]
    if x2 % 2:
        steps.append((np.power, (work, Weak(x2, x1.dtype), work)))
        steps.append((np.copysign, (work, x1, OUT)))
    else:
        steps.append((np.power, (work, Weak(x2, x1.dtype), OUT)))
    return Lowered(steps, parts, is_elementwise=True)


def _product(x1, x2, out, function=np.matmul):
    if not (_is_array(x1) and _is_array(x2) and x1.shape and x2.shape):
        return None
    if out.dtype.char in "?bBhHiIlLqQeE":
        return None
    return Lowered([(function, (x1, x2, OUT))])


def _matmul(out, x1, x2):
    if not (_is_array(x1) and _is_array(x2)) or x1.dtype.char == "e":
        return None
    n1, n2 = len(x1.shape), len(x2.shape)
    if n1 > 1 < n2:
        if x1.shape[-1] == x2.shape[-2] == 1:
            is_small = namespace.is_small_outer_product(x1, x2)
            function = _outer_product if is_small else np.multiply
            return Lowered([(function, (x1, x2, OUT))], is_elementwise=True)
        if n1 > 2 == n2:
            if _is_contiguous(x1) and x1.shape[-1] == x2.shape[0]:
                rows = Seen(x1, _as_rows), x2, Seen(OUT, _as_rows)
                return Lowered([(product_of(x1, x2), rows)])
        elif n2 > 2 and not any(x2.strides[:-2]) and x2.size and x1.shape[:-2] == x2.shape[:-2]:
            return None
    return _product(x1, x2, out, product_of(x1, x2))


def _outer_product(x1, x2, out):
    # Both give 0 where a broadcast product gives -0; only matmul takes any part of an array.
    (np.dot if out.flags.c_contiguous else np.matmul)(x1, x2, out)


def _is_contiguous(x):
    step = x.dtype.itemsize
    for n, stride in zip(reversed(x.shape), reversed(x.strides), strict=True):
        if n > 1 and stride != step:
            return False
        step *= n
    return True


def _as_rows(x):
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _is_long(x):
    return len(x.shape) == 2 and x.shape[0] >= 64 and x.dtype in (float32, float64)


def _axis_is_given(axis):
    return axis is None or type(axis) in (int, tuple)


def _sum(out, x, axis=None, dtype=None, keepdims=False):
    if not _is_array(x) or not _axis_is_given(axis):
        return None
    if axis is not None and (dtype is None or dtype is x.dtype):
        if axis in (0, (0,)) and _is_long(x) and x.shape[1] > 1:
            ones = np.ones(x.shape[0], x.dtype)
            target = Seen(OUT, _first) if keepdims else OUT
            return Lowered([(product_of(x, x), (ones, x, target))])
        if _has_rows(x, axis) and x.shape[-1] <= 128:
            ones = np.ones(x.shape[-1], x.dtype)
            return Lowered([(product_of(x, x), (Seen(x, _as_rows), ones, Seen(OUT, _flat)))])
    if x.dtype.char in "eE":
        return None
    return Lowered([(np.add.reduce, (x, axis, dtype, OUT, keepdims))])


def _has_rows(x, axis):  # as in namespace.py
    ndim = len(x.shape)
    if ndim < 2 or axis not in (-1, ndim - 1, (-1,), (ndim - 1,)):
        return False
    length = x.shape[-1]
    many = x.size >= (64 if length <= 64 else 256) * length > 0
    return many and x.dtype in (float32, float64) and _is_contiguous(x)


def _first(x):
    return x[0]


def _first_column(x):
    return x[:, 0]


def _mean(out, x, axis=None, keepdims=False):
    if not _is_array(x) or x.dtype not in (float32, float64) or not x.size:
        return None
    total = _sum(out, x, axis=axis, keepdims=keepdims)
    if total is None:
        return None
    count = x.size // max(out.size, 1)
    return Lowered([*total.steps, (np.divide, (OUT, Weak(count, x.dtype), OUT))])


def _extremum(ufunc):
    def extremum(out, x, axis=None, keepdims=False):
        if not _is_array(x) or not _axis_is_given(axis):
            return None
        if axis in (1, -1) and _is_long(x) and x.shape[1] <= 64:
            target = Seen(OUT, _first_column) if keepdims else OUT
            return Lowered(
                [
                    (np.copyto, (Part(0), Seen(x, _transpose))),
                    (ufunc.reduce, (Part(0), 0, None, target)),
                ],
                parts=((x.shape[::-1], x.dtype),),
            )
        if _has_rows(x, axis) and 64 < x.shape[-1] <= 512:
            return None
        return Lowered([(ufunc.reduce, (x, axis, None, OUT, keepdims))])

    return extremum


def _transpose(x):
    return x.T


_clip = getattr(getattr(np, "_core", None), "umath", None)
_clip = getattr(_clip, "clip", None)


def _bounded(ufunc, low, high):
    """`maximum` or `minimum`, which clips large arrays."""

    def bounded(out, x1, x2):
        is_large = _is_array(x1) and x1.size > 4096 and x1.dtype in (float32, float64)
        if is_large and type(x2) in (int, float):
            if _clip is None:
                return None
            bounds = [Weak(x2 if bound is None else bound, x1.dtype) for bound in (low, high)]
            return Lowered([(_clip, (x1, *bounds, OUT))], is_elementwise=True)
        return _ufunc(ufunc, (x1, x2), out)

    return bounded


def _where(out, condition, x1, x2):
    like = x1 if _is_array(x1) else x2
    if not (_is_array(like) and _is_array(condition) and condition.dtype is bool_):
        return None
    bits = namespace._bits_of.get(like.dtype)
    # For small arrays the function itself calls numpy.where, which gives the same bits.
    if bits is not None and condition.shape == like.shape == out.shape:
        mask = Seen(condition, _as_int8)
        view = _VIEWS[bits]
        b1, b2 = _bits(x1, like, view), _bits(x2, like, view)
        if b2 is _ZERO and b1 is not None:
            return Lowered([(np.multiply, (b1, mask, Seen(OUT, view)))], is_elementwise=True)
        if b1 is _ZERO and b2 is not None:
            flipped = Part(0)
            steps = [
                (np.bitwise_xor, (mask, _ONE, flipped)),
                (np.multiply, (b2, flipped, Seen(OUT, view))),
            ]
            return Lowered(steps, ((condition.shape, np.dtype(np.int8)),), is_elementwise=True)
        if b1 is not None and b2 is not None:
            found = Part(0)
            steps = [
                (np.bitwise_xor, (b1, b2, found)),
                (np.multiply, (found, mask, found)),
                (np.bitwise_xor, (found, b2, Seen(OUT, view))),
            ]
            return Lowered(steps, ((like.shape, np.dtype(bits)),), is_elementwise=True)
    return None


_ZERO = np.int8(0)
_ONE = np.int8(1)


def _bits(x, like, view):
    if x is like:
        return Seen(x, view)
    if type(x) is float or type(x) is int:
        if x == 0 and math.copysign(1, x) > 0:
            return _ZERO
        value = like.dtype.type(x).view(namespace._bits_of[like.dtype])
        return value if value else _ZERO
    if _is_array(x) and x.dtype is like.dtype and x.shape == like.shape:
        return Seen(x, view)
    return None


def _as_int8(x):
    return x.view(np.int8)


def _as_int16(x):
    return x.view(np.int16)


def _as_int32(x):
    return x.view(np.int32)


def _as_int64(x):
    return x.view(np.int64)


_VIEWS = {np.int16: _as_int16, np.int32: _as_int32, np.int64: _as_int64}


def _astype(out, x, dtype, copy=True, device=None):
    if not _is_array(x) or x.dtype.kind == "c" != out.dtype.kind:
        return None
    return Lowered([(_cast, (OUT, x))])


def _cast(out, x):
    np.copyto(out, x, casting="unsafe")


def _duplicate(out, x):
    return Lowered([(np.copyto, (OUT, x))]) if _is_array(x) else None


def _assigned(out, x, value, key):
    is_whole = key is ... or key == ()
    if is_whole and _is_array(value) and (value.dtype, value.shape) == (out.dtype, out.shape):
        return Lowered([(np.copyto, (OUT, value))], is_elementwise=True)
    return None


def check_labels(labels, n):
    """What `namespace.check_labels` does, in a third of the time for few labels."""
    unsigned = labels.view(_UNSIGNED[labels.dtype]) if labels.dtype.kind == "i" else labels
    if np.maximum.reduce(unsigned, None) >= n:  # also where a label is negative
        namespace.check_labels(labels, n)


_UNSIGNED = {np.dtype(f"i{k}"): np.dtype(f"u{k}") for k in (1, 2, 4, 8)}


def _pick(out, x, labels):
    if not (_is_array(x) and _is_array(labels)) or len(x.shape) != 2 or len(labels.shape) != 1:
        return None
    if x.strides != (x.shape[1] * x.dtype.itemsize, x.dtype.itemsize):
        return None
    rows = np.arange(labels.size) * x.shape[1]
    places = Part(0)
    steps = [
        (check_labels, (labels, x.shape[1])),
        (np.add, (labels, rows, places)),
        (_take, (Seen(x, _flat), places, OUT)),
    ]
    if not np.can_cast(labels.dtype, np.intp):
        return None
    return Lowered(steps, (((labels.size,), np.dtype(np.intp)),))


def _flat(x):
    return x.reshape(-1)


def _take(x, places, out):
    x.take(places, None, out, "clip")  # the places are known to be in range


def _one_hot(out, labels, n):
    if not _is_array(labels) or n == 0:
        return None
    dtype = np.min_scalar_type(n)
    narrow = Part(0)
    steps = [
        (check_labels, (labels, n)),
        (_cast, (narrow, labels)),
        (np.equal, (Seen(narrow, _as_column), np.arange(n, dtype=dtype), OUT)),
    ]
    return Lowered(steps, ((labels.shape, dtype),))


def _as_column(x):
    return x[..., None]


_RULES = {
    namespace._matmul: _matmul,
    namespace._sum: _sum,
    namespace._mean: _mean,
    namespace._max: _extremum(np.maximum),
    namespace._min: _extremum(np.minimum),
    namespace._maximum: _bounded(np.maximum, None, math.inf),
    namespace._minimum: _bounded(np.minimum, -math.inf, None),
    namespace._where: _where,
    namespace.power: _power,
    namespace._astype: _astype,
    namespace._one_hot: _one_hot,
}
_RULES_BY_NAME = {"duplicate": _duplicate, "assigned": _assigned, "pick": _pick}
