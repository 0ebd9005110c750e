"""Reductions."""

import numpy as np

import gpugrad

from .base import (
    A,
    Case,
    S,
    bools,
    distinct,
    inf,
    integers,
    kink,
    of_integers,
    over_no_axis,
    over_nothing,
    reduction,
    torch_axes,
    values,
)


def _logsumexp(x, *, axis=None, keepdims=False):
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


UNLIKE_TORCH_LOGSUMEXP = "PyTorch's gradient is nan where the result is infinite"


CASES = [
    # Reductions
    Case(
        "sum",
        [
            *reduction(),
            *over_nothing(),
            *over_no_axis(),
            S(A(2, 3, dtype="float32"), dtype=gpugrad.float64),
            S(A(2, 3, draw=integers(0, 5, "int32"))),
            S(A(2, 3, draw=integers(0, 5)), dtype=gpugrad.float32, axis=0),
            S(A(2, 3, dtype="float64"), dtype=gpugrad.float32),
        ],
        np.sum,
        torch_axes(lambda torch, x, dim, **static: torch.sum(x, dim, **static)),
    ),
    Case(
        "mean",
        [*reduction(), *over_nothing(), *over_no_axis(), *of_integers(axis=1)],
        np.mean,
        torch_axes(lambda torch, x, dim, **static: torch.mean(x, dim, **static)),
    ),
    Case(
        "var",
        [
            *reduction(),
            *reduction(axes=[None, -1, (0, 2)], correction=1)[:6],
            *over_no_axis(),
            *of_integers(axis=1),
        ],
        lambda x, *, axis=None, correction=0, keepdims=False: np.var(
            x, axis=axis, ddof=correction, keepdims=keepdims
        ),
        torch_axes(
            lambda torch, x, dim, correction=0, **static: torch.var(
                x, dim, correction=correction, **static
            )
        ),
    ),
    *(
        Case(
            name,
            [
                *reduction(distinct),
                *over_no_axis(),
                S(A(2, 3, draw=integers(0, 3)), axis=1),
                kink([sign * 1.0, sign * 3.0, sign * 3.0], gradients=([0.0, 0.5, 0.5],)),
                kink(
                    [[2.0, 2.0], [2.0, sign * 5.0]],
                    axis=(0, 1),
                    gradients=([[0.0, 0.0], [0.0, 1.0]],),
                ),
                kink(
                    [[2.0, 2.0], [2.0, sign * 5.0]],
                    axis=1,
                    keepdims=True,
                    gradients=([[0.5, 0.5], [0.0, 1.0]],),
                ),
                kink([sign * inf, sign * inf, 0.0], gradients=([0.5, 0.5, 0.0],)),
            ],
            getattr(np, name),
            torch_axes(
                lambda torch, x, dim, name=f"a{name}", **static: getattr(torch, name)(
                    x, dim, **static
                )
            ),
        )
        for name, sign in (("max", 1), ("min", -1))
    ),
    Case(
        "logsumexp",
        [
            *reduction(),
            kink([-inf, 1.0], gradients=([0.0, 1.0],)),
            kink([-inf, -inf], gradients=([0.0, 0.0],), unlike_torch=UNLIKE_TORCH_LOGSUMEXP),
            kink([inf, 1.0], gradients=([1.0, 0.0],), unlike_torch=UNLIKE_TORCH_LOGSUMEXP),
            kink(
                [[-inf, -inf], [0.0, -inf]],
                axis=1,
                keepdims=True,
                gradients=([[0.0, 0.0], [1.0, 0.0]],),
                unlike_torch=UNLIKE_TORCH_LOGSUMEXP,
            ),
        ],
        _logsumexp,
        torch_axes(lambda torch, x, dim, **static: torch.logsumexp(x, dim, **static)),
    ),
    *(
        Case(
            name,
            [
                *reduction(distinct, axes=[None, 0, 1, -1]),
                S(values([1, 3, 3, 1, 1, 3])),
            ],
            getattr(np, name),
            differentiable=False,
        )
        for name in ("argmax", "argmin")
    ),
    *(
        Case(
            name,
            [*reduction(bools), S(A(0, draw=bools)), S(A(0, 3, draw=bools), axis=0)],
            getattr(np, name),
            differentiable=False,
        )
        for name in ("all", "any")
    ),
]
