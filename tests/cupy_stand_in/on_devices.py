"""Several devices, streams, memory and other libraries' arrays, on the stand-in for CuPy.

Everything here is on ``cuda:1`` while device 0 is the current one, where CuPy would refuse it.
"""

import copy
import ctypes
import gc
import pickle
import threading

import cupy
import numpy as np
import pytest
from cases import CASES
from cupy import _array
from cupy._reads import reads
from libraries import Library
from on_stand_in import NUMPY, TRANSFORMS, has_to_wait, steps
from test_ops import Call, check, samples

import gpugrad as gg
from gpugrad import data, nn, optim
from gpugrad.testing import assert_close


class OnSecond(Library):
    """CuPy, with arrays on the device that is not current."""

    def _array(self, values):
        with cupy.cuda.Device(1):
            return super()._array(values)


SECOND = OnSecond("cupy", "cupy")


@pytest.fixture(autouse=True)
def alone():
    """The current device is 0 and stays so; nothing is copied between devices but by request."""
    reads.clear()
    _array.crossings.clear()
    assert cupy.cuda.runtime.getDevice() == 0
    yield
    assert cupy.cuda.runtime.getDevice() == 0


def on_second(*tensors):
    assert {x.device for x in tensors} == {"cuda:1"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_op(case):
    """Values, gradients and tangents are NumPy's, all on the inputs' device."""
    for sample in samples(case, SECOND, "float64"):
        reads.clear()
        call = Call(case, sample, SECOND, "float64")
        results = [*call.outputs, *(steps(call) if call.recorded else [])]
        if not has_to_wait(case, sample):
            assert reads == [], f"sample: {sample}"
        expected = Call(case, sample, NUMPY, "float64")
        others = [*expected.outputs, *(steps(expected) if expected.recorded else [])]
        assert len(results) == len(others)
        for a, b in zip(results, others, strict=True):
            on_second(a)
            near = 1e-6 if sample.mixed else 1e-9
            check(sample, assert_close, SECOND.values(a), NUMPY.values(b), rtol=near, atol=near)
        assert cupy.cuda.runtime.getDevice() == 0, f"sample: {sample}"
    assert _array.crossings == []


class TestOnTheSecond:
    """What is not an op."""

    @pytest.mark.parametrize("name", TRANSFORMS)
    def test_transform(self, name):
        def f(x):
            return gg.sum(gg.softmax(x) * gg.sin(x) ** 2) + gg.max(x) * x[0]

        x = gg.random.normal((4,), dtype=gg.float64)
        there = TRANSFORMS[name](f, x.to("cuda:1"))
        on_second(there)
        assert reads == []
        assert_close(there.cpu().numpy(), TRANSFORMS[name](f, x).numpy(), rtol=1e-12)

    def test_made(self):
        x = gg.ones((2, 3), device="cuda:1")
        made = [
            gg.tensor([1.0, 2], device="cuda:1"),
            gg.asarray(np.ones(2), device="cuda:1"),
            gg.asarray(x, dtype=gg.float16, copy=True),
            gg.asarray([x[0, 0], 2.0]),
            gg.tensor(x.array, dtype="float64"),
            gg.arange(5, device="cuda:1"),
            gg.linspace(0, 1, 5, device="cuda:1"),
            gg.eye(3, device="cuda:1"),
            gg.full((2,), 3, device="cuda:1"),
            gg.full((2,), x[0, 0]),
            gg.full_like(x, 2, dtype=gg.int32),
            gg.zeros_like(x),
            gg.empty_like(x.array),
            gg.one_hot(gg.tensor([0, 1], device="cuda:1"), 3),
            gg.fft.fftfreq(4, device="cuda:1"),
            gg.tril(x),
            *gg.meshgrid(x[0], x[1]),
        ]
        on_second(*made)
        assert reads == []
        assert gg.linspace(0, 1, 5, device="cuda:1").tolist() == [0, 0.25, 0.5, 0.75, 1]

    def test_random(self):
        draws = {
            "uniform": lambda: gg.random.uniform((5,), device="cuda:1", dtype=gg.float16),
            "normal": lambda: gg.random.normal((5,), device="cuda:1"),
            "integers": lambda: gg.random.integers(2, 5, (5,), device="cuda:1"),
            "permutation": lambda: gg.random.permutation(5, device="cuda:1"),
        }
        generator = gg.random.default_generator("cuda:1")
        state = generator.get_state()
        first = {name: draw() for name, draw in draws.items()}
        on_second(*first.values())
        generator.set_state(state)
        for name, draw in draws.items():
            assert draw().tolist() == first[name].tolist()
        generator = gg.random.Generator(3, device="cuda:1")
        on_second(generator.normal((2,)), generator.permutation(3))

    def test_read_and_shown(self):
        x = gg.tensor([[1.5, 2], [3, 4]], device="cuda:1", requires_grad=True)
        assert repr(x) == (
            "tensor([[1.5, 2. ],\n        [3. , 4. ]], device='cuda:1', requires_grad=True)"
        )
        assert x.tolist() == [[1.5, 2], [3, 4]]
        assert (x[0, 0].item(), float(x.detach()[0, 1]), bool(x[0, 0] > 1)) == (1.5, 2.0, True)
        assert [row.tolist() for row in x] == [[1.5, 2], [3, 4]]
        assert f"{x[1, 1]:.2f}" == "4.00"
        assert x.T.cpu().detach().numpy().tolist() == [[1.5, 3], [2, 4]]
        assert x._repr_html_() is None or "cuda:1" in x._repr_html_()

    def test_copied(self, tmp_path):
        x = gg.tensor([1.0, 2], device="cuda:1", requires_grad=True)
        again = copy.deepcopy(x)
        on_second(again)
        assert again.requires_grad
        gg.save({"x": x.detach()}, tmp_path / "x.safetensors")
        loaded = gg.load(tmp_path / "x.safetensors", device="cuda:1")["x"]
        on_second(loaded)
        assert loaded.tolist() == [1, 2]

    def test_written(self):
        x = gg.tensor([1.0, 2, 3, 4], device="cuda:1", requires_grad=True)
        indices = gg.tensor([3, 0, 3], device="cuda:1")
        y = x * 1
        y[indices] = gg.tensor([5.0, 6, 7], device="cuda:1")
        y[1] = 8.0
        y += 1
        y[y > 8] *= 2
        y.sum().backward()
        on_second(y, x.grad)
        assert y.tolist() == [7, 18, 4, 8]
        assert x.grad.tolist() == [0, 0, 1, 0]
        w = gg.zeros(4, device="cuda:1")
        w[indices] += x.detach()[indices]
        with gg.no_grad():
            x[...] = w
        assert x.tolist() == [1, 0, 0, 4]

    def test_hooks_and_accumulated_gradients(self):
        x = gg.ones(3, device="cuda:1", requires_grad=True)
        x.register_hook(lambda g: g * 2)
        for _ in range(2):
            (x * x).sum().backward()
        on_second(x.grad)
        assert x.grad.tolist() == [8, 8, 8]
        x.grad = gg.zeros(3, device="cuda:1")
        with pytest.raises(ValueError, match=r"grad: .* on cuda:1"):
            x.grad = gg.zeros(3, device="cuda:0")

    def test_a_layer_of_each_kind(self):
        x = gg.random.normal((4, 6), device="cuda:1", requires_grad=True)
        labels = gg.random.integers(0, 2, (4,), device="cuda:1")
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5), nn.MLP(5, [4, 2]))
        model.to("cuda:1")
        before = {name: p.tolist() for name, p in model.named_parameters()}
        nn.CrossEntropyLoss()(model(x), labels).backward()
        on_second(x.grad, *(p.grad for p in model.parameters()))
        state = model.state_dict()
        model.to("cuda:0").load_state_dict(state)
        assert {p.device for p in model.parameters()} == {"cuda:0"}
        assert {name: p.tolist() for name, p in model.named_parameters()} == before

    def test_batches(self):
        images, labels = np.arange(12.0).reshape(6, 2), np.arange(6)
        for given in (
            data.TensorDataset(images, labels),
            data.TensorDataset(gg.asarray(images), gg.asarray(labels)).to("cuda:1"),
        ):
            for shuffle in (False, True):
                loader = data.DataLoader(given, 4, shuffle=shuffle, seed=0, device="cuda:1")
                batches = list(loader)
                on_second(*(x for batch in batches for x in batch))
                taken = [n for _, numbers in batches for n in numbers.tolist()]
                assert sorted(taken) == [*range(6)]

    def test_in_another_thread(self):
        x = gg.ones(2, device="cuda:1", requires_grad=True)
        thread = threading.Thread(target=(x * 3).sum().backward)
        thread.start()
        thread.join()
        assert x.grad.tolist() == [3, 3]
