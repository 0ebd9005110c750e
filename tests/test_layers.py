"""A table of layers and losses, each compared with PyTorch's of the same name.

A new layer or loss without state of its own needs one row here, and no other test.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import gpugrad
from gpugrad import nn
from gpugrad.nn import functional
from gpugrad.testing import assert_close

torch = pytest.importorskip("torch")


# Inputs: functions of a generator, which return an array. The first axis counts the examples.


def normal(*shape):
    return lambda rng: rng.standard_normal(shape)


@dataclass(frozen=True)
class Row:
    """A layer or loss, and what it is called with.

    kind: its name in ``nn``.
    inputs: draws, one for each input.
    args, options: of the class. Arrays are handed over as tensors.
    order: up to which PyTorch has derivatives.
    rtol: how close PyTorch's are.
    """

    kind: str
    inputs: tuple[Callable, ...]
    args: tuple = ()
    options: dict = field(default_factory=dict)
    order: int = 2
    rtol: float = 1e-9

    def arrays(self, seed=0):
        rng = np.random.default_rng(seed)
        return [draw(rng) for draw in self.inputs]

    def ours(self, dtype="float64"):
        return self._made(nn, gpugrad.tensor).to(getattr(gpugrad, dtype))

    def theirs(self, dtype="float64"):
        return self._made(torch.nn, torch.tensor).to(getattr(torch, dtype))

    def _made(self, module, tensor):
        options = {
            name: tensor(value) if isinstance(value, np.ndarray) else value
            for name, value in self.options.items()
        }
        return getattr(module, self.kind)(*self.args, **options)

    def __str__(self):
        given = [*map(str, self.args), *(f"{k}={v}" for k, v in self.options.items())]
        shapes = [str(x.shape) for x in self.arrays()]
        return f"{self.kind}({','.join(given)})-{'-'.join(shapes)}".replace(" ", "")


def R(kind, *args, inputs, **options):
    return Row(kind, tuple(inputs), args, options)


def activation(kind, *args, **options):
    return R(kind, *args, inputs=[normal(4, 6)], **options)


LAYERS = [
    activation("ReLU"),
    activation("Tanh"),
    activation("Sigmoid"),
    activation("ReLU6"),
    activation("LeakyReLU"),
    activation("LeakyReLU", 0.2),
    activation("PReLU"),
    activation("PReLU", 6, init=0.1),
    R("PReLU", 3, inputs=[normal(4, 3, 2)]),
    R("PReLU", inputs=[normal(4)]),
    activation("ELU"),
    activation("ELU", 0.5),
    activation("SELU"),
    activation("CELU"),
    activation("CELU", 0.5),
    activation("GELU"),
    activation("GELU", approximate="tanh"),
    activation("SiLU"),
    activation("Mish"),
    activation("Softplus"),
    activation("Softplus", 2, threshold=1),
    activation("Softsign"),
    activation("Hardtanh"),
    activation("Hardtanh", -0.3, 0.6),
    activation("Hardswish"),
    replace(activation("Hardsigmoid"), order=1, rtol=1e-7),  # their 1 / 6 is in float32
    activation("LogSigmoid"),
    activation("Tanhshrink"),
    activation("Softmax", 1),
    R("Softmax", dim=-2, inputs=[normal(4, 3, 2)]),
    activation("LogSoftmax", dim=1),
    activation("GLU"),
    R("GLU", 1, inputs=[normal(3, 4, 2)]),
]
LOSSES = []
ROWS = LAYERS + LOSSES
every_row = pytest.mark.parametrize("row", ROWS, ids=str)
every_layer = pytest.mark.parametrize("row", LAYERS, ids=str)


@pytest.fixture(autouse=True)
def _quiet():
    """NumPy warns where a result is nan or inf, as PyTorch's is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def is_floating(array):
    return array.dtype.kind == "f"


def of_ours(array, dtype):
    if not is_floating(array):
        return gpugrad.tensor(array)
    return gpugrad.tensor(array.astype(dtype), requires_grad=True)


def of_theirs(array, dtype):
    if not is_floating(array):
        return torch.tensor(array)
    return torch.tensor(array.astype(dtype), requires_grad=True)


def numbers(x):
    return np.asarray(x.detach().numpy())


def derivatives(library, make, module, inputs, dtype, order):
    """The output, its gradients, and the gradients of a weighted sum of these."""
    tensors = [make(x, dtype) for x in inputs]
    out = module(*tensors)
    leaves = [x for x in [*tensors, *module.parameters()] if x.requires_grad]
    rng = np.random.default_rng(1)

    def weights(y):
        return make(rng.standard_normal(tuple(y.shape)), dtype)

    results = [out]
    for _ in range(order):
        scalars = [(y * weights(y)).sum() for y in results if y.requires_grad]
        if not scalars:
            break
        total = sum(scalars[1:], scalars[0])
        found = library.autograd.grad(total, leaves, create_graph=True, materialize_grads=True)
        results += found
    return results


def compare(row, ours, theirs, inputs, dtype="float64", order=2, **tolerance):
    a = derivatives(gpugrad, of_ours, ours, inputs, dtype, order)
    b = derivatives(torch, of_theirs, theirs, inputs, dtype, order)
    assert len(a) == len(b)
    for number, (x, y) in enumerate(zip(a, b, strict=True)):
        assert str(x.dtype) == dtype
        try:
            assert_close(numbers(x), numbers(y), **tolerance)
        except AssertionError as error:
            error.add_note(f"result {number}: 0 is the output, the others are derivatives")
            raise


def with_the_same_state(row, dtype="float64"):
    ours, theirs = row.ours(dtype), row.theirs(dtype)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@every_row
def test_values_and_derivatives(row, training):
    ours, theirs = with_the_same_state(row)
    ours.train(training)
    theirs.train(training)
    compare(row, ours, theirs, row.arrays(), order=row.order, rtol=row.rtol, atol=1e-9)


@every_row
def test_values_and_derivatives_in_float32(row):
    ours, theirs = with_the_same_state(row, "float32")
    compare(row, ours, theirs, row.arrays(), "float32", 1, rtol=1e-5, atol=1e-5)


@every_row
def test_the_state_goes_both_ways(row):
    ours, theirs = row.ours(), row.theirs()
    state = ours.state_dict()
    assert [(k, v.shape) for k, v in state.items()] == [
        (k, tuple(v.shape)) for k, v in theirs.state_dict().items()
    ]
    theirs.load_state_dict({name: torch.tensor(x.numpy()) for name, x in state.items()})
    compare(row, ours, theirs, row.arrays(), order=0)


@every_row
def test_the_repr_is_pytorchs(row):
    assert repr(row.ours()) == repr(row.theirs())


@every_row
def test_float16_is_kept(row):
    ours, reference = with_the_same_state(row)[0].to(gpugrad.float16), row.ours("float64")
    reference.load_state_dict(ours.state_dict())
    inputs = [x.astype("float16") if is_floating(x) else x for x in row.arrays()]
    low = derivatives(gpugrad, of_ours, ours, inputs, "float16", 1)
    high = derivatives(gpugrad, of_ours, reference, inputs, "float64", 1)
    for x, y in zip(low, high, strict=True):
        assert x.dtype == gpugrad.float16
        assert_close(numbers(x).astype("float64"), numbers(y), rtol=2e-2, atol=2e-2)


@every_row
def test_an_empty_batch(row):
    ours, theirs = with_the_same_state(row)
    compare(row, ours, theirs, [x[:0] for x in row.arrays()], order=1)


@every_row
def test_vmap_is_the_loop(row):
    module = with_the_same_state(row)[0]
    each = [[of_ours(x, "float64") for x in row.arrays(seed)] for seed in range(3)]
    stacked = [gpugrad.stack(list(xs)) for xs in zip(*each, strict=True)]
    expected = np.stack([numbers(module(*xs)) for xs in each])
    assert_close(numbers(gpugrad.vmap(module)(*stacked)), expected, rtol=1e-12, atol=1e-12)


def test_every_public_layer_and_loss_is_in_the_table():
    elsewhere = "MLP Module Parameter Sequential BatchNorm1d LayerNorm Dropout Flatten Linear"
    kinds = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    assert kinds - {*elsewhere.split()} == {row.kind for row in ROWS} | {
        "MSELoss",
        "CrossEntropyLoss",
    }


# Activations


KINKS = {
    "relu": {},
    "relu6": {},
    "leaky_relu": {"negative_slope": 0.2},
    "elu": {"alpha": 0.5},
    "selu": {},
    "celu": {"alpha": 0.5},
    "hardtanh": {},
    "hardswish": {},
    "hardsigmoid": {},
    "softsign": {},
}


@pytest.mark.parametrize("name", KINKS)
def test_kinks_are_pytorchs(name):
    points = np.array([-3.0, -1.0, 0.0, 1.0, 3.0, 6.0])
    x, z = of_ours(points, "float64"), of_theirs(points, "float64")
    ours = getattr(functional, name)(x, **KINKS[name])
    theirs = getattr(torch.nn.functional, name)(z, **KINKS[name])
    ours.sum().backward()
    theirs.sum().backward()
    assert_close(numbers(ours), numbers(theirs))
    assert_close(numbers(x.grad), numbers(z.grad), rtol=1e-7)  # their 1 / 6 is in float32


def test_prelu_at_0_has_the_slope_of_the_left():
    x = gpugrad.zeros(2, requires_grad=True)
    layer = nn.PReLU()
    layer(x).sum().backward()
    assert x.grad.tolist() == [0.25, 0.25]
    assert layer.weight.grad.tolist() == [0.0]


SMOOTH = "elu selu celu gelu silu mish softplus softsign hardswish logsigmoid tanhshrink".split()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", SMOOTH)
def test_large_inputs_give_finite_values_and_derivatives(name, dtype):
    size = {"float16": 6e4, "float32": 1e30, "float64": 1e200}[dtype]
    x = gpugrad.tensor([-size, -1e3, 1e3, size], dtype=getattr(gpugrad, dtype), requires_grad=True)
    out = getattr(functional, name)(x)
    (first,) = gpugrad.autograd.grad(out.sum(), x, create_graph=True)
    (second,) = gpugrad.autograd.grad(first.sum(), x)
    for y in out, first, second:
        assert np.isfinite(numbers(y)).all()


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_keeps_its_digits_far_below_0(approximate):
    mpmath = pytest.importorskip("mpmath")
    x = mpmath.mpf(-9)
    if approximate == "none":
        expected = x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    else:
        z = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
        expected = x / (1 + mpmath.exp(-2 * z))
    got = gpugrad.gelu(gpugrad.tensor(-9.0, dtype=gpugrad.float64), approximate)
    assert got.item() == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: nn.GELU("erf"), "GELU: approximate must be 'none' or 'tanh', not 'erf'"),
        (lambda x: functional.gelu(x, "erf"), "gelu: approximate must be 'none' or 'tanh'"),
        (lambda x: nn.Hardtanh(1, 1), "Hardtanh: min_val must be less than max_val"),
        (lambda x: nn.CELU(0)(x), "celu: alpha must not be 0"),
        (lambda x: nn.PReLU(0), "PReLU: num_parameters must be an int of at least 1, not 0"),
        (lambda x: nn.PReLU(2)(x), r"prelu: weight must have one element, or shape \(3,\)"),
        (lambda x: nn.GLU()(x), r"glu: the input's axis -1 is halved.* shape is \(2, 3\)"),
        (lambda x: nn.GLU(2)(x), r"glu: dim 2 is not an axis of an input of shape \(2, 3\)"),
    ],
)
def test_errors_of_activations(call, message):
    with pytest.raises(ValueError, match=message):
        call(gpugrad.ones((2, 3)))
