"""Lengths, distances and angles of vectors along an axis: functions and modules."""

from operator import index
from typing import Any

from .._creation import asarray
from .._dtypes import is_half
from .._limits import finfo
from .._tensor import Tensor
from ..autograd.casting import in_float32
from ..backends.dtypes import int64
from ..ops.elementwise import maximum, subtract
from ..ops.linalg import vector_norm
from ..ops.manipulation import astype, broadcast_shapes, broadcast_to
from ..ops.neural import one_hot as _one_hot
from .common import shape_of
from .function_layer import FunctionLayer


@in_float32
def normalize(
    input: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12
) -> Tensor:
    """``x / max(norm(x), eps)``, for norms of order ``p`` along the axis ``dim`` or several.

    ``(...) -> (...)``. A vector of zeros stays as it is. In float16, where ``eps`` would be 0, it
    is the smallest normal number.
    """
    norms = vector_norm(input, axis=dim, ord=p, keepdims=True)
    if is_half(norms.dtype):
        eps = max(eps, float(finfo(norms.dtype).smallest_normal))
    return input / maximum(norms, eps)


@in_float32
def cosine_similarity(x1: Tensor, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along ``dim``; each length is at least ``eps``.

    ``sum(x1 * x2) / (max(norm(x1), eps) * max(norm(x2), eps))``, of tensors that are broadcast
    together. The result lacks the axis: ``(n, d), (n, d) -> (n,)``.
    """
    shape = broadcast_shapes(shape_of("cosine_similarity", x1), asarray(x2).shape)
    x1, x2 = (broadcast_to(x, shape) for x in (x1, asarray(x2)))
    first, second = (normalize(x, 2.0, dim, eps) for x in (x1, x2))
    return (first * second).sum(axis=dim)


@in_float32
def pairwise_distance(
    x1: Tensor, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The norm of order ``p`` of ``x1 - x2 + eps`` along the last axis.

    ``(..., d), (..., d) -> (...)``; ``x1`` and ``x2`` are broadcast together.

    keepdim: whether the last axis stays, of length 1.
    """
    return vector_norm(subtract(x1, x2) + eps, axis=-1, ord=p, keepdims=keepdim)


def one_hot(tensor: Any, num_classes: int = -1) -> Tensor:
    """1 at the label and 0 elsewhere, along a new last axis of int64; see `gpugrad.one_hot`.

    tensor: labels, of integers, ``(...)``. The result is ``(..., num_classes)``.
    num_classes: how many there are; -1 reads the largest one.
    """
    labels = asarray(tensor)
    n = int(labels.max()) + 1 if num_classes == -1 else index(num_classes)
    return astype(_one_hot(labels, n), int64)


class _OfPairs(FunctionLayer):
    def forward(self, x1: Tensor, x2: Any) -> Tensor:  # type: ignore[override]
        return self.function(x1, x2, **self._kwargs())

    def extra_repr(self) -> str:
        return ""


class CosineSimilarity(_OfPairs, function=cosine_similarity):
    """The cosine of the angle between vectors; see `functional.cosine_similarity`.

    ``(n, d), (n, d) -> (n,)``: the axis ``dim`` of the vectors goes.
    """


class PairwiseDistance(_OfPairs, function=pairwise_distance):
    """The norm of ``x1 - x2 + eps`` of order ``p``; see `functional.pairwise_distance`.

    ``(..., d), (..., d) -> (...)``, or with ``keepdim`` ``(..., 1)``.
    """
