"""Multi-head attention, with PyTorch's parameter names, shapes and initial values."""

import math
from typing import Any

from .._arguments import is_floating, require, whole
from .._creation import asarray, ones, zeros
from .._dtypes import isdtype
from .._tensor import Tensor
from ..backends.dtypes import bool_
from ..ops.elementwise import where
from ..ops.manipulation import broadcast_to, concat, expand_dims, permute_dims, split, triu, unstack
from ..ops.neural import linear, softmax
from ..random import Generator
from . import functional, init
from .common import check_probability, check_shape, shape_of
from .layers import Linear
from .module import Module, Parameter


class MultiheadAttention(Module):
    """Attention of several heads, with projections before and after (Vaswani et al. 2017).

    ``query (n, batch, embed_dim), key (m, batch, kdim), value (m, batch, vdim)`` give ``(n, batch,
    embed_dim)``. With ``batch_first`` the first two axes change places; without the axis of the
    batch there is one example.

    embed_dim: the number of features, which the heads share evenly.
    num_heads: the number of heads.
    dropout: the probability with which a weight is dropped in training.
    bias: whether the projections have biases, initially zeros.
    add_bias_kv: whether to append a trained key and value, ``bias_k`` and ``bias_v``.
    add_zero_attn: whether to append a key and a value of zeros.
    kdim, vdim: the numbers of features of key and value; by default ``embed_dim``.
    dtype, device, generator: as for `Linear`; the generator also decides which weights to drop.

    The state has ``in_proj_weight (3 * embed_dim, embed_dim)``, or ``q_proj_weight``,
    ``k_proj_weight`` and ``v_proj_weight`` if kdim or vdim is another number, ``in_proj_bias`` and
    ``out_proj``.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, *, dtype: Any = None,
        device: str | None = None, generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.embed_dim = embed_dim = whole("MultiheadAttention: embed_dim", embed_dim, 1)
        self.num_heads = whole("MultiheadAttention: num_heads", num_heads, 1)
        what = f"MultiheadAttention: embed_dim must be a multiple of num_heads {num_heads}"
        require(embed_dim % num_heads == 0, what, embed_dim)
        check_probability("MultiheadAttention: dropout", dropout)
        self.kdim = embed_dim if kdim is None else whole("MultiheadAttention: kdim", kdim, 1)
        self.vdim = embed_dim if vdim is None else whole("MultiheadAttention: vdim", vdim, 1)
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // self.num_heads
        self.add_zero_attn = add_zero_attn
        self.generator = generator

        def parameter(initialise, *shape):
            made = Parameter(zeros(shape, dtype=dtype, device=device))
            if initialise:
                initialise(made, generator=generator)
            return made

        self.in_proj_weight = self.q_proj_weight = None
        self.k_proj_weight = self.v_proj_weight = None
        xavier = init.xavier_uniform_
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = parameter(xavier, 3 * embed_dim, embed_dim)
        else:
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = (
                parameter(xavier, embed_dim, n) for n in (embed_dim, self.kdim, self.vdim)
            )
        self.in_proj_bias = parameter(None, 3 * embed_dim) if bias else None
        place: Any = {"dtype": dtype, "device": device, "generator": generator}
        self.out_proj = Linear(embed_dim, embed_dim, bias, **place)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        self.bias_k = self.bias_v = None
        if add_bias_kv:
            self.bias_k = parameter(init.xavier_normal_, 1, 1, embed_dim)
            self.bias_v = parameter(init.xavier_normal_, 1, 1, embed_dim)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None,
        average_attn_weights: bool = True, is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The output, and the weights or None.

        key_padding_mask: ``(batch, m)``, or ``(m,)`` for one example: True for keys to ignore, or
            numbers to add to the scores.
        need_weights: whether to return the weights, ``(batch, n, m)``. Without them the memory
            does not grow with ``n * m``.
        attn_mask: ``(n, m)`` or ``(batch * num_heads, n, m)``: True where a query must ignore a
            key, or numbers to add.
        average_attn_weights: whether the weights are averaged over the heads; else they are
            ``(batch, num_heads, n, m)``.
        is_causal: whether query i ignores the keys after i. If there is a mask too, it must say
            the same.

        Raises ValueError for shapes that do not fit.
        """
        self._check(query, key, value)
        single = query.ndim == 2
        if single:
            query, key, value = self._with_a_batch(query, key, value)
            if key_padding_mask is not None:
                key_padding_mask = expand_dims(asarray(key_padding_mask), 0)
        q, k, v, added = self._heads(query, key, value)
        needs_mask = need_weights or added or key_padding_mask is not None
        if is_causal and not needs_mask:
            attn_mask = None
        elif is_causal and attn_mask is None:
            shape = q.shape[2], k.shape[2] - added
            attn_mask = triu(ones(shape, dtype=bool_, device=query.device), k=1)
        mask = self._mask(q, k, attn_mask, key_padding_mask, added)
        p = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (q * (1 / math.sqrt(self.head_dim))) @ k.mT
            if mask is not None:
                scores = where(mask, scores, -math.inf) if _is_bool(mask) else scores + mask
            weights = functional.dropout(softmax(scores, axis=-1), p, generator=self.generator)
            out = weights @ v
            weights = weights.mean(axis=1) if average_attn_weights else weights
        else:
            out = functional.scaled_dot_product_attention(
                q, k, v, mask, p, is_causal and not needs_mask, generator=self.generator
            )
        out = permute_dims(out, (0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3))
        out = self.out_proj(out.reshape((*out.shape[:2], self.embed_dim)))
        if single:
            out = out.reshape((q.shape[2], self.embed_dim))
            weights = None if weights is None else weights[0]
        return out, weights

    def _check(self, query, key, value):
        q, k, v = shapes = [shape_of("MultiheadAttention", x) for x in (query, key, value)]
        batch, features = 0 if self.batch_first else 1, (self.embed_dim, self.kdim, self.vdim)
        fits = {*map(len, shapes)} in ({2}, {3}) and q[-1:] + k[-1:] + v[-1:] == features
        if not fits or k[:-1] != v[:-1] or (len(q) == 3 and q[batch] != k[batch]):
            lead = "(batch, {}, {})" if self.batch_first else "({}, batch, {})"
            sizes = ("n", self.embed_dim), ("m", self.kdim), ("m", self.vdim)
            expected = [lead.format(*pair) for pair in sizes]
            raise ValueError(
                f"MultiheadAttention: query, key and value must be {', '.join(expected)}, or all "
                f"without a batch, but their shapes are {', '.join(map(str, shapes))}"
            )

    def _with_a_batch(self, query, key, value):
        """The inputs with a batch of length 1; one tensor in two places stays one tensor."""
        place = 0 if self.batch_first else 1
        made = {id(x): expand_dims(x, place) for x in (query, key, value)}
        return made[id(query)], made[id(key)], made[id(value)]

    def _heads(self, query, key, value):
        """The projected query, key and value, ``(batch, heads, length, head_dim)``, and the number
        of appended keys."""
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key is value:
            projected = self._split(linear(query, weight, bias), 3)
        else:
            own = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
            weights = own if weight is None else split(weight, 3)
            biases = (None,) * 3 if bias is None else split(bias, 3)
            triples = zip((query, key, value), weights, biases, strict=True)
            projected = [y for x, w, b in triples for y in self._split(linear(x, w, b))]
        q, k, v = projected
        more_k, more_v = [], []
        if self.bias_k is not None:
            more_k += self._split(self.bias_k)
            more_v += self._split(self.bias_v)
        if self.add_zero_attn:
            more_k.append(zeros((1, k.shape[1], 1, k.shape[3]), dtype=k.dtype, device=k.device))
            more_v.append(more_k[-1])
        if more_k:
            shape = (*k.shape[:2], 1, k.shape[3])
            k = concat([k, *[broadcast_to(x, shape) for x in more_k]], axis=2)
            v = concat([v, *[broadcast_to(x, shape) for x in more_v]], axis=2)
        return q, k, v, len(more_k)

    def _split(self, x, parts=1):
        """Split the last axis of ``x`` into parts and heads, and order the axes as in `_heads`."""
        x = x.reshape((*x.shape[:2], parts, self.num_heads, self.head_dim))
        order = (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)
        return [permute_dims(part, order) for part in unstack(x, axis=2)]

    def _mask(self, q, k, attn_mask, key_padding_mask, added):
        """A mask for `scaled_dot_product_attention` that broadcasts to the weights, or None."""
        batch, heads, n, _ = q.shape
        m = k.shape[2] - added
        masks = []
        if attn_mask is not None:
            attn_mask = asarray(attn_mask)
            if attn_mask.shape not in ((n, m), (batch * heads, n, m)):
                raise ValueError(
                    f"MultiheadAttention: attn_mask must have shape {(n, m)} or "
                    f"{(batch * heads, n, m)}, not {attn_mask.shape}"
                )
            if attn_mask.ndim == 3:
                attn_mask = attn_mask.reshape((batch, heads, n, m))
            masks.append(attn_mask)
        if key_padding_mask is not None:
            key_padding_mask = asarray(key_padding_mask)
            check_shape(key_padding_mask, (batch, m), "MultiheadAttention: key_padding_mask")
            masks.append(key_padding_mask.reshape((batch, 1, 1, m)))
        for mask in masks:
            if not (_is_bool(mask) or is_floating(mask)):
                raise TypeError(
                    f"MultiheadAttention: a mask must be of bools or floating, not {mask.dtype}"
                )
        if not masks:
            return None
        if all(map(_is_bool, masks)):
            mask = ~masks[0] if len(masks) == 1 else ~(masks[0] | masks[1])
            fill = ones
        else:
            mask = sum([_additive(mask, q.dtype) for mask in masks])
            fill = zeros
        if added:
            more = fill((*mask.shape[:-1], added), dtype=mask.dtype, device=mask.device)
            mask = concat([mask, more], axis=-1)
        return mask


def _is_bool(mask):
    return isdtype(mask.dtype, "bool")


def _additive(mask, dtype):
    """A mask of numbers to add: -inf where a mask of bools is True."""
    if _is_bool(mask):
        return where(mask, -math.inf, zeros((), dtype=dtype, device=mask.device))
    return mask.astype(dtype, copy=False)
