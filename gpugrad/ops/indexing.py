"""Indexing and assignment. A key is an int, slice, ``...``, None, an integer or bool array,
or a tuple of these, as in NumPy; arrays in it are raw."""

from ..autograd.operation import op
from ..backends import SCALARS, namespace_of
from .manipulation import target_dtype


@op(discards=True)
def getitem(xp, x, /, key):
    """``x[key]``. Where an index is repeated its gradients add up."""
    return x[key]


getitem.vjp(x=lambda xp, g, x_shape, key: xp.scatter_add(g, x_shape, key))


@op
def scatter_add(xp, values, /, shape, key):
    """Zeros of ``shape`` with ``values`` added at ``key``; repeated indices add up."""
    return xp.scatter_add(values, shape, key)


scatter_add.vjp(values=lambda xp, g, key: g[key])


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


@op(integer=("indices",), discards=True)
def take_along_axis(xp, x, indices, /, *, axis=-1):
    """The elements at ``indices`` along an axis; along the others ``x`` and ``indices`` broadcast.

    Where an index is repeated its gradients add up.
    """
    return xp.take_along_axis(x, indices, axis=axis)


take_along_axis.vjp(
    x=lambda xp, g, indices, x_shape, axis: xp.add_along_axis(g, indices, x_shape, axis)
)


@op(integer=("indices",))
def add_along_axis(xp, values, indices, /, shape, axis):
    """Zeros of ``shape`` with ``values`` added at ``indices`` along an axis; repeated ones add up.

    ``indices`` and, but for that axis, ``shape`` broadcast to the shape of ``values``.
    """
    return xp.add_along_axis(values, indices, shape, axis)


add_along_axis.vjp(values=lambda xp, g, indices, axis: xp.take_along_axis(g, indices, axis=axis))


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
    keys = key if type(key) is tuple else (key,)
    arrays = [k for k in keys if type(k) in namespace_of]
    return any(not namespace_of[type(k)].isdtype(k.dtype, "bool") for k in arrays)


setitem.vjp(
    x=lambda xp, g, key: xp.setitem(g, 0.0, key),
    value=_setitem_value,
)


@op(differentiable=False)
def last_written(xp, x, /, key):
    """Of the shape of ``x[key]``: whether that place's value stays when ``x[key]`` is assigned."""
    return xp.last_written(x, key)
