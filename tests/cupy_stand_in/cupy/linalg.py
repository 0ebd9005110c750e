"""Linear algebra as in CuPy: errors for unsuitable matrices only if ``errstate`` asks for them."""

import functools

import numpy as np
from numpy.linalg import LinAlgError

from ._array import ndarray, on_current, unwrapped, wrap
from ._capture import refuse
from ._errors import state
from ._functions import matmul
from ._reads import note
from ._wrapping import of_class, through

__all__ = [  # noqa: F822
    "LinAlgError", "cholesky", "cross", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv",
    "matmul", "matrix_power", "matrix_rank", "norm", "pinv", "qr", "slogdet", "solve", "svd",
]  # fmt: skip


def _kernel(function):
    own = through(np.linalg)(function)

    @functools.wraps(function)
    def call(*args, **options):
        _refuse_half(args)
        return own(*args, **options)

    return call


def _refuse_half(args):
    if any(isinstance(x, ndarray) and x.dtype.char == "e" for x in args):
        raise TypeError("float16 is unsupported in linalg")


def _silent(name, *args):
    """Run NumPy's function, but raise its errors only if ``errstate`` asks for them."""
    on_current(args)
    _refuse_half(args)
    refuse("a call of cuSOLVER")
    if state.linalg == "raise":
        note(f"linalg.{name}")
    try:
        values = getattr(np.linalg, name)(*map(unwrapped, args))
    except LinAlgError:
        if state.linalg == "raise" or args[0].ndim < 2 or len({*args[0].shape[-2:]}) > 1:
            raise
        values = np.full(args[-1].shape, np.nan, args[0].dtype)
    return wrap(values, [])


def solve(a, b):
    if b.ndim > 1 and a.shape[:-1] != b.shape[:-1]:
        raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
    return _silent("solve", a, b)


def inv(a):
    return _silent("inv", a)


def cholesky(a):
    return _silent("cholesky", a)


def matrix_power(M, n):
    return _silent("matrix_power", M, n)


class _Kernels:
    """Functions whose values NumPy computes."""

    def det(a): ...
    def eigh(a, UPLO="L"): ...
    def eigvalsh(a, UPLO="L"): ...
    def lstsq(a, b, rcond=None): ...
    def matrix_rank(M, tol=None): ...
    def norm(x, ord=None, axis=None, keepdims=False): ...
    def pinv(a, rcond=1e-15): ...
    def qr(a, mode="reduced"): ...
    def slogdet(a): ...
    def svd(a, full_matrices=True, compute_uv=True): ...
    def cross(x1, x2, /, *, axis=-1): ...


globals().update(of_class(_Kernels, _kernel))


def eig(a):
    return wrap(tuple(np.linalg.eig(_complex(a))), [])


def eigvals(a):
    return wrap(np.linalg.eigvals(_complex(a)), [])


def _complex(a):
    """Convert real eigenvalues to complex numbers, except those of empty arrays."""
    on_current([a])
    _refuse_half([a])
    refuse("a call of cuSOLVER")
    return a._values.astype(a.dtype if not a.size else np.result_type(a.dtype, np.complex64))
