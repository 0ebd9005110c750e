"""Fourier transforms."""

import functools

import numpy as np

from ._wrapping import through

__all__ = (
    "fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq rfftn"
).split()
_kernel = through(np.fft)


def _nonempty(transform):
    """Make a transform along several axes refuse what CuPy's refuses or takes for a length."""

    @functools.wraps(transform)
    def call(a, s=None, axes=None, norm=None):
        if not a.size or (s is not None and min(s) < 1):
            raise ValueError(f"Invalid number of FFT data points in {a.shape}, {s}")
        return transform(a, s, axes, norm)

    return call


@_kernel
def fft(a, n=None, axis=-1, norm=None): ...
@_kernel
def ifft(a, n=None, axis=-1, norm=None): ...
@_nonempty
@_kernel
def fftn(a, s=None, axes=None, norm=None): ...
@_nonempty
@_kernel
def ifftn(a, s=None, axes=None, norm=None): ...
@_kernel
def rfft(a, n=None, axis=-1, norm=None): ...
@_kernel
def irfft(a, n=None, axis=-1, norm=None): ...
@_nonempty
@_kernel
def rfftn(a, s=None, axes=None, norm=None): ...
@_nonempty
@_kernel
def irfftn(a, s=None, axes=None, norm=None): ...
@_kernel
def hfft(a, n=None, axis=-1, norm=None): ...
@_kernel
def ihfft(a, n=None, axis=-1, norm=None): ...
@_kernel
def fftfreq(n, d=1.0): ...
@_kernel
def rfftfreq(n, d=1.0): ...
@_kernel
def fftshift(x, axes=None): ...
@_kernel
def ifftshift(x, axes=None): ...
