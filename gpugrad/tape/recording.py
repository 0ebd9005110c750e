"""Recording: calling a function for real, and making a tape of what it does."""

import sys
from contextlib import nullcontext, suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from operator import is_not
from typing import Any, NamedTuple

from .._batched import BatchedTensor
from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.graph import Leaf, Node, next_order
from ..backends import backend_of, namespace_of
from ..transforms.trees import flatten_each
from .cells import ABSENT, Cell, Exactly, is_compared
from .derivatives import Graph, plan_for
from .libraries import is_own, module_of
from .reach import LARGE, Reach, first_change
from .recorder import Recorder
from .stage import Stage
from .tape import DICTS, LISTS, Input, Tape, Unsupported, layouts_of, signature_of
from .tracing import Traced, copied, real_of
from .witness import Witness

_FIELDS = "__dataclass_fields__"
_LARGE = 1 << 26  # bytes


class Recorded(NamedTuple):
    """What has come of recording a call.

    result: what the function has returned.
    tape: the `Tape` of the call, or None.
    reason: why there is none.
    retry: if there is none, whether to record a later call: True, False or "once"; see `Recorder`.
    """

    result: Any
    tape: Tape | None = None
    reason: str | None = None
    retry: Any = False


def record(
    function, state, leaves, structure, args, kwargs, known=(), is_first=False, is_undone=False
):
    """Call the function and record what it does; returns a `Recorded`.

    state: the list of objects that hold the function's state, or None for all that it reaches.
    known: tapes of earlier calls whose guards hold.
    is_first: whether the function has never been called. If it has an optimizer that has not
        stepped yet, its first call is not recorded, since the optimizer makes its state in it.
    is_undone: whether the caller undoes what the function changes. Then the function is not even
        called if no later call can be recorded either.
    """
    nodes = nodes_of((*args, *kwargs.values()))
    own = {*map(id, nodes)}
    things = [x for x in leaves if id(x) not in own]
    # A plain structure has nothing but tensors, arrays and simple values.
    is_plain = known and state is None and type(structure) is int and not known[0].reach.arrays
    if is_plain and not known[0].replaced and first_change(known[0].reach.guards) is None:
        reach = whole = known[0].reach
    else:
        reach = whole = Reach([function], things, nodes)
    if state is not None:
        reach = Reach(state, things, nodes, follows_code=False)
        reach.reads_outside = whole.reads_outside
    given = Reach(nodes, follows_code=False)
    reason = reach.refusal(()) or given.refusal(())
    arrays = *leaves, *reach.tensors.values()
    arrays = [x.array if isinstance(x, Tensor) else x for x in arrays]
    backend = next((backend_of[type(x)] for x in arrays if type(x) in namespace_of), None)
    if reason is None and any(map(has_more, nodes)):
        reason = "an argument has attributes that are no fields of its dataclass, or static arrays"
    raw = [x for x in leaves if type(x) in namespace_of]
    reason = reason or _why_noticed(whole, reach, raw) or reach.guard_arrays(raw)
    problem = None if reason is None else (reason, False)
    if problem is None and backend is None:
        problem = "it has no tensors to compute with", True
    if problem is None:
        recorder = Recorder(backend, state is not None, reach.arrays)
        stage = Stage(recorder, reach, leaves)
        problem = stage.problem(is_first)
    if problem is not None:
        result = None if is_undone and not problem[1] else function(*args, **kwargs)
        return Recorded(result, None, *problem)
    return _Recording(function, stage, given, known).run(leaves, structure, args, kwargs)


def _why_noticed(whole, reach, raw):
    """Why the function might notice that traced arrays and numbers replace real ones, or None."""
    has_stand_ins = raw or whole.reads_arrays
    has_numbers = any(is_own(module_of(type(x))) for x in reach.optimizers)
    if whole.asks_types and (has_stand_ins or has_numbers):
        what = "may ask for the type or the bytes of an array or a number"
    elif whole.strict and has_stand_ins:
        what = f"names {whole.strict}"
    else:
        return None
    return f"it {what}, which may see what stands for it while it is recorded; pass tensors"


class _Recording:
    """The recording of one call.

    given: the `Reach` of the containers among the arguments.
    known: see `record`.
    placed: a `Cell` of the arguments for each traced array in it, with the values before and after.
    """

    def __init__(self, function, stage, given, known):
        self.function, self.stage, self.given, self.known = function, stage, given, known
        self.recorder, self.reach, self.placed = stage.recorder, stage.reach, []
        # What the code that ran may read: guards, and the ids of tensors and objects.
        self.guards, self.counted = [*stage.reach.guards], frozenset()
        self.read = {*stage.reach.tensors, *stage.reach.seen}

    def run(self, leaves, structure, args, kwargs):
        try:
            result, tape = self._run(leaves, structure, args, kwargs)
        finally:  # so that no cycle of references keeps the arguments alive, even after an error
            thread.recorder = None
            recorder, stage = self.recorder, self.stage
            recorder.forget()
            stage.forget()
            self.given, self.known, self.placed, self.guards = None, (), [], []
            is_kept = recorder.release()
        if is_kept:
            if recorder.is_shared:
                recorder.stop("another thread computes with its tensors", True)
            recorder.stop("it keeps a tensor where compile cannot see it", "once")
        if recorder.reason is not None:
            return Recorded(result, None, recorder.reason, recorder.retry)
        if sum([out.nbytes for call in tape.calls for out in call.outs]) > _LARGE:
            recorder.backend.release_freed_memory()  # since the program will need less of it
        return Recorded(result, tape)

    def _run(self, leaves, structure, args, kwargs):
        recorder, stage, reach = self.recorder, self.stage, self.reach
        # Raw arrays that are arguments and state, if the code may ask whether two objects are one.
        asks = reach.asks_identity or not reach.follows_code
        self.named = {id(x) for x in leaves if asks and any(x is y for y in recorder.raw)}
        layouts = layouts_of([*reach.tensors.values(), *leaves], recorder.backend)
        was_recording = thread.recording
        # With the same arguments and state, the function runs the code that a witness has seen in
        # an earlier call, unless numbers of optimizers lead elsewhere: then the two tapes differ.
        same = [t for t in self.known if t.signature == signature_of(leaves, layouts, t.state)]
        seen = same[0] if len(same) == 1 and same[0].is_watched else None
        own = reach.codes if reach.follows_code else None
        witness = Witness(recorder, own) if seen is None else nullcontext()
        tape = None
        try:
            try:
                thread.recorder = recorder
                stage.enter()
                traced, named = self._traced_arguments(leaves, args, kwargs)
                recorder.start, recorder.known = next_order(), stage.originals
                with witness:
                    result = self.function(*traced, **named)
            finally:
                self._leave()
            if recorder.has_failed:
                recorder.stop("it handles an error of a call, which depends on values", "once")
            if seen is None:
                self._find_read(witness)
            else:
                self.guards, self.read, self.counted = [*seen.guards], {*seen.read}, seen.counted
            if thread.recording is not was_recording:
                recorder.stop("it switches the recording of gradients")
            stage.check_schedules(self.guards)
            if recorder.reason is None:
                tape = self._tape(structure, result, leaves, layouts, seen is None)
            for _, _, new in stage.replaced.values():
                placed(new, self._real, [], {})
        finally:  # again, in case Ctrl-C has interrupted the first time
            thread.recorder = None
            self._leave()
        with suppress(RecursionError):  # `Recorder.release` finds what is too deep
            result = placed(result, self._real, [], {})
        return result, tape

    def _find_read(self, witness):
        """Find what the code that ran may read, and stop if that is something unsupported."""
        recorder, reach = self.recorder, self.reach
        facts, others = witness.facts()
        names = frozenset().union(*[x.names for x in facts])
        computes_names = reach.reads_outside or any(x.computes_names for x in facts)
        recorder.stop(reach.refusal(names, computes_names))
        if not (computes_names or any(x.computes_names for x in others)):
            counted = names.difference(*[x.names - x.counted for x in facts])
            counted = counted.difference(*[x.names for x in others])
            names = names.union(*[x.names for x in others])
            self.guards, self.read = reach.found_by(names, witness.walks_modules())
            self.counted = reach.counted_by(names, counted)
        # Raw arrays that are arguments and state.
        guards = [x for x in self.reach.guards if x[2] == "array" and id(x[0]) in self.named]
        if len(guards) < len(self.named):
            self.recorder.stop(LARGE)
        self.guards += guards
        self.read |= self.named
        if (computes_names and reach.reads_changing) or any(
            x.reads_groups for x in witness.codes.values()
        ):
            self.guards += self.stage.groups_guards()

    def _leave(self):
        """Put back what was replaced in the state and in the arguments."""
        for cell, before, after in self.placed:
            with suppress(*ABSENT):
                if cell.get() is after:
                    cell.set(before)
        self.stage.leave()

    def _traced_arguments(self, leaves, args, kwargs):
        """The arguments with traced arrays for raw ones; the stage has put others into tensors."""
        recorder = self.recorder
        arrays = {}
        for i, x in enumerate(leaves):
            if type(x) in namespace_of and id(x) not in arrays:
                if backend_of[type(x)] is not recorder.backend:
                    recorder.stop("it uses arrays of several libraries")
                elif id(x) not in self.named:
                    arrays[id(x)] = recorder.input(x, Input("argument", i))
        if not arrays:
            return args, kwargs
        known = {}
        args = placed(args, lambda x: arrays.get(id(x), x), self.placed, known)
        return args, placed(dict(kwargs), lambda x: arrays.get(id(x), x), self.placed, known)

    # The tape

    def _tape(self, structure, result, leaves, layouts, is_watched):
        """The tape of the recording; None if the recording has stopped."""
        recorder, stage, reach = self.recorder, self.stage, self.reach
        if any(is_own(name) and name in sys.modules for name in reach.not_imported):
            recorder.stop("it imports a module", True)
        if first_change(self.given.guards) is not None:
            recorder.stop("it changes a list, a dict or an object that is an argument")
        try:
            parts, (result_structure,), nodes = taken_apart([result], "result")
        except Unsupported as error:
            recorder.stop(str(error))
            return None
        self.guards = stage.take(leaves, self.read, self.guards)
        if self.counted:
            self.guards = stage.count(self.counted, self.guards)
        replaced = [*stage.replaced.values()]
        leaves = [*leaves, *[x for _, old, _ in replaced for x in old]]
        parts += [x for _, _, new in replaced for x in new]
        results, graph = self._results(parts, nodes), None
        live = {i: x for i, x in enumerate(parts) if results[i][0] == "tensor" and x.node}
        if live and recorder.reason is None:
            graph = Graph(self.function, recorder, stage, live)
        state = self.read.union([id(x) for x, *_ in (*stage.rebound, *stage.gradients)])
        state -= stage.arguments.keys()
        moving = {id(x) for x, what, _ in stage.rebound if what == "array"}
        tensors = []
        for key, (x, _, traced, node, grad) in stage.originals.items():
            at, source = stage.arguments.get(key), traced.var.source
            if at is not None:
                if source.holder is not at:
                    recorder.stop("an argument has the array of another tensor", True)
            elif key in state:
                if source.kind == "tensor" and id(source.holder) not in state:
                    traced.var.source = Input("tensor", x)  # another one has the same array
                leaf = node if type(node) is Leaf else None
                watch = leaf and leaf.watch
                tensors.append((x, node, leaf, watch, grad is not None, key not in moving))
        known, kinds = state | stage.arguments.keys(), ("tensor", "grad")
        lost = {x for x in recorder.inputs if x.source.kind in kinds}
        lost = {x for x in lost if id(x.source.holder) not in known}
        if lost and not lost.isdisjoint([y.root() for x in recorder.calls for y in x.operands()]):
            recorder.stop("it uses the array of a tensor that it does not name", True)
        raw = [x for x in recorder.raw if id(x) in self.read]
        if not recorder.shown.isdisjoint(map(recorder.backend.buffer, raw)):
            recorder.stop("it names a raw array in the memory of a tensor or of an argument")
        recorder.check_constants(recorder.contents)
        devices = {*recorder.used_devices, *recorder.devices.values()}
        if recorder.several_devices and len(devices) > 1:
            recorder.stop("its arrays are on several devices")
        self._own_constants(results)
        if recorder.reason is not None:
            return None
        signature = signature_of(leaves, layouts, state)
        for x in [x for _, old, _ in replaced for x in old]:  # so that the tape does not keep them
            del reach.tensors[id(x)], reach.seen[id(x)]
            reach.guards = self.guards
        return Tape(
            recorder, signature=signature, structure=structure,
            replaced=[(x, type(x.get()) is tuple, len(y), bool(old)) for x, old, y in replaced],
            result_structure=result_structure, is_recording=thread.recording,
            device=next(iter(devices)) if recorder.several_devices and devices else None,
            is_watched=is_watched, reach=reach, guards=self.guards, counted=self.counted,
            read=self.read, state=state, raw=raw,
            leaves=[row for row, _ in signature[0]],
            argument_of=stage.arguments, tensors=tensors,
            same_counts=stage.same_counts, optimizers=stage.stepped,
            rebound=stage.rebound, gradients=stage.gradients, changed=stage.changed,
            counts=[*stage.counts.values()], skips=stage.skips, results=results, graph=graph,
            fixed=[Exactly(x) for node in nodes for x in _fixed_in(node)],
        )  # fmt: skip

    # Results

    def _results(self, parts, nodes):
        stop, stage = self.recorder.stop, self.stage
        grads = {id(x.grad): x for x, *_ in stage.originals.values() if x.grad is not None}
        known = {*map(id, self.reach.containers), *self.reach.seen, *self.given.seen}
        if any(map(has_more, nodes)):
            stop("a result has attributes that are not fields of its dataclass")
        containers = changing(nodes)
        if any(id(x) in known for x in containers):
            stop("it returns a list, a dict or an object that is an argument or that it reads")
        if len({*map(id, containers)}) < len(containers):
            stop("it returns a list, a dict or an object in two places")
        if not all(self._is_static(x) for node in nodes for x in _fixed_in(node)):
            stop("it returns a key, a static field or the like that may differ from call to call")
        found, first = [], {}
        for i, x in enumerate(parts):
            row = self._result(x, grads)
            at = first.setdefault(id(x), i)
            found.append(("again", at) if row[0] == "tensor" and at != i else row)
        return found

    def _own_constants(self, results):
        """Copy constants that leave the function, since its caller may write into them."""
        recorder, stage, buffer = self.recorder, self.stage, self.recorder.backend.buffer
        leaving = [x for kind, x in results if kind in ("tensor", "array")]
        shown = [buffer(x.constant) for x in leaving if x.constant is not None]
        if len({*shown}) < len(shown):
            recorder.stop("it returns arrays that share memory")
        changed = [y for *_, y in (*stage.gradients, *stage.rebound) if y is not None]
        shown += [buffer(x.constant) for x in changed if x.constant is not None]
        for x in (*recorder.contents, *[out for call in recorder.calls for out in call.outs]):
            if x.kind == "array" and x.constant is not None and buffer(x.constant) in shown:
                x.constant = copied(recorder.backend, x.constant)

    def _result(self, x, grads):
        stop, stage = self.recorder.stop, self.stage
        if isinstance(x, Tensor) and type(x) is not BatchedTensor:
            if id(x) in stage.originals:
                at = stage.arguments.get(id(x))
                return ("static", x) if at is None else ("leaf", at)
            if id(x) in grads:
                return "grad", grads[id(x)]
            if type(x.node) is Leaf or type(x) is not Tensor:
                what = "leaf that requires grad" if type(x) is Tensor else type(x).__name__
                stop(f"it returns a new {what}")
            elif x.node is not None and x.node.watch is not None and x.node.watch.leaf is not None:
                stop("it returns a tensor of which it has called retain_grad")
            if (var := self._returned(x.array)) is not None:
                return "tensor", var
        elif (var := self._returned(x)) is not None:
            return "array", var
        if not self._is_static(x):
            stop(f"it returns a {type(x).__name__}, which may differ from call to call")
        return "static", x

    def _is_static(self, x):
        """Whether it is enough to compare a value in two recordings."""
        if type(x) is tuple or type(x) is frozenset:
            return all(map(self._is_static, x))
        is_of_library = isinstance(x, type) and not is_own(module_of(x))
        return is_compared(type(x)) or is_of_library or id(x) in self.reach.seen

    def _returned(self, array):
        """The value of an array that the function returns; None for anything else."""
        recorder = self.recorder
        if type(array) in recorder.backend.array_types:
            if recorder.is_guarded(array):
                recorder.stop("it returns a raw array that it names")
            return recorder.constant(array).var
        return array.var if type(array) is recorder.kind else None

    def _real(self, x):
        """A leaf of the result with real arrays, also in its graph."""
        if isinstance(x, Tensor) and type(x) is not BatchedTensor:
            if isinstance(x.array, Traced):
                x.array = self.recorder.backend.asarray(x.array.value)
            if type(x.node) is Node:
                make_real(x.node, self.recorder)
        return real_of(x)


def make_real(node, recorder):
    """Give the nodes that the function has made plans for real arrays, and real saved values."""
    stack, seen = [node], set()
    while stack:
        at = stack.pop()
        if at in seen or type(at) is Leaf or at.order > recorder.start:
            continue
        seen.add(at)
        stack.extend(at.parents)
        kinds = recorder.kind, recorder.scalar
        if at.plan.output is not None or at.plan.implementation.kind in kinds:
            at.plan = plan_for(at, recorder.array)
            at.saved = at.saved and tuple([real_of(x) for x in at.saved])


@lru_cache(1000)
def _fields_of(kind):
    """The names of all fields of a dataclass, and of its static ones; None for other classes."""
    if not is_dataclass(kind) or issubclass(kind, Tensor):
        return None
    found = fields(kind)
    return [f.name for f in found], [f.name for f in found if f.metadata.get("static")]


def nodes_of(trees):
    """The containers in these trees: lists, tuples, dicts and instances of dataclasses."""
    found = []
    for x in trees:
        kind = type(x)
        if kind is Tensor:
            continue
        if kind in DICTS:
            inner = x.values()
        elif kind in LISTS or isinstance(x, tuple):
            inner = x
        elif names := _fields_of(kind):
            inner = [getattr(x, name) for name in names[0]]
        else:
            continue
        found.append(x)
        if inner := [y for y in inner if type(y) is not Tensor]:
            found += nodes_of(inner)
    return found


def changing(nodes):
    """Those containers that may change."""
    return [x for x in nodes if not isinstance(x, tuple)]


def taken_apart(trees, what, **options):
    """The leaves of trees, their structures, and their containers.

    Raises Unsupported if that is impossible, as it is for a list that contains itself.
    """
    try:
        leaves, structures = flatten_each(trees, none_is_leaf=True, **options)
        return leaves, structures, nodes_of(trees)
    except Exception as error:
        raise Unsupported(f"its {what} cannot be taken apart: {error!r}") from error


def placed(x, of, places, known):
    """What takes the place of a tree: the same containers with ``of(leaf)`` for each leaf.

    Only tuples are made anew, without the ``__new__`` of their class.

    places: a list, to which this appends each `Cell` that it changes, and the values before and
        after.
    known: what takes the place of the containers that this has already met, by id.
    """
    kind = type(x)
    if id(x) in known:
        return known[id(x)]
    if isinstance(x, tuple):
        items = [placed(y, of, places, known) for y in x]
        if any(map(is_not, items, x)):
            make = kind if hasattr(kind, "n_fields") else partial(tuple.__new__, kind)
            known[id(x)] = x = make(items)
        return x
    if kind in DICTS or kind in LISTS:
        cells = [Cell("item", x, key) for key in (x if kind in DICTS else range(len(x)))]
    elif names := _fields_of(kind):
        cells = [Cell("attr", x, name) for name in names[0] if hasattr(x, name)]
    else:
        return of(x)
    known[id(x)] = x
    for cell in cells:
        before = cell.get()
        after = placed(before, of, places, known)
        if after is not before:
            places.append((cell, before, after))
            cell.set(after)
    return x


def _fixed_in(x):
    """What belongs to the structure of a container rather than to its leaves."""
    if type(x) in DICTS:
        return *x, getattr(x, "default_factory", None)
    return *static_fields_of([x]), getattr(x, "maxlen", None)


def static_fields_of(nodes):
    """The values of the static fields of dataclasses among the containers of a tree."""
    names = [(x, name) for x in nodes for name in (_fields_of(type(x)) or ((), ()))[1]]
    return [getattr(x, name) for x, name in names]


def has_more(x):
    """Whether a container of a tree has arrays or attributes that flattening does not find."""
    static = static_fields_of([x])
    is_static = any(isinstance(y, Tensor) or type(y) in namespace_of for y in static)
    is_static |= any(type(y).__hash__ is None for y in static)  # a list or a dict
    return is_static or not {*getattr(x, "__dict__", ())} <= {*getattr(x, _FIELDS, ())}
