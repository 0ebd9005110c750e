"""SciPy's generic functions on Tensors: values equal NumPy's, gradients equal differences."""

import warnings

import array_api_compat.numpy
import numpy as np
import pytest
from oracle import check_gradients, is_inexact
from scipy_cases import CASES, NUMBERS, RANKS, Fixed

import gpugrad


def run(case, inputs, xp):
    """Return SciPy's results for these inputs; ``xp`` is for functions that take only numbers."""
    # There are warnings about small samples and the like.
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        return case(*inputs, **({"xp": xp} if case.why == NUMBERS else {}))


def numpy_inputs(case):
    """Return the inputs as NumPy arrays."""
    return [x.values if isinstance(x, Fixed) else x for x in case.inputs]


def assert_values(case, actual, expected):
    # For numbers and ranks, SciPy makes arrays with the library's default dtype, float32.
    default_dtype = case.why in (NUMBERS, RANKS)
    for x, y in zip(actual, expected, strict=True):
        x, y = np.asarray(x.detach() if isinstance(x, gpugrad.Tensor) else x), np.asarray(y)
        assert x.shape == y.shape
        assert x.dtype.kind == y.dtype.kind if default_dtype else x.dtype == y.dtype
        rtol = 1e-6 if default_dtype else 1e-10
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if not case.error], ids=repr)
def test_value_and_gradient(case):
    def on_numpy(*arrays):
        return run(case, arrays, array_api_compat.numpy)

    arrays = numpy_inputs(case)
    tensors = [
        gpugrad.tensor(x, requires_grad=not isinstance(given, Fixed) and is_inexact(x))
        for x, given in zip(arrays, case.inputs, strict=True)
    ]
    expected, actual = on_numpy(*arrays), run(case, tensors, gpugrad)
    assert_values(case, actual, expected)
    for d in check_gradients(on_numpy, arrays, expected, tensors, actual, rtol=1e-6, atol=1e-8):
        assert np.any(np.abs(d) > 1e-6) == (case.why is None)


@pytest.mark.parametrize("case", [case for case in CASES if case.error], ids=repr)
def test_rejected(case):
    kind, words = case.error
    tensors = [gpugrad.tensor(x, requires_grad=True) for x in numpy_inputs(case)]
    with pytest.raises(kind, match=words):
        run(case, tensors, gpugrad)
