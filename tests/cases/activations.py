"""Activations."""

import math

import numpy as np

from .base import A, Case, S, inf, kink, nan, unlike_torch, values
from .draws import nonzero
from .kinds import unary

_erf = np.vectorize(math.erf, otypes=[float])


def _elu(x, *, alpha=1.0, scale=1.0, input_scale=1.0):
    return scale * np.where(x > 0, x, alpha * np.expm1(input_scale * np.minimum(x, 0)))


def _torch_elu(torch, x, *, alpha=1.0, scale=1.0, input_scale=1.0):
    return torch.ops.aten.elu(x, alpha, scale, input_scale)


def _gelu(x, *, approximate="none"):
    x = np.maximum(x, -1e4, dtype="float64")  # -inf * 0 would be nan
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def _softplus(x, *, beta=1.0, threshold=20.0):
    return np.where(beta * x > threshold, x, np.logaddexp(0, beta * x) / beta)


def _hardshrink(x, *, lambd=0.5):
    return np.where(np.abs(x) <= lambd, 0, x)


def _softshrink(x, *, lambd=0.5):
    return np.where(np.abs(x) <= lambd, 0, x - np.sign(x) * lambd)


def at_infinity(**static):
    """Slopes where PyTorch's values and slopes are nan."""
    return kink([-inf, inf], gradients=([0.0, 1.0],), unlike_torch="nan at infinities", **static)


def _far(x):
    """Values where a careless formula overflows, or loses its digits."""
    return S(values([-x, -30.0, -10.0, 10.0, 30.0, x]))


CASES = [
    Case("leaky_relu", [
        *unary(nonzero),
        *(S(values([-2.0, 3.0]), negative_slope=slope) for slope in (0.0, 0.3, 1.5, -0.5)),
        kink([0.0, -inf, inf], gradients=([0.01, 0.01, 1.0],)),
        kink([0.0], negative_slope=1.5, gradients=([1.5],)),
        kink([0.0, inf], negative_slope=0.0, gradients=([0.0, 1.0],)),
    ], lambda x, *, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
         torch="nn.functional.leaky_relu"),
    Case("elu", [
        *unary(nonzero), S(values([-2.0, 3.0]), alpha=0.5),
        S(values([-2.0, 3.0]), alpha=1.7, scale=1.1),
        S(values([-2.0, 3.0]), alpha=2.0, input_scale=0.5), _far(1e4),
        kink([0.0, -inf, inf], alpha=0.5, gradients=([0.5, 0.0, 1.0],)),
        kink([0.0], alpha=1.5, scale=2.0, gradients=([3.0],)),
    ], _elu, _torch_elu),
    Case("gelu", [
        *unary(),
        *(
            S(values([-1e4, -5.0, -2.0, 0.0, 3.0, 5.0, 1e4]), approximate=how)
            for how in ("none", "tanh")
        ),
        at_infinity(), at_infinity(approximate="tanh"),
    ], _gelu, torch="nn.functional.gelu"),
    Case("silu", [*unary(), _far(1e4), at_infinity()],
         lambda x: np.maximum(x, -2e4) * np.exp(-np.logaddexp(0, -x)), torch="nn.functional.silu"),
    Case("mish", [
        *unary(), *unlike_torch("PyTorch's second gradient is nan", _far(1e4)), at_infinity(),
    ], lambda x: np.maximum(x, -2e4) * np.tanh(np.logaddexp(0, x)), torch="nn.functional.mish"),
    Case("softplus", [
        *unary(), S(values([-2.0, 0.0, 3.0]), beta=0.5),
        S(values([-2.0, 0.0, 3.0]), beta=2.0, threshold=1.0), _far(1e4),
        kink([-inf, inf], gradients=([0.0, 1.0],)),
    ], _softplus, torch="nn.functional.softplus"),
    Case("softsign", [*unary(nonzero), _far(1e4), kink([0.0], gradients=([1.0],))],
         lambda x: x / (1 + np.abs(x)), torch="nn.functional.softsign"),
    Case("hardtanh", [
        *unary(nonzero), S(values([-2.0, 0.5, 7.0]), min_val=0.0, max_val=6.0),
        kink([-1.0, 1.0, -inf, inf], gradients=([0.0, 0.0, 0.0, 0.0],)),
        kink([0.0, 6.0, 3.0], min_val=0.0, max_val=6.0, gradients=([0.0, 0.0, 1.0],)),
    ], lambda x, *, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
         "nn.functional.hardtanh"),
    Case("hardsigmoid", [
        *unary(), kink([-3.0, 3.0, -inf, inf], gradients=([0.0, 0.0, 0.0, 0.0],)),
    ], lambda x: np.clip(x + 3, 0, 6) / 6,
         lambda torch, x: torch.nn.functional.hardtanh(x, -3.0, 3.0) / 6 + 0.5),  # twice, too
    Case("hardswish", [
        *unary(), S(values([-1e4, -4.0, -2.0, 2.0, 4.0, 1e4])),
        kink([-3.0, 3.0], gradients=([0.0, 1.0],)), at_infinity(),
    ], lambda x: np.maximum(x, -3) * np.clip(x + 3, 0, 6) / 6, torch="nn.functional.hardswish"),
    Case("logsigmoid", [*unary(), _far(1e4), kink([-inf, inf], gradients=([1.0, 0.0],))],
         lambda x: -np.logaddexp(0, -x), torch="nn.functional.logsigmoid"),
    Case("tanhshrink", [*unary(), _far(1e4), kink([-inf, inf], gradients=([1.0, 1.0],))],
         lambda x: x - np.tanh(x), torch="nn.functional.tanhshrink"),
    *(
        Case(name, [
            *unary(nonzero), *(S(values([-2.0, -0.3, 0.2, 3.0]), lambd=at) for at in (0.0, 1.5)),
            kink([-0.5, 0.5, 0.0, -inf, inf, nan], gradients=([0.0, 0.0, 0.0, 1.0, 1.0, 1.0],)),
        ], reference, torch=f"nn.functional.{name}")
        for name, reference in (("hardshrink", _hardshrink), ("softshrink", _softshrink))
    ),
    Case("threshold", [
        S(A(3, 4), threshold=0.1, value=-2.0), S(A(), threshold=0.0, value=3.0),
        S(A(0, 2), threshold=1.0, value=2.0),
        kink([0.5, 0.6, nan], threshold=0.5, value=7.0, gradients=([0.0, 1.0, 1.0],)),
    ], lambda x, *, threshold, value: np.where(x <= threshold, value, x),
         torch="nn.functional.threshold"),
]  # fmt: skip
