"""`gpugrad.op`: user-defined operations, written like those of the library."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpugrad as gg
from gpugrad.autograd import grad


def leaf(*values, dtype=gg.float64):
    return gg.tensor(values, dtype=dtype, requires_grad=True)


def op(name, forward, **options):
    """Return an op with this name and forward; users write ``@op`` above a function."""
    forward.__name__ = name
    return gg.op(**options)(forward)


@gg.op
def cube(xp, x):
    """Elementwise cube."""
    return x * x * x


cube.vjp(x=lambda xp, g, x: 3 * g * x * x)


def product_of(name="product", elementwise=False, **rules):
    """Return the op of the product of two arrays, with its own rules unless some are given."""
    rules = rules or {"x1": lambda xp, g, x2: g * x2, "x2": lambda xp, g, x1: g * x1}
    return op(name, lambda xp, x1, x2: x1 * x2, elementwise=elementwise).vjp(**rules)


def test_static_parameters():
    x = leaf(1.0, 2.0)
    for y, values, slope in (
        (scaled(x, 3, shift=1), [4, 7], 4), (scaled(x, factor=3, shift=1), [4, 7], 4),
        (scaled(x, 4), [4, 8], 4), (scaled(x, factor=4), [4, 8], 4),
    ):  # fmt: skip
        assert (y.tolist(), grad(y.sum(), x)[0].tolist()) == (values, [slope] * 2)


def test_integer_inputs():
    pick = op("pick", lambda xp, x, index: x[index], integer=("index",))
    pick.vjp(x=lambda xp, g, x_shape, index: xp.scatter_add(g, x_shape, index))
    x = leaf(1.0, 2.0, 3.0, dtype=gg.float32)
    pick(x, np.array([2, 2])).sum().backward()
    assert x.grad.tolist() == [0, 0, 2]


def test_only_values_named_by_the_wanted_rules_are_saved():
    x, y = leaf(2.0), leaf(3.0)
    assert (x + y).grad_fn.saved == ()
    (out,) = gg.exp(x).grad_fn.saved
    assert out is not x.array
    assert (x * gg.tensor([3.0])).grad_fn.saved[0] is not x.array
    assert [len(z.grad_fn.saved) for z in (x * 3.0, x * y)] == [1, 2]


class TestMistakes:
    @pytest.mark.parametrize("binary", [False, True])
    def test_missing_rule_is_never_a_silent_detach(self, binary):
        f = product_of("f", x2=lambda xp, g, x1: g * x1) if binary else op("f", lambda xp, x: x * 1)
        args = (np.ones(1),) if binary else ()
        with pytest.raises(TypeError, match=r"f: it has no VJP for x.*detach\(\)"):
            f(leaf(1.0), *args)
        assert f(gg.ones(1), *args).tolist() == [1]
        with gg.no_grad():
            f(leaf(1.0), *args)
        if binary:
            assert f(np.ones(1), leaf(1.0)).requires_grad

    def test_rule_registered_later_is_used(self):
        f, x = op("f", lambda xp, x: x * 2), leaf(1.0)
        with pytest.raises(TypeError):
            f(x)
        f.vjp(x=lambda xp, g: g * 2)
        f(x).sum().backward()
        f.vjp(x=lambda xp, g: g * 20)
        f(x).sum().backward()
        assert x.grad.item() == 22

    def test_shapes_that_a_rule_returns(self):
        shapes = [(2, 2), (3,), ()]  # the cotangent of a broadcast input is summed
        f = op("f", lambda xp, x: x * 1).vjp(x=lambda xp, g: np.ones(shapes.pop(0)))
        x = leaf(1.0, 2.0)
        assert grad(f(x).sum(), x)[0].tolist() == [2, 2]
        while shapes:
            message = r"f: .*VJP returned .* shape .* for .* shape \(2,\)"
            with pytest.raises(ValueError, match=message):
                f(x).sum().backward()
        assert x.grad is None

    def test_rule_that_returns_none_gives_no_gradient(self):
        f = product_of(x1=lambda xp, g: None, x2=lambda xp, g, x1: g * x1)
        x, y = leaf(2.0), leaf(3.0)
        f(x, y).sum().backward()
        assert x.grad is None
        assert y.grad.item() == 2

    @pytest.mark.parametrize("error", [ValueError, TypeError, IndexError, RuntimeError, KeyError])
    def test_errors_name_the_op_and_its_operands(self, error):
        @gg.op
        def broken(xp, x, y):
            raise error("it broke")

        words = r"broken: .*it broke.*float64 \(1,\) on cpu.*2\.5"
        with pytest.raises(RuntimeError if error is KeyError else error, match=words) as info:
            broken(leaf(1.0), 2.5)
        assert isinstance(info.value.__cause__, error)


scaled = op("scaled", lambda xp, x, /, factor, *, shift=0.0: x * factor + shift)
scaled.vjp(x=lambda xp, g, factor, shift: g * (factor + shift))
moved = op("moved", lambda xp, x, offset, *, shape: xp.broadcast_to(2 * x + offset, shape))
moved.vjp(x=lambda xp, g: 2 * g)
ONES = gg.ones((2, 2))
NOT_RAW = "not Tensor; it computes with xp, and only x may be"


@pytest.mark.parametrize("call, message", [
    (lambda: cube("a"), "cube: cannot take a str"), (lambda: cube(2.0), "cube"),
    (lambda: gg.where(ONES > 0, ONES, None), r"None was given for x2; is a return missing\?$"),
    (lambda: gg.concat([ONES, None]), "concat: None was given for arrays"),
    (lambda: ONES @ 3, "matmul: one input must be an array, not the number 3"),
    (lambda: gg.where(True, ONES, 0.0), "where: one input must be an array, not the number True"),
    (lambda: gg.sum(ONES, 0, axis=1), "sum: got two values for axis"),
    (lambda: op("three", lambda xp, a, b, c: a + b + c)(ONES), "three: needs a, b, c"),
    (lambda: scaled(ONES, 3, 4), "scaled: .*positional.*shift"),
    (lambda: scaled(ONES), "scaled: .*factor"),
    (lambda: scaled(ONES, 3, offset=1), "scaled: .*offset"),
    (lambda: scaled(ONES, factor=ONES), NOT_RAW),
    # A call of gpugrad in place of xp.
    (lambda: op("exponential", lambda xp, x: gg.exp(x))(ONES), NOT_RAW),
    (lambda: op("empty", lambda xp, x: None)(ONES),
     "empty: its forward must return an array, not NoneType"),
    (lambda: op("twice", lambda x: 2 * x), r"^twice: an op has an input after .*: twice\(xp, x\)$"),
    (lambda: scaled.vjp(x=lambda xp, g, y: g),
     r"scaled\.vjp: the rule for x asks for \['y'\].*'out'"),
    (lambda: scaled.vjp(y=lambda xp, g: g), r"scaled\.vjp: it has no input 'y'"),
    (lambda: scaled.vjp(x=lambda xp, g, wanted: g), "wanted"),
    (lambda: scaled.jvp("y"), r"scaled\.jvp: 'y' has no VJP"),
    (lambda: scaled.jvp(y=lambda xp, t: t), r"scaled\.jvp: 'y' has no VJP"),
    (lambda: scaled.jvp(x=lambda xp, t, x: t), r"scaled\.jvp: .* for \['x'\]; .*factor.*shift"),
    (lambda: moved.jvp("x"), r"^moved\.jvp: .* if its VJP keeps offset, shape; give"),
])  # fmt: skip
def test_mistakes(call, message):
    with pytest.raises(TypeError, match=message):
        call()


def test_help_shows_the_arguments():
    assert str(inspect.signature(gg.sum)) == "(x, /, axis=None, *, dtype=None, keepdims=False)"
    assert str(inspect.signature(gg.concat)) == "(arrays, /, *, axis=0)"


def test_where_in_a_rule_accepts_conditions_that_are_not_bools():
    @gg.op
    def keep(xp, x):
        return xp.where(xp.astype(x > 0, xp.int32), x, 0.0) + xp.where(True, x, 0.0)

    values = np.linspace(-1, 1, 300, dtype=np.float32)
    assert_array_equal(keep(values).numpy(), np.maximum(values, 0) + values)


def test_float16_reductions_stay_within_range_where_squares_and_counts_do_not():
    x = gg.asarray(np.tile(np.array([300.0, -300.0], np.float16), 40_000), requires_grad=True)
    assert (gg.std(x).item(), gg.var(x / 100).item()) == (300, 9)
    assert gg.linalg.vector_norm(x[:100]).item() == 3000
    for function, slope in (gg.mean, 1 / 80_000), (lambda x: gg.var(x / 300), 2 / 24e6):
        (g,) = gg.autograd.grad(function(x) * 1000, x)
        assert_allclose(g[0].item() / 1000, slope, rtol=0.02)


def test_axis_of_sort_may_be_a_0d_tensor():
    x = gg.asarray([[3.0, 1.0], [2.0, 4.0], [0.0, 5.0]], requires_grad=True)
    g = gg.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    (found,) = grad(gg.sort(x, axis=gg.asarray(0)), x, g)
    assert found.tolist() == [[5, 2], [3, 4], [1, 6]]


class TestRulesForTransforms:
    """Transforms of ops with and without `jvp` and `vmap` rules."""

    def total(self, calls):
        @gg.op
        def total(xp, x, /, *, scale=1.0):
            calls.append(x.shape)
            return xp.sum(x, axis=0) * scale

        return total.vjp(x=lambda xp, g, x_shape, scale: xp.broadcast_to(g * scale, x_shape))

    def test_without_rules_the_vjp_is_transposed_and_examples_are_looped_over(self):
        f, x = self.total(calls := []), gg.ones((4, 3, 2))
        assert gg.jvp(f, (x[0],), (2 * x[0],))[1].tolist() == [6, 6]
        calls.clear()
        assert gg.vmap(lambda x: f(x, scale=2.0))(x).tolist() == [[6, 6]] * 4
        assert calls == [(3, 2)] * 4

    def test_the_tangent_of_an_input_in_which_the_op_is_linear_is_the_forwards(self):
        f, x = self.total(calls := []).jvp("x"), gg.ones((3, 2))
        value, tangent = gg.jvp(lambda x: f(x, scale=3.0), (x,), (2 * x,))
        assert (value.tolist(), tangent.tolist()) == ([9, 9], [18, 18])
        assert calls == [(3, 2)] * 2

    def test_names_of_inputs_are_free(self):
        product = op("product", lambda xp, t, forward: t * forward)
        product.vjp(t=lambda xp, g, forward: g * forward, forward=lambda xp, g, t: g * t)
        product.jvp("t", "forward")
        x, y = gg.tensor([2.0]), gg.tensor([3.0])
        assert gg.jvp(product, (x, y), (x, y))[1].tolist() == [12]

    def test_own_rules_are_used(self):
        calls, used = [], []

        def tangent(xp, t, scale):
            used.append(scale)
            return xp.sum(t, axis=0) * scale

        def batch_rule(call, batched, x, *, scale):
            if scale == 3:
                return NotImplemented
            assert list(batched) == [True]
            return call(gg.permute_dims(x, (1, 0, 2)), scale=scale)

        f, x = self.total(calls).jvp(x=tangent).vmap(batch_rule), gg.ones((4, 3, 2))
        assert (gg.jvp(f, (x[0],), (2 * x[0],))[1].tolist(), used) == ([6, 6], [1.0])
        calls.clear()
        assert gg.vmap(lambda x: f(x, scale=2.0))(x).tolist() == [[6, 6]] * 4
        assert calls == [(3, 4, 2)]
        assert gg.vmap(lambda x: f(x, scale=3))(x).tolist() == [[9, 9]] * 4
        assert len(calls) == 5

    def test_a_tangent_is_broadcast_reshaped_and_cast(self):
        @gg.op
        def as_column(xp, x, y):
            return xp.astype(xp.reshape(x, (-1, 1)), gg.float64) + y

        def to_x(xp, g, x_shape):
            return xp.reshape(xp.sum(g, axis=1), x_shape)

        as_column.vjp(x=to_x, y=lambda xp, g: g).jvp(x=lambda xp, t: t, y=lambda xp, t: t)
        x, y = gg.ones(2), gg.zeros((1, 1), dtype=gg.float64)
        out, t = gg.jvp(as_column, (x, y), (x, y + 1))
        assert ((t.shape, t.dtype), t.tolist()) == ((out.shape, out.dtype), [[2], [2]])

    def test_a_rule_for_a_sequence_gets_all_tangents_at_once(self):
        dot = op("dot", lambda xp, *xs: xp.sum(xs[0] * xs[1]))
        dot.vjp(xs=lambda xp, g, xs: [g * xs[1], g * xs[0]])
        given = []

        def tangent(xp, ts, xs):
            given.append([t is not None for t in ts])
            terms = [xp.sum(t * x) for t, x in zip(ts, xs[::-1], strict=True) if t is not None]
            return sum(terms[1:], terms[0])

        dot.jvp(xs=tangent)
        x = gg.asarray([1.0, 2.0])
        assert gg.jvp(lambda x: dot([x, 3 * x]), (x,), (x,))[1].item() == 30
        assert gg.jvp(lambda x: dot([3.0 * x.detach(), x]), (x,), (x,))[1].item() == 15
        assert given == [[True, True], [False, True]]


def test_a_joint_rule_keeps_an_input_only_for_what_is_wanted():
    rng = np.random.default_rng(0)
    x, w = (gg.asarray(rng.standard_normal(shape)) for shape in ((4, 3), (2, 3)))
    for wanted, kept in (((True, True), 3), ((True, False), 2), ((False, True), 2)):
        inputs = [a.detach() for a in (x, w)]
        for a, want in zip(inputs, wanted, strict=True):
            a.requires_grad = want
        y = gg.dense(*inputs, activation="tanh")
        assert sum(getattr(a, "ndim", 0) == 2 for a in y.node.saved) == kept
        y.sum().backward()
        slope = 1 - y.detach().numpy() ** 2
        expected = slope @ w.numpy(), slope.T @ x.numpy()
        for a, want, e in zip(inputs, wanted, expected, strict=True):
            assert (a.grad is not None) == want
            if want:
                assert_allclose(a.grad.numpy(), e, rtol=1e-12)


def test_an_op_of_no_module():
    """As in a namespace of `exec` without a name."""
    names = {}
    exec("cube = lambda xp, x: x**3\ncube_vjp = lambda xp, g, x: g * 3 * x**2", names)
    cube = gg.op(names["cube"]).vjp(x=names["cube_vjp"])
    assert names["cube"].__module__ is None
    with gg.amp.autocast("cpu", dtype=gg.bfloat16):
        for dtype in (gg.bfloat16, gg.float32):
            assert gg.grad(cube)(gg.tensor(2.0, dtype=dtype)).item() == 12.0
