"""Programs that use several rooms at once, with results that a formula or the data gives.

`test_first_day.py` has those in which a model is trained.
"""

import math

import numpy as np
from numpy.testing import assert_allclose

import gpugrad as gg
from gpugrad.scipy import integrate, optimize, stats


def test_the_derivative_of_an_integral():
    """d/da of the integral of sin(a t) over [0, pi], by Simpson's rule, at a = 1/2."""
    a = gg.tensor(0.5, dtype=gg.float64, requires_grad=True)
    t = gg.linspace(0, math.pi, 201, dtype=gg.float64)
    y = gg.sin(a * t)
    h = math.pi / 200
    integral = h / 3 * (y[0] + y[-1] + 4 * y[1::2].sum() + 2 * y[2:-1:2].sum())
    integral.backward()
    expected = math.pi * math.sin(math.pi / 2) / 0.5 + (math.cos(math.pi / 2) - 1) / 0.25
    assert_allclose(integral.item(), (1 - math.cos(math.pi / 2)) / 0.5, rtol=1e-8)
    assert_allclose(a.grad.item(), expected, rtol=1e-7)


def test_a_jacobian_of_polar_coordinates():
    def cartesian(p):
        return gg.stack([p[0] * gg.cos(p[1]), p[0] * gg.sin(p[1])])

    p = gg.tensor([2.0, math.pi / 6], dtype=gg.float64)
    jacobian = gg.jacobian(cartesian)(p)
    assert_allclose(jacobian.numpy(), [[math.sqrt(3) / 2, -1], [1 / 2, math.sqrt(3)]])
    assert_allclose(gg.linalg.det(jacobian).item(), 2)


def test_newtons_method():
    """The square root of 2."""
    x = gg.tensor(1.0, dtype=gg.float64)
    for _ in range(6):
        value, slope = gg.value_and_grad(lambda x: x * x - 2)(x)
        x = x - value / slope
    assert_allclose(x.item(), math.sqrt(2), rtol=1e-15)


def test_minimizing_as_scipy_does():
    found = optimize.minimize(lambda x: ((x - gg.tensor([1.0, -2.0])) ** 2).sum(), np.zeros(2))
    assert found.success
    assert_allclose(np.asarray(found.x), [1, -2], atol=1e-5)


def test_a_decay_that_is_fitted():
    t = gg.linspace(0, 4, 9, dtype=gg.float64)
    measured = 2 * gg.exp(-0.7 * t)

    def loss(rate):
        found = integrate.odeint(lambda y, t: -rate * y, 2.0, t)
        return ((found.reshape(-1) - measured) ** 2).sum()

    found = optimize.minimize(loss, np.array(0.2))
    assert_allclose(np.asarray(found.x), 0.7, atol=1e-4)


def test_the_most_likely_parameters():
    sample = stats.norm.rvs(3.0, 2.0, size=5000, random_state=0)

    def loss(p):
        return -stats.norm.logpdf(sample, p[0], gg.exp(p[1])).mean()

    mean, log_std = np.asarray(optimize.minimize(loss, np.zeros(2)).x)
    assert_allclose([mean, np.exp(log_std)], [sample.mean().item(), sample.std().item()], rtol=1e-3)
