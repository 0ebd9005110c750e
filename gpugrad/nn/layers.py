"""Layers with PyTorch's parameter names, shapes and initial values."""

import math
from typing import Any

from .._arguments import whole
from .._tensor import Tensor
from ..ops.neural import linear
from ..random import Generator, default_generator
from . import functional
from .module import Module, Parameter


class Linear(Module):
    """Affine map ``x @ weight.T + bias``: ``(..., in_features) -> (..., out_features)``.

    weight: ``(out_features, in_features)``, uniform within ``1 / sqrt(in_features)`` of 0.
    bias: ``(out_features,)``, with the same distribution; None if ``bias`` is False.
    dtype, device: of the weight and the bias; by default float32 on the CPU.
    generator: draws the initial values; by default the device's default generator.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: str | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.in_features = in_features = whole("Linear: in_features", in_features, 1)
        self.out_features = out_features = whole("Linear: out_features", out_features, 1)
        generator = generator or default_generator(device)
        # PyTorch's choice, kaiming_uniform_ with a=sqrt(5), gives the same bound.
        bound = 1 / math.sqrt(in_features)

        def parameter(*shape: int) -> Parameter:
            drawn = generator.uniform(shape, low=-bound, high=bound, dtype=dtype)
            return Parameter(drawn.to(device=device))

        self.weight = parameter(out_features, in_features)
        self.bias = parameter(out_features) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Dropout(Module):
    """In training, zero elements with probability ``p`` and scale the others by ``1 / (1 - p)``.

    generator: its next key decides which elements to zero; by default the generator of the
        input's device.
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        functional.check_probability("Dropout", p)
        self.p = p
        self.generator = generator

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout(input, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Merge the axes from ``start_dim`` to ``end_dim`` into one; by default all but the first."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return functional.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
