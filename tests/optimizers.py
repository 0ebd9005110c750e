"""The table of optimizers: the options to test each with, and its algorithm in plain NumPy.

An optimizer that updates elements one by one is one row, which many tests go through.
"""

from collections import defaultdict

import numpy as np
import pytest

from gpugrad import optim

# Each function is the formula of a docstring: update ``t`` of ``p`` with ``g``. What is kept is in
# ``s``.


def sgd(t, p, g, s, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False):
    g = g + weight_decay * p
    if momentum:
        s["b"] = g if t == 1 else momentum * s["b"] + (1 - dampening) * g
        g = g + momentum * s["b"] if nesterov else s["b"]
    return p - lr * g


def decayed(p, g, lr, weight_decay, decoupled):
    return ((1 - lr * weight_decay) * p, g) if decoupled else (p, g + weight_decay * p)


def averaged(g, s, betas):
    s["m"] = betas[0] * s["m"] + (1 - betas[0]) * g
    s["v"] = betas[1] * s["v"] + (1 - betas[1]) * g**2


def adam(
    t, p, g, s, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False,
    decoupled_weight_decay=False,
):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, decoupled_weight_decay)
    averaged(g, s, betas)
    s["most"] = np.maximum(s["most"], s["v"])
    root = np.sqrt(s["most" if amsgrad else "v"] / (1 - betas[1] ** t))
    return p - lr * s["m"] / (1 - betas[0] ** t) / (root + eps)


def adamw(*args, weight_decay=1e-2, **options):
    return adam(*args, weight_decay=weight_decay, decoupled_weight_decay=True, **options)


def nadam(
    t, p, g, s, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3,
    decoupled_weight_decay=False,
):  # fmt: skip
    def mu(t):
        return betas[0] * (1 - 0.96 ** (t * momentum_decay) / 2)

    def c(t):
        return np.prod([mu(i) for i in range(1, t + 1)])

    p, g = decayed(p, g, lr, weight_decay, decoupled_weight_decay)
    averaged(g, s, betas)
    n = mu(t + 1) * s["m"] / (1 - c(t + 1)) + (1 - mu(t)) * g / (1 - c(t))
    return p - lr * n / (np.sqrt(s["v"] / (1 - betas[1] ** t)) + eps)


def radam(
    t, p, g, s, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
    decoupled_weight_decay=False,
):  # fmt: skip
    p, g = decayed(p, g, lr, weight_decay, decoupled_weight_decay)
    averaged(g, s, betas)
    step = lr * s["m"] / (1 - betas[0] ** t)
    n = 2 / (1 - betas[1]) - 1
    r = n - 2 * t * betas[1] ** t / (1 - betas[1] ** t)
    if r > 5:
        c = np.sqrt((r - 4) * (r - 2) * n / ((n - 4) * (n - 2) * r))
        step = c * step * np.sqrt(1 - betas[1] ** t) / (np.sqrt(s["v"]) + eps)
    return p - step


def adamax(t, p, g, s, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
    g = g + weight_decay * p
    s["m"] = betas[0] * s["m"] + (1 - betas[0]) * g
    s["u"] = np.maximum(betas[1] * s["u"], abs(g) + eps)
    return p - lr * s["m"] / (1 - betas[0] ** t) / s["u"]


def rmsprop(t, p, g, s, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False):
    g = g + weight_decay * p
    averaged(g, s, (alpha, alpha))
    root = np.sqrt(s["v"] - s["m"] ** 2 if centered else s["v"])
    s["b"] = momentum * s["b"] + g / (root + eps)
    return p - lr * s["b"]


def adagrad(
    t, p, g, s, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10
):
    g = g + weight_decay * p
    s["s"] = (s["s"] if t > 1 else initial_accumulator_value) + g**2
    return p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(s["s"]) + eps)


def adadelta(t, p, g, s, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0):
    g = g + weight_decay * p
    s["v"] = rho * s["v"] + (1 - rho) * g**2
    d = np.sqrt(s["u"] + eps) / np.sqrt(s["v"] + eps) * g
    s["u"] = rho * s["u"] + (1 - rho) * d**2
    return p - lr * d


def lion(t, p, g, s, lr=1e-4, betas=(0.9, 0.99), weight_decay=0):
    p = (1 - lr * weight_decay) * p
    p = p - lr * np.sign(betas[0] * s["m"] + (1 - betas[0]) * g)
    s["m"] = betas[1] * s["m"] + (1 - betas[1]) * g
    return p


def each_and_all(**options):
    """No options, each one alone, and all together."""
    return {
        "plain": {},
        **{name: {name: value} for name, value in options.items()},
        "all": options,
    }


MAXIMIZE = {"maximize": True}
ADAM = {
    "plain": {},
    "rates": {"lr": 0.05, "betas": (0.6, 0.95), "eps": 1e-3},
    "no averages": {"lr": 0.05, "betas": (0.0, 0.0), "eps": 0.5},
    "decay": {"lr": 0.05, "weight_decay": 0.1},
    "decoupled": {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
    "amsgrad": {"lr": 0.05, "amsgrad": True, "betas": (0.8, 0.5)},
    "maximize": MAXIMIZE,
    "all": {"lr": 0.05, "weight_decay": 0.1, "amsgrad": True, "betas": (0.8, 0.5), **MAXIMIZE},
}

# Optimizers with a CUDA kernel.
FUSED = {
    optim.SGD: (
        sgd,
        {
            "plain": {"lr": 0.1},
            "momentum": {"lr": 0.1, "momentum": 0.9},
            "dampening": {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
            "negative dampening": {"lr": 0.1, "momentum": 0.5, "dampening": -0.3},
            "decay": {"lr": 0.1, "weight_decay": 0.05},
            "nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
            "maximize": {"lr": 0.001, **MAXIMIZE},
            "all": {
                "lr": 0.01, "momentum": 0.8, "dampening": 0.5, "weight_decay": 0.05, **MAXIMIZE,
            },
        },
    ),
    optim.Adam: (adam, ADAM),
    optim.AdamW: (
        adamw,
        {
            "plain": {},
            "maximize": MAXIMIZE,
            "all": {"lr": 0.05, "amsgrad": True, "weight_decay": 0.3},
        },
    ),
}  # fmt: skip

OTHERS = {
    optim.Adadelta: (
        adadelta,
        each_and_all(lr=0.5, rho=0.7, eps=1e-3, weight_decay=0.1, maximize=True),
    ),
    optim.Adagrad: (
        adagrad,
        each_and_all(
            lr=0.05, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3,
            maximize=True,
        ),
    ),
    optim.Adamax: (
        adamax,
        each_and_all(lr=0.05, betas=(0.6, 0.95), eps=1e-3, weight_decay=0.1, maximize=True),
    ),
    optim.Lion: (
        lion,
        each_and_all(lr=0.01, betas=(0.6, 0.95), weight_decay=0.1, maximize=True),
    ),
    optim.NAdam: (
        nadam,
        {
            **each_and_all(
                lr=0.02, betas=(0.6, 0.99), eps=1e-3, weight_decay=0.1, momentum_decay=0.1,
                maximize=True,
            ),
            "decoupled": {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
        },
    ),
    optim.RAdam: (
        radam,
        {
            **each_and_all(
                lr=0.05, betas=(0.6, 0.95), eps=1e-3, weight_decay=0.1, maximize=True
            ),
            "decoupled": {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True},
            "never rectified": {"betas": (0.9, 0.5)},
        },
    ),
    optim.RMSprop: (
        rmsprop,
        {
            **each_and_all(
                lr=0.05, alpha=0.7, eps=1e-3, weight_decay=0.1, momentum=0.5, centered=True,
                maximize=True,
            ),
            "momentum and centered": {"momentum": 0.5, "centered": True},
        },
    ),
}  # fmt: skip


def params(table):
    """The kinds and options of a table, for ``parametrize``."""
    return [
        pytest.param(kind, options, id=f"{kind.__name__}, {name}")
        for kind, (_, cases) in table.items()
        for name, options in cases.items()
    ]


ALL = params({**FUSED, **OTHERS})


def expected(kind, p, gradient, steps, *, maximize=False, **options):
    """What ``p`` is after some steps, by the formula."""
    update, _ = {**FUSED, **OTHERS}[kind]
    state = defaultdict(float)
    for t in range(1, steps + 1):
        g = gradient(p)
        p = update(t, p, -g if maximize else g, state, **options)
    return p
