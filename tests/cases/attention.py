"""Attention."""

import numpy as np

from .base import A, B, Case, F, S, Z, beyond, inf, values


def _attention(query, key, value, mask=None, *, is_causal=False, scale=None):
    query, key, value = [x.astype(np.result_type(x, "float32")) for x in (query, key, value)]
    scores = query @ np.swapaxes(key, -1, -2) * (scale or max(query.shape[-1], 1) ** -0.5)
    n, m = scores.shape[-2:]
    if is_causal:
        scores = np.where(np.arange(n)[:, None] >= np.arange(m), scores, -inf)
    if mask is not None:
        scores = scores + (np.where(mask, 0, -inf) if mask.dtype == bool else mask)
    weights = np.exp(scores - np.maximum(scores.max(-1, keepdims=True, initial=-inf), -1e9))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total, total, 1)) @ value


def _torch_attention(torch, query, key, value, mask=None, **static):
    kernel = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with kernel:  # the others have no second derivatives
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, **static)


QKV = A(2, 2, 3), A(2, 3, 3), A(2, 3, 1)

CASES = [
    Case("attention", [
        S(*QKV), S(*QKV, is_causal=True, scale=0.3), S(A(3, 1), A(2, 1), A(2, 1), is_causal=True),
        S(*QKV, A(2, 3)), S(*QKV, B(2, 1, 3)), S(A(1, 2), A(2, 2), A(2, 1), values([[-inf, 0.5]])),
        S(A(2, 1), A(2, 1), A(2, 1), values([[False] * 2, [True, False]])),
        S(A(2, 1, 2, 1), A(2, 1, 1), A(1, 1, 1), A(1, 1, 1)), S(A(0, 3, 2), A(0, 2, 2), A(0, 2, 2)),
        S(A(2, 0, 2), A(2, 3, 2), A(2, 3, 2)), S(A(2, 3, 2), A(2, 0, 2), A(2, 0, 2)),
        S(A(2, 2, layout="transposed"), A(2, 2, layout="reversed"), A(2, 2, layout="strided")),
        # PyTorch requires one dtype.
        *beyond("torch", S(F(3, 2), Z(4, 2, below=3), A(4, 2, dtype="float64"))),
    ], _attention, _torch_attention, relative_to="matrix"),
]  # fmt: skip
