"""The code that kernels share, and the emulator that runs them on a CPU."""

from pathlib import Path

import cupy
import numpy as np
import pytest
from definitions import dtype_of

from gpugrad.backends.cupy.kernels import loader

COMMON = (Path(loader.__file__).parent / "common.cuh").read_text()


def kernel(name, source, dtype="float32"):
    """Compile a kernel from the shared code and the given source."""
    return cupy.RawModule(code=COMMON + source, options=loader.options(dtype)).get_function(name)


def arrays(n=1000, dtype="float32"):
    x = cupy.asarray(np.random.default_rng(0).standard_normal(n).astype(dtype))
    return x, cupy.empty_like(x)


CONVERT = """
    extern "C" __global__ void widen(const T* x, A* out, long long n)
    {
        for (long long i = thread_number(); i < n; i += thread_count()) out[i] = load(x + i);
    }
    extern "C" __global__ void narrow(const A* x, T* out, long long n)
    {
        for (long long i = thread_number(); i < n; i += thread_count()) store(out + i, x[i]);
    }
"""


def check_conversion(name, dtype, x, expected):
    found = cupy.empty(x.shape, expected.dtype)
    kernel(name, CONVERT, dtype)((16,), (256,), (cupy.asarray(x), found, x.size))
    found, is_number = found.get(), ~np.isnan(x.astype("float32"))
    assert found[is_number].tobytes() == expected[is_number].tobytes()
    assert np.isnan(found[~is_number].astype("float32")).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_float_and_rounding(dtype):
    """Conversions between 16-bit floats and float32 in software."""
    held = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(dtype))
    wide = held.astype("float32")
    check_conversion("widen", dtype, held, wide)
    check_conversion("narrow", dtype, wide, held)
    bits = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint32)
    # Around 16-bit numbers, and half-way between two of them, where ties go to even.
    wide = wide[np.isfinite(wide)].view(np.uint32)
    steps = [wide + np.uint32(k) for k in (0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)]
    x = np.concatenate([bits, *steps]).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        check_conversion("narrow", dtype, x, x.astype(dtype_of(dtype)))


SCALE = """
    extern "C" __global__ void scale(const T* x, T* out, long long n, double factor)
    {
        for (long long i = thread_number(); i < n; i += thread_count())
            store(out + i, load(x + i) * (A)factor);
    }
"""


def run(*args, dtype="float32", grid=(2,), block=(64,)):
    kernel("scale", SCALE, dtype)(grid, block, args)


@pytest.mark.parametrize("place, wrong", [
    (1, np.ones(1000, "float32")), (1, cupy.ones(1000)), (1, cupy.ones(1000, "int32")),
    *((3, x) for x in (None, 1000.0, np.int32(1000), np.ones(1000, "float32"))),
    (2, 1.0), (4, 2), (4, np.float32(2)), (5, 1),
])  # fmt: skip
def test_arguments_that_do_not_fit(place, wrong):
    given = dict(enumerate((*arrays(), 1000, 2.0), 1)) | {place: wrong}
    with pytest.raises(TypeError, match=r"scale( has 4 parameters|: argument \d: )"):
        run(*given.values())


def test_what_else_is_refused():
    given = *arrays(dtype="float16"), 1000, 2.0
    run(*given, dtype="float16")
    with pytest.raises(TypeError, match="array of float16 is given for bf16"):
        run(*given, dtype="bfloat16")
    given = *arrays(), 1000, 2.0
    with cupy.cuda.Device(1), pytest.raises(ValueError, match=r"the current device \(1\)"):
        run(*given)
    for grid, block in [((1,), (257,)), ((1, 70_000), (32,))]:
        with pytest.raises(ValueError, match="not every GPU takes"):
            run(*given, grid=grid, block=block)


# Mistakes in kernels that a GPU may not report
WRONG = {
    "not all threads of a block come to the barrier": "if (i < 40) __syncthreads();",
    "waits for a thread that is not there": "if (i < 40) __syncwarp();",
    "part of a warp waits": "if (i % 32 < 4) __syncwarp(); else __syncthreads();",
    "exchange in different ways": "if (i % 2) __syncwarp();\nelse __syncwarp();",
    "takes no part": "if (i < 2) __shfl_sync(3, x[i], 7);",
    "4000 bytes from the start of one of 4000 bytes": "if (i == 9) out[1000] = x[i];",
    "-4 bytes from the start of": "if (i == 9) out[0] = x[-1];",
    "index out of bounds in line": "__shared__ A s[32]; s[i] = 0;",
    "misaligned access": "*(Pack*)out = *(const Pack*)(x + 1);",
    "division by zero": "out[1 % (i / 64)] = 0;",
}


@pytest.mark.parametrize("message", WRONG)
def test_errors(message):
    wrong = kernel(
        "wrong",
        f"""extern "C" __global__ void wrong(const float* x, float* out)
        {{ int i = threadIdx.x; {WRONG[message]} }}""",
    )
    with pytest.raises(RuntimeError, match=f"wrong: .*{message}"):
        wrong((1,), (64,), arrays())
    run(*arrays(), 1000, 2.0)  # kernels still run
