"""Batches on their way to a device: in what order copies are asked for, and that they arrive."""

import ast
import contextlib
import importlib.util
import sys
from collections import Counter, defaultdict
from itertools import count, cycle, islice
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import data
from gpugrad.backends import registry

SOURCE = Path(registry.__file__).parent / "cupy" / "batches.py"


# A pretended CUDA that only records. Everything done with memory has a clock, which tells what
# was over for certain when it began: that of the stream it is done on, advanced by waits. Two
# uses of the same memory, one of which writes, must be in an order that the clocks tell.


class Recorder:
    """Streams, events and memory; `races` has what was used in no certain order.

    ignored: a call in the program under test, as its line and method, that has no effect.
    called: those that could be ignored.
    failing: whether copies of labels are interrupted.
    """

    def __init__(self, ignored=None):
        self.ignored = ignored
        self.called = set()
        self.clocks = defaultdict(Counter)
        self.uses = defaultdict(list)
        self.races = []
        self.free = defaultdict(list)
        self.numbers = count()
        self.pinned = {}
        self.failing = False

    def is_ignored(self, method):
        frame = sys._getframe(2)
        if Path(frame.f_code.co_filename) != SOURCE:
            return False
        self.called.add((frame.f_lineno, method))
        return (frame.f_lineno, method) == self.ignored

    def use(self, who, memory, kind):
        """What a stream, or the host, does with memory: it starts after all the host did so far."""
        clock = self.clocks[who]
        clock |= self.clocks["host"]
        for other, moment, before in self.uses[memory]:
            if "write" in (kind, before) and clock[other] < moment:
                self.races.append(f"{other} may still {before} {memory}, which {who} is to {kind}")
        clock[who] += 1
        self.uses[memory].append((who, clock[who], kind))

    def memory_of(self, host):
        root = host
        while isinstance(root.base, np.ndarray):
            root = root.base
        return self.pinned.get(id(root), ("pageable",))[0]

    def read(self, *arrays):
        """The consumer's work."""
        for array in arrays:
            self.use(self.current.name, array.memory, "read")

    def write(self):
        """The consumer's work in memory that the pool takes for free."""
        for array in [self.array(IMAGES.shape, IMAGES.dtype) for _ in range(8)]:
            self.use(self.current.name, array.memory, "write")

    def modules(self):
        """``cupy``, ``cupyx`` and ``numpy`` for the program under test."""
        recorder = self

        class Event:
            def __init__(self, block=False, disable_timing=False):
                assert disable_timing
                self.clock = Counter()

            def synchronize(self):
                if not recorder.is_ignored("synchronize"):
                    recorder.clocks["host"] |= self.clock

        class Stream:
            def __init__(self, non_blocking=False):
                assert non_blocking  # or it would wait for the default stream, and that for it
                self.name = f"stream {next(recorder.numbers)}"

            def record(self, event=None):
                event = event or Event(disable_timing=True)
                if not recorder.is_ignored("record"):
                    event.clock = recorder.clocks[self.name] | recorder.clocks["host"]
                return event

            def wait_event(self, event):
                if not recorder.is_ignored("wait_event"):
                    recorder.clocks[self.name] |= event.clock

            def synchronize(self):
                if not recorder.is_ignored("synchronize"):
                    recorder.clocks["host"] |= recorder.clocks[self.name]

        class Array:
            """Its memory goes back to the arena of the stream it was made for when it is gone."""

            def __init__(self, shape, dtype):
                self.shape, self.dtype = shape, dtype
                self.arena = recorder.free[recorder.current.name]
                self.memory = self.arena.pop() if self.arena else f"memory {next(recorder.numbers)}"

            def __del__(self):
                self.arena.append(self.memory)

            def set(self, host, stream):
                if recorder.failing and host.ndim == 1:
                    raise KeyboardInterrupt
                assert (host.shape, host.dtype) == (self.shape, self.dtype)
                recorder.use(stream.name, recorder.memory_of(host), "read")
                recorder.use(stream.name, self.memory, "write")

            def copy(self):
                out = Array(self.shape, self.dtype)
                recorder.use(recorder.current.name, self.memory, "read")
                recorder.use(recorder.current.name, out.memory, "write")
                return out

        def empty_pinned(shape, dtype):
            buffer = np.empty(shape, dtype)
            recorder.pinned[id(buffer)] = f"pinned {next(recorder.numbers)}", buffer
            return buffer

        class NumPy(ModuleType):
            def __getattr__(self, name):
                return getattr(np, name)

            def copyto(self, out, values):
                recorder.use("host", recorder.memory_of(out), "write")
                np.copyto(out, values)

            def take(self, array, rows, **options):
                recorder.use("host", recorder.memory_of(options["out"]), "write")
                return np.take(array, rows, **options)

        self.current = Stream(non_blocking=True)
        self.stream, self.array = Stream, Array
        cuda = SimpleNamespace(
            Event=Event, Stream=Stream, get_current_stream=lambda: recorder.current
        )
        cupy = SimpleNamespace(cuda=cuda, empty=Array)
        return cupy, SimpleNamespace(empty_pinned=empty_pinned), NumPy("numpy")


class Device(contextlib.nullcontext):
    id = 0


def program(recorder, monkeypatch):
    """The module under test, for which the recorder is CuPy."""
    spec = importlib.util.spec_from_file_location("gpugrad.backends.cupy.batches_recorded", SOURCE)
    module = importlib.util.module_from_spec(spec)
    cupy, cupyx, numpy = recorder.modules()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cupy", cupy)
        patch.setitem(sys.modules, "cupyx", cupyx)
        spec.loader.exec_module(module)
    module.np = numpy
    numpy.ndarray = np.ndarray
    return module


IMAGES, LABELS = np.arange(60.0).reshape(20, 3), np.arange(20)


def host_batches(n=12, size=lambda i: 4):
    """Batches of two arrays, in turn gathered and cut."""
    for i in range(n):
        rows = np.arange(size(i)) if i % 2 else slice(0, size(i))
        yield [(IMAGES, rows), (LABELS, rows)]


def plain(recorder, transfer_batches):
    for images, labels in transfer_batches(host_batches(), Device()):
        recorder.read(images, labels)


def of_growing_size(recorder, transfer_batches):
    for images, labels in transfer_batches(host_batches(size=lambda i: 1 + i), Device()):
        recorder.read(images, labels)


def left_early(recorder, transfer_batches):
    for _ in range(8):
        for i, (images, labels) in enumerate(transfer_batches(host_batches(), Device())):
            recorder.read(images, labels)
            del images, labels
            if i == 1:
                break
        recorder.write()


def two_at_once(recorder, transfer_batches):
    pairs = zip(
        transfer_batches(host_batches(), Device()),
        transfer_batches(host_batches(), Device()),
        strict=True,
    )
    for (images, labels), (more, _) in pairs:
        recorder.read(images, labels, more)


def on_changing_streams(recorder, transfer_batches):
    streams = cycle([recorder.current, recorder.stream(non_blocking=True)])
    kept = []
    for (images, labels), stream in zip(
        transfer_batches(host_batches(), Device()), streams, strict=False
    ):
        recorder.read(images, labels)
        kept = [*kept, images][-2:]
        recorder.current = stream


def interrupted(recorder, transfer_batches):
    for _ in range(8):
        batches = transfer_batches(host_batches(), Device())
        for images, labels in islice(batches, 2):
            recorder.read(images, labels)
        recorder.failing = True
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        recorder.failing = False
        recorder.write()


SCENARIOS = [plain, of_growing_size, left_early, two_at_once, on_changing_streams, interrupted]


def races(monkeypatch, scenarios=SCENARIOS, ignored=None):
    """What the scenarios use in no certain order, and which calls they make."""
    found, called = [], set()
    for scenario in scenarios:
        recorder = Recorder(ignored)
        scenario(recorder, program(recorder, monkeypatch).transfer_batches)
        found += recorder.races
        called |= recorder.called
    return found, called


def test_memory_is_used_in_order(monkeypatch):
    for scenario in SCENARIOS:
        assert races(monkeypatch, [scenario])[0] == [], scenario.__name__


def test_no_wait_can_be_left_out(monkeypatch):
    calls = {
        (node.lineno, node.func.attr)
        for node in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("record", "synchronize", "wait_event")
    }
    assert races(monkeypatch)[1] == calls
    for call in calls:
        assert races(monkeypatch, ignored=call)[0], f"{call} in {SOURCE.name} is for nothing"


def test_the_next_batch_is_copied_before_the_step_is_asked_for(monkeypatch):
    recorder = Recorder()
    given = []

    def batches():
        for i, batch in enumerate(host_batches()):
            given.append(i)
            yield batch

    for i, _ in enumerate(program(recorder, monkeypatch).transfer_batches(batches(), Device())):
        assert given[-1] == min(i + 1, 11)


def test_an_error_comes_after_the_batches_before_it(monkeypatch):
    def batches():
        yield from host_batches(3)
        raise OSError("no more")

    recorder = Recorder()
    found = []
    with pytest.raises(OSError, match="no more"):
        found += program(recorder, monkeypatch).transfer_batches(batches(), Device())
    assert len(found) == 3
    assert recorder.races == []


@pytest.mark.gpu
@pytest.mark.skipif(not gg.cuda.is_available(), reason=str(gg.cuda.why_not()))
class TestOnDevice:
    """That batches arrive: each kept until the last, when every buffer was filled many times."""

    COLUMNS = (
        np.random.default_rng(0).standard_normal((103, 2, 3)),
        np.arange(103),
        np.arange(103).astype("float16"),
        np.asfortranarray(np.arange(206).reshape(103, 2) % 3 == 0),
        np.zeros((103, 0), "float32"),
        np.arange(206, dtype="uint8")[::2],
        np.arange(103) * (1 + 2j),
    )

    def loader(self, **options):
        return data.DataLoader(data.TensorDataset(*self.COLUMNS), 8, seed=1, **options)

    def check(self, batches, expected):
        for batch, others in zip(batches, expected, strict=True):
            for x, y in zip(batch, others, strict=True):
                assert x.device.startswith("cuda:")
                assert x.dtype == y.dtype
                np.testing.assert_array_equal(x.cpu().numpy(), y.numpy())

    @pytest.mark.parametrize("shuffle", [False, True])
    def test_values(self, shuffle):
        self.check(
            list(self.loader(shuffle=shuffle, device="cuda")), list(self.loader(shuffle=shuffle))
        )

    def test_of_any_data_set(self):
        samples = [(gg.ones(2) * i, i, np.float32(i / 2)) for i in range(30)]
        for device in ("cuda", f"cuda:{gg.cuda.device_count() - 1}"):
            loader = data.DataLoader(samples, 4, shuffle=True, seed=0, device=device)
            self.check(list(loader), list(data.DataLoader(samples, 4, shuffle=True, seed=0)))

    def test_leaving_early_and_two_at_once(self):
        expected = list(self.loader())
        kept = []
        for _ in range(5):
            loader = self.loader(device="cuda")
            for a, b in zip(loader, loader, strict=True):
                kept += [a, b]
                if len(kept) % 4 == 0:
                    break
        self.check(kept[::2], expected[:2] * 5)
        self.check(kept[1::2], expected[:2] * 5)

    def test_with_another_stream_for_each(self):
        batches, stream = iter(self.loader(device="cuda")), gg.cuda.Stream()
        kept = []
        for _ in range(6):
            kept.append(next(batches))
            with stream:
                kept.append(next(batches))
        stream.synchronize()
        self.check(kept, list(self.loader())[:12])

    def test_a_device_that_is_not_there(self):
        n = gg.cuda.device_count()
        with pytest.raises(RuntimeError, match=f"cuda:{n} does not exist"):
            next(iter(self.loader(device=f"cuda:{n}")))

    def test_of_arrays_on_the_device(self):
        dataset = data.TensorDataset(*self.COLUMNS).to("cuda")
        for device in (None, "cuda"):
            batches = data.DataLoader(dataset, 8, shuffle=True, seed=1, device=device)
            self.check(list(batches), list(self.loader(shuffle=True)))

    def test_what_does_not_wait_finds_other_values(self, monkeypatch):
        cupy = sys.modules["cupy"]
        if not hasattr(cupy, "_reads"):
            pytest.skip("a GPU may be quick enough; the stand-in for CuPy never is")
        monkeypatch.setattr(cupy.cuda.Stream, "wait_event", lambda self, event: None)
        with pytest.raises(AssertionError):
            self.check(list(self.loader(device="cuda")), list(self.loader()))
