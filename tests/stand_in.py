"""Run tests on the stand-in for CuPy in a second process, each reported under its own name.

Only a process of its own may import the stand-in as ``cupy``. To collect the files in
``cupy_stand_in``, pytest asks a second pytest process, which has the stand-in on its path, for
their tests. When one of these tests is due, the second process runs it and sends its reports.

`conftest` imports the hooks from here. ``python stand_in.py FD ARGUMENTS`` is the second process.
It runs pytest with these arguments and takes requests through a pipe, whose end has the file
descriptor FD.
"""

import importlib.util
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
STAND_IN = TESTS / "cupy_stand_in"

# What the second process collects. For this file, it collects all tests that need a GPU, except
# comparisons with differences and under create_graph, which run definitions rather than twins, so
# that NumPy is enough, and those of float32 with float64, which gpu/test_against_cpu.py compares
# with NumPy's. For the others, it collects STAND_IN.
GPU_TESTS = STAND_IN / "test_as_on_a_gpu.py"
GPU_ARGUMENTS = (
    *(str(TESTS), "-m", "gpu", f"--ignore={STAND_IN}"),
    *(
        f"--deselect=tests/ops/test_ops.py::{x}["
        for x in (
            "test_gradients",
            "test_second_gradients",
            "test_gradients_in_low_precision",
        )
    ),
)
OWN_ARGUMENTS = (str(STAND_IN),)


def environment(stand_in=True):
    """Return the environment of a process that can import gpugrad, and the stand-in as ``cupy``.

    NumPy's products use one thread, since the machine's other cores may be busy.
    """
    paths = [str(STAND_IN)] * stand_in + [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OPENBLAS_NUM_THREADS": "1",
    }


def in_second_process():
    """Return whether this process imports the stand-in as ``cupy``."""
    found = importlib.util.find_spec("cupy")
    return STAND_IN in Path(getattr(found, "origin", None) or "").parents


# Hooks of pytest in the first process.


def pytest_pycollect_makemodule(module_path, parent):
    if module_path.parent == STAND_IN and not in_second_process():
        return StandInFile.from_parent(parent, path=module_path)
    return None


def pytest_runtest_protocol(item, nextitem):
    if not isinstance(item, StandInTest):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in item.process.run(item, nextitem):
        report.nodeid, report.location = item.nodeid, item.location
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class StandInFile(pytest.File):
    """A file of tests that run on the stand-in; all of them are slow."""

    def collect(self):
        self.add_marker(pytest.mark.slow)
        if "not slow" in self.config.option.markexpr:  # collecting them takes as long as all others
            return
        if not shutil.which("g++"):
            pytest.skip("g++, which compiles kernels, is not found", allow_module_level=True)
        own = self.path.relative_to(self.config.rootpath).as_posix()
        arguments, start = OWN_ARGUMENTS, own
        if self.path == GPU_TESTS:
            arguments, start = GPU_ARGUMENTS, "tests/"
        process = Process.collecting(self.config, arguments)
        for remote_id, *reason in process.not_collected:
            if remote_id == own:
                raise_not_collected(*reason)
            if remote_id.startswith(start):
                node = NotCollected.from_parent(self, name=remote_id.removeprefix(start))
                node.reason = reason
                yield node
        tests = []
        for remote_id, marks in process.tests:
            if remote_id.startswith(start):
                names, bracket, parameters = remote_id.removeprefix(start).partition("[")
                *outer, last = names.removeprefix("::").split("::")
                tests.append(([*outer, last + bracket + parameters], remote_id, marks))
        yield from make_nodes(self, process, tests)


class NotCollected(pytest.Collector):
    """A file, or part of one, that the second process could not collect."""

    def collect(self):
        raise_not_collected(*self.reason)


def raise_not_collected(outcome, text):
    if outcome == "skipped":
        pytest.skip(text, allow_module_level=True)
    raise pytest.Collector.CollectError(text)


class Group(pytest.Collector):
    """The tests of a class, or of another file; `make_nodes` sets its attributes."""

    def collect(self):
        return make_nodes(self, self.process, self.tests)


class StandInTest(pytest.Item):
    """A test that the second process runs; `make_nodes` sets its attributes."""

    __test__ = False

    def reportinfo(self):
        return self.path, None, self.nodeid.partition("::")[2]

    def runtest(self):
        raise NotImplementedError("pytest_runtest_protocol runs it")


def make_nodes(parent, process, tests):
    """Yield the nodes of these tests: a test if only its own name is left, else a group."""
    for name, chosen in itertools.groupby(tests, lambda test: test[0][0]):
        chosen = list(chosen)
        names, remote_id, marks = chosen[0]
        if len(names) == 1:
            node = StandInTest.from_parent(parent, name=name)
            node.remote_id = remote_id
            for mark in marks:
                node.add_marker(mark)
        else:
            node = Group.from_parent(parent, name=name)
            node.tests = [(names[1:], *others) for names, *others in chosen]
        node.process = process
        yield node


PROCESSES = pytest.StashKey[dict]()


class Process:
    """A pytest process that imports the stand-in, and has collected the tests of its arguments.

    tests: the node id and the names of the marks of each test.
    not_collected: the node id, the outcome ("failed" or "skipped") and the reason of
        everything that could not be collected.
    """

    @classmethod
    def collecting(cls, config, arguments):
        """Return the process with these arguments; there is one for the whole session."""
        processes = config.stash.setdefault(PROCESSES, {})
        if arguments not in processes:
            processes[arguments] = cls(config, arguments)
            config.add_cleanup(processes[arguments].end)
        return processes[arguments]

    def __init__(self, config, arguments):
        self.config = config
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115  closed at the end
        self.connection, theirs = multiprocessing.Pipe()
        given = environment()
        given.pop("PYTEST_ADDOPTS", None)
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno()), *arguments],
            cwd=config.rootpath,
            env=given,
            pass_fds=[theirs.fileno()],
            stdout=self.output,
            stderr=subprocess.STDOUT,
        )
        theirs.close()
        try:
            self.tests, self.not_collected = self.connection.recv()
        except EOFError:
            raise pytest.Collector.CollectError(self.ended()) from None

    def run(self, item, nextitem):
        """Run a test and yield its reports as they arrive."""
        after = nextitem.remote_id if getattr(nextitem, "process", None) is self else None
        try:
            self.connection.send((item.remote_id, after))
            while (report := self.connection.recv()) is not None:
                yield self.config.hook.pytest_report_from_serializable(
                    config=self.config, data=report
                )
        except (EOFError, OSError):
            yield pytest.TestReport(item.nodeid, item.location, {}, "failed", self.ended(), "call")

    def ended(self):
        """Wait for the process to end; return a message with its exit code and last output."""
        self.process.wait()
        self.output.seek(0)
        return (
            f"the process with the stand-in for CuPy ended with code {self.process.returncode}:\n"
            f"{self.output.read()[-10_000:]}"
        )

    def end(self):
        self.connection.close()
        self.process.wait()
        self.output.close()


class Server:
    """A pytest plugin that runs the tests that a `Process` asks for."""

    def __init__(self, connection):
        self.connection = connection
        self.not_collected = []

    def pytest_collectreport(self, report):
        if not report.passed:
            reason = report.longrepr[2] if report.skipped else report.longreprtext
            self.not_collected.append((report.nodeid, report.outcome, reason))

    def pytest_collection_finish(self, session):
        tests = [(item.nodeid, self.marks(item)) for item in session.items]
        self.connection.send((tests, self.not_collected))

    def marks(self, item):
        """Return the names of a test's marks except ``gpu``, since the stand-in is not a GPU."""
        return sorted({mark.name for mark in item.iter_markers()} - {"gpu"})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        items = {item.nodeid: item for item in session.items}
        while True:
            try:
                name, after = self.connection.recv()
            except EOFError:
                return True
            session.config.hook.pytest_runtest_protocol(item=items[name], nextitem=items.get(after))
            self.connection.send(None)

    def pytest_runtest_logreport(self, report):
        config = self.config
        self.connection.send(
            config.hook.pytest_report_to_serializable(config=config, report=report)
        )

    def pytest_configure(self, config):
        self.config = config


if __name__ == "__main__":
    server = Server(Connection(int(sys.argv[1])))
    pytest.main([*sys.argv[2:], "-q", "-p", "no:cacheprovider"], plugins=[server])
