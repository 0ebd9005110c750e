"""Compares derivatives with differences, in both modes and to the second order."""

from functools import partial
from itertools import product

import numpy as np

import gpugrad as gg
from gpugrad import tree

from . import _array, _of_one_argument

EPS, TOLERANCE = 1e-6, 1e-6
_generator = np.random.default_rng(0)


def _leaves(x):
    return [np.asarray(x.detach() if isinstance(x, gg.Tensor) else x) for x in tree.leaves(x)]


def _random(x):
    def draw(x):
        parts = _generator.standard_normal((2, *np.shape(x)))
        return np.asarray(parts[0] + 1j * parts[1] if np.iscomplexobj(x) else parts[0])

    return tree.map(draw, x)


def _inner(x, y):
    return sum(np.sum(np.real(np.conj(a) * b)) for a, b in zip(_leaves(x), _leaves(y), strict=True))


def _moved(x, v, eps):
    return tree.map(lambda a, b: np.asarray(_leaves(a)[0] + eps * b), x, v)


def _close(a, b):
    return abs(a - b) < TOLERANCE or abs(a - b) / abs(a + b) < TOLERANCE


def check_equivalent(x, y):
    for a, b in zip(_leaves(x), _leaves(y), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@_of_one_argument
def check_grads(f, x, modes=("fwd", "rev"), order=2):
    def function(x):
        return tree.map(_tensor_of, f(x))

    def push(x, v):
        return gg.jvp(function, (x,), (v,))[1]

    def pull(x, u):
        return gg.vjp(function, x)[1](u)[0]

    v, u = _random(x), _random(tree.map(lambda out: out.detach(), function(x)))
    ahead, behind = (_leaves(f(_moved(x, v, s * EPS / 2))) for s in (1, -1))
    expected = _inner([(a - b) / EPS for a, b in zip(ahead, behind, strict=True)], u)
    for mode, derivative, given, against in ("fwd", push, v, u), ("rev", pull, u, v):
        if mode in modes:
            found = _inner(derivative(x, given), against)
            assert _close(found, expected), (mode, found, expected)
            if order > 1:
                check_grads(derivative, (0, 1), modes, order - 1)(x, given)


def _tensor_of(x):
    return x if isinstance(x, gg.Tensor) else gg.asarray(_array(x))


def combo_check(fun, *args, **keywords):
    def check(*values, **named):
        for given in product(*named.values()):
            f = partial(fun, **dict(zip(named, given, strict=True)))
            for chosen in product(*values):
                check_grads(f, *args, **keywords)(*chosen)

    return check
