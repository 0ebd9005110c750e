# Written by tests/write_stubs.py.

from collections.abc import Sequence
from typing import Any

from .._ops import gelu as gelu
from .._ops import hardshrink as hardshrink
from .._ops import linear as linear
from .._ops import logsigmoid as logsigmoid
from .._ops import sigmoid as sigmoid
from .._ops import softplus as softplus
from .._ops import softshrink as softshrink
from .._ops import softsign as softsign
from .._ops import tanh as tanh
from .._ops import tanhshrink as tanhshrink
from .._tensor import Tensor
from ..random import Generator
from .activations import celu as celu
from .activations import glu as glu
from .activations import hardsigmoid as hardsigmoid
from .activations import log_softmax as log_softmax
from .activations import prelu as prelu
from .activations import relu6 as relu6
from .activations import rrelu as rrelu
from .activations import selu as selu
from .activations import softmax as softmax
from .activations import softmin as softmin
from .activations import threshold as threshold
from .computations import batch_norm as batch_norm
from .computations import bilinear as bilinear
from .computations import dropout as dropout
from .computations import elu as elu
from .computations import embedding as embedding
from .computations import embedding_bag as embedding_bag
from .computations import flatten as flatten
from .computations import group_norm as group_norm
from .computations import hardswish as hardswish
from .computations import hardtanh as hardtanh
from .computations import instance_norm as instance_norm
from .computations import layer_norm as layer_norm
from .computations import leaky_relu as leaky_relu
from .computations import mish as mish
from .computations import relu as relu
from .computations import rms_norm as rms_norm
from .computations import scaled_dot_product_attention as scaled_dot_product_attention
from .computations import silu as silu
from .convolution import fold as fold
from .convolution import unfold as unfold
from .likelihoods import gaussian_nll_loss as gaussian_nll_loss
from .likelihoods import poisson_nll_loss as poisson_nll_loss
from .losses import binary_cross_entropy as binary_cross_entropy
from .losses import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .losses import cosine_embedding_loss as cosine_embedding_loss
from .losses import cross_entropy as cross_entropy
from .losses import huber_loss as huber_loss
from .losses import kl_div as kl_div
from .losses import l1_loss as l1_loss
from .losses import mse_loss as mse_loss
from .losses import nll_loss as nll_loss
from .losses import smooth_l1_loss as smooth_l1_loss
from .losses import triplet_margin_loss as triplet_margin_loss
from .margin_losses import hinge_embedding_loss as hinge_embedding_loss
from .margin_losses import margin_ranking_loss as margin_ranking_loss
from .margin_losses import multi_margin_loss as multi_margin_loss
from .margin_losses import multilabel_margin_loss as multilabel_margin_loss
from .margin_losses import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from .margin_losses import soft_margin_loss as soft_margin_loss
from .padding import pad as pad
from .sampling import affine_grid as affine_grid
from .sampling import grid_sample as grid_sample
from .sequence_losses import ctc_loss as ctc_loss
from .shuffling import channel_shuffle as channel_shuffle
from .shuffling import local_response_norm as local_response_norm
from .shuffling import pixel_shuffle as pixel_shuffle
from .shuffling import pixel_unshuffle as pixel_unshuffle
from .upsampling import interpolate as interpolate
from .vectors import cosine_similarity as cosine_similarity
from .vectors import normalize as normalize
from .vectors import one_hot as one_hot
from .vectors import pairwise_distance as pairwise_distance

def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """`adaptive_avg_pool2d` over 1 axis: ``(n, channels, length) -> (n, channels, count)``."""

def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that cover the images: ``(n, channels, *lengths) -> (n, channels, *sizes)``.

    Window i of m along an axis of ``length`` elements goes from ``floor(i * length / m)`` to
    ``ceil((i + 1) * length / m)``.

    output_size: an int, or one for each axis, where None keeps the length. The input may lack its
        first axis.

    Where the lengths do not divide, an element that is inf or nan makes all of its row and column
    nan, since these are products with matrices of weights. Raises TypeError for integers.
    """

def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """`adaptive_avg_pool2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``."""

def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """`adaptive_max_pool2d` over 1 axis: ``(n, channels, length) -> (n, channels, count)``."""

def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Maxima of windows that cover the images; for the windows see `adaptive_avg_pool2d`.

    ``(n, channels, *lengths) -> (n, channels, *sizes)``, or both without the first axis. Of equal
    elements the first gets the gradient.

    return_indices: whether to return also the positions of the maxima in the flattened image, of
        int64 and in the result's shape.
    """

def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """`adaptive_max_pool2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``."""

def avg_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool2d` over 1 axis: ``(n, channels, length) -> (n, channels, count)``."""

def avg_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window: ``(n, channels, height, width) -> (n, channels, rows, columns)``.

    The result has ``floor((length + 2 * padding - kernel_size) / stride) + 1`` elements along an
    axis, or with ``ceil_mode`` as many as this quotient rounded up gives.

    count_include_pad: whether zeros of the padding count as elements.
    divisor_override: the divisor of the sums; by default the number of elements.

    The other parameters are those of `max_pool2d`, and so are the errors; TypeError for integers.
    """

def avg_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """`avg_pool2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``."""

def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """`conv2d` over 1 axis: ``(n, channels, length) -> (n, out, count)``."""

def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
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

def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """`conv2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, out, planes, rows, columns)``."""

def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """`conv_transpose2d` over 1 axis: ``(n, channels, length) -> (n, out, count)``."""

def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Transposed convolution over images: the gradient of `conv2d` by its input.

    ``(n, channels, height, width) -> (n, out, rows, columns)``, where the output has
    ``(length - 1) * stride - 2 * padding + dilation * (size - 1) + output_padding + 1`` elements
    along an axis.

    weight: the filters, ``(channels, out / groups, height, width)``.
    output_padding: how many elements to add at the end of an axis, less than the stride or the
        dilation. The convolution makes the input's length of several lengths; this chooses one.

    The other parameters are those of `conv2d`, and so are the errors.
    """

def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """`conv_transpose2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, out, planes, rows, columns)``."""

def dropout1d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`dropout2d` over 1 axis: ``(n, channels, length) -> (n, channels, length)``."""

def dropout2d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Zero each channel of ``(n, channels, height, width)`` with probability ``p``, as a whole.

    The result has this shape too. The other channels are scaled by ``1 / (1 - p)``. The other
    parameters are those of `dropout`.
    """

def dropout3d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`dropout2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, channels, depth, height, width)``."""

def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """`lp_pool2d` over 1 axis: ``(n, channels, length) -> (n, channels, count)``."""

def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of each window, ``sum(x**p)**(1/p)`` with the power ``p``, ``norm_type``;
    for ``inf`` the largest absolute value.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The result has ``floor((length - kernel_size) / stride) + 1`` elements along an axis.

    Where the sum is 0, the gradient is 0. If ``ceil_mode`` lets a window reach beyond the end, its
    sum is the mean of its elements times the size of a window. All else is as in `max_pool2d`.
    """

def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """`lp_pool2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``."""

def max_pool1d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool2d` over 1 axis: ``(n, channels, length) -> (n, channels, count)``."""

def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
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

def max_pool3d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool2d` over 3 axes: ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``."""
