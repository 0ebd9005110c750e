"""Where values lie in memory: their strides, and one memory for values used at different times."""

_ALIGNED = 64  # bytes


def place(values, use_of):
    """Set the ``offset`` of each value, so that no two overlap that are used at one time.

    The largest are placed first, each at the lowest offset that is free from its first to its last
    use. Returns the size of all memory.

    use_of: a function that returns a value's size in bytes, and the positions of its first and its
        last use.
    """
    placed, total = [], 0
    uses = [(value, *use_of(value)) for value in values]
    for value, nbytes, begin, end in sorted(uses, key=lambda use: (-use[1], use[2])):
        size, offset = -(-nbytes // _ALIGNED) * _ALIGNED, 0
        taken = [space for first, last, space in placed if first <= end and begin <= last]
        for start, stop in sorted(taken):
            if start - offset >= size:
                break
            if stop > offset:
                offset = stop
        value.offset = offset
        total = max(total, offset + size)
        placed.append((begin, end, (offset, offset + size)))
    return total


def broadcast_strides(array, shape):
    """An array's strides when it is broadcast to a shape, for the axes with several elements."""
    found = [0] * (len(shape) - array.ndim)
    found += [step if n > 1 else 0 for n, step in zip(array.shape, array.strides, strict=True)]
    return tuple([s for s, n in zip(found, shape, strict=True) if n > 1])


def merged(shape, *rows):
    """The same elements in a shape with as few axes as possible, and rows of strides for it."""
    axes: list = []
    for i, n in enumerate(shape):
        steps = [row[i] for row in rows]
        if axes and all(a == n * b for a, b in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = axes[-1][0] * n, steps
        else:
            axes.append((n, steps))
    shape = tuple([n for n, _ in axes])
    return shape, [tuple([steps[k] for _, steps in axes]) for k in range(len(rows))]
