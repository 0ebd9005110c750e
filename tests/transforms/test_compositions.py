"""Transforms of transforms, in all orders, compared to JAX.

JAX takes minutes to compile them, so its values are kept in a file. To write it again after
changing the functions below:

    XLA_FLAGS=--xla_backend_optimization_level=0 python tests/transforms/test_compositions.py
"""

import json
import operator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from libraries import each_library, libraries
from samples import every
from test_custom_vjp import with_own_rule

import gpugrad as gg
from gpugrad.testing import assert_close

VALUES = Path(__file__).parent / "values" / "compositions.json"
N = 3
W = np.random.default_rng(0).normal(size=(N, N)) / 2
U = np.random.default_rng(1).normal(size=(N, N)) / 8 + np.eye(N)
WEIGHTS = np.array([0.7, -1.1, 0.4])
X = np.array([0.3, -0.8, 1.2])


class Ours:
    """The namespace that functions and transforms use; `theirs` returns the same for JAX."""

    xp = gg
    softmax = gg.softmax
    grad, vjp, jvp, linearize, hvp = gg.grad, gg.vjp, gg.jvp, gg.linearize, gg.hvp
    hessian, vmap = gg.hessian, gg.vmap
    forward, reverse = (partial(gg.jacobian, mode=mode) for mode in ("forward", "reverse"))

    add = operator.iadd

    @staticmethod
    def put(x, key, value):
        x[key] = value
        return x


def theirs():
    import jax

    class Theirs:
        xp = jax.numpy
        softmax = jax.nn.softmax
        asarray = staticmethod(jax.numpy.asarray)
        grad, vjp, jvp, linearize = jax.grad, jax.vjp, jax.jvp, jax.linearize
        hessian, vmap, forward, reverse = jax.hessian, jax.vmap, jax.jacfwd, jax.jacrev

        @staticmethod
        def hvp(f):
            return lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1]

        add = operator.add

        @staticmethod
        def put(x, key, value):
            return x.at[key].set(value)

    return Theirs


# Functions from (N,) to (N,), smooth near X.


def products(m, x):
    w = m.asarray(W)
    return m.xp.tanh(w @ x) + (x @ w) * (x @ x)


def indexing(m, x):
    places = m.asarray(np.array([1, 1, 0]))
    return m.xp.stack([x[2] * x[0], x[1] ** 2, x[-1]]) + x[places] * m.xp.flip(x)


def in_place(m, x):
    y = x * 1.0
    y = m.add(y, m.xp.sin(x) * x)
    y = m.put(y, 1, y[0] * x[2])
    return m.put(y, slice(1, None), y[:-1] * y[1:])


def norms(m, x):
    z = m.xp.reshape(m.xp.concat([x, m.xp.cos(x)]), (2, N))
    z = m.xp.permute_dims(z, (1, 0))
    return m.xp.sum(z * z, axis=1) / m.xp.sqrt(1 + m.xp.sum(x**2)) + m.xp.log(2 + x**2)


FUNCTIONS = {
    "elementwise": lambda m, x: m.xp.sin(x) * m.xp.exp(x / 2) + x / (1 + x * x),
    "products": products,
    "softmax": lambda m, x: m.softmax(m.asarray(W) @ (x * x), axis=-1) * x,
    "indexing": indexing,
    "choices": lambda m, x: m.xp.where(x > 0, x**3, m.xp.cos(x)) + m.xp.maximum(x / 2, m.xp.sin(x)),
    "cumulative": lambda m, x: (
        m.xp.cumulative_sum(m.xp.cos(x) * x) * m.xp.cumulative_sum(m.xp.flip(x))
    ),
    "solving": lambda m, x: (
        m.xp.linalg.solve(m.asarray(U) + x[:, None] * x[None, :] / 8, m.xp.sin(x))
    ),
    "sorting": lambda m, x: m.xp.sort(x * x, axis=-1) * x + m.xp.max(m.xp.sin(x), axis=-1),
    "in_place": in_place, "norms": norms,
}  # fmt: skip


# Transforms of such functions into others. Each differentiates a function that closes over x, or
# takes cotangents, tangents or arguments that depend on x, since that is where perturbations can
# be confused.


def scalar(m, f, x):
    return lambda y: m.xp.sum(f(y) * m.asarray(WEIGHTS) * m.xp.cos(x))


def linearize(m, f):
    def derivative(x):
        y, push = m.linearize(f, x)
        return push(y * x) + push(x)

    return derivative


def vmap(m, f):
    def mapped(x):
        many = m.xp.stack([x, x / 2, m.xp.sin(x), x * x])
        return m.asarray(WEIGHTS) * m.xp.sum(m.vmap(lambda row: f(row) * x)(many) * many, axis=0)

    return mapped


def vmap_columns(m, f):
    def mapped(x):
        scales = m.xp.stack([x[0], x[1] * x[2]])
        return m.vmap(lambda s, y: f(s * y) * s, in_axes=(0, None), out_axes=1)(scales, x) @ scales

    return mapped


TRANSFORMS = {
    "grad": lambda m, f: lambda x: m.grad(scalar(m, f, x))(x),
    "vjp": lambda m, f: lambda x: m.vjp(lambda y: f(y) * x, x)[1](m.xp.cos(x))[0],
    "jvp": lambda m, f: lambda x: m.jvp(lambda y: f(y) * x, (x,), (m.xp.sin(x),))[1],
    "linearize": linearize,
    "forward": lambda m, f: lambda x: m.forward(lambda y: f(y) + x * y)(x) @ x,
    "reverse": lambda m, f: lambda x: x @ m.reverse(lambda y: f(y) + x * y)(x),
    "hessian": lambda m, f: lambda x: m.hessian(scalar(m, f, x))(x) @ m.asarray(WEIGHTS),
    "hvp": lambda m, f: lambda x: m.hvp(scalar(m, f, x))(x, m.xp.cos(x)),
    "vmap": vmap, "vmap_columns": vmap_columns,
}  # fmt: skip


def compose(m, names, wrapped=lambda f: f):
    """The function that is named last, transformed as the others say."""
    *transforms, name = names
    f = wrapped(partial(FUNCTIONS[name], m))
    for transform in reversed(transforms):
        f = TRANSFORMS[transform](m, f)
    return f


def compositions():
    """Yield all compositions of depth 1 and 2, and some of 3 and 4; the functions take turns."""
    rng, names = np.random.default_rng(7), [*TRANSFORMS]
    for transforms in [*[(t,) for t in names], ("grad", "vmap", "jvp", "grad")]:
        yield from [(*transforms, f) for f in FUNCTIONS]
    chosen = [*product(names, repeat=2)]
    for depth, count in ((3, 80), (4, 40)):
        draws = {tuple(rng.choice(len(names), depth)) for _ in range(count)}
        chosen += [tuple([names[i] for i in draw]) for draw in sorted(draws)]
    k = 0
    for transforms in chosen:
        for _ in range(2 if len(transforms) == 2 else 1):
            yield *transforms, [*FUNCTIONS][k % len(FUNCTIONS)]
            k += 1


def by_jax(names):
    import jax

    with jax.enable_x64(True):
        values = np.asarray(jax.jit(compose(theirs(), names))(jax.numpy.asarray(X))).tolist()
    jax.clear_caches()  # the caches take gigabytes
    return values


COMPOSITIONS = {" ".join(names): names for names in compositions()}


@pytest.fixture(scope="module")
def values():
    return json.loads(VALUES.read_text())


def check(names, values, library, wrapped=lambda f: f):
    class OnLibrary(Ours):
        asarray = library.tensor

    for name, checked in every(names):
        with checked:
            expected = np.array(values[name])
            result = compose(OnLibrary, COMPOSITIONS[name], wrapped)(library.tensor(X))
            assert (result.requires_grad, type(result.array)) == (False, type(library.array(X)))
            atol = 1e-9 * np.abs(expected).max()
            assert_close(library.values(result), expected, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_compositions(f, values):
    check([name for name, of in COMPOSITIONS.items() if of[-1] == f], values, libraries()[0])


@pytest.mark.parametrize("library", each_library()[1:])
def test_other_libraries(library, values):
    check([*COMPOSITIONS][::8], values, library)


@pytest.mark.parametrize("wrapped", [with_own_rule, lambda f: partial(gg.checkpoint, f)])
def test_custom_vjp_and_checkpoint(wrapped, values):
    check([*COMPOSITIONS][::5], values, libraries()[0], wrapped)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COMPOSITIONS][:: len(COMPOSITIONS) // 3])
def test_values_equal_those_of_jax(name, values):
    pytest.importorskip("jax")
    assert_close(np.array(by_jax(COMPOSITIONS[name])), np.array(values[name]), rtol=1e-9)


if __name__ == "__main__":
    lines = [f'"{name}": {by_jax(of)}' for name, of in COMPOSITIONS.items()]
    VALUES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
