"""The table of optimizers, which many tests go through: the options to test each with."""

import numpy as np
import pytest

from gpugrad import optim


def normal(rng, shape, dtype):
    values = np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))
    return (values if np.dtype(dtype).kind == "c" else values.real).astype(dtype)


# Formulas of docstrings in plain NumPy: update ``t`` of ``p`` with ``g``. What is kept is in ``s``.


def sgd(t, p, g, s, lr, momentum):
    s["b"] = momentum * s["b"] + g
    return p - lr * s["b"]


def adam(t, p, g, s, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
    s["m"] = betas[0] * s["m"] + (1 - betas[0]) * g
    s["v"] = betas[1] * s["v"] + (1 - betas[1]) * g**2
    return p - lr * s["m"] / (1 - betas[0] ** t) / (np.sqrt(s["v"] / (1 - betas[1] ** t)) + eps)


def lion(t, p, g, s, lr=1e-4, betas=(0.9, 0.99), weight_decay=0):
    p = (1 - lr * weight_decay) * p
    p = p - lr * np.sign(betas[0] * s["m"] + (1 - betas[0]) * g)
    s["m"] = betas[1] * s["m"] + (1 - betas[1]) * g
    return p


# Options that choose what is computed, which is tested without the others too.
CHOICES = {"adjust_lr_fn", "centered", "maximize", "momentum", "nesterov", "weight_decay"}


def each_and_all(**options):
    """No options, each choice alone, and all options together."""
    alone = {name: {name: options[name]} for name in options if name in CHOICES}
    return {"plain": {}, **alone, "all": options}


MAXIMIZE = {"maximize": True}
ADAM = {
    "plain": {},
    "rates": {"lr": 0.05, "betas": (0.6, 0.95), "eps": 1e-3},
    "no averages": {"lr": 0.05, "betas": (0.0, 0.0), "eps": 0.5},
    "decay": {"lr": 0.05, "weight_decay": 0.1},
    "decoupled": {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
    "amsgrad": {"lr": 0.05, "amsgrad": True, "betas": (0.8, 0.5)},
    "all": {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True, "betas": (0.8, 0.5), **MAXIMIZE},
}

# Optimizers with a CUDA kernel.
FUSED = {
    optim.SGD: {
        "plain": {"lr": 0.1},
        "dampening": {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        "negative dampening": {"lr": 0.1, "momentum": 0.5, "dampening": -0.3},
        "decay": {"lr": 0.1, "weight_decay": 0.05},
        "nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
        "all": {"lr": 0.01, "momentum": 0.8, "dampening": 0.5, "weight_decay": 0.05, **MAXIMIZE},
    },
    optim.Adam: ADAM,
    optim.AdamW: {
        "plain": {},
        "all": {"lr": 0.05, "amsgrad": True, "weight_decay": 0.3, **MAXIMIZE},
    },
}

DECOUPLED = {"decoupled": {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}}
ALIKE = {"lr": 0.05, "eps": 1e-3, "weight_decay": 0.1, **MAXIMIZE}
OTHERS = {
    optim.Adadelta: each_and_all(**ALIKE | {"lr": 0.5}, rho=0.7),
    optim.Adagrad: each_and_all(**ALIKE, lr_decay=0.1, initial_accumulator_value=0.5),
    optim.Adamax: each_and_all(**ALIKE, betas=(0.6, 0.95)),
    optim.ASGD: each_and_all(lr=0.05, lambd=0.3, alpha=0.5, t0=3, weight_decay=0.1, maximize=True),
    optim.Rprop: each_and_all(lr=0.03, etas=(0.3, 1.4), step_sizes=(0.02, 0.08), maximize=True),
    optim.Lion: each_and_all(lr=0.01, betas=(0.6, 0.95), weight_decay=0.1, maximize=True),
    optim.NAdam: DECOUPLED
    | each_and_all(**ALIKE | {"lr": 0.02}, betas=(0.6, 0.99), momentum_decay=0.1),
    optim.RAdam: DECOUPLED
    | {"never rectified": {"betas": (0.9, 0.5)}}
    | each_and_all(**ALIKE, betas=(0.6, 0.95)),
    optim.RMSprop: {"two": {"momentum": 0.5, "centered": True}}
    | each_and_all(**ALIKE, alpha=0.7, momentum=0.5, centered=True),
}


# Optimizers of whole arrays.
WHOLE = {
    optim.Adafactor: each_and_all(
        lr=0.4, beta2_decay=-0.5, eps=(0.1, 0.5), d=1.5, weight_decay=0.1, maximize=True
    ),
    optim.Muon: {"original": {"lr": 0.005, "adjust_lr_fn": "original"}}
    | each_and_all(
        lr=0.005, weight_decay=0.3, momentum=0.6, nesterov=False, ns_coefficients=(2, -1.5, 0.5),
        eps=2, ns_steps=3, adjust_lr_fn="match_rms_adamw",
    ),
}  # fmt: skip


def shapes_for(kind):
    """Shapes of parameters that a kind can update; Muon takes matrices."""
    return [(3, 4), (5, 2), (1, 3)] if kind is optim.Muon else [(3, 4), (4,), ()]


def params(table):
    """The kinds and options of a table, for ``parametrize``."""
    return [
        pytest.param(kind, options, id=f"{kind.__name__}, {name}")
        for kind, cases in table.items()
        for name, options in cases.items()
    ]


ALL = params({**FUSED, **OTHERS, **WHOLE})
