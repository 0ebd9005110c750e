"""Which elementwise calls on large arrays run together, block by block.

A chain of such calls goes through memory at each call. Divided into blocks that stay in the
cache, it goes through memory once, and what only the next call needs takes no memory of its own.
"""

import math

BLOCK = 1 << 16  # elements
_LEAST = 1 << 17  # bytes of an array that is divided


class Group:
    """The calls from ``start`` to ``stop``, which run block by block.

    shape: of all their results.
    axis, length: along which axis the arrays are divided, and how many rows are in a block.
    inner: the variables that no other call uses; they exist for one block only.
    irregular: variables of which the group sees more than the rows of a block at a time.
    """

    def __init__(self, start, stop, shape, axis):
        self.start = start
        self.stop = stop
        self.shape = shape
        self.axis = axis
        self.length = max(1, BLOCK * shape[axis] // math.prod(shape))
        self.inner = set()
        self.irregular = set()

    def slices(self):
        """The index of each block in an array of ``shape``, as pairs of its bounds."""
        n = self.shape[self.axis]
        return [(i, min(i + self.length, n)) for i in range(0, n, self.length)]

    def axis_of(self, shape):
        """The axis along which an operand of ``shape``, which broadcasts, is divided, or None."""
        axis = self.axis - (len(self.shape) - len(shape))
        return axis if axis >= 0 and shape[axis] != 1 else None

    def block_shape(self):
        return (*self.shape[: self.axis], self.length, *self.shape[self.axis + 1 :])


def sunk(calls, lowered):
    """The calls, with large results of small operands computed only where they are first used.

    Such as the gradient of a weight by a single example, which can then be computed in blocks
    together with the update of the weight. Returns the calls and their lowered forms.
    """
    first = {}  # for each variable, the number of the first call that uses it or a view of it
    for i, call in enumerate(calls):
        for x in call.operands():
            first.setdefault(x.root(), i)
    waiting = {}  # the numbers of calls that wait for another
    order = []

    def emit(i):
        for k in waiting.pop(i, ()):
            emit(k)
        order.append(i)

    for i, (call, low) in enumerate(zip(calls, lowered, strict=True)):
        if fits(call, low) and first.get(call.outs[0], i) > i + 1:
            size = sum([x.root().nbytes for x in call.operands()])
            if size <= call.outs[0].nbytes / 4:
                waiting.setdefault(first[call.outs[0]], []).append(i)
                continue
        emit(i)
    return [calls[i] for i in order], [lowered[i] for i in order]


def joined(calls, lowered):
    """The calls, with those between two chains of elementwise calls moved behind both.

    A sum at the end of a forward, for example, is not needed for the backward chain, which can
    then be computed in the same blocks. Returns the calls and their lowered forms.
    """
    pairs = list(zip(calls, lowered, strict=True))
    i = 0
    while i < len(pairs):
        if not fits(*pairs[i]):
            i += 1
            continue
        shape = pairs[i][0].outs[0].shape
        i = _end(pairs, i, shape)
        between = i
        while between < len(pairs) and between - i < 16 and _is_small(pairs[between][0], shape):
            between += 1
        stop = _end(pairs, between, shape)
        if between == i or stop == between:
            continue
        waits = {out for call, _ in pairs[i:between] for out in call.outs}
        before, after = [], []
        for pair in pairs[between:stop]:
            needs = {y for x in pair[0].operands() for y in (x, x.root())}
            if waits.isdisjoint(needs):
                before.append(pair)
            else:
                after.append(pair)
                waits.update(pair[0].outs)
        if before:
            pairs[i:stop] = [*before, *pairs[i:between], *after]
    return [call for call, _ in pairs], [low for _, low in pairs]


def _end(pairs, i, shape):
    """The end of the chain of elementwise calls with results of ``shape`` that begins at i."""
    while i < len(pairs) and fits(*pairs[i]) and pairs[i][0].outs[0].shape == shape:
        i += 1
    return i


def _is_small(call, shape):
    # A collective starts as early as it can.
    return all(out.kind != "token" and out.size * 4 <= math.prod(shape) for out in call.outs)


def _is_large(x):
    return x.nbytes >= _LEAST


def groups(calls, lowered, lasting):
    """The `Group`s among the calls.

    lasting: variables that are needed after the last call.
    """
    found = []
    i = 0
    while i < len(calls):
        group = _group_at(i, calls, lowered)
        if group is None:
            i += 1
        else:
            found.append(group)
            i = group.stop
    _find_inner(found, calls, lasting)
    return found


def _group_at(start, calls, lowered):
    if not fits(calls[start], lowered[start]):
        return None
    (first,) = calls[start].outs
    stop, made, members = start, set(), 0
    while stop < len(calls):
        call, low = calls[stop], lowered[stop]
        if all(out.base is not None for out in call.outs):  # a view, which takes no time
            if any(out.root() in made for out in call.outs):
                break
        elif (
            fits(call, low)
            and call.outs[0].shape == first.shape
            and not any(x.base is not None and x.root() in made for x in call.operands())
        ):
            made.add(call.outs[0])
            members += 1
        else:
            break
        stop += 1
    if members < 2:
        return None
    axes = [k for k, n in enumerate(first.shape) if n > 1]
    axes.sort(key=lambda k: -first.strides[k])
    for axis in axes:
        if math.prod(first.shape) // first.shape[axis] <= BLOCK:
            return Group(start, stop, first.shape, axis)
    return None


def fits(call, low):
    """Whether a call is elementwise on large arrays, so that it may run block by block."""
    return low is not None and low.is_elementwise and _is_large(call.outs[0])


def _find_inner(found, calls, lasting):
    for group in found:
        made = set()
        for call in calls[group.start : group.stop]:
            if call.outs[0].base is not None:
                continue
            made.update(call.outs)
            for x in call.operands():
                if x.base is not None or x.shape != group.shape:
                    group.irregular.add(x.root())
        outside = {
            x.root()
            for call in [*calls[: group.start], *calls[group.stop :]]
            for x in call.operands()
        }
        views = {
            out.root()
            for call in calls[group.start : group.stop]
            for out in call.outs
            if out.base is not None
        }
        group.inner = made - outside - views - lasting
