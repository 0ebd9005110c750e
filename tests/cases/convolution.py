"""Convolution and its gradients."""

import numpy as np

from .base import A, Case, S
from .draws import integers
from .kinds import beyond, unlike_torch
from .windows import cropped, over_windows, torch_padded, windows


def _convolution(x, weight, bias=None, *, groups=1, **options):
    out = np.concatenate([
        _one_group(part, filters, **options)
        for part, filters in zip(np.split(x, groups, 1), np.split(weight, groups), strict=True)
    ], 1)  # fmt: skip
    if bias is not None:
        out = out + bias.reshape(-1, *[1] * (x.ndim - 2))
    return out


def _one_group(x, weight, **options):
    columns = over_windows(lambda w: w, x, weight.shape[2:], **options)
    n, channels, taps = columns.shape[:3]
    columns = columns.reshape(n, channels * taps, *columns.shape[3:])
    return np.moveaxis(np.tensordot(weight.reshape(len(weight), -1), columns, (1, 1)), 0, 1)


def _convolution_input(g, weight, *, shape, groups=1, **options):
    parts = []
    for cotangent, filters in zip(np.split(g, groups, 1), np.split(weight, groups), strict=True):
        dtype = np.result_type(g, weight)
        zeros = np.zeros((len(g), weight.shape[1], *shape), dtype)
        out, *found = windows(zeros, weight.shape[2:], **options)
        for i, w in found:
            w += np.tensordot(cotangent[(..., *i)], filters, (1, 0))
        parts.append(cropped(out, shape, options.get("padding", 0)))
    return np.concatenate(parts, 1)


def _convolution_weight(g, x, *, shape, groups=1, **options):
    parts = []
    for cotangent, part in zip(np.split(g, groups, 1), np.split(x, groups, 1), strict=True):
        _, *found = windows(part, shape, **options)
        parts.append(sum(np.tensordot(cotangent[(..., *i)], w, (0, 0)) for i, w in found))
    return np.concatenate(parts)


def _torch_convolution(torch, x, weight, bias=None, *, padding=0, **options):
    n = x.ndim - 2
    x = torch_padded(torch, x, padding, n)
    return getattr(torch.nn.functional, f"conv{n}d")(x, weight, bias, **options)


def _sized(n):
    """Images with about ``n`` elements, a weight, and the lengths of the axes of an image."""
    channels = 4 if n >= 256 else 1
    side = 8 if n >= 256 else round(n**0.5)
    images = A(n // (channels * side * side), channels, side, side)
    return images, A(channels, channels, 3, 3), (side, side)


def _sized_convolution(n):
    images, weight, _ = _sized(n)
    return S(images, weight, A(weight.shape[0]), padding=1)


def _sized_convolution_input(n):
    images, weight, shape = _sized(n)
    return S(images, weight, shape=shape, padding=1)


def _sized_convolution_weight(n):
    images, *_ = _sized(n)
    return S(images, images, shape=(3, 3), padding=1)


CASES = [
    Case("convolution", [
        S(A(2, 1, 2, 2), A(2, 1, 2, 2), A(2), padding=(1, 0)),
        S(A(1, 2, 3, 2), A(2, 1, 2, 2), stride=(2, 1), padding=((0, 1), (1, 0)), groups=2),
        S(A(1, 2, 5), A(2, 2, 2), None, stride=2, dilation=3), S(A(2, 2, 2), A(3, 2, 1), A(3)),
        S(A(1, 1, 2, 1, 2), A(1, 1, 2, 1, 1)), S(A(0, 2, 3), A(2, 2, 2), A(2)),
        *unlike_torch("PyTorch's result for no channels has none either",
                      S(A(2, 0, 3), A(2, 0, 2), A(2))),
        S(A(1, 1, 3, 2, layout="transposed"), A(2, 1, 2, 1, layout="reversed")),
        S(A(1, 2, 4, draw=integers(0, 5)), A(1, 2, 2, dtype="float32")),
        *beyond(
            "torch",  # PyTorch's convolution requires one dtype
            S(A(1, 2, 4, dtype="float32"), A(1, 2, 2, dtype="float64")),
        ),
    ], _convolution, _torch_convolution, complex=True, relative_to="array",
         sized=_sized_convolution),
    Case("convolution_input", [
        S(A(2, 1, 2, 2), A(1, 2, 2, 1), shape=(1, 2), padding=((1, 1), (0, 0))),
        S(A(1, 2, 2, 2), A(2, 1, 1, 2), shape=(3, 1), stride=(2, 1), padding=(0, 1), groups=2),
        S(A(1, 3, 2), A(3, 2, 2), shape=(6,), stride=(2,), dilation=(3,)),
        S(A(1, 5, 1), A(5, 1, 2), shape=(2,)), S(A(0, 2, 2), A(2, 2, 2), shape=(3,)),
    ], _convolution_input, complex=True, relative_to="array", sized=_sized_convolution_input),
    Case("convolution_weight", [
        S(A(2, 2, 2, 2), A(2, 1, 1, 2), shape=(2, 1), padding=((1, 1), (0, 0))),
        S(A(1, 2, 2, 1), A(1, 2, 3, 2), shape=(1, 2), stride=(2, 1), groups=2),
        S(A(1, 2, 2), A(1, 2, 6), shape=(2,), stride=(2,), dilation=(3,)),
        S(A(0, 2, 2), A(0, 2, 3), shape=(2,)),
    ], _convolution_weight, complex=True, relative_to="array", sized=_sized_convolution_weight),
]  # fmt: skip
