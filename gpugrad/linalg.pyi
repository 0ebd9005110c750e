# Written by tests/write_stubs.py.

from typing import Any, NamedTuple

from ._ops import matmul as matmul
from ._ops import matrix_transpose as matrix_transpose
from ._ops import tensordot as tensordot
from ._ops import vecdot as vecdot
from ._tensor import Tensor as Tensor
from ._typing import Array

def cholesky(x: Array, /, *, upper: bool = False) -> Tensor:
    """Lower triangular L such that ``x = L @ L^H``; if ``upper``, U such that ``x = U^H @ U``.

    ``(..., m, m) -> (..., m, m)``. The matrices are assumed to be Hermitian, and the gradient is
    Hermitian too. A matrix that is not positive definite raises an error.
    (Murray 2016, "Differentiation of the Cholesky decomposition")
    """

def cofactor(x: Array, /) -> Tensor:
    """Cofactor matrices, ``det(x) * inv(x)^T``, of square matrices, which may be singular.

    ``(..., m, m) -> (..., m, m)``. The gradient is right for singular matrices too. Second and
    higher derivatives are right everywhere for matrices up to 3x3; for larger ones they go through
    the singular value decomposition, `svd`, and require distinct singular values.
    """

def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Tensor:
    """Cross products of 3-element vectors along ``axis``; the other axes broadcast.

    ``(..., 3), (..., 3) -> (..., 3)`` for the last axis.
    """

def det(x: Array, /) -> Tensor:
    """Determinants of square matrices, ``(..., m, m) -> (...)``.

    The gradient is the matrix of cofactors, `cofactor`, which is right for singular matrices too.
    """

def diagonal(x: Array, /, *, offset: int = 0) -> Tensor:
    """A diagonal of each matrix, ``offset`` columns to the right of the main diagonal.

    ``(..., m, n) -> (..., k)``, where k is the length of the diagonal.
    """

class _EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

def eig(x: Array, /) -> _EigResult:
    """Eigenvalues (..., n) and eigenvectors (..., n, n), in columns of norm 1; both are complex.

    The array library determines their order. Gradients through eigenvectors are right only for
    functions that do not depend on their phases; for equal eigenvalues, see
    `gpugrad.ops.linalg`. For a matrix that cannot be diagonalized there is no gradient:
    backward raises an error or, because of rounding, gives huge values.
    """

class _EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

def eigh(x: Array, /) -> _EighResult:
    """Eigenvalues (..., n), ascending, and eigenvectors (..., n, n), in columns, of Hermitian
    or real symmetric matrices.

    The matrices are assumed to be Hermitian, and the gradient is Hermitian too. Gradients
    through eigenvectors are right only for functions that do not depend on their signs or
    phases; for equal eigenvalues, see `gpugrad.ops.linalg`.
    """

def eigvals(x: Array, /) -> Tensor:
    """Eigenvalues (..., n), complex, in the array library's order.

    For a matrix that cannot be diagonalized there is no gradient; see `eig`.
    """

def eigvalsh(x: Array, /) -> Tensor:
    """Eigenvalues (..., n), ascending, of Hermitian or real symmetric matrices.

    The matrices are assumed to be Hermitian, and the gradient is Hermitian too. Where
    eigenvalues are equal, it is right for functions that are symmetric in them.
    """

def inv(x: Array, /) -> Tensor:
    """Inverses of square matrices, ``(..., m, m) -> (..., m, m)``.

    A singular matrix raises an error.
    """

def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """Norms of matrices, ``(..., m, n) -> (...)``.

    ord: ``"fro"`` (or None) for the square root of the sum of squares, ``"nuc"`` for the sum of
        singular values, 2 and -2 for the largest and the smallest singular value, 1 and -1 for
        the largest and the smallest column sum of magnitudes, inf and -inf for row sums.

    A tie shares its gradient evenly; elements, or singular values, of exactly 0 have gradient 0.
    """

def matrix_power(x: Array, n: int, /) -> Tensor:
    """Integer powers of square matrices; negative powers are powers of the inverses.

    ``(..., m, m) -> (..., m, m)``. The power 0 is the identity matrix, and has the gradient 0.
    """

def matrix_rank(x: Array, /, *, rtol: Array | float | None = None) -> Tensor:
    """The number of singular values that exceed ``rtol`` times the largest.

    For matrices (..., m, n) the default ``rtol`` is ``max(m, n)`` times the dtype's epsilon.
    """

def outer(x1: Array, x2: Array, /) -> Tensor:
    """The outer product ``x1[i] * x2[j]`` of two vectors: ``(m,), (n,) -> (m, n)``."""

def pinv(x: Array, /, *, rtol: Array | float | None = None) -> Tensor:
    """Pseudo-inverses (Moore-Penrose), ``(..., m, n) -> (..., n, m)``.

    Singular values of at most ``rtol`` times the largest count as 0; the default ``rtol`` is
    ``max(m, n)`` times the dtype's epsilon. The gradient treats the rank as constant: where
    the rank changes, the pseudo-inverse is discontinuous. (Golub and Pereyra 1973)
    """

class _QrResult(NamedTuple):
    Q: Tensor
    R: Tensor

def qr(x: Array, /, *, mode: str = "reduced") -> _QrResult:
    """Unitary Q and upper triangular R of ``x = Q @ R``, for ``x`` (..., m, n) of any shape.

    mode: ``"reduced"`` for Q (..., m, k) and R (..., k, n), where k = min(m, n), or
        ``"complete"`` for Q (..., m, m) and R (..., m, n).

    The first k columns of ``x`` must be linearly independent. Otherwise there is no gradient:
    backward raises an error or, where rounding hides the dependence, gives arbitrary values.
    Columns of Q beyond the n-th are an arbitrary basis of the orthogonal complement.
    (Roberts and Roberts 2020, "QR and LQ decomposition matrix backpropagation algorithms")
    """

class _SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

def slogdet(x: Array, /) -> _SlogdetResult:
    """Signs of determinants (phases, for complex matrices) and logarithms of their magnitudes.

    Both are ``(...)`` for matrices ``(..., m, m)``. For a singular matrix the sign is 0, the
    logarithm is -inf, and backward raises an error.
    """

def solve(x1: Array, x2: Array, /) -> Tensor:
    """The solutions of ``x1 @ x = x2``: ``(..., m, m), (..., m, k) -> (..., m, k)``.

    Leading axes broadcast. A 1-D ``x2`` counts as one column, whose axis is then dropped from
    the result. A singular ``x1`` raises an error.
    """

class _SvdResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

def svd(x: Array, /, *, full_matrices: bool = True) -> _SvdResult:
    """Singular value decomposition ``x = U @ diag(S) @ Vh``, with S descending.

    For ``x`` (..., m, n), U is (..., m, m), S is (..., k), where k = min(m, n), and Vh is
    (..., n, n). Without ``full_matrices``, only the first k columns of U and the first k rows of
    Vh are returned; the others are an arbitrary basis of the orthogonal complement.

    Gradients through U and Vh are right only for functions that do not depend on the sign or
    phase that a column of U and its row of Vh share; for equal singular values, see
    `gpugrad.ops.linalg`. Terms divided by a singular value of exactly 0 are left out.
    """

def svdvals(x: Array, /) -> Tensor:
    """Singular values (..., min(m, n)), descending.

    The formula of the gradient is that for distinct positive values. Where some are equal, it is
    right for functions that are symmetric in them. At 0 it gives a subgradient, as for a norm.
    """

def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """Sums along a diagonal of each matrix, ``(..., m, n) -> (...)``; see `diagonal`.

    The result has dtype ``dtype``.
    """

def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """Vector norms of any order, ``sum(abs(x) ** ord) ** (1 / ord)``.

    axis: None (all axes), an int or a tuple.
    ord: 0 counts the elements that are not 0, with gradient 0; inf and -inf give the largest and
        the smallest magnitude, and a tie shares its gradient evenly.

    Elements of exactly 0 have gradient 0.
    """
