"""`gpugrad.scipy`: values equal SciPy's, first and second derivatives equal differences."""

import numpy as np
import pytest
import scipy
from numpy.testing import assert_allclose, assert_array_equal
from samples import check_errors
from scipy import integrate, linalg, stats

import gpugrad as gg
from gpugrad.testing import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4))
POSITIVE = A @ A.T + np.eye(4)
B = RNG.normal(size=(4, 2))
BAND = np.array([[0.0], [0.0], [1.0], [0.0]])  # the main diagonal of 1 + 2
C = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
X = np.array([0.0, 0.7, 1.1, 2.0, 2.4, 3.3])
Y = RNG.normal(size=(6, 2))
PLACES = np.array([0.1, 0.95, 2.2])
ENDS = ((1, [0.5, 0.1]), (2, [-0.3, 0.2]))

# Calls as functions of SciPy, or of `gpugrad.scipy`, and of arrays. Each is compared with SciPy,
# and its derivatives with differences.
CASES = {
    "linalg.solve_triangular": [
        (lambda sp, a, b: sp.linalg.solve_triangular(a, b), POSITIVE, B),
        (lambda sp, a, b: sp.linalg.solve_triangular(a, b, 1, lower=True), POSITIVE, B[:, 0]),
        (lambda sp, a, b: sp.linalg.solve_triangular(a, b, "N", True, True), POSITIVE, B),
        (lambda sp, a, b: sp.linalg.solve_triangular(a, b, trans=2), POSITIVE + 1j * A, B + 1j),
    ],
    "linalg.solve_banded": [
        (lambda sp, ab, b: sp.linalg.solve_banded((1, 2), ab, b), A + 3 * BAND, B),
        (lambda sp, ab, b: sp.linalg.solve_banded((2, 1), ab, b), A + 3 * BAND[::-1], B[:, 0]),
        (lambda sp, ab, b: sp.linalg.solve_banded((1, 0), ab, b), 2 + A[:2] + 1j * A[2:], B + 1j),
    ],
    "linalg.cho_solve": [
        (lambda sp, a, b, lower=lower: sp.linalg.cho_solve(
             sp.linalg.cho_factor((a + a.T) / 2, lower), b,
         ),
         POSITIVE, B)
        for lower in (False, True)
    ],
    "linalg.cholesky": [(lambda sp, a: sp.linalg.cholesky((a + a.T) / 2, lower=True), POSITIVE)],
    "linalg.expm": [
        (lambda sp, a: sp.linalg.expm(a), A),
        (lambda sp, a: sp.linalg.expm(a), np.stack([C, 4 * C - 12 * np.eye(3), 0 * C])),
        (lambda sp, a: sp.linalg.expm(a), A[:2, :2] + 1j * A[2:, 2:]),
    ],
    "linalg.sqrtm": [
        (lambda sp, a: sp.linalg.sqrtm(a), POSITIVE + 0.3 * A),
        (lambda sp, a: abs(sp.linalg.sqrtm(a)) ** 2, np.diag([1.0, -2, 3]) + 0.1 * C),
    ],
    "linalg.logm": [
        (lambda sp, a: sp.linalg.logm(a), POSITIVE + 0.3 * A),
        (lambda sp, a: sp.linalg.logm(a), C + 0.3j * C.T),
    ],
    "linalg.solve_sylvester": [
        (lambda sp, a, b, q: sp.linalg.solve_sylvester(a, b, q), POSITIVE, C, A[:, :3]),
    ],
    "linalg.lu": [
        *((lambda sp, a: sp.linalg.lu(a)[1], a) for a in (A, A[:2], B)),
        *((lambda sp, a: sp.linalg.lu(a)[2], a) for a in (A, A[:2], B)),
        (lambda sp, a: sp.linalg.lu(a, permute_l=True)[0], A),
    ],
    "linalg.block_diag": [(lambda sp, *x: sp.linalg.block_diag(*x), A[:2], B, A[0])],
    "linalg.toeplitz": [
        (lambda sp, c, r: sp.linalg.toeplitz(c, r), A[0], A[1, :3]),
        (lambda sp, c: sp.linalg.toeplitz(c), A[0] + 1j * A[1]),
    ],
    "signal.convolve": [
        (lambda sp, x, y, m=m, how=how: sp.signal.convolve(x, y, m, how), *arrays)
        for how in ("direct", "fft")
        for m, *arrays in (("full", A, B),
                           ("same", A[:, :3], B), ("valid", B[:2], A),
                           ("full", A[0] + 1j * A[1], B[:, 0] + 1j * B[:, 1]))
    ],
    "signal.correlate": [
        (lambda sp, x, y: sp.signal.correlate(x, y, "same"), A, B),
        (lambda sp, x, y: sp.signal.correlate(x, y), A[0] + 1j * A[1], A[2, :2] + 1j),
    ],
    "signal.fftconvolve": [
        (lambda sp, x, y: sp.signal.fftconvolve(x, y, "same", axes=1), A[:, :3], B[:1]),
    ],
    "signal.lfilter": [
        (lambda sp, b, a, x: sp.signal.lfilter(b, a, x), B[0], C[0], A),
        (lambda sp, b, a, x: sp.signal.lfilter(b, a, x, axis=0), B[:, 0], C[0, :1], A),
        (lambda sp, b, a, x, z: sp.signal.lfilter(b, a, x, zi=z)[0], *(B[0], C[0], A[:, :3], B)),
        (lambda sp, b, a, x, z: sp.signal.lfilter(b, a, x, zi=z)[1], *(B[0], C[0], A[:, :1], B)),
    ],
    "interpolate.interp1d": [
        (lambda sp, x, y, q: sp.interpolate.interp1d(x, y)(q), X, Y.T, PLACES),
        (lambda sp, x, y, q: sp.interpolate.interp1d(
             x, y, axis=0, fill_value=(1.0, 2.0), bounds_error=False,
         )(q),
         *(X[::-1], Y, PLACES * 2 - 0.5)),
        (lambda sp, x, y, q: sp.interpolate.interp1d(
             x, y, "cubic", 0, fill_value="extrapolate", assume_sorted=True,
         )(q),
         *(X, Y, PLACES.reshape(3, 1) * 2 - 0.5)),
    ],
    "interpolate.CubicSpline": [
        *(
            (lambda sp, x, y, q, bc=bc: sp.interpolate.CubicSpline(x, y, bc_type=bc)(q),
             *(X[:n], Y[:n], PLACES))
            for n, bc in (*((n, "not-a-knot") for n in (2, 3, 4)), *((n, ENDS) for n in (2, 3)),
                          (3, ("not-a-knot", "natural")), (3, ("clamped", "not-a-knot")))
        ),
        *(
            (lambda sp, y, n=n, nu=nu: sp.interpolate.CubicSpline(
                 X[:n].tolist(), closed(sp, y), bc_type="periodic",
             )([3.1, 3.9, 5.2], nu),
             Y[:n])
            for n, nu in ((2, 0), (3, 0), (6, 0), (6, 1))
        ),
        *(
            (lambda sp, y, nu=nu: sp.interpolate.CubicSpline(X.tolist(), y, 1)(0.9, nu), Y.T)
            for nu in range(4)
        ),
    ],
    "stats.multivariate_normal": [
        (lambda sp, x, m, s: sp.stats.multivariate_normal.logpdf(x, m, (s + s.T) / 2),
         *(A[:3], A[3], POSITIVE)),
        (lambda sp, x, s: sp.stats.multivariate_normal(cov=s).pdf(x), B[:, 0], np.array(1.3)),
        (lambda sp, s: sp.stats.multivariate_normal.logpdf([0.3, 1.0], [0.0, 0.1], s),
         np.array([0.5, 2])),
        (lambda sp, s: sp.stats.multivariate_normal.logpdf(
             0.5 * s[:, 0] + s[:, 1], cov=s @ s.T, allow_singular=True,
         ),
         C[:, :2]),
        (lambda sp, s: sp.stats.multivariate_normal.entropy(cov=s @ s.T), C),
        (lambda sp, s: sp.stats.multivariate_normal(cov=s @ s.T, allow_singular=True).entropy(),
         C[:, :2]),
    ],
    "stats.dirichlet": [
        (lambda sp, a: sp.stats.dirichlet.logpdf([0.2, 0.3, 0.5], a), np.array([0.7, 2, 3])),
        (lambda sp, x, a: sp.stats.dirichlet(a).pdf(x),
         *(np.array([[0.2, 0.1], [0.3, 0.7]]), np.array([1.5, 2, 3]))),
    ],
}  # fmt: skip


def closed(sp, y):
    """Values whose last is their first."""
    return (np.concatenate if sp is scipy else gg.concat)([y[:-1, ...], y[:1, ...]])


@pytest.mark.parametrize("name", CASES)
def test_values(library, name):
    for call, *arrays in CASES[name]:
        expected, result = call(scipy, *arrays), call(gg.scipy, *map(library.tensor, arrays))
        assert result.shape == np.shape(expected)
        assert type(result.array) is type(library.tensor(1.0).array)
        assert_allclose(library.values(result), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    for call, *arrays in CASES[name]:
        inputs = [gg.tensor(x, requires_grad=True) for x in arrays]

        def function(*inputs, call=call):
            return call(gg.scipy, *inputs)

        gradcheck(function, inputs)
        gradgradcheck(function, inputs)


def test_special_functions_of_lists_and_numbers():
    own, x = gg.scipy.special, gg.tensor([0.5, 1.5], requires_grad=True, dtype=gg.float64)
    for name, args in (("erf", (0.5,)), ("gammaln", (X,)), ("beta", ([1.0, 2.0], 3))):
        result, expected = (getattr(s, name)(*args) for s in (own, scipy.special))
        assert type(result) is type(expected)
        assert_allclose(result, expected)
    for call in (
        lambda space, x: space.beta(x, [1.0, 2.0]),
        lambda space, x: space.logsumexp(x, 0, [1.0, 2.0]),
        lambda space, x: space.logsumexp([x[0], 2.0]),
        lambda space, x: space.polygamma([0, 1], x),
    ):
        expected, result = call(scipy.special, x.detach().numpy()), call(own, x)
        assert result.requires_grad
        assert_allclose(result.detach(), expected)
    for args in ((x, "a"), ()):
        with pytest.raises(TypeError):
            own.beta(*args)


@pytest.mark.parametrize("name", ["expm", "logm", "sqrtm"])
def test_functions_of_stacks_of_matrices_and_of_integers(name):
    function, reference = getattr(gg.scipy.linalg, name), getattr(linalg, name)
    stack, integers = np.stack([POSITIVE, 3 * POSITIVE]), np.array([[2, 1], [0, 3]])
    for result in (gg.vmap(function)(gg.tensor(stack)), function(gg.tensor(stack))):
        assert_allclose(result.numpy(), [reference(x) for x in stack], rtol=1e-9)
    assert_allclose(function(gg.tensor(integers)).numpy(), reference(integers), rtol=1e-6)


def test_empty_matrices():
    assert gg.scipy.linalg.expm(gg.zeros((0, 0))).shape == (0, 0)
    assert gg.scipy.linalg.solve_triangular(A, B[:, :0]).shape == (4, 0)


@pytest.mark.parametrize("solve, added", [
    (lambda sp, a, b: sp.linalg.solve_triangular(a, b, lower=True), np.eye(4)),
    (lambda sp, a, b: sp.linalg.solve_triangular(a, b, unit_diagonal=True), np.eye(4)),
    (lambda sp, a, b: sp.linalg.solve_banded((1, 2), a, b), BAND),
])  # fmt: skip
def test_stacks_of_systems(library, solve, added):
    def own(a, b):
        return solve(gg.scipy, a, b)

    a, b = np.stack([A + 3 * added, A.T + 3 * added]), np.stack([B, B - 1])
    first, matrices, sides = (library.tensor(x) for x in (a[0], a, b))
    every = np.array([[solve(scipy, x, y) for x in a] for y in b])
    both = every[[0, 1], [0, 1]]
    for result, expected in (
        (own(matrices, sides), both),
        (own(first, sides), every[:, 0]),
        (gg.vmap(own)(matrices, sides), both),
        (gg.vmap(own)(matrices, sides[..., 0]), both[..., 0]),
        (gg.vmap(own, (None, 0))(first, sides), every[:, 0]),
        (gg.vmap(own, (0, None))(matrices, sides[0, :, 0]), every[0, ..., 0]),
        (gg.vmap(own, (None, 0))(matrices, sides), every),
    ):
        assert_allclose(library.values(result), expected)


def test_triangular_systems_are_not_solved_as_full_ones(monkeypatch):
    monkeypatch.delattr(gg.backends.namespace_of[np.ndarray].linalg, "solve")
    a, b = (gg.tensor(x, requires_grad=True) for x in (POSITIVE, B))
    gg.scipy.linalg.solve_triangular(a, b, lower=True).sum().backward()
    assert np.count_nonzero(a.grad) == 10


def test_permutations():
    p, lower, upper = gg.scipy.linalg.lu(gg.tensor(A), p_indices=True)
    assert_allclose((lower[p] @ upper).numpy(), A)
    p, lower, upper = gg.scipy.linalg.lu(gg.tensor(np.stack([A, A.T])))
    assert_allclose((p @ lower @ upper).numpy(), [A, A.T])


# Distributions: shape parameters, and points where derivatives are compared.

CONTINUOUS = {
    "norm": (), "t": (2.5,), "gamma": (1.7,), "beta": (1.3, 2.2), "chi2": (3.1,), "expon": (),
    "laplace": (), "logistic": (), "lognorm": (0.8,),
}  # fmt: skip
DISCRETE = {"poisson": (3.2,), "binom": (6, 0.3), "bernoulli": (0.3,)}
OF_POINTS = ["cdf", "sf", "logcdf", "logsf"]
OF_PROBABILITIES = ["ppf", "isf"]
PROBABILITIES = np.array([-0.1, 0, 1e-12, 1e-3, 0.1, 0.5, 0.7, 0.99, 1, 1.1, np.nan])


@pytest.mark.parametrize("name", CONTINUOUS | DISCRETE)
def test_distributions(library, name):
    own, reference = getattr(gg.scipy.stats, name), getattr(stats, name)
    shapes, is_discrete = (CONTINUOUS | DISCRETE)[name], name in DISCRETE
    points = np.array([-1.0, 0, 0.2, 1, 1.5, 2, 6, 7, 40, np.nan])
    density = ["pmf", "logpmf"] if is_discrete else ["pdf", "logpdf"]
    moved = [(), (1.0,), (0.25,) if is_discrete else (0.25, 1.3), (0.0, -1.0)]
    for method in density + OF_POINTS + OF_PROBABILITIES:
        x = PROBABILITIES if method in OF_PROBABILITIES else points
        atol = 1e-15 if method.startswith("log") else 0
        for parameters in [(*shapes, *more) for more in moved[: 3 if is_discrete else 4]]:
            with np.errstate(all="ignore"):
                expected = getattr(reference, method)(x, *parameters)
            result = library.values(getattr(own, method)(library.tensor(x), *parameters))
            assert_allclose(result, expected, rtol=1e-9, atol=atol, err_msg=f"{method}{parameters}")


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTINUOUS)
def test_derivatives_of_continuous_distributions(name):
    own, shapes = getattr(gg.scipy.stats, name), CONTINUOUS[name]
    for method in ["pdf", "logpdf", *OF_POINTS, *OF_PROBABILITIES]:
        parameters = [np.array([0.3, 0.8]), *map(np.array, shapes), np.array(0.05), np.array(1.2)]
        inputs = [gg.tensor(x, requires_grad=True) for x in parameters]
        gradcheck(getattr(own, method), inputs)
        if method in ("logpdf", "cdf", "logsf"):
            gradgradcheck(getattr(own, method), inputs, atol=1e-4)


@pytest.mark.parametrize("name", CONTINUOUS | DISCRETE)
def test_random_numbers(name):
    own, reference = getattr(gg.scipy.stats, name), getattr(stats, name)
    parameters = (*CONTINUOUS[name], 0.3, 1.2) if name in CONTINUOUS else (*DISCRETE[name], 2)
    drawn = own.rvs(*parameters, size=(40, 100), random_state=3)
    assert drawn.shape == (40, 100)
    flat, expected = drawn.numpy().ravel(), reference(*parameters)
    if name in CONTINUOUS:
        assert stats.kstest(flat, expected.cdf).pvalue > 0.01
    else:
        counts, found = np.unique(flat, return_counts=True)
        assert_allclose(found / drawn.size, expected.pmf(counts), atol=0.02)
    gg.manual_seed(3)
    for again in (
        own.rvs(*parameters, 4000, random_state=gg.random.Generator(3)),
        own(*parameters).rvs(4000, 3), own(*parameters).rvs(4000),
    ):  # fmt: skip
        assert_array_equal(again.numpy(), flat)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_random_numbers_have_gradients(name):
    own = getattr(gg.scipy.stats, name)
    inputs = [np.array(x) for x in (*CONTINUOUS[name], [0.05, 0.1], 1.2)]
    inputs = [gg.tensor(x, requires_grad=True) for x in inputs]
    assert gradcheck(lambda *parameters: own.rvs(*parameters, random_state=1), inputs)
    assert own.rvs(*inputs, size=(3, 2)).shape == (3, 2)
    with pytest.raises(ValueError, match=r"broadcast"):
        own.rvs(*inputs, size=3)


def test_arguments_of_random_numbers():
    own = gg.scipy.stats
    assert own.norm.rvs(size=[2, 3]).shape == (2, 3)
    assert own.dirichlet.rvs([1.0, 2.0], size=[2, 3]).shape == (2, 3, 2)
    with pytest.raises(ValueError, match=r"^norm.rvs: size must be a shape"):
        own.norm.rvs(gg.zeros(3), size=2)
    for wrong in (np.random.default_rng(0), "x"):
        with pytest.raises(TypeError, match=r"must be a gpugrad\.random\.Generator"):
            own.norm.rvs(random_state=wrong)
    assert_array_equal(own.gamma.rvs(-1.0).numpy(), np.nan)
    cov = np.array([[1.0, 2.0], [2.0, 4.0]])
    drawn = own.multivariate_normal([1.0, 2.0], cov, True).rvs(20000, 0).numpy()
    assert_allclose(drawn[:, 1], 2 * drawn[:, 0], atol=1e-6)
    assert_allclose(np.cov(drawn.T), cov, atol=0.1)


def test_random_numbers_near_the_ends_are_finite(monkeypatch):
    monkeypatch.setattr(gg.random.Generator, "uniform", lambda self, shape, dtype: gg.zeros(shape))
    norm = gg.scipy.stats.norm
    assert_allclose(norm.rvs(gg.tensor(0.0)).item(), stats.norm.ppf(2.0**-25), rtol=1e-6)


def test_random_points():
    alpha, cov = [0.5, 2.0, 3.0], np.array([[2.0, 0.5], [0.5, 1.0]])
    found = gg.scipy.stats.dirichlet.rvs(alpha, size=20000, random_state=0).numpy()
    assert_allclose(found.sum(axis=1), 1)
    assert_allclose(found.mean(axis=0), stats.dirichlet.mean(alpha), atol=0.01)
    assert_allclose(found.var(axis=0), stats.dirichlet.var(alpha), atol=0.01)
    normal = gg.scipy.stats.multivariate_normal
    found = normal.rvs([1.0, 2.0], cov, size=20000, random_state=0).numpy()
    assert_allclose(found.mean(axis=0), [1, 2], atol=0.05)
    assert_allclose(np.cov(found.T), cov, atol=0.05)
    assert normal([1.0, 2.0], cov).rvs(None).shape == (2,)
    for name, given in (("multivariate_normal", ([1.0, 2.0], cov)), ("dirichlet", (alpha,))):
        own, reference = (getattr(space, name)(*given) for space in (gg.scipy.stats, stats))
        for size in (1, 4, (3, 4)):
            assert own.rvs(size).shape == np.shape(reference.rvs(size))


def test_singular_normal_distribution():
    given = np.array([[1.0, 1.0], [1.0, 0.9]]), None, np.ones((2, 2))
    expected = stats.multivariate_normal.logpdf(*given, allow_singular=True)
    result = gg.scipy.stats.multivariate_normal.logpdf(*given, allow_singular=True)
    assert_allclose(result.numpy(), expected)
    with pytest.raises(np.linalg.LinAlgError):
        gg.scipy.stats.multivariate_normal.logpdf(*given)


def test_gradients_outside_the_support_are_zero():
    x, own = gg.tensor(-1.0), gg.scipy.stats
    for distribution, *parameters in ((own.gamma, 0.5), (own.beta, 0.5, 0.5), (own.expon,)):
        for method in (distribution.pdf, distribution.cdf, distribution.sf):
            assert gg.grad(method)(x, *parameters).item() == 0


def test_parameters_by_name_and_frozen():
    gamma, x = gg.scipy.stats.gamma, gg.tensor([0.5, 2.0])
    expected = gamma.logpdf(x, 2.0, 0.1, 3.0)
    assert_allclose(gamma(2.0, scale=3.0, loc=0.1).logpdf(x), expected)
    assert_allclose(gamma.logpdf(x, scale=3.0, loc=0.1, a=2.0), expected)
    assert expected.dtype == gg.float32
    for call in (
        lambda: gamma.pdf(x), lambda: gamma.pdf(x, 2.0, a=1.0),
        lambda: gamma(1.0, 0.0, 1.0, 1.0), lambda: gamma.pdf(x, 2.0, rate=1.0),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"^gamma: its parameters, after the points, are \(a,"):
            call()


# Differential equations


def euler(xp, t, y, a, b):
    """A rigid body's equations, with a torque that grows."""
    return xp.stack([a * y[1] * y[2] + t * b, -y[0] * y[2], -0.5 * y[0] * y[1]])


START, TIMES, PARAMETERS = np.array([0.1, 1, 1.2]), [0.0, 0.5, 0.6, 2.0], (1.1, 0.3)


def test_complex_states():
    y0 = gg.tensor([1 + 0j, 2j], dtype=gg.complex128)
    solution = gg.scipy.integrate.solve_ivp(lambda t, y: 1j * y, (0, 2), y0, rtol=1e-6, atol=1e-8)
    assert solution.t.dtype == gg.float64
    assert_allclose(solution.y[:, -1].numpy(), y0.numpy() * np.exp(2j), rtol=1e-5)
    with pytest.raises(ValueError, match="odeint: the adjoint equation is solved for real states"):
        gg.scipy.integrate.odeint(lambda y, t: y, y0, [0, 1], adjoint=True)


@pytest.mark.parametrize("adjoint", [False, True])
def test_odeint(library, adjoint):
    expected = integrate.odeint(
        lambda t, y: euler(np, t, y, *PARAMETERS), START, TIMES, tfirst=True, rtol=1e-11, atol=1e-11
    )
    y0, *parameters = (library.tensor(np.array(x)) for x in (START, *PARAMETERS))
    result = gg.scipy.integrate.odeint(
        lambda y, t, *p: euler(gg, t, y, *p), y0, TIMES, tuple(parameters), adjoint=adjoint
    )
    assert_allclose(library.values(result), expected, atol=1e-7)


@pytest.mark.parametrize("duration", [2.0, -2.0, 0.0])
def test_odeint_forward_and_backward_in_time(duration):
    matrix, start = gg.asarray([[-0.5, 2.0], [-2.0, -0.5]], dtype=gg.float64), np.array([3.0, -1])
    states = gg.scipy.integrate.odeint(
        lambda z, t: matrix @ z, start, [0.0, duration], rtol=1e-10, atol=1e-10
    )
    turn = np.exp(duration * (-0.5 - 2j)) * (3 - 1j)
    assert_allclose(states[1].numpy(), [turn.real, turn.imag], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("adjoint", [False, True])
def test_derivatives_of_odeint(adjoint):
    def function(y0, t, rate):
        return gg.scipy.integrate.odeint(
            lambda t, y, p: p["rate"] * gg.stack([y[1], -gg.sin(y[0]) - t]), y0, t,
            ({"rate": rate, "note": None},), tfirst=True, adjoint=adjoint, rtol=1e-10, atol=1e-10,
        )  # fmt: skip

    inputs = [gg.tensor(np.array(x)).requires_grad_() for x in ([0.4, 0.1], [0.1, 0.5], 1.3)]
    gradcheck(function, inputs)
    gradgradcheck(function, inputs)


def test_solve_ivp():
    solve = gg.scipy.integrate.solve_ivp
    for span, t_eval in (((0, 3), [0, 1, 2.5]), ((0, 3), [1, 2.5]), ((3, 1), [3, 1]), ((0, 1), [])):
        for adjoint in (False, True):
            options = {"t_eval": t_eval, "args": PARAMETERS, "rtol": 1e-9, "atol": 1e-9}
            expected = integrate.solve_ivp(lambda *a: euler(np, *a), span, START, **options)
            result = solve(lambda *a: euler(gg, *a), span, START, adjoint=adjoint, **options)
            assert result.success
            assert_allclose(result.t.numpy(), t_eval)
            if t_eval:
                assert_allclose(result.y.numpy(), expected.y, atol=1e-6)
    for adjoint in (False, True):
        result = solve(lambda t, y: -y, (0, 2), [1.0, 2.0], adjoint=adjoint, max_step=0.4)
        assert_allclose(result.t[[0, -1]].numpy(), [0, 2])
        assert float(gg.diff(result.t).max()) < 0.41
        assert_allclose(result.y[0].numpy(), np.exp(-result.t.numpy()), rtol=1e-3)


def test_errors_of_solvers():
    odeint, solve_ivp = gg.scipy.integrate.odeint, gg.scipy.integrate.solve_ivp
    rate, y0 = (gg.tensor(x, requires_grad=True) for x in (1.0, [1.0]))
    check_errors(ValueError, [
        (r"odeint: the function must return the shape \(2,\)",
         lambda: odeint(lambda y, t: y[:1], [1.0, 2.0], [0.0, 2.0])),
        ("depends on a tensor from outside that requires grad",
         lambda: odeint(lambda y, t: rate * y, y0, [0.0, 1.0], adjoint=True)),
        ("must be 'RK45', not 'BDF'", lambda: solve_ivp(lambda t, y: y, (0, 1), [1.0], "BDF")),
        ("inside t_span", lambda: solve_ivp(lambda t, y: y, (0, 1), [1.0], t_eval=[2.0])),
        ("must be sorted", lambda: solve_ivp(lambda t, y: y, (0, 1), [1.0], t_eval=[1, 0.5])),
        ("max_step must be above 0", lambda: solve_ivp(lambda t, y: y, (0, 1), [1.0], max_step=-1)),
        ("t_span must be the first time and", lambda: solve_ivp(lambda t, y: y, (0, 1, 2), [1.0])),
    ])  # fmt: skip
    assert odeint(lambda y, t, k: k + 0 * y, 1.0, [0.0, 1.0], args=2.0)[1].item() > 2.9
    for slope in (lambda y, t: y * y, lambda y, t: gg.where(y > 1.5, np.nan, 1.0)):
        with pytest.raises(ArithmeticError, match=r"odeint: no step is short .* singularity"):
            odeint(slope, 1.0, [0.0, 2.0])


def test_examples_of_vmap_share_the_steps():
    y0 = gg.tensor(np.array([1.0, 2, 3]))
    states = gg.vmap(lambda y: gg.scipy.integrate.odeint(lambda y, t: -(y**2), y, [0, 1, 2]))(y0)
    t = np.array([0, 1, 2])
    assert_allclose(states.numpy(), [1 / (1 / y + t) for y in (1, 2, 3)], rtol=1e-7)


# Minimization


def rosenbrock(x, a=100.0):
    x = x.reshape(4)
    return gg.sum(a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


METHODS = """
    BFGS L-BFGS-B CG Newton-CG TNC SLSQP trust-ncg trust-krylov trust-constr dogleg trust-exact
    Nelder-Mead Powell
""".split()


@pytest.mark.parametrize("method", [None, *METHODS])
def test_minimize(library, method):
    start = library.tensor(np.array([[0.8, 1.1], [0.8, 0.7]]))
    done = gg.scipy.optimize.minimize(rosenbrock, start, 10.0, method)
    assert_allclose(library.values(done.x), np.ones((2, 2)), atol=2e-3)
    assert type(done.x.array) is type(start.array)
    if method == "L-BFGS-B":
        assert done.jac.shape == (2, 2)


def test_minimize_with_constraints_and_given_derivatives():
    minimize = gg.scipy.optimize.minimize
    constraint = {"type": "eq", "fun": lambda x: x.sum() - 1}
    done = minimize(lambda x: (x**2).sum(), [1.0, 2.0], constraints=constraint)
    assert_allclose(done.x.numpy(), [0.5, 0.5], atol=1e-6)

    def gradient(x):
        assert x.shape == (2, 1)
        return 2 * (x - 3)

    start = gg.zeros((2, 1), dtype=gg.float64)
    both = gg.value_and_grad(lambda x: gg.sum((x - 3) ** 2))
    for options in (
        {"jac": gradient},
        {"fun": lambda x: (gg.sum((x - 3) ** 2), gradient(x)), "jac": True},
        {"fun": both, "jac": True, "method": "Newton-CG"},
        {"fun": both, "jac": True, "method": "trust-exact"},
        {"method": "trust-exact", "hess": lambda x: 2 * gg.eye(2)},
        {"method": "Newton-CG", "hessp": lambda x, v: 2 * v},
        {"method": "L-BFGS-B", "bounds": [(0, 3), (0, 3)]},
    ):
        done = minimize(**{"fun": lambda x: gg.sum((x - 3) ** 2), "x0": start} | options)
        assert_allclose(done.x.numpy(), [[3], [3]], atol=1e-5)


def test_errors():
    sp = gg.scipy
    check_errors(ValueError, [
        ("trans must be 0, 1 or 2, not 3", lambda: sp.linalg.solve_triangular(A, B, 3)),
        (r"ab must be \(..., 3, n\) for 1 and 1", lambda: sp.linalg.solve_banded((1, 1), A, B)),
        ("solve_sylvester: .* do not fit", lambda: sp.linalg.solve_sylvester(A, C, B)),
        ("block_diag: all must be matrices", lambda: sp.linalg.block_diag(A[None])),
        ("convolve: .* the same number of axes", lambda: sp.signal.convolve(A, B[0])),
        ("mode must be 'full'", lambda: sp.signal.convolve(A, B, "half")),
        ("convolve: in1 and in2 must have elements", lambda: sp.signal.convolve(A[:0], A)),
        (f"zi must have length {X.size - 1}", lambda: sp.signal.lfilter(X + 1, X + 1, X, zi=X)),
        *((r"expm: A must be \(..., n, n\)", lambda a=a: sp.linalg.expm(a)) for a in (X, A[:2])),
        ("method must be 'auto'", lambda: sp.signal.convolve(A, A, method="no")),
        ("at least as long as the other", lambda: sp.signal.fftconvolve(A[:2], B, "valid")),
        ("lfilter: b and a must have 1 axis", lambda: sp.signal.lfilter(A, B[0], A)),
        ("interp1d: x must be", lambda: sp.interpolate.interp1d(X, Y[:3])),
        ("a place is outside the points", lambda: sp.interpolate.interp1d(X, X)(4.0)),
        ("kind must be", lambda: sp.interpolate.interp1d(X, X, "spline")),
        ("bc_type must be", lambda: sp.interpolate.CubicSpline(X, X, bc_type="free")),
        ("dirichlet: x must be", lambda: sp.stats.dirichlet.pdf([0.5, 0.5], A[0])),
        (r"must be \(\.\.\., 3\)", lambda: sp.stats.multivariate_normal.pdf(A, A[:3, 0])),
    ])  # fmt: skip
    with pytest.raises(IndexError, match="fftconvolve: axes: axis 5 is out of range for 2 axes"):
        sp.signal.fftconvolve(A, A, axes=5)
    for x in ([0, 2, 1, 3.0], [0, 1, 1, 3.0]):
        assert np.isnan(sp.interpolate.CubicSpline(x, x, bc_type="natural")(1.5))
    assert sp.signal.convolve(*[np.ones(99, "float16")] * 2).dtype == gg.float16
    with pytest.raises(AttributeError, match=r"write gpugrad\.linalg\.svd$"):
        sp.linalg.svd  # noqa: B018
    for module in sp.__all__:
        with pytest.raises(AttributeError, match=rf"gpugrad.scipy.{module} has no attribute 'foo'"):
            getattr(getattr(sp, module), "foo")  # noqa: B009


def test_numbers_take_the_dtype_of_arrays():
    x, interp1d = np.array([0.5]), gg.scipy.interpolate.interp1d
    for result, expected in (
        (gg.scipy.stats.norm.cdf(x, 0.1, 0.3), stats.norm.cdf([4 / 3])),
        (gg.scipy.stats.norm.cdf(0.5, 0.1, np.array(0.3)), stats.norm.cdf(4 / 3)),
        (interp1d([0.1, 0.7], [1.0, 2.0])(x), [5 / 3]),
        (interp1d(np.array([0.1, 0.7]), [1.0, 2.0])(x), [5 / 3]),
    ):
        assert result.dtype == gg.float64
        assert_allclose(result, expected)


def test_without_tensors_results_are_float64():
    norm, expm = gg.scipy.stats.norm, gg.scipy.linalg.expm
    for x in (0.5, np.array([1, 2]), [[0.5]]):
        assert (norm.cdf(x).dtype, norm.cdf(gg.asarray(x)).dtype) == (gg.float64, gg.float32)
    assert_allclose(norm.cdf(-30.0).item(), stats.norm.cdf(-30.0))
    assert [expm(x).dtype for x in ([[1, 2], [3, 4]], [[1j]])] == [gg.float64, gg.complex128]
    assert gg.grad(norm.logpdf)(0.5).dtype == gg.float32
