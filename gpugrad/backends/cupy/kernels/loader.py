"""Compiles CUDA kernels from source files, as one module for each file and dtype."""

from functools import cache
from pathlib import Path

import cupy

from ...dtypes import float32, float64

# For each dtype the types in which a kernel stores and computes.
TYPES = {
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "float16": ("half", "float"),
    "bfloat16": ("bf16", "float"),
}


_sources: dict[str, Path] = {}  # topic -> file


def add_sources(folder):
    """Make the files ``<topic>.cu`` in ``folder`` known."""
    for file in folder.glob("*.cu"):
        _sources[file.stem] = file


add_sources(Path(__file__).parent)


@cache
def covers(dtype):
    """Whether there are kernels for arrays of ``dtype``."""
    return dtype.name in TYPES


def accumulator(dtype):
    """The dtype in which kernels for arrays of ``dtype`` compute."""
    return float64 if dtype == float64 else float32


@cache
def kernel(topic, name, dtype):
    """The kernel ``name`` of ``<topic>.cu`` for arrays of ``dtype``, compiled when first called.

    Call it with a grid, a block and its arguments: ``kernel((blocks,), (threads,), args)``. The
    kernel receives a Python int as a ``long long`` and a float as a ``double``.
    """
    return _module(topic, dtype.name).get_function(name)


def launch_elementwise(topic, name, arrays, *options):
    """Run a kernel that goes over all elements in steps of 16 bytes; return its last array."""
    out = arrays[-1]
    n, dtype = out.size, out.dtype
    if n:
        # More blocks than 2048 would not be faster; then each thread has several steps.
        blocks = min(-(-n * dtype.itemsize // (16 * 256)), 2048)
        kernel(topic, name, dtype)((blocks,), (256,), (*arrays, n, *options))
    return out


@cache
def _module(topic, dtype):
    return cupy.RawModule(code=source(topic), options=options(dtype))


def options(dtype):
    stored, computed = TYPES[dtype]
    return "-std=c++17", f"-DSTORED={stored}", f"-DCOMPUTED={computed}"


def source(topic):
    """The text of ``<topic>.cu`` after that of ``common.cuh``."""
    files = Path(__file__).with_name("common.cuh"), _sources[topic]
    return "\n".join(file.read_text("utf-8") for file in files)
