"""The dtypes, which are NumPy's objects whatever library an array is of."""

from collections.abc import Callable

import numpy as np

bool_ = np.dtype(np.bool)
float16, float32, float64 = map(np.dtype, ("float16", "float32", "float64"))
complex64, complex128 = map(np.dtype, ("complex64", "complex128"))
int8, int16, int32, int64 = map(np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))

# Called with bfloat16's scalar type when the dtype is first asked for.
on_bfloat16: list[Callable] = []
_found: list = []  # the dtype, once asked for


def bfloat16():
    """The dtype; ImportError with the remedy if there is no ``ml_dtypes``."""
    if not _found:
        try:
            from ml_dtypes import bfloat16 as scalar_type
        except ImportError as error:
            raise ImportError(
                "bfloat16 needs the package ml_dtypes; pip install ml_dtypes"
            ) from error
        _found.append(np.dtype(scalar_type))
        for call in on_bfloat16:
            call(scalar_type)
    return _found[0]


def has_bfloat16():
    """Whether bfloat16 was ever asked for."""
    return bool(_found)


def is_bfloat16(dtype):
    """Whether a dtype, of any array library, is bfloat16."""
    return getattr(dtype, "char", "E") == "E" and str(dtype).split(".")[-1] == "bfloat16"


def number_dtype(dtype):
    """A dtype of any library, or a name of one, as NumPy's object; TypeError if it is not of
    numbers or bools."""
    if dtype is None:  # which NumPy takes for float64
        raise TypeError("dtype must not be None")
    try:
        result = np.dtype(dtype)
    except TypeError:
        name = str(dtype).split(".")[-1]  # torch.float32
        result = bfloat16() if name == "bfloat16" else np.dtype(name)
    if is_bfloat16(result):
        return bfloat16()
    if result.kind not in "biufc":
        raise TypeError(f"dtype {result} is not of numbers or bools")
    return result
