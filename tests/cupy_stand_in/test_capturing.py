"""CUDA graphs on the stand-in for CuPy: what is refused while a stream is captured, and what a
graph's launches do; and what compiled functions do where a part of them cannot be captured."""

import re

import cupy
import numpy as np
import pytest

import gpugrad as gg
from gpugrad.backends.cupy import graphs
from gpugrad.backends.cupy.cublas import CapturedBlas


def captured(work):
    """The graph of the function ``work``, and the pool that its memory comes from."""
    stream, pool = cupy.cuda.Stream(non_blocking=True), cupy.cuda.MemoryPool()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        try:
            work()
        finally:
            graph = stream.end_capture()
    return graph, pool


def launch(graph):
    graph.launch(cupy.cuda.get_current_stream())


REFUSED = {
    "synchronizing the device": lambda x: cupy.cuda.Device().synchronize(),
    "synchronizing the stream": lambda x: cupy.cuda.get_current_stream().synchronize(),
    "a copy to the host": lambda x: x.get(),
    "a number for the host": lambda x: float(x[0, 0]),
    "a copy from the host": lambda x: cupy.asarray(np.ones(2)),
    "a table for more than 8 arrays": lambda x: cupy.stack([x] * 9),
    "setting an array": lambda x: x.set(np.ones(x.shape)),
    "a shape that depends on values": lambda x: x[x > 0],
    "cuSOLVER": lambda x: cupy.linalg.inv(x),
    "cuBLAS through CuPy": lambda x: x @ x,
    "a handle of cuBLAS": lambda x: CapturedBlas(cupy.cuda.get_current_stream(), 0),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_spoils_the_capture(what):
    x, stream = cupy.ones((2, 2)), cupy.cuda.Stream(non_blocking=True)
    with stream, cupy.cuda.using_allocator(cupy.cuda.MemoryPool().malloc):
        stream.begin_capture()
        with pytest.raises(Exception, match="captur"):
            REFUSED[what](x)
        with pytest.raises(Exception, match="cudaErrorStreamCaptureInvalidated"):
            stream.end_capture()
    assert (x.get() == 1).all()


def test_an_allocation_from_the_usual_pool_is_refused():
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(Exception, match="allocation"):
            cupy.empty(2)
        with pytest.raises(Exception, match="cudaErrorStreamCaptureInvalidated"):
            stream.end_capture()


def test_nothing_is_done_before_the_launch():
    x, y = cupy.zeros(3), cupy.zeros(3)
    graph, _ = captured(lambda: cupy.add(x, 1, out=y))
    assert (y.get() == 0).all()
    for _ in range(2):
        launch(graph)
        assert (y.get() == 1).all()


def test_launches_have_the_numbers_and_the_addresses_of_the_capture():
    source, other, target, factor = cupy.ones(3), cupy.full(3, 5.0), cupy.zeros(3), 2.0
    holder = {"source": source}
    graph, _ = captured(lambda: cupy.multiply(holder["source"], factor, out=target))
    factor, holder["source"] = 7.0, other
    launch(graph)
    assert (target.get() == 2).all()
    source[...] = 3.0  # values are those of the launch
    launch(graph)
    assert (target.get() == 6).all()


def test_memory_of_the_pool_is_used_again():
    """What is freed while capturing is overwritten by what is computed afterwards."""
    x, kept = cupy.ones(100), []

    def work():
        first = x + 1
        kept.append(first.data.ptr)
        kept.append(first * 2)
        del first
        kept.append(x + 10)

    graph, pool = captured(work)
    launch(graph)
    address, twice, again = kept
    assert again.data.ptr == address
    assert (twice.get() == 4).all()
    assert (again.get() == 11).all()
    assert pool.total_bytes() == 2 * 1024


def test_results_are_garbage_until_they_are_launched():
    x, made = cupy.ones(3), []
    graph, _ = captured(lambda: made.append(x + 1))
    assert np.isnan(made[0].get()).all()
    launch(graph)
    assert (made[0].get() == 2).all()


def on(device, values):
    return gg.asarray(np.array(values, "float32"), device=device)


# Functions that run call by call, and why.
CALL_BY_CALL = {
    "inv: .*cuSOLVER": lambda x, y: gg.linalg.inv(x),
    "matmul: .*cuBLAS": lambda x, y: (x + 1j) @ (x + 1j),
    "an array that does not fill its memory": lambda x, y: y[0] * 2,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("why", CALL_BY_CALL)
def test_a_function_says_why_it_runs_call_by_call(why):
    function = CALL_BY_CALL[why]
    compiled = gg.compile(function)
    wide = on("cuda", [[1.0, 2, 3, 4], [5, 6, 7, 8]])
    for k in range(3):
        x, y = on("cuda", [[2.0, 1], [0, 4 + k]]), wide[:, ::2] if "memory" in why else wide
        found, expected = compiled(x, y), function(x, y)
        np.testing.assert_array_equal(found.cpu().numpy(), expected.cpu().numpy())
    report = compiled.program(x, y)
    assert re.search(why, report.call_by_call)
    assert report.call_by_call in repr(report)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["a graph", "call by call"])
def test_a_program_runs_on_the_device_of_its_arrays(name):
    """Another one may be the current device, also in the backward pass."""

    def function(x):
        return (x @ x if name == "a graph" else gg.linalg.inv(x)) * w + gg.ones(2, device="cuda:1")

    w = on("cuda:1", 3.0).requires_grad_()
    compiled = gg.compile(function)
    for k in range(3):
        x = on("cuda:1", [[2.0, 1], [0, 4 + k]]).requires_grad_()
        grads = []
        for f in (compiled, function):
            y = f(x)
            assert y.device == "cuda:1"
            grads.append(gg.autograd.grad(y.sum(), [x, w]))
        for a, b in zip(*grads, strict=True):
            assert a.device == "cuda:1"
            np.testing.assert_array_equal(a.cpu().numpy(), b.cpu().numpy())
        assert cupy.cuda.Device().id == 0
    (program,) = compiled._programs
    assert (program.call_by_call is None) == (name == "a graph")


def test_arrays_on_several_devices_are_not_compiled():
    compiled = gg.compile(lambda x: (x + 1).to("cuda:1") * 2)
    with pytest.warns(UserWarning, match="its arrays are on several devices"):
        y = compiled(on("cuda", 1.0))
    assert (y.device, y.item()) == ("cuda:1", 4.0)


@pytest.mark.parametrize("available", [0, 1 << 30])
def test_the_usual_pool_leaves_memory_for_a_graph(available, monkeypatch):
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (available, 1 << 33))
    cupy.empty(100_000)  # freed at once
    pool = cupy.get_default_memory_pool()
    double = gg.compile(lambda x: x * 2)
    double(on("cuda", [1.0]))
    assert [program.call_by_call for program in double._programs] == [None]
    assert (pool.free_bytes() < 400_000) == (not available)


def test_an_attempt_uses_the_memory_of_the_one_before():
    calls = []

    def work():
        calls.append(1)
        return [cupy.ones(1000) * 2]

    graph = graphs.Graph(work, warm_up=lambda: None)
    assert len(calls) == 2  # the first takes memory
    graph.follow()
    graph.launch()
    assert (graph.kept[0].get() == 2).all()


def test_another_stream_waits_for_the_last_launch(monkeypatch):
    """Values would not show it, since the stand-in does the work of the current stream at once."""
    double = gg.compile(lambda x: x * 2)
    x = on("cuda", [1.0])
    double(x)
    waits = []

    def wait_event(self, event):
        waits.append((self, event._stream))

    monkeypatch.setattr(cupy.cuda.Stream, "wait_event", wait_event)
    null = cupy.cuda.Stream.null
    a, b = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for stream in (null, a, a, b, b, null):
        with stream:
            double(x)
    assert waits == [(a, null), (b, a), (null, b)]
