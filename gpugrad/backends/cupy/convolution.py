"""Convolution on CUDA devices: products of the filters and a matrix whose columns are windows.

The matrix is made for one piece of the work after another, in the same memory. A piece has so many
images, or so many rows of windows or channels of one image, that all that it reads and writes fits
into half of the L2 cache. All gradients of a piece are computed while it is there. 16-bit floats
are multiplied as they are, and the products sum the gradient of the weight over the pieces, in
float32.
"""

from functools import cache
from math import ceil, prod

import cupy

from .kernels.loader import accumulator, contiguous
from .kernels.windows import add, fill
from .products import matmul


@cache
def _room(device):
    """How many bytes a piece may have."""
    return cupy.cuda.runtime.getDeviceProperties(device)["l2CacheSize"] // 2


def _slices(n, size):
    """Slices of ``n`` as even as can be, each of as many as fit; one has ``size`` bytes."""
    most = max(_room(cupy.cuda.runtime.getDevice()) // max(size, 1), 1)
    step = ceil(n / ceil(n / most)) if n else 1
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


class _Memory:
    """Memory that the next piece overwrites."""

    def __init__(self, dtype):
        self.dtype, self.array = dtype, None

    def of(self, *shape):
        n = prod(shape)
        if self.array is None or self.array.size < n:
            self.array = cupy.empty(n, self.dtype)
        return self.array[:n].reshape(shape)


class _Columns:
    """The windows over an array ``(n, channels, *lengths)``, as columns in some memory."""

    def __init__(self, channels, geometry, groups, memory):
        self.geometry, self.groups, self.memory = geometry, groups, memory
        lengths, size, counts, stride, before, _ = geometry
        self.size, self.counts = size, counts
        self.channels, self.taps, self.windows = channels, prod(size), prod(counts)
        self.are_elements = self.taps == prod(stride) == 1 and not any(before) and counts == lengths
        self.bytes = channels * self.taps * self.windows * memory.dtype.itemsize  # of an image

    def rows(self, images):
        """Slices of the rows of windows: all of them unless one image is too large."""
        down = self.counts[0]
        if images > 1 or self.bytes <= _room(cupy.cuda.runtime.getDevice()):
            return [slice(0, down)]
        return _slices(down, 2 * self.bytes // down)  # as the image itself has to fit too

    def of(self, x, rows):
        """``(images, groups, channels * taps, windows)``, of these rows of windows."""
        shape = len(x), self.groups, self.channels // self.groups * self.taps
        across = self.windows // self.counts[0]
        if self.are_elements:
            return x.reshape(*shape, -1)[..., rows.start * across : rows.stop * across]
        lengths, size, counts, stride, before, dilation = self.geometry
        counts = rows.stop - rows.start, *counts[1:]
        before = before[0] - rows.start * stride[0], *before[1:]
        out = self.memory.of(*shape, prod(counts))
        fill(out, x, (lengths, size, counts, stride, before, dilation))
        return out


def convolve(x, weight, bias, geometry, groups):
    """The convolution of arrays of the same dtype, over windows that the kernels support."""
    n, channels = x.shape[:2]
    columns = _Columns(channels, geometry, groups, _Memory(x.dtype))
    out = cupy.empty((n, weight.shape[0], *columns.counts), x.dtype)
    filters = weight.reshape(groups, weight.shape[0] // groups, prod(weight.shape[1:]))
    if bias is not None:
        bias = bias.reshape(groups, -1, 1)
    for images in _slices(n, columns.bytes + (x.nbytes + out.nbytes) // n):
        _convolve(columns, x[images], filters, bias, out[images])
    return out


def _convolve(columns, x, filters, bias, out):
    """Write the convolution of some images into ``out``."""
    if not out.size:
        return
    out = out.reshape(len(x), *filters.shape[:2], columns.windows)
    across = columns.windows // columns.counts[0]
    for rows in columns.rows(len(x)):
        part = out[..., rows.start * across : rows.stop * across]
        matmul(filters, columns.of(x, rows), out=part)
        if bias is not None:
            part += bias


def cotangents(g, x, weight, shapes, wanted, geometry, groups):
    """The cotangents of a convolution's input, weight and bias, of those that are wanted.

    shapes: of the input and the weight, of which one may be None if only its own is wanted.
    """
    (n, channels), dtype = shapes[0][:2], g.dtype
    columns = _Columns(channels, geometry, groups, _Memory(dtype))
    results = [cupy.empty(s, dtype) if w else None for s, w in zip(shapes, wanted, strict=False)]
    pieces, size = [], columns.bytes + 2 * g.nbytes // n + 2 * dtype.itemsize * prod(shapes[0][1:])
    if wanted[0]:
        pieces.append(_to_input(g, weight, columns, results[0]))
    if any(wanted[1:]):
        to_weight = _ToWeight(g, x, shapes[1], columns, wanted[1:])
        pieces.append(to_weight)
    for images in _slices(n, size):
        for piece in pieces:
            piece(images)
    if any(wanted[1:]):
        results[1:] = to_weight.results()
    return (*results, None)[:3]


def _to_input(g, weight, columns, out):
    lengths, size, counts, stride, before, dilation = columns.geometry
    out_channels, channels, groups = g.shape[1], columns.channels, columns.groups
    if prod(stride) > 1 or out_channels > 4 * channels:
        return _ToInput(g, weight, columns, out)
    # A convolution with the reversed filters has fewer columns to make, and none to add up.
    each = channels // groups
    back = weight.reshape(groups, out_channels // groups, each, *size)
    back = back[(..., *[slice(None, None, -1)] * len(size))].swapaxes(1, 2)
    back = contiguous(back).reshape(groups, each, out_channels // groups * columns.taps)
    before = [(k - 1) * d - b for k, d, b in zip(size, dilation, before, strict=True)]
    geometry = counts, size, lengths, stride, tuple(before), dilation
    found = _Columns(out_channels, geometry, groups, columns.memory)

    def piece(images):
        of_g, to = g[images], out[images]
        for some in _slices(len(to), found.bytes + (of_g.nbytes + to.nbytes) // len(to)):
            _convolve(found, of_g[some], back, None, to[some])

    return piece


class _ToInput:
    """Adds up the columns of the input's cotangent, of a few channels at a time if need be."""

    def __init__(self, g, weight, columns, out):
        self.g, self.columns, self.out = g, columns, out
        self.filters = weight.reshape(columns.groups, g.shape[1] // columns.groups, -1)
        self.filters = self.filters.swapaxes(1, 2)

    def __call__(self, images):
        columns, taps = self.columns, self.columns.taps
        n, groups, windows = images.stop - images.start, columns.groups, columns.windows
        each = columns.channels // groups
        g = self.g[images].reshape(n, groups, -1, windows)
        for some in _slices(groups, 0 if n > 1 else columns.bytes // groups):
            one = 0 if n > 1 or groups > 1 else columns.bytes // each
            for channels in _slices(each, one):
                filters = self.filters[some, channels.start * taps : channels.stop * taps]
                part = columns.memory.of(n, *filters.shape[:2], windows)
                matmul(filters, g[:, some], out=part)
                first, count = some.start * each + channels.start, part.size // (n * taps * windows)
                out = self.out[images, first : first + count]
                part = part.reshape(n, count, *columns.size, *columns.counts)
                add(out, part, columns.geometry)


class _ToWeight:
    """Sums the cotangents of the weight and of the bias, whichever are wanted."""

    def __init__(self, g, x, shape, columns, wanted):
        self.g, self.x, self.columns = g, x, columns
        wide, groups, out_channels = accumulator(g.dtype), columns.groups, g.shape[1]
        self.total = self.weight = self.bias = None
        if wanted[0]:
            self.total = cupy.empty(shape, wide)
            self.weight = self.total.reshape(groups, out_channels // groups, -1)
        self.has_bias, self.is_first = any(wanted[1:]), True
        # Beside the columns in memory.
        self.turned = _Columns(out_channels, _of_elements(columns.counts), 1, _Memory(g.dtype))

    def __call__(self, images):
        n, columns = images.stop - images.start, self.columns
        out_channels, groups, windows = self.g.shape[1], columns.groups, n * columns.windows
        add, self.is_first = not self.is_first, False
        if n == 1:
            g = self.g[images]
        else:  # with the images side by side
            g = _beside(self.turned, self.g[images])
        if self.has_bias:
            dtype = accumulator(g.dtype)
            sums = cupy.sum(g.reshape(out_channels, windows), axis=1, dtype=dtype)
            self.bias = self.bias + sums if add else sums
        if self.weight is None:
            return
        g = g.reshape(groups, out_channels // groups, windows)
        if n > 1:
            found = _beside(columns, self.x[images]).reshape(groups, -1, windows)
            matmul(g, found.swapaxes(1, 2), out=self.weight, add=add)
            return
        across = windows // columns.counts[0]
        for rows in columns.rows(n):
            found = columns.of(self.x[images], rows)[0]
            part = g[..., rows.start * across : rows.stop * across]
            matmul(part, found.swapaxes(1, 2), out=self.weight, add=add)
            add = True

    def results(self):
        dtype = self.g.dtype
        return [x if x is None else x.astype(dtype, copy=False) for x in (self.total, self.bias)]


def _of_elements(counts):
    ones, zeros = (1,) * len(counts), (0,) * len(counts)
    return counts, ones, counts, ones, zeros, ones


def _beside(columns, x):
    """The columns of images side by side: ``(channels, *size, images, *counts)``."""
    n, channels = x.shape[:2]
    out = columns.memory.of(channels, *columns.size, n, *columns.counts)
    fill(out, x, columns.geometry, images=n)
    return out
