"""Devices apart from ops: memory, streams, precision, other libraries' arrays."""

import gc
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from both_ways import training
from cuda_device import IS_STAND_IN, host_must_not_wait, keep_busy, on_gpu, on_several, only_real
from numpy.testing import assert_array_equal

import gpugrad as gg
from gpugrad import cuda, data, nn, optim

pytestmark = on_gpu


def test_properties():
    assert (cuda.is_available(), cuda.why_not()) == (True, None)
    assert cuda.device_name()
    stats = cuda.memory_stats()
    assert 0 <= stats.used <= stats.reserved <= stats.total - stats.free


def test_never_copied_to_the_host_implicitly():
    x = gg.ones(2, device="cuda")
    for leave in (np.asarray, lambda t: t.numpy(), np.from_dlpack):
        with pytest.raises((TypeError, BufferError, RuntimeError, ValueError)):
            leave(x)
    assert x.cpu().numpy().tolist() == [1, 1]


def test_mixing_with_the_cpu():
    with pytest.raises(ValueError, match=r"add: .*different devices, cpu and cuda:0.*\.to\("):
        gg.ones(2) + gg.ones(2, device="cuda")


def test_repeated_index_in_an_assignment():
    x, v = gg.zeros(3, device="cuda"), gg.arange(1.0, 5.0, device="cuda").requires_grad_()
    x[[0, 2, 0, 2]] = v
    assert x.tolist() == [3, 0, 4]
    x.sum().backward()
    assert v.grad.tolist() == [0, 0, 1, 1]


def test_device_that_is_not_there():
    n = cuda.device_count()
    with pytest.raises(RuntimeError, match=f"cuda:{n} does not exist: CUDA finds {n}"):
        gg.ones(2, device=f"cuda:{n}")


ON = {"device": "cuda"}
DRAWS = {
    "uniform": lambda: gg.random.uniform((50,), **ON),
    "normal": lambda: gg.random.normal((50,), dtype=gg.float16, **ON),
    "integers": lambda: gg.random.integers(2, 5, (50,), **ON),
    "permutation": lambda: gg.random.permutation(50, **ON),
    "shuffle": lambda: gg.random.shuffle(gg.arange(50, **ON)),
    "choice": lambda: gg.random.choice(9, (50,), **ON),
    "bernoulli": lambda: gg.random.bernoulli(gg.full((50,), 0.5, **ON)),
    "multinomial": lambda: gg.random.multinomial(gg.ones((50,), **ON), 20),
    "with replacement": lambda: gg.random.multinomial(gg.ones((2, 9), **ON), 20, replacement=True),
    "dropout": lambda: nn.functional.dropout(gg.ones((50,), **ON), 0.5),
}


WAITS = {
    "item": lambda x: x.sum().item(), "bool": lambda x: bool(x[0] > 0), "cpu": lambda x: x.cpu(),
    "mask": lambda x: x[x > 0], "nonzero": lambda x: gg.nonzero(x),
    "stream": lambda x: cuda.current_stream().synchronize(), "device": lambda x: cuda.synchronize(),
}  # fmt: skip


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_is_noticed(name):
    """Without this, the tests that nothing waits would show nothing."""
    x = gg.ones(100, device="cuda")
    WAITS[name](x)
    with pytest.raises(AssertionError), host_must_not_wait():
        WAITS[name](x)


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_repeat(name):
    draw = DRAWS[name]
    draw()
    gg.manual_seed(3)
    with host_must_not_wait():
        first, second = draw(), draw()
    gg.manual_seed(3)
    assert [draw().tolist(), draw().tolist()] == [first.tolist(), second.tolist()]
    assert first.tolist() != second.tolist()


class TestMemory:
    def used(self):
        gc.collect()
        return cuda.memory_stats().used

    @pytest.fixture
    def limit(self):
        """A function that limits how much more memory arrays can take."""
        import cupy

        cuda.empty_cache()
        pool, used = cupy.get_default_memory_pool(), self.used()
        yield lambda size: pool.set_limit(size=used + size)
        pool.set_limit(size=0)

    def test_work_continues_after_an_out_of_memory_error(self, limit):
        model = nn.MLP(100, [100, 10]).to("cuda")
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        step = training(optimizer, lambda n: model(gg.ones((n, 100), device="cuda")).sum())
        step(10)
        before = self.used()
        limit(2_000_000)
        with pytest.raises(MemoryError, match=r"Out of memory .*on cuda:0, arrays use"):
            step(10_000)
        optimizer.zero_grad()
        step(10)
        assert self.used() == before

    def test_out_of_memory_for_a_batch(self, limit):
        limit(1_000_000)
        loader = data.DataLoader(np.ones((4, 500_000)), 4, device="cuda")
        message = r"^DataLoader: Out of memory .*on cuda:0, arrays use"
        with pytest.raises(MemoryError, match=message):
            next(iter(loader))
        loader = data.DataLoader(np.ones((4, 100)), 4, device="cuda")
        assert next(iter(loader)).sum().item() == 400

    @only_real
    def test_more_than_the_device_has(self):
        with pytest.raises(MemoryError, match="on cuda:0, arrays use"):
            gg.zeros(cuda.memory_stats().total, device="cuda")
        assert gg.ones(3, device="cuda").sum().item() == 3


class TestStreams:
    def test_one_waits_for_another(self):
        side, x = cuda.Stream(), gg.zeros(1000, device="cuda", requires_grad=True)
        side.wait_stream(cuda.current_stream())
        with side:
            keep_busy(0.05)
            y = ((x + 3) * (x + 3)).sum()
        cuda.current_stream().wait_stream(side)
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
        assert x.grad.tolist() == [6.0] * 1000

    def test_a_step_runs_on_the_current_stream(self):
        """A step on a side stream does not wait for the first stream, which is busy."""
        import cupy

        side, first = cuda.Stream(), cupy.cuda.get_current_stream()
        model, x = nn.MLP(3, [4, 2]).to("cuda"), gg.ones((5, 3), device="cuda")
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        side.wait_stream(cuda.current_stream())
        for again in (False, True):  # the first time it compiles
            cuda.synchronize()
            keep_busy(0.2)
            with side:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            spun = first.record()
            side.synchronize()
            assert IS_STAND_IN or not (again and spun.done)

    def test_time_between_events(self):
        stream = cuda.current_stream()
        start = stream.record_event(timing=True)
        keep_busy(0.02)
        end = stream.record_event(timing=True)
        end.synchronize()
        assert start.elapsed_time(end) >= (0 if IS_STAND_IN else 19)


VIEWS = {
    "whole": lambda x: x, "transposed": lambda x: x.T, "strided": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1], "empty": lambda x: x[:0],
}  # fmt: skip


@on_several
class TestSeveral:
    LAST = f"cuda:{cuda.device_count() - 1}"

    def test_results_stay_on_their_device(self):
        gg.manual_seed(0)
        model, x, found = nn.MLP(3, [4, 2]), gg.random.normal((5, 3)), []

        def step(given):
            model.zero_grad()
            out = model(given)
            (out * out).sum().backward()
            return [out, *[p.grad for p in model.parameters()]]

        for device in (self.LAST, "cuda:0", "cpu"):
            given = x.to(device)
            model.to(device)
            made = step(given)
            if device != "cpu":
                with host_must_not_wait(int(device.removeprefix("cuda:"))):
                    made = step(given)
            assert {t.device for t in made} == {device}
            found.append([t.detach().cpu().numpy() for t in made])
        for a, b, c in zip(*found, strict=True):
            assert_array_equal(a, b)
            np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-6)

    @pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
    def test_transfer(self, view):
        values, expected = np.arange(12.0).reshape(3, 4), np.zeros((3, 4))
        x = gg.tensor(values, device="cuda:0", requires_grad=True)
        keep_busy(0.01)
        y = view(x).to(self.LAST)
        assert y.to(self.LAST) is y
        (y * y).to("cuda:0").sum().backward()
        assert [t.device for t in (y, x.grad)] == [self.LAST, "cuda:0"]
        assert_array_equal(y.detach().cpu().numpy(), view(values))
        view(expected)[...] = 2 * view(values)
        assert_array_equal(x.grad.cpu().numpy(), expected)
        with pytest.raises(ValueError, match=r"add: .*different devices, cuda:\d and cuda:"):
            x + y


class TestOtherLibraries:
    def test_cupy(self):
        import cupy

        array = cupy.arange(6, dtype=np.float32).reshape(2, 3)
        foreign = SimpleNamespace(__cuda_array_interface__=array.__cuda_array_interface__)
        for x in (gg.asarray(array), gg.asarray(foreign)):
            assert x.device == "cuda:0"
            array[0, 0] += 5
            assert x[0, 0].item() == float(array[0, 0])
        assert gg.asarray(array).array is array
        assert_array_equal(cupy.asarray(x.array).get(), array.get())

    @pytest.fixture
    def torch(self):
        torch = pytest.importorskip("torch")
        if IS_STAND_IN or not torch.cuda.is_available():
            pytest.skip("PyTorch finds no CUDA device")
        return torch

    def test_memory_of_pytorch(self, torch):
        theirs = torch.arange(6.0, device="cuda").reshape(2, 3)
        x = gg.from_dlpack(theirs)
        assert x.device == "cuda:0"
        theirs[0, 0] = 7
        torch.cuda.synchronize()
        assert x[0, 0].item() == 7
        for back in (torch.from_dlpack(x), torch.as_tensor(x, device="cuda")):
            assert back.data_ptr() == theirs.data_ptr()

    def test_streams_of_pytorch(self, torch):
        """Work enqueued by one library is done before the other reads its results."""
        theirs, side = torch.zeros(1000, device="cuda"), torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            theirs += 3
            x = gg.from_dlpack(theirs)
        assert (x * 2).sum().item() == 6000
        keep_busy(0.05)
        y = x * 5
        with torch.cuda.stream(side):
            assert torch.from_dlpack(y).sum().item() == 15_000

    def test_gradients_of_pytorchs_tensors_on_the_device(self, torch):
        x = gg.asarray(torch.ones(3, device="cuda"), requires_grad=True)
        (x * x).sum().backward()
        assert (x.grad.array.tolist(), x.grad.array.device.type) == ([2, 2, 2], "cuda")
