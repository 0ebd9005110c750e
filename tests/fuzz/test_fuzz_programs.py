"""Random programs give what they give in PyTorch: values, and derivatives in every mode.

The reference is PyTorch in double precision. A difference may be at most::

    MOST * eps * (largest + condition)

where ``eps`` is that of the coarsest dtype in the program, ``largest`` is the largest element of
what is compared, at least 1, and ``condition`` is how far the reference moves, relative to the
size of the changes, if each step's result and its gradient change by a tiny factor, and the
gradient of each argument by as much of the largest gradient of the result. To this comes what
a 16-bit dtype cannot represent at all.
"""

from functools import partial

import numpy as np
import pytest
from both_ways import bits, with_one_nan
from choices import examples

import gpugrad as gg
from gpugrad.tape import memory_plan

torch = pytest.importorskip("torch")

from programs import Guards, cast_to_ours, cast_to_torch, draw_values, run  # noqa: E402
from steps import program as draw_program  # noqa: E402

pytestmark = pytest.mark.slow

MOST = 16
CHANGE = 2.0**-28
EXAMPLES = 2  # of a vmap


def cotangents(program, outputs):
    rng = np.random.default_rng([program.seed, 1000])
    shapes = [tuple(y.shape) for y in outputs]
    return [draw_values(rng, s, t) for s, t in zip(shapes, program.results, strict=True)]


def directions(program):
    rng = np.random.default_rng([program.seed, 2000])
    return [draw_values(rng, shape, dtype) for shape, dtype in program.inputs]


# PyTorch


def widened(array):
    dtype = torch.complex128 if array.dtype.kind == "c" else torch.float64
    return torch.from_numpy(array).to(dtype)


def perturbation(rng):
    """A function for `Guards` that changes results of steps and gradients by tiny amounts."""

    def signs(x):
        return CHANGE * torch.from_numpy(rng.choice([-1.0, 1.0], tuple(x.shape)))

    def is_floating(x):
        return x.is_floating_point() or x.is_complex()

    def perturb(args):
        largest_gradient = 0.0

        def of_result(g):
            nonlocal largest_gradient
            if g is None:  # zero
                return None
            largest_gradient = largest(g.numpy(force=True))
            return g * (1 + signs(g))

        def of_argument(g):
            # Rounding errors of a derivative are those of numbers of order 1, also if it is tiny.
            return None if g is None else g + largest_gradient * signs(g)

        def result(y):
            if is_floating(y):
                y = y * (1 + signs(y))
                if y.requires_grad:
                    y.register_hook(of_result)
            return y

        def argument(x):
            if is_floating(x) and x.requires_grad:
                x = x * 1
                x.register_hook(of_argument)
            return x

        return [argument(x) for x in args], result

    return perturb


def swept(library, outputs, cotangents, inputs, **options):
    """The gradients of those outputs that have a graph, in gpugrad or PyTorch."""
    pairs = [(y, u) for y, u in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not pairs:
        return [library.zeros_like(x) for x in inputs]
    ys, us = zip(*pairs, strict=True)
    return library.autograd.grad(ys, inputs, us, materialize_grads=True, **options)


def reference(program, example, given=None, rng=None):
    """What PyTorch computes, as lists of arrays by name, and the constants that it recorded."""
    perturb = None if rng is None else perturbation(rng)
    guards = Guards(cast_to_torch, given, perturb=perturb, wide=True)
    inputs = [widened(a).requires_grad_() for a in program.arrays(example)]
    pool = list(inputs)
    run(program, "theirs", pool, guards)
    outputs = [pool[i] for i in program.outputs]
    us = [widened(u).requires_grad_() for u in cotangents(program, outputs)]
    vs = [widened(v) for v in directions(program)]
    first = swept(torch, outputs, us, inputs, create_graph=True)
    second, n = swept(torch, first, vs, [*inputs, *us]), len(inputs)
    found = {"values": outputs, "gradients": first, "products": second[:n], "tangents": second[n:]}
    return {name: [x.numpy(force=True) for x in xs] for name, xs in found.items()}, guards.recorded


def bounds(program, expected, example, constants):
    """By name, the greatest difference that is allowed from each expected array."""
    conditions = dict.fromkeys(expected, 0.0)
    for k in range(2):
        moved, _ = reference(program, example, constants, np.random.default_rng([program.seed, k]))
        for name, arrays in expected.items():
            change = max(largest(a - b) for a, b in zip(arrays, moved[name], strict=True))
            conditions[name] = max(conditions[name], change / CHANGE)
    infos = [np.finfo(d) for d in program.dtypes if np.dtype(d).kind in "fc"]
    # The unit roundoff of the coarsest dtype, and the smallest number with all digits in every one.
    eps, tiny = (max(float(getattr(info, name)) for info in infos) for name in ("eps", "tiny"))
    return {
        name: MOST * (eps * (max(1, *map(largest, arrays)) + conditions[name])
                      + (tiny if eps > 1e-4 else 0))
        for name, arrays in expected.items()
    }  # fmt: skip


def largest(x):
    return float(np.abs(x).max(initial=0))


# gpugrad


def function(program, checkpointed=False):
    """The program as a function of a list of inputs and one of constants."""

    def f(inputs, constants):
        pool, guards = list(inputs), Guards(cast_to_ours, constants)
        if not checkpointed:
            run(program, "ours", pool, guards)
            return [pool[i] for i in program.outputs]
        start, stop = program.piece
        run(program, "ours", pool, guards, slice(start))
        n, at = len(pool), guards.at
        changed = {s.target for s in program.steps[start:stop]} - {None}
        kept = sorted(i for i in changed if i < n)

        def piece(*pool):
            pool = list(pool)
            inner = Guards(cast_to_ours, constants, at=at)
            run(program, "ours", pool, inner, slice(start, stop))
            guards.at = inner.at
            return pool[n:], [pool[i] for i in kept]

        new, rewritten = gg.checkpoint(piece, *pool)
        for i, x in zip(kept, rewritten, strict=True):
            pool[i] = x
        pool += new
        run(program, "ours", pool, guards, slice(stop, None))
        return [pool[i] for i in program.outputs]

    return f


def compare(program, what, name, found, expected, bound):
    """Compare the tensors found with the arrays expected: values, gradients and so on."""
    dtypes = program.results
    if name in ("gradients", "products"):
        dtypes = [dtype for _, dtype in program.inputs]
    for i, (x, y, dtype) in enumerate(zip(found, expected, dtypes, strict=True)):
        assert x.dtype.name == dtype, f"{what}: {name} {i} is {x.dtype}, not {dtype}"
        x = x.detach().numpy()
        assert x.shape == y.shape, f"{what}: {name} {i} has shape {x.shape}, not {y.shape}"
        difference = largest(x - y)
        assert difference <= bound, (
            f"{what}: {name} {i} differs by {difference:.3g}, more than {bound:.3g}"
            f"\n{x!r}\ninstead of\n{y!r}"
        )


def check(program):
    expected, allowed, constants = [], [], []
    for example in range(EXAMPLES):
        arrays, recorded = reference(program, example)
        for xs in arrays.values():
            assert all(np.isfinite(x).all() for x in xs)
        expected.append(arrays)
        constants.append(recorded)
        allowed.append(bounds(program, arrays, example, recorded))

    def agree(what, name, found, example=0):
        compare(program, what, name, found, expected[example][name], allowed[example][name])

    us = [gg.asarray(u) for u in cotangents(program, expected[0]["values"])]
    vs = [gg.asarray(v) for v in directions(program)]
    n = len(program.inputs)

    # Backward, with raw rules and with recorded ones.
    for checkpointed in (False, True):
        what = "checkpoint" if checkpointed else "backward"
        f = function(program, checkpointed)
        inputs = [gg.tensor(a, requires_grad=True) for a in program.arrays()]
        outputs = f(inputs, constants[0])
        agree(what, "values", outputs)
        agree(what, "gradients", swept(gg, outputs, us, inputs, retain_graph=True))
        ws = [gg.tensor(u, requires_grad=True) for u in us]
        first = swept(gg, outputs, ws, inputs, create_graph=True)
        agree(f"{what} under create_graph", "gradients", first)
        second = swept(gg, first, vs, [*inputs, *ws])
        agree(what, "products", second[:n])
        agree(f"double {what}", "tangents", second[n:])
        for a, x in zip(program.arrays(), inputs, strict=True):
            np.testing.assert_array_equal(x.detach().numpy(), a)

    # Forward mode, and forward over reverse.
    mixed = function(program, program.seed % 2 == 1)
    inputs = [gg.asarray(a) for a in program.arrays()]
    values, tangents = gg.jvp(lambda *xs: mixed(xs, constants[0]), tuple(inputs), tuple(vs))
    agree("jvp", "values", values)
    agree("jvp", "tangents", tangents)

    def gradients(xs, constants):
        _, pullback = gg.vjp(lambda *xs: mixed(xs, constants), *xs)
        return list(pullback(us))

    first, products = gg.jvp(lambda *xs: gradients(xs, constants[0]), tuple(inputs), tuple(vs))
    agree("jvp of a gradient", "gradients", first)
    agree("jvp of a gradient", "products", products)

    # vmap.
    stacked, axes = [], []
    for i, arrays in enumerate(zip(*map(program.arrays, range(EXAMPLES)), strict=True)):
        axes.append(None if i in program.shared else 0)
        stacked.append(gg.asarray(arrays[0] if i in program.shared else np.stack(arrays)))
    guards = [gg.asarray(np.stack(xs)) for xs in zip(*constants, strict=True)]
    for what, name, f in ("vmap", "values", mixed), ("vmap of a gradient", "gradients", gradients):
        found = gg.vmap(f, in_axes=(axes, 0))(stacked, guards)
        for example in range(EXAMPLES):
            agree(what, name, [x[example] for x in found], example)


def _decides_shapes(op, value):
    if isinstance(value, tuple):
        return any(_decides_shapes(op, item) for item in value)
    return isinstance(value, np.ndarray) and (op == "repeat" or value.dtype == bool)


@np.errstate(all="ignore")
def check_compiled(program, has_kernels=False):
    """Check that the compiled program gives the bits of the program itself, in every call.

    has_kernels: whether the last calls wait for kernels, whose nans may have another sign.
    """
    if any(_decides_shapes(s.op, value) for s in program.steps for value in s.static.values()):
        return  # arrays that the program holds are state, whose values cannot be read

    is_checkpointed = program.seed % 3 == 1
    forward = function(program, is_checkpointed)

    def gradients(inputs, constants, us, forward=forward):
        outputs = forward(inputs, constants)
        return [y.detach() for y in outputs], swept(gg, outputs, us, inputs)

    compiled, differentiable = gg.compile(gradients), gg.compile(forward)
    known = [reference(program, example) for example in range(EXAMPLES)]
    for i, example in enumerate((0, 1, 0, 1, 1)):
        if has_kernels and i == 3:
            use_kernels(compiled, differentiable)
        arrays, constants = known[example]
        us = [gg.asarray(u) for u in cotangents(program, arrays["values"])]
        constants = [gg.asarray(c) for c in constants]
        found = []
        for f in gradients, compiled, partial(gradients, forward=differentiable):
            inputs = [gg.tensor(a, requires_grad=True) for a in program.arrays(example)]
            ys = [x for xs in f(inputs, constants, us) for x in xs]
            found.append([bits(with_one_nan(x.detach().numpy()) if has_kernels else x) for x in ys])
            for a, x in zip(program.arrays(example), inputs, strict=True):
                np.testing.assert_array_equal(x.detach().numpy(), a)
        for other in found[1:]:
            differing = [i for i, (x, y) in enumerate(zip(found[0], other, strict=True)) if x != y]
            assert not differing, f"in example {example}, values {differing} differ"
    assert not compiled._given_up
    # A checkpoint that reaches arrays of its call is not compiled where its graph is returned.
    has_complex_scalars = any(y.shape == () and y.dtype.kind == "c" for y in arrays["values"])
    if not is_checkpointed and not has_complex_scalars:
        assert not differentiable._given_up


def use_kernels(*functions):
    """Wait for the kernels of compiled functions and of their derivatives, and use them."""
    for program in [p for f in functions for p in f._programs]:
        program.use_kernels()
        for other in program.tape.graph.sweeps.programs.values() if program.tape.graph else ():
            if other is not None:
                other.use_kernels()


@pytest.mark.filterwarnings("ignore:gpugrad.compile")
def test_compiled_programs_with_kernels():
    examples(draw_program, partial(check_compiled, has_kernels=True), 10)


@pytest.mark.filterwarnings("ignore:gpugrad.compile")
@pytest.mark.parametrize("number, large", [
    (40, 16), pytest.param(1000, 16, marks=pytest.mark.fuzz),
    pytest.param(1000, memory_plan.LARGE, marks=pytest.mark.fuzz),
])  # fmt: skip
def test_compiled_programs(monkeypatch, number, large):
    monkeypatch.setattr(memory_plan, "LARGE", large)
    examples(draw_program, check_compiled, number)


@pytest.mark.parametrize("number", [200, pytest.param(10_000, marks=pytest.mark.fuzz)])
def test_programs(number):
    examples(draw_program, check, number)
