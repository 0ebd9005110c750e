"""Windows that slide over the last axes of an array, and convolution, for every array library.

All functions go through the *taps* of a window, the places in it, since the elements at one tap of
all windows are a slice of the array. Windows may reach beyond the array, where elements count as 0,
or as minus infinity for a maximum.

The functions take a `Backend` and raw arrays, and the same parameters as the ops of the same names
in ``gpugrad.ops.windows`` and ``gpugrad.ops.convolution``.
"""

from functools import lru_cache, partial, reduce
from itertools import groupby, product
from math import ceil, prod
from operator import add, index
from typing import NamedTuple

_SUMS = 8  # partial sums of the gradient of a convolution by its weight


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


def counts_of_windows(lengths, size, stride, padding, dilation):
    """How many windows there are along each axis. Raises ValueError if there are none."""
    return geometry_of(lengths, size, stride, padding, dilation).counts


class Geometry(NamedTuple):
    """Where windows lie, by axis.

    lengths: of the array. size: of a window, in taps. counts: of windows.
    stride, dilation: the distance between windows, and between the taps of a window.
    before: how far the first window reaches beyond the start.
    """

    lengths: tuple
    size: tuple
    counts: tuple
    stride: tuple
    before: tuple
    dilation: tuple

    @property
    def are_disjoint(self):
        """Whether no element lies in two windows."""
        spans = zip(self.size, self.stride, self.dilation, strict=True)
        return all((k - 1) * d < step for k, step, d in spans)

    @property
    def are_elements(self):
        """Whether each window is one element, and each element a window."""
        is_one = prod(self.size) == prod(self.stride) == 1
        return is_one and not any(self.before) and self.counts == self.lengths

    def of_rows(self, first, stop):
        """The geometry of some windows: those from ``first`` to ``stop`` along the first axis."""
        return self._replace(
            counts=(stop - first, *self.counts[1:]),
            before=(self.before[0] - first * self.stride[0], *self.before[1:]),
        )


@lru_cache(1024)
def _taps(geometry):
    """The taps of a window that lie inside the array somewhere.

    Of each tap these are its number and three keys: its place in the window, the windows in which
    it lies inside the array, and the elements of the array there.
    """
    taps = []
    for number, tap in enumerate(product(*map(range, geometry.size))):
        windows, elements = [], []
        _, _, *by_axis = geometry
        for t, length, count, step, b, d in zip(tap, geometry.lengths, *by_axis, strict=True):
            offset = t * d - b
            first = max(0, -(offset // step))
            stop = min(count, (length - 1 - offset) // step + 1)
            if first >= stop:
                break
            start = offset + first * step
            windows.append(slice(first, stop))
            elements.append(slice(start, start + (stop - first - 1) * step + 1, step))
        else:
            taps.append((number, tap, (..., *windows), (..., *elements)))
    return taps


def geometry_of(lengths, size, stride, padding, dilation):
    """The `Geometry`, of parameters that may be ints. Raises ValueError if there is no window."""
    return _geometry(tuple(lengths), tuple(size), stride, padding, dilation)


@lru_cache(1024)
def _geometry(lengths, size, stride, padding, dilation):
    n = len(size)
    if 0 in size:
        raise ValueError(f"windows of size {size} have no elements")
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
    counts = [(m - span) // s + 1 for m, span, s in zip(padded, spans, stride, strict=True)]
    before = tuple([before for before, _ in padding])
    return Geometry(lengths, size, tuple(counts), stride, before, dilation)


@lru_cache(1024)
def stages(lengths, size, stride, padding, dilation):
    """The parameters of windows whose sums are those of sums: along one axis after the other.

    Each stage is the lengths before it, the size of its windows, and a dict of the others. There is
    only one stage if that takes no more additions.
    """
    n = len(size)
    if prod(size) <= sum(size):
        return [(lengths, size, {"stride": stride, "padding": padding, "dilation": dilation})]
    windows = _geometry(lengths, size, stride, padding, dilation)
    by_axis = size, windows.stride, padding_per_axis(padding, n), windows.dilation
    found, names = [], ("stride", "padding", "dilation")
    for i, values in enumerate(zip(*by_axis, strict=True)):
        before, after = windows.counts[:i] + lengths[i:], n - i - 1
        own = [
            (none,) * i + (x,) + (none,) * after
            for x, none in zip(values, (1, 1, (0, 0), 1), strict=True)
        ]
        found.append((before, own[0], dict(zip(names, own[1:], strict=True))))
    return found


def _tuple(name, value):
    """``value`` as a tuple of ints of at least 1, one for each axis that windows slide over."""
    if not isinstance(value, tuple) or not value:
        raise ValueError(f"{name} must be a tuple with a length for each axis, not {value!r}")
    return numbers_per_axis(name, value, len(value))


def _slide(x_shape, size, stride, padding, dilation):
    """The leading axes of an array, and the `Geometry` of windows over its others."""
    size = _tuple("size", size)
    n, shape = len(size), tuple(x_shape)
    if len(shape) < n:
        raise ValueError(f"windows of size {size} need at least {n} axes, not shape {shape}")
    lead, lengths = shape[: len(shape) - n], shape[len(shape) - n :]
    return lead, geometry_of(lengths, size, stride, padding, dilation)


def _wide(backend, dtype):
    """The dtype to add in: float32 for 16-bit floats."""
    xp = backend.xp
    is_half = xp.isdtype(dtype, "real floating") and xp.finfo(dtype).bits < 32
    return xp.float32 if is_half else dtype


def _cast(backend, x, dtype):
    return x if x.dtype == dtype else backend.xp.astype(x, dtype)


def _kernel(backend, name, x, geometry):
    """The library's own function of this name for such windows; None if it has none.

    It takes the arrays, the array to write, the geometry and options. It returns whether it wrote.
    """
    found = getattr(backend.windows, name, None)
    return found if found is not None and backend.windows.supports(x, geometry) else None


def _result(backend, name, function, arrays, shape, dtype, geometry, *options):
    """Return ``function(*arrays)``, which is of ``shape``, or what the library's own function of
    this name writes in its place.

    Without such a function, it is computed for some images at a time, which the first axes of the
    arrays and of the result count, unless windows slide over all axes. A few images at a time stay
    in the cache, and threads can share the work.
    """
    if (kernel := _kernel(backend, name, arrays[0], geometry)) is not None:
        out = backend.create("empty", shape, dtype=dtype, like=arrays[0])
        if kernel(*arrays, out, geometry, *options):
            return out
    most, size = backend.column_block, prod(arrays[0].shape)
    if most is None or size <= most or len(shape) == len(geometry.lengths):
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
    return _elements(backend, x, lead, geometry)


def _elements(backend, x, lead, geometry):
    """The elements of all windows, ``(*lead, *size, *counts)``."""
    shape = *lead, *geometry.size, *geometry.counts
    out = backend.create("empty", shape, dtype=x.dtype, like=x)
    if (fill := _kernel(backend, "fill", x, geometry)) is not None:
        fill(out, x, geometry)
        return out
    if hasattr(backend.windows, "copy") and backend.windows.copy(x, out, geometry):
        return out
    out = backend.zeros(shape, x.dtype, x)
    for _, tap, (_, *windows), elements in _taps(geometry):
        out[(..., *tap, *windows)] = x[elements]
    return out


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
    geometry = geometry_of(shape, size, stride, padding, dilation)
    _check_counts(geometry, counts)
    dtype = values.dtype

    def added(values):
        lead = values.shape[: ndim - 2 * n]
        out = backend.zeros((*lead, *shape), _wide(backend, dtype), values)
        _add(backend, out, values, geometry)
        return _cast(backend, out, dtype)

    return _result(backend, "add", added, (values,), (*lead, *shape), dtype, geometry)


def _check_counts(geometry, counts):
    if tuple(counts) != geometry.counts:
        raise ValueError(
            f"over {geometry.lengths} elements slide {geometry.counts} windows of size "
            f"{geometry.size}, but the values are of {tuple(counts)} windows"
        )


def _add(backend, out, values, geometry, images=...):
    """Add each value to the element of ``out`` at its tap, in all images or only in ``images``."""
    disjoint = geometry.are_disjoint
    for _, tap, (_, *windows), elements in _taps(geometry):
        part = _cast(backend, values[(..., *tap, *windows)], out.dtype)
        key = elements if images is ... else (images, *elements)
        if disjoint:
            out[key] = part
        else:
            out[key] += part


def sum_windows(backend, x, /, *, size, stride=1, padding=0, dilation=1, scale=1.0):
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    dtype, counts = x.dtype, geometry.counts
    wide = _wide(backend, dtype)

    def summed(x):
        out, first = x, x.shape[: len(lead)]
        for lengths, size_, options in stages(geometry.lengths, size, stride, padding, dilation):
            own = geometry_of(lengths, size_, **options)
            x, out = out, backend.zeros((*first, *own.counts), wide, x)
            for _, _, windows, elements in _taps(own):
                out[windows] += _cast(backend, x[elements], wide)
        if scale != 1:
            out *= scale
        return _cast(backend, out, dtype)

    return _result(backend, "total", summed, (x,), (*lead, *counts), dtype, geometry, scale)


def max_pool(backend, x, /, *, size, stride=1, padding=0, dilation=1):
    xp = backend.xp
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    counts = geometry.counts
    taps = _taps(geometry)
    all_windows = (..., *[slice(0, m) for m in counts])
    are_inside = [windows for _, _, windows, _ in taps] == [all_windows] * prod(geometry.size)
    lowest = -float("inf") if backend.is_floating(x.dtype) else xp.iinfo(x.dtype).min

    def largest(x):
        if are_inside:
            out = x[taps[0][-1]]
            for *_, elements in taps[1:]:
                out = xp.maximum(out, x[elements])
            return out
        shape = *x.shape[: len(lead)], *counts
        out = backend.create("full", shape, lowest, dtype=x.dtype, like=x)
        for *_, windows, elements in taps:
            out[windows] = xp.maximum(out[windows], x[elements])
        return out

    return _result(backend, "largest", largest, (x,), (*lead, *counts), x.dtype, geometry)


def find_in_windows(backend, x, values, /, *, size, stride=1, padding=0, dilation=1):
    xp = backend.xp
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    _check_shape("values", values, (*lead, *geometry.counts))
    dtype = xp.int8 if prod(geometry.size) < 128 else xp.int32

    def find(x, values):
        out = backend.zeros(values.shape, dtype, x)
        is_nan, x_is_nan = values != values, x != x
        for number, _, windows, elements in reversed(_taps(geometry)):
            found = (x[elements] == values[windows]) | (x_is_nan[elements] & is_nan[windows])
            # Arithmetic on 8 bits takes a tenth of the time of `where` in NumPy.
            found = xp.astype(found, dtype)
            out[windows] *= 1 - found
            out[windows] += found * number
        return out

    return _result(backend, "find", find, (x, values), tuple(values.shape), dtype, geometry)


def take_from_windows(backend, x, taps, /, *, size, stride=1, padding=0, dilation=1):
    lead, geometry = _slide(x.shape, size, stride, padding, dilation)
    shape = (*lead, *geometry.counts)
    _check_shape("taps", taps, shape)

    def take(x, taps):
        out = backend.zeros(taps.shape, x.dtype, x)
        for number, _, windows, elements in _taps(geometry):
            here = taps[windows] == number
            out[windows] = backend.xp.where(here, x[elements], out[windows])
        return out

    return _result(backend, "take", take, (x, taps), shape, x.dtype, geometry)


def _check_shape(name, array, shape):
    if tuple(array.shape) != tuple(shape):
        raise ValueError(
            f"{name} must have shape {tuple(shape)}, one for each window, not {tuple(array.shape)}"
        )


def put_in_windows(backend, values, taps, /, *, shape, size, stride=1, padding=0, dilation=1):
    n = len(_tuple("shape", shape))
    ndim = len(values.shape)
    if ndim < n:
        raise ValueError(f"values must have at least {n} axes, not shape {tuple(values.shape)}")
    size = _tuple("size", size)
    lead, counts = values.shape[: ndim - n], values.shape[ndim - n :]
    geometry = geometry_of(shape, size, stride, padding, dilation)
    _check_counts(geometry, counts)
    _check_shape("taps", taps, values.shape)
    dtype, disjoint = values.dtype, geometry.are_disjoint
    wide = dtype if disjoint else _wide(backend, dtype)

    def put(values, taps):
        out = backend.zeros((*values.shape[: len(lead)], *shape), wide, values)
        for number, _, windows, elements in _taps(geometry):
            part = backend.xp.where(taps[windows] == number, values[windows], 0.0)
            if disjoint:
                out[elements] = part
            else:
                out[elements] += _cast(backend, part, wide)
        return _cast(backend, out, dtype)

    return _result(backend, "put", put, (values, taps), (*lead, *shape), dtype, geometry)


# Convolution is a product of the filters and a matrix whose columns are the windows. The matrix is
# up to ``prod(size)`` times as large as the input, so it is made and used in blocks of
# ``backend.column_block`` elements, which fit into the cache, and made again for backward. For 64
# images of 32 channels and 14 x 14 pixels, and 64 filters of 3 x 3, NumPy takes 6.6 ms in this way,
# 8.3 with all columns at once, 7.0 by nine products with shifted images (but for one channel 21 in
# place of 0.7), 6.9 with the channels last, and 4.9 for the product alone, all on one thread.
# Several threads may each compute a block. The C library for NumPy makes the columns of an image;
# where each channel has a filter of its own, it makes none.


def convolution(backend, x, weight, bias=None, /, *, stride=1, padding=0, dilation=1, groups=1):
    xp = backend.xp
    check_convolution(x.shape, weight.shape, None if bias is None else bias.shape, groups)
    dtype = xp.result_type(x, weight, *([] if bias is None else [bias]))
    x, weight = [backend.in_order(_cast(backend, array, dtype)) for array in (x, weight)]
    bias = None if bias is None else backend.in_order(_cast(backend, bias, dtype))
    geometry = geometry_of(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    if _kernel(backend, "fill", x, geometry) is not None:
        return backend.convolutions.convolve(x, weight, bias, geometry, groups)
    n, channels = x.shape[0], weight.shape[0]
    blocks = _blocks(backend, n, x.shape[1], geometry)
    out = _by_library(backend, "convolve_blocks", x, weight, bias, geometry, groups, blocks)
    if out is not None:
        return out
    filters = xp.reshape(weight, (groups, channels // groups, prod(weight.shape[1:])))
    if bias is not None:
        bias = xp.reshape(bias, (channels,) + (1,) * len(geometry.size))
    if len(blocks) != 1:
        out = backend.create("empty", (n, channels, *geometry.counts), dtype=dtype, like=x)

    def compute(block):
        images, rows, place = block
        part = _columns(backend, x, place, images, groups)
        if _is_by_channel(dtype, x, channels, groups):
            part = xp.sum(part * xp.matrix_transpose(filters), axis=2)
        else:
            part = backend.undivided(filters, part)
        part = xp.reshape(part, (part.shape[0], channels, *place.counts))
        if bias is not None:
            part += bias
        if out is None:
            return part
        out[images, :, rows, ...] = part
        return None

    parts = backend.run(compute, blocks)
    return parts[0] if out is None else out


def _is_by_channel(dtype, x, channels, groups):
    """Whether each channel has a filter of its own. A sum over the taps then takes less time than
    a product of matrices."""
    return x.shape[1] == channels == groups and getattr(dtype, "char", None) in ("f", "d")


def _by_library(backend, name, *args):
    """What a function of `native.windows` returns; None for libraries without it."""
    function = getattr(backend.convolutions, name, None)
    return None if function is None else function(*args)


def check_convolution(x_shape, weight_shape, bias_shape, groups):
    """Raise ValueError unless the shapes of a convolution fit together."""
    x_shape, weight_shape = tuple(x_shape), tuple(weight_shape)
    _check_weight("x must have shape (n, channels, ...)", x_shape, weight_shape, groups)
    if x_shape[1] != weight_shape[1] * groups:
        raise ValueError(
            f"x {x_shape} has {x_shape[1]} channels, but weight {weight_shape} with groups="
            f"{groups} is for {weight_shape[1] * groups}"
        )
    if bias_shape is not None and tuple(bias_shape) != weight_shape[:1]:
        raise ValueError(f"bias must have shape {weight_shape[:1]}, not {tuple(bias_shape)}")


def _check_weight(rule, shape, weight_shape, groups):
    if len(weight_shape) < 3 or len(shape) != len(weight_shape):
        raise ValueError(
            f"{rule} and weight (out, channels / groups, ...), with equally many axes, at least 3, "
            f"but they have {shape} and {weight_shape}"
        )
    _check_groups(f"weight {weight_shape}", weight_shape[0], groups)


def _check_groups(name, channels, groups):
    if not isinstance(groups, int) or groups < 1 or channels % groups:
        raise ValueError(
            f"groups must be an int that divides the {channels} channels of {name}, not {groups!r}"
        )


def _columns(backend, x, place, images, groups):
    """The elements of the windows of a block, ``(images, groups, channels * taps, windows)``.

    place, images: of the block, from `_blocks`.
    """
    columns, channels = x[images, ...], x.shape[1]
    count = columns.shape[0]
    if not place.are_elements:
        columns = _elements(backend, columns, (count, channels), place)
    depth = channels // groups * prod(place.size)
    return backend.xp.reshape(columns, (count, groups, depth, prod(place.counts)))


def _blocks(backend, n, channels, geometry):
    """Blocks: slices of the images and of the windows' first axis, and the geometry in a block.

    Blocks of several images are of equal size, so that they take equal times.
    """
    counts = geometry.counts
    one = channels * prod(geometry.size) * prod(counts)
    images, rows = max(n, 1), counts[0]
    most = None if geometry.are_elements else backend.column_block
    if most is not None and one * n > most:
        images = ceil(n / ceil(one * n / most))
        if one > most:
            rows = max(1, counts[0] * most // one)
    blocks = []
    for start in range(0, n, images):
        for row in range(0, counts[0], rows):
            stop = min(row + rows, counts[0])
            some = slice(start, min(start + images, n))
            blocks.append((some, slice(row, stop), geometry.of_rows(row, stop)))
    return blocks


def convolution_input(backend, g, weight, /, *, shape, stride=1, padding=0, dilation=1, groups=1):
    xp = backend.xp
    check_convolution_input(g.shape, weight.shape, groups)
    geometry = geometry_of(shape, weight.shape[2:], stride, padding, dilation)
    _check_counts(geometry, g.shape[2:])
    dtype = xp.result_type(g, weight)
    g, weight = _cast(backend, g, dtype), _cast(backend, weight, dtype)
    n, out_channels = g.shape[:2]
    channels = weight.shape[1] * groups
    if _kernel(backend, "fill", g, geometry) is not None and weight.size:
        shapes, wanted = ((n, channels, *shape), None), (True, False, False)
        return backend.convolutions.cotangents(g, None, weight, shapes, wanted, geometry, groups)[0]
    if prod(geometry.stride) == 1 and out_channels <= 4 * channels:
        return _by_convolution(backend, g, weight, padding, geometry, groups)
    filters = xp.reshape(weight, (groups, out_channels // groups, prod(weight.shape[1:])))
    filters = xp.matrix_transpose(filters)
    out = backend.zeros((n, channels, *shape), _wide(backend, dtype), g)
    blocks = _blocks(backend, n, channels, geometry)

    def add_blocks(blocks_of_images):
        for images, rows, place in blocks_of_images:
            part = xp.matmul(filters, _in_groups(xp, g, images, rows, groups))
            part = xp.reshape(part, (part.shape[0], channels, *place.size, *place.counts))
            _add(backend, out, part, place, images)

    # Blocks of the same images overlap.
    by_images = groupby(blocks, lambda block: block[0].start)
    backend.run(add_blocks, [list(group) for _, group in by_images])
    return _cast(backend, out, dtype)


def _by_convolution(backend, g, weight, padding, geometry, groups):
    """The gradient by the input for a stride of 1, as a convolution with the reversed filters.

    It makes columns of ``g``. To add up columns of the result would take three times as long for
    each element.
    """
    xp = backend.xp
    size, dilation = geometry.size, geometry.dilation
    n = len(size)
    weight = xp.flip(weight, axis=tuple(range(2, n + 2)))
    weight = xp.reshape(weight, (groups, weight.shape[0] // groups, *weight.shape[1:]))
    weight = xp.permute_dims(weight, (0, 2, 1, *range(3, n + 3)))
    weight = xp.reshape(weight, (groups * weight.shape[1], *weight.shape[2:]))
    spans = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
    padding = padding_per_axis(padding, n)
    padding = tuple([(span - p, span - q) for span, (p, q) in zip(spans, padding, strict=True)])
    return convolution(backend, g, weight, padding=padding, dilation=dilation, groups=groups)


def check_convolution_input(cotangent_shape, weight_shape, groups):
    """Raise ValueError unless the shapes of a transposed convolution fit together."""
    given, weight_shape = tuple(cotangent_shape), tuple(weight_shape)
    _check_weight("cotangent must have shape (n, out, ...)", given, weight_shape, groups)
    if given[1] != weight_shape[0]:
        raise ValueError(
            f"cotangent {given} must have the {weight_shape[0]} channels of weight {weight_shape}"
        )


def _in_groups(xp, g, images, rows, groups):
    g = g[images, :, rows, ...]
    return xp.reshape(g, (g.shape[0], groups, g.shape[1] // groups, prod(g.shape[2:])))


def convolution_weight(backend, g, x, /, *, shape, stride=1, padding=0, dilation=1, groups=1):
    xp, size = backend.xp, tuple(shape)
    if len(g.shape) != len(x.shape) or len(x.shape) != len(size) + 2 or g.shape[0] != x.shape[0]:
        raise ValueError(
            f"cotangent must have shape (n, out, ...) and x (n, channels, ...), each with "
            f"{len(size)} axes more for filters of {size}, but they have {tuple(g.shape)} and "
            f"{tuple(x.shape)}"
        )
    _check_groups("cotangent", g.shape[1], groups)
    _check_groups("x", x.shape[1], groups)
    geometry = geometry_of(x.shape[2:], size, stride, padding, dilation)
    _check_counts(geometry, g.shape[2:])
    dtype = xp.result_type(g, x)
    g, x = [backend.in_order(_cast(backend, array, dtype)) for array in (g, x)]
    wide = _wide(backend, dtype)
    out_channels, channels = g.shape[1], x.shape[1] // groups
    shape = (out_channels, channels, *size)
    if _kernel(backend, "fill", x, geometry) is not None and g.size:
        shapes, wanted = (x.shape, shape), (False, True, False)
        return backend.convolutions.cotangents(g, x, None, shapes, wanted, geometry, groups)[1]
    blocks = _blocks(backend, x.shape[0], x.shape[1], geometry)

    def product_of(block):
        images, rows, place = block
        part = _in_groups(xp, g, images, rows, groups)
        columns = _columns(backend, x, place, images, groups)
        if _is_by_channel(dtype, x, out_channels, groups):
            shape = (*columns.shape[:3], prod(place.counts[:-1]), place.counts[-1])
            part = xp.sum(xp.reshape(columns * part, shape), axis=3)
            part = xp.sum(part, axis=3, keepdims=True)
        else:
            part = backend.undivided(columns, xp.matrix_transpose(part))
        return xp.sum(part, axis=0, dtype=wide)

    def summed(some):
        return reduce(add, map(product_of, some))

    # There are only a few sums, each over many blocks, because every sum takes memory of its own.
    step = ceil(len(blocks) / _SUMS) or 1
    sums = _by_library(backend, "sum_blocks", g, x, geometry, groups, blocks, step)
    if sums is None:
        sums = backend.run(summed, [blocks[i : i + step] for i in range(0, len(blocks), step)])
    if not len(sums):
        return backend.zeros(shape, dtype, x)
    return _cast(backend, xp.reshape(xp.matrix_transpose(reduce(add, sums)), shape), dtype)


_FUNCTIONS = (
    sliding_windows, add_windows, sum_windows, max_pool, find_in_windows, take_from_windows,
    put_in_windows, convolution, convolution_input, convolution_weight,
)  # fmt: skip


def functions(backend):
    """The functions that a namespace gets, by name."""
    return {function.__name__: partial(function, backend) for function in _FUNCTIONS}
