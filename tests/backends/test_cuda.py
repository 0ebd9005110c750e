"""`gpugrad.cuda` without CuPy or without a GPU; `tests/gpu` tests it on one."""

import re
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import gpugrad as gg
from gpugrad import cuda


@pytest.mark.skipif(cuda.is_available(), reason="there is a GPU")
class TestWithoutGPU:
    def test_queries_that_work(self):
        assert (cuda.is_available(), cuda.device_count(), cuda.empty_cache()) == (False, 0, None)

    @pytest.mark.parametrize("call", [
        cuda.device_name, cuda.memory_stats, cuda.synchronize, cuda.allow_tf32, cuda.tf32_allowed,
        cuda.Stream, cuda.current_stream, lambda: cuda.memory_stats("cuda:1"),
        lambda: cuda.synchronize(0),
    ])  # fmt: skip
    def test_other_calls_raise_the_reason(self, call):
        with pytest.raises(RuntimeError, match=re.escape(cuda.why_not())):
            call()

    def test_host_memory_has_no_cuda_interface(self):
        assert not hasattr(gg.ones(2), "__cuda_array_interface__")

    def test_array_of_another_library_on_a_device(self):
        interface = {"data": (0, False), "shape": (0,), "typestr": "<f4", "version": 3}
        with pytest.raises(RuntimeError, match=rf"asarray: {re.escape(cuda.why_not())}"):
            gg.asarray(SimpleNamespace(__cuda_array_interface__=interface))


NO_HEADERS = "Failed to find CUDA headers. Please install CUDA toolkit headers"


@pytest.mark.parametrize("reason, answers", [
    (r"CuPy is installed but finds no CUDA device: cuda\w+.*; no NVIDIA driver is loaded",
     {"getDeviceCount": "driver_error", "driverGetVersion": 0}),
    (r".*; the NVIDIA driver is for CUDA 12\.4, this CuPy for 13\.2: update .* cupy-cuda12x",
     {"getDeviceCount": "driver_error", "driverGetVersion": 12040, "runtimeGetVersion": 13020}),
    ("device cuda:0 does not exist: CUDA finds none", {"getDeviceCount": 0}),
    (f"CuPy finds a CUDA device but cannot use it: {NO_HEADERS}.*",
     {"getDeviceCount": 2, "arange": RuntimeError(NO_HEADERS)}),
])  # fmt: skip
def test_reasons(reason, answers, monkeypatch):
    """The message of `why_not` for everything that can be missing although CuPy is installed."""
    cupy = pytest.importorskip("cupy")
    from gpugrad.backends.cupy.backend import _compute

    error = cupy.cuda.runtime.CUDARuntimeError
    number = 35 if error.__init__ is not RuntimeError.__init__ else "cudaError 35"
    for name, answer in answers.items():
        # CUDA's error if the driver is missing or too old.
        answer = error(number) if answer == "driver_error" else answer
        kind = "side_effect" if isinstance(answer, Exception) else "return_value"
        owner = cupy if name == "arange" else cupy.cuda.runtime
        monkeypatch.setattr(owner, name, Mock(**{kind: answer}))
    _compute.cache_clear()
    assert re.fullmatch(reason, cuda.why_not())
    _compute.cache_clear()
