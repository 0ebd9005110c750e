"""A least-squares fit by Newton, Gauss-Newton and conjugate gradients, to 10 certified digits.

The data set is "Thurber" of NIST's Statistical Reference Datasets: 37 measurements of how fast
electrons drift in a semiconductor, against the logarithm of their density. NIST rates it as of
"higher level of difficulty" (https://www.itl.nist.gov/div898/strd/nls/data/thurber.shtml), and
certifies to 11 digits the parameters b of the best rational function

    y = (b1 + b2 x + b3 x² + b4 x³) / (1 + b5 x + b6 x² + b7 x³)

and their standard errors. With residuals r(b) and their Jacobian J, all methods here minimize
|r|²/2. They damp their steps p as Levenberg and Marquardt did, so that they converge even from
far away:

    Newton                H p = -Jᵀr, H = JᵀJ + Σ rᵢ ∇²rᵢ           hessian
    Gauss-Newton          the least-squares solution of J p = -r     jacobian
    conjugate gradients   the same without ever forming J, by        linearize, vjp
                          products with J and Jᵀ alone

A fit with 10⁵ parameters needs the last of these. SciPy's solver is run with the same Jacobian,
then with finite differences. The variance of the parameters is s² (JᵀJ)⁻¹, s² = |r|² / (n - 7).

The damping follows H. B. Nielsen, "Damping parameter in Marquardt's method" (1999), the
conjugate gradients Å. Björck, "Numerical Methods for Least Squares Problems" (1996).
"""

from common import Parser, panels, save_figure

import math
import time

import numpy as np
from scipy import optimize

import gpugrad as gg

# ln(density) and mobility
X = """-3.067 -2.981 -2.921 -2.912 -2.840 -2.797 -2.702 -2.699 -2.633 -2.481 -2.363 -2.322 -1.501
    -1.460 -1.274 -1.212 -1.100 -1.046 -0.915 -0.714 -0.566 -0.545 -0.400 -0.309 -0.109 -0.103
    0.010 0.119 0.377 0.790 0.963 1.006 1.115 1.572 1.841 2.047 2.200"""
Y = """80.574 84.248 87.264 87.195 89.076 89.608 89.868 90.101 92.405 95.854 100.696 101.060
    401.672 390.724 567.534 635.316 733.054 759.087 894.206 990.785 1090.109 1080.914 1122.643
    1178.351 1260.531 1273.514 1288.339 1327.543 1353.863 1414.509 1425.208 1421.384 1442.962
    1464.350 1468.705 1447.894 1457.628"""
STARTS = {
    1: [1000.0, 1000.0, 400.0, 40.0, 0.7, 0.3, 0.03],
    2: [1300.0, 1500.0, 500.0, 75.0, 1.0, 0.4, 0.05],
}
CERTIFIED = [
    1.2881396800e3,
    1.4910792535e3,
    5.8323836877e2,
    7.5416644291e1,
    9.6629502864e-1,
    3.9797285797e-1,
    4.9727297349e-2,
]
CERTIFIED_ERRORS = [
    4.6647963344,
    3.9571156086e1,
    2.8698696102e1,
    5.5675370270,
    3.1333340687e-2,
    1.4984928198e-2,
    6.5842344623e-3,
]
CERTIFIED_SUM = 5.6427082397e3


def mobility(b, x):
    """The rational function with parameters ``b (7,)`` at ``x (n,)``."""
    powers = gg.stack([x, x**2, x**3], axis=1)
    return (b[0] + powers @ b[1:4]) / (1 + powers @ b[4:])


# Each method takes a point ``b`` and returns the gradient of |r|²/2 there, and a function that
# computes the step for a given damping.


def newton(residuals, b):
    def half_square(b):
        r = residuals(b)
        return (r @ r) / 2

    gradient = gg.grad(half_square)(b)
    curvatures, vectors = gg.linalg.eigh(gg.hessian(half_square)(b))

    def step(damping):
        # Go downhill also along eigenvectors with negative or almost no curvature.
        return -vectors @ (gradient @ vectors / (gg.abs(curvatures) + damping))

    return gradient, step


def gauss_newton(residuals, b):
    r, jacobian = residuals(b), gg.jacobian(residuals)(b)

    def step(damping):
        # Append rows for the damping; QR is more accurate than the normal equations.
        damping_rows = math.sqrt(damping) * gg.eye(b.size, dtype=b.dtype, device=b.device)
        q, upper = gg.linalg.qr(gg.concat([jacobian, damping_rows]))
        return -gg.linalg.solve(upper, r @ q[: r.size])

    return jacobian.mT @ r, step


def conjugate_gradients(residuals, b):
    r, push = gg.linearize(residuals, b)
    _, pull = gg.vjp(residuals, b)

    def step(damping, tolerance=1e-12, limit=100):
        """Minimize ``|J p + r|² + damping |p|²`` (CGLS)."""
        p, rest = gg.zeros_like(b), -r
        downhill = direction = pull(rest)[0]
        square = start = downhill @ downhill
        for _ in range(limit):
            if square <= tolerance**2 * start:
                break
            along = push(direction)
            length = square / (along @ along + damping * (direction @ direction))
            p, rest = p + length * direction, rest - length * along
            downhill = pull(rest)[0] - damping * p
            before, square = square, downhill @ downhill
            direction = downhill + square / before * direction
        return p

    return pull(r)[0], step


METHODS = {
    "Newton": newton,
    "Gauss-Newton": gauss_newton,
    "conjugate gradients": conjugate_gradients,
}


def minimize(method, residuals, b, *, tolerance=1e-12, steps=200):
    """Return the points that a method visits from ``b`` to a minimum of ``|residuals|²``."""
    path, damping, growth = [b], None, 2.0
    square = (residuals(b) ** 2).sum().item()
    gradient, step = method(residuals, b)
    for _ in range(steps):
        if damping is None:
            damping = 1e-3 * gg.max(gg.abs(gradient)).item()
        p = step(damping)
        new = (residuals(b + p) ** 2).sum().item()
        predicted = (p @ (damping * p - gradient)).item()  # by how much |r|² should fall
        if gg.linalg.vector_norm(p).item() <= tolerance * gg.linalg.vector_norm(b).item():
            break
        # Accept a step whose effect is below rounding: the gradient still points the right way.
        gain = (square - new) / predicted if predicted > 1e-12 * square else 1.0
        if gain > 0:
            b, square = b + p, new
            path.append(b)
            gradient, step = method(residuals, b)
            damping, growth = damping * max(1 / 3, 1 - (2 * gain - 1) ** 3), 2.0
        else:  # the step was too long, or gave nan
            damping, growth = damping * growth, 2 * growth
    return path


def off(found, certified):
    """Return the largest relative error; the certified values are known to 5e-11."""
    return np.abs(found / np.array(certified) - 1).max()


def standard_errors(residuals, b):
    """Return the standard errors of the parameters, and their covariances, by the Jacobian."""
    r, jacobian = residuals(b), gg.jacobian(residuals)(b)
    covariance = (r @ r) / (r.size - b.size) * gg.linalg.inv(jacobian.mT @ jacobian)
    return gg.sqrt(gg.linalg.diagonal(covariance)), covariance


def by_scipy(residuals, start, device):
    """Run SciPy's Levenberg-Marquardt with gpugrad's Jacobian, and with finite differences."""

    def on_device(f):
        return lambda b: f(gg.asarray(b, device=device)).cpu().numpy()

    exact = {"method": "lm", "x_scale": "jac", "ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}
    derivatives = {
        "gpugrad's Jacobian": on_device(gg.jacobian(residuals)),
        "differences": "2-point",
    }
    for name, jac in derivatives.items():
        began = time.perf_counter()
        done = optimize.least_squares(on_device(residuals), start, jac, **exact)
        yield f"SciPy, {name}", done, time.perf_counter() - began


def draw(path, x, y, b, covariance, histories):
    figure, (left, right) = panels()
    left.plot(x.cpu().numpy(), y.cpu().numpy(), "C1o", markersize=4, label="measured")
    dense = gg.linspace(-3.2, 2.35, 300, dtype=x.dtype, device=x.device)
    slopes = gg.jacobian(mobility)(b, dense)
    spread = gg.sqrt(((slopes @ covariance) * slopes).sum(axis=1))
    curve, band = mobility(b, dense).cpu().numpy(), 10 * spread.cpu().numpy()
    grid = dense.cpu().numpy()
    left.plot(grid, curve, "C0", label="fit")
    left.fill_between(grid, curve - band, curve + band, alpha=0.25, label="± 10 standard errors")
    left.set(xlabel="ln(density)", ylabel="mobility")
    left.legend(frameon=False)
    for (name, values), style in zip(histories.items(), ["o-", "s-", "x--"], strict=True):
        right.semilogy(values, style, markersize=4, label=name)
    right.set(xlabel="step", ylabel="largest relative error of a parameter")
    right.legend(frameon=False)
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, seed=False, plot="runs/least_squares.png")
    parser.add_argument(
        "--start", type=int, choices=STARTS, default=1, help="NIST's start, 1 (default) or 2"
    )
    options = parser.parse_args()
    x, y, start = (
        gg.tensor(numbers, dtype=gg.float64, device=options.device)
        for numbers in ([*map(float, X.split())], [*map(float, Y.split())], STARTS[options.start])
    )

    def residuals(b):
        return mobility(b, x) - y

    def scaled(u):  # parameters that are all about 1, so that damping treats them alike
        return residuals(u * start)

    histories = {}
    print(f"{'':28} steps  largest relative error")
    for name, method in METHODS.items():
        began = time.perf_counter()
        path = [u * start for u in minimize(method, scaled, gg.ones_like(start))]
        seconds = time.perf_counter() - began
        histories[name] = [off(b.cpu().numpy(), CERTIFIED) for b in path]
        print(f"{name:28} {len(path) - 1:5}  {histories[name][-1]:.1e}  ({seconds:.2f} s)")
    for name, done, seconds in by_scipy(residuals, STARTS[options.start], options.device):
        print(f"{name:28} {done.nfev:5}  {off(done.x, CERTIFIED):.1e}  ({seconds:.2f} s)")

    b = path[-1]
    errors, covariance = standard_errors(residuals, b)
    square = (residuals(b) ** 2).sum().item()
    print(f"\n|r|² is {square:.7f}, certified {CERTIFIED_SUM:.7f}; the standard errors")
    print(f"differ from those certified by {off(errors.cpu().numpy(), CERTIFIED_ERRORS):.1e}")
    for i, (value, error) in enumerate(zip(b.tolist(), errors.tolist(), strict=True), 1):
        print(f"b{i} = {value:.9e} ± {error:.9e}")
    draw(options.plot, x, y, b, covariance, histories)


if __name__ == "__main__":
    main()
