"""Layers with PyTorch's parameter names, shapes and initial values."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

from .._arguments import one_of, require, whole
from .._creation import asarray
from .._tensor import Tensor
from ..ops.manipulation import reshape
from ..ops.neural import linear
from ..random import Generator, default_generator
from . import functional
from .common import check_probability, padding_row, shape_of
from .computations import _dropout
from .function_layer import FunctionLayer, OfAxes
from .init import uniform_parameters as _uniform
from .module import Module, Parameter


class Linear(Module):
    """Affine map ``x @ weight.T + bias``: ``(..., in_features) -> (..., out_features)``.

    weight: ``(out_features, in_features)``, uniform within ``1 / sqrt(in_features)`` of 0.
    bias: ``(out_features,)``, with the same distribution; None if ``bias`` is False.
    dtype, device: of the weight and the bias; by default float32 on the CPU.
    generator: draws the initial values; by default the device's default generator.
    """

    _shown = "in_features=", "out_features=", "bias="

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
        # PyTorch's choice, kaiming_uniform_ with a=sqrt(5), gives the same bound.
        parameter = _uniform(1 / math.sqrt(in_features), dtype, device, generator)
        self.weight = parameter(out_features, in_features)
        self.bias = parameter(out_features) if bias else None

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class Dropout(Module):
    """In training, zero elements with probability ``p`` and scale the others by ``1 / (1 - p)``.

    ``(...) -> (...)``. In `eval` mode the result is the input.

    inplace: ignored, since ops never write to their inputs.
    generator: its next key decides which elements to zero; by default the generator of the
        input's device.
    """

    _shown = ("p=",)

    def __init__(
        self, p: float = 0.5, inplace: bool = False, *, generator: Generator | None = None
    ) -> None:
        check_probability(type(self).__name__, p)
        self.p = p
        self.generator = generator

    def forward(self, input: Tensor) -> Tensor:
        return functional.dropout(input, self.p, self.training, generator=self.generator)


class _DropChannels(Dropout, OfAxes):
    def forward(self, input: Tensor) -> Tensor:
        name, options = type(self).__name__, (self.p, self.training)
        return _dropout(name, self.axes, input, *options, generator=self.generator)


class Dropout1d(_DropChannels, axes=1):
    """In training, zero channels of ``(n, channels, length)`` as a whole, as `Dropout` elements.

    ``(n, channels, length) -> (n, channels, length)``, or both without the first axis.
    """


class Dropout2d(_DropChannels, axes=2):
    """In training, zero channels of ``(n, channels, height, width)`` as a whole.

    The result has this shape too. The parameters are those of `Dropout`.
    """


class Dropout3d(_DropChannels, axes=3):
    """In training, zero channels of ``(n, channels, depth, height, width)`` as a whole.

    The result has this shape too. The input may lack its first axis. The parameters are those of
    `Dropout`.
    """


def _flatten(input: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    return functional.flatten(input, start_dim, end_dim)


class Flatten(FunctionLayer, function=_flatten):
    """Merge the axes from ``start_dim`` to ``end_dim`` into one; by default all but the first.

    By default ``(n, ...) -> (n, features)``, where the features are the product of the other
    lengths.
    """


class Unflatten(Module):
    """Split the axis ``dim`` into axes of the lengths ``unflattened_size``; undoes a `Flatten`.

    ``(..., length, ...) -> (..., *unflattened_size, ...)``.

    unflattened_size: ints; one may be -1, and is then inferred.

    Raises ValueError where the lengths do not multiply to that of the axis.
    """

    _shown = "dim=", "unflattened_size="

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an int, not {dim!r}; axes have no names")
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        shape, dim, sizes = shape_of("Unflatten", input), self.dim, self.unflattened_size
        if not -len(shape) <= dim < len(shape):
            raise ValueError(f"Unflatten: dim {dim} is not an axis of an input of shape {shape}")
        known = math.prod(n for n in sizes if n != -1)
        if -1 in sizes and known and shape[dim] % known == 0:
            sizes = tuple([shape[dim] // known if n == -1 else n for n in sizes])
        if math.prod(sizes) != shape[dim] or min(sizes, default=0) < 0:
            raise ValueError(
                f"Unflatten: the axis {dim} of an input of shape {shape} cannot be split into "
                f"lengths {self.unflattened_size}"
            )
        dim %= len(shape)
        return reshape(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))


class Identity(Module):
    """Returns its input, ``(...) -> (...)``.

    It takes and ignores any arguments, so that it can replace any layer.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, input: Tensor) -> Tensor:
        return input


class Bilinear(Module):
    """``x1 @ weight[k] @ x2 + bias[k]`` for each output k, where x1 and x2 are vectors.

    ``(..., in1_features), (..., in2_features) -> (..., out_features)``.

    weight: ``(out_features, in1_features, in2_features)``, uniform within
        ``1 / sqrt(in1_features)`` of 0.
    bias: ``(out_features,)``, with the same distribution; None if ``bias`` is False.
    dtype, device, generator: as for `Linear`.
    """

    _shown = "in1_features=", "in2_features=", "out_features=", "bias="

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, *,
        dtype: Any = None, device: str | None = None, generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.in1_features = in1_features = whole("Bilinear: in1_features", in1_features, 1)
        self.in2_features = in2_features = whole("Bilinear: in2_features", in2_features, 1)
        self.out_features = out_features = whole("Bilinear: out_features", out_features, 1)
        parameter = _uniform(1 / math.sqrt(in1_features), dtype, device, generator)
        self.weight = parameter(out_features, in1_features, in2_features)
        self.bias = parameter(out_features) if bias else None

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return functional.bilinear(input1, input2, self.weight, self.bias)


class Embedding(Module):
    """The rows of a table at integer indices: ``(...) -> (..., embedding_dim)``.

    weight: ``(num_embeddings, embedding_dim)``, at first from the standard normal distribution.
    padding_idx: a row that is at first 0 and gets no gradient; negative counts from the end.
    max_norm: must be None. To limit the norms of rows, write to the weight after each step.
    dtype, device, generator: as for `Linear`.
    """

    _shown: tuple[str, ...] = ("num_embeddings", "embedding_dim")
    _shown_unless: ClassVar = {"padding_idx": None}

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: None = None, *, dtype: Any = None, device: str | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.num_embeddings = whole(f"{name}: num_embeddings", num_embeddings, 1)
        self.embedding_dim = whole(f"{name}: embedding_dim", embedding_dim, 1)
        if max_norm is not None:
            raise ValueError(
                f"{name}: max_norm is not supported, because forward would "
                "overwrite the weight; limit the norms after each optimizer step instead, as in: "
                "with no_grad(): layer.weight[...] = layer.weight * limit / maximum(norms, limit)"
            )
        self.padding_idx = padding_idx = padding_row(name, padding_idx, num_embeddings)
        generator = generator or default_generator(device)
        drawn = generator.normal((num_embeddings, embedding_dim), dtype=dtype)
        if padding_idx is not None:
            drawn[padding_idx] = 0.0
        self.weight = Parameter(drawn.to(device=device))

    @classmethod
    def from_pretrained(
        cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None, **options: Any
    ) -> Self:
        """A layer with the weight ``embeddings``, ``(num_embeddings, embedding_dim)``.

        freeze: whether the weight is not trained.
        options: others of the class.
        """
        dtype, device = options.get("dtype"), options.get("device")
        embeddings = asarray(embeddings).to(device=device, dtype=dtype)
        what = f"{cls.__name__}.from_pretrained: embeddings must have shape (rows, d)"
        require(embeddings.ndim == 2, what, embeddings.shape)
        rows, width = embeddings.shape
        # With a generator of its own, so that the default one is not drawn from.
        options |= {"padding_idx": padding_idx, "generator": Generator(0)}
        layer = cls(rows, width, **options)
        layer.weight = Parameter(embeddings, requires_grad=not freeze)
        return layer

    def forward(self, input: Any) -> Tensor:
        return functional.embedding(input, self.weight, self.padding_idx)


class EmbeddingBag(Embedding):
    """The sum, mean or maximum of rows of a table: ``(bags, n) -> (bags, embedding_dim)``.

    Called with indices ``(bags, n)``, or with ``(n,)`` and ``offsets``, and perhaps with
    ``per_sample_weights``; see `functional.embedding_bag`.

    mode: ``"sum"``, ``"mean"`` or ``"max"``.
    include_last_offset, padding_idx: see `functional.embedding_bag`. All others are those of
        `Embedding`.
    """

    _shown = "num_embeddings", "embedding_dim", "mode="

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: None = None, *, mode: str = "mean",
        include_last_offset: bool = False, padding_idx: int | None = None, dtype: Any = None,
        device: str | None = None, generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.mode = one_of("EmbeddingBag: mode", mode, ("sum", "mean", "max"))
        self.include_last_offset = include_last_offset
        place: Any = {"dtype": dtype, "device": device, "generator": generator}
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, **place)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        options: Any = {"mode": self.mode, "include_last_offset": self.include_last_offset}
        options |= {"per_sample_weights": per_sample_weights, "padding_idx": self.padding_idx}
        return functional.embedding_bag(input, self.weight, offsets, **options)
