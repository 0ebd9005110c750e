"""Graphs of compiled functions: the results have the graph that the function itself records.

A recording keeps this graph as a pattern, with values of the tape in the place of the arrays that
its nodes save. The program returns these values besides the results, and each call of it makes new
nodes that save them. So whatever looks at the graph, such as `backward` and hooks, finds the same
as without `compile`.
"""

from copy import copy
from operator import itemgetter

from .._tensor import Tensor
from ..autograd.call import wrap
from ..autograd.graph import Leaf, Node, watched
from ..transforms.custom import _Call as CustomCall
from ..transforms.recomputing import Recomputed
from .numbers import Key, Number
from .reach import Reach
from .steps import values_in
from .tape import Value, collect, mapped
from .tracing import Traced

_STEP = 2.0**-20  # between the orders of nodes of one call


class Graph:
    """The graph of a tape's results.

    Nodes have numbers here: first those from outside, then the others, the oldest first.

    outside: for each node from outside the position of the argument, or the Tensor of the state,
        that has it, or a `Leaf` that the function has made.
    nodes: for each other node its op, which of several outputs it is, its parents, what it saves, its
        shape and its dtype.
    places: pairs of the position of a result and the number of its node.
    values: those that the nodes save.
    kept: what the program returns for them, besides the results; see `Tape.origins`.
    """

    @classmethod
    def of(cls, recorder, stage, results, plan_of):
        """The graph of a recording; None if the recording stops now.

        results: the tensors that have a graph, by their positions.
        plan_of: a function that returns the plan of a node for real arrays.
        """
        self = cls()
        self.outside, self.nodes, self._plans = [], [], []
        self._labels, self._checkpoints = [], []
        outside, inside = _split([y.node for y in results.values()], recorder.start)
        holders = {x.node: x for x, *_ in stage.originals.values() if x.node is not None}
        problems = []
        for node in outside:
            x = holders.get(node, node)
            if x is node and node.order > recorder.start:
                problems.append("a result depends on tensors that compile cannot see")
            self.outside.append(stage.arguments.get(id(x), x))
        numbers = {node: i for i, node in enumerate([*outside, *inside])}
        problems += [p for node in inside if (p := self._problem(node, numbers, stage))]
        found: list = []
        collect([leaves for *_, leaves in self._checkpoints], found)
        for node in inside:
            parents = tuple([numbers[parent] for parent in node.parents])
            saved = None if node.saved is None else mapped(tuple(node.saved), _noted)
            if any(isinstance(x, Recomputed) for x in saved or ()):
                saved = tuple([None if isinstance(x, Recomputed) else x for x in saved])
            collect(saved, found)
            op, output = node.plan.op, node.plan.output
            self.nodes.append((op, output, parents, saved, node.shape, node.dtype))
            self._plans.append(plan_of(node))
        self.places = [(i, numbers[y.node]) for i, y in results.items()]
        self.values = [*dict.fromkeys(found)]
        memories = {x.memory for x in self.values} - {None}
        if any(memory.is_written and not memory.is_own for memory in memories):
            problems.append("it overwrites what the gradient of a result needs")
        for problem in problems:
            recorder.stop(problem)
        return None if problems else self

    def _problem(self, node, numbers, stage):
        """Why a node cannot be made anew, or None; notes its label and its checkpoint."""
        watch = node.watch
        if watch is not None and watch.hooks:
            return "the gradient of a result calls hooks"
        if watch is not None and watch.label is not None:
            self._labels.append((numbers[node], watch.label))
        for i, x in enumerate(node.saved or ()):
            if isinstance(x, CustomCall):
                return "the gradient of a result calls a custom_vjp"
            if isinstance(x, Recomputed):
                if x.draws.states or not _is_of_state(x.f, stage):
                    return "the gradient of a result calls a checkpoint that is not of state alone"
                arguments = copy(x.arguments)
                leaves = [(isinstance(y, Tensor), _noted(y)) for y in arguments.leaves]
                arguments.leaves = None
                self._checkpoints.append((numbers[node], i, x._replace(arguments=arguments, outside=None), leaves))
        return None

    def finish(self, found, origins, shown):
        """Decide what the program returns for the nodes.

        found: a function from values to those that replace them on the simplified tape.
        origins: the memory that the values had before.
        shown: the memory of the results.
        """
        kept, constants = {}, {}
        for x in self.values:
            y, origin = found(x), origins[x]
            if y.constant is not None and origin not in shown:
                constants[x] = y.constant
            elif origin is None or origin in shown or not origin.is_own:
                kept[x] = y, origin
            else:
                kept[x] = y, "graph"  # nothing else has its memory
        self.kept = [*dict.fromkeys(kept.values())]
        self._rest, self._makers = [*constants.values()], []
        places = {x: self.kept.index(y) for x, y in kept.items()}
        places |= {x: len(self.kept) + i for i, x in enumerate(constants)}

        def place(x):
            """Where something that is saved will be in the list of what the nodes save."""
            if type(x) is Value:
                return places[x]
            at = len(self.kept) + len(self._rest)
            self._rest.append(x)
            if values_in(x):
                fill = lambda made: lambda y: made[places[y]] if type(y) is Value else y  # noqa: E731
                self._makers.append((at, lambda made: mapped(x, fill(made))))
            return at

        self._checkpoints = [(*rest, place(leaves)) for *rest, leaves in self._checkpoints]
        self._nodes = [
            (plan, _picker(parents), _picker(saved and [*map(place, saved)]), shape, dtype)
            for plan, (_, _, parents, saved, shape, dtype) in zip(self._plans, self.nodes, strict=True)
        ]

    def join(self, found, leaves, start):
        """The leaves of the result, with a new graph that leads to arguments and state.

        found: what the program has returned.
        start: an order number from before the program ran.
        """
        n = len(found) - len(self.kept)
        found, values = found[:n], [*found[n:], *self._rest]
        for at, make in self._makers:
            values[at] = make(values)
        nodes = [
            leaves[x].node if type(x) is int else x if type(x) is Leaf else x.node
            for x in self.outside
        ]
        order = start
        for plan, parents, saved, shape, dtype in self._nodes:
            order -= _STEP
            node = Node()
            node.order = order
            node.plan = plan
            node.parents = parents(nodes)
            node.saved = saved(values)
            node.shape = shape
            node.dtype = dtype
            node.watch = None
            nodes.append(node)
        for number, label in self._labels:
            watched(nodes[number]).label = label
        for number, i, record, at in self._checkpoints:
            nodes[number].saved = _repeated(nodes[number], i, record, values[at], start)
        for i, number in self.places:
            found[i].node = nodes[number]
        return found


def _split(roots, start):
    """The nodes from outside that some nodes lead to, and those inside, the oldest first."""
    outside, inside, stack = {}, {}, [*roots]
    while stack:
        node = stack.pop()
        if type(node) is Leaf or node.order > start:
            outside[node] = None
        elif node not in inside:
            inside[node] = None
            stack += node.parents
    return [*outside], sorted(inside, key=lambda node: -node.order)


def _noted(x):
    """What stands on the tape for something that a node saves."""
    if isinstance(x, Tensor):
        x = x.array
    return x.var if isinstance(x, (Traced, Key)) or type(x) is Number else x


def _picker(places):
    """A function that returns the tuple of what is at some places of a list; None for None."""
    if places is None:
        return lambda values: None
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda values, i=places[0]: (values[i],)) if places else (lambda values: ())


def _is_of_state(function, stage):
    """Whether all tensors and arrays that a function reaches are state of the recording."""
    reach = Reach([function])
    state = {*stage.originals} - {*stage.arguments} | {id(x) for _, x in stage.reach.arrays}
    found = {*reach.tensors} | {id(x) for _, x in reach.arrays}
    return found <= state and reach.refusal(()) is None


def _repeated(node, i, record, leaves, start):
    """What a node of `checkpoint` saves: its ``i``-th value is ``record``, of this call."""
    arguments = copy(record.arguments)
    arguments.leaves = [wrap(x, None) if is_tensor else x for is_tensor, x in leaves]
    outside = [*node.parents[len(arguments.places) :]]
    record = record._replace(arguments=arguments, outside=outside, start=start)
    return (*node.saved[:i], record, *node.saved[i + 1 :])


__all__ = ["Graph"]
