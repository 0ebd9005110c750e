"""Sums, means, extrema and statistics along axes; sorting."""

import math
from functools import wraps

from .._arguments import is_complex, is_floating, require
from .._tensor import Tensor
from ..backends.numpy import library as numpy
from ._table import FUNCTIONS, enter, enter_functions, of_numpy
from ._tensors import along, axes_in, constant, either, flat, floating, gg, tensor, tensors


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


def _variance(a, axis, dtype, correction, keepdims, where, without_freedom=0.0):
    """The variance. Degrees of freedom that are not positive count as ``without_freedom``."""
    a = floating(a) if dtype is None else gg.astype(tensor(a), dtype)
    if where is True:
        return gg.var(a, axis, correction=correction, keepdims=keepdims)
    chosen = gg.broadcast_to(tensor(where, a), a.shape)
    count = gg.astype(gg.count_nonzero(chosen, axis=axis, keepdims=True), gg.real(a).dtype)
    mean = gg.sum(gg.where(chosen, a, 0), axis, keepdims=True) / count
    deviation = gg.where(chosen, a - mean, 0)
    squares = gg.real(deviation * gg.conj(deviation)) if is_complex(a) else deviation**2
    total = gg.sum(squares, axis, keepdims=keepdims)
    freedom = gg.reshape(count - correction, total.shape)
    return total / gg.where(freedom > 0, freedom, without_freedom)


@of_numpy(reduction=gg.var)
def var(a, axis=None, dtype=None, *, ddof=0, keepdims=False, where=True, correction=None):
    return _variance(a, axis, dtype, either(ddof or None, correction) or 0, keepdims, where)


@of_numpy(reduction=gg.std)
def std(a, axis=None, dtype=None, *, ddof=0, keepdims=False, where=True, correction=None):
    correction = either(ddof or None, correction) or 0
    if where is not True:
        return _root(_variance(a, axis, dtype, correction, keepdims, where))
    a = floating(a) if dtype is None else gg.astype(tensor(a), dtype)
    return gg.std(a, axis, correction=correction, keepdims=keepdims)


def _root(variance):
    """The square root of a variance; its gradient at 0 is 0, as that of `gpugrad.std`."""
    zero = variance == 0
    return gg.where(zero, 0.0, gg.sqrt(gg.where(zero, 1.0, variance)))


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


def _of_axes(op):
    return lambda a, axis=None, *, keepdims=False: op(a, axis, keepdims=keepdims)


def _where_true(op, value):
    def own(a, axis=None, *, keepdims=False, where=True):
        return op(_masked(a, where, value), axis, keepdims=keepdims)

    return own


enter({name: _of_axes(getattr(gg, name)) for name in ("argmax", "argmin", "count_nonzero")})
enter({"all": _where_true(gg.all, 1), "any": _where_true(gg.any, 0)})


def ptp(a, axis=None, *, keepdims=False):
    return gg.max(a, axis, keepdims=keepdims) - gg.min(a, axis, keepdims=keepdims)


def _along(op, a, axis, **given):
    """An op along an axis; for None, of the elements in row-major order."""
    a, axis = along(a, axis)
    return op(a, axis=axis, **given)


enter({
    "argsort": lambda a, axis=-1, kind=None, *, stable=None: _along(gg.argsort, a, axis),
    "cumprod": lambda a, axis=None, dtype=None: _along(gg.cumulative_prod, a, axis, dtype=dtype),
    "cumsum": lambda a, axis=None, dtype=None: _along(gg.cumulative_sum, a, axis, dtype=dtype),
    # NumPy allows any order of the elements on both sides of the k-th, so also the sorted one.
    "partition": lambda a, kth, axis=-1: _along(gg.sort, a, axis),
    "sort": lambda a, axis=-1, kind=None, *, stable=None: _along(gg.sort, a, axis),
    "intersect1d": lambda ar1, ar2, assume_unique=False: _members(*tensors(ar1, ar2)),
    "union1d": lambda ar1, ar2: unique(gg.concat([*map(flat, tensors(ar1, ar2))])),
    "nonzero": lambda a: gg.nonzero(a),
    "flatnonzero": lambda a: gg.nonzero(flat(a))[0],
    "argwhere": lambda a: gg.argwhere(a) if a.ndim else gg.argwhere(flat(a))[:, :0],
})  # fmt: skip


# Functions that leave out nan


def _is_number(a):
    return a == a


def _without_nan(name, in_place_of_nan):
    own = FUNCTIONS[name]

    @wraps(own)
    def of_numbers(a, *args, **keywords):
        return own(gg.where(gg.isnan(a), in_place_of_nan, a), *args, **keywords)

    return of_numbers


def _extremum_without_nan(op, least):
    def own(a, axis=None, *, keepdims=False):
        if not is_floating(a):
            return op(a, axis, keepdims=keepdims)
        found = op(gg.where(gg.isnan(a), least, a), axis, keepdims=keepdims)
        return gg.where(gg.any(_is_number(a), axis, keepdims=keepdims), found, math.nan)

    return own


enter({
    "nancumprod": _without_nan("cumprod", 1),
    "nancumsum": _without_nan("cumsum", 0),
    "nanprod": _without_nan("prod", 1),
    "nansum": _without_nan("sum", 0),
    "nanmax": _extremum_without_nan(gg.max, -math.inf),
    "nanmin": _extremum_without_nan(gg.min, math.inf),
})  # fmt: skip


def nanmean(a, axis=None, dtype=None, *, keepdims=False):
    return mean(a, axis, dtype, keepdims=keepdims, where=_is_number(a))


def nanvar(a, axis=None, dtype=None, *, ddof=0, keepdims=False):
    return _variance(a, axis, dtype, ddof, keepdims, _is_number(a), math.nan)


def nanstd(a, axis=None, dtype=None, *, ddof=0, keepdims=False):
    return _root(_variance(a, axis, dtype, ddof, keepdims, _is_number(a), math.nan))


# Statistics


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
            axes = axes_in(axis, a.ndim)
            order = sorted(range(len(axes)), key=axes.__getitem__)
            weights = gg.permute_dims(weights, tuple(order))
            weights = gg.expand_dims(weights, tuple([i for i in range(a.ndim) if i not in axes]))
        weights = gg.broadcast_to(weights, a.shape)
        total = gg.sum(weights, axis, keepdims=keepdims)
        mean = gg.sum(a * weights, axis, keepdims=keepdims) / total
    return (mean, gg.astype(total, mean.dtype)) if returned else mean


def _quantile(of_rows, a, q, axis, method, keepdims):
    """Quantiles along one or more axes by a function of rows, which are along the first axis."""
    a = floating(a)
    is_number = isinstance(q, (int, float))
    if not is_number:
        q = q if isinstance(q, Tensor) else numpy.asarray(q)
        a = gg.astype(a, gg.result_type(a.dtype, q.dtype), copy=False)
    chosen = axes_in(axis, a.ndim)
    rest = [i for i in range(a.ndim) if i not in chosen]
    shape = [a.shape[i] for i in rest]
    length = math.prod([a.shape[i] for i in chosen])
    rows = gg.reshape(gg.permute_dims(a, (*chosen, *rest)), (length, *shape))
    if is_number:
        found, front = of_rows(rows, float(q), method), ()
    else:
        numbers = q.reshape(-1) if isinstance(q, Tensor) else q.reshape(-1).tolist()
        found, front = of_rows(rows, numbers, method), q.shape
    kept = [1 if i in chosen else n for i, n in enumerate(a.shape)]
    return gg.reshape(found, (*front, *(kept if keepdims else shape)))


def _of_all(rows, q, method):
    return gg.quantile(rows, q, 0, method=method)


def _of_numbers(rows, q, method):
    """`_of_all` of the elements that are not nan; nan where there are none."""
    if method != "linear":
        raise TypeError(f"numpy.nanquantile: with Tensors method is 'linear', not {method!r}")
    if not rows.shape[0]:
        rows = gg.full((1, *rows.shape[1:]), math.nan, dtype=rows.dtype)
    if not isinstance(q, Tensor):
        numbers = numpy.asarray(q, dtype="float64")
        require(((numbers >= 0) & (numbers <= 1)).all(), "quantile: q must be from 0 to 1", q)
        q = constant(numbers, rows)
    is_number = _is_number(rows)
    count = gg.count_nonzero(is_number, axis=0)
    last = gg.maximum(count - 1, 0)
    ordered = gg.sort(gg.where(is_number, rows, math.inf), axis=0)
    q = gg.reshape(q, (-1, *[1] * count.ndim))
    place = q * gg.astype(last, gg.float64)  # also where 16 bits cannot count the elements
    below = gg.astype(gg.floor(place), last.dtype)
    low = gg.take_along_axis(ordered, below, axis=0)
    high = gg.take_along_axis(ordered, gg.minimum(below + 1, last), axis=0)
    share = gg.astype(place - gg.astype(below, gg.float64), rows.dtype)
    differ = gg.isfinite(high - low) | ((share > 0) & (low != high))
    return gg.where(count > 0, low + gg.where(differ, (high - low) * share, 0.0), math.nan)


def _quantiles(of_rows):
    """Functions for quantiles, percentiles and the median by a function of rows."""

    def quantile(a, q, axis=None, *, method="linear", keepdims=False):
        return _quantile(of_rows, a, q, axis, method, keepdims)

    def percentile(a, q, axis=None, *, method="linear", keepdims=False):
        share = q / 100 if isinstance(q, Tensor) else numpy.true_divide(q, 100)
        return _quantile(of_rows, a, share, axis, method, keepdims)

    def median(a, axis=None, *, keepdims=False):
        a = floating(a)
        if not a.size:  # nan, as the mean is
            return gg.mean(a, axis, keepdims=keepdims)
        return _quantile(of_rows, a, 0.5, axis, "linear", keepdims)

    return quantile, percentile, median


for _prefix, _of_rows in ("", _of_all), ("nan", _of_numbers):
    _names = [_prefix + name for name in ("quantile", "percentile", "median")]
    enter(dict(zip(_names, _quantiles(_of_rows), strict=True)))


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    m = _as_variables("m", floating(m), rowvar)
    if y is not None:
        m = gg.concat([m, _as_variables("y", floating(y, m), rowvar)])
    m = gg.astype(m, dtype or gg.result_type(m, gg.float64), copy=False)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = [tensor(x, m) for x in (fweights, aweights) if x is not None]
    if not weights:
        center, total = gg.mean(m, 1, keepdims=True), m.shape[1]
        freedom = total - ddof if total > ddof else 0.0
        weighted = m - center
    else:
        weights = gg.astype(math.prod(weights), m.dtype)
        total = gg.sum(weights)
        center = gg.sum(m * weights, 1, keepdims=True) / total
        spread = total if aweights is None else gg.sum(weights * tensor(aweights, m)) / total
        freedom = total - ddof * spread if aweights is not None else total - ddof
        weighted = (m - center) * weights
    product = weighted @ gg.matrix_transpose(gg.conj(m - center) if is_complex(m) else m - center)
    return gg.reshape(product / freedom, ()) if product.size == 1 else product / freedom


def _as_variables(name, x, rowvar):
    """``x`` as a matrix with a row for each variable; a vector is one variable."""
    if x.ndim > 2:
        raise ValueError(f"cov: {name} has more than 2 dimensions: {x.shape}")
    x = gg.reshape(x, (1, x.size)) if x.ndim < 2 else x
    return x if rowvar or x.shape[0] == 1 else gg.matrix_transpose(x)


def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    covariance = cov(tensor(x), y, rowvar, dtype=dtype)
    if not covariance.ndim:
        return covariance / covariance
    deviation = gg.sqrt(gg.real(gg.linalg.diagonal(covariance)))
    return covariance / deviation[:, None] / deviation[None, :]


# Searching


def searchsorted(a, v, side="left", sorter=None):
    a, v = tensors(a, v)
    return gg.searchsorted(a, v, None if sorter is None else tensor(sorter, a), side=side)


def isin(element, test_elements, assume_unique=False, invert=False):
    return gg.isin(*tensors(element, test_elements), invert=invert)


def bincount(x, /, weights=None, minlength=0):
    weights = None if weights is None else gg.astype(tensor(weights), gg.float64)
    return gg.bincount(tensor(x), weights, minlength=minlength)


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


def setdiff1d(ar1, ar2, assume_unique=False):
    return _members(*tensors(ar1, ar2), True, assume_unique)


def setxor1d(ar1, ar2, assume_unique=False):
    ar1, ar2 = tensors(ar1, ar2)
    return gg.sort(gg.concat([_members(ar1, ar2, True), _members(ar2, ar1, True)]))


def _members(ar1, ar2, invert=False, unique=False):
    """The distinct values of the first that are in the second, or with ``invert`` are not."""
    first = flat(ar1) if unique else gg.unique_values(ar1)
    return first[gg.isin(first, ar2, invert=invert)]


def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return gg.isclose(*tensors(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan)


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(gg.allclose(*tensors(a, b), rtol=rtol, atol=atol, equal_nan=equal_nan))


enter_functions(globals())
