"""Compare a library's results on Tensors with its results on NumPy arrays."""

import numpy as np

import gpugrad
from gpugrad.testing import assert_close

STEP = 1e-4


def check(function, *arrays, rtol=1e-10, tolerance=1e-6):
    """Assert that ``function`` gives the same values on Tensors as on NumPy arrays, with a graph.

    Its gradients must equal differences of it on NumPy arrays.

    function: takes arrays and returns an array or a tuple of arrays.
    tolerance: absolute and relative, for gradients.
    """
    varied = [i for i, x in enumerate(arrays) if is_inexact(x)]
    tensors = [gpugrad.tensor(x, requires_grad=i in varied) for i, x in enumerate(arrays)]
    expected = _several(function(*arrays))
    results = _several(function(*tensors))
    assert len(results) == len(expected)
    for y, e in zip(results, expected, strict=True):
        assert type(y) is gpugrad.Tensor
        assert y.requires_grad
        assert_close(y, e, rtol=rtol, atol=rtol)
    weights = random_like(expected)
    leaves = [tensors[i] for i in varied]
    gradients = gpugrad.autograd.grad(results, leaves, weights, materialize_grads=True)
    expected = differences(lambda *arrays: _several(function(*arrays)), arrays, varied, weights)
    for g, d in zip(gradients, expected, strict=True):
        assert_close(g, d, rtol=tolerance, atol=tolerance)


def _several(result):
    return result if isinstance(result, (tuple, list)) else [result]


def is_inexact(x):
    return np.asarray(x).dtype.kind in "fc"


def random_like(arrays):
    """Return cotangents for arrays, the same at every call."""
    rng = np.random.default_rng(100)
    return [np.asarray(rng.normal(size=np.shape(y)), np.asarray(y).dtype) for y in arrays]


def differences(function, arrays, varied, weights):
    """Return gradients of the weighted sum of the results, by fourth-order differences.

    function: takes NumPy arrays and returns a sequence of them.
    varied: the positions of the arrays to differentiate with respect to. The gradient for a
        complex array is dL/dx + i dL/dy, where L is the real part of the sum.
    """

    def loss(i, x):
        results = function(*arrays[:i], x, *arrays[i + 1 :])
        return sum(np.sum(np.conj(w) * y).real for w, y in zip(weights, results, strict=True))

    gradients = []
    for i in varied:
        gradient = np.zeros_like(arrays[i])
        for at in np.ndindex(gradient.shape):
            for unit in (1, 1j) if gradient.dtype.kind == "c" else (1,):
                for steps, factor in (-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12):
                    moved = arrays[i].copy()
                    moved[at] += steps * STEP * unit
                    gradient[at] += factor / STEP * loss(i, moved) * unit
        gradients.append(gradient)
    return gradients
