"""Linear algebra.

Decompositions are called in such a way that the results do not depend on the choices that a
decomposition leaves open, and that inputs are Hermitian where a function assumes it.
"""

import numpy as np

from .base import A, Case, F, S, beyond, each, in_float32, in_layouts, kink, of_shapes, unlike_torch
from .draws import integers, nonzero

inf = np.inf

# Distributions of samples.


def regular(rng, shape):
    """Matrices whose diagonal elements dominate their rows and columns, whatever is drawn.

    They are therefore far from singular, and their Hermitian parts are positive definite.
    """
    return rng.uniform(-0.6, 0.6, shape) + shape[-1] * np.eye(shape[-1])


def spaced(rng, shape):
    """Matrices whose eigenvalues and singular values are far apart, and far from 0."""
    spread = np.zeros(shape[-2:])
    np.fill_diagonal(spread, np.arange(1, 1 + min(shape[-2:])))
    return 0.2 * rng.standard_normal(shape) + spread


def near_identity(rng, shape):
    """Matrices with positive definite Hermitian parts, and determinants that fit into float32.

    This holds for matrices of 100x100 too.
    """
    n = shape[-1]
    return np.eye(n) + 0.1 * rng.standard_normal(shape) / n**0.5


def symmetric(rng, shape):
    """Like `spaced`, but with real eigenvalues."""
    return hermitian(np, spaced(rng, shape))


def square(draw=regular, sizes=(3, 1, 2, 4), **static):
    shapes = *((n, n) for n in sizes), (2, 3, 3), (2, 1, 2, 2), (0, 2, 2)
    return [S(A(*shape, draw=draw), **static) for shape in shapes]


def rectangular(draw=spaced, **static):
    shapes = (3, 3), (4, 2), (2, 4), (1, 3), (3, 1), (2, 3, 2), (2, 1, 2, 3), (0, 2, 3)
    return [S(A(*shape, draw=draw), **static) for shape in shapes]


def matrices(draw, *more, largest=100):
    """Return a function that makes samples for benchmarks, of about ``n`` elements.

    A sample is one matrix, or a stack of matrices with side ``largest``.
    """

    def sample(n):
        side = min(round(n**0.5), largest)
        stack = n // side**2
        return S(A(*[stack] * (stack > 1), side, side, draw=draw), *more)

    return sample


def complete_factors(**static):
    """Return samples for which the unitary factors have all their columns."""
    why = "PyTorch has no gradients through the columns beyond the first"
    pairs = [(s, *unlike_torch(why, s)) for s in rectangular(**static)]
    return [s if s.shapes[0][-2] == s.shapes[0][-1] else unlike for s, unlike in pairs]


# Ways to call the decompositions (`Case.through`).


def hermitian(xp, x):
    return (x + xp.conj(x).mT) / 2


def _on_hermitian(xp, function, x, **static):
    return function(hermitian(xp, x), **static)


def _eigh(xp, eigh, x):
    values, vectors = eigh(hermitian(xp, x))
    squares = vectors * (values * values)[..., None, :]
    return values, xp.abs(vectors), squares @ xp.conj(vectors).mT


def _eig(xp, eig, x):
    values, vectors = eig(x)
    squares = values * values
    weighted = xp.sum(xp.abs(vectors) ** 3 * values[..., None, :], axis=-1)
    square = (vectors * squares[..., None, :]) @ xp.linalg.inv(vectors)
    return xp.sum(squares, axis=-1), weighted, square


def _eigvals(xp, eigvals, x):
    values = eigvals(x)
    return xp.sum(values * values, axis=-1), xp.sum(values * values * values, axis=-1)


def _svd(xp, svd, x, **static):
    u, s, vh = svd(x, **static)
    k = s.shape[-1]
    u, u_rest, vh, vh_rest = u[..., :k], u[..., k:], vh[..., :k, :], vh[..., k:, :]
    rests = u_rest @ xp.conj(u_rest).mT, xp.conj(vh_rest).mT @ vh_rest
    return s, u @ vh, (u * s[..., None, :]) @ vh, xp.abs(u), *rests


def _qr(xp, qr, x, **static):
    q, r = qr(x, **static)
    k = min(x.shape[-2:])
    rest = q[..., k:]
    return q[..., :k], r, rest @ xp.conj(rest).mT


# References.


def complex_results(function):
    """Wrap a function of NumPy's whose results are real where possible, to make them complex."""

    def call(x):
        result = in_float32(function)(x)
        return tuple(y + 0j for y in result) if isinstance(result, tuple) else result + 0j

    return call


def cofactor(x):
    n, out = x.shape[-1], np.empty_like(x)
    for i, j in np.ndindex(n, n):
        minor = np.delete(np.delete(x, i, -2), j, -1)
        out[..., i, j] = (-1) ** (i + j) * in_float32(np.linalg.det)(minor)
    return out


@in_float32
def _matrix_rank(x, rtol=None):
    return np.linalg.matrix_rank(x, rtol=rtol) if x.size else np.zeros(x.shape[:-2], "int64")


def _norm_samples():
    orders = [1, 2, 3, 2.5, 0.5, -1, -2, -1.5, inf, -inf, 0]
    axes, draw = [None, 0, -1, (0, 2), (0, 1, 2), (-1,)], {"draw": nonzero}
    return [
        S(A(5, **draw)), *(S(A(2, 3, 2, **draw), axis=axis) for axis in axes),
        *(S(A(2, 3, 2, **draw), axis=axis, keepdims=True) for axis in axes),
        *(S(A(2, 3, draw=nonzero), axis=-1, ord=order) for order in orders),
        *(S(A(2, 3, draw=nonzero), ord=order) for order in orders),
        S(A(2, 3, 2, draw=nonzero), axis=(2, 0), ord=inf),
        *beyond("torch", S(A(2, 3, **draw), axis=())), S(A(**draw)),
        S(A(**draw), keepdims=True, ord=1), S(A(0)), S(A(0, 3, **draw), axis=1),
        S(A(2, draw=lambda rng, shape: np.array([300.0, -400.0]), dtype="float16")),
        kink([0.0, 0.0], gradients=([0, 0],)), kink([0.0, 3.0, -4.0], gradients=([0, 0.6, -0.8],)),
        kink([0.0, 3.0, -4.0], gradients=([0, 1, -1],), ord=1),
        kink([0.0, 3.0, -4.0], gradients=([0, 0, 0],), ord=0),
        kink([2.0, -2.0, 1.0], gradients=([0.5, -0.5, 0],), ord=inf),
        kink([1.0, -1.0, 2.0], gradients=([0.5, -0.5, 0],), ord=-inf),
        kink([0.0, 0.0], gradients=([0, 0],), ord=inf),
        kink([0.0, 0.0], gradients=([0, 0],), ord=3),
        kink([0.0, 4.0], gradients=([0, 1],), ord=0.5),
        kink([0.0, 4.0], gradients=([0, 0],), ord=-1, unlike_torch="it gives nan"),
    ]  # fmt: skip


def _matrix_norm_samples():
    orders = ["fro", "nuc", 1, -1, 2, -2, inf, -inf]
    zeros, two, halves = [[0.0, 0.0]] * 2, [[2.0, 0.0], [0.0, 2.0]], ([[0.5, 0], [0, 0.5]],)
    signs, of_signs = [[1.0, -2.0], [-2.0, 1.0]], ([[0.5, -0.5], [-0.5, 0.5]],)
    return [
        S(A(3, 3, draw=spaced)), *each("ord", {(2, 3, 2): orders, (0, 2, 3): orders}, spaced),
        *each("ord", {(2, 2, 3): orders}, spaced, keepdims=True),
        *in_layouts(S(A(3, 2, draw=spaced), ord=1)), kink(zeros, gradients=(zeros,)),
        kink(zeros, gradients=(zeros,), ord="nuc", unlike_torch="it takes the identity"),
        kink([[3.0, 0.0], [0.0, 4.0]], gradients=([[0.6, 0], [0, 0.8]],)),
        *(kink(two, gradients=halves, ord=order) for order in (2, -2)),
        *(kink(signs, gradients=of_signs, ord=order) for order in (1, -inf)),
    ]  # fmt: skip


def _solve_samples():
    a = {"draw": regular}
    shapes = [
        ((3, 3), (3,)), ((3, 3), (3, 2)), ((3, 3), (3, 1)), ((1, 1), (1,)), ((2, 3, 3), (3,)),
        ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (2, 3, 3)), ((2, 1, 2, 2), (3, 2, 1)),
        ((3, 2, 2), (2, 1)), ((2, 2, 2), (2, 2)),  # a matrix, not two vectors
        ((0, 2, 2), (2, 1)), ((2, 2), (2, 0)),
    ]  # fmt: skip
    halves = S(A(2, 2, dtype="float16", **a), F(2)), S(F(2, 2, **a), A(2, 1, dtype="float16"))
    return [*(S(A(*s1, **a), A(*s2)) for s1, s2 in shapes), *halves]


def _torch_solve(torch, x1, x2):
    return torch.linalg.solve(x1, x2[None] if x2.ndim > 1 and x1.ndim - 1 == x2.ndim else x2)


def _power_samples():
    def draw(rng, shape):
        return regular(rng, shape) / shape[-1]

    calls = [((2, 2), n) for n in (2, 0, 1, 3, 5, 6, -1, -2, -3)]
    calls += [((2, 3, 3), 3), ((2, 3, 3), -2), ((1, 1), 4), ((0, 2, 2), 2)]
    return [S(A(*shape, draw=draw), n) for shape, n in calls]


def _cross_samples():
    pairs = [(3,), (3,)], [(2, 3), (2, 3)], [(2, 3), (3,)], [(3,), (2, 3)], [(4, 1, 3), (2, 3)]
    others = of_shapes([(3, 2), (3, 2)], [(4, 3, 1), (3, 2)], axis=-2)
    return [*of_shapes(*pairs, [(0, 3), (3,)]), *others]


def _diagonal_samples():
    offsets = [0, 1, -1, 2, -2]
    plain = of_shapes([(3, 3)], [(1, 1)], [(0, 3)], [(2, 0, 0)], [(0, 2, 3)])
    return [*each("offset", {(3, 4): offsets, (2, 4, 2): offsets, (2, 3): [3, -2]}), *plain]


def _case(name, samples, reference="", torch=True, draw=None, **options):
    """Return a case; for benchmarks, its matrices come from ``draw``."""
    options.setdefault("sized", matrices(draw) if draw else None)
    options = {"complex": True, "relative_to": "matrix"} | options
    return Case(f"linalg.{name}", samples, reference, torch, **options)


CASES = [
    _case("inv", square(), draw=near_identity),
    _case("solve", _solve_samples(), torch=_torch_solve,
          sized=lambda n: S(*(matrices(near_identity)(n).inputs * 2))),
    _case("det", square(), draw=near_identity),
    _case("cofactor", square(spaced, sizes=(3, 1, 2, 4, 5)), cofactor, torch=None),
    _case("slogdet", square(), draw=near_identity),
    _case("pinv", [*rectangular(), S(A(3, 2, draw=spaced), rtol=1e-3)], draw=spaced),
    _case("matrix_power", _power_samples(), sized=matrices(near_identity, 3)),
    _case("matrix_rank", [
        *rectangular(), S(A(2, 0)), S(A(3, 3, draw=lambda rng, shape: np.ones(shape))),
        S(A(3, 2, draw=spaced), rtol=0.6), S(A(2, 3, 3, draw=spaced), rtol=np.array([0.5, 1e-3])),
    ], _matrix_rank, torch=None, complex=False, differentiable=False),
    _case("cholesky", square() + square(upper=True), through=_on_hermitian, draw=near_identity),
    _case("qr", rectangular() + complete_factors(mode="complete"), through=_qr, draw=spaced),
    _case("eigh", square(spaced), through=_eigh, draw=spaced),
    _case("eigvalsh", square(spaced), through=_on_hermitian, draw=spaced),
    *(
        _case(name, square(spaced), complex_results(getattr(np.linalg, name)), through=through,
              sized=matrices(symmetric, largest=30))
        for name, through in (("eig", _eig), ("eigvals", _eigvals))
    ),
    _case("svd", complete_factors() + rectangular(full_matrices=False), through=_svd, draw=spaced),
    _case("svdvals", rectangular(), draw=spaced),
    _case("vector_norm", _norm_samples(),
          torch=lambda torch, x, axis=None, keepdims=False, ord=2: torch.linalg.vector_norm(
              x, ord, axis, keepdims), relative_to="element"),
    _case("matrix_norm", _matrix_norm_samples()),
    _case("cross", _cross_samples(),
          torch=lambda torch, x1, x2, axis=-1: torch.linalg.cross(
              *torch.broadcast_tensors(x1, x2), dim=axis),
          relative_to="element", sized=lambda n: S(A(max(n // 3, 1), 3), A(max(n // 3, 1), 3))),
    Case("linalg.outer", [
        *of_shapes([(2,), (3,)], [(1,), (1,)], [(0,), (2,)]), S(F(3), A(2, draw=integers(0, 5))),
    ], "outer", torch="outer", complex=True, sized=lambda n: S(A(round(n**0.5)), A(round(n**0.5)))),
    _case("diagonal", _diagonal_samples(),
          torch=lambda torch, x, offset=0: torch.diagonal(x, offset, -2, -1),
          relative_to="element"),
    _case("trace", [*_diagonal_samples(), S(F(2, 2), dtype=np.dtype("float64"))],
          torch=lambda torch, x, offset=0: torch.diagonal(x, offset, -2, -1).sum(-1),
          relative_to="element"),
]  # fmt: skip
