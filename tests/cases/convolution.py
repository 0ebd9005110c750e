"""Convolution and its gradients."""

import numpy as np

from .base import A, Case, F, S, Z, beyond, unlike_torch
from .windows import add_at_windows, torch_padded, windows


def _by_group(function, groups, *split, axis=1):
    """Return the results for each group, side by side; split: arrays and axes of channels."""
    parts = zip(*(np.split(x, groups, at) for x, at in split), strict=True)
    return np.concatenate([function(*part) for part in parts], axis)


def _convolution(x, weight, bias=None, *, groups=1, **options):
    n = x.ndim - 2

    def convolve(x, weight):
        _, view = windows(x, weight.shape[2:], **options)
        taps = range(-n, 0)
        return np.moveaxis(np.tensordot(view, weight, [(1, *taps), (1, *taps)]), -1, 1)

    out = _by_group(convolve, groups, (x, 1), (weight, 0))
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def _convolution_input(g, weight, *, shape, groups=1, **options):
    def transposed(g, weight):
        values = np.moveaxis(np.tensordot(g, weight, (1, 0)), -1 - len(shape), 1)
        return add_at_windows(values, shape, **options)

    return _by_group(transposed, groups, (g, 1), (weight, 0))


def _convolution_weight(g, x, *, shape, groups=1, **options):
    axes = 0, *range(2, x.ndim)

    def correlate(g, x):
        return np.tensordot(g, windows(x, shape, **options)[1], (axes, axes))

    return _by_group(correlate, groups, (g, 1), (x, 1), axis=0)


def _torch_convolution(torch, x, weight, bias=None, *, padding=0, **options):
    n = x.ndim - 2
    x = torch_padded(torch, x, padding, n)
    return getattr(torch.nn.functional, f"conv{n}d")(x, weight, bias, **options)


def _sized(make):
    """Return ``make`` of images with about ``n`` elements and of a weight, as a function of n."""

    def sized(n):
        channels, side = (4, 8) if n >= 256 else (1, round(n**0.5))
        images = A(n // (channels * side * side), channels, side, side)
        return make(images, A(channels, channels, 3, 3))

    return sized


CASES = [
    Case("convolution", [
        S(A(2, 1, 2, 2), A(2, 1, 2, 2), A(2), padding=(1, 0)),
        S(A(1, 2, 3, 2), A(2, 1, 2, 2), stride=(2, 1), padding=((0, 1), (1, 0)), groups=2),
        S(A(1, 2, 5), A(2, 2, 2), None, stride=2, dilation=3), S(A(2, 2, 2), A(3, 2, 1), A(3)),
        S(A(1, 1, 2, 1, 2), A(1, 1, 2, 1, 1)), S(A(0, 2, 3), A(2, 2, 2), A(2)),
        *unlike_torch("PyTorch's result for no channels has none either",
                      S(A(2, 0, 3), A(2, 0, 2), A(2))),
        S(A(1, 1, 3, 2, layout="transposed"), A(2, 1, 2, 1, layout="reversed")),
        S(Z(1, 2, 4), F(1, 2, 2)),
        # PyTorch's convolution requires one dtype.
        *beyond("torch", S(F(1, 2, 4), A(1, 2, 2, dtype="float64"))),
    ], _convolution, _torch_convolution, complex=True, relative_to="array",
         sized=_sized(lambda x, weight: S(x, weight, A(weight.shape[0]), padding=1))),
    Case("convolution_input", [
        S(A(2, 1, 2, 2), A(1, 2, 2, 1), shape=(1, 2), padding=((1, 1), (0, 0))),
        S(A(1, 2, 2, 2), A(2, 1, 1, 2), shape=(3, 1), stride=(2, 1), padding=(0, 1), groups=2),
        S(A(1, 3, 2), A(3, 2, 2), shape=(6,), stride=(2,), dilation=(3,)),
        S(A(1, 5, 1), A(5, 1, 2), shape=(2,)), S(A(0, 2, 2), A(2, 2, 2), shape=(3,)),
    ], _convolution_input, complex=True, relative_to="array",
         sized=_sized(lambda x, weight: S(x, weight, shape=x.shape[2:], padding=1))),
    Case("convolution_weight", [
        S(A(2, 2, 2, 2), A(2, 1, 1, 2), shape=(2, 1), padding=((1, 1), (0, 0))),
        S(A(1, 2, 2, 1), A(1, 2, 3, 2), shape=(1, 2), stride=(2, 1), groups=2),
        S(A(1, 2, 2), A(1, 2, 6), shape=(2,), stride=(2,), dilation=(3,)),
        S(A(0, 2, 2), A(0, 2, 3), shape=(2,)),
    ], _convolution_weight, complex=True, relative_to="array",
         sized=_sized(lambda x, _: S(x, x, shape=(3, 3), padding=1))),
]  # fmt: skip
