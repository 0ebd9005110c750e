"""Ops, layers and optimizers give the same results on a GPU as on the CPU."""

import copy
from functools import partial

import numpy as np
import pytest
from both_ways import training
from cases import CASES
from cuda_device import IS_STAND_IN, host_must_not_wait, on_gpu
from libraries import Library
from modules import LAYERS, LOSSES, OPTIMIZERS, on_device
from samples import every
from test_layers import outputs
from test_ops import Call, quiet, samples

import gpugrad as gg
from gpugrad import nn
from gpugrad.data import images
from gpugrad.nn import functional
from gpugrad.testing import assert_close

pytestmark = on_gpu

CPU, GPU = Library("numpy", "numpy"), Library("cupy", "cupy")
NEAR = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "float16": 1e-2, "complex64": 1e-4}
DTYPES = ["float32"] if IS_STAND_IN else list(NEAR)  # on the stand-in it is NumPy against NumPy
SIZES = [300] if IS_STAND_IN else [1000, 100_000]  # the stand-in is slow
PLAIN = [case for case in CASES if not case.op.startswith(("linalg", "special"))]


def flushed(x):
    """``x`` with 0 for each subnormal float32: CuPy compiles all kernels with ``-ftz=true``."""
    if x.dtype == "complex64":
        return flushed(x.real) + 1j * flushed(x.imag)
    if x.dtype != "float32":
        return x
    return np.where(np.abs(x) < np.finfo("float32").tiny, np.float32(0), x)


def compare(case, sample, dtype):
    """Compare values and gradients on both; tolerances are relative to the largest value."""
    made = []
    for library in (GPU, CPU):
        call = Call(case, sample, library, dtype)
        for x in call.given:  # a GPU would take these for 0
            assert not isinstance(x, np.ndarray) or np.array_equal(x, flushed(x), equal_nan=True)
        made.append([*call.outputs, *(call.gradients(call.cotangents()) if call.recorded else [])])
    for a, b in zip(*made, strict=True):
        assert (a.device, GPU.dtype(a.dtype)) == ("cuda:0", CPU.dtype(b.dtype))
        a, b = flushed(GPU.values(a)), flushed(CPU.values(b))
        near = max(NEAR.get(x, 0) for x in (dtype, b.dtype.name, "float32" * sample.mixed))
        finite = np.abs(b[np.isfinite(b)]).max(initial=0) if b.dtype.kind in "fc" else 0
        assert_close(a, b, rtol=near, atol=near * max(1, finite))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_op(case, dtype):
    for sample, checked in every(samples(case, GPU, dtype)):
        with checked, quiet():
            compare(case, sample, dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.op)
def test_op_of_many_elements(case, dtype, n):
    """Kernels take other paths for many elements: several blocks, whole vectors and a rest."""
    with quiet():
        compare(case, case.at_size(n), dtype)


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert (a.device, a.dtype, a.shape) == ("cuda:0", b.dtype, b.shape)
        assert_close(a.detach().cpu().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def later_step_context(x):
    """Return the context for a later step: on a GPU, when all is loaded, it must not wait."""
    return quiet() if x.device == "cpu" else host_must_not_wait()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("row", [*LAYERS, *LOSSES], ids=str)
def test_layer(row, training):
    made = []
    for device in ("cuda", "cpu"):
        gg.manual_seed(0)
        module, inputs = on_device(row, partial(gg.tensor, device=device))
        module.to(device).train(training)

        def step(module=module, inputs=inputs):
            out = outputs(module, *inputs)
            # Of squares, batch norm's gradient is rounding errors.
            sum(gg.sin(y).sum() for y in out).backward()
            return out

        step()
        step()  # loads what adds gradients to those that are there: loading a kernel may wait
        with later_step_context(inputs[0]):
            out = step()
        leaves = [x for x in (*inputs, *module.parameters()) if x.requires_grad]
        made.append([*out, *[x.grad for x in leaves], *module.buffers()])
    assert_same(*made)


def bags(x, mode):
    rows, offsets = (gg.tensor(i, device=x.device) for i in ([0, 7, 3, 3, 2], [0, 2, 2]))
    return functional.embedding_bag(rows, gg.reshape(x, (8, 6)), offsets, mode=mode)


# Of images (2, 2, 3, 4).
FUNCTIONS = {
    "grid": lambda x: functional.grid_sample(
        x, functional.affine_grid(gg.reshape(x[:, 0, :2, :3], (2, 2, 3)), (2, 2, 5, 3))
    ),
    "reflected": lambda x: functional.grid_sample(
        x, 2 * gg.reshape(x, (2, 3, 4, 2)), "bicubic", "reflection"
    ),
    "bicubic": lambda x: functional.interpolate(x, (5, 7), mode="bicubic"),
    "sums": lambda x: bags(x, "sum"), "maxima": lambda x: bags(x, "max"),
    "changes": images.Compose([
        images.Normalize(0.5, 2.0), images.RandomCrop((3, 2), 1, generator=gg.random.Generator(0)),
        images.RandomHorizontalFlip(generator=gg.random.Generator(1)),
        images.RandomRotation(40, "bilinear", generator=gg.random.Generator(2)),
    ]),
    "mixed": lambda x: images.MixUp(generator=gg.random.Generator(3))((x, x[:, 0, 0]))[0],
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    made, x = [], np.random.default_rng(0).standard_normal((2, 2, 3, 4)).astype("float32")
    for device in ("cuda", "cpu"):
        given = gg.tensor(x, device=device, requires_grad=True)
        out = copy.deepcopy(FUNCTIONS[name])(given)
        gg.sin(out).sum().backward()
        made.append([out, given.grad])
    assert_same(*made)


GIVEN = [{}, {"weight_decay": 1e-2}]
SGD_OPTIONS = [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizer(kind):
    given = np.random.default_rng(0).standard_normal((2, 8, 3)).astype("float32")
    for options in GIVEN + (SGD_OPTIONS if kind.__name__ == "SGD" else []):
        made = []
        for device in ("cuda", "cpu"):
            gg.manual_seed(0)
            model, pair = nn.MLP(3, [5, 3]).to(device), [gg.tensor(v, device=device) for v in given]
            optimizer = kind(model.parameters(), lr=0.05, **options)
            step = training(
                optimizer, lambda x, y, model=model: nn.MSELoss()(model(x), y),
                nn.utils.clip_grad_norm_, [*model.parameters()], 1.0,
            )  # fmt: skip
            for _ in range(3):
                step(*pair)
            with later_step_context(pair[0]):
                step(*pair)
                step(*pair)
            state = optimizer.state_dict()["state"].values()
            kept = [x for s in state for x in s.values() if getattr(x, "ndim", 0)]
            made.append([*model.parameters(), *kept])
        assert_same(*made)
