"""Reductions, and ops along a single axis: cumulative sums and products, and differences.

A reduction's ``axis`` is None (all axes), an int or a tuple; with ``keepdims`` the reduced axes
stay, with length 1.
"""

import math
from functools import partial

from .._batched import shifted
from ..autograd.operation import composite, op
from .by_name import library_function, no_axis
from .elementwise import isclose
from .manipulation import reshape, sliced, vmap_over_axis


def _axes(axis, ndim):
    """The reduced axes as non-negative ints."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(a % ndim for a in (axis if isinstance(axis, tuple) else (axis,)))


def kept_shape(shape, axis):
    """The result's shape with ``keepdims``, and the number of elements reduced to each result."""
    axes = _axes(axis, len(shape))
    count = 1
    for a in axes:
        count *= shape[a]
    return tuple(1 if i in axes else n for i, n in enumerate(shape)), count


def _broadcast_back(xp, g, x_shape, axis):
    """``g`` broadcast back over the reduced axes."""
    return xp.broadcast_to(xp.reshape(g, kept_shape(x_shape, axis)[0]), x_shape)


def vmap_over_axes(call, batched, x, *, axis, **static):
    """Batching rule for reductions over one axis, several, or all (None)."""
    if len(x.shape) == 1:  # each example is a number, which counts as an array of one element
        shifted(call.op, () if axis is None else axis, 0)
        if "keepdims" in static:
            static["keepdims"] = False
        return call(reshape(x, (x.shape[0], 1)), axis=1, **static)
    return vmap_over_axis(call, batched, x, axis=axis, **static)


reduction = partial(library_function, reduces=True, vmap=vmap_over_axes)


@reduction()
def sum(x, /, axis=None, *, dtype=None, keepdims=False):
    """Sum of the elements, accumulated and returned in ``dtype`` if given; 0 if there are none."""


sum.vjp(x=_broadcast_back).jvp("x")


@reduction()
def mean(x, /, axis=None, *, keepdims=False):
    """Mean of the elements, in a floating dtype; nan if there are none."""


def _mean_vjp(xp, g, x_shape, axis):
    _, count = kept_shape(x_shape, axis)
    # Not g / count: float16 cannot hold every count.
    return _broadcast_back(xp, g * (1 / count) if count else g, x_shape, axis)


def _mean_jvp(xp, t, x_shape, axis):
    return (xp.mean if kept_shape(x_shape, axis)[1] else xp.sum)(t, axis=axis)


mean.vjp(x=_mean_vjp).jvp(x=_mean_jvp)


@reduction()
def prod(x, /, axis=None, *, dtype=None, keepdims=False):
    """Product of the elements, accumulated and returned in ``dtype`` if given; 1 if there are none.

    Derivatives of every order are right even where elements are 0, since no rule divides.
    """


_FEW = 64


def _prod_vjp(xp, g, x, axis):
    shape, axes = x.shape, _axes(axis, len(x.shape))
    order = axes + tuple(i for i in range(len(shape)) if i not in axes)
    rest = tuple(shape[i] for i in order[len(axes) :])
    x = xp.permute_dims(xp.astype(x, g.dtype, copy=False), order)
    x = xp.reshape(x, (kept_shape(shape, axis)[1], *rest))
    c = _times_product_of_others(xp, xp.reshape(g, (1, *rest)), x)
    c = xp.reshape(c, tuple(shape[i] for i in order))
    return xp.permute_dims(c, tuple(order.index(i) for i in range(len(shape))))


def _times_product_of_others(xp, g, x):
    """For each element of ``x`` along its first axis, ``g`` times the product of all others.

    For few elements these are the products of those before and of those after it, which overflow
    no sooner than the product of all. Of more, partners from the two halves are multiplied, and on
    the way back each multiplies the result for its pair by its partner's value.
    """
    n = x.shape[0]
    if n < 2:
        return g[:n, ...]
    if n <= _FEW:
        before = xp.cumulative_prod(x[:-1, ...], axis=0)
        after = xp.flip(xp.cumulative_prod(xp.flip(x[1:, ...], axis=0), axis=0), axis=0)
        both = before[:-1, ...] * after[1:, ...]
        return g * xp.concat([after[:1, ...], both, before[-1:, ...]], axis=0)
    half = n // 2
    x1, x2, odd = x[:half, ...], x[half : 2 * half, ...], x[2 * half :, ...]
    c = _times_product_of_others(xp, g, xp.concat([x1 * x2, odd], axis=0) if n % 2 else x1 * x2)
    pairs = c[:half, ...]
    return xp.concat([pairs * x2, pairs * x1, c[half:, ...]], axis=0)


def _prod_jvp(xp, t, x, axis):
    return xp.sum(_prod_vjp(xp, xp.ones_like(xp.sum(t, axis=axis)), x, axis) * t, axis=axis)


prod.vjp(x=_prod_vjp).jvp(x=_prod_jvp)


@reduction()
def var(x, /, axis=None, *, correction=0.0, keepdims=False):
    """Variance of the elements: the sum of squared deviations over ``count - correction``.

    If this divisor is not positive it counts as 0, as in PyTorch: a single element with
    ``correction=1`` gives nan.
    """


def _var_vjp(xp, g, x, axis, correction):
    kept, count = kept_shape(x.shape, axis)
    freedom = count - correction
    deviation = x - xp.mean(x, axis=axis, keepdims=True)
    return xp.conj(deviation) * (xp.reshape(g, kept) * (2 / freedom if freedom > 0 else math.inf))


def _var_jvp(xp, t, x, axis, correction):
    freedom = kept_shape(x.shape, axis)[1] - correction
    total = xp.sum(xp.conj(x - xp.mean(x, axis=axis, keepdims=True)) * t, axis=axis)
    return total * (2 / freedom if freedom > 0 else math.inf)


var.vjp(x=_var_vjp).jvp(x=_var_jvp)


@reduction()
def std(x, /, axis=None, *, correction=0.0, keepdims=False):
    """Standard deviation of the elements: the square root of `var`.

    At 0 the gradient is 0, as in PyTorch. Of equal elements whose mean is rounded the result is not
    quite 0, and the gradient is a quotient of rounding errors.
    """


def _std_vjp(xp, g, x, out, axis, correction):
    # Avoids division by 0, about which NumPy would warn.
    g = xp.where(out == 0, 0.0, g / xp.where(out == 0, 1.0, 2 * out))
    return _var_vjp(xp, g, x, axis, correction)


def _std_jvp(xp, t, x, out, axis, correction):
    t = xp.reshape(_var_jvp(xp, t, x, axis, correction), out.shape)
    return xp.where(out == 0, 0.0, t / xp.where(out == 0, 1.0, 2 * out))


std.vjp(x=_std_vjp).jvp(x=_std_jvp)


@reduction(discards=True)
def max(x, /, axis=None, *, keepdims=False):
    """Maximum of the elements; a tie shares its gradient evenly. Raises if there are none.

    Where it is nan, so is the gradient.
    """


@reduction(discards=True)
def min(x, /, axis=None, *, keepdims=False):
    """Minimum of the elements; a tie shares its gradient evenly. Raises if there are none.

    Where it is nan, so is the gradient.
    """


def _extremum_vjp(xp, g, x, out, axis):
    kept, _ = kept_shape(x.shape, axis)
    hit = x == xp.reshape(out, kept)
    ties = xp.sum(xp.astype(hit, g.dtype), axis=axis, keepdims=True)
    none = ties == 0  # the extremum is nan
    return xp.where(hit | none, xp.where(none, math.nan, xp.reshape(g, kept) / ties), 0.0)


def _extremum_jvp(xp, t, x, out, axis):
    hit = x == xp.reshape(out, kept_shape(x.shape, axis)[0])
    ties = xp.sum(xp.astype(hit, t.dtype), axis=axis)
    return xp.sum(xp.where(hit, t, 0.0), axis=axis) / ties


max.vjp(x=_extremum_vjp).jvp(x=_extremum_jvp)
min.vjp(x=_extremum_vjp).jvp(x=_extremum_jvp)


@op(vmap=vmap_over_axes)
def logsumexp(xp, x, /, axis=None, *, keepdims=False):
    """``log(sum(exp(x)))`` without overflow. Raises if there are no elements.

    The gradient is ``softmax(x)``. Where the result is inf, each element that is inf gets the
    whole gradient; where it is -inf, no element gets any.
    """
    axis = axis if x.ndim else no_axis(axis)
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.sum(xp.exp(x - top), axis=axis, keepdims=True)
    axes = () if keepdims else _axes(axis, len(x.shape))
    shape = tuple([n for i, n in enumerate(total.shape) if i not in axes])
    return xp.reshape(xp.log(total) + top, shape)


def _softmax(xp, x, out, axis):
    """``softmax(x)``, computed from the result of `logsumexp`."""
    kept, _ = kept_shape(x.shape, axis)
    # An infinite result is replaced by a large number, since inf - inf would be nan.
    most = xp.finfo(x.dtype).max
    out = xp.clip(xp.reshape(out, kept), -most, most)
    return xp.exp(xp.minimum(x - out, 0.0))


def _logsumexp_vjp(xp, g, x, out, axis):
    return xp.reshape(g, kept_shape(x.shape, axis)[0]) * _softmax(xp, x, out, axis)


logsumexp.vjp(x=_logsumexp_vjp)
logsumexp.jvp(x=lambda xp, t, x, out, axis: xp.sum(_softmax(xp, x, out, axis) * t, axis=axis))


@reduction(differentiable=False)
def all(x, /, axis=None, *, keepdims=False):
    """Whether all elements are true."""


@composite
def allclose(x1, x2, /, *, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether all elements are close; see `isclose`. The result is a 0-d bool tensor.

    `gpugrad.testing.assert_close` says which elements are not.
    """
    return all(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan))


@reduction(differentiable=False)
def any(x, /, axis=None, *, keepdims=False):
    """Whether any element is true."""


@reduction(differentiable=False)
def count_nonzero(x, /, axis=None, *, keepdims=False):
    """The number of elements that are not 0."""


def _given_or_only_axis(axis, shape):
    """``axis``, which may be None for arrays with a single axis."""
    if axis is not None:
        return axis
    if len(shape) != 1:
        raise ValueError(f"axis must be given, since there are {len(shape)} axes, not 1")
    return 0


def _vmap_along_axis(call, batched, x, *, axis, **static):
    """Batching rule for cumulative ops."""
    return vmap_over_axis(call, batched, x, axis=_given_or_only_axis(axis, x.shape[1:]), **static)


@op(vmap=_vmap_along_axis)
def cumulative_sum(xp, x, /, *, axis=None, dtype=None, include_initial=False):
    """Sums of the elements up to and including each one along ``axis``.

    axis: may be None for arrays with a single axis.
    dtype: of the accumulator and the result; by default int64 or uint64 for smaller integers.
    include_initial: start with 0, so that the result is longer by 1.
    """
    axis = _given_or_only_axis(axis, x.shape)
    return xp.cumulative_sum(x, axis=axis, dtype=dtype, include_initial=include_initial)


def _cumulative_sum_vjp(xp, g, axis, include_initial):
    axis = _given_or_only_axis(axis, g.shape)
    g = xp.flip(sliced(g, axis, 1, None) if include_initial else g, axis=axis)
    return xp.flip(xp.cumulative_sum(g, axis=axis), axis=axis)


cumulative_sum.vjp(x=_cumulative_sum_vjp).jvp("x")


@op(vmap=_vmap_along_axis)
def cumulative_prod(xp, x, /, *, axis=None, dtype=None, include_initial=False):
    """Products of the elements up to and including each one along ``axis``.

    axis: may be None for arrays with a single axis.
    dtype: of the accumulator and the result; by default int64 or uint64 for smaller integers.
    include_initial: start with 1, so that the result is longer by 1.

    Derivatives of every order are right even where elements are 0, since no rule divides.
    """
    axis = _given_or_only_axis(axis, x.shape)
    return xp.cumulative_prod(x, axis=axis, dtype=dtype, include_initial=include_initial)


def _cumulative_prod_vjp(xp, g, x, out, axis, include_initial):
    axis = _given_or_only_axis(axis, x.shape)
    if include_initial:
        g, out = sliced(g, axis, 1, None), sliced(out, axis, 1, None)
    if x.shape[axis] == 0:
        return g
    x = xp.astype(x, g.dtype, copy=False)
    if axis:
        x, out, g = (xp.moveaxis(array, axis, 0) for array in (x, out, g))
    # The derivative of out[k] in x[i] is the product before i times that from i + 1 to k.
    after = _recurrence(xp, g, x[1:, ...])
    c = xp.concat([after[:1, ...], out[:-1, ...] * after[1:, ...]], axis=0)
    return xp.moveaxis(c, 0, axis) if axis else c


def _recurrence(xp, g, a):
    """``s`` with ``s[i] = g[i] + a[i] * s[i + 1]`` along the first axis; ``a`` is shorter by 1.

    Solves for every other element, recursively, by merging pairs of steps into one; the elements
    between them follow from these (Blelloch 1990).
    """
    n = g.shape[0]
    if n == 1:
        return g
    half = n // 2
    a1, a2, g1, g2 = a[::2, ...], a[1::2, ...], g[::2, ...], g[1::2, ...]
    if n % 2:
        last = g1[half:, ...]
        s1 = _recurrence(xp, xp.concat([g1[:half, ...] + a1 * g2, last], axis=0), a1 * a2)
        s2 = g2 + a2 * s1[1:, ...]
    else:
        last = g2[half - 1 :, ...]
        s1 = _recurrence(xp, g1 + a1 * g2, a1[: half - 1, ...] * a2)
        s2 = xp.concat([g2[: half - 1, ...] + a2 * s1[1:, ...], last], axis=0)
    pairs = xp.stack([s1[:half, ...], s2], axis=1)
    pairs = xp.reshape(pairs, (2 * half, *g.shape[1:]))
    return xp.concat([pairs, last], axis=0) if n % 2 else pairs


cumulative_prod.vjp(x=_cumulative_prod_vjp)


@op(vmap=vmap_over_axis)
def diff(xp, x, prepend=None, append=None, *, axis=-1, n=1):
    """Differences of adjacent elements along ``axis``, ``x[1:] - x[:-1]``, taken ``n`` times.

    prepend, append: arrays joined to ``x`` along ``axis`` first.
    """
    if n < 0:
        raise ValueError(f"n must be at least 0, not {n}")
    pieces = [piece for piece in (prepend, x, append) if piece is not None]
    if len(pieces) > 1:
        x = xp.concat(pieces, axis=axis)
    for _ in range(n):
        x = sliced(x, axis, 1, None) - sliced(x, axis, -1)
    return x


def _diff_vjp(xp, g, x_shape, prepend_shape, append_shape, axis, n):
    # The transpose of a difference is minus the difference of g with zeros on both sides.
    shape = list(g.shape)
    shape[axis] += 2 * n
    middle = (slice(None),) * (axis % len(shape)) + (slice(n, shape[axis] - n), ...)
    c = xp.scatter_add(g, tuple(shape), middle)
    for _ in range(n):
        c = sliced(c, axis, -1) - sliced(c, axis, 1, None)
    pieces, start = [], 0
    for given in (prepend_shape, x_shape, append_shape):
        stop = start + (given[axis] if given else 0)
        pieces.append(sliced(c, axis, start, stop) if given else None)
        start = stop
    return pieces[1], pieces[0], pieces[2]


diff.vjp(joint=_diff_vjp)
