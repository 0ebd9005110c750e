"""The plan of a program: the order of its calls, and where their results lie from when to when."""

from bisect import bisect_left, insort

from .tape import Memory

_ALIGNED = 64  # bytes
SMALL = 2048  # bytes that are copied in about the time that a new array takes
LARGE = 1 << 23  # bytes of a value for whose sake calls are moved
_NOT_COMPLEX = "fiub"  # scalars and 0-d arrays of complex numbers are rounded differently


class Storage:
    """The memory of one or, one after another, of several values.

    kind: "planned" (a part of the program's own memory), "fresh" (new in each run, given to the
        call), "loose" (whatever the call returns).
    first, last: the positions of the calls that write it first and use it last.
    offset: in the program's memory.
    """

    __slots__ = ("kind", "nbytes", "first", "last", "offset")

    def __init__(self, kind, nbytes, first=-1, last=-1):
        self.kind = kind
        self.nbytes = nbytes
        self.first = first
        self.last = last
        self.offset = 0


class Plan:
    """An order of calls, and the storage of their results.

    calls: in their order.
    of: from the `Memory` of a value that a call makes to its `Storage`.
    total: bytes of the program's own memory.

    leaving: values that leave the program; small ones are copied at its end.
    can_bind: whether a call can write its result into memory that is given.
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
        end = len(self.calls)
        self.of = {}
        self.last_use = last_use = {}
        for i, call in enumerate(self.calls):
            last = end if call.declared.aliases else i  # what it returns may be an operand
            for x in call.operands():
                last_use[x.memory] = max(last, last_use.get(x.memory, 0))
            for x in call.outs:
                last_use[x.memory] = max(i, last_use.get(x.memory, 0))
        for x in leaving:
            last_use[x.memory] = end
        # Small ones are copied, so that they always lie in the same place before.
        own = {x.memory for x in leaving if x.nbytes > SMALL or x.base is not None}
        for i, call in enumerate(self.calls):
            for out in call.outs:
                if out.base is not None or out.memory is None or out.memory in self.of:
                    continue
                if call not in self._can_bind:
                    kind = "loose"
                elif out.memory in own:
                    kind = "fresh"
                else:
                    kind = "planned"
                    taken = self._take(i, call, out)
                    if taken is not None:
                        self.of[out.memory] = taken
                        taken.last = max(taken.last, last_use[out.memory])
                        continue
                self.of[out.memory] = Storage(kind, out.nbytes, i, last_use[out.memory])
        self.total = place({s for s in self.of.values() if s.kind == "planned"})

    def storage(self, x):
        """The `Storage` of a value; None for what a call returns or shows in its own way."""
        root = x.root()
        if root.memory is None or (root.call is not None and root.memory.maker is not root.call):
            return None
        return self.of.get(root.memory)

    def _take(self, i, call, out):
        """The storage of an operand that dies in call i and can have the result; else None."""
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
                and _alike(x, out)
                and all(y is x or y.memory is not x.memory for y in operands)
            ):
                return storage
        return None


class _Uses:
    """Which memory a call reads and writes; a scalar or a token stands for itself."""

    __slots__ = ("reads", "writes", "is_fixed")

    def __init__(self, call):
        self.reads = {x.memory or x for x in call.operands()}
        self.reads |= {x.memory for x in call.outs if x.base is not None}
        self.writes = {x.memory for x in call.targets()}
        self.writes |= {x.memory or x for x in call.outs if x.base is None}
        self.is_fixed = not call.is_pure


def _independent(one, other):
    """Whether two calls may change places."""
    return (
        not (one.is_fixed and other.is_fixed)
        and one.writes.isdisjoint(other.reads)
        and one.writes.isdisjoint(other.writes)
        and one.reads.isdisjoint(other.writes)
    )


def _result(call):
    """The array that a call, which can be bound, makes or overwrites."""
    return call.outs[0] if call.outs else call.targets()[0]


def _alike(x, out):
    return x.shape == out.shape and x.dtype == out.dtype and x.strides == out.strides


def narrowed(calls, lasting, can_bind):
    """The calls in an order in which large values may need less memory; None if it is the same.

    A large product, such as the gradient of an activation, is computed only where it is first
    used, so that it does not wait while gradients of weights are computed.

    lasting: memory that is needed after the last call.
    """
    if not any(_result(call).nbytes >= LARGE for call in can_bind):
        return None
    uses = [_Uses(call) for call in calls]
    first = {}  # for each memory, the number of the call before which its first reader is made
    before = {}  # the calls that are made before each call, itself last
    for i, call in reversed(list(enumerate(calls))):
        out, k = call.outs[0] if call.outs else None, i
        if out is not None and call in can_bind and not call.is_elementwise:
            k = i if out.nbytes < LARGE or out.memory in lasting else first.get(out.memory, i)
            if not all(_independent(uses[i], other) for other in uses[i + 1 : k]):
                k = i
        before.setdefault(k, []).append(call)
        for memory in uses[i].reads:
            first[memory] = min(k, first.get(memory, k))
    order = [call for k in range(len(calls)) for call in before.get(k, ())[::-1]]
    return order if order != calls else None


def without_scalars(calls, leaving, backend):
    """The calls, with 0-d arrays in place of scalars that become arrays or are computed with.

    What returns a scalar writes it into memory then, as calls that return arrays do.
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
            x.kind, x.strides, x.nbytes, x.memory = "array", (), x.dtype.itemsize, Memory(call)
        elif (y := converted[0].outs[0]).dtype == x.dtype and not y.memory.is_written:
            y.call = y.memory.maker = call
            call.outs = [y]
            gone.update(converted)
            for other in others:
                other.replace({x: y})
    return [call for call in calls if call not in gone]


def place(storages):
    """Give each storage an offset so that those used at one time do not meet; the total size.

    The largest come first, each at the lowest offset that is free from its first to its last use.
    """
    # What is placed, by where it begins; in one list are those that live about as long, so that a
    # part of each list has all that are alive at some time, and little else.
    placed = {}
    total = 0
    for storage in sorted(storages, key=lambda s: (-s.nbytes, s.first)):
        size = -(-storage.nbytes // _ALIGNED) * _ALIGNED
        begin, end = storage.first, storage.last
        taken = []
        for bits, rows in placed.items():
            low, high = bisect_left(rows, (begin - (1 << bits),)), bisect_left(rows, (end + 1,))
            taken += [(start, stop) for _, last, start, stop in rows[low:high] if begin <= last]
        taken.sort()
        offset = 0
        for start, stop in taken:
            if start - offset >= size:
                break
            if stop > offset:
                offset = stop
        storage.offset = offset
        total = max(total, offset + size)
        rows = placed.setdefault((end - begin).bit_length(), [])
        insort(rows, (begin, end, offset, offset + size))
    return total


def most_alive(plan):
    """The largest sum of the sizes of planned values that are needed at one time."""
    changes = {}
    for s in {s for s in plan.of.values() if s.kind == "planned"}:
        changes[s.first] = changes.get(s.first, 0) + s.nbytes
        changes[s.last + 1] = changes.get(s.last + 1, 0) - s.nbytes
    most = now = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most
