"""Puts operations together into loops, so that values go through memory as seldom as possible.

Operations on elements of the same shape share a loop. The memory that they read and write decides
whether two may share one and which comes first: what an operation of a loop writes, others of this
loop may read only in the same pass.
"""

import math
from bisect import bisect_right
from itertools import chain

from ..base import address_range
from ..numpy.binding import address_of, owner
from ..placing import broadcast_strides, merged
from .calls import LONGEST

MOST = 512  # operations in a loop
ROOM = 1 << 18  # elements of all their values in a row, for which a thread has memory

ALONE = "product", "library"  # kinds of operations that are loops of their own
SPLIT = "rows", "columns"  # those that reduce an axis


class Root:
    """Memory that lies in one piece: from the address ``start`` to ``stop``.

    array: the owner of the memory.
    kind: "fixed" if it stays there; "register" if another array takes the place of this one in
        each run; "private" if only the operations use it; "constant" if nothing writes it.
    """

    def __init__(self, array, kind):
        self.array, self.kind = array, kind
        self.start = address_of(array)
        self.stop = self.start + max(array.nbytes, 1)
        self.place = self.start  # where it really is, if the array only stands for another one
        self.slot = None  # the register
        self.space = self  # the same object for roots that may overlap
        self.loops = set()  # the numbers of those that use it
        self.offset = 0


class Access:
    """The elements of an array that a loop goes through.

    shape, strides: without axes of one element; strides in bytes, 0 where the array broadcasts.
    first, last: the addresses of its memory.
    is_pointwise: whether each pass of the loop uses only the element at its own place.
    """

    def __init__(self, array, root, shape, strides, *, is_write, is_pointwise=True):
        self.array, self.root = array, root
        self.address = address_of(array) - root.start + root.place
        self.shape, self.strides = shape, strides
        layout = array.shape, array.strides, array.itemsize
        self.first, self.last = address_range(self.address, *layout)
        self.is_write, self.is_pointwise = is_write, is_pointwise

    @property
    def key(self):
        return self.address, self.strides, self.array.itemsize

    def meets(self, other):
        """Whether both use memory that one of them writes."""
        is_written = self.is_write or other.is_write
        return is_written and self.first < other.last and other.first < self.last


def strides_in(shape, strides, other):
    """The strides of the same elements in another shape of the same size, or None."""
    if shape == other:
        return strides
    shape, (strides,) = merged(shape, strides)
    found, left = [], list(zip(shape, strides, strict=True))
    rest, step = left.pop() if left else (1, 0)
    for n in reversed(other):
        if rest == 1 and left:
            rest, step = left.pop()
        if rest % n:
            return None
        found.append(step if n > 1 else 0)
        rest, step = rest // n, step * n
    return tuple(found[::-1])


class Loop:
    """Operations that share a loop.

    shape: without axes of one element; the numbers of rows and columns if ``is_split``.
    rows: the accesses of each operation, in the order of its inputs, that of its result last.
    """

    def __init__(self, operation, accesses):
        self.operations, self.rows = [], []
        self.by_space = {}  # the accesses by the space of their roots
        self._add(operation, accesses)
        self.is_split = operation.kind in SPLIT
        self.is_alone = operation.kind in ALONE
        self.has_total = operation.kind == "total"
        self.shape = operation.shape if self.is_split else accesses[-1].shape
        self.size = math.prod(self.shape)
        if self.is_split:
            for x in accesses:
                x.shape, x.strides = self.shape, _expressed(x, self.shape)

    def meets(self, accesses):
        """Pairs of an access of the loop and one of these, to memory that one of both writes."""
        known = self.by_space
        return [(x, y) for y in accesses for x in known.get(y.root.space, ()) if x.meets(y)]

    def _add(self, operation, accesses):
        self.operations.append(operation)
        self.rows.append(accesses)
        for x in accesses:
            self.by_space.setdefault(x.root.space, []).append(x)

    def join(self, operation, accesses, meetings):
        """Make an operation part of the loop if it can be; returns whether it is.

        meetings: what `meets` returned for its accesses.
        """
        if self.is_alone or operation.kind in ALONE or len(self.operations) >= MOST:
            return False
        shape, is_split = self.shape, operation.kind in SPLIT
        if is_split and shape != operation.shape:
            if self.is_split:
                return False
            shape = operation.shape
        if (self.is_split or is_split) and shape[1] > min(LONGEST, ROOM // len(self.operations)):
            return False
        size = math.prod(operation.shape)
        if size != self.size and not (self.is_split and size == shape[0]):
            return False
        changed = (accesses,) if shape == self.shape else (*self.rows, accesses)
        both = [x for row in changed for x in row]
        strides = [_expressed(x, shape) for x in both]
        if None in strides:
            return False
        new = dict(zip(map(id, both), strides, strict=True))
        has_total = self.has_total or operation.kind == "total"
        if has_total:  # all elements have to lie in one row
            rows = [new.get(id(x), x.strides) for row in (*self.rows, accesses) for x in row]
            if self.is_split or is_split or len(merged(shape, *rows)[0]) != 1:
                return False
        for x, y in meetings:
            is_same = x.address == y.address and x.array.itemsize == y.array.itemsize
            is_same &= new.get(id(x), x.strides) == new[id(y)]
            if not (is_same and x.is_pointwise and y.is_pointwise):
                return False
        for x, row in zip(both, strides, strict=True):
            x.shape, x.strides = shape, row
        self.shape = shape
        self.is_split |= is_split
        self.has_total = has_total
        self._add(operation, accesses)
        return True


def _expressed(x, shape):
    """The strides of an access in a loop of another shape, or None.

    The access has as many elements as the loop, or one for each row, at the same place in all
    columns.
    """
    if x.shape == shape:
        return x.strides
    if not x.shape:
        return (0,) * len(shape)
    if math.prod(x.shape) == math.prod(shape):
        return strides_in(x.shape, x.strides, shape)
    strides = strides_in(x.shape, x.strides, shape[:1])
    return None if strides is None else (*strides, 0)


class Schedule:
    """The loops of some operations, in their order.

    operations: in the order of the calls.
    roots: the `Root`s of the arrays, in the order of their addresses. Arrays that lie in none of
        them are the operations' own, or constants.
    """

    def __init__(self, operations, roots):
        self.roots = sorted(roots, key=lambda root: root.start)
        self._starts = [root.start for root in self.roots]
        self.own = {}
        self._join_spaces()
        self.loops: list[Loop] = []
        self._written = {id(owner(x)) for operation in operations for x in operation.written}
        for operation in operations:
            self._place(operation)
        for number, loop in enumerate(self.loops):
            for x in chain(*loop.rows):
                x.root.loops.add(number)

    def _join_spaces(self):
        """Give roots that really lie in the same memory the same space."""
        end, space = -1, None
        for root in sorted(self.roots, key=lambda root: root.place):
            if root.place >= end:
                space = root
            root.space, end = space, max(end, root.place + root.stop - root.start)

    def root_of(self, array):
        address = address_of(array)
        i = bisect_right(self._starts, address) - 1
        if i >= 0 and address < self.roots[i].stop:
            return self.roots[i]
        whole = owner(array)
        if id(whole) not in self.own:
            kind = "private" if id(whole) in self._written else "constant"
            self.own[id(whole)] = Root(whole, kind)
        return self.own[id(whole)]

    def _accesses(self, operation):
        """The accesses to what an operation reads and writes; that of the result comes last."""
        kind, out = operation.kind, operation.out
        if kind == "rows":
            out = out[:, None]
        arrays = [*operation.inputs, *([] if kind == "library" else [out])]
        written = {id(x) for x in operation.written} | {id(out)}
        found = []
        for i, x in enumerate(arrays):
            is_free = kind in ALONE or (kind == "gather" and i == 1)  # to use any element
            is_pointwise = not is_free and not (kind in ("columns", "total") and x is out)
            shape = () if kind in ALONE else operation.shape
            squeezed = tuple([n for n in shape if n > 1])
            strides = (0,) * len(squeezed) if is_free else broadcast_strides(x, shape)
            how = {"is_write": id(x) in written, "is_pointwise": is_pointwise}
            found.append(Access(x, self.root_of(x), squeezed, strides, **how))
        return found

    def _place(self, operation):
        accesses = self._accesses(operation)
        loops, first = self.loops, 0
        for k in reversed(range(len(loops))):
            if meetings := loops[k].meets(accesses):
                if loops[k].join(operation, accesses, meetings):
                    return
                first = k + 1
                break
        for loop in loops[first:]:
            if loop.join(operation, accesses, ()):
                return
        loops.append(Loop(operation, accesses))
