"""Layers of recurrent networks."""

import numpy as np

from .base import A, Case, F, S, Z, beyond


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _rnn(a, u, h, c, nonlinearity):
    return np.tanh(a + u) if nonlinearity == "tanh" else np.maximum(a + u, 0), c


def _lstm(a, u, h, c):
    i, f, g, o = np.split(a + u, 4, axis=-1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _gru(a, u, h, c):
    (ar, az, an), (ur, uz, un) = np.split(a, 3, axis=-1), np.split(u, 3, axis=-1)
    z = _sigmoid(az + uz)
    return (1 - z) * np.tanh(an + _sigmoid(ar + ur) * un) + z * h, c


def _reference(step):
    """One step after the other, with as many states as the step changes."""

    def run(x, w_ih, w_hh, b_ih=None, b_hh=None, h0=None, c0=None, *, reverse=False, **options):
        b_ih, b_hh = (np.zeros(w_ih.shape[0]) if b is None else b for b in (b_ih, b_hh))
        zeros = np.zeros((x.shape[1], w_hh.shape[1]))
        h, c = (zeros if s is None else s for s in (h0, c0))
        out = []
        for row in x[::-1] if reverse else x:
            h, c = step(row @ w_ih.T + b_ih, h @ w_hh.T + b_hh, h, c, **options)
            out.append(h)
        out = np.stack(out[::-1] if reverse else out)
        return (out, h, c) if step is _lstm else (out, h)

    return run


def _torch(kind):
    def run(torch, x, *weights, reverse=False, nonlinearity=""):
        weights = [*weights, *[None] * (6 - len(weights))]
        w_ih, w_hh, b_ih, b_hh, *states = weights
        zeros = x.new_zeros((x.shape[1], w_hh.shape[1]))
        states = [(zeros if s is None else s)[None] for s in states]
        if (b_ih is None) != (b_hh is None):
            b_ih, b_hh = (w_ih.new_zeros(len(w_ih)) if b is None else b for b in (b_ih, b_hh))
        out, *last = getattr(torch, f"{kind}_{nonlinearity}" if nonlinearity else kind)(
            x.flip(0) if reverse else x,
            tuple(states) if kind == "lstm" else states[0],
            [p for p in (w_ih, w_hh, b_ih, b_hh) if p is not None],
            b_ih is not None,
            *(1, 0.0, False, False, False),  # layers, dropout, train, bidirectional, batch_first
        )
        return out.flip(0) if reverse else out, *[s[0] for s in last]

    return run


def _initial(rng, shape):
    """Weights and states like those of a new layer, with which few gates are saturated."""
    return rng.uniform(-0.7, 0.7, shape)


def _samples(gates, states, **static):
    """Calls with a batch of 2, inputs of length 3 and states of length 2."""
    x, weights = A(2, 2, 3), (A(2 * gates, 3, draw=_initial), A(2 * gates, 2, draw=_initial))
    biases, state = (A(2 * gates, draw=_initial),) * 2, (A(2, 2, draw=_initial),) * states
    strided = [A(*a.shape, draw=_initial, layout="transposed") for a in weights]
    low = [F(*a.shape, draw=_initial) for a in weights]
    return [
        S(x, *weights, *biases, *state, **static),
        S(x, *weights, *biases, *state, reverse=True, **static),
        S(A(2, 2, 3, layout="reversed"), *strided, None, biases[1], **static),
        S(A(2, 0, 3), *weights, *biases, *[A(0, 2)] * states, **static),
        *beyond("torch", S(Z(2, 1, 3, below=3), *low, **static)),
    ]


def _sized(gates, **static):
    def sized(n):
        h = max(round((n / gates) ** 0.5), 1)
        weight = A(gates * h, h, draw=_initial)
        return S(A(2, 2, h), weight, weight, **static)

    return sized


CASES = [
    Case("rnn", [
        *_samples(1, 1, nonlinearity="tanh"), *_samples(1, 1, nonlinearity="relu")[1:2],
    ], _reference(_rnn), _torch("rnn"), relative_to="array", sized=_sized(1, nonlinearity="tanh")),
    Case("lstm", _samples(4, 2), _reference(_lstm), _torch("lstm"), relative_to="array",
         sized=_sized(4)),
    Case("gru", _samples(3, 1), _reference(_gru), _torch("gru"), relative_to="array",
         sized=_sized(3)),
]  # fmt: skip
