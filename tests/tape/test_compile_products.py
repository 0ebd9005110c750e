"""Compiled products have the bits of the function's own, whichever kernels BLAS has.

BLAS computes the product of a matrix and itself in another way than that of two equal matrices, so
operands must lie in one memory where they do so without `compile`, and nowhere else.
"""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from both_ways import is_replayed, replays, same
from threadpoolctl import threadpool_info

import gpugrad as gg
import gpugrad.nn.functional as F
from gpugrad import nn, tree

SHAPES = (60, 70), (128, 100), (9, 1), (1, 9), (3, 64), (17, 33), (33, 257), (7, 300)


def exp_plus_one(x):
    y = gg.exp(x)
    y += 1
    return y


def used_again(x):
    a, b = gg.exp(x), gg.exp(x)
    return a @ b.T + (a * b).sum()


def of_one(product):
    """The same product of one array."""
    return lambda x: product(*[gg.exp(x)] * 2)


def of_two(product):
    """The product of two arrays that are computed alike."""
    return lambda x: product(gg.exp(x), gg.exp(x))


PRODUCTS = {
    "T": lambda x, y: x @ y.T, "mT": lambda x, y: gg.matmul(x.mT, y),
    "slices": lambda x, y: x[:, :40] @ y[:, :40].T, "rows": lambda x, y: x[::2] @ y[::2].T,
    "reversed": lambda x, y: x[:, ::-1] @ y[:, ::-1].T + gg.flip(x, axis=1) @ y.T,
    "stacks": lambda x, y: gg.stack([x, x * 2]) @ gg.stack([y, y * 2]).mT,
    "of three": lambda x, y: x @ y.T @ x,
    "covariances": lambda x, y: (x - x.mean(0)).T @ (y - y.mean(0)) / len(x),
    "stacked": lambda x, y: gg.stack([x, x]) @ y.T,
    "batches": lambda x, y: x.reshape(1, *x.shape) @ y.reshape(1, *y.shape).mT,
    "vectors": lambda x, y: x.reshape(-1) @ y.reshape(-1),
    "einsum": lambda x, y: gg.einsum("ij,kj->ik", x, y),
    "einsum of three": lambda x, y: gg.einsum("ij,kj,kl->il", x, y, x),
    "vecdot": lambda x, y: gg.vecdot(x, y),
    "tensordot": lambda x, y: gg.tensordot(x, y, axes=((1,), (1,))),
    "inner": lambda x, y: np.inner(x, y), "linear": F.linear,
    "outer": lambda x, y: gg.linalg.outer(x[0], y[0]),
    "attention": lambda x, y: F.scaled_dot_product_attention(x, y, x),
    "solve": lambda x, y: gg.linalg.solve(x @ y.T + 100 * gg.eye(len(x), dtype=x.dtype), x),
    "copy": lambda x, y: gg.asarray(x, copy=True) @ y.T,
    "copy of a copy": lambda x, y: gg.asarray(gg.asarray(x, copy=True), copy=True) @ y.T,
    "copies": lambda x, y: gg.asarray(x, copy=True) @ gg.asarray(y, copy=True).T,
    "copy without a graph": lambda x, y: gg.tensor(x) @ x.T + x @ gg.tensor(y).T,
    "copies without a graph": lambda x, y: gg.tensor(gg.tensor(x)) @ gg.tensor(y).T + x @ y.T,
    "view of a copy": lambda x, y: gg.asarray(x, copy=True)[:9] @ y[:9].T,
    "copies of the second": lambda x, y: (
        x @ y.T, gg.tensor(y[:40]) @ y[:40].T, gg.tensor(y) @ y.T,
    ),
    "products twice": lambda x, y: (x @ y.T) @ (y @ x.T).T,
}  # fmt: skip
PROGRAMS = {
    **{f"{name} of two": of_two(product) for name, product in PRODUCTS.items()},
    **{f"{name} of one": of_one(product) for name, product in PRODUCTS.items()},
    "an argument": lambda x: (x @ x.T, gg.tensor(x) @ x.T, gg.asarray(x, copy=True) @ x.T),
    "the other way": lambda x: gg.tanh(x).T @ gg.tanh(x),
    "equal sums": lambda x: (x + 1) @ (x + 1).T,
    "used again": used_again,
    "written in place": lambda x: exp_plus_one(x) @ exp_plus_one(x).T,
    "several results": lambda x: gg.linalg.qr(gg.exp(x))[1] @ gg.linalg.qr(gg.exp(x))[1].T,
    "checkpoint": lambda x: gg.checkpoint(of_two(PRODUCTS["T"]), x),
    "again": lambda x: tuple([f(PRODUCTS["T"])(x) for f in (of_two, of_one, of_two, of_one)]),
}


def inputs(shapes=SHAPES):
    for dtype in np.float32, np.float64:
        for shape in shapes:
            yield gg.asarray(np.random.default_rng(0).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize("name", PROGRAMS)
def test_products(name):
    for x in inputs():
        replays(PROGRAMS[name], *[(x,)] * 2)


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_products(name):
    def loss(x):
        return gg.sum(gg.stack([gg.sum(y * y) for y in tree.leaves(PROGRAMS[name](x))]))

    for x in inputs(SHAPES[:3]):
        replays(gg.value_and_grad(loss), *[(x,)] * 2)
    for x in inputs(SHAPES[:1]):
        replays(gg.grad(lambda x: gg.sum(gg.grad(loss)(x) * x)), *[(x,)] * 2)


# A function whose results have a checkpoint in their graph runs uncompiled.
WITH_GRAPHS = [name for name in PROGRAMS if name != "checkpoint"]


@pytest.mark.parametrize("name", WITH_GRAPHS)
def test_gradients_after_the_program(name):
    compiled = gg.compile(PROGRAMS[name])
    for x in inputs(SHAPES[:2]):
        found = []
        for function in compiled, PROGRAMS[name], compiled:
            leaf = gg.tensor(x, requires_grad=True)
            results = tree.leaves(function(leaf))
            for y in results:
                # Its rows lie one after the other, as those of the cotangent when it is recorded.
                cotangent = np.cos(np.arange(y.size, dtype=y.dtype)).reshape(y.shape)
                y.backward(gg.asarray(cotangent), retain_graph=True)
            found.append((*[y.detach() for y in results], leaf.grad))
        same(found[0], found[1])
        same(found[2], found[1])
    assert is_replayed(compiled)


def test_arguments_that_are_one_array():
    def f(x, y):
        return x @ y.T, gg.exp(x) @ gg.exp(y).T, x[:5] @ y[:5].T

    compiled = gg.compile(f)
    for x in inputs():
        copy = gg.asarray(x, copy=True)
        for _ in range(2):
            for args in (x, x), (x, x.detach()), (x, copy), (copy, x), (copy, copy):
                same(compiled(*args), f(*args))


def test_layers_with_equal_weights():
    for x in inputs():
        n = x.shape[1]
        layers = [nn.Linear(n, n, dtype=x.dtype) for _ in range(2)]
        layers[1].load_state_dict(layers[0].state_dict())

        def f(x, layers=layers):
            first, second = [layer(x) for layer in layers]
            again, product = layers[0](x), layers[0].weight @ layers[1].weight.T
            return first @ second.T, first @ again.T, first @ first.T, product

        replays(f, *[(x,)] * 2)


# Runs the tests above in a process whose OpenBLAS has other kernels.
SOURCE = """
import test_compile_products as tests

for name in tests.PROGRAMS:
    tests.test_products(name)
for name in tests.WITH_GRAPHS:
    tests.test_gradients_after_the_program(name)
"""

NUMPY_ALONE = """
import numpy as np
from threadpoolctl import threadpool_limits

with threadpool_limits(1):
    for rows in range(1, 40):
        x, y = np.ones((2, rows, 512), np.float32)
        x @ y.T
"""


@pytest.mark.slow
@pytest.mark.parametrize("kernels, feature", [
    ("Haswell", "AVX2"), ("Sandybridge", "AVX"), ("SkylakeX", "AVX512F"), ("Prescott", "SSE3"),
])  # fmt: skip
def test_products_with_other_kernels(kernels, feature):
    own = {x["architecture"] for x in threadpool_info() if x["internal_api"] == "openblas"}
    if not own:
        pytest.skip("NumPy does not use OpenBLAS")
    if kernels in own:
        pytest.skip("the tests above use these kernels")
    if not np._core._multiarray_umath.__cpu_features__.get(feature):
        pytest.skip(f"the processor has no {feature}")
    environment = {"OPENBLAS_CORETYPE": kernels, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = partial(subprocess.run, env=os.environ | environment, stderr=subprocess.PIPE, text=True)
    if run([sys.executable, "-c", NUMPY_ALONE]).returncode:  # as NumPy 2.5.5 does for Prescott
        pytest.skip("OpenBLAS itself crashes with these kernels")
    done = run([sys.executable, "-c", SOURCE])
    assert not done.returncode, done.stderr
