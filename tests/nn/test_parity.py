"""Values, first and second gradients compared to PyTorch, for every op that PyTorch has."""

from functools import partial

import numpy as np
import pytest
from cases import CASES
from libraries import Library
from samples import every
from test_ops import Call

import gpugrad

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # from NumPy, about infinities and nans
    pytest.mark.filterwarnings("ignore:var.*degrees of freedom:UserWarning"),
]

NUMPY, TORCH = Library("numpy", "numpy"), Library("torch", "torch")
OPS = [case for case in CASES if case.torch is not None]


def comparable(case, *, kinks):
    """Yield the samples that PyTorch's function can do with the same results."""
    for sample in case.samples:
        unlike = sample.unlike_torch or sample.mixed or "torch" in sample.beyond
        if not unlike and bool(sample.gradients) == kinks:
            yield sample


def torch_parameter(value):
    """Convert a static parameter for PyTorch."""
    if isinstance(value, np.dtype):
        return getattr(torch, value.name)
    return value if isinstance(value, str) else TORCH.raw(value)


def torch_call(case, sample, dtype):
    """Call PyTorch's function; return its inputs, and its outputs."""
    inputs = []
    for x, spec in zip(sample.arrays(dtype), sample.inputs, strict=True):
        if isinstance(x, np.ndarray):
            x = TORCH.array(x, spec.layout)
            x.requires_grad_(x.is_floating_point() or x.is_complex())
        inputs.append(x)
    static = {name: torch_parameter(value) for name, value in sample.static.items()}
    outputs = case.through(torch, partial(case.torch, torch), *inputs, **static)
    return inputs, list(outputs) if isinstance(outputs, tuple) else [outputs]


def derivatives(module, inputs, outputs, make, *, order):
    """Return gradients with respect to inputs, then second ones to inputs and cotangents."""
    outputs = [y for y in outputs if y.requires_grad]
    leaves = [x for x in inputs if getattr(x, "requires_grad", False)]
    if not outputs:
        return []
    rng = np.random.default_rng(0)
    cotangents = [make(rng, y) for y in outputs]
    first = module.autograd.grad(
        outputs, leaves, cotangents, create_graph=order > 1, materialize_grads=True
    )
    if order == 1:
        return list(first)
    weights = [make(rng, g) for g in first]
    pairs = [(g, w) for g, w in zip(first, weights, strict=True) if g.requires_grad]
    wanted = [*leaves, *cotangents]
    if not pairs:
        return [*first, *(0 * x for x in wanted)]
    recorded, weights = zip(*pairs, strict=True)
    return [*first, *module.autograd.grad(recorded, wanted, weights, materialize_grads=True)]


def draw(rng, shape, dtype):
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values, dtype)


def random_tensor(rng, y):
    values = draw(rng, y.shape, NUMPY.dtype(y.dtype))
    return gpugrad.tensor(values, requires_grad=True)


def random_torch_tensor(rng, y):
    values = draw(rng, tuple(y.shape), TORCH.dtype(y.dtype))
    return torch.tensor(values, requires_grad=True)


def compare(case, sample, dtype, order, rtol, atol):
    ours = Call(case, sample, NUMPY, dtype)
    torch_inputs, torch_outputs = torch_call(case, sample, dtype)
    assert len(ours.outputs) == len(torch_outputs)
    pairs = [
        *zip(ours.outputs, torch_outputs, strict=True),
        *zip(
            derivatives(gpugrad, ours.tensors, ours.outputs, random_tensor, order=order),
            derivatives(torch, torch_inputs, torch_outputs, random_torch_tensor, order=order),
            strict=True,
        ),
    ]
    for number, (a, b) in enumerate(pairs):
        try:
            assert NUMPY.dtype(a.dtype) == TORCH.dtype(b.dtype)
            case.assert_close(NUMPY.values(a), b.numpy(force=True), rtol=rtol, atol=atol)
        except AssertionError as error:
            error.add_note(f"value {number} of outputs and gradients")
            raise


@pytest.mark.parametrize("case", OPS, ids=lambda case: case.op)
def test_values_and_gradients(case):
    for sample, checked in every(comparable(case, kinks=False)):
        with checked:
            compare(case, sample, "float64", 2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", [c for c in OPS if c.complex], ids=lambda case: case.op)
def test_complex_values_and_gradients(case):
    for sample, checked in every(comparable(case, kinks=False)):
        with checked:
            compare(case, sample, "complex128", 2, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", OPS, ids=lambda case: case.op)
def test_values_and_gradients_in_float32(case):
    for sample, checked in every(comparable(case, kinks=False)):
        with checked:
            compare(case, sample, "float32", 1, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "case", [case for case in OPS if any(comparable(case, kinks=True))], ids=lambda case: case.op
)
def test_gradients_at_kinks(case):
    for sample, checked in every(comparable(case, kinks=True)):
        with checked:
            compare(case, sample, "float64", 1, rtol=1e-9, atol=1e-9)
