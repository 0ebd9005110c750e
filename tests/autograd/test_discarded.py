"""Discarded elements have gradient 0, not nan, even where their slope is infinite."""

import numpy as np
import pytest
from samples import every

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.testing import assert_close

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # from NumPy, about infinities
inf, nan = float("inf"), float("nan")


# Functions, each with a point where its slope is infinite or its value not finite, and two
# ordinary points.
STEEP = {
    "sqrt": (gg.sqrt, 0.0, [0.25, 4.0]), "log": (gg.log, 0.0, [0.5, 3.0]),
    "log1p": (gg.log1p, -1.0, [-0.5, 3.0]), "1 / x": (lambda x: 1 / x, 0.0, [0.5, -3.0]),
    "x / x**2": (lambda x: x / x**2, 0.0, [0.5, -3.0]),
    "sin(x) / x": (lambda x: gg.sin(x) / x, 0.0, [0.5, -3.0]),
    "x**0.5": (lambda x: x**0.5, 0.0, [0.25, 4.0]),
    "x**0.5 of a negative": (lambda x: x**0.5, -1.0, [0.25, 4.0]),
    "x**x": (lambda x: x**x, 0.0, [0.25, 2.0]),
    "x**x of a negative": (lambda x: x**x, -0.5, [0.25, 2.0]),
    "0**x": (lambda x: 0 * x + 0**x, -1.0, [0.25, 2.0]),
    "x * log(x)": (lambda x: x * gg.log(x), 0.0, [0.5, 3.0]),
    "exp": (gg.exp, 1e4, [0.5, -1.0]), "cosh": (gg.cosh, -1e4, [0.5, -1.0]),
    "square": (gg.square, inf, [0.5, -1.0]), "asin": (gg.asin, 1.0, [0.5, -0.1]),
    "logaddexp": (lambda x: gg.logaddexp(x, 2 * x), inf, [0.5, -1.0]),
    "asin beyond": (gg.asin, 2.0, [0.5, -0.1]), "acos": (gg.acos, -1.0, [0.5, -0.1]),
    "acosh": (gg.acosh, 1.0, [1.5, 4.0]), "atanh": (gg.atanh, 1.0, [0.5, -0.1]),
    "atan2": (lambda x: gg.atan2(x, x * x), 0.0, [0.5, -3.0]),
    "atan2 at infinity": (lambda x: gg.atan2(x, x + 1), inf, [0.5, -3.0]),
    "abs(x)**0.5": (lambda x: abs(x) ** 0.5, 0.0, [0.25, -4.0]),
    "sqrt of a sum": (lambda x: gg.sqrt(x**2 + (2 * x) ** 2), 0.0, [0.5, -3.0]),
    "log(sqrt)": (lambda x: gg.log(gg.sqrt(x)), 0.0, [0.5, 3.0]),
    "sqrt(sin(x) / x)": (lambda x: gg.sqrt(gg.sin(x) / x), 0.0, [0.5, 2.0]),
    "xlogy": (lambda x: gg.special.xlogy(1 + x, x), 0.0, [0.5, 3.0]),
    "xlog1py": (lambda x: gg.special.xlog1py(2 + x, x), -1.0, [0.5, 3.0]),
    "kl_div": (lambda x: gg.special.kl_div(x, 1 + x), 0.0, [0.5, 3.0]),
    "kl_div of 0": (lambda x: gg.special.kl_div(1 + x, x), 0.0, [0.5, 3.0]),
}  # fmt: skip


def _assigned(y, key, value):
    y[key] = value
    return y


# Functions that discard elements 0 and 2 of y, as the mask ``bad`` says, and keep 1 and 3.
DISCARD = {
    "where": lambda y, bad: gg.where(gg.logical_not(bad), y, 0.0),
    "where, the other branch": lambda y, bad: gg.where(bad, 0.0, y),
    "where, an array": lambda y, bad: gg.where(bad, gg.ones_like(y), y),
    "mask assigned": lambda y, bad: _assigned(y, bad, 0.0),
    "slice assigned": lambda y, bad: _assigned(y, slice(None, None, 2), 1.0),
    "array assigned": lambda y, bad: _assigned(y, bad, gg.ones_like(y)[::2]),
    "mask taken": lambda y, bad: y[gg.logical_not(bad)],
    "slice taken": lambda y, bad: y[1::2],
    "numbers taken": lambda y, bad: y[[1, 3]],
    "take": lambda y, bad: gg.take(y, gg.nonzero(gg.logical_not(bad))[0]),
}


def derivatives(library, discard, f, data, order):
    """Return the derivatives up to ``order`` of the sum of the kept elements of ``f(data)``."""
    x = library.tensor(np.asarray(data, "float64"), requires_grad=True)
    bad = library.tensor(np.arange(len(data)) % 2 == 0)
    total, found = gg.sum(gg.real(gg.sin(discard(f(x), bad)))), []
    for k in range(order):
        (g,) = grad(total, x, create_graph=k + 1 < order)
        found.append(library.values(g))
        total = gg.sum(g * g)
    return found


def both_ways(library, total, x):
    """Yield the gradient by raw arrays and by tensors."""
    for create_graph in (False, True):
        (g,) = grad(total, x, retain_graph=True, create_graph=create_graph)
        yield library.values(g)


@pytest.mark.parametrize("name", STEEP)
def test_discarded_elements_have_gradient_0(library, name):
    f, bad, (a, b) = STEEP[name]
    alone = derivatives(library, lambda y, _: y, f, [a, b], 3)
    ways = [*DISCARD]
    if library.name != "numpy":  # each way with some of the functions
        number = [*STEEP].index(name) % len(ways)
        ways = ways[number : number + 1]
    for how, checked in every(ways):
        with checked:
            mixed = derivatives(library, DISCARD[how], f, [bad, a, bad, b], 3)
            for found, expected in zip(mixed, alone, strict=True):
                assert_close(found[1::2], expected, rtol=1e-9, atol=1e-9)
                assert found[::2].tolist() == [0.0, 0.0]


# Ops whose values decide what is discarded: the function, its argument, the gradient expected.
BY_VALUE = {
    "maximum": (lambda x: gg.maximum(gg.sqrt(x), 0.1), [0.0, 4.0], [0.0, 0.25]),
    "maximum of arrays": (lambda x: gg.maximum(gg.log(x), x - 5), [0.0, 1.0], [1.0, 1.0]),
    "minimum": (lambda x: gg.minimum(1 / x, 5.0), [0.0, 2.0], [0.0, -0.25]),
    "minimum of exp": (lambda x: gg.minimum(gg.exp(x), 1e3), [1e4, 0.0], [0.0, 1.0]),
    "clip": (lambda x: gg.clip(gg.log(x), -5.0, 5.0), [0.0, 1.0], [0.0, 1.0]),
    "clip below": (lambda x: gg.clip(1 / x, max=9.0), [0.0, 2.0], [0.0, -0.25]),
    "relu": (lambda x: gg.relu(gg.log(x)), [0.0, 4.0], [0.0, 0.25]),
    "max": (lambda x: gg.max(gg.log(x)), [0.0, 0.5, 2.0], [0.0, 0.0, 0.5]),
    "min": (lambda x: gg.min(1 / x), [0.0, 2.0, 4.0], [0.0, 0.0, -1 / 16]),
    "sort": (lambda x: gg.sort(gg.log(x))[1:], [0.0, 0.5, 2.0], [0.0, 2.0, 0.5]),
    "tril": (lambda x: gg.tril(gg.sqrt(x[None, :])), [4.0, 0.0, 0.0], [0.25, 0.0, 0.0]),
    "where, then sqrt": (lambda x: gg.sqrt(gg.where(x > 0, x, 1.0)), [-1.0, 4.0], [0.0, 0.25]),
    "maximum, then sqrt": (lambda x: gg.sqrt(gg.maximum(x, 0.0)), [-1.0, 4.0], [0.0, 0.25]),
    "relu, log": (lambda x: gg.where(x > 0, gg.log(gg.relu(x)), 0.0), [-1.0, 4.0], [0.0, 0.25]),
    "where, twice": (lambda x: gg.where(x > 1, gg.where(x > 2, gg.log(x - 2), gg.sqrt(x - 1)), x),
                     [1.0, 2.0, 3.0], [1.0, 0.5, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_VALUE)
def test_values_that_are_not_chosen(library, name):
    f, data, expected = BY_VALUE[name]
    x = library.tensor(np.array(data), requires_grad=True)
    for g in both_ways(library, gg.sum(f(x)), x):
        assert_close(g, expected)


# Functions of whole rows, some of which are discarded: the function, a bad row, a good row.
ROW_FUNCTIONS = {
    "norm": (lambda x: gg.linalg.vector_norm(x, axis=-1), [0.0, 0.0], [3.0, -4.0]),
    "norm by sqrt": (lambda x: gg.sqrt(gg.sum(x * x, axis=-1)), [0.0, 0.0], [3.0, -4.0]),
    "direction": (lambda x: gg.sum(x / gg.linalg.vector_norm(x, axis=-1, keepdims=True), axis=-1),
                  [0.0, 0.0], [3.0, -4.0]),
    "std": (lambda x: gg.std(x, axis=-1), [2.0, 2.0], [3.0, -4.0]),
    "mean of logs": (lambda x: gg.mean(gg.log(x), axis=-1), [0.0, 1.0], [3.0, 4.0]),
    "logsumexp": (lambda x: gg.logsumexp(x, axis=-1), [-inf, -inf], [3.0, -4.0]),
    "matmul": (lambda x: gg.log(x) @ gg.ones_like(x[0, :]), [0.0, 1.0], [3.0, 4.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_discarded_rows(library, name):
    f, bad, good = ROW_FUNCTIONS[name]
    alone, x = (library.tensor(np.array(d), requires_grad=True) for d in ([good], [bad, good, bad]))
    expected = library.values(grad(gg.sum(f(alone)), alone)[0])
    keep = library.tensor(np.array([False, True, False]))
    for g in both_ways(library, gg.sum(gg.where(keep, f(x), 0.0)), x):
        assert_close(g[1:2], expected)
        assert g[::2].tolist() == [[0.0, 0.0]] * 2


# An infinite or nan slope of an element that reaches the result is never hidden.


SLOPES = {
    "sqrt": inf, "log": inf, "1 / x": -inf, "x**0.5": inf, "x**0.5 of a negative": nan,
    "x / x**2": nan, "sin(x) / x": nan, "x * log(x)": -inf, "exp": inf, "asin": inf,
    "asin beyond": nan, "atanh": inf, "log(sqrt)": inf, "sqrt of a sum": nan,
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_bad_slopes_of_kept_elements_stay_visible(library, name):
    f, bad, (a, b) = STEEP[name]
    mask = library.tensor(np.array([True, True, False, False]))
    totals = {
        "where": lambda x: gg.sum(gg.where(mask, f(x), 0.0)),
        "mask": lambda x: gg.sum(f(x)[mask]),
        "maximum": lambda x: gg.sum(gg.maximum(f(x), -inf)[:2]),
        # elements are discarded in another part of the graph
        "elsewhere": lambda x: gg.sum(f(x[:2])) + gg.sum(gg.where(mask, x, 0.0) * 0.0),
    }
    for keep, checked in every(totals):
        with checked:
            x = library.tensor(np.array([bad, a, b, bad]), requires_grad=True)
            for g in both_ways(library, totals[keep](x), x):
                assert_close(g[0], SLOPES[name])
                assert np.isfinite(g[1])
                assert g[2:].tolist() == [0.0, 0.0]


def test_a_nan_in_the_value_stays(library):
    x = library.tensor(np.array([nan, -1.0, 4.0]), requires_grad=True)
    y = gg.where(x < 9, 0.0, gg.sqrt(x))
    for found in y, *grad(y.sum(), x):
        assert np.isnan(library.values(found)).tolist() == [True, False, False]
