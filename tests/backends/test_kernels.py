"""NVRTC compiles every CUDA kernel; no GPU is needed. `cupy_stand_in` runs them on a CPU."""

import importlib.util
import re
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(importlib.util.find_spec("gpugrad").origin).parent
TOPICS = sorted(path.stem for path in ROOT.rglob("*.cu"))
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def test_kernels_are_found():
    assert {"neural", "optimizers"} <= {*TOPICS}


ARCHITECTURES = ["sm_80", "sm_90", pytest.param("sm_100", marks=pytest.mark.slow)]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("file", TOPICS)
def test_nvrtc_compiles(file, dtype, arch):
    """The source of each topic, of which some have a file in common."""
    # All topics of a file as one program, which compiles faster than one for each.
    names = [name for name in loader().topics() if loader().file(name).stem == file]
    compile_for(arch, dtype, ["attention 64"] if file == "attention" else names)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("features", ["32", "128", "256", "64s", "128s"])
def test_nvrtc_compiles_attention(features, dtype, arch):
    """The sizes that the kernels are launched in; factors stay in 16 bits where they are."""
    known = {"float64": ["32", "64s"], "float32": ["32", "128", "128s"]}
    if features in known.get(dtype, ["32", "128", "256", "128s"]):
        code = compile_for(arch, dtype, [f"attention {features}"])
        wide, factor = {
            "float64": ("f64", "f64"), "float32": ("f32", "tf32"),
            "float16": ("f32", "f16"), "bfloat16": ("f32", "bf16"),
        }[dtype]  # fmt: skip
        kinds = re.findall(r"mma\.sync\S*row\.col\.(\S+);?", code.decode())
        assert {x.rstrip(";") for x in kinds} == {f"{wide}.{factor}.{factor}.{wide}"}


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nvrtc_compiles_float32_parameters(dtype, arch):
    """Of 16-bit elements, in batch normalization."""
    compile_for(arch, dtype, ["normalization"], "float32")


def loader():
    pytest.importorskip("cupy")
    import gpugrad.kernels.cuda  # noqa: F401  registers the sources with the loader
    from gpugrad.backends.cupy.kernels import loader

    assert list(loader.TYPES) == DTYPES
    return loader


def compile_for(arch, dtype, names, other=None):
    """The PTX, compiled as CuPy does, without warnings, also of registers that are spilled."""
    sources = loader()
    options = sources.options(dtype, other)
    return compile_source(arch, sources.source(*names), options, dtype != "float64")


def compile_source(arch, text, options, warns_of_spills):
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        pytest.skip(f"no NVRTC: {error}")
    program = nvrtc.createProgram(text, "kernels.cu", (), ())
    options = *options, "-ftz=true", "--device-as-default-execution-space"
    if warns_of_spills:  # float64 needs twice as many registers
        options = *options, "--ptxas-options=--warn-on-spills"
    try:
        nvrtc.compileProgram(program, (*options, f"--gpu-architecture={arch}"))
    except nvrtc.NVRTCError as error:
        pytest.fail(f"{error}:\n{nvrtc.getProgramLog(program)}", pytrace=False)
    assert nvrtc.getProgramLog(program).strip("\0 \n") == ""
    return nvrtc.getPTX(program)


GENERATED = [
    *DTYPES,
    "bool",
    *[f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)],
]


@pytest.mark.parametrize("layout", ["flat", "strided"])
@pytest.mark.parametrize("dtype", GENERATED)
def test_nvrtc_compiles_generated_kernels(dtype, layout):
    """A kernel of all expressions of a dtype."""
    loader()
    from gpugrad.backends import declarations
    from gpugrad.backends.cupy.kernels import fused

    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype, dtype))
    kind = "f" if dtype.char in "eE" else dtype.kind
    tables = declarations._ANY, *declarations.EXPRESSIONS.values(), declarations._CUDA
    texts = {
        (declarations.expression_of(ufunc, kind, is_logical, on_cuda=True), is_logical)
        for table in tables for ufunc in table for is_logical in (False, True)
    }  # fmt: skip
    texts = sorted({x for x in texts if x[0] is not None}) + [("{0}", True)]
    assert len(texts) > 10
    steps = [(text, dtype, np.dtype(bool) if b else dtype, [0, 1]) for text, b in texts]
    condition = next(k for k, (text, _) in enumerate(texts) if text == "{0} == {1}")
    steps.append((declarations.SELECT, dtype, dtype, [2 + condition, 0, (1,)]))
    results = [*range(len(steps))]
    found = fused.Fused("all", (6, 8), [dtype] * 2, steps, results, [None] * len(steps))

    def like(dtype, strides):
        at = [n * dtype.itemsize for n in strides]
        place = types.SimpleNamespace(ptr=0)
        return types.SimpleNamespace(
            shape=(6, 8), ndim=2, strides=at, itemsize=dtype.itemsize, data=place
        )

    second = (1, 6) if layout == "strided" else (8, 1)
    arrays = like(dtype, (8, 1)), like(dtype, second), *[like(s[2], (8, 1)) for s in steps]
    text, _ = found.source(arrays)
    compile_source("sm_90", *found.whole(text), False)
