"""A piece of a program as one node of the graph, whose VJP is a function of ours."""

import math
from typing import NamedTuple

from ..autograd.call import wrap, wrap_outputs
from ..autograd.graph import make_node
from ..autograd.implementation import implementation_of
from ..autograd.mode import is_grad_enabled
from ..autograd.operation import op
from ..backends import backend_of
from ..batched import behind, levels_of, physical
from ..ops.manipulation import broadcast_to
from ..ops.reductions import sum as sum_
from ..tensor import Tensor
from .recording import fresh, reordered
from .trees import flatten, grouped, names


class Arguments:
    """The arguments of a call, taken apart into leaves.

    leaves: whatever the function was given, the Tensors among them without their graph.
    places: where in them those are that were recorded, and so are the node's inputs.
    inputs: these, with their graph.
    levels: of each input, those of `vmap`.

    `let_go` of the inputs when the node has their arrays; `of` has them in their places again.
    What it gives are objects of their own, which the function may change in place.
    """

    __slots__ = ("leaves", "structures", "keywords", "places", "inputs", "levels")

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
                # An assignment gives the Tensor itself another array.
                self.leaves[i] = x.detach()

    def let_go(self):
        self.inputs = None
        for i in self.places:
            self.leaves[i] = None

    def of(self, inputs):
        """Positional and named arguments with these, without the axes of levels, for inputs."""
        leaves = list(self.leaves)
        for i, x, levels in zip(self.places, inputs, self.levels, strict=True):
            leaves[i] = behind(x, levels)
        return self._given(leaves)

    def detached(self):
        """The same with no input's graph; before `let_go`."""
        return self._given(self.leaves)

    def _given(self, leaves):
        leaves = [fresh(x) if isinstance(x, Tensor) else x for x in leaves]
        values = grouped(self.structures, leaves)
        n = len(values) - len(self.keywords)
        return values[:n], dict(zip(self.keywords, values[n:], strict=True))

    def names(self, roots):
        """What each leaf is called, where the arguments are called as in ``roots``."""
        pairs = zip(self.structures, roots, strict=True)
        return [name for structure, root in pairs for name in names(structure, root)]


class Output(NamedTuple):
    """One of a node's outputs: which leaf of the result it is, and what it is like."""

    leaf: int
    shape: tuple[int, ...]
    dtype: object
    levels: list


def output(i, y):
    return Output(i, y.shape, y.dtype, levels_of(y))


def op_of_calls(name, **options):
    """An op for the nodes of `recorded_outputs`; the record has the VJP, ``pull(g, inputs)``."""

    def forward(xp, *inputs, record):
        raise NotImplementedError  # the results are there already

    forward.__name__ = name
    return op(forward, **options).vjp(joint=lambda xp, g, inputs, record: record.pull(g, inputs)).op


def recorded_outputs(op, arrays, parents, outputs, record):
    """Tensors with the values of ``outputs``, as results of one new node of ``op``.

    arrays: of the node's inputs, or None; the op's VJP gets them, as Tensors if recorded.
    parents: the node of each input.
    outputs: Tensors, batched or not.
    record: what else the VJP gets; see `op_of_calls`.
    """
    n = len(parents)
    raw = tuple([physical(y).array for y in outputs])
    plan = implementation_of(op, type(raw[0])).plan(((1 << n) - 1, n))
    saved = plan.pick((*arrays, None, {"record": record}))
    node = make_node(plan, tuple(parents), saved, raw if len(raw) > 1 else raw[0])
    tensors = wrap_outputs(raw, node) if len(raw) > 1 else [wrap(raw[0], node)]
    return [behind(x, levels_of(y)) for x, y in zip(tensors, outputs, strict=True)]


def several(g):
    """The cotangents of a node's outputs as a sequence, None where nothing depends on one."""
    return g if isinstance(g, (list, tuple)) else [g]


def is_recordable(x):
    """Whether a leaf of a result can have a cotangent."""
    return isinstance(x, Tensor) and backend_of[type(x._like)].is_floating(x.dtype)


# In the graph the axes of the levels that it was recorded in come behind those of levels
# entered since: a batch of cotangents. A function meets them in the order of the levels.


def to_function_axes(g, levels):
    """A cotangent as a function meets it; ``levels`` are those whose axes its node has."""
    every = [*levels_of(g), *levels]
    wanted = sorted(every, key=lambda level: level.number)
    return behind(reordered(physical(g), every, wanted), wanted)


def to_graph_axes(c, levels, known, summed):
    """A cotangent that a function returned as a node has it that has axes of ``levels``.

    known: the levels that the graph was recorded in. Over the examples of one that the node has
        no axis of, which share its value, the cotangents are summed if it is among ``summed``,
        the levels of the function's result. If not, all come of the same cotangent, of which
        each example has a part: their mean.
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
