"""What a person with PyTorch habits writes on the first day, and that it works.

Each test is one program, as short as in a tutorial. `test_mistakes.py` has what does not work. The
layers, optimizers and schedules themselves are compared with PyTorch elsewhere.
"""

import dataclasses
import math

import numpy as np
import pytest

import gpugrad
from gpugrad import amp, data, nn, optim
from gpugrad.nn import functional as F
from gpugrad.testing import assert_close, gradcheck


@pytest.fixture(autouse=True)
def seeded(tmp_path, monkeypatch):
    """The same random numbers in each program, and a folder of its own for files."""
    monkeypatch.chdir(tmp_path)
    gpugrad.manual_seed(0)


def plane(n=64):
    """Inputs (n, 3) and targets (n, 1), a linear function of them."""
    x = gpugrad.random.normal((n, 3))
    return x, x @ gpugrad.tensor([[1.0], [-2.0], [0.5]]) + 1


def blobs(n=60):
    """Points (n, 2) around three centers, and the numbers (n,) of the centers."""
    labels = gpugrad.arange(n) % 3
    centers = gpugrad.tensor([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    return centers[labels] + gpugrad.random.normal((n, 2)), labels


def fit(model, x, y, optimizer, loss=F.mse_loss, steps=30):
    """Train on all samples at once; return the first and the last loss."""
    losses = [update(model, x, y, optimizer, loss).item() for _ in range(steps)]
    return losses[0], losses[-1]


def update(model, x, y, optimizer, loss):
    optimizer.zero_grad()
    value = loss(model(x), y)
    value.backward()
    optimizer.step()
    return value


# Training


def test_linear_regression():
    x, y = plane()
    model = nn.Linear(3, 1)
    _, last = fit(model, x, y, optim.SGD(model.parameters(), lr=0.2), steps=60)
    assert last < 1e-5
    assert_close(model.bias, gpugrad.tensor([1.0]), atol=0.01)


def test_classification_with_accuracy():
    x, labels = blobs()
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(inplace=True), nn.Linear(16, 3))
    fit(model, x, labels, optim.Adam(model.parameters(), lr=0.05), nn.CrossEntropyLoss())
    assert (model(x).argmax(axis=1) == labels).mean().item() > 0.9


def test_binary_classification_with_logits():
    x, y = plane()
    target = (y > 1).astype(gpugrad.float32)
    model = nn.Linear(3, 1)
    fit(model, x, target, optim.AdamW(model.parameters(), lr=0.3), nn.BCEWithLogitsLoss())
    right = (gpugrad.special.expit(model(x)) > 0.5) == (target > 0.5)
    assert right.mean().item() > 0.95


def test_minibatches_of_a_loader():
    x, y = plane()
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=16, shuffle=True, drop_last=True)
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(40):
        for inputs, targets in loader:
            optimizer.zero_grad(set_to_none=True)
            F.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    assert F.mse_loss(model(x), y).item() < 1e-3
    assert len(loader) == 4


def test_a_dataset_class_of_ones_own():
    class Squares(data.Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, i):
            return np.float32(i), {"square": np.float32(i**2)}

    batches = list(data.DataLoader(Squares(), batch_size=4))
    assert [len(numbers) for numbers, _ in batches] == [4, 4, 2]
    assert batches[1][1]["square"].tolist() == [16.0, 25.0, 36.0, 49.0]


def test_evaluation_mode_and_no_grad():
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
    x, _ = plane()
    model.train()
    model(x)
    model.eval()
    with gpugrad.no_grad():
        first, second = model(x), model(x)
    assert_close(first, second, rtol=0, atol=0)
    assert not first.requires_grad


def test_early_stopping_with_the_best_weights():
    x, y = plane()
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    best, best_weights, patience = math.inf, None, 0
    while patience < 2:
        fit(model, x, y, optimizer, steps=5)
        loss, patience = F.mse_loss(model(x), y).item(), patience + 1
        if loss < best - 1e-4:
            best, best_weights, patience = loss, model.state_dict(), 0
    model.load_state_dict(best_weights)
    assert F.mse_loss(model(x), y).item() == pytest.approx(best, abs=1e-7)


def test_gradient_accumulation():
    x, y = plane()
    model = nn.Linear(3, 1)
    for part in range(4):
        rows = slice(16 * part, 16 * (part + 1))
        (F.mse_loss(model(x[rows]), y[rows]) / 4).backward()
    accumulated = gpugrad.asarray(model.weight.grad, copy=True)
    model.zero_grad()
    F.mse_loss(model(x), y).backward()
    assert_close(accumulated, model.weight.grad, rtol=1e-4, atol=1e-6)


def test_gradient_clipping():
    x, y = plane()
    model = nn.Linear(3, 1)
    (100 * F.mse_loss(model(x), y)).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    assert norm.item() > 1
    total = sum((p.grad**2).sum().item() for p in model.parameters())
    assert total == pytest.approx(1, rel=1e-3)


def test_a_compiled_step():
    x, y = plane()
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.2)
    step = gpugrad.compile(lambda x, y: update(model, x, y, optimizer, F.mse_loss))
    losses = [step(x, y).item() for _ in range(20)]
    assert losses[-1] < losses[0] / 100


def test_mixed_precision():
    x, y = plane()
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scaler = amp.GradScaler("cpu", init_scale=256.0)
    for _ in range(20):
        optimizer.zero_grad()
        with amp.autocast("cpu", dtype=gpugrad.float16):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert loss.item() < 0.1
    assert model.weight.dtype == gpugrad.float32


# Schedules


def test_cosine_schedule_after_a_warm_up():
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    warm = optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    cosine = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7)
    schedule = optim.lr_scheduler.SequentialLR(optimizer, [warm, cosine], milestones=[3])
    rates = []
    for _ in range(10):
        optimizer.step()
        rates.append(schedule.get_last_lr()[0])
        schedule.step()
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == pytest.approx(1.0)
    assert schedule.get_last_lr()[0] == pytest.approx(0, abs=1e-12)


def test_step_schedule_and_its_state():
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    for _ in range(4):
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
    again = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    again.load_state_dict(schedule.state_dict())
    assert again.last_epoch == 4


def test_reduce_on_plateau():
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=1.0)
    schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    for _ in range(4):
        schedule.step(1.0)
    assert optimizer.param_groups[0]["lr"] == 0.5


# Modules


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.scale = nn.Parameter(gpugrad.zeros(width))

    def forward(self, x):
        return x + self.scale * self.layers(self.norm(x))


def test_a_module_of_ones_own():
    model = nn.Sequential(nn.Linear(3, 8), Residual(8), nn.Linear(8, 1))
    x, y = plane()
    first, last = fit(model, x, y, optim.Adam(model.parameters(), lr=0.01))
    assert last < first
    assert "1.layers.0.weight" in model.state_dict()
    assert "Residual" in repr(model)


def test_layers_in_a_list():
    class Deep(nn.Module):
        def __init__(self, listed):
            super().__init__()
            self.layers = listed([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = F.relu(layer(x))
            return x

    model = Deep(nn.ModuleList)
    assert model(gpugrad.ones((2, 4))).shape == (2, 4)
    assert len(list(model.parameters())) == 6
    with pytest.raises(TypeError, match="ModuleList"):
        optim.SGD(Deep(list).parameters(), lr=0.1)


def test_weight_tying():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(self.embed(tokens))

    model = Tied()
    assert len(list(model.parameters())) == 1
    F.cross_entropy(model(gpugrad.arange(10)), gpugrad.arange(10)).backward()
    assert model.embed.weight.grad is model.head.weight.grad is not None


def test_freezing_a_part():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    for p in model[0].parameters():
        p.requires_grad = False
    before = gpugrad.asarray(model[0].weight, copy=True)
    trained = [p for p in model.parameters() if p.requires_grad]
    fit(model, *plane(), optim.SGD(trained, lr=0.1), steps=3)
    assert_close(model[0].weight, before, rtol=0, atol=0)
    assert model[0].weight.grad is None


def test_buffers_are_in_the_state():
    model = nn.Module()
    model.register_buffer("mean", gpugrad.tensor([1.0, 2.0]))
    assert list(model.state_dict()) == ["mean"]
    assert list(model.parameters()) == []


def test_initializing_weights():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

    def initialize(module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    model.apply(initialize)
    assert not gpugrad.any(model[0].bias)


def test_counting_parameters():
    model = nn.MLP(3, [4, 1])
    assert sum(p.size for p in model.parameters()) == 21
    assert "21" in str(nn.summary(model, gpugrad.ones((1, 3))))


def test_a_cnn():
    convolution, linear = nn.Conv2d(1, 4, kernel_size=3, padding=1), nn.Linear(4 * 4 * 4, 2)
    model = nn.Sequential(convolution, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)
    images = gpugrad.random.normal((16, 1, 8, 8))
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype(gpugrad.int64)
    images = images + 2 * labels.reshape(-1, 1, 1, 1)
    first, last = fit(model, images, labels, optim.Adam(model.parameters()), F.cross_entropy, 10)
    assert last < first


def test_attention():
    attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    x = gpugrad.random.normal((2, 5, 8))
    out, weights = attention(x, x, x)
    assert out.shape == (2, 5, 8)
    assert_close(weights.sum(axis=-1), gpugrad.ones((2, 5)))


def test_an_embedding_of_words():
    embedding = nn.Embedding(5, 3)
    embedding(gpugrad.tensor([1, 1, 4])).sum().backward()
    assert embedding.weight.grad.sum(axis=1).tolist() == [0.0, 6.0, 0.0, 0.0, 3.0]


# Losses and gradients


def test_a_loss_of_ones_own():
    def focal(logits, labels, gamma=2.0):
        log_p = F.log_softmax(logits, dim=1)
        log_p = gpugrad.take_along_axis(log_p, labels[:, None], axis=1)
        return -((1 - gpugrad.exp(log_p)) ** gamma * log_p).mean()

    x, labels = blobs()
    model = nn.Linear(2, 3)
    first, last = fit(model, x, labels, optim.SGD(model.parameters(), lr=0.5), focal)
    assert last < first / 2


def test_gradient_penalty():
    critic = nn.MLP(3, [8, 1], nn.Tanh)
    x = gpugrad.random.normal((5, 3), requires_grad=True)
    (gradient,) = gpugrad.autograd.grad(critic(x).sum(), x, create_graph=True)
    ((gradient**2).sum(axis=1) - 1).mean().backward()
    assert critic[0].weight.grad is not None


def test_hooks_see_features():
    model = nn.MLP(3, [4, 1])
    features = []
    with model[0].register_forward_hook(lambda module, args, output: features.append(output)):
        model(gpugrad.ones((2, 3)))
    assert features[0].shape == (2, 4)


def test_per_example_gradients():
    model = nn.Linear(3, 1)
    x, y = plane(5)
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, x, y):
        return F.mse_loss(nn.functional_call(model, weights, (x,)), y)

    each = gpugrad.vmap(gpugrad.grad(loss), in_axes=(None, 0, 0))(weights, x, y)
    assert each["weight"].shape == (5, 1, 3)


def test_an_operation_with_its_own_gradient():
    @gpugrad.custom_vjp
    def straight_through(x):
        return gpugrad.sign(x)

    straight_through.defvjp(lambda x: (straight_through(x), None), lambda saved, g: (g,))
    x = gpugrad.tensor([-0.5, 2.0], requires_grad=True)
    straight_through(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


# Checkpoints


def test_saving_and_loading_a_model():
    model, again = nn.MLP(3, [4, 1]), nn.MLP(3, [4, 1])
    gpugrad.save(model.state_dict(), "model.safetensors")
    again.load_state_dict(gpugrad.load("model.safetensors"))
    x, _ = plane()
    assert_close(again(x), model(x), rtol=0, atol=0)


def test_resuming_with_the_optimizer():
    x, y = plane()
    model = nn.Linear(3, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    fit(model, x, y, optimizer, steps=3)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    gpugrad.save(state, "run.safetensors")
    expected = fit(model, x, y, optimizer, steps=3)

    state, model = gpugrad.load("run.safetensors"), nn.Linear(3, 1)
    model.load_state_dict(state["model"])
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    optimizer.load_state_dict(state["optimizer"])
    assert state["epoch"] == 3
    assert fit(model, x, y, optimizer, steps=3) == expected


def test_loading_a_part_of_the_weights():
    backbone = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    model = nn.Sequential(*backbone, nn.Linear(4, 2))
    found = model.load_state_dict(backbone.state_dict(), strict=False)
    assert found.missing_keys == ["2.weight", "2.bias"]
    with pytest.raises((KeyError, RuntimeError, ValueError), match=r"2\.weight"):
        model.load_state_dict(backbone.state_dict())


# NumPy, SciPy and others


def test_numpy_in_and_out():
    array = np.linspace(0, 1, 4, dtype="float32")
    t = gpugrad.asarray(array)
    assert np.shares_memory(t.array, array)
    assert isinstance(t.numpy(), np.ndarray)
    assert type(t + array) is gpugrad.Tensor
    assert type(array * t) is gpugrad.Tensor
    assert np.asarray(gpugrad.ones(3, requires_grad=True).detach()).tolist() == [1, 1, 1]


def test_a_tensor_with_a_gradient_says_to_detach():
    x = gpugrad.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        np.asarray(x)


def test_scipy_minimizes_with_gradients():
    from scipy.optimize import minimize

    def energy(x):
        x = gpugrad.asarray(x)
        return ((x - 3) ** 2).sum() + (x**4).sum()

    result = minimize(energy, np.zeros(2), jac=gpugrad.grad(energy))
    assert result.success
    assert abs(gpugrad.grad(energy)(result.x).numpy()).max() < 1e-4


def test_a_numpy_program_is_differentiated():
    import gpugrad.numpy as gnp

    def energy(x):
        return gnp.sum(gnp.diff(gnp.sort(x)) ** 2)

    x = np.array([0.3, 0.1, 0.7])
    gradcheck(energy, gpugrad.tensor(x, requires_grad=True))
    assert gpugrad.grad(energy)(x).dtype == gpugrad.float64


def test_plotting_a_curve_of_losses():
    from matplotlib.figure import Figure

    losses = gpugrad.tensor([3.0, 2.0, 1.5])
    figure = Figure()
    (line,) = figure.subplots().plot(losses)
    assert line.get_ydata().tolist() == [3.0, 2.0, 1.5]
    figure.savefig("losses.png")


# Notebooks, scripts, typing


def test_how_a_notebook_shows_a_tensor():
    x = gpugrad.tensor([[1.0, 2.0]], requires_grad=True)
    assert repr(x) == "tensor([[1., 2.]], requires_grad=True)"
    assert f"{x.sum():.2f}" == "3.00"
    with np.printoptions(precision=2):
        assert repr(gpugrad.tensor([1 / 3])) == "tensor([0.33])"


def test_restarting_a_cell_gives_the_same_numbers():
    def cell():
        gpugrad.manual_seed(7)
        model = nn.MLP(3, [8, 1])
        return fit(model, *plane(), optim.Adam(model.parameters()), steps=3)

    assert cell() == cell()


def test_a_device_flag():
    device = "cuda" if gpugrad.cuda.is_available() else "cpu"
    model = nn.Linear(3, 1).to(device)
    assert model(gpugrad.ones((2, 3), device=device)).device.startswith(device)
    if not gpugrad.cuda.is_available():
        with pytest.raises(RuntimeError) as error:
            model.to("cuda")
        assert gpugrad.cuda.why_not() in str(error.value)


def test_configuration_in_a_dataclass():
    @dataclasses.dataclass
    class Parameters:
        w: gpugrad.Tensor
        b: gpugrad.Tensor

    def loss(p: Parameters) -> gpugrad.Tensor:
        return ((p.w + p.b) ** 2).sum()

    gradient = gpugrad.grad(loss)(Parameters(gpugrad.ones(2), gpugrad.zeros(2)))
    assert isinstance(gradient, Parameters)
    assert gradient.b.tolist() == [2.0, 2.0]
