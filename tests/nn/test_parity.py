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
    inputs = [*sample.arrays(dtype)]
    for i, (x, spec) in enumerate(zip(inputs, sample.inputs, strict=True)):
        if isinstance(x, np.ndarray):
            x = inputs[i] = TORCH.array(x, spec.layout)
            x.requires_grad_(x.is_floating_point() or x.is_complex())
    static = {name: torch_parameter(value) for name, value in sample.static.items()}
    outputs = case.through(torch, partial(case.torch, torch), *inputs, **static)
    return inputs, list(outputs) if isinstance(outputs, tuple) else [outputs]


def derivatives(module, inputs, outputs, *, order):
    """Return gradients with respect to inputs, then second ones to inputs and cotangents."""
    leaves, found = [x for x in inputs if getattr(x, "requires_grad", False)], []
    results, rng = [y for y in outputs if y.requires_grad], np.random.default_rng(0)

    def random_like(y):
        values, dtype = rng.standard_normal(tuple(y.shape)), TORCH.dtype(y.dtype)
        if dtype.startswith("complex"):
            values = values + 1j * rng.standard_normal(values.shape)
        return module.tensor(np.asarray(values, dtype), requires_grad=True)

    for n in range(1, order + 1):
        weights = [*map(random_like, results)]
        pairs = [(y, w) for y, w in zip(results, weights, strict=True) if y.requires_grad]
        if not pairs:
            return found and [*found, *(0 * x for x in leaves)]
        outputs, cotangents = zip(*pairs, strict=True)
        options = {"create_graph": n < order, "materialize_grads": True}
        results = module.autograd.grad(outputs, leaves, cotangents, **options)
        found += results
        leaves += weights
    return found


def compare(case, sample, dtype, order, tolerance):
    ours = Call(case, sample, NUMPY, dtype)
    inputs, outputs = torch_call(case, sample, dtype)
    found = [*ours.outputs, *derivatives(gpugrad, ours.tensors, ours.outputs, order=order)]
    theirs = [*outputs, *derivatives(torch, inputs, outputs, order=order)]
    assert len(ours.outputs) == len(outputs)
    for number, (a, b) in enumerate(zip(found, theirs, strict=True)):
        try:
            assert NUMPY.dtype(a.dtype) == TORCH.dtype(b.dtype)
            b = b.numpy(force=True)
            case.assert_close(NUMPY.values(a), b, rtol=tolerance, atol=tolerance)
        except AssertionError as error:
            error.add_note(f"value {number} of outputs and gradients")
            raise


CHECKS = {
    "float64": ("float64", 2, 1e-9), "complex": ("complex128", 2, 1e-9),
    "float32": ("float32", 1, 1e-4), "kinks": ("float64", 1, 1e-9),
}  # fmt: skip


@pytest.mark.parametrize("case, check", [
    pytest.param(case, check, id=f"{case.op}-{check}")
    for check in CHECKS
    for case in CASES
    if case.torch is not None and (check != "complex" or case.complex)
    and any(comparable(case, kinks=check == "kinks"))
])  # fmt: skip
def test_values_and_gradients(case, check):
    for sample, checked in every(comparable(case, kinks=check == "kinks")):
        with checked:
            compare(case, sample, *CHECKS[check])
