"""Scaled dot-product attention."""

import math
from itertools import groupby, product

from .._batched import aligned
from ..autograd.operation import op
from .manipulation import broadcast_shapes
from .normalization import cast, common_dtypes, widen

# How many weights are computed at a time. So few stay in the processor's cache, and memory grows
# only linearly with the number of queries and keys. On a GPU there are more, so that launches take
# little of the time.
_BLOCK = 1 << 17
_BLOCK_ON_GPU = 1 << 24
_ROWS = 32  # the fewest queries in a block, unless there are fewer


@op(integer=("mask",))
def attention(
    xp, query, key, value, mask=None, /, *,
    is_causal=False, scale=None, dropout_p=0.0, dropout_key=(0, 0),
):  # fmt: skip
    """``softmax(query @ key.T * scale + mask) @ value``, without keeping the weights.

    query: ``(..., n, d)``, real. key: ``(..., m, d)``. value: ``(..., m, e)``.
    mask: broadcasts to ``(..., n, m)``. Bools, False where a query must not use a key, or numbers
        to add; it may add leading axes, but ``n`` and ``m`` are those of query and key.
    is_causal: whether query i may use only the keys up to i.
    scale: by default ``1 / sqrt(d)``.
    dropout_p, dropout_key: the probability to zero a weight, and the key that decides which ones,
        as in `dropout_mask` for weights whose rows are padded to a multiple of 16.

    The leading axes broadcast. The result, ``(..., n, e)``, is 0 for a query without any key. The
    weights are computed block by block, and again for backward, so that memory grows linearly
    with n and m. For float16, intermediate values are computed in float32.
    (Vaswani et al. 2017, "Attention is all you need")
    """
    dtype, wide = common_dtypes(xp, query, key, value)
    work = BlockedAttention(
        xp, query, key, value, mask, wide, is_causal, scale, dropout_p, dropout_key
    )
    return cast(xp, work.result(), dtype)


class _Block:
    """A part of the weights.

    queries, keys: the index of the queries, and of the keys that they may use.
    mask: the index of the mask, which has axes of length 1 where it broadcasts.
    first: the number of the first query.
    row: how many rows of weights come before the block.
    """

    __slots__ = ("queries", "keys", "mask", "first", "row")


class BlockedAttention:
    """A call of `attention`, which computes the weights block by block.

    Its operands all have the same leading axes.
    """

    def __init__(self, xp, query, key, value, mask, wide, is_causal, scale, dropout_p, dropout_key):
        lead = leading_axes(query, key, value, mask)
        self.xp = xp
        self.scale = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
        query, self.key, self.value = [
            x if x.shape[:-2] == lead else xp.broadcast_to(x, (*lead, *x.shape[-2:]))
            for x in [cast(xp, x, wide) for x in (query, key, value)]
        ]
        self.query = query * self.scale
        if mask is not None:
            mask = xp.reshape(mask, (1,) * (len(lead) + 2 - len(mask.shape)) + tuple(mask.shape))
        self.mask, self.is_causal, self.biases = mask, is_causal, {}
        self.dropout_p, self.dropout_key = float(dropout_p), dropout_key

    def matmul(self, x1, x2):
        return self.xp.matmul(x1, x2)

    def zeros_like(self, x):
        return self.xp.zeros_like(x)

    def room(self):
        """How many rows of weights a block may have."""
        weights = _BLOCK if self.query.device == "cpu" else _BLOCK_ON_GPU
        return max(weights // self.key.shape[-2], _ROWS)

    def run(self, function, items):
        """Call ``function`` with each of the items, which are independent of each other."""
        for item in items:
            function(item)

    def blocks(self):
        *lead, n, _ = self.query.shape
        m = self.key.shape[-2]
        if not m:
            return
        room = self.room()
        parts, rest = [], math.prod(lead) * n
        for length in (*lead, n):
            rest //= max(length, 1)
            step = max(min(length, room // max(rest, 1)), 1)
            parts.append([slice(i, min(i + step, length)) for i in range(0, length, step)])
        whole = slice(None)
        row = 0
        for *before, rows in product(*parts):  # blocks are of successive rows
            block = _Block()
            block.row, block.first = row, rows.start
            columns = slice(0, min(rows.stop, m)) if self.is_causal else whole
            block.queries, block.keys = (*before, rows, whole), (*before, columns, whole)
            if self.mask is not None:
                index = zip(self.mask.shape, (*before, rows, columns), strict=True)
                block.mask = tuple([whole if length == 1 else part for length, part in index])
            yield block
            row += math.prod([part.stop - part.start for part in (*before, rows)])

    def weights(self, block):
        """The weights of a block before they are divided by their totals, and the totals."""
        xp = self.xp
        x = self.matmul(self.query[block.queries], xp.matrix_transpose(self.key[block.keys]))
        if self.is_causal and block.first == 0:
            x += self._causal_bias(x)
        elif self.is_causal and block.first < x.shape[-1]:  # all may use the keys before the first
            x[..., block.first :] += self._causal_bias(x[..., block.first :])
        if self.mask is not None:
            x += self._bias(x, self.mask[block.mask])
        most = xp.max(x, axis=-1, keepdims=True)
        if self.mask is not None:  # where all are -inf, the weights are 0 and not nan
            most = xp.maximum(most, xp.finfo(x.dtype).min)
        x -= most
        x = xp.exp(x)
        total = xp.sum(x, axis=-1, keepdims=True)
        if self.mask is not None:
            total = xp.where(total == 0, 1.0, total)
        return x, total

    def _causal_bias(self, x):
        xp = self.xp
        like = x[(*(0,) * (len(x.shape) - 2), ...)]
        if like.shape not in self.biases:
            self.biases[like.shape] = xp.triu(xp.full_like(like, -math.inf), k=1)
        return self.biases[like.shape]

    def _bias(self, x, mask):
        xp = self.xp
        if not xp.isdtype(mask.dtype, "bool"):
            return cast(xp, mask, x.dtype)
        return xp.where(mask, xp.zeros_like(mask, dtype=x.dtype), -math.inf)

    def kept(self, block, weights):
        """Bools, False for weights of a block that dropout zeroes; None without dropout."""
        if not self.dropout_p:
            return None
        from ..backends.philox import LANES  # here, since most programs need no random bits

        length = -(-self.key.shape[-2] // LANES)
        options = {"p": self.dropout_p, "key": self.dropout_key, "start": block.row * length}
        shape = *weights.shape[:-1], length * LANES
        kept = self.xp.dropout_mask(weights, shape=shape, **options)
        return kept[..., : weights.shape[-1]]

    def empty_result(self):
        """Memory for the result, with zeros where there are no keys."""
        xp, shape = self.xp, (*self.query.shape[:-1], self.value.shape[-1])
        like = self.query
        if like.shape != shape:
            like = xp.broadcast_to(like[..., :1], shape)
        # With the same order of axes in memory as the query, so that merging heads needs no copy.
        return xp.empty_like(like) if self.key.shape[-2] else xp.zeros_like(like)

    def result(self):
        xp, out = self.xp, self.empty_result()

        def compute(block):
            weights, total = self.weights(block)
            if (kept := self.kept(block, weights)) is not None:
                weights = xp.where(kept, weights, 0.0)
                total = total * (1 - self.dropout_p or 1)
            rows = self.matmul(weights, self.value[block.keys])
            rows /= total
            out[block.queries] = rows

        self.run(compute, list(self.blocks()))
        return out

    def cotangents(self, g, wanted):
        xp = self.xp
        rate = 1 - self.dropout_p or 1
        operands = self.query, self.key, self.value, self.mask
        to_query, to_key, to_value, to_mask = [
            self.zeros_like(x) if w else None for x, w in zip(operands, wanted, strict=True)
        ]

        def add(block):
            weights, total = self.weights(block)
            kept = self.kept(block, weights)
            g_rows = g[block.queries] / total
            if kept is not None:
                g_rows /= rate
            if wanted[2]:
                dropped = weights if kept is None else xp.where(kept, weights, 0.0)
                to_value[block.keys] += self.matmul(xp.matrix_transpose(dropped), g_rows)
            if not (wanted[0] or wanted[1] or wanted[3]):
                return
            slopes = self.matmul(g_rows, xp.matrix_transpose(self.value[block.keys]))
            if kept is not None:
                slopes = xp.where(kept, slopes, 0.0)
            slopes -= xp.expand_dims(xp.vecdot(weights, slopes, axis=-1), axis=-1) / total
            slopes *= weights
            if wanted[0]:
                to_query[block.queries] = self.matmul(slopes, self.key[block.keys]) * self.scale
            if wanted[1]:
                rows = self.query[block.queries]
                to_key[block.keys] += self.matmul(xp.matrix_transpose(slopes), rows)
            if wanted[3]:
                axes = tuple([i for i, length in enumerate(self.mask.shape) if length == 1])
                to_mask[block.mask] += xp.sum(slopes, axis=axes, keepdims=True)

        def add_all(blocks):
            for block in blocks:
                add(block)

        blocks = list(self.blocks())
        if wanted[3]:  # all blocks may add to the same elements of a mask
            add_all(blocks)
        else:  # those with the same leading axes share keys
            groups = groupby(blocks, lambda block: [axis.start for axis in block.keys[:-2]])
            self.run(add_all, [list(group) for _, group in groups])
        return to_query, to_key, to_value, to_mask


def leading_axes(query, key, value, mask):
    """The shape that the leading axes broadcast to; ValueError if the shapes do not fit."""
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if min(map(len, shapes)) < 2:
        raise ValueError("query, key and value must have at least two axes")
    (n, d), (m, d_of_key), (m_of_value, _) = [shape[-2:] for shape in shapes]
    if d != d_of_key or m != m_of_value:
        raise ValueError("query (..., n, d), key (..., m, d) and value (..., m, e) do not fit")
    if mask is not None:
        given = (1, 1, *mask.shape)[-max(len(mask.shape), 2) :]
        if given[-2] not in (1, n) or given[-1] not in (1, m):
            raise ValueError(
                f"a mask for {n} queries and {m} keys must broadcast to (..., {n}, {m}), but its "
                f"shape is {tuple(mask.shape)}"
            )
        shapes.append(given)
    try:
        return broadcast_shapes(*[shape[:-2] for shape in shapes])
    except ValueError:
        raise ValueError("leading axes of query, key, value and mask do not broadcast") from None


def _attention_vjp(
    xp, g, query, key, value, mask, is_causal, scale, dropout_p, dropout_key, wanted
):
    g, wide_query = widen(xp, g, query)
    work = BlockedAttention(
        xp, query, key, value, mask, wide_query.dtype, is_causal, scale, dropout_p, dropout_key
    )
    *cotangents, to_mask = work.cotangents(g, wanted)
    return *cotangents, None if to_mask is None else xp.reshape(to_mask, mask.shape)


def _attention_vmap(call, batched, *operands, dropout_p=0.0, **static):
    if dropout_p or min(len(x.shape) - b for x, b in zip(operands[:3], batched, strict=False)) < 2:
        return NotImplemented  # one by one: each example gets the same mask, or the error
    return call(*aligned(batched, operands), **static)


attention.vjp(joint=_attention_vjp).vmap(_attention_vmap)
