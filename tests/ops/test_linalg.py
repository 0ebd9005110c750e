"""Degenerate cases of linear algebra: singular matrices, equal eigenvalues; and einsum."""

import sys

import numpy as np
import pytest
from cases.linalg import cofactor

import gpugrad as gg
from gpugrad import einsum, linalg
from gpugrad.autograd import grad
from gpugrad.backends.einsum import _steps
from gpugrad.testing import assert_close, gradcheck, gradgradcheck

ERRORS = (ValueError, RuntimeError)  # PyTorch raises RuntimeErrors in linear algebra
SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


def matrix_of_rank(n, rank):
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))


@pytest.mark.parametrize("name, inputs", [
    ("inv", (SINGULAR,)), ("solve", (SINGULAR, [1.0, 2.0])), ("matrix_power", (SINGULAR, -1)),
    ("cholesky", ([[1.0, 2.0], [2.0, 1.0]],)),
])  # fmt: skip
def test_an_unsuitable_matrix_is_an_error(library, name, inputs):
    inputs = [library.tensor(x) if isinstance(x, list) else x for x in inputs]
    with pytest.raises(ERRORS, match=rf"^linalg\.{name}: .*\(2, 2\)"):
        getattr(linalg, name)(*inputs)


RANKS = [(1, 0), (2, 1), (3, 2), (3, 1), (4, 3), (5, 3), (6, 3), (4, 0)]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n, rank", RANKS)
def test_det_of_singular_matrices_has_its_derivatives(library, n, rank, exact):
    x = matrix_of_rank(n, rank)
    if exact:  # a pivot that is exactly 0, not a rounding error
        x[:] = np.round(x * 4) / 4
        x[-1] = 2 * x[0] if n > 1 else 0
    x = library.tensor(x, requires_grad=True)
    (g,) = grad(linalg.det(x), x, create_graph=True)
    assert_close(library.values(g), cofactor(library.values(x)), rtol=1e-9, atol=1e-9)
    gradcheck(linalg.det, x)
    gradgradcheck(linalg.det, x)


def test_det_of_a_stack_with_a_singular_matrix(library):
    stack = [np.eye(4), np.ones((4, 4)), np.diag([1.0, 2, 3, 0])]
    x = library.tensor(np.stack(stack), requires_grad=True)
    (g,) = grad(linalg.det(x).sum(), x)
    assert_close(library.values(g), [np.eye(4), np.zeros((4, 4)), np.diag([0, 0, 0, 6.0])])
    gradgradcheck(linalg.det, x)


@pytest.mark.parametrize("name, x", [("slogdet", SINGULAR), ("qr", [[1.0, 0.0], [2.0, 0.0]])])
def test_dependent_columns_raise_in_backward(library, name, x):
    with np.errstate(divide="ignore"):
        results = getattr(linalg, name)(library.tensor(x, requires_grad=True))
    if name == "slogdet":
        assert [y.item() for y in results] == [0, -np.inf]
    with pytest.raises(ERRORS) as error:
        sum(y.sum() for y in results).backward()
    assert f"in backward through linalg.{name}" in error.value.__notes__


def test_pinv_of_a_lower_rank(library):
    a = library.tensor(np.eye(4, 2) + 0.1 * matrix_of_rank(4, 2)[:, :2], requires_grad=True)
    b = library.tensor(np.eye(2, 3) + 0.1 * matrix_of_rank(3, 2)[:2], requires_grad=True)
    for check in gradcheck, gradgradcheck:
        check(lambda a, b: linalg.pinv(a @ b, rtol=1e-8), (a, b))


def test_equal_eigenvalues_give_a_finite_gradient(library):
    x = library.tensor(np.eye(3), requires_grad=True)
    values, vectors = linalg.eigh(x)
    u, s, vh = linalg.svd(x)
    through_vectors = (values * values).sum() + vectors.sum(), (s * s).sum() + u.sum() + vh.sum()
    of_values = linalg.eigvalsh(x).sum(), linalg.svdvals(x).sum()
    for y, expected in [*((y, 2) for y in through_vectors), *((y, 1) for y in of_values)]:
        (g,) = grad(y, x)
        assert_close(library.values(g), expected * np.eye(3), atol=1e-9)


def test_the_space_of_equal_eigenvalues_has_its_gradient(library):
    x = library.tensor(np.diag([1.0, 1.0, 3.0]), requires_grad=True)

    def projector(x):
        two = linalg.eigh((x + x.mT) / 2)[1][:, :2]
        return two @ two.mT

    gradcheck(projector, x)


def test_tolerances_can_be_tensors(library):
    x = library.tensor(np.stack([np.diag([1.0, 0.1])] * 2))
    rtol = library.tensor([0.5, 0.01])
    assert linalg.matrix_rank(x, rtol=rtol).tolist() == [1, 2]
    assert_close(library.values(linalg.pinv(x, rtol=rtol))[:, 1, 1], [0, 10])


def test_integer_matrices_are_taken_as_float32():
    x = gg.asarray([[2, 0], [0, 4]])
    assert (linalg.inv(x).dtype, linalg.det(x).tolist()) == (gg.float32, 8)
    for result in (linalg.eigh(x), linalg.svd(x), linalg.qr(x), linalg.slogdet(x)):
        assert {y.dtype for y in result} == {gg.float32}


def test_einsum_is_one_node_and_so_is_its_gradient():
    a, b = (gg.ones((2, 2), requires_grad=True) for _ in range(2))
    y = einsum("ij,jk,kl->il", a, b, a)
    assert (y.grad_fn.name, [n.name for n in y.grad_fn.next_functions]) == ("einsum", ["leaf"] * 3)
    (g,) = grad(einsum("ij,jk->ik", a, b).sum(), b, create_graph=True)
    assert g.grad_fn.name == "einsum"


def test_einsum_without_opt_einsum(monkeypatch):
    rng, words = np.random.default_rng(0), "ij,jk,kl,lm->im"
    arrays = [rng.standard_normal(shape) for shape in ((2, 3), (3, 4), (4, 2), (2, 2))]
    monkeypatch.setitem(sys.modules, "opt_einsum", None)
    _steps.cache_clear()
    assert_close(einsum(words, *arrays), np.einsum(words, *arrays))


@pytest.mark.parametrize("words, shapes, message", [
    ("ij,jk", [(2, 3)], "2 operands, not 1"),
    ("ij", [(2, 3, 4)], r"'ij' does not fit the shape \(2, 3, 4\)"),
    ("...i,...i", [(2, 3), (4, 3)], "lengths 2 and 4 for '...'"),
    ("ij->k", [(2, 3)], "appear once, not 'k'"), ("ij->ik", [(2, 3)], "each letter of the result"),
    ("i.j", [(2, 3)], "letters, commas"), ("...i->i", [(2, 3)], r"'\.\.\.' too"),
    ("ii", [(1, 3)], "a diagonal of"),
])  # fmt: skip
def test_errors_of_einsum(words, shapes, message):
    with pytest.raises(ValueError, match=f"^einsum: .*{message}"):
        einsum(words, *map(np.ones, shapes))
