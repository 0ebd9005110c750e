"""NumPy's functions on Tensors, which keep the graph or are rejected; and export by DLPack."""

import operator
import re

import numpy as np
import pytest
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


class TestUfuncs:
    def test_all_others_are_rejected(self):
        others = UFUNCS.keys() - CALLED
        assert "frexp" in others
        for name in others:
            with pytest.raises(TypeError, match=rf"^numpy\.{name}: .*detach\(\)\.numpy\(\)"):
                UFUNCS[name](*[leaf()] * UFUNCS[name].nin)

    @pytest.mark.parametrize("call", [
        lambda x: np.subtract.reduce(x), lambda x: np.maximum.accumulate(x),
        lambda x: np.add.reduceat(x, [0, 1]), lambda x: np.add.at(x, 0, 1.0),
        lambda x: np.add.at(np.ones(3), [0, 0], x),
    ])  # fmt: skip
    def test_other_methods_are_rejected(self, call):
        with pytest.raises(TypeError, match=r"^numpy\.\w+\.\w+: there is no such function"):
            call(leaf())

    @pytest.mark.parametrize("call", [
        lambda x: np.exp(x, out=np.ones((2, 3))),
        lambda x: np.add(A, A, out=x),
        lambda x: np.add(x, 1, where=A > 0.5),
        lambda x: np.add(x, 1, dtype=np.float32),
        lambda x: np.add.reduce(x, out=np.ones(3)),
        lambda x: np.add.reduce(x, initial=1.0),
        lambda x: np.maximum.reduce(x, where=A > 0.5, initial=0.0),
        lambda x: np.matmul(x, A.T, axes=[(0, 1), (0, 1), (0, 1)]),
    ])  # fmt: skip
    def test_parameters_without_counterpart_are_rejected(self, call):
        with pytest.raises(
            TypeError, match=r"it takes no (out|where|dtype|initial|axes) with Tensors"
        ):
            call(leaf())
        defaults = {"where": True, "casting": "same_kind", "order": "K", "subok": True}
        assert np.add(leaf(), 1, **defaults).requires_grad

    def test_gradients_are_not_written_into_arrays(self):
        a, x = np.ones((2, 3)), leaf()
        for write, error, message in (
            (lambda: operator.iadd(a, x), TypeError, r"^numpy\.add: .*write y = y \+ x"),
            (lambda: operator.imatmul(a, x), TypeError, r"^numpy\.matmul: "),
            (lambda: operator.setitem(a, 0, x[0]), RuntimeError, r"detach\(\)"),
        ):
            with pytest.raises(error, match=message):
                write()
        with pytest.raises(ValueError, match="array element") as raised:  # NumPy's message
            a[0, 0] = x[0, 0]
        assert "detach()" in str(raised.value.__cause__)
        assert_array_equal(a, np.ones((2, 3)))

    def test_other_ufuncs_of_the_same_name_are_rejected(self):
        def add(a, b):
            return a - b

        with pytest.raises(TypeError, match=r"^add.*there is no such function"):
            np.frompyfunc(add, 2, 1)(leaf(), leaf())

    def test_scipy_special(self):
        special = pytest.importorskip("scipy.special")
        for ufunc in vars(special).values():
            if isinstance(ufunc, np.ufunc) and protocols._of_ufunc(ufunc, "__call__")[1]:
                assert ufunc.__name__ == "psi" or hasattr(gg.special, ufunc.__name__)
        x = leaf()
        assert_allclose(special.psi(x).detach().numpy(), special.psi(A))
        with pytest.raises(TypeError, match=r"^scipy\.special\.dawsn: there is no such function"):
            special.dawsn(x)


class TestConstants:
    """Tensors on the CPU that require no gradient are ordinary arrays."""

    @pytest.fixture
    def library(self, library):
        if library.name == "cupy":
            pytest.skip("its arrays are not on the CPU")
        return library

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

    def test_one_of_several_that_requires_grad(self):
        constant = gg.tensor(A)
        for call in (
            lambda: np.nextafter.outer(constant, leaf(), dtype=np.float32),
            lambda: np.add(constant, leaf(), out=constant),
            lambda: np.exp(constant, out=leaf()),
        ):
            with pytest.raises(TypeError, match=r"detach\(\)\.numpy\(\)"):
                call()
        assert_array_equal(constant.numpy(), A)

    def test_inside_vmap_they_are_no_arrays(self):
        with pytest.raises(TypeError, match=r"numpy\.sort_complex"):
            gg.vmap(np.sort_complex)(gg.tensor(A))


class TestFunctions:
    def test_all_others_are_rejected(self):
        others = DISPATCHED.keys() - CALLED - protocols.QUESTIONS
        assert {"sort_complex", "copyto", "save", "roots"} <= others
        x = leaf()
        for name in others:
            with pytest.raises(TypeError, match=rf"^numpy\.{name}: .*detach\(\)\.numpy\(\)"):
                x.__array_function__(DISPATCHED[name], (gg.Tensor,), (x,), {})

    def test_queries(self):
        x = leaf()
        assert np.shape(x) == (2, 3)
        assert (np.ndim(x), np.size(x), np.size(x, 1)) == (2, 6, 3)
        assert np.result_type(x, np.float32) == np.float64
        assert np.allclose(x, A)
        assert not np.array_equal(A, x + 1)
        assert not np.iscomplexobj(x)
        assert np.shares_memory(x, x.array)
        assert gg.ones(3).__dlpack_device__() == (1, 0)
        assert np.isclose(x, A[0]).tolist() == [[True] * 3, [False] * 3]

    @pytest.mark.parametrize("call", [
        lambda x: np.sum(x, out=np.ones(())),
        lambda x: np.sum(x, None, None, np.ones(())),
        lambda x: np.cumsum(x, out=np.ones(6)),
        lambda x: np.clip(x, 0, 1, out=np.ones((2, 3))),
        lambda x: np.concatenate([x, x], casting="unsafe"),
        lambda x: np.polyfit(x[0], x[1], 1, full=True),
        lambda x: np.unique(x, axis=0),
    ])  # fmt: skip
    def test_parameters_without_counterpart_are_rejected(self, call):
        with pytest.raises(TypeError, match=r"^numpy\..*: it takes no \w+ with Tensors; .*detach"):
            call(leaf())

    def test_remedies_name_existing_functions(self):
        for name, instead in (INSTEAD["numpy"] | protocols.INSTEAD_OF_PARAMETERS).items():
            for word in re.findall(r"gpugrad\.([\w.]+)", instead):
                assert hasattr(gg, word.split(".")[0]), (name, word)
        assert {*INSTEAD["numpy"]} <= {*UFUNCS, *DISPATCHED} - {*INSTEAD["gpugrad"]}

    def test_names_and_parameters_are_numpys(self):
        for name in protocols.QUESTIONS:
            assert name in DISPATCHED
        for name in (*protocols.REDUCE, *protocols.ACCUMULATE):
            assert name in UFUNCS

    @pytest.mark.parametrize("function", [
        lambda x: np.array([x, x]),
        lambda x: np.asarray(x, dtype=object),
        lambda x: np.full((2, 3), x),
        lambda x: np.vectorize(float)(x),
        lambda x: np.copyto(np.ones((2, 3)), x),
        lambda x: np.nditer(x),
        lambda x: np.ma.exp(x),
        lambda x: np.ma.array(x),
        lambda x: np.random.default_rng(0).normal(x),
        lambda x: np.lib.stride_tricks.as_strided(x, (2,), (8,)),
    ])  # fmt: skip
    def test_nothing_detaches_silently(self, function):
        with pytest.raises((TypeError, RuntimeError), match=r"detach|requires grad"):
            function(leaf())


def test_tensors_are_not_written_by_functions_that_write_in_place():
    for x in (leaf(), gg.tensor(A)):
        with pytest.raises(TypeError, match=r"copyto: .*write x\[\.\.\.\] = value"):
            np.copyto(x, A)
        with pytest.raises(TypeError, match=r"add\.at: "):
            np.add.at(x, 0, 1.0)
        assert_array_equal(x.detach().numpy(), A)


class Quantity(np.ndarray):
    """An array class that handles NumPy's functions itself, like arrays with units."""

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return "with units"

    def __array_function__(self, function, types, args, keywords):
        return "with units"


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
