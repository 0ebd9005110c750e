"""The namespace ``xp.linalg``: a library's own, and what it lacks or does otherwise mended."""

from functools import partial, wraps
from types import ModuleType

# LAPACK and cuSOLVER have no float16.
_IN_SINGLE = (
    "cholesky cofactor det eig eigh eigvals eigvalsh inv matrix_norm matrix_power pinv qr slogdet "
    "solve svd svdvals"
).split()


def complete(backend):
    """Give ``backend.xp`` a ``linalg`` of its own, unless its library has none.

    It is the library's, with ``cofactor(x)`` added, the matrices of cofactors of square ones,
    and with float16 computed in float32.
    """
    xp = backend.xp
    own = getattr(xp, "linalg", None)
    if own is None:
        return
    xp.linalg = linalg = ModuleType(f"{xp.__name__}.linalg")
    vars(linalg).update({n: getattr(own, n) for n in dir(own) if not n.startswith("_")})
    if not hasattr(linalg, "cofactor"):
        linalg.cofactor = partial(cofactor, backend)
    half = getattr(xp, "float16", None)
    if half is not None:
        for name in _IN_SINGLE:
            function = _in_single(xp, backend.dtype(half), getattr(linalg, name))
            setattr(linalg, name, function)


def _in_single(xp, half, function):
    def narrow(result):
        if isinstance(result, tuple):
            return tuple([narrow(part) for part in result])
        return xp.astype(result, half) if xp.isdtype(result.dtype, "real floating") else result

    @wraps(function)
    def call(x, *others, **options):
        if x.dtype != half:
            return function(x, *others, **options)
        others = [xp.astype(a, xp.float32) if hasattr(a, "dtype") else a for a in others]
        return narrow(function(xp.astype(x, xp.float32), *others, **options))

    return call


def cofactor(backend, x):
    """The determinant's derivatives to the elements, ``det(x) * inv(x)^T``.

    As stable as the determinant itself if both come of one factorisation, however close to
    singular the matrix is (Stewart 1998, "On the adjugate matrix"). One with a pivot of
    exactly 0 is moved by a rounding error.
    """
    xp = backend.xp
    n = x.shape[-1]
    if n == 0:
        return x
    scale = xp.max(xp.abs(x), axis=(-2, -1))
    step = n * float(xp.finfo(x.dtype).eps) * xp.where(scale == 0, xp.ones_like(scale), scale)
    step = xp.where(xp.linalg.det(x) == 0, step, xp.zeros_like(step))[..., None, None]
    x = x + step * backend.create("eye", n, dtype=step.dtype, like=x)
    return xp.matrix_transpose(xp.linalg.inv(x)) * xp.linalg.det(x)[..., None, None]
