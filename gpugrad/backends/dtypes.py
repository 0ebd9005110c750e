"""The dtypes: NumPy's objects, whichever library an array belongs to."""

from collections.abc import Callable

import numpy as np

bool_ = np.dtype(np.bool)
float16, float32, float64 = map(np.dtype, ("float16", "float32", "float64"))
complex64, complex128 = map(np.dtype, ("complex64", "complex128"))
int8, int16, int32, int64 = map(np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))

# Called with bfloat16's scalar type when a program first uses the dtype.
on_bfloat16: list[Callable] = []
_loaded: list = []  # the dtype, once `bfloat16` has been called


def bfloat16():
    """The dtype; ImportError with the remedy if ``ml_dtypes`` is not installed."""
    if not _loaded:
        try:
            from ml_dtypes import bfloat16 as scalar_type
        except ImportError as error:
            raise ImportError(
                "bfloat16 needs the package ml_dtypes; pip install ml_dtypes"
            ) from error
        _loaded.append(np.dtype(scalar_type))
        for callback in on_bfloat16:
            callback(scalar_type)
    return _loaded[0]


def has_bfloat16():
    """Whether the program has used bfloat16."""
    return bool(_loaded)


def is_bfloat16(dtype):
    """Whether a dtype of any array library is bfloat16."""
    return getattr(dtype, "char", "E") == "E" and str(dtype).split(".")[-1] == "bfloat16"


def number_dtype(dtype):
    """NumPy's object for a dtype of any library or for its name.

    Raises TypeError unless the dtype is numeric or bool.
    """
    if dtype is None:  # NumPy takes None to mean float64
        raise TypeError("dtype must not be None")
    try:
        result = np.dtype(dtype)
    except TypeError:
        name = str(dtype).split(".")[-1]  # torch.float32
        result = bfloat16() if name == "bfloat16" else np.dtype(name)
    if is_bfloat16(result):
        return bfloat16()
    if result.kind not in "biufc":
        raise TypeError(f"dtype {result} is neither numeric nor bool")
    return result
