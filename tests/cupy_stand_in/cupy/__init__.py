"""A stand-in for CuPy that computes with NumPy, with CuPy's signatures and errors and fake devices.

It has only what gpugrad uses, in the way of CuPy 14.2. Where a GPU silently differs from NumPy, so
does the stand-in: indices out of bounds wrap around, the value that stays after several assignments
to one element is not the last, and unsuitable matrices give nan.
"""

import numpy as _np

from . import cuda, fft, linalg  # noqa: F401
from ._array import ndarray  # noqa: F401
from ._functions import *  # noqa: F403
from ._raw import RawKernel, RawModule  # noqa: F401
from ._wrapping import ufunc

__version__ = "14.2.0"

_OF_NUMPY = (
    "bool_ complex64 complex128 complexfloating dtype e float16 float32 float64 floating inf int8 "
    "int16 int32 int64 integer intp nan newaxis number pi signedinteger uint8 uint16 uint32 uint64 "
    "unsignedinteger"
).split()
for _name in _OF_NUMPY:
    globals()[_name] = getattr(_np, _name)

_UFUNCS = (
    "abs absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or "
    "bitwise_xor cbrt ceil conj conjugate copysign cos cosh divide equal exp exp2 expm1 floor "
    "floor_divide fmod greater greater_equal hypot invert isfinite isinf isnan left_shift less "
    "less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor "
    "maximum minimum multiply negative nextafter not_equal positive power reciprocal remainder "
    "right_shift rint sign signbit sin sinh sqrt square subtract tan tanh true_divide trunc"
).split()
for _name in _UFUNCS:
    globals()[_name] = ufunc(_name)
