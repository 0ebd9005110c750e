"""A piece of a program recorded as one node of the graph, with a VJP given as a function."""

import math
from contextlib import contextmanager
from threading import get_ident
from typing import NamedTuple
from weakref import WeakValueDictionary

from .._arguments import is_floating
from .._batched import active_levels, behind, levels_of, physical, reentered
from .._draws import Draws
from .._tensor import Tensor
from ..autograd.call import wrap, wrap_outputs
from ..autograd.graph import Leaf, make_node, next_order, writes
from ..autograd.implementation import add_instrument, implementation_of, remove_instrument
from ..autograd.mode import is_grad_enabled
from ..autograd.operation import op
from ..backends import namespace_of
from ..ops.manipulation import broadcast_to
from ..ops.reductions import sum as sum_
from .recording import fresh, reordered
from .trees import flatten, grouped, names, unflatten


class Call:
    """A call of a function that is recorded as one node: the arguments, flattened into leaves.

    leaves: everything the function was given, with Tensors detached from their graph.
    places: the positions in ``leaves`` of the recorded tensors, which are the node's inputs.
    inputs: those tensors, with their graph.
    levels: the `vmap` levels of each input.
    active: the levels that the call is made in.
    draws: the random numbers drawn in it, once the function has run within ``draws.noted()``.
    start: the node's order number, from before the function runs.
    structure, outputs: the structure of the result, and an `Output` for each of the node's.

    `record_outputs` sets the last two, and lets go of the inputs, whose arrays the node holds; `of`
    then puts inputs back in their places. `of` and `detached` return new objects, which the
    function may change in place.
    """

    def __init__(self, args, kwargs):
        self.leaves, self.structures = [], []
        for value in (*args, *kwargs.values()):
            found, structure = flatten(value, none_is_leaf=True)
            self.leaves += found
            self.structures.append(structure)
        self.keywords = tuple(kwargs)
        self.places, self.inputs, self.levels = [], [], []
        enabled = is_grad_enabled()
        for i, x in enumerate(self.leaves):
            if isinstance(x, Tensor):
                if enabled and x.node is not None:
                    self.places.append(i)
                    self.inputs.append(physical(x))
                    self.levels.append(levels_of(x))
                # Detached, because assigning to the Tensor replaces its array.
                self.leaves[i] = x.detach()
        self.active, self.draws, self.start = active_levels(), Draws(), next_order()

    @contextmanager
    def again(self, message):
        """Within the block, the function does what it did at first; see `Rerun`."""
        with reentered(self.active), self.draws.repeated(), Rerun(self.start, message):
            yield

    def of(self, inputs):
        """Positional and named arguments, with ``inputs`` (hiding their vmap axes) put in."""
        leaves = list(self.leaves)
        for i, x, levels in zip(self.places, inputs, self.levels, strict=True):
            leaves[i] = behind(x, levels)
        return self._given(leaves)

    def detached(self):
        """Positional and named arguments without any graph; only before `record_outputs`."""
        return self._given(self.leaves)

    def _given(self, leaves):
        leaves = [fresh(x) if isinstance(x, Tensor) else x for x in leaves]
        values = grouped(self.structures, leaves)
        n = len(values) - len(self.keywords)
        return values[:n], dict(zip(self.keywords, values[n:], strict=True))

    def names(self, roots):
        """The name of each leaf, given the names of the arguments in ``roots``."""
        pairs = zip(self.structures, roots, strict=True)
        return [name for structure, root in pairs for name in names(structure, root)]


class Piece:
    """The part of the graph between some results and the nodes that existed before ``start``.

    nodes: from each node of the piece to whether it existed before ``start``.
    outside: the nodes that existed before ``start``, besides the variables.
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
                self.discards = self.discards or node.plan.discards


class Rerun:
    """A context manager around a piece of a program that is run once more.

    It raises RuntimeError if an op has read memory there that had been overwritten in place since
    the piece ran for the first time. If nothing was overwritten, this does nothing. Otherwise, ops
    run inside an instrument that looks at what they read, except for results of other ops in the
    piece. These may lie in memory that was overwritten before it was freed, which not every library
    reports.

    start: an order number from before the first run.
    message: the text of the error.
    given: arrays that the piece is given anew.
    """

    def __init__(self, start, message, given=()):
        self.start, self.message, self.given = start, message, given
        self.stale = False

    def __enter__(self):
        if writes.last < self.start:
            self.again = next_order()
            self.thread = get_ident()
            # Results, and what is given, by their identities.
            self.made = WeakValueDictionary({id(array): array for array in self.given})
            add_instrument(self)

    def __exit__(self, kind, *error):
        remove_instrument(self)
        if self.stale and kind is None:
            raise RuntimeError(self.message)

    def forward(self, op, forward):
        def looking(xp, *arrays, **static):
            if get_ident() != self.thread or self.stale:
                return forward(xp, *arrays, **static)
            for array in arrays:
                if array is not self.made.get(id(array)):
                    self.stale = self.stale or writes.overwritten(array, self.start, self.again)
            out = forward(xp, *arrays, **static)
            for made in out if isinstance(out, tuple) else (out,):
                if type(made) in namespace_of:  # NumPy's scalars are not, and own their memory
                    self.made[id(made)] = made
            return out

        return looking

    def plan(self, plan):
        """Rules read what the piece's ops kept, which is looked at when they run."""


class Output(NamedTuple):
    """One of a node's outputs: its position among the result's leaves, shape, dtype, levels."""

    leaf: int
    shape: tuple[int, ...]
    dtype: object
    levels: list


def output(i, y):
    return Output(i, y.shape, y.dtype, levels_of(y))


def op_of_calls(name, **options):
    """An op for the nodes of `record_outputs`; its VJP calls ``record.pull(g, inputs)``."""

    def forward(xp, *inputs, record):
        raise NotImplementedError  # the results have been computed already

    forward.__name__ = name
    return op(forward, **options).vjp(joint=lambda xp, g, inputs, record: record.pull(g, inputs)).op


def record_outputs(op, call, outside, leaves, structure, outputs, record):
    """The result of a call, in which some leaves are results of one new node of ``op``.

    outside: the node's inputs besides those of the call: nodes, with the array of each, or None.
        The op's VJP gets the arrays, as Tensors if the backward pass is recorded.
    leaves, structure: the result.
    outputs: from a leaf's position to the Tensor, batched or not, that has its value.
    record: the object whose ``pull`` is the VJP; see `op_of_calls`.
    """
    call.structure = structure
    call.outputs = [output(i, y) for i, y in outputs.items()]
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


def several(g):
    """The cotangents of a node's outputs as a sequence, None where nothing depends on one."""
    return g if isinstance(g, (list, tuple)) else [g]


def is_recordable(x):
    """Whether a leaf of a result can have a cotangent."""
    return isinstance(x, Tensor) and is_floating(x)


# In the graph, axes of vmap levels entered after recording (a batch of cotangents) come before
# the axes of the levels it was recorded in. A function sees all axes in the order of the levels.


def to_function_axes(g, levels):
    """A cotangent in the axis order that a function sees; its node has axes of ``levels``."""
    every = [*levels_of(g), *levels]
    wanted = sorted(every, key=lambda level: level.number)
    return behind(reordered(physical(g), every, wanted), wanted)


def to_graph_axes(c, levels, known, summed):
    """A cotangent that a function returned, in the axis order of a node with axes of ``levels``.

    known: the levels that the graph was recorded in. If the node has no axis of such a level,
        all examples share its value, and the axis is reduced.
    summed: the levels of the function's result. Over these the examples' cotangents are summed.
        Over any other level all examples derive from one and the same cotangent, so their mean
        is taken.
    """
    every = levels_of(c)
    c = physical(c)
    shared = [i for i, level in enumerate(every) if level in known and level not in levels]
    if shared:
        c = sum_(c, axis=tuple(shared), dtype=c.dtype)
        parts = math.prod([every[i].size for i in shared if every[i] not in summed])
        c = c / parts if parts > 1 else c
        every = [level for i, level in enumerate(every) if i not in shared]
    for level in levels:
        if level not in every:
            c = broadcast_to(c, (level.size, *c.shape))
            every.insert(0, level)
    newer = [level for level in every if level not in levels]
    return behind(reordered(c, every, (*newer, *levels)), newer)
