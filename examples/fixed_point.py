"""Learn how strongly to regularize each pixel, with gradients through a fixed point.

A linear classifier of handwritten digits has weights z (65, 10): one row for each pixel and one
for the constants. They minimize the cross-entropy on 200 digits, 20 of which are mislabelled,
plus Σ sⱼ zⱼ²/2. How large should the strengths s = exp(θ) be? We choose them to minimize the
loss on 600 other digits, so one minimization is nested in another. The inner minimum is a fixed
point of Böhning's descent, in which B bounds the second derivatives of the cross-entropy:

    z = f(θ, z),    where f(θ, z) = z - (B + diag s)⁻¹ ∇(loss of z).

By the implicit function theorem, the cotangent v of z pulls back to (∂f/∂θ)ᵀ w, where
w = v + (∂f/∂z)ᵀ w is itself a fixed point. With `custom_vjp` this takes a few lines. It does not
matter how z was found: here Anderson acceleration finds it, and the graph keeps none of its
steps. Since the same function finds w, its derivatives are available too, to any order:

    one strength for all pixels     Newton's method, with second derivatives
    one strength for each pixel     BFGS, with 64 first derivatives

The alternative is to differentiate through the steps of the descent. That keeps all of them in
memory, and is only as accurate as the last step. The right-hand picture compares the two.

Implicit differentiation: M. Blondel et al., "Efficient and Modular Implicit Differentiation"
(2022). Descent: D. Böhning, "Multinomial Logistic Regression Algorithm" (1992). Acceleration:
H. F. Walker and P. Ni, "Anderson Acceleration for Fixed-Point Iterations" (2011).
"""

from common import Parser, measure, panels, positive, progress_bar, save_figure

from typing import NamedTuple

import numpy as np

import gpugrad as gg
from gpugrad import data
from gpugrad.nn.functional import cross_entropy, softmax
from gpugrad.scipy.optimize import minimize


def fixed_point(f, theta, start):
    """Solve ``f(theta, z) = z`` for ``z``, differentiable with respect to ``theta`` to any order.

    theta: an array or nested containers of arrays.
    start: an array, the first guess of ``z``.
    """

    @gg.custom_vjp
    def solution(theta):
        with gg.no_grad():
            return accelerated(lambda z: f(theta, z), start.detach())

    def forward(theta):
        z = solution(theta)
        return z, (theta, z)

    def backward(kept, v):
        theta, z = kept

        def adjoint(kept, w):
            theta, z, v = kept
            _, pull = gg.vjp(lambda z: f(theta, z), z)
            return v + pull(w)[0]

        w = fixed_point(adjoint, (theta, z, v), v)
        _, pull = gg.vjp(lambda theta: f(theta, z), theta)
        return pull(w)

    solution.defvjp(forward, backward)
    return solution(theta)


def accelerated(f, z, *, tolerance=1e-9, memory=30, limit=2000):
    """Find the fixed point of ``f`` from the guess ``z``, or raise `ArithmeticError`.

    Anderson acceleration combines the last steps so that the residual f(z) - z is smallest.
    """
    shape, images, residuals = z.shape, [], []
    for _ in range(limit):
        image = f(z).reshape(-1)
        residual = image - z.reshape(-1)
        largest = gg.max(gg.abs(residual)).item()
        if largest <= tolerance * max(1.0, gg.max(gg.abs(image)).item()):
            return image.reshape(shape)
        images, residuals = [*images, image][-memory:], [*residuals, residual][-memory:]
        if len(images) > 1:
            changes = gg.diff(gg.stack(residuals, axis=1), axis=1)
            # Scale each to length 1, since the latest are by far the shortest.
            sizes = gg.maximum(gg.linalg.vector_norm(changes, axis=0), 1e-300)
            weights = gg.linalg.pinv(changes / sizes, rtol=1e-12) @ residual / sizes
            image = image - gg.diff(gg.stack(images, axis=1), axis=1) @ weights
        z = image.reshape(shape)
    raise ArithmeticError(f"after {limit} steps f(z) still differs from z by {largest:.1e}")


class Part(NamedTuple):
    """A set of digits: their pixels and a column of ones ``(n, 65)``, and labels ``(n,)``."""

    inputs: gg.Tensor
    labels: gg.Tensor

    def loss(self, z):
        return cross_entropy(self.inputs @ z, self.labels)

    def accuracy(self, z):
        return gg.mean((gg.argmax(self.inputs @ z, axis=1) == self.labels) * 1.0).item()


def load(seed, device):
    """Return three sets of digits: for the weights, for the strengths, and for the test."""
    digits, others = data.digits()
    order = np.random.default_rng(seed).permutation(len(digits))

    def part(dataset, chosen):
        images, labels = (x.numpy()[chosen] for x in dataset.tensors)
        ones = np.ones((len(images), 1))
        inputs = np.concatenate([images.reshape(len(images), -1), ones], axis=1)
        return Part(gg.asarray(inputs, device=device), gg.asarray(labels, device=device))

    training = part(digits, order[:200])
    training.labels[:20] = (training.labels[:20] + 1) % 10  # wrong on purpose
    return training, part(digits, order[200:800]), part(others, slice(None))


class Classifier:
    """The weights that minimize the regularized loss on a set of digits, given the strengths."""

    def __init__(self, part):
        inputs, labels = part
        self.inputs = inputs
        self.truth = (labels[:, None] == gg.arange(10, device=inputs.device)) * 1.0
        # This bounds the Hessian of the loss for each class, so the descent converges.
        self.bound = inputs.mT @ inputs / (2 * len(inputs))
        self.eye = gg.eye(inputs.shape[1], dtype=inputs.dtype, device=inputs.device)
        self.zeros = gg.zeros((inputs.shape[1], 10), dtype=gg.float64, device=inputs.device)

    def descend(self, theta, z):
        """Take one step of the descent; theta ``()`` or ``(64,)`` is the logs of the strengths."""
        strengths = gg.broadcast_to(gg.exp(theta), (64,))
        # The constants need no regularization, so their strength is small.
        strengths = gg.concat([strengths, gg.full_like(strengths[:1], 1e-3)])[:, None]
        errors = softmax(self.inputs @ z, 1) - self.truth
        slope = self.inputs.mT @ errors / len(errors) + strengths * z
        return z - gg.linalg.solve(self.bound + strengths * self.eye, slope)

    def weights(self, theta):
        return fixed_point(self.descend, theta, self.zeros)

    def unrolled(self, theta, steps):
        """Approximate the weights by that many steps of descent, all of them in the graph."""
        z = self.zeros
        for _ in range(steps):
            z = self.descend(theta, z)
        return z


def newton(loss, theta, *, tolerance=1e-6, steps=20):
    """Minimize a function of one number; return what Newton's method finds at each point."""
    slope_and_curvature = gg.value_and_grad(gg.grad(loss))
    path = []
    for _ in range(steps):
        slope, curvature = slope_and_curvature(theta)
        path.append((theta.item(), loss(theta).item(), slope.item(), curvature.item()))
        # Go downhill, and not far where the curvature is too small to say how far.
        step = -slope / gg.maximum(gg.abs(curvature), gg.abs(slope) / 2)
        theta = theta + step
        if abs(step.item()) < tolerance:
            break
    return path


def bfgs(loss, theta, steps):
    """Lower the loss by some steps of SciPy's L-BFGS-B; return the strengths."""
    with progress_bar(steps) as progress:

        def note(intermediate_result):
            progress.set_postfix(loss=f"{intermediate_result.fun:.4f}", refresh=False)
            progress.update()

        done = minimize(
            loss,
            theta,
            method="L-BFGS-B",
            bounds=[(-9, 0)] * theta.size,
            callback=note,
            options={"maxiter": steps},
        )
    return done.x


def compare(classifier, validation, theta, counts):
    """Print what gradients by unrolling cost, and how far they are from the implicit gradient.

    Return their relative differences, and the memory in bytes, first that of the implicit one.
    """
    truth, seconds, peak = measure(
        lambda: gg.grad(lambda t: validation.loss(classifier.weights(t)))(theta)
    )
    print(f"\n{'gradient':14} {'difference':>10} {'time':>8} {'memory':>11}")
    print(f"{'implicit':14} {'':10} {seconds:6.2f} s {peak / 1e6:8.2f} MB")
    differences, peaks = [], [peak]
    for n in counts:
        g, seconds, peak = measure(
            lambda n=n: gg.grad(lambda t: validation.loss(classifier.unrolled(t, n)))(theta)
        )
        off = (gg.linalg.vector_norm(g - truth) / gg.linalg.vector_norm(truth)).item()
        print(f"{f'{n} steps':14} {off:10.1e} {seconds:6.2f} s {peak / 1e6:8.2f} MB")
        differences.append(off)
        peaks.append(peak)
    return differences, peaks


def draw(path, curve, points, theta, counts, differences, peaks):
    figure, (left, middle, right) = panels(3)
    left.plot(*curve, label="loss on 600 digits")
    at, values, slopes, _ = np.array(points).T
    left.plot(at, values, "C1o", label="Newton's steps and slopes")
    for x, y, slope in zip(at, values, slopes, strict=True):
        left.plot([x - 0.5, x + 0.5], [y - slope / 2, y + slope / 2], "C1", linewidth=1)
    left.set(xlabel="logarithm of the strength", ylabel="cross-entropy")
    left.legend(frameon=False)
    image = middle.imshow(theta.reshape(8, 8).cpu().numpy(), cmap="viridis")
    figure.colorbar(image, ax=middle, label="logarithm of the strength")
    middle.set(xticks=[], yticks=[], title="for each pixel")
    middle.grid(False)
    right.loglog(counts, differences, "o-")
    right.set_xlabel("steps unrolled")
    right.set_ylabel("relative difference from the implicit gradient", color="C0")
    memory = right.twinx()
    memory.loglog(counts, np.array(peaks[1:]) / 1e6, "C1s-")
    memory.axhline(peaks[0] / 1e6, color="C1", linestyle="--")
    memory.set_ylabel("memory, MB (dashed: implicit)", color="C1")
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, plot="runs/fixed_point.png")
    parser.add_argument("--steps", type=positive, default=12, help="steps of BFGS, default 12")
    options = parser.parse_args()
    training, validation, test = load(options.seed, options.device)
    classifier = Classifier(training)

    def loss(theta):
        return validation.loss(classifier.weights(theta))

    start = gg.tensor(-4.0, dtype=gg.float64, device=options.device)
    points = newton(loss, start)
    print("one strength: logarithm  loss      slope      curvature")
    for at, value, slope, curvature in points:
        print(f"{'':14}{at:9.5f}  {value:.6f}  {slope:9.1e}  {curvature:9.1e}")
    one = gg.full(64, points[-1][0], dtype=gg.float64, device=options.device)
    each = bfgs(loss, one, options.steps)
    for name, theta in ("one strength", one), ("one per pixel", each):
        z = classifier.weights(theta)
        print(
            f"{name}: loss {validation.loss(z).item():.4f}, on test digits "
            f"{test.loss(z).item():.4f}, of which {test.accuracy(z):.1%} are right"
        )

    counts = [10, 100, 1000]
    differences, peaks = compare(classifier, validation, one, counts)
    grid = np.linspace(-8, -3.5, 10)
    values = [loss(gg.asarray(np.array(x), device=options.device)).item() for x in grid]
    draw(options.plot, (grid, values), points, each, counts, differences, peaks)


if __name__ == "__main__":
    main()
