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
PRODUCT = """
from without_threads import forbid_threads

forbid_threads()

import gpugrad

gpugrad.set_num_threads(4)
x = gpugrad.ones((1500, 1500))
assert (x @ x)[0, 0].item() == 1500
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [
    ["-c", PRODUCT], ["-m", "pytest", "-q", "-n0", "-m", "not slow", *SELECTION]
], ids=["a product", "fast tests"])  # fmt: skip
def test_without_threads(command, tmp_path):
    """With an empty folder of compiled code, too, for which nobody compiles."""
    variables = {
        "WITHOUT_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
        **dict.fromkeys(("XDG_CACHE_HOME", "LOCALAPPDATA"), str(tmp_path)),
    }
    ran = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=600, cwd=ROOT,
        env=os.environ | variables,
    )  # fmt: skip
    assert not ran.returncode, ran.stdout[-3000:] + ran.stderr[-1000:]
