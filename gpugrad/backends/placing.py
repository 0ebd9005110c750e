"""Places values in memory, so that those that are used at different times can share it."""

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
