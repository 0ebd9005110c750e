"""The plan of a program: the order of its calls, and which memory each result has, for how long."""

from operator import attrgetter

from ..backends.placing import place
from .tape import Memory

SMALL = 2048  # bytes; to copy so many takes about as long as to make a new array
LARGE = 1 << 23  # bytes; `narrowed` moves the calls that make values of this size
_NOT_COMPLEX = "fiub"  # NumPy rounds complex scalars and complex 0-d arrays differently


class Storage:
    """The memory of a value, or of several values one after another.

    kind: "planned" (a part of the program's own memory), "new" (new memory that each run gives to
        the call) or "value" (the memory of whatever the call returns).
    first, last: the positions of the first call that writes it and of the last that uses it.
    offset: where it begins in the program's memory.
    """

    __slots__ = ("kind", "nbytes", "first", "last", "offset")

    def __init__(self, kind, nbytes, first, last):
        self.kind, self.nbytes, self.first, self.last = kind, nbytes, first, last
        self.offset = 0


class MemoryPlan:
    """The order of the calls of a program, and the storage of their results.

    calls: in their order.
    of: from the `Memory` of a value that a call makes, to its `Storage`.
    last_use: from a `Memory` to the position of the last call that uses it.
    total: the size of the program's own memory in bytes.

    leaving: the values that leave the program. Small ones are planned, and copied at the end.
    can_bind: a function that says whether a call can write its result into given memory.
    """

    def __init__(self, calls, leaving, can_bind):
        self.calls = calls
        self._can_bind = {*filter(can_bind, calls)}
        self._place(leaving)

    @classmethod
    def best(cls, calls, leaving, can_bind):
        """A plan that needs little memory for large values."""
        first = cls(calls, leaving, can_bind)
        other = narrowed(calls, {x.memory for x in leaving}, first._can_bind)
        if other is None:
            return first
        second = cls(other, leaving, can_bind)
        return second if second.total <= 0.9 * first.total else first

    def _place(self, leaving):
        self.of = {}
        self.last_use = last_use = last_uses(self.calls, leaving)
        own = {x.memory for x in leaving if x.nbytes > SMALL or x.base is not None}
        for i, call in enumerate(self.calls):
            for out in call.outs:
                if out.base is not None or out.memory is None or out.memory in self.of:
                    continue
                kind, last, taken = "value", last_use[out.memory], None
                if call in self._can_bind:
                    kind = "new" if out.memory in own else "planned"
                    taken = self._take(i, call, out) if kind == "planned" else None
                self.of[out.memory] = storage = taken or Storage(kind, out.nbytes, i, last)
                storage.last = max(storage.last, last)
        self._planned = dict.fromkeys([s for s in self.of.values() if s.kind == "planned"])
        self.total = place(self._planned, attrgetter("nbytes", "first", "last"))

    def most_alive(self):
        """The largest number of bytes of planned storages that are used at one time."""
        beginnings = {s.first for s in self._planned}
        used = [[s for s in self._planned if s.first <= at <= s.last] for at in beginnings]
        return max([sum([s.nbytes for s in alive]) for alive in used], default=0)

    def storage(self, x):
        """The `Storage` of a value; None if no call of the program allocates its memory."""
        root = x.root()
        return None if root.is_alias else self.of.get(root.memory)

    def _take(self, i, call, out):
        """The storage of an operand that the result of call ``i`` may overwrite; None without one.

        It is one that no later call uses.
        """
        if not call.is_elementwise:
            return None
        operands = [x for x in call.operands() if x.memory is not None]
        for x in operands:
            storage = self.storage(x)
            if (
                storage is not None
                and storage.kind == "planned"
                and x.base is None
                and storage.last == i
                and self.last_use[x.memory] == i
                and (x.shape, x.dtype, x.strides) == (out.shape, out.dtype, out.strides)
                and all(y is x or y.memory is not x.memory for y in operands)
            ):
                return storage
        return None


def last_uses(calls, leaving, copying=()):
    """By memory, the position of the last call that uses it, or their number for ``leaving``.

    copying: the calls whose results are never operands, whatever is declared.
    """
    end, found = len(calls), {}
    for i, call in enumerate(calls):
        is_alias = call.declared.aliases and call not in copying
        for x in call.operands():
            found[x.memory] = max(end if is_alias else i, found.get(x.memory, 0))
        for x in call.outs:
            found[x.memory] = max(i, found.get(x.memory, 0))
    return found | dict.fromkeys([x.memory for x in leaving], end)


class Uses:
    """The memories that a call reads and writes; a scalar or a token counts as its own memory."""

    __slots__ = ("reads", "writes", "is_fixed")

    def __init__(self, call):
        self.reads = {x.memory or x for x in call.operands()}
        self.reads |= {x.memory for x in call.outs if x.base is not None}
        self.writes = {x.memory for x in call.targets()}
        self.writes |= {x.memory or x for x in call.outs if x.base is None}
        self.is_fixed = not call.is_pure


def independent(one, other):
    """Whether two calls may be made in either order."""
    return (
        not (one.is_fixed and other.is_fixed)
        and one.writes.isdisjoint(other.reads)
        and one.writes.isdisjoint(other.writes)
        and one.reads.isdisjoint(other.writes)
    )


def narrowed(calls, lasting, can_bind):
    """The calls in an order that may need less memory for large values; None if it is the same.

    A call that makes a large value, such as the gradient of an activation, is moved to just before
    the value's first use. Otherwise the value would take memory while calls in between, such as
    those for the gradients of weights, are made.

    lasting: the memory that is needed after the last call.
    can_bind: the calls that can write their results into given memory.
    """
    made = [(*call.outs, *call.targets())[0] for call in can_bind]
    if not any(x.nbytes >= LARGE for x in made):
        return None
    uses = [Uses(call) for call in calls]
    first = {}  # by memory, the position of the call before which its first reader is made
    before = {}  # by position, the calls that are made there, in reverse order
    for i, call in reversed(list(enumerate(calls))):
        out, k = call.outs[0] if call.outs else None, i
        if out is not None and call in can_bind and not call.is_elementwise:
            k = i if out.nbytes < LARGE or out.memory in lasting else first.get(out.memory, i)
            if not all(independent(uses[i], other) for other in uses[i + 1 : k]):
                k = i
        before.setdefault(k, []).append(call)
        for memory in uses[i].reads:
            first[memory] = min(k, first.get(memory, k))
    order = [call for k in range(len(calls)) for call in before.get(k, ())[::-1]]
    return order if order != calls else None


def without_scalars(calls, leaving, backend):
    """The calls, with 0-d arrays in place of scalars that are converted or are operands of others.

    The calls that made these scalars can then write into planned memory.
    """
    users, gone, kept = {}, set(), {*leaving}
    for call in calls:
        for x in call.operands():
            users.setdefault(x, []).append(call)
    for call in calls:
        x = call.outs[0] if len(call.outs) == 1 else None
        if x is None or x.kind != "scalar" or x in kept or not call.is_pure:
            continue
        mine = users.get(x, ())
        converted = [c for c in mine if c.function == backend.asarray]
        others = [c for c in mine if c not in converted]
        fits = len(converted) < 2 and x.dtype.kind in _NOT_COMPLEX
        if not fits or not all(backend.binder.takes_arrays(c.function) for c in others):
            continue
        if not converted:
            x.kind, x.strides, x.nbytes, x.memory = "array", (), x.dtype.itemsize, Memory(True)
        elif (y := converted[0].outs[0]).dtype == x.dtype and not y.memory.is_written:
            call.outs = []
            call.add(y)
            gone.update(converted)
            for other in others:
                other.replace({x: y})
    return [call for call in calls if call not in gone]
