"""Devices: names, missing devices, mixing, transfer; and CuPy's names, checked without a GPU."""

import importlib.util
import inspect
import operator
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import gpugrad as gg
from gpugrad.backends import parse_device

# A decorator that defines an op by a function of ``xp``, a part of ``xp``, and the op's name.
DECLARED = r'^@(special|standard|library)_function\(?(?:"xp\.(\w+))?.*?^def _?(\w+)'


def namespace_functions_of_ops():
    """Return every function of ``xp`` that ops use: ``"exp"``, ``"linalg.solve"``, ..."""
    for path in (Path(gg.__file__).parent / "ops").rglob("*.py"):
        source = path.read_text("utf-8")
        used = {*re.findall(r"\bxp\.((?:(?:linalg|fft|special)\.)?\w+)", source)}
        yield from used - {"linalg", "fft", "special", "special.name"}
        for kind, space, name in re.findall(DECLARED, source, re.M | re.S):
            if kind == "standard":
                yield name
            elif kind == "special" or space:
                yield f"{space or kind}.{name}"


# In CuPy.
LACKING = {f"special.{name}" for name in "hyp1f1 hyp2f1 iv ive jv kv kve yv".split()}

has_cupy = importlib.util.find_spec("cupy") is not None


def on(device, **options):
    """A tensor on a simulated device of array-api-strict."""
    strict = pytest.importorskip("array_api_strict")
    array = strict.asarray([1.0, 2.0], dtype=strict.float32, device=strict.Device(device))
    return gg.asarray(array, **options)


def test_names_of_devices():
    for name, parsed in ("cpu", ("cpu", None)), ("cuda", ("cuda", None)), ("cuda:12", ("cuda", 12)):
        assert parse_device(name) == parsed
    for device in "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:a", " cpu", None, 0:
        with pytest.raises(ValueError, match="is not known; use 'cpu', 'cuda' or 'cuda:N'"):
            parse_device(device)


@pytest.mark.skipif(gg.cuda.is_available(), reason="there is a GPU")
def test_errors_name_what_a_gpu_needs():
    assert (gg.cuda.is_available(), gg.cuda.device_count()) == (False, 0)
    assert "CuPy" in gg.cuda.why_not()
    if has_cupy:  # the message is CUDA's, about a missing driver or GPU
        message = r"CuPy is installed but (finds no CUDA device: cuda\w+: |does not load: )"
    else:
        message = r"CuPy, which is not installed; pip install cupy-cuda13x .*cupy-cuda12x for"
    for call in (
        lambda: gg.ones(2, device="cuda"), lambda: gg.tensor([1.0], device="cuda:0"),
        gg.tensor([1.0]).cuda, lambda: gg.tensor([1.0]).to("cuda:1"),
        lambda: gg.zeros_like(gg.ones(2), device="cuda"),
        lambda: gg.random.normal(3, device="cuda"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            call()


class TestMixing:
    """On the simulated devices of array-api-strict, and between libraries."""

    @pytest.mark.slow  # it imports JAX
    def test_an_array_of_jax(self):
        """On either side, the error names both libraries; what it says to do is right."""
        numbers = pytest.importorskip("jax.numpy").asarray([3.0, 4.0])
        x = gg.tensor([1.0, 2.0], requires_grad=True)
        message = r"libraries, jax\.numpy and numpy; .* with gpugrad\.asarray\(numpy\.asarray\(x"
        for name in "add", "sub", "mul", "truediv", "pow", "matmul", "lt", "eq":
            function = getattr(operator, name)
            for pair in (numbers, x), (x, numbers), (gg.asarray(numbers), x):
                with pytest.raises(TypeError, match=message):
                    function(*pair)
        y = gg.asarray(np.asarray(numbers)) * x
        y.sum().backward()
        assert (y.tolist(), x.grad.tolist()) == ([3, 8], [3, 4])
        of_jax = gg.asarray(numbers, requires_grad=True)
        assert (of_jax * numbers).tolist() == (numbers * of_jax).tolist() == [9, 16]

    def test_libraries(self):
        with pytest.raises(TypeError, match="different libraries, array_api_strict and numpy"):
            gg.ones(2) + on("device1")
        ones = pytest.importorskip("torch").ones(2)
        message = r"add: .*libraries, numpy and torch; .*asarray\(x\.numpy"
        with pytest.raises(TypeError, match=message):
            gg.ones(2) + gg.asarray(ones)
        with pytest.raises(TypeError, match="cannot be indexed by int64"):
            gg.asarray(ones)[gg.tensor([0])]

    def test_gradient_on_another_device(self):
        x = on("device1", requires_grad=True)
        with pytest.raises(ValueError, match=r"backward: the gradient .*CPU_DEVICE.*device1"):
            (x * 2).backward(on("CPU_DEVICE"))
        with pytest.raises(ValueError, match=r"grad: must be a tensor .* on device1"):
            x.grad = on("CPU_DEVICE")


def test_a_transfer_is_differentiable():
    x = on("device1", requires_grad=True)
    y = x.to("device2")
    assert y.device == "device2"
    assert x.to("device1") is x
    (y * y).sum().backward()
    assert (x.grad.device, x.grad.tolist()) == ("device1", [2, 4])
    assert type(x.to("cpu").array) is np.ndarray
    assert x.detach().cpu().numpy().tolist() == [1, 2]


def test_a_tensor_on_another_device():
    x = on("device1")
    assert repr(x) == "tensor([1., 2.], device='device1', library=array_api_strict)"
    assert (x.tolist(), x[0].item()) == ([1, 2], 1)
    for y in (gg.zeros_like(x), gg.full_like(x, 2), gg.zeros_like(x, dtype=gg.float64)):
        assert y.device == "device1"


@pytest.mark.skipif(not has_cupy, reason="CuPy is not installed")
def test_the_namespace_of_cupy_has_what_ops_use():
    """`test_cupy_stand_in` checks the names that gpugrad itself uses."""
    pytest.importorskip("cupy")
    from gpugrad.backends.cupy import xp

    names = {*namespace_functions_of_ops()}
    assert {"exp", "linalg.solve", "fft.fft", "special.erf"} <= names
    for name in names:
        if name in LACKING:
            with pytest.raises(RuntimeError, match="CuPy has no function"):
                attrgetter(name)(xp)
        else:
            assert attrgetter(name)(xp) is not None
    for name, args, keywords in [
        ("zeros", ((2,),), {}), ("ones", ((2,),), {}), ("full", ((2,), 1.0), {}),
        ("arange", (0, 2, 1), {}), ("linspace", (0, 1, 2), {"endpoint": True}),
        ("eye", (2, None), {"k": 0}),
    ]:  # fmt: skip
        inspect.signature(getattr(xp, name)).bind(*args, dtype=np.float32, **keywords)
