"""Pooling over windows: functions, and the layers that apply them."""

import math
from typing import Any

from .._arguments import require
from .._creation import create
from .._dtypes import is_half
from .._tensor import Tensor
from ..backends.dtypes import float32
from ..ops import windows
from ..ops.elementwise import pow, where
from ..ops.indexing import take
from ..ops.manipulation import moveaxis, reshape
from .common import Ints, check_axes, floating, per_axis
from .function_layer import LayerOfAxes, for_axes


def _windows(name, n, input, kernel_size, stride, padding, dilation, ceil_mode):
    """The parameters of the ops, given PyTorch's; ``ceil_mode`` becomes part of ``padding``."""
    check_axes(name, input, n)
    size = per_axis(f"{name}: kernel_size", kernel_size, n)
    stride = size if stride is None else per_axis(f"{name}: stride", stride, n)
    padding = per_axis(f"{name}: padding", padding, n, 0)
    dilation = per_axis(f"{name}: dilation", dilation, n)
    if any(2 * p > k for p, k in zip(padding, size, strict=True)):
        raise ValueError(
            f"{name}: padding {padding} must be at most half of kernel_size {size}, so that every "
            f"window has an element of the input"
        )
    pairs = []
    for length, k, s, p, d in zip(input.shape[-n:], size, stride, padding, dilation, strict=True):
        rest = length + 2 * p - d * (k - 1) - 1
        count = rest // s + 1
        has_more = ceil_mode and rest % s and count * s < length + p  # a window begins inside
        further = s - rest % s if has_more else 0
        if rest + further < 0:
            raise ValueError(
                f"{name}: kernel_size {size} with dilation {dilation} is larger than the input of "
                f"shape {input.shape} with padding {padding}"
            )
        pairs.append((p, p + further))
    return {"size": size, "stride": stride, "padding": tuple(pairs), "dilation": dilation}


def _max_pool(
    name: str, n: int, input: Tensor, kernel_size: Ints, stride: Ints | None = None,
    padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window: ``(n, channels, height, width) -> (n, channels, ...)``.

    The result has ``floor((length + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``
    elements along an axis.

    input: with or without its first axis.
    stride: the distance between neighbouring windows; by default ``kernel_size``.
    padding: how far windows reach beyond the input, at most half of their size.
    dilation: the distance between neighbouring elements of a window.
    ceil_mode: whether a last window may reach further beyond the end, if it begins inside: the
        quotient is then rounded up.
    return_indices: whether to return also the positions of the maxima in the flattened image, of
        int64 and in the result's shape.

    Of equal elements the first gets the gradient. Raises ValueError for parameters that do not fit.
    """
    options = _windows(name, n, input, kernel_size, stride, padding, dilation, ceil_mode)
    out = windows.max_pool(input, **options)
    if not return_indices:
        return out
    return out, _flat_positions(_places_of_maxima(input, out, n, **options), input.shape[-n:])


def _places_of_maxima(input, out, n, size, stride, padding, dilation):
    """The indices of the maxima along each of the input's last ``n`` axes."""
    options = {"size": size, "stride": stride, "padding": padding, "dilation": dilation}
    taps = windows.find_in_windows(input, out, **options).to("int64")
    places = []
    for axis in range(n):
        tap = taps // math.prod(size[axis + 1 :]) % size[axis]
        first = create("arange", out.shape[axis - n], dtype="int64", like=input)
        first = first * stride[axis] - padding[axis][0]
        first = reshape(first, (-1,) + (1,) * (n - 1 - axis))
        places.append(first + tap * dilation[axis])
    return places


def _flat_positions(places, lengths):
    """Positions in the flattened image, given the indices along its axes of these lengths."""
    position: Any = 0
    for place, length in zip(places, lengths, strict=True):
        position = position * length + place
    return position


max_pool1d, max_pool2d, max_pool3d = for_axes(_max_pool)


def _avg_pool(
    name: str, n: int, input: Tensor, kernel_size: Ints, stride: Ints | None = None,
    padding: Ints = 0, ceil_mode: bool = False, count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    """The mean of each window: ``(n, channels, height, width) -> (n, channels, rows, columns)``.

    The result has ``floor((length + 2 * padding - kernel_size) / stride) + 1`` elements along an
    axis, or with ``ceil_mode`` as many as this quotient rounded up gives.

    count_include_pad: whether zeros of the padding count as elements.
    divisor_override: the divisor of the sums; by default the number of elements.

    The other parameters are those of `max_pool2d`, and so are the errors; TypeError for integers.
    """
    options = _windows(name, n, input, kernel_size, stride, padding, 1, ceil_mode)
    input = floating(name, input)
    if divisor_override is not None:
        if not divisor_override:
            raise ValueError(f"{name}: divisor_override must not be 0")
        return windows.sum_windows(input, scale=1 / divisor_override, **options)
    counts = []
    size, strides, pads, _ = options.values()
    for length, k, s, (before, after) in zip(input.shape[-n:], size, strides, pads, strict=True):
        # Elements beyond the padding, where only ceil_mode lets windows reach, never count.
        low, high = (-before, length + before) if count_include_pad else (0, length)
        starts = range(-before, length + after - k + 1, s)
        counts.append([min(start + k, high) - max(start, low) for start in starts])
    if all(min(c) == max(c) for c in counts):
        return windows.sum_windows(input, scale=1 / math.prod([c[0] for c in counts]), **options)
    out = windows.sum_windows(input.to(float32) if is_half(input.dtype) else input, **options)
    for axis, count in enumerate(counts):
        out = out / reshape(create("asarray", count, like=out), (-1,) + (1,) * (n - 1 - axis))
    return out.to(input.dtype)


avg_pool1d, avg_pool2d, avg_pool3d = for_axes(_avg_pool)


def _lp_pool(
    name: str,
    n: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of each window, ``sum(x**p)**(1/p)`` with the power ``p``, ``norm_type``;
    for ``inf`` the largest absolute value.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The result has ``floor((length - kernel_size) / stride) + 1`` elements along an axis.

    Where the sum is 0, the gradient is 0. If ``ceil_mode`` lets a window reach beyond the end, its
    sum is the mean of its elements times the size of a window. All else is as in `max_pool2d`.
    """
    require(-math.inf < norm_type != 0, f"{name}: norm_type must exceed -inf, without 0", norm_type)
    if norm_type == math.inf:
        return _max_pool(name, n, abs(input), kernel_size, stride, ceil_mode=ceil_mode)
    means = _avg_pool(name, n, pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
    sums = means * math.prod(per_axis(f"{name}: kernel_size", kernel_size, n))
    is_zero = sums == 0
    return where(is_zero, 0.0, where(is_zero, 1.0, sums) ** (1 / norm_type))


lp_pool1d, lp_pool2d, lp_pool3d = for_axes(_lp_pool)


def _output_size(name, n, input, output_size):
    check_axes(name, input, n)
    lengths = input.shape[-n:]
    if output_size is None or isinstance(output_size, (tuple, list)):
        given = tuple(output_size or (None,) * n)
        if len(given) == n:  # None keeps a length
            pairs = zip(given, lengths, strict=True)
            output_size = tuple([m if wanted is None else wanted for wanted, m in pairs])
    return lengths, per_axis(f"{name}: output_size", output_size, n)


def _parts(length, count):
    """The starts and stops of ``count`` windows over all of ``length``, as even as can be."""
    return [(i * length // count, -((i + 1) * length // -count)) for i in range(count)]


def _adaptive_avg_pool(name: str, n: int, input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover the images: ``(n, channels, *lengths) -> (n, channels, *sizes)``.

    Window i of m along an axis of ``length`` elements goes from ``floor(i * length / m)`` to
    ``ceil((i + 1) * length / m)``.

    output_size: an int, or one for each axis, where None keeps the length. The input may lack its
        first axis.

    Where the lengths do not divide, an element that is inf or nan makes all of its row and column
    nan, since these are products with matrices of weights. Raises TypeError for integers.
    """
    lengths, counts = _output_size(name, n, input, output_size)
    input = floating(name, input)
    if all(count == 1 for count in counts):
        return input.mean(axis=tuple(range(-n, 0)), keepdims=True)
    require(0 not in lengths, f"{name}: the input must have elements", input.shape)
    if all(length % count == 0 for length, count in zip(lengths, counts, strict=True)):
        size = tuple([length // count for length, count in zip(lengths, counts, strict=True)])
        return windows.sum_windows(input, size=size, stride=size, scale=1 / math.prod(size))
    out = input
    for axis, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        rows = [
            [(start <= i < stop) / (stop - start) for i in range(length)]
            for start, stop in _parts(length, count)
        ]
        out = _along_axis(create("asarray", rows, like=input), out, axis - n)
    return out


def _along_axis(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """The product of ``matrix`` (m, length) and the columns of ``x`` along a negative ``axis``."""
    if axis == -1:
        return x @ matrix.mT
    if axis == -2:
        return matrix @ x
    return moveaxis(matrix @ moveaxis(x, axis, -2), -2, axis)


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = for_axes(_adaptive_avg_pool)


def _adaptive_max_pool(
    name: str, n: int, input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """Maxima of windows that cover the images; for the windows see `adaptive_avg_pool2d`.

    ``(n, channels, *lengths) -> (n, channels, *sizes)``, or both without the first axis. Of equal
    elements the first gets the gradient.

    return_indices: whether to return also the positions of the maxima in the flattened image, of
        int64 and in the result's shape.
    """
    lengths, counts = _output_size(name, n, input, output_size)
    sizes: Any = []
    repeated, sources = input, {}  # by axis, which elements were repeated
    for axis, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        parts = _parts(length, count)
        size = max([stop - start for start, stop in parts])
        sizes.append(size)
        if size * count != length:  # shorter windows, and those that overlap, repeat elements
            taken = [min(start + i, stop - 1) for start, stop in parts for i in range(size)]
            sources[axis] = create("asarray", taken, dtype="int64", like=input)
            repeated = take(repeated, sources[axis], axis=input.ndim - n + axis)
    sizes = tuple(sizes)
    out = windows.max_pool(repeated, size=sizes, stride=sizes)
    if not return_indices:
        return out
    places = _places_of_maxima(repeated, out, n, sizes, sizes, ((0, 0),) * n, (1,) * n)
    places = [sources[i][place] if i in sources else place for i, place in enumerate(places)]
    return out, _flat_positions(places, lengths)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = for_axes(_adaptive_max_pool)


# Layers


class _Pool(LayerOfAxes):
    def _set_options(self, kernel_size, stride, **options):
        stride = kernel_size if stride is None else stride
        super()._set_options(kernel_size=kernel_size, stride=stride, **options)


_OPTIONS = "kernel_size stride padding dilation return_indices ceil_mode"  # PyTorch's order


class _MaxPool(_Pool, function=_max_pool, options=_OPTIONS):
    _shown = "kernel_size=", "stride=", "padding=", "dilation=", "ceil_mode="


class MaxPool1d(_MaxPool, axes=1):
    """The largest element of each window of a length; see `functional.max_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis. The count is
    ``floor((length + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``. With
    ``ceil_mode`` the quotient is rounded up. With ``return_indices`` there is a second result of
    this shape, the positions of the elements.
    """


class MaxPool2d(_MaxPool, axes=2):
    """The largest element of each window of images; see `functional.max_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The number of rows is
    ``floor((height + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``, and that of
    columns likewise. With ``ceil_mode`` the quotient is rounded up. With ``return_indices`` there
    is a second result of this shape, the positions of the elements.
    """


class MaxPool3d(_MaxPool, axes=3):
    """The largest element of each window of three axes; see `functional.max_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. The number of planes is
    ``floor((depth + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``, and those of
    rows and columns likewise. With ``ceil_mode`` the quotient is rounded up. With
    ``return_indices`` there is a second result of this shape, the positions of the elements.
    """


class _AvgPool(_Pool, function=_avg_pool):
    _shown = "kernel_size=", "stride=", "padding="


class AvgPool1d(_AvgPool, axes=1):
    """The mean of each window of a length; see `functional.avg_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis. The count is
    ``floor((length + 2 * padding - kernel_size) / stride) + 1``. With ``ceil_mode`` the quotient is
    rounded up.
    """

    def _as_shown(self, name: str) -> str:  # as a tuple, as PyTorch shows those of this layer
        return f"{name}{per_axis(name, getattr(self, name[:-1]), 1, 0)}"


class AvgPool2d(_AvgPool, axes=2):
    """The mean of each window of images; see `functional.avg_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The number of rows is ``floor((height + 2 * padding - kernel_size) / stride) + 1``, and
    that of columns likewise. With ``ceil_mode`` the quotient is rounded up.
    """


class AvgPool3d(_AvgPool, axes=3):
    """The mean of each window of three axes; see `functional.avg_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. The number of planes is
    ``floor((depth + 2 * padding - kernel_size) / stride) + 1``, and those of rows and columns
    likewise. With ``ceil_mode`` the quotient is rounded up.
    """


class _LPPool(LayerOfAxes, function=_lp_pool):
    pass


class LPPool1d(_LPPool, axes=1):
    """The norm of each window of a length; see `functional.lp_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis. The count is
    ``floor((length - kernel_size) / stride) + 1``. With ``ceil_mode`` the quotient is rounded up.
    The norm is ``sum(x**p)**(1/p)``, where p is ``norm_type``.
    """


class LPPool2d(_LPPool, axes=2):
    """The norm of each window of images; see `functional.lp_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The number of rows is ``floor((height - kernel_size) / stride) + 1``, and that of columns
    likewise. With ``ceil_mode`` the quotient is rounded up. The norm is ``sum(x**p)**(1/p)``, where
    p is ``norm_type``.
    """


class LPPool3d(_LPPool, axes=3):
    """The norm of each window of three axes; see `functional.lp_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. The number of planes is ``floor((depth - kernel_size) / stride) + 1``, and those
    of rows and columns likewise. With ``ceil_mode`` the quotient is rounded up. The norm is
    ``sum(x**p)**(1/p)``, where p is ``norm_type``.
    """


class _AdaptiveAvgPool(LayerOfAxes, function=_adaptive_avg_pool):
    pass


class AdaptiveAvgPool1d(_AdaptiveAvgPool, axes=1):
    """Means of windows that cover a length; see `functional.adaptive_avg_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis.
    ``output_size`` is the count; None keeps a length.
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPool, axes=2):
    """Means of windows that cover the images; see `functional.adaptive_avg_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. ``output_size`` is ``(rows, columns)``, or one int for both; None keeps a length.
    """


class AdaptiveAvgPool3d(_AdaptiveAvgPool, axes=3):
    """Means of windows that cover three axes; see `functional.adaptive_avg_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. ``output_size`` is ``(planes, rows, columns)``, or one int for all; None keeps a
    length.
    """


class _AdaptiveMaxPool(LayerOfAxes, function=_adaptive_max_pool):
    _shown = ("output_size=",)


class AdaptiveMaxPool1d(_AdaptiveMaxPool, axes=1):
    """Maxima of windows that cover a length; see `functional.adaptive_max_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis.
    ``output_size`` is the count; None keeps a length. With ``return_indices`` there is a second
    result of this shape, the positions of the elements.
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPool, axes=2):
    """Maxima of windows that cover the images; see `functional.adaptive_max_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. ``output_size`` is ``(rows, columns)``, or one int for both; None keeps a length. With
    ``return_indices`` there is a second result of this shape, the positions of the elements.
    """


class AdaptiveMaxPool3d(_AdaptiveMaxPool, axes=3):
    """Maxima of windows that cover three axes; see `functional.adaptive_max_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. ``output_size`` is ``(planes, rows, columns)``, or one int for all; None keeps a
    length. With ``return_indices`` there is a second result of this shape, the positions of the
    elements.
    """
