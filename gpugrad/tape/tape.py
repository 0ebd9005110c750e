"""A tape: the array calls that a function has made, in their order, on values in memory.

A call that writes in place stays on the tape as it was made, and names the array that it
overwrites. Two values that show the same memory, such as an array and its transpose, share a
`Memory`. Whoever moves or removes calls must compare which memory these read and write.
"""

import math
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field, is_dataclass
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

from .._tensor import Tensor
from .._thread_state import thread
from ..backends import backend_of, namespace_of
from ..backends.declarations import declaration
from .cells import Cell, Exactly, is_compared, same


class Memory:
    """The memory of a value and of its views.

    is_own: whether a call of the tape allocates it.
    is_written: whether a call overwrites a part of it.
    """

    __slots__ = ("is_own", "is_written")

    def __init__(self, is_own=False):
        self.is_own = is_own
        self.is_written = False


class Value:
    """A value of a tape.

    kind: "array"; "scalar", a 0-d result for which the library returns a scalar instead of an
        array; "number", a Python number or a random key; "token", an object that one call passes
        on to others, such as a collective under way; or "unused".
    shape, dtype, strides, nbytes: of an array. Strides are in bytes, or None if the library does
        not tell them. The dtype of a random key is "key".
    source: the `Input` in which each run finds the value, or None.
    constant: the value itself if it is the same in all runs, else None.
    call: the `Call` that computes it, or None. Only the tape keeps the call alive, so that no cycle
        of references keeps the arrays of a function that is dropped.
    base: for a view, the value whose memory it shows.
    is_alias: whether it may be an operand of its call or a view of one, depending on values.
    memory: the `Memory` of an array.
    """

    __slots__ = (
        "kind", "shape", "dtype", "strides", "nbytes", "source", "constant", "base", "memory",
        "is_alias", "_call",
    )  # fmt: skip

    def __init__(self, kind, value=None, nbytes=0, source=None):
        self.kind, self.nbytes, self.source = kind, nbytes, source
        self.shape = getattr(value, "shape", ())
        self.dtype, self.strides = [getattr(value, name, None) for name in ("dtype", "strides")]
        self.constant = self.base = self.memory = self._call = None
        self.is_alias = False

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def call(self):
        return self._call and self._call()

    def root(self):
        """The value that a view was made of, through all views between; itself if it is no view."""
        x = self
        while x.base is not None:
            x = x.base
        return x


class Input(NamedTuple):
    """Where each run finds a value before the first call.

    kind: "argument", "tensor" (the array of a Tensor), "grad" (the array of its ``.grad``), "held"
        (an array in a `Cell`) or "number".
    holder: the position of the argument, the Tensor, the `Cell`, or for a number a tuple of which
        `Program._finder` makes the function that reads it.
    """

    kind: str
    holder: Any


@dataclass(eq=False)
class Call:
    """One call of a function: ``out = function(*args, **kwargs)``.

    args, kwargs: the arguments, with a `Value` in the place of each array or changing number, also
        inside tuples, lists, dicts and slices.
    outs: the values of the results.
    several: whether the function returns a sequence.
    is_pure: whether the call does nothing but compute its result; to draw random numbers is not
        pure.
    writes: whether it overwrites its first argument, an array or a tuple of arrays.
    communicates: whether it communicates with other processes.
    declared: the `Declaration` of the function.
    """

    function: Any
    args: Any
    kwargs: dict
    is_pure: bool = True
    writes: bool = False
    outs: list = field(default_factory=list)
    several = communicates = False
    _operands = None

    def __post_init__(self):
        self.declared = declaration(self.function)

    @property
    def name(self):
        return name_of(self.function)

    @property
    def is_elementwise(self):
        return self.declared.holds("elementwise", self.args, self.kwargs)

    @property
    def may_fail(self):
        """Whether the values of its operands may make it raise an error."""
        return self.declared.holds("fails", self.args, self.kwargs)

    def add(self, out):
        """Make a value the next result of the call."""
        out._call = ref(self)
        out.is_alias = self.declared.aliases
        self.outs.append(out)

    def operands(self):
        """The values among the arguments."""
        if self._operands is None:
            self._operands = values_in((self.args, self.kwargs))
        return self._operands

    def targets(self):
        """The values that the call overwrites."""
        if not self.writes:
            return ()
        first = self.args[0]
        return first if isinstance(first, (tuple, list)) else (first,)

    def is_view(self):
        return bool(self.outs) and all(out.base is not None for out in self.outs)

    def replace(self, new):
        """Replace the operands that are keys of the dict ``new`` by the values there."""
        if not new.keys().isdisjoint(self.operands()):
            arguments = self.args, self.kwargs
            self.args, self.kwargs = replaced(arguments, lambda x: new.get(x, x))
            self._operands = None
        for out in self.outs:
            if out.base is not None:
                out.base = new.get(out.base, out.base)
                out.memory = out.base.memory


def name_of(function):
    """A function's name for people."""
    if isinstance(function, partial):
        return name_of(function.func)
    name = getattr(function, "__name__", None) or type(function).__name__
    return name.strip("_")


NESTED = {tuple, list, dict, slice}
# The containers in trees, besides tuples and dataclasses.
DICTS = {dict, OrderedDict, defaultdict}
LISTS = {list, deque}


def flat(x):
    """All items of nested containers, in their order."""
    found: list = []
    mapped(x, found.append)
    return found


def values_in(x):
    """All `Value`s in nested containers, in their order."""
    return [item for item in flat(x) if type(item) is Value]


def _items(x):
    """The items of a container in ``NESTED``; those of a dict are pairs."""
    if type(x) is slice:
        return x.start, x.stop, x.step
    return [*x.items()] if type(x) is dict else x


def mapped(x, of):
    """A copy of nested containers with ``of(item)`` in place of each item that is no container."""
    kind = type(x)
    if kind is tuple or kind is list:
        return kind([mapped(item, of) if type(item) in NESTED else of(item) for item in x])
    if kind is dict:
        return {name: mapped(item, of) for name, item in x.items()}
    if kind is slice:
        return slice(mapped(x.start, of), mapped(x.stop, of), mapped(x.step, of))
    return of(x)


def replaced(x, of):
    """A copy of nested containers with ``of(value)`` in place of each `Value`."""
    return mapped(x, lambda item: of(item) if type(item) is Value else item)


def living(calls, outputs):
    """The calls that have an effect or compute what an output needs.

    outputs: the values that are needed after the last call.
    """
    _keep_constants(calls)
    needed, memories, found = set(), set(), []

    def need(values):
        for x in values:
            while x is not None and x not in needed:
                needed.add(x)
                memories.add(x.memory)
                x = x.base

    need(outputs)
    for call in reversed(calls):
        if call.writes:
            is_needed = call.communicates
            is_needed |= any(not x.memory.is_own or x.memory in memories for x in call.targets())
        elif call.outs and all(out.constant is not None for out in call.outs):
            is_needed = False
        else:
            is_needed = not needed.isdisjoint(call.outs) or not call.is_pure or call.may_fail
        if is_needed:
            found.append(call)
            need((*call.operands(), *call.outs))
    return found[::-1]


def _keep_constants(calls):
    """Unset `Value.constant` of results that may differ from run to run after all.

    While a function is recorded, a result of constants counts as constant. It is none if a call
    overwrites its memory, or that of an operand.
    """
    for call in calls:
        is_constant = call.is_pure and not call.writes
        is_constant = is_constant and all(x.constant is not None for x in call.operands())
        for out in call.outs:
            if not is_constant or (out.memory is not None and out.memory.is_written):
                out.constant = None


class Unsupported(Exception):
    """Raised if no program can be made of a tape; the function then runs uncompiled."""


class Tape:
    """The recording of a call: the array calls that it made, and all that surrounds them.

    structure, result_structure: of the arguments and of the result.
    signature: see `signature_of`.
    leaves: for each leaf of the arguments its row in the signature.
    argument_of: by the id of each Tensor that is an argument but no state, its position.
    is_recording: whether the function left the recording of gradients on.
    is_watched: whether a `Witness` has seen the call.
    reach: the `Reach` of the function.
    guards: those of the places that the code which ran may read.
    raw: the raw arrays that the code which ran may read.
    calls: the array calls, as `Call`s, in their order.
    prologue: `Call`s that compute numbers; a run makes them before all array calls.
    conditions: triples ``(function, args, outcome)``. A program can run only if each function of
        these numbers returns this outcome.
    inputs: the values that exist before the first call.
    devices: by input, its device, if it is to be compared.
    device: the device of all arrays, if the library has several.
    counted: the ids of the places whose ints the code that ran only reads to add to them.
    read: the ids of the tensors and objects that the code which ran may read.
    state: those of them that are no arguments, and the tensors that it changes.
    tensors: for each tensor of the state a tuple of it, its node, the node again and its
        ``watch`` if that is a `Leaf`, else None twice, whether the tensor has a gradient, and
        whether it keeps its array.
    same_counts: see `Stage`.
    optimizers: those that have made a step.
    generators: the random generators from which the function has drawn.
    replaced: for each place that gets new tensors a tuple of it, whether it is a tuple of tensors,
        their number, and whether there are tensors before the call. These are its last arguments,
        after those of the function, and the new ones are its last results.
    rebound: triples of a tensor, "array" or "grad", and the value of its new array.
    gradients: pairs of a tensor and the value of its new gradient, or None.
    changed: pairs of a `Cell` and what the function has put into it.
    counts: pairs of a `Cell` and what the function has added to the plain int there.
    skips: for each optimizer whose last step may have been skipped, the optimizer, the value that
        says whether it was, and the step counts before it.
    afterwards: triples of a function and its arguments; a run calls them last.
    results: for each leaf of the result a pair of a kind and a value: "tensor", "array" or "view"
        (of an array of its own) and the `Value`; "static" and the object itself; "leaf" and
        the position of an argument; "grad" and the Tensor whose gradient it is; "again" and the
        position of the same result.
    fixed: what containers in the result have besides leaves, such as the keys of dicts.
    graph: the `derivatives.Graph` of the results, or None.

    `finish` adds:

    numbers: the numbers that are used.
    random: those of them that are random keys or computed from random keys.
    pinned: from each input whose array a program is bound to, to a function that returns the array.
    floating: from each input whose array a run has to look up, to its `Input`.
    leaving: the values that leave the program.
    """

    # The tape of a backward sweep, see `derivatives`, has none of these.
    graph = is_recording = structure = result_structure = None
    state: frozenset[int] = frozenset()
    replaced = rebound = gradients = changed = counts = skips = ()
    optimizers = same_counts = tensors = ()

    def __init__(self, recorder, **values):
        for name in _OF_RECORDER:
            setattr(self, name, getattr(recorder, name))
        vars(self).update(values)

    def matches(self, other):
        """Whether two recordings had the same signature and found the same conditions to hold.

        They must also have found the same step counts to be equal.
        """
        if self.signature != other.signature or self.same_counts != other.same_counts:
            return False
        one, two = [([c.outs for c in x.prologue], x.conditions) for x in (self, other)]
        return _Comparison(self, other).agree(one, two)

    def finish(self):
        """Drop needless calls, and find out what a program needs; may raise Unsupported."""
        leaving = [value for _, _, value in self.rebound]
        leaving += [value for _, value in self.gradients if value is not None]
        leaving += self.returned()
        leaving += [var for _, var, _ in self.skips]
        if self.graph is not None:
            leaving += self.graph.values
        self.calls, self.leaving = living(self.calls, leaving), [*dict.fromkeys(leaving)]
        if self.graph is not None:
            self.graph.finish(self)
        self.communicates = any(call.communicates for call in self.calls)
        self._find_numbers()
        self._find_inputs()

    def returned(self):
        """The values of the results that are arrays or tensors."""
        return [value for kind, value in self.results if kind in ("tensor", "array", "view")]

    def _find_numbers(self):
        operands = [call.operands() for call in self.calls]
        stack = values_in((operands, self.results, self.changed, self.conditions, self.skips))
        needed = {}
        while stack:
            x = stack.pop()
            if x.kind == "number" and x not in needed:
                needed[x] = None
                stack += [] if x.call is None else x.call.operands()
        if any(x.source is None and x.call is None for x in needed):
            raise Unsupported("it uses what a scheduler has set, in the same call")
        self.numbers = needed
        self.prologue = [c for c in self.prologue if not c.is_pure or c.outs[0] in needed]
        self.random = random = set()
        for call in self.prologue:
            if not call.is_pure or not random.isdisjoint(call.operands()):
                random.update(call.outs)
        if any(type(x) is Value and x in random for _, args, _ in self.conditions for x in args):
            raise Unsupported("what it does depends on a random key")

    def _find_inputs(self):
        """Decide to which inputs a program is bound, and which ones each run looks up."""
        moving = {id(x) for x, what, _ in self.rebound if what == "array"}
        used = {x.root() for call in self.calls for x in (*call.operands(), *call.outs)}
        used.update([x.root() for x in self.leaving])
        self.pinned, self.floating = {}, {}
        for x in self.inputs:
            kind, holder = x.source.kind, x.source.holder
            if kind == "held" and x in used:
                self.pinned[x] = holder.get
            elif kind == "tensor" and id(holder) not in moving:
                if x in used:
                    self.pinned[x] = partial(getattr, holder, "array")
            elif kind in ("argument", "tensor") or (kind == "grad" and x in used):
                self.floating[x] = x.source


_OF_RECORDER = (
    "backend", "duplicate", "calls", "prologue", "conditions", "afterwards", "inputs", "devices",
    "generators", "raw",
)  # fmt: skip


def layouts_of(things, backend):
    """What decides about programs, for each tensor and each array among these, by id.

    These are tuples of its layout, its node, whether it has a gradient, the id of its array, and
    the memory of that.
    """
    has_devices, found = backend.several_devices or backend.binder is None, {}
    for x in things:
        array = x.array if isinstance(x, Tensor) else x
        if type(array) in namespace_of:
            strides = getattr(array, "strides", None)
            device = backend.device(array) if has_devices else None
            layout = type(array), tuple(array.shape), array.dtype, strides, device
            has_grad = getattr(x, "grad", None) is not None
            node = getattr(x, "node", None)
            found[id(x)] = layout, node, has_grad, id(array), backend.buffer(array)
    return found


def signature_of(leaves, layouts, state):
    """Everything but the guards that decides which program a call needs; to be compared by ``==``.

    Its first item is a list with a pair for each leaf of the arguments: a row for `leaves_hold`,
    and the layout of an array. The kinds of rows are "static" for what must be the same value or
    the same object of the state, "same" for an earlier leaf again, "tensor", "array", and
    "container" for one that is none of the state.

    leaves: those of the arguments, and the containers that they are in.
    layouts: see `layouts_of`, before the call.
    state: the ids of all that is state.
    """
    # By the id of an array, and by its memory, the first that has it.
    owners: dict = {}

    def owners_of(key, owner):
        *_, array, memory = layouts[key]
        return owners.setdefault(array, owner), owners.setdefault(("memory", memory), owner)

    kept = {}
    for key in filter(state.__contains__, layouts):
        layout, node, has_grad, *_ = layouts[key]
        kept[key] = layout, id(node), has_grad, owners_of(key, ("state", key))
    given: list = []
    first: dict = {}  # by the id of a leaf, its first position
    shared = []
    for i, x in enumerate(leaves):
        is_tensor, row = isinstance(x, Tensor), ("array", None)
        layout, node, has_grad, *_ = layouts.get(id(x), (None, None, None))
        if id(x) in state or not (layout or is_container(x)):
            row = "static", Exactly(x)
        elif first.setdefault(id(x), i) != i:
            row = "same", first[id(x)]
        elif is_tensor:
            row = "tensor", (type(x), type(node), has_grad)
        elif not layout:
            row = "container", None
        given.append((row, layout))
        if is_tensor:
            shared.append(owners_of(id(x), i))
    return given, kept, shared, thread.recording


def is_container(x):
    """Whether `flatten` takes a list, a dict or an object apart."""
    return type(x) in DICTS or type(x) in LISTS or is_dataclass(type(x))


class _Comparison:
    """Compares what stands at the same place in two recordings.

    Two values that calls compute agree if they first stand at the same place, and always together.
    """

    def __init__(self, one, other):
        self._arguments = one.argument_of, other.argument_of
        self._partner = {}

    def agree(self, x, y):
        kind, partner = type(x), self._partner
        if kind is not type(y):
            return False
        if kind is Value:
            if x in partner or y in partner:
                return partner.get(x) is y and partner.get(y) is x
            partner[x], partner[y] = y, x
            return x.shape == y.shape and x.dtype == y.dtype and self.agree(_origin(x), _origin(y))
        if kind in NESTED or kind is Input:
            x, y = _items(x), _items(y)
            return len(x) == len(y) and all(map(self.agree, x, y))
        if isinstance(x, Tensor):
            first, second = self._arguments
            return first.get(id(x), id(x)) == second.get(id(y), id(y))
        if kind is Cell:
            return x.container is y.container and x.kind == y.kind and x.key == y.key
        if x is y or callable(x):
            return x is y or name_of(x) == name_of(y)
        return same(x, y) if is_compared(kind) or hasattr(x, "shape") else x == y


def _origin(x):
    """Where a value comes from that no call computes: its `Input`, or the bytes of a constant."""
    if x.constant is None or x.call is not None:
        return x.source
    return backend_of[type(x.constant)].to_numpy(x.constant).tobytes()


def _parts(tape):
    """What was recorded, as pairs of a text and nested containers."""
    for number, call in enumerate((*tape.prologue, *tape.calls)):
        yield f"call {number} is {call.name}", (call.args, call.kwargs, call.outs)
    for what in "rebound", "gradients", "changed", "counts":
        yield f"what it changes ({what})", getattr(tape, what)
    graph = tape.graph and (tape.graph.nodes, tape.graph.places)
    yield "what it returns", (tape.results, tape.fixed, tape.result_structure, graph)


def first_difference(one, other):
    """The first difference between two recordings of a function, as a text; None if they agree."""
    agree = _Comparison(one, other).agree
    for (a, x), (b, y) in zip(_parts(one), _parts(other), strict=False):
        if a != b:
            return f"{a} in one and {b} in the other"
        if not agree(x, y):
            return f"{a}, which is not the same in both"
    return None
