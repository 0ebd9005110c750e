"""The twin of the op in gpugrad/ops/attention.py, in one launch forward and few backward.

The kernels multiply small matrices on tensor cores, 16-bit ones as they are, and sum them as the
definition does; float32 factors are split into two parts of 11 bits, so that a product has the
precision of float32. GPUs without tensor cores for a dtype take their usual units. Weights exist
only in registers: in 16 bits where values of 16 bits are multiplied by them, else as wide as the
sums. Backward first computes statistics of each query, and then weights again for the cotangents of
the queries, of the keys, and of the values, all in one launch; that of a mask takes another. Sums
are always added up in the same order.
"""

from functools import cache, lru_cache
from math import prod, sqrt
from pathlib import Path

import cupy
import numpy as np
from cupy.cuda.function import CPointer

from ...backends.cupy.kernels import random
from ...backends.cupy.kernels.loader import accumulator, add_source, contiguous, in_order, kernel
from ...ops.attention import attention, leading_axes
from ...ops.normalization import cast, common_dtypes

_FILE = Path(__file__).with_suffix(".cu")
_AXES = 30  # leading axes longer than 1; a launch has fewer blocks than 31 of them would take
_STEPS = np.dtype([("row", "i8"), ("lead", "i8", _AXES)])
_ARRAYS = "query", "key", "value", "g", "mask", "out", "out_key", "out_value"
_NUMBERS = "axes", "n", "m", "d", "e", "slices", "shared", "is_causal", "mask_kind"
_FIELDS = [(name, "i8") for name in (*_NUMBERS, "mask_column")]
_SIZES = np.dtype([("lead", "i8", _AXES), *_FIELDS, *[(x, _STEPS) for x in _ARRAYS]])
_KINDS = "forward", "backward", "mask"
_AHEAD = 1024  # blocks of statistics before the others; more than any GPU runs at a time
_FEATURES = 16, 32, 64, 128, 256  # that a block has room for
_SLICES = 128, 64, 32, 16  # the same of kernels for more, which take them in slices
_EXCHANGE = 8 << 10  # bytes of shared memory more, at most, on GPUs without tensor cores
_THREADS, _ROWS = 128, 64  # of a block, as in attention.cu


@cache
def _room(features, itemsize, device):
    """The features that a block has room for, and in how many slices it takes them."""
    most = cupy.cuda.runtime.getDeviceProperties(device)["sharedMemPerBlockOptin"] - _EXCHANGE
    for n in _FEATURES:
        if features <= n and n * itemsize <= 512 and _tiles(n, itemsize, True)[1] <= most:
            return n, 1
    fitting = [n for n in _SLICES if _tiles(n, itemsize, True)[1] <= most]
    n = next(n for n in fitting if n * max(itemsize, 4) <= 512)
    return n, -(-features // n)


def _tiles(features, itemsize, has_slopes):
    """The columns of a block's tiles, and their bytes of shared memory."""
    columns = 8 * (2 if features * itemsize > 256 else 4 if has_slopes else 8)
    rows = (1 + has_slopes) * _ROWS + 2 * columns
    return columns, rows * (features + 8) * itemsize


def _define(kind, features, is_sliced):
    """The definition of a kernel."""
    arrays = "query, key, value, g, mask, statistics"
    numbers = "sizes, (A)scale, (A)rate, key_of(first, second, at), chance"
    of, name = f"{features}, {str(is_sliced).lower()}", f"{features}{'s' * is_sliced}"
    call = f"attend<{kind.upper()}, {of}>({arrays}, out, {numbers}, blockIdx.x)"
    if kind == "backward":
        more = f"(T*)out, out_key, out_value, counts, {numbers}, groups, lead"
        call = f"attend_backward<{of}>({arrays}, {more})"
    return f"""
constexpr int blocks_{kind}_{name} = blocks_at_a_time({features});
extern "C" __global__ void __launch_bounds__(32 * WARPS, blocks_{kind}_{name})
attention_{kind}_{name}(
    const T* query, const T* key, const T* value, const T* g, const void* mask, A* statistics,
    void* out, T* out_key, T* out_value, unsigned* counts, const __grid_constant__ Sizes sizes,
    double scale, double rate, word first, word second, const word* at, long long chance,
    long long groups, long long lead)
{{
    {call};
}}
"""


for _features, _is_sliced in [(n, False) for n in _FEATURES] + [(n, True) for n in _SLICES]:
    _more = "".join([_define(kind, _features, _is_sliced) for kind in _KINDS])
    add_source(f"attention {_features}{'s' * _is_sliced}", _FILE, _more)


@cache
def _kernel(kind, features, dtype, device):
    """A kernel on a device, the columns of its tiles, and its bytes of shared memory."""
    features, slices = _room(features, dtype.itemsize, device)
    name = f"{features}{'s' * (slices > 1)}"
    run = kernel(f"attention {name}", f"attention_{kind}_{name}", dtype)
    columns, shared = _tiles(features, dtype.itemsize, kind != "forward")
    run.max_dynamic_shared_size_bytes = shared
    return run, columns, shared


class _Call:
    """A call's operands and numbers, as the kernels take them."""

    def __init__(
        self, query, key, value, mask, is_causal=False, scale=None, dropout_p=0.0, dropout_key=None
    ):
        dtype = query.dtype
        self.query, self.key, self.value = map(_with_rows, (query, key, value))
        self.mask, self.kind = mask, 0
        if mask is not None:
            mask = self.mask = mask.reshape((1,) * (2 - mask.ndim) + mask.shape)
            kinds = {np.dtype(bool): 1, dtype: 2, accumulator(dtype): 3}
            if mask.dtype not in kinds:
                self.mask = mask = mask.astype(accumulator(dtype))
            self.kind = kinds[mask.dtype]
        self.lead = leading_axes(query, key, value, mask)
        self.is_causal = bool(is_causal)
        self.scale = 1 / sqrt(query.shape[-1]) if scale is None else float(scale)
        self.rate, self.random = 1.0, (np.uint64(0), np.uint64(0), None, 0)
        if dropout_p:
            self.rate = 1 / (1 - dropout_p or 1)
            units = random.chance_of(dropout_p, dropout_key)
            self.random = *random.words_of(dropout_key), units
        self.features = max(query.shape[-1], value.shape[-1])
        self.slices = _room(self.features, dtype.itemsize, cupy.cuda.runtime.getDevice())[1]
        # Trailing axes along which keys and values are the same for several queries.
        kept = len(self.lead)
        while kept and not (self._has_axis(self.key, kept) or self._has_axis(self.value, kept)):
            kept -= 1
        self.shared = prod(self.lead[kept:])
        self.of_keys = *self.lead[:kept], *[1] * (len(self.lead) - kept)

    def _has_axis(self, x, number):
        axis = number - 1 - len(self.lead) + x.ndim - 2
        return axis >= 0 and x.shape[axis] > 1 and x.strides[axis] != 0

    def compute(self, kind, g, statistics, results, counts=None):
        """Run a kernel; results: one, or those for the query, the key and the value, or None."""
        device = cupy.cuda.runtime.getDevice()
        run, across, shared = _kernel(kind, self.features, self.query.dtype, device)
        results = (*results, None, None)[:3]
        arrays = self.query, self.key, self.value, g, self.mask
        of = (*arrays, *[None if kind == "mask" else x for x in results])
        of = tuple([None if x is None else (x.shape, x.strides, x.itemsize) for x in of])
        table = _table(self.lead, of, self.slices, self.shared, self.is_causal, self.kind)
        n, m = self.query.shape[-2], self.key.shape[-2]
        groups = prod(self.of_keys)
        down, lead = self.shared * -(-n // _ROWS), 0
        if kind == "forward":
            blocks = groups * down * self.slices
        elif kind == "mask":
            blocks = prod(self.mask.shape[:-2]) * -(-m // across)
            blocks *= -(-n // _ROWS) if self.mask.shape[-2] > 1 else 1
        else:
            of_keys = sum([x is not None for x in results[1:]]) * -(-m // _ROWS)
            others = ((results[0] is not None) * down + of_keys) * self.slices
            blocks = groups * (down + others)
            lead = min(-(-_AHEAD // down), groups) if others else groups
        numbers = CPointer(table.ctypes.data), self.scale, self.rate, *self.random, groups, lead
        args = *arrays, statistics, *results, counts, *numbers
        run((blocks,), (_THREADS,), args, shared_mem=shared)


def _like(x, lead, columns):
    """An empty array with these leading axes and columns, and the rows of ``x``.

    Its axes but the last lie in memory in the order of those of ``x``, new ones before them, so
    that merging heads needs no copy.
    """
    shape = *lead, x.shape[-2], columns
    new = len(shape) - x.ndim
    steps = [
        x.strides[i - new] if i >= new and x.shape[i - new] > 1 else 0 for i in range(len(shape))
    ]
    order = sorted(range(len(shape) - 1), key=lambda i: (steps[i] != 0, -steps[i]))
    return in_order(shape, x.dtype, [*order, len(order)])()


def _with_rows(x):
    """``x`` if the elements of each row are adjacent, else a copy."""
    itemsize = x.itemsize
    if x.strides[-1] == itemsize and not any(step % itemsize for step in x.strides):
        return x
    return contiguous(x)


@lru_cache(1024)
def _table(lead, arrays, *numbers):
    """The numbers for a kernel, from the shapes, strides and item sizes of the arrays."""
    axes = [axis for axis, length in enumerate(lead) if length > 1]
    table = np.zeros(1, _SIZES)
    table["lead"][0, : len(axes)] = [lead[axis] for axis in axes]
    for name, given in zip(_ARRAYS, arrays, strict=True):
        if given is None:
            continue
        shape, strides, itemsize = given
        steps = [0 if n == 1 else step // itemsize for n, step in zip(shape, strides, strict=True)]
        steps = [0] * (len(lead) + 2 - len(steps)) + steps
        table[name]["row"] = steps[-2]
        table[name]["lead"][0, : len(axes)] = [steps[axis] for axis in axes]
        if name == "mask":
            table["mask_column"] = steps[-1]
    (*_, n, d), (*_, m, e) = arrays[0][0], arrays[2][0]
    for name, number in zip(_NUMBERS, (len(axes), n, m, d, e, *numbers), strict=True):
        table[name] = number
    return table


def _call(xp, query, key, value, mask=None, *static, **named):
    """The `_Call`, of operands with the dtype of the result; None if nothing is to be summed."""
    if min(query.ndim, key.ndim, value.ndim) < 2 or not (query.size and key.size and value.size):
        return None
    dtype, _ = common_dtypes(xp, query, key, value)
    return _Call(*[cast(xp, x, dtype) for x in (query, key, value)], mask, *static, **named)


def _attention(xp, *operands, **static):
    if (call := _call(xp, *operands, **static)) is None:
        return NotImplemented
    out = _like(call.query, call.lead, call.value.shape[-1])
    call.compute("forward", None, None, (out,))
    return out


def _attention_vjp(
    xp, g, query, key, value, mask, is_causal, scale, dropout_p, dropout_key, wanted
):
    call = _call(xp, query, key, value, mask, is_causal, scale, dropout_p, dropout_key)
    if call is None:
        return NotImplemented
    g = _with_rows(cast(xp, g, call.query.dtype))
    statistics = cupy.empty((prod(call.lead), query.shape[-2], 2), accumulator(g.dtype))
    operands = (call.query, call.lead), (call.key, call.of_keys), (call.value, call.of_keys)
    pairs = zip(operands, wanted[:3], strict=True)
    results = [_like(x, lead, x.shape[-1]) if w else None for (x, lead), w in pairs]
    # Weights stay the same if a number is added to all scores of a query.
    is_constant = mask is not None and call.mask.shape[-1] != key.shape[-2]
    if any(wanted[:3]) or not is_constant:
        counts = cupy.zeros(1 + prod(call.of_keys), np.uint32)
        call.compute("backward", g, statistics, results, counts)
    out = None
    if wanted[3] and is_constant:
        out = cupy.zeros(mask.shape, mask.dtype)
    elif wanted[3]:
        call.mask = contiguous(call.mask)
        out = cupy.empty(mask.shape, accumulator(g.dtype))
        call.compute("mask", g, statistics, (out,))
    return *results, out


attention.twin("cupy", _attention, joint=_attention_vjp)
