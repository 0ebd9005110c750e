"""Sums, means, extrema and statistics along axes; sorting."""

import math

from .._arguments import is_floating
from .._tensor import Tensor
from ._table import flat, floating, gg, is_complex, numpy, of_numpy, tensor, tensors


def _masked(a, where, value):
    """``a`` with ``value`` in place of the elements that ``where``, a mask or True, leaves out."""
    if where is True:
        return a
    a = tensor(a)
    return gg.where(tensor(where, a), a, bool(value) if gg.isdtype(a.dtype, "bool") else value)


def _like(initial, result):
    """The argument ``initial`` of a reduction, in the dtype of its result."""
    return gg.astype(tensor(initial, result), result.dtype)


@of_numpy(reduction=gg.sum)
def sum(a, axis=None, dtype=None, *, keepdims=False, initial=None, where=True):
    total = gg.sum(_masked(a, where, 0), axis, dtype=dtype, keepdims=keepdims)
    return total if initial is None else total + _like(initial, total)


@of_numpy(reduction=gg.prod)
def prod(a, axis=None, dtype=None, *, keepdims=False, initial=None, where=True):
    product = gg.prod(_masked(a, where, 1), axis, dtype=dtype, keepdims=keepdims)
    return product if initial is None else product * _like(initial, product)


@of_numpy(reduction=gg.mean)
def mean(a, axis=None, dtype=None, *, keepdims=False, where=True):
    a = floating(a) if dtype is None else gg.astype(tensor(a), dtype)
    if where is True:
        return gg.mean(a, axis, keepdims=keepdims)
    where = gg.broadcast_to(tensor(where, a), a.shape)
    count = gg.count_nonzero(where, axis=axis, keepdims=keepdims)
    return sum(a, axis, keepdims=keepdims, where=where) / gg.astype(count, a.dtype)


@of_numpy(reduction=gg.var)
def var(a, axis=None, dtype=None, *, ddof=0, keepdims=False, where=True, correction=None):
    a = floating(a) if dtype is None else gg.astype(tensor(a), dtype)
    correction = ddof if correction is None else correction
    if where is not True:
        total, freedom = _squares(a, tensor(where, a), axis, correction, keepdims)
        return total / gg.maximum(freedom, 0)
    return gg.var(a, axis, correction=correction, keepdims=keepdims)


@of_numpy(reduction=gg.std)
def std(a, axis=None, dtype=None, *, ddof=0, keepdims=False, where=True, correction=None):
    a = floating(a) if dtype is None else gg.astype(tensor(a), dtype)
    correction = ddof if correction is None else correction
    if where is not True:
        return _root(var(a, axis, ddof=correction, keepdims=keepdims, where=where))
    return gg.std(a, axis, correction=correction, keepdims=keepdims)


def _root(variance):
    """The square root of a variance; its gradient at 0 is 0, as that of `gpugrad.std`."""
    zero = variance == 0
    return gg.where(zero, 0.0, gg.sqrt(gg.where(zero, 1.0, variance)))


def _squares(a, chosen, axis, ddof, keepdims):
    """The sum of the squared deviations of the elements that a mask chooses; their freedom."""
    chosen = gg.broadcast_to(chosen, a.shape)
    count = gg.astype(gg.count_nonzero(chosen, axis=axis, keepdims=True), gg.real(a).dtype)
    mean = gg.sum(gg.where(chosen, a, 0), axis, keepdims=True) / count
    deviation = gg.where(chosen, a - mean, 0)
    squares = gg.real(deviation * gg.conj(deviation)) if is_complex(a) else deviation**2
    total = gg.sum(squares, axis, keepdims=keepdims)
    return total, gg.reshape(count - ddof, total.shape)


@of_numpy("max", "amax", reduction=gg.max)
def max(a, axis=None, *, keepdims=False, initial=None, where=True):
    return _extremum(gg.max, gg.maximum, a, axis, keepdims, initial, where)


@of_numpy("min", "amin", reduction=gg.min)
def min(a, axis=None, *, keepdims=False, initial=None, where=True):
    return _extremum(gg.min, gg.minimum, a, axis, keepdims, initial, where)


def _extremum(reduce, combine, a, axis, keepdims, initial, where):
    if where is not True:
        if initial is None:
            raise ValueError(
                "reduction operation has no identity, so to use a where mask one has "
                "to specify 'initial'"
            )
        a = gg.where(tensor(where, a), tensor(a), _like(initial, a))
    if initial is None:
        return reduce(a, axis, keepdims=keepdims)
    if not a.size:
        return gg.zeros_like(gg.sum(a, axis, keepdims=keepdims), dtype=a.dtype) + _like(initial, a)
    return combine(reduce(a, axis, keepdims=keepdims), _like(initial, a))


@of_numpy()
def ptp(a, axis=None, *, keepdims=False):
    return gg.max(a, axis, keepdims=keepdims) - gg.min(a, axis, keepdims=keepdims)


@of_numpy()
def all(a, axis=None, *, keepdims=False, where=True):
    return gg.all(_masked(a, where, 1), axis, keepdims=keepdims)


@of_numpy()
def any(a, axis=None, *, keepdims=False, where=True):
    return gg.any(_masked(a, where, 0), axis, keepdims=keepdims)


@of_numpy()
def count_nonzero(a, axis=None, *, keepdims=False):
    return gg.count_nonzero(a, axis, keepdims=keepdims)


@of_numpy()
def argmax(a, axis=None, *, keepdims=False):
    return gg.argmax(a, axis, keepdims=keepdims)


@of_numpy()
def argmin(a, axis=None, *, keepdims=False):
    return gg.argmin(a, axis, keepdims=keepdims)


def _flat(a, axis):
    """``a`` and the axis; for None, the elements in row-major order and their only axis."""
    return (flat(a), 0) if axis is None else (a, axis)


@of_numpy()
def cumsum(a, axis=None, dtype=None):
    a, axis = _flat(a, axis)
    return gg.cumulative_sum(a, axis=axis, dtype=dtype)


@of_numpy()
def cumprod(a, axis=None, dtype=None):
    a, axis = _flat(a, axis)
    return gg.cumulative_prod(a, axis=axis, dtype=dtype)


@of_numpy()
def cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False):
    return gg.cumulative_sum(x, axis=axis, dtype=dtype, include_initial=include_initial)


@of_numpy()
def cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False):
    return gg.cumulative_prod(x, axis=axis, dtype=dtype, include_initial=include_initial)


# Those that leave out nan


def _without_nan(a, value):
    return gg.where(gg.isnan(a), value, a)


@of_numpy()
def nansum(a, axis=None, dtype=None, *, keepdims=False):
    return gg.sum(_without_nan(a, 0), axis, dtype=dtype, keepdims=keepdims)


@of_numpy()
def nanprod(a, axis=None, dtype=None, *, keepdims=False):
    return gg.prod(_without_nan(a, 1), axis, dtype=dtype, keepdims=keepdims)


@of_numpy()
def nancumsum(a, axis=None, dtype=None):
    return cumsum(_without_nan(a, 0), axis, dtype)


@of_numpy()
def nancumprod(a, axis=None, dtype=None):
    return cumprod(_without_nan(a, 1), axis, dtype)


def _count(a, axis, keepdims):
    count = gg.count_nonzero(~gg.isnan(a), axis=axis, keepdims=keepdims)
    return gg.astype(count, gg.real(a).dtype)


@of_numpy()
def nanmean(a, axis=None, dtype=None, *, keepdims=False):
    a = floating(a) if dtype is None else gg.astype(a, dtype)
    return nansum(a, axis, keepdims=keepdims) / _count(a, axis, keepdims)


@of_numpy()
def nanvar(a, axis=None, dtype=None, *, ddof=0, keepdims=False):
    a = floating(a) if dtype is None else gg.astype(a, dtype)
    total, freedom = _squares(a, ~gg.isnan(a), axis, ddof, keepdims)
    return total / gg.where(freedom > 0, freedom, math.nan)


@of_numpy()
def nanstd(a, axis=None, dtype=None, *, ddof=0, keepdims=False):
    return _root(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims))


@of_numpy()
def nanmax(a, axis=None, *, keepdims=False):
    if not is_floating(a):
        return gg.max(a, axis, keepdims=keepdims)
    found = gg.max(_without_nan(a, -math.inf), axis, keepdims=keepdims)
    return gg.where(_count(a, axis, keepdims) > 0, found, math.nan)


@of_numpy()
def nanmin(a, axis=None, *, keepdims=False):
    if not is_floating(a):
        return gg.min(a, axis, keepdims=keepdims)
    found = gg.min(_without_nan(a, math.inf), axis, keepdims=keepdims)
    return gg.where(_count(a, axis, keepdims) > 0, found, math.nan)


# Statistics


@of_numpy()
def average(a, axis=None, weights=None, returned=False, *, keepdims=False):
    a = floating(a, weights if isinstance(weights, Tensor) else None)
    if weights is None:
        mean = gg.mean(a, axis, keepdims=keepdims)
        total = gg.full_like(mean, a.size / numpy.maximum(mean.size, 1))
    else:
        weights = tensor(weights, a)
        if weights.shape != a.shape:
            if axis is None:
                raise TypeError("Axis must be specified when shapes of a and weights differ.")
            axes = axis if isinstance(axis, tuple) else (axis,)
            axes = [place % a.ndim for place in axes]
            order = sorted(range(len(axes)), key=axes.__getitem__)
            weights = gg.permute_dims(weights, tuple(order))
            weights = gg.reshape(
                weights, tuple([n if i in axes else 1 for i, n in enumerate(a.shape)])
            )
        weights = gg.broadcast_to(weights, a.shape)
        total = gg.sum(weights, axis, keepdims=keepdims)
        mean = gg.sum(a * weights, axis, keepdims=keepdims) / total
    return (mean, gg.astype(total, mean.dtype)) if returned else mean


def _quantile(a, q, axis, method, keepdims):
    a = floating(a)
    if isinstance(axis, (tuple, list)):
        axes = sorted({place % a.ndim for place in axis})
        rest = [i for i in range(a.ndim) if i not in axes]
        kept = tuple([1 if i in axes else n for i, n in enumerate(a.shape)])
        moved = gg.permute_dims(a, (*rest, *axes))
        length = math.prod([a.shape[i] for i in axes])
        flat = gg.reshape(moved, (*moved.shape[: len(rest)], length))
        found = _quantile(flat, q, -1, method, False)
        front = found.shape[: found.ndim - len(rest)]
        return gg.reshape(found, (*front, *kept)) if keepdims else found
    if isinstance(q, (int, float)):
        q = float(q)
    else:
        q = q if isinstance(q, Tensor) else numpy.asarray(q)
        a = gg.astype(a, gg.result_type(a.dtype, q.dtype), copy=False)
        if q.ndim > 1:
            found = _quantile(a, q.reshape(-1), axis, method, keepdims)
            return gg.reshape(found, q.shape + found.shape[1:])
        q = q if isinstance(q, Tensor) else q.tolist()
    return gg.quantile(a, q, axis, method=method, keepdims=keepdims)


@of_numpy()
def quantile(a, q, axis=None, *, method="linear", keepdims=False):
    return _quantile(a, q, axis, method, keepdims)


@of_numpy()
def percentile(a, q, axis=None, *, method="linear", keepdims=False):
    share = q / 100 if isinstance(q, Tensor) else numpy.true_divide(q, 100)
    return _quantile(a, share, axis, method, keepdims)


@of_numpy()
def median(a, axis=None, *, keepdims=False):
    a = floating(a)
    if not a.size:  # nan, as the mean is
        return gg.mean(a, axis, keepdims=keepdims)
    return _quantile(a, 0.5, axis, "linear", keepdims)


@of_numpy()
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    m = _as_rows("m", floating(m))
    m = m if rowvar or m.shape[0] == 1 else gg.matrix_transpose(m)
    if y is not None:
        y = _as_rows("y", floating(y, m))
        m = gg.concat([m, y if rowvar or y.shape[0] == 1 else gg.matrix_transpose(y)])
    m = gg.astype(m, dtype or gg.result_type(m, gg.float64), copy=False)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            given = tensor(given, m)
            weights = given if weights is None else weights * given
    if weights is None:
        center, total = gg.mean(m, 1, keepdims=True), m.shape[1]
        freedom = total - ddof if total > ddof else 0.0
        weighted = m - center
    else:
        weights = gg.astype(weights, m.dtype)
        total = gg.sum(weights)
        center = gg.sum(m * weights, 1, keepdims=True) / total
        spread = total if aweights is None else gg.sum(weights * tensor(aweights, m)) / total
        freedom = total - ddof * spread if aweights is not None else total - ddof
        weighted = (m - center) * weights
    product = weighted @ gg.matrix_transpose(gg.conj(m - center) if is_complex(m) else m - center)
    result = product / freedom
    return squeezed(result)


def _as_rows(name, x):
    """``x`` as a matrix; a vector becomes its only row."""
    if x.ndim > 2:
        raise ValueError(f"cov: {name} has more than 2 dimensions: {x.shape}")
    return gg.reshape(x, (1, x.size)) if x.ndim < 2 else x


def squeezed(matrix):
    """A matrix of one element as a number, as NumPy returns it."""
    return gg.reshape(matrix, ()) if matrix.size == 1 else matrix


@of_numpy()
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    covariance = cov(tensor(x), y, rowvar, dtype=dtype)
    if not covariance.ndim:
        return covariance / covariance
    deviation = gg.sqrt(gg.real(gg.linalg.diagonal(covariance)))
    return covariance / deviation[:, None] / deviation[None, :]


# Sorting


@of_numpy()
def sort(a, axis=-1, kind=None, *, stable=None):
    a, axis = _flat(a, axis)
    return gg.sort(a, axis=axis)


@of_numpy()
def argsort(a, axis=-1, kind=None, *, stable=None):
    a, axis = _flat(a, axis)
    return gg.argsort(a, axis=axis)


@of_numpy()
def partition(a, kth, axis=-1):
    # Sorted elements are one of the orders that NumPy allows.
    return sort(a, axis)


@of_numpy()
def searchsorted(a, v, side="left", sorter=None):
    a, v = tensors(a, v)
    return gg.searchsorted(a, v, sorter, side=side)


@of_numpy()
def nonzero(a):
    return gg.nonzero(a)


@of_numpy()
def flatnonzero(a):
    return gg.nonzero(gg.reshape(a, (-1,)))[0]


@of_numpy()
def argwhere(a):
    return gg.argwhere(a)


@of_numpy()
def isin(element, test_elements, assume_unique=False, invert=False):
    return gg.isin(*tensors(element, test_elements), invert=invert)


@of_numpy()
def bincount(x, /, weights=None, minlength=0):
    weights = None if weights is None else gg.astype(tensor(weights), gg.float64)
    return gg.bincount(tensor(x), weights, minlength=minlength)


@of_numpy()
def unique(ar, return_index=False, return_inverse=False, return_counts=False):
    found = gg.unique_all(ar)
    missing = int(gg.count_nonzero(gg.isnan(found.values))) if is_floating(ar) else 0
    if missing > 1:  # NumPy counts them as one
        if return_index or return_inverse or return_counts:
            raise TypeError(
                "numpy.unique: with Tensors it gives no indices or counts if some values are nan"
            )
        return found.values[: 1 - missing]
    wanted = zip((True, return_index, return_inverse, return_counts), found, strict=True)
    results = tuple([x for wants, x in wanted if wants])
    return results if len(results) > 1 else results[0]


@of_numpy()
def unique_all(x):
    return gg.unique_all(x)


@of_numpy()
def unique_counts(x):
    return gg.unique_counts(x)


@of_numpy()
def unique_inverse(x):
    return gg.unique_inverse(x)


@of_numpy()
def unique_values(x):
    return gg.unique_values(x)


@of_numpy()
def union1d(ar1, ar2):
    both = [gg.reshape(x, (-1,)) for x in tensors(ar1, ar2)]
    return unique(gg.concat(both))


@of_numpy()
def intersect1d(ar1, ar2, assume_unique=False):
    ar1, ar2 = tensors(ar1, ar2)
    first = gg.unique_values(ar1)
    return first[gg.isin(first, ar2)]


@of_numpy()
def setdiff1d(ar1, ar2, assume_unique=False):
    ar1, ar2 = tensors(ar1, ar2)
    first = gg.reshape(ar1, (-1,)) if assume_unique else gg.unique_values(ar1)
    return first[gg.isin(first, ar2, invert=True)]


@of_numpy()
def setxor1d(ar1, ar2, assume_unique=False):
    ar1, ar2 = tensors(ar1, ar2)
    return gg.sort(gg.concat([setdiff1d(ar1, ar2), setdiff1d(ar2, ar1)]))


@of_numpy()
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return gg.isclose(*tensors(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan)


@of_numpy()
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(gg.allclose(*tensors(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan))
