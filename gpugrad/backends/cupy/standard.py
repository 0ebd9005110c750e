"""Functions of the array API standard for which CuPy's results deviate at some values."""

from functools import wraps
from types import ModuleType
from typing import Any

import cupy
import numpy as np
from array_api_compat import cupy as standard
from array_api_compat.cupy import fft as transforms


def floor_divide(x1, x2, /):
    """CuPy computes ``floor(x1 / x2)`` for floating numbers, which is one too many if the quotient
    rounds up to a whole number, and 0 instead of -1 for -1 over inf."""
    if not _is_floating(x1, x2):
        return cupy.floor_divide(x1, x2)
    rest, rounds_down = _divide_toward_zero(x1, x2)
    quotient = cupy.rint((x1 - rest) / x2)
    quotient = cupy.where(rounds_down, quotient - 1, quotient)
    if isinstance(x2, cupy.ndarray):
        return cupy.where(x2 == 0, x1 / x2, quotient)
    return quotient if x2 else x1 / x2


def remainder(x1, x2, /):
    """CuPy computes ``x1 - floor(x1 / x2) * x2`` for floating numbers, which is nan if ``x2`` is
    inf, and has no correct digit if the quotient is large."""
    if not _is_floating(x1, x2):
        return cupy.remainder(x1, x2)
    rest, rounds_down = _divide_toward_zero(x1, x2)
    return cupy.copysign(cupy.where(rounds_down, rest + x2, rest), x2)


def _is_floating(x1, x2):
    return "f" in [x.dtype.kind for x in (x1, x2) if isinstance(x, cupy.ndarray)]


def _divide_toward_zero(x1, x2):
    """The remainder of the division that rounds toward zero, and where rounding down would give a
    quotient that is one less."""
    rest = cupy.fmod(x1, x2)
    return rest, (rest != 0) & ((rest < 0) != (x2 < 0))


def arange(start, /, stop=None, step=1, *, dtype=None):
    """CuPy cannot count down in an unsigned dtype."""
    if step < 0 and cupy.dtype(dtype).kind == "u":
        return cupy.arange(start, stop, step, dtype=cupy.int64).astype(dtype)
    return cupy.arange(start, stop, step, dtype=dtype)


def linspace(start, stop, /, num, *, dtype=None, endpoint=True):
    """CuPy's does not support complex numbers."""
    if not any(isinstance(end, complex) for end in (start, stop)):
        return cupy.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
    out = cupy.empty(num, dtype)
    for part in ("real", "imag"):
        values = cupy.linspace(getattr(start, part), getattr(stop, part), num, endpoint=endpoint)
        setattr(out, part, values)
    return out


def sign(x, /):
    """CuPy returns 0 for nan, and array-api-compat assigns the nan by a mask, which waits."""
    return cupy.where(cupy.isnan(x), x, cupy.sign(x)) if x.dtype.kind == "f" else standard.sign(x)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """CuPy returns nan, not an infinity, if there are too few elements for the correction."""
    out = standard.var(x, axis=axis, correction=correction, keepdims=keepdims)
    if correction and x.size <= correction * out.size:
        return standard.var(x, axis=axis, keepdims=keepdims) / 0
    return out


def _along_axes(name):
    transform, of_numpy = getattr(transforms, name), getattr(np.fft, name)

    @wraps(transform)
    def call(x, /, *, s=None, axes, norm="backward"):
        """CuPy takes -1 in ``s`` for a length, and refuses arrays without elements."""
        if not x.size:  # NumPy knows the result's shape and dtype, and which lengths are errors
            return cupy.asarray(of_numpy(np.empty(x.shape, x.dtype), s=s, axes=axes, norm=norm))
        if s is not None:
            s = [x.shape[axis] if n == -1 else n for n, axis in zip(s, axes, strict=True)]
        return transform(x, s=s, axes=axes, norm=norm)

    return call


fft: Any = ModuleType("gpugrad.backends.cupy.fft", "CuPy's transforms as ops use them.")
vars(fft).update({n: getattr(transforms, n) for n in transforms.__all__})
vars(fft).update({name: _along_axes(name) for name in ("fftn", "ifftn", "rfftn", "irfftn")})
