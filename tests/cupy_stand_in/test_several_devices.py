"""Several devices, streams, memory and other libraries' arrays, on the stand-in for CuPy.

Arrays are on ``cuda:1`` while device 0 is current, where CuPy itself would reject them.
"""

import gc
import re
import threading
from types import SimpleNamespace

import cupy
import numpy as np
import pytest
from cupy import _array
from cupy._reads import reads
from numpy.testing import assert_array_equal

import gpugrad as gg
from gpugrad import data, nn
from gpugrad.autograd import grad
from gpugrad.autograd.implementation import clear
from gpugrad.backends import backend_of, namespace_of
from gpugrad.backends.cupy.batches import transfer_batches
from gpugrad.testing import assert_close


@pytest.fixture(autouse=True)
def device_0_stays_current():
    """Check that device 0 stays current; clear the records of reads and copies."""
    reads.clear()
    _array.crossings.clear()
    assert cupy.cuda.runtime.getDevice() == 0
    yield
    assert cupy.cuda.runtime.getDevice() == 0


def assert_on_second(*tensors):
    assert {x.device for x in tensors} == {"cuda:1"}


def second(values, **options):
    return gg.tensor(values, device="cuda:1", **options)


class TestOnSecondDevice:
    """Everything but ops, with arrays on the second device."""

    def test_creation(self):
        x, there = gg.ones((2, 3), device="cuda:1"), {"device": "cuda:1"}
        assert_on_second(
            *(gg.asarray(x, dtype=gg.float16, copy=True), gg.asarray([x[0, 0], 2.0])),
            *(second([1.0, 2]), gg.asarray(np.ones(2), **there), gg.full((2,), 3, **there)),
            *(gg.arange(5, **there), gg.eye(3, **there), gg.fft.fftfreq(4, **there)),
            *(gg.full((2,), x[0, 0]), gg.full_like(x, 2, dtype=gg.int32), gg.zeros_like(x)),
            *(gg.empty_like(x.array), gg.tensor(x.array, dtype="float64"), gg.tril(x)),
            *(gg.one_hot(second([0, 1]), 3), *gg.meshgrid(x[0], x[1])),
        )
        assert reads == []
        assert gg.linspace(0, 1, 5, device="cuda:1").tolist() == [0, 0.25, 0.5, 0.75, 1]

    def test_random(self):
        there, generator = {"device": "cuda:1"}, gg.random.Generator(3, device="cuda:1")
        assert_on_second(
            *(gg.random.uniform((5,), **there, dtype=gg.float16), gg.random.normal((5,), **there)),
            *(gg.random.integers(2, 5, (5,), **there), gg.random.permutation(5, **there)),
            *(generator.permutation(3), generator.uniform((2,), low=-1, high=3)),
            generator.normal((2,), mean=1.0, std=2.0),
            gg.vmap(lambda x: generator.permutation(3))(gg.ones(2, **there)),
        )

    def test_conversions_and_repr(self):
        x = second([[1.5, 2], [3, 4]], requires_grad=True)
        assert repr(x).endswith("[3. , 4. ]], device='cuda:1', requires_grad=True)")
        assert (x[0, 0].item(), float(x.detach()[0, 1]), bool(x[0, 0] > 1)) == (1.5, 2.0, True)
        assert f"{x[1, 1]:.2f}" == "4.00"
        assert "cuda:1" in repr(gg.ones((90, 90), device="cuda:1"))

    def test_a_state_saved_from_one_device_is_loaded_on_another(self, tmp_path):
        x, path = second([1.0, 2], requires_grad=True), tmp_path / "file"
        generator = gg.random.Generator(3, device="cuda:1")
        gg.save({"x": [x.detach()], "random": generator.get_state()}, path)
        expected = generator.normal((2,)).tolist()
        loaded = gg.load(path, device="cuda:1")
        assert_on_second(*loaded["x"])
        assert (loaded["x"][0].tolist(), gg.load(path)["x"][0].device) == ([1, 2], "cpu")
        generator.set_state(loaded["random"])
        with pytest.raises(ValueError, match="state is not one of a generator on cuda:1"):
            generator.set_state(gg.random.Generator(3).get_state())
        assert generator.normal((2,)).tolist() == expected

    def test_written(self):
        x, indices = second([1.0, 2, 3, 4], requires_grad=True), second([3, 0, 3])
        y = x * 1
        y[indices] = second([5.0, 6, 7])
        y[1] = 8.0
        y += 1
        y[y > 8] *= 2
        y.sum().backward()
        assert (y.tolist(), x.grad.tolist()) == ([7, 18, 4, 8], [0, 0, 1, 0])
        w = gg.zeros(4, device="cuda:1")
        w[indices] += x.detach()[indices]
        with gg.no_grad():
            x[...] = w
        assert x.tolist() == [1, 0, 0, 4]

    def test_hooks_and_accumulated_gradients(self):
        x = gg.ones(3, device="cuda:1", requires_grad=True)
        x.register_hook(lambda g: g * 2)
        (x * x).sum().backward()
        thread = threading.Thread(target=(x * x).sum().backward)
        thread.start()
        thread.join()
        assert_on_second(x.grad)
        assert x.grad.tolist() == [8, 8, 8]
        x.grad = gg.zeros(3, device="cuda:1")
        with pytest.raises(ValueError, match=r"grad: .* on cuda:1"):
            x.grad = gg.zeros(3, device="cuda:0")

    def test_layers(self):
        x = gg.random.normal((4, 6), device="cuda:1", requires_grad=True)
        there = nn.Linear(5, 5, device="cuda:1"), nn.BatchNorm1d(5, device="cuda:1")
        nn.init.kaiming_normal_(there[0].weight)
        nn.init.zeros_(there[0].bias)
        there[1].reset_running_stats()
        moved = nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5)
        model = nn.Sequential(*moved, *there, nn.MLP(5, [4, 2])).to("cuda:1")
        state, before = model.state_dict(), [p.tolist() for p in model.parameters()]
        nn.CrossEntropyLoss()(model(x), second([0, 1, 1, 0])).backward()
        assert_on_second(x.grad, *state.values(), *(p.grad for p in model.parameters()))
        model.to("cuda:0").load_state_dict(state)
        assert {p.device for p in model.parameters()} == {"cuda:0"}
        assert [p.tolist() for p in model.parameters()] == before

    def test_chosen_by_a_mask_in_a_batch(self):
        x, mask = second([[0, 1, 2], [3, 4, 5]]), second([True, False, True])
        assert gg.vmap(lambda x: x[mask])(x).tolist() == [[0, 2], [3, 5]]

    def test_anomalies(self):
        x = second([1.0, 0], requires_grad=True)
        with gg.detect_anomaly():
            with pytest.raises(FloatingPointError, match="inf in 1 of 2 elements"):
                1 / x
            with pytest.raises(FloatingPointError, match="its gradient by x has inf"):
                gg.sqrt(x).sum().backward()

    def test_empty_arrays_are_not_one(self):
        x = gg.zeros((0, 2), device="cuda:1", requires_grad=True)
        y, x.grad = (x * x).sum(), gg.zeros_like(x.detach())
        assert grad([y, y], [x])[0].shape == (0, 2)
        gg.optim.SGD([x], lr=0.1).step()


def number_of(stream):
    return stream.__cuda_stream__()[1]


class TestTransfers:
    def test_a_copy_is_in_order_on_both_devices(self, waits):
        x = gg.ones((2, 2), device="cuda:0")
        source, target = gg.cuda.Stream(0), gg.cuda.Stream(1)
        with target, source:
            x.to("cuda:1")
        first, last = map(number_of, (source, target))
        assert (waits, _array.crossings) == ([(last, first), (first, last)], [(0, last)])

    def test_copies_of_batches_and_their_uses_are_in_order(self, waits):
        """A copy waits for the stream whose pool its memory is from, and its use for the copy."""
        batches, null = iter(data.DataLoader(np.ones((12, 2)), 2, device="cuda:1")), 0
        next(batches)  # the second batch is copied before the first is used
        ((lane, _),) = {*waits} - {(null, waits[0][0])}
        assert waits == [(lane, null), (lane, null), (null, lane)]
        waits.clear()
        next(batches)
        assert waits == [(lane, null), (null, lane)]
        waits.clear()
        with gg.cuda.Stream(1) as other:  # gets arrays of its own, which null may not free earlier
            next(batches)
        stream = number_of(other)
        assert waits == [(lane, stream), (stream, lane), (null, stream)]
        waits.clear()
        batches.close()  # the last batch is on its way
        assert waits == [(null, lane), (stream, null)]

    def test_an_interrupted_copy_of_a_batch_is_over(self, monkeypatch):
        own = cupy.ndarray.set

        def interrupted(array, values, *args, **options):
            if array.ndim == 1:
                raise KeyboardInterrupt
            own(array, values, *args, **options)

        dataset = data.TensorDataset(np.ones((4, 2)), np.ones(4))
        monkeypatch.setattr(cupy.ndarray, "set", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iter(data.DataLoader(dataset, 2, device="cuda:1")))
        assert [what.partition(" in ")[0] for what in reads] == ["stream"]

    def test_batches_before_an_error_arrive(self):
        """The next batch is read before the one before is handed out."""
        read = []

        def columns():
            for k in range(4):
                read.append(k)
                yield [(np.full(3, k), slice(None))]
            raise OSError("no more")

        batches, found = transfer_batches(columns(), cupy.cuda.Device(1)), []

        def take_all():
            for (batch,) in batches:
                found.append(batch.get()[0])
                assert len(read) == min(len(found) + 1, 4)

        with pytest.raises(OSError, match="no more"):
            take_all()
        assert found == [0, 1, 2, 3]

    def test_to_the_device_that_is_current(self):
        with cupy.cuda.Device(1):
            assert_on_second(gg.ones(2, device="cuda"), gg.ones(2).cuda())
            x = gg.ones(2, device="cuda:0").to("cuda")
        assert x.device == "cuda:0"

    def test_a_kernel_of_arrays_on_different_devices(self, monkeypatch):
        monkeypatch.setattr(cupy._raw, "on_current", lambda args: None)  # a GPU would launch it
        with pytest.raises(ValueError, match=r"mse: .*devices, cuda:0 and cuda:1.*\.to\("):
            gg.mse(gg.ones(2, device="cuda:0"), gg.ones(2, device="cuda:1"))

    def test_modules_of_different_devices(self):
        class Both(nn.Module):
            def forward(self, x, y):
                return x * 2.0, y * 3.0

        module, seen = Both(), []
        module.register_full_backward_hook(lambda module, to, of: seen.extend(to))
        inputs = [gg.ones(2, device=f"cuda:{i}", requires_grad=True) for i in range(2)]
        for function in (module, lambda x, y: gg.checkpoint(Both(), x, y)):
            x, y = function(*inputs)
            (x.sum() + y.sum().to("cuda:0")).backward()
        assert [x.device for x in seen] == ["cuda:0", "cuda:1"]
        assert [x.grad.tolist() for x in inputs] == [[4.0, 4.0], [6.0, 6.0]]


class TestStreams:
    def test_current(self):
        outer, side = gg.cuda.current_stream(1), gg.cuda.Stream("cuda:1")
        assert outer == gg.cuda.current_stream("cuda:1") != side
        with side as entered:
            assert entered is side
            assert gg.cuda.current_stream() == side == gg.cuda.current_stream(1)
            assert gg.cuda.current_stream(0) != side
            assert cupy.cuda.get_current_stream().ptr == number_of(side)
            with gg.cuda.Stream(0), side:
                assert gg.cuda.current_stream() == side
            assert_on_second(side, gg.ones(2, device="cuda"))
        assert gg.cuda.current_stream(1) == outer
        assert len({side, gg.cuda.Stream("cuda:1"), outer, gg.cuda.current_stream(1)}) == 3
        assert repr(side).endswith(" on cuda:1>")

    def test_values_are_read_on_the_stream_of_their_device(self):
        x = gg.ones(3, device="cuda:1")

        def read_and_fail():
            with gg.cuda.Stream(1), gg.cuda.Stream(0):
                assert x.tolist() == x.cpu().numpy().tolist() == [1, 1, 1]
                raise KeyError

        with pytest.raises(KeyError):
            read_and_fail()
        assert gg.cuda.current_stream(1)._raw.ptr == 0

    def test_order_and_events(self):
        first, last = gg.cuda.Stream(1), gg.cuda.Stream(0)
        x = gg.ones(3, device="cuda:1")
        x.array.set(np.full(3, 5, np.float32), stream=first._raw)  # runs as late as possible
        assert not first.query()
        last.wait_stream(first)
        last.synchronize()
        assert (first.query(), x.tolist()) == (True, [5, 5, 5])
        start, end = first.record_event(timing=True), first.record_event(timing=True)
        gg.cuda.current_stream(0).wait_event(end)
        end.synchronize()
        assert (end.query(), start.elapsed_time(end) >= 0) == (True, True)


class TestMemory:
    def used(self):
        gc.collect()
        return gg.cuda.memory_stats("cuda:1").used

    def test_stats(self):
        before, other = gg.cuda.memory_stats(1), gg.cuda.memory_stats(0)
        gg.cuda.empty_cache(1)
        x = gg.ones(1000, device="cuda:1")
        stats = gg.cuda.memory_stats("cuda:1")
        assert before.used + 4096 == stats.used <= stats.reserved <= stats.total - stats.free
        del x
        gg.cuda.empty_cache(1)
        assert gg.cuda.memory_stats(1)[:2] == (before.used, before.used)
        assert gg.cuda.memory_stats(0) == other

    @pytest.fixture
    def limit(self):
        pool, used = cupy.get_default_memory_pool(), self.used()

        def set_limit(size):
            with cupy.cuda.Device(1):
                pool.set_limit(size=size and used + size)

        yield set_limit
        set_limit(None)

    def test_too_little_for_an_op(self, limit):
        before, x = self.used(), gg.ones((100, 10), device="cuda:1", requires_grad=True)
        limit(11_000)
        message = (
            r"exp: Out of memory allocating 4,096 bytes \(allocated so far: [\d,]+ bytes, limit "
            r"set to: [\d,]+ bytes\)\. Of the 8\.00 GiB on cuda:1, arrays use 0\.00.* A smaller "
            r"batch, gpugrad\.checkpoint, or no_grad\(\).*; given float32 \(100, 10\) on cuda:1"
        )
        y = x * 2
        with pytest.raises(MemoryError, match=message):
            gg.exp(y)
        with pytest.raises(MemoryError, match=r"zeros: Out of memory .* on cuda:1, arrays use"):
            gg.zeros((100, 10), device="cuda:1")
        limit(None)
        y.sum().backward()
        del x, y
        assert self.used() == before

    def test_too_little_for_a_gradient(self, limit):
        before, x = self.used(), gg.ones((100, 10), device="cuda:1", requires_grad=True)
        loss = gg.exp(gg.exp(x)).sum()
        limit(3 * 4096 + 1024)
        with pytest.raises(MemoryError) as error:
            loss.backward()
        first, last = error.value.__notes__
        assert first.startswith("in backward through ")
        assert "Of the 8.00 GiB on cuda:1, arrays use" in last
        assert x.grad is None
        del loss, error
        limit(None)
        (x * 3).sum().backward()
        assert x.grad[0, 0].item() == 3
        del x
        assert self.used() == before


class CUDAError(RuntimeError):
    """Like the errors that CuPy raises for NVIDIA's libraries, each in its own module."""

    __module__ = "cupy_backends.cuda.libs"


@pytest.mark.parametrize("text, meaning", [
    ("CUBLAS_STATUS_ALLOC_FAILED", r"Of the 8\.00 GiB on cuda:1, .*cuda\.empty_cache\(\)"),
    ("cudaErrorIllegalAddress: an illegal memory access", "is lost: start it again"),
    ("CUFFT_INVALID_SIZE", "exp: CUFFT_INVALID_SIZE; given"),
])  # fmt: skip
def test_errors_of_cuda_are_explained(monkeypatch, text, meaning):
    def fail(*args):
        raise CUDAError(text)

    x = gg.ones(2, device="cuda:1")
    monkeypatch.setattr(namespace_of[cupy.ndarray], "exp", fail)
    with pytest.raises(RuntimeError, match=rf"exp: {text}") as error:
        gg.exp(x)
    assert re.search(meaning, str(error.value))


def foreign(array):
    """An array of a library that has only ``__cuda_array_interface__``, like Numba."""
    interface = array.__cuda_array_interface__
    return SimpleNamespace(__cuda_array_interface__=interface, array=array)  # keeps the memory


class TestOtherLibraries:
    def array(self, values):
        with cupy.cuda.Device(1):
            return cupy.asarray(values)

    def write(self, array, key, value):
        with cupy.cuda.Device(1):
            array[key] = value

    @pytest.mark.parametrize("values", [np.arange(6.0), np.arange(6.0).reshape(2, 3).T])
    def test_shared_by_the_interface(self, values):
        array = self.array(values)[:: values.ndim]
        x = gg.asarray(foreign(array))
        gc.collect()
        assert_on_second(x, x + 1)
        assert_array_equal(x.cpu().numpy(), array.get())
        self.write(array, ..., 7)
        assert x.tolist() == np.full(array.shape, 7).tolist()
        assert_on_second(gg.ones(array.shape, dtype=gg.float64, device="cuda:1") * foreign(array))
        assert_on_second(gg.asarray(foreign(self.array(np.empty((0, 3)))).array))

    def test_shared_memory_is_not_for_sweeps_to_write_into(self):
        array, is_unshared = self.array([1.0, 2]), backend_of[cupy.ndarray].is_unshared
        assert is_unshared(array)
        names = "__dlpack__", "__dlpack_device__"
        capsule = SimpleNamespace(**{name: getattr(array, name) for name in names})
        for x in gg.asarray(foreign(self.array([1.0, 2]))), gg.from_dlpack(capsule):
            gc.collect()
            assert (x.array.base, is_unshared(x.array), x.tolist()) == (None, False, [1, 2])

    def test_shown_by_the_interface(self):
        x = second([[1.0, 2], [3, 4]])
        with gg.cuda.Stream(1) as stream:
            shown = x.T.__cuda_array_interface__
        assert (shown["stream"], x.__cuda_array_interface__["stream"]) == (number_of(stream), 1)
        assert (shown["shape"], shown["typestr"], shown["strides"]) == ((2, 2), "<f4", (4, 8))
        assert shown["data"] == (x.array.data.ptr, False)
        self.write(self.array(x), (0, 0), 9)
        assert x.tolist() == [[9, 2], [3, 4]]

    def test_not_shown(self):
        for x in (gg.ones(2), gg.ones(2, device="cuda:1", requires_grad=True)):
            assert not hasattr(x, "__cuda_array_interface__")
        gg.vmap(lambda x: not hasattr(x, "__cuda_array_interface__") or 1 / 0)(second([[1.0]] * 2))

    def test_left_operand_of_cupys(self):
        x, a = gg.ones(2, device="cuda", requires_grad=True), cupy.ones(2, "float32")
        for y in (a + x, a * x, a @ x, a - x):
            assert type(y) is gg.Tensor
            assert y.requires_grad
        assert type(a + x.detach()) is cupy.ndarray

    def test_dlpack_out(self):
        x, side = gg.ones(2, device="cuda:1"), gg.cuda.Stream(1)
        with side:
            capsule = x.__dlpack__(stream=123, max_version=(1, 0))
        assert (capsule.stream, capsule.producer) == (123, number_of(side))
        assert x.__dlpack_device__() == (2, 1)
        with side, gg.cuda.Stream(0):  # the stream is on its own device, whichever is current
            assert x.__dlpack__(stream=2).producer == number_of(side)
        with pytest.raises(RuntimeError, match="__dlpack__: this tensor requires grad"):
            gg.ones(2, device="cuda:1", requires_grad=True).__dlpack__(stream=1)
        assert cupy.from_dlpack(x).device.id == 1

    def test_dlpack_in(self):
        array, asked = self.array([1.0, 2]), {}

        def export(**options):
            asked.update(options)
            return array.__dlpack__(**options)

        producer = SimpleNamespace(__dlpack__=export, __dlpack_device__=lambda: (2, 1))
        with gg.cuda.Stream(1) as stream:
            x = gg.from_dlpack(producer)
        assert_on_second(x)
        assert asked["stream"] == number_of(stream)
        self.write(array, 0, 5)
        assert x.tolist() == gg.asarray(producer).tolist() == [5, 2]
        assert gg.from_dlpack(producer, device="cuda:0").device == "cuda:0"
        assert gg.from_dlpack(producer, device="cpu", copy=True).device == "cpu"


def test_second_derivatives_with_one_device(monkeypatch):
    """With one device, ops run on its arrays as they are, without a look at their device."""
    monkeypatch.setattr(backend_of[cupy.ndarray], "several_devices", False)
    clear()
    values = np.array([0.5, 2.0])
    slopes = np.exp(values), (1 + 1 / values) / np.exp(values) / values
    try:  # one with a kernel of our own, one without
        for function, expected in zip((gg.exp, gg.special.exp1), slopes, strict=True):
            x = gg.tensor(values, device="cuda", requires_grad=True)
            (first,) = grad(function(x).sum(), [x], create_graph=True)
            (last,) = grad(first.sum(), [x])
            assert_close(last.cpu().numpy(), expected, rtol=1e-6)
    finally:
        clear()


def test_devices_are_reported():
    assert gg.cuda.device_count() == 2
    names = [gg.cuda.device_name(d) for d in (None, "cuda", 1, "cuda:1")]
    assert names == ["Stand-in 0"] * 2 + ["Stand-in 1"] * 2
    gg.cuda.synchronize()
    gg.cuda.synchronize("cuda:1")
    for wrong in ("cpu", "gpu", -1):
        with pytest.raises(ValueError, match=r"is not a CUDA device|is not known"):
            gg.cuda.memory_stats(wrong)


def test_a_profile_waits_where_it_is_asked_to():
    x = gg.ones(2, device="cuda:1")
    for sync in (False, True):
        with gg.profile(sync=sync):
            gg.exp(x)
        assert bool(reads) == sync
