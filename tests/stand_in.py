"""Running tests on the stand-in for CuPy: each is collected by its name and reported on its own.

Only a process that is meant for it may find the stand-in as ``cupy``. So pytest collects the files
of ``cupy_stand_in`` by asking a second pytest process, which has the stand-in on its path, for the
tests in them. Whenever one of these tests is due, the second process runs it and sends its reports.

`conftest` takes the hooks from here. ``python stand_in.py FD ARGUMENTS`` is the second process: it
is served by whoever has the other end of the pipe that the file descriptor FD stands for, and
pytest has these arguments.
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

# What the second process is to collect for a file of the stand-in's tests: for one of them all
# that need a GPU, but for the comparisons with differences, which NumPy has; else all files.
ON_A_GPU = STAND_IN / "test_as_on_a_gpu.py"
OF_A_GPU = (
    *(str(TESTS), "-m", "gpu", f"--ignore={STAND_IN}"),
    *(f"--deselect=tests/test_ops.py::{x}[" for x in ("test_gradients", "test_second_gradients")),
)
OF_ITS_OWN = (str(STAND_IN),)


def environment(stand_in=True):
    """The environment of a process that finds gpugrad, and the stand-in as ``cupy`` if asked for.

    It has one thread for NumPy's products, as the machine's other cores may be busy.
    """
    paths = [str(STAND_IN)] * stand_in + [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OPENBLAS_NUM_THREADS": "1",
    }


def is_here():
    """Whether this process finds the stand-in as ``cupy``."""
    found = importlib.util.find_spec("cupy")
    return STAND_IN in Path(getattr(found, "origin", None) or "").parents


# Hooks of pytest, in the process that the tests were started in.


def pytest_pycollect_makemodule(module_path, parent):
    if module_path.parent == STAND_IN and not is_here():
        return File.from_parent(parent, path=module_path)
    return None


def pytest_runtest_protocol(item, nextitem):
    if not isinstance(item, Test):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in item.process.run(item, nextitem):
        report.nodeid, report.location = item.nodeid, item.location
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


class File(pytest.File):
    """A file of the stand-in's tests, which are all slow."""

    def collect(self):
        self.add_marker(pytest.mark.slow)
        if not shutil.which("g++"):
            pytest.skip("g++, which compiles kernels, is not found", allow_module_level=True)
        own = self.path.relative_to(self.config.rootpath).as_posix()
        arguments, start = OF_ITS_OWN, own
        if self.path == ON_A_GPU:
            arguments, start = OF_A_GPU, "tests/"
        process = Process.collecting(self.config, arguments)
        for there, *why in process.not_collected:
            if there == own:
                not_collected(*why)
            if there.startswith(start):
                node = NotCollected.from_parent(self, name=there.removeprefix(start))
                node.why = why
                yield node
        tests = []
        for there, marks in process.tests:
            if there.startswith(start):
                names, bracket, parameters = there.removeprefix(start).partition("[")
                *outer, last = names.removeprefix("::").split("::")
                tests.append(([*outer, last + bracket + parameters], there, marks))
        yield from nested(self, process, tests)


class NotCollected(pytest.Collector):
    """Part of a file, or another file, that the other process could not collect."""

    def collect(self):
        not_collected(*self.why)


def not_collected(outcome, text):
    if outcome == "skipped":
        pytest.skip(text, allow_module_level=True)
    raise pytest.Collector.CollectError(text)


class Group(pytest.Collector):
    """The tests of a class, or those of another file; `nested` sets what it holds."""

    def collect(self):
        return nested(self, self.process, self.tests)


class Test(pytest.Item):
    """A test that another process runs; `nested` sets which, and its name there."""

    __test__ = False

    def reportinfo(self):
        return self.path, None, self.nodeid.partition("::")[2]

    def runtest(self):
        raise NotImplementedError("pytest_runtest_protocol runs it")


def nested(parent, process, tests):
    """The nodes of these tests: of those with one name left a test, of others a group."""
    for name, chosen in itertools.groupby(tests, lambda test: test[0][0]):
        chosen = list(chosen)
        names, there, marks = chosen[0]
        if len(names) == 1:
            node = Test.from_parent(parent, name=name)
            node.there = there
            for mark in marks:
                node.add_marker(mark)
        else:
            node = Group.from_parent(parent, name=name)
            node.tests = [(names[1:], *others) for names, *others in chosen]
        node.process = process
        yield node


PROCESSES = pytest.StashKey[dict]()


class Process:
    """A pytest process that finds the stand-in, and that has collected what the arguments name.

    tests: the name and the marks' names of each test.
    not_collected: of what failed or was skipped while it collected, the name, which of the two,
        and why.
    """

    @classmethod
    def collecting(cls, config, arguments):
        """The process of these arguments, one for the whole session."""
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
        """The reports of a test, as they come."""
        after = nextitem.there if getattr(nextitem, "process", None) is self else None
        try:
            self.connection.send((item.there, after))
            while (report := self.connection.recv()) is not None:
                yield self.config.hook.pytest_report_from_serializable(
                    config=self.config, data=report
                )
        except (EOFError, OSError):
            yield pytest.TestReport(item.nodeid, item.location, {}, "failed", self.ended(), "call")

    def ended(self):
        """That the process has ended, and what it wrote last."""
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


class Served:
    """The plugin that makes pytest run what a `Process` asks for."""

    def __init__(self, connection):
        self.connection = connection
        self.not_collected = []

    def pytest_collectreport(self, report):
        if not report.passed:
            why = report.longrepr[2] if report.skipped else report.longreprtext
            self.not_collected.append((report.nodeid, report.outcome, why))

    def pytest_collection_finish(self, session):
        tests = [(item.nodeid, self.marks(item)) for item in session.items]
        self.connection.send((tests, self.not_collected))

    def marks(self, item):
        """The names of its marks, without ``gpu``: the stand-in is none."""
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
    served = Served(Connection(int(sys.argv[1])))
    pytest.main([*sys.argv[2:], "-q", "-p", "no:cacheprovider"], plugins=[served])
