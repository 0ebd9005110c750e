"""`custom_vjp`: derivatives follow the user's rule, in any order and mode."""

from functools import partial

import numpy as np
import pytest
from samples import check_errors

import gpugrad as gg
from gpugrad import custom_vjp, tree
from gpugrad.autograd import grad as gradients

X, Y = np.random.default_rng(0).standard_normal((2, 3, 4))


def close(x, expected):
    for a, b in zip(tree.leaves(x), tree.leaves(expected), strict=True):
        assert a.shape == np.shape(b)
        np.testing.assert_allclose(a.detach().numpy(), np.asarray(b), rtol=1e-10, atol=1e-12)


def leaf(values):
    return gg.tensor(values, requires_grad=True)


# Functions of an argument that all examples share and of one that differs between them.
OF_EXAMPLES = {
    "shared": lambda x, a: gg.sum(gg.sin(x) * x),
    "differs": lambda x, a: gg.sum(gg.cumulative_prod(x * a)),
    "both": lambda x, a: (gg.sum(a * gg.sin(x)), gg.sum(x**3)),
}
IN_MODES = {
    "grad": gg.grad, "hessian": gg.hessian, "forward": partial(gg.jacobian, mode="forward"),
    "forward over reverse": lambda h: gg.jacobian(gg.grad(h), mode="forward"),
    "jvp": lambda h: lambda x: gg.jvp(h, (x,), (gg.cos(x),)),
    "vmap of linearize": lambda h: lambda x: gg.vmap(gg.linearize(h, x)[1])(gg.tensor(np.eye(4))),
}  # fmt: skip


def with_rule(f, fwd, bwd, **options):
    g = custom_vjp(f, **options)
    g.defvjp(fwd, bwd)
    return g


def with_own_rule(f):
    return with_rule(f, lambda *args: (f(*args), args), lambda args, c: gg.vjp(f, *args)[1](c))


class TestDerivatives:
    @pytest.mark.parametrize("f", OF_EXAMPLES.values(), ids=OF_EXAMPLES)
    @pytest.mark.parametrize("derivative", IN_MODES.values(), ids=IN_MODES)
    def test_a_rule_that_differentiates(self, f, derivative):
        """Values that the rule differentiates get an axis of examples only with the cotangent."""

        def loss(f):
            def one(x, a):
                y = f(x, a)
                return a[0] * (y[0] * y[1] if isinstance(y, tuple) else y * y)

            return lambda x: gg.sum(gg.vmap(one, in_axes=(None, 0))(x, gg.tensor(Y)))

        found, expected = (derivative(loss(h))(gg.tensor(X[0])) for h in (with_own_rule(f), f))
        close(found, expected)

    def test_the_jacobian_of_a_rule_that_differentiates(self):
        f = with_own_rule(gg.sin)
        for n in (3, 4):  # with as many tangents as elements, a wrong sum would fit
            x = X[0, :n]
            close(gg.jacobian(f, mode="forward")(gg.tensor(x)), np.diag(np.cos(x)))

    def test_backward_and_create_graph(self):
        def ratio(x, y):
            """``sin(x) / y`` elementwise."""
            return gg.sin(x) / y

        ratio = with_rule(
            ratio, lambda x, y: (ratio(x, y), (gg.cos(x), gg.sin(x), 1 / y)),
            lambda parts, g: (g * parts[0] * parts[2], -g * parts[1] * parts[2] ** 2),
        )  # fmt: skip
        x, y = leaf(X), leaf(Y)
        ratio(y=y, x=x).sum().backward()
        close((x.grad, y.grad), (np.cos(X) / Y, -np.sin(X) / Y**2))
        (g,) = gradients(ratio(x, y).sum(), x, create_graph=True)
        (h,) = gradients(g.sum(), y)
        close(h, -np.cos(X) / Y**2)
        assert (ratio.__name__, repr(ratio)) == ("ratio", "<custom_vjp ratio>")
        assert ratio.__doc__.startswith("``sin(x) / y``")
        with pytest.raises(TypeError, match="ratio: got an unexpected keyword argument 'z'"):
            ratio(x, y, z=y)

    def test_derivatives_follow_the_rule(self):
        straight_through = with_rule(gg.round, lambda x: (gg.round(x), None), lambda _, g: (g,))
        close(gg.grad(lambda x: (straight_through(x) * x).sum())(gg.asarray(X)), X + np.round(X))

    def test_a_rule_that_depends_on_the_example_of_a_shared_result(self):
        f = with_rule(lambda x, s: x, lambda x, s: (x, s), lambda s, g: (g * s, None))
        x, w = gg.tensor(2.0), gg.tensor([3.0, 4.0, 8.0])
        close(gg.jacobian(lambda x: gg.vmap(lambda s: f(x, s) * s)(w))(x), w * w)
        close(gg.vmap(lambda s: gg.jvp(lambda x: f(x, s), (x,), (gg.tensor(1.0),))[1])(w), w)

    @pytest.mark.parametrize("derivative", [
        gg.grad, gg.jacobian, lambda f: lambda x: gg.vjp(f, x)[1](gg.tensor(1.0))[0],
        lambda f: lambda x: gg.jvp(f, (x,), (gg.tensor(1.0),))[1],
        lambda f: gg.grad(lambda x: gg.checkpoint(f, x)),
    ])  # fmt: skip
    def test_a_rule_that_closes_over_a_tensor(self, derivative):
        def of(w):
            return derivative(with_rule(lambda x: x * 2, lambda x: (x * 2, None),
                                        lambda _, g: (g * w,)))(gg.tensor(2.0))  # fmt: skip

        close(gg.grad(of)(gg.tensor(3.0)), 1.0)
        w = leaf(3.0)
        assert of(w).requires_grad
        x = leaf(2.0)
        with_rule(lambda x: x * 2, lambda x: (x * 2, None), lambda _, g: (g * w,))(x).backward()
        assert (x.grad.item(), w.grad) == (3.0, None)


class TestArguments:
    def test_containers_integers_and_none(self):
        @custom_vjp
        def f(p, n, mask=None):
            return {"y": p["w"] * p["b"][0] * n, "order": gg.argsort(p["w"])}

        def bwd(residuals, g):
            p, n = residuals
            assert g["order"] is None
            return {"w": g["y"] * p["b"][0] * n, "b": [g["y"] * p["w"] * n]}, None, None

        f.defvjp(lambda p, n, mask=None: (f(p, n, mask), (p, n)), bwd)
        p = {"w": leaf(X[0]), "b": [leaf(Y[0])]}
        out = f(p, n=gg.asarray(2))
        out["y"].sum().backward()
        assert out["order"].tolist() == np.argsort(X[0]).tolist()
        close((p["w"].grad, p["b"][0].grad), (2 * Y[0], 2 * X[0]))

    def test_nondiff_argnums(self):
        apply = with_rule(
            lambda f, x, n: f(x) * n, lambda f, x, n: (apply(f, x, n), x),
            lambda f, n, x, g: (g * n * gg.grad(f)(x),), nondiff_argnums=(0, 2),
        )  # fmt: skip
        first, x = gg.grad(lambda x: apply(lambda x: x**3, x, 4)), gg.tensor(0.5)
        close((first(x), gg.grad(first)(x)), (4 * 3 * 0.5**2, 4 * 6 * 0.5))

    def test_defaults(self):
        @custom_vjp
        def scaled(x, k=2.0, *, unused=None):
            return x * k

        scaled.defvjp(lambda x, k: (x * k, k), lambda k, g: (10 * k * g, None))
        for expected, options in ((20, {}), (30, {"k": 3.0})):
            found = gg.grad(lambda x: scaled(x, **options).sum())(gg.asarray(X))  # noqa: B023
            close(found, np.full(X.shape, expected))
        with pytest.raises(TypeError, match="no position, unused, cannot"):
            scaled(leaf(X), unused=1)
        with pytest.raises(TypeError, match="scaled: missing a required argument: 'x'"):
            scaled()

    @pytest.mark.parametrize("z", [X, X + 1j * Y], ids=["real", "complex"])
    def test_a_pullback_as_residuals(self, z):
        f = custom_vjp(lambda z: gg.exp(z) * z)
        f.defvjp(lambda z: gg.vjp(f.f, z), lambda pullback, c: (0.5 * pullback(c)[0],))
        found, expected = (gg.grad(lambda z, h=h: gg.abs(h(z)).sum())(z) for h in (f, f.f))
        close(found, 0.5 * expected)

    def test_several_results_of_which_some_are_used(self):
        f = custom_vjp(lambda x: (gg.sin(x), x, gg.cos(x)))
        f.defvjp(lambda x: (f(x), x), lambda x, g: (g[0] * gg.cos(x) + g[1] - g[2] * gg.sin(x),))
        slopes = [np.cos(X), np.ones_like(X), -np.sin(X)]
        for used in ([0], [1], [0, 2]):
            x = leaf(X)
            out = f(x)
            sum((out[i] * (i + 1)).sum() for i in used).backward()
            close(x.grad, sum(slopes[i] * (i + 1) for i in used))

    def test_nothing_inside_is_recorded(self):
        seen = []
        f = with_rule(
            lambda x: x * 2, lambda x: seen.append(x.requires_grad) or (x * 2, x),
            lambda x, g: seen.append((x.requires_grad, g.requires_grad)) or (g * 2,),
        )  # fmt: skip
        f(gg.asarray(X))
        with gg.no_grad():
            f(leaf(X))
        assert not seen
        f(leaf(X)).sum().backward()
        assert seen == [False, (False, False)]

    def test_a_leaf_made_inside(self):
        def fwd(x):
            inner = x.detach().requires_grad_()
            y = gg.sin(inner)
            return y.detach(), (inner, y)

        f = with_rule(gg.sin, fwd, lambda residuals, g: gradients(residuals[1], residuals[0], g))
        close(gg.grad(lambda x: f(x).sum())(gg.asarray(X)), np.cos(X))


class TestErrors:
    def rule(self, bwd, fwd=lambda x, params: (x * params["w"], (x, params))):
        def scale(x, params):
            return x * params["w"]

        return lambda: with_rule(scale, fwd, bwd)(leaf(X), {"w": leaf(Y)}).sum().backward()

    @pytest.mark.parametrize("returned, error, message", [
        (lambda g: g, TypeError, r"bwd must return a tuple .* \(x, params,\), not a Tensor"),
        (lambda g: (g, {"w": g}, g), TypeError, "not a tuple of 3"),
        (lambda g: (g[0], {"w": g}), ValueError, r"returned for x .* \(3, 4\), not \(4,\)"),
        (lambda g: (g, {"w": g.sum()}), ValueError, r"returned for params\['w'\] .*not \(\)"),
        (lambda g: (g, g), ValueError, r"returned for params .* structure \{'w': \*\}"),
        (lambda g: (g + 1j, None), TypeError, "returned for x .* real"),
        (lambda g: ("g", None), TypeError, "returned for x"),
    ])  # fmt: skip
    def test_cotangents(self, returned, error, message):
        with pytest.raises(error, match=f"^scale: .*{message}"):
            self.rule(lambda residuals, g: returned(g))()

    @pytest.mark.parametrize("result", [lambda x, p: x, lambda x, p: (x, x, x)])
    def test_bad_results_of_fwd(self, result):
        with pytest.raises(TypeError, match="scale: fwd must return a pair"):
            self.rule(lambda residuals, g: (g, None), result)()

    @pytest.mark.parametrize("result, message", [
        (lambda y: np.float32(3), r"the result of fwd is the NumPy number 3.0 \(float32\)"),
        (lambda y: y.numpy(), r"the result of fwd is an array of numpy \(float64"),
        (lambda y: {"y": [y, 2.5]}, r"the result\['y'\]\[1\] of fwd is the Python number 2.5"),
    ])  # fmt: skip
    def test_results_without_graph(self, result, message):
        """Their cotangents would never come to bwd."""
        f = custom_vjp(lambda x: result(x.detach() * 2))
        f.defvjp(lambda x: (f(x), None), lambda _, g: (g * 2,))
        words = "which has no graph, so bwd would not be called for it; return"
        with pytest.raises(TypeError, match=f"^f?.*: {message}.*, {words}"):
            gg.grad(lambda x: (f(x) * x).sum())(gg.asarray(X))
        f(gg.asarray(X))  # nothing is recorded

    def test_results_that_have_no_cotangent(self):
        """Such as integers are no mistake."""
        results = lambda x: (x * 2, len(x), np.arange(3), "name", None)  # noqa: E731
        f = with_rule(results, lambda x: (f(x), None), lambda _, g: (g[0] * 5,))
        close(gg.grad(lambda x: f(x)[0].sum())(gg.asarray(X)), np.full_like(X, 5))

    def test_tensors_from_outside(self):
        w = leaf(Y)
        rule = lambda _, g: (g, None)  # noqa: E731
        for fwd in (lambda x, p: (x * w, None), lambda x, p: (x, [w * 2])):
            with pytest.raises(ValueError, match="depends on a tensor from outside that requires"):
                self.rule(rule, fwd)()
        self.rule(rule, lambda x, p: (x * w.detach(), None))()

        f = custom_vjp(lambda x: x)

        def loss(y):
            f.defvjp(lambda x: (x * y, None), lambda _, g: (g,))
            return gg.grad(lambda x: f(x).sum())(y).sum()

        with pytest.raises(ValueError, match="make it an argument of <lambda>"):
            gg.grad(loss)(gg.asarray(X))

    def test_missing_vjp(self):
        f = custom_vjp(abs)
        check_errors(TypeError, [
            (r"abs: it has no VJP yet; give one with abs\.defvjp", lambda: f(leaf(X))),
            (r"abs\.defvjp: bwd must be a function", lambda: f.defvjp(lambda x: (x, x), None)),
            ("custom_vjp: f must be a function", lambda: custom_vjp(3)),
            ("nondiff_argnums must be positions", lambda: custom_vjp(f, nondiff_argnums=("x",))),
        ])  # fmt: skip

    def test_nondiff_argnums(self):
        for f, given, message in (
            (lambda x, y: x * y, [X, Y], "argument y requires grad, but nondiff_argnums"),
            (lambda *xs: xs[0], [X], "names argument 1, but 1"),
        ):
            with pytest.raises(TypeError, match=message):
                with_rule(f, len, len, nondiff_argnums=1)(*map(leaf, given))
