"""`gpugrad.distributed`: with one process, and with several that a real MPI starts."""

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import _processes, data, distributed, nn, optim
from gpugrad._processes import joining, process_manager
from gpugrad._processes.repeating import Noting, Repeating
from gpugrad.autograd.graph import Listener
from gpugrad.distributed import collectives

TESTS = Path(__file__).parent
MPIEXEC = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="mpi4py and an MPI are needed: pip install mpi4py mpich",
)


def environment(**variables):
    """The environment of a process that tests start."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")]),
        "OPENBLAS_NUM_THREADS": "1",
        # Open MPI refuses to run as root, and more processes than there are processors.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        **variables,
    }


def run(processes, *command, cwd=None, **variables):
    """Run a Python program in several processes; return what `subprocess.run` does."""
    return subprocess.run(
        [MPIEXEC, "-n", str(processes), sys.executable, *map(str, command)],
        cwd=cwd, env=environment(**variables), capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def free_port():
    """A port, with some free ones after it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return 1024 + listener.getsockname()[1] % 30000  # below those that systems hand out


def run_without_a_launcher(variables, *command):
    """Run a process for each set of environment variables; return their exit codes and outputs."""
    processes = [
        subprocess.Popen(
            [sys.executable, TESTS / "distributed_program.py", *command],
            env=environment(**own), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for own in variables
    ]  # fmt: skip
    outputs = [process.communicate(timeout=120) for process in processes]
    return [process.returncode for process in processes], *map("".join, zip(*outputs, strict=True))


def as_torchrun(size, port=None):
    """The variables that torchrun would set in each process."""
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "localhost"}
    common["MASTER_PORT"] = str(port or free_port())
    return [{**common, "RANK": str(rank)} for rank in range(size)]


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_several_processes(processes, tmp_path):
    """The functions of `distributed_program` whose names begin with ``check_``."""
    checks = "check_" if processes < 4 else "check_that"
    done = run(processes, TESTS / "distributed_program.py", checks, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("all is well") == processes
    if processes == 4:
        return
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
    "shape": (3, ["ranks 0, 1: collective 1, all_reduce (sum) of float32 (3,)", "float32 (4,)"]),
    "unchecked shape": (2, ["names those that do"]),
    "order": (3, ["ranks 0, 1: collective 1, all_reduce (sum)", "rank 2: collective 1, barrier"]),
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
    example = TESTS.parent / "examples" / "train_mlp.py"
    done = run(2, example, "--epochs", 1, "--hidden", 8, "--device", "auto", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("device: ", "digits: ", "epoch 1/1 ", "weights: ", "picture: "):
        assert f"\n{done.stdout}".count(f"\n{word}") == 1, done.stdout
    assert sorted(p.name for p in tmp_path.glob("runs/*")) == ["digits.png", "digits.safetensors"]


@needs_mpi
@pytest.mark.slow
class TestWithoutALauncherOfMPI:
    """Processes that only have environment variables, as torchrun and Slurm set them."""

    @pytest.fixture(autouse=True)
    def _mpich(self):
        version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True).stdout
        if "HYDRA" not in version:
            pytest.skip("needs MPICH: pip install mpich")

    def test_several_processes(self):
        in_slurm = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NODELIST": "localhost"}
        in_slurm |= {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"}
        for variables in (
            as_torchrun(2),
            [{**in_slurm, "SLURM_PROCID": str(rank)} for rank in range(3)],
        ):
            codes, out, errors = run_without_a_launcher(variables, "check_collectives")
            assert not any(codes), errors
            assert out.count("all is well") == len(variables)
            assert not errors

    def test_torchrun(self):
        if importlib.util.find_spec("torch") is None:
            pytest.skip("needs PyTorch")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", "2", TESTS / "distributed_program.py", "check_collectives"]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("all is well") == 2

    def test_a_port_is_taken(self):
        port = free_port()
        with socket.create_server(("127.0.0.1", port + 1)):  # accepts connections, never answers
            codes, _, errors = run_without_a_launcher(as_torchrun(2, port), "check_that_models")
        assert codes == [0, 0], errors

    @pytest.mark.parametrize(
        "fault, words",
        [
            ("kill", ["rank 2 of 3 has ended, so all others end"]),
            ("raise", ["rank 2 of 3:", "ArithmeticError: one process fails"]),
            ("exit", ["rank 0 of 3:", "rank 2: has ended"]),
        ],
    )
    def test_faults_end_all_processes(self, fault, words):
        start = time.monotonic()
        variables = [{**own, "TIMEOUT": "200"} for own in as_torchrun(3)]
        codes, out, errors = run_without_a_launcher(variables, "fault", fault)
        assert time.monotonic() - start < 100
        assert all(codes)
        assert "no fault was found" not in out
        for text in words:
            assert errors.count(text) == 1, errors

    def test_a_process_does_not_come(self):
        first, second, _ = as_torchrun(3)
        for started, words in [
            (first, "distributed.init: ranks 1, 2 of 3 did not call it within 1.0 s"),
            (second, "rank 1 does not reach rank 0 at localhost, ports "),
        ]:
            codes, _, errors = run_without_a_launcher(
                [{**started, "TIMEOUT": "1"}], "fault", "none"
            )
            assert all(codes)
            assert words in errors

    def test_mpi_is_there_already(self):
        code = "from mpi4py import MPI; from gpugrad import distributed; distributed.init()"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(**as_torchrun(2)[0]),
            capture_output=True, text=True,
        )  # fmt: skip
        assert "RuntimeError: distributed.init: call it before mpi4py.MPI is" in done.stderr


TORCH = {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "there", "MASTER_PORT": "29500"}
SLURM = {
    "SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "1", "SLURM_JOB_ID": "77",
    "SLURM_STEP_ID": "5", "SLURM_STEP_NODELIST": "gpu[007-009,12]-ib,cpu1",
}  # fmt: skip


def test_two_processes_of_one_rank():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = process_manager._Server(listener, "job", 2, timeout=30)
        thread = threading.Thread(target=server.run)
        thread.start()
        answers = []
        with contextlib.ExitStack() as stack:
            for greeting in ("job rank 1", "job rank 1", "other rank 0", "job rank 0"):
                client = stack.enter_context(socket.create_connection(listener.getsockname()))
                client.sendall(f"gpugrad {greeting}\n".encode())
                file = stack.enter_context(client.makefile())
                answers.append(file.readline())
                if greeting == "job rank 0" or len(answers) == 2:
                    answers.append(file.readline())
        thread.join()
    refusal = answers.pop(2)
    assert "there already is a process of rank 1; does another program use" in refusal
    assert answers == ["here\n"] * 2 + ["this is another program\n", "here\n", "all here\n"]


class TestMeetingPoint:
    """Which environments mean that the processes have to meet, and where."""

    @pytest.fixture(autouse=True)
    def _no_launcher(self, monkeypatch):
        for name in os.environ:
            if name.startswith(("PMI", "OMPI", "SLURM", "TORCHELASTIC", "WORLD_SIZE", "RANK")):
                monkeypatch.delenv(name)

    def set(self, monkeypatch, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    @pytest.mark.parametrize(
        "variables, expected",
        [
            (TORCH, (4, 2, "there", 29500)),
            (SLURM, (3, 1, "gpu007-ib", 20656)),
            ({**SLURM, "SLURM_STEP_NODELIST": "one,two"}, (3, 1, "one", 20656)),
            ({**SLURM, **TORCH}, (4, 2, "there", 29500)),
            ({**SLURM, "WORLD_SIZE": "9"}, (3, 1, "gpu007-ib", 20656)),
            ({**SLURM, "PMIX_RANK": "1"}, None),
            ({**TORCH, "PMI_SIZE": "4"}, None),
            ({**TORCH, "PMI_SIZE": "2", "TORCHELASTIC_RUN_ID": "a b"}, (4, 2, "there", 29500)),
        ],
        ids=["torchrun", "slurm", "names", "in slurm", "batch", "pmix", "mpiexec", "in mpiexec"],
    )
    def test_environments(self, variables, expected, monkeypatch):
        self.set(monkeypatch, variables)
        point = _processes.meeting_point()
        assert (point and (_processes.processes_launched()[0], *point[:3])) == expected
        assert point is None or " " not in point.job

    def test_errors(self, monkeypatch):
        self.set(monkeypatch, {**TORCH, "RANK": "4"})
        with pytest.raises(RuntimeError, match=r"rank 4 of 4 and the port \d+; ranks .* below 4"):
            _processes.meeting_point()
        monkeypatch.delenv("MASTER_ADDR")
        with pytest.raises(RuntimeError, match="several processes, but MASTER_ADDR is not set"):
            _processes.meeting_point()


@pytest.mark.skipif(not hasattr(os, "posix_spawn"), reason="not on Windows")
class TestServer:
    """Rank 0's server, and how other processes reach it."""

    size = 3

    @pytest.fixture
    def server(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            arguments = [listener.fileno(), "job", self.size, 30.0]
            process = subprocess.Popen(
                [sys.executable, "-I", process_manager.__file__, *map(str, arguments)],
                pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL,
            )  # fmt: skip
            port = listener.getsockname()[1]
        yield process, lambda: socket.create_connection(("127.0.0.1", port), 30)
        process.kill()
        process.wait()

    def test_it_ends_with_the_processes(self, server):
        """Even if another program keeps a connection."""
        process, connect = server
        with connect() as other, connect() as first, connect() as second, connect() as third:
            other.sendall(b"GET / HTTP/1.1\n")
            first.sendall(b"gpugrad job ")
            time.sleep(0.05)
            first.sendall(b"rank 1\n")
            second.sendall(b"gpugrad job rank 0\n")
            third.sendall(b"gpugrad job rank 2\n")
            assert joining._line(other) == b"this is another program\n"
            for connection in (first, second, third):
                assert joining._line(connection) == process_manager.HERE
                assert joining._line(connection) == process_manager.ALL_HERE
                connection.sendall(process_manager.LEAVING)
                connection.close()
            assert process.wait(30) == 0

    def test_it_refuses_incomplete_lines_of_mpi(self, server):
        """With an error for the process that sent them, and goes on."""
        _, connect = server
        with connect() as mpi:
            mpi.sendall(b"gpugrad job mpi 1\n")
            assert joining._line(mpi) == process_manager.HERE
            for line, answer in [
                (b"cmd=put", b"cmd=put_result rc=-1 "),
                (b"cmd=put value=1", b"cmd=put_result rc=-1 "),
                (b"cmd=put key=a", b"cmd=put_result rc=-1 "),
                (b"cmd=get", b"cmd=get_result rc=-1 "),
                (b"", b"cmd=result rc=-1 "),
                (b"\xff= cmd", b"cmd=result rc=-1 "),
                (b"cmd=put key=a value=b=c d", b"cmd=put_result rc=0 "),
                (b"cmd=get key=a", b"cmd=get_result rc=0 msg=success value=b=c d\n"),
            ]:
                mpi.sendall(line + b"\n")
                assert joining._line(mpi).startswith(answer)

    def test_a_process_ends_while_others_are_waited_for(self, server, monkeypatch):
        _, connect = server
        first = connect()
        first.sendall(b"gpugrad job rank 0\n")
        assert joining._line(first) == process_manager.HERE
        threading.Timer(0.2, first.close).start()
        port = first.getpeername()[1]
        monkeypatch.setattr(joining, "_ports", lambda point: [port])
        point = _processes.launcher.MeetingPoint(1, "127.0.0.1", port, "job")
        with pytest.raises(RuntimeError, match=r"distributed.init: another process has ended"):
            joining.join(point, self.size, 30.0)

    def test_it_answers_late(self, monkeypatch):
        """A second connection of the same process would be taken for the end of the first."""
        monkeypatch.setattr(joining, "_ANSWER", 0.01)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            monkeypatch.setattr(joining, "_ports", lambda point: [port])
            point = _processes.launcher.MeetingPoint(0, "127.0.0.1", port, "job")
            thread = threading.Timer(0.3, process_manager._Server(listener, "job", 1, 60).run)
            thread.start()
            with joining._connect(point, "rank", time.monotonic() + 60) as connection:
                connection.settimeout(60)
                assert joining._line(connection) == process_manager.ALL_HERE
                connection.sendall(process_manager.LEAVING)
            thread.join()

    def test_other_programs_have_all_ports(self, server, monkeypatch):
        monkeypatch.setattr(joining, "_ANSWER", 60.0)
        _, connect = server
        with connect() as connection:
            port = connection.getpeername()[1]
        monkeypatch.setattr(joining, "_ports", lambda point: [port])
        point = _processes.launcher.MeetingPoint(1, "127.0.0.1", port, "another")
        with pytest.raises(RuntimeError, match=r"does not reach rank 0 .*\(other programs answer"):
            joining.join(point, self.size, 0.1)


class TestOneProcess:
    def test_collectives(self):
        distributed.init()
        assert (distributed.rank(), distributed.size(), distributed.local_rank()) == (0, 1, 0)
        x = gg.tensor([1.0, 2.0])
        for op in ("sum", "mean", "max", "min"):
            assert distributed.all_reduce(x, op).tolist() == [1.0, 2.0]
        assert distributed.all_reduce(x) is not x
        assert distributed.broadcast({"x": x})["x"].tolist() == [1.0, 2.0]
        assert distributed.all_gather(x).tolist() == [[1.0, 2.0]]
        assert distributed.reduce_scatter(x[None]).tolist() == [1.0, 2.0]
        distributed.barrier()

    def test_compiled_functions_have_nothing_to_wait_for(self):
        w = gg.ones(2, requires_grad=True)

        @gg.compile
        def step(x):
            distributed.barrier()
            return (w * x).sum()

        for _ in range(2):
            w.grad = None
            step(gg.ones(2)).backward()
            assert w.grad.tolist() == [1.0, 1.0]
        assert len(step._programs) == 1

    def test_neither_mpi_nor_a_launcher_is_needed(self):
        code = (
            "import sys; from gpugrad import distributed, nn; distributed.init();"
            "distributed.DataParallel(nn.Linear(2, 2)); print('mpi4py' in sys.modules)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=TESTS.parent, capture_output=True, text=True
        )
        assert done.stdout.split() == ["False"], done.stderr

    def test_errors(self):
        x = gg.ones(2)
        with pytest.raises(ValueError, match=r"all_reduce: op must be .*, not 'product'"):
            distributed.all_reduce(x, "product")
        with pytest.raises(TypeError, match="bools cannot be reduced"):
            distributed.all_reduce(x > 0)
        with pytest.raises(TypeError, match="the mean of int64"):
            distributed.all_reduce(gg.arange(2), "mean")
        with pytest.raises(ValueError, match=r"shape \(2,\) requires grad, .* call detach\(\)"):
            distributed.all_gather({"x": gg.ones(2, requires_grad=True)})
        with pytest.raises(TypeError, match=r"broadcast: tree\['x'\] must be an array"):
            distributed.broadcast({"x": "text"})
        with pytest.raises(ValueError, match="no rank 1 among 1"):
            distributed.broadcast(x, 1)
        with pytest.raises(ValueError, match=r"must have the length 1, .* the shape is \(2,\)"):
            distributed.reduce_scatter(x)
        with pytest.raises(ValueError, match="timeout must be finite and above 0, not 0"):
            distributed.init(0)
        with pytest.raises(TypeError, match="DataParallel: module must be a Module"):
            distributed.DataParallel(x)
        with pytest.raises(TypeError, match=r"such as optim.Adam\(parameters\), not LBFGS"):
            distributed.ShardedOptimizer(optim.LBFGS([gg.ones(2, requires_grad=True)]))

    @pytest.mark.parametrize(
        "variable, launcher",
        [("PMI_SIZE", "mpiexec"), ("WORLD_SIZE", "torchrun"), ("SLURM_STEP_NUM_TASKS", "srun")],
    )
    def test_several_processes_need_init(self, variable, launcher, monkeypatch):
        monkeypatch.setattr(_processes.group, "_current", None)
        monkeypatch.setenv(variable, "3")
        with pytest.raises(RuntimeError, match=rf"{launcher} started 3 processes; call .*init\(\)"):
            distributed.rank()

    def test_mpi_is_missing(self, monkeypatch):
        monkeypatch.setattr(collectives, "_initialized", False)
        monkeypatch.setitem(sys.modules, "mpi4py", None)
        monkeypatch.delitem(sys.modules, "gpugrad._processes.mpi", raising=False)
        monkeypatch.setenv("PMI_SIZE", "2")
        with pytest.raises(ImportError, match="mpiexec started 2 processes, which need mpi4py"):
            distributed.init()

    def test_data_parallel_is_its_module(self):
        model = nn.Linear(2, 1)
        parallel = distributed.DataParallel(model)
        assert parallel.state_dict().keys() == {"weight", "bias"}
        assert [*parallel.parameters()] == [*model.parameters()]
        with parallel.no_sync():
            parallel(gg.ones((1, 2))).sum().backward()
        parallel.synchronize()
        assert model.weight.grad.tolist() == [[1.0, 1.0]]
        parallel.load_state_dict({"weight": gg.zeros((1, 2)), "bias": gg.ones(1)})
        assert parallel(gg.ones((1, 2))).tolist() == [[1.0]]

    def test_sync_batch_norm_is_batch_norm(self):
        x = gg.random.Generator(1).normal((4, 3, 2), dtype=gg.float64)
        weights = gg.random.Generator(2).normal((4, 3, 2), dtype=gg.float64)
        for options in ({}, {"momentum": None}, {"affine": False, "track_running_stats": False}):
            found = []
            for kind in (nn.BatchNorm1d, nn.SyncBatchNorm):
                layer, leaf = kind(3, **options, dtype=gg.float64), x.detach().requires_grad_()
                for _ in range(2):
                    (layer(leaf) * weights).sum().backward()
                grads = [p.grad for p in layer.parameters()]
                found.append([leaf.grad, *grads, *layer.buffers(), layer.eval()(x).detach()])
            for ours, expected in zip(*found, strict=True):
                gg.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
        layer = nn.SyncBatchNorm(3, dtype=gg.float16)
        assert layer(x.to(gg.float16)).dtype == layer.running_mean.dtype == gg.float16
        with pytest.raises(ValueError, match=r"^SyncBatchNorm: the input must be \(n, 3, \.\.\.\)"):
            layer(gg.ones(3))
        with pytest.raises(ValueError, match=r"^SyncBatchNorm: in training .* than one element"):
            layer(gg.ones((1, 3)))
        with pytest.raises(ValueError, match=r"^SyncBatchNorm: inside vmap"):
            gg.vmap(layer)(gg.ones((2, 4, 3), dtype=gg.float16))

    def test_sharded_optimizer_is_its_optimizer(self):
        x = gg.ones(2, requires_grad=True)
        inner = optim.Adam([x], lr=0.5)
        optimizer = distributed.ShardedOptimizer(inner)
        (x * x).sum().backward()
        optimizer.step()
        assert x.tolist() == [0.5, 0.5]
        state = optimizer.state_dict()
        assert state["state"].keys() == {0}
        optimizer.load_state_dict(state)
        optimizer.add_param_group({"params": [gg.ones(1, requires_grad=True)]})
        assert len(inner.param_groups) == 2
        assert "ShardedOptimizer(Adam(" in repr(optimizer)


class Mirror(_processes.Group):
    """Two processes, of which the other one has the same arrays."""

    size = 2

    def __init__(self):
        self.log = []

    def all_reduce(self, array, op="sum"):
        self.log.append((op, array.shape))
        if op == "sum":
            array *= 2
        return Polled(self.log)

    def broadcast(self, array, root):
        if root != self.rank:
            array[...] = 1
        self.log.append(("broadcast", array.shape, root))
        return Polled(self.log)

    def all_gather(self, array, out):
        self.log.append(("all_gather", array.shape))
        out[...] = array
        return Polled(self.log)

    def any_of(self, flags):
        self.log.append(bytes(flags))
        return Polled(self.log)

    def barrier(self):
        self.log.append("barrier")


class Polled(_processes.group.Pending):
    def __init__(self, log):
        self.log = log

    def test(self):
        self.log.append("test")
        return False

    def wait(self):
        self.log.append("wait")


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

        def failing(array, op="sum"):
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
            result = step(*args)
            found.append((self.group.log.copy(), result.tolist()))
        return found

    def test_collectives_of_a_step(self):
        x, y = gg.ones((3, 4)), gg.tensor([0, 1, 2])
        found = []
        for make in (lambda f: f, gg.compile, lambda f: gg.compile(f, check=2)):
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
        assert found[0] == found[1] == found[2]
        log = found[0][-1][0]
        assert log[0] == "barrier"
        # The first buckets are on their way while backward goes on.
        assert log.index("test") < max(i for i, event in enumerate(log) if event[0] == "sum")

    def test_a_function_of_some_of_the_parameters(self):
        runs = []
        for make in (lambda f: f, gg.compile):
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            distributed.DataParallel(model)(gg.ones((1, 2)))
            first, second = model
            step = make(lambda x, first=first: first(x).sum().backward())
            found = []
            for i in range(4):
                second.bias.grad = gg.full(2, float(i))
                before = second.bias.grad
                step(gg.ones((1, 2)))
                found += [second.bias.grad.tolist(), first.bias.grad.tolist()]
                assert second.bias.grad is not before
            runs.append(found)
        assert runs[0] == runs[1]
        assert step._programs

    def test_a_check_compares_what_is_sent(self, monkeypatch):
        step = gg.compile(lambda x: distributed.all_reduce(x), check=1)
        for _ in range(3):
            assert step(gg.ones(3)).tolist() == [2.0] * 3
        # Compile does not look at what functions of the library call.
        monkeypatch.setattr(collectives, "as_tensor", lambda x, name: x + 1)
        with pytest.raises(RuntimeError, match="collective 1, all_reduce, does not get the values"):
            step(gg.ones(3))
        noting = Noting(self.group)
        noting.barrier()
        with pytest.raises(RuntimeError, match="there are 0 collectives, not the 1 that it gets"):
            Repeating(noting).end()
        assert _processes.current() is self.group

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

        def started(self, leaves, create_graph):
            self.events.append({leaf.owner().label for leaf in leaves})

        def arrived(self, leaf):
            self.events.append((leaf.owner().label, leaf.owner().grad.tolist()))

        def ended(self):
            self.events.append("ended")

        def failed(self):
            self.events.append("failed")

    @pytest.fixture(autouse=True)
    def _no_listeners_afterwards(self, monkeypatch):
        monkeypatch.setattr(Listener, "count", 0)

    def leaves(self, *names):
        log, leaves = self.Log(), []
        for name in names:
            x = gg.tensor([2.0, 3.0], requires_grad=True)
            x.label = name
            log.listen(x.node)
            leaves.append(x)
        return log, leaves

    def test_order(self):
        log, (a, b, c) = self.leaves("a", "b", "c")
        seen = []
        y = a * b
        y.register_hook(lambda g: seen.append(len(log.events)))
        (y * c * b).sum().backward()
        # b is used before and after c.
        assert log.events[:2] == [{"a", "b", "c"}, ("c", [8.0, 27.0])]
        assert sorted(log.events[2:4]) == [("a", [8.0, 27.0]), ("b", [16.0, 54.0])]
        assert log.events[4:] == ["ended"]
        assert seen == [2]

    def test_of_a_part_of_the_leaves(self):
        log, (a, b) = self.leaves("a", "b")
        (a * b).sum().backward(inputs=[b])
        assert log.events[1:] == [("b", [2.0, 3.0]), "ended"]
        assert a.grad is None
        log.events.clear()
        a.sum().backward()
        assert log.events == [{"a"}, ("a", [1.0, 1.0]), "ended"]

    def test_a_leaf_alone_and_create_graph(self):
        log, (a,) = self.leaves("a")
        a[0].backward()
        a.backward(gg.ones(2))
        assert log.events[-2:] == [("a", [2.0, 1.0]), "ended"]
        log.events.clear()
        (a * a).sum().backward(create_graph=True)
        assert log.events == [{"a"}, ("a", [6.0, 7.0]), "ended"]

    def test_hooks_and_errors(self):
        log, (a, b) = self.leaves("a", "b")
        a.register_hook(lambda g: 2 * g)
        (a * b).sum().backward()
        assert a.grad.tolist() == [4.0, 6.0]
        log.events.clear()
        y = (a * b).sum()
        y.backward(retain_graph=False)
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
            epochs = []
            for _ in range(2):
                parts = [list(sampler) for sampler in samplers]
                assert [len(p) for p in parts] == [len(s) for s in samplers]
                epochs.append([i for part in parts for i in part])
                assert len(set(epochs[-1])) == len(epochs[-1])
            if drop_last:
                assert len({len(p) for p in parts}) == 1
                assert len(epochs[0]) == n // size * size
            else:
                assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(n))
            if n == 10:
                assert (epochs[0] != epochs[1]) == shuffle

    def test_parts_of_batches(self):
        dataset = data.TensorDataset(gg.arange(11))
        whole = data.DataLoader(
            dataset, batch_sampler=data.BatchSampler(data.RandomSampler(dataset, seed=2), 5)
        )
        loaders = [
            data.DataLoader(
                dataset,
                batch_sampler=data.DistributedBatchSampler(
                    data.RandomSampler(dataset, seed=2), 5, num_replicas=3, rank=rank
                ),
            )
            for rank in range(3)
        ]
        assert [len(loader) for loader in loaders] == [3, 3, 3]
        for (batch,), *parts in zip(whole, *loaders, strict=True):
            assert sorted(batch.tolist()) == sorted(i for (p,) in parts for i in p.tolist())
        assert parts[2][0].shape == (0,)

    def test_errors(self):
        for kind, arguments in [
            (data.DistributedSampler, (range(3),)),
            (data.DistributedBatchSampler, (range(3), 2)),
        ]:
            with pytest.raises(TypeError, match="give both num_replicas and rank"):
                kind(*arguments, rank=1)
            with pytest.raises(ValueError, match="rank must be below num_replicas 2, not 2"):
                kind(*arguments, num_replicas=2, rank=2)
