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
    tensors = [gpugrad.tensor(x, requires_grad=is_inexact(x)) for x in arrays]
    expected, results = _several(function(*arrays)), _several(function(*tensors))
    for y, e in zip(results, expected, strict=True):
        assert type(y) is gpugrad.Tensor
        assert y.requires_grad
        assert_close(y, e, rtol=rtol, atol=rtol)
    check_gradients(function, arrays, expected, tensors, results, tolerance, tolerance)


def check_gradients(function, arrays, expected, tensors, results, rtol, atol):
    """Assert that gradients of ``results`` equal differences of ``function`` on NumPy arrays.

    expected: what ``function`` gives for ``arrays``; its integers and bools are left out.
    results: those for ``tensors``; what has no graph among them has gradient 0.
    Return the differences, one for each of the tensors that require grad.
    """
    inexact = [i for i, y in enumerate(expected) if is_inexact(y)]
    weights = random_like([expected[i] for i in inexact])
    pairs = [(results[i], w) for i, w in zip(inexact, weights, strict=True)]
    outputs = [(y, w) for y, w in pairs if getattr(y, "requires_grad", False)]
    varied = [i for i, x in enumerate(tensors) if x.requires_grad]
    gradients = gpugrad.autograd.grad(
        [y for y, _ in outputs], [tensors[i] for i in varied], [w for _, w in outputs],
        materialize_grads=True,
    )  # fmt: skip

    def on_numpy(*arrays):
        found = _several(function(*arrays))
        return [found[i] for i in inexact]

    slopes = differences(on_numpy, arrays, varied, weights)
    for g, d in zip(gradients, slopes, strict=True):
        assert_close(g, d, rtol=rtol, atol=atol)
    return slopes


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
