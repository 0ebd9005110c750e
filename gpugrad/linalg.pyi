# Written by tests/write_stubs.py.

from typing import Any, NamedTuple

from ._ops import matmul as matmul
from ._ops import matrix_transpose as matrix_transpose
from ._ops import tensordot as tensordot
from ._ops import vecdot as vecdot
from ._typing import Array
from .tensor import Tensor as Tensor

def cholesky(x: Array, /, *, upper: bool = False) -> Tensor:
    """Triangular L of positive definite matrices ``L @ L^H``, or U of ``U^H @ U`` if ``upper``.

    The matrices are taken to be Hermitian, and so is the gradient. One that is not positive
    definite is an error. (Murray 2016, "Differentiation of the Cholesky decomposition")
    """

def cofactor(x: Array, /) -> Tensor:
    """Matrices of cofactors, ``det(x) * inv(x)^T``, of square matrices, singular ones among them.

    The gradient is right for singular matrices too. Second and higher derivatives are, up to
    3x3, right everywhere; of larger matrices they are taken through the singular value
    decomposition, `svd`, and want distinct singular values.
    """

def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Tensor:
    """Cross products of vectors of length 3 along ``axis``; other axes broadcast."""

def det(x: Array, /) -> Tensor:
    """Determinants of square matrices.

    The gradient is the matrix of cofactors, `cofactor`: right for singular matrices too.
    """

def diagonal(x: Array, /, *, offset: int = 0) -> Tensor:
    """The elements of a diagonal of each matrix: ``offset`` of them right of the main one."""

class _EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

def eig(x: Array, /) -> _EigResult:
    """Eigenvalues (..., n) and eigenvectors (..., n, n), columns of length 1; both are complex.

    Their order is the array library's. Gradients through eigenvectors want functions that do
    not depend on their phases; where eigenvalues are equal, see `gpugrad.ops.linalg`. A
    matrix that lacks eigenvectors has no gradient: it is an error or, up to rounding, huge.
    """

class _EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

def eigh(x: Array, /) -> _EighResult:
    """Eigenvalues (..., n), ascending, and eigenvectors (..., n, n), in columns, of Hermitian
    or real symmetric matrices.

    The matrices are taken to be Hermitian, and so is the gradient. Gradients through
    eigenvectors want functions that do not depend on their signs or phases; where
    eigenvalues are equal, see `gpugrad.ops.linalg`.
    """

def eigvals(x: Array, /) -> Tensor:
    """Eigenvalues (..., n), complex, in the array library's order.

    A matrix that lacks eigenvectors has no gradient: it is an error or, up to rounding, huge.
    """

def eigvalsh(x: Array, /) -> Tensor:
    """Eigenvalues (..., n), ascending, of Hermitian or real symmetric matrices.

    The matrices are taken to be Hermitian, and so is the gradient. Where eigenvalues are
    equal, it is right of functions that are symmetric in them.
    """

def inv(x: Array, /) -> Tensor:
    """Inverses of square matrices. A singular one is an error."""

def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """Norms of matrices (..., m, n).

    ord: ``"fro"`` (or None) for the root of the sum of squares, ``"nuc"`` for the sum of
        singular values, 2 and -2 for the largest and the smallest of them, 1 and -1 for the
        largest and the smallest sum of a column's magnitudes, inf and -inf for rows.

    Ties share the gradient evenly; elements, or singular values, of exactly 0 have gradient 0.
    """

def matrix_power(x: Array, n: int, /) -> Tensor:
    """Integer powers of square matrices; negative ones of the inverses."""

def matrix_rank(x: Array, /, *, rtol: Array | float | None = None) -> Tensor:
    """How many singular values exceed ``rtol`` times the largest.

    The default ``rtol`` is ``max(m, n)`` times the dtype's epsilon.
    """

def outer(x1: Array, x2: Array, /) -> Tensor:
    """Products of each element of one vector with each of another: ``(m,), (n,) -> (m, n)``."""

def pinv(x: Array, /, *, rtol: Array | float | None = None) -> Tensor:
    """Pseudo-inverses (Moore-Penrose), ``(..., m, n) -> (..., n, m)``.

    Singular values of at most ``rtol`` times the largest count as 0; by default it is
    ``max(m, n)`` times the dtype's epsilon. The gradient takes the rank as constant: where
    it is not, near a matrix of lower rank, the pseudo-inverse is discontinuous.
    (Golub and Pereyra 1973)
    """

class _QrResult(NamedTuple):
    Q: Tensor
    R: Tensor

def qr(x: Array, /, *, mode: str = "reduced") -> _QrResult:
    """Unitary Q and upper triangular R of ``x = Q @ R``, for ``x`` (..., m, n) of any shape.

    mode: ``"reduced"`` for Q (..., m, k) and R (..., k, n), where k = min(m, n), or
        ``"complete"`` for Q (..., m, m) and R (..., m, n).

    The first k columns of ``x`` must be linearly independent: where they are not, there is no
    gradient, and backward raises or, where they are so only up to rounding, gives arbitrary
    values. Columns of Q beyond the n-th are any basis of what is left.
    (Roberts and Roberts 2020, "QR and LQ decomposition matrix backpropagation algorithms")
    """

class _SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

def slogdet(x: Array, /) -> _SlogdetResult:
    """Signs of determinants, of complex ones phases, and the logarithms of their magnitudes.

    Of a singular matrix the sign is 0 and the logarithm -inf, and backward raises.
    """

def solve(x1: Array, x2: Array, /) -> Tensor:
    """The solutions of ``x1 @ x = x2``: ``(..., m, m), (..., m, k) -> (..., m, k)``.

    Leading axes broadcast; a 1-D ``x2`` is one column, and that axis is missing from the
    result. A singular ``x1`` is an error.
    """

class _SvdResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

def svd(x: Array, /, *, full_matrices: bool = True) -> _SvdResult:
    """Singular value decomposition ``x = U @ diag(S) @ Vh``, S descending.

    For ``x`` (..., m, n) U is (..., m, m), S (..., k) with k = min(m, n) and Vh (..., n, n);
    without ``full_matrices`` only the first k columns of U and rows of Vh are there. Those
    beyond are any basis of what is left.

    Gradients through U and Vh want functions that do not depend on the sign or phase that a
    column of U and its row of Vh have in common; where singular values are equal, see
    `gpugrad.ops.linalg`. Terms divided by a singular value of exactly 0 are left out.
    """

def svdvals(x: Array, /) -> Tensor:
    """Singular values (..., min(m, n)), descending.

    The gradient is that of distinct positive ones; where some are equal, it is right of
    functions that are symmetric in them, and at 0 it is one of many, as those of a norm are.
    """

def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums along a diagonal of each matrix; see `diagonal`. ``dtype`` is the result's."""

def vector_norm(
    x: Array,
    /,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Tensor:
    """Norms of vectors along ``axis``, None for all, an int or a tuple: of any order.

    ``sum(abs(x) ** ord) ** (1 / ord)``; of order 0 the number of elements that are not 0,
    which has no slope; of inf and -inf the largest and the smallest magnitude, a tie of which
    shares its gradient evenly. Elements of exactly 0 have gradient 0.
    """
