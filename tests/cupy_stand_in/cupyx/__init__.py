"""Beside CuPy."""

import contextlib

from cupy._errors import state

__all__ = ["errstate"]


@contextlib.contextmanager
def errstate(*, divide=None, over=None, under=None, invalid=None, linalg=None):
    before = state.linalg
    state.linalg = linalg or before
    try:
        yield
    finally:
        state.linalg = before
