"""Twins of the ops in gpugrad/ops/normalization.py.

Arrays that are not contiguous are copied. All arrays of a call must have the same dtype, but batch
normalization also takes float32 parameters and statistics of 16-bit elements.
"""

from functools import cache
from math import prod

import cupy

from ...backends.cupy.kernels.loader import accumulator, contiguous, covers, kernel
from ...backends.dtypes import float64
from ...ops import normalization as ops

_ITEMS = 16  # elements of a row per thread, as in normalization.cu
_ROWS = 8  # rows that a block processes at once if each takes one warp
_STRIP = 32  # rows of threads in a block that processes columns
_BLOCKS = 528  # keep every multiprocessor busy: an H200 has 132, for 4 blocks each
_WHOLE, _MOMENTS, _REST, _GIVEN = range(4)


def _supports(x, weight, bias, shape):
    """Whether the kernels support the inputs; the definition handles or rejects all others."""
    dtype = x.dtype
    return covers(dtype) and all(
        p is None or (p.dtype == dtype and p.shape == shape) for p in (weight, bias)
    )


def _results(x, shape, dtype, wanted):
    """Arrays for the cotangents of ``x``, of the weight and of the bias, as far as wanted.

    shape, dtype: those of the weight and of the bias.
    """
    whole = cupy.empty(x.shape, x.dtype) if wanted[0] else None
    return whole, *[cupy.empty(shape, dtype) if w else None for w in wanted[1:]]


# Layers


@cache
def _threads(columns):
    """The shape of a block for rows of ``columns`` elements."""
    if columns <= 32 * _ITEMS:
        return 32, _ROWS
    return -(-columns // (32 * _ITEMS)) * 32, 1


def _rows(x, ndim):
    """The numbers of rows and columns; None if the kernels do not support them."""
    is_row = x.size and 1 <= ndim <= x.ndim
    return _extent(x, prod(x.shape[x.ndim - ndim :])) if is_row else None


def _extent(x, columns):
    # In a larger block each thread would have too few registers.
    most_threads = 256 if x.dtype == float64 else 512
    return None if columns > most_threads * _ITEMS else (x.size // columns, columns)


def _normalize(xp, x, weight, bias, shape, extent, eps, centered=1, groups=1, inner=1):
    if extent is None or not _supports(x, weight, bias, shape):
        return NotImplemented
    rows, columns = extent
    out = cupy.empty(x.shape, x.dtype)
    threads = _threads(columns)
    blocks = min(-(-rows // threads[1]), 4 * _BLOCKS)
    args = *map(contiguous, (x, weight, bias)), out, rows, columns, float(ops._rms_eps(xp, x, eps))
    args = *args, centered, groups, inner
    kernel("normalization", "layer_norm", x.dtype)((blocks,), threads, args)
    return out


def _layer_norm(xp, x, weight=None, bias=None, /, *, ndim=1, eps=1e-5, centered=1):
    return _normalize(xp, x, weight, bias, x.shape[x.ndim - ndim :], _rows(x, ndim), eps, centered)


def _layer_norm_vjp(xp, g, x, weight, wanted, ndim, eps, *, centered=1):
    shape = x.shape[x.ndim - ndim :]
    return _cotangents(xp, g, x, weight, wanted, shape, _rows(x, ndim), eps, centered)


def _cotangents(xp, g, x, weight, wanted, shape, extent, eps, centered=1, groups=None):
    """The cotangents of ``x``, of the weight and of the bias, as far as wanted.

    shape: of the weight and the bias. groups: how many there are in an example, whose channels have
        a weight each; None if each column has a weight.
    """
    if extent is None or g.dtype != x.dtype or not _supports(x, weight, None, shape):
        return NotImplemented
    (rows, columns), dtype = extent, x.dtype
    threads = _threads(columns)
    blocks = min(-(-rows // threads[1]), _BLOCKS)
    results = _results(x, shape, dtype, wanted)
    g, x, weight = map(contiguous, (g, x, weight))
    parts = statistics = None
    if any(wanted[1:]) and groups is None:
        parts = cupy.empty((blocks, 2, columns), accumulator(dtype))
    elif any(wanted[1:]):
        statistics = cupy.empty((rows, 2), accumulator(dtype))
    inner = 1 if groups is None else prod(x.shape[2:])
    args = g, x, weight, results[0], parts, statistics, rows, columns
    args = *args, float(ops._rms_eps(xp, x, eps)), centered, groups or 1, inner
    kernel("normalization", "layer_norm_backward", dtype)((blocks,), threads, args)
    if parts is not None:
        args = parts, *results[1:], blocks, columns
        strips = -(-2 * columns // 32)
        kernel("normalization", "layer_norm_sums", dtype)((strips,), (32, _STRIP), args)
    elif statistics is not None:
        args = g, x, statistics, *results[1:], *x.shape[:2], groups, inner
        kernel("normalization", "group_norm_sums", dtype)((x.shape[1],), (32, _ROWS), args)
    return results


def _rms_norm(xp, x, weight=None, /, *, ndim=1, eps=None):
    return _layer_norm(xp, x, weight, ndim=ndim, eps=eps, centered=0)


def _rms_norm_vjp(xp, g, x, weight, wanted, ndim, eps):
    found = _layer_norm_vjp(xp, g, x, weight, (*wanted, False), ndim, eps, centered=0)
    return found if found is NotImplemented else found[:2]


def _group_rows(x, groups):
    """The numbers of rows and columns, each row a group; None if the kernels cannot do them."""
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups or not x.size:
        return None
    return _extent(x, x.size // (x.shape[0] * groups))


def _group_norm(xp, x, weight=None, bias=None, /, *, groups, eps=1e-5):
    extent, inner = _group_rows(x, groups), prod(x.shape[2:])
    return _normalize(xp, x, weight, bias, x.shape[1:2], extent, eps, 1, groups, inner)


def _group_norm_vjp(xp, g, x, weight, wanted, groups, eps):
    extent = _group_rows(x, groups)
    return _cotangents(xp, g, x, weight, wanted, x.shape[1:2], extent, eps, groups=groups)


# Batches


def _over_channels(name, arrays, x, other, eps, stage=None):
    """Run a kernel that processes channels; in two launches if there are few with many elements,
    unless only the one of ``stage`` is asked for."""
    arrays = [*map(contiguous, arrays)]
    channels = x.shape[1]
    inner = prod(x.shape[2:])
    rows = x.size // channels
    strips, fewest = (-(-channels // 32), 512) if inner == 1 else (channels, 4096)
    chunks = max(min(_BLOCKS // 2 // strips, -(-rows // fewest)), 1)
    stages, parts = (_WHOLE if stage is None else stage,), None
    if chunks > 1 and stage is None:
        stages, parts = (_MOMENTS, _REST), cupy.empty((chunks, channels, 5), accumulator(x.dtype))
    for stage in stages:
        args = *arrays, parts, rows, channels, inner, float(eps), stage
        kernel("normalization", name, x.dtype, other)((strips, chunks), (32, _STRIP), args)


def _other_dtype(x, given, parameters):
    """The dtype of all arrays but ``x`` and its cotangent, which is wider than theirs if float32
    parameters normalize 16 bits; None if the kernels do not support the inputs."""
    if x.ndim < 2 or not x.size or x.size // x.shape[1] >= 2**31:  # an element's number has 32 bits
        return None
    if not covers(x.dtype) or any(p is not None and p.shape != x.shape[1:2] for p in parameters):
        return None
    dtypes = {p.dtype for p in (*given, *parameters) if p is not None} or {x.dtype}
    return dtypes.pop() if len(dtypes) == 1 and dtypes <= {x.dtype, accumulator(x.dtype)} else None


def _batch_norm(xp, x, weight=None, bias=None, /, *, eps=1e-5):
    if (other := _other_dtype(x, (), (weight, bias))) is None:
        return NotImplemented
    results = [cupy.empty(shape, other) for shape in (x.shape, *[x.shape[1:2]] * 2)]
    _over_channels("batch_norm", (x, weight, bias, *results), x, other, eps)
    return tuple(results)


def _batch_norm_vjp(xp, g, x, weight, wanted, eps):
    if (other := _other_dtype(x, g, (weight,))) is None:
        return NotImplemented
    results = _results(x, x.shape[1:2], other, wanted)
    _over_channels("batch_norm_backward", (g[0], x, weight, *g[1:], *results), x, other, eps)
    return results


def _by_given(xp, x, mean, var, weight=None, bias=None, /, *, eps):
    if (other := _other_dtype(x, (), (mean, var, weight, bias))) is None:
        return NotImplemented
    out = cupy.empty(x.shape, other)
    _over_channels("batch_norm", (x, weight, bias, out, mean, var), x, other, eps, _GIVEN)
    return out


def _by_given_vjp(xp, g, x, mean, var, weight, wanted, eps):
    other = _other_dtype(x, (g,), (mean, var, weight))
    if other is None or wanted[1] or wanted[2]:
        return NotImplemented
    to_x, *of_channels = _results(x, x.shape[1:2], other, (wanted[0], *wanted[3:]))
    arrays = g, x, mean, var, weight, to_x, *of_channels
    stage = None if wanted[3] or wanted[4] else _WHOLE
    _over_channels("batch_norm_given_backward", arrays, x, other, eps, stage)
    return to_x, None, None, *of_channels


ops.layer_norm.twin("cupy", _layer_norm, joint=_layer_norm_vjp)
ops.rms_norm.twin("cupy", _rms_norm, joint=_rms_norm_vjp)
ops.group_norm.twin("cupy", _group_norm, joint=_group_norm_vjp)
ops.batch_norm.twin("cupy", _batch_norm, joint=_batch_norm_vjp)
ops._by_statistics.twin("cupy", _by_given, joint=_by_given_vjp)
