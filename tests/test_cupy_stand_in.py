"""The CuPy backend's own code on a CPU: what must hold of every array library, and of a GPU.

The tests run in a process of their own where ``import cupy`` finds the stand-in for CuPy.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
STAND_IN = TESTS / "cupy_stand_in"
OWN = sorted({*STAND_IN.glob("on_*.py")} - {*STAND_IN.glob("on_kernels*.py")})  # see test_kernels


def run(*command, stand_in, given=""):
    """The finished process; one thread, as the machine's other cores may be busy."""
    paths = [str(STAND_IN)] * stand_in + [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(not shutil.which("g++"), reason="g++, which compiles kernels, is not found")
@pytest.mark.parametrize(
    "chosen",
    [
        # What a GPU is to be tested by; differences are compared on NumPy.
        (
            TESTS,
            "-m",
            "gpu",
            "--ignore",
            __file__,
            "--deselect",
            "tests/test_ops.py::test_gradients[",
        ),
        OWN,
    ],
    ids=["as on a GPU", "its own"],
)
def test_on_the_stand_in(chosen):
    done = run(
        *("-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *chosen),
        stand_in=True,
    )
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


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
    """Its names are CuPy's, and of functions the parameters too, where CuPy's can be told."""
    offers = told(stand_in=True)
    has = told(stand_in=False, given=json.dumps(offers))
    for owner, names in offers.items():
        assert names.keys() == has[owner].keys(), owner
        for name, parameters in names.items():
            known = has[owner][name]
            if parameters is None or known is None:
                continue
            if known and isinstance(known[0], str):
                parameters = [p for p, _, _ in parameters]
            assert parameters == known, f"{owner}.{name}"


def told(**options):
    done = run("-P", STAND_IN / "signatures.py", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
