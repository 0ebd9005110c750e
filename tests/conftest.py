import gc
import os

import pytest
from libraries import each_library
from stand_in import (
    in_second_process,
    pytest_cmdline_main,  # noqa: F401
    pytest_ignore_collect,  # noqa: F401
    pytest_then_run_second,  # noqa: F401
    select_for_stand_in,
)
from without_threads import forbid_threads

import gpugrad
from gpugrad.autograd.implementation import clear
from gpugrad.backends import dtypes

# Makes SciPy accept Tensors. SciPy reads it at its first import, in whichever test that is.
os.environ["SCIPY_ARRAY_API"] = "1"


def pytest_configure(config):
    if getattr(config.option, "numprocesses", None):  # the workers of pytest-xdist inherit these
        for library in ("OPENBLAS", "OMP", "MKL"):
            os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    elif "WITHOUT_THREADS" in os.environ:
        forbid_threads()


@pytest.hookimpl(tryfirst=True)  # before `-m` leaves tests out
def pytest_collection_modifyitems(config, items):
    if in_second_process():
        select_for_stand_in(config, items)
    for item in items:
        if item.get_closest_marker("fuzz"):
            item.add_marker("slow")


@pytest.fixture(scope="module", autouse=True)
def freeze_before_module():
    freeze()


def freeze():
    """Exclude what there is, such as the collected tests, from garbage collection from now on."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup():
    gpugrad.manual_seed(0)  # so that the numbers a test draws are the same in each run


@pytest.fixture(params=each_library(), scope="session")
def library(request):
    """Every array library that is installed, in turn."""
    return request.param


@pytest.fixture(scope="module")
def bfloat16():
    """The dtype, for all tests of a module; afterwards ops run again as if it were never used."""
    yield gpugrad.bfloat16
    dtypes._loaded.clear()
    vars(gpugrad).pop("bfloat16", None)
    clear()


@pytest.fixture
def no_collector():
    """Switch the garbage collector off, so that reference cycles stay alive."""
    freeze()  # so that tests that count objects see few
    gc.disable()
    yield
    gc.enable()


# Of the tests of kernels. A conftest.py beside them would put the stand-in for CuPy on the path.


@pytest.fixture(params=["float32", "float64", "float16", "bfloat16"])
def dtype(request):
    """Every dtype that kernels are compiled for."""
    from definitions import dtype_of

    return dtype_of(request.param)


@pytest.fixture
def launches(monkeypatch):
    """A list of the names of the raw kernels that are launched."""
    from cupy._raw import Kernel

    names, launch = [], Kernel.launch

    def noted(kernel, *args):
        names.append(kernel.name)
        launch(kernel, *args)

    monkeypatch.setattr(Kernel, "launch", noted)
    return names


@pytest.fixture
def waits(monkeypatch):
    """A list of the addresses of CUDA streams that waited, each with that for which it did."""
    from cupy.cuda import Stream

    found, wait = [], Stream.wait_event

    def wait_event(self, event):
        found.append((self.ptr, event._stream.ptr))
        wait(self, event)

    monkeypatch.setattr(Stream, "wait_event", wait_event)
    return found
