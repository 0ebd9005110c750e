"""Checks of gradients and values, for testing your own ops and functions."""

import math
import random
from collections.abc import Callable
from typing import Any

from ._arguments import between, check_type, leaves_in
from ._creation import asarray
from ._foreign_names import explains_arguments
from ._tensor import Tensor
from .autograd import grad
from .autograd.call import wrap
from .autograd.forward_sweep import forward_sweep
from .autograd.implementation import implementation_of
from .autograd.plan import kept
from .autograd.rules import bind, kept_names
from .autograd.sweep import fit
from .autograd.variables import variable
from .backends import adopt, backend_of, namespace_of
from .backends.dtypes import complex128, float64
from .backends.numpy import position
from .backends.registry import sweep_context
from .transforms.arguments import parameters

__all__ = ["assert_close", "gradcheck", "gradgradcheck", "twincheck"]
__dir__ = __all__.copy


@explains_arguments
def gradcheck(
    f: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-4,
    check_forward: bool = False,
) -> bool:
    """Compare the gradients that backward gives for ``f(*inputs)`` with central differences.

    Each output that requires grad is weighted with fixed random cotangents, and the
    weighted sum is differentiated with respect to every element of every input
    that requires grad. Inputs must lie away from kinks and ties by more than ``eps``.

    f: a function of Tensors (and anything else in ``inputs``) that returns a Tensor or a
        sequence of Tensors. It is called several times, so it must be deterministic.
    inputs: a Tensor, or the arguments as a tuple, ``(x, y)``; Tensors that require grad must be
        float64 or complex128. Real and imaginary parts are stepped separately: the gradient for a
        complex input is dL/dx + i dL/dy, as in PyTorch.
    eps: half the step of the differences.
    atol, rtol: a gradient ``a`` and its difference ``d`` agree if ``|a - d| <= atol + rtol * |d|``.
    check_forward: also compare forward mode with differences: the tangent of every output along
        one random direction of each input.

    Returns True, as PyTorch's. Raises AssertionError, showing the entries that are furthest off,
    if the gradients disagree or if ``f`` changes its inputs; TypeError for an input of lower
    precision; and ValueError if no input or no output requires grad, or ``eps`` is not positive.

    >>> import gpugrad
    >>> x = gpugrad.tensor([0.5, -2.0], dtype=gpugrad.float64, requires_grad=True)
    >>> gpugrad.testing.gradcheck(gpugrad.tanh, x)
    True
    """
    inputs = _leaves("gradcheck", f, inputs)
    before = _values(inputs)
    outputs = _outputs(f, inputs)
    if _values(inputs) != before:
        raise AssertionError(f"gradcheck: {_name(f)} changed its inputs; compute in new arrays")
    chosen = _chosen("gradcheck", f, outputs)

    def differentiable(*inputs):
        outputs = _outputs(f, inputs)
        return [outputs[i] for i in chosen]

    labels = _labels(f, inputs)
    return _check("gradcheck", f, differentiable, inputs, labels, (eps, atol, rtol), check_forward)


def _chosen(check, f, outputs):
    """The numbers of the outputs that require grad."""
    if not (chosen := [i for i, y in enumerate(outputs) if y.requires_grad]):
        raise ValueError(f"{check}: no output of {_name(f)} requires grad")
    return chosen


def _labels(f, inputs):
    """What errors call the inputs: their numbers and, if there are several, their names."""
    label, _ = parameters(f)
    labels = [f"input {i} ({label(i)})" for i in range(len(inputs))]
    return labels if labels[1:] else ["input 0"]


def _values(inputs):
    return [repr(x.detach().tolist()) for x in inputs if isinstance(x, Tensor)]


@explains_arguments
def gradgradcheck(
    f: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-4,
    check_forward: bool = False,
) -> bool:
    """Compare second derivatives of ``f(*inputs)`` with central differences of its gradients.

    Applies `gradcheck` to the function from inputs and cotangents to gradients, which are
    computed with ``create_graph=True``. Arguments and errors are those of `gradcheck`;
    ``check_forward`` checks forward over reverse mode.

    >>> import gpugrad
    >>> x = gpugrad.tensor([0.5, -2.0], dtype=gpugrad.float64, requires_grad=True)
    >>> gpugrad.testing.gradgradcheck(gpugrad.tanh, x)
    True
    """
    inputs = _leaves("gradgradcheck", f, inputs)
    outputs = _outputs(f, inputs)
    chosen = _chosen("gradgradcheck", f, outputs)
    draw = random.Random(1)
    cotangents = [_from_list(_draw(draw, outputs[i]), outputs[i], True) for i in chosen]

    def gradients(*arguments):
        xs, gs = arguments[: len(inputs)], arguments[len(inputs) :]
        ys = _outputs(f, xs)
        ys, xs = [ys[i] for i in chosen], [x for x in xs if _wants_grad(x)]
        return grad(ys, xs, gs, create_graph=True, materialize_grads=True)

    labels = [*_labels(f, inputs), *(f"the cotangent of output {i}" for i in chosen)]
    arguments, tolerances = (*inputs, *cotangents), (eps, atol, rtol)
    return _check("gradgradcheck", f, gradients, arguments, labels, tolerances, check_forward)


def twincheck(
    f: Callable[..., Any],
    *inputs: Any,
    rtol: float | None = None,
    atol: float | None = None,
    **static: Any,
) -> None:
    """Compare an op's twins for the array library of its inputs with the op's definition.

    The twins' results must have the same shape and dtype as those of the definition and nearly
    the same values, and so must each input's cotangent, for fixed random cotangents of the
    results. Twins that decline by returning NotImplemented are skipped. See `gpugrad.op`.

    f: an op that takes its inputs one by one.
    inputs: Tensors, arrays or numbers, as for a call of the op; on a GPU to check CuPy's twins.
    rtol, atol: as for `assert_close`.
    static: the op's static parameters, by name.

    Raises AssertionError, naming the twin and showing where it differs most, and ValueError if
    there is nothing to compare because the op has no twins or all of them decline.

    >>> twincheck(gpugrad.softmax, gpugrad.random.normal((3, 5), device="cuda"))  # doctest: +SKIP
    """
    op = f.op  # type: ignore[attr-defined]
    arrays = [x.array if isinstance(x, Tensor) else x for x in inputs]
    arrays += [None] * (len(op.inputs) - len(arrays))
    pairs = list(_of_twins(op, arrays, {**op.static_defaults, **static}))
    if not pairs:
        raise ValueError(f"twincheck: {op.name} has no twin for these inputs, or it declines")
    for what, found, expected in pairs:
        is_tuple = isinstance(expected, tuple)
        parts = zip(found, expected, strict=True) if is_tuple else [(found, expected)]
        for i, (a, e) in enumerate(parts):
            name = f"twincheck: {what}" + (f", number {i}" if is_tuple else "")
            if (a is None) != (e is None) or getattr(a, "dtype", None) != getattr(e, "dtype", None):
                given = getattr(a, "dtype", type(a).__name__)
                raise AssertionError(f"{name} is {given}, expected {getattr(e, 'dtype', None)}")
            if e is not None:
                try:
                    assert_close(a, e, rtol=rtol, atol=atol)
                except AssertionError as error:
                    raise AssertionError(f"{name}: {error}") from None


def _of_twins(op, arrays, static):
    """For each twin, a name for its value, that value, and the definition's value."""
    if (like := next((x for x in arrays if type(x) in namespace_of), None)) is None:
        return
    backend = backend_of[type(like)]
    implementation_of(op, type(like))  # the library's own twins are loaded with it
    twins = op.twins.get(backend.name, {})
    xp, draw = backend.xp, random.Random(0)
    with backend.scope(like), sweep_context():
        out = op.forward(xp, *arrays, **static)
        if "forward" in twins:
            found = twins["forward"](xp, *arrays, **static)
            if found is not NotImplemented:
                yield f"{op.name}'s result", found, out
        is_tuple = isinstance(out, tuple)
        tensors = [wrap(y, None) for y in (out if is_tuple else (out,))]
        g = tuple([_from_list(_draw(draw, y), y, False).array for y in tensors])
        g = g if is_tuple else g[0]
        for target in twins.keys() - {"forward"}:
            targets = op.inputs if target == "together" else [target]
            rules = [op.joint if name == "joint" else op.rules[name] for name in targets]
            names = tuple(dict.fromkeys(name for rule in rules for name in kept_names(rule)))
            saved = kept(op, names, arrays, out, static)
            found = bind(twins[target], names)(xp, g, saved)
            if found is NotImplemented:
                continue
            expected = tuple([bind(rule, names)(xp, g, saved) for rule in rules])
            if target != "together":
                (expected,) = expected
            what = f"{op.name}'s gradient by {target}"
            if target in ("joint", "together"):
                yield what, _fitted(op, xp, found, arrays), _fitted(op, xp, expected, arrays)
            else:
                x = arrays[op.inputs.index(target)]
                yield what, *_fitted(op, xp, (found, expected), (x, x))


def _fitted(op, xp, cotangents, inputs):
    """The cotangents summed to the shapes of their inputs, as a tuple; None stays None."""
    pairs = zip(cotangents, inputs, strict=True)
    return tuple([c if c is None else fit(xp, c, tuple(x.shape), c.dtype, op) for c, x in pairs])


def assert_close(
    actual: Any,
    expected: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
) -> None:
    """Raise AssertionError unless two arrays have the same shape and nearly equal elements.

    actual, expected: Tensors, arrays of any known library, numbers or nested lists;
        dtypes are not compared.
    rtol, atol: elements agree if ``|actual - expected| <= atol + rtol * |expected|``. By default
        both fit the lower of the two precisions: 1e-2 for bfloat16, 1e-3 for float16, 1e-5 for
        float32, 1e-9 for float64, Python's floats and lists, and 0 if both are integers or bools.
    equal_nan: whether nan agrees with nan.
    """
    tolerances = [_tolerance(x) for x in (actual, expected)]
    rtol = max(tolerances) if rtol is None else rtol
    atol = max(tolerances) if atol is None else atol
    actual, actual_shape = _flat(actual)
    expected, expected_shape = _flat(expected)
    if actual_shape != expected_shape:
        raise AssertionError(f"shapes differ: {actual_shape}, expected {expected_shape}")
    wrong = {}  # from the place of each element that differs to the error
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        error = abs(a - e)
        close = error <= atol + rtol * abs(e) and not math.isinf(abs(e))
        if not (close or a == e or (equal_nan and a != a and e != e)):
            wrong[i] = math.inf if error != error else error
    if wrong:
        at = max(wrong, key=wrong.__getitem__)
        raise AssertionError(
            f"{len(wrong)} of {len(actual)} elements differ; the worst, at "
            f"{position(at, actual_shape)}: {actual[at]!r}, expected {expected[at]!r} "
            f"(atol {atol:g}, rtol {rtol:g})"
        )


# Values become Python lists, so that no op is checked against itself, and so that all array
# libraries are treated in the same way.


def _check(name, checked, f, inputs, labels, tolerances, forward):
    """Compare gradients of ``f``, weighting all of its outputs, with central differences.

    checked: the user's function, of which ``f`` gives the outputs or the gradients.
    forward: whether to compare tangents too.
    """
    check = f"{name} of {_name(checked)}"
    between(f"{check}: eps", tolerances[0], 0)
    wanted = [i for i, x in enumerate(inputs) if _wants_grad(x)]
    for i in wanted:
        if str(inputs[i].dtype).split(".")[-1] not in ("float64", "complex128"):
            raise TypeError(
                f"{check}: {labels[i]} is {inputs[i].dtype}; differences need float64 or "
                f"complex128, use astype"
            )
    outputs = _outputs(f, inputs)
    draw = random.Random(0)
    weights = [_draw(draw, y) for y in outputs]

    def weighted(changes):
        pairs = zip(weights, changes, strict=True)
        return sum((w.conjugate() * v).real for pair in pairs for w, v in zip(*pair, strict=True))

    gradients = [None] * len(wanted)
    # Gradients with no graph of their own have zero second derivatives.
    if recorded := [k for k, y in enumerate(outputs) if y.requires_grad]:
        cotangents = [_from_list(weights[k], outputs[k].detach(), False) for k in recorded]
        ys, xs = [outputs[k] for k in recorded], [inputs[i] for i in wanted]
        gradients = grad(ys, xs, cotangents, allow_unused=True)
    entries = []
    for i, gradient in zip(wanted, gradients, strict=True):
        values, shape = _flat(inputs[i])
        backward = [0.0] * len(values) if gradient is None else _flat(gradient)[0]
        for j, value in enumerate(values):
            difference = 0
            for way in (1, 1j) if isinstance(value, complex) else (1,):
                direction = [way if k == j else 0 for k in range(len(values))]
                difference += way * weighted(_difference(f, inputs, i, direction, tolerances[0]))
            where = f"the gradient to {labels[i]}", shape, j, f"input {value!r}"
            entries.append((where, backward[j], difference))
    _agree(check, "backward", tolerances, entries)
    if forward:
        _compare_forward(check, f, inputs, labels, tolerances)
    return True


def _difference(f, inputs, i, direction, eps):
    """The central difference of each output of ``f``, flat, along a direction of input ``i``."""
    values, _ = _flat(inputs[i])
    sides = []
    for step in (eps, -eps):
        moved = [v + step * d for v, d in zip(values, direction, strict=True)]
        moved = _from_list(moved, inputs[i], True)
        sides.append([_flat(y)[0] for y in _outputs(f, [*inputs[:i], moved, *inputs[i + 1 :]])])
    return [
        [(a - b) / (2 * eps) for a, b in zip(plus, minus, strict=True)]
        for plus, minus in zip(*sides, strict=True)
    ]


def _compare_forward(check, f, inputs, labels, tolerances):
    """Compare tangents of ``f`` along a direction of each input with central differences."""
    draw, entries = random.Random(2), []
    for i, x in enumerate(inputs):
        if not _wants_grad(x):
            continue
        direction = _draw(draw, x)
        moving = variable(x.detach())
        outputs = _outputs(f, [*inputs[:i], moving, *inputs[i + 1 :]])
        start = {moving.node: _from_list(direction, x, False).array}
        nodes = [y.node for y in outputs if y.node is not None]
        tangents = forward_sweep(start, nodes, retain_graph=False, create_graph=False)
        differences = _difference(f, inputs, i, direction, tolerances[0])
        for k, (y, difference) in enumerate(zip(outputs, differences, strict=True)):
            t = tangents.get(y.node)
            forward = [0.0] * y.size if t is None else _flat(t)[0]
            what = f"the tangent of output {k} along a direction of {labels[i]}"
            for j, (there, *pair) in enumerate(zip(_flat(y)[0], forward, difference, strict=True)):
                entries.append(((what, y.shape, j, f"output {there!r}"), *pair))
    _agree(check, "forward mode", tolerances, entries)


def _agree(check, mode, tolerances, entries):
    """Raise AssertionError, with the worst three entries, unless all derivatives are right.

    check: the name of the check and of the checked function.
    mode: what has computed the derivatives.
    tolerances: ``eps``, ``atol`` and ``rtol``.
    entries: for each entry of a derivative where it is (the array's name and shape, the index in
        the flattened array, and what the value there is), the derivative and the difference.
    """
    eps, atol, rtol = tolerances
    wrong = []
    for (what, shape, at, there), derivative, difference in entries:
        error = abs(derivative - difference)
        if not error <= atol + rtol * abs(difference):
            text = f"{what}, of shape {shape}, is wrong at {position(at, shape)} ({there} there)"
            text += f": {mode} gives {derivative!r}, central differences {difference!r}"
            wrong.append((math.inf if math.isnan(error) else error, text))
    if wrong:
        worst = sorted(wrong, key=lambda entry: -entry[0])[:3]
        head = f"{check}: {len(wrong)} of {len(entries)} entries are wrong"
        head += f" (eps {eps:g}, atol {atol:g}, rtol {rtol:g}); the worst:"
        raise AssertionError("\n  ".join([head, *[text for _, text in worst]]))


def _draw(draw, y):
    """A random number for each element of a tensor, complex if the tensor is."""
    if "complex" in str(y.dtype):
        return [complex(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(y.size)]
    return [draw.gauss(0, 1) for _ in range(y.size)]


def _leaves(check, f, inputs):
    """The inputs as a tuple; each that requires grad is a leaf, also where one is given twice."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if not any(map(_wants_grad, inputs)):
        raise ValueError(f"{check} of {_name(f)}: no input requires grad")
    return tuple([x.detach().requires_grad_() if _wants_grad(x) else x for x in inputs])


def _outputs(f, inputs):
    found = f(*inputs)
    for y in (outputs := list(found) if isinstance(found, (tuple, list)) else [found]):
        check_type(y, Tensor, f"{_name(f)} must return a Tensor or a sequence of Tensors")
    return outputs


def _wants_grad(x):
    return isinstance(x, Tensor) and x.requires_grad


def _name(f):
    return getattr(f, "__name__", None) or repr(f)


def _from_list(values, like, requires_grad):
    """A new tensor of ``values`` with the shape, dtype, library and device of ``like``."""
    backend = backend_of[type(like.array)]
    array = backend.asarray(values, dtype=like.dtype, device=backend.device(like.array))
    result = wrap(backend.xp.reshape(array, like.shape), None)
    return result.requires_grad_() if requires_grad else result


def _flat(x):
    """The elements as a flat list of Python numbers, and the shape."""
    if not isinstance(x, Tensor):
        x = adopt(x) if hasattr(x, "shape") else x
        if type(x) not in namespace_of and not isinstance(x, int):
            is_complex = any(isinstance(value, complex) for value in leaves_in(x))
            x = asarray(x, dtype=complex128 if is_complex else float64)
        x = asarray(x)
    values = [x.detach().tolist()]
    for _ in x.shape:
        values = [v for row in values for v in row]
    return values, x.shape


# By dtype; others have 1e-9, and integers and bools 0.
_TOLERANCES = {"bfloat16": 1e-2, "float16": 1e-3, "float32": 1e-5, "complex64": 1e-5}


def _tolerance(x):
    name = str(getattr(x, "dtype", "int" if isinstance(x, int) else "float64")).split(".")[-1]
    return 0.0 if "int" in name or "bool" in name else _TOLERANCES.get(name, 1e-9)
