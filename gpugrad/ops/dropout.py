"""Dropout and its mask. Both are functions of a key, so backward need not store the mask."""

from ..autograd import call as calls
from ..autograd.operation import elementwise
from .by_name import library_function


@library_function(differentiable=False)
def dropout_mask(x, /, *, shape, p, key, start=0):
    """Bools of ``shape``, each False with probability ``p``, on the device of the array ``x``.

    key: two 64-bit ints, such as `gpugrad.random.Generator.key` returns. The same key gives
        the same bools on every device, and for every example inside `vmap`.
    start: how many blocks of 16 elements of a larger array come before these.

    The random bits come from Philox4x64-10 (Salmon et al. 2011). Raises ValueError unless
    ``p`` is between 0 and 1.
    """


def _dropout_mask_vmap(call, batched, x, *, shape, **static):
    mask = call(x, shape=shape, **static)
    return calls.namespace.broadcast_to(mask, (x.shape[0], *mask.shape))


dropout_mask.vmap(_dropout_mask_vmap)


def _masked(xp, x, p, key, shape):
    mask = xp.dropout_mask(x, shape=shape, p=p, key=key)
    # Not multiplied by the mask: inf * 0 would be nan.
    out = xp.where(mask, x, 0.0)
    if p < 1:
        out *= 1 / (1 - float(p))
    return out


@elementwise(discards=True)
def dropout(xp, x, /, *, p, key):
    """``x / (1 - p)``, or 0 where ``dropout_mask(x, shape=x.shape, p=p, key=key)`` is False.

    `gpugrad.nn.functional.dropout` draws a new key each time.
    """
    return _masked(xp, x, p, key, x.shape)


dropout.vjp(x=lambda xp, g, p, key: _masked(xp, g, p, key, g.shape))
dropout.vmap(lambda call, batched, x, *, p, key: _masked(calls.namespace, x, p, key, x.shape[1:]))
