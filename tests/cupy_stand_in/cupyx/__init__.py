"""The part of ``cupyx`` that gpugrad uses."""

import contextlib

import numpy as np
from cupy._errors import state

__all__ = ["empty_pinned", "errstate"]


def empty_pinned(shape, dtype=float, order="C"):
    return np.empty(shape, dtype, order)


@contextlib.contextmanager
def errstate(*, divide=None, over=None, under=None, invalid=None, linalg=None):
    before = state.linalg
    state.linalg = linalg or before
    try:
        yield
    finally:
        state.linalg = before
