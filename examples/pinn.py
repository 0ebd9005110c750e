"""A physics-informed network solves Burgers' equation, by third derivatives of the network.

If u(t, x) is the speed of a fluid and nu its viscosity, a wave steepens into a shock:

    u_t + u u_x = nu u_xx,    u(0, x) = -sin(πx),    u(t, -1) = u(t, 1) = 0,    nu = 0.05/π.

A network N is trained to solve this from the equation alone, without data. Whatever N is,
u = -sin(πx) + t (1 - x²) N(t, x) satisfies the initial and boundary conditions, so N has only to
make the residual r = u_t + u u_x - nu u_xx vanish, here at about a thousand points. All
derivatives in r are exact: one `vjp` gives u_t and u_x, and a `jvp` through it gives u_xx.

The Gauss-Newton method with the damping of Levenberg and Marquardt trains the network:
(JᵀJ + λ) p = -Jᵀr. Row i of J is the gradient of r at point i with respect to all parameters;
`vmap` of `grad` computes these rows. In the same time this method gets a hundred times closer to
the solution than one that uses gradients only, such as --method l-bfgs. The error is measured
against the exact solution: J. D. Cole and E. Hopf transform the equation into the heat equation.

Physics-informed networks: M. Raissi, P. Perdikaris and G. E. Karniadakis, J. Comput. Phys. 378
(2019); this is their first example. The form of u: I. E. Lagaris, A. Likas and D. I. Fotiadis
(1998). Gauss-Newton: A. Jnini, F. Vella and M. Zeinhofer, "Gauss-Newton natural gradient
descent for physics-informed computational fluid dynamics" (2024).
"""

from common import Parser, panels, positive, progress_bar, save_figure

import math
import time

import numpy as np
from scipy.stats import qmc

import gpugrad as gg
from gpugrad import nn
from gpugrad.scipy.optimize import minimize

STEPS = {"gauss-newton": 100, "l-bfgs": 500}


class Burgers:
    """The equation, the network that solves it, and the points ``(n,)`` to solve it at."""

    def __init__(self, points, hidden, *, viscosity=0.05 / math.pi, seed=0, device="cpu"):
        gg.manual_seed(seed)
        self.network = nn.MLP(2, [*hidden, 1], nn.Tanh, dtype=gg.float64).to(device)
        self.viscosity = viscosity
        t, x = qmc.Sobol(2, rng=seed).random(points).T
        self.points = gg.asarray(t, device=device), gg.asarray(2 * x - 1, device=device)
        self.params = {name: p.detach() for name, p in self.network.named_parameters()}

    def solution(self, params, t, x):
        inputs = gg.stack([2 * t - 1, x], axis=-1)
        correction = nn.functional_call(self.network, params, inputs)[..., 0]
        return t * (1 - x**2) * correction - gg.sin(math.pi * x)

    def residual(self, params, t, x):
        """Return how far u is from satisfying the equation at points ``(...)``."""

        def slopes(x):
            u, pullback = gg.vjp(lambda t, x: self.solution(params, t, x), t, x)
            return u, *pullback(gg.ones_like(u))  # each point's u depends on that point alone

        (u, u_t, u_x), (_, _, u_xx) = gg.jvp(slopes, (x,), (gg.ones_like(x),))
        return u_t + u * u_x - self.viscosity * u_xx

    def loss(self, params):
        return gg.mean(self.residual(params, *self.points) ** 2)

    def rows(self, params):
        """Return the residuals ``(n,)`` and their Jacobian ``(n, parameters)``."""

        def at_a_point(params, t, x):
            r = self.residual(params, t, x)
            return r, r

        gradient = gg.grad(at_a_point, has_aux=True)
        rows, r = gg.vmap(gradient, in_axes=(None, 0, 0))(params, *self.points)
        return r, gg.concat([row.reshape(r.size, -1) for row in rows.values()], axis=1)


def flat(params):
    return gg.concat([p.reshape(-1) for p in params.values()])


def like(params, vector):
    """Cut a vector into parameters with the names and shapes of ``params``."""
    result, start = {}, 0
    for name, p in params.items():
        result[name] = vector[start : start + p.size].reshape(p.shape)
        start += p.size
    return result


def gauss_newton(problem, steps, report):
    """Return the parameters after Levenberg-Marquardt steps, each of which lowers the loss."""
    params, damping = problem.params, 0.1
    theta, loss = flat(params), problem.loss(params).item()
    eye = gg.eye(theta.size, dtype=theta.dtype, device=theta.device)
    for _ in range(steps):
        r, jacobian = problem.rows(params)
        normal, gradient = jacobian.mT @ jacobian / r.size, r @ jacobian / r.size
        while True:
            new = theta - gg.linalg.solve(normal + damping * eye, gradient)
            new_loss = problem.loss(like(params, new)).item()
            if new_loss < loss:
                break
            if damping > 1e6:  # no step lowers the loss: this is a minimum
                return params
            damping *= 4
        theta, loss, damping = new, new_loss, max(damping / 4, 1e-12)
        params = like(params, theta)
        report(loss)
    return params


def l_bfgs(problem, steps, report):
    """Return the parameters after steps of SciPy's L-BFGS-B."""

    def note(intermediate_result):
        report(intermediate_result.fun)

    done = minimize(
        lambda theta: problem.loss(like(problem.params, theta)),
        flat(problem.params),
        method="L-BFGS-B",
        callback=note,
        options={"maxiter": steps, "maxcor": 50, "ftol": 0, "gtol": 0, "maxfun": 10 * steps},
    )
    return like(problem.params, done.x)


METHODS = {"gauss-newton": gauss_newton, "l-bfgs": l_bfgs}


def exact(t, x, viscosity=0.05 / math.pi):
    """Return the exact solution for ``t > 0``: Cole and Hopf's integral, by Gauss-Hermite."""
    nodes, weights = np.polynomial.hermite.hermgauss(200)
    y = x[..., None] - nodes * np.sqrt(4 * viscosity * t[..., None])
    weights = weights * np.exp(-np.cos(math.pi * y) / (2 * math.pi * viscosity))
    return -np.sum(weights * np.sin(math.pi * y), axis=-1) / np.sum(weights, axis=-1)


def draw(path, t, x, u, truth, losses):
    figure, (left, middle, right) = panels(3)
    for ax, values, name, colours in (
        (left, u, "u", "RdBu_r"),
        (middle, np.log10(np.abs(u - truth) + 1e-12), "log10 of the error", "viridis"),
    ):
        low = -7 if ax is middle else None
        image = ax.pcolormesh(t, x, values, cmap=colours, shading="gouraud", vmin=low)
        figure.colorbar(image, ax=ax, label=name)
        ax.set(xlabel="t", ylabel="x")
        ax.grid(False)
    right.semilogy(range(1, len(losses) + 1), losses)
    right.set(xlabel="step", ylabel="mean squared residual")
    save_figure(figure, path)


def main():
    parser = Parser(__doc__, plot="runs/pinn.png")
    add = parser.add_argument
    add("--method", choices=METHODS, default="gauss-newton", help="default gauss-newton")
    add("--steps", type=positive, help=f"default {', '.join(f'{n} {m}' for m, n in STEPS.items())}")
    add("--points", type=positive, default=1024, help="default 1024")
    add("--hidden", type=positive, nargs="+", default=[16, 16, 16], help="sizes, default 16 16 16")
    options = parser.parse_args()
    problem = Burgers(options.points, options.hidden, seed=options.seed, device=options.device)
    steps = options.steps or STEPS[options.method]
    count = sum(p.size for p in problem.params.values())

    losses, began = [], time.perf_counter()
    with progress_bar(steps) as progress:

        def report(loss):
            losses.append(loss)
            progress.set_postfix(loss=f"{loss:.1e}", refresh=False)
            progress.update()

        params = METHODS[options.method](problem, steps, report)
    seconds = time.perf_counter() - began

    t, x = np.meshgrid(np.linspace(0.01, 1, 100), np.linspace(-1, 1, 201), indexing="ij")
    u = problem.solution(params, *(gg.asarray(z, device=options.device) for z in (t, x)))
    u, truth = u.cpu().numpy(), exact(t, x)
    error = np.linalg.norm(u - truth) / np.linalg.norm(truth)
    print(
        f"{count} parameters, {len(losses)} steps of {options.method} in {seconds:.1f} s: "
        f"mean squared residual {losses[-1]:.1e}"
    )
    print(f"relative error {error:.1e}, largest absolute error {abs(u - truth).max():.1e}")
    draw(options.plot, t, x, u, truth, losses)


if __name__ == "__main__":
    main()
