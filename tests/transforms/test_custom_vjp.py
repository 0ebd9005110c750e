"""`custom_vjp`: derivatives follow the user's rule, in any order and mode."""

from functools import partial

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import custom_vjp
from gpugrad.autograd import grad as gradients

X, Y = np.random.default_rng(0).standard_normal((2, 3, 4))


@pytest.fixture
def with_jax():
    global jax, jnp
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def close(x, expected):
    leaves = x if isinstance(x, (tuple, list)) else (x,)
    others = expected if isinstance(expected, (tuple, list)) else (expected,)
    assert len(leaves) == len(others)
    for a, b in zip(leaves, others, strict=True):
        if isinstance(a, (tuple, list)):
            close(a, b)
        else:
            b = np.asarray(b)
            assert a.shape == b.shape
            np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-10, atol=1e-12)


def leaf(values):
    return gg.tensor(values, requires_grad=True)


def ratio(custom, xp):
    """Return ``sin(x) / y`` elementwise, with residuals that depend on both."""

    @custom
    def f(x, y):
        return xp.sin(x) / y

    def fwd(x, y):
        return f(x, y), (xp.cos(x), xp.sin(x), 1 / y)

    def bwd(residuals, g):
        cos, sin, over = residuals
        return g * cos * over, -g * sin * over**2

    f.defvjp(fwd, bwd)
    return f


OURS = ratio(custom_vjp, gg)


def total(f):
    return lambda x, y: (f(x, y) ** 2).sum()


@pytest.mark.usefixtures("with_jax")
class TestDerivatives:
    def check(self, transform, *args):
        given = [gg.asarray(a) for a in args]
        close(transform(gg, OURS)(*given), transform(jax, ratio(jax.custom_vjp, jnp))(*args))

    def test_first(self):
        self.check(lambda m, f: m.grad(total(f), (0, 1)), X, Y)

    def test_second(self):
        def product(m, f):
            g = m.grad(total(f), (0, 1))
            return m.grad(lambda x, y: sum((part**2).sum() for part in g(x, y)), (0, 1))

        self.check(product, X, Y)

    def test_third(self):
        def third(m, f):
            g = m.grad(total(f), 0)
            h = m.grad(lambda x, y: (g(x, y) ** 2).sum(), 1)
            return m.grad(lambda x, y: (h(x, y) ** 2).sum(), (0, 1))

        self.check(third, X, Y)

    def test_pullback_and_jacobian(self):
        theirs = ratio(jax.custom_vjp, jnp)
        close(
            gg.vjp(OURS, gg.asarray(X), gg.asarray(Y))[1](gg.asarray(Y)),
            jax.vjp(theirs, X, Y)[1](Y),
        )
        found = gg.jacobian(OURS, (0, 1), mode="reverse")(gg.asarray(X), gg.asarray(Y))
        close(found, jax.jacrev(theirs, (0, 1))(X, Y))

    @pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 1)])
    def test_inside_a_vmap(self, axes):
        args = {(0, 0): (X, Y), (0, None): (X, Y[0]), (None, 1): (X[:, 0], Y)}[axes]
        self.check(lambda m, f: m.vmap(m.grad(total(f), (0, 1)), axes), *args)

    @pytest.mark.slow
    @pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 1)])
    def test_through_a_vmap_that_has_ended(self, axes):
        args = {(0, 0): (X, Y), (0, None): (X, Y[0]), (None, 1): (X[:, 0], Y)}[axes]

        def outer(m, f):
            return lambda x, y: (m.vmap(f, axes)(x, y) ** 2).sum()

        self.check(lambda m, f: m.grad(outer(m, f), (0, 1)), *args)

        def hessian(m, f):
            if m is jax:  # its own hessian needs forward mode
                return jax.jacrev(jax.jacrev(outer(m, f), 1), 1)
            return gg.hessian(outer(m, f), 1)

        self.check(hessian, *args)

    def test_jacobians_of_examples_inside_and_outside(self):
        def inside(m, f):
            return m.vmap(m.jacrev(f, 1) if m is jax else m.jacobian(f, 1, mode="reverse"))

        self.check(inside, X, Y)

        def nested(m, f):
            rows = m.vmap(m.vmap(f, (0, None)), (None, 0))
            return m.jacrev(rows, 0) if m is jax else m.jacobian(rows, 0, mode="reverse")

        self.check(nested, X[0], Y[0])

    def test_forward_mode_transposes_it(self):
        theirs = ratio(jax.custom_vjp, jnp)  # has no forward mode
        given = gg.asarray(X), gg.asarray(Y)
        tangents = gg.asarray(Y), gg.asarray(X)
        _, found = gg.jvp(OURS, given, tangents)
        _, expected = jax.jvp(lambda x, y: jnp.sin(x) / y, (X, Y), (Y, X))
        close(found, expected)
        found = gg.jacobian(OURS, mode="forward")(*given)
        close(found, jax.jacrev(theirs)(X, Y))
        _, found = gg.jvp(gg.grad(total(OURS)), given, tangents)
        _, expected = jax.jvp(jax.grad(total(lambda x, y: jnp.sin(x) / y)), (X, Y), (Y, X))
        close(found, expected)
        _, found = gg.vmap(lambda *v: gg.jvp(OURS, v[:2], v[2:]))(*given, *tangents)
        _, expected = jax.jvp(lambda x, y: jnp.sin(x) / y, (X, Y), (Y, X))
        close(found, expected)

    @pytest.mark.parametrize(
        "f",
        [
            lambda x, a: gg.sum(gg.sin(x) * x),
            lambda x, a: gg.sum(gg.cumulative_prod(x * a)),
            lambda x, a: (gg.sum(a * gg.sin(x)), gg.sum(x**3)),  # one differs, one is shared
        ],
        ids=["shared", "differs", "both"],
    )
    @pytest.mark.parametrize(
        "derivative",
        [
            gg.grad,
            gg.hessian,
            partial(gg.jacobian, mode="forward"),
            lambda h: gg.jacobian(gg.grad(h), mode="forward"),
            lambda h: lambda x: gg.jvp(h, (x,), (gg.cos(x),)),
            lambda h: lambda x: gg.vmap(gg.linearize(h, x)[1])(gg.eye(x.shape[0], dtype=x.dtype)),
        ],
        ids=["grad", "hessian", "forward", "forward over reverse", "jvp", "vmap of linearize"],
    )
    def test_a_rule_that_differentiates(self, f, derivative):
        """Values that the rule differentiates get an axis of examples only with the cotangent."""
        g = custom_vjp(f)
        g.defvjp(lambda *args: (f(*args), args), lambda args, c: gg.vjp(f, *args)[1](c))

        def loss(f):
            def one(x, a):
                y = f(x, a)
                return a[0] * (y[0] * y[1] if isinstance(y, tuple) else y * y)

            return lambda x: gg.sum(gg.vmap(one, in_axes=(None, 0))(x, gg.tensor(Y)))

        close(derivative(loss(g))(gg.tensor(X[0])), derivative(loss(f))(gg.tensor(X[0])))

    def test_the_jacobian_of_a_rule_that_differentiates(self):
        f = gg.custom_vjp(gg.sin)
        f.defvjp(lambda x: (gg.sin(x), x), lambda x, g: gg.vjp(gg.sin, x)[1](g))
        for n in (3, 4):  # with as many tangents as elements, a wrong sum would fit
            x = X[0, :n]
            close(gg.jacobian(f, mode="forward")(gg.tensor(x)), np.diag(np.cos(x)))

    def test_backward_and_create_graph(self):
        x, y = leaf(X), leaf(Y)
        OURS(x, y).sum().backward()
        close((x.grad, y.grad), (np.cos(X) / Y, -np.sin(X) / Y**2))
        (g,) = gradients(OURS(x, y).sum(), x, create_graph=True)
        (h,) = gradients(g.sum(), y)
        close(h, -np.cos(X) / Y**2)

    def test_derivatives_follow_the_rule(self):
        @custom_vjp
        def straight_through(x):
            return gg.round(x)

        straight_through.defvjp(lambda x: (gg.round(x), None), lambda _, g: (g,))
        x = gg.tensor([0.3, 1.7])
        assert gg.grad(lambda x: (straight_through(x) * x).sum())(x).tolist() == pytest.approx(
            [0.3, 3.7]
        )

    def test_random_numbers_of_residuals(self):
        drawn = []

        @custom_vjp
        def noisy(x):
            return x**3

        def fwd(x):
            noise = gg.random.normal(x.shape, dtype=x.dtype)
            drawn.append(noise.tolist())
            return x**3, (x, noise)

        noisy.defvjp(fwd, lambda residuals, g: (g * 3 * residuals[0] ** 2 * residuals[1],))
        x = leaf(X)
        (g,) = gradients(noisy(x).sum(), x, create_graph=True)
        (h,) = gradients(g.sum(), x)
        assert drawn[0] == drawn[-1]
        close(h, 6 * X * np.array(drawn[0]))


class TestArguments:
    def test_containers_integers_and_none(self):
        @custom_vjp
        def f(p, n, mask=None):
            return {"y": p["w"] * p["b"][0] * n, "order": gg.argsort(p["w"])}

        def fwd(p, n, mask=None):
            return f(p, n, mask), (p, n)

        def bwd(residuals, g):
            p, n = residuals
            assert g["order"] is None
            return {"w": g["y"] * p["b"][0] * n, "b": [g["y"] * p["w"] * n]}, None, None

        f.defvjp(fwd, bwd)
        p = {"w": leaf(X[0]), "b": [leaf(Y[0])]}
        out = f(p, n=gg.asarray(2))
        out["y"].sum().backward()
        assert out["order"].tolist() == np.argsort(X[0]).tolist()
        close((p["w"].grad, p["b"][0].grad), (2 * Y[0], 2 * X[0]))

    def test_nondiff_argnums(self):
        @partial(custom_vjp, nondiff_argnums=(0, 2))
        def apply(f, x, n):
            return f(x) * n

        apply.defvjp(
            lambda f, x, n: (apply(f, x, n), x), lambda f, n, x, g: (g * n * gg.grad(f)(x),)
        )
        f = lambda x: apply(lambda x: x**3, x, 4)  # noqa: E731
        x = gg.tensor(0.5, dtype=gg.float64)
        close(gg.grad(f)(x), 4 * 3 * 0.5**2)
        close(gg.grad(gg.grad(f))(x), 4 * 6 * 0.5)

    def test_defaults(self):
        @custom_vjp
        def scaled(x, k=2.0, *, unused=None):
            return x * k

        scaled.defvjp(lambda x, k: (x * k, k), lambda k, g: (10 * k * g, None))
        for expected, options in ((20, {}), (30, {"k": 3.0})):
            x = leaf(X)
            scaled(x, **options).sum().backward()
            close(x.grad, np.full(X.shape, expected))
        with pytest.raises(TypeError, match="no position, unused, cannot"):
            scaled(leaf(X), unused=1)
        with pytest.raises(TypeError, match="scaled: missing a required argument: 'x'"):
            scaled()

    def test_a_pullback_as_residuals(self):
        @custom_vjp
        def scaled(x):
            return gg.exp(x) * x

        scaled.defvjp(
            lambda x: gg.vjp(lambda x: gg.exp(x) * x, x),
            lambda pullback, g: tuple(0.5 * c for c in pullback(g)),
        )
        f = lambda x: scaled(x).sum()  # noqa: E731
        close(gg.grad(f)(gg.asarray(X)), 0.5 * np.exp(X) * (X + 1))
        close(gg.grad(lambda x: gg.grad(f)(x).sum())(gg.asarray(X)), 0.5 * np.exp(X) * (X + 2))

    def test_several_results_of_which_some_are_used(self):
        @custom_vjp
        def f(x):
            return gg.sin(x), x, gg.cos(x)

        f.defvjp(lambda x: (f(x), x), lambda x, g: (g[0] * gg.cos(x) + g[1] - g[2] * gg.sin(x),))
        for used in ([0], [1], [0, 2]):
            x = leaf(X)
            out = f(x)
            sum((out[i] * (i + 1)).sum() for i in used).backward()
            slopes = [np.cos(X), np.ones_like(X), -np.sin(X)]
            close(x.grad, sum(slopes[i] * (i + 1) for i in used))

    def test_complex_cotangents_equal_those_of_vjp(self):
        @custom_vjp
        def f(z):
            return z * z

        f.defvjp(lambda z: gg.vjp(lambda z: z * z, z), lambda pullback, g: pullback(g))
        z = gg.asarray(X + 1j * Y)
        expected = gg.grad(lambda z: gg.abs(z * z).sum())(z)
        close(gg.grad(lambda z: gg.abs(f(z)).sum())(z), expected.numpy())

    def test_nothing_recorded(self):
        calls = []
        f = custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: calls.append(x), lambda _, g: (g,))
        f(gg.asarray(X))
        with gg.no_grad():
            f(leaf(X))
        assert not calls

    def test_nothing_inside_is_recorded(self):
        seen = []

        @custom_vjp
        def f(x):
            return x * 2

        def bwd(residuals, g):
            seen.append([residuals.requires_grad, g.requires_grad])
            return (g * 2,)

        def fwd(x):
            seen.append(x.requires_grad)
            return x * 2, x

        f.defvjp(fwd, bwd)
        f(leaf(X)).sum().backward()
        assert seen == [False, [False, False]]

    def test_a_leaf_made_inside(self):
        @custom_vjp
        def f(x):
            return gg.sin(x)

        def fwd(x):
            inner = x.detach().requires_grad_()
            y = gg.sin(inner)
            return y.detach(), (inner, y)

        f.defvjp(fwd, lambda residuals, g: gradients(residuals[1], residuals[0], g))
        x = leaf(X)
        f(x).sum().backward()
        close(x.grad, np.cos(X))

    def test_overwritten_in_place(self):
        x, y = leaf(X), leaf(Y)
        out = OURS(x, y)
        optimizer = gg.optim.SGD([x], lr=0.1)
        x.grad = gg.ones_like(x)
        optimizer.step()
        x.grad = None
        with pytest.raises(RuntimeError, match="backward through f: a value it saved"):
            out.sum().backward()

    def test_all_libraries(self, library):
        x = library.tensor(X.astype("float32"), requires_grad=True)
        y = library.tensor(Y.astype("float32"))
        OURS(x, y).sum().backward()
        np.testing.assert_allclose(library.values(x.grad), np.cos(X) / Y, rtol=1e-4)

    def test_name_and_doc_are_kept(self):
        @custom_vjp
        def f(x):
            """Nothing."""

        assert (f.__name__, f.__doc__, repr(f)) == ("f", "Nothing.", "<custom_vjp f>")


class TestErrors:
    def rule(self, bwd, fwd=lambda x, params: (x * params["w"], (x, params))):
        @custom_vjp
        def scale(x, params):
            return x * params["w"]

        scale.defvjp(fwd, bwd)
        return lambda: scale(leaf(X), {"w": leaf(Y)}).sum().backward()

    @pytest.mark.parametrize(
        "returned, error, message",
        [
            (lambda g: g, TypeError, r"bwd must return a tuple .* \(x, params,\), not a Tensor"),
            (lambda g: (g,), ValueError, "bwd must return 2 cotangents, for x, params, not 1"),
            (lambda g: (g, {"w": g}, g), ValueError, "not 3"),
            (lambda g: (g[0], {"w": g}), ValueError, r"cotangent of x .* \(3, 4\), not \(4,\)"),
            (lambda g: (g, {"w": g.sum()}), ValueError, r"cotangent of params\['w'\] .*not \(\)"),
            (lambda g: (g, {"v": g}), ValueError, r"cotangent of params .* structure \{'w': \*\}"),
            (lambda g: (g, g), ValueError, r"cotangent of params .* structure \{'w': \*\}"),
            (lambda g: (g + 1j, None), TypeError, "cotangent of x .* real"),
            (lambda g: ("g", None), TypeError, "cotangent of x"),
        ],
    )  # fmt: skip
    def test_cotangents(self, returned, error, message):
        with pytest.raises(error, match=message) as caught:
            self.rule(lambda residuals, g: returned(g))()
        assert str(caught.value).startswith("scale: ")

    @pytest.mark.parametrize("result", [lambda x, p: x, lambda x, p: (x, x, x)])
    def test_bad_results_of_fwd(self, result):
        with pytest.raises(TypeError, match="scale: fwd must return a pair"):
            self.rule(lambda residuals, g: (g, None), result)()

    @pytest.mark.parametrize(
        "result, message",
        [
            (lambda y: y.sum().item(), r"the result of fwd is the Python number .* \(float\)"),
            (lambda y: np.float32(3), r"the result of fwd is the NumPy number 3.0 \(float32\)"),
            (lambda y: y.numpy(), r"the result of fwd is an array of numpy \(float64"),
            (lambda y: {"y": [y, 2.5]}, r"the result\['y'\]\[1\] of fwd is the Python number 2.5"),
        ],
    )
    def test_results_without_graph(self, result, message):
        """Their cotangents would never come to bwd."""

        @custom_vjp
        def f(x):
            return result(x.detach() * 2)

        f.defvjp(lambda x: (f(x), None), lambda _, g: (g * 2,))
        message = f"^f: {message}.*, which has no graph, so bwd would not be called for it; return"
        with pytest.raises(TypeError, match=message):
            gg.grad(lambda x: (f(x) * x).sum())(gg.asarray(X))
        f(gg.asarray(X))  # nothing is recorded

    def test_results_that_have_no_cotangent(self):
        """Such as integers are no mistake."""

        @custom_vjp
        def f(x):
            return x * 2, len(x), np.arange(3), "name", None

        f.defvjp(lambda x: (f(x), None), lambda _, g: (g[0] * 5,))
        found = gg.grad(lambda x: f(x)[0].sum())(gg.asarray(X))
        np.testing.assert_array_equal(found.numpy(), np.full_like(X, 5))

    def test_tensors_from_outside(self):
        w = leaf(Y)
        rule = lambda _, g: (g, None)  # noqa: E731
        for fwd in (lambda x, p: (x * w, None), lambda x, p: (x, [w * 2])):
            with pytest.raises(ValueError, match="depends on a tensor from outside that requires"):
                self.rule(rule, fwd)()
        self.rule(rule, lambda x, p: (x * w.detach(), None))()

        @custom_vjp
        def f(x):
            return x

        def loss(y):
            f.defvjp(lambda x: (x * y, None), lambda _, g: (g,))
            return gg.grad(lambda x: f(x).sum())(y).sum()

        with pytest.raises(ValueError, match="make it an argument of f"):
            gg.grad(loss)(gg.asarray(X))

    def test_missing_vjp(self):
        @custom_vjp
        def f(x):
            return x

        with pytest.raises(TypeError, match=r"f: it has no VJP yet; give one with f\.defvjp"):
            f(leaf(X))
        with pytest.raises(TypeError, match=r"f\.defvjp: bwd must be a function"):
            f.defvjp(lambda x: (x, x), None)
        with pytest.raises(TypeError, match="custom_vjp: f must be a function"):
            custom_vjp(3)

    def test_nondiff_argnums(self):
        with pytest.raises(TypeError, match="nondiff_argnums must be positions"):
            custom_vjp(lambda x: x, nondiff_argnums=("x",))
        f = custom_vjp(lambda x, y: x * y, nondiff_argnums=1)
        f.defvjp(lambda x, y: (x * y, None), lambda y, _, g: (g * y,))
        with pytest.raises(TypeError, match="argument y requires grad, but nondiff_argnums"):
            f(leaf(X), leaf(Y))
        with pytest.raises(TypeError, match="missing a required argument: 'y'"):
            f(leaf(X))
        g = custom_vjp(lambda *args: args[0], nondiff_argnums=1)
        g.defvjp(f._fwd, f._bwd)
        with pytest.raises(TypeError, match="names argument 1, but 1"):
            g(leaf(X))

    def test_named_arguments(self):
        with pytest.raises(TypeError, match="f: got an unexpected keyword argument 'z'"):
            OURS(leaf(X), leaf(Y), z=leaf(Y))
        x = leaf(X)
        OURS(y=leaf(Y), x=x).sum().backward()
        close(x.grad, np.cos(X) / Y)
