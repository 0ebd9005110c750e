"""A piece of a program recorded as one node of the graph, with a VJP given as a function."""

import math
from contextlib import contextmanager
from threading import get_ident
from typing import NamedTuple
from weakref import WeakValueDictionary

from .._batched import active_levels, behind, levels_of, physical, reentered
from .._draws import Draws
from .._tensor import Tensor
from ..autograd.call import wrap, wrap_outputs
from ..autograd.graph import Leaf, make_node, next_order, writes
from ..autograd.implementation import add_instrument, implementation_of, remove_instrument
from ..autograd.mode import is_grad_enabled
from ..autograd.operation import op
from ..backends import namespace_of
from .cotangents import inward
from .recording import fresh
from .trees import flatten_each, grouped, names, unflatten


class Call:
    """A call of a function that one node records: its arguments, flattened into leaves.

    leaves: everything the function was given, with Tensors detached from their graph.
    places: the positions in ``leaves`` of the recorded tensors, which are the node's inputs.
    inputs: those tensors, with their graph.
    levels: the `vmap` levels of each input.
    active: the levels that the call is made in.
    draws: the random numbers drawn in it, once the function has run within ``draws.noted()``.
    start: the node's order number, from before the function runs.
    structure, outputs: the structure of the result, and an `Output` for each of the node's.

    `record_outputs` sets the last two. It also removes the inputs and their leaves, because the
    node holds their arrays.
    """

    def __init__(self, args, kwargs):
        self.leaves, self.structures = flatten_each((*args, *kwargs.values()), none_is_leaf=True)
        self.keywords = tuple(kwargs)
        self.places, self.inputs, self.levels = [], [], []
        enabled = is_grad_enabled()
        for i, x in enumerate(self.leaves):
            if isinstance(x, Tensor):
                if enabled and x.node is not None:
                    self.places.append(i)
                    self.inputs.append(physical(x))
                    self.levels.append(levels_of(x))
                # Detached, because an assignment to the Tensor would replace its array.
                self.leaves[i] = x.detach()
        self.active, self.draws, self.start = active_levels(), Draws(), next_order()

    def arguments(self, inputs=None):
        """Positional and named arguments: new objects, which the function may change in place.

        inputs: tensors for the places of the recorded ones, which hide their vmap axes. Until
            `record_outputs` there are detached tensors in these places.
        """
        leaves = list(self.leaves)
        if inputs is not None:
            for i, x, levels in zip(self.places, inputs, self.levels, strict=True):
                leaves[i] = behind(x, levels)
        leaves = [fresh(x) if isinstance(x, Tensor) else x for x in leaves]
        values = grouped(self.structures, leaves)
        n = len(values) - len(self.keywords)
        return values[:n], dict(zip(self.keywords, values[n:], strict=True))

    @contextmanager
    def repeated(self, name):
        """A context manager in which the function may run once more, as it ran at first.

        It has the same vmap levels and random numbers. The block raises RuntimeError if it reads
        memory that was overwritten since; see `Rerun`.
        """
        with reentered(self.active), self.draws.repeated(), Rerun(name, self.start):
            yield

    def names(self, roots):
        """The name of each leaf, given the names of the arguments in ``roots``."""
        pairs = zip(self.structures, roots, strict=True)
        return [name for structure, root in pairs for name in names(structure, root)]


class Piece:
    """The part of the graph between some results and what existed before ``start``.

    nodes: the nodes of this part and those that it ends at; for each, whether it is one of
        ``outside``.
    outside: the nodes from before ``start`` that the results depend on, besides the variables.
    discards: whether some ops discard elements; see `op`.
    """

    def __init__(self, roots, variables, start):
        self.nodes, self.outside, self.discards = {}, [], False
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node in self.nodes:
                continue
            if node in variables:
                self.nodes[node] = False
            elif node.order > start:
                self.nodes[node] = True
                self.outside.append(node)
            elif type(node) is not Leaf:  # a leaf made inside the piece depends on nothing
                self.nodes[node] = False
                stack.extend(node.parents)
                self.discards = self.discards or node.plan.op.discards


class Rerun:
    """A context manager around a piece of a program that runs once more.

    On leaving, it raises RuntimeError if an op has read memory that was overwritten in place since
    the piece ran for the first time. If the program has overwritten nothing, it does nothing.
    Otherwise every op runs inside an instrument that looks at its operands. It skips results of
    other ops in the piece: these may lie in memory that was overwritten before it was freed, and
    not every library reports that.

    name: what errors call the piece.
    start: an order number from before the first run.
    given: arrays that are made for this run, which the instrument skips too.
    """

    def __init__(self, name, start, given=()):
        self.name, self.start, self.given = name, start, given
        self.stale = False

    def __enter__(self):
        if writes.last < self.start:
            self.entered = next_order()
            self.thread = get_ident()
            # The results of ops and the given arrays, by their identities.
            self.made = WeakValueDictionary({id(array): array for array in self.given})
            add_instrument(self)

    def __exit__(self, kind, *error):
        remove_instrument(self)
        if self.stale and kind is None:
            raise overwritten(self.name)

    def forward(self, op, forward):
        def looking(xp, *arrays, **static):
            if get_ident() != self.thread or self.stale:
                return forward(xp, *arrays, **static)
            for array in arrays:
                if array is not self.made.get(id(array)):
                    self.stale = self.stale or writes.overwritten(array, self.start, self.entered)
            out = forward(xp, *arrays, **static)
            for made in out if isinstance(out, tuple) else (out,):
                if type(made) in namespace_of:  # NumPy's scalars are not, and own their memory
                    self.made[id(made)] = made
            return out

        return looking

    def plan(self, plan):
        """Do nothing: a sweep itself checks the values that ops of the piece have saved."""


def overwritten(name):
    """The error for a value that backward needs again, and that the program has overwritten."""
    return RuntimeError(
        f"{name}: a value that its backward pass uses was overwritten in place since the call, by "
        f"an optimizer step or load_state_dict; call backward before it, or compute the forward "
        f"pass again"
    )


class Output(NamedTuple):
    """One of a node's outputs: its position among the result's leaves, shape, dtype, levels."""

    leaf: int
    shape: tuple[int, ...]
    dtype: object
    levels: list

    @classmethod
    def of(cls, leaf, y):
        return cls(leaf, y.shape, y.dtype, levels_of(y))


def op_of_calls(name, **options):
    """An op for the nodes of `record_outputs`; its VJP calls ``record.pull(cotangents, inputs)``.

    ``cotangents`` is a sequence with an element for each of the node's outputs. With
    ``materialize=False`` it has None for an output that nothing depends on.
    """

    def forward(xp, *inputs, record):
        raise NotImplementedError  # the results have been computed already

    def pull(xp, g, inputs, record):
        return record.pull(g if isinstance(g, (list, tuple)) else [g], inputs)

    forward.__name__ = name
    return op(forward, **options).vjp(joint=pull).op


def record_outputs(op, call, outside, leaves, structure, outputs, record):
    """Record a call as one new node of ``op``; returns the call's result with that graph.

    outside: the node's inputs besides those of the call: nodes, with the array of each, or None.
        The op's VJP gets the arrays, as Tensors if the backward pass is recorded.
    leaves, structure: the result.
    outputs: the Tensors that become the node's results, by their positions in ``leaves``.
    record: the object whose ``pull`` is the VJP; see `op_of_calls`.
    """
    call.structure = structure
    call.outputs = [Output.of(i, y) for i, y in outputs.items()]
    arrays = [x.array for x in call.inputs] + list(outside.values())
    parents = (*[x.node for x in call.inputs], *outside)
    call.inputs = None
    for i in call.places:
        call.leaves[i] = None
    n = len(parents)
    raw = tuple([physical(y).array for y in outputs.values()])
    plan = implementation_of(op, type(raw[0])).plan(((1 << n) - 1, n))
    saved = plan.pick((*arrays, None, {"record": record}))
    node = make_node(plan, parents, saved, raw if len(raw) > 1 else raw[0], call.start)
    tensors = wrap_outputs(raw, node) if len(raw) > 1 else [wrap(raw[0], node)]
    for (i, y), x in zip(outputs.items(), tensors, strict=True):
        leaves[i] = behind(x, levels_of(y))
    return unflatten(structure, leaves)


def to_graph_axes(c, levels, recorded, summed):
    """A cotangent that a function returned, in the form that a node with axes for ``levels`` uses.

    recorded: the levels that the graph was recorded in. If the node has no axis for such a level,
        all examples share its value, and the axis is reduced.
    summed: the levels of the function's result. Over these the examples' cotangents are summed.
        Over any other level all examples derive from one and the same cotangent, so their mean
        is taken.
    """
    present = levels_of(c)
    shared = [i for i, level in enumerate(present) if level in recorded and level not in levels]
    if shared:
        c = physical(c).sum(axis=tuple(shared), dtype=c.dtype)
        parts = math.prod([present[i].size for i in shared if present[i] not in summed])
        c = c / parts if parts > 1 else c
        c = behind(c, [level for i, level in enumerate(present) if i not in shared])
    return inward(c, levels)
