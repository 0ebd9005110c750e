"""Replacements for NumPy's linear algebra where it deviates from the standard or is slow."""

from functools import partial, wraps
from typing import Any

import numpy as np

from ..base import copy_of
from ..linalg import cofactor
from .threads import product_of


def _eig(x, /):
    values, vectors = np.linalg.eig(x)
    dtype = np.result_type(values, np.complex64)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


def _eigvals(x, /):
    values = np.linalg.eigvals(x)
    return values.astype(np.result_type(values, np.complex64), copy=False)


def _cross(x1, x2, /, *, axis=-1):
    if axis != -1:
        return np.moveaxis(_cross(np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)), -1, axis)
    shape = x1.shape if x1.shape == x2.shape else np.broadcast_shapes(x1.shape, x2.shape)
    out = np.empty(shape, np.result_type(x1, x2))
    a, b, c = x1[..., 0], x1[..., 1], x1[..., 2]
    d, e, f = x2[..., 0], x2[..., 1], x2[..., 2]
    np.subtract(b * f, c * e, out=out[..., 0])
    np.subtract(c * d, a * f, out=out[..., 1])
    np.subtract(a * e, b * d, out=out[..., 2])
    return out


def _vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    if ord == 2 and axis is None and x.dtype.char in "fd":  # a quarter of NumPy's time
        flat = x.reshape(-1)
        out = np.sqrt(product_of(flat, flat)(flat, flat))
        return out.reshape((1,) * x.ndim) if keepdims else out
    return np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


def steps_of_vector_norm(x, /, *, axis=None, keepdims=False, ord=2, out):
    """See `Declaration`; None for norms that are computed in another way."""
    is_known = ord in (1, 2, np.inf) and x.dtype.char in "fd" and x.flags.c_contiguous
    if not is_known or isinstance(axis, tuple):
        return None
    last = [partial(np.sqrt, out, out)] if ord == 2 else []
    if axis is None:
        x, out, axis, keepdims = x.reshape(-1), out.reshape(()), 0, False
        if ord == 2:
            return [partial(product_of(x, x), x, x, out), *last]
    sizes, reduce = np.empty_like(x), np.add.reduce if ord != np.inf else np.maximum.reduce
    first = partial(np.multiply, x, x, sizes) if ord == 2 else partial(np.absolute, x, sizes)
    return [first, partial(reduce, sizes, axis, None, out, keepdims), *last]


def _matrix_norm(x, /, *, keepdims=False, ord="fro"):
    if ord == "fro" and x.ndim == 2:
        return _vector_norm(x, keepdims=keepdims)
    norm = np.linalg.matrix_norm
    by_svd = ord in (2, -2, "nuc")
    return (_of_finite(norm) if by_svd else norm)(x, keepdims=keepdims, ord=ord)


def _of_finite(function):
    """A function by singular values, for which LAPACK may search for ever where there is inf."""

    @wraps(function)
    def call(x, /, **options):
        if not np.isfinite(x).all():
            raise np.linalg.LinAlgError(
                "a matrix has inf or nan, and so no singular values; replace these by nan_to_num(x)"
            )
        return function(x, **options)

    return call


def _diagonal(x, /, *, offset=0):
    return x.diagonal(offset, -2, -1)


def _cofactor(x, /):
    # Determinant and inverse use the same factorisation, so this is as accurate as the determinant
    # however close to singular the matrix is (Stewart 1998, "On the adjugate matrix").
    det = np.linalg.det(x)
    if det.all():
        return np.linalg.inv(x).swapaxes(-1, -2) * det[..., None, None]
    return cofactor(np, x)


linalg: Any = copy_of(np.linalg, "gpugrad.backends.numpy.linalg.linalg")
for _name in "matrix_rank pinv svd svdvals".split():
    setattr(linalg, _name, _of_finite(getattr(np.linalg, _name)))
_DEFINED = "cofactor cross diagonal eig eigvals matrix_norm vector_norm".split()
vars(linalg).update({name: globals()[f"_{name}"] for name in _DEFINED})
