"""The ranges and precisions of dtypes, for the dtypes of any array library."""

from typing import Any, NamedTuple

from ._dtypes import dtype_of, isdtype, of_library
from .backends.dtypes import number_dtype
from .backends.numpy import xp


class FloatInfo(NamedTuple):
    """The limits of a real floating dtype, or of the components of a complex one."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating dtype, or of an array's dtype, as Python floats.

    For a complex dtype they are the limits of its real and imaginary parts.

    bits: the size in bits.
    eps: the distance from 1 to the next number.
    max, min: the largest and the smallest number.
    smallest_normal: the smallest positive number of full precision.
    dtype: the real dtype.
    """
    given = dtype_of(type)
    if not isdtype(given, ("real floating", "complex floating")):
        raise TypeError(f"finfo: needs a floating dtype, not {given}; use iinfo for integers")
    info = xp.finfo(number_dtype(given))
    eps, most, least, normal = map(float, (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(info.bits, eps, most, least, normal, of_library(info.dtype, [given]))


def iinfo(type: Any, /) -> IntegerInfo:
    """The ``bits``, ``max``, ``min`` and ``dtype`` of an integer dtype, or of an array's dtype."""
    given = dtype_of(type)
    if not isdtype(given, "integral"):
        raise TypeError(f"iinfo: needs an integer dtype, not {given}; use finfo for floats")
    dtype = number_dtype(given)
    info = xp.iinfo(dtype)
    return IntegerInfo(info.bits, int(info.max), int(info.min), of_library(dtype, [given]))
