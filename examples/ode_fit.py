"""Hares and lynxes: fit the parameters of a differential equation through its solver.

The Hudson's Bay Company counted the pelts that trappers sold. Over 21 years the numbers of
snowshoe hares u and Canadian lynxes v, in thousands, rise and fall as in the model of Lotka and
Volterra,

    u' = u (a - b v),    v' = v (-c + d u).

We fit a, b, c, d and the numbers in 1900 so that the logarithms of the model's numbers come
closest to those of the counts. The solver is `gpugrad.scipy.integrate.odeint`, made of ordinary
operations: the lengths of its steps are plain numbers, and everything else is in the graph. So the
loss has a gradient, for BFGS, and a Hessian, for the standard errors of the parameters. The program
computes the same gradient in four ways:

    through the solver      exact for the numbers that the solver computes; keeps all steps
    with checkpoints        keeps one state for each year, and recomputes the steps between
    by the adjoint          solves the equation λ' = -(∂f/∂z)ᵀ λ from the last year back to
                            the first, with a jump at each count; keeps one state for each year
    by differences          of SciPy's solver, to judge the other three

The counts are from C. G. Hewitt, "The Conservation of the Wild Life of Canada" (1921), as
compiled by P. Howard (2009). The error model follows B. Carpenter, "Predator-Prey Population
Dynamics: the Lotka-Volterra model in Stan" (2018). Adjoint: R. T. Q. Chen et al., "Neural Ordinary
Differential Equations" (2018).
"""

from common import Parser, measure, panels, progress_bar, save_figure

import time

import numpy as np
from scipy import integrate

import gpugrad as gg
from gpugrad.scipy.integrate import odeint
from gpugrad.scipy.optimize import minimize

YEARS = np.arange(1900, 1921)
HARES = """30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5 11.2 7.6 14.6
    16.2 24.7"""
LYNXES = """4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1
    8.6"""

NAMES = ["a", "c", "b", "d", "u in 1900", "v in 1900"]
START = [[0.5, 1.0], [0.03, 0.03], [30.0, 4.0]]
SIGNS = [[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]


def lotka_volterra(z, t, rates):
    """Return z' for ``rates`` ((a, -c), (-b, d)); it does not depend on the time."""
    return z * (rates[0] + rates[1] * gg.flip(z))


def trajectory(theta, n=21, *, spacing=1.0, rtol=1e-8, checkpoint=False, adjoint=False):
    """Return hares and lynxes ``(n, 2)`` at n times from 1900 on, ``spacing`` years apart.

    theta ``(3, 2)``: the logarithms of (a, c), (b, d) and the numbers in 1900.
    """
    values = gg.exp(theta) * gg.asarray(SIGNS, dtype=theta.dtype, device=theta.device)

    def states(start, rates, times):
        tolerances = {"rtol": rtol, "atol": rtol}
        return odeint(lotka_volterra, start, times, (rates,), adjoint=adjoint, **tolerances)

    if not checkpoint:
        return states(values[2], values[:2], [i * spacing for i in range(n)])
    path = [values[2]]
    for _ in range(n - 1):
        path.append(gg.checkpoint(lambda *a: states(*a, [0, spacing])[1], path[-1], values[:2]))
    return gg.stack(path)


def loss(theta, counts, **options):
    """Return half the sum of the squared errors of the logarithms."""
    return gg.sum((gg.log(trajectory(theta, **options)) - gg.log(counts)) ** 2) / 2


def by_scipy(theta, counts, step=1e-4):
    """Return the gradient by fourth-order differences of the loss, with SciPy's solver."""

    def value(theta):
        (a, c), (b, d), start = np.exp(theta)
        solution = integrate.solve_ivp(
            lambda t, z: [z[0] * (a - b * z[1]), z[1] * (-c + d * z[0])],
            (0, len(counts) - 1),
            start,
            "DOP853",
            range(len(counts)),
            rtol=1e-13,
            atol=1e-12,
        )
        return np.sum((np.log(solution.y.T) - np.log(counts)) ** 2) / 2

    gradient = np.empty(theta.shape)
    for place in np.ndindex(theta.shape):
        unit = np.zeros(theta.shape)
        unit[place] = step
        near, far = (value(theta + k * unit) - value(theta - k * unit) for k in (1, 2))
        gradient[place] = (8 * near - far) / (12 * step)
    return gradient


def fit(start, counts, rtol):
    """Minimize the loss by BFGS; return the parameters, and the loss after each step."""
    losses = []
    with progress_bar(None) as progress:

        def note(intermediate_result):
            losses.append(intermediate_result.fun)
            progress.set_postfix(loss=f"{losses[-1]:.4f}")
            progress.update()

        done = minimize(
            lambda theta: loss(theta, counts, rtol=rtol),
            start,
            method="BFGS",
            callback=note,
            options={"gtol": 1e-6},
        )
    return done.x, losses


def gradients(theta, counts, rtol):
    """Return functions that compute the gradient of the loss at ``theta``, by name."""
    return {
        "through the solver": lambda: gg.grad(loss)(theta, counts, rtol=rtol),
        "with checkpoints": lambda: gg.grad(loss)(theta, counts, rtol=rtol, checkpoint=True),
        "by the adjoint": lambda: gg.grad(loss)(theta, counts, rtol=rtol, adjoint=True),
    }


def compare(theta, counts, tolerances):
    """Print and return how far each gradient is from SciPy's, for each tolerance."""
    truth = by_scipy(theta.cpu().numpy(), counts.cpu().numpy())

    def off(gradient):
        return np.linalg.norm(gradient.cpu().numpy() - truth) / np.linalg.norm(truth)

    print(f"\n{'gradient, rtol 1e-8':20} {'error':>10} {'time':>9} {'memory':>10}")
    for name, way in gradients(theta, counts, 1e-8).items():
        gradient, seconds, peak = measure(way)
        print(f"{name:20} {off(gradient):10.1e} {seconds:7.3f} s {peak / 1e6:7.2f} MB")
    errors = {}
    for rtol in tolerances:
        for name, way in gradients(theta, counts, rtol).items():
            errors.setdefault(name, []).append(off(way()))
    return errors


def draw(path, theta, covariance, counts, tolerances, errors):
    figure, (left, right) = panels()
    spacing = 0.1

    def curves(theta):
        return gg.log(trajectory(theta, 201, spacing=spacing, rtol=1e-6))

    slopes = gg.jacobian(curves)(theta).reshape(201, 2, 6)
    spread = gg.sqrt(gg.sum((slopes @ covariance) * slopes, axis=2)).cpu().numpy()
    middle = curves(theta).cpu().numpy()
    times = YEARS[0] + spacing * np.arange(201)
    for i, name in enumerate(["hares", "lynxes"]):
        left.plot(YEARS, counts.cpu().numpy()[:, i], f"C{i}o", markersize=4)
        left.plot(times, np.exp(middle[:, i]), f"C{i}", label=name)
        low, high = (np.exp(middle[:, i] + k * spread[:, i]) for k in (-2, 2))
        left.fill_between(times, low, high, color=f"C{i}", alpha=0.2)
    left.set(xlabel="year", ylabel="pelts, thousands", ylim=(0, None))
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend(frameon=False, title="± 2 standard errors")
    for (name, values), style in zip(errors.items(), ["o-", "x--", "s-"], strict=False):
        right.loglog(tolerances, values, style, label=name)
    right.set(xlabel="tolerance of the solver", ylabel="relative error of the gradient")
    right.legend(frameon=False)
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, seed=False, plot="runs/ode_fit.png")
    parser.add_argument("--rtol", type=float, default=1e-6, help="for the fit, default 1e-6")
    options = parser.parse_args()
    if not 0 < options.rtol < 1:
        parser.error("--rtol must be above 0 and below 1")
    counts, start = (
        gg.tensor(numbers, dtype=gg.float64, device=options.device)
        for numbers in (
            [*zip(map(float, HARES.split()), map(float, LYNXES.split()), strict=True)],
            START,
        )
    )
    start = gg.log(start)
    began = time.perf_counter()
    theta, losses = fit(start, counts, options.rtol)
    seconds = time.perf_counter() - began
    print(f"{len(losses)} steps of BFGS in {seconds:.1f} s, loss {losses[-1]:.6f}")

    hessian = gg.hessian(loss)(theta, counts, rtol=options.rtol).reshape(6, 6)
    covariance = 2 * losses[-1] / (counts.size - 6) * gg.linalg.inv(hessian)
    spread = gg.sqrt(gg.linalg.diagonal(covariance))
    for name, log, error in zip(NAMES, theta.reshape(6), spread, strict=True):
        value = gg.exp(log).item()
        print(f"{name:10} {value:9.5f} ± {value * error.item():.5f}")

    # Compare at the start: at the minimum the gradient is 0.
    tolerances = [1e-3, 1e-4, 1e-5, 1e-7, 1e-9]
    errors = compare(start, counts, tolerances)
    draw(options.plot, theta, covariance, counts, tolerances, errors)


if __name__ == "__main__":
    main()
