"""Replacements for CuPy's linear algebra where it deviates from the standard.

CuPy ignores singular matrices, and the eigenvalues of an empty stack are real.
"""

from functools import wraps
from typing import Any

import cupy
import cupyx
import numpy as np
from array_api_compat.cupy import linalg as standard

from ..base import copy_of
from .products import matmul, tensordot, vecdot


def _checked(function, problem):
    """Make a function raise for a matrix that it cannot handle, which waits for the device."""

    @wraps(function)
    def call(*args, **options):
        try:
            with cupyx.errstate(linalg="raise"):
                return function(*args, **options)
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(f"{problem} ({error})") from error

    return call


def in_one_stack(*arrays):
    """Stacks of matrices, broadcast to stacks of the same shape."""
    stack = np.broadcast_shapes(*[x.shape[:-2] for x in arrays])
    return [cupy.broadcast_to(x, (*stack, *x.shape[-2:])) for x in arrays]


def _solve(x1, x2, /):
    if x2.ndim > 1:
        x1, x2 = in_one_stack(x1, x2)
        if not x2.size:
            return cupy.empty(x2.shape, cupy.result_type(x1, x2))
    return cupy.linalg.solve(x1, x2)


def _complex_if_empty(function):
    @wraps(function)
    def call(x, /):
        return function(x if x.size else x.astype(cupy.result_type(x, cupy.complex64)))

    return call


linalg: Any = copy_of(standard, "gpugrad.backends.cupy.linalg.linalg")
vars(linalg).update(
    matmul=matmul, tensordot=tensordot, vecdot=vecdot,
    eig=_complex_if_empty(cupy.linalg.eig), eigvals=_complex_if_empty(cupy.linalg.eigvals),
    solve=_checked(_solve, "singular matrix"),
    inv=_checked(cupy.linalg.inv, "singular matrix"),
    matrix_power=_checked(cupy.linalg.matrix_power, "singular matrix"),
    cholesky=_checked(standard.cholesky, "matrix is not positive definite"),
)  # fmt: skip
