"""Errors about shapes have the same words in every array library."""

import numpy as np
import pytest

import gpugrad as gg

REDUCTIONS = "sum mean prod max min var std any all count_nonzero logsumexp argmax argmin".split()


def ones(library, shape):
    return library.tensor(np.ones(shape, np.float32))


@pytest.mark.parametrize(
    "shape1, shape2, message",
    [
        ((2, 3), (4, 5), r"^matmul: x1 \(2, 3\) and x2 \(4, 5\) do not align: 3 != 4; given"),
        ((3,), (4,), r"^matmul: x1 \(3,\) and x2 \(4,\) do not align: 3 != 4; given"),
        ((2, 3), (4,), r"^matmul: x1 \(2, 3\) and x2 \(4,\) do not align: 3 != 4; given"),
        ((), (3,), "^matmul: an operand without axes is not a matrix; use multiply; given"),
        (
            (2, 2, 3),
            (3, 3, 4),
            r"^matmul: the leading axes of x1 \(2, 2, 3\) and x2 \(3, 3, 4\) do not broadcast: 2",
        ),
    ],
)
def test_matmul(library, shape1, shape2, message):
    x1, x2 = ones(library, shape1), ones(library, shape2)
    with pytest.raises(ValueError, match=message):
        x1 @ x2


def test_vecdot(library):
    x1, x2 = ones(library, (2, 3)), ones(library, (2, 4))
    message = r"^vecdot: x1 \(2, 3\) and x2 \(2, 4\) do not align along axis -1: 3 != 4; given"
    with pytest.raises(ValueError, match=message):
        gg.vecdot(x1, x2)


def test_tensordot(library):
    x1, x2 = ones(library, (2, 3)), ones(library, (4, 5))
    message = r"^tensordot: x1 \(2, 3\) and x2 \(4, 5\) do not align along axes 1 and 0: 3 != 4"
    with pytest.raises(ValueError, match=message):
        gg.tensordot(x1, x2, axes=1)
    with pytest.raises(ValueError, match=r"^tensordot: axes 3 is not from 0 to 2; given"):
        gg.tensordot(x1, x2, axes=3)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_an_axis_of_a_0d_array(library, name, axis, keepdims):
    message = f"^{name}: axis {axis} is out of bounds for array of dimension 0; given"
    with pytest.raises(IndexError, match=message):
        getattr(gg, name)(ones(library, ()), axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("name", REDUCTIONS[:-2])
def test_no_axes_of_a_0d_array(library, name):
    getattr(gg, name)(ones(library, ()), axis=())
