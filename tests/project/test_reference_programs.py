"""Small programs with known results: gradients by hand, and networks that must learn."""

import math

import fit_quadratic
import fit_sine
import pytest
import xor

import gpugrad
from gpugrad import nn, optim


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


def test_square_of_a_sum():
    a, b, c = leaf(2.0), leaf(3.0), leaf(1.0)
    loss = (a * b + c) ** 2
    loss.backward()
    close(loss, 49)
    for tensor, gradient in (a, 42), (b, 28), (c, 14):
        close(tensor.grad, gradient)


def test_a_leaf_used_twice():
    a, b = leaf(2.0), leaf(3.0)
    loss = 2 * (a * b + b)
    loss.backward()
    close(loss, 18)
    close(a.grad, 6)
    close(b.grad, 6)


@pytest.mark.parametrize("value, gradient", [(3.0, 1), (-3.0, 0)])
def test_relu(value, gradient):
    x = leaf(value)
    gpugrad.relu(x).backward()
    close(x.grad, gradient)


def test_tanh_of_a_product():
    a, b = leaf(0.5), leaf(-0.75)
    y = gpugrad.tanh(a * b)
    y.backward()
    slope = 1 - math.tanh(-0.375) ** 2
    close(y, math.tanh(-0.375))
    close(a.grad, -0.75 * slope)
    close(b.grad, 0.5 * slope)


def test_pow_has_both_gradients():
    base, exponent = leaf(2.0), leaf(3.0)
    y = base**exponent
    y.backward()
    close(y, 8)
    close(base.grad, 12)
    close(exponent.grad, 8 * math.log(2))


def test_mean_shares_the_gradient():
    x = leaf([float(i) for i in range(10)])
    x.mean().backward()
    close(x.grad, [0.1] * 10)


def test_gradients_accumulate_until_zero_grad():
    x = leaf([1.0, 2.0])
    optimizer = optim.SGD([x], lr=0.1)
    for expected in ([2.0, 4.0], [4.0, 8.0]):
        (x * x).sum().backward()
        close(x.grad, expected)
    optimizer.zero_grad()
    (x * x).sum().backward()
    close(x.grad, [2.0, 4.0])


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


def test_mlp_is_linear_layers_with_activations_between():
    assert [type(layer) for layer in nn.MLP(2, [4, 4, 1], nn.Tanh)] == [
        nn.Linear,
        nn.Tanh,
        nn.Linear,
        nn.Tanh,
        nn.Linear,
    ]
