"""Devices: names, missing devices, mixing, transfer; and CuPy's names, checked without a GPU."""

import ast
import importlib.util
import inspect
import operator
import re
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import gpugrad as gg
from gpugrad.backends import namespace_of, parse_device

OPS = Path(gg.__file__).parent / "ops"


def namespace_functions_of_ops():
    """Return every function of ``xp`` that ops use: ``"exp"``, ``"linalg.solve"``, ..."""
    for path in OPS.rglob("*.py"):
        if path.name in ("__init__.py", "operators.py"):  # use none
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for decorator in getattr(node, "decorator_list", ()):
                if ast.unparse(decorator).startswith("special_function("):
                    yield f"special.{node.name}"
                if ast.unparse(decorator).startswith("standard_function("):
                    yield node.name
                if ast.unparse(decorator).startswith("library_function('xp."):
                    namespace = decorator.args[0].value.removeprefix("xp.")
                    yield f"{namespace}.{node.name.lstrip('_')}"
            if not isinstance(node, ast.Attribute):
                continue
            name = re.match(r"xp\.(?:(?:linalg|fft|special)\.)?\w+", ast.unparse(node))
            if name and name[0] not in ("xp.linalg", "xp.fft", "xp.special"):
                yield name[0].removeprefix("xp.")


# In CuPy.
LACKING = {f"special.{name}" for name in "hyp1f1 hyp2f1 iv ive jv kv kve yv".split()}

has_cupy = importlib.util.find_spec("cupy") is not None


@pytest.fixture
def strict():
    return pytest.importorskip("array_api_strict")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def on(strict, device, values=(1.0, 2.0), **options):
    array = strict.asarray(values, dtype=strict.float32, device=strict.Device(device))
    return gg.asarray(array, **options)


class TestNames:
    def test_parse(self):
        assert parse_device("cpu") == ("cpu", None)
        assert parse_device("cuda") == ("cuda", None)
        assert parse_device("cuda:12") == ("cuda", 12)

    def test_unknown(self):
        for device in "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:a", " cpu", None, 0:
            with pytest.raises(ValueError, match="is not known; use 'cpu', 'cuda' or 'cuda:N'"):
                parse_device(device)


CUDA_CALLS = [
    lambda: gg.ones(2, device="cuda"),
    lambda: gg.tensor([1.0], device="cuda:0"),
    lambda: gg.tensor([1.0]).cuda(),
    lambda: gg.tensor([1.0]).to("cuda:1"),
    lambda: gg.zeros_like(gg.ones(2), device="cuda"),
    lambda: gg.random.normal(3, device="cuda"),
]


@pytest.mark.skipif(gg.cuda.is_available(), reason="there is a GPU")
class TestWithoutGPU:
    def test_queries(self):
        assert gg.cuda.is_available() is False
        assert gg.cuda.device_count() == 0
        assert "CuPy" in gg.cuda.why_not()

    @pytest.mark.parametrize("call", CUDA_CALLS)
    def test_errors_name_what_is_missing(self, call):
        if has_cupy:  # the message is CUDA's, about a missing driver or GPU
            message = r"CuPy is installed but (finds no CUDA device: cuda\w+: |does not load: )"
        else:
            message = r"CuPy, which is not installed; pip install cupy-cuda13x .*cupy-cuda12x for"
        with pytest.raises(RuntimeError, match=message):
            call()


class TestMixing:
    """On the simulated devices of array-api-strict."""

    def test_two_libraries(self, torch):
        message = r"add: .*libraries, numpy and torch; .*asarray\(x\.numpy"
        with pytest.raises(TypeError, match=message):
            gg.ones(2) + gg.asarray(torch.ones(2))

    @pytest.mark.slow  # it imports JAX
    def test_an_array_of_jax(self):
        """On either side, the error names both libraries; what it says to do is right."""
        numbers = pytest.importorskip("jax.numpy").asarray([3.0, 4.0])
        x = gg.tensor([1.0, 2.0], requires_grad=True)
        message = (
            r"libraries, jax\.numpy and numpy; make one .* raw array with "
            r"gpugrad\.asarray\(numpy\.asarray\(x\)\)"
        )
        for name in "add", "sub", "mul", "truediv", "pow", "matmul", "lt", "eq":
            function = getattr(operator, name)
            for pair in (numbers, x), (x, numbers), (gg.asarray(numbers), x):
                with pytest.raises(TypeError, match=message):
                    function(*pair)
        y = gg.asarray(np.asarray(numbers)) * x
        y.sum().backward()
        assert y.tolist() == [3, 8]
        assert x.grad.tolist() == [3, 4]
        of_jax = gg.asarray(numbers, requires_grad=True)
        assert (of_jax * numbers).tolist() == (numbers * of_jax).tolist() == [9, 16]

    def test_two_libraries_on_two_devices(self, strict):
        with pytest.raises(TypeError, match="different libraries, array_api_strict and numpy"):
            gg.ones(2) + on(strict, "device1")

    def test_gradient_on_another_device(self, strict):
        x = on(strict, "device1", requires_grad=True)
        with pytest.raises(ValueError, match=r"backward: the gradient .*CPU_DEVICE.*device1"):
            (x * 2).backward(on(strict, "CPU_DEVICE"))
        with pytest.raises(ValueError, match=r"grad: must be a tensor .* on device1"):
            x.grad = on(strict, "CPU_DEVICE")

    def test_index_of_another_library(self, torch):
        with pytest.raises(TypeError, match="cannot be indexed by int64"):
            gg.asarray(torch.ones(2))[gg.tensor([0])]


class TestPlacement:
    def test_transfer_is_differentiable(self, strict):
        x = on(strict, "device1", requires_grad=True)
        y = x.to("device2")
        assert y.device == "device2"
        assert x.to("device1") is x
        (y * y).sum().backward()
        assert x.grad.device == "device1"
        assert x.grad.tolist() == [2, 4]

    def test_transfer_to_another_library(self, strict):
        x = on(strict, "device1", requires_grad=True)
        y = x.to("cpu")
        assert type(y.array) is np.ndarray
        assert x.detach().cpu().numpy().tolist() == [1, 2]

    def test_printing_and_reading(self, strict):
        x = on(strict, "device1")
        assert repr(x) == "tensor([1., 2.], device='device1', library=array_api_strict)"
        assert x.tolist() == [1, 2]
        assert x[0].item() == 1

    def test_creation_beside_a_tensor(self, strict):
        x = on(strict, "device1")
        for y in (gg.zeros_like(x), gg.full_like(x, 2), gg.zeros_like(x, dtype=gg.float64)):
            assert y.device == "device1"


@pytest.mark.skipif(not has_cupy, reason="CuPy is not installed")
class TestCuPyNames:
    """CuPy's namespace for ops; `test_cupy_stand_in` checks the names that gpugrad itself uses."""

    @pytest.fixture
    def cupy(self):
        return pytest.importorskip("cupy")

    def test_backend_imports_and_has_the_namespace(self, cupy):
        from gpugrad.backends.cupy import xp

        for name in namespace_functions_of_ops():
            if name in LACKING:
                with pytest.raises(RuntimeError, match="CuPy has no function"):
                    attrgetter(name)(xp)
            else:
                assert attrgetter(name)(xp) is not None

    def test_creation_functions_take_what_the_backend_gives(self, cupy):
        from gpugrad.backends.cupy import xp

        for name, args, keywords in [
            ("zeros", ((2,),), {}), ("ones", ((2,),), {}), ("full", ((2,), 1.0), {}),
            ("arange", (0, 2, 1), {}), ("linspace", (0, 1, 2), {"endpoint": True}),
            ("eye", (2, None), {"k": 0}),
        ]:  # fmt: skip
            inspect.signature(getattr(xp, name)).bind(*args, dtype=np.float32, **keywords)


def test_every_namespace_has_what_ops_use(library):
    xp = namespace_of[type(library.tensor(0.0).array)]
    names = set(namespace_functions_of_ops())
    assert {"exp", "linalg.solve", "fft.fft", "special.erf"} <= names
    for name in names - LACKING if library.name == "cupy" else names:
        assert attrgetter(name)(xp) is not None
