"""Helpers for the tests on a GPU, which are skipped without one.

The tests run on the stand-in for CuPy too, to check the test code itself. Tests of what only a
GPU can show are marked `only_real`.
"""

import sys
from contextlib import contextmanager
from functools import cache

import pytest

import gpugrad as gg

if not gg.cuda.is_available():
    pytest.skip(str(gg.cuda.why_not()), allow_module_level=True)

IS_STAND_IN = hasattr(sys.modules["cupy"], "_reads")

# For ``pytestmark``. A GPU that reads another's memory is an error here; CuPy only warns.
on_gpu = [pytest.mark.gpu, pytest.mark.filterwarnings("error:The device where the array resides")]
only_real = pytest.mark.skipif(IS_STAND_IN, reason="the stand-in for CuPy has no clock or speed")
on_several = pytest.mark.skipif(gg.cuda.device_count() < 2, reason="needs two CUDA devices")

_SPIN = r"""
extern "C" __global__ void spin(long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < nanoseconds);
}
"""


@cache
def _spin():
    import cupy

    return cupy.RawKernel(_SPIN, "spin")


def keep_busy(seconds):
    """Launch a kernel that takes that long on the current stream; do nothing on the stand-in."""
    if not IS_STAND_IN:
        _spin()((1,), (1,), (int(seconds * 1e9),))


@contextmanager
def host_must_not_wait(number=0):
    """Fail if the body waits for the device, which is kept busy meanwhile.

    Run the body once before, so that compiling and loading kernels does not count as waiting.
    """
    import cupy

    if IS_STAND_IN:
        reads = sys.modules["cupy._reads"].reads
        reads.clear()
        yield
        assert reads == []
        return
    with cupy.cuda.Device(number):
        keep_busy(0)  # compiles the kernel
        stream = cupy.cuda.get_current_stream()
        stream.synchronize()
        keep_busy(0.5)
        spun = stream.record()
    yield
    assert not spun.done, "the host waited for the device, or took longer than half a second"
    stream.synchronize()
