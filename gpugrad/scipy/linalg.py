"""Solvers for triangular and factored systems, functions of matrices, and special matrices.

Matrices may be stacks ``(..., n, n)``, except where a docstring says otherwise. `logm`, `sqrtm`,
`solve_banded`, `solve_sylvester` and `lu` call SciPy, which has to be installed; arrays on a GPU go
through the host's memory. The parameters ``overwrite_a`` and the like, and
``check_finite``, have no effect.
"""

import math
from functools import partial
from typing import Any

from .. import linalg as _linalg
from .._arguments import require
from .._batched import aligned
from .._creation import create
from .._foreign_names import explain_names
from .._tensor import Tensor
from ..autograd.operation import op
from ..backends import backend_of
from ..backends.numpy import backend as host
from ..linalg import det as det
from ..linalg import inv as inv
from ..linalg import pinv as pinv
from ..linalg import svdvals as svdvals
from ..ops.manipulation import broadcast_shapes, vmap_matrices
from ._tensors import call_in_rule, floating, ops, values

__all__ = """
    block_diag cho_factor cho_solve cholesky det expm inv logm lu pinv solve_banded
    solve_sylvester solve_triangular sqrtm svdvals toeplitz
""".split()
explain_names(__name__)


# Solvers


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """The solution of ``a @ x = b`` for triangular matrices ``a (..., n, n)``.

    b: ``(n,)`` or ``(..., n, k)``.
    trans: 1 or ``"T"`` to solve with the transpose of ``a``, 2 or ``"C"`` with its adjoint.
    lower: whether ``a`` is lower triangular. The other triangle is not used.
    unit_diagonal: whether to take the elements on the diagonal as 1.

    A single matrix takes a number of operations in proportion to ``n**2 * k``, on a CPU by SciPy's
    function, if SciPy is installed. A singular matrix raises an error there; on a GPU, where
    finding it would wait, the result has infinite elements or nan.
    """
    require(trans in (0, 1, 2, "N", "T", "C"), "solve_triangular: trans must be 0, 1 or 2", trans)
    a, b = floating(a, b)
    if trans not in (0, "N"):
        a, lower = ops.matrix_transpose(ops.conj(a) if trans in (2, "C") else a), not lower
    columns = b[:, None] if b.ndim == 1 else b
    x = _triangular(a, columns, lower=bool(lower), unit_diagonal=bool(unit_diagonal))
    return x[..., 0] if b.ndim == 1 else x


@op
def _triangular(xp, a, b, /, *, lower, unit_diagonal):
    return xp.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal)


def _triangular_vjp(xp, g, a, out, lower, unit_diagonal, wanted):
    static = {"lower": not lower, "unit_diagonal": unit_diagonal}
    g_b = call_in_rule(_triangular, xp, xp.matrix_transpose(a), g, **static)
    if not wanted[0]:
        return None, g_b
    product, offset = -xp.matmul(g_b, xp.matrix_transpose(out)), int(unit_diagonal)
    return xp.tril(product, k=-offset) if lower else xp.triu(product, k=offset), g_b


_triangular.vjp(joint=_triangular_vjp)


def _vmap_solver(call, batched, a, b, **static):
    """Batching rule of a solver; examples of ``b`` that share a matrix are solved as columns."""
    if batched[0] or a.ndim > 2 or b.ndim > 3:
        return call(*aligned(batched, (a, b)), **static)
    count, n, k = b.shape
    x = call(a, ops.moveaxis(b, 0, 1).reshape(n, count * k), **static)
    return ops.moveaxis(x.reshape(n, count, k), 1, 0)


_triangular.vmap(_vmap_solver)


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Tensor:
    """The upper triangular U with ``a = U^H @ U``; if ``lower``, L with ``a = L @ L^H``.

    ``(..., n, n) -> (..., n, n)``, for Hermitian matrices, of which only the triangle is read that
    the result fills. The gradient is Hermitian too. Raises an error for a matrix that is not
    positive definite.
    """
    (a,) = floating(a)
    return _linalg.cholesky(a, upper=not lower)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, bool]:
    """A pair for `cho_solve`: the Cholesky factor of a Hermitian matrix, and ``lower``.

    Unlike SciPy's, the factor has zeros in the other triangle.
    """
    return cholesky(a, lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Tensor:
    """The solution of ``a @ x = b``, where ``c_and_lower`` is ``cho_factor(a)``.

    b: ``(n,)`` or ``(..., n, k)``, for ``a (..., n, n)``; the result has the same shape.

    By two triangular systems, so that one factor serves many ``b``. Both have gradients.
    """
    c, lower = c_and_lower
    between = solve_triangular(c, b, 0 if lower else 2, lower)
    return solve_triangular(c, between, 2 if lower else 0, lower)


def _on_host(name, *arrays, first=(), **options):
    """The results of SciPy's function ``name`` for each matrix in stacks of raw arrays.

    first, options: the arguments before and after the matrices.
    """
    from scipy import linalg

    function = partial(getattr(linalg, name), *first, **options)
    like, shape = arrays[0], broadcast_shapes(*[x.shape[:-2] for x in arrays])
    backend, xp = backend_of[type(like)], host.xp
    arrays = [backend_of[type(x)].to_numpy(x) for x in arrays]
    wide = [xp.broadcast_to(x, (*shape, *x.shape[-2:])) for x in arrays]
    flat = [x.reshape(math.prod(shape), *x.shape[-2:]) for x in wide]
    results = [function(*matrices) for matrices in zip(*flat, strict=True)]
    if not results:
        results = [function(*[xp.eye(*x.shape[-2:], dtype=x.dtype) for x in arrays])]
    outputs = results if isinstance(results[0], tuple) else [(result,) for result in results]
    stacks = []
    for parts in zip(*outputs, strict=True):
        stack = xp.stack(parts)[: math.prod(shape)].reshape(*shape, *parts[0].shape)
        real = xp.result_type(*[x.real.dtype for x in arrays])
        real = real if real.kind == "f" else xp.float64
        dtype = xp.result_type(real, xp.complex64) if stack.dtype.kind == "c" else real
        stacks.append(backend.asarray(stack.astype(dtype), device=backend.device(like)))
    return tuple(stacks) if isinstance(results[0], tuple) else stacks[0]


def solve_banded(
    l_and_u: tuple[int, int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Tensor:
    """The solution of ``a @ x = b`` for a matrix ``a (..., n, n)`` with few diagonals.

    l_and_u: the numbers l of diagonals below the main one and u of those above.
    ab: ``(..., l + u + 1, n)``, with ``ab[u + i - j, j] = a[i, j]``; what is outside of the matrix
        is not used.
    b: ``(n,)`` or ``(..., n, k)``, with leading axes that broadcast with those of ``ab``.

    SciPy's function.
    """
    lower, upper = map(int, l_and_u)
    ab, b = floating(ab, b)
    n = b.shape[-2:][0] if b.ndim else None
    if ab.ndim < 2 or ab.shape[-2:] != (lower + upper + 1, n):
        raise ValueError(
            f"solve_banded: ab must be (..., {lower + upper + 1}, n) for {lower} and {upper} "
            f"diagonals, and b (n,) or (..., n, k), not {ab.shape} and {b.shape}"
        )
    x = _banded(ab, b[:, None] if b.ndim == 1 else b, lower=lower, upper=upper)
    return x[..., 0] if b.ndim == 1 else x


@op
def _banded(xp, ab, b, /, *, lower, upper):
    return _on_host("solve_banded", ab, b, first=[(lower, upper)], check_finite=False)


def _banded_vjp(xp, g, ab, out, lower, upper, wanted):
    # The diagonals of the transposed matrix are those of the matrix, shifted to other columns.
    last = lower + upper
    rows = [_moved(xp, ab[..., last - r, :], r - lower) for r in range(last + 1)]
    g_b = call_in_rule(_banded, xp, xp.stack(rows, axis=-2), g, lower=upper, upper=lower)
    if not wanted[0]:
        return None, g_b
    g_columns, columns = xp.matrix_transpose(g_b), xp.matrix_transpose(out)
    products = [_moved(xp, g_columns, r - upper) * columns for r in range(last + 1)]
    return xp.stack([-xp.sum(product, axis=-2) for product in products], axis=-2), g_b


def _moved(xp, x, count):
    """``x`` moved so many places to the left along the last axis, with zeros after it."""
    zeros = xp.zeros_like(x[..., : abs(count)])
    parts = [x[..., count:], zeros] if count > 0 else [zeros, x[..., : x.shape[-1] + count]]
    return xp.concat(parts, axis=-1) if count else x


_banded.vjp(joint=_banded_vjp)
_banded.vmap(_vmap_solver)


@op
def _sylvester(xp, a, b, q, /):
    return _on_host("solve_sylvester", a, b, q)


def _sylvester_vjp(xp, g, a, b, out):
    transposed = [xp.matrix_transpose(x) for x in (a, b)]
    s, x = call_in_rule(_sylvester, xp, *transposed, g), xp.matrix_transpose(out)
    return -xp.matmul(s, x), -xp.matmul(x, s), s


_sylvester.vjp(joint=_sylvester_vjp)


def solve_sylvester(a: Any, b: Any, q: Any) -> Tensor:
    """The solution of ``a @ x + x @ b = q``: ``(m, m), (n, n), (m, n) -> (m, n)``.

    The gradient solves ``a^T @ s + s @ b^T = g``. SciPy's function.
    """
    a, b, q = floating(a, b, q)
    if not a.ndim == b.ndim == q.ndim == 2 or q.shape != (a.shape[0], b.shape[0]):
        raise ValueError(
            f"solve_sylvester: a (m, m), b (n, n) and q (m, n) do not fit: {a.shape}, {b.shape} "
            f"and {q.shape}"
        )
    return _sylvester(a, b, q)


# Functions of matrices

_PADE = [math.factorial(26 - k) * math.comb(13, k) / math.factorial(13) for k in range(14)]
_THETA = 5.371920351148152  # the largest norm for which the approximant is exact to float64


def expm(A: Any) -> Tensor:
    """The matrix exponentials of square matrices, on the device that they are on.

    By Padé's approximant of degree 13, with scaling and squaring. (N. J. Higham, "The scaling and
    squaring method for the matrix exponential revisited", 2005) How often each matrix is squared
    depends on its norm: finding the largest waits for the device.
    """
    (a,) = floating(A)
    require(a.shape[-2:-1] == a.shape[-1:] != (), "expm: A must be (..., n, n)", a.shape)
    if not a.size:
        return a
    norm = ops.max(ops.sum(ops.abs(a.detach()), axis=-2), axis=-1)
    counts = ops.ceil(ops.log2(ops.maximum(norm / _THETA, 1.0)))
    largest = float(values(counts).max(initial=0))
    a = a * (2.0**-counts)[..., None, None]
    one = create("eye", a.shape[-1], like=a)
    b, a2 = _PADE, a @ a
    a4 = a2 @ a2
    a6 = a2 @ a4
    odd = a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2
    odd = a @ (odd + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2
    even = even + b[0] * one
    power = _linalg.solve(even - odd, even + odd)
    for k in range(int(largest) if math.isfinite(largest) else 0):
        power = ops.where((counts > k)[..., None, None], power @ power, power)
    return power


@op
def sqrtm(xp, A, /):
    """The principal square roots of square matrices, complex if some eigenvalue is negative.

    The gradient solves the derivative of ``X @ X = A``, Sylvester's equation; for singular matrices
    there is none. SciPy's function.
    """
    return _on_host("sqrtm", A)


sqrtm.vjp(A=lambda xp, g, out: call_in_rule(_sylvester, xp, *[xp.matrix_transpose(out)] * 2, g))
sqrtm.vmap(vmap_matrices)


@op
def logm(xp, A, /):
    """The principal logarithms of square matrices, complex if some eigenvalue is negative.

    The gradient is a corner of the logarithm of a block matrix. It is arbitrary where a real
    matrix has a negative eigenvalue, at which the logarithm jumps. (R. Mathias, "A chain rule for
    matrix functions and applications", 1996) SciPy's function.
    """
    return _on_host("logm", A)


def _logm_vjp(xp, g, A):
    n = A.shape[-1]
    a = xp.astype(xp.matrix_transpose(A), g.dtype)
    # Scaled, so that g does not spoil the digits of a; a power of 2 has no derivative.
    top = xp.max(xp.abs(g), axis=(-2, -1), keepdims=True)
    scale = xp.where(top > 0, 2.0 ** xp.ceil(xp.log2(xp.where(top > 0, top, 1.0))), 1.0)
    upper = xp.concat([a, g / scale], axis=-1)
    lower = xp.concat([xp.zeros_like(a), a], axis=-1)
    return call_in_rule(logm, xp, xp.concat([upper, lower], axis=-2))[..., :n, n:] * scale


logm.vjp(A=_logm_vjp)
logm.vmap(vmap_matrices)


# Decompositions


@op
def _lu(xp, a, /):
    return _on_host("lu", a)


def _lu_vjp(xp, g, out):
    _, g_l, g_u = g
    p, lower, upper = out
    k = upper.shape[-2]
    below, right = lower[..., k:, :], upper[..., k:]
    lower, upper = lower[..., :k, :], upper[..., :k]
    g_below, g_right = g_l[..., k:, :], g_u[..., k:]
    g_l, g_u = g_l[..., :k, :], g_u[..., :k]
    transposed = xp.matrix_transpose(lower)

    def over_upper(x):  # x @ inv(upper)^T
        return xp.matrix_transpose(xp.linalg.solve(upper, xp.matrix_transpose(x)))

    if right.shape[-1]:  # right = inv(lower) @ the columns on the right
        g_right = xp.linalg.solve(transposed, g_right)
        g_l = g_l - xp.matmul(g_right, xp.matrix_transpose(right))
    if below.shape[-2]:  # below = the rows below @ inv(upper)
        g_below = over_upper(g_below)
        g_u = g_u - xp.matmul(xp.matrix_transpose(below), g_below)
    inner = xp.tril(xp.matmul(transposed, g_l), k=-1)
    inner = inner + xp.triu(xp.matmul(g_u, xp.matrix_transpose(upper)))
    c = over_upper(xp.linalg.solve(transposed, inner))
    if right.shape[-1]:
        c = xp.concat([c, g_right], axis=-1)
    if below.shape[-2]:
        c = xp.concat([c, g_below], axis=-2)
    return xp.matmul(p, c)


_lu.vjp(a=_lu_vjp)
_lu.vmap(vmap_matrices)


def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Tensor, ...]:
    """The factors of ``a = P @ L @ U``, for ``a (..., m, n)``, by SciPy's function.

    P is a permutation ``(..., m, m)``, or with ``p_indices`` the integers ``(..., m)`` with
    ``a = L[p] @ U``; L ``(..., m, k)`` is lower triangular with ones on the diagonal, and U
    ``(..., k, n)`` upper triangular, where k = min(m, n). With ``permute_l`` the result is
    ``(P @ L, U)``. P has no gradient; the leading square part must not be singular for a gradient.
    """
    (a,) = floating(a)
    p, lower, upper = _lu(a)
    p = p.detach()
    if permute_l:
        return p @ lower, upper
    return ops.argmax(p, axis=-1) if p_indices else p, lower, upper


# Special matrices


def block_diag(*arrs: Any) -> Tensor:
    """A matrix with these matrices on its diagonal; numbers and vectors count as rows.

    Matrices ``(m, n)`` and ``(p, q)`` give ``(m + p, n + q)``, with 0 elsewhere. Each gets its part
    of the gradient. Raises ValueError for an array with more than two axes.
    """
    blocks = [x.reshape(1, x.size) if x.ndim < 2 else x for x in floating(*arrs or ([[]],))]
    if any(x.ndim > 2 for x in blocks):
        raise ValueError(f"block_diag: all must be matrices, not {[x.shape for x in blocks]}")
    width, left, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(ops.pad(x, ((0, 0), (left, width - left - x.shape[1]))))
        left += x.shape[1]
    return ops.concat(rows, axis=0)


def toeplitz(c: Any, r: Any = None) -> Tensor:
    """The matrix with first column ``c (m,)`` and first row ``r (n,)``, constant along diagonals.

    r: by default the conjugate of ``c``. Its first element is not used.
    """
    c, *rest = floating(c) if r is None else floating(c, r)
    c = c.reshape(-1)
    r = rest[0].reshape(-1) if rest else ops.conj(c)
    diagonals = ops.concat([ops.flip(r[1:]), c])
    return ops.matrix_transpose(ops.flip(ops.sliding_windows(diagonals, size=(r.size,)), axis=0))
