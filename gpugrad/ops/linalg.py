"""Linear algebra: decompositions, solvers and norms of matrices and stacks of them.

The rules follow Giles (2008), "Collected matrix derivative results for forward and reverse
mode algorithmic differentiation", and, for complex matrices and for decompositions, PyTorch's
derivations. Since a rule's cotangents are the conjugates of gradients, formulas with conjugate
transposes are applied to the conjugates of the factors.

Some results are not unique. Eigenvectors and singular vectors have a free sign, or for complex
matrices a free phase. The gradient is right for functions that do not depend on it, and does not
show that a function does. Where eigenvalues, or squares of singular values, are exactly equal, the
rules leave out the terms that are divided by their difference. The gradient is then finite. It is
right if the function depends neither on which vectors were chosen for the equal values nor, through
the vectors, on how these values part. A gradient through values that are equal up to rounding is
as large as the reciprocal of their difference.

Second derivatives of eigenvalues and singular values go through the vectors: where values are
equal they lack the terms left out, and are finite but wrong.
"""

import math
from collections import namedtuple
from typing import Any

from .._arguments import one_of
from .._batched import aligned, shifted
from .._tensor import is_recorded
from ..autograd.operation import composite, op
from ..backends.linalg import conjugate_svd
from .by_name import library_function
from .elementwise import multiply
from .manipulation import expand_dims, moveaxis, squeeze, vmap_matrices
from .reductions import kept_shape, sum, vmap_over_axes

EigResult = namedtuple("EigResult", "eigenvalues eigenvectors")
EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = namedtuple("SVDResult", "U S Vh")


def _column(xp, x):
    return xp.reshape(x, (*x.shape, 1))


def _row(xp, x):
    return xp.reshape(x, (*x.shape[:-1], 1, x.shape[-1]))


def _adjoint(xp, x):
    """The conjugate transpose."""
    return xp.matrix_transpose(xp.conj(x))


def _safe_reciprocal(xp, x):
    """``1 / x``, but 0 where ``x`` is 0 or so small that this would overflow."""
    zero = xp.abs(x) < float(xp.finfo(x.dtype).smallest_normal)
    return xp.where(zero, 0.0, 1 / xp.where(zero, 1.0, x))


def _place_on_diagonal(xp, x, shape, offset=0):
    """Matrices of zeros, stacked to ``shape``, with ``x`` on a diagonal of each."""
    *stack, m, n = shape
    length = x.shape[-1]
    start = offset if offset >= 0 else -offset * n
    stop = start + (length - 1) * (n + 1) + 1 if length else start
    flat = xp.scatter_add(x, (*stack, m * n), (..., slice(start, stop, n + 1)))
    return xp.reshape(flat, (*stack, m, n))


def _diag(xp, x):
    return _place_on_diagonal(xp, x, (*x.shape, x.shape[-1]))


def _hermitian_from_lower(xp, x):
    """Hermitian matrices made from the lower triangles of ``x``; the diagonals become real."""
    lower = xp.tril(x) + xp.tril(x, k=-1)
    return (lower + _adjoint(xp, lower)) / 2


# Solvers and determinants


@library_function("xp.linalg", vmap=vmap_matrices)
def inv(x, /):
    """Inverses of square matrices, ``(..., m, m) -> (..., m, m)``.

    A singular matrix raises an error.
    """


def _inv_vjp(xp, g, out):
    inverse = xp.matrix_transpose(out)
    return -xp.matmul(inverse, xp.matmul(g, inverse))


inv.vjp(x=_inv_vjp)


@library_function("xp.linalg")
def solve(x1, x2, /):
    """The solutions of ``x1 @ x = x2``: ``(..., m, m), (..., m, k) -> (..., m, k)``.

    Leading axes broadcast. A 1-D ``x2`` counts as one column, whose axis is then dropped from
    the result. A singular ``x1`` raises an error.
    """


def _solve_vjp(xp, g, x1, x2_shape, out, wanted):
    is_column = len(x2_shape) == 1
    if is_column:
        g, out = _column(xp, g), _column(xp, out)
    g2 = xp.linalg.solve(xp.matrix_transpose(x1), g)
    g1 = -xp.matmul(g2, xp.matrix_transpose(out)) if wanted[0] else None
    return g1, xp.squeeze(g2, axis=-1) if is_column else g2


def _solve_vmap(call, batched, x1, x2):
    if len(x2.shape) - batched[1] > 1:
        return call(*aligned(batched, (x1, x2)))
    if not batched[1]:
        return call(x1, x2)
    if not batched[0] and len(x1.shape) == 2:  # a single matrix; each example becomes a column
        return moveaxis(call(x1, moveaxis(x2, 0, 1)), 1, 0)
    x1, x2 = aligned((batched[0], True), (x1, expand_dims(x2, -1)))
    return squeeze(call(x1, x2), -1)


solve.vjp(joint=_solve_vjp).vmap(_solve_vmap)


@library_function("xp.linalg", vmap=vmap_matrices)
def det(x, /):
    """Determinants of square matrices, ``(..., m, m) -> (...)``.

    The gradient is the matrix of cofactors, `cofactor`, which is right for singular matrices too.
    """


det.vjp(x=lambda xp, g, x: xp.reshape(g, (*g.shape, 1, 1)) * xp.linalg.cofactor(x))


@library_function("xp.linalg", vmap=vmap_matrices)
def cofactor(x, /):
    """Cofactor matrices, ``det(x) * inv(x)^T``, of square matrices, which may be singular.

    ``(..., m, m) -> (..., m, m)``. The gradient is right for singular matrices too. Second and
    higher derivatives are right everywhere for matrices up to 3x3; for larger ones they go through
    the singular value decomposition, `svd`, and require distinct singular values.
    """


def _cofactor_vjp(xp, g, x):
    n = x.shape[-1]
    if n < 2:
        return xp.zeros_like(x)
    if n == 2:  # linear, and its own transpose
        return xp.linalg.cofactor(g)
    if n == 3:  # rows are cross products of the two rows after them
        (x1, x2), (g1, g2) = ([xp.roll(m, -i, axis=-2) for i in (1, 2)] for m in (x, g))
        return xp.linalg.cross(x1, g2) + xp.linalg.cross(g1, x2)
    # For a diagonal matrix of s, the second derivative of the determinant in directions e and f is
    # the sum over i != j of the product of all s but s_i and s_j, times e_ii f_jj - e_ij f_ji.
    phase, u, s, vh = conjugate_svd(xp, x)
    all_but_two = xp.reshape(xp.prod(s, axis=-1), (*s.shape[:-1], 1, 1))
    all_but_two = all_but_two / (_column(xp, s) * _row(xp, s))
    all_but_two = xp.tril(all_but_two, k=-1) + xp.triu(all_but_two, k=1)
    e = xp.matmul(xp.matrix_transpose(u), xp.matmul(g, xp.matrix_transpose(vh)))
    diagonal = xp.matmul(_row(xp, xp.linalg.diagonal(e)), xp.astype(all_but_two, e.dtype))
    inner = _diag(xp, diagonal[..., 0, :]) - all_but_two * xp.matrix_transpose(e)
    return phase * xp.matmul(u, xp.matmul(inner, vh))


cofactor.vjp(x=_cofactor_vjp)


@op(vmap=vmap_matrices)
def slogdet(xp, x, /):
    """Signs of determinants (phases, for complex matrices) and logarithms of their magnitudes.

    Both are ``(...)`` for matrices ``(..., m, m)``. For a singular matrix the sign is 0, the
    logarithm is -inf, and backward raises an error.
    """
    return SlogdetResult(*xp.linalg.slogdet(x))


def _slogdet_vjp(xp, g, x, out):
    g_sign, g_log = g
    sign, _ = out
    if sign.dtype != g_log.dtype:
        turn = g_sign * sign
        g_log = g_log + (turn - xp.conj(turn)) / 2
    return xp.reshape(g_log, (*g_log.shape, 1, 1)) * xp.matrix_transpose(xp.linalg.inv(x))


slogdet.vjp(x=_slogdet_vjp)


def _raw_array(value):
    """A static parameter, which may be a Tensor, as a raw array."""
    return getattr(value, "array", value)


@op
def pinv(xp, x, /, *, rtol=None):
    """Pseudo-inverses (Moore-Penrose), ``(..., m, n) -> (..., n, m)``.

    Singular values of at most ``rtol`` times the largest count as 0; the default ``rtol`` is
    ``max(m, n)`` times the dtype's epsilon. The gradient treats the rank as constant: where
    the rank changes, the pseudo-inverse is discontinuous. (Golub and Pereyra 1973)
    """
    return xp.linalg.pinv(x, rtol=_raw_array(rtol))


def _pinv_vjp(xp, g, x, out):
    x, p = xp.conj(x), xp.conj(out)
    p_h, g_h = _adjoint(xp, p), _adjoint(xp, g)
    right = xp.matmul(xp.matmul(g_h, p), p_h)
    left = xp.matmul(p_h, xp.matmul(p, g_h))
    right = right - xp.matmul(x, xp.matmul(p, right))
    left = left - xp.matmul(xp.matmul(left, p), x)
    return right + left - xp.matmul(p_h, xp.matmul(g, p_h))


def _vmap_with_rtol(call, batched, x, rtol):
    if hasattr(rtol, "shape"):
        return NotImplemented  # its axes are those of a stack of matrices in one example
    return vmap_matrices(call, batched, x, rtol=rtol)


pinv.vjp(x=_pinv_vjp).vmap(_vmap_with_rtol)


@library_function("xp.linalg")
def matrix_power(x, n, /):
    """Integer powers of square matrices; negative powers are powers of the inverses.

    ``(..., m, m) -> (..., m, m)``. The power 0 is the identity matrix, and has the gradient 0.
    """


def _matrix_power_vjp(xp, g, x, n):
    if n == 0:
        return xp.zeros_like(x)
    x = xp.matrix_transpose(x)
    if n < 0:
        x = xp.linalg.inv(x)
        g = -xp.matmul(x, xp.matmul(g, x))
    # The derivative in direction g is a corner of the power of a block matrix.
    rows = xp.concat([x, g], axis=-1), xp.concat([xp.zeros_like(x), x], axis=-1)
    k = x.shape[-1]
    return xp.linalg.matrix_power(xp.concat(rows, axis=-2), abs(n))[..., :k, k:]


def _matrix_power_vmap(call, batched, x, n):
    if batched[1]:
        raise TypeError("matrix_power: inside vmap n must be an int, the same for all examples")
    return call(x, n) if len(x.shape) > 2 else NotImplemented  # each example raises the error


matrix_power.vjp(x=_matrix_power_vjp).vmap(_matrix_power_vmap)


@op(differentiable=False)
def matrix_rank(xp, x, /, *, rtol=None):
    """The number of singular values that exceed ``rtol`` times the largest.

    For matrices (..., m, n) the default ``rtol`` is ``max(m, n)`` times the dtype's epsilon.
    """
    s = xp.linalg.svdvals(x)
    rtol = _raw_array(rtol)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(xp.finfo(s.dtype).eps)
    elif hasattr(rtol, "shape"):
        rtol = rtol[..., None]
    return xp.sum(xp.astype(s > rtol * s[..., : min(s.shape[-1], 1)], xp.int64), axis=-1)


matrix_rank.vmap(_vmap_with_rtol)


# Decompositions


@library_function("xp.linalg", vmap=vmap_matrices)
def cholesky(x, /, *, upper=False):
    """Lower triangular L such that ``x = L @ L^H``; if ``upper``, U such that ``x = U^H @ U``.

    ``(..., m, m) -> (..., m, m)``. The matrices are assumed to be Hermitian, and the gradient is
    Hermitian too. A matrix that is not positive definite raises an error.
    (Murray 2016, "Differentiation of the Cholesky decomposition")
    """


def _cholesky_vjp(xp, g, out, upper):
    if upper:
        out, g = _adjoint(xp, out), _adjoint(xp, g)
    inverse = xp.linalg.inv(out)
    inner = _hermitian_from_lower(xp, xp.matmul(xp.matrix_transpose(out), g)) / 2
    return xp.matmul(xp.matrix_transpose(inverse), xp.matmul(inner, xp.conj(inverse)))


cholesky.vjp(x=_cholesky_vjp)


def _leading_columns(xp, q, g, k):
    """The first k columns of a unitary matrix, and a cotangent for them alone.

    It includes the cotangent of the other columns, which may be any basis of the orthogonal
    complement: whichever they are, they rotate as the first columns do.
    """
    rest, g_rest = q[..., k:], g[..., k:]
    q, g = q[..., :k], g[..., :k]
    return q, g - xp.matmul(rest, xp.matmul(_adjoint(xp, g_rest), q))


@op(vmap=vmap_matrices)
def qr(xp, x, /, *, mode="reduced"):
    """Unitary Q and upper triangular R of ``x = Q @ R``, for ``x`` (..., m, n) of any shape.

    mode: ``"reduced"`` for Q (..., m, k) and R (..., k, n), where k = min(m, n), or
        ``"complete"`` for Q (..., m, m) and R (..., m, n).

    The first k columns of ``x`` must be linearly independent. Otherwise there is no gradient:
    backward raises an error or, where rounding hides the dependence, gives arbitrary values.
    Columns of Q beyond the n-th are an arbitrary basis of the orthogonal complement.
    (Roberts and Roberts 2020, "QR and LQ decomposition matrix backpropagation algorithms")
    """
    one_of("mode", mode, ("reduced", "complete"))
    return QRResult(*xp.linalg.qr(x, mode=mode))


def _qr_vjp(xp, g, out):
    g_q, g_r = g
    q, r = map(xp.conj, out)
    n = r.shape[-1]
    k = min(q.shape[-2], n)
    if q.shape[-1] > k:
        q, g_q = _leading_columns(xp, q, g_q, k)
        r, g_r = r[..., :k, :], g_r[..., :k, :]
    if n > k:  # x = Q [R1, R2], where Q and R1 are determined by the left part of x
        r_rest, g_rest = r[..., k:], g_r[..., k:]
        r, g_r = r[..., :k], g_r[..., :k]
        g_q = g_q + xp.matmul(xp.matmul(q, r_rest), _adjoint(xp, g_rest))
    inner = xp.matmul(r, _adjoint(xp, g_r)) - xp.matmul(_adjoint(xp, g_q), q)
    c = g_q + xp.matmul(q, _hermitian_from_lower(xp, inner))
    c = xp.matmul(c, _adjoint(xp, xp.linalg.inv(r)))
    return xp.concat([c, xp.matmul(q, g_rest)], axis=-1) if n > k else c


qr.vjp(x=_qr_vjp)


@op(materialize=False, vmap=vmap_matrices)
def eigh(xp, x, /):
    """Eigenvalues (..., n), ascending, and eigenvectors (..., n, n), in columns, of Hermitian
    or real symmetric matrices.

    The matrices are assumed to be Hermitian, and the gradient is Hermitian too. Gradients
    through eigenvectors are right only for functions that do not depend on their signs or
    phases; for equal eigenvalues, see `gpugrad.ops.linalg`.
    """
    return EighResult(*xp.linalg.eigh(x))


def _eigh_vjp(xp, g, out):
    g_values, g_vectors = g
    values, v = out
    v = xp.conj(v)
    v_h = _adjoint(xp, v)
    if g_vectors is None:
        return xp.matmul(v * _row(xp, g_values), v_h)
    inner = xp.matmul(v_h, g_vectors)
    gaps = _safe_reciprocal(xp, _row(xp, values) - _column(xp, values)) / 2
    inner = (inner - _adjoint(xp, inner)) * gaps
    if g_values is not None:
        inner = inner + _diag(xp, g_values)
    return xp.matmul(v, xp.matmul(inner, v_h))


eigh.vjp(x=_eigh_vjp)


@library_function("xp.linalg", differentiable=False, vmap=vmap_matrices)
def _eigvalsh(x, /):
    """The values of `eigvalsh`."""


@composite
def eigvalsh(x: Any, /) -> Any:
    """Eigenvalues (..., n), ascending, of Hermitian or real symmetric matrices.

    The matrices are assumed to be Hermitian, and the gradient is Hermitian too. Where
    eigenvalues are equal, it is right for functions that are symmetric in them.
    """
    return eigh(x).eigenvalues if is_recorded(x) else _eigvalsh(x)


@op(materialize=False, vmap=vmap_matrices)
def eig(xp, x, /):
    """Eigenvalues (..., n) and eigenvectors (..., n, n), in columns of norm 1; both are complex.

    The array library determines their order. Gradients through eigenvectors are right only for
    functions that do not depend on their phases; for equal eigenvalues, see
    `gpugrad.ops.linalg`. For a matrix that cannot be diagonalized there is no gradient:
    backward raises an error or, because of rounding, gives huge values.
    """
    return EigResult(*xp.linalg.eig(x))


def _eig_vjp(xp, g, out):
    g_values, g_vectors = g
    values, v = out
    v_h = xp.matrix_transpose(v)  # the adjoint of the conjugate of v
    if g_vectors is None:
        return xp.linalg.solve(v_h, _column(xp, g_values) * v_h)
    inner = xp.matmul(v_h, g_vectors)
    length = _row(xp, xp.real(xp.linalg.diagonal(inner)))
    inner = inner - xp.matmul(v_h, xp.conj(v)) * length
    inner = inner * _safe_reciprocal(xp, _row(xp, values) - _column(xp, values))
    if g_values is not None:
        inner = inner + _diag(xp, g_values)
    return xp.linalg.solve(v_h, xp.matmul(inner, v_h))


eig.vjp(x=_eig_vjp)


@library_function("xp.linalg", differentiable=False, vmap=vmap_matrices)
def _eigvals(x, /):
    """The values of `eigvals`."""


@composite
def eigvals(x: Any, /) -> Any:
    """Eigenvalues (..., n), complex, in the array library's order.

    For a matrix that cannot be diagonalized there is no gradient; see `eig`.
    """
    return eig(x).eigenvalues if is_recorded(x) else _eigvals(x)


@op(materialize=False, vmap=vmap_matrices)
def svd(xp, x, /, *, full_matrices=True):
    """Singular value decomposition ``x = U @ diag(S) @ Vh``, with S descending.

    For ``x`` (..., m, n), U is (..., m, m), S is (..., k), where k = min(m, n), and Vh is
    (..., n, n). Without ``full_matrices``, only the first k columns of U and the first k rows of
    Vh are returned; the others are an arbitrary basis of the orthogonal complement.

    Gradients through U and Vh are right only for functions that do not depend on the sign or
    phase that a column of U and its row of Vh share; for equal singular values, see
    `gpugrad.ops.linalg`. Terms divided by a singular value of exactly 0 are left out.
    """
    return SVDResult(*xp.linalg.svd(x, full_matrices=full_matrices))


def _svd_vjp(xp, g, out):
    g_u, g_s, g_vh = g
    u, s, vh = out
    u, vh = xp.conj(u), xp.conj(vh)
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if g_u is g_vh is None:
        return xp.matmul(u[..., :k] * _row(xp, g_s), vh[..., :k, :])
    g_u = xp.zeros_like(u) if g_u is None else g_u
    g_vh = xp.zeros_like(vh) if g_vh is None else g_vh
    v, g_v = _adjoint(xp, vh), _adjoint(xp, g_vh)
    if u.shape[-1] > k:
        u, g_u = _leading_columns(xp, u, g_u, k)
    if v.shape[-1] > k:
        v, g_v = _leading_columns(xp, v, g_v, k)
        vh = _adjoint(xp, v)
    u_h = _adjoint(xp, u)
    row, column = _row(xp, s), _column(xp, s)
    inverse = _safe_reciprocal(xp, s)
    gaps = _safe_reciprocal(xp, (row - column) * (row + column))
    left, right = xp.matmul(u_h, g_u), xp.matmul(vh, g_v)
    skew_left, skew_right = left - _adjoint(xp, left), right - _adjoint(xp, right)
    inner = skew_left * (gaps * row) + skew_right * (column * gaps)
    if g_s is not None:
        inner = inner + _diag(xp, g_s)
    if u.dtype != s.dtype:  # complex: the phases of u and v may change against each other
        turn = xp.linalg.diagonal(skew_left - skew_right) * (inverse / 4)
        inner = inner + _diag(xp, turn)
    c = xp.matmul(u, inner)
    if m > k:
        c = c + (g_u - xp.matmul(u, left)) * _row(xp, inverse)
    c = xp.matmul(c, vh)
    if n > k:
        c = c + xp.matmul(u * _row(xp, inverse), _adjoint(xp, g_v - xp.matmul(v, right)))
    return c


svd.vjp(x=_svd_vjp)


@library_function("xp.linalg", differentiable=False, vmap=vmap_matrices)
def _svdvals(x, /):
    """The values of `svdvals`."""


@composite
def svdvals(x: Any, /) -> Any:
    """Singular values (..., min(m, n)), descending.

    The formula of the gradient is that for distinct positive values. Where some are equal, it is
    right for functions that are symmetric in them. At 0 it gives a subgradient, as for a norm.
    """
    return svd(x, full_matrices=False).S if is_recorded(x) else _svdvals(x)


# Norms


def _extreme_shares(xp, x, axis, largest):
    """1 at the largest (or smallest) element along an axis, shared evenly in a tie; 0 elsewhere."""
    top = (xp.max if largest else xp.min)(x, axis=axis, keepdims=True)
    hit = xp.astype(x == top, x.dtype)
    return hit / xp.sum(hit, axis=axis, keepdims=True)


@library_function("xp.linalg", discards=True, vmap=vmap_over_axes)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """Vector norms of any order, ``sum(abs(x) ** ord) ** (1 / ord)``.

    axis: None (all axes), an int or a tuple.
    ord: 0 counts the elements that are not 0, with gradient 0; inf and -inf give the largest and
        the smallest magnitude, and a tie shares its gradient evenly.

    Elements of exactly 0 have gradient 0.
    """


def _vector_norm_vjp(xp, g, x, out, axis, ord):
    if ord == 0:
        return xp.zeros_like(x)
    shape, _ = kept_shape(x.shape, axis)
    g, out = xp.reshape(g, shape), xp.reshape(out, shape)
    if ord == 2:
        return g * _safe_reciprocal(xp, out) * xp.conj(x)
    direction = g * xp.conj(xp.sign(x))
    if ord == 1:
        return direction
    size = xp.abs(x)
    if math.isinf(ord):
        return direction * _extreme_shares(xp, size, axis, ord > 0)
    ratio = size * _safe_reciprocal(xp, out)
    zero = ratio == 0
    return direction * xp.where(zero, 0.0, xp.where(zero, 1.0, ratio) ** (ord - 1))


vector_norm.vjp(x=_vector_norm_vjp)


@op(discards=True, vmap=vmap_matrices)
def matrix_norm(xp, x, /, *, keepdims=False, ord="fro"):
    """Norms of matrices, ``(..., m, n) -> (...)``.

    ord: ``"fro"`` (or None) for the square root of the sum of squares, ``"nuc"`` for the sum of
        singular values, 2 and -2 for the largest and the smallest singular value, 1 and -1 for
        the largest and the smallest column sum of magnitudes, inf and -inf for row sums.

    A tie shares its gradient evenly; elements, or singular values, of exactly 0 have gradient 0.
    """
    return xp.linalg.matrix_norm(x, keepdims=keepdims, ord="fro" if ord is None else ord)


def _through_svd(xp, x, weights):
    """The cotangent of ``x`` if those of its singular values ``s`` are ``weights(s)``."""
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    return xp.matmul(xp.conj(u) * _row(xp, weights(s)), xp.conj(vh))


def _matrix_norm_vjp(xp, g, x, out, ord):
    g = xp.reshape(g, (*x.shape[:-2], 1, 1))
    if ord in ("fro", None):
        return g * _safe_reciprocal(xp, xp.reshape(out, g.shape)) * xp.conj(x)
    if ord == "nuc":
        return g * _through_svd(xp, x, xp.sign)
    if abs(ord) == 2:
        return g * _through_svd(xp, x, lambda s: xp.sign(s) * _extreme_shares(xp, s, -1, ord > 0))
    along, across = (-1, -2) if math.isinf(ord) else (-2, -1)
    sums = xp.sum(xp.abs(x), axis=along, keepdims=True)
    return g * _extreme_shares(xp, sums, across, ord > 0) * xp.conj(xp.sign(x))


matrix_norm.vjp(x=_matrix_norm_vjp)


# Products and diagonals


@op
def cross(xp, x1, x2, /, *, axis=-1):
    """Cross products of 3-element vectors along ``axis``; the other axes broadcast.

    ``(..., 3), (..., 3) -> (..., 3)`` for the last axis.
    """
    if not x1.shape[axis] == x2.shape[axis] == 3:
        raise ValueError(f"axis {axis} must have length 3 in both operands")
    return xp.linalg.cross(x1, x2, axis=axis)


def _cross_vmap(call, batched, x1, x2, axis):
    ndims = [len(x.shape) - b for x, b in zip((x1, x2), batched, strict=True)]
    places = [shifted(call.op, axis, ndim) - 1 - ndim for ndim in ndims]  # from the end
    if places[0] != places[1]:
        x1, x2 = [moveaxis(x, a, -1) for x, a in zip((x1, x2), places, strict=True)]
        return moveaxis(call(*aligned(batched, (x1, x2))), -1, axis + 1)
    return call(*aligned(batched, (x1, x2)), axis=places[0])


cross.vjp(
    x1=lambda xp, g, x2, axis: xp.linalg.cross(x2, g, axis=axis),
    x2=lambda xp, g, x1, axis: xp.linalg.cross(g, x1, axis=axis),
).vmap(_cross_vmap)


@library_function("xp.linalg")
def outer(x1, x2, /):
    """The outer product ``x1[i] * x2[j]`` of two vectors: ``(m,), (n,) -> (m, n)``."""


outer.vjp(x1=lambda xp, g, x2: xp.matmul(g, x2), x2=lambda xp, g, x1: xp.matmul(x1, g))


def _outer_vmap(call, batched, x1, x2):
    if any(len(x.shape) - b != 1 for x, b in zip((x1, x2), batched, strict=True)):
        return NotImplemented  # the call for each example then raises the error
    return multiply(expand_dims(x1, -1), expand_dims(x2, -2))


outer.vmap(_outer_vmap)


@library_function("xp.linalg", discards=True, vmap=vmap_matrices)
def diagonal(x, /, *, offset=0):
    """A diagonal of each matrix, ``offset`` columns to the right of the main diagonal.

    ``(..., m, n) -> (..., k)``, where k is the length of the diagonal.
    """


diagonal.vjp(x=lambda xp, g, x_shape, offset: _place_on_diagonal(xp, g, x_shape, offset))


@composite
def trace(x, /, *, offset=0, dtype=None):
    """Sums along a diagonal of each matrix, ``(..., m, n) -> (...)``; see `diagonal`.

    The result has dtype ``dtype``.
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)
