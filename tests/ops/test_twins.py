"""Twins: faster implementations of ops for one array library."""

import itertools

import array_api_strict
import numpy as np
import pytest
from test_op import op, product_of

import gpugrad as gg
from gpugrad.testing import assert_close, twincheck


class CountedOp:
    """An op with a twin for NumPy, and a list of the functions that ran."""

    def __init__(self, library="numpy"):
        self.ran = []

        def twin(name, xp, x, factor):
            self.ran.append(name)
            return NotImplemented if x.ndim > 1 else xp.multiply(x, factor)

        self.op = op("scaled", lambda xp, x, /, *, factor=2.0: self.noted("forward", x * factor))
        self.op.vjp(x=lambda xp, g, x_shape, factor: self.noted("rule", g * factor))
        self.op.twin(
            library,
            lambda xp, x, *, factor: twin("twin", xp, x, factor),
            x=lambda xp, g, factor: twin("twin rule", xp, g, factor),
        )

    def noted(self, name, result):
        self.ran.append(name)
        return result


def test_runs_instead_of_the_definition_unless_it_declines():
    declining = "twin", "forward", "twin rule", "rule"
    for shape, ran in ((2,), ("twin", "twin rule")), ((2, 2), declining):
        counted, x = CountedOp(), gg.ones(shape, requires_grad=True)
        counted.op(x, factor=3.0).sum().backward()
        assert (counted.ran, x.grad.tolist()) == ([*ran], gg.full(shape, 3.0).tolist())


@pytest.mark.parametrize("met_before", [False, True])
def test_registered_before_or_after_the_librarys_first_use(met_before):
    if met_before:
        gg.asarray(array_api_strict.asarray([1.0]))
    counted = CountedOp("array_api_strict")
    counted.op(gg.asarray(array_api_strict.asarray([1.0, 2.0])).requires_grad_()).sum().backward()
    assert counted.ran == ["twin", "twin rule"]


def test_together_takes_the_place_of_the_rules_of_all_inputs():
    ran, product = [], op("product", lambda xp, x1, x2: x1 * x2, elementwise=True)

    def rule(name):
        def run(xp, g, *, guarded=False):
            ran.append((name, guarded))
            return NotImplemented

        return run

    with pytest.raises(TypeError, match="together is for elementwise ops with a VJP for each"):
        product.twin("numpy", together=lambda xp, g, *, guarded=False: None)
    product.vjp(x1=lambda xp, g, x2: g * x2, x2=lambda xp, g, x1: g * x1)

    def together(xp, g, x1, x2, *, guarded=False):
        ran.append(("together", guarded))
        return NotImplemented if g.ndim > 1 else (g * x2, g * x1)

    product.twin("numpy", x1=rule("x1"), x2=rule("x2"), together=together)
    a, b = (gg.tensor([[2.0, 3.0]], requires_grad=True) for _ in range(2))
    for x, y, cotangent, runs in [
        (a[0], b[0], None, [("together", False)]),
        (a[0], b[0].detach(), gg.ones(2), [("x1", True)]),
        (a, b, None, [("together", False), ("x1", False)]),  # the cotangent of b is not asked for
        (a, b, gg.ones((1, 2)), [("together", True), ("x1", True)]),
    ]:
        ran.clear()
        out = product(x, y)
        root = out.sum() if cotangent is None else out
        assert (gg.autograd.grad(root, [a], cotangent)[0].tolist(), ran) == ([[2, 3]], runs)
    with gg.profile():
        ran.clear()
        gg.autograd.grad(product(a, b).sum(), [a, b])
        assert ran == [("x1", False), ("x2", False)]  # a tool sees each input's rule


def test_transforms_and_tools_use_it():
    counted, x = CountedOp(), gg.tensor([[1.0], [2.0]])
    assert_close(gg.vmap(gg.vmap(counted.op))(x).tolist(), [[2.0], [4.0]])
    y, t = gg.jvp(counted.op, (x[0],), (x[1],))
    assert (y.tolist(), t.tolist()) == ([2.0], [4.0])
    counted.ran.clear()
    with gg.profile() as profile:
        counted.op(gg.tensor([1.0], requires_grad=True)).sum().backward()
    assert counted.ran == ["twin", "twin rule"]
    assert "scaled" in str(profile)
    counted.op(gg.tensor([1.0]))
    assert counted.ran == ["twin", "twin rule", "twin"]


def test_a_twins_rule_is_guarded_too():
    inverse = op("inverse", lambda xp, x: 1 / x, elementwise=True)
    inverse.vjp(x=lambda xp, g, out: -g * out * out)
    inverse.twin("numpy", x=lambda xp, g, out: -g * out * out)
    x = gg.tensor([0.0, 2.0], requires_grad=True)
    with np.errstate(divide="ignore"):
        gg.where(x > 1, inverse(x), 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, -0.25]


def test_a_users_op_does_not_get_the_twin_of_the_librarys():
    softmax = op("softmax", lambda xp, x: x)

    gg.softmax.twin("array_api_strict", print)
    try:
        assert gg.softmax.op.twins["array_api_strict"] == {"forward": print}
        assert "array_api_strict" not in softmax.op.twins
    finally:
        del gg.softmax.op.twins["array_api_strict"]


def test_its_errors_name_the_twin():
    scaled = product_of("scaled")
    scaled.twin("numpy", lambda xp, x1, x2: x1 * x2.dtype.type(1))
    with pytest.raises(RuntimeError, match=r"^scaled: 'float' .* 'dtype'; in a twin of scaled; g"):
        scaled(gg.ones(3), 1.5)


product = product_of(elementwise=True)
both = op("both", lambda xp, x1, x2: (x1 + x2, x1 * x2))
both.vjp(joint=lambda xp, g, x1, x2: (g[0] + g[1] * x2, g[0] + g[1] * x1))
UNKNOWN = r"^product\.twin: .* is no array library; for CUDA arrays"


@pytest.mark.parametrize("library, twins, message", [
    *((library, {"forward": print}, UNKNOWN) for library in ("CuPy", "no library", "", None)),
    ("numpy", {"joint": lambda xp, g, x1, x2, wanted: None},
     r"both\.twin: the rule for joint asks for \['wanted'\]"),
    ("numpy", {"y": lambda xp, g: g}, r"product\.twin: 'y' has no VJP; give that first"),
    ("numpy", {"x1": lambda xp, g, out: g}, r"asks for \['out'\]; it can have what its VJP keeps"),
    ("numpy", {"together": lambda xp, g, x1, x2: None}, "together needs a parameter guarded=False"),
    ("numpy", {"together": lambda xp, g, out, *, guarded=False: None},
     r"the rule for together asks for \['out'\]"),
])  # fmt: skip
def test_invalid_twins(library, twins, message):
    with pytest.raises(TypeError if library == "numpy" else ValueError, match=message):
        (both if "joint" in twins else product).twin(library, **twins)


class TestTwincheck:
    def test_accepts_correct_twins(self):
        counted = CountedOp()
        twincheck(counted.op, gg.ones(3), factor=2.5)
        assert counted.ran == ["forward", "twin", "twin rule", "rule"]
        with pytest.raises(ValueError, match="scaled has no twin for these inputs, or it declines"):
            twincheck(counted.op, gg.ones((2, 2)))
        with pytest.raises(ValueError, match="softmax has no twin"):
            twincheck(gg.softmax, gg.ones(3))

    @pytest.mark.parametrize("target, twin, message", [
        ("forward", lambda xp, x1, x2: x1 * x2 * 1.1, "wrong's result: 6 of 6 elements differ"),
        ("forward", lambda xp, x1, x2: (x1 * x2)[:1], r"differ: \(1, 3\), expected \(2, 3\)"),
        ("forward", lambda xp, x1, x2: (x1 * x2).astype("float64"), "is float64, expected float32"),
        ("forward", lambda xp, x1, x2: 3.0, "wrong's result is float, expected float32"),
        ("x2", lambda xp, g, x1: g * x1 * 2, r"gradient by x2: 3 of 3 elements differ"),
        ("x2", lambda xp, g, x1: None, r"is NoneType, expected float32"),
        ("x2", lambda xp, g, x1: xp.zeros((2, 3), g.dtype), "3 of 3 elements differ"),
    ])  # fmt: skip
    def test_finds_a_wrong_twin(self, target, twin, message):
        wrong, inputs = product_of("wrong"), (gg.random.normal((2, 3)), gg.random.normal((3,)))
        wrong.twin("numpy", x2=lambda xp, g, x1: (g * x1).sum(axis=0))
        twincheck(wrong, *inputs)
        wrong.twin("numpy", **{target: twin})
        with pytest.raises(AssertionError, match=message):
            twincheck(wrong, *inputs)

    def test_finds_a_wrong_joint_rule(self):
        @gg.op
        def both(xp, x1, x2=None, *, factor=1.0):
            return (x1 if x2 is None else x1 + x2) * factor, x1 * x1

        def rule(xp, g, x1, factor, wanted):
            c = g[0] * factor
            return c + 2 * g[1] * x1, c if wanted[1] else None

        both.vjp(joint=rule)
        both.twin("numpy", joint=rule)
        x1, x2 = gg.random.normal((2, 3)), gg.random.normal((3,))
        twincheck(both, x1, x2, factor=3.0)
        twincheck(both, x1)
        both.twin("numpy", joint=lambda xp, g, x1: (g[0], g[0]))
        with pytest.raises(AssertionError, match="both's gradient by joint, number 0: 6 of 6"):
            twincheck(both, x1, x2, factor=3.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_topk_of_many_elements_is_that_of_a_sort(dtype):
    rng = np.random.default_rng(0)
    distinct = rng.standard_normal((50, 100)).astype(dtype)
    tied = rng.integers(0, 5, (50, 100)).astype(dtype)
    odd = tied.copy()
    odd[::7, 3], odd[1::7, 5] = np.inf, -np.inf
    with_nan = odd.copy()
    with_nan[::5, ::9] = np.nan
    given = distinct, tied, odd, with_nan, distinct.T, np.repeat(tied, 2, 1)[:, ::2]
    places = (-1, 1), (0, 7), (1, 12)
    for x, largest, (axis, k) in itertools.product(given, (True, False), places):
        twincheck(gg.topk, x, k=k, axis=axis, largest=largest)
    twincheck(gg.topk, tied.reshape(-1), k=1200)
    with pytest.raises(ValueError, match="or it declines"):
        twincheck(gg.topk, tied, k=26)
