"""Where no thread can be started, as in Pyodide, everything runs in the calling one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SELECTION = """
    tests/nn/test_containers.py
    tests/nn/test_loading.py::test_prefetched_batches_come_in_the_same_order
    tests/optim/test_optim.py tests/project/test_first_day.py tests/tensor/test_creation.py
    tests/training/test_trainer.py
""".split()
PROGRAM = """
import sys, threading
import gpugrad

def start(self):
    raise RuntimeError("can't start new thread")

threading.Thread.start = start
gpugrad.set_num_threads(4)
x = gpugrad.ones((1500, 1500))
assert (x @ x)[0, 0].item() == 1500

import pytest

sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_fast_tests_pass(tmp_path):
    """With an empty folder of compiled code, too, for which nobody compiles."""
    options = ["-q", "-n0", "-m", "not slow", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *SELECTION, *options],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)},
        cwd=ROOT,
    )
    assert not ran.returncode, ran.stdout[-3000:] + ran.stderr[-1000:]
    assert " passed" in ran.stdout
