"""Derivatives of compiled functions: a second program computes the cotangents.

Where a result leaves with a graph, the recording goes on with a sweep through that graph, with
cotangents as inputs. It is a tape of its own, and the first program also returns the values that
it needs. Both hang in the graph as one node. There is a backward tape for each kind of sweep: which
results have cotangents, how these lie in memory, and whether the sweep guards its rules.

A node that the function uses several times gets one cotangent for each use, in the order of the
uses, so that the sweep outside adds them up as it would without the program.
"""

from contextlib import contextmanager
from types import SimpleNamespace

from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.call import wrap
from ..autograd.graph import Leaf, Node
from ..autograd.operation import Op
from ..autograd.sweep import Guarded, sweep
from ..transforms.custom import _Call as CustomCall
from ..transforms.pieces import Arguments, op_of_calls, output, recorded_outputs, several
from ..transforms.recomputing import Recomputed
from .cells import Cell, holds
from .libraries import is_own
from .run import MISS, Failed, warn_of
from .tape import Call, Input, Memory, Tape, Value, simplify

_MOST = 8  # kinds of sweeps
_plain = op_of_calls("compiled", materialize=False)
_discarding = op_of_calls("compiled", materialize=False, discards=True)
_plain.sees_guard = _discarding.sees_guard = True


class _Edge:
    """One use of a node from outside, in the place of that node in a copy of a graph."""

    __slots__ = ("node", "order", "shape", "dtype")
    watch = None
    parents = ()

    def __init__(self, node, number):
        self.node = node
        self.order = node.order + number * 2.0**-20  # no two alike
        self.shape = node.shape
        self.dtype = node.dtype


class Piece:
    """The part of a graph between some roots and the nodes from outside.

    is_outside: a function of a node.
    edges: the uses of nodes from outside, in the order in which a sweep comes to them.
    """

    def __init__(self, roots, is_outside):
        self.nodes, stack = {}, list(roots)
        while stack:
            node = stack.pop()
            if node not in self.nodes and not is_outside(node):
                self.nodes[node] = None
                if type(node) is not Leaf:
                    stack.extend(node.parents)
        ordered = sorted(self.nodes, key=lambda node: -node.order)
        self.edges = []
        uses = {}
        for node in reversed(ordered):
            if type(node) is not Leaf:
                for i, parent in enumerate(node.parents):
                    if parent not in self.nodes:
                        uses[node, i] = _Edge(parent, len(self.edges))
                        self.edges.append(uses[node, i])
        for node in ordered:  # the oldest first
            self.nodes[node] = _copy(node, self.nodes, uses)
        self.discards = any(type(n) is Node and n.plan.discards for n in self.nodes)

    def sweep(self, roots, guard):
        """For each edge its cotangent, or None; given pairs of a root and its cotangent."""
        copies = self.nodes
        needed = dict.fromkeys([*copies.values(), *self.edges], False)
        arrived = sweep(
            [(copies[node], g) for node, g in roots],
            set(self.edges),
            True,
            False,
            guard=guard,
            needed=needed,
            piece=True,
        )
        return [arrived.get(edge) for edge in self.edges]


def _copy(node, copies, uses):
    if type(node) is Leaf:  # made inside, it depends on nothing
        return node
    new = Node()
    new.order, new.plan, new.saved, new.watch = node.order, node.plan, node.saved, node.watch
    new.shape, new.dtype = node.shape, node.dtype
    new.parents = tuple([uses.get((node, i)) or copies[p] for i, p in enumerate(node.parents)])
    return new


class Graph:
    """The graph of a tape's results, with the tapes of the sweeps through it.

    places: the positions of the results that have a graph.
    originals, kept: the values that the program has to return for the backward ones, as they are
        called on the tapes of the sweeps, and on the simplified tape of the program.
    edges: for each use of a node from outside the Tensor of the state that has it, or None and the
        position of the argument.
    backward: from keys of sweeps to views that are made again, the calls, and the values of the
        cotangents that they begin and end with.
    """

    @classmethod
    def of(cls, recorder, stage, results, places, keys):
        """The graph of a recording that has not stopped; None if it stops now."""
        problem = _problem(recorder, stage, results)
        if problem is not None:
            recorder.stop(problem)
            return None
        self = cls()
        start = recorder.start
        piece = Piece([y.node for y in results], lambda node: node.order > start)
        holders = {x.node: x for x, *_ in stage.originals.values() if x.node is not None}
        if not all(edge.node in holders for edge in piece.edges):
            recorder.stop("a result depends on tensors that compile cannot see")
            return None
        for node in piece.nodes:
            if type(node) is Node and _calls_back(node):
                recorder.stop("its gradient calls hooks, a custom_vjp or rules of the program")
                return None
        self.places = places
        self.op = _discarding if piece.discards else _plain
        self.edges = []
        for edge in piece.edges:
            x = holders[edge.node]
            at = stage.arguments.get(id(x))
            self.edges.append((x if at is None else None, at))
        self.backward = {}
        first, known = len(recorder.calls), len(recorder.inputs)
        plain = tuple([(tuple(y.shape), None) for y in results]), False
        for key in dict.fromkeys((plain, *[key for key in keys if len(key[0]) == len(results)])):
            self._record(key, piece, recorder, results, first)
        del recorder.calls[first:], recorder.inputs[known:]
        return self

    def _record(self, key, piece, recorder, results, first):
        """Record the sweep of one kind."""
        layouts, guard = key
        del recorder.calls[first:]
        roots = []
        inputs = []
        backend = recorder.backend
        for k, (y, layout) in enumerate(zip(results, layouts, strict=True)):
            if layout is None:
                continue
            like = y.array.value
            _, strides = layout
            ones = backend.create("ones", like.shape, dtype=like.dtype, like=like)
            if strides is not None:
                binder = backend.binder
                ones = None if binder is None else binder.ones_with_strides(ones, strides)
                if ones is None:
                    return
            g = recorder.input(ones, Input("argument", k))
            inputs.append(g.var)
            roots.append((y.node, g))
        found = piece.sweep(roots, guard)
        cotangents = []
        for c in found:
            if c is not None and type(c) is not recorder.kind:
                c = recorder.call(backend.asarray, (c,))
            cotangents.append(None if c is None else c.var)
        self.backward[key] = [], recorder.calls[first:], inputs, cotangents

    def divide(self, forward, duplicate):
        """Find, and return, the values that the backward calls need of the forward ones."""
        made = {out for call in forward for out in call.outs}
        kept = {}
        for key, (_, calls, inputs, cotangents) in self.backward.items():
            wanted = [c for c in cotangents if c is not None]
            calls, new = simplify(calls, wanted, duplicate)
            cotangents = [new.get(c, c) for c in cotangents]
            again = {}
            given = set(inputs)

            def need(x, again=again, given=given):
                """Keep ``x``, or what it is a view of, which is then made again."""
                if x.constant is not None or x in given:
                    return
                call = x.call
                if call is not None and x.kind != "number" and call.is_view() and x in made:
                    again.setdefault(call, None)
                    for y in call.operands():
                        need(y)
                elif x in made or call is None or x.kind == "number":
                    kept[x] = None

            for x in [x for call in calls for x in call.operands()]:
                need(x)
            for c in wanted:
                need(new.get(c, c))
            views = [call for call in forward if call in again]
            self.backward[key] = views, calls, inputs, cotangents
        self.originals = list(kept)
        return self.originals


def _problem(recorder, stage, results):
    if len({id(y) for y in results}) < len(results):
        return "it returns a tensor that requires grad twice"
    if any(call.communicates for call in recorder.calls):
        return "it returns a result that requires grad, and communicates with other processes"
    changed = stage.gradients or stage.number_writes or stage.changed
    written = any(not x.memory.is_own for call in recorder.calls for x in call.targets())
    if changed or written or recorder.afterwards or stage.skips:
        return "it returns a result that requires grad, and also changes state"
    is_complex = recorder.backend.is_complex
    if any(not y.shape and is_complex(y.dtype) for y in results):
        # NumPy multiplies complex scalars and 0-d arrays with different roundings, and a cotangent
        # may be either.
        return "it returns a complex number that requires grad"
    return None


def _calls_back(node):
    if (node.watch is not None and node.watch.hooks) or is_own(node.plan.op.forward.__module__):
        return True
    return any(isinstance(x, CustomCall) for x in node.saved or ())


def _layout_of(c):
    strides = getattr(c, "strides", None)
    flags = getattr(c, "flags", None)
    in_order = strides is None or (flags is not None and flags.c_contiguous)
    return tuple(c.shape), None if in_order else strides


def _tape_of(graph, key, tape):
    """The tape of a sweep; its arguments are the kept values and the cotangents."""
    views, calls, inputs, cotangents = graph.backward[key]
    new, floating, numbers = {}, {}, {}
    for i, x in enumerate([*graph.originals, *inputs]):
        new[x] = twin = _twin(x)
        if x.kind in ("number", "scalar"):
            twin.source = Input("number", ("leaf", i))
            numbers[twin] = None
        else:
            twin.source = floating[twin] = Input("argument", i)
            twin.memory = Memory()
    views = [_made_again(call, new) for call in views]
    for call in calls:
        call.replace(new)
    found = [new.get(c, c) for c in cotangents]
    return Tape(
        backend=tape.backend, duplicate=tape.duplicate, device=tape.device, devices={},
        reach=SimpleNamespace(guards=[]), argument_of={}, pinned={}, floating=floating,
        numbers=numbers, leaves=[("array", None)] * len(new), calls=[*views, *calls],
        leaving=list(dict.fromkeys([c for c in found if c is not None])),
        results=[("static", None) if c is None else ("array", c) for c in found],
    )  # fmt: skip


def _twin(x):
    new = Value(x.kind)
    for name in ("shape", "dtype", "strides", "nbytes", "constant"):
        setattr(new, name, getattr(x, name))
    return new


def _made_again(call, new):
    """The call of a view on the values in the dict ``new``, which gets its results too."""
    twin = Call(call.function, call.args, call.kwargs)
    twin.several, twin.outs = call.several, [_twin(out) for out in call.outs]
    for out, view in zip(call.outs, twin.outs, strict=True):
        new[out], view.call, view.base = view, twin, out.base
    twin.replace(new)
    return twin


class Derivative:
    """How a program's results are joined to the graph.

    wanted: the keys of sweeps for which there is no tape yet.
    kind: the class of the programs of the sweeps.
    """

    def __init__(self, tape, function, wanted, kind):
        self.function = function
        self.wanted = wanted
        self.graph = graph = tape.graph
        self.structure = tape.result_structure
        self.programs = {key: kind(_tape_of(graph, key, tape)) for key in graph.backward}
        self.has_failed = False  # a program, where the function did not
        self.n_kept = len(graph.kept)
        self.generators = tape.generators
        self.reach = tape.reach
        self.rebound = [x for x, what, _ in tape.rebound if what == "array"]
        self.edges = graph.edges
        self.tensors = list({id(x): x for x, at in self.edges if at is None}.values())

    @contextmanager
    def as_recorded(self):
        """While the function runs again, give it back what it has read."""
        guards = self.reach.guards
        changed = [(place, value) for place, value, how in guards if not holds(place, value, how)]
        for place, _ in changed:
            if not isinstance(place, Cell) or place.is_fixed():
                what = place if isinstance(place, Cell) else f"a {type(place).__name__}"
                raise RuntimeError(
                    f"gpugrad.compile: backward calls the function again, with create_graph=True "
                    f"and for the first of its kind, but {what} has changed since"
                )
        before = [(x, x.array) for x in self.rebound]
        now = [(place, place.get()) for place, _ in changed]
        try:
            for place, value in changed:
                place.set(value)
            yield
        finally:
            for place, value in now:
                place.set(value)
            for x, array in before:
                x.array = array

    def lacks(self, keys):
        """Whether one of the kinds of sweeps has no tape, though its results are like these."""
        shapes = [shape for shape, _ in next(iter(self.programs))[0]]
        return any(
            key not in self.programs
            and len(key[0]) == len(shapes)
            and all(x is None or x[0] == shape for x, shape in zip(key[0], shapes, strict=True))
            for key in keys
        )

    def join(self, found, leaves, args, kwargs, start, draws):
        """The leaves of the result, with the graph that leads to arguments and state."""
        graph = self.graph
        found, kept = found[: len(found) - self.n_kept], found[len(found) - self.n_kept :]
        arguments = Arguments(args, kwargs)
        tensors = [x if at is None else leaves[at] for x, at in self.edges]
        tensors += [*arguments.inputs, *self.tensors]
        parents = [x.node for x in tensors]
        arrays = [
            None if type(x.node) is not Leaf and k >= len(tensors) - len(self.tensors) else x.array
            for k, x in enumerate(tensors)
        ]
        arguments.let_go()
        outputs = [wrap(found[i], None) for i in graph.places]
        again = Recomputed(
            self.function, arguments, draws, (), thread.autocast, start,
            [x.node for x in self.tensors], self.structure,
            [output(i, y) for i, y in zip(graph.places, outputs, strict=True)],
        )  # fmt: skip
        record = Pullback(self, kept, again)
        tensors = recorded_outputs(graph.op, arrays, parents, outputs, record, start)
        for i, y in zip(graph.places, tensors, strict=True):
            found[i] = y
        return found


class Pullback:
    """The VJP of a compiled call."""

    def __init__(self, derivative, kept, again):
        self.derivative = derivative
        self.kept = kept
        self.again = again

    def pull(self, seen, inputs):
        """The cotangents of the inputs, given those of the results.

        seen: the cotangents, and whether the sweep guards its rules.

        Where these are to be differentiated themselves, or there is no tape of such a sweep, the
        function runs again instead.
        """
        g, guard = seen if type(seen) is Guarded else (seen, False)
        derivative, failure = self.derivative, None
        cotangents = several(g)
        n = len(derivative.edges)
        if not any(isinstance(c, Tensor) for c in cotangents):
            asarray = next(iter(derivative.programs.values())).backend.asarray
            cotangents = [None if c is None else asarray(c) for c in cotangents]
            key = tuple([None if c is None else _layout_of(c) for c in cotangents]), guard
            program = derivative.programs.get(key)
            if program is None:
                if key not in derivative.wanted and len(derivative.wanted) < _MOST:
                    derivative.wanted.append(key)
            else:
                given = [*self.kept, *[c for c in cotangents if c is not None]]
                try:
                    found = program.run_alone(given)
                    if found is not MISS:
                        return [*found, *[None] * (len(inputs) - n)]
                except Failed as error:
                    failure = str(error)
        failures = Op.failures
        with derivative.as_recorded():
            if any(isinstance(c, Tensor) for c in cotangents):
                found = [*[None] * n, *self.again.pull(g, inputs[n:], guard)]
            else:
                found = [*self._contributions(cotangents, inputs[n:], guard)]
                found += [None] * (len(inputs) - n)
        if failure is not None and failures == Op.failures and not derivative.has_failed:
            derivative.has_failed = True
            warn_of(failure, derivative.function, "the calls of its backward pass")
        return found

    def _contributions(self, cotangents, inputs, guard):
        """The cotangent of each edge, by running the function again."""
        nodes, is_outside, close = self.again.recomputed(inputs)
        piece = Piece(nodes, is_outside)
        roots = [(node, c) for node, c in zip(nodes, cotangents, strict=True) if c is not None]
        found = piece.sweep(roots, guard)
        close()
        if len(found) != len(self.derivative.edges):
            raise RuntimeError("gpugrad.compile: run again for backward, the function differs")
        return found


__all__ = ["Derivative", "Graph"]
