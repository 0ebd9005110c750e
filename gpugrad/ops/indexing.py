"""Indexing and assignment. A key is an int, slice, ``...``, None, an integer or bool array,
or a tuple of these, as in NumPy; arrays in it are raw.

Inside `vmap` a key of ints, slices, ``...`` and None gets a slice for the examples put before
it. Of one with arrays the slices go first. The axes that arrays index are then moved to the
front, and indexed by these and an array that counts the examples; and last the axes that the
arrays brought are moved to where they belong.
"""

from ..autograd.operation import op
from ..backends import SCALARS, adopt, namespace_of
from ..batched import (
    BatchedTensor,
    behind,
    equally,
    levels_among,
    levels_of,
    lifted,
    physical,
    shifted,
)
from ..dtypes import isdtype
from ..tensor import Tensor
from .elementwise import where
from .keys import WHOLE, Parts, basic_ndim, has_bool, is_basic, items
from .manipulation import astype, expand_dims, moveaxis, reshape, target_dtype


@op(discards=True)
def getitem(xp, x, /, key):
    """``x[key]``. Where an index is repeated its gradients add up."""
    return x[key]


getitem.vjp(x=lambda xp, g, x_shape, key: xp.scatter_add(g, x_shape, key))
getitem.jvp(x=lambda xp, t, key: t[key])


def _getitem_vmap(call, batched, x, key):
    if has_bool(key):
        return NotImplemented
    if is_basic(key):
        return call(x, (WHOLE, *items(key)))
    return _taken(x, Parts(key, x.shape[1:], x._like), 1, x.shape[:1])


getitem.vmap(_getitem_vmap)


def getitem_batched(x, key):
    """``x[key]`` where tensors in the key are batched, in whatever levels they and ``x`` are."""
    levels = levels_among("index", (x, *items(key)))
    own = levels_of(x)
    parts = Parts(key, x.shape, x._like)
    sizes = [level.size if level in own else None for level in levels]
    return behind(_taken(physical(x), parts, len(own), sizes, levels), levels)


def _taken(x, parts, n, sizes, levels=(), index=getitem):
    """What is at a key in each example, of ``x`` with ``n`` axes over these in front."""
    if any(k != WHOLE for k in parts.before):
        x = getitem(x, (*[WHOLE] * n, *parts.before))
    if len(parts.axes) == 1 and index is getitem and not levels:  # up to ten times faster
        (indices,), axis = parts.indices, n + parts.axes[0]
        taken = take(x, reshape(indices, (-1,)), axis=axis)
        return reshape(taken, (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))
    x = index(_indexed_first(x, parts, n), parts.key(sizes, levels))
    n = len(sizes)
    return _move(x, range(n, n + parts.ndim), range(n + parts.at, n + parts.at + parts.ndim))


def _indexed_first(x, parts, n):
    """The axes that arrays index, of what the slices took, in front of an example's others."""
    return _move(x, [n + a for a in parts.axes], range(n, n + len(parts.axes)))


def _indexed_back(x, parts, n):
    return _move(x, range(n, n + len(parts.axes)), [n + a for a in parts.axes])


def _move(x, source, destination):
    source, destination = tuple(source), tuple(destination)
    return x if source == destination else moveaxis(x, source, destination)


@op
def scatter_add(xp, values, /, shape, key):
    """Zeros of ``shape`` with ``values`` added at ``key``; repeated indices add up."""
    return xp.scatter_add(values, shape, key)


scatter_add.vjp(values=lambda xp, g, key: g[key])


def _scatter_add_vmap(call, batched, values, shape, key):
    if has_bool(key):
        return NotImplemented
    sizes, shape = values.shape[:1], (*values.shape[:1], *shape)
    if is_basic(key):
        values = _of_ndim(values, 1, basic_ndim(key, len(shape) - 1))
        return call(values, shape, (WHOLE, *items(key)))
    parts = Parts(key, shape[1:], values._like)
    indexed = [parts.shape[a] for a in parts.axes]
    others = [length for a, length in enumerate(parts.shape) if a not in parts.axes]
    region = call(_of_region(values, parts, 1), (*sizes, *indexed, *others), parts.key(sizes))
    region = _indexed_back(region, parts, 1)
    if parts.takes_all:
        return reshape(region, shape)
    return call(region, shape, (WHOLE, *parts.before))


scatter_add.vmap(_scatter_add_vmap)


def _of_region(values, parts, n):
    """Values for the places of a key, behind ``n`` axes; first those axes that arrays bring."""
    values = _of_ndim(values, n, parts.result_ndim)
    return _move(values, range(n + parts.at, n + parts.at + parts.ndim), range(n, n + parts.ndim))


def _of_ndim(values, n, ndim):
    """Values that have ``ndim`` axes behind ``n``: by axes of length 1 put there or let go."""
    shape = values.shape[n:]
    surplus = len(shape) - ndim
    if any(length != 1 for length in shape[: max(surplus, 0)]):
        raise ValueError(f"setitem: a value of shape {shape} does not fit {ndim} axes")
    if not surplus:
        return values
    return reshape(values, (*values.shape[:n], *[1] * -surplus, *shape[max(surplus, 0) :]))


@op(integer=("indices",), discards=True)
def take(xp, x, indices, /, *, axis=None):
    """The slices at ``indices`` (n,) along an axis, which a 1-d ``x`` need not name.

    Where an index is repeated its gradients add up.
    """
    if axis is None:
        if len(x.shape) != 1:
            raise ValueError(f"axis is needed for an array of {len(x.shape)} axes")
        axis = 0
    if len(indices.shape) != 1:
        raise ValueError(f"indices must have 1 axis, not {len(indices.shape)}; use take_along_axis")
    return xp.take(x, indices, axis=axis)


def _take_vjp(xp, g, indices, x_shape, axis):
    axis = 0 if axis is None else axis
    shape = [1] * len(x_shape)
    shape[axis] = indices.shape[0]
    return xp.add_along_axis(g, xp.reshape(indices, tuple(shape)), x_shape, axis)


take.vjp(x=_take_vjp)
take.jvp(x=lambda xp, t, indices, axis: xp.take(t, indices, axis=0 if axis is None else axis))


def _take_vmap(call, batched, x, indices, axis):
    ndim = len(x.shape) - batched[0]
    if axis is None and ndim == 1:
        axis = 0
    if axis is None or len(indices.shape) - batched[1] != 1:
        return NotImplemented  # which of one example is an error
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


take.vmap(_take_vmap)


@op(integer=("indices",), discards=True)
def take_along_axis(xp, x, indices, /, *, axis=-1):
    """The elements at ``indices`` along an axis; along the others ``x`` and ``indices`` broadcast.

    Where an index is repeated its gradients add up.
    """
    return xp.take_along_axis(x, indices, axis=axis)


take_along_axis.vjp(
    x=lambda xp, g, indices, x_shape, axis: xp.add_along_axis(g, indices, x_shape, axis)
)
take_along_axis.jvp(x=lambda xp, t, indices, axis: xp.take_along_axis(t, indices, axis=axis))


def _take_along_axis_vmap(call, batched, x, indices, axis):
    axis = shifted(call.op, axis, len(x.shape) - batched[0])
    x = x if batched[0] else expand_dims(x, 0)
    indices = indices if batched[1] else expand_dims(indices, 0)
    return call(x, indices, axis=axis)


take_along_axis.vmap(_take_along_axis_vmap)


@op(integer=("indices",))
def add_along_axis(xp, values, indices, /, shape, axis):
    """Zeros of ``shape`` with ``values`` added at ``indices`` along an axis; repeated ones add up.

    ``indices`` and, but for that axis, ``shape`` broadcast to the shape of ``values``.
    """
    return xp.add_along_axis(values, indices, shape, axis)


add_along_axis.vjp(values=lambda xp, g, indices, axis: xp.take_along_axis(g, indices, axis=axis))


def _add_along_axis_vmap(call, batched, values, indices, shape, axis):
    values, _ = equally(batched, (values, indices))
    indices = indices if batched[1] else expand_dims(indices, 0)
    return call(values, indices, (values.shape[0], *shape), shifted(call.op, axis, len(shape)))


add_along_axis.vmap(_add_along_axis_vmap)


@op(integer=("x",), discards=True)
def setitem(xp, x, value, /, key):
    """A copy of ``x``, of its dtype, with ``value`` at ``key``.

    Of a repeated index the last value stays, and alone gets a gradient. Complex values
    do not fit into real arrays.
    """
    if type(value) not in SCALARS:
        target_dtype(value, x.dtype)
    return xp.setitem(x, value, key)


def _setitem_value(xp, g, value_shape, key):
    taken = g[key]
    if _may_repeat(key):
        taken = xp.where(xp.last_written(g, key), taken, 0.0)
    if len(value_shape) > len(taken.shape):  # NumPy lets leading axes of length 1 go
        taken = xp.reshape(taken, (1,) * (len(value_shape) - len(taken.shape)) + taken.shape)
    return taken


def _may_repeat(key):
    """Whether there are arrays of integers in a key."""
    arrays = [k for k in items(key) if type(k) in namespace_of]
    return any(not namespace_of[type(k)].isdtype(k.dtype, "bool") for k in arrays)


setitem.vjp(
    x=lambda xp, g, key: xp.setitem(g, 0.0, key),
    value=_setitem_value,
)


def _setitem_vmap(call, batched, x, value, key):
    if has_bool(key):
        return NotImplemented
    if not batched[0]:
        x, _ = equally(batched, (x, value))
    if not batched[1]:
        value = _behind_ones(value, 1)
    if not is_basic(key):
        return _assigned(x, value, Parts(key, x.shape[1:], x._like), x.shape[:1])
    if type(value) not in SCALARS:
        value = _of_ndim(value, 1, basic_ndim(key, len(x.shape) - 1))
    return call(x, value, (WHOLE, *items(key)))


setitem.vmap(_setitem_vmap)


def setitem_batched(x, value, key):
    """``x`` with ``value`` at a key in which tensors are batched."""
    if any(type(k) is BatchedTensor and isdtype(k.dtype, "bool") for k in items(key)):
        return _masked(x, value, items(key))
    levels = levels_among("x[...] = value", (x, value, *items(key)))
    own = levels_of(value)
    if own:
        ones = [level.size if level in own else 1 for level in levels]
        value = reshape(physical(value), (*ones, *value.shape))
    else:
        value = _behind_ones(value, len(levels))
    parts = Parts(key, x.shape, x._like)
    sizes = [level.size for level in levels]
    return behind(_assigned(physical(lifted(x, levels)), value, parts, sizes, levels), levels)


def _behind_ones(value, n):
    """A value that all examples share, behind ``n`` axes of length 1; a number as it is."""
    value = value if isinstance(value, Tensor) else adopt(value)
    return value if type(value) in SCALARS else reshape(value, (*[1] * n, *value.shape))


def _assigned(x, value, parts, sizes, levels=()):
    """``x`` with a value at a key in each example; axes over these are in front of both."""
    n = len(sizes)
    if type(value) not in SCALARS:
        value = _of_region(value, parts, n)
    before = (*[WHOLE] * n, *parts.before)
    region = reshape(x, (*sizes, *parts.shape)) if parts.takes_all else getitem(x, before)
    region = setitem(_indexed_first(region, parts, n), value, parts.key(sizes, levels))
    region = _indexed_back(region, parts, n)
    return reshape(region, x.shape) if parts.takes_all else setitem(x, region, before)


def _masked(x, value, key):
    """``x`` with ``value`` where a batched mask is True, which may stand beside whole slices."""
    at = next(i for i, k in enumerate(key) if type(k) is BatchedTensor)
    mask, ndim = key[at], key[at].ndim
    if not all(k is ... or (type(k) is slice and k == WHOLE) for k in (*key[:at], *key[at + 1 :])):
        raise TypeError(
            "x[key] = value: inside vmap a mask that differs between examples cannot stand beside "
            "other indices; choose with where"
        )
    after = len(key) - 1 - at if any(k is ... for k in key[:at]) else x.ndim - ndim - at
    before = x.ndim - ndim - after
    if min(before, after) < 0 or x.shape[before : before + ndim] != mask.shape:
        raise IndexError(f"index: a mask of shape {mask.shape} does not fit shape {x.shape}")
    mask = reshape(mask, (*mask.shape, *[1] * after))
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) > after:
        at = len(shape) - after - 1  # the axis of what the mask takes
        if shape[at] != 1:
            raise ValueError(
                f"x[mask] = value: inside vmap a mask takes another number of elements from each "
                f"example; give one value for all, not of shape {shape}, or choose with where"
            )
        value = reshape(value, (*shape[:at], *[1] * ndim, *shape[at + 1 :]))
    return astype(where(mask, value, x), x.dtype, copy=False)


@op(differentiable=False)
def last_written(xp, x, /, key):
    """Of the shape of ``x[key]``: whether that place's value stays when ``x[key]`` is assigned."""
    return xp.last_written(x, key)


def _last_written_vmap(call, batched, x, key):
    if has_bool(key):
        return NotImplemented
    if is_basic(key):
        return call(x, (WHOLE, *items(key)))
    return _taken(x, Parts(key, x.shape[1:], x._like), 1, x.shape[:1], index=call)


last_written.vmap(_last_written_vmap)
