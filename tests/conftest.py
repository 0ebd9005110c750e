import gc
import os

import pytest
from libraries import each_library
from stand_in import pytest_pycollect_makemodule, pytest_runtest_protocol  # noqa: F401

import gpugrad
from gpugrad.autograd.implementation import clear
from gpugrad.backends import dtypes

# SciPy reads it when it is first imported, by whichever test: it then takes Tensors.
os.environ["SCIPY_ARRAY_API"] = "1"


def pytest_configure(config):
    if getattr(config.option, "numprocesses", None):  # of pytest-xdist, whose processes inherit it
        for library in ("OPENBLAS", "OMP", "MKL"):
            os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def pytest_collection_finish():
    """Keep the tests themselves from being searched at every garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=each_library(), scope="session")
def library(request):
    """Every array library that is there, in turn."""
    return request.param


@pytest.fixture(scope="module")
def bfloat16():
    """The dtype, for the tests of a module: others are to run what runs without it."""
    yield gpugrad.bfloat16
    dtypes._loaded.clear()
    vars(gpugrad).pop("bfloat16", None)
    clear()
