"""The CUDA kernels, without a GPU: NVRTC compiles each, and a CPU runs them."""

import importlib.util
import shutil
from pathlib import Path

import pytest
from test_cupy_stand_in import STAND_IN, run

KERNELS = Path(importlib.util.find_spec("gpugrad").origin).parent / "backends" / "cupy" / "kernels"
TOPICS = sorted(path.stem for path in KERNELS.glob("*.cu"))
DTYPES = ["float32", "float64", "float16", "bfloat16"]


def test_there_are_some():
    assert "neural" in TOPICS


@pytest.mark.skipif(not shutil.which("g++"), reason="g++, which compiles them, is not found")
@pytest.mark.parametrize("file", sorted(p.name for p in STAND_IN.glob("on_kernels*.py")))
def test_on_a_cpu(file):
    done = run(
        *("-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", STAND_IN / file),
        stand_in=True,
    )
    if done.returncode:
        pytest.fail(done.stdout + done.stderr, pytrace=False)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("topic", TOPICS)
def test_nvrtc_compiles(topic, dtype, arch):
    pytest.importorskip("cupy")
    nvrtc = pytest.importorskip("cupy_backends.cuda.libs.nvrtc")
    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        pytest.skip(f"no NVRTC: {error}")
    from gpugrad.backends.cupy.kernels import loader

    assert list(loader.TYPES) == DTYPES
    program = nvrtc.createProgram(loader.source(topic), f"{topic}.cu", (), ())
    # As CuPy does it.
    options = *loader.options(dtype), "-ftz=true", "--device-as-default-execution-space"
    try:
        nvrtc.compileProgram(program, (*options, f"--gpu-architecture={arch}"))
    except nvrtc.NVRTCError as error:
        pytest.fail(f"{error}:\n{nvrtc.getProgramLog(program)}", pytrace=False)
    assert nvrtc.getProgramLog(program).strip() == ""
