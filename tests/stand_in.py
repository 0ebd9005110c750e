"""Run tests on the stand-in for CuPy in a second pytest, which follows the first.

Only a process of its own may import the stand-in as ``cupy``. If the arguments of pytest name
``cupy_stand_in``, what is in it or a folder around it, a second pytest with the same arguments
follows, which has the stand-in on its path. It runs the tests in ``cupy_stand_in`` and all tests
that need a GPU, among those that the arguments select. `conftest` imports the hooks from here.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
STAND_IN = TESTS / "cupy_stand_in"

# Comparisons with differences and under create_graph run definitions rather than twins, so that
# NumPy is enough, and gpu/test_against_cpu.py compares float32 with NumPy's.
LEFT_OUT = tuple(
    f"tests/ops/test_ops.py::{name}["
    for name in ("test_gradients", "test_second_gradients", "test_gradients_in_low_precision")
)


def environment(stand_in=True):
    """Return the environment of a process that can import gpugrad, and the stand-in as ``cupy``.

    NumPy's products use one thread, since the machine's other cores may be busy.
    """
    paths = [str(STAND_IN)] * stand_in + [str(ROOT), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, paths))
    return os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}


def run(*words, cwd=ROOT, stand_in=False, given="", **variables):
    """Run Python with these words; return the finished process, with its output as text.

    given: what it reads from standard input.
    """
    command, env = [sys.executable, *map(str, words)], environment(stand_in) | variables
    return subprocess.run(command, cwd=cwd, env=env, input=given, capture_output=True, text=True)


def in_second_process():
    """Return whether this process imports the stand-in as ``cupy``."""
    found = importlib.util.find_spec("cupy")
    return STAND_IN in Path(getattr(found, "origin", None) or "").parents


def pytest_ignore_collect(collection_path):
    is_of_stand_in = STAND_IN in (collection_path, *collection_path.parents)
    return True if is_of_stand_in and not in_second_process() else None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Leave out arguments that are for the second pytest; without others there is no first."""
    if is_wanted(config):
        config.args = [arg for arg in config.args if STAND_IN not in around(config, arg)]
        if not config.args:
            return pytest.ExitCode.NO_TESTS_COLLECTED
    return None


@pytest.hookimpl(wrapper=True, specname="pytest_cmdline_main")
def pytest_then_run_second(config):
    wanted = is_wanted(config)
    status = yield
    has_failed = status == pytest.ExitCode.TESTS_FAILED
    ended = has_failed or status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if not wanted or not ended or (has_failed and config.option.maxfail):
        return status
    second = run_second(config)
    return status if has_failed or second == pytest.ExitCode.NO_TESTS_COLLECTED else second


def around(config, arg):
    """The path of an argument and the folders around it."""
    path = Path(config.invocation_params.dir, arg.partition("::")[0]).resolve()
    return [path, *path.parents]


def is_wanted(config):
    """Whether a second pytest is to follow; all that it runs is slow."""
    option = config.option
    if option.help or option.version or option.markers or option.showfixtures:
        return False
    if hasattr(config, "workerinput") or in_second_process() or not shutil.which("g++"):
        return False
    paths = [around(config, arg) for arg in config.args]
    is_named = any(STAND_IN in found or found[0] in STAND_IN.parents for found in paths)
    return is_named and "not slow" not in option.markexpr and option.markexpr != "gpu"


def run_second(config):
    """Run it with the same arguments; the folder of the stand-in stands for all tests."""
    parameters = config.invocation_params
    arguments = [
        TESTS if Path(parameters.dir, arg).resolve() == STAND_IN else arg for arg in parameters.args
    ]
    print("\nOn the stand-in for CuPy:", flush=True)
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.call(command, cwd=parameters.dir, env=environment())


def select_for_stand_in(config, items):
    """Leave out the tests that the first pytest runs."""
    kept, others = [], []
    for item in items:
        needs_it = STAND_IN in item.path.parents or item.get_closest_marker("gpu")
        (kept if needs_it and not item.nodeid.startswith(LEFT_OUT) else others).append(item)
    for item in kept:
        item.add_marker(pytest.mark.slow)
    config.hook.pytest_deselected(items=others)
    items[:] = kept
