"""Padding."""

from .base import A, Case, S, Z

CASES = [
    Case("pad", [
        S(A(2, 3), pad_width=1), S(A(2, 3), pad_width=((0, 2), (1, 0)), constant_values=1.5),
        S(Z(3), pad_width=(2, 1), constant_values=2), S(A(0), pad_width=2),
        S(A(2, 3), pad_width=0, mode="edge"), S(A(3, 2), pad_width=((0, 1), (2, 0)), mode="edge"),
        S(A(2, 3), pad_width=(5, 1), mode="reflect"), S(A(1), pad_width=2, mode="reflect"),
        S(A(3), pad_width=(1, 7), mode="symmetric"),
        S(A(2, 3), pad_width=((3, 0), (0, 1)), mode="wrap"),
    ], complex=True),
]  # fmt: skip
