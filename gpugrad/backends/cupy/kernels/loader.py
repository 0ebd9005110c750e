"""Compiles CUDA kernels from source files, as one module for each file and dtype."""

from functools import cache, partial
from math import prod
from pathlib import Path

import cupy
import numpy as np

from ...dtypes import float32, float64
from ...placing import merged

# For each dtype the types in which a kernel stores and computes.
TYPES = {
    "float32": ("float", "float"), "float64": ("double", "double"),
    "float16": ("half", "float"), "bfloat16": ("bf16", "float"),
}  # fmt: skip

WORDS = 448  # of a table, with which the arguments of a launch fit into their 4 KB
_TABLE = np.dtype([("count", "i8"), ("words", "i8", WORDS)])

_sources: dict[str, tuple[Path, str]] = {}  # topic -> its file, and text that follows it


def add_sources(folder):
    """Register a topic for each file ``<topic>.cu`` in ``folder``."""
    for file in folder.glob("*.cu"):
        add_source(file.stem, file)


def add_source(topic, file, more=""):
    """Register a topic: its source is that of a file and, after it, the text ``more``."""
    _sources[topic] = file, more


add_sources(Path(__file__).parent)


@cache
def covers(dtype):
    """Whether there are kernels for arrays of ``dtype``."""
    return dtype.name in TYPES


def accumulator(dtype):
    """The dtype in which kernels for arrays of ``dtype`` compute."""
    return float64 if dtype == float64 else float32


@cache
def kernel(topic, name, dtype, other=None):
    """The kernel ``name`` of ``<topic>.cu`` for arrays of ``dtype``, compiled when first called.

    other: the dtype of those arrays whose dtype may differ, as the source says.

    Call it with a grid, a block and its arguments: ``kernel((blocks,), (threads,), args)``. The
    kernel receives a Python int as a ``long long`` and a float as a ``double``.
    """
    return _module(topic, dtype.name, (other or dtype).name).get_function(name)


def launch_elementwise(topic, name, arrays, *options):
    """Run a kernel that goes over all elements in steps of 16 bytes; return its last array."""
    out = arrays[-1]
    n, dtype = out.size, out.dtype
    if n:
        kernel(topic, name, dtype)(*elementwise_grid(n, dtype), (*arrays, n, *options))
    return out


def elementwise_grid(n, dtype):
    """The grid and block of a kernel that goes over ``n`` elements in steps of 16 bytes."""
    # More blocks than 2048 would not be faster; then each thread has several steps.
    return (min(-(-n * dtype.itemsize // (16 * 256)), 2048),), (256,)


def contiguous(x):
    """``x`` itself if it is C-contiguous or None, else a copy that is."""
    return x if x is None or x.flags.c_contiguous else copy(x)


MANY = 2**18  # elements, from which on it pays to find out how an array is broadcast


def copy(x):
    """A C-contiguous copy of ``x``.

    CuPy copies elements one by one, and takes 4 to 14 times as long for an array that was
    broadcast, such as the gradient of a sum.
    """
    if x.size >= MANY and 0 in x.strides and covers(x.dtype) and x.size < 2**32:
        rows = _repeated_rows(x)
        if rows is not None:
            arrays = x, cupy.empty(x.shape, x.dtype)
            return launch_elementwise("elementwise", "repeat_rows", arrays, *map(np.uint32, rows))
    return cupy.array(x, order="C")


def _repeated_rows(x):
    """How often, and how long, the rows of a contiguous array are that ``x`` repeats.

    None if ``x`` is not broadcast along one axis, or several neighbours, of a contiguous array.
    """
    axes = [(n, step) for n, step in zip(x.shape, x.strides, strict=True) if n > 1]
    lengths, (steps,) = merged(*zip(*axes, strict=True))
    if steps.count(0) != 1 or steps.index(0) > 1:
        return None
    k = steps.index(0)
    inner = prod(lengths[k + 1 :])
    of_rows = inner * x.itemsize, 0, x.itemsize
    return (lengths[k], inner) if steps == of_rows[1 - k :][: len(steps)] else None


def maker(shape, dtype, strides):
    """A function that makes an array with these strides; None if it would not fill its memory."""
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    step = dtype.itemsize
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != step and 0 not in shape:
            return None
        step *= shape[axis]
    return in_order(shape, dtype, order)


def in_order(shape, dtype, order):
    """A function that makes an array whose axes lie in memory in this order, outermost first."""
    if order == sorted(order):  # no view, which a sweep would copy
        return partial(cupy.ndarray, shape, dtype)
    back = [order.index(axis) for axis in range(len(shape))]
    turned = tuple([shape[axis] for axis in order])
    return lambda: cupy.ndarray(turned, dtype).transpose(back)


def is_one(x):
    """Whether the elements of ``x`` are one element in memory."""
    if x.flags.c_contiguous:
        return x.size == 1
    return all(n == 1 or not step for n, step in zip(x.shape, x.strides, strict=True))


def tables(blocks, *rows):
    """The tables that launches take which process many arrays, ``Table`` in common.cuh.

    blocks: how many blocks of threads each array needs. rows: other numbers of each array.

    Yields for each launch the slice of the arrays that it is for, its table, and its blocks.
    """
    most = WORDS // (1 + len(rows))
    for start in range(0, len(blocks), most):
        some = slice(start, start + most)
        stops = blocks[some].cumsum()
        words = np.concatenate([stops - blocks[some], *[row[some] for row in rows]])
        table = np.zeros(1, _TABLE)
        table["count"] = len(stops)
        table["words"][0, : len(words)] = words
        yield some, table, int(stops[-1])


@cache
def _module(topic, dtype, other):
    return cupy.RawModule(code=source(topic), options=options(dtype, other))


def options(dtype, other=None):
    (stored, computed), (other, _) = TYPES[dtype], TYPES[other or dtype]
    return "-std=c++17", f"-DSTORED={stored}", f"-DCOMPUTED={computed}", f"-DOTHER={other}"


def source(*topics):
    """The text of ``common.cuh`` and, after it, that of topics with the same file."""
    files = Path(__file__).with_name("common.cuh"), _sources[topics[0]][0]
    texts = [path.read_text("utf-8") for path in files]
    return "\n".join(texts + [_sources[topic][1] for topic in topics])
