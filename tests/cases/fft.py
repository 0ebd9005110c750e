"""Discrete Fourier transforms."""

from itertools import product

import numpy as np

from .base import LAYOUTS, A, Case, S, beyond

NORMS = "backward", "ortho", "forward"


def along_axis(*, half=False):
    """Samples of transforms along one axis; half a spectrum of one element needs ``n``."""
    return [
        S(A(6)),
        S(A(5)),
        S(A(1), n=1) if half else S(A(1)),
        S(A(2)),
        S(A(1), n=4),
        S(A(2, 3, 4), axis=1),
        S(A(2, 3, 4), axis=-2, n=5),
        *beyond("torch", S(A(0, 3))),
        *(S(A(5), n=n) for n in (1, 2, 3, 4, 7, 8, 9, 12)),
        *(S(A(2, 4), n=n, axis=0, norm=norm) for n, norm in product((None, 1, 3, 4), NORMS)),
        *(S(A(2, 4, layout=layout)) for layout in LAYOUTS),
    ]


def along_axes():
    return [
        S(A(2, 3)),
        S(A(5)),
        S(A(3, 2, 4), axes=(0, 2)),
        S(A(3, 2, 4), axes=(-1, 1)),
        S(A(3, 2, 4), axes=[1]),
        S(A(3, 2, 4), s=(4, 3), axes=(0, 1)),
        S(A(3, 2, 4), s=(2, 5), axes=(2, 0)),
        S(A(3, 4), s=[-1, 3], axes=[1, 0]),
        S(A(3, 4), s=(2, 6), axes=(0, -1)),
        S(A(3, 4), s=(1, 1), axes=(0, 1)),
        *(S(A(3, 4), norm=norm) for norm in NORMS),
        *(S(A(3, 4), s=(4, 3), axes=(0, 1), norm=norm) for norm in NORMS),
        *beyond("torch", S(A(0, 2, 3), axes=(1, 2))),
        *(S(A(2, 4, layout=layout)) for layout in LAYOUTS),
    ]


def shift_samples():
    return [
        S(A(6)),
        S(A(5)),
        S(A(1)),
        S(A(2, 3)),
        S(A(2, 3, 4), axes=1),
        S(A(2, 3, 4), axes=-1),
        S(A(2, 3, 5), axes=(0, 2)),
        S(A(0, 3)),
        *(S(A(3, 4, layout=layout)) for layout in LAYOUTS),
    ]


def one_axis(name, *, complex=True, half=False):
    def reference(x, *, n=None, axis=-1, norm="backward"):
        return getattr(np.fft, name)(x, n, axis, norm)

    def torch(torch, x, *, n=None, axis=-1, norm="backward"):
        return getattr(torch.fft, name)(x, n, axis, norm)

    samples = along_axis(half=half)
    return Case(f"fft.{name}", samples, reference, torch, complex=complex, relative_to="array")


def several_axes(name, *, complex=True):
    def reference(x, *, s=None, axes=None, norm="backward"):
        return getattr(np.fft, name)(x, s, axes, norm)

    def torch(torch, x, *, s=None, axes=None, norm="backward"):
        return getattr(torch.fft, name)(x, s, axes, norm)

    samples = along_axes()
    return Case(f"fft.{name}", samples, reference, torch, complex=complex, relative_to="array")


CASES = [
    one_axis("fft"),
    one_axis("ifft"),
    several_axes("fftn"),
    several_axes("ifftn"),
    one_axis("rfft", complex=False),
    one_axis("irfft", half=True),
    several_axes("rfftn", complex=False),
    several_axes("irfftn"),
    one_axis("hfft", half=True),
    one_axis("ihfft", complex=False),
    Case(
        "fft.fftshift",
        shift_samples(),
        lambda x, *, axes=None: np.fft.fftshift(x, axes),
        lambda torch, x, *, axes=None: torch.fft.fftshift(x, axes),
        complex=True,
    ),
    Case(
        "fft.ifftshift",
        shift_samples(),
        lambda x, *, axes=None: np.fft.ifftshift(x, axes),
        lambda torch, x, *, axes=None: torch.fft.ifftshift(x, axes),
        complex=True,
    ),
]
