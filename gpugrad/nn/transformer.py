"""Layers and stacks of transformers, with PyTorch's parameter names, shapes and initial values."""

import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .._arguments import check_type, one_of, whole
from .._creation import full
from .._tensor import Tensor
from ..ops.manipulation import triu
from ..random import Generator
from . import functional, init
from .attention import MultiheadAttention
from .container import ModuleList
from .layers import Dropout, Linear
from .module import Module
from .normalization import LayerNorm


class _Layer(Module):
    """Base class of the layers of encoders and decoders."""

    _attentions: tuple[str, ...] = ()
    self_attn: MultiheadAttention
    multihead_attn: MultiheadAttention

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = functional.relu,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, *, dtype: Any = None, device: str | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        if isinstance(activation, str):
            named = f"{type(self).__name__}: an activation that is no function"
            activation = getattr(functional, one_of(named, activation, ("relu", "gelu")))
        self.norm_first = norm_first
        self.activation = activation
        given: dict[str, Any] = {"dtype": dtype, "device": device}
        drawn = given | {"generator": generator}
        attentions = self._attentions
        for name in attentions:
            sizes = d_model, nhead, dropout, bias
            setattr(self, name, MultiheadAttention(*sizes, batch_first=batch_first, **drawn))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **drawn)
        self.dropout = Dropout(dropout, generator=generator)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **drawn)
        numbers = range(1, len(attentions) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, **given))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout, generator=generator))

    def _through(self, x, *blocks):
        """Add the result of each block to ``x``, with the block's norm before it or after."""
        for i, block in enumerate(blocks, 1):
            norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
            x = x + dropout(block(norm(x))) if self.norm_first else norm(x + dropout(block(x)))
        return x

    def _attend(self, attention, mask, key_padding_mask, is_causal, *memory):
        """A block that attends to ``memory``, if that is given, or to its own input."""

        def attended(x):
            (keys,) = memory or (x,)
            out, _ = attention(x, keys, keys, key_padding_mask, False, mask, is_causal=is_causal)
            return out

        return attended

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and a norm.

    ``(n, batch, d_model) -> (n, batch, d_model)``; with ``batch_first`` the first two axes change
    places. An input without the axis of the batch is one example.

    d_model: the number of features. nhead: the number of heads, which divides it.
    dim_feedforward: the width of the feed-forward network.
    dropout: the probability of `Dropout` after each part, in the network and of the weights.
    activation: of the network: ``"relu"``, ``"gelu"`` or a function.
    layer_norm_eps: of the norms.
    norm_first: whether a norm comes before each part, rather than after the sum.
    bias: whether linear layers and norms have biases.
    dtype, device, generator: as for `Linear`; the generator also decides which elements to drop.

    From Vaswani et al. (2017).
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The masks are as in `MultiheadAttention`; with ``is_causal`` give no ``src_mask``."""
        attend = self._attend(self.self_attn, src_mask, src_key_padding_mask, is_causal)
        return self._through(src, attend, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network.

    ``tgt (n, batch, d_model), memory (m, batch, d_model) -> (n, batch, d_model)``. The arguments
    are those of `TransformerEncoderLayer`.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The masks are as in `MultiheadAttention`."""
        attend = self._attend(self.self_attn, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        of_memory = memory_mask, memory_key_padding_mask, memory_is_causal, memory
        attend_to_memory = self._attend(self.multihead_attn, *of_memory)
        return self._through(tgt, attend, attend_to_memory, self._feed_forward)


class _Stack(Module):
    def _fill(self, layer, num_layers, norm):
        name = type(self).__name__
        check_type(layer, Module, f"{name}: the layer must be a Module")
        self.num_layers = whole(f"{name}: num_layers", num_layers, 1)
        self.layers = ModuleList([deepcopy(layer) for _ in range(num_layers)])
        self.norm = norm

    def _through(self, x, *others):
        for layer in self.layers:
            x = layer(x, *others)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of copies of a layer, which all start with its values, and perhaps a norm at the end.

    ``(n, batch, d_model) -> (n, batch, d_model)``, as of the layer.

    encoder_layer: a `TransformerEncoderLayer`, or a module that is called in the same way.
    norm: applied to the result of the last layer.
    enable_nested_tensor, mask_check: arguments of PyTorch's that change nothing here.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        self._fill(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The masks are as in `MultiheadAttention`; with ``is_causal`` give no ``mask``."""
        return self._through(src, mask, src_key_padding_mask, bool(is_causal))


class TransformerDecoder(_Stack):
    """A stack of copies of a layer, which all start with its values, and perhaps a norm at the end.

    ``tgt (n, batch, d_model), memory (m, batch, d_model) -> (n, batch, d_model)``, as of the layer.

    decoder_layer: a `TransformerDecoderLayer`, or a module that is called in the same way.
    norm: applied to the result of the last layer.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self._fill(decoder_layer, num_layers, norm)

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The masks are as in `MultiheadAttention`."""
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self._through(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)


class Transformer(Module):
    """An encoder, and a decoder that attends to its result (Vaswani et al. 2017).

    ``src (m, batch, d_model), tgt (n, batch, d_model) -> (n, batch, d_model)``; with
    ``batch_first`` the first two axes change places. Inputs without the axis of the batch are one
    example. At first, all matrices are from the distribution of `init.xavier_uniform_`.

    num_encoder_layers, num_decoder_layers: how many layers each has, and a norm after the last.
    custom_encoder, custom_decoder: modules in place of `TransformerEncoder` and
        `TransformerDecoder`, which are called in the same way.

    The other arguments are those of `TransformerEncoderLayer`. Raises ValueError for shapes that do
    not fit.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = functional.relu,
        custom_encoder: Module | None = None, custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, *, dtype: Any = None, device: str | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        place: Any = {"dtype": dtype, "device": device}
        options: Any = (dim_feedforward, dropout, activation, layer_norm_eps, batch_first)
        options = (*options, norm_first, bias)

        def stack(kind, layer, count):
            made = layer(d_model, nhead, *options, **place, generator=generator)
            return kind(made, count, LayerNorm(d_model, layer_norm_eps, bias=bias, **place))

        self.encoder: Any = custom_encoder
        if custom_encoder is None:
            self.encoder = stack(TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        self.decoder: Any = custom_decoder
        if custom_decoder is None:
            self.decoder = stack(TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p, generator=generator)

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """The masks are as in `MultiheadAttention`."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, *, dtype: Any = None, device: str | None = None
    ) -> Tensor:
        """``(sz, sz)``: -inf where a position must ignore a later one, else 0; to be added.

        Passing ``is_causal=True`` instead of such a mask is faster.
        """
        return triu(full((sz, sz), -math.inf, dtype=dtype, device=device), k=1)
