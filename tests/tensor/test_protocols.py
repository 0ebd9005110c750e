"""NumPy's functions on Tensors, which keep the graph or are rejected; and export by DLPack."""

import operator
import re
from functools import partial

import numpy as np
import pytest
from libraries import each_library
from numpy.testing import assert_allclose, assert_array_equal
from numpy_calls import BOTH, function_of, lines

import gpugrad as gg
from gpugrad._foreign_names import INSTEAD
from gpugrad.numpy import _protocols as protocols

UFUNCS = {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc)}
DISPATCHED = {
    f"{m}{f.__name__}": f
    for m, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft))
    for f in vars(module).values()
    if isinstance(f, type(np.sum)) and f.__module__ == module.__name__
}

A = np.array([[0.5, 0.25, 0.75], [0.3, 0.6, 0.9]])

# The functions of NumPy that are supported.
CALLED = {function_of(line) for line in lines(BOTH)} | {"allclose"}


def leaf(values=A):
    return gg.tensor(values, requires_grad=True)


METHOD = r"^numpy\.\w+\.\w+: there is no such function"
NO_PARAMETER = r"^numpy\..*: it takes no (out|where|dtype|initial|axes|casting|full|axis) with Ten"


@pytest.mark.parametrize("call, message", [
    *((call, METHOD) for call in (
        lambda x: np.subtract.reduce(x), lambda x: np.maximum.accumulate(x),
        lambda x: np.add.reduceat(x, [0, 1]), lambda x: np.add.at(x, 0, 1.0),
        lambda x: np.add.at(np.ones(3), [0, 0], x),
    )),
    *((call, NO_PARAMETER) for call in (
        lambda x: np.exp(x, out=np.ones((2, 3))), lambda x: np.add(A, A, out=x),
        lambda x: np.add(x, 1, where=A > 0.5), lambda x: np.add(x, 1, dtype=np.float32),
        lambda x: np.add.reduce(x, out=np.ones(3)), lambda x: np.add.reduce(x, initial=1.0),
        lambda x: np.maximum.reduce(x, where=A > 0.5, initial=0.0),
        lambda x: np.matmul(x, A.T, axes=[(0, 1), (0, 1), (0, 1)]),
        lambda x: np.sum(x, out=np.ones(())), lambda x: np.sum(x, None, None, np.ones(())),
        lambda x: np.cumsum(x, out=np.ones(6)), lambda x: np.clip(x, 0, 1, out=np.ones((2, 3))),
        lambda x: np.concatenate([x, x], casting="unsafe"),
        lambda x: np.polyfit(x[0], x[1], 1, full=True), lambda x: np.unique(x, axis=0),
    )),
    *((call, r"detach|requires grad") for call in (
        lambda x: np.array([x, x]), lambda x: np.asarray(x, dtype=object),
        lambda x: np.full((2, 3), x), lambda x: np.vectorize(float)(x),
        lambda x: np.copyto(np.ones((2, 3)), x), lambda x: np.nditer(x), lambda x: np.ma.exp(x),
        lambda x: np.ma.array(x), lambda x: np.random.default_rng(0).normal(x),
        lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)),
    )),
    (lambda x: np.frompyfunc(operator.add, 2, 1)(x, x), "^add.*there is no such function"),
    (lambda x: pytest.importorskip("scipy.special").dawsn(x),
     r"^scipy\.special\.dawsn: there is no such function"),
    (lambda x: operator.iadd(np.ones((2, 3)), x), r"^numpy\.add: .*write y = y \+ x"),
    (lambda x: operator.imatmul(np.ones((3, 3)), x), r"^numpy\.matmul: "),
    (lambda x: operator.setitem(np.ones((2, 3)), 0, x[0]), r"detach\(\)"),
    (lambda x: gg.vmap(np.sort_complex)(x.detach()), r"numpy\.sort_complex"),
    *((call, r"detach\(\)\.numpy\(\)") for call in (
        lambda x: np.nextafter.outer(gg.tensor(A), x, dtype=np.float32),
        lambda x: np.add(gg.tensor(A), x, out=gg.tensor(A)), lambda x: np.exp(gg.tensor(A), out=x),
    )),
    *((call, message) for tensor in (gg.asarray, gg.Tensor.detach) for call, message in (
        (lambda x, of=tensor: np.copyto(of(x), A), r"copyto: .*write x\[\.\.\.\] = value"),
        (lambda x, of=tensor: np.add.at(of(x), 0, 1.0), r"add\.at: "),
    )),
])  # fmt: skip
def test_what_would_lose_a_gradient_or_write_into_a_tensor_is_rejected(call, message):
    x = leaf()
    with pytest.raises((TypeError, RuntimeError), match=message):
        call(x)
    assert_array_equal(x.detach().numpy(), A)


def test_all_other_functions_are_rejected():
    x = leaf()
    calls = {name: partial(ufunc, *[x] * ufunc.nin) for name, ufunc in UFUNCS.items()}
    for name, function in DISPATCHED.items():
        calls[name] = partial(x.__array_function__, function, (gg.Tensor,), (x,), {})
    others = calls.keys() - CALLED - protocols.QUESTIONS
    assert {"frexp", "sort_complex", "copyto", "save", "roots"} <= others
    for name in others:
        with pytest.raises(TypeError, match=rf"^numpy\.{name}: .*detach\(\)\.numpy\(\)"):
            calls[name]()


def test_defaults_are_taken():
    defaults = {"where": True, "casting": "same_kind", "order": "K", "subok": True}
    assert np.add(leaf(), 1, **defaults).requires_grad


def test_a_number_that_requires_grad_is_not_written_into_an_array():
    a, x = np.ones((2, 3)), leaf()
    with pytest.raises(ValueError, match="array element") as raised:  # NumPy's message
        a[0, 0] = x[0, 0]
    assert "detach()" in str(raised.value.__cause__)


def test_scipy_special():
    special = pytest.importorskip("scipy.special")
    for ufunc in vars(special).values():
        if isinstance(ufunc, np.ufunc) and protocols._of_ufunc(ufunc, "__call__")[1]:
            assert ufunc.__name__ == "psi" or hasattr(gg.special, ufunc.__name__)
    assert_allclose(special.psi(leaf()).detach().numpy(), special.psi(A))


# The arrays of CuPy are not on the CPU.
@pytest.mark.parametrize("library", each_library(lambda library: library.name != "cupy"))
class TestConstants:
    """Tensors on the CPU that require no gradient are ordinary arrays."""

    @pytest.mark.parametrize("call", [
        np.sort_complex, np.atleast_1d, np.spacing, lambda x: np.unique(x, axis=0),
        lambda x: np.sort_complex([x, x]), lambda x: np.add.reduceat(x, [0, 1]),
        lambda x: np.add(x, 1, where=A > 0.5, out=np.zeros((2, 3))),
        lambda x: np.multiply(A, x, out=np.zeros((2, 3))),
    ])  # fmt: skip
    def test_functions_without_counterpart_return_arrays(self, library, call):
        result = call(library.tensor(A))
        assert isinstance(result, (np.ndarray, np.float64))
        assert_array_equal(result, call(A))

    def test_in_place(self, library):
        a, x = A.copy(), library.tensor(A)
        a += x
        assert_array_equal(a, 2 * A)
        assert np.add(x, A, out=x) is x
        assert_array_equal(library.values(x), 2 * A)
        assert np.multiply(x, A, out=(x,)) is x
        assert_array_equal(library.values(x), 2 * A * A)


def test_queries():
    x = leaf()
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 1)) == ((2, 3), 2, 6, 3)
    assert np.result_type(x, np.float32) == np.float64
    assert np.allclose(x, A)
    assert not np.array_equal(A, x + 1)
    assert not np.iscomplexobj(x)
    assert np.shares_memory(x, x.array)
    assert gg.ones(3).__dlpack_device__() == (1, 0)
    assert np.isclose(x, A[0]).tolist() == [[True] * 3, [False] * 3]


def test_names_and_parameters_are_numpys():
    for instead in protocols.INSTEAD_OF_PARAMETERS.values():
        for word in re.findall(r"gpugrad\.(\w+)", instead):
            assert hasattr(gg, word), instead
    assert {*INSTEAD["numpy"]} <= {*UFUNCS, *DISPATCHED} - {*INSTEAD["gpugrad"]}
    assert {*protocols.QUESTIONS} <= {*DISPATCHED}
    assert {*protocols.REDUCE, *protocols.ACCUMULATE} <= {*UFUNCS}


class Quantity(np.ndarray):
    """An array class that handles NumPy's functions itself, like arrays with units."""

    def answer(self, *args, **keywords):
        return "with units"

    __array_ufunc__ = __array_function__ = answer


class TestOtherArrayClasses:
    def test_subclasses_with_their_own_ufuncs(self):
        x, q = leaf(), np.ones((2, 3)).view(Quantity)
        for result in (x * q, q * x, x < q, np.add(x, q), np.add(q, x), np.stack([x, q])):
            assert isinstance(result, str)

    def test_plain_subclasses_are_arrays(self, tmp_path):
        class Plain(np.ndarray):
            pass

        mapped = np.memmap(tmp_path / "a", dtype=np.float64, mode="w+", shape=(2, 3))
        mapped[...] = A
        for a in (A.view(Plain), mapped):
            for result in (leaf() * a, a * leaf(), np.multiply(a, leaf())):
                assert type(result) is gg.Tensor
                assert type(result.array) is np.ndarray
                assert_array_equal(result.detach().numpy(), A * A)

    @pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
    def test_matrices_and_masked_arrays_are_rejected(self):
        for a in (np.matrix(A), np.ma.array(A, mask=A > 0.5)):
            for call, *args in (
                (operator.mul, leaf(), a), (operator.mul, a, leaf()), (operator.add, a, leaf()),
                (np.add, leaf(), a), (gg.add, leaf(), a), (np.concatenate, [leaf(), a]),
                (gg.asarray, a),
            ):  # fmt: skip
                with pytest.raises((TypeError, RuntimeError), match=r"matrix|masked|detach"):
                    call(*args)
