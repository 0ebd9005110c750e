"""Programs of a first day, one for each thing that people try, with values that are known.

`test_first_day.py` has those in which a model is trained. Here each is as a person writes it who
has read one page, and asserts what a formula, a table of constants or NumPy says.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpugrad as gg
import gpugrad.numpy as gnp
from gpugrad import data, nn, optim, tools, training, tree
from gpugrad.nn import functional as F
from gpugrad.scipy import integrate, interpolate, linalg, optimize, signal, stats


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gg.manual_seed(0)


# Tensors


def test_making_tensors():
    x = gg.tensor([[1, 2], [3, 4]], dtype=gg.float32)
    assert (x.shape, x.ndim, x.size, x.dtype, x.device) == ((2, 2), 2, 4, gg.float32, "cpu")
    assert gg.arange(0, 10, 3).tolist() == [0, 3, 6, 9]
    assert gg.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert gg.eye(2).tolist() == [[1, 0], [0, 1]]
    assert gg.full((2,), 7).tolist() == [7, 7]


def test_indexing_and_slicing():
    x = gg.arange(12).reshape(3, 4)
    assert x[1, 2].item() == 6
    assert x[:, -1].tolist() == [3, 7, 11]
    assert x[::2, 1:3].tolist() == [[1, 2], [9, 10]]
    assert x[x > 8].tolist() == [9, 10, 11]
    assert x[gg.tensor([2, 0]), 0].tolist() == [8, 0]
    assert x[None, ..., 0].shape == (1, 3)


def test_writing_into_a_tensor():
    x = gg.zeros((2, 3))
    x[0] = 1.0
    x[:, 2] = gg.tensor([5.0, 6.0])
    x[x == 0] = -1.0
    assert x.tolist() == [[1, 1, 5], [-1, -1, 6]]


def test_broadcasting_a_table():
    rows, columns = gg.arange(1, 4).reshape(-1, 1), gg.arange(1, 5)
    table = rows * columns
    assert table.tolist() == [[1, 2, 3, 4], [2, 4, 6, 8], [3, 6, 9, 12]]


def test_standardizing_columns():
    x = gg.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    z = (x - x.mean(axis=0)) / x.std(axis=0, correction=1)
    assert z.tolist() == [[-1, -1], [0, 0], [1, 1]]


def test_joining_and_splitting():
    a, b = gg.ones((2, 2)), gg.zeros((2, 1))
    assert gg.concat([a, b], axis=1).tolist() == [[1, 1, 0], [1, 1, 0]]
    assert gg.stack([a, a]).shape == (2, 2, 2)
    left, right = gg.split(gg.arange(6), 2)
    assert (left.tolist(), right.tolist()) == ([0, 1, 2], [3, 4, 5])


def test_sorting_and_counting():
    x = gg.tensor([3, 1, 2, 3, 1, 3])
    assert gg.sort(x).tolist() == [1, 1, 2, 3, 3, 3]
    assert gg.argsort(gg.tensor([3.0, 1.0, 2.0])).tolist() == [1, 2, 0]
    values, counts = gg.unique_counts(x)
    assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == {1: 2, 2: 1, 3: 3}
    assert gg.bincount(x).tolist() == [0, 2, 1, 3]


def test_the_largest_values():
    x = gg.tensor([0.1, 0.7, 0.05, 0.15])
    values, indices = gg.topk(x, 2)
    assert indices.tolist() == [1, 3]
    assert_allclose(values.numpy(), [0.7, 0.15])
    assert gg.argmax(x).item() == 1


def test_quantiles_of_a_sample():
    x = gg.arange(101.0)
    assert gg.quantile(x, 0.9).item() == 90
    assert gg.numpy.median(x).item() == 50


def test_one_hot_and_back():
    labels = gg.tensor([2, 0, 1])
    codes = F.one_hot(labels, 3)
    assert codes.tolist() == [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    assert codes.argmax(axis=-1).tolist() == labels.tolist()


def test_distances_between_points():
    points = gg.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    differences = points[:, None] - points[None]
    distances = gg.linalg.vector_norm(differences, axis=-1)
    assert distances.tolist() == [[0, 5, 10], [5, 0, 5], [10, 5, 0]]


def test_einsum_as_in_a_lecture():
    a, b = gg.arange(6.0).reshape(2, 3), gg.arange(12.0).reshape(3, 4)
    assert_array_equal(gg.einsum("ij,jk->ik", a, b).numpy(), (a @ b).numpy())
    assert gg.einsum("ii->", gg.eye(4)).item() == 4
    assert_array_equal(gg.einsum("ij->ji", a).numpy(), a.numpy().T)


# Gradients


def test_the_derivative_of_a_polynomial():
    x = gg.tensor(2.0, requires_grad=True)
    y = x**3 - 4 * x + 1
    y.backward()
    assert x.grad.item() == 3 * 2**2 - 4


def test_gradients_add_up_until_they_are_cleared():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1)
    for expected in ([2, 4], [4, 8]):
        (x * x).sum().backward()
        assert x.grad.tolist() == expected
    optimizer.zero_grad()
    assert x.grad is None


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


def test_higher_derivatives_of_a_function():
    f = gg.exp
    for _ in range(3):
        f = gg.grad(lambda x, f=f: f(2 * x))
    # Each round multiplies the argument by 2 and the derivative by the powers of 2 so far.
    assert_allclose(f(gg.tensor(0.0)).item(), 2**1 * 2**2 * 2**3)


def test_a_gradient_by_several_arguments():
    area = gg.value_and_grad(lambda width, height: width * height, argnums=(0, 1))
    value, (by_width, by_height) = area(gg.tensor(3.0), gg.tensor(4.0))
    assert (value.item(), by_width.item(), by_height.item()) == (12, 4, 3)


def test_a_jacobian_of_polar_coordinates():
    def cartesian(p):
        return gg.stack([p[0] * gg.cos(p[1]), p[0] * gg.sin(p[1])])

    p = gg.tensor([2.0, math.pi / 6], dtype=gg.float64)
    jacobian = gg.jacobian(cartesian)(p)
    c, s = math.cos(math.pi / 6), math.sin(math.pi / 6)
    assert_allclose(jacobian.numpy(), [[c, -2 * s], [s, 2 * c]])
    assert_allclose(gg.linalg.det(jacobian).item(), 2)


def test_the_hessian_of_rosenbrock():
    def rosenbrock(x):
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    hessian = gg.hessian(rosenbrock)(gg.tensor([1.0, 1.0]))
    assert hessian.tolist() == [[802, -400], [-400, 200]]


def test_a_hessian_times_a_vector():
    matrix = gg.tensor([[2.0, 1.0], [1.0, 3.0]])
    product = gg.hvp(lambda x: x @ matrix @ x / 2)(gg.tensor([5.0, 7.0]), gg.tensor([1.0, -1.0]))
    assert product.tolist() == [1, -2]


def test_a_directional_derivative():
    value, slope = gg.jvp(gg.sin, (gg.tensor(0.0),), (gg.tensor(3.0),))
    assert (value.item(), slope.item()) == (0, 3)


def test_vmap_in_place_of_a_loop():
    def dot(x, y):
        return (x * y).sum()

    x, y = gg.arange(6.0).reshape(3, 2), gg.ones(2)
    assert gg.vmap(dot, in_axes=(0, None))(x, y).tolist() == [1, 5, 9]


def test_gradients_of_nested_parameters():
    parameters = {"w": gg.tensor([1.0, 2.0]), "b": gg.tensor(0.5)}
    gradient = gg.grad(lambda p: (p["w"] * 3).sum() + p["b"] ** 2)(parameters)
    assert gradient["w"].tolist() == [3, 3]
    assert gradient["b"].item() == 1
    stepped = tree.map(lambda p, g: p - 0.5 * g, parameters, gradient)
    assert stepped["w"].tolist() == [-0.5, 0.5]


def test_newtons_method():
    """The square root of 2."""
    x = gg.tensor(1.0, dtype=gg.float64)
    for _ in range(6):
        value, slope = gg.value_and_grad(lambda x: x * x - 2)(x)
        x = x - value / slope
    assert_allclose(x.item(), math.sqrt(2), rtol=1e-15)


def test_gradient_descent_by_hand():
    x = gg.tensor([5.0, -3.0], requires_grad=True)
    for _ in range(100):
        loss = ((x - gg.tensor([1.0, 2.0])) ** 2).sum()
        (g,) = gg.autograd.grad(loss, [x])
        with gg.no_grad():
            x -= 0.1 * g
    assert_allclose(x.detach().numpy(), [1, 2], atol=1e-6)


def test_stopping_a_gradient():
    x = gg.tensor(3.0, requires_grad=True)
    (x * x.detach()).backward()
    assert x.grad.item() == 3
    assert gg.grad(lambda x: x * gg.stop_gradient(x))(gg.tensor(3.0)).item() == 3


def test_recomputing_in_place_of_keeping():
    x = gg.tensor([0.3, 0.6], requires_grad=True)
    gg.checkpoint(lambda x: gg.tanh(gg.sin(x)), x).sum().backward()
    s = np.sin([0.3, 0.6])
    assert_allclose(x.grad.numpy(), np.cos([0.3, 0.6]) / np.cosh(s) ** 2, rtol=1e-6)


def test_complex_numbers():
    z = gg.tensor([3 + 4j], requires_grad=True)
    gg.abs(z).sum().backward()
    assert_allclose(z.grad.numpy(), [(3 + 4j) / 5], rtol=1e-6)


# Linear algebra, Fourier transforms, random numbers


def test_solving_linear_equations():
    a, b = gg.tensor([[3.0, 1.0], [1.0, 2.0]]), gg.tensor([9.0, 8.0])
    assert_allclose(gg.linalg.solve(a, b).numpy(), [2, 3], rtol=1e-6)
    assert_allclose(gg.linalg.det(a).item(), 5, rtol=1e-6)


def test_least_squares_with_a_gradient():
    x = gg.tensor([0.0, 1.0, 2.0, 3.0], dtype=gg.float64)
    y = gg.tensor([1.0, 3.0, 5.0, 7.0], dtype=gg.float64, requires_grad=True)
    columns = gg.stack([x, gg.ones_like(x)], axis=1)
    slope, intercept = gg.linalg.pinv(columns) @ y
    assert_allclose([slope.item(), intercept.item()], [2, 1])
    slope.backward()
    assert_allclose(y.grad.numpy(), (x - 1.5).numpy() / 5)


def test_principal_components():
    t = gg.linspace(-1, 1, 50, dtype=gg.float64)
    points = gg.stack([3 * t, 4 * t], axis=1)
    u, s, vh = gg.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    assert_allclose(np.abs(vh[0].numpy()), [0.6, 0.8])
    assert_allclose(s[0].item() ** 2, 25 * (t**2).sum().item())
    assert abs(s[1].item()) < 1e-12
    assert u.shape == (50, 2)


def test_eigenvalues_have_gradients():
    a = gg.tensor([[2.0, 0.0], [0.0, 5.0]], dtype=gg.float64, requires_grad=True)
    values, _ = gg.linalg.eigh(a)
    values[1].backward()
    assert values.tolist() == [2, 5]
    assert_allclose(a.grad.numpy(), [[0, 0], [0, 1]], atol=1e-15)


def test_the_frequency_of_a_sine():
    t = gg.arange(64.0, dtype=gg.float64) / 64
    spectrum = gg.abs(gg.fft.rfft(gg.sin(2 * math.pi * 5 * t)))
    assert spectrum.argmax().item() == 5
    assert_allclose(spectrum[5].item(), 32)
    assert_allclose(gg.fft.irfft(gg.fft.rfft(t)).numpy(), t.numpy(), atol=1e-15)


def test_random_numbers_come_again_with_their_seed():
    gg.manual_seed(7)
    first = gg.random.normal((3,))
    gg.manual_seed(7)
    assert first.tolist() == gg.random.normal((3,)).tolist()
    x = gg.random.uniform((20000,))
    assert abs(x.mean().item() - 0.5) < 0.01
    assert gg.random.permutation(5).sum().item() == 10


# NumPy's and SciPy's names


def test_numpys_functions_on_tensors():
    x = gg.tensor([1.0, 4.0, 9.0], requires_grad=True)
    y = np.sqrt(x).sum() + np.dot(x, np.ones(3))
    y.backward()
    assert_allclose(x.grad.numpy(), 0.5 / np.sqrt([1, 4, 9]) + 1, rtol=1e-6)


def test_a_program_of_autograd():
    def tanh(x):
        return (1.0 - gnp.exp(-2 * x)) / (1.0 + gnp.exp(-2 * x))

    assert_allclose(gg.grad(tanh)(gnp.array(1.0)).item(), 0.419974341614026, rtol=1e-12)


def test_minimizing_as_scipy_does():
    found = optimize.minimize(lambda x: ((x - gg.tensor([1.0, -2.0])) ** 2).sum(), np.zeros(2))
    assert found.success
    assert_allclose(np.asarray(found.x), [1, -2], atol=1e-5)


def test_a_decay_that_is_fitted():
    t = gg.linspace(0, 4, 9, dtype=gg.float64)
    measured = 2 * gg.exp(-0.7 * t)

    def loss(rate):
        return (
            (integrate.odeint(lambda y, t: -rate * y, 2.0, t).reshape(-1) - measured) ** 2
        ).sum()

    found = optimize.minimize(loss, np.array(0.2))
    assert_allclose(np.asarray(found.x), 0.7, atol=1e-4)


def test_the_most_likely_parameters():
    sample = stats.norm.rvs(3.0, 2.0, size=5000, random_state=0)

    def loss(p):
        return -stats.norm.logpdf(sample, p[0], gg.exp(p[1])).mean()

    mean, log_std = np.asarray(optimize.minimize(loss, np.zeros(2)).x)
    assert_allclose([mean, np.exp(log_std)], [sample.mean().item(), sample.std().item()], rtol=1e-3)


def test_interpolation_with_a_gradient():
    y = gg.tensor([0.0, 10.0, 20.0], requires_grad=True)
    value = interpolate.interp1d([0.0, 1.0, 2.0], y)(gg.tensor(1.25))
    value.backward()
    assert_allclose(value.item(), 12.5)
    assert_allclose(y.grad.numpy(), [0, 0.75, 0.25])


def test_smoothing_a_signal():
    x = gg.tensor([0.0, 0.0, 3.0, 0.0, 0.0])
    assert_allclose(
        signal.convolve(x, gg.ones(3) / 3, mode="same").numpy(), [0, 1, 1, 1, 0], atol=1e-6
    )


def test_the_exponential_of_a_rotation():
    turn = linalg.expm(gg.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=gg.float64) * (math.pi / 2))
    assert_allclose(turn.numpy(), [[0, -1], [1, 0]], atol=1e-15)


def test_special_functions():
    x = gg.tensor([0.5, 1.0, 5.0], dtype=gg.float64)
    assert_allclose(
        gg.special.gammaln(x).numpy(), [math.lgamma(v) for v in (0.5, 1, 5)], atol=1e-15
    )
    assert_allclose(gg.special.erf(x).numpy(), [math.erf(v) for v in (0.5, 1, 5)])
    assert_allclose(gg.grad(gg.special.gammaln)(gg.tensor(1.0)).item(), -0.5772156649, rtol=1e-6)


# Layers


def test_the_shape_after_each_layer():
    conv, linear = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 7 * 7, 10)
    model = nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)
    x = gg.zeros((2, 1, 14, 14))
    shapes = [(x := layer(x)).shape for layer in model]
    assert shapes == [(2, 8, 14, 14), (2, 8, 14, 14), (2, 8, 7, 7), (2, 392), (2, 10)]
    assert sum(p.size for p in model.parameters()) == 8 * 9 + 8 + 392 * 10 + 10


def test_softmax_and_cross_entropy():
    logits = gg.tensor([[2.0, 1.0, 0.0]])
    e = np.exp([2.0, 1.0, 0.0])
    assert_allclose(F.softmax(logits, dim=-1).numpy(), [e / e.sum()], rtol=1e-6)
    assert_allclose(gg.softmax(logits, axis=-1).numpy(), [e / e.sum()], rtol=1e-6)
    loss = nn.CrossEntropyLoss()(logits, gg.tensor([0]))
    assert_allclose(loss.item(), math.log(e.sum()) - 2, rtol=1e-6)


def test_losses_of_regression():
    x, y = gg.tensor([1.0, 2.0, 4.0]), gg.tensor([1.0, 0.0, 1.0])
    assert_allclose(F.mse_loss(x, y).item(), (0 + 4 + 9) / 3, rtol=1e-6)
    assert_allclose(F.l1_loss(x, y).item(), 5 / 3, rtol=1e-6)
    assert_allclose(F.huber_loss(x, y).item(), (0 + 1.5 + 2.5) / 3, rtol=1e-6)


def test_batch_normalization_in_both_modes():
    layer = nn.BatchNorm1d(1)
    x = gg.tensor([[1.0], [3.0]])
    assert_allclose(layer(x).detach().numpy(), [[-1], [1]], rtol=1e-4)
    assert_allclose(layer.running_mean.numpy(), [0.2], rtol=1e-6)
    layer.eval()
    expected = (x.numpy() - 0.2) / np.sqrt(0.9 * 1 + 0.1 * 2)
    assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-4)


def test_a_convolution_finds_edges():
    image = gg.tensor([[0.0, 0.0, 1.0, 1.0]] * 3)[None, None]
    kernel = gg.tensor([[-1.0, 0.0, 1.0]])[None, None]
    assert F.conv2d(image, kernel)[0, 0].tolist() == [[1, 1]] * 3


def test_attention_to_the_nearest_key():
    keys = gg.eye(3) * 100
    values = gg.tensor([[1.0], [2.0], [3.0]])
    found = F.scaled_dot_product_attention(gg.eye(3)[1:2] * 10, keys, values)
    assert_allclose(found.numpy(), [[2]], rtol=1e-6)


def test_lengths_of_a_recurrent_layer():
    outputs, (h, c) = nn.LSTM(3, 5, batch_first=True)(gg.zeros((2, 7, 3)))
    assert (outputs.shape, h.shape, c.shape) == ((2, 7, 5), (1, 2, 5), (1, 2, 5))
    assert_allclose(outputs[:, -1].detach().numpy(), h[0].detach().numpy())


# Training


def test_one_step_of_each_optimizer():
    expected = {
        "SGD": 1 - 0.1 * 2,
        "Adam": 1 - 0.1,
        "AdamW": 1 - 0.1 * 0.01 - 0.1,
        "RMSprop": 1 - 0.1 * 2 / math.sqrt(0.01 * 4),
        "Adagrad": 1 - 0.1,
    }
    for name, value in expected.items():
        x = gg.tensor(1.0, requires_grad=True)
        optimizer = getattr(optim, name)([x], lr=0.1)
        (x * x).backward()
        optimizer.step()
        assert_allclose(x.item(), value, rtol=1e-6, atol=1e-6, err_msg=name)


def test_momentum_as_in_the_textbook():
    x = gg.tensor(1.0, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1, momentum=0.9)
    value, velocity = 1.0, 0.0
    for _ in range(5):
        optimizer.zero_grad()
        (x * x).backward()
        optimizer.step()
        velocity = 0.9 * velocity + 2 * value
        value -= 0.1 * velocity
    assert_allclose(x.item(), value, rtol=1e-5)


def test_a_rate_for_each_part():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    before = [p.item() for p in model.parameters()]
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[1].parameters()}]
    optimizer = optim.SGD(groups, lr=0.1)
    model(gg.ones((1, 1))).sum().backward()
    optimizer.step()
    after = [p.item() for p in model.parameters()]
    assert after[0] == before[0]
    assert_allclose(after[1], before[1] - 0.1 * before[0], rtol=1e-5)


def test_the_digits_that_come_with_the_library():
    train, test = data.digits()
    images, labels = train[:]
    assert (len(train), len(test)) == (1437, 360)
    assert images.shape == (1437, 64)
    assert sorted({*labels.tolist()}) == list(range(10))


def test_batches_in_order():
    loader = data.DataLoader(data.TensorDataset(gg.arange(3), gg.arange(3) ** 2), batch_size=2)
    assert [(x.tolist(), y.tolist()) for x, y in loader] == [([0, 1], [0, 1]), ([2], [4])]


def test_shuffled_batches_have_all_samples():
    loader = data.DataLoader(data.TensorDataset(gg.arange(10)), batch_size=3, shuffle=True, seed=1)
    first, second = ([i for (x,) in loader for i in x.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_a_trainer_writes_its_history():
    x = gg.linspace(-1, 1, 32).reshape(-1, 1)
    loader = data.DataLoader(data.TensorDataset(x, 3 * x), batch_size=8, shuffle=True, seed=0)
    model = nn.Linear(1, 1)
    trainer = training.Trainer(
        model,
        optim.SGD(model.parameters(), lr=0.3),
        lambda model, x, y: F.mse_loss(model(x), y),
        loader,
        callbacks=[training.CSVLog("run.csv")],
        checkpoint="run.safetensors",
    )
    history = trainer.fit(epochs=20)
    assert len(history) == 20
    assert history[-1]["training/loss"] < 1e-4
    assert_allclose(model.weight.item(), 3, atol=0.02)
    with open("run.csv") as file:
        assert file.readline().strip() == "epoch,training/loss"
    assert gg.load("run.safetensors")["model"]["weight"].item() == model.weight.item()


def test_a_profile_names_the_operations():
    with tools.profile() as profile:
        gg.exp(gg.ones((50, 50)) @ gg.ones((50, 50))).sum()
    text = str(profile)
    assert all(name in text for name in ("matmul", "exp", "sum"))


def test_finding_where_a_nan_begins():
    x = gg.tensor([0.0, 1.0], requires_grad=True)
    with pytest.raises(FloatingPointError, match=r"^sqrt: its gradient"), gg.detect_anomaly():
        (gg.sqrt(x) * 0).sum().backward()


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
