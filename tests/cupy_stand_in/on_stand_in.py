"""What must hold on CUDA devices, on the stand-in for CuPy that is imported as ``cupy`` here.

`test_cupy_stand_in` runs this file in a process of its own, with the tests of every array library.
"""

import cupy
import numpy as np
import pytest
import train_mlp
from cases import CASES
from cases.base import Array
from cupy._reads import reads
from libraries import Library
from numpy.testing import assert_equal
from test_ops import Call, check, samples

import gpugrad as gg
from gpugrad import data, nn, optim
from gpugrad.autograd.call import wrap
from gpugrad.autograd.push import push
from gpugrad.testing import assert_close

CUPY, NUMPY = Library("cupy", "cupy"), Library("numpy", "numpy")

# What must wait for the device, and why.
WAITS = {
    **dict.fromkeys(
        "nonzero unique_all unique_counts unique_inverse unique_values".split(),
        "the shape of its result depends on values",
    ),
    **dict.fromkeys(
        "linalg.cholesky linalg.inv linalg.matrix_power linalg.solve".split(),
        "a matrix that will not do is an error",
    ),
    **dict.fromkeys(
        "linalg.eig linalg.eigvals linalg.qr linalg.slogdet".split(),
        "its gradient solves by a matrix that may be singular, which is an error",
    ),
}


def has_to_wait(case, sample):
    """Whether what the sample asks for must: its values may be an error, or give a shape."""
    if case.op == "repeat":
        return isinstance(sample.inputs[1], Array)
    key = sample.static.get("key", ())
    parts = key if isinstance(key, tuple) else (key,)
    masks = [k for k in parts if isinstance(k, np.ndarray) and k.dtype == bool and k.ndim]
    return case.op in WAITS or bool(masks)


@pytest.fixture(autouse=True)
def no_reads_before():
    reads.clear()


def steps(call):
    """The gradients, raw and recorded, and the tangents of a call."""
    cotangents = call.cotangents()
    given = {x.node: x.array for x in call.leaves}
    tangents = push(given, [y.node for y in call.recorded], retain_graph=True, create_graph=False)
    return [
        *call.gradients(cotangents, retain_graph=True),
        *call.gradients(cotangents, create_graph=True),
        *[wrap(t, None) for t in tangents.values()],
    ]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_op(case, dtype):
    """Values, gradients and tangents are NumPy's, without a host read."""
    waited = expected_to_wait = False
    for sample in samples(case, CUPY, dtype):
        reads.clear()
        call = Call(case, sample, CUPY, dtype)
        results = [*call.outputs, *(steps(call) if call.recorded else [])]
        if has_to_wait(case, sample):
            waited, expected_to_wait = waited or bool(reads), True
        else:
            assert reads == [], f"sample: {sample}"
        expected = Call(case, sample, NUMPY, dtype)
        others = [*expected.outputs, *(steps(expected) if expected.recorded else [])]
        assert len(results) == len(others)
        for a, b in zip(results, others, strict=True):
            assert a.device == "cuda:0"
            near = 1e-6 if sample.mixed or a.dtype in (gg.float32, gg.complex64) else 1e-9
            check(sample, assert_close, CUPY.values(a), NUMPY.values(b), rtol=near, atol=near)
    assert waited == expected_to_wait


def test_values_that_cupy_computes_otherwise():
    """Of division that rounds down, and what CuPy refuses to count."""
    x1 = gg.tensor([1.0, -1, 1, -1, 5, np.inf, 1, -7, 7, 1e10, np.nan, 0, 0.3], dtype=gg.float64)
    x2 = gg.tensor(
        [0.1, np.inf, np.inf, -np.inf, 0, 2, -0.0, 3, -3, 3.3, 1, -2, -0.1], dtype=x1.dtype
    )
    pairs = [(x1, x2), (x1, 0.1), (x1, 0.0), (-1.0, x2), (x1, np.inf)]
    for divide in (gg.floor_divide, gg.remainder):
        for a, b in pairs:
            on_device = [x.to("cuda") if isinstance(x, gg.Tensor) else x for x in (a, b)]
            with np.errstate(all="ignore"):
                assert_equal(divide(*on_device).cpu().numpy(), divide(a, b).numpy())
    for make in (
        lambda device: gg.linspace(1 + 2j, -3j, 5, device=device),
        lambda device: gg.arange(7, 0, -2, dtype=gg.uint8, device=device),
    ):
        assert_close(make("cuda").cpu(), make("cpu"))
        assert make("cuda").dtype == make("cpu").dtype


def mlp(device):
    """A model, its optimizer, and a loader of batches on the device, the same for each."""
    gg.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.MLP(5, [4, 3], nn.Sigmoid)
    ).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((20, 2, 3)).astype("float32")
    dataset = data.TensorDataset(images, rng.integers(0, 3, 20))
    return model, optimizer, data.DataLoader(dataset, 8, shuffle=True, seed=1, device=device)


def train(device, epochs=3):
    """The losses and the state after training; on a CUDA device nothing waits for it."""
    model, optimizer, loader = mlp(device)
    loss = nn.CrossEntropyLoss()
    reads.clear()
    losses = []
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            losses.append(loss(model(images), labels))
            losses[-1].backward()
            optimizer.step()
    assert reads == []
    state = {**model.state_dict(), **{f"g{i}": p.grad for i, p in enumerate(model.parameters())}}
    place = "cuda:0" if device == "cuda" else device
    assert {x.device for x in [*losses, *state.values()]} == {place}
    return [x.item() for x in losses], {k: v.cpu().numpy() for k, v in state.items()}


def test_training_is_the_cpus_and_reads_nothing():
    losses, state = train("cuda")
    expected_losses, expected = train("cpu")
    assert_close(losses, expected_losses, rtol=1e-5)
    for name, values in state.items():
        assert values.dtype == "float32"
        assert_close(values, expected[name], rtol=1e-4, atol=1e-6)


def test_a_second_device():
    with cupy.cuda.Device(1):
        losses, _ = train("cuda:1")
    assert_close(losses, train("cuda")[0])
    x = gg.random.normal((3,), device="cuda:1", requires_grad=True)
    y = x.to("cuda:0")
    (y * y).sum().backward()
    assert [t.device for t in (x, y, x.grad)] == ["cuda:1", "cuda:0", "cuda:1"]
    assert_close(x.grad.tolist(), [2 * a for a in x.tolist()])
    for made in (gg.zeros_like(x), gg.ones(2, device="cuda:1"), gg.tensor([1], device="cuda:1")):
        assert made.device == "cuda:1"
    with pytest.raises(ValueError, match=r"add: .*different devices, cuda:0 and cuda:1"):
        x + y
    with pytest.raises(RuntimeError, match="cuda:2 is not there: CUDA finds 2"):
        gg.ones(2, device="cuda:2")


def test_the_training_program_ends_at_the_same_loss(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    last = []
    for device in ("cuda", "cpu"):
        options = ["--device", device, "--epochs", "2", "--hidden", "16"]
        monkeypatch.setattr("sys.argv", ["train_mlp.py", *options])
        train_mlp.main()
        rows = [row.split() for row in capsys.readouterr().out.splitlines() if "epoch" in row]
        last.append([float(word) for word in rows[-1] if word.replace(".", "").isdigit()])
    assert_close(last[0], last[1], atol=2e-3)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(3, 2),
        nn.Dropout(0.5),
        nn.ReLU(),
        nn.Sigmoid(),
        nn.Tanh(),
        nn.Flatten(),
        nn.MLP(3, [4, 2]),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layer(layer):
    layer.to("cuda")
    x = gg.random.normal((4, 3), device="cuda", requires_grad=True)
    nn.MSELoss()(layer(x), gg.zeros_like(layer(x))).backward()
    assert x.grad.dtype == gg.float32
    assert {p.grad.device for p in [x, *layer.parameters()]} == {"cuda:0"}
    assert reads == []


def test_dataset_on_the_device():
    model, _, _ = mlp("cuda")
    dataset = data.TensorDataset(gg.ones((5, 6)), gg.arange(5)).to("cuda")
    reads.clear()
    for shuffle in (False, True):
        batches = list(data.DataLoader(dataset, 2, shuffle=shuffle, seed=0))
        assert [x.device for batch in batches for x in batch] == ["cuda:0"] * 6
    assert model(batches[0][0]).shape == (2, 3)
    assert reads == []


def test_random_numbers():
    draws = {
        "uniform": lambda: gg.random.uniform((50,), device="cuda"),
        "normal": lambda: gg.random.normal((50,), device="cuda", dtype=gg.float16),
        "integers": lambda: gg.random.integers(2, 5, (50,), device="cuda"),
        "permutation": lambda: gg.random.permutation(50, device="cuda"),
    }
    gg.manual_seed(3)
    first = {name: draw() for name, draw in draws.items()}
    gg.manual_seed(3)
    again = {name: draw() for name, draw in draws.items()}
    assert reads == []
    assert [str(x.dtype) for x in first.values()] == ["float32", "float16", "int64", "int64"]
    for name, x in first.items():
        assert x.tolist() == again[name].tolist()
        assert len(set(x.tolist())) > 2
    assert sorted(first["permutation"].tolist()) == list(range(50))
    assert set(first["integers"].tolist()) == {2, 3, 4}
    assert all(0 <= u < 1 for u in first["uniform"].tolist())


TRANSFORMS = {
    "grad": lambda f, x: gg.grad(f)(x),
    "jvp": lambda f, x: gg.jvp(f, (x,), (gg.ones_like(x),))[1],
    "jacobian": lambda f, x: gg.jacobian(gg.grad(f))(x),
    "hessian": lambda f, x: gg.hessian(f)(x),
    "hvp": lambda f, x: gg.hvp(f)(x, gg.ones_like(x)),
    "vmap": lambda f, x: gg.vmap(gg.grad(f))(gg.stack([x, 2 * x])),
    "checkpoint": lambda f, x: gg.grad(lambda x: gg.checkpoint(f, x))(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name):
    def f(x):
        return gg.sum(gg.softmax(x) * gg.sin(x) ** 2) + gg.max(x) * x[0]

    transform = TRANSFORMS[name]
    x = gg.random.normal((4,), dtype=gg.float64)
    on_device = transform(f, x.to("cuda"))
    assert reads == []
    assert on_device.device == "cuda:0"
    assert_close(on_device.cpu().numpy(), transform(f, x).numpy(), rtol=1e-12)


def test_saved_and_loaded(tmp_path):
    model, _, _ = mlp("cuda")
    gg.save(model.state_dict(), tmp_path / "weights.safetensors")
    loaded = gg.load(tmp_path / "weights.safetensors", device="cuda")
    for name, x in model.state_dict().items():
        assert loaded[name].device == "cuda:0"
        assert loaded[name].tolist() == x.tolist()


class TestRefusals:
    """That the stand-in refuses what CuPy refuses, or the tests above would show nothing."""

    def test_nothing_leaves_the_device_unasked(self):
        x = cupy.ones(2)
        for leave in (np.asarray, np.from_dlpack, lambda x: np.ones(2) + x, lambda x: x + [1, 2]):
            with pytest.raises((TypeError, BufferError)):
                leave(x)
        with pytest.raises(TypeError, match="Unsupported type"):
            x + np.ones(2)
        with pytest.raises(TypeError):
            cupy.zeros(2, device=0)

    def test_reads_are_counted(self):
        x = cupy.ones(3)
        for read in (bool, float, int, complex):
            read(x[0])
        x[0].item(), x.get(), cupy.asnumpy(x), x[x > 0], cupy.nonzero(x)
        assert len(reads) == 9
        assert all("on_stand_in.py:" in read for read in reads)

    def test_devices_do_not_mix(self):
        with cupy.cuda.Device(1):
            x = cupy.ones(2)
        assert x.device.id == 1
        with pytest.raises(ValueError, match="array device = 1 while current = 0"):
            x + x

    def test_singular_matrices_are_silent(self):
        assert np.isnan(cupy.linalg.inv(cupy.zeros((2, 2))).get()).all()
        with pytest.raises(np.linalg.LinAlgError):
            gg.linalg.inv(gg.zeros((2, 2), device="cuda"))
