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


class TestConversions:
    """Conversions between 16-bit floats and float32 in software."""

    SOURCE = """
        extern "C" __global__ void widen(const T* x, A* out, long long n)
        {
            for (long long i = thread_number(); i < n; i += thread_count()) out[i] = load(x + i);
        }
        extern "C" __global__ void narrow(const A* x, T* out, long long n)
        {
            for (long long i = thread_number(); i < n; i += thread_count()) store(out + i, x[i]);
        }
    """

    def check(self, name, dtype, x, expected):
        found = cupy.empty(x.shape, expected.dtype)
        kernel(name, self.SOURCE, dtype)((16,), (256,), (cupy.asarray(x), found, x.size))
        found, is_number = found.get(), ~np.isnan(x.astype("float32"))
        assert found[is_number].tobytes() == expected[is_number].tobytes()
        assert np.isnan(found[~is_number].astype("float32")).all()

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_every_16_bit_float_and_rounding(self, dtype):
        held = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(dtype))
        wide = held.astype("float32")
        self.check("widen", dtype, held, wide)
        self.check("narrow", dtype, wide, held)
        rng = np.random.default_rng(0)
        bits = rng.integers(0, 1 << 32, 100_000, dtype=np.uint64).astype(np.uint32)
        # Around 16-bit numbers, and half-way between two of them, where ties go to even.
        wide = wide[np.isfinite(wide)].view(np.uint32)
        steps = [wide + np.uint32(k) for k in (0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)]
        x = np.concatenate([bits, *steps]).view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            self.check("narrow", dtype, x, x.astype(dtype_of(dtype)))


REDUCE = """
    extern "C" __global__ void __launch_bounds__(1024) reduce(const T* x, T* out, long long n)
    {
        A sum = 0, most = -infinity();
        for (long long i = threadIdx.x; i < n; i += blockDim.x) {
            sum += load(x + i);
            most = maximum(most, load(x + i));
        }
        sum = block_sum(sum);
        most = block_max(most);
        A count = block_sum(threadIdx.x < n ? 1 : 0);
        if (threadIdx.x == blockDim.x - 1) {
            store(out, sum);
            store(out + 1, most);
            store(out + 2, count);
        }
    }
"""


@pytest.mark.parametrize("threads", [32, 96, 256, 1024])
@pytest.mark.parametrize("dtype", loader.TYPES)
def test_reductions_of_a_block(dtype, threads):
    x, out = arrays(500, dtype_of(dtype))
    reduce = kernel("reduce", REDUCE, dtype)
    reduce((1,), (threads,), (x, out, 500))
    values = x.get().astype("float64")
    expected = [values.sum(), values.max(), min(threads, 500)]
    near = {"float64": 1e-12, "float32": 1e-5}.get(dtype, 1e-2)
    assert np.allclose(out.get()[:3].astype("float64"), expected, rtol=near)
    x[77] = float("nan")
    reduce((1,), (threads,), (x, out, 500))
    assert np.isnan(out.get()[:2].astype("float64")).all()


class TestArguments:
    SOURCE = """
        struct Two { long long n; double factor; };
        extern "C" __global__ void scale(const T* x, T* out, long long n, double factor)
        {
            for (long long i = thread_number(); i < n; i += thread_count())
                store(out + i, load(x + i) * (A)factor);
        }
        extern "C" __global__ void scale_by(const T* x, T* out, Two two)
        {
            for (long long i = thread_number(); i < two.n; i += thread_count())
                store(out + i, load(x + i) * (A)two.factor);
        }
        extern "C" __global__ void small(const float* x, int n, float factor, bool flag) {}
        extern "C" __global__ void pack(Pack* x) {}
    """

    def run(self, name, *args, dtype="float32"):
        kernel(name, self.SOURCE, dtype)((2,), (64,), args)

    def test_numbers(self):
        x, out = arrays()
        self.run("scale", x, out, 1000, 2.0)
        assert np.array_equal(out.get(), 2 * x.get())
        two = np.array([(1000, 3.0)], [("n", "i8"), ("factor", "f8")])
        self.run("scale_by", x, out, two)
        assert np.array_equal(out.get(), 3 * x.get())
        self.run("small", None, np.int32(3), np.float32(2), True)
        self.run("pack", x)

    @pytest.mark.parametrize(
        "wrong",
        [
            {3: None},
            {4: 2},
            {3: 1000.0},
            {3: np.int32(1000)},
            {4: np.float32(2)},
            {3: np.ones(1000, "float32")},
            {2: 1.0},
            {1: np.ones(1000, "float32")},
            {1: cupy.ones(1000)},
            {1: cupy.ones(1000, "int32")},
            {5: 1},
        ],
    )
    def test_arguments_that_do_not_fit(self, wrong):
        given = dict(enumerate((*arrays(), 1000, 2.0), 1)) | wrong
        with pytest.raises(TypeError, match=r"scale( has 4 parameters|: argument \d: )"):
            self.run("scale", *given.values())

    def test_what_else_is_refused(self):
        given = *arrays(dtype="float16"), 1000, 2.0
        self.run("scale", *given, dtype="float16")
        with pytest.raises(TypeError, match="array of float16 is given for bf16"):
            self.run("scale", *given, dtype="bfloat16")
        given = *arrays(), 1000, 2.0
        with cupy.cuda.Device(1), pytest.raises(ValueError, match=r"the current device \(1\)"):
            self.run("scale", *given)
        for grid, block in [((1,), (257,)), ((1, 70_000), (32,))]:
            with pytest.raises(ValueError, match="not every GPU takes"):
                kernel("scale", self.SOURCE)(grid, block, given)
        with pytest.raises(ValueError, match="no kernel nothing"):
            kernel("nothing", self.SOURCE)


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
    kernel("scale", TestArguments.SOURCE)((1,), (64,), (*arrays(), 1000, 2.0))  # kernels still run
