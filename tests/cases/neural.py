"""Ops of neural networks."""

from dataclasses import replace
from itertools import cycle

import numpy as np

from .base import A, C, Case, F, S, Z, beyond, inf, kink, of_shapes, unlike_torch, values
from .draws import between, nonzero, normal
from .kinds import along, integer_inputs, unary


def _linear(x, weight, bias=None):
    out = np.einsum("...i,oi->...o", x, weight)
    return out if bias is None else out + bias


_ACTIVATIONS = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}


def _dense(x, weight, bias=None, *, activation):
    return _ACTIVATIONS[activation](_linear(x, weight, bias))


def _torch_dense(torch, x, weight, bias=None, *, activation):
    return getattr(torch, activation)(torch.nn.functional.linear(x, weight, bias))


def _softmax(x, *, axis=-1):
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


def _complex_samples():
    """Samples of complex numbers for ops that order them, which only NumPy supports."""
    return beyond("array_api_strict torch", S(C(2, 3), axis=0))


REDUCTIONS = "mean", "sum", "none"


def _reductions(*inputs, of=REDUCTIONS):
    return [S(*inputs, reduction=reduction) for reduction in of]


def _reduce(losses, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](losses)


def _cross_entropy(logits, target, *, reduction="mean", ignore_index=-100):
    log_p = np.log(_softmax(logits.astype("float64")))
    rows = zip(log_p.reshape(-1, logits.shape[-1]), target.ravel(), strict=True)
    losses = np.array([0.0 if label == ignore_index else -row[label] for row, label in rows])
    if reduction == "mean":
        return losses.sum() / (target != ignore_index).sum()
    return _reduce(losses.reshape(target.shape), reduction)


def _binary_cross_entropy(x, target):
    of_0, of_1 = np.maximum(np.log(1 - x), -100), np.maximum(np.log(x), -100)
    return -target * of_1 - (1 - target) * of_0


_probabilities = between(0.1, 0.9)


def _binary(draw):
    """Predictions and targets of the same shape, as PyTorch wants them."""
    others = A(3, draw=_probabilities), 0.25
    return [
        *(S(A(*s, draw=draw), A(*s, draw=_probabilities)) for s in ((2, 3), (), (0, 3))),
        *beyond("torch", *(S(A(2, 3, draw=draw), target) for target in others)),
        S(F(2, 3, draw=draw), Z(2, 3, below=2)),
    ]


_LINEAR = [
    *(S(A(*shape), A(2, 3), A(2)) for shape in ((4, 3), (3,), (2, 2, 3), (1, 3), (0, 3))),
    *of_shapes([(4, 3), (2, 3)], [(4, 1), (1, 1), (1,)], [(4, 0), (2, 0), (2,)]),
    *[*of_shapes([(4, 3), (0, 3), (0,)]), S(A(4, 3), A(2, 3), None), S(Z(4, 3), F(2, 3), F(2))],
]


def _huber(x, target, *, delta=1.0, divisor=1.0):
    size = np.abs(x - target)
    return np.where(size <= delta, size**2 / 2, delta * (size - delta / 2)) / divisor


def _torch_huber(torch, x, target, *, delta=1.0, divisor=1.0):
    return torch.nn.functional.huber_loss(x, target, delta=delta, reduction="none") / divisor


CASES = [
    Case("relu", [*unary(nonzero), kink([0.0, -0.0, inf, -inf], gradients=([0.0, 0.0, 1.0, 0.0],))],
         lambda x: np.where(x > 0, x, 0), torch=True),
    Case("sigmoid", [
        *unary(), S(values([-100.0, -30.0, -10.0, 10.0, 100.0])),
        kink([-inf, inf], gradients=([0.0, 0.0],)),
    ], lambda x: 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else np.exp(-np.logaddexp(0, -x)),
         torch=True, complex=True),
    Case("softmax", [
        *along(), S(A(3, 0)), *integer_inputs(), *_complex_samples(),
        kink([-inf, 0.0, 0.0], gradients=([0.0, 0.0, 0.0],)),
    ], _softmax, torch=lambda torch, x, *, axis=-1: torch.softmax(x, axis)),
    Case("log_softmax", [*along(), *integer_inputs(), *_complex_samples()],
         lambda x, *, axis=-1: np.log(_softmax(x, axis=axis)),
         lambda torch, x, *, axis=-1: torch.log_softmax(x, axis)),
    Case("linear", [
        *_LINEAR,
        # PyTorch's matmul requires one dtype.
        *beyond("torch", S(F(4, 3), F(2, 3), A(2, dtype="float64")),
                S(F(4, 3), A(2, 3, dtype="float64"), F(2))),
    ], _linear, torch="nn.functional.linear", complex=True, relative_to="matrix"),
    Case("dense", [
        *(
            replace(sample, static={"activation": activation})
            for sample, activation in zip(_LINEAR, cycle(_ACTIVATIONS), strict=False)
        ),
        *(S(A(4, 3), A(2, 3), A(2), activation=activation) for activation in _ACTIVATIONS),
        kink([[0.0, 1.0]], values([[1.0, 0.0]]), values([0.0]), activation="relu",
             gradients=([[0.0, 0.0]], [[0.0, 0.0]], [0.0])),
    ], _dense, _torch_dense, relative_to="matrix"),
    Case("cross_entropy", [
        *_reductions(A(4, 3), Z(4, below=3)), *_reductions(A(3), Z(below=3)),
        S(A(4, 3), Z(4, below=3, dtype="int32")), S(A(4, 3), Z(4, below=3, dtype="uint8")),
        *_reductions(A(4, 3), values([2, -100, 0, -100])),
        S(A(4, 3), Z(4, below=3), ignore_index=1), S(A(3), values(-100), reduction="sum"),
        *integer_inputs(Z(2, below=3)), S(A(4, 1), Z(4, below=1)), S(A(1, 3), Z(1, below=3)),
        *unlike_torch("PyTorch's second gradient is nan",
                      S(A(0, 3), Z(0, below=3), reduction="mean")),
        *_reductions(A(0, 3), Z(0, below=3), of=REDUCTIONS[1:]),
        kink([0.0, -inf, 0.0], values(0), gradients=([-0.5, 0.0, 0.5],)),
    ], _cross_entropy, lambda torch, logits, target, **static: (
        torch.nn.functional.cross_entropy(logits, target.long(), **static))),
    Case("nll", [
        S(A(4, 3), Z(4, below=3)), S(A(3), Z(below=3)),
        S(A(2, 4, 3), Z(2, 4, below=3, dtype="int32")), S(A(0, 3), Z(0, below=3)),
        kink([0.0, -inf, 1.0], values(0), gradients=([-1.0, 0.0, 0.0],)),
    ], lambda x, target: -np.take_along_axis(x, target[..., None], -1)[..., 0],
         lambda torch, x, target: -torch.take_along_dim(x, target.long()[..., None], -1)[..., 0]),
    Case("binary_cross_entropy", [
        *_binary(_probabilities),
        kink([0.0, 0.0, 1.0, 1.0], values([0.0, 1.0, 0.0, 1.0], "float64"),
             gradients=([0.0, -1e12, 1e12, 0.0], [100.0, 100.0, -100.0, -100.0])),
    ], _binary_cross_entropy,
         lambda torch, x, target: torch.nn.functional.binary_cross_entropy(
             x, target, reduction="none")),
    Case("binary_cross_entropy_with_logits", [
        *_binary(normal), S(values([-1e4, -30.0, 30.0, 1e4]), values([0.0, 0.3, 1.0, 1.0])),
    ], lambda x, target: np.logaddexp(0, x) - x * target,
         lambda torch, x, target: torch.nn.functional.binary_cross_entropy_with_logits(
             x, target, reduction="none")),
    Case("mse", [
        *_reductions(A(4, 3), A(4, 3)), S(A(), A()), *_reductions(A(0, 3), A(0, 3)), S(F(3), Z(3)),
        S(F(3), A(3, dtype="float64")),
        kink([1.0, 2.0], [1.0, 1.0], gradients=([0.0, 1.0], [0.0, -1.0])),
    ], lambda x, target, *, reduction="mean": _reduce((x - target) ** 2, reduction),
         torch="nn.functional.mse_loss"),
    Case("huber", [
        S(A(3, 4), A(3, 4)), S(A(4), A()), S(A(), A(), delta=0.3), S(A(0, 3), A(0, 3)),
        S(A(3, 4), A(3, 4), delta=0.5, divisor=0.5), S(A(4), A(4, dtype="float64"), delta=2.0),
        kink([1.0, 3.0, -1.0], [1.0, 1.0, 1.0], gradients=([0.0, 1.0, -1.0], [0.0, -1.0, 1.0])),
    ], _huber, _torch_huber),
    Case("one_hot", [
        S(Z(4, below=3), n=3), S(Z(2, 2, below=3, dtype="int32"), n=5), S(Z(below=3), n=3),
        S(Z(0, below=3), n=3),
    ], lambda labels, *, n: np.eye(n, dtype=bool)[labels], differentiable=False),
    Case("to_device", [S(A(2, 3), device="cpu"), S(A(), device="cpu"), S(A(0), device="cpu")],
         lambda x, *, device: x, lambda torch, x, *, device: x.to(device)),
]  # fmt: skip
