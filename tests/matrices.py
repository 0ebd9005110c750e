"""Matrices and stacks of matrices in every memory layout of a CUDA device."""

import math
from functools import partial

import cupy
import numpy as np


def small_integers(shape, dtype="float64"):
    """Return small integers, whose sums are the same in every order and every dtype."""
    values = np.random.default_rng(math.prod(shape)).integers(-3, 4, shape)
    return cupy.asarray(values.astype(dtype))


def transposed(x):
    return x.swapaxes(-1, -2)


# Memory layouts of a matrix (..., m, n), filled by f, and whether BLAS takes it without a copy.
MATRICES = {
    "rows": (lambda f, s, m, n: f((*s, m, n)), True),
    "columns": (lambda f, s, m, n: transposed(f((*s, n, m))), True),
    "some rows": (lambda f, s, m, n: f((*s, 2 * m, n))[..., ::2, :], True),
    "part of rows": (lambda f, s, m, n: f((*s, m, n + 3))[..., 2 : n + 2], True),
    "part of columns": (lambda f, s, m, n: transposed(f((*s, n, m + 3)))[..., 1 : m + 1, :], True),
    "some columns": (lambda f, s, m, n: transposed(f((*s, 3 * n, m))[..., ::3, :]), True),
    "a step in rows": (lambda f, s, m, n: f((*s, m, 2 * n))[..., ::2], False),
    "upside down": (lambda f, s, m, n: f((*s, m, n))[..., ::-1, :], False),
    "backwards": (lambda f, s, m, n: f((*s, m, n))[..., ::-1], False),
    "one row": (lambda f, s, m, n: cupy.broadcast_to(f((*s, 1, n)), (*s, m, n)), False),
    "one column": (lambda f, s, m, n: cupy.broadcast_to(f((*s, m, 1)), (*s, m, n)), False),
    "one number": (lambda f, s, m, n: cupy.broadcast_to(f(()), (*s, m, n)), False),
}


def matrix(way, *shape, dtype="float64"):
    """Return a stack of matrices of that layout, and whether BLAS takes it without a copy."""
    make, fits_blas = MATRICES[way]
    *batch, m, n = shape
    x = make(partial(small_integers, dtype=dtype), batch, m, n)
    assert x.shape == shape
    return x, fits_blas


# Memory layouts and broadcasts of a stack with batch shape (2, 3).
STACKS = {
    "in order": lambda f, m, n: f((2, 3, m, n)),
    "swapped": lambda f, m, n: f((3, 2, m, n)).swapaxes(0, 1),
    "some of both": lambda f, m, n: f((4, 5, m, n))[::2, 1:4],
    "some of one": lambda f, m, n: f((2, 6, m, n))[:, ::2],
    "backwards": lambda f, m, n: f((2, 3, m, n))[::-1, ::-1],
    "no batch": lambda f, m, n: f((m, n)), "one axis": lambda f, m, n: f((3, m, n)),
    "first alone": lambda f, m, n: f((2, 1, m, n)), "second alone": lambda f, m, n: f((1, 3, m, n)),
    "neither": lambda f, m, n: f((1, 1, m, n)),
    "repeated": lambda f, m, n: cupy.broadcast_to(f((m, n)), (2, 3, m, n)),
    "first repeated": lambda f, m, n: cupy.broadcast_to(f((3, m, n)), (2, 3, m, n)),
    "between the axes": lambda f, m, n: f((2, m, 3, n)).swapaxes(1, 2),
}  # fmt: skip


def stack(way, m, n, dtype="float64"):
    return STACKS[way](partial(small_integers, dtype=dtype), m, n)
