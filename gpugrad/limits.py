"""What numbers of a dtype can be, of any array library's dtypes."""

from typing import Any, NamedTuple

from .backends.dtypes import number_dtype
from .backends.numpy import xp
from .dtypes import dtype_of, isdtype, of_library


class FloatInfo(NamedTuple):
    """What a real floating dtype, or a component of a complex one, can hold."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntegerInfo(NamedTuple):
    """What an integer dtype can hold."""

    bits: int
    max: int
    min: int
    dtype: Any


def finfo(type: Any, /) -> FloatInfo:
    """Limits of a floating dtype, or an array's, as Python floats; of complex ones the parts'.

    bits: of its size; eps: from 1 to the next number; max, min: the largest and the smallest
    number; smallest_normal: the smallest positive one of full precision; dtype: the real one.
    """
    given = dtype_of(type)
    if not isdtype(given, ("real floating", "complex floating")):
        raise TypeError(f"finfo: needs a floating dtype, not {given}; use iinfo for integers")
    info = xp.finfo(number_dtype(given))
    eps, most, least, normal = map(float, (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(info.bits, eps, most, least, normal, of_library(info.dtype, [given]))


def iinfo(type: Any, /) -> IntegerInfo:
    """Limits of an integer dtype, or an array's: ``bits``, ``max``, ``min`` and ``dtype``."""
    given = dtype_of(type)
    if not isdtype(given, "integral"):
        raise TypeError(f"iinfo: needs an integer dtype, not {given}; use finfo for floats")
    dtype = number_dtype(given)
    info = xp.iinfo(dtype)
    return IntegerInfo(info.bits, int(info.max), int(info.min), of_library(dtype, [given]))
