"""What a library makes of Tensors against what it makes of NumPy arrays."""

import numpy as np

import gpugrad
from gpugrad.testing import assert_close


def check(function, *arrays, rtol=1e-10, eps=1e-6, tolerance=1e-5):
    """Assert that ``function`` of Tensors gives the values that it gives of NumPy arrays, with
    a graph, and gradients that equal central differences of it on NumPy arrays.

    function: of arrays, to an array or a tuple of arrays.
    tolerance: of gradients, absolute and relative.
    """
    tensors = [gpugrad.tensor(x, requires_grad=x.dtype.kind == "f") for x in arrays]
    expected = _several(function(*arrays))
    results = _several(function(*tensors))
    assert len(results) == len(expected)
    rng = np.random.default_rng(0)
    weights = []
    for y, e in zip(results, expected, strict=True):
        assert type(y) is gpugrad.Tensor
        assert y.requires_grad
        assert_close(y, e, rtol=rtol, atol=rtol)
        weights.append(np.asarray(rng.standard_normal(y.shape)))
    leaves = [t for t in tensors if t.requires_grad]
    gradients = gpugrad.autograd.grad(results, leaves, weights, materialize_grads=True)
    given = [i for i, x in enumerate(arrays) if x.dtype.kind == "f"]
    for i, g in zip(given, gradients, strict=True):
        differences = np.zeros(arrays[i].shape)
        for at in np.ndindex(arrays[i].shape):
            sides = []
            for step in (eps, -eps):
                moved = arrays[i].copy()
                moved[at] += step
                values = _several(function(*arrays[:i], moved, *arrays[i + 1 :]))
                sides.append(sum((w * v).sum() for w, v in zip(weights, values, strict=True)))
            differences[at] = (sides[0] - sides[1]) / (2 * eps)
        assert_close(g, differences, rtol=tolerance, atol=tolerance)


def _several(result):
    return result if isinstance(result, (tuple, list)) else [result]
