"""Operations put together into loops, so that values go through memory as seldom as possible.

Operations on elements of the same shape share a loop. Whether two may share one, and which comes
first, is decided by the memory that they read and write: in one loop, an element may be written
and read again at the same place only.
"""

import math
from bisect import bisect_right

MOST = 96  # operations in a loop
LONGEST = 1 << 13  # elements of a row whose values wait in a buffer for a reduction of the row


class Root:
    """Memory that lies in one piece: from the address ``start`` to ``stop``.

    kind: "fixed" if it stays there; "register" if another array takes the place of this one in
        each run; "private" if only the operations use it; "constant" if nothing writes it.
    array: what keeps it alive. slot: the register.
    """

    def __init__(self, start, stop, kind, array=None, slot=None):
        self.start = start
        self.stop = stop
        self.kind = kind
        self.array = array
        self.slot = slot
        self.place = start  # where it really is, if another array stands for it
        self.loops = set()  # the numbers of those that use it
        self.offset = 0

    @classmethod
    def of(cls, array, kind):
        start = address_of(array)
        return cls(start, start + max(array.nbytes, 1), kind, array)


class Access:
    """The elements of an array that a loop goes through.

    shape, strides: without axes of one element; strides in bytes, 0 where the array broadcasts.
    first, last: the addresses of its memory.
    is_pointwise: whether each pass of the loop uses the element at its own place only.
    """

    __slots__ = (
        "array", "root", "address", "shape", "strides", "first", "last", "is_pointwise", "is_write"
    )  # fmt: skip

    def __init__(self, array, root, shape, strides, *, is_write, is_pointwise=True):
        self.array = array
        self.root = root
        self.address = address_of(array) - root.start + root.place
        self.shape = shape
        self.strides = strides
        reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
        self.first = self.address + sum([x for x in reach if x < 0])
        self.last = self.address + sum([x for x in reach if x > 0]) + array.itemsize
        self.is_write = is_write
        self.is_pointwise = is_pointwise

    @property
    def key(self):
        return self.address, self.strides, self.array.itemsize

    def meets(self, other):
        """Whether both use memory that one of them writes."""
        return (
            (self.is_write or other.is_write)
            and self.first < other.last
            and other.first < self.last
        )


def broadcast_strides(array, shape):
    """The strides of an array that broadcasts to a shape, of the axes with several elements."""
    lead = len(shape) - array.ndim
    found = [0] * lead
    for n, step in zip(array.shape, array.strides, strict=True):
        found.append(step if n > 1 else 0)
    return tuple([s for s, n in zip(found, shape, strict=True) if n > 1])


def merged(shape, *rows):
    """A shape with as few axes as possible, and rows of strides for it."""
    axes: list = []
    for i, n in enumerate(shape):
        steps = [row[i] for row in rows]
        if axes and all(a == n * b for a, b in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = axes[-1][0] * n, steps
        else:
            axes.append((n, steps))
    shape = tuple([n for n, _ in axes])
    return shape, [tuple([steps[k] for _, steps in axes]) for k in range(len(rows))]


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

    shape: without axes of one element, but of rows and columns if ``is_split``.
    rows: the accesses of each operation, in the order of its inputs; that of its result last.
    """

    def __init__(self, operation, accesses):
        self.operations = [operation]
        self.rows = [accesses]
        self.is_split = operation.kind in ("rows", "columns")
        self.is_alone = operation.kind in ("product", "library")
        self.shape = operation.shape if self.is_split else accesses[-1].shape
        self.size = math.prod(self.shape)
        if self.is_split:
            _express(accesses, self.shape)

    def meets(self, accesses):
        """The pairs of accesses to memory that one of both writes."""
        return [(x, y) for row in self.rows for x in row for y in accesses if x.meets(y)]

    def join(self, operation, accesses, meetings):
        """Whether an operation can be part of the loop; if so, it is then."""
        if self.is_alone or operation.kind in ("product", "library") or len(self.operations) >= MOST:
            return False
        shape, size = self.shape, math.prod(operation.shape)
        will_split = operation.kind in ("rows", "columns")
        is_scalar = False
        if will_split and not self.is_split:
            shape = operation.shape
        elif will_split and shape != operation.shape:
            return False
        if size != self.size:
            # One value for each row.
            is_scalar = self.is_split and size == shape[0]
            if not is_scalar:
                return False
        if (self.is_split or will_split) and shape[1] > LONGEST:
            return False
        if shape != self.shape and not all(_can_express(row, shape) for row in self.rows):
            return False
        if not _can_express(accesses, shape):
            return False
        everything = [x for row in (*self.rows, accesses) for x in row]
        before = [(x.shape, x.strides) for x in everything]
        for row in (*self.rows, accesses):
            _express(row, shape)
        if any(not (x.is_pointwise and y.is_pointwise and x.key == y.key) for x, y in meetings):
            for x, old in zip(everything, before, strict=True):
                x.shape, x.strides = old
            return False
        self.shape = shape
        self.is_split |= will_split
        self.operations.append(operation)
        self.rows.append(accesses)
        return True


def _expressed(x, shape):
    if x.shape == shape:
        return x.strides
    if math.prod(x.shape) == math.prod(shape):
        return strides_in(x.shape, x.strides, shape)
    # One value for each row, which has the same place in all columns.
    strides = strides_in(x.shape, x.strides, shape[:1])
    return None if strides is None else (*strides, 0)


def _can_express(accesses, shape):
    return all(not x.shape or _expressed(x, shape) is not None for x in accesses)


def _express(accesses, shape):
    for x in accesses:
        strides = _expressed(x, shape) if math.prod(x.shape) > 1 or x.shape else (0,) * len(shape)
        x.shape, x.strides = shape, strides


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
        self.loops: list[Loop] = []
        written = {id(owner_of(x)) for operation in operations for x in operation.written}
        self._written = written
        for operation in operations:
            self._place(operation)
        for number, loop in enumerate(self.loops):
            for row in loop.rows:
                for x in row:
                    x.root.loops.add(number)

    def root_of(self, array):
        address = address_of(array)
        i = bisect_right(self._starts, address) - 1
        if i >= 0 and address < self.roots[i].stop:
            return self.roots[i]
        whole = owner_of(array)
        if id(whole) not in self.own:
            kind = "private" if id(whole) in self._written else "constant"
            self.own[id(whole)] = Root.of(whole, kind)
        return self.own[id(whole)]

    def _access(self, array, shape, **how):
        squeezed = tuple([n for n in shape if n > 1])
        strides = broadcast_strides(array, shape)
        return Access(array, self.root_of(array), squeezed, strides, **how)

    def _accesses(self, operation):
        kind, out = operation.kind, operation.out
        if kind in ("rows", "columns"):
            (x,) = operation.inputs
            column = out[:, None] if kind == "rows" else out
            return [
                self._access(x, x.shape, is_write=False),
                self._access(column, x.shape, is_write=True, is_pointwise=kind == "rows"),
            ]
        if kind == "library":
            written = {id(x) for x in operation.written}
            return [
                Access(x, self.root_of(x), (), (), is_write=id(x) in written, is_pointwise=False)
                for x in operation.inputs
            ]
        found = [self._access(x, out.shape, is_write=False) for x in operation.inputs[:1]]
        if kind == "product":
            found = [
                Access(x, self.root_of(x), (), (), is_write=False, is_pointwise=False)
                for x in operation.inputs
            ]
            return [
                *found,
                Access(out, self.root_of(out), (), (), is_write=True, is_pointwise=False),
            ]
        for x in operation.inputs[1:]:
            if kind == "gather":
                shape = found[0].shape  # each pass may use any element
                found.append(
                    Access(
                        x,
                        self.root_of(x),
                        shape,
                        (0,) * len(shape),
                        is_write=False,
                        is_pointwise=False,
                    )
                )
            else:
                found.append(self._access(x, out.shape, is_write=False))
        return [*found, self._access(out, out.shape, is_write=True)]

    def _place(self, operation):
        accesses = self._accesses(operation)
        loops, first = self.loops, 0
        for k in reversed(range(len(loops))):
            meetings = loops[k].meets(accesses)
            if meetings:
                if loops[k].join(operation, accesses, meetings):
                    return
                first = k + 1
                break
        for loop in loops[first:]:
            if loop.join(operation, accesses, ()):
                return
        loops.append(Loop(operation, accesses))


def address_of(array):
    return array.__array_interface__["data"][0]


def owner_of(array):
    while hasattr(array.base, "__array_interface__"):
        array = array.base
    return array
