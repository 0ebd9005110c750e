"""The twin of the op in gpugrad/ops/attention.py: threads of the library compute the weights.

Threads of Python do, with the same bits, as long as the library is missing, and where the cotangent
of a mask is wanted.
"""

import ctypes
import math
from functools import lru_cache

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.native.base import function_of, place
from ...backends.numpy import threads
from ...backends.philox import limit
from ...ops.attention import BlockedAttention, attention

_OPERANDS = "query key value added out to_out to_query to_key to_value".split()


def _in_rows(x):
    """The array, or a copy, with the elements of the last axis side by side."""
    return x if x.strides[-1] == x.itemsize and x.flags.aligned else np.array(x, order="C")


@lru_cache(256)
def _starts(lead, strides):
    """An array of where each matrix begins, in bytes, and its address."""
    start = np.zeros((), np.int64)
    for length, step in zip(lead, strides, strict=False):
        start = start[..., None] + np.arange(length) * step
    return start, start.ctypes.data


class _Attention(BlockedAttention):
    run, matmul = staticmethod(threads.run), staticmethod(threads.undivided)

    def __init__(self, *args, **static):
        super().__init__(*args, **static)
        self.query, self.key, self.value = map(_in_rows, (self.query, self.key, self.value))

    def zeros_like(self, x):
        return _in_rows(np.zeros_like(x))

    def result(self):
        out = self.empty_result()
        return out if self._done_by_library(out=out) else super().result()

    def cotangents(self, g, wanted):
        if not wanted[3]:
            arrays = zip(_OPERANDS, (self.query, self.key, self.value), wanted, strict=False)
            found = {f"to_{n}": _in_rows(np.empty_like(x)) if w else None for n, x, w in arrays}
            if self._done_by_library(to_out=_in_rows(g), **found):
                return *found.values(), None
        # In the order in which the library has it, since products of vectors depend on that.
        return super().cotangents(np.ascontiguousarray(g), wanted)

    def _done_by_library(self, **given):
        """Have the library compute these arrays; returns whether it did."""
        function = function_of(f"gg_attention_{self.query.dtype.char}")
        if function is None:
            return False
        *lead, n, d = self.query.shape
        m, e = self.value.shape[-2:]
        given |= {"query": self.query, "key": self.key, "value": self.value}
        if self.mask is not None:
            given["added"] = np.broadcast_to(self._bias(self.query, self.mask), (*lead, n, m))
        kept = []
        least = limit(self.dropout_p, self.dropout_key) if self.dropout_p else -1
        numbers = [math.prod(lead), n, m, d, e, min(n, self.room()), self.is_causal]
        numbers += [least, *self.dropout_key]
        for x in map(given.get, _OPERANDS):
            if x is None:
                numbers += [0] * 4
                continue
            start, address = _starts((*lead,), x.strides)
            kept.append(start)
            numbers += [place(x), address, *x.strides[-2:]]
        lowest = -math.inf if self.mask is None else float(np.finfo(self.query.dtype).min)
        numbers = (ctypes.c_int64 * len(numbers))(*numbers)
        floats = map(ctypes.c_double, (self.scale, 1 - self.dropout_p or 1, lowest))
        pieces = numbers[0] * (1 if given.get("out") is None else -(-n // numbers[5]))
        work = numbers[0] * n * m * (d + e)
        return threads.run_pieces(function, numbers, *floats, pieces=pieces, work=work)


def _work(xp, query, key, value, mask=None, *static, **named):
    """An object that computes a call; None for other dtypes and without weights."""
    arrays = query, key, value
    dtype = query.dtype
    if dtype not in (float32, float64) or any(x.dtype != dtype or not x.size for x in arrays):
        return None
    return _Attention(xp, *arrays, mask, dtype, *static, **named)


def _attention(xp, *operands, **static):
    work = _work(xp, *operands, **static)
    return NotImplemented if work is None else work.result()


def _attention_vjp(
    xp, g, query, key, value, mask, is_causal, scale, dropout_p, dropout_key, wanted
):
    if g.dtype != query.dtype:
        return NotImplemented
    work = _work(xp, query, key, value, mask, is_causal, scale, dropout_p, dropout_key)
    if work is None:
        return NotImplemented
    *cotangents, to_mask = work.cotangents(g, wanted)
    return *cotangents, None if to_mask is None else to_mask.reshape(mask.shape)


attention.twin("numpy", _attention, joint=_attention_vjp)
