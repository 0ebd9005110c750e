"""Normalization layers, with PyTorch's parameter names, shapes and initial values."""

from collections.abc import Sequence
from typing import Any

from .._arguments import require, whole
from .._creation import ones, zeros
from .._tensor import Tensor
from ..backends import as_shape
from ..backends.dtypes import int64
from . import functional
from .common import LENGTHS, shape_of, with_examples
from .computations import _counted_batch_norm
from .function_layer import OfAxes
from .module import Module, Parameter, overwrite


class LayerNorm(Module):
    """Normalize the last axes to mean 0 and variance 1, then scale and shift elementwise.

    ``(input - mean) / sqrt(var + eps) * weight + bias``, with the mean and the biased variance over
    these axes: ``(..., *normalized_shape) -> (..., *normalized_shape)``.

    normalized_shape: the lengths of these axes; an int for one axis.
    eps: added to the variance.
    elementwise_affine: whether to have a weight, initially ones, and a bias, initially zeros,
        both of shape ``normalized_shape``.
    bias: if False, there is only the weight.
    dtype, device: of the weight and the bias; by default float32 on the CPU.
    """

    _shown = "normalized_shape", "eps=", "elementwise_affine=", "bias="

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: str | None = None,
    ) -> None:
        self.normalized_shape = _lengths("LayerNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape, has_bias = self.normalized_shape, elementwise_affine and bias
        self.weight = _filled(elementwise_affine, ones, shape, dtype, device)
        self.bias = _filled(has_bias, zeros, shape, dtype, device)

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


def _filled(is_there, values, shape, dtype, device):
    return Parameter(values(shape, dtype=dtype, device=device)) if is_there else None


def _lengths(name, normalized_shape):
    """``normalized_shape``, an int or a sequence of ints, as a tuple of at least one length."""
    shape = as_shape(normalized_shape)
    require(shape, f"{name}: normalized_shape must name at least one axis", normalized_shape)
    return tuple([whole(f"{name}: normalized_shape", n, 1) for n in shape])


class _WithStatistics(OfAxes):
    """A layer that may have a weight and a bias for each channel, and running statistics."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _shown = "num_features", "eps=", "momentum=", "affine=", "bias=", "track_running_stats="

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, *, bias: bool = True,
        dtype: Any = None, device: str | None = None,
    ) -> None:  # fmt: skip
        self.num_features = whole(f"{type(self).__name__}: num_features", num_features, 1)
        self.eps = eps
        self.momentum: Any = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self.weight = _filled(affine, ones, num_features, dtype, device)
        self.bias = _filled(affine and bias, zeros, num_features, dtype, device)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, dtype=dtype, device=device))
            self.register_buffer("running_var", ones(num_features, dtype=dtype, device=device))
            self.register_buffer("num_batches_tracked", zeros((), dtype=int64, device=device))
        else:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def reset_running_stats(self) -> None:
        """Reset the running statistics, as if no batch had been seen."""
        if self.track_running_stats:
            overwrite(self.running_mean, 0)
            overwrite(self.running_var, 1)
            overwrite(self.num_batches_tracked, 0)


class _BatchNorm(_WithStatistics):
    """Base class of the layers of batch normalization; `BatchNorm1d` describes the parameters."""

    def _check(self, input):
        n, channels, shape = self.axes, self.num_features, shape_of(type(self).__name__, input)
        ndims = (2, 3) if n == 1 else (n + 2,)
        if len(shape) not in ndims or shape[1] != channels:
            axes = f"(n, {channels}) or " * (n == 1) + f"(n, {channels}, {LENGTHS[n]})"
            raise ValueError(f"{type(self).__name__}: the input must be {axes}, not {shape}")

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        count, trains = self.num_batches_tracked, self.running_mean is None
        given = input, (self.running_mean, self.running_var), (self.weight, self.bias)
        if not self.training or count is None:
            return _counted_batch_norm(*given, trains, 0.0, self.eps)
        return _counted_batch_norm(*given, True, self._momentum_now(), self.eps, count)

    def _momentum_now(self):
        if self.momentum is not None:
            return self.momentum
        # A tensor, because reading the count's value would wait for the device.
        return 1 / (self.num_batches_tracked + 1).to(self.running_mean)


class BatchNorm1d(_BatchNorm, axes=1):
    """Normalize each channel to mean 0 and variance 1 over the batch, then scale and shift.

    ``(n, channels) -> (n, channels)``, ``(n, channels, length) -> (n, channels, length)``. The
    formula is ``(input - mean) / sqrt(var + eps) * weight + bias``.

    num_features: the number of channels.
    eps: added to the variance.
    momentum: the weight of a batch's statistics in the running statistics; None to average all
        batches equally.
    affine: whether to have a weight, initially ones, and a bias, initially zeros.
    track_running_stats: whether to have the buffers ``running_mean`` and ``running_var``, the
        mean and unbiased variance of the batches seen in training, and ``num_batches_tracked``.
        In `eval` mode the layer normalizes by them; without them, always by the batch's own
        statistics.
    bias: if False, there is at most the weight.
    dtype, device: of the parameters and buffers, though the count stays int64; by default
        float32 on the CPU.

    The layer writes to its buffers only in training; see `functional.batch_norm`, also for
    `checkpoint` and `vmap`. In a `functional_call` it writes to the buffers that the call gives,
    and to its own if the call does not replace them.
    """


class BatchNorm2d(_BatchNorm, axes=2):
    """`BatchNorm1d` for images, ``(n, channels, height, width)``, also the shape of the result."""


class BatchNorm3d(_BatchNorm, axes=3):
    """`BatchNorm1d` for ``(n, channels, depth, height, width)``, also the shape of the result."""


class GroupNorm(Module):
    """Normalize groups of channels to mean 0 and variance 1, then scale and shift each channel.

    ``(input - mean) / sqrt(var + eps) * weight + bias``:
    ``(n, channels, ...) -> (n, channels, ...)``.

    num_groups: into how many groups of equal size the channels of an example are split.
    num_channels: the number of channels.
    eps: added to the variance.
    affine: whether to have a weight, initially ones, and a bias, initially zeros, both
        ``(num_channels,)``.
    bias: if False, there is at most the weight.
    dtype, device: of the weight and the bias; by default float32 on the CPU.
    """

    _shown = "num_groups", "num_channels", "eps=", "affine=", "bias="

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, *,
        bias: bool = True, dtype: Any = None, device: str | None = None,
    ) -> None:  # fmt: skip
        self.num_groups = whole("GroupNorm: num_groups", num_groups, 1)
        self.num_channels = whole("GroupNorm: num_channels", num_channels, 1)
        what = f"GroupNorm: num_channels must be a multiple of num_groups {num_groups}"
        require(num_channels % num_groups == 0, what, num_channels)
        self.eps = eps
        self.affine = affine
        self.weight = _filled(affine, ones, num_channels, dtype, device)
        self.bias = _filled(affine and bias, zeros, num_channels, dtype, device)

    def forward(self, input: Tensor) -> Tensor:
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Divide by the root mean square over the last axes, then scale elementwise.

    ``input / sqrt(mean(input**2) + eps) * weight``:
    ``(..., *normalized_shape) -> (..., *normalized_shape)``.

    normalized_shape: the lengths of these axes; an int for one axis.
    eps: added to the mean square; by default the distance from 1 to the next number of the
        input's dtype.
    elementwise_affine: whether to have a weight ``normalized_shape``, initially ones.
    dtype, device: of the weight; by default float32 on the CPU.
    """

    _shown = "normalized_shape", "eps=", "elementwise_affine="

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = None,
        device: str | None = None,
    ) -> None:
        self.normalized_shape = _lengths("RMSNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.weight = _filled(elementwise_affine, ones, self.normalized_shape, dtype, device)

    def forward(self, input: Tensor) -> Tensor:
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class _InstanceNorm(_WithStatistics):
    """Base class of the layers of instance normalization."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, *, bias: bool = True, dtype: Any = None,
        device: str | None = None,
    ) -> None:  # fmt: skip
        options: Any = {"bias": bias, "dtype": dtype, "device": device}
        super().__init__(num_features, eps, momentum, affine, track_running_stats, **options)

    def forward(self, input: Tensor) -> Tensor:
        n = self.axes
        examples, is_single = with_examples(type(self).__name__, input, n, self.num_features)
        given = examples, self.running_mean, self.running_var, self.weight, self.bias
        use_input_stats = self.training or self.running_mean is None
        out = functional.instance_norm(*given, use_input_stats, self.momentum, self.eps)
        return out.reshape(input.shape) if is_single else out


class InstanceNorm1d(_InstanceNorm, axes=1):
    """Normalize each channel of each example to mean 0 and variance 1.

    ``(n, channels, length) -> (n, channels, length)``, or both without the first axis. The formula
    is ``(input - mean) / sqrt(var + eps) * weight + bias``.

    num_features: the number of channels.
    eps: added to the variance.
    momentum: the weight of a batch's statistics in the running statistics.
    affine: whether to have a weight, initially ones, and a bias, initially zeros.
    track_running_stats: whether to have the buffers ``running_mean`` and ``running_var``, averages
        of the examples' mean and unbiased variance, by which the layer normalizes in `eval` mode.
        A third buffer, ``num_batches_tracked``, stays 0, as in PyTorch.
    bias: if False, there is at most the weight.
    dtype, device: of the parameters and buffers, though the count is int64; by default
        float32 on the CPU.

    See `functional.instance_norm` for `checkpoint` and `vmap`.
    (Ulyanov, Vedaldi and Lempitsky 2016, "Instance normalization")
    """


class InstanceNorm2d(_InstanceNorm, axes=2):
    """Normalize each channel of each example to mean 0 and variance 1.

    ``(n, channels, height, width) -> (n, channels, height, width)``, or both without the first
    axis. The arguments are those of `InstanceNorm1d`.
    """


class InstanceNorm3d(_InstanceNorm, axes=3):
    """`InstanceNorm1d` for ``(n, channels, depth, height, width)``, also the shape of the result.

    The input may lack its first axis.
    """
