"""``python -m gpugrad``, whose output people put into reports of bugs."""

import sys

from stand_in import run

import gpugrad


def test_it_says_what_is_installed_and_why_cuda_is_not_used():
    done = run("-m", "gpugrad", OMP_NUM_THREADS="3")
    assert not done.returncode, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["gpugrad"].startswith(gpugrad.__version__)
    assert lines["Python"].startswith(sys.version.split()[0])
    assert lines["$OMP_NUM_THREADS"] == "3"
    assert lines["array-api-compat"]
    problem = gpugrad.cuda.why_not()
    assert lines["CUDA"] == (f"is not used: {problem}" if problem else "is used")
