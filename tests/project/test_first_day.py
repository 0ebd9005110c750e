"""What a person with PyTorch habits writes on the first day, and that it works.

Each test is one program, as short as in a tutorial. `test_mistakes.py` has what does not work. The
layers, optimizers and schedules themselves are compared with PyTorch elsewhere.
"""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest

import gpugrad
from gpugrad import amp, data, nn, optim, tools, training, tree
from gpugrad.nn import functional as F
from gpugrad.scipy import stats
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


def test_the_value_with_its_gradient_and_more_results():
    def loss(w, x, y):
        predicted = x @ w
        return ((predicted - y) ** 2).mean(), predicted

    x, y = plane(8)
    calculate = gpugrad.value_and_grad(loss, has_aux=True)
    (value, predicted), gradient = calculate(gpugrad.zeros((3, 1)), x, y)
    assert_close(value, (y**2).mean())
    assert predicted.shape == (8, 1)
    assert_close(gradient, -2 / 8 * x.T @ y, rtol=1e-5)


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


# Models of many kinds


def test_softmax_regression_without_layers():
    x, labels = blobs()

    def loss(p):
        return F.cross_entropy(x @ p["w"] + p["b"], labels)

    p = {"w": gpugrad.zeros((2, 3)), "b": gpugrad.zeros(3)}
    for _ in range(50):
        p = tree.map(lambda a, g: a - 0.5 * g, p, gpugrad.grad(loss)(p))
    assert loss(p).item() < 0.2


def test_an_autoencoder_of_digits():
    images = data.digits()[0][:128][0]
    model = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 64))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    first, last = fit(model, images, images, optimizer, steps=60)
    assert last < first / 2


def test_a_variational_autoencoder():
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(6, 4), nn.Linear(2, 6)

        def forward(self, x):
            mean, log_var = gpugrad.chunk(self.encode(x), 2, axis=1)
            z = mean + gpugrad.exp(log_var / 2) * gpugrad.random.normal(mean.shape)
            return self.decode(z), -0.5 * (1 + log_var - mean**2 - gpugrad.exp(log_var))

    def loss(outputs, x):
        reconstructed, divergence = outputs
        return F.mse_loss(reconstructed, x) + 0.01 * divergence.sum(axis=1).mean()

    x, model = gpugrad.random.normal((32, 2)) @ gpugrad.random.normal((2, 6)), VAE()
    first, last = fit(model, x, x, optim.Adam(model.parameters(), lr=0.03), loss, steps=100)
    assert last < first / 2


def test_a_generator_and_its_critic():
    generator, critic = nn.Linear(1, 1), nn.MLP(1, [16, 1])
    both = [optim.Adam(m.parameters(), lr=0.01, betas=(0.5, 0.9)) for m in (generator, critic)]
    before = critic[0].weight.tolist()
    for _ in range(100):
        real, fake = gpugrad.random.normal((32, 1)) + 3, generator(gpugrad.random.normal((32, 1)))
        both[1].zero_grad()
        scores = critic(gpugrad.concat([real, fake.detach()]))
        is_real = gpugrad.concat([gpugrad.ones((32, 1)), gpugrad.zeros((32, 1))])
        F.binary_cross_entropy_with_logits(scores, is_real).backward()
        both[1].step()
        both[0].zero_grad()
        F.binary_cross_entropy_with_logits(critic(fake), gpugrad.ones((32, 1))).backward()
        both[0].step()
    assert critic[0].weight.tolist() != before
    assert generator.bias.item() > 0.5


def test_a_classifier_of_sequences():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 2)

        def forward(self, x):
            _, last = self.rnn(x)
            return self.head(last[-1])

    labels = gpugrad.arange(32) % 2
    x = gpugrad.random.normal((32, 6, 1)) + (2 * labels - 1).reshape(-1, 1, 1)
    model = Classifier()
    optimizer = optim.Adam(model.parameters(), lr=0.03)
    fit(model, x, labels, optimizer, F.cross_entropy)
    assert (model(x).argmax(axis=1) == labels).mean().item() > 0.9


def test_the_shapes_of_a_recurrent_layer():
    outputs, (h, c) = nn.LSTM(3, 5, batch_first=True)(gpugrad.zeros((2, 7, 3)))
    assert (outputs.shape, h.shape, c.shape) == ((2, 7, 5), (1, 2, 5), (1, 2, 5))
    assert_close(outputs[:, -1], h[0])
    cell, state = nn.LSTMCell(3, 5), None
    for x in gpugrad.zeros((7, 2, 3)):
        state = cell(x, state)
    assert state[0].shape == (2, 5)


def test_forecasting_a_sine():
    wave = gpugrad.sin(gpugrad.arange(80.0) / 4)
    windows = gpugrad.stack([wave[i : i + 9] for i in range(70)])
    model = nn.Linear(8, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    _, last = fit(model, windows[:, :8], windows[:, 8:], optimizer, steps=200)
    assert last < 0.01


class TinyGPT(nn.Module):
    def __init__(self, tokens, length, width=16):
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, num_layers=1)
        self.head = nn.Linear(width, tokens)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = self.token(x) + self.place(gpugrad.arange(x.shape[1]))
        return self.head(self.blocks(x, mask=mask, is_causal=True))


def test_a_transformer_learns_a_text_and_writes_it():
    text = "abcabcabcabc"
    codes = gpugrad.tensor([ord(c) - ord("a") for c in text])
    model = TinyGPT(3, len(text))

    def loss(logits, targets):
        return F.cross_entropy(logits.reshape(-1, 3), targets.reshape(-1))

    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    fit(model, codes[None, :-1], codes[None, 1:], optimizer, loss, steps=40)
    written = codes[:2]
    with gpugrad.no_grad():
        while len(written) < 8:
            following = model(written[None])[0, -1].argmax()
            written = gpugrad.concat([written, following[None]])
    assert "".join(chr(ord("a") + i) for i in written.tolist()) == "abcabcab"


def test_the_future_does_not_leak():
    model = TinyGPT(5, 6).eval()
    x = gpugrad.tensor([[1, 2, 3, 4, 0, 1]])
    changed = gpugrad.tensor([[1, 2, 3, 0, 4, 4]])
    assert_close(model(x)[:, :3], model(changed)[:, :3], rtol=1e-5, atol=1e-6)


def test_attention_by_hand_is_that_of_the_library():
    q, k, v = (gpugrad.random.normal((2, 4, 5, 8)) for _ in range(3))
    scores = gpugrad.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(8)
    future = gpugrad.triu(gpugrad.ones((5, 5), dtype=gpugrad.bool), k=1)
    weights = gpugrad.softmax(gpugrad.where(future, -math.inf, scores), axis=-1)
    by_hand = gpugrad.einsum("bhqk,bhkd->bhqd", weights, v)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_close(by_hand, expected, rtol=1e-4, atol=1e-5)


def test_padding_does_not_change_what_attention_gives():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = gpugrad.random.normal((1, 3, 8))
    padded = gpugrad.concat([x, gpugrad.ones((1, 2, 8))], axis=1)
    is_padding = gpugrad.tensor([[False, False, False, True, True]])
    expected, _ = attention(x, x, x)
    found, _ = attention(padded, padded, padded, key_padding_mask=is_padding)
    assert_close(found[:, :3], expected, rtol=1e-5, atol=1e-6)


def test_a_unet_of_one_level():
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.Conv2d(1, 4, 3, padding=1)
            self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
            self.out = nn.Conv2d(8, 1, 1)

        def forward(self, x):
            wide = F.relu(self.down(x))
            deep = self.up(F.max_pool2d(wide, 2))
            return self.out(gpugrad.concat([wide, deep], axis=1))

    model, x = UNet(), gpugrad.random.normal((2, 1, 8, 8))
    target = (x > 0).astype(gpugrad.float32)
    loss = F.binary_cross_entropy_with_logits
    first, last = fit(model, x, target, optim.Adam(model.parameters(), lr=0.03), loss)
    assert model(x).shape == x.shape
    assert last < first / 2


def test_the_shape_after_each_layer():
    conv, linear = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 7 * 7, 10)
    model = nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)
    x = gpugrad.zeros((2, 1, 14, 14))
    shapes = [(x := layer(x)).shape for layer in model]
    assert shapes == [(2, 8, 14, 14), (2, 8, 14, 14), (2, 8, 7, 7), (2, 392), (2, 10)]
    assert sum(p.size for p in model.parameters()) == 4010


def test_the_edges_of_an_image():
    image = gpugrad.zeros((1, 1, 5, 5))
    image[..., 2:] = 1.0
    sobel = gpugrad.tensor([[[[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]]])
    edges = F.conv2d(image, sobel)
    assert edges[0, 0, 1].tolist() == [4, 4, 0]


def test_resizing_a_batch_of_images():
    images = gpugrad.arange(16.0).reshape(1, 1, 4, 4)
    small = F.interpolate(images, size=(2, 2), mode="area")
    large = F.interpolate(images, scale_factor=2, mode="bilinear")
    assert small[0, 0].tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert large.shape == (1, 1, 8, 8)


def test_where_a_convolutional_network_looks():
    """Grad-CAM: the gradient of a score by the last feature maps weighs these."""
    conv = nn.Conv2d(1, 3, 3, padding=1)
    model = nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    kept = []
    conv.register_forward_hook(lambda module, args, output: kept.append(output))
    scores = model(gpugrad.random.normal((1, 1, 6, 6)))
    (maps,) = kept
    (gradient,) = gpugrad.autograd.grad(scores[0, 1], maps)
    heat = F.relu((gradient.mean(axis=(2, 3), keepdims=True) * maps).sum(axis=1))
    assert heat.shape == (1, 6, 6)
    assert gradient.shape == maps.shape


def test_word_vectors_from_neighbours():
    text = gpugrad.tensor([0, 1, 0, 1, 2, 3, 2, 3] * 4)
    words, contexts = nn.Embedding(4, 3), nn.Embedding(4, 3)
    model = nn.ModuleList([words, contexts])
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        others = gpugrad.random.integers(0, 4, text[1:].shape)
        near = (words(text[:-1]) * contexts(text[1:])).sum(axis=1)
        far = (words(text[:-1]) * contexts(others)).sum(axis=1)
        loss = -(F.logsigmoid(near) + F.logsigmoid(-far)).mean()
        loss.backward()
        optimizer.step()
    scores = words.weight @ contexts.weight.T
    assert scores[0].argmax().item() == 1
    assert scores[2].argmax().item() == 3


def test_recommendations_by_matrix_factorization():
    ratings = gpugrad.random.normal((6, 2)) @ gpugrad.random.normal((2, 5))
    users, items = gpugrad.nonzero(gpugrad.random.uniform((6, 5)) < 0.8)
    u, v = nn.Embedding(6, 2), nn.Embedding(5, 2)
    optimizer = optim.Adam([*u.parameters(), *v.parameters()], lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.mse_loss((u(users) * v(items)).sum(axis=1), ratings[users, items])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.01


def test_messages_on_a_graph():
    """The sums over the neighbours are a product with the adjacency matrix."""
    source, target = gpugrad.tensor([0, 1, 1, 2]), gpugrad.tensor([1, 0, 2, 1])
    x = gpugrad.random.normal((3, 4), requires_grad=True)
    received = gpugrad.scatter_add(x[source], (3, 4), target)
    adjacency = gpugrad.zeros((3, 3))
    adjacency[target, source] = 1.0
    assert_close(received, adjacency @ x, rtol=1e-6)
    received.sum().backward()
    assert x.grad[:, 0].tolist() == [1, 2, 1]


def test_a_policy_that_is_rewarded():
    logits = gpugrad.zeros(3, requires_grad=True)
    optimizer = optim.Adam([logits], lr=0.1)
    for _ in range(60):
        chances = gpugrad.softmax(logits, axis=0)
        actions = gpugrad.random.multinomial(chances.detach(), 16, replacement=True)
        reward = (actions == 2).astype(gpugrad.float32)
        optimizer.zero_grad()
        (-(F.log_softmax(logits, dim=0)[actions] * (reward - reward.mean())).mean()).backward()
        optimizer.step()
    assert gpugrad.softmax(logits, axis=0)[2].item() > 0.8


def test_a_small_model_learns_from_a_large_one():
    x, labels = blobs()
    teacher, student = nn.MLP(2, [32, 3]), nn.Linear(2, 3)
    fit(teacher, x, labels, optim.Adam(teacher.parameters(), lr=0.02), F.cross_entropy)
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad_(False)

    def distillation(logits, x):
        soft = F.log_softmax(teacher(x) / 2, dim=1)
        return F.kl_div(
            F.log_softmax(logits / 2, dim=1), soft, reduction="batchmean", log_target=True
        )

    fit(student, x, x, optim.Adam(student.parameters(), lr=0.1), distillation, steps=60)
    same = (student(x).argmax(axis=1) == teacher(x).argmax(axis=1)).mean()
    assert same.item() > 0.9


def test_similar_things_come_together():
    x, _ = blobs(30)
    model = nn.Linear(2, 2)
    anchor, positive, negative = x[0::3], gpugrad.roll(x[0::3], 1, axis=0), x[1::3]
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    loss = nn.TripletMarginLoss(margin=1.0)
    for _ in range(40):
        optimizer.zero_grad()
        value = loss(model(anchor), model(positive), model(negative))
        value.backward()
        optimizer.step()
    assert value.item() < 0.2


def test_a_physics_informed_network():
    """u'' = -u with u(0) = 0 and u'(0) = 1; the second derivative is one of a derivative."""
    model = nn.MLP(1, [16, 1], nn.Tanh)
    t = gpugrad.linspace(0, 1, 16).reshape(-1, 1)

    def slope(f):
        return lambda t: gpugrad.jvp(f, (t,), (gpugrad.ones_like(t),))[1]

    def loss(u, t):
        residual = slope(slope(model))(t) + u
        zero = gpugrad.zeros((1, 1))
        return (residual**2).mean() + (model(zero) ** 2 + (slope(model)(zero) - 1) ** 2).sum()

    fit(model, t, t, optim.Adam(model.parameters(), lr=0.02), loss, steps=250)
    assert abs((model(t) - gpugrad.sin(t)).detach().numpy()).max() < 0.05


def test_a_rate_learned_through_training():
    """The gradient of the last loss by the rate of the steps before it."""
    x, y = plane(16)

    def loss(w):
        return ((x @ w - y + 1) ** 2).mean()

    def last(rate):
        w = gpugrad.zeros((3, 1))
        for _ in range(3):
            w = w - rate * gpugrad.grad(loss)(w)
        return loss(w)

    rate = gpugrad.tensor(0.05)
    slope = gpugrad.grad(last)(rate).item()
    difference = (last(rate + 1e-2) - last(rate - 1e-2)).item() / 2e-2
    assert slope == pytest.approx(difference, rel=0.05)
    assert slope < 0


def test_learning_to_learn():
    """MAML: the loss after one step of gradient descent, differentiated by where that began."""
    model = nn.Linear(1, 1)
    start = {name: p.detach() for name, p in model.named_parameters()}

    def task(p, slope):
        x = gpugrad.linspace(-1, 1, 8).reshape(-1, 1)
        return F.mse_loss(nn.functional_call(model, p, (x,)), slope * x)

    def adapted(p, slope):
        gradient = gpugrad.grad(task)(p, slope)
        return task(tree.map(lambda a, g: a - 0.5 * g, p, gradient), slope)

    def over_tasks(p):
        return gpugrad.vmap(adapted, in_axes=(None, 0))(p, gpugrad.tensor([1.0, 2.0, 3.0])).mean()

    before = over_tasks(start).item()
    for _ in range(60):
        start = tree.map(lambda a, g: a - 0.5 * g, start, gpugrad.grad(over_tasks)(start))
    assert over_tasks(start).item() < before
    assert start["weight"].item() == pytest.approx(2, abs=0.1)


def test_an_ensemble_in_one_call():
    models = [nn.MLP(3, [4, 1]) for _ in range(5)]
    names = [name for name, _ in models[0].named_parameters()]
    stacked = {
        name: gpugrad.stack([dict(m.named_parameters())[name].detach() for m in models])
        for name in names
    }
    x, _ = plane(6)
    found = gpugrad.vmap(lambda p: nn.functional_call(models[0], p, (x,)))(stacked)
    assert found.shape == (5, 6, 1)
    assert_close(found[3], models[3](x), rtol=1e-5, atol=1e-6)


def test_quantiles_are_learned_by_the_pinball_loss():
    sample = gpugrad.random.normal((2000,))
    level = gpugrad.tensor([0.1, 0.5, 0.9])
    q = gpugrad.zeros(3, requires_grad=True)
    optimizer = optim.Adam([q], lr=0.05)
    for _ in range(120):
        optimizer.zero_grad()
        error = sample[:, None] - q
        gpugrad.maximum(level * error, (level - 1) * error).mean().backward()
        optimizer.step()
    expected = gpugrad.quantile(sample, level)
    assert_close(q.detach(), expected, atol=0.05)


def test_maximum_likelihood_with_distributions_of_scipy():
    sample = stats.gamma.rvs(3.0, size=4000, random_state=0)
    shape = gpugrad.tensor(1.0, requires_grad=True)
    optimizer = optim.Adam([shape], lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        (-stats.gamma.logpdf(sample, shape).mean()).backward()
        optimizer.step()
    assert shape.item() == pytest.approx(3, abs=0.15)


def test_k_means():
    points, labels = blobs()
    centers = points[:3]
    for _ in range(10):
        nearest = ((points[:, None] - centers) ** 2).sum(axis=-1).argmin(axis=1)
        members = F.one_hot(nearest, 3).astype(points.dtype)
        centers = members.T @ points / members.sum(axis=0)[:, None]
    purity = sum(gpugrad.bincount(labels[nearest == k]).max().item() for k in range(3)) / 60
    assert purity > 0.9


# Data, losses and metrics


def test_the_digits_that_come_with_the_library():
    train, test = data.digits()
    images, labels = train[:]
    assert (len(train), len(test)) == (1437, 360)
    assert images.shape == (1437, 64)
    assert sorted({*labels.tolist()}) == list(range(10))


def test_batches_in_order():
    dataset = data.TensorDataset(gpugrad.arange(3), gpugrad.arange(3) ** 2)
    loader = data.DataLoader(dataset, batch_size=2)
    assert [(x.tolist(), y.tolist()) for x, y in loader] == [([0, 1], [0, 1]), ([2], [4])]


def test_shuffled_batches_have_all_samples():
    dataset = data.TensorDataset(gpugrad.arange(10))
    loader = data.DataLoader(dataset, batch_size=3, shuffle=True, seed=1)
    first, second = ([i for (x,) in loader for i in x.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


def test_a_part_for_validation():
    x, y = plane(50)
    train, valid = data.random_split(data.TensorDataset(x, y), [0.8, 0.2])
    assert (len(train), len(valid)) == (40, 10)
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        for inputs, targets in data.DataLoader(train, batch_size=8, shuffle=True):
            update(model, inputs, targets, optimizer, F.mse_loss)
    model.eval()
    with gpugrad.no_grad():
        losses = [F.mse_loss(model(a), b).item() for a, b in data.DataLoader(valid, 10)]
    assert max(losses) < 1e-3


def test_cross_validation():
    x, y = plane(30)
    dataset = data.TensorDataset(x, y)
    folds = np.array_split(gpugrad.random.permutation(30).numpy(), 3)
    for fold in folds:
        rest = np.setdiff1d(np.arange(30), fold)
        train, test = data.Subset(dataset, rest), data.Subset(dataset, fold)
        assert len(train) + len(test) == 30
        assert not {*train.indices} & {*test.indices}


def test_rare_classes_are_drawn_more_often():
    labels = gpugrad.tensor([0] * 90 + [1] * 10)
    weights = 1 / gpugrad.bincount(labels)[labels]
    sampler = data.WeightedRandomSampler(weights, num_samples=400)
    loader = data.DataLoader(data.TensorDataset(labels), batch_size=100, sampler=sampler)
    drawn = gpugrad.concat([batch for (batch,) in loader])
    assert (drawn == 1).mean().item() == pytest.approx(0.5, abs=0.1)


def test_sentences_of_several_lengths():
    sentences = [[3, 1, 2], [5], [4, 4]]

    def pad(batch):
        lengths = [len(sentence) for sentence in batch]
        rows = [sentence + [0] * (max(lengths) - len(sentence)) for sentence in batch]
        return gpugrad.tensor(rows), gpugrad.tensor(lengths)

    ((tokens, lengths),) = data.DataLoader(sentences, batch_size=3, collate_fn=pad)
    mask = gpugrad.arange(tokens.shape[1]) < lengths[:, None]
    vectors = nn.Embedding(6, 2, padding_idx=0)(tokens)
    mean = (vectors * mask[..., None]).sum(axis=1) / lengths[:, None]
    assert_close(mean[1], vectors[1, 0])
    assert mask.sum().item() == 6


def test_augmented_images():
    images = gpugrad.random.normal((6, 1, 8, 8))
    flip = data.images.Compose([
        data.images.RandomHorizontalFlip(), data.images.RandomCrop(8, padding=2),
        data.images.Normalize([0.5], [0.25]),
    ])  # fmt: skip
    loader = data.DataLoader(data.TensorDataset(images), batch_size=3, transform=flip, seed=0)
    first, second = ([batch for (batch,) in loader] for _ in range(2))
    assert [batch.shape for batch in first] == [(3, 1, 8, 8)] * 2
    assert first[0].tolist() != second[0].tolist()


def test_labels_that_do_not_count():
    logits = gpugrad.random.normal((4, 3), requires_grad=True)
    labels = gpugrad.tensor([0, -100, 2, -100])
    loss = F.cross_entropy(logits, labels)
    assert_close(loss, F.cross_entropy(logits[::2], labels[::2]))
    loss.backward()
    assert (logits.grad[1::2] == 0).all()


def test_several_labels_for_each_example():
    x, _ = plane()
    targets = (x > 0).astype(gpugrad.float32)
    model = nn.Linear(3, 3)
    loss = nn.BCEWithLogitsLoss(pos_weight=gpugrad.tensor([1.0, 2.0, 1.0]))
    fit(model, x, targets, optim.Adam(model.parameters(), lr=0.2), loss, steps=60)
    assert ((model(x) > 0) == (targets > 0.5)).mean().item() > 0.95


def test_weights_and_smoothing_of_classes():
    logits, labels = gpugrad.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), gpugrad.tensor([0, 2])
    log_p = np.log(np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(axis=1, keepdims=True))
    w = np.array([1.0, 1.0, 3.0], "float32")
    loss = nn.CrossEntropyLoss(weight=gpugrad.tensor(w))(logits, labels)
    assert loss.item() == pytest.approx(-(log_p[0, 0] + 3 * log_p[1, 2]) / 4)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.3)(logits, labels)
    hard = -(log_p[0, 0] + log_p[1, 2]) / 2
    assert smooth.item() == pytest.approx(0.7 * hard - 0.3 * log_p.mean(), rel=1e-5)


def test_a_confusion_matrix():
    labels, predicted = gpugrad.tensor([0, 0, 1, 2, 2]), gpugrad.tensor([0, 1, 1, 2, 0])
    matrix = gpugrad.bincount(3 * labels + predicted, minlength=9).reshape(3, 3)
    assert matrix.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    recall = gpugrad.linalg.diagonal(matrix) / matrix.sum(axis=1)
    assert recall.tolist() == [0.5, 1, 0.5]


def test_the_best_k_answers():
    scores = gpugrad.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
    values, indices = gpugrad.topk(scores, 2, axis=1)
    assert values[:, 0].tolist() == scores.max(axis=1).tolist()
    assert indices.tolist() == [[1, 2], [0, 1]]
    hits = gpugrad.any(indices == gpugrad.tensor([[2], [2]]), axis=1)
    assert hits.tolist() == [True, False]


# Optimizers


def test_momentum_as_in_the_textbook():
    x = gpugrad.tensor(1.0, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1, momentum=0.9)
    value, velocity = 1.0, 0.0
    for _ in range(5):
        optimizer.zero_grad()
        (x * x).backward()
        optimizer.step()
        velocity = 0.9 * velocity + 2 * value
        value -= 0.1 * velocity
    assert x.item() == pytest.approx(value, rel=1e-5)


def test_a_rate_for_each_part():
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    before = [p.item() for p in model.parameters()]
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[1].parameters()}]
    optimizer = optim.SGD(groups, lr=0.1)
    model(gpugrad.ones((1, 1))).sum().backward()
    optimizer.step()
    after = [p.item() for p in model.parameters()]
    assert after == pytest.approx([before[0], before[1] - 0.1 * before[0]], rel=1e-5)


def test_no_weight_decay_for_biases_and_norms():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.5}, {"params": others, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=0.1)
    before = {name: gpugrad.asarray(p.detach(), copy=True) for name, p in model.named_parameters()}
    (0 * model(gpugrad.ones((1, 3)))).sum().backward()
    optimizer.step()
    assert_close(model[0].weight.detach(), 0.95 * before["0.weight"], rtol=1e-6)
    assert_close(model[1].weight.detach(), before["1.weight"], rtol=0, atol=0)


def test_unfreezing_later():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    model[0].requires_grad_(False)
    optimizer = optim.SGD(model[1].parameters(), lr=0.1)
    x, y = plane(8)
    update(model, x, y, optimizer, F.mse_loss)
    before = model[0].weight.tolist()
    model[0].requires_grad_(True)
    optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.01})
    update(model, x, y, optimizer, F.mse_loss)
    assert model[0].weight.tolist() != before
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.01]


def test_lbfgs_with_a_closure():
    x = gpugrad.tensor([-1.0, 2.0], dtype=gpugrad.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], max_iter=50, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    optimizer.step(closure)
    assert_close(x.detach(), gpugrad.ones(2, dtype=gpugrad.float64), atol=1e-5)


def test_one_cycle_in_each_step():
    optimizer = optim.SGD([nn.Parameter([1.0])], lr=0.1)
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    rates = []
    for _ in range(10):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(rates) < 10:
            schedule.step()
    assert max(rates) == pytest.approx(1.0)
    assert rates[-1] < rates[0] < rates[1]


def test_a_rate_by_a_formula():
    optimizer = optim.Adam([nn.Parameter([1.0])], lr=2.0)
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    rates = []
    for _ in range(3):
        rates += schedule.get_last_lr()
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([2, 1, 2 / 3])


def test_an_optimizer_of_ones_own():
    class SignSGD(optim.Optimizer):
        def apply_single(self, array, grad, state, step, lr=0.1):
            array -= lr * np.sign(grad)

    x = gpugrad.tensor([1.0, -1.0], requires_grad=True)
    optimizer = SignSGD([x], lr=0.25)
    (x * x).sum().backward()
    optimizer.step()
    assert x.tolist() == [0.75, -0.75]


def test_a_moving_average_of_weights():
    x, y = plane()
    model = nn.Linear(3, 1)
    averaged = optim.swa_utils.AveragedModel(
        model, avg_fn=optim.swa_utils.get_ema_avg_fn(decay=0.5)
    )
    expected = None
    for _ in range(3):
        fit(model, x, y, optim.SGD(model.parameters(), lr=0.1), steps=1)
        averaged.update_parameters(model)
        now = model.weight.detach().numpy().copy()
        expected = now if expected is None else 0.5 * expected + 0.5 * now
    assert_close(averaged.module.weight.detach().numpy(), expected, rtol=1e-5)


def test_a_moving_average_by_hand():
    model = nn.Linear(3, 1)
    shadow = copy.deepcopy(model)
    fit(model, *plane(), optim.SGD(model.parameters(), lr=0.1), steps=1)
    start = shadow.weight.tolist()
    with gpugrad.no_grad():
        for slow, fast in zip(shadow.parameters(), model.parameters(), strict=True):
            slow *= 0.9
            slow += 0.1 * fast
    expected = 0.9 * np.array(start) + 0.1 * model.weight.detach().numpy()
    assert_close(shadow.weight.detach().numpy(), expected.astype("float32"), rtol=1e-5)


def test_clipping_each_element():
    model = nn.Linear(3, 1)
    (100 * F.mse_loss(model(plane()[0]), gpugrad.ones((64, 1)))).backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    assert max(gpugrad.abs(p.grad).max().item() for p in model.parameters()) <= 0.5


def test_a_step_is_left_out_where_the_loss_is_nan():
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = plane(4)
    x[0, 0] = math.nan
    before = model.weight.tolist()
    loss = F.mse_loss(model(x), y)
    if gpugrad.isfinite(loss):
        loss.backward()
        optimizer.step()
    assert model.weight.tolist() == before
    good = gpugrad.isfinite(x).all(axis=1)
    assert F.mse_loss(model(x[good]), y[good]).item() > 0


# Modules in more detail


def test_batch_normalization_in_both_modes():
    layer, x = nn.BatchNorm1d(1), gpugrad.tensor([[1.0], [3.0]])
    assert_close(layer(x), gpugrad.tensor([[-1.0], [1.0]]), rtol=1e-4)
    assert layer.running_mean.item() == pytest.approx(0.2)
    layer.eval()
    expected = (x - 0.2) / math.sqrt(0.9 * 1 + 0.1 * 2)
    assert_close(layer(x), expected, rtol=1e-4)


def test_dropout_keeps_the_mean():
    x, layer = gpugrad.ones((1000, 10)), nn.Dropout(0.25)
    y = layer(x)
    assert (y == 0).mean().item() == pytest.approx(0.25, abs=0.02)
    assert y.mean().item() == pytest.approx(1, abs=0.03)
    assert layer.eval()(x) is x


def test_layers_by_name():
    model = nn.ModuleDict({"image": nn.Linear(4, 2), "text": nn.Linear(3, 2)})
    inputs = {"image": gpugrad.ones((1, 4)), "text": gpugrad.ones((1, 3))}
    total = sum(model[name](x) for name, x in inputs.items())
    assert total.shape == (1, 2)
    assert [name for name, _ in model.named_children()] == ["image", "text"]


def test_another_head_for_a_trained_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    model[2] = nn.Linear(4, 5)
    assert model(gpugrad.ones((2, 3))).shape == (2, 5)
    backbone = model[:2]
    assert backbone[0] is model[0]


def test_a_model_in_double_precision():
    model = nn.MLP(3, [4, 1]).to(gpugrad.float64)
    assert {p.dtype for p in model.parameters()} == {gpugrad.float64}
    x = gpugrad.random.normal((2, 3), dtype=gpugrad.float64)
    assert model(x).dtype == gpugrad.float64
    gradcheck(model, x.requires_grad_())


def test_names_of_another_programs_weights():
    model = nn.Linear(2, 1)
    theirs = {"module.weight": np.ones((1, 2), "float32"), "module.bias": np.zeros(1, "float32")}
    model.load_state_dict({name.removeprefix("module."): x for name, x in theirs.items()})
    assert model(gpugrad.tensor([[2.0, 3.0]])).item() == 5


def test_weights_in_a_file_of_numpy():
    model, again = nn.MLP(3, [4, 1]), nn.MLP(3, [4, 1])
    np.savez("weights.npz", **{name: x.numpy() for name, x in model.state_dict().items()})
    with np.load("weights.npz") as file:
        again.load_state_dict(dict(file))
    x, _ = plane(4)
    assert_close(again(x), model(x), rtol=0, atol=0)


def test_a_model_is_copied_and_pickled():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).eval()
    x, _ = plane(4)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_close(again(x), model(x), rtol=0, atol=0)
        assert again[0].weight is not model[0].weight


def test_hooks_see_gradients():
    model = nn.MLP(3, [4, 1])
    norms = {}
    for name, p in model.named_parameters():
        p.register_hook(lambda g, name=name: norms.update({name: (g**2).sum().item()}))
    model(gpugrad.ones((2, 3))).sum().backward()
    assert {*norms} == {name for name, _ in model.named_parameters()}
    assert norms["2.bias"] == 4


# Programs as a whole


def test_a_trainer_writes_its_history():
    x = gpugrad.linspace(-1, 1, 32).reshape(-1, 1)
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
    assert model.weight.item() == pytest.approx(3, abs=0.02)
    with open("run.csv") as file:
        assert file.readline().strip() == "epoch,training/loss"
    assert gpugrad.load("run.safetensors")["model"]["weight"].item() == model.weight.item()


def test_a_compiled_step_with_a_last_batch_that_is_shorter():
    x, y = plane(50)
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=16)
    results = []
    for compile in (gpugrad.compile, lambda step: step):
        gpugrad.manual_seed(1)
        model = nn.Linear(3, 1)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        step = compile(lambda x, y, m=model, o=optimizer: update(m, x, y, o, F.mse_loss))
        results.append([step(*batch).item() for _ in range(3) for batch in loader])
    assert results[0] == results[1]


def test_a_compiled_model_for_evaluation():
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 1)).eval()
    predict = gpugrad.compile(model)
    x, _ = plane()
    with gpugrad.no_grad():
        expected = model(x)
        for _ in range(3):
            assert_close(predict(x), expected, rtol=0, atol=0)


def test_half_precision_in_a_region():
    a, b = gpugrad.ones((2, 3)), gpugrad.ones((3, 2))
    with amp.autocast("cpu", dtype=gpugrad.float16):
        product = a @ b
        total = product.sum()
    assert product.dtype == gpugrad.float16
    assert total.item() == 12
    assert (a @ b).dtype == gpugrad.float32


def test_a_profile_names_the_operations():
    with tools.profile() as profile:
        gpugrad.exp(gpugrad.ones((50, 50)) @ gpugrad.ones((50, 50))).sum()
    assert all(name in str(profile) for name in ("matmul", "exp", "sum"))


def test_what_the_graph_keeps_in_memory():
    x = gpugrad.ones((100, 100), requires_grad=True)
    with tools.memory_report() as report:
        loss = gpugrad.exp(x).sum()
    assert "exp" in str(report)
    loss.backward()


def test_a_drawing_of_the_graph():
    x = gpugrad.tensor([1.0, 2.0], requires_grad=True)
    text = tools.draw((x * x).sum()).mermaid
    assert "multiply" in text
    assert "sum" in text


def test_numbers_from_tensors_in_plain_python():
    x = gpugrad.tensor([1.0, 2.0, 4.0])
    first, *others = x
    assert (float(first), len(others), len(x)) == (1.0, 2, 3)
    assert [round(v.item()) for v in x] == [1, 2, 4]
    assert max(x.tolist()) == x.max().item() == 4
    assert f"{x.mean():.3f} of {x.shape}" == "2.333 of (3,)"
    assert "abc"[gpugrad.argmax(x)] == "c"
    assert bool((x > 0).all())


# Other libraries


def test_numpys_functions_on_tensors():
    x = gpugrad.tensor([1.0, 4.0, 9.0], requires_grad=True)
    (np.sqrt(x).sum() + np.dot(x, np.ones(3))).backward()
    assert_close(x.grad.numpy(), 0.5 / np.sqrt([1, 4, 9]) + 1, rtol=1e-6)


def test_weights_of_pytorch_and_back():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    ours = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
    ours.load_state_dict({name: x.numpy() for name, x in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
    expected = theirs(torch.tensor(x)).detach().numpy()
    assert_close(ours(gpugrad.asarray(x)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    state = {name: torch.tensor(x.numpy()) for name, x in ours.state_dict().items()}
    theirs.load_state_dict(state)


def test_memory_shared_with_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.arange(4.0)
    t = gpugrad.from_dlpack(x)
    x[0] = 7
    assert t.tolist() == [7, 1, 2, 3]
    assert torch.from_dlpack(gpugrad.ones(3)).sum().item() == 3


def test_a_loader_of_pytorch():
    torch = pytest.importorskip("torch")
    x, y = plane()
    dataset = [(a, b) for a, b in zip(x.numpy(), y.numpy(), strict=True)]
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.2)
    for _ in range(30):
        for inputs, targets in torch.utils.data.DataLoader(dataset, batch_size=16):
            inputs, targets = gpugrad.asarray(inputs.numpy()), gpugrad.asarray(targets.numpy())
            loss = update(model, inputs, targets, optimizer, F.mse_loss)
    assert loss.item() < 1e-4


def test_a_root_found_by_scipy_with_a_jacobian():
    from scipy.optimize import root

    def equations(x):
        x = gpugrad.asarray(x)
        cube = (x[0] - x[1]) ** 3 / 2
        return gpugrad.stack([x[0] + cube - 1, x[1] - cube])

    jacobian = gpugrad.jacobian(equations)
    found = root(lambda x: equations(x).numpy(), np.zeros(2), jac=lambda x: jacobian(x).numpy())
    assert found.success
    assert found.x == pytest.approx([0.8411639, 0.1588361])


def test_there_are_a_hundred_programs():
    programs = [name for name in globals() if name.startswith("test_")]
    assert len(programs) > 100  # besides this one
