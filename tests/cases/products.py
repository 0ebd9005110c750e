"""Products of matrices."""

import numpy as np

from .base import LAYOUTS, A, Case, S, integers


def _matmul_samples():
    shapes = [
        ((2, 3), (3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((1, 3), (3, 1)),
        ((2, 1), (1, 3)),
        ((2, 2, 3), (3, 4)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 4)),
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((1, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (1, 3, 2)),
        ((1, 1), (1, 1)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
        ((0, 2, 3), (3, 2)),
        ((2, 2, 3), (3, 0)),
        ((2, 2, 0), (0, 2)),
        ((2, 0, 3), (3, 2)),
        ((0,), (0,)),
        ((0,), (0, 2)),
        ((2, 0), (0,)),
    ]
    return [
        *(S(A(*s1), A(*s2)) for s1, s2 in shapes),
        *(S(A(2, 3, layout=layout), A(3, 2, layout="transposed")) for layout in LAYOUTS),
        S(A(2, 2, 3, layout="transposed"), A(3, 2, layout="reversed")),
        S(A(2, 3, dtype="float32"), A(3, 2, draw=integers(0, 5))),
    ]


CASES = [
    Case("matmul", _matmul_samples(), np.matmul, lambda torch, x1, x2: torch.matmul(x1, x2)),
    Case(
        "matrix_transpose",
        [S(A(2, 3)), S(A(2, 3, 4)), S(A(0, 3)), S(A(2, 3, layout="transposed"))],
        lambda x: np.swapaxes(x, -1, -2),
        lambda torch, x: x.mT,
    ),
]
