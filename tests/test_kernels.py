"""NVRTC compiles every CUDA kernel; no GPU is needed. `cupy_stand_in` runs them on a CPU."""

import importlib.util
import re
from pathlib import Path

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
@pytest.mark.parametrize("features", [32, 128, 256])
def test_nvrtc_compiles_attention(features, dtype, arch):
    """The sizes that the kernels are launched in; factors stay in 16 bits where they are."""
    if features <= {"float64": 64, "float32": 128}.get(dtype, 256):
        code = compile_for(arch, dtype, [f"attention {features}"])
        wide, factor = {
            "float64": ("f64", "f64"), "float32": ("f32", "tf32"),
            "float16": ("f32", "f16"), "bfloat16": ("f32", "bf16"),
        }[dtype]  # fmt: skip
        kinds = re.findall(r"mma\.sync\S*row\.col\.(\S+);?", code.decode())
        assert {x.rstrip(";") for x in kinds} == {f"{wide}.{factor}.{factor}.{wide}"}


def loader():
    pytest.importorskip("cupy")
    import gpugrad.kernels.cuda  # noqa: F401  registers the sources with the loader
    from gpugrad.backends.cupy.kernels import loader

    assert list(loader.TYPES) == DTYPES
    return loader


def compile_for(arch, dtype, names):
    """The PTX, compiled as CuPy does; without warnings, also of registers that are spilled."""
    sources = loader()
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        pytest.skip(f"no NVRTC: {error}")
    program = nvrtc.createProgram(sources.source(*names), f"{names[0]}.cu", (), ())
    options = *sources.options(dtype), "-ftz=true", "--device-as-default-execution-space"
    if dtype != "float64":  # which needs twice as many
        options = *options, "--ptxas-options=--warn-on-spills"
    try:
        nvrtc.compileProgram(program, (*options, f"--gpu-architecture={arch}"))
    except nvrtc.NVRTCError as error:
        pytest.fail(f"{error}:\n{nvrtc.getProgramLog(program)}", pytrace=False)
    assert nvrtc.getProgramLog(program).strip("\0 \n") == ""
    return nvrtc.getPTX(program)
