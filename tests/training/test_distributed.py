"""`gpugrad.distributed`: with one process, and with several that a real MPI starts."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time
import weakref
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from samples import check_errors
from stand_in import environment

import gpugrad as gg
from gpugrad import _processes, data, distributed, nn, optim
from gpugrad.autograd.graph import Listener
from gpugrad.distributed import collectives

TESTS = Path(__file__).parent
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="mpi4py and an MPI are needed: pip install mpi4py mpich",
)


ENVIRONMENT = {
    # Open MPI refuses to run as root, and more processes than there are processors.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


def run(processes, *command, cwd=None, **variables):
    """Run a Python program in several processes, or for None without MPI."""
    launcher = [MPIEXEC, "-n", str(processes)] if processes else []
    command = [*launcher, sys.executable, *map(str, command)]
    variables = environment(stand_in=False) | ENVIRONMENT | variables
    pipes = {"capture_output": True, "text": True}
    return subprocess.run(command, cwd=cwd, env=variables, timeout=120, **pipes)


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_several_processes(processes, tmp_path):
    """The functions of `distributed_program` whose names begin with ``check_``."""
    checks = "check_" if processes % 2 else "check_that"
    done = run(processes, TESTS / "distributed_program.py", checks, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all is well") == processes
    if processes % 2:
        assert done.stdout.count("epoch 3/3") == 4  # one process tells of each of the runs
        assert len([*tmp_path.glob("compile*.st")]) == processes + 2
        assert "without being compiled" not in done.stderr


# By fault: the number of processes, and what is shown, once.
FAULTS = {
    "raise": (2, ["rank 1 of 2:", "ArithmeticError: one process fails"]),
    "raise everywhere": (2, ["rank 0 of 2:", "ArithmeticError: all processes fail"]),
    "compiled": (2, ["rank 1 of 2:", "IndexError: "]),
    "exit": (2, ["rank 0 of 2:", "rank 1: has ended"]),
    "kill": (2, []),
    "hang": (3, ["ranks 0, 1: collective 1, ", "rank 2: does not answer"]),
    "shape": (3, ["ranks 0, 1: collective 1, all_reduce of float32 (3,)", "float32 (4,)"]),
    "unchecked shape": (2, ["names those that do"]),
    "order": (3, ["ranks 0, 1: collective 1, all_reduce", "rank 2: collective 1, barrier"]),
}


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_end_all_processes(fault):
    processes, shown = FAULTS[fault]
    start = time.monotonic()
    # Only a process that hangs is found by the time that it takes.
    timeout = 5 if fault == "hang" else 200
    done = run(processes, TESTS / "distributed_program.py", "fault", fault, TIMEOUT=str(timeout))
    assert time.monotonic() - start < 100
    assert done.returncode != 0
    assert "no fault was found" not in done.stdout
    for text in shown:
        assert done.stderr.count(text) == 1, done.stderr


@needs_mpi
@pytest.mark.slow
def test_the_example(tmp_path):
    example = TESTS.parents[1] / "examples" / "train_mlp.py"
    done = run(2, example, "--epochs", 1, "--hidden", 8, "--device", "auto", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("device: ", "digits: ", "epoch 1/1 ", "weights: ", "picture: "):
        assert f"\n{done.stdout}".count(f"\n{word}") == 1, done.stdout
    assert sorted(p.name for p in tmp_path.glob("runs/*")) == ["digits.png", "digits.safetensors"]


@needs_mpi
@pytest.mark.parametrize("variable, words", [
    ("WORLD_SIZE", "torchrun, or what set WORLD_SIZE, started 4 processes, which "),
    ("SLURM_STEP_NUM_TASKS", "srun started 4 processes, but mpi4py, which uses "),
])  # fmt: skip
def test_processes_that_do_not_find_each_other_by_mpi(variable, words):
    done = run(None, "-c", "from gpugrad import distributed; distributed.init()", **{variable: "4"})
    assert done.returncode
    assert f"RuntimeError: distributed.init: {words}" in done.stderr
    assert "start them by mpiexec -n" in done.stderr


@pytest.mark.parametrize("variables, expected", [
    ({}, (1, "no launcher")), ({"WORLD_SIZE": "many"}, (1, "no launcher")),
    ({"PMI_SIZE": "4"}, (4, "mpiexec")), ({"PMI_SIZE": "4", "WORLD_SIZE": "9"}, (4, "mpiexec")),
    ({"OMPI_COMM_WORLD_SIZE": "2"}, (2, "Open MPI's mpiexec")),
    ({"SLURM_STEP_NUM_TASKS": "3", "WORLD_SIZE": "9", "RANK": "1"}, (3, "srun")),
    ({"WORLD_SIZE": "4", "RANK": "2"}, (4, "torchrun")),
    ({"PMI_SIZE": "2", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "a"}, (4, "torchrun")),
])  # fmt: skip
def test_environments_of_several_processes(variables, expected, monkeypatch):
    for name in os.environ:
        if name.startswith(("PMI", "OMPI", "SLURM", "TORCHELASTIC", "WORLD_SIZE", "RANK")):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _processes.processes_launched() == expected


X, W = gg.ones(2), gg.ones(2, requires_grad=True)
BOTH, BELOW = "give both num_replicas and rank", "rank must be below num_replicas 2, not 2"
ERRORS = {
    TypeError: {
        "bools cannot be reduced": lambda: distributed.all_reduce(X > 0),
        "the mean of int64": lambda: distributed.all_reduce(gg.arange(2), "mean"),
        r"broadcast: tree\['x'\] must be an arr": lambda: distributed.broadcast({"x": "text"}),
        "DataParallel: module must be a M": lambda: distributed.DataParallel(X),
        r"such as optim.Adam\(parameters\), not LBFGS":
            lambda: distributed.ShardedOptimizer(optim.LBFGS([W])),
        f"DistributedSampler: {BOTH}": lambda: data.DistributedSampler(range(3), rank=1),
        f"DistributedBatchSampler: {BOTH}": lambda: data.DistributedBatchSampler([], 2, rank=1),
    },
    ValueError: {
        r"all_reduce: op must be .*, not 'product'": lambda: distributed.all_reduce(X, "product"),
        r"\(2,\) requires grad, .* call detach\(\)": lambda: distributed.all_gather({"x": W}),
        "root must be a rank, below 1, not 1": lambda: distributed.broadcast(X, 1),
        r"must begin with 1, .* not \(2,\)": lambda: distributed.reduce_scatter(X),
        r"^distributed\.init: timeout, in seconds": lambda: distributed.init(0),
        "^distributed.init: timeout": lambda: distributed.init("nccl"),
        f"DistributedSampler: {BELOW}": lambda: data.DistributedSampler(range(3), 2, 2),
        f"DistributedBatchSampler: {BELOW}":
            lambda: data.DistributedBatchSampler(X, 2, num_replicas=2, rank=2),
    },
}  # fmt: skip


class TestOneProcess:
    def test_collectives(self):
        distributed.init()
        assert (distributed.rank(), distributed.size(), distributed.local_rank()) == (0, 1, 0)
        x = gg.tensor([1.0, 2.0])
        for op in ("sum", "mean", "max", "min"):
            assert (distributed.all_reduce(x, op) == x).all()
        assert distributed.all_reduce(x) is not x
        found = distributed.broadcast({"x": x})["x"], distributed.reduce_scatter(x[None])
        assert [x.tolist() for x in found] == [[1.0, 2.0]] * 2
        assert distributed.all_gather(x).tolist() == [[1.0, 2.0]]
        distributed.barrier()

    def test_neither_mpi_nor_a_launcher_is_needed(self):
        code = (
            "import sys; from gpugrad import distributed, nn; distributed.init();"
            "distributed.DataParallel(nn.Linear(2, 2)); print('mpi4py' in sys.modules)"
        )
        done = run(None, "-c", code)
        assert done.stdout.split() == ["False"], done.stderr

    @pytest.mark.parametrize("kind", ERRORS)
    def test_errors(self, kind):
        check_errors(kind, ERRORS[kind].items())

    def test_wrappers_are_what_they_wrap(self):
        model = nn.Linear(2, 1)
        parallel = distributed.DataParallel(model)
        assert parallel.state_dict().keys() == {"weight", "bias"}
        inner = optim.Adam(model.parameters(), lr=0.5)
        optimizer = distributed.ShardedOptimizer(inner)
        parallel.load_state_dict({"weight": gg.zeros((1, 2)), "bias": gg.ones(1)})
        with parallel.no_sync():
            parallel(gg.ones((1, 2))).sum().backward()
        parallel.synchronize()
        assert model.weight.grad.tolist() == [[1.0, 1.0]]
        optimizer.step()
        assert parallel(gg.ones((1, 2))).item() == pytest.approx(-0.5)
        state = optimizer.state_dict()
        assert state["state"].keys() == {0, 1}
        optimizer.load_state_dict(state)
        optimizer.add_param_group({"params": [gg.ones(1, requires_grad=True)]})
        assert len(inner.param_groups) == 2
        assert "ShardedOptimizer(Adam(" in repr(optimizer)

    def test_several_processes_need_init_and_mpi(self, monkeypatch):
        monkeypatch.setattr(_processes.group, "_current", None)
        monkeypatch.setenv("PMI_SIZE", "3")
        with pytest.raises(RuntimeError, match=r"mpiexec started 3 processes; call .*init\(\)"):
            distributed.rank()
        monkeypatch.setattr(collectives, "_initialized", False)
        monkeypatch.setitem(sys.modules, "mpi4py", None)
        monkeypatch.delitem(sys.modules, "gpugrad._processes.mpi", raising=False)
        with pytest.raises(ImportError, match="mpiexec started 3 processes, which need mpi4py"):
            distributed.init()

    def test_synchronized_normalization_of_float16_and_errors(self):
        layer = nn.SyncBatchNorm(3, dtype=gg.float16)
        x = gg.random.normal((4, 3, 2), dtype=gg.float16)
        assert layer(x).dtype == layer.running_mean.dtype == gg.float16
        with pytest.raises(ValueError, match=r"^SyncBatchNorm: the input must be \(n, 3, \.\.\.\)"):
            layer(gg.ones(3))
        with pytest.raises(ValueError, match=r"^SyncBatchNorm: in training .* than one element"):
            layer(gg.ones((1, 3)))
        with pytest.raises(ValueError, match=r"^SyncBatchNorm: inside vmap"):
            gg.vmap(layer)(gg.ones((2, 4, 3), dtype=gg.float16))


class Mirror(_processes.Group):
    """Two processes, of which the other one has the same arrays."""

    size = 2

    def __init__(self):
        self.log = []

    def pending(self, *event):
        self.log.append(event)
        return polled(self.log)

    def all_reduce(self, array):
        array *= 2
        return self.pending("sum", array.shape)

    def broadcast(self, array, root):
        if root != self.rank:
            array[...] = 1
        return self.pending("broadcast", array.shape, root)

    def all_gather(self, array, out):
        out[...] = array
        return self.pending("all_gather", array.shape)

    def any_of(self, flags):
        return self.pending(bytes(flags))

    def barrier(self):
        self.log.append("barrier")


def polled(log):
    """What a collective that has begun returns."""
    progress, wait = (partial(log.append, name) for name in ("progress", "wait"))
    return SimpleNamespace(progress=progress, wait=wait)


class TestCompiled:
    """Compiled functions make the collectives that they make without being compiled, once."""

    @pytest.fixture(autouse=True)
    def _two_processes(self, monkeypatch):
        self.group = Mirror()
        monkeypatch.setattr(_processes.group, "_current", self.group)
        monkeypatch.setattr(Listener, "count", 0)

    def test_an_average_that_fails_leaves_what_mpi_may_write_to(self, monkeypatch):
        model = distributed.DataParallel(nn.Linear(2, 2))
        with model.no_sync():
            model(gg.ones((1, 2))).sum().backward()
        all_reduce, arrays = self.group.all_reduce, []

        def failing(array):
            arrays.append(weakref.ref(array))
            raise OSError("the network is down")

        monkeypatch.setattr(self.group, "all_reduce", failing)
        with pytest.raises(OSError, match="the network"):
            model.synchronize()
        monkeypatch.setattr(self.group, "all_reduce", all_reduce)
        model.synchronize()
        assert arrays[0]() is not None

    def logged(self, step, *args):
        """What the collectives of four calls are, and the results."""
        found = []
        for _ in range(4):
            self.group.log.clear()
            result = step(*args).tolist()
            found.append((self.group.log.copy(), result))
        return found

    def test_collectives_of_a_step(self):
        x, y = gg.ones((3, 4)), gg.tensor([0, 1, 2])
        found = []
        for make in (lambda f: f, gg.compile):
            gg.manual_seed(0)
            layers = nn.Linear(4, 4), nn.SyncBatchNorm(4), nn.Linear(4, 4), nn.Linear(4, 3)
            model = nn.Sequential(*layers)
            model.share = 1
            model[0].bias.requires_grad_(False)
            model.unused = nn.Parameter(gg.ones(2))
            model.empty = nn.Parameter(gg.ones(0))
            parallel = distributed.DataParallel(model, bucket_bytes=80)
            inner = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            optimizer = distributed.ShardedOptimizer(inner)

            @make
            def step(x, y, model=parallel, optimizer=optimizer):
                optimizer.zero_grad()
                distributed.barrier()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                return distributed.all_reduce(loss.detach(), "max")

            found.append(self.logged(step, x, y))
            assert not getattr(step, "_given_up", False)
        assert "start_mean" in [row["function"] for row in step.program(x, y).rows]
        assert found[0] == found[1]
        log = found[0][-1][0]
        assert log[0] == "barrier"
        # The first buckets are on their way while backward goes on.
        assert log.index("progress") < max(i for i, event in enumerate(log) if event[0] == "sum")

    def test_a_function_of_some_of_the_parameters(self):
        runs = []
        for make in (lambda f: f, gg.compile):
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            distributed.DataParallel(model)(gg.ones((1, 2)))
            first, second = model
            step, found = make(lambda x, first=first: first(x).sum().backward()), []
            for i in range(4):
                second.bias.grad = gg.full(2, float(i))
                before = second.bias.grad
                step(gg.ones((1, 2)))
                found += [second.bias.grad.tolist(), first.bias.grad.tolist()]
                assert second.bias.grad is not before
            runs.append(found)
        assert runs[0] == runs[1]
        assert step._programs

    def test_a_check_needs_one_process(self):
        step = gg.compile(lambda x: distributed.all_reduce(x), check=1)
        with pytest.raises(RuntimeError, match="check needs one process; leave it out in several"):
            step(gg.ones(3))

    def test_errors_of_calls_after_a_collective(self):
        step = gg.compile(lambda x: gg.linalg.inv(distributed.all_reduce(x)))
        for _ in range(2):
            assert step(gg.eye(2)).tolist() == [[0.5, 0.0], [0.0, 0.5]]
        assert step._programs
        self.group.log.clear()
        with pytest.raises(np.linalg.LinAlgError):
            step(gg.zeros((2, 2)))
        assert self.group.log == [("sum", (2, 2)), "wait"]
        # It fails with the zeros that stand for the others' values while it is recorded.
        step = gg.compile(lambda x: gg.linalg.inv(distributed.all_gather(x)[1]))
        for _ in range(2):
            self.group.log.clear()
            assert step(gg.eye(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
            assert self.group.log == [("all_gather", (2, 2)), "wait"]

    def test_a_result_with_a_graph(self):
        step = gg.compile(nn.SyncBatchNorm(2))
        with pytest.warns(UserWarning, match="compiled: it returns .* and communicates with other"):
            step(gg.ones((4, 2)))


class TestListeners:
    """Gradients are there before backward ends, and are what they are without listeners."""

    class Log(Listener):
        def __init__(self):
            self.events = []
            self.ended, self.failed = (partial(self.events.append, x) for x in ("ended", "failed"))

        def started(self, leaves, create_graph):
            self.events.append({leaf.owner().label for leaf in leaves})

        def arrived(self, leaf):
            self.events.append((leaf.owner().label, leaf.owner().grad.tolist()))

    @pytest.fixture
    def log(self, monkeypatch):
        monkeypatch.setattr(Listener, "count", 0)
        return self.Log()

    @pytest.fixture
    def leaves(self, log):
        leaves = [gg.tensor([2.0, 3.0], requires_grad=True) for _ in "abc"]
        for x, x.label in zip(leaves, "abc", strict=True):
            log.listen(x.node)
        return leaves

    def test_order(self, log, leaves):
        (a, b, c), seen = leaves, []
        y = a * b
        y.register_hook(lambda g: seen.append(len(log.events)))
        (y * c * b).sum().backward()
        # b is used before and after c.
        assert log.events[:2] == [{"a", "b", "c"}, ("c", [8.0, 27.0])]
        assert sorted(log.events[2:4]) == [("a", [8.0, 27.0]), ("b", [16.0, 54.0])]
        assert (log.events[4:], seen) == (["ended"], [2])

    def test_of_a_part_of_the_leaves(self, log, leaves):
        a, b, _ = leaves
        (a * b).sum().backward(inputs=[b])
        assert log.events[1:] == [("b", [2.0, 3.0]), "ended"]
        assert a.grad is None
        log.events.clear()
        a[0].backward()
        a.backward(gg.ones(2))
        (a * a).sum().backward(create_graph=True)
        grads = [1.0, 0.0], [2.0, 1.0], [6.0, 7.0]
        assert log.events == [event for g in grads for event in ({"a"}, ("a", g), "ended")]

    def test_hooks_and_errors(self, log, leaves):
        a, b, _ = leaves
        a.register_hook(lambda g: 2 * g)
        y = (a * b).sum()
        y.backward(retain_graph=False)
        assert a.grad.tolist() == [4.0, 6.0]
        with pytest.raises(RuntimeError, match="a second time"):
            y.backward()
        assert log.events[-1] == "failed"


class TestSamplers:
    @pytest.mark.parametrize("drop_last", [False, True])
    @pytest.mark.parametrize("shuffle", [False, True])
    def test_each_sample_once(self, shuffle, drop_last):
        for n, size in [(10, 1), (10, 3), (2, 4), (0, 2)]:
            samplers = [
                data.DistributedSampler(range(n), size, r, shuffle, seed=5, drop_last=drop_last)
                for r in range(size)
            ]
            sizes = [n // size if drop_last else len(range(r, n, size)) for r in range(size)]
            epochs = []
            for _ in range(2):
                parts = [list(sampler) for sampler in samplers]
                assert [*map(len, parts)] == [*map(len, samplers)] == sizes
                epochs.append([i for part in parts for i in part])
                assert len({*epochs[-1]} & {*range(n)}) == sum(sizes)
            assert n < 10 or (epochs[0] != epochs[1]) == shuffle

    def test_parts_of_batches(self):
        dataset = data.TensorDataset(gg.arange(11))

        def loader(kind, **options):
            sampler = kind(data.RandomSampler(dataset, seed=2), 5, **options)
            return data.DataLoader(dataset, batch_sampler=sampler)

        kind = data.DistributedBatchSampler
        loaders = [loader(kind, num_replicas=3, rank=rank) for rank in range(3)]
        assert [len(loader) for loader in loaders] == [3, 3, 3]
        for (batch,), *parts in zip(loader(data.BatchSampler), *loaders, strict=True):
            assert sorted(batch.tolist()) == sorted(i for (p,) in parts for i in p.tolist())
        assert parts[2][0].shape == (0,)
