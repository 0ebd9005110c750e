"""The names in the stand-in for CuPy, and programs that use it in a process of their own.

The tests on the stand-in are in ``cupy_stand_in``.
"""

import importlib.util
import json
import shutil

import pytest
from stand_in import STAND_IN, run

FIRST_USE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import gpugrad

def use(number):
    barrier.wait()
    x = gpugrad.ones(3, device=f"cuda:{number % 2}", requires_grad=True)
    gpugrad.exp(x).sum().backward()
    return x.grad.device

sys.setswitchinterval(1e-6)
barrier = Barrier(8)
with ThreadPoolExecutor(8) as pool:
    print(*sorted(pool.map(use, range(8))))
"""


@pytest.mark.skipif(not shutil.which("g++"), reason="the stand-in computes with g++")
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


@pytest.mark.slow
def test_a_second_pytest_runs_what_needs_a_device():
    """The tests in the folder of the stand-in, and those that need a GPU."""
    paths = "tests/cupy_stand_in/test_kernels_losses.py", "tests/gpu/test_products.py"
    done = run("-m", "pytest", *paths, "-k", "losses_of_rows or tf32", "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.split("On the stand-in for CuPy:")
    for name in ("test_losses_of_rows", "test_tf32"):
        assert name in second
        assert name not in first
