"""What all libraries share in ``xp.linalg``: two more functions, and float16."""

from functools import partial, wraps

from .declarations import declare

# LAPACK and cuSOLVER have no float16, in which 256 squared would overflow anyway.
_COMPUTED_IN_FLOAT32 = (
    "cholesky cofactor det eig eigh eigvals eigvalsh inv matrix_norm matrix_power pinv qr slogdet "
    "solve solve_triangular svd svdvals vector_norm"
).split()

# Functions that raise errors for singular matrices, for nan, or where they do not converge.
_FALLIBLE = (
    "cholesky cofactor cond eig eigh eigvals eigvalsh inv lstsq matrix_norm matrix_power "
    "matrix_rank norm pinv solve solve_triangular svd svdvals tensorinv tensorsolve"
).split()


def extend_linalg(backend):
    """Add two functions to ``xp.linalg``, and have the others compute float16 in float32."""
    xp, linalg = backend.xp, backend.xp.linalg
    if not hasattr(linalg, "cofactor"):
        linalg.cofactor = partial(cofactor, xp)
    linalg.solve_triangular = backend.solve_triangular
    if hasattr(xp, "float16"):
        half = backend.dtype(xp.float16)
        for name in _COMPUTED_IN_FLOAT32:
            setattr(linalg, name, _in_float32(xp, half, getattr(linalg, name)))
    for name in _FALLIBLE:
        if hasattr(linalg, name):
            declare(getattr(linalg, name), fails=True)


def _in_float32(xp, half, function):
    def narrow(result):
        if isinstance(result, tuple):
            return tuple([narrow(part) for part in result])
        return xp.astype(result, half) if xp.isdtype(result.dtype, "real floating") else result

    @wraps(function)
    def call(x, *others, **options):
        dtypes = [a.dtype for a in others if hasattr(a, "dtype")] if others else []
        if x.dtype != half and half not in dtypes:
            return function(x, *others, **options)
        single = [
            xp.astype(a, xp.float32) if hasattr(a, "dtype") and a.dtype == half else a
            for a in (x, *others)
        ]
        result = function(*single, **options)
        return narrow(result) if {x.dtype, *dtypes} == {half} else result

    return call


def cofactor(xp, x):
    """Derivatives of the determinant by the elements: ``det(x) * inv(x)^T`` without the inverse."""
    n = x.shape[-1]
    if n == 0:
        return x
    if n == 1:
        return xp.ones_like(x)
    if n == 2:
        (a, b), (c, d) = ([x[..., i, j] for j in range(2)] for i in range(2))
        return xp.stack([xp.stack(row, axis=-1) for row in ([d, -c], [-b, a])], axis=-2)
    if n == 3:
        first, second, third = (x[..., i, :] for i in range(3))
        cross = xp.linalg.cross
        return xp.stack([cross(second, third), cross(third, first), cross(first, second)], axis=-2)
    phase, u, s, vh = conjugate_svd(xp, x)
    others = xp.prod(s, axis=-1)[..., None] / s
    return phase * xp.matmul(u * others[..., None, :], vh)


def conjugate_svd(xp, x):
    """Decompositions of conjugate square matrices, ``conj(x) = u @ diag(s) @ vh``, and the phases
    of their determinants, ``(..., 1, 1)``, which come first.

    Singular values are raised to the matrix's rounding error, so that their product can be divided
    by each of them.
    """
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    u, vh = xp.conj(u), xp.conj(vh)
    eps = float(xp.finfo(s.dtype).eps)
    s = xp.maximum(s, eps * xp.maximum(s[..., :1], eps * xp.ones_like(s)))
    phase = xp.conj(xp.linalg.det(xp.matmul(u, vh)))
    return xp.reshape(phase, (*phase.shape, 1, 1)), u, s, vh
