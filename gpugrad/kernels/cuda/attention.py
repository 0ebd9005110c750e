"""The twin of the op in gpugrad/ops/attention.py: softmax and its VJP take one launch each.

It supports float32 and float64, without a mask and without dropout.
"""

from ...backends.dtypes import float32, float64
from ...ops.attention import BlockedAttention, attention
from .neural import softmax

_SOFTMAX = softmax.op.twins["cupy"]


class _Attention(BlockedAttention):
    def elements(self):
        return 1 << 24  # so many that launches take little of the time

    def weights(self, block):
        return _SOFTMAX["forward"](self.xp, self.scores(block)), 1

    def slopes(self, products, weights, total):
        return _SOFTMAX["x"](self.xp, products, weights, -1)


def _covers(query, key, value, mask, dropout_p):
    return (
        mask is None
        and not dropout_p
        and query.dtype in (float32, float64)
        and query.dtype == key.dtype == value.dtype
        and query.size
        and key.size
        and value.size
    )


def _attention(
    xp, query, key, value, mask=None, /, *, is_causal=False, scale=None, dropout_p=0.0, **_
):
    if not _covers(query, key, value, mask, dropout_p):
        return NotImplemented
    work = _Attention(xp, query, key, value, None, query.dtype, is_causal, scale, 0.0, None)
    return work.result()


def _attention_vjp(xp, g, query, key, value, mask, is_causal, scale, dropout_p, wanted):
    if not _covers(query, key, value, mask, dropout_p) or g.dtype != query.dtype:
        return NotImplemented
    work = _Attention(xp, query, key, value, None, query.dtype, is_causal, scale, 0.0, None)
    return work.cotangents(g, wanted)


attention.twin("cupy", _attention, joint=_attention_vjp)
