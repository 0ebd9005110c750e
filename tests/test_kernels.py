"""NVRTC compiles every CUDA kernel; no GPU is needed. `cupy_stand_in` runs them on a CPU."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(importlib.util.find_spec("gpugrad").origin).parent
TOPICS = sorted(path.stem for path in ROOT.rglob("*.cu"))
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def test_kernels_are_found():
    assert {"neural", "optimizers"} <= {*TOPICS}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("file", TOPICS)
def test_nvrtc_compiles(file, dtype, arch):
    """The source of each topic, of which some have a file in common."""
    pytest.importorskip("cupy")
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        pytest.skip(f"no NVRTC: {error}")
    import gpugrad.kernels.cuda  # noqa: F401  registers the sources with the loader
    from gpugrad.backends.cupy.kernels import loader

    assert list(loader.TYPES) == DTYPES
    # All topics of a file as one program, which compiles faster than one for each.
    names = [name for name in loader.topics() if loader.file(name).stem == file]
    program = nvrtc.createProgram(loader.source(*names), f"{file}.cu", (), ())
    # In the same way as CuPy.
    options = *loader.options(dtype), "-ftz=true", "--device-as-default-execution-space"
    try:
        nvrtc.compileProgram(program, (*options, f"--gpu-architecture={arch}"))
    except nvrtc.NVRTCError as error:
        pytest.fail(f"{error}:\n{nvrtc.getProgramLog(program)}", pytrace=False)
    assert nvrtc.getProgramLog(program).strip() == ""
