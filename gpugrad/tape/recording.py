"""Recording: a call of a function that really runs, and the tape of what it has done."""

import operator
import sys
from collections import OrderedDict, defaultdict, deque
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from functools import lru_cache

from .._batched import BatchedTensor
from .._tensor import Tensor
from .._thread_state import restores_state, thread
from ..autograd import implementation
from ..autograd.graph import Leaf, Node, next_order
from ..autograd.plan import OutputPlan
from ..backends import SCALARS, backend_of, namespace_of
from ..transforms.trees import flatten, unflatten
from .derivatives import Graph
from .draws import NotedDraws
from .numbers import Number
from .reach import SIMPLE, Reach, is_own
from .run import MISS
from .stage import Stage, real_of, release
from .tape import Input, Tape, Value, simplify
from .tracing import Recorder, Traced, duplicate_of

_DICTS = {dict, OrderedDict, defaultdict}  # which are nodes of trees
_LISTS = {list, deque}
_FIELDS = "__dataclass_fields__"


class Recorded:
    """A call that ran while it was recorded.

    result: what the function has returned.
    tape: its `Tape`, or None.
    reason: why there is none.
    passing: whether a later call may have one: True, False, or "first" if the next one may.
    """

    def __init__(self, result, tape=None, reason=None, passing=False):
        self.result = result
        self.tape = tape
        self.reason = reason
        self.passing = passing


def record(function, leaves, structure, args, kwargs, derivative_keys=()):
    """Call the function, and return what it has done as a `Recorded`."""
    given = Given((*args, *kwargs.values()))
    reach = Reach(function, leaves, given.nodes)
    reason = reach.unsupported
    backend = backend_for(reach, leaves)
    passing = False
    if reason is None and any(map(has_more, given.nodes)):
        reason = "an argument has attributes that are not fields of its dataclass"
    if reason is None and backend is None:
        reason, passing = "it has no tensors to compute with", True
    if reason is not None:
        return Recorded(function(*args, **kwargs), None, reason, passing)
    recorder = Recorder(backend)
    of_state = set(reach.tensors)
    arguments = {}
    for i, x in enumerate(leaves):
        if isinstance(x, Tensor) and id(x) not in of_state:
            arguments.setdefault(id(x), i)
            reach.tensor(x)
    stage = Stage(recorder, reach, arguments)
    problem = stage.problem()
    if problem is not None:
        return Recorded(function(*args, **kwargs), None, *problem)
    recording = _Recording(function, recorder, reach, stage, given, derivative_keys)
    return recording.run(leaves, structure, args, kwargs)


class _Recording:
    def __init__(self, function, recorder, reach, stage, given, derivative_keys):
        self.function = function
        self.recorder = recorder
        self.reach = reach
        self.stage = stage
        self.given = given
        self.derivative_keys = derivative_keys

    @restores_state
    def run(self, leaves, structure, args, kwargs):
        try:
            result, tape = self._run(leaves, structure, args, kwargs)
        finally:  # no cycle is to keep the arguments, not even after an error
            recorder, stage = self.recorder, self.stage
            recorder.forget()
            stage.forget()
            self.given = self.given_traced = self.raw = None
        leaked = recorder.leaked()
        if leaked:
            release(leaked)
            recorder.stop("it keeps a tensor where compile cannot see it", "first")
        if recorder.reason is not None:
            return Recorded(result, None, recorder.reason, recorder.passing)
        return Recorded(result, tape)

    def _run(self, leaves, structure, args, kwargs):
        recorder, stage, reach = self.recorder, self.stage, self.reach
        draws = NotedDraws(recorder, reach.generators, reach.foreign_generators)
        outer = thread.draws
        before = self._signature(leaves)
        tape = None
        try:
            try:
                thread.recorder = recorder
                stage.enter()
                traced, named = self._traced_arguments(leaves, args, kwargs)
                recorder.start, recorder.seen = next_order(), stage.originals
                thread.draws = (draws, *outer)
                with (recorder.backend.sweep_context or nullcontext)():
                    result = self.function(*traced, **named)
            finally:
                thread.draws = outer
                draws.end()
                stage.leave()
            if recorder.has_failed:
                reason = "it handles an error of a call, which depends on values"
                recorder.stop(reason, "first")
            parts, result_structure = flatten(result, none_is_leaf=True)
            if recorder.reason is None:
                tape = self._tape(leaves, structure, parts, result, result_structure, draws, before)
        finally:  # again, in case Ctrl-C came during the first time
            thread.recorder = None
            thread.draws = outer
            stage.leave()
        if tape is not None:
            tape.forget()
        return self._real_result(result, parts, result_structure), tape

    def _traced_arguments(self, leaves, args, kwargs):
        """The arguments with a traced array in place of each raw one; tensors are as they are."""
        recorder = self.recorder
        arrays = {}
        for i, x in enumerate(leaves):
            if type(x) in namespace_of and id(x) not in arrays:
                if backend_of[type(x)] is not recorder.backend:
                    recorder.stop("it uses arrays of several libraries")
                    continue
                arrays[id(x)] = recorder.input(x, Input("argument", i))
        self.raw = arrays
        if not arrays:
            return args, kwargs
        found = []
        for value in (*args, *kwargs.values()):
            parts, structure = flatten(value, none_is_leaf=True)
            found.append(unflatten(structure, [arrays.get(id(x), x) for x in parts]))
        self.given_traced = Given(tuple(found))
        return found[: len(args)], dict(zip(kwargs, found[len(args) :], strict=True))

    def _signature(self, leaves):
        """What decides which program a call needs, besides the guards."""
        found = [thread.recording]
        for x in leaves:
            if isinstance(x, Tensor):
                node = type(x.node)
                found.append((type(x), _layout(x.array), node, node is Leaf and x.grad is not None))
            elif type(x) in namespace_of:
                found.append((type(x), _layout(x)))
            else:
                found.append((type(x), None))
        for key, x in self.reach.tensors.items():
            if key not in self.stage.arguments:
                found.append((key, _layout(x.array), id(x.node), x.grad is not None))
        return found

    # The tape

    def _tape(self, leaves, structure, parts, result, result_structure, draws, signature):
        """The tape of what was noted; None if the recording has stopped by now."""
        recorder, stage, reach = self.recorder, self.stage, self.reach
        if any(is_own(name) and name in sys.modules for name in reach.not_imported):
            recorder.stop("it imports a module", True)
        changed = self.given.changed() or getattr(self, "given_traced", self.given).changed()
        if changed:
            recorder.stop("it changes a list, a dict or an object that is an argument")
        kinds, results = self._results(parts, result)
        if recorder.reason is not None:
            return None
        backend = recorder.backend
        duplicate = duplicate_of(backend)
        graph = None
        live = [i for i, (kind, _) in enumerate(results) if kind == "live"]
        if live:
            roots = [parts[i] for i in live]
            graph = Graph.of(recorder, stage, roots, live, self.derivative_keys)
            if graph is None or recorder.reason is not None:
                return None
        rebound = stage.rebound
        leaving = [value for _, _, value in rebound]
        leaving += [value for _, value, _ in stage.gradients if value is not None]
        leaving += [value[1] for kind, value in results if kind == "tensor"]
        leaving += [value[1] for kind, value in results if kind == "live"]
        leaving += [value for kind, value in results if kind == "array"]
        leaving += [var for _, var, _ in stage.skips]
        leaving = [x for x in leaving if x is not None]
        if graph is not None:
            leaving += graph.kept
        calls, new = simplify(recorder.calls, leaving, duplicate)
        found = lambda x: new.get(x, x)  # noqa: E731
        results = [_replaced(kind, value, new) for kind, value in results]
        if graph is not None:
            graph.rename(new)
            results += [("number" if x.kind == "number" else "kept", x) for x in graph.kept]
        tape = Tape(
            backend=backend,
            duplicate=duplicate,
            is_recording=thread.recording,
            structure=structure,
            result_structure=result_structure,
            is_leaf=len(parts) == 1 and parts[0] is result,
            signature=signature,
            reach=reach,
            calls=calls,
            prologue=recorder.prologue,
            conditions=recorder.conditions,
            afterwards=recorder.afterwards,
            communicates=any(call.communicates for call in calls),
            rebound=[(x, what, found(value)) for x, what, value in rebound],
            gradients=[
                (x, None if value is None else found(value), grad)
                for x, value, grad in stage.gradients
            ],
            number_writes=stage.number_writes,
            changed=stage.changed,
            skips=[(o, found(var), counts) for o, var, counts in stage.skips],
            results=results,
            leaving=list(dict.fromkeys(map(found, leaving))),
            argument_of=dict(stage.arguments),
            alike=stage.alike,
            generators=[entry[0] for entry in draws.replaced],
            parameters={id(p): s for o in reach.optimizers for p, s in o._states.items()},
            optimizers=[
                (o, [
                    [(k, v) for k, v in enumerate(values) if isinstance(v, bool)]
                    for values in o._hyper
                ])
                for o in reach.optimizers
            ],
            graph=graph,
        )  # fmt: skip
        self._needed_numbers(tape)
        self._inputs(tape, leaves)
        self._guard_hidden(tape)
        return tape if recorder.reason is None else None

    def _needed_numbers(self, tape):
        """Find the numbers that something needs, each after what it is computed from."""
        wanted: list = []

        def add(x):
            if isinstance(x, (tuple, list)):
                for item in x:
                    add(item)
                return
            x = getattr(x, "var", x)
            if type(x) is Value and x.kind == "number":
                wanted.append(x)

        for call in tape.calls:
            for x in call.operands():
                add(x)
        for _, args, _ in tape.conditions:
            add(args)
        add([value for _, _, value in tape.number_writes])
        add([[c[1:] for c in counts] for _, _, counts in tape.skips])
        add([value for kind, value in tape.results if kind == "number"])
        add([value for _, value in tape.changed])
        if tape.graph is not None:
            add(tape.graph.kept)
        needed = {}
        stack = wanted[::-1]
        while stack:
            x = stack.pop()
            if x in needed:
                continue
            needed[x] = None
            if x.call is not None:
                stack += [y for y in x.call.operands() if y.kind == "number"]
        if any(x.source is None and x.call is None for x in needed):
            self.recorder.stop("it uses what a scheduler has set, in the same call")
        tape.prologue = [c for c in tape.prologue if not c.is_pure or c.outs[0] in needed]
        tape.numbers = dict.fromkeys(needed)
        random = {c.outs[0] for c in tape.prologue if not c.is_pure}
        for call in tape.prologue:
            if not random.isdisjoint(call.operands()):
                random.add(call.outs[0])
        if any(type(x) is Value and x in random for _, args, _ in tape.conditions for x in args):
            self.recorder.stop("what it does depends on a random key")

    def _inputs(self, tape, leaves):
        """Tell the inputs that stay in their places from those that are found anew in each run."""
        stage, backend = self.stage, self.recorder.backend
        moving = {id(x) for x, what, _ in tape.rebound if what == "array"}
        used = {}
        for call in tape.calls:
            for x in (*call.operands(), *call.outs):
                used[x.root()] = None
        for x in tape.leaving:
            used[x.root()] = None
        for x in tape.numbers:
            if x.source is not None and x.source.holder[0] == "element":
                used[x.source.holder[1]] = None
        everything = [*stage.traced.values(), *stage.grads.values(), *self.raw.values()]
        everything += [traced for entry in stage.saved if len(entry) == 3 for traced in entry[2:]]
        inputs = dict.fromkeys([x for x in used if x.source is not None])
        for traced in everything:
            if traced.var.source.kind == "argument" or traced.var in inputs:
                inputs[traced.var] = None
        for key, traced in stage.traced.items():
            if key in moving:  # the function may have read its shape
                inputs[traced.var] = None
        real = {x.var: x.value for x in self.recorder._constants.values()}
        tape.pinned, tape.floating, tape.unread, tape.devices = {}, {}, set(), {}
        for x in inputs:
            source = x.source
            if source.kind == "number":
                continue
            if x in real:
                tape.devices[x] = backend.device(real[x])
            is_moving = source.kind == "tensor" and id(source.holder) in moving
            if source.kind == "held":
                tape.pinned[x] = source.holder.get
            elif source.kind == "tensor" and not is_moving:
                tape.pinned[x] = _getter(source.holder)
            else:
                tape.floating[x] = source
                if x not in used:
                    tape.unread.add(x)
        tape.tensors, tape.var_of, tape.aliases = [], {}, []
        for key, (x, _, node, grad, _) in stage.originals.items():
            var = stage.traced[key].var
            tape.var_of[key] = var
            if key in tape.argument_of:
                if var.source.holder is not tape.argument_of[key]:
                    tape.aliases.append((x, var.source.holder))
                continue
            watch = node.watch if type(node) is Leaf else MISS
            tape.tensors.append((x, node, watch, grad is not None, key not in moving))
        devices = {*self.recorder.devices, *tape.devices.values()}
        if len(devices) > 1 and backend.several_devices:
            self.recorder.stop("its arrays are on several devices")
        tape.device = devices.pop() if backend.several_devices and devices else None
        for x, holder in tape.aliases:
            if not isinstance(holder, Tensor):
                self.recorder.stop("two arguments have the same array", True)
        targets = [x for call in tape.calls for x in call.targets()]
        tape.written_sources = [x.root().source for x in targets if x.root().source is not None]
        tape.leaves = self._leaves(leaves, tape)

    def _leaves(self, leaves, tape):
        """What each leaf of the arguments has to be; see `Program`."""
        found, arrays = [], {}
        for i, x in enumerate(leaves):
            if isinstance(x, Tensor):
                at = tape.argument_of.get(id(x))
                if at is None:
                    found.append(("state", x))
                elif at != i:
                    found.append(("same", at))
                else:
                    grad = x.grad if id(x) not in self.stage.originals else None
                    grad = self.stage.originals[id(x)][3] if grad is None else grad
                    node = self.stage.originals[id(x)][2]
                    found.append(("tensor", (type(x), type(node), grad is not None)))
            elif type(x) in namespace_of:
                first = arrays.setdefault(id(x), i)
                found.append(("array", None) if first == i else ("same", first))
            else:
                found.append(("static", (x, is_own(type(x).__module__))))
        return found

    def _guard_hidden(self, tape):
        """Guard arrays by their bytes where NumPy may have computed a constant with them."""
        used = {x for call in tape.calls for x in call.operands()} | set(tape.leaving)
        if not self.reach.hidden or not any(x in used for x in self.recorder.foreign):
            return
        for array in self.reach.hidden:
            if self.recorder.backend.nbytes(array) > 1 << 20:
                self.recorder.stop("NumPy may compute with a large array that it names in a tuple")
            self.reach.guards.append((array, _bytes(array), "bytes"))

    # Results

    def _results(self, parts, result):
        stop, stage = self.recorder.stop, self.stage
        grads = {id(grad): x for x, _, grad in stage.gradients if grad is not None}
        known = {id(x) for x in self.reach.containers} | {id(x) for x in self.given.nodes}
        nodes = nodes_of([result])
        if any(map(has_more, nodes)):
            stop("a result has attributes that are not fields of its dataclass")
        if any(id(x) in known and not isinstance(x, tuple) for x in nodes):
            stop("it returns a list, a dict or an object that is an argument or that it reads")
        results = [self._result(x, grads) for x in parts]
        return None, results

    def _result(self, x, grads):
        recorder, stage = self.recorder, self.stage
        stop = recorder.stop
        if isinstance(x, Tensor):
            if type(x) is BatchedTensor:
                stop("it returns a tensor from inside vmap")
                return "static", None
            if id(x) in stage.originals:
                at = stage.arguments.get(id(x))
                return ("same", x) if at is None else ("leaf", at)
            if id(x) in grads:
                return "grad", grads[id(x)]
            if isinstance(x.array, Traced):
                if type(x.array) is not recorder.kind:
                    stop("a result is a scalar of the library")
                var = x.array.var
            elif type(x.array) in recorder.backend.array_types:
                var = recorder.constant(x.array).var
            else:
                stop("a result gets an array from elsewhere")
                return "static", None
            node = self._node(x)
            return ("live", (id(x), var)) if node is _LIVE else ("tensor", (id(x), var, node))
        if type(x) is recorder.kind:
            return "array", x.var
        if type(x) is recorder.scalar:
            with _as_recorder(recorder):
                return "array", recorder.call(recorder.backend.asarray, (x,)).var
        if type(x) is Number:
            if x.is_stale:
                stop("it uses what a scheduler has set, in the same call")
            return "number", x.var
        if type(x) in namespace_of:
            if any(x is array for array in (*self.raw, *[a for _, a in self.reach.arrays])):
                stop("it returns an array that it reads")
            return "array", recorder.constant(x).var
        if isinstance(x, (*SIMPLE, type)) or type(x) in SCALARS or id(x) in self.reach.seen:
            return "static", x
        stop(f"it returns a {type(x).__name__}, which may differ from call to call")
        return "static", None

    def _node(self, x):
        """What makes the node of a result; None for a result that does not require grad."""
        node = x.node
        if node is None:
            return None
        if type(node) is Leaf:
            self.recorder.stop("it returns a new leaf that requires grad")
            return None
        if node.watch is not None and (node.watch.leaf is not None or node.watch.label):
            self.recorder.stop("it returns a tensor of which it has called retain_grad")
        stack, seen = [node], set()
        while stack:
            at = stack.pop()
            if at in seen or type(at) is Leaf:
                continue
            seen.add(at)
            if at.saved is None:
                break
            stack.extend(at.parents)
        else:
            return _LIVE
        return spent(_real_plan(node, self.recorder), node.shape, node.dtype)

    def _real_result(self, result, parts, structure):
        """The result with real arrays, and with a graph of them."""
        for x in parts:
            if isinstance(x, Tensor) and type(x) is not BatchedTensor:
                if isinstance(x.array, Traced):
                    x.array = self.recorder.backend.asarray(x.array.value)
                if type(x.node) is Node:
                    make_real(x.node, self.recorder)
        for x in self.recorder.strangers:
            if type(x.node) is Node:
                make_real(x.node, self.recorder)
        if any(isinstance(x, Traced) or type(x) is Number for x in parts):
            asarray = self.recorder.backend.asarray
            parts = [
                asarray(x.value) if isinstance(x, Traced) else real_of(x) for x in parts
            ]  # fmt: skip
            is_leaf = isinstance(result, Traced) or type(result) is Number
            return parts[0] if is_leaf else unflatten(structure, parts)
        return result


_LIVE = object()


class _as_recorder:
    def __init__(self, recorder):
        self.recorder = recorder

    def __enter__(self):
        self.before, thread.recorder = thread.recorder, self.recorder

    def __exit__(self, *exc_info):
        thread.recorder = self.before


def _replaced(kind, value, new):
    if kind == "tensor":
        return kind, (value[0], new.get(value[1], value[1]), value[2])
    if kind == "live":
        return "array", new.get(value[1], value[1])
    if kind == "array":
        return kind, new.get(value, value)
    return kind, value


def _getter(x):
    return lambda: x.array


def _layout(array):
    return tuple(array.shape), array.dtype, getattr(array, "strides", None)


def _bytes(array):
    return backend_of[type(array)].to_numpy(array).tobytes()


def _real_plan(node, recorder):
    """The plan of a node for real arrays."""
    kind = recorder.backend.array_types[0]
    if node.plan.output is not None:
        (parent,) = node.parents
        return OutputPlan(_real_plan(parent, recorder), node.plan.output)
    found = implementation.implementation_of(node.plan.op, kind).plan(node.plan.key)
    if node.plan.special:
        found.mark_special()
    return found


def make_real(node, recorder):
    """Give the nodes that a function has recorded plans and saved values of real arrays."""
    stack, seen = [node], set()
    while stack:
        at = stack.pop()
        if at in seen or type(at) is Leaf or at.order > recorder.start:
            continue
        seen.add(at)
        stack.extend(at.parents)
    for at in seen:
        implementation_of = getattr(at.plan, "implementation", None)
        if at.plan.output is None and implementation_of.kind not in (recorder.kind, recorder.scalar):
            continue
        at.plan = _real_plan(at, recorder)
        if at.saved:
            at.saved = tuple([real_of(x) for x in at.saved])
            for x in at.saved:  # calls of checkpoint and custom_vjp, which keep tensors
                if hasattr(x, "arguments"):
                    kept = x.arguments.leaves, getattr(x, "fixed", ()), getattr(x, "residuals", ())
                    for leaf in flatten(kept)[0]:
                        if isinstance(leaf, Tensor) and isinstance(leaf.array, Traced):
                            leaf.array = leaf.array.value


def spent(plan, shape, dtype):
    """A function that makes the node of a result whose graph backward has freed."""

    def make():
        node = Node()
        node.order = next_order()
        node.plan = plan
        node.parents = ()
        node.saved = None
        node.shape = shape
        node.dtype = dtype
        node.watch = None
        return node

    return make


def backend_for(reach, leaves):
    """The backend of the arrays that a function reaches or gets; None if there are none."""
    for x in [*leaves, *reach.tensors.values()]:
        if isinstance(x, Tensor):
            return backend_of[type(x.array)]
        if type(x) in namespace_of:
            return backend_of[type(x)]
    return None


@lru_cache(1000)
def _fields_of(kind):
    """The names of all fields of a dataclass, and of its static ones; None for other classes."""
    if not is_dataclass(kind) or issubclass(kind, Tensor):
        return None
    found = fields(kind)
    return [f.name for f in found], [f.name for f in found if f.metadata.get("static")]


def nodes_of(trees):
    """The lists, tuples, dicts and objects of dataclasses that trees are made of."""
    found = []
    for x in trees:
        kind = type(x)
        if kind is Tensor:
            continue
        if kind in _DICTS:
            inner = x.values()
        elif kind in _LISTS or isinstance(x, tuple):
            inner = x
        elif names := _fields_of(kind):
            inner = [getattr(x, name) for name in names[0]]
        else:
            continue
        found.append(x)
        inner = [y for y in inner if type(y) is not Tensor]
        if inner:
            found += nodes_of(inner)
    return found


def static_fields_of(nodes):
    """The values of static fields, which belong to the structure of a tree; no tensors, arrays."""
    values = []
    for x in nodes:
        if names := _fields_of(type(x)):
            values += [getattr(x, name) for name in names[1]]
    return [x for x in values if not isinstance(x, Tensor) and type(x) not in namespace_of]


def has_more(x):
    """Whether a node of a tree has attributes that are no fields, which a copy of it lacks."""
    return not {*getattr(x, "__dict__", ())} <= {*getattr(x, _FIELDS, ())}


class Given:
    """The lists, dicts and objects of dataclasses in arguments, with what is in them."""

    def __init__(self, trees):
        self.nodes = nodes_of(trees)
        self.contents = [(x, _contents(x)) for x in self.nodes if not isinstance(x, tuple)]

    def changed(self):
        """Those that have changed, each with what was in it."""
        return [(x, before) for x, before in self.contents if _differ(_contents(x), before)]

    def restore(self):
        for x, before in self.changed():
            names, values = before[: len(before) // 2], before[len(before) // 2 :]
            if type(x) in _LISTS:
                x.clear()
                x.extend(before)
            elif type(x) in _DICTS:
                x.clear()
                x.update(zip(names, values, strict=True))
            else:  # one that may be frozen
                for name in {*getattr(x, "__dict__", ())} - {*names}:
                    object.__delattr__(x, name)
                for name, value in zip(names, values, strict=True):
                    object.__setattr__(x, name, value)


def _contents(x):
    """The items of a list, or the keys and values of a dict, or of the attributes of an object."""
    if type(x) in _LISTS:
        return [*x]
    if type(x) not in _DICTS:
        names = dict.fromkeys([*getattr(x, "__dict__", ()), *[f.name for f in fields(x)]])
        x = {name: getattr(x, name, None) for name in names}
    return [*x, *x.values()]


def _differ(now, before):
    return len(now) != len(before) or any(map(operator.is_not, now, before))


__all__ = ["Given", "Recorded", "record", "spent", "static_fields_of"]
