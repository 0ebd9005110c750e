"""NumPy's namespace as ops use it: `xp`, at the end.

NumPy's main namespace conforms to the standard from version 2.0 on, so ops run on a copy of it in
which the functions below replace slow or inaccurate ones. `Backend` adds what all libraries share,
such as ``einsum``.

Functions that are declared with ``out=True`` also fill memory that the caller gives. `noting` can
note which functions of NumPy they call if each of these calls has its result's memory among its
arguments.
"""

import math
from functools import partial, wraps
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from ..base import COMPLEX_TRANSFORMS, REAL_TRANSFORMS
from ..bfloat16 import finfo, in_float32, isdtype, result_type
from ..declarations import are_integers, declare, has_array
from ..dtypes import bool_, float16, float32, float64
from ..native import base as library
from ..native.reductions import SMALL as FEW
from ..native.reductions import outer_product, reduced
from ..registry import on_change
from .linalg import linalg
from .noting import Noted
from .threads import SMALL, product_of
from .threads import matmul as _large_product

# numpy.sum and similar functions spend 1 to 3 µs in Python before the reduction. With a compiler,
# those of more than a few elements are divided among threads.


def _into(out, result):
    """The result, copied into ``out`` unless that is None."""
    if out is None:
        return result
    np.copyto(out, result, "unsafe")
    return out


def _reduced(name, x, axis, keepdims):
    library.notice(x)
    return reduced(name, x, axis, keepdims)


@declare(out=True)
def _sum(x, /, *, axis=None, dtype=None, keepdims=False, out=None):
    if dtype is None or dtype == x.dtype:
        if x.dtype.char in "eE":  # NumPy sums in 16 bits
            total = np.add.reduce(x, axis, float32, None, keepdims)
            return _into(out, total.astype(x.dtype))
        total = _reduced("sum", x, axis, keepdims) if x.size >= FEW and out is None else None
        if total is not None:
            return total
    return np.add.reduce(x, axis, dtype, out, keepdims)


# The loops of maximum and minimum take three times as long with a number as that of clip.


@declare(out=True, elementwise=True)
def _maximum(x1, x2, /, out=None):
    if type(x2) in (int, float) and _is_large(x1):
        return x1.clip(x2, math.inf, out)
    return np.maximum(x1, x2) if out is None else np.maximum(x1, x2, out=out)


@declare(out=True, elementwise=True)
def _minimum(x1, x2, /, out=None):
    if type(x2) in (int, float) and _is_large(x1):
        return x1.clip(-math.inf, x2, out)
    return np.minimum(x1, x2) if out is None else np.minimum(x1, x2, out=out)


def _is_large(x):
    return isinstance(x, np.ndarray) and x.size > 4096 and x.dtype in (float32, float64)


def _extremum(name, ufunc):
    @declare(out=True)
    def extremum(x, /, *, axis=None, keepdims=False, out=None):
        found = _reduced(name, x, axis, keepdims) if x.size >= FEW and out is None else None
        return ufunc.reduce(x, axis, None, out, keepdims) if found is None else found

    return extremum


_max, _min = _extremum("max", np.maximum), _extremum("min", np.minimum)


@declare(out=True)
def _vecdot(x1, x2, /, *, axis=-1, out=None):
    # Added in the order of `sum`, as kernels of rows do. Along other axes than the last one this
    # takes down to 1/40 of the time of NumPy's function.
    is_plain = axis < 0 and x1.dtype == x2.dtype and x1.dtype in (float32, float64)
    if is_plain and min(x1.ndim, x2.ndim) >= -axis and x1.shape[axis] == x2.shape[axis]:
        shape = x1.shape if x1.shape == x2.shape else np.broadcast_shapes(x1.shape, x2.shape)
        products = np.empty_like(x1, order="C", shape=shape)
        return _sum(np.multiply(x1, x2, out=products), axis=axis, out=out)
    return np.vecdot(x1, x2, axis=axis, out=out)


@declare(out=True)
def _mean(x, /, *, axis=None, keepdims=False, out=None):
    if x.dtype == float16 or not x.size or x.dtype.kind not in "fc":
        return _into(out, np.mean(x, axis=axis, keepdims=keepdims))
    total = _sum(x, axis=axis, keepdims=keepdims, out=out)
    total /= x.size // max(total.size, 1)
    return total


_var, _std = in_float32(np.var), in_float32(np.std)


@in_float32
def _prod(x, /, *, axis=None, dtype=None, keepdims=False):
    # Columns vectorise; in a product along memory each multiplication waits for the one before.
    if axis is None and x.size >= 4096 and x.flags.c_contiguous:
        whole = x.size // 1024 * 1024
        flat = x.reshape(-1)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            columns = np.multiply.reduce(flat[:whole].reshape(-1, 1024), 0, dtype)
            out = np.multiply.reduce(columns) * np.multiply.reduce(flat[whole:], None, dtype)
        if np.isfinite(out):  # else a partial product may have overflowed that others make up for
            return out.reshape((1,) * x.ndim) if keepdims else out
    return np.multiply.reduce(x, axis, dtype, None, keepdims)


def _accumulate(ufunc, x, /, *, axis, dtype=None, include_initial=False):
    if include_initial:
        lead = (slice(None),) * (axis % x.ndim)
        shape = list(x.shape)
        shape[axis] += 1
        whole = np.empty(shape, dtype or ufunc.reduce(x[:0], None).dtype)
        whole[*lead, 0] = ufunc.identity
        ufunc.accumulate(x, axis, dtype, out=whole[*lead, 1:])
        return whole
    if x.size > 4096 and (dtype is None or dtype == x.dtype) and x.dtype in (float32, float64):
        if axis in (-1, x.ndim - 1):
            out = _cumulative_sum_by_matmul(x) if ufunc is np.add else None
            if out is not None:
                return out
        elif math.prod(x.shape[axis % x.ndim + 1 :]) >= 256:
            return _accumulate_rows(ufunc, x, axis)
    return ufunc.accumulate(x, axis, dtype)


_cumulative_sum = in_float32(partial(_accumulate, np.add))
_cumulative_prod = in_float32(partial(_accumulate, np.multiply))

_SIXTEEN = {dtype: np.triu(np.ones((16, 16), dtype)) for dtype in (float32, float64)}


def _cumulative_sum_by_matmul(x):
    """Cumulative sums along the last axis; None if it is too short or has an inf or nan.

    In numpy.add.accumulate each addition waits for the one before; multiplying rows of 16 by a
    triangular matrix of ones is 4 times faster. The matrix's zeros would spread an inf or nan
    within its row, which makes the last sum infinite or nan too.
    """
    length = x.shape[-1]
    whole = length // 16 * 16
    if whole < 256:
        return None
    rows = x[..., :whole].reshape(*x.shape[:-1], whole // 16, 16)
    sums = np.empty(rows.shape, x.dtype)
    for start in range(0, whole // 16, 1024):  # so few rows that BLAS does not start threads
        some = (..., slice(start, start + 1024), slice(None))
        np.matmul(rows[some], _SIXTEEN[x.dtype], sums[some])
    sums[..., 1:, :] += np.add.accumulate(sums[..., :-1, -1], -1)[..., None]
    if not np.isfinite(sums[..., -1, -1]).all():
        return None
    sums = sums.reshape(*x.shape[:-1], whole)
    if whole == length:
        return sums
    rest = np.add.accumulate(x[..., whole:], -1)
    rest += sums[..., -1:]
    return np.concatenate([sums, rest], -1)


def _accumulate_rows(ufunc, x, axis):
    """Accumulate along an axis whose slices are long, so that operations on them vectorise."""
    out = np.empty(x.shape, x.dtype)
    results, slices = np.moveaxis(out, axis, 0), np.moveaxis(x, axis, 0)
    results[0] = slices[0]
    for i in range(1, len(slices)):
        ufunc(results[i - 1], slices[i], results[i])
    return out


def _sort(x, /, *, axis=-1, descending=False, stable=True):
    # Equal values are interchangeable, so the fastest sort, which is not stable, is right too.
    out = x.copy()
    out.sort(axis)
    return np.flip(out, axis) if descending else out


def _argsort(x, /, *, axis=-1, descending=False, stable=True):
    if not descending:
        return x.argsort(axis, stable=stable)
    # Sorting the reversed array ascending and reversing the result keeps equal elements in order.
    order = np.flip(x, axis).argsort(axis, stable=stable)
    return x.shape[axis] - 1 - np.flip(order, axis)


def _unique_values(x, /):  # numpy.unique_values returns them unordered
    return np.unique(x, equal_nan=False)


def _reshape(x, /, shape, *, copy=None):
    out = x.reshape(shape)
    if copy is None or copy != np.may_share_memory(x, out):
        return out
    if copy:
        return out.copy()
    raise ValueError("these strides need a copy, but copy is False")


def _permute_dims(x, /, axes):
    return x.transpose(axes)


def _matrix_transpose(x, /):
    return x.swapaxes(-1, -2)


def _expand_dims(x, /, *, axis=0):
    place = axis + x.ndim + 1 if type(axis) is int and axis < 0 else axis
    if type(place) is not int or not 0 <= place <= x.ndim:
        return np.expand_dims(x, axis)
    return x.reshape(*x.shape[:place], 1, *x.shape[place:])


def _squeeze(x, /, axis):
    return x.squeeze(axis)


def _unstack(x, /, *, axis=0):  # new in NumPy 2.1
    return tuple(x if axis == 0 else np.moveaxis(x, axis, 0))


# numpy.stack, roll and take_along_axis each spend 1 to 3 µs in Python.


def _steps_of_stack(arrays, /, *, axis=0, out):
    pairs = zip(np.split(out, len(arrays), axis), arrays, strict=True)
    return [partial(np.copyto, part, x.reshape(part.shape)) for part, x in pairs]


@declare(steps=_steps_of_stack)
def _stack(arrays, /, *, axis=0):
    ndim = arrays[0].ndim + 1
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of range for {ndim} axes")
    new = (slice(None),) * (axis % ndim) + (None,)
    return xp.concat([x[new] for x in arrays], axis=axis)


def _roll(x, /, shift, axis=None):
    if axis is None:
        return _roll(x.reshape(-1), shift, 0).reshape(x.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    for by, a in zip(shifts, axes, strict=True):
        if by := by % max(x.shape[a], 1):
            before = (slice(None),) * (a % x.ndim)
            x = xp.concat([x[*before, -by:], x[*before, :-by]], axis=a)
    return x


@declare(fails=True)
def _take(x, indices, /, *, axis):
    return x.take(indices, axis)


@declare(fails=True)
def _take_along_axis(x, indices, /, *, axis=-1):
    if x.ndim > 1 and indices.size < 4096:  # for more, NumPy's takes twice the time
        return np.take_along_axis(x, indices, axis)
    return x.reshape(-1).take(places_along(x.shape, indices, axis))


def places_along(shape, indices, axis):
    """The places of elements at ``indices``, which broadcast, in the flattened array."""
    if indices.ndim != len(shape):
        raise ValueError(f"indices have {indices.ndim} axes, not {len(shape)}")
    if indices.dtype.kind not in "iu":
        raise IndexError(f"indices must be integers, not {indices.dtype}")
    axis = normalize_axis_index(axis, len(shape))
    if len(shape) == 1:
        return indices
    lead, length, tail = shape[:axis], shape[axis], shape[axis + 1 :]
    step = math.prod(tail)
    firsts = (np.arange(math.prod(lead)) * (length * step))[:, None] + np.arange(step)
    # `take` counts negative indices from the end and raises for indices out of range.
    return firsts.reshape(*lead, 1, *tail) + (np.arange(length) * step).take(indices)


@declare(out=True, elementwise=True)
def _astype(x, dtype, /, *, copy=True, device=None, out=None):
    return x.astype(dtype, copy=copy) if out is None else _into(out, x)


@declare(out=True, elementwise=True)
def duplicate(x, /, out=None):
    """A copy with the same order in memory."""
    if out is None:
        return x.copy("K")
    np.copyto(out, x)
    return out


@declare(out=True, elementwise=True)
def in_c_order(x, /, out=None):
    return np.array(x, order="C") if out is None else _into(out, x)


def _broadcast_to(x, /, shape):
    # Like numpy.broadcast_to, at two thirds of its cost.
    if type(x) is not np.ndarray or not x.flags.c_contiguous:
        return np.broadcast_to(x, shape)
    lead = len(shape) - x.ndim
    steps = [0] * lead
    for n, m, step in zip(x.shape, shape[max(lead, 0) :], x.strides, strict=False):
        if n == m:
            steps.append(step)
        elif n == 1 and m >= 0:
            steps.append(0)
    if len(steps) < len(shape) or lead < 0:
        return np.broadcast_to(x, shape)  # raises an error that names the shapes
    out = np.ndarray(shape, x.dtype, x, 0, steps)
    out.flags.writeable = False
    return out


@declare(out=True)
def _matmul(x1, x2, /, out=None):
    if x1.dtype.char == "e" and x2.dtype == x1.dtype:  # BLAS has no float16
        product = _matmul(x1.astype(float32), x2.astype(float32))
        return np.asarray(product).astype(float16) if out is None else _into(out, product)
    if x1.ndim > 1 < x2.ndim:
        if x1.shape[-1] == x2.shape[-2] == 1:
            # In BLAS, the sign of zeros would depend on the processor and the shape.
            if out is not None:
                return np.multiply(x1, x2, out)
            product = outer_product(x1, x2) if x1.size * x2.size >= FEW else None
            return x1 * x2 if product is None else product
        # A single product of all rows takes half the time of one for each matrix. In the gradient
        # by a weight that all examples share, vmap repeats a matrix without copies.
        if x1.ndim > 2 == x2.ndim:
            one = x1.flags.c_contiguous and x1.shape[-1] == x2.shape[0]
        else:
            one = x2.ndim > 2 and not any(x2.strides[:-2]) and x2.size
            one = one and x1.shape[:-2] == x2.shape[:-2]
        if one:
            rows = x1.reshape(math.prod(x1.shape[:-1]), x1.shape[-1])
            target = None if out is None else out.reshape(rows.shape[0], x2.shape[-1])
            product = product_of(x1, x2)(rows, x2[(0,) * (x2.ndim - 2)], target)
            return product.reshape(*x1.shape[:-1], x2.shape[-1]) if out is None else out
    if x1.size > SMALL or x2.size > SMALL:
        return _large_product(x1, x2, out)
    return np.matmul(x1, x2) if out is None else np.matmul(x1, x2, out)


@declare(out=True, elementwise=True, fails=are_integers)
def power(x1, x2, /, out=None):
    """``x1 ** x2``, without NumPy's power for many numbers and most small exponents.

    NumPy's takes up to 100 times as long as a few products, above all for negative bases. The
    results differ by less than 2 units in the last place from the exact ones.
    """
    if type(x2) in (int, float) and (x2 == 3 or x1.size > MANY) and x1.dtype in (float32, float64):
        return _power_by_products(x1, x2, out)
    return x1**x2 if out is None else _into(out, x1**x2)


multiply = np.multiply
OF_POWERS = {2: np.square, -1: np.reciprocal, 0.5: np.sqrt}
MANY = 256  # bases, so that calls of several functions take less time than NumPy's power


def _power_by_products(x, n, out):
    if n in OF_POWERS:
        return OF_POWERS[n](x, out)
    if n == 3:
        return multiply(multiply(x, x), x, out)
    if n == 4:
        square = np.square(x, out)
        return multiply(square, square, square)
    if n == -2:  # not the reciprocal of the square, which would overflow or underflow too early
        inverse = np.reciprocal(x, out)
        return multiply(inverse, inverse, inverse)
    if n not in (0, 1) and -1024 < n < 1024 and n == int(n):
        # The result may be written over x, whose signs are needed afterwards.
        size = np.power(np.abs(x), n, out if n % 2 == 0 else None)
        return np.copysign(size, x, size if out is None else out) if n % 2 else size
    if n in (-1.5, -0.5, 1.5) and x.size > 4096 and x.min() >= 0:  # else -inf may be among them
        root = np.sqrt(x)
        if n == 1.5:
            return multiply(root, x, root if out is None else out)
        if n == -1.5:
            return np.divide(np.reciprocal(root, root), x, root if out is None else out)
        # The result for -0 is inf, not -inf.
        return np.reciprocal(np.abs(root, root), root if out is None else out)
    return x**n if out is None else _into(out, x**n)


_bits_of = {float16: np.int16, float32: np.int32, float64: np.int64}


@declare(out=True, elementwise=True)
def _where(condition, x1, x2, /, out=None):
    # numpy.where branches at every element, and takes no memory for its result. For a large mask
    # without a pattern, such as relu's, arithmetic on the bits takes a tenth of the time.
    like = x1 if isinstance(x1, np.ndarray) else x2
    if (
        isinstance(like, np.ndarray)
        and isinstance(condition, np.ndarray)
        and (max(condition.size, like.size) > 256 if out is None else out.dtype == like.dtype)
        and like.dtype in _bits_of
        and condition.dtype == bool_
        and ((is_whole := condition.shape == like.shape) or _repeats_one(condition, like))
    ):
        has_all = condition.size >= like.size  # else a cast beforehand takes less time
        mask = condition.view(np.int8) if has_all else condition.astype(_bits_of[like.dtype])
        b1, b2 = _bits(x1, like), _bits(x2, like)
        result = out
        if out is None:  # a view would have to be copied to be a leaf's gradient
            # In the order of axes in memory that numpy.where gives it.
            order = "C" if is_whole and condition.flags.c_contiguous else "K"
            if is_whole or not has_all:
                result = np.empty_like(like, order=order)
            else:
                result = np.empty(condition.shape, like.dtype)
        bits = result.view(_bits_of[like.dtype])
        if b2 is _ZERO and b1 is not None:
            np.multiply(b1, mask, bits)
            return result
        if b1 is _ZERO and b2 is not None:
            np.multiply(b2, mask ^ 1, bits)
            return result
        is_large = is_whole and (like.size > 4096 or out is not None)
        if is_large and b1 is not None and b2 is not None:
            found = np.bitwise_xor(b1, b2, bits if out is None else None)
            found *= mask
            np.bitwise_xor(found, b2, bits)
            return result
    return _into(out, np.where(condition, x1, x2))


def _repeats_one(x, y):
    """Whether broadcasting repeats one of two arrays, and the other has the shape of the result."""
    if x.ndim != y.ndim:
        return False
    small, large = (x.shape, y.shape) if x.size < y.size else (y.shape, x.shape)
    return all(n in (1, m) for n, m in zip(small, large, strict=True))


_ZERO = np.int8(0)


def _bits(x, like):
    """The bits, as integers, of a number or an array with ``like``'s shape and dtype; or None."""
    if x is like:
        return x.view(_bits_of[like.dtype])
    if type(x) is float or type(x) is int:
        if x == 0 and math.copysign(1, x) > 0:
            return _ZERO
        return like.dtype.type(x).view(_bits_of[like.dtype]) or _ZERO
    if isinstance(x, np.ndarray) and x.dtype == like.dtype and x.shape == like.shape:
        return x.view(_bits_of[like.dtype])
    return None


def _logaddexp(x1, x2, /):
    # For more than a few elements, these vectorised functions take a tenth of NumPy's time.
    out = np.maximum(x1, x2)
    if out.size < 256 or out.dtype not in (float32, float64):
        return np.logaddexp(x1, x2)
    with np.errstate(invalid="ignore"):
        below = np.minimum(x1, x2) - out
    below = np.fmin(below, 0, out=below)  # the difference of equal infinities is nan
    out += np.log1p(np.exp(below, out=below), out=below)
    return out


@declare(fails=has_array(2))
def _scatter_add(values, /, shape, key):
    out = np.zeros(shape, values.dtype)
    keys = key if type(key) is tuple else (key,)
    if any(isinstance(k, np.ndarray) and k.dtype != bool_ for k in keys):  # places may repeat
        places = np.arange(out.size).reshape(shape)[key]
        add_at(out, places, np.broadcast_to(values, places.shape))
    else:
        out[key] = values
    return out


def add_at(out, places, values):
    if out.dtype == float16:
        wide = np.zeros(out.shape, float32)
        add_at(wide, places, values)
        out[...] = wide
        return
    # A flat index is five times faster than any other.
    np.add.at(out.reshape(-1), places.reshape(-1), values.reshape(-1))


@declare(out=True, fails=True, check=lambda args, kwargs: (check_labels, args))
def _one_hot(labels, /, n, out=None):
    check_labels(labels, n)
    dtype = np.min_scalar_type(n)  # the narrower, the more elements are compared at a time
    return np.equal(labels.astype(dtype)[..., None], np.arange(n, dtype=dtype), out)


def check_labels(labels, n):
    """Raise IndexError for labels outside [0, n)."""
    if type(labels) is Noted:
        labels.note(check_labels, labels, n)
    elif labels.size and not _are_labels(labels, n):
        raise IndexError(
            f"labels must be from 0 to {n - 1}, but go from {labels.min()} to {labels.max()}"
        )


def _are_labels(labels, n):
    if (unsigned := _UNSIGNED.get(labels.dtype)) is None:
        return 0 <= labels.min() and labels.max() < n
    # For few labels, one reduction takes a third of the time of two comparisons. As an unsigned
    # integer, a negative label is very large.
    return np.maximum.reduce(labels.view(unsigned), None) < n


_UNSIGNED = {np.dtype(f"{kind}{k}"): np.dtype(f"u{k}") for k in (1, 2, 4, 8) for kind in "iu"}


@declare(
    out=True, fails=True, check=lambda args, kwargs: (check_labels, (args[1], args[0].shape[-1]))
)
def pick(x, labels, /, out=None):
    """The elements (...) of ``x`` (..., n) at labels (...)."""
    check_labels(labels, x.shape[-1])
    if out is not None and x.flags.c_contiguous and np.can_cast(labels.dtype, np.intp):
        firsts = np.arange(0, x.size, x.shape[-1]).reshape(labels.shape)
        # The places are known to be in range.
        return x.reshape(-1).take(np.add(labels, firsts), None, out, "clip")
    rows = x.reshape(labels.size, x.shape[-1])
    picked = rows[np.arange(labels.size), labels.reshape(-1)].reshape(labels.shape)
    return picked if out is None else _into(out, picked)


@declare(aliases=True, steps=lambda c, g, /, out: [partial(_zero_discarded_nans, c, g, out)])
def _zero_discarded_nans(c, g, /):
    if c is g:  # where it is 0 it is not nan
        return c
    if c.size > 8192 or c.dtype == float16:
        found = type(c) is Noted or np.isnan(c).any()
    else:
        # This takes a third of the time and does not warn about infinities as a sum would. But it
        # overflows in float16, and for many elements BLAS would start threads, which are slow on a
        # busy machine.
        total = np.vdot(c, c)
        found = total != total
    return _where(np.isnan(c) & (g == 0), 0, c) if found else c


def _keep_integers(rounded):
    return lambda x, /: rounded(x) if x.dtype.kind == "f" else x.copy()


def _conj(x, /):
    return np.conjugate(x) if x.dtype.kind == "c" else x


# The functions of `xp` that are defined above, each under its name with an underscore in front.
_DEFINED = """
    sum maximum minimum max min mean var std prod cumulative_sum cumulative_prod sort argsort
    unique_values reshape permute_dims matrix_transpose expand_dims squeeze unstack stack roll
    take take_along_axis astype broadcast_to matmul where logaddexp scatter_add one_hot
    zero_discarded_nans conj vecdot
""".split()


def _in_single_precision(transform):
    """Make a Fourier transform compute float16 in float32, as the factor 1 / n may be 0 there."""

    @wraps(transform)
    def call(x, /, **options):
        return transform(x.astype(float32) if x.dtype == float16 else x, **options)

    return call


def _imported(name):
    value = getattr(np, name)
    if name == "fft":
        value = ModuleType("gpugrad.backends.numpy.fft")
        vars(value).update(vars(np.fft))
        for transform in COMPLEX_TRANSFORMS + REAL_TRANSFORMS:
            setattr(value, transform, _in_single_precision(getattr(np.fft, transform)))
    setattr(xp, name, value)
    return value


xp: Any = ModuleType("gpugrad.backends.numpy.xp", "NumPy's namespace as ops use it.")
vars(xp).update({name: value for name, value in vars(np).items() if not name.startswith("__")})
vars(xp).update(
    __getattr__=_imported,  # for numpy.fft, which NumPy itself imports when first used
    linalg=linalg, finfo=finfo(np.finfo), isdtype=isdtype(np.isdtype),
    result_type=result_type(np.result_type),
)  # fmt: skip
vars(xp).update({name: globals()[f"_{name}"] for name in _DEFINED})
if np.ceil(np.int8(0)).dtype.kind == "f":  # NumPy before 2.1 rounds integers to floats
    for _name in ("ceil", "floor", "trunc"):
        setattr(xp, _name, _keep_integers(getattr(np, _name)))


def _look_at_sizes():
    """Have joins and zeros be divided among threads once there has been a large array."""
    if library.has_large:
        from . import large as source  # here, since few programs have large arrays
    else:
        source = np
    xp.concat, xp.zeros_like = source.concat, source.zeros_like


on_change.append(_look_at_sizes)

# NumPy's own functions in the namespace that may raise errors because of values.
_FALLIBLE = """
    asarray_chkfinite bincount busday_count busday_offset choose compress delete digitize geomspace
    histogram histogram2d histogram_bin_edges histogramdd insert interp is_busday nanargmax
    nanargmin nanpercentile nanquantile percentile piecewise poly polyfit put put_along_axis
    quantile ravel_multi_index roots select unravel_index
""".split()
for _name in _FALLIBLE:
    declare(getattr(np, _name), fails=True)
declare(np.repeat, fails=has_array(1))
