"""Normalization layers, with PyTorch's parameter names, shapes and initial values."""

from collections.abc import Callable, Sequence
from typing import Any

from .._arguments import whole
from .._draws import is_repeated
from ..backends import as_shape
from ..backends.dtypes import int64
from ..creation import ones, zeros
from ..tensor import Tensor
from . import functional
from .module import Module, Parameter, overwrite


class LayerNorm(Module):
    """The last axes less their mean and over their standard deviation, then scaled and shifted.

    normalized_shape: their lengths; an int for one axis.
    eps: what is added to the variance.
    elementwise_affine: whether there are a weight, of ones at first, and a bias, of zeros, of
        this shape.
    bias: if False, there is only the weight.
    dtype, device: of both; float32 on the CPU by default.
    """

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
        shape = as_shape(normalized_shape)
        if not shape:
            raise ValueError("LayerNorm: normalized_shape must name at least one axis")
        self.normalized_shape = tuple([whole("LayerNorm: normalized_shape", n, 1) for n in shape])
        self.eps = eps
        self.elementwise_affine = elementwise_affine

        def parameter(values: Callable[..., Tensor]) -> Parameter:
            return Parameter(values(self.normalized_shape, dtype=dtype, device=device))

        self.weight = parameter(ones) if elementwise_affine else None
        self.bias = parameter(zeros) if elementwise_affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class BatchNorm1d(Module):
    """Each channel less its mean and over its standard deviation, then scaled and shifted.

    ``(n, channels) -> (n, channels)``, ``(n, channels, length) -> (n, channels, length)``.

    num_features: how many channels there are.
    eps: what is added to the variance.
    momentum: the weight of a batch's statistics in the running ones; None for the mean of all
        batches.
    affine: whether there are a weight, of ones at first, and a bias, of zeros.
    track_running_stats: whether there are the buffers ``running_mean``, ``running_var``, the mean
        and the unbiased variance of the batches seen in training, and ``num_batches_tracked``.
        By these it normalizes in `eval`; without them always by the batch's own.
    dtype, device: of all but the count; float32 on the CPU by default.

    The buffers are written in training only; see `functional.batch_norm`, also for `checkpoint`
    and `vmap`. A `functional_call` writes those it is given, and the module's for the others.
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: Any = None,
        device: str | None = None,
    ) -> None:
        self.num_features = whole("BatchNorm1d: num_features", num_features, 1)
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats

        def filled(values):
            return values(self.num_features, dtype=dtype, device=device)

        self.weight = Parameter(filled(ones)) if affine else None
        self.bias = Parameter(filled(zeros)) if affine else None
        if track_running_stats:
            self.register_buffer("running_mean", filled(zeros))
            self.register_buffer("running_var", filled(ones))
            self.register_buffer("num_batches_tracked", zeros((), dtype=int64, device=device))
        else:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.track_running_stats:
            overwrite(self.running_mean, 0)
            overwrite(self.running_var, 1)
            overwrite(self.num_batches_tracked, 0)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (2, 3) or input.shape[1] != self.num_features:
            raise ValueError(
                f"BatchNorm1d: the input must be (n, {self.num_features}) or "
                f"(n, {self.num_features}, length), not {input.shape}"
            )
        mean, var = self.running_mean, self.running_var
        count: Any = self.num_batches_tracked
        if not self.training or count is None:
            return functional.batch_norm(
                input, mean, var, self.weight, self.bias, mean is None, 0.0, self.eps
            )
        momentum: Any = self.momentum
        if momentum is None:  # a tensor, as no step may wait for the count's value
            momentum = 1 / (count + 1).to(mean)
        out = functional.batch_norm(
            input, mean, var, self.weight, self.bias, True, momentum, self.eps
        )
        if not is_repeated():
            count += 1
        return out

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, track_running_stats={self.track_running_stats}"
        )
