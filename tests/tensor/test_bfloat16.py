"""bfloat16: in every op, with other dtypes and in other processes."""

import pickle

import numpy as np
import pytest
from cases import CASES
from libraries import each_library
from ml_dtypes import bfloat16 as scalar_type
from samples import every
from stand_in import run
from test_ops import Call, samples

import gpugrad as gg
from gpugrad.testing import assert_close

bf16 = np.dtype(scalar_type)

pytestmark = pytest.mark.usefixtures("bfloat16")
OWN = each_library(lambda library: library.name in ("numpy", "cupy"))


@pytest.fixture(params=OWN)
def device(request):
    return {"numpy": "cpu", "cupy": "cuda"}[request.param.name]


class Rounded:
    """A sample whose numbers are rounded to bfloat16."""

    def __init__(self, sample):
        self.sample, self.inputs, self.static = sample, sample.inputs, sample.static

    def arrays(self, dtype):
        return [
            x.astype(bf16).astype(dtype) if getattr(x, "dtype", None) == "float64" else x
            for x in self.sample.arrays("float64")
        ]


def as_numpy(x):
    return x.detach().cpu().numpy()


@pytest.mark.parametrize("library", OWN)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_op(case, library):
    """Results and gradients are close to those of float64, and bfloat16 where those are float64."""
    for sample, checked in every(samples(case, library, mixed=False, kinks=False)):
        if not sample.double:
            continue
        with checked:
            low, high = (Call(case, Rounded(sample), library, d) for d in (bf16, "float64"))
            for a, b in zip(low.outputs, high.outputs, strict=True):
                dtype = sample.static.get("dtype") or DTYPES.get(str(b.dtype), b.dtype)
                check_close(a, b, str(np.dtype(dtype)), NEAR)
            # The cotangent and the values kept for backward were rounded before, and differences
            # of such numbers are less accurate.
            near = 2**-3 if case.op in DIFFERENCES else 2**-5
            cotangents = low.cotangents()
            wide = [library.tensor(as_numpy(x).astype(WIDE[x.dtype.kind])) for x in cotangents]
            for a, b in zip(low.gradients(cotangents), high.gradients(wide), strict=True):
                check_close(a, b, "bfloat16", near)


WIDE = {"V": "float64", "f": "float64", "c": "complex128"}  # the kind of bfloat16 is V
DTYPES = {"float64": "bfloat16", "complex128": "complex64"}
DIFFERENCES = {"special.erfcx", "special.i1e", "special.lpmv"}
# Two units in the last place: some ops consist of several functions, each rounded on CuPy.
NEAR = 2**-6


def check_close(low, high, dtype, near):
    assert (str(low.dtype), low.shape) == (dtype, high.shape)
    a, b = as_numpy(low).astype("complex128"), as_numpy(high).astype("complex128")
    scale = max(np.max(np.abs(b), where=np.isfinite(b), initial=0), 1e-3)
    assert_close(a, b, rtol=near, atol=near * scale / 2)


class TestDtype:
    def test_is_the_dtype_of_ml_dtypes(self):
        assert bf16 == np.dtype(scalar_type) == gg.tensor([1.0], dtype="bfloat16").dtype
        assert gg.bfloat16 is bf16
        assert "bfloat16" not in gg.__array_namespace_info__().dtypes()
        info = gg.finfo(bf16)
        assert (info.bits, info.eps, info.max) == (16, 2**-7, float.fromhex("0x1.fep+127"))
        assert info.dtype == bf16
        with pytest.raises(TypeError, match="iinfo: needs an integer dtype, not bfloat16"):
            gg.iinfo(bf16)
        assert gg.can_cast(bf16, gg.float32)
        assert not gg.can_cast(gg.float32, bf16)

    def test_kinds(self):
        for kind in "real floating", "numeric", bf16, ("bool", "real floating"):
            assert gg.isdtype(bf16, kind)
        for kind in "integral", "complex floating", "bool", gg.float16, ("bool", "integral"):
            assert not gg.isdtype(bf16, kind)
        assert not gg.isdtype(gg.float32, bf16)
        with pytest.raises(ValueError, match="isdtype: kind 'real' is not known"):
            gg.isdtype(bf16, "real")

    @pytest.mark.parametrize("others, expected", [
        ((), "bfloat16"), ((2, 2.5, True), "bfloat16"), ((gg.int64, gg.bool, gg.uint8), "bfloat16"),
        ((gg.int64, 2.5), "bfloat16"), ((gg.float32,), "float32"), ((gg.float16,), "float32"),
        ((gg.float16, gg.float64), "float64"), ((1j,), "complex64"), ((gg.complex64,), "complex64"),
    ], ids=str)  # fmt: skip
    def test_result_type(self, others, expected, device):
        total = x = gg.ones(2, dtype=bf16, device=device)
        assert gg.result_type(bf16, *others) == gg.result_type(x, *others) == expected
        for other in others:
            if not isinstance(other, (bool, int, float, complex)):
                other = gg.ones(2, dtype=other, device=device)
            total = total + other
        assert total.dtype == expected

    def test_repr_and_reading(self):
        x = gg.tensor([[1.0, 2.5], [0.1, -3]], dtype=bf16)
        text = "tensor([[ 1.    ,  2.5   ],\n        [ 0.1001, -3.    ]], dtype=bfloat16)"
        assert (repr(x), x.tolist()) == (text, [[1, 2.5], [0.10009765625, -3]])
        assert (type(x[0, 1].item()), float(x[0, 1])) == (float, 2.5)


def test_creation(device):
    place = {"dtype": bf16, "device": device}
    for x in (
        gg.zeros(3, **place), gg.full((3,), 2.5, **place), gg.arange(3, **place),
        gg.linspace(0, 1, 3, **place), gg.eye(3, **place), gg.random.normal((3,), **place),
        gg.asarray(np.ones(3, scalar_type), device=device), gg.ones_like(gg.zeros(3, **place)),
        gg.ones(3, device=device).to(bf16), gg.ones(3, device=device).to("bfloat16"),
    ):  # fmt: skip
        assert (x.dtype, x.requires_grad_().requires_grad) == (bf16, True)
    u = gg.random.uniform((4000,), **place).to(gg.float32)
    assert 0 <= u.min().item() < 0.01 < 0.99 < u.max().item() < 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sums_do_not_lose_their_elements(device, dtype):
    place = {"dtype": dtype, "device": device}
    x = gg.ones((4096, 8), **place)
    for found in x.sum(axis=0), gg.cumulative_sum(x, axis=0)[-1], *(x.mT @ x):
        assert found.tolist() == [4096] * 8
    assert (x.sum().item(), gg.var(x * 300).item()) == (4096 * 8, 0)
    weight, bias, rows = (gg.zeros(n, **place, requires_grad=True) for n in ((8, 8), 8, 2))
    gg.linear(x, weight, bias).backward(x)
    assert bias.grad.tolist() == [4096] * 8
    gg.take(rows, gg.zeros(4096, dtype=gg.int64, device=device), axis=0).sum().backward()
    assert rows.grad.tolist() == [4096, 0]


def test_activations_of_many_elements_are_those_of_few(device):
    for x in (gg.ones((4096, 8), dtype=dtype, device=device) for dtype in ("bfloat16", "float16")):
        assert gg.all(gg.silu(x) == gg.silu(x[:1])).item()


def test_arrays_of_pytorch():
    torch = pytest.importorskip("torch")
    theirs = torch.tensor([1.5, -2.0]).bfloat16()
    x = gg.asarray(theirs).requires_grad_()
    assert gg.isdtype(x.dtype, "real floating")
    assert gg.result_type(x, gg.float32) == torch.float32
    assert repr(x.detach()) == "tensor([ 1.5, -2. ], dtype=bfloat16, library=torch)"
    theirs.requires_grad_()  # PyTorch has a graph of its own
    assert repr(gg.asarray(theirs)) == repr(x.detach())
    y = gg.asarray(x.detach().numpy())
    assert (y.dtype, y.tolist()) == (bf16, [1.5, -2])
    (x * x).sum().backward()
    assert (x.grad.dtype, x.grad.tolist()) == (torch.bfloat16, [3, -4])
    assert (gg.zeros_like(x.detach()) + gg.asarray(torch.zeros(2)).to(bf16)).dtype == torch.bfloat16


def test_pickled_for_another_process(tmp_path):
    """Loading the pickle registers the dtype in the other process."""
    (tmp_path / "x").write_bytes(pickle.dumps(gg.ones(2, dtype=bf16)))
    code = "import pickle, sys; print((pickle.load(open(sys.argv[1], 'rb')) * 2.0).dtype)"
    assert run("-c", code, tmp_path / "x").stdout.strip() == "bfloat16"


def test_nothing_changes_until_it_is_used():
    """Its package is not imported either; without the package the error says what to do."""
    code = """
import sys
import gpugrad as gg
from gpugrad.autograd.implementation import all_ops, implementation_of

assert "ml_dtypes" not in sys.modules
kind = type(gg.ones(1).array)
for op in all_ops():
    assert implementation_of(op, kind).forward is op.forward or "numpy" in op.twins
sys.modules["ml_dtypes"] = None
for ask in (lambda: gg.bfloat16, lambda: gg.ones(2, dtype="bfloat16")):
    try:
        ask()
    except ImportError as error:
        assert "needs the package ml_dtypes; pip install ml_dtypes" in str(error)
    else:
        raise AssertionError
"""
    done = run("-c", code)
    assert not done.returncode, done.stderr
