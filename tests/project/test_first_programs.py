"""Programs of a first day, one for each thing that people try, with values that are known.

`test_first_day.py` has those in which a model is trained. Here each is as a person writes it who
has read one page, and asserts what a formula, a table of constants or NumPy says.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpugrad as gg
import gpugrad.numpy as gnp  # noqa: F401  in LINES
from gpugrad import data, nn, optim, tools, training, tree
from gpugrad.nn import functional as F
from gpugrad.scipy import integrate, optimize, stats


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gg.manual_seed(0)


# Programs of one line, and what they give: exactly, or up to rounding after "about".
LINES = """
gg.tensor([[1, 2], [3, 4]], dtype=gg.float32).dtype  # gg.float32
gg.tensor([[1, 2], [3, 4]]).shape  # (2, 2)
gg.tensor([[1, 2], [3, 4]]).size  # 4
gg.arange(0, 10, 3)  # [0, 3, 6, 9]
gg.linspace(0, 1, 5)  # [0, 0.25, 0.5, 0.75, 1]
gg.eye(2)  # [[1, 0], [0, 1]]
gg.full((2,), 7)  # [7, 7]
TABLE[1, 2]  # 6
TABLE[:, -1]  # [3, 7, 11]
TABLE[::2, 1:3]  # [[1, 2], [9, 10]]
TABLE[TABLE > 8]  # [9, 10, 11]
TABLE[gg.tensor([2, 0]), 0]  # [8, 0]
TABLE[None, ..., 0].shape  # (1, 3)
gg.arange(1, 4).reshape(-1, 1) * gg.arange(1, 4)  # [[1, 2, 3], [2, 4, 6], [3, 6, 9]]
(POINTS - POINTS.mean(axis=0)) / POINTS.std(axis=0, correction=1)  # [[-1, -1], [0, 0], [1, 1]]
gg.linalg.vector_norm(POINTS[:, None] - POINTS, axis=-1)  # [[0, 5, 10], [5, 0, 5], [10, 5, 0]]
gg.concat([gg.ones((2, 2)), gg.zeros((2, 1))], axis=1)  # [[1, 1, 0], [1, 1, 0]]
gg.stack([MATRIX, MATRIX]).shape  # (2, 2, 2)
gg.split(gg.arange(6), 2)  # [[0, 1, 2], [3, 4, 5]]
gg.sort(gg.tensor([3, 1, 2, 3, 1, 3]))  # [1, 1, 2, 3, 3, 3]
gg.argsort(gg.tensor([3.0, 1.0, 2.0]))  # [1, 2, 0]
gg.unique_counts(gg.tensor([3, 1, 2, 3, 1, 3]))  # [[1, 2, 3], [2, 1, 3]]
gg.bincount(gg.tensor([3, 1, 2, 3, 1, 3]))  # [0, 2, 1, 3]
gg.topk(gg.tensor([0.1, 0.7, 0.05, 0.15]), 2).values  # about [0.7, 0.15]
gg.topk(gg.tensor([0.1, 0.7, 0.05, 0.15]), 2).indices  # [1, 3]
gg.argmax(gg.tensor([0.1, 0.7, 0.05, 0.15]))  # 1
gg.quantile(gg.arange(101.0), 0.9)  # 90
gnp.median(gg.arange(101.0))  # 50
F.one_hot(gg.tensor([2, 0, 1]), 3)  # [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
F.one_hot(gg.tensor([2, 0, 1]), 3).argmax(axis=-1)  # [2, 0, 1]
gg.einsum("ij,jk->ik", MATRIX, gg.arange(4.0).reshape(2, 2))  # [[2, 6], [4, 7]]
gg.einsum("ii->", gg.eye(4))  # 4
gg.einsum("ij->ji", TABLE)  # [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
gg.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(THREE, gg.tensor(4.0))  # [12, [4, 3]]
gg.hessian(rosenbrock)(gg.tensor([1.0, 1.0]))  # [[802, -400], [-400, 200]]
gg.hvp(lambda x: x @ MATRIX @ x / 2)(gg.tensor([5.0, 7.0]), gg.tensor([1.0, -1.0]))  # [2, -1]
gg.jvp(gg.sin, (gg.tensor(0.0),), (THREE,))  # [0, 3]
gg.vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(MATRIX, gg.ones(2))  # [4, 3]
gg.grad(lambda a, b: (a * b + a) ** 2, (0, 1))(gg.tensor(2.0), THREE)  # [64, 32]
gg.grad(lambda x: 2**x)(THREE)  # about 8 * math.log(2)
gg.grad(lambda x: x * gg.stop_gradient(x))(THREE)  # 3
gg.grad(lambda x: x * x.detach())(THREE)  # 3
gg.grad(lambda x: gg.checkpoint(lambda x: gg.exp(x * x), x))(gg.tensor(1.0))  # about 2 * math.e
gg.grad(lambda z: gg.abs(z).sum())(gg.tensor([3 + 4j]))  # about [(3 + 4j) / 5]
gg.grad(lambda x: (1 - gnp.exp(-2 * x)) / (1 + gnp.exp(-2 * x)))(1.0)  # about 1 / math.cosh(1) ** 2
gg.grad(gg.grad(gg.grad(lambda x: gg.exp(2 * x))))(gg.tensor(0.0))  # about 8
gg.linalg.solve(MATRIX, gg.tensor([9.0, 8.0]))  # about [2, 3]
gg.linalg.det(MATRIX)  # about 5
gg.scipy.linalg.expm(TURN * math.pi / 2)  # about TURN
gg.special.gammaln(NUMBERS)  # about [math.lgamma(v) for v in (0.5, 1, 5)]
gg.special.erf(NUMBERS)  # about [math.erf(v) for v in (0.5, 1, 5)]
gg.grad(gg.special.gammaln)(gg.tensor(1.0))  # about -np.euler_gamma
gg.scipy.interpolate.interp1d(range(3), gg.tensor([0.0, 10.0, 20.0]))(AT)  # about 12.5
gg.grad(lambda y: gg.scipy.interpolate.interp1d(range(3), y)(AT))(gg.ones(3))  # about [0, 3/4, 1/4]
gg.scipy.signal.convolve(3 * gg.eye(5)[2], gg.ones(3) / 3, mode="same")  # about [0, 1, 1, 1, 0]
F.mse_loss(gg.tensor([1.0, 2.0, 4.0]), gg.tensor([1.0, 0.0, 1.0]))  # about 13 / 3
F.l1_loss(gg.tensor([1.0, 2.0, 4.0]), gg.tensor([1.0, 0.0, 1.0]))  # about 5 / 3
F.huber_loss(gg.tensor([1.0, 2.0, 4.0]), gg.tensor([1.0, 0.0, 1.0]))  # about 4 / 3
F.conv2d(STEPS, gg.tensor([[[[-1.0, 0.0, 1.0]]]]))  # [[[[1, 1], [1, 1]]]]
F.scaled_dot_product_attention(gg.eye(3)[1:2] * 10, gg.eye(3) * 100, POINTS)  # about [[3, 4]]
F.softmax(LOGITS, dim=-1)  # about [E / E.sum()]
gg.softmax(LOGITS, axis=-1)  # about [E / E.sum()]
nn.CrossEntropyLoss()(LOGITS, gg.tensor([0]))  # about math.log(E.sum()) - 2
""".strip().splitlines()
TABLE = gg.arange(12).reshape(3, 4)
POINTS = gg.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
MATRIX = gg.tensor([[3.0, 1.0], [1.0, 2.0]])
TURN = gg.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=gg.float64)
STEPS = gg.tensor([[[[0.0, 0.0, 1.0, 1.0]] * 2]])
THREE, AT, NUMBERS = gg.tensor(3.0), gg.tensor(1.25), gg.tensor([0.5, 1, 5], dtype=gg.float64)
LOGITS, E = gg.tensor([[2.0, 1.0, 0.0]]), np.exp([2.0, 1.0, 0.0])


def plain(value):
    """Return a result without tensors and tuples."""
    if isinstance(value, tuple | list):
        return [*map(plain, value)]
    return value.tolist() if isinstance(value, gg.Tensor) else value


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize("line", LINES, ids=[line.partition("  # ")[0] for line in LINES])
def test_one_line(line):
    program, _, expected = line.partition("  # ")
    found, value = eval(program), plain(eval(expected.removeprefix("about ")))
    if expected.startswith("about "):
        rtol, atol = (1e-12, 1e-15) if found.dtype == gg.float64 else (1e-6, 1e-7)
        assert_allclose(plain(found), value, rtol=rtol, atol=atol)
    else:
        assert plain(found) == value


# Tensors and gradients


def test_writing_into_a_tensor():
    x = gg.zeros((2, 3))
    x[0] = 1.0
    x[:, 2] = gg.tensor([5.0, 6.0])
    x[x == 0] = -1.0
    assert x.tolist() == [[1, 1, 5], [-1, -1, 6]]


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


# Linear algebra, Fourier transforms, random numbers


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
    (np.sqrt(x).sum() + np.dot(x, np.ones(3))).backward()
    assert_allclose(x.grad.numpy(), 0.5 / np.sqrt([1, 4, 9]) + 1, rtol=1e-6)


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


# Layers


def test_the_shape_after_each_layer():
    conv, linear = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 7 * 7, 10)
    model = nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)
    x = gg.zeros((2, 1, 14, 14))
    shapes = [(x := layer(x)).shape for layer in model]
    assert shapes == [(2, 8, 14, 14), (2, 8, 14, 14), (2, 8, 7, 7), (2, 392), (2, 10)]
    assert sum(p.size for p in model.parameters()) == 8 * 9 + 8 + 392 * 10 + 10


def test_batch_normalization_in_both_modes():
    layer = nn.BatchNorm1d(1)
    x = gg.tensor([[1.0], [3.0]])
    assert_allclose(layer(x).detach().numpy(), [[-1], [1]], rtol=1e-4)
    assert_allclose(layer.running_mean.numpy(), [0.2], rtol=1e-6)
    layer.eval()
    expected = (x.numpy() - 0.2) / np.sqrt(0.9 * 1 + 0.1 * 2)
    assert_allclose(layer(x).detach().numpy(), expected, rtol=1e-4)


def test_lengths_of_a_recurrent_layer():
    outputs, (h, c) = nn.LSTM(3, 5, batch_first=True)(gg.zeros((2, 7, 3)))
    assert (outputs.shape, h.shape, c.shape) == ((2, 7, 5), (1, 2, 5), (1, 2, 5))
    assert_allclose(outputs[:, -1].detach().numpy(), h[0].detach().numpy())


# Training


@pytest.mark.parametrize("name, value", [
    ("SGD", 1 - 0.1 * 2), ("Adam", 1 - 0.1), ("AdamW", 1 - 0.1 * 0.01 - 0.1),
    ("RMSprop", 1 - 0.1 * 2 / math.sqrt(0.01 * 4)), ("Adagrad", 1 - 0.1),
])  # fmt: skip
def test_one_step_of_an_optimizer(name, value):
    x = gg.tensor(1.0, requires_grad=True)
    optimizer = getattr(optim, name)([x], lr=0.1)
    (x * x).backward()
    optimizer.step()
    assert_allclose(x.item(), value, rtol=1e-6, atol=1e-6)


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
