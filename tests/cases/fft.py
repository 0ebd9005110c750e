"""Discrete Fourier transforms."""

from itertools import product
from operator import attrgetter

from .base import A, Case, S, beyond, each, of_shapes

NORMS = "backward", "ortho", "forward"


def along_axis(*, half=False):
    """Samples of transforms along one axis; half a spectrum of one element needs ``n``."""
    return [
        *of_shapes([(6,)], [(5,)], [(2,)]), S(A(1), n=1) if half else S(A(1)),
        S(A(2, 3, 4), axis=1), S(A(2, 3, 4), axis=-2, n=5), *beyond("torch", S(A(0, 3))),
        *each("n", {(5,): [1, 2, 3, 4, 7, 8, 9, 12], (1,): [4]}),
        *each("n norm", {(2, 4): product((None, 1, 3, 4), NORMS)}, axis=0),
    ]  # fmt: skip


def along_axes():
    return [
        *of_shapes([(2, 3)], [(5,)]), *each("axes", {(3, 2, 4): [(0, 2), (-1, 1), [1]]}),
        *each("s axes", {(3, 2, 4): [((4, 3), (0, 1)), ((2, 5), (2, 0))]}),
        *each("s axes", {(3, 4): [([-1, 3], [1, 0]), ((2, 6), (0, -1)), ((1, 1), (0, 1))]}),
        *each("norm", {(3, 4): NORMS}), *each("norm", {(3, 4): NORMS}, s=(4, 3), axes=(0, 1)),
        *beyond("torch", S(A(0, 2, 3), axes=(1, 2))),
    ]  # fmt: skip


def shift_samples():
    return [
        *of_shapes([(6,)], [(5,)], [(1,)], [(2, 3)], [(0, 3)]),
        *each("axes", {(2, 3, 4): [1, -1], (2, 3, 5): [(0, 2)]}),
    ]


def _case(name, samples, axis, *, complex):
    """Return a case whose axes are called ``axis`` here, and ``dim`` in PyTorch."""
    name = f"fft.{name}"

    def torch(torch, x, **static):
        dim = {"dim": static.pop(axis)} if axis in static else {}
        return attrgetter(name)(torch)(x, **dim, **static)

    return Case(name, samples, torch=torch, complex=complex, relative_to="array")


def one_axis(name, *, complex=True, half=False):
    return _case(name, along_axis(half=half), "axis", complex=complex)


def several_axes(name, *, complex=True):
    return _case(name, along_axes(), "axes", complex=complex)


CASES = [
    one_axis("fft"), one_axis("ifft"), several_axes("fftn"), several_axes("ifftn"),
    one_axis("rfft", complex=False), one_axis("irfft", half=True),
    several_axes("rfftn", complex=False), several_axes("irfftn"), one_axis("hfft", half=True),
    one_axis("ihfft", complex=False),
    *(
        Case(name, shift_samples(),
             torch=lambda torch, x, *, axes=None, name=name: attrgetter(name)(torch)(x, axes),
             complex=True)
        for name in ("fft.fftshift", "fft.ifftshift")
    ),
]  # fmt: skip
