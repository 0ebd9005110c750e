"""A mixture of normal distributions, fitted to points by Newton's method with conjugate gradients.

2,000 points come from five elongated clouds that overlap; the program does not tell the model which
cloud each is from. The model is a mixture of five normal distributions, and its parameters are
shares, means and triangular factors of the inverse covariances. We maximize the likelihood of the
points. Algorithms for mixtures usually alternate two steps, and are slow where clouds overlap.
Newton's method needs few steps; each solves a linear system with the Hessian by conjugate
gradients, for which products of the Hessian with vectors are enough.
`gpugrad.scipy.optimize.minimize` fills in the gradient and these products.
"""

from common import Parser, panels, positive, save_figure

import time

import gpugrad.numpy as np
from gpugrad.scipy.optimize import minimize
from gpugrad.scipy.special import logsumexp

CLOUDS = 5
START = 0.7  # the standard deviation of the clouds at first


def sample(count, generator):
    """Return points ``(count, 2)`` and the numbers of their clouds."""
    labels = generator.integers(CLOUDS, size=count)
    angles = 2 * np.pi * np.arange(CLOUDS) / CLOUDS
    outward = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    along, across = generator.normal(size=(2, count, 1)) * np.array([0.9, 0.25])[:, None, None]
    directions = outward[labels]
    turned = directions[:, ::-1] * np.array([-1.0, 1.0])
    return (2.0 + along) * directions + (across + 0.4 * along) * turned, labels


def unpacked(theta):
    """Return logarithms of the shares ``(k,)``, means ``(k, 2)`` and factors ``(k, 2, 2)``.

    theta ``(k, 6)``: each cloud's share, before it is normalized; mean; and factor, whose diagonal
        is given by its logarithms.
    """
    shares = theta[:, 0] - logsumexp(theta[:, 0])
    zero = np.zeros_like(theta[:, 0])
    rows = [[np.exp(theta[:, 3]), zero], [theta[:, 4], np.exp(theta[:, 5])]]
    factors = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    return shares, theta[:, 1:3], factors


def log_joint(theta, points):
    """Return the log-densities ``(n, k)`` of points ``(n, 2)`` that are from each cloud."""
    shares, means, factors = unpacked(theta)
    white = np.einsum("kij,nkj->nki", factors, points[:, None] - means)
    log_det = theta[:, 3] + theta[:, 5]
    return shares + log_det - np.log(2 * np.pi) - np.sum(white**2, axis=-1) / 2


def loss(theta, points):
    """Return the mean negative log-likelihood."""
    return -np.mean(logsumexp(log_joint(theta, points), axis=1))


def spread_out(points, generator):
    """Return points that are far from each other, by the choice of k-means++."""
    chosen = points[:1]
    while len(chosen) < CLOUDS:
        squares = np.min(np.sum((points[:, None] - chosen) ** 2, axis=-1), axis=1)
        pick = generator.choice(len(points), p=squares / squares.sum())
        chosen = np.vstack([chosen, points[pick]])
    return chosen


def draw(path, points, guesses, theta, history):
    figure, (left, right) = panels()
    left.scatter(*points.T, c=guesses, s=3, cmap="tab10")
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 100))
    circle = 2 * np.stack([circle.real, circle.imag])
    _, means, factors = unpacked(theta)
    for mean, factor in zip(means, factors, strict=True):
        left.plot(*(mean[:, None] + np.linalg.solve(factor, circle)), "k")
    left.set(aspect="equal")
    right.semilogy(np.array(history[:-1]) - history[-1], "o-")
    right.set(xlabel="step", ylabel="loss above its minimum")
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, plot="runs/gaussian_mixture.png")
    parser.add_argument("--points", type=positive, default=2000, help="default 2000")
    options = parser.parse_args()
    if options.points < CLOUDS:
        parser.error(f"--points must be at least {CLOUDS}, the number of the clouds")
    generator = np.random.default_rng(options.seed)
    points, labels = sample(options.points, generator)
    log_width = np.full((CLOUDS, 1), -np.log(START))
    zero = np.zeros((CLOUDS, 1))
    start = np.hstack([zero, spread_out(points, generator), log_width, zero, log_width])
    start, x = (np.asarray(v, device=options.device) for v in (start, points))

    history, began = [loss(start, x).item()], time.perf_counter()

    def note(intermediate_result):
        history.append(intermediate_result.fun)

    done = minimize(loss, start, (x,), "trust-ncg", callback=note, options={"gtol": 1e-8})
    seconds = time.perf_counter() - began
    print(f"{done.nit} steps in {seconds:.1f} s, loss from {history[0]:.4f} to {done.fun:.6f}")
    gradient = np.linalg.norm(done.jac).item()
    guesses = np.argmax(log_joint(done.x, x), axis=1).cpu().numpy()
    pure = sum(np.bincount(labels[guesses == k]).max() for k in set(guesses.tolist()))
    print(f"the gradient's length is {gradient:.1e}; {pure / len(labels):.1%} of the points are")
    print("given to the cloud that they came from")
    draw(options.plot, points, guesses, done.x.cpu().numpy(), history)


if __name__ == "__main__":
    main()
