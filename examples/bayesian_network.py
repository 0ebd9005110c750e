"""A Bayesian neural network, by variational inference: it is less sure where it has seen no data.

A network with two hidden layers learns a curve from 60 noisy points, which leave a gap. Bayes'
rule asks for all weights that explain the points, rather than for the best ones. We approximate
their distribution by independent normal distributions, whose means and standard deviations
maximize a lower bound of the points' probability:

    E[log p(points | weights)] - KL(approximation || prior).

The expectation is a mean over a few draws, mean + deviation * noise, so that its gradient is
known (D. P. Kingma and M. Welling, "Auto-Encoding Variational Bayes", 2014). The curves of these
draws agree near the points and differ where there are none, though less than they should:
independent distributions are too sure of themselves.
"""

from common import Parser, panels, positive, progress_bar, save_figure

from itertools import pairwise

import gpugrad
import gpugrad.numpy as np
from gpugrad import optim
from gpugrad.nn import Parameter
from gpugrad.scipy.stats import norm

SIZES = [1, 16, 16, 1]
SHAPES = [shape for n, m in pairwise(SIZES) for shape in ((n, m), (1, m))]
NOISE = 0.1  # the standard deviation of the measurements
DRAWS = 16


def truth(x):
    return np.sin(2 * x) + 0.3 * x


def network(weights, x):
    """Return the outputs ``(draws, n)`` at ``x (n,)`` for weights ``(draws, size)``."""
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])
    pieces = np.split(weights, ends[:-1], axis=1)
    layers = [np.reshape(w, (-1, *shape)) for w, shape in zip(pieces, SHAPES, strict=True)]
    y = x[:, None]
    for matrix, bias in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        y = np.maximum(y @ matrix + bias, 0)
    return (y @ layers[-2] + layers[-1])[..., 0]


def draw_weights(mean, log_deviation, count):
    noise = gpugrad.random.normal((count, mean.size), dtype=mean.dtype, device=mean.device)
    return mean + np.exp(log_deviation) * noise


def lower_bound(mean, log_deviation, x, y):
    """Return the bound for measurements ``y (n,)`` at ``x (n,)``; the weights' prior is N(0, 1)."""
    weights = draw_weights(mean, log_deviation, DRAWS)
    likelihood = norm.logpdf(y, network(weights, x), NOISE)
    divergence = np.sum((np.exp(2 * log_deviation) + mean**2 - 1) / 2 - log_deviation)
    return np.mean(np.sum(likelihood, axis=1)) - divergence


def draw(path, x, y, grid, outputs, history):
    figure, (left, right) = panels()
    middle, spread = outputs.mean(axis=0), np.sqrt(outputs.var(axis=0) + NOISE**2)
    left.fill_between(grid, middle - 2 * spread, middle + 2 * spread, alpha=0.2)
    left.plot(grid, outputs[:10].T, "C0", linewidth=0.5)
    left.plot(grid, truth(grid), "k--", label="truth")
    left.plot(x, y, "C1o", markersize=3, label="points")
    left.legend(frameon=False)
    left.set(ylim=(-3, 3))
    right.plot(history)
    shown = history[len(history) // 10 :]
    right.set(xlabel="step", ylabel="lower bound", ylim=(min(shown), max(shown) + 10))
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, plot="runs/bayesian_network.png")
    parser.add_argument("--steps", type=positive, default=4000, help="default 4000")
    options = parser.parse_args()
    generator = np.random.default_rng(options.seed)
    gpugrad.random.manual_seed(options.seed)
    x = np.concatenate([generator.uniform(-2, -0.6, 30), generator.uniform(0.6, 2, 30)])
    y = truth(x) + NOISE * generator.normal(size=60)
    size = sum(np.prod(shape) for shape in SHAPES)
    mean, log_deviation = (
        Parameter(np.asarray(v, device=options.device))
        for v in (0.5 * generator.normal(size=size), np.full(size, -3.0))
    )
    points = [np.asarray(v, device=options.device) for v in (x, y)]
    optimizer = optim.Adam([mean, log_deviation], lr=0.01, maximize=True)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    history = []
    with progress_bar(options.steps) as bar:
        for _ in range(options.steps):
            optimizer.zero_grad()
            bound = lower_bound(mean, log_deviation, *points)
            bound.backward()
            optimizer.step()
            scheduler.step()
            history.append(bound.detach())
            bar.update()
    history = np.stack(history).cpu().numpy()
    tenth = max(len(history) // 10, 1)
    print(f"lower bound from {history[:tenth].mean():.1f} to {history[-tenth:].mean():.1f}")
    grid = np.linspace(-3, 3, 301)
    with gpugrad.no_grad():
        weights = draw_weights(mean, log_deviation, 500)
        outputs = network(weights, np.asarray(grid, device=options.device)).cpu().numpy()
    spread, seen = outputs.std(axis=0), (np.abs(grid) > 0.6) & (np.abs(grid) < 2)
    errors = np.abs(outputs.mean(axis=0) - truth(grid))
    print(f"standard deviation of the curve: {spread[seen].mean():.3f} among the points, where the")
    print(f"mean is off by {errors[seen].mean():.3f}; {spread[~seen].mean():.3f} elsewhere")
    draw(options.plot, x, y, grid, outputs, history)


if __name__ == "__main__":
    main()
