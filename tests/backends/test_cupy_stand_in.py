"""The names in the stand-in for CuPy, and programs that use it in a process of their own.

The tests on the stand-in are in ``cupy_stand_in``.
"""

import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from stand_in import ROOT, STAND_IN, Process, environment


def run(*command, stand_in, given=""):
    """Run Python with or without the stand-in; return the finished process."""
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env=environment(stand_in),
        input=given,
        capture_output=True,
        text=True,
    )


FIRST_USE = """
import sys
import threading
import gpugrad

def use(number):
    barrier.wait()
    x = gpugrad.ones(3, device=f"cuda:{number % 2}", requires_grad=True)
    gpugrad.exp(x).sum().backward()
    done.append(x.grad.device)

sys.setswitchinterval(1e-6)
barrier, done = threading.Barrier(8), []
threads = [threading.Thread(target=use, args=[number]) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*sorted(done))
"""


def test_first_use_in_several_threads():
    done = run("-c", FIRST_USE, stand_in=True)
    assert done.stdout.split() == ["cuda:0"] * 4 + ["cuda:1"] * 4, done.stderr


@pytest.mark.skipif(not importlib.util.find_spec("cupy"), reason="CuPy is not installed")
def test_the_stand_in_offers_only_what_cupy_has():
    """Its names are CuPy's, and so are the parameters of functions, where CuPy's are known."""
    offers = signatures(stand_in=True)
    has = signatures(stand_in=False, given=json.dumps(offers))
    for owner, names in offers.items():
        assert names.keys() == has[owner].keys(), owner
        for name, parameters in names.items():
            known = has[owner][name]
            if parameters is None or known is None:
                continue
            if known and isinstance(known[0], str):
                parameters = [p for p, _, _ in parameters]
            assert parameters == known, f"{owner}.{name}"


def signatures(**options):
    """Return what ``signatures.py`` prints."""
    done = run("-P", STAND_IN / "signatures.py", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


OUTCOMES = """
import os
import cupy
import pytest

def test_passed():
    assert hasattr(cupy, "_reads")

@pytest.mark.slow
def test_failed():
    print("words")
    assert 1 == 2

class TestSkipped:
    def test_skipped(self):
        pytest.skip("a reason")

def test_ended():
    os._exit(7)
"""


def test_outcomes_come_from_the_second_process(request, tmp_path):
    file = tmp_path / "test_outcomes.py"
    file.write_text(OUTCOMES)
    process = Process(request.config, (str(file),))
    reports = {}
    for remote_id, marks in process.tests:
        item = SimpleNamespace(
            remote_id=remote_id, nodeid=remote_id, location=(remote_id, None, remote_id)
        )
        reports[remote_id.rpartition("_")[2]] = *process.run(item, None), marks
    process.end()
    outcomes = {name: [r.outcome for r in given[:-1]] for name, given in reports.items()}
    assert outcomes == {
        "passed": ["passed"] * 3,
        "failed": ["passed", "failed", "passed"],
        "skipped": ["passed", "skipped", "passed"],
        "ended": ["passed", "failed"],
    }
    assert reports["failed"][-1] == ["slow"]
    failed = reports["failed"][1]
    assert "assert 1 == 2" in failed.longreprtext
    assert failed.capstdout == "words\n"
    assert "ended with code 7" in reports["ended"][1].longreprtext
