"""Compares derivatives with differences, in both modes and to the second order."""

from itertools import product

import numpy as np

import gpugrad as gg

from . import _array, _of_one_argument
from .misc.flatten import leaves_of, map_leaves

EPS, TOLERANCE = 1e-6, 1e-6
_generator = np.random.default_rng(0)


def _leaves(x):
    return [np.asarray(x.detach() if isinstance(x, gg.Tensor) else x) for x in leaves_of(x)]


def _random(x):
    def draw(x):
        parts = _generator.standard_normal((2, *np.shape(x)))
        return np.asarray(parts[0] + 1j * parts[1] if np.iscomplexobj(x) else parts[0])

    return map_leaves(draw, x)


def _inner(x, y):
    pairs = zip(_leaves(x), _leaves(y), strict=True)
    return sum(np.sum(np.real(np.conj(a) * b)) for a, b in pairs)


def _moved(x, v, eps):
    leaves = iter(_leaves(v))
    return map_leaves(lambda a: np.asarray(_leaves(a)[0] + eps * next(leaves)), x)


def _close(a, b):
    return abs(a - b) < TOLERANCE or abs(a - b) / abs(a + b) < TOLERANCE


def check_equivalent(x, y):
    for a, b in zip(_leaves(x), _leaves(y), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@_of_one_argument
def check_grads(f, x, modes=("fwd", "rev"), order=2):
    def function(x):
        return map_leaves(_tensor_of, f(x))

    y = map_leaves(lambda out: out.detach(), function(x))
    v, u = _random(x), _random(y)
    ahead, behind = (_leaves(f(_moved(x, v, s * EPS / 2))) for s in (1, -1))
    slope = [(a - b) / EPS for a, b in zip(ahead, behind, strict=True)]
    expected = _inner(slope, u)
    if "fwd" in modes:
        tangent = gg.jvp(function, (x,), (v,))[1]
        assert _close(_inner(tangent, u), expected), ("forward", _inner(tangent, u), expected)
        if order > 1:
            check_grads(lambda x, v: gg.jvp(function, (x,), (v,))[1], (0, 1), modes, order - 1)(
                x, v
            )
    if "rev" in modes:
        (cotangent,) = gg.vjp(function, x)[1](u)
        assert _close(_inner(cotangent, v), expected), ("reverse", _inner(cotangent, v), expected)
        if order > 1:
            check_grads(lambda x, u: gg.vjp(function, x)[1](u)[0], (0, 1), modes, order - 1)(x, u)


def _tensor_of(x):
    return x if isinstance(x, gg.Tensor) else gg.asarray(_array(x))


def combo_check(fun, *args, **keywords):
    def check(*values, **named):
        choices = [[(key, value) for value in values] for key, values in named.items()]
        for chosen in product(*values):
            for given in product(*choices):
                f = lambda *xs: fun(*xs, **dict(given))  # noqa: B023, E731
                check_grads(f, *args, **keywords)(*chosen)

    return check
