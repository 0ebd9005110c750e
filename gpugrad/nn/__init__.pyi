# Written by tests/write_stubs.py.

from collections.abc import Sequence
from typing import Any

from .._tensor import Tensor
from . import functional as functional
from . import init as init
from . import utils as utils
from .activations import PReLU as PReLU
from .attention import MultiheadAttention as MultiheadAttention
from .container import MLP as MLP
from .container import ModuleDict as ModuleDict
from .container import ModuleList as ModuleList
from .container import ParameterList as ParameterList
from .container import Sequential as Sequential
from .convolution import Conv1d as Conv1d
from .convolution import Conv2d as Conv2d
from .convolution import Conv3d as Conv3d
from .convolution import ConvTranspose1d as ConvTranspose1d
from .convolution import ConvTranspose2d as ConvTranspose2d
from .convolution import ConvTranspose3d as ConvTranspose3d
from .layers import Bilinear as Bilinear
from .layers import Dropout as Dropout
from .layers import Dropout1d as Dropout1d
from .layers import Dropout2d as Dropout2d
from .layers import Dropout3d as Dropout3d
from .layers import Embedding as Embedding
from .layers import EmbeddingBag as EmbeddingBag
from .layers import Identity as Identity
from .layers import Linear as Linear
from .layers import Unflatten as Unflatten
from .module import Module as Module
from .module import Parameter as Parameter
from .normalization import BatchNorm1d as BatchNorm1d
from .normalization import BatchNorm2d as BatchNorm2d
from .normalization import BatchNorm3d as BatchNorm3d
from .normalization import GroupNorm as GroupNorm
from .normalization import InstanceNorm1d as InstanceNorm1d
from .normalization import InstanceNorm2d as InstanceNorm2d
from .normalization import InstanceNorm3d as InstanceNorm3d
from .normalization import LayerNorm as LayerNorm
from .normalization import RMSNorm as RMSNorm
from .padding import CircularPad1d as CircularPad1d
from .padding import CircularPad2d as CircularPad2d
from .padding import CircularPad3d as CircularPad3d
from .padding import ConstantPad1d as ConstantPad1d
from .padding import ConstantPad2d as ConstantPad2d
from .padding import ConstantPad3d as ConstantPad3d
from .padding import ReflectionPad1d as ReflectionPad1d
from .padding import ReflectionPad2d as ReflectionPad2d
from .padding import ReflectionPad3d as ReflectionPad3d
from .padding import ReplicationPad1d as ReplicationPad1d
from .padding import ReplicationPad2d as ReplicationPad2d
from .padding import ReplicationPad3d as ReplicationPad3d
from .padding import ZeroPad1d as ZeroPad1d
from .padding import ZeroPad2d as ZeroPad2d
from .padding import ZeroPad3d as ZeroPad3d
from .recurrent import GRU as GRU
from .recurrent import LSTM as LSTM
from .recurrent import RNN as RNN
from .recurrent import GRUCell as GRUCell
from .recurrent import LSTMCell as LSTMCell
from .recurrent import RNNCell as RNNCell
from .stateless import functional_call as functional_call
from .summaries import summary as summary
from .synchronized import SyncBatchNorm as SyncBatchNorm
from .transformer import Transformer as Transformer
from .transformer import TransformerDecoder as TransformerDecoder
from .transformer import TransformerDecoderLayer as TransformerDecoderLayer
from .transformer import TransformerEncoder as TransformerEncoder
from .transformer import TransformerEncoderLayer as TransformerEncoderLayer

class AdaptiveAvgPool1d(Module):
    """Means of windows that cover a length; see `functional.adaptive_avg_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis.
    ``output_size`` is the count; None keeps a length.
    """

    output_size: Any
    def __init__(self, output_size: Any) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class AdaptiveAvgPool2d(Module):
    """Means of windows that cover the images; see `functional.adaptive_avg_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. ``output_size`` is ``(rows, columns)``, or one int for both; None keeps a length.
    """

    output_size: Any
    def __init__(self, output_size: Any) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class AdaptiveAvgPool3d(Module):
    """Means of windows that cover three axes; see `functional.adaptive_avg_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. ``output_size`` is ``(planes, rows, columns)``, or one int for all; None keeps a
    length.
    """

    output_size: Any
    def __init__(self, output_size: Any) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class AdaptiveMaxPool1d(Module):
    """Maxima of windows that cover a length; see `functional.adaptive_max_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis.
    ``output_size`` is the count; None keeps a length. With ``return_indices`` there is a second
    result of this shape, the positions of the elements.
    """

    output_size: Any
    return_indices: bool
    def __init__(self, output_size: Any, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any: ...

class AdaptiveMaxPool2d(Module):
    """Maxima of windows that cover the images; see `functional.adaptive_max_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. ``output_size`` is ``(rows, columns)``, or one int for both; None keeps a length. With
    ``return_indices`` there is a second result of this shape, the positions of the elements.
    """

    output_size: Any
    return_indices: bool
    def __init__(self, output_size: Any, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any: ...

class AdaptiveMaxPool3d(Module):
    """Maxima of windows that cover three axes; see `functional.adaptive_max_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. ``output_size`` is ``(planes, rows, columns)``, or one int for all; None keeps a
    length. With ``return_indices`` there is a second result of this shape, the positions of the
    elements.
    """

    output_size: Any
    return_indices: bool
    def __init__(self, output_size: Any, return_indices: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Any: ...

class AvgPool1d(Module):
    """The mean of each window of a length; see `functional.avg_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis. The count is
    ``floor((length + 2 * padding - kernel_size) / stride) + 1``. With ``ceil_mode`` the quotient is
    rounded up.
    """

    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    padding: int | Sequence[int]
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: int | None
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class AvgPool2d(Module):
    """The mean of each window of images; see `functional.avg_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The number of rows is ``floor((height + 2 * padding - kernel_size) / stride) + 1``, and
    that of columns likewise. With ``ceil_mode`` the quotient is rounded up.
    """

    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    padding: int | Sequence[int]
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: int | None
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class AvgPool3d(Module):
    """The mean of each window of three axes; see `functional.avg_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. The number of planes is
    ``floor((depth + 2 * padding - kernel_size) / stride) + 1``, and those of rows and columns
    likewise. With ``ceil_mode`` the quotient is rounded up.
    """

    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    padding: int | Sequence[int]
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: int | None
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class BCELoss(Module):
    """Binary cross entropy of probabilities; see `functional.binary_cross_entropy`.

    The losses are ``-(target * log(input) + (1 - target) * log(1 - input))``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``. The weight, if there is one, is a buffer.
    """

    weight: Any
    reduction: str
    def __init__(self, weight: Any = None, *, reduction: str = "mean") -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class BCEWithLogitsLoss(Module):
    """Binary cross entropy of logits; see `functional.binary_cross_entropy_with_logits`.

    The losses are ``-(target * log(p) + (1 - target) * log(1 - p))`` with ``p = sigmoid(input)``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``. The weights, if there are any, are buffers.
    """

    weight: Any
    reduction: str
    pos_weight: Any
    def __init__(
        self, weight: Any = None, *, reduction: str = "mean", pos_weight: Any = None
    ) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class CELU(Module):
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``; see `functional.celu`.

    Elementwise, ``(...) -> (...)``. The slope at 0 is 1.
    """

    alpha: float
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class CTCLoss(Module):
    """Loss of sequences that are not aligned; see `functional.ctc_loss`.

    Called with log-probabilities ``(time, n, classes)``, targets ``(n, most)`` and the lengths of
    both, ``(n,)``, it returns the loss ``()``, or with ``reduction="none"`` the losses ``(n,)``.
    """

    blank: int
    reduction: str
    zero_infinity: bool
    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None: ...
    def forward(
        self, log_probs: Tensor, targets: Any, input_lengths: Any, target_lengths: Any
    ) -> Tensor: ...

class ChannelShuffle(Module):
    """Takes channels from groups in turn; see `functional.channel_shuffle`.

    ``(n, channels, ...) -> (n, channels, ...)``.
    """

    groups: int
    def __init__(self, groups: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class CosineEmbeddingLoss(Module):
    """Draws pairs of vectors together or apart; see `functional.cosine_embedding_loss`.

    The loss is ``1 - cosine`` where the target is 1, and ``max(cosine - margin, 0)`` where it is
    -1.

    ``input1 (n, d), input2 (n, d), target (n,) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``.
    """

    margin: float
    reduction: str
    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None: ...
    def forward(self, input1: Tensor, input2: Any, target: Any) -> Tensor: ...

class CosineSimilarity(Module):
    """The cosine of the angle between vectors; see `functional.cosine_similarity`.

    ``(n, d), (n, d) -> (n,)``: the axis ``dim`` of the vectors goes.
    """

    dim: int
    eps: float
    def __init__(self, dim: int = 1, eps: float = 1e-08) -> None: ...
    def forward(self, x1: Tensor, x2: Any) -> Tensor: ...

class CrossEntropyLoss(Module):
    """Cross entropy of logits and labels or probabilities; see `functional.cross_entropy`.

    The loss of a label is ``-log(softmax(input))`` at the label.

    ``input (n, classes, ...), target (n, ...) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n, ...)``. A target of
    probabilities has the input's shape. The weight ``(classes,)``, if there is one, is a buffer.
    """

    weight: Any
    ignore_index: int
    reduction: str
    label_smoothing: float
    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class ELU(Module):
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``; see `gpugrad.elu`.

    Elementwise, ``(...) -> (...)``. The slope at 0 is ``alpha``.
    """

    alpha: float
    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Flatten(Module):
    """Merge the axes from ``start_dim`` to ``end_dim`` into one; by default all but the first.

    By default ``(n, ...) -> (n, features)``, where the features are the product of the other
    lengths.
    """

    start_dim: int
    end_dim: int
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Fold(Module):
    """Add up windows, given as columns, to images; see `functional.fold`.

    ``(n, channels * taps, windows) -> (n, channels, *output_size)``, or both without the first
    axis, where taps is the product of the ``kernel_size`` along both axes.
    """

    output_size: int | Sequence[int]
    kernel_size: int | Sequence[int]
    dilation: int | Sequence[int]
    padding: int | Sequence[int]
    stride: int | Sequence[int]
    def __init__(
        self,
        output_size: int | Sequence[int],
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class GELU(Module):
    """Gaussian error linear unit; see `gpugrad.gelu`.

    ``x * (1 + erf(x / sqrt(2))) / 2`` elementwise, ``(...) -> (...)``.

    approximate: ``"none"``, or ``"tanh"`` for a formula with the hyperbolic tangent.
    """

    approximate: str
    def __init__(self, approximate: str = "none") -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class GLU(Module):
    """Gated linear unit, which halves the axis ``dim``; see `functional.glu`.

    ``a * sigmoid(b)`` of both halves: ``(..., 2 * d) -> (..., d)`` for the last axis.
    """

    dim: int
    def __init__(self, dim: int = -1) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class GaussianNLLLoss(Module):
    """Of values from normal distributions; see `functional.gaussian_nll_loss`.

    The losses are ``(log(var) + (input - target) ** 2 / var) / 2``.

    ``input (..., d), target (..., d), var (..., d) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(..., d)``.
    """

    full: bool
    eps: float
    reduction: str
    def __init__(
        self, full: bool = False, eps: float = 1e-06, *, reduction: str = "mean"
    ) -> None: ...
    def forward(self, input: Tensor, target: Any, var: Any) -> Tensor: ...

class Hardshrink(Module):
    """``x`` where its magnitude is above ``lambd``, else 0; see `gpugrad.hardshrink`.

    Elementwise, ``(...) -> (...)``. The slope at ``lambd`` is 0.
    """

    lambd: float
    def __init__(self, lambd: float = 0.5) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Hardsigmoid(Module):
    """``min(max(x + 3, 0), 6) / 6`` elementwise; see `functional.hardsigmoid`.

    ``(...) -> (...)``. The slope at -3 and at 3 is 0.
    """
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Hardswish(Module):
    """``x * min(max(x + 3, 0), 6) / 6``, elementwise; the slope is 0 at -3 and 1 at 3.

    ``(...) -> (...)``.
    """
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Hardtanh(Module):
    """``x`` limited to ``[min_val, max_val]``; the slope at the bounds is 0.

    Elementwise, ``(...) -> (...)``.

    inplace: ignored, since ops never write to their inputs.

    Raises ValueError unless ``min_val`` is less than ``max_val``.
    """

    min_val: float
    max_val: float
    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class HingeEmbeddingLoss(Module):
    """Distances that are to be small or large; see `functional.hinge_embedding_loss`.

    The loss is ``input`` where the target is 1, and ``max(margin - input, 0)`` where it is -1.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """

    margin: float
    reduction: str
    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class HuberLoss(Module):
    """Half the squared error up to ``delta``, linear beyond; see `functional.huber_loss`.

    The losses are ``error ** 2 / 2`` and ``delta * (abs(error) - delta / 2)``, where the error is
    ``input - target``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """

    reduction: str
    delta: float
    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class KLDivLoss(Module):
    """Kullback-Leibler divergence, ``target * (log(target) - input)``; see `functional.kl_div`.

    ``input (n, classes), target (n, classes) -> ()``: the mean over all elements, or with a
    ``reduction`` of ``"batchmean"`` the mean of the n divergences, or with ``"sum"`` their sum.
    With ``"none"`` the result is ``(n, classes)``.
    """

    reduction: str
    log_target: bool
    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class L1Loss(Module):
    """Absolute error ``abs(input - target)``; see `functional.l1_loss`.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """

    reduction: str
    def __init__(self, *, reduction: str = "mean") -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class LPPool1d(Module):
    """The norm of each window of a length; see `functional.lp_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis. The count is
    ``floor((length - kernel_size) / stride) + 1``. With ``ceil_mode`` the quotient is rounded up.
    The norm is ``sum(x**p)**(1/p)``, where p is ``norm_type``.
    """

    norm_type: float
    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    ceil_mode: bool
    def __init__(
        self,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class LPPool2d(Module):
    """The norm of each window of images; see `functional.lp_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The number of rows is ``floor((height - kernel_size) / stride) + 1``, and that of columns
    likewise. With ``ceil_mode`` the quotient is rounded up. The norm is ``sum(x**p)**(1/p)``, where
    p is ``norm_type``.
    """

    norm_type: float
    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    ceil_mode: bool
    def __init__(
        self,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class LPPool3d(Module):
    """The norm of each window of three axes; see `functional.lp_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. The number of planes is ``floor((depth - kernel_size) / stride) + 1``, and those
    of rows and columns likewise. With ``ceil_mode`` the quotient is rounded up. The norm is
    ``sum(x**p)**(1/p)``, where p is ``norm_type``.
    """

    norm_type: float
    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    ceil_mode: bool
    def __init__(
        self,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class LeakyReLU(Module):
    """``x`` where it is positive, else ``negative_slope * x``; see `gpugrad.leaky_relu`.

    Elementwise, ``(...) -> (...)``.

    inplace: ignored, since ops never write to their inputs.
    """

    negative_slope: float
    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class LocalResponseNorm(Module):
    """Divides by the size of neighbouring channels; see `functional.local_response_norm`.

    ``x / (k + alpha * m) ** beta``, where m is the mean of ``x * x`` over ``size`` channels:
    ``(n, channels, ...) -> (n, channels, ...)``.
    """

    size: int
    alpha: float
    beta: float
    k: float
    def __init__(
        self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class LogSigmoid(Module):
    """``log(sigmoid(x))`` elementwise, ``(...) -> (...)``, without overflow."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class LogSoftmax(Module):
    """``log(softmax(x))`` along the axis ``dim``; see `functional.log_softmax`.

    ``(...) -> (...)``, of any shape.
    """

    dim: int
    def __init__(self, dim: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class MSELoss(Module):
    """Squared error ``(input - target) ** 2``; see `functional.mse_loss`.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """

    reduction: str
    def __init__(self, *, reduction: str = "mean") -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class MarginRankingLoss(Module):
    """Pairs of scores in their order; see `functional.margin_ranking_loss`.

    The losses are ``max(margin - target * (input1 - input2), 0)``, for targets of 1 and -1.

    ``input1 (...), input2 (...), target (...) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(...)``.
    """

    margin: float
    reduction: str
    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None: ...
    def forward(self, input1: Tensor, input2: Any, target: Any) -> Tensor: ...

class MaxPool1d(Module):
    """The largest element of each window of a length; see `functional.max_pool2d`.

    ``(n, channels, length) -> (n, channels, count)``, or both without the first axis. The count is
    ``floor((length + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``. With
    ``ceil_mode`` the quotient is rounded up. With ``return_indices`` there is a second result of
    this shape, the positions of the elements.
    """

    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    padding: int | Sequence[int]
    dilation: int | Sequence[int]
    return_indices: bool
    ceil_mode: bool
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None: ...
    def forward(self, input: Tensor) -> Any: ...

class MaxPool2d(Module):
    """The largest element of each window of images; see `functional.max_pool2d`.

    ``(n, channels, height, width) -> (n, channels, rows, columns)``, or both without the first
    axis. The number of rows is
    ``floor((height + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``, and that of
    columns likewise. With ``ceil_mode`` the quotient is rounded up. With ``return_indices`` there
    is a second result of this shape, the positions of the elements.
    """

    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    padding: int | Sequence[int]
    dilation: int | Sequence[int]
    return_indices: bool
    ceil_mode: bool
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None: ...
    def forward(self, input: Tensor) -> Any: ...

class MaxPool3d(Module):
    """The largest element of each window of three axes; see `functional.max_pool2d`.

    ``(n, channels, depth, height, width) -> (n, channels, planes, rows, columns)``, or both without
    the first axis. The number of planes is
    ``floor((depth + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1``, and those of
    rows and columns likewise. With ``ceil_mode`` the quotient is rounded up. With
    ``return_indices`` there is a second result of this shape, the positions of the elements.
    """

    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None
    padding: int | Sequence[int]
    dilation: int | Sequence[int]
    return_indices: bool
    ceil_mode: bool
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None: ...
    def forward(self, input: Tensor) -> Any: ...

class Mish(Module):
    """``x * tanh(log(1 + exp(x)))`` elementwise, ``(...) -> (...)``."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class MultiLabelMarginLoss(Module):
    """Hinge loss of several labels; see `functional.multilabel_margin_loss`.

    The loss is the sum of ``max(1 - input[label] + input[class], 0)`` over labels and other
    classes, divided by the number of classes.

    ``input (n, classes), target (n, classes) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``.
    """

    reduction: str
    def __init__(self, *, reduction: str = "mean") -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class MultiLabelSoftMarginLoss(Module):
    """Logistic loss of several labels; see `functional.multilabel_soft_margin_loss`.

    The loss is the mean over the classes of `BCEWithLogitsLoss`, for targets of 0 and 1.

    ``input (n, classes), target (n, classes) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``. The weight, if there is
    one, is a buffer.
    """

    weight: Any
    reduction: str
    def __init__(self, weight: Any = None, *, reduction: str = "mean") -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class MultiMarginLoss(Module):
    """Hinge loss of several classes; see `functional.multi_margin_loss`.

    The loss is the mean over all classes of ``max(margin - input[label] + input[class], 0) ** p``,
    in which the label's own class counts 0.

    ``input (n, classes), target (n,) -> ()``: the mean of the losses, or with ``reduction="sum"``
    their sum. With ``"none"`` the result is ``(n,)``. The weight ``(classes,)``, if there is one,
    is a buffer.
    """

    p: int
    margin: float
    weight: Any
    reduction: str
    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Any = None, *, reduction: str = "mean"
    ) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class NLLLoss(Module):
    """Negative log-likelihood, ``-input`` at the label; see `functional.nll_loss`.

    ``input (n, classes, ...), target (n, ...) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n, ...)``. The weight
    ``(classes,)``, if there is one, is a buffer.
    """

    weight: Any
    ignore_index: int
    reduction: str
    def __init__(
        self, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean"
    ) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class PairwiseDistance(Module):
    """The norm of ``x1 - x2 + eps`` of order ``p``; see `functional.pairwise_distance`.

    ``(..., d), (..., d) -> (...)``, or with ``keepdim`` ``(..., 1)``.
    """

    p: float
    eps: float
    keepdim: bool
    def __init__(self, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> None: ...
    def forward(self, x1: Tensor, x2: Any) -> Tensor: ...

class PixelShuffle(Module):
    """Makes pixels of channels; see `functional.pixel_shuffle`.

    ``(..., channels * r * r, height, width) -> (..., channels, height * r, width * r)``, where r is
    the ``upscale_factor``.
    """

    upscale_factor: int
    def __init__(self, upscale_factor: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class PixelUnshuffle(Module):
    """Makes channels of pixels; see `functional.pixel_unshuffle`.

    ``(..., channels, height * r, width * r) -> (..., channels * r * r, height, width)``, where r is
    the ``downscale_factor``.
    """

    downscale_factor: int
    def __init__(self, downscale_factor: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class PoissonNLLLoss(Module):
    """Of counts from Poisson distributions; see `functional.poisson_nll_loss`.

    The losses are ``exp(input) - target * input``, or without ``log_input``
    ``input - target * log(input + eps)``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """

    log_input: bool
    full: bool
    eps: float
    reduction: str
    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-08,
        *,
        reduction: str = "mean",
    ) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class RReLU(Module):
    """A leaky ReLU with random slopes while it is trained; see `functional.rrelu`.

    Elementwise, ``(...) -> (...)``. It is ``x`` where x is positive, else ``a * x``, where a is
    drawn for each element from ``lower`` to ``upper``, or is their mean in `eval` mode.
    """

    lower: float
    upper: float
    def __init__(
        self, lower: float = 0.125, upper: float = 0.3333333333333333, inplace: bool = False
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class ReLU(Module):
    """``max(x, 0)`` elementwise, ``(...) -> (...)``; the gradient at 0 is 0."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class ReLU6(Module):
    """``min(max(x, 0), 6)`` elementwise, ``(...) -> (...)``; see `functional.relu6`."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class SELU(Module):
    """Scaled exponential linear unit; see `functional.selu`.

    ``1.0507 * x`` where ``x`` is positive, else ``1.0507 * 1.6733 * (exp(x) - 1)``; elementwise,
    ``(...) -> (...)``.
    """
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class SiLU(Module):
    """``x * sigmoid(x)`` elementwise, ``(...) -> (...)``."""
    def __init__(self, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Sigmoid(Module):
    """``1 / (1 + exp(-x))`` elementwise, ``(...) -> (...)``."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class SmoothL1Loss(Module):
    """Squared error up to ``beta``, linear beyond; see `functional.smooth_l1_loss`.

    The losses are ``error ** 2 / (2 * beta)`` and ``abs(error) - beta / 2``, where the error is
    ``input - target``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """

    reduction: str
    beta: float
    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class SoftMarginLoss(Module):
    """Logistic loss of scores and signs; see `functional.soft_margin_loss`.

    The losses are ``log(1 + exp(-target * input))``, for targets of 1 and -1.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """

    reduction: str
    def __init__(self, *, reduction: str = "mean") -> None: ...
    def forward(self, input: Tensor, target: Any) -> Tensor: ...

class Softmax(Module):
    """``exp(x) / sum(exp(x))`` along the axis ``dim``; see `functional.softmax`.

    ``(...) -> (...)``, of any shape.
    """

    dim: int
    def __init__(self, dim: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Softmin(Module):
    """The softmax of ``-x`` along the axis ``dim``; see `functional.softmin`.

    ``(...) -> (...)``, of any shape.
    """

    dim: int
    def __init__(self, dim: int) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``; see `gpugrad.softplus`.

    Where ``beta * x`` is above ``threshold`` the result is ``x``. Elementwise, ``(...) -> (...)``.
    """

    beta: float
    threshold: float
    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Softshrink(Module):
    """``x`` moved towards 0 by ``lambd``; see `gpugrad.softshrink`.

    Where the magnitude of ``x`` is at most ``lambd``, the result and the slope are 0. Elementwise,
    ``(...) -> (...)``.
    """

    lambd: float
    def __init__(self, lambd: float = 0.5) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Softsign(Module):
    """``x / (1 + abs(x))`` elementwise, ``(...) -> (...)``."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Tanh(Module):
    """Hyperbolic tangent elementwise, ``(...) -> (...)``."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Tanhshrink(Module):
    """``x - tanh(x)`` elementwise, ``(...) -> (...)``."""
    def __init__(self) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Threshold(Module):
    """``x`` where it is above ``threshold``, else ``value``; see `functional.threshold`.

    Elementwise, ``(...) -> (...)``.
    """

    threshold: float
    value: float
    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class TripletMarginLoss(Module):
    """Draws vectors nearer to one than to another; see `functional.triplet_margin_loss`.

    The loss is ``max(d(anchor, positive) - d(anchor, negative) + margin, 0)``.

    ``anchor (n, d), positive (n, d), negative (n, d) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(n,)``.
    """

    margin: float
    p: float
    eps: float
    swap: bool
    reduction: str
    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-06,
        swap: bool = False,
        *,
        reduction: str = "mean",
    ) -> None: ...
    def forward(self, anchor: Tensor, positive: Any, negative: Any) -> Tensor: ...

class Unfold(Module):
    """All windows of images as columns; see `functional.unfold`.

    ``(n, channels, height, width) -> (n, channels * taps, windows)``, or both without the first
    axis, where taps is the product of the ``kernel_size`` along both axes.
    """

    kernel_size: int | Sequence[int]
    dilation: int | Sequence[int]
    padding: int | Sequence[int]
    stride: int | Sequence[int]
    def __init__(
        self,
        kernel_size: int | Sequence[int],
        dilation: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        stride: int | Sequence[int] = 1,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...

class Upsample(Module):
    """Resample images to another size; see `functional.interpolate`, also for the parameters.

    ``(n, channels, *lengths) -> (n, channels, *size)``, where the default of ``size`` is
    ``lengths * scale_factor``, rounded down.
    """

    size: int | Sequence[int] | None
    scale_factor: float | Sequence[float] | None
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None
    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None: ...
    def forward(self, input: Tensor) -> Tensor: ...
