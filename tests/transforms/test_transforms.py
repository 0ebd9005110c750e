"""`grad`, `value_and_grad`, `vjp`, `jvp`, `linearize`, `jacobian`, `hessian`, `hvp`, `vmap`."""

import functools
import gc
import inspect
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass, field, make_dataclass

import numpy as np
import pytest
from test_custom_vjp import with_rule
from test_memory import alive, peak_of, some_of_everything
from test_threads import THREADS, in_threads

import gpugrad as gg
from gpugrad._batched import active_levels
from gpugrad.autograd.graph import Node
from gpugrad.testing import assert_close
from gpugrad.tree import leaves


def t(*values, dtype=gg.float64, **options):
    return gg.tensor(values[0] if len(values) == 1 else values, dtype=dtype, **options)


def random(*shape, seed=0):
    return gg.tensor(np.random.default_rng(seed).normal(size=shape))


def close(result, expected, rtol=1e-12, atol=1e-14):
    """Check the values of a result, and that it does not require grad."""
    assert not result.requires_grad
    expected = expected.numpy() if isinstance(expected, gg.Tensor) else np.asarray(expected)
    assert result.dtype == expected.dtype
    assert_close(result.numpy(), expected, rtol=rtol, atol=atol)


def all_close(results, *expected):
    for x, y in zip(leaves(results), expected, strict=True):
        close(x, y)


cube = with_rule(lambda x: x**3, lambda x: (x**3, x), lambda x, g: (g * 3 * x**2,))
twice = with_rule(lambda x: x * 2, lambda x: (x * 2, None), lambda _, g: (g * 2,))


def checkpointed(x):
    return gg.checkpoint(lambda x: gg.checkpoint(cube, twice(x)) + x, x).sum()


CALLS = {
    "grad": lambda x, v: gg.grad(some_of_everything)(x),
    "value_and_grad": lambda x, v: gg.value_and_grad(some_of_everything)(x),
    "vjp": lambda x, v: gg.vjp(gg.sin, x)[1](v),
    "vjp from a number": lambda x, v: gg.vjp(some_of_everything, x)[1](1.0),
    "jvp": lambda x, v: gg.jvp(some_of_everything, (x,), (v,)),
    "linearize": lambda x, v: gg.linearize(some_of_everything, x)[1](v),
    "forward": lambda x, v: gg.jacobian(lambda x: gg.sin(x) * x.sum(), mode="forward")(x),
    "reverse": lambda x, v: gg.jacobian(lambda x: gg.sin(x) * x.sum(), mode="reverse")(x),
    "empty": lambda x, v: gg.jacobian(lambda x: x[:0])(x),
    "hessian": lambda x, v: gg.hessian(some_of_everything)(x),
    "hvp": lambda x, v: gg.hvp(some_of_everything)(x, v),
    "vmap": lambda x, v: gg.vmap(lambda a: a * 2 + 1)(x),
    "vmap of hessian": lambda x, v: gg.vmap(gg.hessian(some_of_everything))(gg.stack([x, x])),
    "grad of jvp": lambda x, v: gg.grad(lambda x: gg.jvp(some_of_everything, (x,), (v,))[1])(x),
    "jvp of grad": lambda x, v: gg.jvp(gg.grad(some_of_everything), (x,), (v,)),
    "aux": lambda x, v: gg.grad(lambda x: ((x**2).sum(), x), has_aux=True)(x),
    "checkpoint": lambda x, v: gg.vmap(gg.hessian(checkpointed))(gg.stack([x, x])),
    "two arguments": lambda x, v: gg.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, v),
    "constants": lambda x, v: gg.vmap(
        lambda x, y, z=None: gg.stop_gradient(x) * y, in_axes=(0, None))(x, 2.0, z=None),
}  # fmt: skip


def test_product_with_a_hessian_too_large_to_form():
    optimize, n = pytest.importorskip("scipy.optimize"), 20_000
    x, v = random(n), random(n, seed=1)
    expected, results = optimize.rosen_hess_prod(x.numpy(), v.numpy()), []

    def f(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    peak = peak_of(lambda: results.append(gg.hvp(f)(x, v)))
    close(results[0], expected, rtol=1e-10, atol=1e-9)
    assert peak < 100 * x.array.nbytes  # the Hessian would need 20,000 times as much


def test_second_derivatives_of_trees_and_several_arguments():
    def f(p, z):
        return (p["a"] ** 2 * p["b"].sum() * z).sum() + (z**3).sum()

    p, z = {"a": random(2), "b": random(3)}, random(2, seed=1)
    h = gg.hessian(f, argnums=(0, "z"))(p, z)
    close(h[0]["a"][0]["a"], np.diag((2 * p["b"].sum() * z).numpy()))
    close(h[0]["a"][0]["b"], np.outer((2 * p["a"] * z).numpy(), np.ones(3)))
    close(h[0]["b"][0]["b"], np.zeros((3, 3)))
    close(h[1][1], np.diag((6 * z).numpy()))
    close(h[0]["b"][1], h[1][0]["b"].T)
    product = h[0]["a"][0]["a"] @ p["a"] + h[0]["a"][0]["b"] @ p["b"]
    all_close(gg.hvp(lambda p: f(p, z))(p, p), product, h[0]["b"][0]["a"] @ p["a"])


def squares(x, y):
    return gg.concat([x[:, None] * y[None, :], (x**3)[:, None]], axis=1)


JACOBIANS = [
    (squares, [(2,), (3,)]),  # results of 8 elements, arguments of 5
    (lambda x, y: (x**2).sum() * y.sum(), [(4,), ()]),
    (lambda x, y: gg.exp(x) * y, [(), ()]),
    (lambda x, y: gg.exp(y) * x.sum(), [(2, 2), (3, 1, 2)]),
    (lambda x, y: gg.where(x > 0, x, 0.0) @ y, [(3, 2), (2,)]),
    (lambda x, y: y, [(2,), (3,)]),
    (lambda x, y: x * y.sum(), [(0,), (2,)]),
    (lambda x, y: x[:0] * y.sum(), [(3,), (2,)]),
    (lambda x, y: gg.ones(2, dtype=gg.float64), [(3,), (2,)]),
]


class TestJacobian:
    """Jacobians, compared with differences and formulas."""

    @pytest.mark.parametrize("mode", [None, "forward", "reverse"])
    @pytest.mark.parametrize("f, shapes", JACOBIANS)
    def test_each_mode(self, f, shapes, mode):
        xs = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
        for k, found in enumerate(gg.jacobian(f, argnums=(0, 1), mode=mode)(*xs)):
            way = random(*shapes[k], seed=2)
            ahead, behind = (
                f(*[x + step * way if i == k else x for i, x in enumerate(xs)])
                for step in (1e-6, -1e-6)
            )
            assert found.shape == (*ahead.shape, *way.shape)
            along = np.tensordot(found, way, way.ndim)
            assert_close(along, (ahead - behind) / 2e-6, rtol=1e-7, atol=1e-8)

    def test_complex_results(self):
        x = random(3)
        a = x.numpy()
        expected = np.exp(1j * a)[:, None] * (1j * a.sum() * np.eye(3) + 1)
        for mode in (None, "forward"):
            close(gg.jacobian(lambda x: gg.exp(1j * x) * x.sum(), mode=mode)(x), expected)

    def test_fewer_elements_decide_the_mode(self):
        modes, double = [], gg.op(lambda xp, x: 2 * x)
        double.vjp(x=lambda xp, g: modes.append("reverse") or 2 * g)
        double.jvp(x=lambda xp, t: modes.append("forward") or 2 * t)
        for f, mode in (double, "reverse"), (lambda x: gg.concat([double(x), x]), "forward"):
            for requested in (None, "forward", "reverse"):
                modes.clear()
                gg.jacobian(f, mode=requested)(random(3))
                assert {*modes} == {requested or mode}


def test_results_require_grad_only_where_they_depend_on_it():
    x, w = t(1.0, 2.0), t(3.0, requires_grad=True)
    for found, expected in (
        (gg.value_and_grad(lambda x: (x**3).sum() + w)(x), [True, False]),
        (gg.jvp(lambda x: (x * x, w * x, w), (x,), (x,))[0], [False, True, True]),
        (gg.jvp(lambda x: (x * x, w * x, w), (x,), (x,))[1], [False, True, False]),
        (gg.vjp(lambda x: (x**2, w * x), x)[0], [False, True]),
        (gg.grad(lambda a, b: (a * a + b * w).sum(), (0, 1))(x, x), [False, True]),
        (gg.jacobian(lambda x: (x**2, w * x))(x), [False, True]),
    ):
        assert [y.requires_grad for y in found] == expected


def test_parameters_as_arguments():
    w = gg.nn.Parameter(t(1.0, 2.0))
    for transform in (gg.grad, gg.hessian, gg.jacobian, gg.vmap):
        transform(lambda w: (w * w).sum())(w)
    g = gg.grad(lambda p: (p["w"] ** 2).sum())({"w": w})["w"]
    assert (type(g), g.tolist()) == (gg.Tensor, [2.0, 4.0])
    assert (type(w), w.is_leaf, w.grad) == (gg.nn.Parameter, True, None)
    g.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


class TestMixing:
    """Transforms with `Tensor.backward`, `autograd.grad` and grad modes, outside and inside."""

    def test_backward_through_a_gradient(self):
        x = t(1.0, 2.0, requires_grad=True)
        gg.grad(lambda x: (x**3).sum())(x).sum().backward()
        gg.vmap(gg.grad(lambda y: y**3))(x).sum().backward()
        assert x.grad.tolist() == [12.0, 24.0]
        (again,) = gg.autograd.grad(gg.hvp(lambda x: (x**4).sum())(x, t(1.0, 1.0)).sum(), x)
        close(again, [24.0, 48.0])

    def test_no_grad_outside(self):
        x = t(1.0, 2.0, requires_grad=True)

        def f(x):
            return (x**3).sum()

        with gg.no_grad():
            close(gg.grad(f)(x), [3.0, 12.0])
            close(gg.hessian(f)(x), np.diag([6.0, 12.0]))
            close(gg.hvp(f)(x, x), [6.0, 24.0])
            close(gg.jacobian(lambda x: x**2, mode="forward")(x), np.diag([2.0, 4.0]))
            all_close(gg.jvp(f, (x,), (x,)), 9.0, 27.0)
            _, pullback = gg.vjp(f, x)
            assert not gg.is_grad_enabled()
        close(pullback(1.0)[0], [3.0, 12.0])

    def test_no_grad_inside_makes_a_constant(self):
        x = t(1.0, 2.0)
        for f in lambda x: x**2, gg.grad(lambda y: (y**3).sum() / 3), lambda x: x**2 + 0 * x:
            close(gg.grad(lambda x: (gg.no_grad(f)(x) * x).sum())(x), [1.0, 4.0])  # noqa: B023
            close(gg.jvp(lambda x: gg.no_grad(f)(x) * x, (x,), (x,))[1], [1.0, 8.0])  # noqa: B023
        close(gg.grad(gg.no_grad(lambda x: (x * x).sum()))(x), [0.0, 0.0])

    def test_stop_gradient(self):
        def f(x):
            return (gg.stop_gradient(x) * x + gg.stop_gradient({"a": [x, 3]})["a"][0]).sum()

        close(gg.grad(f)(t(1.0, 2.0)), [1.0, 2.0])
        close(gg.jvp(f, (t(1.0, 2.0),), (t(1.0, 1.0),))[1], 3.0)


class TestPullbacks:
    def test_after_a_step_of_an_optimizer(self):
        w = t(1.0, 2.0, requires_grad=True)
        optimizer = gg.optim.SGD([w], lr=0.1)
        _, pullback = gg.vjp(lambda x: x * w, t(3.0, 4.0))
        _, push = gg.linearize(lambda x: x * w, t(3.0, 4.0))
        (w * w).sum().backward()
        optimizer.step()
        for derivative, call in ((pullback, "backward"), (push, "forward mode")):
            with pytest.raises(RuntimeError, match=f"{call} through multiply: .*overwritten"):
                derivative(t(1.0, 1.0))

    def test_inside_vmap(self):
        f, x, many = lambda x: gg.sin(x) * x.sum(), random(2, 3), random(2, 4, 3, seed=1)

        def rows(x, many):
            (_, pullback), (_, push) = gg.vjp(f, x), gg.linearize(f, x)
            return gg.vmap(lambda g: pullback(g)[0] + push(g))(many)

        def products(x, many):
            j = gg.jacobian(f)(x)
            return many @ (j + j.T)

        close(gg.vmap(rows)(x, many), gg.vmap(products)(x, many))
        close(rows(x[0], many[0]), products(x[0], many[0]))

    def test_integers_and_constant_results(self):
        x, constant = t(1.0, 2.0), lambda x: gg.ones(2, dtype=gg.float64)
        _, tangent = gg.jvp(lambda x: (gg.argmax(x), constant(x), t(3.0)), (x,), (x,))
        assert ([v.tolist() for v in tangent], tangent[0].dtype) == ([0, [0.0] * 2, 0.0], gg.int64)
        all_close((gg.vjp(constant, x)[1](x), gg.linearize(constant, x)[1](x)), 0 * x, 0 * x)


class TestEdges:
    def test_the_same_tensor_twice(self):
        x = t(2.0, 3.0)
        gradients = [4.0, 9.0], [8.0, 18.0]
        all_close(gg.grad(lambda x, y: (x * y**2).sum(), (0, 1))(x, x), *gradients)
        p = {"a": x, "b": x}
        all_close(gg.grad(lambda p: (p["a"] * p["b"] ** 2).sum())(p), *gradients)
        close(gg.jvp(lambda x, y: x * y**2, (x, x), (t(1.0, 1.0), t(0.0, 0.0)))[1], gradients[0])

    def test_arguments_as_results(self):
        x = t(1.0, 2.0)
        ways = t(3.0, 4.0), t(5.0, 6.0)
        all_close(gg.jvp(lambda x, y: (x, y, x), (x, 2 * x), ways)[1], ways[0], ways[1], ways[0])
        _, pullback = gg.vjp(lambda x: (x, x), x)
        close(pullback((t(1.0, 2.0), t(10.0, 20.0)))[0], [11.0, 22.0])
        close(gg.jacobian(lambda x: x)(x), np.eye(2))
        close(gg.vmap(lambda x: (x, x))(x)[1], [1.0, 2.0])
        y, _ = gg.vjp(lambda x: x, x)
        y += 1
        assert x.tolist() == [1.0, 2.0]

    @pytest.mark.parametrize("array", [False, True])
    def test_in_place_changes_do_not_touch_the_argument(self, array):
        x = np.array([1.0, 2.0]) if array else t(1.0, 2.0)

        def f(x):
            x *= 3
            x[0] = x[1] * x[1]
            return x.sum()

        close(gg.grad(f)(x), [0.0, 39.0])
        close(gg.jvp(f, (x,), (np.ones(2),))[1], 39.0)
        close(gg.hessian(f)(x), [[0, 0], [0, 18.0]])
        close(gg.vmap(f)(x[None]), [42.0])
        gg.vjp(f, x)[1](1.0)
        assert x.tolist() == [1.0, 2.0]

    def test_signatures_and_names(self):
        def f(x, *, scale: float = 2.0):
            """Documented."""
            return (x * scale).sum()

        for transform in (gg.grad, gg.value_and_grad, gg.jacobian, gg.hessian, gg.vmap, gg.hvp):
            g = transform(f)
            assert (g.__name__, g.__doc__) == ("f", "Documented.")
            assert g.__wrapped__ is f or transform in (gg.hessian, gg.hvp)
            assert inspect.signature(g) == inspect.signature(f)
        assert not hasattr(gg.grad(gg.sin), "vjp")  # the op's own `vjp` would change its rules
        gg.grad(functools.partial(f, scale=3.0))(t(1.0))


@pytest.mark.parametrize("dtype", [gg.float16, gg.float32, gg.float64])
@pytest.mark.parametrize("name", CALLS)
def test_dtypes_are_kept_and_single_tensors_do_not_need_optree(name, dtype, monkeypatch):
    x, v = gg.tensor([0.5, 1.5, -1.0], dtype=dtype), gg.tensor([1.0, 2.0, 0.0], dtype=dtype)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "optree", None)
        result = CALLS[name](x, v)
        with pytest.raises(ImportError, match=r"single tensors need nothing$"):
            gg.grad(lambda p: p["a"])({"a": x})
        with pytest.raises(ImportError, match=r"single tensors need nothing$"):
            gg.vmap(lambda x: (x, x))(x)
    assert {y.dtype for y in leaves(result)} == {dtype}


def test_python_numbers_and_numpy_arrays():
    for number in (np.array([3.0])[0], np.float32(3.0), np.float16(3.0), 3.0):
        g = gg.grad(lambda x: x**2)(number)
        assert (g.item(), g.dtype) == (6.0, getattr(number, "dtype", gg.float32))
    close(gg.grad(lambda x, y: (x * y).sum())(np.ones(2), np.array([3.0, 4.0])), [3.0, 4.0])
    close(gg.jvp(lambda x: x**2, (np.float64(3.0),), (1,))[1].astype(gg.float64), 6.0)
    close(gg.vmap(lambda x: x**2)(np.array([1.0, 2.0])), [1.0, 4.0])
    assert gg.hvp(lambda x: x**3)(2.0, 1.0).item() == 12.0
    p = gg.grad(lambda p: p["a"] * p["b"][0])({"a": 2.0, "b": [np.float32(3.0)]})
    assert (p["a"].item(), p["b"][0].item()) == (3.0, 2.0)


@dataclass(frozen=True)
class Parameters:
    w: object
    b: object
    name: str = field(default="layer", metadata={"static": True})
    scale: float = field(default=2.0, metadata={"static": True})


@dataclass
class Nested:
    inner: Parameters
    others: list


class Scaled(namedtuple("Scaled", "w b")):
    def __new__(cls, w):
        return super().__new__(cls, w * 10, t(2.0))


class TestTrees:
    def test_a_named_tuple_that_converts_its_items(self):
        """It is never made by its class again, which would convert the items once more."""
        g = gg.grad(lambda p: (p[0].w * p[0].w * p[0].b).sum())([Scaled(t(1.0, 2.0))])
        assert type(g[0]) is Scaled
        all_close(g, [40.0, 80.0], 500.0)
        mapped = gg.vmap(lambda p: p, (Scaled(0)._replace(b=None),))(g[0])
        all_close(mapped, [40.0, 80.0], [500.0, 500.0])
        with pytest.raises(TypeError, match=r"p\[0\]\.b"):
            gg.grad(lambda p: p[0].w)([g[0]._replace(b="text")])

    def test_dataclasses(self):
        p = Parameters(t(1.0, 2.0), t(3.0))

        def f(p):
            assert (p.name, p.scale) == ("layer", 2.0)
            return p.scale * (p.w * p.b).sum()

        deep = gg.grad(lambda n: f(n.inner) + n.others[0])(Nested(p, [t(1.0)]))
        for g in gg.grad(f)(p), deep.inner:
            assert (type(g), g.name, g.scale) == (Parameters, "layer", 2.0)
            assert [*vars(g)] == ["w", "b", "name", "scale"]
            all_close(g, [6.0, 6.0], 6.0)
        close(deep.others[0], 1.0)
        w = t([[1.0, 2.0], [3.0, 4.0]])
        close(gg.vmap(f)(Parameters(w, t(5.0, 6.0))), [30.0, 84.0])
        axes = ({"p": Parameters(0, None)},), {"p": Parameters(-1, None)}
        all_close(gg.vmap(lambda tree: tree, *axes)({"p": Parameters(w, t(1.0))}), w.T, 1.0)

    def test_keyword_arguments_and_names(self):
        def f(x, *rest, scale, p=None):
            return (x * scale["s"] * sum(rest)).sum() + (0 if p is None else p)

        x, s = t(1.0, 2.0), {"s": t(3.0)}
        close(gg.grad(f)(x, 1.0, 2.0, scale=s), [9.0, 9.0])
        close(gg.grad(f, "p")(x, 1.0, scale=s, p=t(1.0)), 1.0)
        close(gg.grad(f, -1)(x, 1.0, t(2.0), scale=s), 9.0)
        all_close(gg.grad(f, ("scale", 0, 2))(x, 1.0, t(2.0), scale=s), 9.0, [9.0, 9.0], 9.0)
        assert isinstance(gg.grad(f, (0,))(x, 1.0, scale=s), tuple)
        close(gg.grad(f, "x")(x=x, scale=s), [0.0, 0.0])

    @pytest.mark.parametrize("call, expected", [
        (lambda f, x: gg.value_and_grad(f, has_aux=True)(x)[::-1], [2.0, 4.0]),
        (lambda f, x: gg.jacobian(f, has_aux=True, mode="forward")(x), [2.0, 4.0]),
        (lambda f, x: gg.jacobian(f, has_aux=True, mode="reverse")(x), [2.0, 4.0]),
        (lambda f, x: gg.hessian(f, has_aux=True)(x), 2 * np.eye(2)),
        (lambda f, x: gg.vjp(f, x, has_aux=True)[1:], [2.0, 4.0]),
        (lambda f, x: gg.jvp(f, (x,), (x,), has_aux=True)[1:], 10.0),
        (lambda f, x: gg.linearize(f, x, has_aux=True)[1:], 10.0),
    ])  # fmt: skip
    def test_has_aux(self, call, expected):
        def f(x):
            return (x**2).sum(), {"x": x, "values": [1.5, "kept", None], "twice": 2 * x}

        x = t(1.0, 2.0)
        found, aux = call(f, x)
        if callable(found):  # a pullback or its like
            found = found(x) if expected == 10.0 else found(1.0)[0]
        if isinstance(aux, tuple):  # the value beside it
            value, aux = aux
            close(value, 5.0)
        all_close((found, aux.pop("x"), aux.pop("twice")), expected, x, 2 * x)
        assert aux == {"values": [1.5, "kept", None]}


class TestVmap:
    def test_keyword_arguments(self):
        close(gg.vmap(lambda x, *, y: x * y)(t(1.0, 2.0), y=t(3.0, 4.0)), [3.0, 8.0])
        close(gg.vmap(lambda x, y=None: x, in_axes=0)(t(1.0, 2.0), y=None), [1.0, 2.0])
        close(gg.vmap(lambda y: 2 * y)(y=t(3.0, 4.0)), [6.0, 8.0])

    def test_results_of_all_kinds(self):
        many = gg.vmap(lambda x: (3, 1.5, x > 1, gg.tensor([True]), np.ones(2), None))(t(1.0, 2.0))
        found = [x.tolist() for x in leaves(many[:4])]
        assert found == [[3, 3], [1.5, 1.5], [False, True], [[True], [True]]]
        assert (many[4].shape, many[5]) == ((2, 2), None)

    def test_no_examples_and_one(self):
        assert gg.vmap(lambda x: gg.sin(x) * 2)(gg.zeros((0, 3))).shape == (0, 3)
        assert gg.vmap(lambda x: x @ x)(gg.zeros((0, 3))).shape == (0,)
        close(gg.vmap(lambda x: x @ x)(random(1, 3)), (random(1, 3) ** 2).sum(axis=1))
        assert gg.vmap(gg.grad(some_of_everything))(gg.zeros((0, 3))).shape == (0, 3)
        assert gg.vmap(gg.hessian(some_of_everything))(gg.zeros((0, 3))).shape == (0, 3, 3)


def mixed(*xs):
    """Return a result for each argument, of its shape, that depends on all arguments."""
    total = sum(gg.cos(x).sum() for x in xs)
    return tuple([gg.sin(x) * total + x**2 for x in xs])


def draw(rng, depth):
    """Return arguments, and the axes of each level, outermost first."""
    shapes, levels = [[2, 3], [3], []], []
    for k in range(depth):  # insert axes from the innermost level to the outermost
        axes, out = [], [int(rng.integers(-rank - k - 1, rank + k + 1)) for rank in (2, 1, 0)]
        for i, shape in enumerate(shapes):
            axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
            axes.append(axis if i == k or rng.random() < 0.65 else None)
            if axes[i] is not None:
                shape.insert(axis % (len(shape) + 1), k + 2)
        levels.insert(0, (tuple(axes), tuple(out)))
    return [random(*shape) for shape in shapes], levels


def loop(f, levels, xs):
    if not levels:
        return [y.numpy() for y in f(*xs)]
    (axes, out), *inner = levels
    results = []
    for i in range(len(levels) + 1):
        pairs = zip(xs, axes, strict=True)
        slices = [x if axis is None else gg.asarray(np.take(x, i, axis)) for x, axis in pairs]
        results.append(loop(f, inner, slices))
    return [*map(np.stack, zip(*results, strict=True), out)]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_vmap_over_all_axes_equals_the_loop(depth, seed):
    xs, levels = draw(np.random.default_rng((seed, depth)), depth)
    for f in (
        mixed,
        gg.grad(lambda *xs: sum((y * y).sum() for y in mixed(*xs)), tuple(range(len(xs)))),
        lambda *xs: gg.jvp(mixed, xs, xs)[1],
    ):
        mapped = f
        for axes, out in reversed(levels):
            mapped = gg.vmap(mapped, axes, out)
        all_close(mapped(*xs), *loop(f, levels, xs))


def test_after_an_exception():
    def fails(x):
        gg.vmap(lambda y: y * x.sum())(x)
        with gg.no_grad():
            gg.grad(lambda y: 1 / 0)(x.sum())

    x = t(1.0, 2.0)
    for call in (
        lambda: gg.vmap(lambda x: "text")(x), lambda: gg.grad(fails)(x),
        lambda: gg.jvp(fails, (x,), (x,)), lambda: gg.vmap(gg.jacobian(fails))(x[None]),
    ):  # fmt: skip
        for mode in (True, False):
            with gg.set_grad_enabled(mode):
                with pytest.raises((ZeroDivisionError, TypeError), match=r"zero|result"):
                    call()
                assert (gg.is_grad_enabled(), active_levels()) == (mode, ())


def test_threads():
    def work(i):
        x, v = random(3, seed=i), random(3, seed=i + 100)
        found = [call(x, v) for _ in range(2) for call in CALLS.values()]
        with gg.no_grad():
            found.append(gg.grad(some_of_everything)(x))
        return [y.tolist() for y in leaves(found)]

    assert in_threads(work) == [work(i) for i in range(THREADS)]


def test_dataclasses_first_met_in_many_threads():
    Fresh = make_dataclass("Fresh", ["x"])

    found = in_threads(lambda i: gg.grad(lambda p: p.x**2)(Fresh(t(float(i)))).x.item())
    assert found == [2.0 * i for i in range(THREADS)]


@pytest.mark.usefixtures("no_collector")
class TestMemory:
    @pytest.mark.parametrize("requires_grad", [False, True])
    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_nothing_survives(self, call, requires_grad):
        x, v = random(3).requires_grad_(requires_grad), random(3)
        call(x, v)
        before, result = alive(), call(x, v)
        assert requires_grad or not any(type(y) is Node for y in gc.get_objects())
        del result
        assert alive() == before

    def test_a_gradient_frees_as_it_goes(self):
        n = 200_000
        x = gg.ones(n, dtype=gg.float64)

        def f(x):
            for _ in range(20):
                x = gg.sin(x)
            return x.sum()

        assert peak_of(lambda: gg.grad(f)(x)) < 26 * 8 * n  # 20 results are kept
        assert peak_of(lambda: gg.jvp(f, (x,), (x,))) < 27 * 8 * n


def test_grad_and_jvp_of_a_deep_chain():
    def chain(x):
        for _ in range(5_000):
            x = x * 0.99999 + 0.0
        return x

    for found in gg.grad(chain)(t(1.0)), gg.jvp(chain, (t(1.0),), (1.0,))[1]:
        close(found, 0.99999**5_000, rtol=1e-6)


# At exit, modules lose their names before the last objects are freed. So do modules that an
# extension module holds until then.
AT_EXIT = """
import ctypes, threading
import gpugrad as gg
from gpugrad.autograd import variables
ctypes.pythonapi.Py_IncRef(ctypes.py_object(variables))
x = gg.tensor([1.0, 2.0])
_, threading.kept = gg.vjp(gg.sin, x)
_, variables.kept = gg.vjp(gg.sin, x)
try:
    gg.grad(len)(1.0)
except TypeError as error:
    variables.error = error
"""


def test_pullbacks_may_outlive_the_package():
    assert not subprocess.check_output([sys.executable, "-c", AT_EXIT], stderr=subprocess.STDOUT)
