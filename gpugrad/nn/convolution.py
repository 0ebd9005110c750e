"""Convolution, transposed convolution and windows: functions, and the layers that apply them."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from .._arguments import one_of, require, whole
from .._tensor import Tensor
from ..autograd.casting import as_input
from ..backends import check_convolution, check_convolution_input, counts_of_windows
from ..ops.convolution import convolution, convolution_input
from ..ops.manipulation import reshape
from ..ops.windows import add_windows, sliding_windows
from ..random import Generator
from .common import LENGTHS, Ints, check_axes, check_shape, per_axis, shape_of, with_examples
from .function_layer import FunctionLayer, OfAxes, for_axes
from .init import uniform_parameters
from .padding import MODES, pad


def _conv(
    name: str, n: int, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1,
    padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Convolution over images: ``(n, channels, height, width) -> (n, out, rows, columns)``.

    The output has ``floor((length + 2 * padding - dilation * (size - 1) - 1) / stride) + 1``
    elements along an axis, for filters of this size.

    input: with or without its first axis.
    weight: the filters, ``(out, channels / groups, height, width)``.
    bias: ``(out,)``; by default 0.
    stride: the distance between neighbouring windows.
    padding: how many zeros to add at each end of an axis; ``"valid"`` for none, ``"same"`` for as
        many as keep the shape. If their number is odd, the end gets one more.
    dilation: the distance between neighbouring elements of a window.
    groups: into how many parts to divide the channels; a filter sees the channels of its part.

    Raises ValueError if the shapes do not fit, or a filter is larger than the padded input.
    """
    x, is_single = with_examples(name, input, n)
    filters = shape_of(name, weight, "weight")
    if len(filters) != n + 2:
        raise ValueError(
            f"{name}: weight must be (out, channels / groups, {LENGTHS[n]}) of a filter, not "
            f"of shape {filters}"
        )
    stride = per_axis(f"{name}: stride", stride, n)
    dilation = per_axis(f"{name}: dilation", dilation, n)
    padding = _pairs(name, padding, filters[2:], stride, dilation)
    bias_shape = None if bias is None else shape_of(name, bias, "bias")
    _named(name, check_convolution, x.shape, filters, bias_shape, groups)
    _named(name, counts_of_windows, x.shape[2:], filters[2:], stride, padding, dilation)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = convolution(x, weight, bias, **options)
    return reshape(out, out.shape[1:]) if is_single else out


def _named(name, function, *args):
    """The function's result; the ValueError that it may raise then begins with ``name``."""
    try:
        return function(*args)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _pairs(name, padding, size, stride, dilation):
    """The padding at the start and the end of each axis."""
    n = len(size)
    if padding == "valid":
        return ((0, 0),) * n
    if padding == "same":
        if any(s != 1 for s in stride):
            raise ValueError(f"{name}: padding 'same' needs a stride of 1, not {stride}")
        totals = [d * (k - 1) for k, d in zip(size, dilation, strict=True)]
        return tuple([(total // 2, total - total // 2) for total in totals])
    if isinstance(padding, str):
        raise ValueError(f"{name}: padding must be ints, 'same' or 'valid', not {padding!r}")
    return tuple([(p, p) for p in per_axis(f"{name}: padding", padding, n, 0)])


conv1d, conv2d, conv3d = for_axes(_conv, "out")


def _least_lengths(counts, size, stride, padding, dilation):
    """The least lengths over which so many windows slide."""
    axes = zip(counts, size, stride, padding, dilation, strict=True)
    return [(count - 1) * s - 2 * p + d * (k - 1) + 1 for count, k, s, p, d in axes]


def _conv_transpose(
    name: str, n: int, input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1,
    padding: Ints = 0, output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
) -> Tensor:  # fmt: skip
    """Transposed convolution over images: the gradient of `conv2d` by its input.

    ``(n, channels, height, width) -> (n, out, rows, columns)``, where the output has
    ``(length - 1) * stride - 2 * padding + dilation * (size - 1) + output_padding + 1`` elements
    along an axis.

    weight: the filters, ``(channels, out / groups, height, width)``.
    output_padding: how many elements to add at the end of an axis, less than the stride or the
        dilation. The convolution makes the input's length of several lengths; this chooses one.

    The other parameters are those of `conv2d`, and so are the errors.
    """
    x, is_single = with_examples(name, input, n)
    filters = shape_of(name, weight, "weight")
    if len(filters) != n + 2 or filters[0] != x.shape[1]:
        raise ValueError(
            f"{name}: weight must be (channels, out / groups, {LENGTHS[n]}) with the "
            f"{x.shape[1]} channels of the input of shape {input.shape}, not {filters}"
        )
    _named(name, check_convolution_input, x.shape, filters, groups)
    stride = per_axis(f"{name}: stride", stride, n)
    padding = per_axis(f"{name}: padding", padding, n, 0)
    more = per_axis(f"{name}: output_padding", output_padding, n, 0)
    dilation = per_axis(f"{name}: dilation", dilation, n)
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)):
        raise ValueError(
            f"{name}: output_padding {more} must be less than stride {stride} or dilation "
            f"{dilation}"
        )
    least = _least_lengths(x.shape[2:], filters[2:], stride, padding, dilation)
    shape = tuple([length + m for length, m in zip(least, more, strict=True)])
    if min(shape) < 1:
        raise ValueError(f"{name}: the output would have the lengths {shape}; use less padding")
    pairs = tuple([(p, p - m) for p, m in zip(padding, more, strict=True)])
    options = {"stride": stride, "padding": pairs, "dilation": dilation, "groups": groups}
    out = convolution_input(x, weight, shape=shape, **options)
    if bias is not None:
        check_shape(bias, out.shape[1:2], "{}: bias", name)
        out = out + as_input(out, reshape(bias, (-1,) + (1,) * n))
    return reshape(out, out.shape[1:]) if is_single else out


conv_transpose1d, conv_transpose2d, conv_transpose3d = for_axes(_conv_transpose, "out")


def _windows(name, shape, size, stride, padding, dilation):
    """How many windows there are along the axes of images, and the options of the ops."""
    options = {
        "stride": per_axis(f"{name}: stride", stride, 2),
        "padding": per_axis(f"{name}: padding", padding, 2, 0),
        "dilation": per_axis(f"{name}: dilation", dilation, 2),
    }
    return _named(name, counts_of_windows, shape, size, *options.values()), options


def unfold(
    input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """All windows as columns: ``(n, channels, height, width) -> (n, channels * taps, windows)``.

    A window has ``taps = height * width`` elements; the other parameters are those of `conv2d`.
    There is a window for each element that the output of such a convolution has. The input may lack
    its first axis.
    """
    x, is_single = with_examples("unfold", input, 2)
    size = per_axis("unfold: kernel_size", kernel_size, 2)
    _, options = _windows("unfold", x.shape[2:], size, stride, padding, dilation)
    out = sliding_windows(x, size=size, **options)
    n, channels, *rest = out.shape
    columns = channels * math.prod(rest[:2]), math.prod(rest[2:])
    return reshape(out, columns if is_single else (n, *columns))


def fold(
    input: Tensor,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """Add up windows: ``(n, channels * taps, windows) -> (n, channels, *output_size)``.

    The input may lack its first axis. This is the transpose of `unfold`, not its inverse: elements
    of several windows are sums. Raises ValueError unless the input has as many rows and columns as
    `unfold` gives.
    """
    x, is_single = with_examples("fold", input, 1, "channels * taps")
    shape = per_axis("fold: output_size", output_size, 2)
    size = per_axis("fold: kernel_size", kernel_size, 2)
    counts, options = _windows("fold", shape, size, stride, padding, dilation)
    n, rows, columns = x.shape
    if rows % math.prod(size) or columns != math.prod(counts):
        raise ValueError(
            f"fold: for windows of size {size} over {shape} the input must have a multiple of "
            f"{math.prod(size)} rows, and {math.prod(counts)} columns, not the shape {input.shape}"
        )
    channels = rows // math.prod(size)
    out = add_windows(reshape(x, (n, channels, *size, *counts)), shape=shape, **options)
    return reshape(out, out.shape[1:]) if is_single else out


# Layers


class _Convolution(OfAxes):
    """A layer of convolution over ``axes`` axes."""

    is_transposed = False
    _shown = "in_channels", "out_channels", "kernel_size=", "stride="
    _shown_unless: ClassVar = {
        "padding": 0, "dilation": 1, "output_padding": 0, "groups": 1, "bias": True,
        "padding_mode": "zeros",
    }  # fmt: skip

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints = 1,
        padding: Ints | str = 0, dilation: Ints = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", *, dtype: Any = None, device: str | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        name, n = type(self).__name__, self.axes
        self.in_channels = whole(f"{name}: in_channels", in_channels, 1)
        self.out_channels = whole(f"{name}: out_channels", out_channels, 1)
        self.groups = whole(f"{name}: groups", groups, 1)
        both = in_channels, out_channels
        what = f"{name}: groups must divide in_channels and out_channels {both}"
        require(all(channels % groups == 0 for channels in both), what, groups)
        modes = ("zeros",) if self.is_transposed else MODES
        self.padding_mode = one_of(f"{name}: padding_mode", padding_mode, modes)
        self.kernel_size = per_axis(f"{name}: kernel_size", kernel_size, n)
        self.stride = per_axis(f"{name}: stride", stride, n)
        self.dilation = per_axis(f"{name}: dilation", dilation, n)
        self.output_padding = (0,) * n
        if isinstance(padding, str) and self.is_transposed:
            raise ValueError(f"{name}: padding must be ints, not {padding!r}")
        pairs = _pairs(name, padding, self.kernel_size, self.stride, self.dilation)
        self.padding: Any = padding if isinstance(padding, str) else tuple([p for p, _ in pairs])
        # As `functional.pad` takes it, which begins with the last axis.
        self._pad = [p for pair in reversed(pairs) for p in pair]
        first, second = both if self.is_transposed else both[::-1]
        shape = second // groups, *self.kernel_size
        # PyTorch's choice, kaiming_uniform_ with a=sqrt(5), gives the same bound.
        parameter = uniform_parameters(1 / math.sqrt(math.prod(shape)), dtype, device, generator)
        self.weight = parameter(first, *shape)
        self.bias = parameter(out_channels) if bias else None


class _Conv(_Convolution):
    def forward(self, input: Tensor) -> Tensor:
        name, n, padding = type(self).__name__, self.axes, self.padding
        check_axes(name, input, n, self.in_channels)
        if self.padding_mode != "zeros":
            input, padding = pad(input, self._pad, self.padding_mode), 0
        options = self.stride, padding, self.dilation, self.groups
        return _conv(name, n, input, self.weight, self.bias, *options)


class Conv1d(_Conv, axes=1):
    """Convolution over a length: ``(n, in_channels, length) -> (n, out_channels, count)``.

    The input may lack its first axis. The count is
    ``floor((length + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``. The
    parameters are those of `Conv2d`, with one axis in place of two.
    """


class Conv2d(_Conv, axes=2):
    """Convolution over images: ``(n, in_channels, height, width) -> (n, out_channels, ...)``.

    The input may lack its first axis. The number of rows is
    ``floor((height + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``, and that of
    columns likewise.

    weight: ``(out_channels, in_channels / groups, *kernel_size)``, uniform within
        ``1 / sqrt(fan_in)`` of 0, where fan_in is the product of its lengths but the first.
    bias: ``(out_channels,)``, with the same distribution; None if ``bias`` is False.
    stride, padding, dilation, groups: see `functional.conv2d`.
    padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``, as in
        `functional.pad`.
    dtype, device, generator: as for `Linear`.
    """


class Conv3d(_Conv, axes=3):
    """`Conv2d` over three axes.

    ``(n, in_channels, depth, height, width) -> (n, out_channels, planes, rows, columns)``, or both
    without the first axis.
    """


class _ConvTranspose(_Convolution):
    is_transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Ints, stride: Ints = 1,
        padding: Ints = 0, output_padding: Ints = 0, groups: int = 1, bias: bool = True,
        dilation: Ints = 1, padding_mode: str = "zeros", *, dtype: Any = None,
        device: str | None = None, generator: Generator | None = None,
    ) -> None:  # fmt: skip
        shape = in_channels, out_channels, kernel_size
        options: Any = stride, padding, dilation, groups, bias, padding_mode
        given: Any = {"dtype": dtype, "device": device, "generator": generator}
        super().__init__(*shape, *options, **given)
        name = f"{type(self).__name__}: output_padding"
        self.output_padding = per_axis(name, output_padding, self.axes, 0)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        name, n, more = type(self).__name__, self.axes, self.output_padding
        if output_size is not None:
            more = self._output_padding(input.shape, tuple(output_size))
        options = self.stride, self.padding, more, self.groups, self.dilation
        return _conv_transpose(name, n, input, self.weight, self.bias, *options)

    def _output_padding(self, shape, output_size):
        n = self.axes
        windows = self.kernel_size, self.stride, self.padding, self.dilation
        least = _least_lengths(shape[-n:], *windows)
        more = [m - low for m, low in zip(output_size[-n:], least, strict=False)]
        pairs = zip(more, self.stride, strict=True)
        if len(output_size) < n or not all(0 <= m < s for m, s in pairs):
            most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
            raise ValueError(
                f"{type(self).__name__}: output_size {output_size} must be from {least} to {most} "
                f"for an input of shape {shape}"
            )
        return tuple(more)


class ConvTranspose1d(_ConvTranspose, axes=1):
    """Transposed convolution over a length; see `ConvTranspose2d`.

    ``(n, in_channels, length) -> (n, out_channels, count)``, or both without the first axis. The
    parameters and the count are those of `ConvTranspose2d`, with one axis in place of two.
    """


class ConvTranspose2d(_ConvTranspose, axes=2):
    """Transposed convolution over images; see `functional.conv_transpose2d`.

    ``(n, in_channels, height, width) -> (n, out_channels, rows, columns)``, or both without the
    first axis. The number of rows is
    ``(height - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``, and
    that of columns likewise.

    weight: ``(in_channels, out_channels / groups, *kernel_size)``, uniform within
        ``1 / sqrt(fan_in)`` of 0, where fan_in is the product of its lengths but the first.
    bias: ``(out_channels,)``, with the same distribution; None if ``bias`` is False.
    padding_mode: must be ``"zeros"``.
    dtype, device, generator: as for `Linear`.

    A call may give ``output_size``, the lengths of the output, in place of ``output_padding``.
    """


class ConvTranspose3d(_ConvTranspose, axes=3):
    """`ConvTranspose2d` over three axes.

    ``(n, in_channels, depth, height, width) -> (n, out_channels, planes, rows, columns)``, or both
    without the first axis.
    """


class Unfold(FunctionLayer, function=unfold):
    """All windows of images as columns; see `functional.unfold`.

    ``(n, channels, height, width) -> (n, channels * taps, windows)``, or both without the first
    axis, where taps is the product of the ``kernel_size`` along both axes.
    """


class Fold(FunctionLayer, function=fold):
    """Add up windows, given as columns, to images; see `functional.fold`.

    ``(n, channels * taps, windows) -> (n, channels, *output_size)``, or both without the first
    axis, where taps is the product of the ``kernel_size`` along both axes.
    """
