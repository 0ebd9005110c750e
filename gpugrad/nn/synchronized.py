"""Normalization by the statistics of all processes' batches."""

import math

from .._arguments import require
from .._creation import full_like
from .._draws import is_repeated
from .._dtypes import is_half
from .._processes import current
from .._processes.summing import sum_over_processes
from .._tensor import Tensor
from ..backends.dtypes import float32
from ..ops.elementwise import maximum, sqrt
from ..ops.manipulation import concat, reshape
from .computations import _track
from .hooks import _hooked_class
from .module import Module
from .normalization import _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """Batch normalization by the statistics of the parts of a batch that all processes have.

    ``(n, channels, ...) -> (n, channels, ...)``. ``n`` may differ between the processes.

    The parameters, the arguments and the buffers are those of `BatchNorm1d`. In training, all
    processes call the layer together. See `gpugrad.distributed`; with one process it computes what
    batch normalization does. 16-bit inputs are normalized in float32.

    Raises ValueError for inputs of fewer than two axes or with another number of channels, and with
    one process if a channel has one element in training.
    """

    def _check(self, input):
        shape, channels = input.shape, self.num_features
        fits = len(shape) > 1 and shape[1] == channels
        require(fits, f"SyncBatchNorm: the input must be (n, {channels}, ...)", shape)

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        self._check(input)
        alone = current().size == 1
        size = input.shape[0] * math.prod(input.shape[2:])
        if alone and size == 1:
            raise ValueError("SyncBatchNorm: in training each channel needs more than one element")
        axes = (0, *range(2, input.ndim))
        column = (self.num_features,) + (1,) * (input.ndim - 2)
        x = input.to(float32) if is_half(input.dtype) else input
        sums = x.sum(axis=axes)
        sums = sum_over_processes(concat([sums, full_like(sums[:1].detach(), size)]))
        count = maximum(sums[-1:].detach(), 1)
        mean = sums[:-1] / count
        centered = x - reshape(mean, column)
        var = sum_over_processes((centered * centered).sum(axis=axes)) / count
        scale = 1 / sqrt(var + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        out = centered * reshape(scale, column)
        if self.bias is not None:
            out = out + reshape(self.bias, column)
        if self.track_running_stats and not is_repeated() and not (alone and size == 0):
            unbiased = var.detach() * (count / maximum(count - 1, 1))
            running = self.running_mean, self.running_var
            statistics = mean.detach().to(running[0]), unbiased.to(running[1])
            factors, momentum, name = (1, 1), self._momentum_now(), type(self).__name__
            _track(running, statistics, factors, momentum, name, self.num_batches_tracked)
        return out.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module) -> Module:
        """Replace all layers of batch normalization in a module; returns the module.

        The new layers have the parameters, buffers and hooks of the old ones. If ``module`` itself
        is such a layer, a new one is returned.
        """
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            kind = _hooked_class(cls) if "_hooks" in vars(module) else cls
            new = kind.__new__(kind)
            vars(new).update(vars(module))
            return new
        for name, child in [*module.named_children()]:
            setattr(module, name, cls.convert_sync_batchnorm(child))
        return module
