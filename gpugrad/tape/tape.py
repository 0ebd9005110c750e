"""A tape: the array calls that a function has made, in their order, on values in memory.

A call that writes in place is on the tape as it was made: it names the array that it overwrites.
So the memory of a value is what matters: two values that show the same memory share a `Memory`,
and whatever changes the order of calls, or leaves one out, looks at which memory they write.
"""

import math
from functools import partial

from ..backends import backend_of
from ..backends.declarations import declaration


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
        fails = self.declared.fails
        return fails(self.args, self.kwargs) if callable(fails) else fails

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
            is_needed = any(not x.memory.is_own or x.memory in memories for x in call.targets())
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
                return
        for root, first in pairs:
            members.setdefault(first, {first}).update(members.get(root, {root}))
        new.update(zip(outs, firsts, strict=True))

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
        first = call if key is None else known.setdefault(key, call)
        if first is not call:
            merge(call.outs, [new.get(x, x) for x in first.outs])
    return new


def _apart(calls):
    """For each root, the others that must not come to lie in the same memory.

    BLAS computes the product of a matrix and itself in a way of its own.
    """
    apart = {}
    for call in calls:
        if call.is_view() or call.declared.elementwise:
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


class Tape:
    """A finished recording of a function: its calls, and what they begin and end with.

    calls: the array calls, as `Call`s.
    prologue: computations of numbers, which come before all array calls.
    conditions: triples ``(function, args, outcome)`` on numbers, which have to be fulfilled.
    effects: what the function has changed besides writing in place; see `tracing.Effects`.
    results: pairs ``(kind, value)`` for the leaves of the result.
    """

    def __init__(self, **values):
        vars(self).update(values)


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

