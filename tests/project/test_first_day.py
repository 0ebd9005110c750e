"""What a person with PyTorch habits writes on the first day, and that it works.

Each test is one program, as short as in a tutorial, whose result a formula or the data gives.
`test_mistakes.py` has what does not work. The layers, optimizers and schedules themselves are
compared with PyTorch elsewhere.
"""

import copy
import math
from functools import partial

import numpy as np
import pytest
from both_ways import training
from numpy.testing import assert_allclose

import gpugrad as gg
from gpugrad import data, nn, optim, tools, tree
from gpugrad.nn import functional as F
from gpugrad.scipy import integrate, interpolate, optimize, stats
from gpugrad.testing import assert_close, gradcheck


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own for the files of each program."""
    monkeypatch.chdir(tmp_path)


def plane(n=64):
    """Inputs (n, 3) and targets (n, 1), a linear function of them."""
    x = gg.random.normal((n, 3))
    return x, x @ gg.tensor([[1.0], [-2.0], [0.5]]) + 1


def blobs(n=60):
    """Points (n, 2) around three centers, and the numbers (n,) of the centers."""
    labels, centers = gg.arange(n) % 3, gg.tensor([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    return centers[labels] + gg.random.normal((n, 2)), labels


def minimize(optimizer, loss, steps):
    """Return the values of ``loss()`` before each step."""
    step = training(optimizer, loss)
    return [step().item() for _ in range(steps)]


def fit(model, x, y, optimizer, loss=F.mse_loss, steps=30):
    """Train on all samples at once; return the losses."""
    return minimize(optimizer, lambda: loss(model(x), y), steps)


def share(found, expected):
    """The share of right answers."""
    return (found == expected).mean().item()


# Training


def test_linear_regression():
    model = nn.Linear(3, 1)
    assert fit(model, *plane(), optim.SGD(model.parameters(), lr=0.2), steps=60)[-1] < 1e-5
    assert_close(model.bias, gg.tensor([1.0]), atol=0.01)


def test_classification_with_accuracy():
    x, labels = blobs()
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(inplace=True), nn.Linear(16, 3))
    fit(model, x, labels, optim.Adam(model.parameters(), lr=0.05), nn.CrossEntropyLoss())
    assert share(model(x).argmax(axis=1), labels) > 0.9


def test_binary_classification_with_logits():
    model, (x, y) = nn.Linear(3, 1), plane()
    target = (y > 1).astype(gg.float32)
    fit(model, x, target, optim.AdamW(model.parameters(), lr=0.3), nn.BCEWithLogitsLoss())
    assert share(gg.special.expit(model(x)) > 0.5, target > 0.5) > 0.95


def test_minibatches_of_a_loader():
    model, (x, y) = nn.Linear(3, 1), plane()
    loader = data.DataLoader(data.TensorDataset(x, y), batch_size=16, shuffle=True, drop_last=True)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(40):
        for inputs, targets in loader:
            optimizer.zero_grad(set_to_none=True)
            F.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    assert F.mse_loss(model(x), y).item() < 1e-3
    assert len(loader) == 4


def test_gradient_accumulation():
    model, (x, y) = nn.Linear(3, 1), plane()
    for rows in gg.split(gg.arange(64), 4):
        (F.mse_loss(model(x[rows]), y[rows]) / 4).backward()
    accumulated = gg.asarray(model.weight.grad, copy=True)
    model.zero_grad()
    F.mse_loss(model(x), y).backward()
    assert_close(accumulated, model.weight.grad, rtol=1e-4, atol=1e-6)


def test_gradient_clipping():
    model, (x, y) = nn.Linear(3, 1), plane()
    (100 * F.mse_loss(model(x), y)).backward()
    assert nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0).item() > 1
    assert sum((p.grad**2).sum().item() for p in model.parameters()) == pytest.approx(1, rel=1e-3)


def test_a_compiled_step():
    model, (x, y) = nn.Linear(3, 1), plane()
    optimizer = optim.SGD(model.parameters(), lr=0.2)
    compiled = gg.compile(training(optimizer, lambda x, y: F.mse_loss(model(x), y)))
    losses = [compiled(x, y).item() for _ in range(20)]
    assert losses[-1] < losses[0] / 100


# Modules


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.scale = nn.Parameter(gg.zeros(width))

    def forward(self, x):
        return x + self.scale * self.layers(self.norm(x))


def test_a_module_of_ones_own():
    model = nn.Sequential(nn.Linear(3, 8), Residual(8), nn.Linear(8, 1))
    first, *_, last = fit(model, *plane(), optim.Adam(model.parameters(), lr=0.01))
    assert last < first
    assert "1.layers.0.weight" in model.state_dict()
    assert "Residual" in repr(model)


def test_freezing_a_part():
    model = nn.MLP(3, [4, 1])
    for p in model[0].parameters():
        p.requires_grad = False
    before, trained = model[0].weight.tolist(), [p for p in model.parameters() if p.requires_grad]
    fit(model, *plane(), optim.SGD(trained, lr=0.1), steps=3)
    assert (model[0].weight.tolist(), model[0].weight.grad) == (before, None)


def test_counting_parameters():
    model = nn.MLP(3, [4, 1])
    assert sum(p.size for p in model.parameters()) == 21
    assert "21" in str(nn.summary(model, gg.ones((1, 3))))


def test_another_head_for_a_trained_model():
    model = nn.MLP(3, [4, 1])
    model[2] = nn.Linear(4, 5)
    assert model(gg.ones((2, 3))).shape == (2, 5)
    assert model[:2][0] is model[0]


def test_a_model_in_double_precision():
    model, x = nn.MLP(3, [4, 1]).to(gg.float64), gg.random.normal((2, 3), dtype=gg.float64)
    assert {p.dtype for p in (*model.parameters(), model(x))} == {gg.float64}
    gradcheck(model, x.requires_grad_())


def test_an_embedding_of_words():
    embedding = nn.Embedding(5, 3)
    embedding(gg.tensor([1, 1, 4])).sum().backward()
    assert embedding.weight.grad.sum(axis=1).tolist() == [0, 6, 0, 0, 3]


def test_hooks_see_features():
    model, features = nn.MLP(3, [4, 1]), []
    with model[0].register_forward_hook(lambda module, args, output: features.append(output)):
        model(gg.ones((2, 3)))
    assert features[0].shape == (2, 4)


def test_hooks_see_gradients():
    model, norms = nn.MLP(3, [4, 1]), {}
    for name, p in model.named_parameters():
        p.register_hook(lambda g, name=name: norms.update({name: (g**2).sum().item()}))
    model(gg.ones((2, 3))).sum().backward()
    assert {*norms} == {name for name, _ in model.named_parameters()}
    assert norms["2.bias"] == 4


# Losses and gradients


def test_a_loss_of_ones_own():
    def focal(logits, labels, gamma=2.0):
        log_p = gg.take_along_axis(F.log_softmax(logits, dim=1), labels[:, None], axis=1)
        return -((1 - gg.exp(log_p)) ** gamma * log_p).mean()

    model = nn.Linear(2, 3)
    first, *_, last = fit(model, *blobs(), optim.SGD(model.parameters(), lr=0.5), focal)
    assert last < first / 2


def test_several_labels_for_each_example():
    x, _ = plane()
    targets, model = (x > 0).astype(gg.float32), nn.Linear(3, 3)
    loss = nn.BCEWithLogitsLoss(pos_weight=gg.tensor([1.0, 2.0, 1.0]))
    fit(model, x, targets, optim.Adam(model.parameters(), lr=0.2), loss, steps=60)
    assert share(model(x) > 0, targets > 0.5) > 0.95


def test_gradient_penalty():
    critic, x = nn.MLP(3, [8, 1], nn.Tanh), gg.random.normal((5, 3), requires_grad=True)
    (gradient,) = gg.autograd.grad(critic(x).sum(), x, create_graph=True)
    ((gradient**2).sum(axis=1) - 1).mean().backward()
    assert critic[0].weight.grad is not None


def test_per_example_gradients():
    model = nn.Linear(3, 1)
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def loss(weights, x, y):
        return F.mse_loss(nn.functional_call(model, weights, (x,)), y)

    each = gg.vmap(gg.grad(loss), in_axes=(None, 0, 0))(weights, *plane(5))
    assert each["weight"].shape == (5, 1, 3)


def test_the_gradient_of_a_value_in_between():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    (y**2).sum().backward()
    assert y.grad.tolist() == [6, 12]


def test_gradient_descent_by_hand():
    x = gg.tensor([5.0, -3.0], requires_grad=True)
    for _ in range(100):
        ((x - gg.tensor([1.0, 2.0])) ** 2).sum().backward()
        with gg.no_grad():
            x -= 0.1 * x.grad
        x.grad = None
    assert_close(x, gg.tensor([1.0, 2.0]), atol=1e-5)


def test_the_derivative_of_a_polynomial():
    x = gg.tensor(2.0, requires_grad=True)
    (x**3 - 4 * x + 1).backward()
    assert x.grad.item() == 3 * 2**2 - 4


def test_a_third_derivative():
    third = gg.grad(gg.grad(gg.grad(lambda x: gg.exp(2 * x))))
    assert third(gg.tensor(0.0)).item() == pytest.approx(8)


def test_a_gradient_of_complex_numbers():
    z = gg.tensor([3 + 4j], requires_grad=True)
    gg.abs(z).sum().backward()
    assert_close(z.grad, gg.tensor([(3 + 4j) / 5]))


def test_a_mask_lets_gradients_through_where_it_is_true():
    x = gg.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (x[x > 0] ** 2).sum().backward()
    assert x.grad.tolist() == [2, 0, 6]


def test_a_value_that_counts_as_a_constant():
    assert gg.grad(lambda x: x * x.detach())(gg.tensor(3.0)).item() == 3
    assert gg.grad(lambda x: x * gg.stop_gradient(x))(gg.tensor(3.0)).item() == 3


def test_a_directional_derivative_both_ways():
    def f(x):
        return gg.stack([x[0] * x[1], gg.sin(x[1])])

    x, v, u = (gg.tensor(values) for values in ([2.0, 3.0], [1.0, -1.0], [0.5, 2.0]))
    y, tangent = gg.jvp(f, (x,), (v,))
    same, pullback = gg.vjp(f, x)
    assert_close(y, same)
    assert_close((u * tangent).sum(), (pullback(u)[0] * v).sum())
    assert_close(gg.jacobian(f)(x) @ v, tangent)


def test_a_step_is_left_out_where_the_loss_is_nan():
    model, (x, y) = nn.Linear(3, 1), plane(4)
    optimizer, before = optim.SGD(model.parameters(), lr=0.1), model.weight.tolist()
    x[0, 0] = math.nan
    loss = F.mse_loss(model(x), y)
    if gg.isfinite(loss):
        loss.backward()
        optimizer.step()
    assert model.weight.tolist() == before
    good = gg.isfinite(x).all(axis=1)
    assert F.mse_loss(model(x[good]), y[good]).item() > 0


# Checkpoints


def test_saving_and_loading_a_model():
    model, again = nn.MLP(3, [4, 1]), nn.MLP(3, [4, 1])
    gg.save(model.state_dict(), "model.safetensors")
    again.load_state_dict(gg.load("model.safetensors"))
    x, _ = plane()
    assert_close(again(x), model(x), rtol=0, atol=0)


def test_resuming_with_the_optimizer():
    model, (x, y) = nn.Linear(3, 1), plane()
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    fit(model, x, y, optimizer, steps=3)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    gg.save(state, "run.safetensors")
    expected = fit(model, x, y, optimizer, steps=3)

    state, model = gg.load("run.safetensors"), nn.Linear(3, 1)
    model.load_state_dict(state["model"])
    optimizer = optim.Adam(model.parameters(), lr=0.1)
    optimizer.load_state_dict(state["optimizer"])
    assert state["epoch"] == 3
    assert fit(model, x, y, optimizer, steps=3) == expected


def test_names_of_another_programs_weights():
    model = nn.Linear(2, 1)
    theirs = {"module.weight": np.ones((1, 2), "float32"), "module.bias": np.zeros(1, "float32")}
    model.load_state_dict({name.removeprefix("module."): x for name, x in theirs.items()})
    assert model(gg.tensor([[2.0, 3.0]])).item() == 5


def test_weights_in_a_file_of_numpy():
    model, again = nn.MLP(3, [4, 1]), nn.MLP(3, [4, 1])
    np.savez("weights.npz", **{name: x.numpy() for name, x in model.state_dict().items()})
    with np.load("weights.npz") as file:
        again.load_state_dict(dict(file))
    x, _ = plane(4)
    assert_close(again(x), model(x), rtol=0, atol=0)


# Models of many kinds


def test_softmax_regression_without_layers():
    x, labels = blobs()

    def loss(p):
        return F.cross_entropy(x @ p["w"] + p["b"], labels)

    p = {"w": gg.zeros((2, 3)), "b": gg.zeros(3)}
    for _ in range(50):
        p = tree.map(lambda a, g: a - 0.5 * g, p, gg.grad(loss)(p))
    assert loss(p).item() < 0.2


def test_a_cnn():
    convolution, linear = nn.Conv2d(1, 4, kernel_size=3, padding=1), nn.Linear(4 * 4 * 4, 2)
    model = nn.Sequential(convolution, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)
    images = gg.random.normal((16, 1, 8, 8))
    labels = (images.mean(axis=(1, 2, 3)) > 0).astype(gg.int64)
    images = images + 2 * labels.reshape(-1, 1, 1, 1)
    losses = fit(model, images, labels, optim.Adam(model.parameters()), F.cross_entropy, 10)
    assert losses[-1] < losses[0]


def test_an_autoencoder_of_digits():
    images = data.digits()[0][:128][0]
    model = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 64))
    first, *_, last = fit(model, images, images, optim.Adam(model.parameters(), lr=0.01), steps=60)
    assert last < first / 2


def test_a_variational_autoencoder():
    encode, decode = layers = nn.ModuleList([nn.Linear(6, 4), nn.Linear(2, 6)])
    x = gg.random.normal((32, 2)) @ gg.random.normal((2, 6))

    def loss():
        mean, log_var = gg.chunk(encode(x), 2, axis=1)
        z = mean + gg.exp(log_var / 2) * gg.random.normal(mean.shape)
        divergence = -0.5 * (1 + log_var - mean**2 - gg.exp(log_var))
        return F.mse_loss(decode(z), x) + 0.01 * divergence.sum(axis=1).mean()

    first, *_, last = minimize(optim.Adam(layers.parameters(), lr=0.03), loss, 100)
    assert last < first / 2


def test_a_generator_and_its_critic():
    generator, critic = nn.Linear(1, 1), nn.MLP(1, [16, 1])
    adam = partial(optim.Adam, lr=0.01, betas=(0.5, 0.9))
    first, second = adam(generator.parameters()), adam(critic.parameters())
    bce, ones = F.binary_cross_entropy_with_logits, gg.ones((32, 1))
    is_real = gg.concat([ones, 0 * ones])
    for _ in range(100):
        fake = generator(gg.random.normal((32, 1)))
        both = gg.concat([gg.random.normal((32, 1)) + 3, fake.detach()])
        fit(critic, both, is_real, second, bce, steps=1)
        fit(critic, fake, ones, first, bce, steps=1)
    assert generator.bias.item() > 0.5


def test_a_classifier_of_sequences():
    rnn, head = layers = nn.ModuleList([nn.GRU(1, 8, batch_first=True), nn.Linear(8, 2)])

    def classify(x):
        _, last = rnn(x)
        return head(last[-1])

    labels = gg.arange(32) % 2
    x = gg.random.normal((32, 6, 1)) + (2 * labels - 1).reshape(-1, 1, 1)
    fit(classify, x, labels, optim.Adam(layers.parameters(), lr=0.03), F.cross_entropy)
    assert share(classify(x).argmax(axis=1), labels) > 0.9


def test_forecasting_a_sine():
    wave = gg.sin(gg.arange(80.0) / 4)
    windows, model = gg.stack([wave[i : i + 9] for i in range(70)]), nn.Linear(8, 1)
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    assert fit(model, windows[:, :8], windows[:, 8:], optimizer, steps=200)[-1] < 0.01


class TinyGPT(nn.Module):
    def __init__(self, tokens, length, width=16):
        super().__init__()
        self.token, self.place = nn.Embedding(tokens, width), nn.Embedding(length, width)
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, **options)
        self.blocks = nn.TransformerEncoder(layer, num_layers=1)
        self.head = nn.Linear(width, tokens)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        x = self.token(x) + self.place(gg.arange(x.shape[1]))
        return self.head(self.blocks(x, mask=mask, is_causal=True))


def test_a_transformer_learns_a_text_and_writes_it():
    codes = gg.tensor([0, 1, 2] * 4)
    model = TinyGPT(3, len(codes))

    def loss(logits, targets):
        return F.cross_entropy(logits.reshape(-1, 3), targets.reshape(-1))

    optimizer = optim.AdamW(model.parameters(), lr=0.02)
    fit(model, codes[None, :-1], codes[None, 1:], optimizer, loss, steps=40)
    written = codes[:2]
    with gg.no_grad():
        while len(written) < 8:
            written = gg.concat([written, model(written[None])[0, -1].argmax()[None]])
    assert written.tolist() == codes[:8].tolist()


def test_the_future_does_not_leak():
    model = TinyGPT(5, 6).eval()
    x, changed = gg.tensor([[1, 2, 3, 4, 0, 1]]), gg.tensor([[1, 2, 3, 0, 4, 4]])
    assert_close(model(x)[:, :3], model(changed)[:, :3], rtol=1e-5, atol=1e-6)


def test_padding_does_not_change_what_attention_gives():
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True), gg.random.normal((1, 3, 8))
    padded = gg.concat([x, gg.ones((1, 2, 8))], axis=1)
    is_padding = gg.tensor([[False, False, False, True, True]])
    found, _ = attention(padded, padded, padded, key_padding_mask=is_padding)
    assert_close(found[:, :3], attention(x, x, x)[0], rtol=1e-5, atol=1e-6)


def test_a_unet_of_one_level():
    down, up = nn.Conv2d(1, 4, 3, padding=1), nn.ConvTranspose2d(4, 4, 2, stride=2)
    layers = nn.ModuleList([down, up, nn.Conv2d(8, 1, 1)])

    def unet(x):
        wide = F.relu(down(x))
        return layers[2](gg.concat([wide, up(F.max_pool2d(wide, 2))], axis=1))

    x, optimizer = gg.random.normal((2, 1, 8, 8)), optim.Adam(layers.parameters(), lr=0.03)
    target, loss = (x > 0).astype(gg.float32), F.binary_cross_entropy_with_logits
    first, *_, last = fit(unet, x, target, optimizer, loss)
    assert last < first / 2


def test_the_shape_after_each_layer():
    conv, linear = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(8 * 7 * 7, 10)
    model = nn.Sequential(conv, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), linear)
    x = gg.zeros((2, 1, 14, 14))
    shapes = [(x := layer(x)).shape for layer in model]
    assert shapes == [(2, 8, 14, 14), (2, 8, 14, 14), (2, 8, 7, 7), (2, 392), (2, 10)]


def test_the_edges_of_an_image():
    image = gg.zeros((1, 1, 5, 5))
    image[..., 2:] = 1.0
    sobel = gg.tensor([[[[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]]])
    assert F.conv2d(image, sobel)[0, 0, 1].tolist() == [4, 4, 0]


def test_where_a_convolutional_network_looks():
    """Grad-CAM: the gradient of a score by the last feature maps weighs these."""
    conv, kept = nn.Conv2d(1, 3, 3, padding=1), []
    model = nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    conv.register_forward_hook(lambda module, args, output: kept.append(output))
    (gradient,) = gg.autograd.grad(model(gg.random.normal((1, 1, 6, 6)))[0, 1], kept)
    heat = F.relu((gradient.mean(axis=(2, 3), keepdims=True) * kept[0]).sum(axis=1))
    assert heat.shape == (1, 6, 6)


def test_word_vectors_from_neighbours():
    text = gg.tensor([0, 1, 0, 1, 2, 3, 2, 3] * 4)
    words, contexts = nn.Embedding(4, 3), nn.Embedding(4, 3)

    def loss():
        others = gg.random.integers(0, 4, text[1:].shape)
        near, far = ((words(text[:-1]) * contexts(x)).sum(axis=1) for x in (text[1:], others))
        return -(F.logsigmoid(near) + F.logsigmoid(-far)).mean()

    minimize(optim.Adam(nn.ModuleList([words, contexts]).parameters(), lr=0.05), loss, 60)
    scores = words.weight @ contexts.weight.T
    assert [scores[0].argmax().item(), scores[2].argmax().item()] == [1, 3]


def test_recommendations_by_matrix_factorization():
    ratings = gg.random.normal((6, 2)) @ gg.random.normal((2, 5))
    users, items = gg.nonzero(gg.random.uniform((6, 5)) < 0.8)
    u, v = nn.Embedding(6, 2), nn.Embedding(5, 2)

    def loss():
        return F.mse_loss((u(users) * v(items)).sum(axis=1), ratings[users, items])

    assert minimize(optim.Adam([*u.parameters(), *v.parameters()], lr=0.1), loss, 150)[-1] < 0.01


def test_messages_on_a_graph():
    """The sums over the neighbours are a product with the adjacency matrix."""
    source, target = gg.tensor([0, 1, 1, 2]), gg.tensor([1, 0, 2, 1])
    x = gg.random.normal((3, 4), requires_grad=True)
    received = gg.scatter_add(x[source], (3, 4), target)
    adjacency = gg.zeros((3, 3))
    adjacency[target, source] = 1.0
    assert_close(received, adjacency @ x, rtol=1e-6)
    received.sum().backward()
    assert x.grad[:, 0].tolist() == [1, 2, 1]


def test_a_policy_that_is_rewarded():
    logits = gg.zeros(3, requires_grad=True)

    def loss():
        chances = gg.softmax(logits, axis=0)
        actions = gg.random.multinomial(chances.detach(), 16, replacement=True)
        reward = (actions == 2).astype(gg.float32)
        return -(F.log_softmax(logits, dim=0)[actions] * (reward - reward.mean())).mean()

    minimize(optim.Adam([logits], lr=0.1), loss, 60)
    assert gg.softmax(logits, axis=0)[2].item() > 0.8


def test_a_small_model_learns_from_a_large_one():
    x, labels = blobs()
    teacher, student = nn.MLP(2, [32, 3]), nn.Linear(2, 3)
    fit(teacher, x, labels, optim.Adam(teacher.parameters(), lr=0.02), F.cross_entropy)
    teacher.eval().requires_grad_(False)

    def distillation(logits, x):
        soft, given = F.log_softmax(teacher(x) / 2, dim=1), F.log_softmax(logits / 2, dim=1)
        return F.kl_div(given, soft, reduction="batchmean", log_target=True)

    fit(student, x, x, optim.Adam(student.parameters(), lr=0.1), distillation, steps=60)
    assert share(student(x).argmax(axis=1), teacher(x).argmax(axis=1)) > 0.9


def test_similar_things_come_together():
    x, _ = blobs(30)
    model, margin = nn.Linear(2, 2), nn.TripletMarginLoss(margin=1.0)
    triplet = x[0::3], gg.roll(x[0::3], 1, axis=0), x[1::3]
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    assert minimize(optimizer, lambda: margin(*map(model, triplet)), 40)[-1] < 0.2


def test_learning_to_learn():
    """MAML: the loss after one step of gradient descent, differentiated by where that began."""
    model, x = nn.Linear(1, 1), gg.linspace(-1, 1, 8).reshape(-1, 1)
    start = {name: p.detach() for name, p in model.named_parameters()}

    def task(p, slope):
        return F.mse_loss(nn.functional_call(model, p, (x,)), slope * x)

    def descended(loss, p, *args):
        return tree.map(lambda a, g: a - 0.5 * g, p, gg.grad(loss)(p, *args))

    def over_tasks(p):
        adapted = gg.vmap(lambda p, slope: task(descended(task, p, slope), slope), (None, 0))
        return adapted(p, gg.tensor([1.0, 2.0, 3.0])).mean()

    before = over_tasks(start).item()
    for _ in range(60):
        start = descended(over_tasks, start)
    assert over_tasks(start).item() < before
    assert start["weight"].item() == pytest.approx(2, abs=0.1)


def test_an_ensemble_in_one_call():
    models, (x, _) = [nn.MLP(3, [4, 1]) for _ in range(5)], plane(6)
    stacked = tree.map(lambda *weights: gg.stack(weights), *[m.state_dict() for m in models])
    found = gg.vmap(lambda p: nn.functional_call(models[0], p, (x,)))(stacked)
    assert found.shape == (5, 6, 1)
    assert_close(found[3], models[3](x), rtol=1e-5, atol=1e-6)


def test_quantiles_are_learned_by_the_pinball_loss():
    sample, level = gg.random.normal((2000,)), gg.tensor([0.1, 0.5, 0.9])
    q = gg.zeros(3, requires_grad=True)

    def loss():
        error = sample[:, None] - q
        return gg.maximum(level * error, (level - 1) * error).mean()

    minimize(optim.Adam([q], lr=0.05), loss, 120)
    assert_close(q.detach(), gg.quantile(sample, level), atol=0.05)


def test_maximum_likelihood_with_distributions_of_scipy():
    sample = stats.gamma.rvs(3.0, size=4000, random_state=0)
    shape = gg.tensor(1.0, requires_grad=True)
    minimize(optim.Adam([shape], lr=0.1), lambda: -stats.gamma.logpdf(sample, shape).mean(), 150)
    assert shape.item() == pytest.approx(3, abs=0.15)


def test_k_means():
    points, labels = blobs()
    centers = points[:3]
    for _ in range(10):
        nearest = ((points[:, None] - centers) ** 2).sum(axis=-1).argmin(axis=1)
        members = F.one_hot(nearest, 3).astype(points.dtype)
        centers = members.T @ points / members.sum(axis=0)[:, None]
    assert sum(gg.bincount(labels[nearest == k]).max().item() for k in range(3)) / 60 > 0.9


def test_a_moving_average_of_weights_by_hand():
    model = nn.Linear(3, 1)
    shadow, start = copy.deepcopy(model), model.weight.tolist()
    fit(model, *plane(), optim.SGD(model.parameters(), lr=0.1), steps=1)
    with gg.no_grad():
        for slow, fast in zip(shadow.parameters(), model.parameters(), strict=True):
            slow *= 0.9
            slow += 0.1 * fast
    assert_close(shadow.weight, 0.9 * gg.tensor(start) + 0.1 * model.weight, rtol=1e-5)


# Data and metrics


def test_the_digits_that_come_with_the_library():
    train, test = data.digits()
    images, labels = train[:]
    assert (len(train), len(test), images.shape) == (1437, 360, (1437, 64))
    assert sorted({*labels.tolist()}) == list(range(10))


def test_batches_in_order():
    loader = data.DataLoader(data.TensorDataset(gg.arange(3), gg.arange(3) ** 2), batch_size=2)
    assert [(x.tolist(), y.tolist()) for x, y in loader] == [([0, 1], [0, 1]), ([2], [4])]


def test_rare_classes_are_drawn_more_often():
    labels = gg.tensor([0] * 90 + [1] * 10)
    sampler = data.WeightedRandomSampler(1 / gg.bincount(labels)[labels], num_samples=400)
    loader = data.DataLoader(data.TensorDataset(labels), batch_size=100, sampler=sampler)
    assert share(gg.concat([batch for (batch,) in loader]), 1) == pytest.approx(0.5, abs=0.1)


def test_sentences_of_several_lengths():
    sentences = [[3, 1, 2], [5], [4, 4]]

    def pad(batch):
        lengths = [len(sentence) for sentence in batch]
        rows = [sentence + [0] * (max(lengths) - len(sentence)) for sentence in batch]
        return gg.tensor(rows), gg.tensor(lengths)

    ((tokens, lengths),) = data.DataLoader(sentences, batch_size=3, collate_fn=pad)
    mask = gg.arange(tokens.shape[1]) < lengths[:, None]
    vectors = nn.Embedding(6, 2, padding_idx=0)(tokens)
    mean = (vectors * mask[..., None]).sum(axis=1) / lengths[:, None]
    assert_close(mean[1], vectors[1, 0])


def test_a_confusion_matrix():
    labels, predicted = gg.tensor([0, 0, 1, 2, 2]), gg.tensor([0, 1, 1, 2, 0])
    matrix = gg.bincount(3 * labels + predicted, minlength=9).reshape(3, 3)
    assert matrix.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]
    assert (gg.linalg.diagonal(matrix) / matrix.sum(axis=1)).tolist() == [0.5, 1, 0.5]


def test_the_best_k_answers():
    scores = gg.tensor([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])
    values, indices = gg.topk(scores, 2, axis=1)
    assert values[:, 0].tolist() == scores.max(axis=1).tolist()
    assert indices.tolist() == [[1, 2], [0, 1]]
    assert gg.any(indices == gg.tensor([[2], [2]]), axis=1).tolist() == [True, False]


# Compiled programs


def test_a_compiled_step_with_a_last_batch_that_is_shorter():
    loader, results = data.DataLoader(data.TensorDataset(*plane(50)), batch_size=16), []
    for compile in (gg.compile, lambda function: function):
        gg.manual_seed(1)
        model = nn.Linear(3, 1)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        function = compile(training(optimizer, lambda x, y, m=model: F.mse_loss(m(x), y)))
        results.append([function(*batch).item() for _ in range(3) for batch in loader])
    assert results[0] == results[1]


def test_a_compiled_model_for_evaluation():
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 1)).eval()
    predict, (x, _) = gg.compile(model), plane()
    with gg.no_grad():
        for _ in range(3):
            assert_close(predict(x), model(x), rtol=0, atol=0)


# Notebooks and scripts


def test_restarting_a_cell_gives_the_same_numbers():
    def cell():
        gg.manual_seed(7)
        model = nn.MLP(3, [8, 1])
        return fit(model, *plane(), optim.Adam(model.parameters()), steps=3)

    assert cell() == cell()


def test_a_device_flag():
    device = "cuda" if gg.cuda.is_available() else "cpu"
    model = nn.Linear(3, 1).to(device)
    assert model(gg.ones((2, 3), device=device)).device.startswith(device)
    if not gg.cuda.is_available():
        with pytest.raises(RuntimeError) as error:
            model.to("cuda")
        assert gg.cuda.why_not() in str(error.value)


def test_numbers_from_tensors_in_plain_python():
    x = gg.tensor([1.0, 2.0, 4.0])
    first, *others = x
    assert (float(first), len(others), len(x)) == (1.0, 2, 3)
    assert [round(v.item()) for v in x] == [1, 2, 4]
    assert max(x.tolist()) == x.max().item() == 4
    assert f"{x.mean():.3f} of {x.shape}" == "2.333 of (3,)"
    assert "abc"[gg.argmax(x)] == "c"
    assert bool((x > 0).all())


def test_a_profile_names_the_operations():
    with tools.profile() as profile:
        gg.exp(gg.ones((50, 50)) @ gg.ones((50, 50))).sum()
    assert all(name in str(profile) for name in ("matmul", "exp", "sum"))


def test_a_drawing_of_the_graph():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    assert "multiply" in tools.draw((x * x).sum()).mermaid


# Numerical programs


def test_broadcasting_a_column_against_a_row():
    table = gg.arange(1, 4).reshape(-1, 1) * gg.arange(1, 4)
    assert table.tolist() == [[1, 2, 3], [2, 4, 6], [3, 6, 9]]


def test_standardizing_columns():
    points = gg.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    scaled = (points - points.mean(axis=0)) / points.std(axis=0, correction=1)
    assert scaled.tolist() == [[-1, -1], [0, 0], [1, 1]]


def test_distances_between_all_points():
    points = gg.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    distances = gg.linalg.vector_norm(points[:, None] - points, axis=-1)
    assert distances.tolist() == [[0, 5, 10], [5, 0, 5], [10, 5, 0]]
    assert gg.argmin(distances + gg.eye(3) * 1e9, axis=1).tolist() == [1, 0, 1]


def test_pi_by_chance():
    points = gg.random.uniform((40000, 2))
    inside = (points**2).sum(axis=1) < 1
    assert 4 * inside.mean().item() == pytest.approx(math.pi, abs=0.05)


def test_a_random_walk_comes_again_with_its_seed():
    def walk(seed):
        gg.manual_seed(seed)
        return gg.cumulative_sum(gg.random.normal((50,))).tolist()

    assert walk(7) == walk(7) != walk(8)


def test_a_curve_through_points():
    x, y = [0.0, 1.0, 2.0], gg.tensor([0.0, 10.0, 20.0], requires_grad=True)
    value = interpolate.interp1d(x, y)(1.25)
    value.backward()
    assert (value.item(), y.grad.tolist()) == (12.5, [0, 0.75, 0.25])


def test_the_curvature_of_the_rosenbrock_function():
    def rosenbrock(x):
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    x = gg.tensor([1.0, 1.0])
    assert gg.hessian(rosenbrock)(x).tolist() == [[802, -400], [-400, 200]]
    assert gg.hvp(rosenbrock)(x, gg.tensor([1.0, 2.0])).tolist() == [2, 0]


def test_newtons_method():
    """The square root of 2."""
    x = gg.tensor(1.0, dtype=gg.float64)
    for _ in range(6):
        value, slope = gg.value_and_grad(lambda x: x * x - 2)(x)
        x = x - value / slope
    assert_allclose(x.item(), math.sqrt(2), rtol=1e-15)


def test_newtons_method_in_two_dimensions():
    def f(x):
        return x[0] ** 4 + (x[0] - x[1]) ** 2 + gg.exp(x[1])

    x = gg.tensor([1.0, 1.0], dtype=gg.float64)
    for _ in range(12):
        x = x - gg.linalg.solve(gg.hessian(f)(x), gg.grad(f)(x))
    assert abs(gg.grad(f)(x).numpy()).max() < 1e-12


def test_the_derivative_of_an_integral():
    """d/da of the integral of sin(a t) over [0, pi], by Simpson's rule, at a = 1/2."""
    a = gg.tensor(0.5, dtype=gg.float64, requires_grad=True)
    y = gg.sin(a * gg.linspace(0, math.pi, 201, dtype=gg.float64))
    integral = math.pi / 600 * (y[0] + y[-1] + 4 * y[1::2].sum() + 2 * y[2:-1:2].sum())
    integral.backward()
    assert_allclose([integral.item(), a.grad.item()], [2, 2 * math.pi - 4], rtol=1e-7)


def test_a_jacobian_of_polar_coordinates():
    def cartesian(p):
        return gg.stack([p[0] * gg.cos(p[1]), p[0] * gg.sin(p[1])])

    jacobian = gg.jacobian(cartesian)(gg.tensor([2.0, math.pi / 6], dtype=gg.float64))
    assert_allclose(jacobian.numpy(), [[math.sqrt(3) / 2, -1], [1 / 2, math.sqrt(3)]])
    assert_allclose(gg.linalg.det(jacobian).item(), 2)


def test_minimizing_as_scipy_does():
    found = optimize.minimize(lambda x: ((x - gg.tensor([1.0, -2.0])) ** 2).sum(), np.zeros(2))
    assert_allclose(np.asarray(found.x), [1, -2], atol=1e-5)


def test_a_decay_that_is_fitted():
    t = gg.linspace(0, 4, 9, dtype=gg.float64)
    measured = 2 * gg.exp(-0.7 * t)

    def loss(rate):
        found = integrate.odeint(lambda y, t: -rate * y, 2.0, t)
        return ((found.reshape(-1) - measured) ** 2).sum()

    assert_allclose(np.asarray(optimize.minimize(loss, np.array(0.2)).x), 0.7, atol=1e-4)


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


def test_principal_components():
    t = gg.linspace(-1, 1, 50, dtype=gg.float64)
    points = gg.stack([3 * t, 4 * t], axis=1)
    _, s, vh = gg.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    assert_close(gg.abs(vh[0]), gg.tensor([0.6, 0.8], dtype=gg.float64))
    assert_allclose((s**2).numpy(), [25 * (t**2).sum().item(), 0], atol=1e-20)


def test_eigenvalues_have_gradients():
    a = gg.tensor([[2.0, 0.0], [0.0, 5.0]], requires_grad=True)
    values, _ = gg.linalg.eigh(a)
    values[1].backward()
    assert (values.tolist(), a.grad.tolist()) == ([2, 5], [[0, 0], [0, 1]])


def test_the_likelihood_of_a_gaussian_process():
    x = gg.linspace(0, 1, 6, dtype=gg.float64)
    y = gg.sin(6 * x)

    def loss(log_length):
        k = gg.exp(-((x[:, None] - x) ** 2) / (2 * gg.exp(2 * log_length)))
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

    angle, speed = integrate.odeint(rhs, [1.0, 0.0], gg.linspace(0, 10, 21, dtype=gg.float64)).T
    energy = speed**2 / 2 - gg.cos(angle)
    assert_close(energy, gg.full_like(energy, -math.cos(1)), rtol=1e-5)


# Other libraries


def test_numpy_in_and_out():
    array = np.linspace(0, 1, 4, dtype="float32")
    t = gg.asarray(array)
    assert np.shares_memory(t.array, array)
    assert isinstance(t.numpy(), np.ndarray)
    assert {type(t + array), type(array * t)} == {gg.Tensor}
    assert np.asarray(gg.ones(3, requires_grad=True).detach()).tolist() == [1, 1, 1]


def test_numpys_functions_on_tensors():
    x = gg.tensor([1.0, 4.0, 9.0], requires_grad=True)
    (np.sqrt(x).sum() + np.dot(x, np.ones(3))).backward()
    assert_close(x.grad.numpy(), 0.5 / np.sqrt([1, 4, 9]) + 1, rtol=1e-6)


def test_a_numpy_program_is_differentiated():
    import gpugrad.numpy as gnp

    def energy(x):
        return gnp.sum(gnp.diff(gnp.sort(x)) ** 2)

    x = np.array([0.3, 0.1, 0.7])
    gradcheck(energy, gg.tensor(x, requires_grad=True))
    assert gg.grad(energy)(x).dtype == gg.float64


def test_scipy_minimizes_with_gradients():
    from scipy.optimize import minimize

    def energy(x):
        x = gg.asarray(x)
        return ((x - 3) ** 2).sum() + (x**4).sum()

    result = minimize(energy, np.zeros(2), jac=gg.grad(energy))
    assert abs(gg.grad(energy)(result.x).numpy()).max() < 1e-4


def test_a_root_found_by_scipy_with_a_jacobian():
    from scipy.optimize import root

    def equations(x):
        x = gg.asarray(x)
        cube = (x[0] - x[1]) ** 3 / 2
        return gg.stack([x[0] + cube - 1, x[1] - cube])

    jacobian = gg.jacobian(equations)
    found = root(lambda x: equations(x).numpy(), np.zeros(2), jac=lambda x: jacobian(x).numpy())
    assert found.x == pytest.approx([0.8411639, 0.1588361])


def test_plotting_a_curve_of_losses():
    from matplotlib.figure import Figure

    figure = Figure()
    (line,) = figure.subplots().plot(gg.tensor([3.0, 2.0, 1.5]))
    assert line.get_ydata().tolist() == [3.0, 2.0, 1.5]
    figure.savefig("losses.png")


def test_weights_of_pytorch_and_back():
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 1))
    ours = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
    ours.load_state_dict({name: x.numpy() for name, x in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
    expected = theirs(torch.tensor(x)).detach().numpy()
    assert_close(ours(gg.asarray(x)).detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    theirs.load_state_dict({name: torch.tensor(x.numpy()) for name, x in ours.state_dict().items()})


def test_a_loader_of_pytorch():
    torch = pytest.importorskip("torch")
    dataset, model = [*zip(*(x.numpy() for x in plane()), strict=True)], nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.2)
    for _ in range(30):
        for batch in torch.utils.data.DataLoader(dataset, batch_size=16):
            (loss,) = fit(model, *(gg.asarray(x.numpy()) for x in batch), optimizer, steps=1)
    assert loss < 1e-4


def test_there_are_a_hundred_programs():
    assert len([name for name in globals() if name.startswith("test_")]) > 100  # besides this one
