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


def rprop(t, p, g, s, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50)):
    size = s["size"] if t > 1 else np.full_like(p, lr)
    sign = np.sign(g * s["h"])
    size = np.clip(
        np.choose(1 + sign.astype(int), [etas[0] * size, size, etas[1] * size]), *step_sizes
    )
    s["size"], s["h"] = size, np.where(sign < 0, 0, g)
    return p - size * np.sign(s["h"])


def asgd(t, p, g, s, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0):
    eta = lr / (1 + lambd * lr * (t - 1)) ** alpha
    return (1 - lambd * eta) * p - eta * (g + weight_decay * p)


def adafactor(t, p, g, s, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1, weight_decay=0):
    def rms(x):
        return np.sqrt((x**2).mean())

    least = np.finfo(p.dtype).eps if eps[0] is None else eps[0]
    b = t**beta2_decay
    a = max(eps[1], rms(p)) * min(lr, t**-0.5)
    square = g**2
    if p.ndim > 1:
        s["r"] = (1 - b) * s["r"] + b * square.mean(-1, keepdims=True)
        s["c"] = (1 - b) * s["c"] + b * square.mean(-2, keepdims=True)
        v = s["r"] * s["c"] / np.maximum(s["r"].mean(-2, keepdims=True), least)
    else:
        v = s["v"] = (1 - b) * s["v"] + b * square
    u = g / np.maximum(np.sqrt(v), least)
    return (1 - lr * weight_decay) * p - a * u / max(1, rms(u) / d)


def muon(
    t, p, g, s, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
    ns_coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None,
):  # fmt: skip
    s["b"] = momentum * s["b"] + (1 - momentum) * g
    x = momentum * s["b"] + (1 - momentum) * g if nesterov else s["b"]
    # The iteration is a polynomial of the singular values.
    u, x, v = np.linalg.svd(x, full_matrices=False)
    x = x / max(np.sqrt((x**2).sum()), eps)
    for _ in range(ns_steps):
        x = sum(k * x ** (2 * i + 1) for i, k in enumerate(ns_coefficients))
    rows, columns = p.shape
    factor = max(1, rows / columns) ** 0.5
    if adjust_lr_fn == "match_rms_adamw":
        factor = 0.2 * max(rows, columns) ** 0.5
    return (1 - lr * weight_decay) * p - lr * factor * (u * x) @ v


def each_and_all(**options):
    """No options, each one alone, and all together."""
    alone = {name: {name: value} for name, value in options.items()}
    return {"plain": {}, **alone, "all": options}


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
    optim.SGD: (sgd, {
        "plain": {"lr": 0.1},
        "momentum": {"lr": 0.1, "momentum": 0.9},
        "dampening": {"lr": 0.1, "momentum": 0.9, "dampening": 0.3},
        "negative dampening": {"lr": 0.1, "momentum": 0.5, "dampening": -0.3},
        "decay": {"lr": 0.1, "weight_decay": 0.05},
        "nesterov": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.05},
        "maximize": {"lr": 0.001, **MAXIMIZE},
        "all": {"lr": 0.01, "momentum": 0.8, "dampening": 0.5, "weight_decay": 0.05, **MAXIMIZE},
    }),
    optim.Adam: (adam, ADAM),
    optim.AdamW: (adamw, {
        "plain": {}, "maximize": MAXIMIZE,
        "all": {"lr": 0.05, "amsgrad": True, "weight_decay": 0.3},
    }),
}  # fmt: skip

DECOUPLED = {"decoupled": {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}}
OTHERS = {
    optim.Adadelta: (adadelta, each_and_all(
        lr=0.5, rho=0.7, eps=1e-3, weight_decay=0.1, maximize=True,
    )),
    optim.Adagrad: (adagrad, each_and_all(
        lr=0.05, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3,
        maximize=True,
    )),
    optim.Adamax: (adamax, each_and_all(
        lr=0.05, betas=(0.6, 0.95), eps=1e-3, weight_decay=0.1, maximize=True,
    )),
    optim.ASGD: (asgd, each_and_all(
        lr=0.05, lambd=0.3, alpha=0.5, t0=3, weight_decay=0.1, maximize=True,
    )),
    optim.Rprop: (rprop, each_and_all(
        lr=0.03, etas=(0.3, 1.4), step_sizes=(0.02, 0.08), maximize=True,
    )),
    optim.Lion: (lion, each_and_all(lr=0.01, betas=(0.6, 0.95), weight_decay=0.1, maximize=True)),
    optim.NAdam: (nadam, DECOUPLED | each_and_all(
        lr=0.02, betas=(0.6, 0.99), eps=1e-3, weight_decay=0.1, momentum_decay=0.1, maximize=True,
    )),
    optim.RAdam: (radam, DECOUPLED | {"never rectified": {"betas": (0.9, 0.5)}} | each_and_all(
        lr=0.05, betas=(0.6, 0.95), eps=1e-3, weight_decay=0.1, maximize=True,
    )),
    optim.RMSprop: (rmsprop, {"two": {"momentum": 0.5, "centered": True}} | each_and_all(
        lr=0.05, alpha=0.7, eps=1e-3, weight_decay=0.1, momentum=0.5, centered=True, maximize=True,
    )),
}  # fmt: skip


# Optimizers of whole arrays.
WHOLE = {
    optim.Adafactor: (adafactor, each_and_all(
        lr=0.4, beta2_decay=-0.5, eps=(0.1, 0.5), d=1.5, weight_decay=0.1, maximize=True,
    )),
    optim.Muon: (muon, {"original": {"lr": 0.005, "adjust_lr_fn": "original"}} | each_and_all(
        lr=0.005, weight_decay=0.3, momentum=0.6, nesterov=False,
        ns_coefficients=(2, -1.5, 0.5), eps=2, ns_steps=3, adjust_lr_fn="match_rms_adamw",
    )),
}  # fmt: skip


def shapes_for(kind):
    """Shapes of parameters that a kind can update; Muon takes matrices."""
    return [(3, 4), (5, 2), (1, 3)] if kind is optim.Muon else [(3, 4), (4,), ()]


def params(table):
    """The kinds and options of a table, for ``parametrize``."""
    return [
        pytest.param(kind, options, id=f"{kind.__name__}, {name}")
        for kind, (_, cases) in table.items()
        for name, options in cases.items()
    ]


TABLE = {**FUSED, **OTHERS, **WHOLE}
ALL = params(TABLE)


def expected(kind, p, gradient, steps, *, maximize=False, **options):
    """What ``p`` is after some steps, by the formula."""
    update, _ = TABLE[kind]
    state = defaultdict(float)
    for t in range(1, steps + 1):
        g = gradient(p)
        p = update(t, p, -g if maximize else g, state, **options)
    return p
