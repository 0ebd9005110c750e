"""array-api-extra on Tensors."""

import array_api_extra as xpx
import numpy as np
import pytest
from oracle import check

import gpugrad
from gpugrad.testing import assert_close

RNG = np.random.default_rng(0)
x, m, n = (RNG.standard_normal(shape) for shape in (5, (2, 3), (3, 2)))
positive = RNG.uniform(0.5, 2, 5)

CASES = {
    "atleast_nd": (lambda x: xpx.atleast_nd(x, ndim=3), x), "cov": (xpx.cov, m),
    "cov of a vector": (xpx.cov, x),
    "create_diagonal": (lambda x: xpx.create_diagonal(x, offset=1), x), "kron": (xpx.kron, m, n),
    "nan_to_num": (xpx.nan_to_num, x),
    "pad": (lambda m: xpx.pad(m, ((1, 0), (2, 1)), constant_values=3.0), m),
    "partition": (lambda x: xpx.partition(x, 2), x), "sinc": (xpx.sinc, x),
    "apply_where": (lambda x: xpx.apply_where(x > 0, x, lambda x: x**2, lambda x: x**3), x),
    "apply_where, filled": (lambda x: xpx.apply_where(x > 0, x, np.sqrt, fill_value=0.0), x),
    "at set": (lambda x: xpx.at(x)[1:3].set(x[:2], copy=True), x),
    "at add": (lambda x: xpx.at(x)[x > 0].add(2.0, copy=True), x),
    "at multiply": (lambda x: xpx.at(x)[::2].multiply(3.0, copy=True), x),
    "at divide": (lambda x, y: xpx.at(x)[1].divide(y[0], copy=True), x, positive),
    "at power": (lambda x: xpx.at(x)[1].power(2, copy=True), x),
    "at min": (lambda x: xpx.at(x)[:3].min(0.125, copy=True), x),
    "at set, in a result": (lambda x: xpx.at(x * x)[1:3].set(x[:2]), x),
    "at max": (lambda x: xpx.at(x)[:3].max(0.125, copy=True), x),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    function, *arrays = CASES[name]
    check(function, *arrays)


def test_without_gradient():
    labels = gpugrad.asarray([0, 2, 1])
    assert_close(xpx.one_hot(labels, 3), np.eye(3)[[0, 2, 1]])
    assert xpx.nunique(gpugrad.asarray([1, 2, 2])).item() == 2
    assert_close(xpx.isclose(gpugrad.tensor(x), gpugrad.tensor(x + 1e-12)), np.ones(5, bool))
    assert_close(xpx.argpartition(gpugrad.tensor(x), 0)[0], np.argmin(x))
    assert_close(xpx.setdiff1d(labels, gpugrad.asarray([2])), [0, 1])
