"""Dropout, and its mask: functions of a key, so that nothing is kept to do the same again."""

from ..autograd import call as calls
from ..autograd.operation import elementwise, op


@op(differentiable=False)
def dropout_mask(xp, x, /, *, shape, p, key):
    """Bools of ``shape``, each False with probability ``p``, on the device of the array ``x``.

    key: two ints of 64 bits, such as `gpugrad.random.Generator.key` gives. The same key gives
        the same bools on every device, and inside `vmap` to each example.

    They are made of random bits of Philox4x64-10 (Salmon et al. 2011). Raises ValueError unless
    ``p`` is from 0 to 1.
    """
    return xp.dropout_mask(x, shape=shape, p=p, key=key)


def _mask_of_batch(call, batched, x, *, shape, p, key):
    mask = call(x, shape=shape, p=p, key=key)
    return calls.namespace.broadcast_to(mask, (x.shape[0], *mask.shape))


dropout_mask.vmap(_mask_of_batch)


def _dropped(xp, x, p, key, shape):
    mask = xp.dropout_mask(x, shape=shape, p=p, key=key)
    # Chosen, not multiplied: no product makes 0 of an infinity.
    out = xp.where(mask, x, 0.0)
    if p < 1:
        out *= 1 / (1 - float(p))
    return out


@elementwise(discards=True)
def dropout(xp, x, /, *, p, key):
    """``x / (1 - p)``, or 0 where ``dropout_mask(x, shape=x.shape, p=p, key=key)`` is False.

    `gpugrad.nn.functional.dropout` takes a new key each time.
    """
    return _dropped(xp, x, p, key, x.shape)


dropout.vjp(x=lambda xp, g, p, key: _dropped(xp, g, p, key, g.shape))
dropout.vmap(lambda call, batched, x, *, p, key: _dropped(calls.namespace, x, p, key, x.shape[1:]))
