"""What the tests on a GPU need, or they are skipped; and how much of that the stand-in has.

The tests run on the stand-in for CuPy too, which shows that they are programs that run; what
only a GPU can show is marked `only_real`.
"""

import sys
from contextlib import contextmanager
from functools import cache

import pytest

import gpugrad as gg

if not gg.cuda.is_available():
    pytest.skip(str(gg.cuda.why_not()), allow_module_level=True)

PRETENDED = hasattr(sys.modules["cupy"], "_reads")

# For ``pytestmark``: a GPU that reads another's memory is an error, of which CuPy only warns.
on_gpu = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("error:The device where the array resides"),
]
only_real = pytest.mark.skipif(PRETENDED, reason="the stand-in for CuPy has no clock or speed")
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
    """Give the current stream a kernel that takes so long; nothing on the stand-in."""
    if not PRETENDED:
        _spin()((1,), (1,), (int(seconds * 1e9),))


@contextmanager
def host_must_not_wait(number=0):
    """An error if what is done here waits for the device, which is busy all the while.

    It is to be done once before: what is compiled and loaded then is not waited for again.
    """
    import cupy

    if PRETENDED:
        reads = sys.modules["cupy._reads"].reads
        reads.clear()
        yield
        assert reads == []
        return
    with cupy.cuda.Device(number):
        keep_busy(0)  # compiles it
        stream = cupy.cuda.get_current_stream()
        stream.synchronize()
        keep_busy(0.5)
        spun = stream.record()
    yield
    assert not spun.done, "the host waited for the device, or took longer than half a second"
    stream.synchronize()
