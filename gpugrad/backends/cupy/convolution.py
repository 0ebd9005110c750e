"""Convolution on CUDA devices: products of the filters and a matrix whose columns are windows.

The work is divided into pieces, whose matrices are made in the same memory one after the other. A
piece has as many images, or rows of windows or channels of one image, as fit into half of the L2
cache with all that is read and written for them. All gradients of a piece are computed while it is
there. 16-bit floats are multiplied as they are, and the gradient of the weight is summed over the
pieces in float32.
"""

from functools import cache
from math import ceil, prod

import cupy

from ..windows import Geometry
from .kernels.loader import accumulator, contiguous
from .kernels.windows import add, fill
from .products import matmul


@cache
def _room(device):
    """How many bytes a piece may have."""
    return cupy.cuda.runtime.getDeviceProperties(device)["l2CacheSize"] // 2


def _slices(n, size):
    """Slices of ``n`` items of ``size`` bytes each, as even as possible, which fit into a piece."""
    most = max(_room(cupy.cuda.runtime.getDevice()) // max(size, 1), 1)
    step = ceil(n / ceil(n / most)) if n else 1
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


class _Memory:
    """Memory that each piece overwrites."""

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
        self.size, self.counts = geometry.size, geometry.counts
        self.channels, self.taps, self.windows = channels, prod(self.size), prod(self.counts)
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
        if self.geometry.are_elements:
            return x.reshape(*shape, -1)[..., rows.start * across : rows.stop * across]
        geometry = self.geometry.of_rows(rows.start, rows.stop)
        out = self.memory.of(*shape, prod(geometry.counts))
        fill(out, x, geometry)
        return out


def convolve(x, weight, bias, geometry, groups):
    """The convolution of arrays of the same dtype, over windows that the kernels support."""
    columns = _Columns(x.shape[1], geometry, groups, _Memory(x.dtype))
    out = cupy.empty((len(x), weight.shape[0], *columns.counts), x.dtype)
    filters = weight.reshape(groups, weight.shape[0] // groups, prod(weight.shape[1:]))
    if bias is not None:
        bias = bias.reshape(groups, -1, 1)
    _convolve(columns, x, filters, bias, out)
    return out


def _convolve(columns, x, filters, bias, out):
    """Write the convolution of images into ``out``, of some of them at a time."""
    if not out.size:
        return
    across = columns.windows // columns.counts[0]
    for some in _slices(len(x), columns.bytes + (x.nbytes + out.nbytes) // len(x)):
        images = x[some]
        results = out[some].reshape(len(images), *filters.shape[:2], columns.windows)
        for rows in columns.rows(len(images)):
            part = results[..., rows.start * across : rows.stop * across]
            matmul(filters, columns.of(images, rows), out=part)
            if bias is not None:
                part += bias


def cotangents(g, x, weight, shapes, wanted, geometry, groups):
    """The cotangents of a convolution's input, weight and bias, of those that are wanted.

    shapes: of the input and of the weight; the latter is None if its cotangent is not wanted.
    """
    (n, channels), dtype = shapes[0][:2], g.dtype
    columns = _Columns(channels, geometry, groups, _Memory(dtype))
    to_x = cupy.empty(shapes[0], dtype) if wanted[0] else None
    to_weight = _ToWeight(g, x, shapes[1], columns, wanted[1:])
    pieces, size = [], columns.bytes + 2 * g.nbytes // n + 2 * dtype.itemsize * prod(shapes[0][1:])
    if wanted[0]:
        pieces.append(_to_input(g, weight, columns, to_x))
    if any(wanted[1:]):
        pieces.append(to_weight)
    for images in _slices(n, size):
        for piece in pieces:
            piece(images)
    return to_x, *to_weight.results()


def _to_input(g, weight, columns, out):
    """A function that writes the cotangents of some images, which are given as a slice."""
    lengths, size, counts, stride, before, dilation = columns.geometry
    out_channels, channels, groups = g.shape[1], columns.channels, columns.groups
    if prod(stride) > 1 or out_channels > 4 * channels:
        return _adding_columns(g, weight, columns, out)
    # A convolution with the reversed filters has fewer columns to make, and none to add up.
    each = channels // groups
    back = weight.reshape(groups, out_channels // groups, each, *size)
    back = back[(..., *[slice(None, None, -1)] * len(size))].swapaxes(1, 2)
    back = contiguous(back).reshape(groups, each, out_channels // groups * columns.taps)
    before = [(k - 1) * d - b for k, d, b in zip(size, dilation, before, strict=True)]
    geometry = Geometry(counts, size, lengths, stride, tuple(before), dilation)
    found = _Columns(out_channels, geometry, groups, columns.memory)
    return lambda images: _convolve(found, g[images], back, None, out[images])


def _adding_columns(g, weight, columns, out):
    """A function like that of `_to_input`, which adds up the columns of the cotangents.

    It takes a single image that is too large apart: by groups or, if there is one, by channels.
    """
    groups, taps, windows = columns.groups, columns.taps, columns.windows
    each = columns.channels // groups
    filters = weight.reshape(groups, g.shape[1] // groups, -1).swapaxes(1, 2)

    def piece(images):
        n = images.stop - images.start
        of_g, size = g[images].reshape(n, groups, -1, windows), columns.bytes if n == 1 else 0
        for some in _slices(groups, size // groups):
            for channels in _slices(each, size // each if groups == 1 else 0):
                own = filters[some, channels.start * taps : channels.stop * taps]
                part = columns.memory.of(n, *own.shape[:2], windows)
                matmul(own, of_g[:, some], out=part)
                first, count = some.start * each + channels.start, part.size // (n * taps * windows)
                part = part.reshape(n, count, *columns.size, *columns.counts)
                add(part, out[images, first : first + count], columns.geometry)

    return piece


class _ToWeight:
    """Sums the cotangents of the weight and of the bias, whichever are wanted."""

    def __init__(self, g, x, shape, columns, wanted):
        self.g, self.x, self.columns = g, x, columns
        self.weight = cupy.empty(shape, accumulator(g.dtype)) if wanted[0] else None
        self.bias, self.has_bias, self.is_first = None, wanted[1], True
        # Columns of single elements, which are in memory at the same time as those of x.
        ones, zeros = (1,) * len(columns.counts), (0,) * len(columns.counts)
        elements = Geometry(columns.counts, ones, columns.counts, ones, zeros, ones)
        self.turned = _Columns(g.shape[1], elements, 1, _Memory(g.dtype))

    def __call__(self, images):
        n, columns = images.stop - images.start, self.columns
        out_channels, groups, windows = self.g.shape[1], columns.groups, n * columns.windows
        add, self.is_first = not self.is_first, False
        g = self.g[images]
        if n > 1:
            g = _beside(self.turned, g)
        if self.has_bias:
            sums = cupy.sum(g.reshape(out_channels, windows), axis=1, dtype=accumulator(g.dtype))
            self.bias = self.bias + sums if add else sums
        if self.weight is None:
            return
        g = g.reshape(groups, out_channels // groups, windows)
        total = self.weight.reshape(*g.shape[:2], -1)
        if n > 1:
            found = _beside(columns, self.x[images]).reshape(groups, -1, windows)
            matmul(g, found.swapaxes(1, 2), out=total, add=add)
            return
        across = windows // columns.counts[0]
        for rows in columns.rows(n):
            found = columns.of(self.x[images], rows)[0]
            part = g[..., rows.start * across : rows.stop * across]
            matmul(part, found.swapaxes(1, 2), out=total, add=add)
            add = True

    def results(self):
        dtype = self.g.dtype
        return [x if x is None else x.astype(dtype, copy=False) for x in (self.weight, self.bias)]


def _beside(columns, x):
    """The columns of images side by side: ``(channels, *size, images, *counts)``."""
    n, channels = x.shape[:2]
    out = columns.memory.of(channels, *columns.size, n, *columns.counts)
    fill(out, x, columns.geometry, images=n)
    return out
