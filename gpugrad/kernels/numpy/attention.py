"""The twin of the op in gpugrad/ops/attention.py: several threads compute blocks of the weights."""

from math import prod

from ...backends.dtypes import float32, float64
from ...backends.numpy.threads import has_several, run
from ...ops.attention import BlockedAttention, attention


class _Attention(BlockedAttention):
    run = staticmethod(run)


def _work(xp, query, key, value, mask, *static, **named):
    """An object that computes a call by blocks; None for other dtypes, or for a single block."""
    dtype = query.dtype
    if dtype not in (float32, float64) or key.dtype != dtype or value.dtype != dtype:
        return None
    if not has_several():
        return None
    work = _Attention(xp, query, key, value, mask, dtype, *static, **named)
    number = prod(work.query.shape[:-1]) * work.key.shape[-2]
    return work if number > work.elements() else None


def _attention(xp, *operands, **static):
    work = _work(xp, *operands, **static)
    return NotImplemented if work is None else work.result()


def _attention_vjp(
    xp, g, query, key, value, mask, is_causal, scale, dropout_p, dropout_key, wanted
):
    if g.dtype != query.dtype:
        return NotImplemented
    work = _work(xp, query, key, value, mask, is_causal, scale, dropout_p, dropout_key)
    if work is None:
        return NotImplemented
    *cotangents, to_mask = work.cotangents(g, wanted)
    return *cotangents, None if to_mask is None else to_mask.reshape(mask.shape)


attention.twin("numpy", _attention, joint=_attention_vjp)
