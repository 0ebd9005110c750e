"""Find where a camera stood from one picture, by differentiating SciPy's rotations.

Ten corners of a house are marked in a photograph. Each mark is off by a pixel or two, and one is
in the wrong place altogether. We look for the pose from which the camera most likely took the
picture. SciPy can compute with Tensors, so the likelihood, which uses scipy.spatial.transform,
has a gradient and a Hessian. Newton's method finds its maximum in about twenty steps. The
Hessian there says how sharp the maximum is, and so how far off the pose may be.
"""

from common import Parser, panels, save_figure

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # makes SciPy accept Tensors; must be set before its import

import numpy as np
from scipy.spatial.transform import RigidTransform, Rotation

import gpugrad

# In metres, x to the right, y down: the ground, the eaves and the ridge of a house.
BASE = [(-4, -3), (4, -3), (4, 3), (-4, 3)]
CORNERS = [*((x, y, z) for y in (0, -5) for x, z in BASE), (-4, -8, 0), (4, -8, 0)]
EDGES = "01 12 23 30 04 15 26 37 45 56 67 74 48 78 59 69 89"
FOCAL_LENGTH = 1200.0  # pixels

# A pose turns the house by a rotation vector, in radians, then shifts it, in metres. The first
# rotation is not exactly 0, because the angle is the vector's length, which has no second
# derivative there.
TRUTH = [0.4, -0.6, 0.05, 2.0, 1.5, 30.0]
START = [0.01, 0.0, 0.0, 0.0, 0.0, 50.0]

NOISE = 1.5  # the scale of a mark's error, in pixels
WRONG = 3  # index of the misplaced mark
FREEDOM = 3  # degrees of freedom of Student's t for the errors; few, to allow for gross mistakes


def project(pose, corners):
    """Project corners ``(n, 3)`` into the picture: ``(n, 2)``, in pixels from its centre."""
    turn, shift = Rotation.from_rotvec(pose[:3]), pose[3:]
    x = RigidTransform.from_components(shift, turn).apply(corners)
    return FOCAL_LENGTH * x[:, :2] / x[:, 2:]


def negative_log_likelihood(pose, corners, marks, scale):
    """Up to a constant, if the errors of the marks follow Student's t with this scale."""
    errors = (project(pose, corners) - marks) / scale
    return (FREEDOM + 1) / 2 * gpugrad.sum(gpugrad.log1p(errors**2 / FREEDOM))


def derivatives(f, x):
    """Return the value, gradient and Hessian of ``f`` at ``x``."""
    x = x.detach().requires_grad_()
    value = f(x)
    (gradient,) = gpugrad.autograd.grad(value, x, create_graph=True)
    rows = [gpugrad.autograd.grad(slope, x, retain_graph=True)[0] for slope in gradient]
    return value.detach(), gradient.detach(), gpugrad.stack(rows)


def minimize(f, x, *, tolerance=1e-8, steps=100):
    """Return the points that Newton's method visits after ``x``."""
    path = []
    for _ in range(steps):
        value, gradient, hessian = derivatives(f, x)
        # Go downhill along every eigenvector, also where the curvature is negative.
        curvatures, vectors = gpugrad.linalg.eigh(hessian)
        step = vectors @ (gradient @ vectors / gpugrad.abs(curvatures))
        while f(x - step) > value and gpugrad.max(gpugrad.abs(step)) > tolerance:
            step = step / 2
        x = x - step
        path.append(x)
        if gpugrad.max(gpugrad.abs(step)) <= tolerance:
            break
    return path


def compare(found, truth, hessian):
    """Print how far the pose found is from the true one, and the error to be expected."""
    spread = gpugrad.linalg.diagonal(gpugrad.linalg.inv(hessian)) ** 0.5
    for i, name in (3, "to the right"), (4, "down"), (5, "away"):
        print(f"{name:12} {found[i]:6.2f} m ± {spread[i]:.2f}, true value {truth[i]:6.2f}")
    turn = Rotation.from_rotvec(found[:3]).inv() * Rotation.from_rotvec(truth[:3])
    expected = np.degrees(gpugrad.sum(spread[:3] ** 2).item() ** 0.5)
    print(f"turned       {np.degrees(turn.magnitude().item()):.2f}° off, expected {expected:.2f}°")


def draw(marks, houses, losses):
    figure, (left, right) = panels()
    for (name, pixels), style in zip(houses.items(), ("C7:", "C0-"), strict=True):
        x, y = pixels.mT.cpu().numpy()
        for edge in EDGES.split():
            ends = [int(corner) for corner in edge]
            (line,) = left.plot(x[ends], y[ends], style)
        line.set_label(name)
    x, y = marks.mT.cpu().numpy()
    left.plot(x, y, "C1o", label="marks")
    left.plot(x[WRONG], y[WRONG], "C3x", markersize=12, label="misplaced mark")
    left.set(xlabel="pixels", ylabel="pixels", aspect="equal")
    left.invert_yaxis()
    left.legend(
        frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1), columnspacing=1
    )
    right.semilogy(np.array(losses) - min(losses))
    right.set(xlabel="step", ylabel="negative log-likelihood above its minimum", ylim=(1e-10, None))
    right.xaxis.get_major_locator().set_params(integer=True)
    save_figure(figure, "runs/differentiate_scipy.png")


def main():
    options = Parser(__doc__).parse_args()
    corners, truth, start = (
        gpugrad.tensor(numbers, dtype=gpugrad.float64, device=options.device)
        for numbers in (CORNERS, TRUTH, START)
    )
    errors = NOISE * np.random.default_rng(options.seed).standard_normal((len(CORNERS), 2))
    errors[WRONG] += 60, -40
    marks = project(truth, corners) + gpugrad.asarray(errors, device=options.device)

    # Begin with a scale at which large errors are likely: that has no other minimum nearby.
    path = [start]
    for scale in 20 * NOISE, NOISE:
        path += minimize(lambda x, s=scale: negative_log_likelihood(x, corners, marks, s), path[-1])
    losses = [negative_log_likelihood(pose, corners, marks, NOISE).item() for pose in path]
    print(
        f"{len(path) - 1} steps, negative log-likelihood from {losses[0]:.0f} to {losses[-1]:.1f}"
    )
    *_, hessian = derivatives(lambda x: negative_log_likelihood(x, corners, marks, NOISE), path[-1])
    compare(path[-1], truth, hessian)
    draw(marks, {"start": project(start, corners), "found": project(path[-1], corners)}, losses)


if __name__ == "__main__":
    main()
