"""CuPy's namespace as ops use it: `xp`, at the end.

The functions here replace those that array-api-compat's namespace for CuPy lacks or gets wrong.
`Backend` adds what all libraries share, such as ``einsum``.
"""

from functools import wraps
from math import prod
from typing import Any

import cupy
import numpy as np
from array_api_compat import cupy as standard

from ..base import copy_of
from ..bfloat16 import finfo, in_float32, isdtype, result_type
from ..declarations import CAST, SELECT, SUM, declare, declare_like_numpy
from ..dtypes import float32
from . import kernels
from .kernels.reductions import shape_without, sum_rows
from .kernels.transfers import join
from .linalg import linalg
from .products import matmul, tensordot, vecdot
from .standard import arange, fft, floor_divide, linspace, remainder, sign, var


def _scatter_add(values, /, shape, key):
    with values.device:
        if values.dtype.kind == "c":  # CUDA adds only real numbers atomically
            out = cupy.empty(shape, values.dtype)
            out.real = _scatter_add(values.real, shape, key)
            out.imag = _scatter_add(values.imag, shape, key)
            return out
        if values.dtype.char in _HALVES and may_repeat(key):
            return _scatter_add(values.astype(float32), shape, key).astype(values.dtype)
        out = cupy.zeros(shape, values.dtype)
        if may_repeat(key):
            cupy.add.at(out, key, values)
        else:
            out[key] = values
        return out


# NumPy's characters for float16 and bfloat16. CuPy sums float16 in float16, has no `where` for
# bfloat16, and returns float64 for its variance.
_HALVES = "eE"


def _sum(x, /, *, axis=None, dtype=None, keepdims=False):
    if dtype is None or dtype == x.dtype:
        if (shape := shape_without(x, axis, keepdims)) is not None:
            return sum_rows(x, shape)
        if x.dtype.char == "e":
            return cupy.sum(x, axis, float32, keepdims=keepdims).astype(x.dtype)
    return standard.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


def _mean(x, /, *, axis=None, keepdims=False):
    if (shape := shape_without(x, axis, keepdims)) is None:
        return standard.mean(x, axis=axis, keepdims=keepdims)
    return sum_rows(x, shape, x.size // prod(shape))


def _var(x, /, *, axis=None, correction=0.0, keepdims=False):
    shape = shape_without(x, axis, keepdims)
    if shape is not None and (rows := x.size // prod(shape)) > correction:
        return sum_rows(x, shape, rows - correction, mean=sum_rows(x, shape, rows))
    return var(x, axis=axis, correction=correction, keepdims=keepdims)


def _std(x, /, *, axis=None, correction=0.0, keepdims=False):
    var = _var(x, axis=axis, correction=correction, keepdims=keepdims)
    return cupy.sqrt(var, out=var)


_FEW = 8  # arrays that CuPy joins without copying a table of them from the host


def _concat(arrays, /, *, axis=0):
    out = join(arrays, axis) if len(arrays) > _FEW else NotImplemented
    return standard.concat(arrays, axis=axis) if out is NotImplemented else out


def _stack(arrays, /, *, axis=0):
    out = join(arrays, axis, is_new=True) if len(arrays) > _FEW else NotImplemented
    return standard.stack(arrays, axis=axis) if out is NotImplemented else out


def _where(condition, x1, x2, /):
    kinds = {getattr(x.dtype, "char", None) for x in (x1, x2) if isinstance(x, cupy.ndarray)}
    if kinds != {"E"}:
        return cupy.where(condition, x1, x2)
    dtype = (x1 if isinstance(x1, cupy.ndarray) else x2).dtype
    return cupy.where(condition, _bits(x1, dtype), _bits(x2, dtype)).view(dtype)


def _bits(x, dtype):
    if not isinstance(x, cupy.ndarray):
        x = np.asarray(x).astype(dtype)[()]
    return x.view(np.uint16)


def _one_hot(labels, /, n):
    with labels.device:
        return labels[..., None] == cupy.arange(n)


def last_positions(x, key):
    """For each element of ``x`` the last position in ``x[key]`` that selects it, or -1."""
    count = cupy.arange(1, x[key].size + 1, dtype=cupy.uint64).reshape(x[key].shape)
    positions = cupy.zeros(x.shape, cupy.uint64)  # `maximum.at` does not support int64
    cupy.maximum.at(positions, key, count)
    return positions.astype(cupy.int64) - 1


def may_repeat(key):
    keys = key if type(key) is tuple else (key,)
    return any(isinstance(k, cupy.ndarray) and k.dtype.kind != "b" for k in keys)


def _zero_discarded_nans(c, g, /):
    out = kernels.zero_discarded_nans(c, g)
    if out is not NotImplemented:
        return out
    return _where(cupy.isnan(c) & (g == 0), c.dtype.type(0), c)


def _on_its_device(function):
    """Make a function run on its array's device, because it is also called outside of ops."""

    @wraps(function)
    def call(x, /, *args, **options):
        if x.data.device_id == cupy.cuda.runtime.getDevice():
            return function(x, *args, **options)
        with x.device:
            return function(x, *args, **options)

    return call


@_on_its_device
def _conj(x, /):
    return cupy.conj(x) if x.dtype.kind == "c" else x


xp: Any = copy_of(standard, "gpugrad.backends.cupy.xp")
vars(xp).update(
    linalg=linalg, fft=fft, std=in_float32(_std), var=in_float32(_var),
    astype=_on_its_device(xp.astype), finfo=finfo(xp.finfo), isdtype=isdtype(xp.isdtype),
    result_type=result_type(xp.result_type),
)  # fmt: skip
for _name in ("prod", "cumulative_prod", "cumulative_sum"):
    setattr(xp, _name, in_float32(getattr(xp, _name)))
for _function in (arange, floor_divide, linspace, matmul, remainder, sign, tensordot, vecdot):
    setattr(xp, _function.__name__, _function)
# The functions of `xp` that are defined above, each under its name with an underscore in front.
for _name in "concat conj mean one_hot scatter_add stack sum where zero_discarded_nans".split():
    setattr(xp, _name, globals()[f"_{_name}"])
declare_like_numpy(cupy)
declare(_where, elementwise=True, expression=SELECT)
declare(_zero_discarded_nans, elementwise=True, expression="{0} != {0} && {1} == 0 ? (T)0 : {0}")
declare(xp.astype, expression=CAST)
declare(_sum, expression=SUM)
