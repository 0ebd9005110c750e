"""A tape: the array calls that a function has made, in their order, on values in memory.

A call that writes in place is on the tape as it was made: it names the array that it overwrites.
So the memory of a value is what matters: two values that show the same memory share a `Memory`,
and whatever changes the order of calls, or leaves one out, looks at which memory they write.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.graph import Leaf
from ..backends import backend_of, namespace_of
from ..backends.declarations import declaration
from .cells import Cell, Exactly, is_compared, same


class Memory:
    """The memory that a value and its views show.

    is_own: whether a call of the tape has made it; otherwise it is there before the first call.
    is_written: whether a call overwrites a part of it.
    """

    __slots__ = ("is_own", "is_written", "maker")

    def __init__(self, maker=None):
        self.is_own = maker is not None
        self.is_written = False
        self.maker = maker


class Value:
    """A value of a tape.

    kind: "array"; "scalar" for a library's 0-d result that is no array; "number" for a Python
        number or a random key; "token" for what a call returns only for others, such as a
        collective under way.
    shape, dtype, strides, nbytes: of an array; strides are in bytes, None if they are not known.
        The dtype of a random key is "key".
    source: what has the value when the tape starts, an `Input`; or None.
    constant: the value itself where it is the same in each run, else None.
    call: the `Call` that computes it, or None.
    base: for a view, the value whose memory it shows.
    memory: the `Memory` of an array.
    """

    __slots__ = (
        "kind", "shape", "dtype", "strides", "nbytes", "source", "constant", "call", "base",
        "memory",
    )  # fmt: skip

    def __init__(self, kind, value=None, nbytes=0):
        self.kind = kind
        self.shape = getattr(value, "shape", ())
        self.dtype = getattr(value, "dtype", None)
        self.strides = getattr(value, "strides", None)
        self.nbytes = nbytes
        self.source = self.constant = self.call = self.base = self.memory = None

    @property
    def size(self):
        return math.prod(self.shape)

    def root(self):
        """The value whose memory this one shows, itself if it is no view."""
        x = self
        while x.base is not None:
            x = x.base
        return x


class Input(NamedTuple):
    """Where a value is found when a tape starts.

    kind: "argument", "tensor" (the array of a Tensor), "grad" (the array of its ``.grad``), "held"
        (an array, or a tuple of arrays, in a `Cell`), "number".
    holder: the position of an argument, the Tensor, the `Cell`, or a function that reads a number.
    """

    kind: str
    holder: Any


@dataclass(eq=False)
class Call:
    """One call of a function: ``out = function(*args, **kwargs)``.

    args, kwargs: nested tuples, lists and dicts in which values stand for what they will be.
    outs: the values of the results.
    several: whether the function returns a sequence.
    is_pure: whether it only computes its result; draws of random numbers are not.
    writes: whether it overwrites its first argument, an array or a tuple of arrays.
    communicates: whether it communicates with other processes.
    """

    function: Any
    args: Any
    kwargs: dict
    is_pure: bool = True
    writes: bool = False
    outs: list = field(default_factory=list)
    several = communicates = False
    _operands = _declared = _elementwise = None

    @property
    def name(self):
        return name_of(self.function)

    @property
    def declared(self):
        if self._declared is None:
            self._declared = declaration(self.function)
        return self._declared

    @property
    def is_elementwise(self):
        if self._elementwise is None:
            self._elementwise = self.declared.holds("elementwise", self.args, self.kwargs)
        return self._elementwise

    @property
    def may_fail(self):
        """Whether the values of its operands may make it raise an error."""
        return self.declared.holds("fails", self.args, self.kwargs)

    def operands(self):
        """The values among the arguments."""
        found = self._operands
        if found is None:
            found = self._operands = []
            collect(self.args, found)
            if self.kwargs:
                collect(self.kwargs, found)
        return found

    def targets(self):
        """The values that it overwrites."""
        if not self.writes:
            return ()
        first = self.args[0]
        return first if isinstance(first, (tuple, list)) else (first,)

    def is_view(self):
        return bool(self.outs) and all(out.base is not None for out in self.outs)

    def replace(self, new):
        """Use other values as operands, those in the dict ``new``."""
        if not new.keys().isdisjoint(self.operands()):
            self.args, self.kwargs = mapped((self.args, self.kwargs), substituting(new))
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


def collect(x, found):
    """Append the values in nested containers to the list ``found``."""
    kind = type(x)
    if kind is Value:
        found.append(x)
    elif kind is tuple or kind is list:
        for item in x:
            collect(item, found)
    elif kind is dict:
        for item in x.values():
            collect(item, found)
    elif kind is slice:
        collect((x.start, x.stop, x.step), found)


def mapped(x, of):
    """Nested containers with ``of(item)`` in place of each item that is no container."""
    kind = type(x)
    if kind is tuple or kind is list:
        return kind([mapped(item, of) for item in x])
    if kind is dict:
        return {name: mapped(item, of) for name, item in x.items()}
    if kind is slice:
        return slice(mapped(x.start, of), mapped(x.stop, of), mapped(x.step, of))
    return of(x)


def substituting(new):
    """A function that returns the value in the dict ``new`` for one that is in it."""
    return lambda x: new.get(x, x) if type(x) is Value else x


def simplify(calls, outputs, duplicate):
    """The calls that matter, each value computed once.

    outputs: the values that are needed after the last call.
    duplicate: the function that copies an array.

    Returns the calls and a dict of values that others replace. Left out are calls whose results
    nothing needs, calls that are equal to earlier ones, and copies of what nothing overwrites. Two
    outputs that were in memory of their own stay so.
    """
    _keep_constants(calls)
    new = _merged(_living(calls, outputs), duplicate, {x.root() for x in outputs})
    for call in calls:
        call.replace(new)
    return _living(calls, [new.get(x, x) for x in outputs]), new


def _keep_constants(calls):
    """Keep the values of results that are the same in each run, and of no others.

    A result is not constant if something overwrites its memory, or that of an operand.
    """
    for call in calls:
        is_constant = call.is_pure and not call.writes
        is_constant = is_constant and all(x.constant is not None for x in call.operands())
        for out in call.outs:
            if not is_constant or (out.memory is not None and out.memory.is_written):
                out.constant = None


def _living(calls, outputs):
    """The calls that something needs."""
    needed, memories, living = set(), set(), []

    def need(values):
        for x in values:
            if x not in needed:
                needed.add(x)
                memories.add(x.memory)
                if x.base is not None:
                    need((x.base,))

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
            living.append(call)
            need((*call.operands(), *call.outs))
    return living[::-1]


def _merged(calls, duplicate, leaving):
    """A dict from values to equal ones that are computed earlier."""
    known, new, versions = {}, {}, {}
    apart, members = _apart(calls), {}

    def merge(outs, firsts):
        pairs = [(out.root(), x.root()) for out, x in zip(outs, firsts, strict=True)]
        for root, first in pairs:
            mine, others = members.get(root, {root}), members.get(first, {first})
            is_given = root.memory is not None and not first.memory.is_own
            if not mine.isdisjoint(leaving) and (is_given or not others.isdisjoint(leaving)):
                return False
            if any(not mine.isdisjoint(apart.get(x, ())) for x in others):
                return False
        for root, first in pairs:
            members.setdefault(first, {first}).update(members.get(root, {root}))
        new.update(zip(outs, firsts, strict=True))
        return True

    for call in calls:
        if call.writes:
            for x in call.targets():
                versions[x.memory] = versions.get(x.memory, 0) + 1
        if call.writes or not call.is_pure or not call.outs or call.declared.aliases:
            continue
        if any(out.memory is not None and out.memory.is_written for out in call.outs):
            continue
        if call.function is duplicate:
            (source,) = call.args
            if source.strides == call.outs[0].strides and not source.memory.is_written:
                merge(call.outs, [new.get(source, source)])
            continue
        key = _key(call, new, versions)
        if key is not None:
            alike = known.setdefault(key, [])
            if any(merge(call.outs, first.outs) for first in alike):
                continue
            if alike and call.outs[0] in leaving and not call.several:
                call.function, call.args, call.kwargs = duplicate, (alike[0].outs[0],), {}
                call._operands = call._declared = call._elementwise = None
            alike.append(call)
    return new


def _apart(calls):
    """For each root, the others that must not come to lie in the same memory.

    BLAS computes the product of a matrix and itself in a way of its own.
    """
    apart = {}
    for call in calls:
        if len(call.operands()) > 1 and not call.is_elementwise and not call.is_view():
            roots = {x.root() for x in call.operands() if x.memory is not None}
            if len(roots) > 1:
                for root in roots:
                    apart.setdefault(root, set()).update(roots - {root})
    return apart


def _key(call, new, versions):
    """What equal calls have in common; None if that is not known."""

    def hashable(x):
        kind = type(x)
        if kind is Value:
            return new.get(x, x), versions.get(x.memory, 0)
        if kind is tuple or kind is list:
            return kind, *map(hashable, x)
        if kind is dict:
            return tuple([(name, hashable(item)) for name, item in x.items()])
        if kind is slice:
            return "slice", hashable((x.start, x.stop, x.step))
        if kind is float:
            return kind, x.hex()  # 0.0 and -0.0 differ, and nan is itself
        return kind, x

    key = call.function, *map(hashable, call.args), hashable(call.kwargs)
    try:
        hash(key)
    except TypeError:
        return None
    return key


class Unsupported(Exception):
    """Raised where a tape cannot be made a program; the function then runs without it."""


class Tape:
    """A recording of a function: its calls, and what they begin and end with.

    structure, result_structure: of the arguments and of the result.
    signature: the kinds and layouts of the arguments and of all tensors.
    leaves: what each leaf of the arguments has to be: pairs of a kind and a value.
    reach: the `Reach` of the function, with its guards.
    raw: the raw arrays that it reaches.
    calls: the array calls, as `Call`s, in their order.
    prologue: the computations of numbers, which come before all array calls.
    conditions: triples ``(function, args, outcome)`` on numbers, which have to be fulfilled.
    inputs: the values that are there before the first call.
    tensors: tuples of a tensor of the state, its node, that node's ``watch``, whether it has a
        gradient, and whether its array stays the same.
    rebound: triples of a tensor, "array" or "grad", and the value of its new array.
    gradients: pairs of a tensor and the value of its new gradient, or None.
    changed: pairs of a `Cell` and what the function has put into it.
    skips: of optimizers whose step may be skipped: the value that says so, and counts before.
    afterwards: functions and arguments to call when everything else is done.
    results: pairs of a kind and a value for the leaves of the result.
    graph: the `derivatives.Graph` of the results, or None.
    has_kernels: whether kernels may take the place of calls.

    And after `finish`:

    numbers: the numbers that something needs.
    random: those that are random keys, or computed from them.
    pinned: from inputs that stay in their places to functions that return their arrays.
    floating: from inputs that are found anew in each run to their `Input`; those in ``unread`` are
        not needed, but the function may have read their shapes.
    leaving: the values that leave the program.
    """

    # What the tape of a sweep has not got.
    graph = is_recording = structure = result_structure = None
    rebound = gradients = changed = skips = optimizers = alike = tensors = aliases = ()
    generators = written_sources = unread = ()
    communicates = is_leaf = False
    has_kernels = True

    def __init__(self, recorder, **values):
        for name in _OF_RECORDER:
            setattr(self, name, getattr(recorder, name))
        vars(self).update(values)

    def is_of(self, signature, leaves):
        """Whether a call with these `leaves` is of the same kind, on state of the same kind."""
        return self.signature == signature and all(map(are_alike, self.leaves, leaves))

    def is_alike(self, other):
        """Whether two recordings are of the same kind of call, and under the same conditions."""
        paths = [([call.outs for call in x.prologue], x.conditions) for x in (self, other)]
        one, two = _describing(self)(paths[0]), _describing(other)(paths[1])
        return self.is_of(other.signature, other.leaves) and one == two

    def finish(self):
        """Simplify the calls, and find what a program needs; raises Unsupported."""
        leaving = [value for _, _, value in self.rebound]
        leaving += [value for _, value in self.gradients if value is not None]
        leaving += self.returned()
        leaving += [var for _, var, _ in self.skips]
        if self.graph is not None:
            leaving += self.graph.values
        self.calls, new = simplify(self.calls, leaving, self.duplicate)

        found = substituting(new)
        self.leaving = list(dict.fromkeys(map(found, leaving)))
        self.rebound, self.gradients = mapped((self.rebound, self.gradients), found)
        self.skips = [(o, found(var), counts) for o, var, counts in self.skips]
        self.results = [(k, mapped(v, found) if k in _LEAVING else v) for k, v in self.results]
        if self.graph is not None:
            self.graph.finish(self, found)
            self.results += [
                ("number" if x.kind == "number" else "array", x) for x in self.graph.kept
            ]
        self.communicates = any(call.communicates for call in self.calls)
        self._find_numbers()
        self._find_inputs()

    def returned(self):
        """The values of arrays among the results."""
        return [v[1] if kind == "tensor" else v for kind, v in self.results if kind in _LEAVING]

    def _find_numbers(self):
        stack: list = []
        operands = [call.operands() for call in self.calls]
        collect((operands, self.results, self.changed, self.conditions, self.skips), stack)
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
        """Tell the inputs that stay in their places from those that are found anew in each run."""
        moving = {id(x) for x, what, _ in self.rebound if what == "array"}
        used = {x.root() for call in self.calls for x in (*call.operands(), *call.outs)}
        used.update([x.root() for x in self.leaving])
        for x in self.numbers:
            if x.source is not None and x.source.holder[0] == "element":
                used.add(x.source.holder[1])
        self.pinned, self.floating, self.unread = {}, {}, set()
        for x in self.inputs:
            kind, holder = x.source.kind, x.source.holder
            if kind == "held" and x in used:
                self.pinned[x] = holder.get
            elif kind == "tensor" and id(holder) not in moving:
                if x in used:
                    self.pinned[x] = _getter(holder)
            elif kind in ("argument", "tensor") or (kind == "grad" and x in used):
                self.floating[x] = x.source
                if x not in used:
                    self.unread.add(x)
        targets = [x.root().source for call in self.calls for x in call.targets()]
        self.written_sources = [source for source in targets if source is not None]


_LEAVING = ("tensor", "array")
_OF_RECORDER = (
    "backend", "duplicate", "calls", "prologue", "conditions", "afterwards", "inputs", "devices",
    "raw",
)  # fmt: skip


def _getter(x):
    return lambda: x.array


def signature_of(leaves, state, raw, backend):
    """What decides which program a call needs, besides guards and what is no array.

    state: the tensors that are found without the arguments.
    """

    def layout(array):
        strides = getattr(array, "strides", None)
        device = backend.device(array) if has_devices else None
        return type(array), tuple(array.shape), array.dtype, strides, device

    has_devices = backend.several_devices or backend.binder is None
    found, tensors = [thread.recording], [*state]
    for x in leaves:
        if isinstance(x, Tensor):
            node = type(x.node)
            found.append((type(x), layout(x.array), node, node is Leaf and x.grad is not None))
            tensors.append(x)
        else:
            found.append((type(x), layout(x) if type(x) in namespace_of else None))
    found += [(id(x), layout(x.array), id(x.node), x.grad is not None) for x in state]
    # Which of them share an array, or memory.
    first = {("memory", backend.buffer(x)): "raw" for x in raw}
    for k, x in enumerate(tensors):
        memory = "memory", backend.buffer(x.array)
        found.append((first.setdefault(id(x.array), k), first.setdefault(memory, k)))
    return found


def are_alike(one, other):
    """Whether two of `Tape.leaves` are of one kind, with equal values where they are static."""
    (kind, x), (other_kind, y) = one, other
    if kind != other_kind:
        return False
    if kind != "static":
        return x is y if kind == "state" else x == y
    return x[0] is y[0] or (not x[1] and same(x[0], y[0]))


def _describing(tape):
    """A function that returns what is equal for the same things on the tapes of two recordings.

    Values that calls compute are told apart by the order in which the function meets them.
    """
    known = {}

    def of_value(x):
        if x.source is not None:
            return x.source.kind, of(x.source.holder)
        if x.constant is not None and x.call is None:
            to_numpy = backend_of[type(x.constant)].to_numpy
            return x.shape, x.dtype, to_numpy(x.constant).tobytes()
        return len(known), x.shape, x.dtype

    def of(x):
        kind = type(x)
        if kind is Value:
            if x not in known:
                known[x] = of_value(x)
            return known[x]
        if kind is int or kind is str or x is None:
            return x
        if kind is tuple or kind is list:
            return kind, *map(of, x)
        if kind is dict:
            return {name: of(item) for name, item in x.items()}
        if kind is slice:
            return kind, of((x.start, x.stop, x.step))
        if kind is Cell:
            return x.kind, id(x.container), x.key
        if isinstance(x, Tensor):
            return tape.argument_of.get(id(x), (kind, id(x)))
        if callable(x):
            return name_of(x)
        # Dtypes and devices of libraries may be made anew; numbers have to have the same bits.
        return kind, Exactly(x) if is_compared(kind) or hasattr(x, "shape") else x

    return of


def _described(tape):
    """What was recorded, as pairs of a text and what is equal for equal recordings."""
    of = _describing(tape)
    for number, call in enumerate((*tape.prologue, *tape.calls)):
        kwargs = call.kwargs and of(call.kwargs)
        yield f"call {number} is {call.name}", (of(call.args), kwargs, of(call.outs))
    results = [v[1] if kind == "tensor" else (kind, v) for kind, v in tape.results]
    for what in "rebound", "gradients", "changed":
        yield f"what it changes ({what})", of(getattr(tape, what))
    yield "what it returns", of((results, tape.graph and (tape.graph.nodes, tape.graph.places)))


def first_difference(one, other):
    """What differs first between two recordings of a function, as a text; None if nothing does."""
    for (a, x), (b, y) in zip(_described(one), _described(other), strict=False):
        if a != b:
            return f"{a} in one and {b} in the other"
        if x != y:
            return f"{a}, which is not the same in both"
    return None
