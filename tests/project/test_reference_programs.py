"""Small programs with known results: gradients by hand, and networks that must learn."""

import math

import fit_quadratic
import fit_sine
import pytest
import xor

import gpugrad


def leaf(value):
    return gpugrad.tensor(value, dtype=gpugrad.float64, requires_grad=True)


def close(tensor, expected):
    assert tensor.dtype == gpugrad.float64
    assert tensor.tolist() == pytest.approx(expected, rel=1e-14, abs=1e-15)


def test_a_result_used_on_two_paths():
    a, b = leaf(2.0), leaf(3.0)
    c = a * b
    d = c + a
    e = d**2
    for tensor in (c, d, e):
        tensor.retain_grad()
    e.backward()
    close(e, 64)
    for tensor, gradient in (e, 1), (d, 16), (c, 16), (a, 64), (b, 32):
        close(tensor.grad, gradient)


TANH = math.tanh(-0.375)
SLOPE = 1 - TANH**2


@pytest.mark.parametrize(
    "function, inputs, value, gradients",
    [
        (lambda a, b, c: (a * b + c) ** 2, [2.0, 3.0, 1.0], 49, [42, 28, 14]),
        (lambda a, b: 2 * (a * b + b), [2.0, 3.0], 18, [6, 6]),
        (gpugrad.relu, [3.0], 3, [1]),
        (gpugrad.relu, [-3.0], 0, [0]),
        (
            lambda a, b: gpugrad.tanh(a * b),
            [0.5, -0.75],
            math.tanh(-0.375),
            [-0.75 * SLOPE, 0.5 * SLOPE],
        ),
        (lambda a, b: a**b, [2.0, 3.0], 8, [12, 8 * math.log(2)]),
        (gpugrad.mean, [[float(i) for i in range(10)]], 4.5, [[0.1] * 10]),
    ],
)
def test_values_and_gradients(function, inputs, value, gradients):
    leaves = [*map(leaf, inputs)]
    loss = function(*leaves)
    loss.backward()
    close(loss, value)
    for x, gradient in zip(leaves, gradients, strict=True):
        close(x.grad, gradient)


@pytest.mark.parametrize("layer_sizes, parameters", [([8, 1], 33), ([4, 4, 1], 37)])
def test_xor(layer_sizes, parameters):
    """At least 8 of 10 seeds solve the problem within 1000 epochs."""
    solved = 0
    for seed in range(10):
        model, losses = xor.train(layer_sizes, seed=seed, dtype=gpugrad.float64)
        assert sum(p.size for p in model.parameters()) == parameters
        right = [round(answer) for (answer,) in model(xor.INPUTS).tolist()] == [0, 1, 1, 0]
        solved += right and losses[-1] < 0.01
    assert solved >= 8


@pytest.mark.parametrize("seed", range(3))
def test_fit_quadratic(seed):
    *_, losses = fit_quadratic.train(100, seed=seed, dtype=gpugrad.float64)
    assert losses[-1] < 0.001


@pytest.mark.parametrize("seed", range(3))
def test_fit_sine(seed):
    """The network has 97 parameters; it learns the sine, and its slope learns the cosine."""
    model, losses = fit_sine.train(1000, seed=seed, dtype=gpugrad.float64)
    assert sum(p.size for p in model.parameters()) == 97
    assert losses[-1] < 0.001
    x = gpugrad.linspace(-2.5, 2.5, 11, dtype=gpugrad.float64).reshape(11, 1)
    assert gpugrad.max(gpugrad.abs(fit_sine.slope(model, x) - gpugrad.cos(x))).item() < 0.1
