"""Kinds and promotion of dtypes.

All functions take the dtypes of any array library, and return dtypes of the same library.
"""

import sys
from typing import Any

from .backends import SCALARS, adopt, backend_of, namespace_of
from .backends.dtypes import bool_, complex64, float32, int64, is_bfloat16, number_dtype
from .backends.numpy import xp

# The dtypes of Python numbers, by the kinds of the dtypes that NumPy gives them.
DEFAULTS = {"b": bool_, "i": int64, "u": int64, "f": float32, "c": complex64}

KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether ``dtype`` is of a kind.

    kind: a dtype, the name of a kind, or a tuple of these, of which one must fit. The names are
        ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
        ``"real floating"`` (including float16 and bfloat16), ``"complex floating"``, and
        ``"numeric"`` for all but bool.

    >>> import gpugrad
    >>> gpugrad.isdtype(gpugrad.float32, ("integral", "real floating"))
    True
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    dtype = number_dtype(dtype)
    if not isinstance(kind, str):
        return dtype == number_dtype(kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: kind {kind!r} is not known; use a dtype or {', '.join(KINDS)}")
    return _kind(dtype) in KINDS[kind]


def is_half(dtype: Any) -> bool:
    """Whether a floating ``dtype`` has 16 bits."""
    return number_dtype(dtype).itemsize == 2


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype of an op's result for these arrays, dtypes and Python numbers.

    Integers and bools beside floating dtypes take the floating dtype. Python's (and NumPy's)
    numbers are weak: they never widen a dtype, but they turn bools into integers, integers into
    floats and floats into complex numbers, of the default dtype if the other operands do not
    determine one. NumPy's promotion tables decide the rest.

    >>> import gpugrad
    >>> gpugrad.result_type(gpugrad.float32, gpugrad.int64)
    dtype('float32')
    """
    if not arrays_and_dtypes:
        raise TypeError("result_type: needs at least one array or dtype")
    given, kinds = [], set()
    for x in arrays_and_dtypes:
        if type(x) in SCALARS or (type(x) in backend_of and type(x) not in namespace_of):
            kinds.add(type(adopt(x)))
        else:
            given.append(dtype_of(x))
    dtypes = [number_dtype(dtype) for dtype in given]
    floating = [dtype for dtype in dtypes if _kind(dtype) in "fc"]
    result = xp.result_type(*floating or dtypes) if given else bool_
    if result.kind == "f" and not floating:  # NumPy promotes uint64 and int64 to float64
        result = float32
    if complex in kinds and result.kind != "c":
        result = xp.result_type(result, complex64) if _kind(result) == "f" else complex64
    elif float in kinds and _kind(result) not in "fc":
        result = float32
    elif int in kinds and result.kind == "b":
        result = int64
    return of_library(result, given)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion turns a dtype, or the dtype of an array, into ``to``.

    See `result_type`.
    """
    return number_dtype(result_type(dtype_of(from_), to)) == number_dtype(to)


def _kind(dtype):
    """The kind of a NumPy dtype; bfloat16 counts as real floating."""
    return "f" if is_bfloat16(dtype) else dtype.kind


def dtype_of(x):
    """The dtype of an array; anything else is returned as it is."""
    # NumPy's scalar types serve as dtypes, but have an attribute `dtype` too.
    return x if isinstance(x, (xp.dtype, type, str)) else getattr(x, "dtype", x)


def of_library(dtype, given):
    """NumPy's ``dtype``, or its equivalent in the other library that ``given`` has dtypes of."""
    for other in given:
        if not isinstance(other, (xp.dtype, type, str)):
            return getattr(sys.modules[type(other).__module__.split(".")[0]], dtype.name)
    return dtype
