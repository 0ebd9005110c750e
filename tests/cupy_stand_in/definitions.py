"""What kernels compute on the stand-in for CuPy, beside the definitions in float64 on NumPy."""

from contextlib import contextmanager

import cupy
import numpy as np
import pytest
from cupy._reads import reads
from cupy._traffic import traffic

import gpugrad as gg
import gpugrad.kernels.cuda
from gpugrad.backends.cupy import xp
from gpugrad.backends.numpy import backend as numpy
from gpugrad.tape import graphs

NEAR = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}

# Arrays on the device in memory of other layouts.
LAYOUTS = {
    "transposed": lambda x: x.T.copy().T,
    "strided": lambda x: cupy.repeat(x, 2, -1)[..., ::2] if x.ndim else x,
    "misaligned": lambda x: cupy.concatenate([x.ravel()[:1], x.ravel()])[1:].reshape(x.shape),
    "reversed": lambda x: x[::-1].copy()[::-1] if x.ndim else x,
    "broadcast": lambda x: cupy.broadcast_to(x[:1], x.shape) if x.ndim else x,
}


def dtype_of(name):
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else name)


def numbers(*shape, dtype="float64", seed=0):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def each(function, x):
    """A function of each array in nested tuples and lists."""
    if isinstance(x, (tuple, list)):
        return type(x)([each(function, y) for y in x])
    return function(x) if isinstance(x, np.ndarray) else x


def on_device(x):
    return each(cupy.asarray, x)


def in_float64(x):
    return each(lambda a: a.astype("float64") if a.dtype.kind in "fV" else a, x)


@contextmanager
def no_reads():
    """The host does not wait for the device meanwhile."""
    reads.clear()
    yield
    assert reads == []


def by_twin(op, part, *inputs, **static):
    """What the twin for "forward", "joint" or an input makes of NumPy's arrays, without a wait."""
    given, static = on_device(inputs), {k: on_device(x) for k, x in static.items()}
    with no_reads():
        got = op.twins["cupy"][part](xp, *given, **static)
    assert got is not NotImplemented
    return got


def by_definition(op, part, *inputs, **static):
    function = {"forward": op.forward, "joint": op.joint, **op.rules}[part]
    with np.errstate(all="ignore"):
        return function(numpy.xp, *in_float64(inputs), **static)


def only(wanted, cotangents):
    return [c if w else None for c, w in zip(cotangents, wanted, strict=True)]


def agree(got, expected, dtype, along=None, near=NEAR):
    """Values agree up to rounding, relative to the largest of all, or of those along an axis."""
    if isinstance(expected, (tuple, list)):
        for a, b in zip(got, expected, strict=True):
            agree(a, b, dtype, along, near)
        return
    assert (got is None) == (expected is None)
    if got is None:
        return
    expected = np.asarray(expected)
    assert (got.dtype, got.shape) == (dtype, expected.shape)
    got, expected = got.get().astype("float64"), expected.astype("float64")
    finite = np.isfinite(expected)
    assert np.array_equal(got[~finite], expected[~finite], equal_nan=True)
    errors = np.abs(np.subtract(got, expected, where=finite, out=np.zeros_like(got)))
    least = 1 if along is None else 0
    scale = np.max(np.abs(expected), axis=along, keepdims=True, where=finite, initial=least)
    assert (errors <= near.get(np.dtype(dtype).name, 0) * scale).all()


def both(op, part, *inputs, along=None, **static):
    """The twin's results, which agree with those of the definition."""
    dtype, got = inputs[0].dtype, by_twin(op, part, *inputs, **static)
    agree(got, by_definition(op, part, *inputs, **static), dtype, along)
    return got


def declines(op, part, *inputs, **static):
    """Whether the twin leaves this to the definition; ``inputs`` are on the device."""
    return op.twins["cupy"][part](xp, *inputs, **static) is NotImplemented


def launched(function, *args, **options):
    """The result, and the names of the kernels that were launched."""
    with traffic() as launches:
        out = function(*args, **options)
    return out, [launch.name for launch in launches]


@contextmanager
def graphs_noted():
    """A list, to which the names of what a CUDA graph launches are added when it is captured."""
    work, seen = graphs._Captured._work, []

    def noted(self, *args):
        result, names = launched(work, self, *args)
        seen.append([name for name in names if name != "copy_arrays"])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs._Captured, "_work", noted)
        yield seen


def launched_by_graph(function, *tensors):
    """A compiled function, what it returns, and the names of what its CUDA graph launches."""
    compiled = gg.compile(function)
    with graphs_noted() as seen:
        for _ in range(4):
            results = compiled(*tensors)
    assert compiled.program(*tensors).call_by_call is None
    return compiled, results, seen[-1]
