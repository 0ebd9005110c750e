"""A tape: the array calls that a function has made, in their order, on values in memory.

A call that writes in place is on the tape as it was made: it names the array that it overwrites.
So the memory of a value is what matters: two values that show the same memory share a `Memory`,
and whatever changes the order of calls, or leaves one out, looks at which memory they write.
"""

import math
from functools import partial

from ..backends import backend_of
from ..backends.declarations import declaration
from .cells import same


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
    source: what has the value when the tape starts, an `Input`; or None.
    constant: the value itself where it is the same in each run, else None.
    call: the `Call` that computes it, or None.
    base: for a view, the value whose memory it shows.
    memory: the `Memory` of an array.
    """

    __slots__ = (
        "kind", "shape", "dtype", "strides", "nbytes", "source", "constant", "call", "base",
        "memory", "number",
    )  # fmt: skip

    def __init__(self, kind, value=None, nbytes=0):
        self.kind = kind
        self.shape = getattr(value, "shape", ())
        self.dtype = getattr(value, "dtype", None)
        self.strides = getattr(value, "strides", None)
        self.nbytes = nbytes
        self.source = self.constant = self.call = self.base = self.memory = self.number = None

    @property
    def size(self):
        return math.prod(self.shape)

    def root(self):
        """The value whose memory this one shows, itself if it is no view."""
        x = self
        while x.base is not None:
            x = x.base
        return x

    def __repr__(self):
        return f"<{self.kind} {self.number} {self.dtype} {tuple(self.shape)}>"


class Input:
    """Where a value is found when a tape starts.

    kind: "argument", "tensor" (the array of a Tensor), "grad" (the array of its ``.grad``), "held"
        (an array, or a tuple of arrays, in a `Cell`), "number".
    holder: the position of an argument, the Tensor, the `Cell`, or a function that reads a number.
    """

    __slots__ = ("kind", "holder")

    def __init__(self, kind, holder):
        self.kind = kind
        self.holder = holder


class Call:
    """One call of a function: ``out = function(*args, **kwargs)``.

    args, kwargs: nested tuples, lists and dicts in which values stand for what they will be.
    outs: the values of the results.
    several: whether the function returns a sequence.
    is_pure: whether it only computes its result; draws of random numbers are not.
    writes: whether it overwrites its first argument, an array or a tuple of arrays.
    communicates: whether it communicates with other processes.
    """

    __slots__ = (
        "function", "args", "kwargs", "outs", "several", "is_pure", "writes", "communicates",
        "_operands",
    )  # fmt: skip

    def __init__(self, function, args, kwargs, *, is_pure=True, writes=False):
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.outs = []
        self.several = False
        self.is_pure = is_pure
        self.writes = writes
        self.communicates = False
        self._operands = None

    @property
    def name(self):
        return name_of(self.function)

    @property
    def declared(self):
        return declaration(self.function)

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
        self.args, self.kwargs = mapped(self.args, new), mapped(self.kwargs, new)
        self._operands = None


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


def mapped(x, new):
    """Nested containers with other values in place of those in the dict ``new``."""
    kind = type(x)
    if kind is Value:
        return new.get(x, x)
    if kind is tuple or kind is list:
        return kind([mapped(item, new) for item in x])
    if kind is dict:
        return {name: mapped(item, new) for name, item in x.items()}
    if kind is slice:
        return slice(mapped(x.start, new), mapped(x.stop, new), mapped(x.step, new))
    return x


def simplify(calls, outputs, duplicate):
    """The calls that matter, each value computed once.

    outputs: the values that are needed after the last call.
    duplicate: the function that copies an array.

    Returns the calls and a dict of values that others replace. Left out are calls whose results
    nothing needs, calls that are equal to earlier ones, and copies of what nothing overwrites.
    """
    _keep_constants(calls)
    new = _merged(_living(calls, outputs), duplicate)
    for call in calls:
        if not new.keys().isdisjoint(call.operands()):
            call.replace(new)
        for out in call.outs:
            out.base = new.get(out.base, out.base)
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

    def need(x):
        while x is not None:
            needed.add(x)
            memories.add(x.memory)
            x = x.base

    for x in outputs:
        need(x)
    for call in reversed(calls):
        if call.writes:
            is_needed = call.communicates
            is_needed |= any(not x.memory.is_own or x.memory in memories for x in call.targets())
        elif call.outs and all(out.constant is not None for out in call.outs):
            is_needed = False
        else:
            is_needed = not call.is_pure or call.may_fail or not needed.isdisjoint(call.outs)
        if is_needed:
            living.append(call)
            for x in call.operands():
                need(x)
            for x in call.outs:
                need(x.base)
    return living[::-1]


def _merged(calls, duplicate):
    """A dict from values to equal ones that are computed earlier."""
    known, new, versions = {}, {}, {}
    apart, members = _apart(calls), {}

    def merge(outs, firsts):
        pairs = [(out.root(), x.root()) for out, x in zip(outs, firsts, strict=True)]
        for root, first in pairs:
            mine = members.get(root, {root})
            if any(not mine.isdisjoint(apart.get(x, ())) for x in members.get(first, {first})):
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
            if not any(merge(call.outs, first.outs) for first in alike):
                alike.append(call)
    return new


def _apart(calls):
    """For each root, the others that must not come to lie in the same memory.

    BLAS computes the product of a matrix and itself in a way of its own.
    """
    apart = {}
    for call in calls:
        if call.is_view() or call.declared.holds("elementwise", call.args, call.kwargs):
            continue
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
            return kind, tuple([hashable(item) for item in x])
        if kind is dict:
            return tuple([(name, hashable(item)) for name, item in x.items()])
        if kind is slice:
            return "slice", hashable((x.start, x.stop, x.step))
        if kind is float:
            return kind, x.hex()  # 0.0 and -0.0 differ, and nan is itself
        return kind, x

    key = call.function, hashable(call.args), hashable(call.kwargs)
    try:
        hash(key)
    except TypeError:
        return None
    return key


class Unsupported(Exception):
    """Raised where a tape cannot be made a program; the function then runs without it."""


class Tape:
    """A finished recording of a function: its calls, and what they begin and end with.

    structure, result_structure: of the arguments and of the result.
    signature: the kinds and layouts of the arguments and of all tensors.
    leaves: what each leaf of the arguments has to be: pairs of a kind and a value.
    reach: the `Reach` of the function, with its guards.
    calls: the array calls, as `Call`s, in their order.
    prologue: the computations of numbers, which come before all array calls.
    numbers: the numbers that something needs, each after what it is computed from.
    conditions: triples ``(function, args, outcome)`` on numbers, which have to be fulfilled.
    pinned: from inputs that stay in their places to functions that return their arrays.
    floating: from inputs that are found anew in each run to their `Input`.
    device: the device of all arrays if the library has several, else None.
    tensors: tuples of a tensor of the state, its node, that node's ``watch``, whether it has a
        gradient, and whether its array is pinned.
    rebound: triples of a tensor, "array" or "grad", and the value of its new array.
    gradients: triples of a tensor, the value of its new gradient, and the Tensor of that.
    changed: pairs of a `Cell` and what the function has put into it.
    number_writes: triples of a `ParameterState`, an attribute, and the numbers that it gets.
    skips: of optimizers whose step may be skipped: the value that says so, and counts before.
    afterwards: functions and arguments to call when everything else is done.
    results: pairs of a kind and a value for the leaves of the result.
    leaving: the values that leave the program.
    graph: the `derivatives.Graph` of the results, or None.
    """

    def __init__(self, **values):
        vars(self).update(values)

    def forget(self):
        """Let go of what only the recording needed."""
        self.gradients = [(x, value, None) for x, value, _ in self.gradients]

    def holds(self):
        """Whether all guards hold; those of the arguments apart."""
        return self.reach.first_change() is None

    def is_alike(self, other):
        """Whether two recordings are of the same kind of call, on state of the same kind."""
        mine = [(k, v[:2] if k == "static" else None) for k, v in self.leaves]
        its = [(k, v[:2] if k == "static" else None) for k, v in other.leaves]
        return (
            self.signature == other.signature
            and len(mine) == len(its)
            and all(
                a[0] == b[0] and (a[0] != "static" or _same_static(a[1], b[1]))
                for a, b in zip(mine, its, strict=True)
            )
            and self._described_conditions() == other._described_conditions()
        )

    def fits(self, leaves):
        """Whether the arguments have the shapes, dtypes and values that the tape is for."""
        if len(leaves) != len(self.leaves):
            return False
        for x, (kind, value), known in zip(leaves, self.leaves, self.signature[1:], strict=False):
            array = getattr(x, "array", x)
            if kind == "static" and not _same_static((x, value[1]), value):
                return False
            if known[1] is not None and known[1][:2] != (tuple(array.shape), array.dtype):
                return False
        return True

    def described_arguments(self):
        """What each leaf of the arguments is, to be compared."""
        return [
            repr(value[0]) if kind == "static" else repr(known[1])
            for (kind, value), known in zip(self.leaves, self.signature[1:], strict=False)
        ]

    def _described_conditions(self):
        described = _Described(None)
        for call in self.prologue:
            described.of(call.args)
            described.of(call.outs)
        return [
            (function, described.of(args), type(outcome), outcome)
            for function, args, outcome in self.conditions
        ]

    def described(self):
        """Pairs of a text for people and what the tape does besides its calls."""
        for x, what, value in self.rebound:
            yield "the new array of a tensor", (id(x), what, value)
        for x, value, _ in self.gradients:
            yield "a gradient", (id(x), value)
        for place, value in self.changed:
            yield f"what it puts into {place}", (place.kind, id(place.container), value)
        for state, name, value in self.number_writes:
            yield f"{name} of an optimizer", (id(state), value)
        for kind, value in self.results:
            if kind == "tensor":
                value = value[1]
            yield "a result", (kind, value if kind != "same" else id(value))


def _same_static(one, other):
    return one[0] is other[0] or (not one[1] and same(one[0], other[0]))


def first_difference(one, other):
    """What differs first between two recordings of a function, as a text; None if nothing does."""
    a, b = _Described(one), _Described(other)
    for x, y in zip(a.lines, b.lines, strict=False):
        if x[1] != y[1]:
            return x[0] if x[0] == y[0] else f"{x[0]} in one, {y[0]} in the other"
    if len(a.lines) != len(b.lines):
        longer = max(a.lines, b.lines, key=len)
        return longer[min(len(a.lines), len(b.lines))][0]
    return None


class _Described:
    """A tape as a list of pairs of a text for people and what is compared."""

    def __init__(self, tape):
        self.numbers = {}
        self.lines = []
        if tape is None:
            return
        for call in (*tape.prologue, *tape.calls):
            name = call.name
            given = self.of(call.args), self.of(call.kwargs)
            outs = tuple([(x.shape, x.dtype, x.kind) for x in call.outs])
            for x in call.outs:
                self.of(x)
            what = f"call {len(self.lines)}, {name}"
            self.lines.append((what, (name, given, outs, call.writes)))
        for what, parts in tape.described():
            self.lines.append((what, self.of(parts)))

    def of(self, x):
        kind = type(x)
        if kind is Value:
            if x.constant is not None:
                return "constant", x.shape, str(x.dtype), _bytes_of(x.constant)
            return "value", self.numbers.setdefault(x, len(self.numbers))
        if kind is tuple or kind is list:
            return kind, tuple([self.of(item) for item in x])
        if kind is dict:
            return tuple([(name, self.of(item)) for name, item in x.items()])
        if kind is slice:
            return "slice", self.of((x.start, x.stop, x.step))
        if kind is float:
            return kind, x.hex()
        if isinstance(x, (int, str, bytes, complex, type(None))):
            return kind, x
        return kind, name_of(x)


def _bytes_of(array):
    return backend_of[type(array)].to_numpy(array).tobytes()

