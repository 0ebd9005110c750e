"""Transfer of batches to a device: the order of copies and waits, and the values that arrive."""

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


# A fake CUDA that only records, with vector clocks. The clock of a stream, advanced by waits, says
# which work was certainly done when work on that stream begins. If two uses of the same memory
# include a write, their clocks must order them; otherwise they are a race.


class Recorder:
    """A fake CUDA with streams, events and memory.

    races: descriptions of uses of memory in no certain order.
    ignored: a call in the module under test, given as line and method, that has no effect.
    called: the calls that could be ignored.
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
        """Record that a stream or the host uses memory, after all that the host has done so far."""
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
        """Do the consumer's work, which reads arrays."""
        for array in arrays:
            self.use(self.current.name, array.memory, "read")

    def write(self):
        """Do more of the consumer's work, in memory that the pool takes as free."""
        for array in [self.array(IMAGES.shape, IMAGES.dtype) for _ in range(8)]:
            self.use(self.current.name, array.memory, "write")

    def modules(self):
        """Return ``cupy``, ``cupyx`` and ``numpy`` for the module under test."""
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
                assert non_blocking  # else it and the default stream would wait for each other
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
            """An array whose memory returns to the arena of its stream when it is deleted."""

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


def load_module(recorder, monkeypatch):
    """Return the module under test, with the recorder as its CuPy."""
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
    """Yield batches of two arrays, alternately by indices and by slices."""
    for i in range(n):
        rows = np.arange(size(i)) if i % 2 else slice(0, size(i))
        yield [(IMAGES, rows), (LABELS, rows)]


def read_all(recorder, batches):
    for images, labels in batches:
        recorder.read(images, labels)


def one_loop(recorder, transfer_batches):
    read_all(recorder, transfer_batches(host_batches(), Device()))


def growing_batches(recorder, transfer_batches):
    read_all(recorder, transfer_batches(host_batches(size=lambda i: 1 + i), Device()))


def left_early(recorder, transfer_batches):
    for _ in range(8):
        read_all(recorder, islice(transfer_batches(host_batches(), Device()), 2))
        recorder.write()


def two_loops(recorder, transfer_batches):
    loops = [transfer_batches(host_batches(), Device()) for _ in range(2)]
    for (images, labels), (more, _) in zip(*loops, strict=True):
        recorder.read(images, labels, more)


def changing_streams(recorder, transfer_batches):
    streams, kept = cycle([recorder.current, recorder.stream(non_blocking=True)]), []
    for images, labels in transfer_batches(host_batches(), Device()):
        recorder.read(images, labels)
        kept = [*kept, images][-2:]
        recorder.current = next(streams)


def interrupted(recorder, transfer_batches):
    for _ in range(8):
        batches = transfer_batches(host_batches(), Device())
        read_all(recorder, islice(batches, 2))
        recorder.failing = True
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        recorder.failing = False
        recorder.write()


SCENARIOS = [one_loop, growing_batches, left_early, two_loops, changing_streams, interrupted]


def find_races(monkeypatch, scenarios=SCENARIOS, ignored=None):
    """Return the races in the scenarios, and the calls that could be ignored."""
    found, called = [], set()
    for scenario in scenarios:
        recorder = Recorder(ignored)
        scenario(recorder, load_module(recorder, monkeypatch).transfer_batches)
        found += recorder.races
        called |= recorder.called
    return found, called


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_memory_is_used_in_order(scenario, monkeypatch):
    assert find_races(monkeypatch, [scenario])[0] == []


def test_every_wait_is_necessary(monkeypatch):
    calls = {
        (node.lineno, node.func.attr)
        for node in ast.walk(ast.parse(SOURCE.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in ("record", "synchronize", "wait_event")
    }
    assert find_races(monkeypatch)[1] == calls
    for call in calls:
        assert find_races(monkeypatch, ignored=call)[0], f"{call} in {SOURCE.name} is unnecessary"


def test_the_next_batch_is_copied_before_the_step_and_those_before_an_error_arrive(monkeypatch):
    recorder, given, found = Recorder(), [], []

    def batches():
        for batch in host_batches(4):
            given.append(batch)
            yield batch
        raise OSError("no more")

    transferred = load_module(recorder, monkeypatch).transfer_batches(batches(), Device())

    def take_all():
        for batch in transferred:
            found.append(batch)
            assert len(given) == min(len(found) + 1, 4)

    with pytest.raises(OSError, match="no more"):
        take_all()
    assert len(found) == 4
    assert recorder.races == []


@pytest.mark.gpu
@pytest.mark.skipif(not gg.cuda.is_available(), reason=str(gg.cuda.why_not()))
class TestOnDevice:
    """Batches keep their values until the last one, when every buffer was filled many times."""

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
    @pytest.mark.parametrize("is_there", [False, True])
    @pytest.mark.parametrize("prefetch", [0, 2])
    def test_values(self, shuffle, is_there, prefetch):
        dataset = data.TensorDataset(*self.COLUMNS)
        for device in ("cuda", None) if is_there else ("cuda",):
            given = dataset.to("cuda") if is_there else dataset
            options = {"shuffle": shuffle, "seed": 1, "prefetch": prefetch, "device": device}
            self.check(
                list(data.DataLoader(given, 8, **options)), list(self.loader(shuffle=shuffle))
            )

    def test_any_kind_of_data_set(self):
        samples = [(gg.ones(2) * i, i, np.float32(i / 2)) for i in range(30)]
        for device in ("cuda", f"cuda:{gg.cuda.device_count() - 1}"):
            loader = data.DataLoader(samples, 4, shuffle=True, seed=0, device=device)
            self.check(list(loader), list(data.DataLoader(samples, 4, shuffle=True, seed=0)))

    def test_nested_batches(self):
        samples = [{"x": (gg.ones(2) * i, i), "name": str(i)} for i in range(10)]

        def counted(batch):
            return [batch, gg.tensor(len(batch["name"]))]

        for prefetch in 0, 2:
            options = {"seed": 0, "transform": counted, "prefetch": prefetch}
            here = list(data.DataLoader(samples, 4, True, **options))
            there = list(data.DataLoader(samples, 4, True, device="cuda", **options))
            assert [b["name"] for b, _ in there] == [b["name"] for b, _ in here]
            self.check([b["x"] for b, _ in there], [b["x"] for b, _ in here])
            self.check([[n] for _, n in there], [[n] for _, n in here])

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

    def test_missing_waits_give_wrong_values(self, monkeypatch):
        cupy = sys.modules["cupy"]
        if not hasattr(cupy, "_reads"):
            pytest.skip("a GPU may be quick enough; the stand-in for CuPy never is")
        monkeypatch.setattr(cupy.cuda.Stream, "wait_event", lambda self, event: None)
        with pytest.raises(AssertionError):
            self.check(list(self.loader(device="cuda")), list(self.loader()))
