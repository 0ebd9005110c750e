"""Prints what this installation of gpugrad consists of, for bug reports."""

import os
import platform
import sys
from argparse import ArgumentParser
from importlib.metadata import packages_distributions, version
from pathlib import Path

from . import __version__, cuda
from .backends import backend_for_device
from .backends.native import compiler

# The optional packages that gpugrad uses if they are installed, by the names of their modules.
_EXTRAS = "cupy torch ml_dtypes optree opt_einsum safetensors scipy matplotlib tqdm einops".split()
_VARIABLES = "CUDA_VISIBLE_DEVICES CUPY_CACHE_DIR CUPY_TF32 SCIPY_ARRAY_API GPUGRAD_NATIVE".split()
_VARIABLES += "OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS MKL_NUM_THREADS OMP_NUM_THREADS CC".split()


def report():
    """Pairs of texts: a subject, and what was found about it."""
    yield "gpugrad", f"{__version__}, in {Path(__file__).parent}"
    yield "Python", f"{platform.python_version()}, {sys.executable}"
    yield "system", f"{platform.platform()}, {os.cpu_count()} CPUs"
    yield from backend_for_device("cpu").report()
    yield from compiler.report()
    yield "array-api-compat", version("array-api-compat")
    distributions = packages_distributions()
    for module in _EXTRAS:
        versions = [f"{version(name)} ({name})" for name in distributions.get(module, [])]
        yield module, ", ".join(versions) or "is not installed"
    problem = cuda.why_not()
    yield "CUDA", "is used" if problem is None else f"is not used: {problem}"
    if problem is None:
        yield from backend_for_device("cuda").report()
        for i in range(cuda.device_count()):
            yield f"cuda:{i}", cuda.device_name(i)
    for name in _VARIABLES:
        yield f"${name}", os.environ.get(name, "is not set")


if __name__ == "__main__":
    ArgumentParser(prog="python -m gpugrad", description=__doc__).parse_args()
    for name, text in report():
        print(f"{name:21} {text}")
