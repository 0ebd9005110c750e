"""Normalization."""

import numpy as np

from .base import A, Case, F, S, Z, beyond, kink, unlike_torch
from .kinds import integer_inputs


def _precise(x):
    return np.asarray(x, np.result_type(x, "float32") if x.dtype.kind == "f" else "float64")


def _layer_norm(x, weight=None, bias=None, *, ndim=1, eps=1e-5):
    axes = tuple(range(-ndim, 0))
    x = _precise(x)
    out = x - x.mean(axes, keepdims=True)
    out = out / np.sqrt((out * out).mean(axes, keepdims=True) + eps)
    return _affine(out, weight, bias)


def _affine(out, weight, bias):
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def _torch_of_last_axes(name):
    """Return PyTorch's function that takes the lengths of the axes that it normalizes."""

    def call(torch, x, *parameters, ndim=1, **static):
        function = getattr(torch.nn.functional, name)
        return function(x, x.shape[x.ndim - ndim :], *parameters, **static)

    return call


def _batch_norm(x, weight=None, bias=None, *, eps=1e-5):
    x = _precise(x)
    axes = (0, *range(2, x.ndim))
    if x.size:
        mean, var = x.mean(axes), x.var(axes)
    else:
        mean = var = np.zeros(x.shape[1], x.dtype)
    column = (-1, *[1] * (x.ndim - 2))
    out = (x - mean.reshape(column)) / np.sqrt(var.reshape(column) + eps)
    parameters = [None if p is None else p.reshape(column) for p in (weight, bias)]
    return _affine(out, *parameters), mean, var


def _torch_batch_norm(torch, x, weight=None, bias=None, *, eps=1e-5):
    axes = (0, *range(2, x.ndim))
    if x.numel():
        statistics = x.mean(axes), x.var(axes, unbiased=False)
    else:
        statistics = x.sum(axes), x.sum(axes)
    parameters = {"weight": weight, "bias": bias, "training": True, "eps": eps}
    return torch.nn.functional.batch_norm(x, None, None, **parameters), *statistics


def _group_norm(x, weight=None, bias=None, *, groups, eps=1e-5):
    x = _precise(x)
    out = _layer_norm(x.reshape(x.shape[0], groups, -1) if x.size else x, eps=eps).reshape(x.shape)
    column = (-1, *[1] * (x.ndim - 2))
    return _affine(out, *[None if p is None else p.reshape(column) for p in (weight, bias)])


def _torch_group_norm(torch, x, weight=None, bias=None, *, groups, eps=1e-5):
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)


def _rms_norm(x, weight=None, *, ndim=1, eps=None):
    axes = tuple(range(-ndim, 0))
    eps = np.finfo(x.dtype if x.dtype.kind == "f" else "float32").eps if eps is None else eps
    x = _precise(x)
    return _affine(x / np.sqrt((x * x).mean(axes, keepdims=True) + eps), weight, None)


NO_SECOND = "PyTorch's second gradient fails where there is a bias and no weight"

CASES = [
    Case("layer_norm", [
        S(A(4, 6), A(6), A(6)), S(A(4, 6)), S(A(4, 6), A(6)),
        *unlike_torch(NO_SECOND, S(A(4, 6), None, A(6))), S(A(6), A(6), A(6)),
        S(A(2, 3, 4), A(4), A(4)), S(A(2, 3, 4), A(3, 4), A(3, 4), ndim=2),
        S(A(2, 3, 2), A(2, 3, 2), A(2, 3, 2), ndim=3), S(A(2, 3, 4), ndim=2, eps=0.1),
        # The gradient is 0 except for rounding errors, divided by the square root of eps.
        S(A(4, 1), A(1), A(1), eps=0.1), S(A(0, 3), A(3), A(3)), S(A(3, 0), A(0), A(0)),
        *integer_inputs(), S(Z(4, 3), F(3)),
        # PyTorch requires one dtype.
        *beyond("torch", S(F(4, 3), A(3, dtype="float64"), F(3)),
                S(A(4, 3, dtype="float64"), F(3))),
        kink([[2.0, 2.0]], [3.0, 5.0], gradients=([[-1e2 * 10**0.5, 1e2 * 10**0.5]], [0, 0])),
    ], _layer_norm, _torch_of_last_axes("layer_norm")),
    Case("batch_norm", [
        S(A(6, 4), A(4), A(4)), S(A(6, 4)), S(A(6, 4), A(4)),
        *unlike_torch(NO_SECOND, S(A(6, 4), None, A(4))), S(A(3, 2, 4), A(2), A(2)),
        S(A(2, 3, 2, 2), A(3), A(3), eps=0.1),
        *unlike_torch("PyTorch refuses one element", S(A(1, 3), A(3), A(3))),
        S(A(6, 1), A(1), A(1)), S(A(0, 3), A(3), A(3)),
        *unlike_torch("PyTorch fails without channels", S(A(6, 0), A(0), A(0))),
        S(A(2, 3, 0), A(3), A(3)), *integer_inputs(), S(Z(4, 3), F(3)),
    ], _batch_norm, _torch_batch_norm),
    Case("group_norm", [
        S(A(3, 4), A(4), A(4), groups=2), S(A(2, 4, 3), A(4), A(4), groups=2),
        S(A(2, 4, 3), groups=1), S(A(2, 2, 3), A(2), groups=2, eps=0.1),
        *unlike_torch(NO_SECOND, S(A(2, 2, 2, 2), None, A(2), groups=1)),
        S(A(0, 4, 2), A(4), A(4), groups=2),
        *unlike_torch("PyTorch refuses no elements", S(A(2, 2, 0), A(2), A(2), groups=2)),
        *integer_inputs(groups=1), S(Z(4, 2, 3), F(2), groups=1),
    ], _group_norm, _torch_group_norm,
         sized=lambda n: S(A(max(n // 8, 1), 4, 2), A(4), A(4), groups=2)),
    Case("rms_norm", [
        S(A(4, 6), A(6)), S(A(4, 6)), S(A(6), A(6), eps=0.1), S(A(2, 3, 4), A(3, 4), ndim=2),
        S(A(4, 1), A(1), eps=0.1), S(A(0, 3), A(3)), S(A(3, 0), A(0)), *integer_inputs(),
        *beyond("torch", S(F(4, 3), A(3, dtype="float64"))),
        kink([[0.0, 0.0]], [3.0, 5.0], eps=0.25, gradients=([[6.0, 10.0]], [0, 0])),
    ], _rms_norm, _torch_of_last_axes("rms_norm")),
]  # fmt: skip
