"""``python -m gpugrad``, whose output people put into reports of bugs."""

import os
import subprocess
import sys
from pathlib import Path

import gpugrad

ROOT = str(Path(gpugrad.__file__).parents[1])


def test_it_says_what_is_installed_and_why_cuda_is_not_used():
    environment = {**os.environ, "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "3"}
    command = [sys.executable, "-m", "gpugrad"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["gpugrad"].startswith(gpugrad.__version__)
    assert lines["Python"].startswith(sys.version.split()[0])
    assert lines["$OMP_NUM_THREADS"] == "3"
    assert lines["array-api-compat"]
    problem = gpugrad.cuda.why_not()
    assert lines["CUDA"] == (f"is not used: {problem}" if problem else "is used")
