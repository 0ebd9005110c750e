"""Products of matrices and tensors."""

import math

from ..autograd.operation import op


@op
def matmul(xp, x1, x2):
    """Matrix product: ``(..., m, k) @ (..., k, n) -> (..., m, n)``.

    Leading axes broadcast. A 1-D first operand is a row, a 1-D second one a
    column, and that axis is missing from the result.
    """
    return xp.matmul(x1, x2)


def _matmul_x1(xp, g, x2, x1_shape):
    if len(x2.shape) == 1:  # (..., m), (k,) -> (..., m, k), or (), (k,) -> (k,)
        return (g if len(x1_shape) == 1 else xp.expand_dims(g, axis=-1)) * x2
    if len(x1_shape) == 1:  # (..., k, n), (..., n) -> (..., k)
        return xp.squeeze(xp.matmul(x2, xp.expand_dims(g, axis=-1)), axis=-1)
    return xp.matmul(g, xp.matrix_transpose(x2))


def _matmul_x2(xp, g, x1, x2_shape):
    if len(x1.shape) == 1:
        if len(x2_shape) == 1:
            return g * x1
        return xp.expand_dims(x1, axis=-1) * xp.expand_dims(g, axis=-2)
    if len(x2_shape) == 1:  # (..., m, k), (..., m) -> (..., k)
        return xp.squeeze(xp.matmul(xp.expand_dims(g, axis=-2), x1), axis=-2)
    if len(x2_shape) == 2 and len(x1.shape) > 2:
        # One product over all rows instead of one for each matrix and a sum.
        rows = math.prod(x1.shape[:-1])
        x1 = xp.reshape(x1, (rows, x1.shape[-1]))
        g = xp.reshape(g, (rows, g.shape[-1]))
    return xp.matmul(xp.matrix_transpose(x1), g)


matmul.vjp(x1=_matmul_x1, x2=_matmul_x2)


@op
def matrix_transpose(xp, x):
    """The last two axes swapped: ``(..., m, n) -> (..., n, m)``."""
    return xp.matrix_transpose(x)


matrix_transpose.vjp(x=lambda xp, g: xp.matrix_transpose(g))
