"""Forward mode: tangents of the arguments pushed through the graph of a function."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from .._batched import BatchedTensor, active_levels, behind, levels_of
from .._creation import zeros_like
from .._typing import A, R
from ..autograd import call
from ..autograd.forward_sweep import forward_sweep
from ..autograd.mode import is_grad_enabled
from ..backends import backend_of
from .recording import (
    Inputs,
    callable_or_error,
    check_levels,
    checked,
    counted,
    inward,
    labels_of,
    outward,
    record,
    same,
)
from .trees import flatten, shown


@overload
def jvp(
    f: Callable[..., R],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = False,
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[..., tuple[R, A]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[R, R, A]: ...
def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """``f(*primals)``, and the derivative of ``f`` there in the direction of ``tangents``.

    primals: a tuple or list of arrays or nested containers of arrays, all floating.
    tangents: the same, with the primals' structures and shapes; cast to the primals' dtypes.
    has_aux: ``f`` returns ``(result, aux)``, and ``jvp`` returns ``(result, tangent, aux)``.

    The tangent has the structure, shapes and dtypes of the result; it is 0 for integers.
    The function is run once and recorded. The tangents then go through its graph in the
    order of recording: an elementwise op costs about one more evaluation, any other op about
    as much as its VJP. The graph is kept until then, so memory use is that of reverse mode.

    Raises TypeError, naming it, for a primal that is not floating, or for a leaf of the result
    that is not a tensor, such as a Python number, because it has no graph.

    >>> import gpugrad as gg
    >>> gg.jvp(gg.sin, (gg.tensor(0.0),), (gg.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    callable_or_error("jvp", f)
    ts, structures = _flat("jvp", primals, tangents)
    xs, _ = _flat("jvp", primals, primals)
    levels = sorted(
        {level for x in (*xs, *ts) for level in levels_of(x)}, key=lambda level: level.number
    )
    inputs = Inputs("jvp", primals, labels_of(primals), levels)
    ts = _checked("jvp", inputs, ts, structures)
    outputs, aux = record("jvp", f, inputs, has_aux)
    leaves = []
    for y, t in zip(outputs.leaves, push_in(inputs, outputs, ts, retain=False), strict=True):
        # The graph may have more levels than the arguments had.
        leaves.append(zeros_like(y.detach()) if t is None else behind(t, levels_of(y)))
    tangent = outputs.tree(leaves)
    if has_aux:
        return outputs.result(), tangent, outputs.detach_aux(aux)
    return outputs.result(), tangent


@overload
def linearize(
    f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(
    f: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[..., R], A]: ...
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``f(*primals)``, and the derivative of ``f`` there as a linear function of tangents.

    Like `jvp`, for many tangents at one point: ``f`` is run once, and each call of the returned
    function takes one tangent for each primal and pushes them through the recorded graph.
    Calling it inside `vmap` pushes many tangents at once. Errors are those of `jvp`.

    >>> import gpugrad as gg
    >>> y, derivative = gg.linearize(gg.sin, gg.tensor(0.0))
    >>> derivative(gg.tensor(2.0))
    tensor(2.)
    """
    callable_or_error("linearize", f)
    inputs = Inputs("linearize", primals, labels_of(primals), active_levels())
    outputs, aux = record("linearize", f, inputs, has_aux)
    result = outputs.result()
    values = [y.detach() for y in outputs.leaves]
    n = len(primals)
    if has_aux:
        aux = outputs.detach_aux(aux)
    inputs.close()

    def derivative(*tangents):
        check_levels("linearize", inputs)
        if len(tangents) != n:
            raise TypeError(
                f"linearize: {counted(n, 'primal')} but {counted(len(tangents), 'tangent')}"
            )
        ts, structures = _flat("linearize", tangents, tangents)
        ts = _checked("linearize", inputs, ts, structures)
        pushed = push_in(inputs, outputs, ts, retain=True)
        return outputs.tree(
            [
                zeros_like(y) if t is None else outward(t, inputs.levels)
                for y, t in zip(values, pushed, strict=True)
            ]
        )

    derivative.__qualname__ = "derivative"
    return (result, derivative, aux) if has_aux else (result, derivative)


def _flat(name, primals, trees):
    for given in (primals, trees):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"{name}: primals and tangents must be tuples with an element for each argument "
                f"of f, such as (x,), not {type(given).__name__}"
            )
    if len(primals) != len(trees):
        raise ValueError(
            f"{name}: {counted(len(primals), 'primal')} but {counted(len(trees), 'tangent')}"
        )
    flat = [flatten(tree) for tree in trees]
    return [leaf for leaves, _ in flat for leaf in leaves], [s for _, s in flat]


def _checked(name, inputs, tangents, structures):
    """The tangents as Tensors, once their structures, shapes and dtypes are checked."""
    for i, (given, own) in enumerate(zip(structures, inputs.structures, strict=True)):
        if not same(given, own):
            raise ValueError(
                f"{name}: tangents[{i}] must have the structure of primals[{i}], {shown(own)}, "
                f"not {shown(given)}"
            )
    return checked(name, "tangent of", tangents, None, inputs.likes, None, inputs)


def push_in(inputs, outputs, tangents, *, retain):
    """The tangent of each output, a Tensor in the graph's axis order, or None for 0."""
    given = {node: inward(t, inputs.levels) for node, t in zip(inputs.nodes, tangents, strict=True)}
    connected = any(t.node is not None for t in given.values())
    create_graph = is_grad_enabled() and (outputs.recorded or connected)
    tensors = create_graph or any(type(t) is BatchedTensor for t in given.values())
    if not tensors:
        given = {node: t.array for node, t in given.items()}
    nodes = [node for node in outputs.nodes if node is not None]
    pushed = forward_sweep(
        given,
        nodes,
        retain or create_graph,
        create_graph,
        tensors,
        joined=outputs.recorded,
        needed=outputs.needed,
    )
    if tensors:
        pushed = dict(zip(pushed, inputs.released(pushed.values()), strict=True))
    else:  # NumPy's 0-d results are scalars
        pushed = {n: call.wrap(backend_of[type(t)].asarray(t), None) for n, t in pushed.items()}
    return [pushed.get(node) for node in outputs.nodes]
