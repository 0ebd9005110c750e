"""A Gaussian process predicts how far cars go on a gallon, and says how sure it is.

The miles per gallon of 392 cars are a smooth function of seven features plus noise. A Gaussian
process takes any function for possible, and nearby values for likely to be similar: the covariance
of two cars' values is

    k(x, x') = s² exp(-½ Σ (xᵢ - x'ᵢ)² / lᵢ²) + n² [x is x'].

We choose the scale s, the noise n and a length lᵢ for each feature so that the cars of the training
set are most probable. L-BFGS maximizes their log-likelihood, by its gradient through a Cholesky
factor. A feature with a long length hardly matters. A fifth of the cars is kept for the test, where
the prediction should be as far off as it says.

The method: C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning" (2006).
"""

from common import Parser, panels, positive, save_figure

from pathlib import Path

import gpugrad.numpy as np
from gpugrad.scipy.linalg import cho_solve, solve_triangular
from gpugrad.scipy.optimize import minimize

TABLE = Path(__file__).parent / "data" / "auto_mpg.csv"


def covariance(theta, x1, x2):
    """Return the covariances ``(n, m)`` of the function at ``x1 (n, d)`` and ``x2 (m, d)``."""
    scaled1, scaled2 = x1 * np.exp(-theta[2:]), x2 * np.exp(-theta[2:])
    squares = np.sum(scaled1**2, axis=1)[:, None] + np.sum(scaled2**2, axis=1)
    return np.exp(2 * theta[0] + scaled1 @ scaled2.T - squares / 2)


def factor(theta, x):
    """Return the Cholesky factor of the covariances of the measurements at ``x (n, d)``."""
    noise = (np.exp(2 * theta[1]) + 1e-8) * np.eye(len(x), device=x.device)
    return np.linalg.cholesky(covariance(theta, x, x) + noise)


def negative_log_likelihood(theta, x, y):
    """Return the negative log-likelihood of measurements ``y (n,)`` at ``x (n, d)``.

    theta: the logarithms of the scale, the noise and the d lengths.
    """
    lower = factor(theta, x)
    white = solve_triangular(lower, y, lower=True)
    return white @ white / 2 + np.sum(np.log(np.diag(lower))) + len(x) / 2 * np.log(2 * np.pi)


def predict(theta, x, y, new):
    """Return the means and standard deviations of measurements at ``new (m, d)``."""
    lower, between = factor(theta, x), covariance(theta, x, new)
    mean = between.T @ cho_solve((lower, True), y)
    explained = np.sum(solve_triangular(lower, between, lower=True) ** 2, axis=0)
    return mean, np.sqrt(np.exp(2 * theta[0]) + np.exp(2 * theta[1]) - explained)


def draw(path, names, theta, measured, mean, deviation):
    figure, (left, right) = panels()
    left.errorbar(measured, mean, 1.96 * deviation, fmt="C0o", markersize=3, elinewidth=0.5)
    ends = [measured.min(), measured.max()]
    left.plot(ends, ends, "C1")
    left.set(xlabel="miles per gallon", ylabel="predicted, with 95 % intervals")
    right.barh(names, np.exp(-theta[2:]))
    right.set(xlabel="1 / length, for features of standard deviation 1")
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, plot="runs/gaussian_process.png")
    parser.add_argument("--steps", type=positive, default=100, help="of L-BFGS, default 100")
    options = parser.parse_args()
    names = TABLE.read_text().splitlines()[0].split(",")[:-1]
    table = np.loadtxt(TABLE, delimiter=",", skiprows=1)
    table = table[np.random.default_rng(options.seed).permutation(len(table))]
    x, y = table[:, :-1], np.log(table[:, -1])
    x, middle, spread = (x - x.mean(axis=0)) / x.std(axis=0), y.mean(), y.std()
    x, y = (np.asarray(v, device=options.device) for v in (x, (y - middle) / spread))
    count = len(x) // 5
    test, train = (x[:count], y[:count]), (x[count:], y[count:])

    start = np.asarray(np.log([1.0, 0.5, *[2.0] * len(names)]), device=options.device)
    done = minimize(
        *(negative_log_likelihood, start, train), "L-BFGS-B", options={"maxiter": options.steps}
    )
    before = negative_log_likelihood(start, *train).item()
    print(f"{done.nit} steps, negative log-likelihood from {before:.2f} to {done.fun:.2f}")

    mean, deviation = predict(done.x, *train, test[0])
    within = np.mean(np.abs(test[1] - mean) < 1.96 * deviation).item()
    theta, mean, deviation, measured = (
        v.cpu().numpy() for v in (done.x, *(mean, deviation, test[1]))
    )
    mean, measured = (np.exp(v * spread + middle) for v in (mean, measured))
    error = np.sqrt(np.mean((mean - measured) ** 2))
    print(f"on {count} other cars the error is {error:.2f} miles per gallon (root mean square),")
    print(f"and {within:.1%} of them are inside of the intervals of 95 %")
    draw(options.plot, names, theta, measured, mean, deviation * spread * mean)


if __name__ == "__main__":
    main()
