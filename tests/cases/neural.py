"""Ops of neural networks."""

from dataclasses import replace

import numpy as np

from .base import (
    A,
    Case,
    S,
    along,
    beyond,
    inf,
    integer_inputs,
    integers,
    kink,
    nonzero,
    normal,
    unary,
    values,
)


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
    return beyond("array_api_strict torch", S(A(2, 3, dtype="complex128"), axis=0))


def _reduce(losses, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](losses)


def _cross_entropy(logits, target, *, reduction="mean", ignore_index=-100):
    log_p = np.log(_softmax(logits.astype("float64")))
    rows = zip(log_p.reshape(-1, logits.shape[-1]), target.ravel(), strict=True)
    losses = np.array([0.0 if label == ignore_index else -row[label] for row, label in rows])
    if reduction == "mean":
        return losses.sum() / (target != ignore_index).sum()
    return _reduce(losses.reshape(target.shape), reduction)


def _torch_cross_entropy(torch, logits, target, **static):
    return torch.nn.functional.cross_entropy(logits, target.long(), **static)


def _binary_cross_entropy(x, target):
    of_0, of_1 = np.maximum(np.log(1 - x), -100), np.maximum(np.log(x), -100)
    return -target * of_1 - (1 - target) * of_0


def _probabilities(rng, shape):
    return rng.uniform(0.1, 0.9, shape)


def _binary(draw):
    """Predictions and targets of the same shape, as PyTorch wants them."""
    shapes = (2, 3), (), (0, 3)
    return [
        *(S(A(*shape, draw=draw), A(*shape, draw=_probabilities)) for shape in shapes),
        S(A(2, 3, draw=draw, layout="transposed"), A(2, 3, draw=_probabilities, layout="strided")),
        *beyond("torch", S(A(2, 3, draw=draw), A(3, draw=_probabilities))),
        *beyond("torch", S(A(2, 3, draw=draw), 0.25)),
        S(A(2, 3, draw=draw, dtype="float32"), A(2, 3, draw=integers(0, 2))),
    ]


CASES = [
    Case(
        "relu",
        [*unary(nonzero), kink([0.0, -0.0, inf, -inf], gradients=([0.0, 0.0, 1.0, 0.0],))],
        lambda x: np.where(x > 0, x, 0),
        lambda torch, x: torch.relu(x),
    ),
    Case(
        "sigmoid",
        [
            *unary(),
            S(values([-100.0, -30.0, -10.0, 10.0, 100.0])),
            kink([-inf, inf], gradients=([0.0, 0.0],)),
        ],
        lambda x: 1 / (1 + np.exp(-x)) if x.dtype.kind == "c" else np.exp(-np.logaddexp(0, -x)),
        lambda torch, x: torch.sigmoid(x),
        complex=True,
    ),
    Case(
        "softmax",
        [
            *along(),
            S(A(3, 0)),
            *integer_inputs(),
            *_complex_samples(),
            kink([-inf, 0.0, 0.0], gradients=([0.0, 0.0, 0.0],)),
        ],
        _softmax,
        lambda torch, x, *, axis=-1: torch.softmax(x, axis),
    ),
    Case(
        "log_softmax",
        [*along(), *integer_inputs(), *_complex_samples()],
        lambda x, *, axis=-1: np.log(_softmax(x, axis=axis)),
        lambda torch, x, *, axis=-1: torch.log_softmax(x, axis),
    ),
    Case(
        "linear",
        [
            S(A(4, 3), A(2, 3), A(2)),
            S(A(4, 3), A(2, 3)),
            S(A(4, 3), A(2, 3), None),
            S(A(3), A(2, 3), A(2)),
            S(A(2, 2, 3), A(2, 3), A(2)),
            S(A(1, 3), A(2, 3), A(2)),
            S(A(4, 1), A(1, 1), A(1)),
            S(A(0, 3), A(2, 3), A(2)),
            S(A(4, 0), A(2, 0), A(2)),
            S(A(4, 3), A(0, 3), A(0)),
            S(A(4, 3, layout="transposed"), A(2, 3, layout="reversed"), A(2, layout="strided")),
            S(A(4, 3, draw=integers(0, 5)), A(2, 3, dtype="float32"), A(2, dtype="float32")),
            *beyond(
                "torch",  # its matmul requires one dtype
                S(A(4, 3, dtype="float32"), A(2, 3, dtype="float32"), A(2, dtype="float64")),
                S(A(4, 3, dtype="float32"), A(2, 3, dtype="float64"), A(2, dtype="float32")),
            ),
        ],
        _linear,
        lambda torch, x, weight, bias=None: torch.nn.functional.linear(x, weight, bias),
        complex=True,
        relative_to="matrix",
    ),
    Case(
        "dense",
        [
            *(
                S(A(4, 3), A(2, 3), A(2), activation=activation)
                for activation in ("relu", "sigmoid", "tanh")
            ),
            S(A(4, 3), A(2, 3), activation="relu"),
            S(A(4, 3), A(2, 3), None, activation="tanh"),
            S(A(3), A(2, 3), A(2), activation="relu"),
            S(A(2, 2, 3), A(2, 3), A(2), activation="sigmoid"),
            S(A(1, 3), A(2, 3), A(2), activation="relu"),
            S(A(0, 3), A(2, 3), A(2), activation="relu"),
            S(A(4, 0), A(2, 0), A(2), activation="tanh"),
            S(A(4, 3), A(0, 3), A(0), activation="relu"),
            S(
                A(4, 3, layout="transposed"),
                A(2, 3, layout="reversed"),
                A(2, layout="strided"),
                activation="relu",
            ),
            S(
                A(4, 3, draw=integers(0, 5)),
                A(2, 3, dtype="float32"),
                A(2, dtype="float32"),
                activation="tanh",
            ),
            kink(
                [[0.0, 1.0]],
                values([[1.0, 0.0]]),
                values([0.0]),
                activation="relu",
                gradients=([[0.0, 0.0]], [[0.0, 0.0]], [0.0]),
            ),
        ],
        _dense,
        _torch_dense,
        relative_to="matrix",
    ),
    Case(
        "cross_entropy",
        [
            *(
                S(A(4, 3), A(4, draw=integers(0, 3)), reduction=reduction)
                for reduction in ("mean", "sum", "none")
            ),
            *(
                S(A(3), A(draw=integers(0, 3)), reduction=reduction)
                for reduction in ("mean", "sum", "none")
            ),
            S(A(4, 3), A(4, draw=integers(0, 3, "int32"))),
            S(A(4, 3), A(4, draw=integers(0, 3, "uint8"))),
            *(
                S(A(4, 3), values([2, -100, 0, -100]), reduction=reduction)
                for reduction in ("mean", "sum", "none")
            ),
            S(A(4, 3), A(4, draw=integers(0, 3)), ignore_index=1),
            S(A(3), values(-100), reduction="sum"),
            *integer_inputs(A(2, draw=integers(0, 3))),
            S(A(4, 1), A(4, draw=integers(0, 1))),
            S(A(1, 3), A(1, draw=integers(0, 3))),
            replace(
                S(A(0, 3), A(0, draw=integers(0, 3)), reduction="mean"),
                unlike_torch="PyTorch's second gradient is nan",
            ),
            *(
                S(A(0, 3), A(0, draw=integers(0, 3)), reduction=reduction)
                for reduction in ("sum", "none")
            ),
            S(A(4, 3, layout="transposed"), A(4, draw=integers(0, 3), layout="reversed")),
            kink([0.0, -inf, 0.0], values(0), gradients=([-0.5, 0.0, 0.5],)),
        ],
        _cross_entropy,
        _torch_cross_entropy,
    ),
    Case(
        "nll",
        [
            S(A(4, 3), A(4, draw=integers(0, 3))),
            S(A(3), A(draw=integers(0, 3))),
            S(A(2, 4, 3), A(2, 4, draw=integers(0, 3, "int32"))),
            S(A(0, 3), A(0, draw=integers(0, 3))),
            S(A(4, 3, layout="transposed"), A(4, draw=integers(0, 3), layout="reversed")),
            kink([0.0, -inf, 1.0], values(0), gradients=([-1.0, 0.0, 0.0],)),
        ],
        lambda x, target: -np.take_along_axis(x, target[..., None], -1)[..., 0],
        lambda torch, x, target: -torch.take_along_dim(x, target.long()[..., None], -1)[..., 0],
    ),
    Case(
        "binary_cross_entropy",
        [
            *_binary(_probabilities),
            kink(
                [0.0, 0.0, 1.0, 1.0],
                values([0.0, 1.0, 0.0, 1.0], "float64"),
                gradients=([0.0, -1e12, 1e12, 0.0], [100.0, 100.0, -100.0, -100.0]),
            ),
        ],
        _binary_cross_entropy,
        lambda torch, x, target: torch.nn.functional.binary_cross_entropy(
            x, target, reduction="none"
        ),
    ),
    Case(
        "binary_cross_entropy_with_logits",
        [
            *_binary(normal),
            S(values([-1e4, -30.0, 30.0, 1e4]), values([0.0, 0.3, 1.0, 1.0])),
        ],
        lambda x, target: np.logaddexp(0, x) - x * target,
        lambda torch, x, target: torch.nn.functional.binary_cross_entropy_with_logits(
            x, target, reduction="none"
        ),
    ),
    Case(
        "mse",
        [
            *(S(A(4, 3), A(4, 3), reduction=reduction) for reduction in ("mean", "sum", "none")),
            S(A(), A()),
            S(A(4, 3, layout="transposed"), A(4, 3, layout="reversed")),
            *(S(A(0, 3), A(0, 3), reduction=reduction) for reduction in ("mean", "sum", "none")),
            S(A(3, dtype="float32"), A(3, draw=integers(0, 5))),
            S(A(3, dtype="float32"), A(3, dtype="float64")),
            kink([1.0, 2.0], [1.0, 1.0], gradients=([0.0, 1.0], [0.0, -1.0])),
        ],
        lambda x, target, *, reduction="mean": _reduce((x - target) ** 2, reduction),
        lambda torch, x, target, **static: torch.nn.functional.mse_loss(x, target, **static),
    ),
    Case(
        "one_hot",
        [
            S(A(4, draw=integers(0, 3)), n=3),
            S(A(2, 2, draw=integers(0, 3, "int32")), n=5),
            S(A(draw=integers(0, 3)), n=3),
            S(A(0, draw=integers(0, 3)), n=3),
        ],
        lambda labels, *, n: np.eye(n, dtype=bool)[labels],
        differentiable=False,
    ),
    Case(
        "to_device",
        [S(A(2, 3), device="cpu"), S(A(), device="cpu"), S(A(0), device="cpu")],
        lambda x, *, device: x,
        lambda torch, x, *, device: x.to(device),
    ),
]
