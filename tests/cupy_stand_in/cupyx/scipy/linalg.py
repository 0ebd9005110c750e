"""The part of ``cupyx.scipy.linalg`` that gpugrad uses, carried out by NumPy."""

import numpy as np
from cupy._array import made, ndarray, on_current

__all__ = ["solve_triangular"]


def solve_triangular(
    a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=False
):
    if not (isinstance(a, ndarray) and isinstance(b, ndarray)):
        raise TypeError("solve_triangular takes only cupy.ndarray")
    if a.shape[:-2] != b.shape[: a.ndim - 2]:
        raise ValueError("incompatible batch count")
    on_current([a, b])

    def compute():
        values = np.tril(a._values) if lower else np.triu(a._values)
        if unit_diagonal:
            np.einsum("...ii->...i", values)[...] = 1
        if trans in (1, "T"):
            values = values.swapaxes(-1, -2)
        if not np.einsum("...ii->...i", values).all():  # a singular matrix is no error
            return np.full(b.shape, np.nan, b.dtype)
        return np.linalg.solve(values, b._values)

    return made(compute)
