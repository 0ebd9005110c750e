"""`checkpoint`: drops a function's intermediate results and recomputes them in backward."""

from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

from .._foreign_names import INSTEAD
from .._tensor import Tensor
from .._thread_state import thread
from .._typing import P, R
from ..autograd.call import wrap
from ..autograd.graph import Leaf, next_order
from ..autograd.mode import enable_grad, is_grad_enabled
from ..autograd.sweep import sweep
from ..autograd.variables import close, variable
from .arguments import callable_or_error
from .pieces import Call, Output, Piece, op_of_calls, overwritten, record_outputs
from .recording import is_recordable
from .trees import flatten, names, shown


def checkpoint(f: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """``f(*args, **kwargs)``, for which the graph keeps only the arguments.

    The intermediate results of ``f`` are dropped, and computed again when a backward pass
    needs them. At the cost of one more evaluation of ``f``, a network of n layers checkpointed
    in pieces of sqrt(n) layers needs memory for about 2 sqrt(n) of them.

    args, kwargs: arrays, nested containers of arrays, and anything else.

    ``f`` may return several results, and containers of results. Gradients reach the recorded
    tensors among the arguments and those that ``f`` uses from outside, such as a module's
    parameters. Random numbers are the same the second time. Calls nest, and ``f`` has
    derivatives of the same orders and modes as without checkpoint.

    ``f`` must do the same each time: anything it uses besides its arguments must not change
    before backward. The backward pass raises RuntimeError if ``f`` then depends on other
    recorded tensors, if these were overwritten, or if the results differ in structure, shape
    or dtype.

    >>> import gpugrad as gg
    >>> x = gg.tensor([1.0, 2.0], requires_grad=True)
    >>> gg.checkpoint(lambda x: gg.exp(gg.sin(x)).sum(), x).backward()
    >>> x.grad
    tensor([ 1.25338, -1.03312])
    """
    callable_or_error("checkpoint", f)
    if "use_reentrant" in kwargs:
        remedy = INSTEAD["checkpoint()"]["use_reentrant"]
        raise TypeError(f"checkpoint: there is no use_reentrant: {remedy}")
    if not args and not kwargs:
        _check_takes_nothing(f)
    if not is_grad_enabled():
        return f(*args, **kwargs)
    call = Call(args, kwargs)
    variables = [variable(x) for x in call.inputs]
    args, kwargs = call.arguments(variables)
    region = thread.autocast
    # Without the casts from outside, which would not be made again in backward.
    with call.draws.noted(), thread.having(autocast=region and region.without_casts()):
        result = f(*args, **kwargs)
    leaves, structure = flatten(result, none_is_leaf=True)
    places = [i for i, y in enumerate(leaves) if is_recordable(y) and y.node is not None]
    if not places:
        return result
    piece = Piece([leaves[i].node for i in places], {x.node for x in variables}, call.start)
    recomputed = Recomputed(f, call, region, piece.outside)
    outside = {node: _array(node) for node in piece.outside}
    op = _discarding if piece.discards else _checkpoint
    outputs = {i: leaves[i] for i in places}
    return record_outputs(op, call, outside, leaves, structure, outputs, recomputed)


def _check_takes_nothing(f):
    try:
        signature(f).bind()
    except TypeError:
        raise TypeError(
            "checkpoint: f is called at once, as checkpoint(f, x), but no arguments are given; "
            "functools.partial(checkpoint, f) is a function"
        ) from None
    except ValueError:  # a builtin may have no signature
        pass


def _array(node):
    """The array that a leaf's tensor has now; None for a result, which always has the same one."""
    tensor = node.owner() if type(node) is Leaf else None
    return None if tensor is None else tensor.array


class Recomputed(NamedTuple):
    """Everything needed to recompute a piece of the graph for its VJP."""

    f: Callable[..., Any]
    call: Call
    region: Any
    outside: list[Any]

    def pull(self, cotangents, inputs):
        """The cotangents of the inputs and of ``outside``, given those of the outputs."""
        tensors = any(isinstance(c, Tensor) for c in cotangents)
        create_graph = tensors and is_grad_enabled()
        nodes, piece, variables = self._recomputed(inputs, tensors)
        roots = [(node, c) for node, c in zip(nodes, cotangents, strict=True) if c is not None]
        own = [x.node for x in variables]
        is_recorded = any(getattr(x, "node", None) is not None for x in inputs[: len(own)])
        arrived = sweep(
            roots, {*own, *self.outside}, create_graph, create_graph, guard=True, tensors=tensors,
            connected=bool(self.outside) or is_recorded, needed=piece.nodes, piece=True,
        )  # fmt: skip
        for x in variables:
            close(x)
        return [arrived.get(node) for node in (*own, *self.outside)]

    def _recomputed(self, inputs, tensors):
        n = len(self.call.places)
        inputs, values = inputs[:n], inputs[n:]
        variables = [variable(x if tensors else wrap(x, None)) for x in inputs]
        start = next_order()
        nodes = self._run_again(variables)
        piece = Piece(nodes, {x.node for x in variables}, start)
        if set(piece.outside) != set(self.outside):
            raise RuntimeError(
                f"checkpoint: computed again for backward, {_name(self.f)} depends on other "
                f"recorded tensors than at first; it must do the same each time, with what it "
                f"uses from outside unchanged: a function made in a loop sees the last value of "
                f"a variable, unless that is an argument"
            )
        for node, value in zip(self.outside, values, strict=True):
            if _array(node) is not getattr(value, "array", value):
                raise overwritten("checkpoint")
        return nodes, piece, variables

    def _run_again(self, variables):
        """The nodes of the outputs after running ``f`` again."""
        args, kwargs = self.call.arguments(variables)
        try:
            region = self.region and self.region.without_casts()
            with enable_grad(), thread.having(autocast=region), self.call.repeated("checkpoint"):
                result = self.f(*args, **kwargs)
        except Exception as error:
            error.add_note(f"while checkpoint computed {_name(self.f)} again for backward")
            raise
        leaves, structure = flatten(result, none_is_leaf=True)
        if structure != self.call.structure:
            raise self._differs(shown(structure), shown(self.call.structure))
        for output in self.call.outputs:
            y = leaves[output.leaf]
            if not is_recordable(y) or y.node is None or Output.of(output.leaf, y) != output:
                raise self._differs(_described(y), _described(output), output.leaf)
        return [leaves[output.leaf].node for output in self.call.outputs]

    def _differs(self, now, before, leaf=None):
        what = "" if leaf is None else f" for {names(self.call.structure, 'the result')[leaf]}"
        return RuntimeError(
            f"checkpoint: computed again for backward, {_name(self.f)} returned {now}{what}, but "
            f"{before} at first; it must do the same each time"
        )


def _described(y):
    if not hasattr(y, "dtype"):
        return f"a {type(y).__name__}"
    recorded = "" if getattr(y, "node", True) is not None else " that does not require grad"
    return f"{y.dtype} of shape {tuple(y.shape)}{recorded}"


def _name(f):
    return getattr(f, "__name__", type(f).__name__)


_checkpoint = op_of_calls("checkpoint", materialize=False)
_discarding = op_of_calls("checkpoint", materialize=False, discards=True)
