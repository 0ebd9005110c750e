"""The checkers themselves: wrong rules fail, right rules pass, and the messages help."""

import re

import numpy as np
import pytest

import gpugrad
from gpugrad import op
from gpugrad.testing import assert_close, gradcheck, gradgradcheck

X = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]]


@pytest.fixture
def x(library):
    return library.tensor(np.array(X), requires_grad=True)


def squared(rule):
    """Return the op ``x * x`` with the given rule."""

    @op
    def square(xp, x):
        """Elementwise square."""
        return x * x

    return square.vjp(x=rule)


def product(x1=lambda xp, g, x2: g @ x2.T, x2=lambda xp, g, x1: x1.T @ g):
    """Return the matrix product with the given rules."""
    return op(lambda xp, x1, x2: x1 @ x2).vjp(x1=x1, x2=x2)


def test_right_rules_pass(x, library):
    square = squared(lambda xp, g, x: g * 2 * x)
    y = library.tensor(np.array(X).T, requires_grad=True)
    for check in gradcheck, gradgradcheck:
        assert check(square, x) is check(square, [x]) is True
        assert check(gpugrad.multiply, (x, x), check_forward=True)  # each place by itself
        check(product(), (x, y))


WRONG_RULES = {
    "sign": lambda xp, g, x: -2 * g * x, "factor": lambda xp, g, x: g * x,
    "nearly": lambda xp, g, x: 2.001 * g * x, "no g": lambda xp, g, x: 2 * x + 0 * g,
    "no x": lambda xp, g: 2 * g, "not linear": lambda xp, g, x: 2 * xp.abs(g) * x,
    "abs": lambda xp, g, x: 2 * g * xp.abs(x), "none": lambda xp, g: None,
    "nan": lambda xp, g, x: g * x * float("nan"),
}  # fmt: skip


@pytest.mark.parametrize("eps", [0, -1e-6, float("nan"), None])
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_a_step_that_is_none(x, check, eps):
    with pytest.raises(ValueError, match=r"^grad(grad)?check of sin: eps must be a number above 0"):
        check(gpugrad.sin, x, eps=eps)


@pytest.mark.parametrize("rule", WRONG_RULES.values(), ids=WRONG_RULES)
def test_a_wrong_rule_fails(x, rule):
    with pytest.raises(AssertionError, match=r"(?s)gradcheck of square: .* gradient to input 0"):
        gradcheck(squared(rule), x)


@pytest.mark.parametrize("wrong, words", [
    ({"x1": lambda xp, g, x2: g @ x2}, "input 0"), ({"x2": lambda xp, g, x1: x1 @ g}, "input 1"),
    ({"x2": lambda xp, g, x1: g.T @ x1}, "input 1"),
])  # fmt: skip
def test_a_transposed_rule_fails(library, wrong, words):
    values = np.array([[[1.0, 2.0], [3.0, 4.0]], [[0.5, -1.0], [2.0, 1.0]]])
    with pytest.raises(AssertionError, match=words):
        gradcheck(product(**wrong), [library.tensor(x, requires_grad=True) for x in values])


@op
def doubled(xp, x):
    """Twice x, with the gradient 0."""
    return 2 * x


doubled.vjp(x=lambda xp, g: 0 * g)


@pytest.mark.parametrize("rule, words", [
    (lambda g, x: g * doubled(x), "(?s)gradgradcheck of square: .* the gradient to input 0"),
    (lambda g, x: g * 2 * x.detach(), r"backward gives 0\.0"),
    # It is right for every g, but its derivative with respect to g is wrong.
    (lambda g, x: 2 * x * g.detach(), "the cotangent of output 0"),
])  # fmt: skip
def test_a_rule_wrong_only_at_second_order_fails(x, rule, words):
    square = squared(lambda xp, g, x: rule(g, x) if xp is gpugrad else g * 2 * x)
    gradcheck(square, x)
    with pytest.raises(AssertionError, match=words):
        gradgradcheck(square, x)


def test_one_wrong_input_of_many_is_named(x, library):
    @op
    def weigh(xp, x1, x2, x3):
        """x1 * x2 + x3."""
        return x1 * x2 + x3

    weigh.vjp(x1=lambda xp, g, x2: g * x2, x2=lambda xp, g, x1: g * x1, x3=lambda xp, g: -g)
    y, z = (library.tensor(np.array(X) + k, requires_grad=True) for k in (1, 2))
    words = r"(?s)gradcheck of weigh: .* the gradient to input 2 \(x3\), of"
    with pytest.raises(AssertionError, match=words):
        gradcheck(weigh, (x, y, z))
    assert gradcheck(weigh, (x, y, z.detach())) is True  # only of inputs that require grad
    assert gradgradcheck(weigh, (x, y, z.detach())) is True
    with pytest.raises(TypeError, match=r"gradcheck: .*it takes f, inputs, eps"):
        gradcheck(weigh, x, y, z)


def test_one_wrong_output_of_several_is_found(x):
    @op
    def two(xp, x):
        """x squared, and its triple."""
        return x * x, 3 * x

    two.vjp(x=lambda xp, g, x: 2 * x * g[0] + 2 * g[1])
    with pytest.raises(AssertionError, match="gradcheck of two"):
        gradcheck(two, x)
    gradcheck(lambda x: two(x)[0], x)
    two.vjp(x=lambda xp, g, x: 2 * x * g[0] + 3 * g[1])
    for check in gradcheck, gradgradcheck:
        check(two, x)


def test_the_message_shows_the_worst_entry():
    x, wrong = gpugrad.tensor(X, dtype=gpugrad.float64, requires_grad=True), np.zeros((2, 3))
    wrong[0, 2], wrong[1, 1] = 0.1, 7.0
    with pytest.raises(AssertionError) as error:
        gradcheck(squared(lambda xp, g, x: g * 2 * x + gpugrad.asarray(wrong).array), x)
    expected = (
        r"gradcheck of square: 2 of 6 entries are wrong \(eps .*\); the worst:\n"
        r"  the gradient to input 0, of shape \(2, 3\), is wrong at \(1, 1\) \(input 0.25 there\): "
        r"backward gives (.*), central differences (.*)\n.* is wrong at \(0, 2\) .*"
    )
    backward, difference = re.fullmatch(expected, str(error.value)).groups()
    assert float(backward) - float(difference) == pytest.approx(7.0, abs=1e-6)
    with pytest.raises(AssertionError) as error:
        gradcheck(squared(lambda xp, g: g), x)
    assert len(str(error.value).splitlines()) == 4  # three of all that are wrong


def test_forward_mode(x, library):
    def f(x, y):
        return x * gpugrad.sin(y), gpugrad.cumulative_sum(x, axis=1)

    y = gpugrad.asarray(x.detach() + 1, copy=True).requires_grad_()
    z = library.tensor(np.array(X) + 0.5j, requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        check(f, (x, y), check_forward=True)
        check(lambda z: (z * z, gpugrad.abs(z), z.conj()), z, check_forward=True)


def test_a_wrong_jvp_is_found(x):
    twice = squared(lambda xp, g, x: 2 * x * g)
    twice.jvp(x=lambda xp, t, x: 3 * x * t)
    gradcheck(twice, x)
    what = r"(?s)gradcheck of .*: .* the tangent of output 0 along a direction of input 0, of shape"
    wrong = r"\(2, 3\), is wrong at .* \(output .* there\): forward mode gives"
    with pytest.raises(AssertionError, match=f"{what} {wrong}"):
        gradcheck(twice, x, check_forward=True)


def test_zero_dimensional_and_empty(library):
    for values in (0.5, np.zeros((0, 2))):
        gradcheck(gpugrad.exp, library.tensor(values, requires_grad=True))
        gradgradcheck(gpugrad.exp, library.tensor(values, requires_grad=True))
    with pytest.raises(AssertionError, match=r"wrong at \(\)"):
        gradcheck(squared(lambda xp, g: g), library.tensor(3.0, requires_grad=True))


def test_functions_that_cannot_be_checked_are_errors():
    x = gpugrad.tensor([1.0, 2.0], dtype=gpugrad.float64, requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(ValueError, match=f"{check.__name__}.*no output of .*requires grad"):
            check(lambda x: x.detach() * 2, x)
        with pytest.raises(ValueError, match=f"{check.__name__}.*requires grad"):
            check(gpugrad.exp, x.detach())
        with pytest.raises(ValueError, match=f"{check.__name__}.*no input requires grad"):
            check(lambda pair: pair[0] * pair[1], [(x, x)])
        for result in (1.0, None, {"y": x}, (x, None)):
            with pytest.raises(TypeError, match="must return a Tensor or a sequence of Tensors"):
                check(lambda x, result=result: result, x)
        with pytest.raises(TypeError, match=r"input 0 is .*float32.*float64"):
            check(gpugrad.exp, gpugrad.tensor([1.0], requires_grad=True))


def test_inputs_are_not_modified(x):
    @op
    def increment(xp, x):
        x += 1
        return x

    gradcheck(gpugrad.exp, x)
    gradgradcheck(gpugrad.exp, x)
    assert (x.tolist(), x.grad) == (X, None)
    increment.vjp(x=lambda xp, g: g)
    with pytest.raises(AssertionError, match="increment changed its inputs"):
        gradcheck(increment, x)


def test_close_values_pass(library):
    x = library.tensor(np.array(X))
    inf, nan = float("inf"), float("nan")
    for a, b in (
        (x, X), (x, np.array(X)), (X, x), (x.array, x + 1e-12), (library.tensor(np.array(3)), 3),
        (np.zeros((0, 3)), np.zeros((0, 3))), (np.array([1, 2]), np.array([1, 2])),
        ([inf, -inf, nan], [inf, -inf, nan]),
    ):  # fmt: skip
        assert_close(a, b)
    assert_close([1.0], [1.1], atol=0.2)
    assert_close([1.0], [1.1], rtol=0.2)


def test_other_values_fail():
    inf, nan = float("inf"), float("nan")
    wrong = np.array(X)
    wrong[0, 1], wrong[1, 2] = 0.0, 9.0
    for a, b, message in (
        (np.zeros((2, 3)), np.zeros(3), r"shapes differ: \(2, 3\), expected \(3,\)"),
        (wrong, X, r"2 of 6 .*at \(1, 2\): 9.0, expected -0.75"),
        (np.array([1, 2]), np.array([1, 3]), None), (2**60, 2**60 + 1, None),
        ([inf], [1.0], None), ([1.0], [inf], None), ([inf], [-inf], None), ([nan], [1.0], None),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=message):
            assert_close(a, b)
    with pytest.raises(AssertionError):
        assert_close([nan], [nan], equal_nan=False)


def test_tolerances_follow_the_lower_precision():
    for dtype, near, far in (
        ("float64", 1e-12, 1e-7), ("float32", 1e-6, 1e-3), ("float16", 1e-3, 0.1)
    ):  # fmt: skip
        one = gpugrad.ones((2,), dtype=dtype)
        assert_close(one, [1 + near] * 2)
        with pytest.raises(AssertionError):
            assert_close(one, [1 + far] * 2)
