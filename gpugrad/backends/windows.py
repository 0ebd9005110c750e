"""Windows that slide over the last axes of an array, and convolution, for every array library.

All functions go through the *taps* of a window, the places in it: the elements at one tap of all
windows are a slice of the array. Windows may reach beyond the array, where its elements count as 0,
or as minus infinity for a maximum.

The functions take a `Backend` and raw arrays, and the same parameters as the ops of the same names
in ``gpugrad.ops.windows`` and ``gpugrad.ops.convolution``.
"""

from contextlib import suppress
from functools import lru_cache, partial
from itertools import groupby, product
from math import ceil, prod
from operator import index

_SUMS = 8  # in which the gradient of a convolution by its weight is computed


@lru_cache(1024)
def numbers_per_axis(name, value, n):
    """``value``, an int or a tuple of ``n`` ints, as a tuple; else ValueError."""
    values = value if isinstance(value, tuple) else (value,) * n
    least = 1 if name != "padding" else None
    try:
        values = tuple(map(index, values))
    except TypeError:
        values = ()
    if len(values) != n or (least and min(values, default=1) < least):
        kind = "ints of at least 1" if least else "ints"
        raise ValueError(f"{name} must be an int, or a tuple of {n} {kind}, not {value!r}")
    return values


@lru_cache(1024)
def padding_per_axis(padding, n):
    """``padding`` as ``n`` pairs: how far windows reach beyond the start and the end of an axis."""
    if isinstance(padding, tuple) and any(isinstance(p, tuple) for p in padding):
        if len(padding) == n and all(isinstance(p, tuple) and len(p) == 2 for p in padding):
            return padding
        raise ValueError(f"padding must be an int or {n} ints or pairs of ints, not {padding!r}")
    return tuple([(p, p) for p in numbers_per_axis("padding", padding, n)])


@lru_cache(1024)
def counts_of_windows(lengths, size, stride, padding, dilation):
    """How many windows there are along each axis. Raises ValueError if there are none."""
    n = len(size)
    stride = numbers_per_axis("stride", stride, n)
    dilation = numbers_per_axis("dilation", dilation, n)
    padding = padding_per_axis(padding, n)
    spans = tuple([(k - 1) * d + 1 for k, d in zip(size, dilation, strict=True)])
    padded = tuple([m + sum(p) for m, p in zip(lengths, padding, strict=True)])
    if any(span > m for span, m in zip(spans, padded, strict=True)):
        raise ValueError(
            f"windows of size {size} with dilation {dilation} span {spans}, which is more than "
            f"the padded input of {padded}"
        )
    return tuple([(m - span) // s + 1 for m, span, s in zip(padded, spans, stride, strict=True)])


@lru_cache(1024)
def _taps(lengths, size, counts, stride, before, dilation):
    """For each tap of a window three keys: of the tap, of the windows in which it lies inside the
    array, and of the elements there; and whether these are all windows."""
    taps = []
    for tap in product(*map(range, size)):
        windows, elements = [], []
        for t, length, count, step, b, d in zip(
            tap, lengths, counts, stride, before, dilation, strict=True
        ):
            offset = t * d - b
            first = max(0, -(offset // step))
            stop = min(count, (length - 1 - offset) // step + 1)
            if first >= stop:
                break
            start = offset + first * step
            windows.append(slice(first, stop))
            elements.append(slice(start, start + (stop - first - 1) * step + 1, step))
        else:
            is_whole = all(w == slice(0, m) for w, m in zip(windows, counts, strict=True))
            taps.append((tap, (..., *windows), (..., *elements), is_whole))
    return taps


def geometry_of(lengths, size, counts, stride, padding, dilation):
    """The arguments of `_taps`, from parameters that may be ints."""
    n = len(size)
    return (
        tuple(lengths),
        tuple(size),
        tuple(counts),
        numbers_per_axis("stride", stride, n),
        tuple([before for before, _ in padding_per_axis(padding, n)]),
        numbers_per_axis("dilation", dilation, n),
    )


def _tuple(name, value):
    """``value``, a tuple of ints of at least 1, which counts the axes that windows slide over."""
    if not isinstance(value, tuple) or not value:
        raise ValueError(f"{name} must be a tuple with a length for each axis, not {value!r}")
    return numbers_per_axis(name, value, len(value))


def _slide(x_shape, size, stride, padding, dilation):
    """The leading axes of an array, and the arguments of `_taps` for windows over its others."""
    size = _tuple("size", size)
    n = len(size)
    shape = tuple(x_shape)
    if len(shape) < n:
        raise ValueError(f"windows of size {size} need at least {n} axes, not shape {shape}")
    lead, lengths = shape[: len(shape) - n], shape[len(shape) - n :]
    counts = counts_of_windows(lengths, size, stride, padding, dilation)
    return lead, geometry_of(lengths, size, counts, stride, padding, dilation)


def _wide(backend, dtype):
    """The dtype to add in: float32 for 16-bit floats."""
    xp = backend.xp
    if xp.isdtype(dtype, "real floating") and xp.finfo(dtype).bits < 32:
        return xp.float32
    return dtype


def _cast(backend, x, dtype):
    return x if x.dtype == dtype else backend.xp.astype(x, dtype)


def _kernels(backend, x, geometry):
    """The library's module of functions that go over windows at once, if it supports these."""
    windows = backend.windows
    return windows if windows is not None and windows.supports(x, geometry) else None


def _are_disjoint(size, stride, dilation):
    return all((k - 1) * d < s for k, s, d in zip(size, stride, dilation, strict=True))


def _by_parts(backend, function, shape, dtype, geometry, *arrays):
    """Return ``function(*arrays)``, which is of ``shape``, computed for some images at a time.

    The first axes of the arrays and of the result count the same images, unless windows slide over
    all axes. A few images stay in the cache, and several threads may share the work.
    """
    most, size = backend.column_block, prod(arrays[0].shape)
    if (
        most is None
        or backend.windows is not None
        or size <= most
        or len(shape) == len(geometry[0])
    ):
        return function(*arrays)
    step = ceil(shape[0] / ceil(2 * size / most))
    out = backend.create("empty", shape, dtype=dtype, like=arrays[0])

    def compute(start):
        part = slice(start, start + step), ...
        out[part] = function(*[x[part] for x in arrays])

    backend.run(compute, range(0, shape[0], step))
    return out


def sliding_windows(backend, x, /, *, size, stride=1, padding=0, dilation=1):
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    _, size, counts, *_ = geometry
    out = _room(backend, (*lead, *size, *counts), x, geometry)
    _fill(backend, out, x, geometry)
    return out


def _room(backend, shape, x, geometry):
    """An array for the elements of windows, with zeros for those that `_fill` leaves out."""
    name = "zeros" if _kernels(backend, x, geometry) is None else "empty"
    return backend.create(name, shape, dtype=x.dtype, like=x)


def _fill(backend, out, x, geometry):
    if (kernels := _kernels(backend, x, geometry)) is not None:
        kernels.fill(out, x, geometry)
        return
    for tap, (_, *windows), elements, _ in _taps(*geometry):
        out[(..., *tap, *windows)] = x[elements]


def add_windows(backend, values, /, *, shape, stride=1, padding=0, dilation=1):
    n = len(_tuple("shape", shape))
    ndim = len(values.shape)
    if ndim < 2 * n:
        raise ValueError(
            f"for results of shape {tuple(shape)}, values must have at least {2 * n} axes, which "
            f"count the taps of a window and then the windows, not shape {tuple(values.shape)}"
        )
    lead = values.shape[: ndim - 2 * n]
    size, counts = values.shape[ndim - 2 * n : ndim - n], values.shape[ndim - n :]
    _check_counts(shape, size, counts, stride, padding, dilation)
    dtype = values.dtype
    geometry = geometry_of(shape, size, counts, stride, padding, dilation)
    if (kernels := _kernels(backend, values, geometry)) is not None:
        out = backend.create("empty", (*lead, *shape), dtype=dtype, like=values)
        kernels.add(out, values, geometry)
        return out
    out = backend.zeros((*lead, *shape), _wide(backend, dtype), values)
    _add(backend, out, values, geometry)
    return _cast(backend, out, dtype)


def _check_counts(shape, size, counts, stride, padding, dilation):
    expected = counts_of_windows(tuple(shape), tuple(size), stride, padding, dilation)
    if tuple(counts) != expected:
        raise ValueError(
            f"over {tuple(shape)} elements slide {expected} windows of size {tuple(size)}, but the "
            f"values are of {tuple(counts)} windows"
        )


def _add(backend, out, values, geometry, images=...):
    """Add each value to the element of ``out`` at its tap, in all images or only in ``images``."""
    _, size, _, stride, _, dilation = geometry
    disjoint = _are_disjoint(size, stride, dilation)
    for tap, (_, *windows), elements, _ in _taps(*geometry):
        part = _cast(backend, values[(..., *tap, *windows)], out.dtype)
        key = elements if images is ... else (images, *elements)
        if disjoint:
            out[key] = part
        else:
            out[key] += part


def sum_windows(backend, x, /, *, size, stride=1, padding=0, dilation=1, scale=1.0):
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    dtype, counts = x.dtype, geometry[2]
    if (kernels := _kernels(backend, x, geometry)) is not None:
        return kernels.total(x, (*lead, *counts), geometry, scale)
    wide = _wide(backend, dtype)

    def summed(x):
        out = backend.zeros((*x.shape[: len(lead)], *counts), wide, x)
        for _, windows, elements, _ in _taps(*geometry):
            out[windows] += _cast(backend, x[elements], wide)
        if scale != 1:
            out *= scale
        return _cast(backend, out, dtype)

    return _by_parts(backend, summed, (*lead, *counts), dtype, geometry, x)


def max_pool(backend, x, /, *, size, stride=1, padding=0, dilation=1):
    xp = backend.xp
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    _, size, counts, *_ = geometry
    if (kernels := _kernels(backend, x, geometry)) is not None:
        return kernels.largest(x, (*lead, *counts), geometry)
    taps = _taps(*geometry)
    are_inside = len(taps) == prod(size) and all(is_whole for *_, is_whole in taps)
    lowest = -float("inf") if backend.is_floating(x.dtype) else xp.iinfo(x.dtype).min

    def largest(x):
        if are_inside:
            out = x[taps[0][2]]
            for _, _, elements, _ in taps[1:]:
                out = xp.maximum(out, x[elements])
            return out
        shape = *x.shape[: len(lead)], *counts
        out = backend.create("full", shape, lowest, dtype=x.dtype, like=x)
        for _, windows, elements, _ in taps:
            out[windows] = xp.maximum(out[windows], x[elements])
        return out

    return _by_parts(backend, largest, (*lead, *counts), x.dtype, geometry, x)


def find_in_windows(backend, x, values, /, *, size, stride=1, padding=0, dilation=1):
    xp = backend.xp
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    _, size, counts, *_ = geometry
    if tuple(values.shape) != (*lead, *counts):
        raise ValueError(
            f"values must have shape {(*lead, *counts)}, one for each window, not "
            f"{tuple(values.shape)}"
        )
    dtype = xp.int8 if prod(size) < 128 else xp.int32
    if (kernels := _kernels(backend, x, geometry)) is not None and values.dtype == x.dtype:
        return kernels.find(x, values, dtype, geometry)

    def find(x, values):
        out = backend.zeros(values.shape, dtype, x)
        for tap, windows, elements, _ in reversed(_taps(*geometry)):
            # Arithmetic on 8 bits takes a tenth of the time of `where` in NumPy.
            found = xp.astype(x[elements] == values[windows], dtype)
            out[windows] *= 1 - found
            out[windows] += found * _number(tap, size)
        return out

    return _by_parts(backend, find, (*lead, *counts), dtype, geometry, x, values)


def _number(tap, size):
    number = 0
    for t, k in zip(tap, size, strict=True):
        number = number * k + t
    return number


def take_from_windows(backend, x, taps, /, *, size, stride=1, padding=0, dilation=1):
    xp = backend.xp
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    _, size, counts, *_ = geometry
    _check_numbers(taps, (*lead, *counts))
    if (kernels := _kernels(backend, x, geometry)) is not None:
        return kernels.take(x, taps, geometry)
    out = backend.zeros((*lead, *counts), x.dtype, x)
    for tap, windows, elements, is_whole in _taps(*geometry):
        here = taps[windows] == _number(tap, size)
        if is_whole:
            out = xp.where(here, x[elements], out)
        else:
            out[windows] = xp.where(here, x[elements], out[windows])
    return out


def _check_numbers(taps, shape):
    if tuple(taps.shape) != tuple(shape):
        raise ValueError(
            f"taps must have shape {tuple(shape)}, a number for each window, not "
            f"{tuple(taps.shape)}"
        )


def put_in_windows(backend, values, taps, /, *, shape, size, stride=1, padding=0, dilation=1):
    n = len(_tuple("shape", shape))
    ndim = len(values.shape)
    if ndim < n:
        raise ValueError(f"values must have at least {n} axes, not shape {tuple(values.shape)}")
    size = _tuple("size", size)
    lead, counts = values.shape[: ndim - n], values.shape[ndim - n :]
    _check_counts(shape, size, counts, stride, padding, dilation)
    _check_numbers(taps, values.shape)
    geometry = geometry_of(shape, size, counts, stride, padding, dilation)
    if (kernels := _kernels(backend, values, geometry)) is not None:
        return kernels.put(values, taps, (*lead, *shape), geometry)
    _, _, _, stride, _, dilation = geometry
    disjoint = _are_disjoint(size, stride, dilation)
    dtype = values.dtype
    wide = dtype if disjoint else _wide(backend, dtype)

    def put(values, taps):
        out = backend.zeros((*values.shape[: len(lead)], *shape), wide, values)
        for tap, windows, elements, _ in _taps(*geometry):
            part = backend.xp.where(taps[windows] == _number(tap, size), values[windows], 0.0)
            if disjoint:
                out[elements] = part
            else:
                out[elements] += _cast(backend, part, wide)
        return _cast(backend, out, dtype)

    return _by_parts(backend, put, (*lead, *shape), dtype, geometry, values, taps)


# Convolution is a product of the filters and a matrix whose columns are the windows. The matrix is
# up to ``prod(size)`` times as large as the input, so it is made and used in blocks of
# ``backend.column_block`` elements, which fit into the cache, and made again for backward. For 64
# images of 32 channels and 14 x 14 pixels, and 64 filters of 3 x 3, NumPy takes 6.6 ms in this way,
# 8.3 with all columns at once, 7.0 by nine products with shifted images (but for one channel 21 in
# place of 0.7), 6.9 with the channels last, and 4.9 for the product alone, all on one thread.
# Several threads may each compute a block.


def convolution(backend, x, weight, bias=None, /, *, stride=1, padding=0, dilation=1, groups=1):
    xp = backend.xp
    check_convolution(x.shape, weight.shape, None if bias is None else bias.shape, groups)
    dtype = _common_dtype(backend, x, weight, bias)
    x, weight = _cast(backend, x, dtype), _cast(backend, weight, dtype)
    size = tuple(weight.shape[2:])
    counts = counts_of_windows(tuple(x.shape[2:]), size, stride, padding, dilation)
    geometry = geometry_of(x.shape[2:], size, counts, stride, padding, dilation)
    if _kernels(backend, x, geometry) is not None:
        bias = None if bias is None else _cast(backend, bias, dtype)
        return backend.convolutions.convolve(x, weight, bias, geometry, groups)
    n, channels = x.shape[0], weight.shape[0]
    filters = xp.reshape(weight, (groups, channels // groups, prod(weight.shape[1:])))
    if bias is not None:
        bias = xp.reshape(_cast(backend, bias, dtype), (channels,) + (1,) * len(size))
    blocks = _blocks(backend, n, x.shape[1], geometry)
    out = None
    if len(blocks) != 1:
        out = backend.create("empty", (n, channels, *counts), dtype=dtype, like=x)
    spare = []

    def compute(block):
        images, rows, place = block
        columns, memory = _columns(backend, x, place, images, groups, spare)
        part = xp.matmul(filters, columns)
        part = xp.reshape(part, (part.shape[0], channels, *place[2]))
        if bias is not None:
            part += bias
        spare.append(memory)
        if out is None:
            return part
        out[images, :, rows, ...] = part
        return None

    parts = backend.run(compute, blocks)
    return parts[0] if out is None else out


def check_convolution(x_shape, weight_shape, bias_shape, groups):
    """Raise ValueError unless the shapes of a convolution fit together."""
    x_shape, weight_shape = tuple(x_shape), tuple(weight_shape)
    if len(weight_shape) < 3 or len(x_shape) != len(weight_shape):
        raise ValueError(
            f"x must have shape (n, channels, ...) and weight (out, channels / groups, ...), with "
            f"equally many axes, at least 3, but they have {x_shape} and {weight_shape}"
        )
    _check_groups(f"weight {weight_shape}", weight_shape[0], groups)
    if x_shape[1] != weight_shape[1] * groups:
        raise ValueError(
            f"x {x_shape} has {x_shape[1]} channels, but weight {weight_shape} with groups="
            f"{groups} is for {weight_shape[1] * groups}"
        )
    if bias_shape is not None and tuple(bias_shape) != weight_shape[:1]:
        raise ValueError(f"bias must have shape {weight_shape[:1]}, not {tuple(bias_shape)}")


def _check_groups(name, channels, groups):
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise ValueError(
            f"groups must be an int that divides the {channels} channels of {name}, not {groups!r}"
        )


def _common_dtype(backend, *arrays):
    given = [x for x in arrays if x is not None]
    if all(x.dtype == given[0].dtype for x in given):
        return given[0].dtype
    return backend.xp.result_type(*given)


def _columns(backend, x, place, images, groups, spare):
    """The elements of the windows of a block, ``(images, groups, channels * taps, windows)``.

    place, images: of the block, from `_blocks`.
    spare: a list of memory that is not in use, which the caller gives back.

    Returns the elements and the memory in which they are.
    """
    xp = backend.xp
    size, counts = place[1:3]
    channels, windows = x.shape[1], prod(counts)
    depth = channels // groups * prod(size)
    count = images.stop - images.start
    if _are_elements(place):
        return xp.reshape(x[images, ...], (count, groups, depth, windows)), None
    shape = (count, channels, *size, *counts)
    memory, key = None, (shape, place[4])
    with suppress(IndexError):  # another thread may have taken the last one
        memory, used_for = spare.pop()
        if used_for != key:  # the padding, which stays 0, would be elsewhere
            memory = None
    if memory is None:
        memory = _room(backend, shape, x, place)
    _fill(backend, memory, x[images, ...], place)
    return xp.reshape(memory, (count, groups, depth, windows)), (memory, key)


def _are_elements(geometry):
    """Whether each window is one element, and each element a window."""
    lengths, size, counts, stride, before, _ = geometry
    return prod(size) == prod(stride) == 1 and not any(before) and counts == lengths


def _blocks(backend, n, channels, geometry):
    """Slices of the images and of the windows' first axis, and the geometry in there.

    Neighbouring blocks of several images are of equal size, so that they take equal times.
    """
    lengths, size, counts, stride, before, dilation = geometry
    one = channels * prod(size) * prod(counts)
    images, rows = max(n, 1), counts[0]
    most = None if _are_elements(geometry) else backend.column_block
    if most is not None and one * n > most:
        images = ceil(n / ceil(one * n / most))
        if one > most:
            rows = max(1, counts[0] * most // one)
    blocks = []
    for start in range(0, n, images):
        for row in range(0, counts[0], rows):
            stop = min(row + rows, counts[0])
            place = (
                lengths,
                size,
                (stop - row, *counts[1:]),
                stride,
                (before[0] - row * stride[0], *before[1:]),
                dilation,
            )
            blocks.append((slice(start, min(start + images, n)), slice(row, stop), place))
    return blocks


def convolution_input(backend, g, weight, /, *, shape, stride=1, padding=0, dilation=1, groups=1):
    xp = backend.xp
    size, shape = tuple(weight.shape[2:]), tuple(shape)
    check_convolution_input(g.shape, weight.shape, groups)
    _check_counts(shape, size, g.shape[2:], stride, padding, dilation)
    dtype = _common_dtype(backend, g, weight)
    g, weight = _cast(backend, g, dtype), _cast(backend, weight, dtype)
    geometry = geometry_of(shape, size, g.shape[2:], stride, padding, dilation)
    n, out_channels = g.shape[:2]
    channels = weight.shape[1] * groups
    if _kernels(backend, g, geometry) is not None and weight.size:
        shapes, wanted = ((n, channels, *shape), None), (True, False, False)
        return backend.convolutions.cotangents(g, None, weight, shapes, wanted, geometry, groups)[0]
    if prod(geometry[3]) == 1 and out_channels <= 4 * channels:
        return _by_convolution(backend, g, weight, padding, geometry, groups)
    filters = xp.reshape(weight, (groups, out_channels // groups, prod(weight.shape[1:])))
    filters = xp.matrix_transpose(filters)
    out = backend.zeros((n, channels, *shape), _wide(backend, dtype), g)
    blocks = _blocks(backend, n, channels, geometry)

    def add(blocks_of_images):
        for images, rows, place in blocks_of_images:
            part = xp.matmul(filters, _in_groups(xp, g, images, rows, groups))
            part = xp.reshape(part, (part.shape[0], channels, *size, *place[2]))
            _add(backend, out, part, place, images)

    # Blocks of the same images overlap.
    by_images = groupby(blocks, lambda block: block[0].start)
    backend.run(add, [list(group) for _, group in by_images])
    return _cast(backend, out, dtype)


def _by_convolution(backend, g, weight, padding, geometry, groups):
    """The gradient by the input for a stride of 1, as a convolution with the reversed filters.

    It makes columns of ``g``, in place of adding up columns of the result, which takes three times
    as long for each element.
    """
    xp = backend.xp
    _, size, _, _, _, dilation = geometry
    n = len(size)
    weight = xp.flip(weight, axis=tuple(range(2, n + 2)))
    weight = xp.reshape(weight, (groups, weight.shape[0] // groups, *weight.shape[1:]))
    weight = xp.permute_dims(weight, (0, 2, 1, *range(3, n + 3)))
    weight = xp.reshape(weight, (groups * weight.shape[1], *weight.shape[2:]))
    spans = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
    padding = tuple(
        [
            (span - before, span - after)
            for span, (before, after) in zip(spans, padding_per_axis(padding, n), strict=True)
        ]
    )
    return convolution(backend, g, weight, padding=padding, dilation=dilation, groups=groups)


def check_convolution_input(cotangent_shape, weight_shape, groups):
    """Raise ValueError unless the shapes of a transposed convolution fit together."""
    given, weight_shape = tuple(cotangent_shape), tuple(weight_shape)
    if len(weight_shape) < 3 or len(given) != len(weight_shape):
        raise ValueError(
            f"cotangent must have shape (n, out, ...) and weight (out, channels / groups, ...), "
            f"with equally many axes, at least 3, but they have {given} and {weight_shape}"
        )
    _check_groups(f"weight {weight_shape}", weight_shape[0], groups)
    if given[1] != weight_shape[0]:
        raise ValueError(
            f"cotangent {given} must have the {weight_shape[0]} channels of weight {weight_shape}"
        )


def _in_groups(xp, g, images, rows, groups):
    g = g[images, :, rows, ...]
    return xp.reshape(g, (g.shape[0], groups, g.shape[1] // groups, prod(g.shape[2:])))


def convolution_weight(backend, g, x, /, *, shape, stride=1, padding=0, dilation=1, groups=1):
    xp = backend.xp
    size = tuple(shape)
    if len(g.shape) != len(x.shape) or len(x.shape) != len(size) + 2 or g.shape[0] != x.shape[0]:
        raise ValueError(
            f"cotangent must have shape (n, out, ...) and x (n, channels, ...), each with "
            f"{len(size)} axes more for filters of {size}, but they have {tuple(g.shape)} and "
            f"{tuple(x.shape)}"
        )
    _check_groups("cotangent", g.shape[1], groups)
    _check_groups("x", x.shape[1], groups)
    _check_counts(x.shape[2:], size, g.shape[2:], stride, padding, dilation)
    dtype = _common_dtype(backend, g, x)
    g, x = _cast(backend, g, dtype), _cast(backend, x, dtype)
    wide = _wide(backend, dtype)
    geometry = geometry_of(x.shape[2:], size, g.shape[2:], stride, padding, dilation)
    out_channels, channels = g.shape[1], x.shape[1] // groups
    shape = (out_channels, channels, *size)
    if _kernels(backend, x, geometry) is not None and g.size:
        shapes, wanted = (x.shape, shape), (False, True, False)
        return backend.convolutions.cotangents(g, x, None, shapes, wanted, geometry, groups)[1]
    blocks = _blocks(backend, x.shape[0], x.shape[1], geometry)
    spare = []

    def summed(some):
        total = None
        for images, rows, place in some:
            columns, memory = _columns(backend, x, place, images, groups, spare)
            part = _in_groups(xp, g, images, rows, groups)
            part = xp.matmul(columns, xp.matrix_transpose(part))
            spare.append(memory)
            part = xp.sum(part, axis=0, dtype=wide)
            total = part if total is None else total + part
        return total

    # There are only a few sums, each over many blocks, because every sum takes memory of its own.
    size_of_sum = ceil(len(blocks) / _SUMS) or 1
    sums = backend.run(
        summed, [blocks[i : i + size_of_sum] for i in range(0, len(blocks), size_of_sum)]
    )
    if not sums:
        return backend.zeros(shape, dtype, x)
    total = sums[0]
    for part in sums[1:]:
        total = total + part
    return _cast(backend, xp.reshape(xp.matrix_transpose(total), shape), dtype)


def functions(backend):
    """The functions that a namespace gets, by name."""
    given = (
        sliding_windows,
        add_windows,
        sum_windows,
        max_pool,
        find_in_windows,
        take_from_windows,
        put_in_windows,
        convolution,
        convolution_input,
        convolution_weight,
    )
    return {function.__name__: partial(function, backend) for function in given}
