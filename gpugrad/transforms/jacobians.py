"""Jacobians and Hessians: a batch of unit vectors swept through a function's graph at once."""

from collections.abc import Callable
from typing import Any

from .._arguments import is_complex, is_floating, one_of
from .._batched import batched, entered, examples
from .._creation import create
from .._foreign_names import explains_arguments
from .._typing import Argnums, P
from ..ops.manipulation import moveaxis
from .forward import push_in
from .recording import check_real, of_arguments
from .reverse import gradient_of, pull


@explains_arguments
def jacobian(
    f: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False, mode: str | None = None
) -> Callable[P, Any]:
    """The Jacobian of a function, as a function of the same arguments.

    f: a function that takes arrays or nested containers of arrays, and returns such of tensors.
    argnums, has_aux: as for `grad`.
    mode: ``"forward"`` needs a tangent for each element of the arguments, ``"reverse"`` a
        cotangent for each element of the results; the default is whichever needs fewer.
        All of them go through the graph together, as with `vmap`.

    For a result of shape ``(*m)`` and an argument of shape ``(*n)``, the Jacobian is a tensor
    of shape ``(*m, *n)``. For containers it has the structure of the result, with the structure
    of the argument (a tuple, if ``argnums`` is one) in place of each leaf. The arguments must
    be real; complex results need forward mode.

    Raises TypeError, naming it, for an argument or a result that is not floating, or for a result
    that is not a tensor, such as a Python number, because it has no graph.

    >>> import gpugrad as gg
    >>> gg.jacobian(lambda x: x**2)(gg.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return _jacobian("jacobian", f, argnums, has_aux, mode)


@explains_arguments
def hessian(f: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]:
    """The Hessian of a function with a scalar value: the Jacobian of its `grad`.

    For an argument of shape ``(*n)`` it has shape ``(*n, *n)``; for containers or several
    arguments it is nested as a `jacobian` is. Arguments and errors are those of `grad`.

    >>> import gpugrad as gg
    >>> gg.hessian(lambda x: x[0] ** 2 * x[1])(gg.tensor([1.0, 2.0]))
    tensor([[4., 2.],
            [2., 0.]])
    """
    gradient = gradient_of("hessian", f, argnums, has_aux)
    return _jacobian("hessian", gradient, argnums, has_aux, "reverse")


def _jacobian(name, f, argnums, has_aux, mode):
    if mode is not None:
        one_of(f"{name}: mode", mode, ("forward", "reverse"))

    def derivative(inputs, outputs, by_argument):
        _check(name, inputs, outputs, mode)
        xs, ys = inputs.variables, outputs.leaves
        by_forward = mode == "forward" or (
            mode is None and (_count(xs) < _count(ys) or any(map(is_complex, ys)))
        )
        if not _count(xs if by_forward else ys):
            table = [[create("zeros", (*y.shape, *x.shape), like=y) for x in xs] for y in ys]
        else:
            table = (_columns if by_forward else _rows)(inputs, outputs)
        return outputs.with_aux(outputs.tree([by_argument(row) for row in table]))

    return of_arguments(name, f, argnums, has_aux, derivative)


def _check(name, inputs, outputs, mode):
    check_real(name, inputs)
    for y, label in zip(outputs.leaves, outputs.names, strict=True):
        if not is_floating(y):
            raise TypeError(f"{name}: {label} is {y.dtype}, which has no derivatives")
        if is_complex(y) and mode == "reverse":
            raise TypeError(f"{name}: {label} is {y.dtype}, which needs mode='forward'")


def _rows(inputs, outputs):
    """For each result, a list of its Jacobians with respect to the variables; reverse mode."""
    ys, xs = outputs.leaves, inputs.variables
    with entered(_count(ys)) as level:
        cotangents = [batched(unit, level) for unit in _units(ys)]
        gradients = [examples(g, level) for g in pull(inputs, outputs, cotangents, retain=False)]
    return [
        [g[part, ...].reshape(*y.shape, *x.shape) for g, x in zip(gradients, xs, strict=True)]
        for y, part in _parts(ys)
    ]


def _columns(inputs, outputs):
    """Same as `_rows`, in forward mode."""
    ys, xs = outputs.leaves, inputs.variables
    with entered(_count(xs)) as level:
        tangents = [batched(unit, level) for unit in _units(xs)]
        pushed = push_in(inputs, outputs, tangents, retain=False)
        columns = [moveaxis(examples(t, level), 0, -1) for t in pushed]
    return [
        [t[..., part].reshape(*y.shape, *x.shape) for x, part in _parts(xs)]
        for y, t in zip(ys, columns, strict=True)
    ]


def _count(tensors):
    return sum(x.size for x in tensors)


def _parts(tensors):
    """Each tensor, with the slice it takes up when all tensors are flattened end to end."""
    stop = 0
    for x in tensors:
        start, stop = stop, stop + x.size
        yield x, slice(start, stop)


def _units(tensors):
    """For each tensor, its parts of all the unit vectors, stacked along a new first axis."""
    n = _count(tensors)
    return [create("eye", n, like=x)[:, part].reshape(n, *x.shape) for x, part in _parts(tensors)]
