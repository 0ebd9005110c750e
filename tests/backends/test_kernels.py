"""NVRTC compiles every CUDA kernel; no GPU is needed. `cupy_stand_in` runs them on a CPU."""

import ast
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest
from native import run
from stand_in import ROOT, STAND_IN

TOPICS = sorted(path.stem for path in (ROOT / "gpugrad").rglob("*.cu"))
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def test_kernels_are_found():
    assert {"neural", "optimizers"} <= {*TOPICS}


slow = pytest.mark.slow
ARCHITECTURES = ["sm_80", "sm_90", pytest.param("sm_100", marks=slow)]
FEWER = ["sm_90", *[pytest.param(x, marks=slow) for x in ("sm_80", "sm_100")]]


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("file", TOPICS)
def test_nvrtc_compiles(file, dtype, arch):
    """The source of each topic, of which some have a file in common."""
    # All topics of a file as one program, which compiles faster than one for each.
    names = [name for name, (path, _) in loader()._sources.items() if path.stem == file]
    compile_for(arch, dtype, ["attention 64"] if file == "attention" else names)


@slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_nvrtc_compiles_attention(dtype, arch, monkeypatch, request):
    """In each size that is launched on such a device; factors stay in 16 bits where they are."""
    loader()
    if arch == "sm_75" and "16" in dtype:
        why = "with 128 features, 100 bytes of registers are spilled on Turing"
        request.applymarker(pytest.mark.xfail(reason=why, raises=AssertionError, strict=True))
    from gpugrad.kernels.cuda import attention

    known = {"sharedMemPerBlockOptin": 64 << 10 if arch == "sm_75" else 99 << 10}
    monkeypatch.setattr(attention.cupy.cuda.runtime, "getDeviceProperties", lambda device: known)
    itemsize = {"float64": 8, "float32": 4}.get(dtype, 2)
    rooms = [attention._room.__wrapped__(n, itemsize, 0) for n in (*range(1, 300), 1000)]
    sizes = dict.fromkeys([f"{n}{'s' * (slices > 1)}" for n, slices in rooms])
    assert len(sizes) >= 2
    expected = {
        "float64": {"f64.f64.f64.f64"}, "float32": {"f32.tf32.tf32.f32"},
        "float16": {"f32.f16.f16.f32"}, "bfloat16": {"f32.bf16.bf16.f32"},
    }[dtype]  # fmt: skip
    if arch == "sm_75" and dtype != "float16":  # which have no such units
        expected = set()
    for size in sizes:
        code = compile_for(arch, dtype, [f"attention {size}"])
        kinds = re.findall(r"mma\.sync\S*row\.col\.(\S+);?", code.decode())
        assert {x.rstrip(";") for x in kinds} == expected


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


GENERATED = [*DTYPES, "bool", *[f"{x}int{bits}" for x in ("", "u") for bits in (8, 16, 32, 64)]]


@pytest.mark.parametrize("layout", ["flat", "strided"])
@pytest.mark.parametrize("dtype", GENERATED)
@pytest.mark.parametrize("arch", FEWER)
def test_nvrtc_compiles_generated_kernels(dtype, layout, arch):
    """A kernel of each expression of a dtype."""
    loader()
    from gpugrad.backends import declarations

    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype, dtype))
    kind = "f" if dtype.char in "eE" else dtype.kind
    tables = declarations._ANY, *declarations.EXPRESSIONS.values(), declarations._CUDA
    texts = {
        (declarations.expression_of(ufunc, kind, is_logical, on_cuda=True), is_logical)
        for table in tables for ufunc in table for is_logical in (False, True)
    }  # fmt: skip
    texts = sorted({x for x in texts if x[0] is not None}) + [("{0}", True)]
    assert len(texts) > 10
    steps = [[(text, dtype, np.dtype(bool) if b else dtype, [0, 1])] for text, b in texts]
    condition = [("{0} == {1}", dtype, np.dtype(bool), [0, 1])]
    steps.append([*condition, (declarations.SELECT, dtype, dtype, [2, 0, (1,)])])
    compile_generated(arch, [(2, found, [len(found) - 1]) for found in steps], layout)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("count", [1, 64, 200])
def test_generated_kernels_of_many_arrays(count, dtype, arch):
    """Of as many inputs as there may be, and many results."""
    loader()
    from gpugrad.tape import fusion

    inputs, dtype = fusion._MOST_INPUTS, np.dtype(dtype)
    steps = [
        ("{0} * {1} - {0}", dtype, dtype, [k % inputs, inputs + k - 1 if k else 1])
        for k in range(max(count, inputs))
    ]
    compile_generated(arch, [(inputs, steps, [*range(len(steps))][-count:])], "flat")


def compile_generated(arch, kernels, layout):
    """Compile kernels, each with a number of inputs, steps and results, as one program."""
    from gpugrad.backends.cupy.kernels import fused

    def like(dtype, strides):
        return SimpleNamespace(
            shape=(6, 8), ndim=2, strides=[n * dtype.itemsize for n in strides],
            itemsize=dtype.itemsize, data=SimpleNamespace(ptr=0),
        )  # fmt: skip

    program, second = "", (1, 6) if layout == "strided" else (8, 1)
    for number, (inputs, steps, results) in enumerate(kernels):
        dtype = steps[0][1]
        found = fused.Fused("", (6, 8), [dtype] * inputs, steps, results, [None] * len(results))
        arrays = [like(dtype, second if k == 1 else (8, 1)) for k in range(inputs)]
        text, _ = found.source((*arrays, *[like(steps[k][2], (8, 1)) for k in results]))
        text = text.replace(" fused(", f" fused_{number}(")
        program += f"namespace kernel_{number} {{{text}}}\n"
    given = fused.whole(program, found._dtype.name)
    compile_source(arch, *given, dtype.name in ("float32", "float16", "bfloat16"))


GENERATED_BY_MODELS = """
import cupy
import gpugrad
import model_step
from gpugrad.backends.cupy.kernels import fused
cupy._raw.computes = False
module, found = fused._module, {}

def recorded(text, dtype):
    found[text, dtype] = None
    return module(text, dtype)

fused._module = recorded
for dtype in (None, gpugrad.float16):
    for model in ("CNN", "transformer", "LSTM"):
        made = model_step.Library("gpugrad", "cuda", 8, dtype)
        step = model_step.step_of(made, model)
        step()
        compiled = gpugrad.compile(step)
        for _ in range(4):
            compiled()
assert len(found) >= 8
for key in found:
    print(repr(key))
"""


@slow
def test_generated_kernels_of_models_do_not_spill():
    """Those of the compiled training steps of the benchmarks, as the stand-in for CuPy has them."""
    loader()
    from gpugrad.backends.cupy.kernels import fused

    paths = [str(STAND_IN), str(ROOT), str(ROOT / "benchmarks")]
    variables = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}
    lines = run(GENERATED_BY_MODELS, **variables).splitlines()
    kernels = [ast.literal_eval(line) for line in lines]
    for arch in ("sm_80", "sm_90", "sm_100"):
        for text, dtype in kernels:
            compile_source(arch, *fused.whole(text, dtype), dtype != "float64")
