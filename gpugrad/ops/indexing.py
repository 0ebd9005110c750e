"""Indexing and assignment. A key is an int, slice, ``...``, None, an integer or bool array,
or a tuple of these, as in NumPy; arrays in it are raw."""

from ..autograd.operation import op


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


@op(integer=("x",), discards=True)
def setitem(xp, x, value, /, key):
    """A copy of ``x``, of its dtype, with ``value`` at ``key``.

    Of a repeated index the last value stays, and alone gets a gradient.
    """
    return xp.setitem(x, value, key)


def _setitem_value(xp, g, value_shape, key):
    taken = g[key]
    if _may_repeat(key):
        taken = xp.where(xp.last_written(g, key), taken, 0.0)
    if len(value_shape) > len(taken.shape):  # NumPy lets leading axes of length 1 go
        taken = xp.reshape(taken, (1,) * (len(value_shape) - len(taken.shape)) + taken.shape)
    return taken


def _may_repeat(key):
    keys = key if type(key) is tuple else (key,)
    return any(not (k is None or k is ... or isinstance(k, (int, slice))) for k in keys)


setitem.vjp(
    x=lambda xp, g, key: xp.setitem(g, 0.0, key),
    value=_setitem_value,
)


@op(differentiable=False)
def last_written(xp, x, /, key):
    """Of the shape of ``x[key]``: whether that place's value stays when ``x[key]`` is assigned."""
    return xp.last_written(x, key)
