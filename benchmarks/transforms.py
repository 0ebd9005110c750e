"""The cost of derivatives and batches of functions, compared to torch.func and JAX.

    python benchmarks/transforms.py [--short] [--libraries gpugrad torch jax]
        [--cases ...] [--sizes small medium] [--json PATH] [--plot PATH]

A case applies a transform, from scratch in each run, to the same function in every library:
`grad`, `vjp`, `jvp` and others of an MLP with a dict of parameters, second derivatives of
Rosenbrock's function, Jacobians, and `vmap` of all sorts. All libraries see the same float32
data, and their results are compared first. JAX appears twice: op by op ("jax"), which is how
the others work, and compiled ("jax jit").
"""

import sys
import warnings
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import harness
import numpy as np

_LIBRARIES = ("gpugrad", "torch", "jax")
SIZES = ("small", "medium")


def library(name):
    """Return a library under the names that the cases use.

    xp: its array functions. array: makes an array from NumPy's. wait: waits for a result.
    leaves: returns the arrays in a result.
    """
    return globals()[f"_{name.split()[0]}"]()


def _gpugrad():
    import gpugrad
    from gpugrad.transforms.trees import flatten

    return SimpleNamespace(
        xp=gpugrad,
        array=gpugrad.asarray,
        wait=lambda result: result,
        leaves=lambda result: [x.numpy() for x in flatten(result)[0]],
        jacfwd=lambda f: gpugrad.jacobian(f, mode="forward"),
        jacrev=lambda f: gpugrad.jacobian(f, mode="reverse"),
        **_named(gpugrad, "grad value_and_grad vjp jvp linearize hessian hvp vmap"),
    )


def _named(module, names):
    return {name: getattr(module, name) for name in names.split()}


def _torch():
    import torch
    from torch import func
    from torch.utils import _pytree

    warnings.filterwarnings("ignore", message="Attempted to insert a get_attr")  # from linearize

    def value_and_grad(f):
        both = func.grad_and_value(f)
        return lambda *args: both(*args)[::-1]

    return SimpleNamespace(
        xp=torch,
        array=torch.from_numpy,
        wait=lambda result: result,
        leaves=lambda result: [x.numpy() for x in _pytree.tree_leaves(result)],
        value_and_grad=value_and_grad,
        # Reverse over reverse: func.hessian and jvp(grad(f)) take two to eight times as long.
        hessian=lambda f: func.jacrev(func.grad(f)),
        hvp=lambda f: lambda x, v: func.vjp(func.grad(f), x)[1](v)[0],
        **_named(func, "grad vjp jvp linearize jacfwd jacrev vmap"),
    )


def _jax():
    import jax

    return SimpleNamespace(
        xp=jax.numpy,
        array=jax.numpy.asarray,
        wait=jax.block_until_ready,
        leaves=lambda result: [np.asarray(x) for x in jax.tree.leaves(result)],
        hvp=lambda f: lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1],
        **_named(jax, "grad value_and_grad vjp jvp linearize hessian jacfwd jacrev vmap"),
    )


# The functions to transform, in terms of a library's functions ``xp``.


def net(xp, sizes):
    """Return an MLP with tanh, a function of a dict of parameters and inputs (..., sizes[0])."""
    last = len(sizes) - 2

    def forward(parameters, x):
        for i in range(last):
            x = xp.tanh(x @ parameters[f"w{i}"] + parameters[f"b{i}"])
        return x @ parameters[f"w{last}"] + parameters[f"b{last}"]

    return forward


def loss_of(xp, sizes):
    forward = net(xp, sizes)

    def loss(parameters, x, y):
        error = forward(parameters, x) - y
        return (error * error).mean()

    return loss


def rosenbrock(x):
    a, b = x[1:] - x[:-1] * x[:-1], 1 - x[:-1]
    return (100 * a * a + b * b).sum()


# The cases: functions of (library, size) that return a function and its arguments, NumPy arrays.

MLP = {"small": (4, 16, 16, 1), "medium": (64, 128, 128, 10)}
BATCH = 64
MEMBERS = 10
CASES = {}


def case(name):
    def add(function):
        CASES[name] = function
        return function

    return add


def _normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def _parameters(sizes, *members, seed=0):
    found = {}
    for i, (n_in, n_out) in enumerate(pairwise(sizes)):
        found[f"w{i}"] = _normal(seed + i, *members, n_in, n_out) * np.float32(n_in**-0.5)
        found[f"b{i}"] = _normal(seed + 10 + i, *members, n_out)
    return dict(sorted(found.items()))  # some libraries sort the names


def _batch(sizes):
    return _normal(20, BATCH, sizes[0]), _normal(21, BATCH, sizes[-1])


@case("grad, MLP")
def _(lib, size):
    sizes = MLP[size]
    return lib.grad(loss_of(lib.xp, sizes)), (_parameters(sizes), *_batch(sizes))


@case("value_and_grad, MLP")
def _(lib, size):
    sizes = MLP[size]
    return lib.value_and_grad(loss_of(lib.xp, sizes)), (_parameters(sizes), *_batch(sizes))


@case("vjp, MLP")
def _(lib, size):
    forward = net(lib.xp, MLP[size])

    def run(parameters, x, cotangent):
        y, pullback = lib.vjp(forward, parameters, x)
        return y, pullback(cotangent)

    return run, (_parameters(MLP[size]), *_batch(MLP[size]))


@case("jvp, MLP")
def _(lib, size):
    forward, sizes = net(lib.xp, MLP[size]), MLP[size]

    def run(parameters, x, directions):
        return lib.jvp(lambda p: forward(p, x), (parameters,), (directions,))

    return run, (_parameters(sizes), _batch(sizes)[0], _parameters(sizes, seed=50))


@case("linearize, MLP")
def _(lib, size):
    forward, sizes = net(lib.xp, MLP[size]), MLP[size]

    def run(parameters, x, directions):
        y, derivative = lib.linearize(lambda p: forward(p, x), parameters)
        return y, derivative(directions)

    return run, (_parameters(sizes), _batch(sizes)[0], _parameters(sizes, seed=50))


@case("a tangent more, MLP")
def _(lib, size):
    forward, sizes = net(lib.xp, MLP[size]), MLP[size]
    x = lib.array(_batch(sizes)[0])
    parameters = {name: lib.array(value) for name, value in _parameters(sizes).items()}
    _, derivative = lib.linearize(lambda p: forward(p, x), parameters)
    return derivative, (_parameters(sizes, seed=50),)


@case("hvp, Rosenbrock")
def _(lib, size):
    n = {"small": 1000, "medium": 100_000}[size]
    return lib.hvp(rosenbrock), (_normal(0, n), _normal(1, n))


@case("hessian, Rosenbrock")
def _(lib, size):
    return lib.hessian(rosenbrock), (_normal(0, {"small": 20, "medium": 100}[size]),)


def _jacobian_of(lib, size, transform):
    sizes = {"small": (10, 16, 10), "medium": (100, 256, 100)}[size]
    forward = net(lib.xp, sizes)
    parameters = {name: lib.array(value) for name, value in _parameters(sizes).items()}
    return transform(lambda x: forward(parameters, x)), (_normal(20, sizes[0]),)


@case("jacobian forward, MLP")
def _(lib, size):
    return _jacobian_of(lib, size, lib.jacfwd)


@case("jacobian reverse, MLP")
def _(lib, size):
    return _jacobian_of(lib, size, lib.jacrev)


@case("per-example grads, MLP")
def _(lib, size):
    sizes = MLP[size]
    run = lib.vmap(lib.grad(loss_of(lib.xp, sizes)), (None, 0, 0))
    return run, (_parameters(sizes), *_batch(sizes))


@case("vmap, 1000 examples")
def _(lib, size):
    xp, n = lib.xp, {"small": 3, "medium": 100}[size]

    def similarity(x, y):
        return (x @ y) / xp.sqrt((x * x).sum() * (y * y).sum()) + xp.tanh(x).sum()

    return lib.vmap(similarity), (_normal(0, 1000, n), _normal(1, 1000, n))


@case("ensemble of 10 MLPs")
def _(lib, size):
    sizes = MLP[size]
    run = lib.vmap(net(lib.xp, sizes), (0, None))
    return run, (_parameters(sizes, MEMBERS), _batch(sizes)[0])


@case("grad of an ensemble")
def _(lib, size):
    sizes = MLP[size]
    run = lib.vmap(lib.grad(loss_of(lib.xp, sizes)), (0, None, None))
    return run, (_parameters(sizes, MEMBERS), *_batch(sizes))


@case("vmap of vmap, kernel")
def _(lib, size):
    xp, (n, k) = lib.xp, {"small": (20, 3), "medium": (200, 10)}[size]

    def kernel(x, y):
        return xp.exp(-((x - y) * (x - y)).sum())

    run = lib.vmap(lib.vmap(kernel, (None, 0)), (0, None))
    return run, (_normal(0, n, k), _normal(1, n, k))


class Case(NamedTuple):
    name: str
    size: str

    def __str__(self):
        return f"{self.name}, {self.size}"


def prepare(name, case):
    """Return a function that does the case's work once and returns the result."""
    lib = library(name)
    function, given = CASES[case.name](lib, case.size)
    given = [_arrays(lib, value) for value in given]
    if name == "jax jit":
        import jax

        function = jax.jit(function)
    return lambda: lib.wait(function(*given))


def _arrays(lib, value):
    if isinstance(value, dict):
        return {name: lib.array(x) for name, x in value.items()}
    return lib.array(value)


def check_same_results(libraries, cases):
    """Exit unless all libraries give the same results."""
    expected: Any = None
    for name in libraries:
        found = harness.in_fresh_process(_results, name, cases)
        expected = expected or found
        for case, ours, theirs in zip(cases, found, expected, strict=True):
            if len(ours) != len(theirs) or not all(map(_close, ours, theirs)):
                sys.exit(f"{case}: {name} gives another result than {libraries[0]}")


def _close(x, y):
    return x.shape == y.shape and np.allclose(x, y, rtol=1e-3, atol=1e-4 * abs(y).max(initial=0))


def _results(name, cases):
    return [library(name).leaves(prepare(name, case)()) for case in cases]


def speed(options):
    names = [n for library in options.libraries for n in (library, f"{library} jit")]
    names = [n for n in names if n in (*_LIBRARIES, "jax jit")]
    cases = [Case(name, size) for size in options.sizes for name in options.cases]
    check_same_results(names, cases)
    results = harness.race(prepare, names, cases, **harness.effort(options, seconds=0.3))
    rows = []
    for size in options.sizes:
        rows += harness.rows_of(
            size, {case: turns for case, turns in results.items() if case.size == size},
            name_case=lambda case: case.name, unit="µs", scale=1e6, targets={},
        )  # fmt: skip
        harness.table(size, [r for r in rows if r["section"] == size])
    return rows


def plot(path, about, rows):
    """Draw the ratio of each case and library as a dot, with a panel per size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = list(dict.fromkeys(r["section"] for r in rows))
    cases = list(dict.fromkeys(r["case"] for r in rows))[::-1]
    libraries = list(dict.fromkeys(r["library"] for r in rows))
    figure, axes = pyplot.subplots(
        1, len(sizes), figsize=(11, 2 + 0.26 * len(cases)), squeeze=False, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for ax, size in zip(axes[0], sizes, strict=True):
        for name in libraries:
            mine = [r for r in rows if r["section"] == size and r["library"] == name]
            ax.plot(
                [r["ratio"] for r in mine], [cases.index(r["case"]) for r in mine],
                "o", ms=5, color=harness.COLORS[name], label=name,
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_yticks(range(len(cases)), cases, fontsize=8)
        ax.set_title(f"{size}, time as a ratio to torch.func (lower is better)", fontsize=9)
        ax.grid(axis="y", lw=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, fontsize=8)
    harness.save_plot(figure, path, about)


def main():
    options = harness.arguments(
        __doc__.splitlines()[0], _LIBRARIES, cases=list(CASES), sizes=list(SIZES)
    )
    rows = speed(options)
    has_ratios = harness.BASELINE in options.libraries
    draw = (lambda *place: plot(*place, rows)) if has_ratios else None
    harness.write("transforms", options, rows, draw)


if __name__ == "__main__":
    main()
