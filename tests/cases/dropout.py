"""Dropout and its mask."""

import math
from fractions import Fraction

import numpy as np

from .base import A, Case, S, inf, kink, nan, values
from .kinds import unary


def keeps(shape, p, key):
    """Return the mask that keeps elements, by 16-bit lanes of Philox4x64-10, in exact fractions."""
    bits = np.random.Philox(key=np.array(key, np.uint64)).random_raw(math.prod(shape) // 4 + 1)
    lanes = [int(word) >> 16 * i & 0xFFFF for word in bits for i in range(4)]
    golden = Fraction((key[0] + key[1] * 0x9E3779B97F4A7C15) % 2**64, 2**64)
    least = math.floor(Fraction(p) * 2**16 + golden)
    return np.array([lane >= least for lane in lanes[: math.prod(shape)]], bool).reshape(shape)


def dropped(x, *, p, key):
    return np.where(keeps(x.shape, p, key), x / (1 - p) if p < 1 else x, 0)


KEY = 5, 7
FAR = 2**64 - 1, 2**63 + 11

CASES = [
    Case("dropout", [
        *(S(*sample.inputs, p=0.5, key=KEY) for sample in unary()), S(A(5, 7), p=0.1, key=FAR),
        S(A(4, 33), p=0.3, key=FAR), S(A(3, 17), p=0.0, key=KEY), S(A(3, 17), p=1.0, key=KEY),
        S(A(300), p=0.25, key=KEY), S(values([inf, nan, 1.0, -inf] * 4, "float64"), p=1.0, key=KEY),
        kink([inf, nan, -inf] * 3, p=0.5, key=KEY, gradients=(2.0 * keeps((9,), 0.5, KEY),)),
    ], dropped, complex=True, sized=lambda n: S(A(n), p=0.5, key=KEY)),
    Case("dropout_mask", [
        S(A(2), shape=(3, 5), p=0.5, key=KEY), S(A(2), shape=(65,), p=0.9, key=FAR),
        S(A(), shape=(), p=0.5, key=KEY), S(A(0), shape=(3, 0), p=0.5, key=KEY),
        S(A(2), shape=(40,), p=0.0, key=KEY), S(A(2), shape=(40,), p=1.0, key=KEY),
        *(S(A(2), shape=(9000,), p=p, key=(7, 5)) for p in (1e-4, 0.999)),
    ], lambda x, *, shape, p, key: keeps(shape, p, key), differentiable=False),
]  # fmt: skip
