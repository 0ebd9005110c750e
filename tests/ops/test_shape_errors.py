"""Errors about shapes have the same words in every array library."""

from itertools import product

import numpy as np
import pytest
from samples import every

import gpugrad as gg

REDUCTIONS = "sum mean prod max min var std any all count_nonzero logsumexp argmax argmin".split()


def ones(library, shape):
    return library.tensor(np.ones(shape, np.float32))


ALIGN = [
    ("matmul", (2, 3), (4, 5), r"x1 \(2, 3\) and x2 \(4, 5\) do not align: 3 != 4; given"),
    ("matmul", (3,), (4,), r"x1 \(3,\) and x2 \(4,\) do not align: 3 != 4; given"),
    ("matmul", (2, 3), (4,), r"x1 \(2, 3\) and x2 \(4,\) do not align: 3 != 4; given"),
    ("matmul", (), (3,), "an operand without axes is not a matrix; use multiply; given"),
    ("matmul", (2, 2, 3), (3, 3, 4), r"the leading axes of .* do not broadcast: 2"),
    ("vecdot", (2, 3), (2, 4), r"x1 \(2, 3\) and .* do not align along axis -1: 3 != 4; given"),
    ("tensordot", (2, 3), (4, 5), r"x1 \(2, 3\) and .* do not align along axes 1 and 0: 3 != 4"),
]


@pytest.mark.parametrize("name, shape1, shape2, message", ALIGN)
def test_products(library, name, shape1, shape2, message):
    x1, x2 = ones(library, shape1), ones(library, shape2)
    static = {"axes": 1} if name == "tensordot" else {}
    with pytest.raises(ValueError, match=f"^{name}: {message}"):
        getattr(gg, name)(x1, x2, **static)


def test_too_many_axes_of_a_tensordot(library):
    x1, x2 = ones(library, (2, 3)), ones(library, (4, 5))
    with pytest.raises(ValueError, match=r"^tensordot: axes 3 is not from 0 to 2; given"):
        gg.tensordot(x1, x2, axes=3)


def test_axes_of_a_0d_array(library):
    x = ones(library, ())
    for (name, axis, keepdims), checked in every(product(REDUCTIONS, (0, -1), (False, True))):
        message = f"^{name}: axis {axis} is out of bounds for array of dimension 0; given"
        with checked, pytest.raises(IndexError, match=message):
            getattr(gg, name)(x, axis=axis, keepdims=keepdims)
    for name, checked in every(REDUCTIONS[:-2]):
        with checked:
            getattr(gg, name)(x, axis=())
