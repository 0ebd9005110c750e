"""Graphs of compiled functions: results have the graph that the function itself would record.

A recording keeps this graph as a pattern, in which values of the tape replace the arrays that nodes
save. Each run of the program makes new nodes, which save what these values are in this run. So
`backward`, hooks and whatever else looks at the graph find what they find without `compile`.

When a sweep comes to the node of a result, a program handles all nodes of that call at once. If a
hook, a target or a freed node is among them, the sweep handles them one by one instead. There is a
program for each kind of sweep, that is for which nodes have cotangents, for the layouts of these,
and for whether rules are guarded. It is recorded while the first sweep of its kind runs.
"""

import math
from copy import copy
from functools import reduce
from operator import getitem
from types import SimpleNamespace
from typing import NamedTuple

from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.graph import Leaf, Node, writes
from ..autograd.implementation import implementation_of
from ..autograd.plan import OutputPlan
from ..autograd.sweep import check_unchanged, sweep
from ..backends import namespace_of
from ..transforms.custom import RecordedVjp
from ..transforms.recomputing import Recomputed
from .graphs import program_of
from .libraries import is_own
from .numbers import Key, Number
from .recorder import Recorder
from .run import Failed, warn_of
from .steps import items_at
from .tape import Input, Tape, Unsupported, Value, mapped, replaced, values_in
from .tracing import Traced

_MOST = 8  # programs for sweeps through one graph
_STEP = 2.0**-20  # the difference between the order numbers of two nodes of one call


class Graph:
    """The pattern of the graph of a tape's results; to make one may stop the recording.

    A node's number is its position in the list of all nodes: first those from outside of the call,
    then those that the call makes, the oldest first.

    outside: for each node from outside, the position of the argument that has it; or the node
        itself if it belongs to a Tensor of the state, or is a `Leaf` that the function has made.
    nodes: for each other node its op, its parents' numbers, what it saves, its shape and its dtype.
    places: pairs of the position of a result and the number of its node.
    values: the values that the nodes save.
    sweeps: the `Sweeps` of the graphs of all calls.
    """

    def __init__(self, function, recorder, stage, results):
        """results: by position, the results that have a graph."""
        self.function = function
        self.outside, self.nodes, self._plans = [], [], []
        holders = {x.node: x for x, *_ in stage.originals.values() if x.node is not None}
        outside, inside = _split([y.node for y in results.values()], recorder.start, holders)
        stop = recorder.stop
        for node in outside:
            x = holders.get(node, node)
            if x is node and node.order > recorder.start:
                stop("a result depends on tensors that compile cannot see")
            self.outside.append(stage.arguments.get(id(x), node))
        numbers = {node: i for i, node in enumerate([*outside, *inside])}
        found = []
        for node, parents in inside.items():
            _check(node, stop)
            parents = tuple([numbers[parent] for parent in parents])
            saved = None if node.saved is None else mapped(tuple(node.saved), _noted)
            found += values_in(saved)
            self.nodes.append((node.plan.op, parents, saved, node.shape, node.dtype))
            self._plans.append(plan_for(node, recorder.array))
        self.places = [(i, numbers[y.node]) for i, y in results.items()]
        self.values = [*dict.fromkeys(found)]
        if any(x.memory is not None and x.memory.is_written and not x.memory.is_own for x in found):
            stop("it overwrites what the gradient of a result needs; return its detach()")
        n = len(outside)
        is_open = any(row[2] is not None and min(row[1], default=n) < n for row in self.nodes)
        if is_open and any(call.communicates for call in recorder.calls):
            stop("it returns a result that requires grad, and communicates with other processes")

    def finish(self, tape):
        """Prepare to make the graphs of all calls."""
        self.sweeps = Sweeps(self, tape)
        self._arguments = [(k, i) for k, i in enumerate(self.outside) if type(i) is int]

    def bind(self, program):
        """Prepare how a program makes the nodes of a call; returns the rows that `join` takes."""
        shown = {*program.tape.returned()}
        numbers, rows = {number for _, number in self.places}, []
        for i, (_, parents, saved, shape, dtype) in enumerate(self.nodes):
            plan = self._plans[i]
            if len(self.outside) + i in numbers:
                plan = copy(plan)
                plan.region = self.sweeps
            slots = [_register(program, x, shown) for x in saved or ()]
            # What was freed when the function returned is not there in later calls either.
            saved = (lambda regs: None) if saved is None else items_at(slots)
            rows.append((plan, items_at(parents), saved, shape, dtype))
        return rows

    def join(self, found, rows, regs, start):
        """Make the graph of a call, and give it to the leaves of the result.

        found: these leaves.
        regs: the registers of the program, the first of which have the leaves of the arguments.
        start: an order number from before the program ran.
        """
        nodes, order = [*self.outside], start
        for k, i in self._arguments:
            nodes[k] = regs[i].node
        for plan, parents, saved, shape, dtype in rows:
            order -= _STEP
            node = Node()
            node.order = order
            node.plan = plan
            node.parents = parents(nodes)
            node.saved = saved(regs)
            node.shape = shape
            node.dtype = dtype
            node.watch = None
            nodes.append(node)
        for i, number in self.places:
            found[i].node = nodes[number]


class Sweeps:
    """Handles all nodes of a call at once, by programs; see `Plan.region`.

    programs: by the kind of a sweep, its program, or None if there can be none.
    """

    def __init__(self, graph, tape):
        self._function = graph.function
        self._first, self._nodes = len(graph.outside), graph.nodes
        self._backend, self._device = tape.backend, tape.device
        self._has_kernels = tape.has_kernels
        self._paths, self.programs = {}, {}
        self._has_failed = False

    def sweep(self, node, g, pending, targets, needed, guard, retain_graph):
        """Handle the nodes of the call by a program.

        Returns whether the rest of the sweep guards its rules; None if the nodes have to be
        handled one by one.
        """
        waiting, start, last = pending.cotangents, math.ceil(node.order), writes.last
        if thread.recorder is not None or start in pending.tried:
            return None
        pending.tried.add(start)
        roots = {self._number(node): (node, g)}
        for x, c in waiting.items():
            if start - 1 < x.order <= start:
                if type(x) is Leaf or x.plan.region is not self:
                    return None
                roots[self._number(x)] = x, c
        numbers = tuple(sorted(roots))
        if (path := self._path(numbers)) is None:
            return None
        nodes = [roots[number][0] for number in numbers]
        for i, k in path.steps:
            nodes.append(nodes[i].parents[k])
        inside, outside = [nodes[i] for i in path.inside], [nodes[i] for i in path.outside]
        if len({*outside}) < len(outside):
            return None
        for x in inside:
            is_seen = x is not node and (x.watch or (targets is not None and x in targets))
            is_skipped = needed is not None and x not in needed
            is_gone = x.saved is None or (start > last and _is_overwritten(x))
            if is_seen or is_skipped or is_gone:
                return None
        joined = tuple([i for i, x in zip(path.outside, outside, strict=True) if x in waiting])
        roots = [*map(roots.get, numbers), *[(nodes[i], waiting[nodes[i]]) for i in joined]]
        if (found := self._run((numbers, joined, guard), path, nodes, roots)) is None:
            return None
        for x, _ in roots[: len(numbers)]:
            if x is not node:
                pending.take(x)
        if not retain_graph:
            for x in inside:
                x.saved = None if x.saved else ()
        for x, c in zip(outside, found, strict=True):
            if c is not None and (needed is None or x in needed):
                pending.set(x, c)
        return guard or path.discards

    def _number(self, node):
        """The number of a node of the call, which `Graph.join` has written into its order."""
        return self._first - 1 + round((math.ceil(node.order) - node.order) / _STEP)

    def _path(self, roots):
        """The `_Path` of sweeps that begin at the nodes with these numbers, or None."""
        if roots in self._paths or len(self._paths) == 4 * _MOST:
            return self._paths.get(roots)
        self._paths[roots] = None
        numbers, steps, places = dict.fromkeys(roots), [], {}
        inside, outside, discards = [], [], False
        queue = [*roots]
        for i, number in enumerate(queue):
            if number < self._first:
                outside.append(i)
                continue
            inside.append(i)
            op, parents, saved, *_ = self._nodes[number - self._first]
            found = [] if saved is None else _places(saved)
            is_hidden = saved is None or len(found) < len(values_in(saved))
            if is_hidden or is_own(op.forward.__module__):
                return None
            for x, where in found:
                places.setdefault(x, (i, where))
            discards |= op.discards
            for k, parent in enumerate(parents):
                if parent not in numbers:
                    numbers[parent] = None
                    queue.append(parent)
                    steps.append((i, k))
        self._paths[roots] = path = _Path(queue, steps, inside, outside, places, discards)
        return path

    def _run(self, kind, path, nodes, roots):
        """The cotangents of the nodes outside, or None if there is no program for the sweep.

        kind: the key in ``programs``, up to the layouts of the cotangents.
        nodes: those of the path.
        roots: pairs of a node where the sweep begins and its cotangent.
        """
        given = [reduce(getitem, where, nodes[i].saved) for i, where in path.places.values()]
        cotangents = [self._backend.asarray(c) for _, c in roots]
        if any(not c.shape and self._backend.is_complex(c.dtype) for c in cotangents):
            return None  # NumPy rounds complex scalars and complex 0-d arrays differently
        given += cotangents
        key = *kind, *map(_layout_of, cotangents)
        if key not in self.programs and len(self.programs) < _MOST:
            self.programs[key] = self._recorded(path, nodes, given, [x for x, _ in roots], kind[-1])
        if (program := self.programs.get(key)) is None:
            return None
        try:
            return program.run_alone(given)
        except Failed as failure:
            if not self._has_failed:
                self._has_failed = True
                warn_of(failure, self._function, "the calls of its backward pass")
            return None

    def _recorded(self, path, nodes, given, roots, guard):
        """Record a sweep, by making it with traced arrays; returns its program, or None.

        nodes: those of the path.
        given: the saved values, and then the cotangents.
        roots: the nodes of these cotangents.
        guard: whether rules are guarded.
        """
        recorder = Recorder(self._backend)
        traced = [_input(recorder, i, x) for i, x in enumerate(given)]
        values = dict(zip(path.places, traced, strict=False))
        twins = {}
        for i in sorted(path.inside, key=lambda i: -nodes[i].order):  # the oldest first
            _, _, saved, *_ = self._nodes[path.numbers[i] - self._first]
            twins[nodes[i]] = twin = copy(nodes[i])
            twin.plan, twin.watch = plan_for(nodes[i], recorder.kind), None
            twin.parents = tuple([twins.get(parent, parent) for parent in nodes[i].parents])
            twin.saved = replaced(saved, values.get)
        outside = [nodes[i] for i in path.outside]
        needed = dict.fromkeys(outside, True) | dict.fromkeys(twins.values(), False)
        roots = [(twins.get(x, x), c) for x, c in zip(roots, traced[-len(roots) :], strict=True)]
        thread.recorder = recorder
        try:
            found = sweep(roots, {*outside}, True, False, guard=guard, needed=needed, piece=True)
            found = [found.get(x) for x in outside]
            for k, c in enumerate(found):
                if c is not None and type(c) is not recorder.kind:
                    found[k] = recorder.call(self._backend.asarray, (c,))
        except Exception:  # noqa: BLE001  the ordinary sweep will raise it
            return None
        finally:
            thread.recorder = None
        if recorder.reason is not None:
            return None
        tape = Tape(
            recorder, device=self._device, guards=[], reach=SimpleNamespace(optimizers=[]),
            argument_of={}, leaves=[("array", None)] * len(given),
            results=[*map(self._result, found)],
        )  # fmt: skip
        recorder.forget()
        try:
            return program_of(tape, self._has_kernels)
        except Unsupported:
            return None

    def _result(self, c):
        """The result of a program for a traced cotangent: a view if the sweep had made one.

        When it becomes a gradient, that decides whether it keeps its order in memory.
        """
        if c is None:
            return "static", None
        is_view = c.var.source is None and not self._backend.is_unshared(c.value)
        return "view" if is_view else "array", c.var


class _Path(NamedTuple):
    """The nodes that sweeps from the same roots go through.

    numbers: the nodes' numbers, those of the roots first.
    steps: for each node after the roots, the position in ``numbers`` of a child, and which of the
        child's parents it is.
    inside, outside: the positions of the nodes of the call, and of those from outside.
    places: by value, the position of a node that saves it, and the indices that lead to it there.
    discards: whether some ops discard elements; see `op`.
    """

    numbers: list
    steps: list
    inside: list
    outside: list
    places: dict
    discards: bool


def _register(program, x, shown):
    """The register of a program that has an object that a node saves.

    shown: the values that are results.
    """
    if type(x) is Value:
        # If a constant is a result too, a run returns a copy, and the nodes save that copy.
        is_fixed = x.constant is not None and x not in shown
        return program.slot(x) if is_fixed else program.leaving(x)
    if not (found := values_in((x,))):
        return program.slot(x)
    regs, places = program.regs, {y: _register(program, y, shown) for y in found}
    return program.made(lambda: replaced(x, lambda y: regs[places[y]]))


def _check(node, stop):
    """Stop the recording if calls cannot make this node again."""
    if node.watch is not None and (node.watch.hooks or node.watch.label):
        stop("the gradient of a result calls hooks, or has a label")
    if any(isinstance(x, (Recomputed, RecordedVjp)) for x in node.saved or ()):
        stop("the gradient of a result calls a checkpoint or a custom_vjp")


def _is_overwritten(node):
    try:
        check_unchanged(node)
    except RuntimeError:
        return True
    return False


def plan_for(node, kind):
    """The plan of a node for another type of arrays."""
    if node.plan.output is not None:
        (parent,) = node.parents
        return OutputPlan(plan_for(parent, kind), node.plan.output)
    found = implementation_of(node.plan.op, kind).plan(node.plan.key)
    if node.plan.special:
        found.mark_special()
    return found


def _input(recorder, i, x):
    """The traced array, number or key for the ``i``-th object that a sweep is given."""
    if type(x) in namespace_of:
        # `input` returns the same traced array for the same array; a view is another one.
        return recorder.input(x[...], Input("argument", i))
    source = Input("number", ("leaf", i))
    if type(x) is not tuple:
        return recorder.number(source, x)
    return Key(recorder, Value("number", source=source), x)


def _places(x, where=()):
    """The values in nested tuples, each with the indices that lead there."""
    found = []
    for i, y in enumerate(x):
        if type(y) is Value:
            found.append((y, (*where, i)))
        elif type(y) in (tuple, list):
            found += _places(y, (*where, i))
    return found


def _layout_of(c):
    strides = getattr(c, "strides", None)
    flags = getattr(c, "flags", None)
    in_order = strides is None or (flags is not None and flags.c_contiguous)
    return tuple(c.shape), None if in_order else strides


def _split(roots, start, holders):
    """The nodes on which ``roots`` depend: a list of those from outside, and those of the call.

    The latter are the keys of a dict, the oldest first, with their parents. No sweep goes beyond a
    node that has been freed, so only nodes with a Tensor in ``holders`` count as its parents.
    """
    outside, inside, stack = {}, {}, [*roots]
    while stack:
        node = stack.pop()
        if type(node) is Leaf or node.order > start:
            outside[node] = None
        elif node not in inside:
            inside[node] = parents = node.parents
            if node.saved is None:
                below, _ = _split(parents, start, holders)
                inside[node] = parents = [x for x in below if x in holders]
            stack += parents
    return [*outside], dict(sorted(inside.items(), key=lambda item: -item[0].order))


def _noted(x):
    """What the tape has for an object that a node saves."""
    if isinstance(x, Tensor):
        x = x.array
    return x.var if isinstance(x, (Traced, Key)) or type(x) is Number else x
