"""Indexing and assignment. As in NumPy, a key is an int, a slice, ``...``, None, an integer or
bool array, or a tuple of these. The arrays in the key that an op gets are raw.

Inside `vmap`, a key of ints, slices, ``...`` and None gets a slice for the examples in front, and a
key with arrays gets an array that counts the examples. Because of this array, the axes that come
from arrays are the first ones of the result; they are then moved to where they belong.
"""

from .._batched import (
    BatchedTensor,
    behind,
    equally,
    levels_among,
    levels_of,
    lifted,
    physical,
    shifted,
)
from .._dtypes import isdtype
from .._tensor import Tensor
from ..autograd.operation import op
from ..backends import SCALARS, adopt, namespace_of
from .by_name import library_function
from .elementwise import where
from .keys import WHOLE, ExampleKey, has_bool, is_basic, items
from .manipulation import astype, expand_dims, moveaxis, reshape, target_dtype


@op(discards=True)
def getitem(xp, x, /, key):
    """``x[key]``. Gradients of an element that is selected repeatedly add up."""
    return x[key]


getitem.vjp(x=lambda xp, g, x_shape, key: xp.scatter_add(g, x_shape, key)).jvp("x")


def _getitem_vmap(call, batched, x, key):
    if has_bool(key):
        return NotImplemented
    if is_basic(key):
        return call(x, (WHOLE, *items(key)))
    own = ExampleKey(key, x.ndim - 1, x._like)
    if call is getitem and own.is_of_one_axis:  # the standard has no other way to do this
        (indices,), axis = own.arrays, 1 + own.position
        basic = [WHOLE if k is indices else k for k in own.items]
        if any(k is not ... and k != WHOLE for k in basic):
            x = getitem(x, (WHOLE, *basic))
        taken = take(x, reshape(indices, (-1,)), axis=axis)
        return reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    return _get_examples(call, x, own, x.shape[:1])


getitem.vmap(_getitem_vmap)


def getitem_batched(x, key):
    """``x[key]`` for a key with batched tensors; they and ``x`` may be at any levels of `vmap`."""
    levels = levels_among("index", (x, *items(key)))
    own = levels_of(x)
    sizes = [level.size if level in own else None for level in levels]
    key = ExampleKey(key, x.ndim, x._like)
    return behind(_get_examples(getitem, physical(x), key, sizes, levels), levels)


def _get_examples(call, x, key, sizes, levels=()):
    """Index each example of ``x``; see `ExampleKey.of_examples`."""
    n, k, at = len(sizes), key.index_ndim, key.position
    out = call(x, key.of_examples(sizes, levels))
    first = at if sizes.count(None) == n else 0
    return _move(out, range(first, first + n + k), [*range(n), *range(n + at, n + at + k)])


def _move(x, source, destination):
    source, destination = tuple(source), tuple(destination)
    return x if source == destination else moveaxis(x, source, destination)


@library_function()
def scatter_add(values, /, shape, key):
    """`gpugrad.scatter_add` at a key of raw arrays."""


def _scatter_add_vmap(call, batched, values, shape, key):
    if has_bool(key):
        return NotImplemented
    key = ExampleKey(key, len(shape), values._like)
    values, sizes = _index_axes_first(values, key, 1), values.shape[:1]
    return call(values, (*sizes, *shape), key.of_examples(sizes))


scatter_add.vjp(values=lambda xp, g, key: g[key]).vmap(_scatter_add_vmap)


def scatter_add_batched(values, shape, key):
    """`scatter_add` at a key that contains batched tensors."""
    levels = levels_among("scatter_add", (values, *items(key)))
    sizes = [level.size for level in levels]
    key = ExampleKey(key, len(shape), values._like)
    values = _index_axes_first(physical(lifted(values, levels)), key, len(levels))
    return behind(scatter_add(values, (*sizes, *shape), key.of_examples(sizes, levels)), levels)


def _index_axes_first(values, key, n):
    """Values for the key of all examples, in which the axes of the key's arrays come directly after
    the ``n`` axes over examples."""
    if type(values) in SCALARS:
        return values
    values = _with_ndim(values, n, key.ndim)
    at, k = n + key.position, key.index_ndim
    return _move(values, range(at, at + k), range(n, n + k))


def _with_ndim(values, n, ndim):
    """Values with ``ndim`` axes after the first ``n``: axes of length 1 are added or removed."""
    shape = values.shape[n:]
    surplus = len(shape) - ndim
    if any(length != 1 for length in shape[: max(surplus, 0)]):
        raise ValueError(f"setitem: a value of shape {shape} does not fit {ndim} axes")
    if not surplus:
        return values
    return reshape(values, (*values.shape[:n], *[1] * -surplus, *shape[max(surplus, 0) :]))


@op(integer=("indices",), discards=True)
def take(xp, x, indices, /, *, axis=None):
    """The slices at ``indices`` (n,) along ``axis``, which may be omitted for a 1-d ``x``.

    Gradients of a slice that is selected repeatedly add up.
    """
    if axis is None:
        if len(x.shape) != 1:
            raise ValueError(f"axis must be given for an array with {len(x.shape)} axes")
        axis = 0
    if len(indices.shape) != 1:
        raise ValueError(f"indices must have 1 axis, not {len(indices.shape)}; use take_along_axis")
    return xp.take(x, indices, axis=axis)


def _take_vjp(xp, g, indices, x_shape, axis):
    axis = 0 if axis is None else axis
    shape = [1] * len(x_shape)
    shape[axis] = indices.shape[0]
    return xp.add_along_axis(g, xp.reshape(indices, tuple(shape)), x_shape, axis)


def _take_vmap(call, batched, x, indices, axis):
    ndim = len(x.shape) - batched[0]
    if axis is None and ndim == 1:
        axis = 0
    if axis is None or len(indices.shape) - batched[1] != 1:
        return NotImplemented  # the call for each example then raises the error
    axis = shifted(call.op, axis, ndim)
    if not batched[1]:
        return call(x, indices, axis=axis)
    if not batched[0]:
        axis -= 1
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return moveaxis(reshape(call(x, reshape(indices, (-1,)), axis=axis), shape), axis, 0)
    shape = [1] * (ndim + 1)
    shape[0], shape[axis] = indices.shape
    return take_along_axis(x, reshape(indices, tuple(shape)), axis=axis)


take.vjp(x=_take_vjp).jvp("x").vmap(_take_vmap)


@library_function(integer=("indices",), discards=True)
def take_along_axis(x, indices, /, *, axis=-1):
    """The elements at ``indices`` along ``axis``; the other axes of both inputs broadcast.

    Gradients of an element that is selected repeatedly add up.
    """


def _take_along_axis_vjp(xp, g, indices, x_shape, axis):
    return xp.add_along_axis(g, indices, x_shape, axis)


def _take_along_axis_vmap(call, batched, x, indices, axis):
    axis = shifted(call.op, axis, len(x.shape) - batched[0])
    x = x if batched[0] else expand_dims(x, 0)
    return call(x, indices if batched[1] else expand_dims(indices, 0), axis=axis)


take_along_axis.vjp(x=_take_along_axis_vjp).jvp("x").vmap(_take_along_axis_vmap)


@library_function(integer=("indices",))
def add_along_axis(values, indices, /, shape, axis):
    """Zeros of ``shape`` with ``values`` added at ``indices`` along ``axis``.

    Values at a repeated index add up. ``indices`` and, except along that axis, ``shape``
    broadcast to the shape of ``values``.
    """


add_along_axis.vjp(values=lambda xp, g, indices, axis: xp.take_along_axis(g, indices, axis=axis))


def _add_along_axis_vmap(call, batched, values, indices, shape, axis):
    values, _ = equally(batched, (values, indices))
    indices = indices if batched[1] else expand_dims(indices, 0)
    return call(values, indices, (values.shape[0], *shape), shifted(call.op, axis, len(shape)))


add_along_axis.vmap(_add_along_axis_vmap)


@op(integer=("x",), discards=True)
def setitem(xp, x, value, /, key):
    """A copy of ``x``, with its dtype, in which ``value`` is assigned at ``key``.

    At a repeated index the last value stays, and only that one gets a gradient. Raises
    TypeError for complex values in a real array.
    """
    if type(value) not in SCALARS:
        target_dtype(value, x.dtype)
    return xp.setitem(x, value, key)


def _setitem_value(xp, g, value_shape, key):
    taken = g[key]
    if _has_integer_array(key):
        taken = xp.where(xp.last_written(g, key), taken, 0.0)
    if len(value_shape) > len(taken.shape):  # NumPy drops leading axes of length 1
        taken = xp.reshape(taken, (1,) * (len(value_shape) - len(taken.shape)) + taken.shape)
    return taken


def _has_integer_array(key):
    """Whether a key contains integer arrays, which may repeat an index."""
    arrays = [k for k in items(key) if type(k) in namespace_of]
    return any(not namespace_of[type(k)].isdtype(k.dtype, "bool") for k in arrays)


setitem.vjp(x=lambda xp, g, key: xp.setitem(g, 0.0, key), value=_setitem_value)


def _setitem_vmap(call, batched, x, value, key):
    if has_bool(key):
        return NotImplemented
    if not batched[0]:
        x, _ = equally(batched, (x, value))
    if not batched[1]:
        value = _with_leading_ones(value, 1)
    key = ExampleKey(key, x.ndim - 1, x._like)
    return call(x, _index_axes_first(value, key, 1), key.of_examples(x.shape[:1]))


setitem.vmap(_setitem_vmap)


def setitem_batched(x, value, key):
    """``x`` with ``value`` assigned at a key that contains batched tensors."""
    if any(type(k) is BatchedTensor and isdtype(k.dtype, "bool") for k in items(key)):
        return _set_where_masked(x, value, items(key))
    levels = levels_among("x[...] = value", (x, value, *items(key)))
    if own := levels_of(value):
        ones = [level.size if level in own else 1 for level in levels]
        value = reshape(physical(value), (*ones, *value.shape))
    else:
        value = _with_leading_ones(value, len(levels))
    key = ExampleKey(key, x.ndim, x._like)
    value = _index_axes_first(value, key, len(levels))
    key = key.of_examples([level.size for level in levels], levels)
    return behind(setitem(physical(lifted(x, levels)), value, key), levels)


def _with_leading_ones(value, n):
    """A value that all examples share, with ``n`` axes of length 1 in front; numbers unchanged."""
    value = value if isinstance(value, Tensor) else adopt(value)
    return value if type(value) in SCALARS else reshape(value, (*[1] * n, *value.shape))


def _set_where_masked(x, value, key):
    """``x`` with ``value`` where a batched mask is True; the rest of the key is whole slices."""
    at = next(i for i, k in enumerate(key) if type(k) is BatchedTensor)
    mask, ndim = key[at], key[at].ndim
    if not all(k is ... or (type(k) is slice and k == WHOLE) for k in (*key[:at], *key[at + 1 :])):
        raise TypeError(
            "x[key] = value: inside vmap a mask that differs between examples cannot be combined "
            "with other indices; choose with where"
        )
    after = len(key) - 1 - at if any(k is ... for k in key[:at]) else x.ndim - ndim - at
    before = x.ndim - ndim - after
    if min(before, after) < 0 or x.shape[before : before + ndim] != mask.shape:
        raise IndexError(f"index: a mask of shape {mask.shape} does not fit shape {x.shape}")
    mask = reshape(mask, (*mask.shape, *[1] * after))
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) > after:
        at = len(shape) - after - 1  # the axis of the elements that the mask selects
        if shape[at] != 1:
            raise ValueError(
                f"x[mask] = value: inside vmap masks may select different numbers of elements; "
                f"give one value for all, not of shape {shape}, or choose with where"
            )
        value = reshape(value, (*shape[:at], *[1] * ndim, *shape[at + 1 :]))
    return astype(where(mask, value, x), x.dtype, copy=False)


@library_function(differentiable=False, vmap=_getitem_vmap)
def last_written(x, /, key):
    """Bools of the shape of ``x[key]``, False for values that the same assignment overwrites."""
