"""Layers that move elements between channels and pixels, and one that compares channels."""

from .._arguments import require, whole
from .._tensor import Tensor
from ..ops.manipulation import permute_dims, reshape
from .common import check_axes, shape_of
from .function_layer import FunctionLayer
from .padding import pad


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Make squares of ``r * r`` pixels of as many channels, for the ``upscale_factor`` r.

    input: ``(..., channels * r * r, height, width)``.

    Returns a tensor ``(..., channels, height * r, width * r)``. From Shi et al. (2016). Raises
    ValueError for other channels.
    """
    r = whole("pixel_shuffle: upscale_factor", upscale_factor, 1)
    *lead, channels, height, width = _image("pixel_shuffle", input)
    if channels % r**2:
        raise ValueError(f"pixel_shuffle: {channels} channels are no multiple of {r} * {r}")
    x = reshape(input, (*lead, channels // r**2, r, r, height, width))
    n = len(lead)
    x = permute_dims(x, (*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return reshape(x, (*lead, channels // r**2, height * r, width * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """The inverse of `pixel_shuffle`: channels of squares of pixels.

    input: ``(..., channels, height * r, width * r)``.

    Returns a tensor ``(..., channels * r * r, height, width)``. Raises ValueError for other heights
    and widths.
    """
    r = whole("pixel_unshuffle: downscale_factor", downscale_factor, 1)
    *lead, channels, height, width = _image("pixel_unshuffle", input)
    if height % r or width % r:
        raise ValueError(f"pixel_unshuffle: {height} x {width} pixels are no multiples of {r}")
    x = reshape(input, (*lead, channels, height // r, r, width // r, r))
    n = len(lead)
    x = permute_dims(x, (*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return reshape(x, (*lead, channels * r**2, height // r, width // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Take the channels, the second axis, from each of the ``groups`` in turn.

    ``(n, channels, ...) -> (n, channels, ...)``. Channel ``i * groups + k`` of the result is
    channel i of group k.

    From Zhang et al. (2018). Raises ValueError unless their number is a multiple of ``groups``.
    """
    groups = whole("channel_shuffle: groups", groups, 1)
    shape = shape_of("channel_shuffle", input)
    if len(shape) < 3 or shape[1] % groups:
        raise ValueError(
            f"channel_shuffle: the input must be (n, channels, ...), with a multiple of {groups} "
            f"channels, not {shape}"
        )
    n, channels, *rest = shape
    x = reshape(input, (n, groups, channels // groups, *rest))
    return reshape(permute_dims(x, (0, 2, 1, *range(3, x.ndim))), shape)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``x / (k + alpha * m) ** beta``, where m is the mean of ``x * x`` over ``size`` channels.

    ``(n, channels, ...) -> (n, channels, ...)``. The mean goes over the channels around the
    element's own; those beyond the ends count as 0.

    From Krizhevsky et al. (2012). Raises ValueError for an input without a third axis.
    """
    size = whole("local_response_norm: size", size, 1)
    shape = shape_of("local_response_norm", input)
    require(len(shape) > 2, "local_response_norm: the input must be (n, channels, ...)", shape)
    channels = shape[1]
    x = pad(input * input, (*[0, 0] * (input.ndim - 2), size // 2, (size - 1) // 2))
    total = x[:, :channels, ...]
    for i in range(1, size):
        total = total + x[:, i : i + channels, ...]
    return input / (k + alpha * total / size) ** beta


def _image(name, input):
    if len(shape_of(name, input)) < 3:
        check_axes(name, input, 2)
    return input.shape


class PixelShuffle(FunctionLayer, function=pixel_shuffle):
    """Makes pixels of channels; see `functional.pixel_shuffle`.

    ``(..., channels * r * r, height, width) -> (..., channels, height * r, width * r)``, where r is
    the ``upscale_factor``.
    """


class PixelUnshuffle(FunctionLayer, function=pixel_unshuffle):
    """Makes channels of pixels; see `functional.pixel_unshuffle`.

    ``(..., channels, height * r, width * r) -> (..., channels * r * r, height, width)``, where r is
    the ``downscale_factor``.
    """


class ChannelShuffle(FunctionLayer, function=channel_shuffle):
    """Takes channels from groups in turn; see `functional.channel_shuffle`.

    ``(n, channels, ...) -> (n, channels, ...)``.
    """


class LocalResponseNorm(FunctionLayer, function=local_response_norm):
    """Divides by the size of neighbouring channels; see `functional.local_response_norm`.

    ``x / (k + alpha * m) ** beta``, where m is the mean of ``x * x`` over ``size`` channels:
    ``(n, channels, ...) -> (n, channels, ...)``.
    """

    _shown = "size", "alpha=", "beta=", "k="
