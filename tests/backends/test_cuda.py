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
        assert cuda.is_available() is False
        assert cuda.device_count() == 0
        assert isinstance(cuda.why_not(), str)
        assert cuda.empty_cache() is None

    @pytest.mark.parametrize(
        "call",
        [
            cuda.device_name,
            cuda.memory_stats,
            cuda.synchronize,
            cuda.allow_tf32,
            cuda.tf32_allowed,
            cuda.Stream,
            cuda.current_stream,
            lambda: cuda.memory_stats("cuda:1"),
            lambda: cuda.synchronize(0),
        ],
    )
    def test_other_calls_raise_the_reason(self, call):
        with pytest.raises(RuntimeError, match=re.escape(cuda.why_not())):
            call()

    def test_host_memory_has_no_cuda_interface(self):
        assert not hasattr(gg.ones(2), "__cuda_array_interface__")

    def test_array_of_another_library_on_a_device(self):
        interface = {"data": (0, False), "shape": (0,), "typestr": "<f4", "version": 3}
        foreign = SimpleNamespace(__cuda_array_interface__=interface)
        with pytest.raises(RuntimeError, match=rf"asarray: {re.escape(cuda.why_not())}"):
            gg.asarray(foreign)


def _mock_argument(answer):
    return "side_effect" if isinstance(answer, Exception) else "return_value"


class TestReasons:
    """The message of `why_not` for everything that can be missing although CuPy is installed."""

    @pytest.fixture
    def cupy(self):
        return pytest.importorskip("cupy")

    @pytest.fixture
    def runtime(self, cupy, monkeypatch):
        """A function that makes CUDA report two GPUs, and any further answers it is given."""
        from gpugrad.backends.cupy.backend import _compute

        _compute.cache_clear()

        def tell(**answers):
            for name, answer in {"getDeviceCount": 2, **answers}.items():
                monkeypatch.setattr(
                    cupy.cuda.runtime, name, Mock(**{_mock_argument(answer): answer})
                )

        yield tell
        _compute.cache_clear()

    @pytest.fixture
    def driver_error(self, cupy):
        """CUDA's error if the driver is missing or too old."""
        error = cupy.cuda.runtime.CUDARuntimeError
        return error(35) if error.__init__ is not RuntimeError.__init__ else error("cudaError 35")

    def test_no_driver(self, runtime, driver_error):
        runtime(getDeviceCount=driver_error, driverGetVersion=0)
        assert re.fullmatch(
            r"CuPy is installed but finds no CUDA device: cuda\w+.*; no NVIDIA driver is loaded",
            cuda.why_not(),
        )

    def test_old_driver(self, runtime, driver_error):
        runtime(getDeviceCount=driver_error, driverGetVersion=12040, runtimeGetVersion=13020)
        assert cuda.why_not().endswith(
            "; the NVIDIA driver is for CUDA 12.4, this CuPy for 13.2: "
            "update the driver, or install cupy-cuda12x"
        )

    def test_no_gpu(self, runtime):
        runtime(getDeviceCount=0)
        assert cuda.why_not() == "device cuda:0 does not exist: CUDA finds none"

    def test_no_cuda_headers(self, runtime, cupy, monkeypatch):
        def no_headers(*_):
            raise RuntimeError("Failed to find CUDA headers. Please install CUDA toolkit headers")

        runtime()
        monkeypatch.setattr(cupy, "arange", no_headers)
        assert cuda.why_not().startswith(
            "CuPy finds a CUDA device but cannot use it: Failed to find CUDA headers."
        )
