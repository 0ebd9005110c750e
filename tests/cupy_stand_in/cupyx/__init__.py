"""The part of ``cupyx`` that gpugrad uses."""

import contextlib

import numpy as np
from cupy._errors import state
from cupy.cuda import pinned_memory

__all__ = ["empty_pinned", "errstate"]


def empty_pinned(shape, dtype=float, order="C"):
    values = np.empty(shape, dtype, order)
    memory = pinned_memory._Pinned(max(values.nbytes, 1))
    values = np.ndarray(shape, dtype, memory, order=order)
    pinned_memory._pinned[values.__array_interface__["data"][0]] = memory
    return values


@contextlib.contextmanager
def errstate(*, divide=None, over=None, under=None, invalid=None, linalg=None):
    before = state.linalg
    state.linalg = linalg or before
    try:
        yield
    finally:
        state.linalg = before
