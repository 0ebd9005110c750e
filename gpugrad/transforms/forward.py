"""Forward mode: tangents of the arguments pushed through the graph of a function."""

from collections.abc import Callable
from typing import Any, Literal, overload

from .._batched import levels_of
from .._creation import zeros_like
from .._typing import A, R, Trees
from ..autograd import call
from ..autograd.forward_sweep import forward_sweep
from ..backends import backend_of
from .arguments import callable_or_error, counted
from .cotangents import checked, inward, leaves_like, outward
from .recording import Inputs, check_levels, record
from .trees import flatten_each


@overload
def jvp(
    f: Callable[..., R], primals: Trees, tangents: Trees, has_aux: Literal[False] = False
) -> tuple[R, R]: ...
@overload
def jvp(
    f: Callable[..., tuple[R, A]], primals: Trees, tangents: Trees, has_aux: Literal[True]
) -> tuple[R, R, A]: ...
def jvp(f: Callable[..., Any], primals: Trees, tangents: Trees, has_aux: bool = False) -> Any:
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
    for given in (primals, tangents):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"jvp: primals and tangents must be tuples with an element for each argument of "
                f"f, such as (x,), not {type(given).__name__}"
            )
    _check_number("jvp", len(primals), len(tangents), ValueError)
    leaves, _ = flatten_each((*primals, *tangents))
    levels = sorted({level for x in leaves for level in levels_of(x)})
    inputs = Inputs("jvp", primals, levels=levels)
    ts = _tangents("jvp", inputs, tangents)
    outputs = record("jvp", f, inputs, has_aux)
    tangent = outputs.tree(push_in(inputs, outputs, ts, retain=False))
    return outputs.with_aux(outputs.result(), tangent)


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
    inputs = Inputs("linearize", primals)
    outputs = record("linearize", f, inputs, has_aux)
    n = len(primals)

    def derivative(*tangents):
        check_levels("linearize", inputs)
        _check_number("linearize", n, len(tangents), TypeError)
        ts = _tangents("linearize", inputs, tangents)
        return outputs.tree(push_in(inputs, outputs, ts, retain=True))

    derivative.__qualname__ = "derivative"
    results = outputs.with_aux(outputs.result(), derivative)
    inputs.close()
    return results


def _check_number(name, primals, tangents, error):
    if primals != tangents:
        raise error(f"{name}: {counted(primals, 'primal')} but {counted(tangents, 'tangent')}")


def _tangents(name, inputs, tangents):
    """The leaves of the tangents as Tensors, once their structures and shapes are checked."""
    leaves = []
    for i, (tree, structure) in enumerate(zip(tangents, inputs.structures, strict=True)):
        leaves += leaves_like(f"{name}: tangents[{i}], as primals[{i}],", tree, structure)
    return checked(f"{name}: the tangent of", leaves, inputs.likes, inputs)


def push_in(inputs, outputs, tangents, *, retain):
    """The tangent of each output."""
    given = {node: inward(t, inputs.levels) for node, t in zip(inputs.nodes, tangents, strict=True)}
    options = outputs.options(given.values(), retain)
    tensors = options["tensors"]
    if not tensors:
        given = {node: t.array for node, t in given.items()}
    pushed = forward_sweep(given, [node for node in outputs.nodes if node is not None], **options)
    if tensors:
        pushed = dict(zip(pushed, inputs.released(pushed.values()), strict=True))
    else:  # NumPy's 0-d results are scalars
        pushed = {n: call.wrap(backend_of[type(t)].asarray(t), None) for n, t in pushed.items()}
    # The outputs may have axes of more levels than the inputs.
    pairs = zip(outputs.leaves, map(pushed.get, outputs.nodes), strict=True)
    return [zeros_like(y.detach()) if t is None else outward(t, levels_of(y)) for y, t in pairs]
