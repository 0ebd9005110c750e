"""Where the values of a program lie: which buffer, from which call to which."""

from bisect import bisect_left, insort

_ALIGNED = 64  # bytes
_SMALL = 2048  # bytes that are copied in about the time that a new array takes
_LARGE = 1 << 23  # bytes of a value for whose sake calls are moved


class Storage:
    """The memory of one or, one after another, of several values.

    kind: "planned" (a part of the program's own memory), "fresh" (new in each run), "state" (an
        array that exists), "constant", "loose" (whatever the call returns).
    first, last: the positions of the calls that write it first and use it last.
    offset: in the program's memory.
    """

    __slots__ = ("kind", "nbytes", "first", "last", "offset", "variable")

    def __init__(self, kind, variable, first=-1, last=-1):
        self.kind = kind
        self.variable = variable
        self.nbytes = variable.nbytes
        self.first = first
        self.last = last
        self.offset = 0


class Memory:
    """The storages of a program's variables.

    calls: the calls, each with its `Lowered` form or None in ``lowered``.
    outputs: variables that leave the program, in memory of their own.
    written: pairs of the variable that an array has at first, and the one to be written to it.
    groups: the `Group`s of calls that run block by block.
    safe_from: the position of the first call that may write to an array that exists already; those
        before it, or some of them, may raise errors.
    """

    def __init__(self, calls, lowered, outputs, written, groups=(), safe_from=0):
        self.calls = calls
        self.lowered = lowered
        self.of = {}
        self._safe_from = safe_from
        self.group_of = group_of = {i: g for g in groups for i in range(g.start, g.stop)}
        self.end = end = len(calls)
        self.last_use = last_use = {}
        for i, call in enumerate(calls):
            for x in call.operands():
                last_use[x.root()] = i
            for x in call.outs:
                last_use.setdefault(x.root(), i)
            if call.may_alias:  # what it returns may be an operand
                for x in call.operands():
                    last_use[x.root()] = end
        for x in outputs:
            last_use[x.root()] = end
        targets = {}  # final variable -> the variable of the array to write
        for first, final in written:
            if final.kind == "array" and final.root() is final and final.value is None:
                targets.setdefault(final, first)
            last_use[final.root()] = end
        # Small outputs are copied at the end, so that they always lie in the same place before.
        fresh = {x for x in outputs if x.base is None and x.call and x.nbytes > _SMALL}
        starts = {first for first, _ in written}
        holder = {}  # the variable of a written array -> its present occupant
        occupants = {}  # planned storage -> its present occupant
        for first in starts:
            self.of[first] = Storage("state", first)
            holder[first] = first

        def free_at(first, i, operands, elementwise, out):
            """Whether call i may write its result where the array ``first`` lies."""
            occupant = holder[first]
            group = group_of.get(i)
            if i < safe_from or not _alike(first, out):
                return False
            last = last_use.get(occupant, -1)
            if group is not None and last >= group.start and occupant in group.irregular:
                return False
            if last < i:
                return True
            return last == i and occupant in operands and elementwise and _alone(occupant, operands)

        for i, call in enumerate(calls):
            low = lowered[i]
            for out in call.outs:
                if out.base is not None or out.kind != "array":
                    continue
                if low is None:
                    self.of[out] = Storage("loose", out, i, last_use[out])
                    continue
                if out in fresh and out not in targets:
                    self.of[out] = Storage("fresh", out, i, last_use[out])
                    continue
                operands = call.operands()
                first = targets.get(out)
                if (
                    first is not None
                    and out not in fresh
                    and free_at(first, i, operands, low.is_elementwise, out)
                ):
                    self._occupy(first, out, i, holder)
                    continue
                if out in fresh:
                    self.of[out] = Storage("fresh", out, i, last_use[out])
                    continue
                taken = None
                if low.is_elementwise and last_use[out] < end:
                    for x in operands:
                        taken = self._take(x, i, out, operands, holder)
                        if taken is not None:
                            break
                    if taken is None:
                        taken = self._take_earlier(i, out, occupants)
                if taken is None:
                    self.of[out] = storage = Storage("planned", out, i, last_use[out])
                    group = group_of.get(i)
                    if group is not None and out in group.inner:
                        storage.nbytes = out.nbytes * group.length // group.shape[group.axis]
                else:
                    self.of[out] = taken
                    taken.last = max(taken.last, last_use[out])
                occupants[self.of[out]] = out
        for group in groups:
            for call in calls[group.start : group.stop]:
                for x in (*call.operands(), *call.outs):
                    storage = self.of.get(x.root())
                    if storage is not None and x not in group.inner:
                        storage.first = min(storage.first, group.start)
                        storage.last = max(storage.last, group.stop - 1)
        self.total = place({s for s in self.of.values() if s.kind == "planned"})

    def _occupy(self, first, out, i, holder):
        storage = self.of[first]
        self.of[out] = storage
        holder[first] = out
        storage.last = max(storage.last, self.last_use[out])

    def _take(self, x, i, out, operands, holder):
        """The storage of operand ``x`` if it dies in call i and can have the result; else None."""
        if x.base is not None or self.last_use.get(x) != i or not _alike(x, out):
            return None
        storage = self.of.get(x)
        group = self.group_of.get(i)
        if storage is None or not _alone(x, operands):
            return None
        if group is not None and (
            x in group.irregular or (x in group.inner) != (out in group.inner)
        ):
            return None
        if storage.kind == "planned":
            return storage
        if storage.kind == "state" and i >= self._safe_from:
            first = storage.variable
            if holder.get(first) is x:
                holder[first] = out
                return storage
        return None

    def _take_earlier(self, i, out, occupants):
        """The storage of what an earlier call of the group of call i used last; else None.

        Each block of it has been read when that block of ``out`` is written.
        """
        group = self.group_of.get(i)
        if group is None or out in group.inner:
            return None
        for call in self.calls[group.start : i]:
            for x in call.operands():
                storage = self.of.get(x)
                if (
                    storage is not None
                    and storage.kind == "planned"
                    and occupants[storage] is x
                    and self.last_use[x] < i
                    and x not in group.inner
                    and x not in group.irregular
                    and _alike(x, out)
                ):
                    return storage
        return None


def _alike(x, out):
    return x.shape == out.shape and x.dtype == out.dtype and x.strides == out.strides


def _alone(x, operands):
    """Whether no other operand is a view of ``x``."""
    return not any(y is not x and y.root() is x for y in operands)


def narrowed(calls, lowered, lasting):
    """The calls in an order in which large values may need less memory; None if it is the same.

    A large product, such as the gradient of an activation, is computed only where it is first
    used; and what is made of a large value and is all that is still needed of it, such as the mask
    of a ReLU, right after the use before. So neither waits while gradients of weights are
    computed. Returns the calls and their lowered forms.

    lasting: variables that are needed after the last call.
    """
    pairs = list(zip(calls, lowered, strict=True))
    if not any(low is not None and call.outs[0].nbytes >= _LARGE for call, low in pairs):
        return None
    users = {}  # for each variable, the numbers of the calls that use it or a view of it
    for i, call in enumerate(calls):
        for x in call.operands():
            users.setdefault(x.root(), []).append(i)
    at = list(range(len(calls)))  # the number of the call before which each is made
    for i, (call, low) in reversed(list(enumerate(pairs))):
        out = call.outs[0]
        if low is None or low.is_elementwise or out.nbytes < _LARGE:
            continue
        if out in users and out not in lasting:
            at[i] = min([at[k] for k in users[out]])
    before, after, moved = {}, {}, set()
    for i, k in enumerate(at):
        if k != i:
            before.setdefault(k, []).append(i)
            moved.add(i)
    for i, (call, low) in enumerate(pairs):
        if low is None or not low.is_elementwise:
            continue
        roots = {x.root() for x in call.operands() if x.kind != "number"}
        x = roots.pop() if len(roots) == 1 else None
        if x is None or x.call is None or x in lasting or x.nbytes < _LARGE:
            continue
        others = [k for k in users[x] if k != i]
        is_last = others and others[-1] < i and others[-1] not in moved
        if is_last and call.outs[0].nbytes <= x.nbytes / 2:
            after.setdefault(others[-1], []).append(i)
            moved.add(i)
    if not after:
        return None
    order = []

    def emit(i):
        order.extend(before.get(i, ()))
        order.append(i)
        for k in after.get(i, ()):
            emit(k)

    for i in range(len(calls)):
        if i not in moved:
            emit(i)
    return [calls[i] for i in order], [lowered[i] for i in order]


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


def most_alive(storages):
    """The largest sum of bytes that are in use at one time."""
    changes = {}
    for s in storages:
        changes[s.first] = changes.get(s.first, 0) + s.nbytes
        changes[s.last + 1] = changes.get(s.last + 1, 0) - s.nbytes
    most = now = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most
