"""Derivatives of compiled functions: a second program computes the cotangents.

Where a result leaves with a graph, the recording goes on with a backward sweep through that graph,
with cotangents as inputs. The record is then divided: the first program also returns the values
that the second one needs. Both hang in the graph as one node.
"""

from threading import Lock
from types import SimpleNamespace

from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.call import wrap
from ..autograd.graph import Leaf, next_order
from ..autograd.operation import Op
from ..autograd.sweep import sweep
from ..transforms.pieces import Arguments, op_of_calls, output, recorded_outputs, several
from ..transforms.recomputing import Piece, Recomputed
from .graphs import program_of
from .record import Call, Input, Variable, mapped
from .replay import MISS, Failed, warn_of

_plain = op_of_calls("compiled", materialize=False)
_discarding = op_of_calls("compiled", materialize=False, discards=True)


class Sweep:
    """The backward sweep of a recording.

    places: the positions of the results that it begins at.
    outside: the nodes that it ends at, from before the recording.
    first: how many calls the forward pass has made.
    cotangents: the variables of the cotangents of ``outside``, or None.
    inputs: the variables of the cotangents of the results.
    """

    def __init__(self, recording, results, places, start):
        self.places = places
        self.first = len(recording.calls)
        roots = [results[i] for i in places]
        piece = Piece([y.node for y in roots], set(), start)
        self.op = _discarding if piece.discards else _plain
        self.outside = piece.outside
        cotangents = []
        for k, y in enumerate(roots):
            like = y.array.value
            ones = recording.backend.create("ones", like.shape, dtype=like.dtype, like=like)
            cotangents.append(recording.input(ones, Input("argument", k)))
        self.inputs = [g.var for g in cotangents]
        arrived = sweep(
            [(y.node, g) for y, g in zip(roots, cotangents, strict=True)],
            set(piece.outside),
            True,
            False,
            guard=any(y.size > 1 for y in roots),
            needed=piece.nodes,
            piece=True,
        )
        found = [arrived.get(node) for node in piece.outside]
        self.cotangents = [None if c is None else recording.as_array(c).var for c in found]


def divide(trace, calls):
    """Divide the simplified ``calls`` into those of the forward and those of the backward program.

    Returns the forward calls, the backward ones, and the variables that the forward program has
    to return for the backward one.
    """
    forward = set(trace.recording.calls[: trace.sweep.first])
    given = set(trace.sweep.inputs)
    needed = {c for c in trace.sweep.cotangents if c is not None}
    kept, backward = {}, []

    def need(x):
        if x.value is not None or x in given:
            return
        if x.call is None or x.kind == "number":
            kept[x] = None
        else:
            needed.add(x)

    for x in list(needed):
        if x.call is None:
            needed.discard(x)
            need(x)
    for call in reversed(calls):
        outs = [out for out in call.outs if out in needed]
        if not outs:
            continue
        is_view = all(out.base is not None for out in call.outs)
        if call in forward and not is_view:
            kept.update(dict.fromkeys(outs))
        else:
            backward.append(call)
            for x in call.operands():
                need(x)
    return [call for call in calls if call in forward], backward[::-1], list(kept)


class _BackwardTrace:
    """What a `Program` takes of a `Trace`, for the program of the cotangents."""

    is_recording = None
    owners = None

    def __init__(self, trace, calls, kept):
        recording = trace.recording
        self.recording = SimpleNamespace(
            backend=recording.backend, kind=recording.kind, devices=recording.devices,
            required=[], afterwards=[],
        )  # fmt: skip
        self.reach = SimpleNamespace(guards=[], module_guards=[])
        self.duplicate = trace.duplicate
        self.structure = None
        self.floating, self.unread, self.bare, self.devices = {}, {}, {}, {}
        self.leaves, self.numbers_needed = [], []
        self.argument_of, self.pinned, self.parameters, self.var_of = {}, {}, {}, {}
        for name in """written rebound gradients changed number_writes skips optimizers states alike
                       tensors pinned_tensors keys from_outside aliases generators""".split():
            setattr(self, name, [])
        new = {}
        for i, x in enumerate([*kept, *trace.sweep.inputs]):
            new[x] = clone = _clone(x)
            self.leaves.append(("any", None))
            if x.kind == "number":
                clone.source = Input("number", ("leaf", i))
                self.numbers_needed.append(clone)
            elif x.kind == "scalar":
                self.bare[clone] = i
            else:
                clone.source = Input("argument", i)
                self.floating[clone] = clone.source
        self.calls = [_clone_call(call, new) for call in calls]
        self.results = [
            ("static", None) if c is None else ("array", new.get(c, c))
            for c in trace.sweep.cotangents
        ]
        self.outputs = list(dict.fromkeys([c for kind, c in self.results if kind == "array"]))
        device = recording.backend.device
        any_array = next(iter(trace.swap.real_of.values()), None)
        self.devices = {x: None if any_array is None else device(any_array) for x in self.floating}

    def example(self, x):
        """No array is known that an input had."""
        return


def _clone(x):
    new = Variable(x.kind)
    for name in ("shape", "dtype", "strides", "nbytes"):
        setattr(new, name, getattr(x, name))
    return new


def _clone_call(call, new):
    clone = Call(
        call.function, mapped(call.args, new), mapped(call.kwargs, new), call.several, call.is_pure
    )
    clone.may_alias = call.may_alias
    for out in call.outs:
        twin = new[out] = _clone(out)
        twin.call = clone
        twin.base = None if out.base is None else new.get(out.base, out.base)
        clone.outs.append(twin)
    return clone


class Derivative:
    """How a program's results are joined to the graph."""

    def __init__(self, function, trace, calls, kept):
        self.function = function
        self.sweep = trace.sweep
        self.structure = trace.result_structure
        self.program = program_of(_BackwardTrace(trace, calls, kept), (None, None))
        self.lock = Lock()  # held while the program runs, in memory that its runs share
        self.has_failed = False  # the program, where the function did not
        self.n_kept = len(kept)
        self.generators = trace.generators
        self.reach = trace.reach
        holders = trace.holders  # from nodes to the tensors that had them
        self.arguments, self.tensors = [], []
        for node, c in zip(trace.sweep.outside, range(len(trace.sweep.outside)), strict=True):
            x = holders[node]
            at = trace.argument_of.get(id(x))
            if at is None:
                self.tensors.append((x, c))
            else:
                self.arguments.append((at, c))

    def join(self, found, leaves, args, kwargs, start, draws):
        """The leaves of the result, with the graph that leads to arguments and state."""
        found, kept = found[: len(found) - self.n_kept], found[len(found) - self.n_kept :]
        arguments = Arguments(args, kwargs)
        place_of = {id(leaves[at]): c for at, c in self.arguments}
        order = []
        for x in arguments.inputs:
            order.append(place_of.pop(id(x), None))
        nodes = [x.node for x, _ in self.tensors]
        order += [c for _, c in self.tensors]
        arrays = [x.array for x in arguments.inputs] + [
            x.array if type(x.node) is Leaf else None for x, _ in self.tensors
        ]
        parents = [x.node for x in arguments.inputs] + nodes
        arguments.let_go()
        outputs = [wrap(found[i], None) for i in self.sweep.places]
        again = Recomputed(
            self.function, arguments, draws, (), thread.autocast, start, nodes, self.structure,
            [output(i, y) for i, y in zip(self.sweep.places, outputs, strict=True)],
        )  # fmt: skip
        record = Pullback(self, kept, order, again)
        tensors = recorded_outputs(self.sweep.op, arrays, parents, outputs, record, start)
        for i, y in zip(self.sweep.places, tensors, strict=True):
            found[i] = y
        return found


class Pullback:
    """The VJP of a compiled call."""

    def __init__(self, derivative, kept, order, again):
        self.derivative = derivative
        self.kept = kept
        self.order = order
        self.again = again

    def pull(self, g, inputs):
        """The cotangents of the inputs, given those of the results.

        Where these are to be differentiated themselves, or one is missing, the function runs
        again instead.
        """
        cotangents = several(g)
        derivative, failure = self.derivative, None
        program = derivative.program
        backend = program.backend
        if not any(c is None or isinstance(c, Tensor) for c in cotangents):
            cotangents = [backend.asarray(c) for c in cotangents]
            try:
                with derivative.lock, program.context():
                    found = program.run([*self.kept, *cotangents])
                    if found is MISS:  # they lie in memory in another order
                        cotangents = [backend.asarray(c, copy=True) for c in cotangents]
                        found = program.run([*self.kept, *cotangents])
                if found is not MISS:
                    return [None if c is None else found[c] for c in self.order]
            except Failed as error:
                failure = str(error)
        changed = derivative.reach.first_change()
        if changed is not None:
            raise RuntimeError(
                f"gpugrad.compile: backward with create_graph=True, or from some of several "
                f"results, calls the function again, but {changed} has changed since"
            )
        failures = Op.failures
        result = self.again.pull(g, inputs)
        if failure is not None and failures == Op.failures and not derivative.has_failed:
            derivative.has_failed = True
            warn_of(failure, derivative.function, "the calls of its backward pass")
        return result


__all__ = ["Derivative", "Sweep", "divide", "next_order"]
