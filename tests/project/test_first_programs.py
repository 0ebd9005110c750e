"""Short programs without a model, with results that a formula or the data gives.

`test_first_day.py` has those in which a model is trained.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpugrad as gg
from gpugrad import optim, tree
from gpugrad.nn import functional as F
from gpugrad.scipy import integrate, interpolate, optimize, signal, stats
from gpugrad.testing import assert_close, gradcheck

# Tensors and gradients


def test_writing_into_a_tensor():
    x = gg.zeros((2, 3))
    x[0] = 1.0
    x[:, 2] = gg.tensor([5.0, 6.0])
    x[x == 0] = -1.0
    assert x.tolist() == [[1, 1, 5], [-1, -1, 6]]


def test_a_slice_is_a_value_of_its_own():
    x = gg.zeros((2, 3))
    row = x[0]
    row[1] = 9.0
    x[0][2] = 9.0
    assert (x.sum().item(), row.tolist()) == (0, [0, 9, 0])
    x[0, 1] = 9.0
    x[1] += 1
    assert x.tolist() == [[0, 9, 0], [1, 1, 1]]


def test_indexing_as_in_numpy():
    table, array = gg.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4)
    for key in ((1, 2), (..., -1), np.s_[::2, 1:3], np.s_[None, :, 0], [2, 0], array > 8):
        assert table[key].tolist() == array[key].tolist()
    assert table[table % 2 == 0].sum().item() == 30
    rows, columns = gg.nonzero(table > 9)
    assert (rows.tolist(), columns.tolist()) == ([2, 2], [2, 3])


def test_a_mask_lets_gradients_through_where_it_is_true():
    x = gg.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (x[x > 0] ** 2).sum().backward()
    assert x.grad.tolist() == [2, 0, 6]
    filled = gg.where(x > 0, x, 0.0)
    assert filled.tolist() == [1, 0, 3]


def test_broadcasting_a_column_against_a_row():
    table = gg.arange(1, 4).reshape(-1, 1) * gg.arange(1, 4)
    assert table.tolist() == [[1, 2, 3], [2, 4, 6], [3, 6, 9]]


def test_standardizing_columns():
    points = gg.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    scaled = (points - points.mean(axis=0)) / points.std(axis=0, correction=1)
    assert scaled.tolist() == [[-1, -1], [0, 0], [1, 1]]


def test_the_derivative_of_a_polynomial():
    x = gg.tensor(2.0, requires_grad=True)
    (x**3 - 4 * x + 1).backward()
    assert x.grad.item() == 3 * 2**2 - 4


def test_gradients_add_up_until_they_are_cleared():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1)
    for expected in ([2, 4], [4, 8]):
        (x * x).sum().backward()
        assert x.grad.tolist() == expected
    optimizer.zero_grad()
    assert x.grad is None


def test_gradient_descent_by_hand():
    x = gg.tensor([5.0, -3.0], requires_grad=True)
    for _ in range(100):
        loss = ((x - gg.tensor([1.0, 2.0])) ** 2).sum()
        loss.backward()
        with gg.no_grad():
            x -= 0.1 * x.grad
        x.grad = None
    assert_close(x, gg.tensor([1.0, 2.0]), atol=1e-5)


def test_gradients_of_nested_parameters():
    parameters = {"w": gg.tensor([1.0, 2.0]), "layers": [gg.tensor(0.5)]}
    gradient = gg.grad(lambda p: (p["w"] * 3).sum() + p["layers"][0] ** 2)(parameters)
    assert gradient["w"].tolist() == [3, 3]
    stepped = tree.map(lambda p, g: p - 0.5 * g, parameters, gradient)
    assert stepped["w"].tolist() == [-0.5, 0.5]
    assert stepped["layers"][0].item() == 0


def test_a_directional_derivative_both_ways():
    def f(x):
        return gg.stack([x[0] * x[1], gg.sin(x[1])])

    x, v, u = (gg.tensor(values) for values in ([2.0, 3.0], [1.0, -1.0], [0.5, 2.0]))
    y, tangent = gg.jvp(f, (x,), (v,))
    same, pullback = gg.vjp(f, x)
    assert_close(y, same)
    assert_close((u * tangent).sum(), (pullback(u)[0] * v).sum())
    assert_close(gg.jacobian(f)(x) @ v, tangent)


def test_the_curvature_of_the_rosenbrock_function():
    def rosenbrock(x):
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    x = gg.tensor([1.0, 1.0])
    assert gg.hessian(rosenbrock)(x).tolist() == [[802, -400], [-400, 200]]
    assert gg.hvp(rosenbrock)(x, gg.tensor([1.0, 2.0])).tolist() == [2, 0]


def test_newtons_method_in_two_dimensions():
    def f(x):
        return x[0] ** 4 + (x[0] - x[1]) ** 2 + gg.exp(x[1])

    x = gg.tensor([1.0, 1.0], dtype=gg.float64)
    for _ in range(12):
        x = x - gg.linalg.solve(gg.hessian(f)(x), gg.grad(f)(x))
    assert abs(gg.grad(f)(x).numpy()).max() < 1e-12


def test_a_third_derivative_by_grad_and_by_backward():
    third = gg.grad(gg.grad(gg.grad(lambda x: gg.exp(2 * x))))
    assert third(gg.tensor(0.0)).item() == pytest.approx(8)
    x = gg.tensor(0.0, requires_grad=True)
    y = gg.exp(2 * x)
    for _ in range(3):
        (y,) = gg.autograd.grad(y, x, create_graph=True)
    assert y.item() == pytest.approx(8)


def test_a_value_that_counts_as_a_constant():
    assert gg.grad(lambda x: x * x.detach())(gg.tensor(3.0)).item() == 3
    assert gg.grad(lambda x: x * gg.stop_gradient(x))(gg.tensor(3.0)).item() == 3


def test_a_gradient_of_complex_numbers():
    z = gg.tensor([3 + 4j], requires_grad=True)
    gg.abs(z).sum().backward()
    assert_close(z.grad, gg.tensor([(3 + 4j) / 5]))


def test_a_hook_scales_a_gradient():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    handle = x.register_hook(lambda g: 10 * g)
    (x * x).sum().backward()
    assert x.grad.tolist() == [20, 40]
    handle.remove()
    x.grad = None
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_the_gradient_of_a_value_in_between():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    (y**2).sum().backward()
    assert y.grad.tolist() == [6, 12]


def test_memory_for_time():
    def block(x):
        for _ in range(5):
            x = gg.tanh(x) + x
        return x

    x = gg.random.normal((4, 4))
    plain = gg.grad(lambda x: block(x).sum())(x)
    recomputed = gg.grad(lambda x: gg.checkpoint(block, x).sum())(x)
    assert_close(plain, recomputed, rtol=0, atol=0)


def test_an_operation_of_ones_own():
    @gg.op
    def cube(xp, x):
        """The third power."""
        return x * x * x

    cube.vjp(x=lambda xp, g, x: 3 * g * x * x)
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    cube(x).sum().backward()
    assert x.grad.tolist() == [3, 12]
    assert gg.grad(gg.grad(cube))(gg.tensor(2.0)).item() == 12


def test_a_wrong_gradient_is_found():
    @gg.op
    def square(xp, x):
        """The second power, with a mistake in its derivative."""
        return x * x

    square.vjp(x=lambda xp, g, x: 3 * g * x)
    with pytest.raises(AssertionError, match="square"):
        gradcheck(square, gg.tensor([1.0, 2.0], dtype=gg.float64, requires_grad=True))


def test_finding_where_a_nan_begins():
    x = gg.tensor([0.0, 1.0], requires_grad=True)
    with pytest.raises(FloatingPointError, match=r"^sqrt: its gradient"), gg.detect_anomaly():
        (gg.sqrt(x) * 0).sum().backward()


# Numerical programs


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


def test_least_squares_with_a_gradient():
    x = gg.tensor([0.0, 1.0, 2.0, 3.0], dtype=gg.float64)
    y = gg.tensor([1.0, 3.0, 5.0, 7.0], dtype=gg.float64, requires_grad=True)
    slope, intercept = gg.linalg.pinv(gg.stack([x, gg.ones_like(x)], axis=1)) @ y
    assert [slope.item(), intercept.item()] == pytest.approx([2, 1])
    slope.backward()
    assert_close(y.grad, (x - 1.5) / 5)


def test_principal_components():
    t = gg.linspace(-1, 1, 50, dtype=gg.float64)
    points = gg.stack([3 * t, 4 * t], axis=1)
    _, s, vh = gg.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    assert_close(gg.abs(vh[0]), gg.tensor([0.6, 0.8], dtype=gg.float64))
    assert s[0].item() ** 2 == pytest.approx(25 * (t**2).sum().item())
    assert s[1].item() < 1e-12


def test_eigenvalues_have_gradients():
    a = gg.tensor([[2.0, 0.0], [0.0, 5.0]], requires_grad=True)
    values, _ = gg.linalg.eigh(a)
    values[1].backward()
    assert values.tolist() == [2, 5]
    assert a.grad.tolist() == [[0, 0], [0, 1]]


def test_the_likelihood_of_a_gaussian_process():
    x = gg.linspace(0, 1, 6, dtype=gg.float64)
    y = gg.sin(6 * x)

    def loss(log_length):
        squares = (x[:, None] - x) ** 2
        k = gg.exp(-squares / (2 * gg.exp(2 * log_length)))
        factor = gg.linalg.cholesky(k + 0.01 * gg.eye(6, dtype=gg.float64))
        z = gg.linalg.solve(factor, y)
        return (z**2).sum() / 2 + gg.log(gg.linalg.diagonal(factor)).sum()

    gradcheck(loss, gg.tensor(-1.0, dtype=gg.float64, requires_grad=True))


def test_removing_a_frequency():
    t = gg.arange(64.0, dtype=gg.float64) / 64
    slow, fast = gg.sin(2 * math.pi * 5 * t), gg.sin(2 * math.pi * 20 * t)
    spectrum = gg.fft.rfft(slow + fast)
    assert gg.topk(gg.abs(spectrum), 2).indices.sum().item() == 25
    spectrum[10:] = 0
    assert_close(gg.fft.irfft(spectrum), slow, atol=1e-12)


def test_a_pendulum_keeps_its_energy():
    def rhs(y, t):
        return gg.stack([y[1], -gg.sin(y[0])])

    t = gg.linspace(0, 10, 21, dtype=gg.float64)
    angle, speed = integrate.odeint(rhs, [1.0, 0.0], t).T
    energy = speed**2 / 2 - gg.cos(angle)
    assert_close(energy, gg.full_like(energy, -math.cos(1)), rtol=1e-5)


def test_a_curve_through_points():
    x, y = [0.0, 1.0, 2.0], gg.tensor([0.0, 10.0, 20.0], requires_grad=True)
    value = interpolate.interp1d(x, y)(1.25)
    value.backward()
    assert value.item() == 12.5
    assert y.grad.tolist() == [0, 0.75, 0.25]


def test_a_moving_average():
    prices = gg.tensor([1.0, 2.0, 6.0, 3.0, 3.0])
    expected = np.convolve(prices.numpy(), np.ones(3) / 3, mode="valid")
    kernel = gg.ones(3) / 3
    assert_close(signal.convolve(prices, kernel, mode="valid").numpy(), expected, rtol=1e-6)
    sums = gg.cumulative_sum(prices)
    assert_close((sums[2:] - gg.concat([gg.zeros(1), sums[:2]])).numpy(), 3 * expected)


def test_logistic_regression_by_newtons_method():
    """The expected gradient at the solution is 0: that of X^T (p - y)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2))
    y = (x @ [1.0, -2.0] + rng.logistic(size=200) > 0) * 1.0

    def loss(w):
        return F.binary_cross_entropy_with_logits(gg.asarray(x) @ w, y, reduction="sum")

    w = np.zeros(2)
    for _ in range(8):
        w = w - np.linalg.solve(gg.hessian(loss)(w).numpy(), gg.grad(loss)(w).numpy())
    assert abs(x.T @ (1 / (1 + np.exp(-x @ w)) - y)).max() < 1e-10


def test_distances_between_all_points():
    points = gg.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    distances = gg.linalg.vector_norm(points[:, None] - points, axis=-1)
    assert distances.tolist() == [[0, 5, 10], [5, 0, 5], [10, 5, 0]]
    nearest = gg.argmin(distances + gg.eye(3) * 1e9, axis=1)
    assert nearest.tolist() == [1, 0, 1]


def test_a_random_walk_comes_again_with_its_seed():
    def walk(seed):
        gg.manual_seed(seed)
        return gg.cumulative_sum(gg.random.normal((50,))).tolist()

    assert walk(7) == walk(7) != walk(8)
    first, again = (gg.random.Generator(3) for _ in range(2))
    assert first.uniform(3).tolist() == again.uniform(3).tolist() != again.uniform(3).tolist()


def test_pi_by_chance():
    points = gg.random.uniform((40000, 2))
    inside = (points**2).sum(axis=1) < 1
    assert 4 * inside.mean().item() == pytest.approx(math.pi, abs=0.05)
