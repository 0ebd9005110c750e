"""Collectives of arrays on CUDA devices: the streams and the order of NCCL's calls."""

import threading
from pathlib import Path
from types import SimpleNamespace

import cupy
import pytest
import test_distributed
from cupy._reads import reads
from cupy.cuda import nccl

import gpugrad as gg
from gpugrad import _processes, nn
from gpugrad.backends.cupy.collectives import Collectives
from gpugrad.distributed.data_parallel import _Reducer


class Alone:
    """A group of one process that uses NCCL all the same."""

    rank, size, timeout = 0, 1, 60

    def __init__(self, device=0):
        self.ended = threading.Event()
        self.collectives = Collectives(cupy.cuda.Device(device), self)

    def exchange(self, value):
        return [value]

    def abort(self, message):
        self.message = message
        self.ended.set()

    def any_of(self, flags):
        return SimpleNamespace(wait=lambda: None)

    def all_reduce(self, array):
        return self.collectives.all_reduce(array)


@pytest.fixture(autouse=True)
def _forget_calls():
    nccl._calls.clear()


def test_a_stream_of_its_own():
    group, x, x2, out = Alone(), cupy.arange(4.0), cupy.arange(4.0), cupy.zeros((1, 4))
    pending = group.collectives.all_gather(x, out)
    second = group.collectives.all_reduce(x2)
    (stream,) = {stream for *_, stream in nccl._calls}
    assert stream != cupy.cuda.get_current_stream().ptr
    assert [name for name, *_ in nccl._calls] == ["allGather", "allReduce"]
    assert out._values.tolist() == [[0.0] * 4]  # it may be any time later
    pending.wait()
    assert out._values.tolist() == [[0.0, 1.0, 2.0, 3.0]]
    second.wait()
    group.collectives.broadcast(x[:0], 0).wait()  # nothing is sent
    assert len(nccl._calls) == 2
    with pytest.raises(TypeError, match="NCCL cannot reduce int16"):
        group.collectives.all_reduce(cupy.zeros(2, "int16"))


def test_gradients_are_reduced_without_waiting_for_the_device(monkeypatch):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("cuda:0")
    monkeypatch.setattr(_processes.group, "_current", Alone())
    reducer = _Reducer([*model.parameters()], 80, None)
    reducer.listen_to_all()
    x = gg.ones((2, 4), device="cuda:0")
    loss, before = model(x).sum(), len(reads)
    loss.backward()
    assert len(reads) == before
    assert [(name, count) for name, count, _ in nccl._calls] == [("allReduce", 20)] * 2
    grads = [p.grad.tolist() for p in model.parameters()]
    model.zero_grad()
    reducer.mode.enabled = False
    model(x).sum().backward()
    assert grads == [p.grad.tolist() for p in model.parameters()]


@pytest.mark.parametrize("device", [0, 1])
def test_a_collective_that_does_not_end(monkeypatch, device):
    monkeypatch.setattr(Alone, "timeout", 0.2)
    group = Alone(device)
    with cupy.cuda.Device(device):
        group.collectives.all_reduce(cupy.ones(2))
    assert group.ended.wait(60)
    assert "has not ended after 0.2 s" in group.message


def test_devices_must_differ():
    group = Alone()
    group.exchange = lambda value: [value] * 2
    with pytest.raises(RuntimeError, match="ranks 0 and 1 use the same CUDA device"):
        Collectives(cupy.cuda.Device(0), group)


def test_nccl_is_missing(monkeypatch):
    monkeypatch.setattr(nccl, "available", False)
    with pytest.raises(ImportError, match="pip install nvidia-nccl-cu13"):
        Alone()


@test_distributed.needs_mpi
@pytest.mark.parametrize("processes", [2])
def test_several_processes(processes):
    program = Path(test_distributed.__file__).with_name("distributed_program.py")
    done = test_distributed.run(processes, program, "on_cuda")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all is well") == processes
