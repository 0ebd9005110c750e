"""CUDA graphs on the stand-in for CuPy: what is refused while a stream is captured, and what a
graph's launches do; and what compiled functions do where a part of them cannot be captured."""

import gc
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Thread

import cupy
import numpy as np
import pytest
from both_ways import training

import gpugrad as gg
from gpugrad.backends.cupy import cublas, graphs, products
from gpugrad.backends.cupy.kernels import fused


def in_a_thread(function):
    """What a function returns in another thread, or the error that it raises there."""
    with ThreadPoolExecutor(1) as threads:
        found = threads.submit(function)
    return found.exception() or found.result()


def replay(graph):
    """Make the arguments follow, launch it, and return what it keeps."""
    graph.follow()
    graph.launch()
    return [x.get() for x in graph.kept]


@pytest.mark.parametrize("refused", [
    lambda x: x.get(), lambda x: float(x[0, 0]), lambda x: x[x > 0],
    lambda x: cupy.asarray(np.ones(2)), lambda x: x.set(np.ones(x.shape)),
    lambda x: cupy.stack([x] * 9),  # with a table from the host
])  # fmt: skip
def test_what_is_refused_spoils_the_capture(refused):
    x = cupy.ones((2, 2))
    with pytest.raises(RuntimeError, match="captur"):
        graphs.Graph(lambda: refused(x), warm_up=lambda: None)
    assert (x.get() == 1).all()


def test_a_graph_whose_workspace_was_freed(monkeypatch):
    """Each product of a graph writes into it."""
    monkeypatch.setattr(cublas, "shared", cache(cublas.shared.__wrapped__))
    x = cupy.ones((2, 2), "float32")
    graph = graphs.Graph(lambda: [products.matmul(x, x)], lambda: products.matmul(x, x))
    assert (replay(graph)[0] == 2).all()
    cublas.shared.cache_clear()
    with pytest.raises(RuntimeError, match="memory that the graph uses was freed"):
        graph.launch()


def on(device, values):
    return gg.asarray(np.array(values, "float32"), device=device)


# Functions that run call by call, and why.
CALL_BY_CALL = {
    "inv: .*cuSOLVER": lambda x, y: gg.linalg.inv(x),
    "matmul: .*cuBLAS": lambda x, y: (x + 1j) @ (x + 1j),
    "an array that does not fill its memory": lambda x, y: y[0] * 2,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("why, function", CALL_BY_CALL.items())
def test_a_function_says_why_it_runs_call_by_call(why, function):
    compiled, wide = gg.compile(function), on("cuda", [[1.0, 2, 3, 4], [5, 6, 7, 8]])
    for k in range(4):
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

    w, compiled = on("cuda:1", 3.0).requires_grad_(), gg.compile(function)
    for k in range(5):
        x, grads = on("cuda:1", [[2.0, 1], [0, 4 + k]]).requires_grad_(), []
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
    with pytest.warns(UserWarning, match="its arrays are on several devices"):
        y = gg.compile(lambda x: (x + 1).to("cuda:1") * 2)(on("cuda", 1.0))
    assert (y.device, y.item()) == ("cuda:1", 4.0)


@pytest.mark.parametrize("available", [0, 1 << 30])
def test_the_usual_pool_leaves_memory_for_a_graph(available, monkeypatch):
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (available, 1 << 33))
    cupy.empty(100_000)  # freed at once
    pool, double = cupy.get_default_memory_pool(), gg.compile(lambda x: x * 2)
    for _ in range(2):
        double(on("cuda", [1.0]))
    assert [program.call_by_call for program in double._programs] == [None]
    assert (pool.free_bytes() < 400_000) == (not available)


def test_graphs_share_one_workspace(monkeypatch):
    """It is as large as all arrays of a small model are together."""
    monkeypatch.setattr(cublas, "shared", cache(cublas.shared.__wrapped__))
    w, add = on("cuda", np.ones((4, 3))), gg.compile(lambda x: x + 1)
    before = gg.cuda.memory_stats().free
    for _ in range(2):
        add(w)
    assert before - gg.cuda.memory_stats().free < 2**20  # nothing is multiplied
    product = gg.compile(lambda x: x @ w)
    for n in [n for n in range(1, 9) for _ in range(3)]:
        np.testing.assert_array_equal(product(on("cuda", np.ones((n, 4)))).cpu().numpy(), 4.0)
    assert [program.call_by_call for program in product._programs] == [None] * 8
    assert 32 * 2**20 <= before - gg.cuda.memory_stats().free < 33 * 2**20


def test_graphs_that_share_the_workspace_take_turns(waits):
    """Values would not show it, since the stand-in does the work of the current stream at once."""
    w = on("cuda", np.ones((4, 3)))
    product, double = gg.compile(lambda x: x @ w), gg.compile(lambda x: x * 2)
    small, large = on("cuda", np.ones((2, 4))), on("cuda", np.ones((5, 4)))
    null = cupy.cuda.Stream.null
    a, b = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    for x in (small, small, small, large, large, large):
        product(x)
        double(x)
    for stream, function, x, expected in (
        (a, product, small, [(a, null)] * 2),  # for its own memory, and for the workspace
        (a, product, small, []),
        (b, double, small, [(b, null)]),
        (b, product, large, [(b, null), (b, a)]),
        (a, product, small, [(a, b)]),
        (a, double, large, [(a, null)]),
    ):
        waits.clear()
        with stream:
            function(x)
        assert waits == [(one.ptr, other.ptr) for one, other in expected]


def test_products_of_a_warm_up_take_turns_with_launches():
    """Both use the workspace, and another thread may launch meanwhile."""
    x, launched = cupy.ones((2, 2), "float32"), []

    def work():
        return [products.matmul(x, x)]

    first = graphs.Graph(work, work)
    first.follow()
    thread = Thread(target=lambda: launched.append(first.launch()))

    def warm_up():
        thread.start()
        thread.join(0.1)
        assert not launched
        work()

    graphs.Graph(work, warm_up)
    thread.join()
    assert launched


def test_waiting_for_the_device_waits_for_a_capture():
    """CUDA would refuse it, and spoil the capture."""
    found = []
    thread = Thread(target=lambda: found.append(gg.cuda.synchronize()))

    def work():
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        return []

    graphs.Graph(work, warm_up=lambda: None)
    thread.join()
    assert found == [None]


@pytest.mark.parametrize("spoilt", [1, 2, 100])
def test_a_capture_that_another_thread_has_spoilt_is_repeated(spoilt):
    x, calls = cupy.zeros(3), []

    def work():
        calls.append(1)
        if len(calls) <= spoilt:
            assert in_a_thread(cupy.cuda.Device().synchronize).status == 900
            if spoilt == 2:  # else it is found at the end of the capture
                try:
                    cupy.add(x, 1, out=x)
                except RuntimeError as error:
                    raise ValueError("add") from error
        cupy.add(x, 1, out=x)
        return []

    if spoilt == 100:
        with pytest.raises(RuntimeError, match="spoilt by another thread"):
            graphs.Graph(work, warm_up=lambda: None)
        assert len(calls) == graphs._ATTEMPTS
        return
    graph = graphs.Graph(work, warm_up=lambda: None)
    assert len(calls) == spoilt + 1
    replay(graph)
    assert (x.get() == 1).all()


@pytest.mark.parametrize("why", ["spoilt", "memory"])
def test_a_program_that_could_not_be_captured_is_tried_again(why, monkeypatch):
    attempts, begin = [], cupy.cuda.Stream.begin_capture

    def begin_capture(self, mode=None):
        begin(self, mode)
        in_a_thread(cupy.cuda.Device().synchronize)

    make, total = graphs.Graph.__init__, on("cuda", np.zeros(1 << 20))

    @gg.compile
    def add(x):
        total.array += x.array
        return total * 2

    def call():
        before = total[0].item()
        assert add(x)[0].item() == 2 * (before + 1.5)

    def counted(*args):
        attempts.append(1)
        make(*args)

    x = on("cuda", np.full(1 << 20, 1.5))
    call()
    monkeypatch.setattr(graphs.Graph, "__init__", counted)
    if why == "spoilt":
        monkeypatch.setattr(cupy.cuda.Stream, "begin_capture", begin_capture)
    else:  # there is room for the result, but not for the program's copies besides
        gc.collect()
        cupy.get_default_memory_pool().free_all_blocks()
        monkeypatch.setattr(cupy.cuda.memory, "CAPACITY", cupy.cuda.memory.taken(0) + 6 * 2**20)
    call()
    (program,) = add._programs
    assert why in program.call_by_call
    made = [len(attempts)]
    for _ in range(8):
        call()
        made.append(len(attempts))
    assert np.diff(made).astype(bool).tolist() == [k in (0, 2, 6) for k in range(8)]
    assert why in program.call_by_call
    monkeypatch.undo()
    for _ in range(8):
        call()
    assert add._programs == [program]
    assert program.call_by_call is None


def test_a_graph_that_is_gone_while_another_is_captured_is_freed_later():
    """To free its memory while a stream is captured may wait for the device."""
    x = cupy.ones(1000)
    holder, totals = [graphs.Graph(lambda: [x + 1], lambda: x + 1)], []
    pool = holder[0]._pool

    def work():
        in_a_thread(holder.clear)
        totals.append(pool.total_bytes())
        return []

    graphs.Graph(work, warm_up=lambda: None)
    assert (totals, pool.total_bytes()) == ([8192], 0)


def test_memory_that_is_exhausted_while_capturing(monkeypatch):
    """What the pool holds is not freed, since what was captured uses it."""
    x, calls, states = cupy.ones(1000), [], []

    def work():
        calls.append(1)
        first = x + 1  # in memory that the second sum would take over
        address = first.data.ptr
        del first
        if len(calls) == 1:
            monkeypatch.setattr(cupy.cuda.memory, "CAPACITY", cupy.cuda.memory.taken(0))
            with pytest.raises(MemoryError, match="allocating 16,384 bytes") as caught:
                cupy.zeros(2000)
            states.append(cupy.cuda.memory.current_pool().free_bytes())
            monkeypatch.undo()
            raise ValueError("zeros") from caught.value
        second = x + 2
        assert second.data.ptr == address
        return [second, cupy.zeros(2000)]

    graph = graphs.Graph(work, warm_up=lambda: None)
    assert states == [8192]
    assert len(calls) == 3  # the second one takes the memory
    assert (replay(graph)[0] == 3).all()


@pytest.mark.parametrize("why", ["memory", "cuSOLVER"])
def test_what_stays_refused_while_capturing(why, monkeypatch):
    """Memory may be free later; what CUDA refuses is not asked for again."""
    x, calls = cupy.ones((2, 2)), []

    def work():
        calls.append(1)
        if why == "memory":
            monkeypatch.setattr(cupy.cuda.memory, "CAPACITY", cupy.cuda.memory.taken(0))
            cupy.zeros(2000)
        cupy.linalg.inv(x)

    message = "Out of memory allocating 16,384 bytes" if why == "memory" else why
    with pytest.raises(RuntimeError, match=message):
        graphs.Graph(work, warm_up=lambda: None)
    assert len(calls) == (graphs._ATTEMPTS if why == "memory" else 1)


@pytest.mark.parametrize("layout", ["unaligned", "transposed", "reversed", "steps"])
def test_no_kernel_is_compiled_while_capturing(layout, monkeypatch):
    """What a graph overwrites lies in its warm-up as in its capture, on which kernels depend."""
    compile_, compiled = cupy.RawModule.__init__, []

    def noted(self, *args, **kwargs):
        compiled.append(cupy.cuda.get_current_stream().is_capturing())
        compile_(self, *args, **kwargs)

    fused._module.cache_clear()
    monkeypatch.setattr(cupy.RawModule, "__init__", noted)
    memory = cupy.arange(200, dtype="float32") / 200
    view = {
        "unaligned": memory[1:61].reshape(6, 10),
        "transposed": memory[:60].reshape(10, 6).T,
        "reversed": memory[60:0:-1].reshape(6, 10)[::-1],
        "steps": memory[:120].reshape(6, 20)[:, ::2],
    }[layout]
    host, x = gg.tensor(view.get(), requires_grad=True), gg.asarray(view).requires_grad_()
    assert x.array.data.ptr == view.data.ptr

    def step_of(x, y):
        return training(gg.optim.SGD([x], lr=0.1), lambda: (gg.tanh(x) * y + gg.exp(x)).sum())

    run, eager = gg.compile(step_of(x, on("cuda", [0.25] * 10))), step_of(host, 0.25)
    for _ in range(5):
        np.testing.assert_allclose(run().item(), eager().item(), rtol=1e-5)
    assert run.program().call_by_call is None
    assert (x.array.data.ptr, {*compiled}) == (view.data.ptr, {False})
    np.testing.assert_allclose(view.get(), host.detach().numpy(), rtol=1e-5)
