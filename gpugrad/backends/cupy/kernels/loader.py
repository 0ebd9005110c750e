"""CUDA kernels from sources in this package, compiled as a module for each source and dtype."""

from functools import cache
from pathlib import Path

import cupy

# The types that a kernel stores and computes with.
TYPES = {
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "float16": ("half", "float"),
    "bfloat16": ("bf16", "float"),
}


_sources: dict[str, Path] = {}  # by topic


def add_sources(folder):
    """Make the files ``<topic>.cu`` in this folder known."""
    for file in folder.glob("*.cu"):
        _sources[file.stem] = file


add_sources(Path(__file__).parent)


@cache
def covers(dtype):
    """Whether there are kernels for arrays of ``dtype``."""
    return dtype.name in TYPES


@cache
def kernel(topic, name, dtype):
    """The kernel ``name`` of ``<topic>.cu`` for arrays of ``dtype``, compiled when first called.

    It is called with a grid, a block and its arguments: ``kernel((blocks,), (threads,), args)``.
    A Python int is a ``long long`` there, a float a ``double``.
    """
    return _module(topic, dtype.name).get_function(name)


@cache
def _module(topic, dtype):
    return cupy.RawModule(code=source(topic), options=options(dtype))


def options(dtype):
    stored, computed = TYPES[dtype]
    return "-std=c++17", f"-DSTORED={stored}", f"-DCOMPUTED={computed}"


def source(topic):
    """The text of ``<topic>.cu``, with what all share before it."""
    files = Path(__file__).with_name("common.cuh"), _sources[topic]
    return "\n".join(file.read_text("utf-8") for file in files)
