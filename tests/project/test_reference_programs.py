"""The smallest example programs: networks that must learn."""

import fit_quadratic
import fit_sine
import pytest
import xor

import gpugrad


@pytest.mark.parametrize("layer_sizes, parameters", [([8, 1], 33), ([4, 4, 1], 37)])
def test_xor(layer_sizes, parameters):
    """At least 4 of 5 seeds solve the problem within 1000 epochs."""
    solved = 0
    for seed in range(5):
        model, losses = xor.train(layer_sizes, seed=seed, dtype=gpugrad.float64)
        assert sum(p.size for p in model.parameters()) == parameters
        right = [round(answer) for (answer,) in model(xor.INPUTS).tolist()] == [0, 1, 1, 0]
        solved += right and losses[-1] < 0.01
    assert solved >= 4


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
