"""NumPy's functions on Tensors, which keep the graph or are rejected; and export by DLPack."""

import inspect
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gpugrad as gg
from gpugrad._foreign_names import INSTEAD, OF_NUMPY
from gpugrad.ops import protocols
from gpugrad.testing import gradcheck

UFUNCS = {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc)}
DISPATCHED = {
    f"{m}{f.__name__}": f
    for m, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft))
    for f in vars(module).values()
    if isinstance(f, type(np.sum)) and f.__module__ == module.__name__
}

FLOAT_UFUNCS = """
    absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh ceil conjugate copysign cos
    cosh divide divmod exp expm1 floor floor_divide hypot log log10 log1p log2 logaddexp maximum
    minimum multiply negative nextafter positive power reciprocal remainder rint sign sin sinh
    sqrt square subtract tan tanh trunc
""".split()
BOOL_UFUNCS = "logical_and logical_not logical_or logical_xor".split()
COMPARISON_UFUNCS = """
    equal greater greater_equal isfinite isinf isnan less less_equal not_equal signbit
""".split()
INTEGER_UFUNCS = "bitwise_and bitwise_or bitwise_xor invert left_shift right_shift".split()
PRODUCTS = "matmul vecdot".split()

A = np.array([[0.5, 0.25, 0.75], [0.3, 0.6, 0.9]])
SQUARE = np.array([[2.0, 0.5, 0.1], [0.5, 3.0, 0.2], [0.1, 0.2, 4.0]])
INTEGERS = np.array([[3, 1, 2], [2, 0, 1]])

# Calls of every function of NumPy that is supported, written as NumPy's users write them.
CALLS = {
    "all": [lambda x: np.all(x > 0.3, axis=0)],
    "amax": [lambda x: np.amax(x, axis=1)],
    "amin": [lambda x: np.amin(x, 0, keepdims=True)],
    "any": [lambda x: np.any(x > 0.3, axis=0, keepdims=True)],
    "argmax": [lambda x: np.argmax(x, axis=1)],
    "argmin": [lambda x: np.argmin(x)],
    "argsort": [lambda x: np.argsort(x), lambda x: np.argsort(x, axis=None)],
    "around": [np.around],
    "astype": [lambda x: np.astype(x, np.float32)],
    "broadcast_arrays": [lambda x: np.broadcast_arrays(x, x[0])[1]],
    "broadcast_to": [lambda x: np.broadcast_to(x, (4, 2, 3)), lambda x: np.broadcast_to(x[0], 3)],
    "clip": [
        lambda x: np.clip(x, 0.28, 0.7),
        lambda x: np.clip(x, a_max=0.7, a_min=None),
        lambda x: np.clip(x, None, x[1] - 0.11),
    ],
    "argwhere": [lambda x: np.argwhere(x > 0.4)],
    "bincount": [lambda x: np.bincount(np.array([0, 2, 2]), x[0])],
    "concatenate": [
        lambda x: np.concatenate([x, x]),
        lambda x: np.concatenate((x, A, x), axis=1),
        lambda x: np.concatenate([x, x], axis=None),
    ],
    "count_nonzero": [lambda x: np.count_nonzero(x > 0.3, axis=1)],
    "cross": [lambda x: np.cross(x[0], x[1]), lambda x: np.cross(x, A, axis=1)],
    "cumprod": [lambda x: np.cumprod(x, axis=1), np.cumprod],
    "cumsum": [lambda x: np.cumsum(x, 0), np.cumsum],
    "diagonal": [np.diagonal, lambda x: np.diagonal(x[None] * A[0, 0], 1, 1, 2)],
    "diff": [np.diff, lambda x: np.diff(x, n=2), lambda x: np.diff(x, axis=0, prepend=x[:1])],
    "dot": [
        lambda x: np.dot(x, A.T),
        lambda x: np.dot(x[0], x[1]),
        lambda x: np.dot(x, x[0]),
        lambda x: np.dot(x[0, 0], x),
        lambda x: np.dot(x[None], A.T[None]),
    ],
    "einsum": [
        lambda x: np.einsum("ij,kj->ik", x, A),
        lambda x: np.einsum("ij->j", x, optimize=True),
    ],
    "expand_dims": [lambda x: np.expand_dims(x, 1), lambda x: np.expand_dims(x, axis=(0, -1))],
    "flip": [np.flip, lambda x: np.flip(x, axis=1)],
    "full_like": [lambda x: np.full_like(x, 2.0), lambda x: np.full_like(x, 2, dtype=np.float32)],
    "hstack": [lambda x: np.hstack([x, A]), lambda x: np.hstack((x[0], x[1, 0]))],
    "imag": [lambda x: np.imag(x * 1j)],
    "isin": [lambda x: np.isin(x, A[0])],
    "matrix_transpose": [lambda x: np.matrix_transpose(x)],
    "max": [np.max, lambda x: np.max(x, axis=(0, 1))],
    "mean": [np.mean, lambda x: np.mean(x, axis=1, keepdims=True), lambda x: np.mean(a=x)],
    "meshgrid": [lambda x: np.meshgrid(x[0], x[1], indexing="ij")[0]],
    "min": [np.min],
    "moveaxis": [lambda x: np.moveaxis(x, 0, -1)],
    "nan_to_num": [lambda x: np.nan_to_num(x, nan=1.0)],
    "nonzero": [lambda x: np.nonzero(x > 0.4)[1]],
    "ones_like": [np.ones_like, lambda x: np.ones_like(x, dtype=np.int64)],
    "outer": [lambda x: np.outer(x, x[0])],
    "pad": [
        lambda x: np.pad(x, 1, constant_values=2.0),
        lambda x: np.pad(x, ((0, 1), (2, 0)), "wrap"),
    ],
    "prod": [np.prod, lambda x: np.prod(x, axis=0)],
    "quantile": [
        lambda x: np.quantile(x, 0.3),
        lambda x: np.quantile(x, [0.3, 0.6], axis=1, method="hazen", keepdims=True),
    ],
    "ravel": [np.ravel],
    "real": [np.real],
    "repeat": [lambda x: np.repeat(x, 2), lambda x: np.repeat(x, 2, axis=1)],
    "reshape": [lambda x: np.reshape(x, (3, 2)), lambda x: np.reshape(x, -1)],
    "roll": [lambda x: np.roll(x, 1), lambda x: np.roll(x, (1, 2), axis=(0, 1))],
    "round": [np.round],
    "searchsorted": [lambda x: np.searchsorted(np.sort(x[0]), A[1], side="right")],
    "sort": [np.sort, lambda x: np.sort(x, axis=0), lambda x: np.sort(x, axis=None)],
    "split": [lambda x: np.split(x, 3, axis=1)[1], lambda x: np.split(x, [1])[1]],
    "squeeze": [lambda x: np.squeeze(x[None]), lambda x: np.squeeze(x[None, :1], axis=1)],
    "stack": [lambda x: np.stack([x, x]), lambda x: np.stack((x, A), axis=-1)],
    "std": [np.std, lambda x: np.std(x, axis=0, ddof=1), lambda x: np.std(x, correction=1)],
    "sum": [np.sum, lambda x: np.sum(x, 1, np.float32), lambda x: np.sum(x, axis=-1, out=None)],
    "swapaxes": [lambda x: np.swapaxes(x[None], 0, 2)],
    "take": [
        lambda x: np.take(x, INTEGERS),
        lambda x: np.take(x, INTEGERS - 1, axis=-1),
        lambda x: np.take(x, 0, axis=1),
    ],
    "take_along_axis": [lambda x: np.take_along_axis(x, INTEGERS[:1] % 2, axis=0)],
    "tensordot": [lambda x: np.tensordot(x, A), lambda x: np.tensordot(x, A, axes=(1, 1))],
    "tile": [lambda x: np.tile(x, 2), lambda x: np.tile(x, reps=(2, 1, 2))],
    "trace": [np.trace, lambda x: np.trace(x[None] * A[0, 0], axis1=1, axis2=2)],
    "transpose": [np.transpose, lambda x: np.transpose(x[None], (2, 0, 1))],
    "tril": [np.tril, lambda x: np.tril(x, -1)],
    "triu": [lambda x: np.triu(x, k=1)],
    "unique_all": [lambda x: np.unique_all(x).values],
    "unique_counts": [lambda x: np.unique_counts(x).counts],
    "unique_inverse": [lambda x: np.unique_inverse(x).values],
    "unique_values": [np.unique_values],
    "var": [np.var, lambda x: np.var(x, 1, ddof=1), lambda x: np.var(x, keepdims=True)],
    "vstack": [lambda x: np.vstack([x, A[0]]), lambda x: np.vstack((x[0], x))],
    "where": [
        lambda x: np.where(x > 0.4, x, 0.0),
        lambda x: np.where(A > 0.5, A, x),
        lambda x: np.where(x > 0.5)[0],
    ],
    "zeros_like": [np.zeros_like],
    "fft.fft": [np.fft.fft, lambda x: np.fft.fft(x, 4, norm="ortho")],
    "fft.fftn": [lambda x: np.fft.fftn(x, axes=(0,))],
    "fft.fftshift": [np.fft.fftshift],
    "fft.hfft": [np.fft.hfft],
    "fft.ifft": [lambda x: np.fft.ifft(x, axis=0)],
    "fft.ifftn": [np.fft.ifftn],
    "fft.ifftshift": [lambda x: np.fft.ifftshift(x, axes=1)],
    "fft.ihfft": [np.fft.ihfft],
    "fft.irfft": [lambda x: np.fft.irfft(x, n=3)],
    "fft.irfftn": [np.fft.irfftn],
    "fft.rfft": [np.fft.rfft],
    "fft.rfftn": [lambda x: np.fft.rfftn(x, s=(2, 2), axes=(0, 1))],
    "linalg.cholesky": [lambda x: np.linalg.cholesky(x.T @ x + SQUARE)],
    "linalg.cross": [lambda x: np.linalg.cross(x, A[0])],
    "linalg.det": [lambda x: np.linalg.det(x @ A.T)],
    "linalg.diagonal": [lambda x: np.linalg.diagonal(x, offset=1)],
    "linalg.eig": [lambda x: np.linalg.eig(x @ A.T + 0j).eigenvalues],
    "linalg.eigh": [lambda x: np.linalg.eigh(x.T @ x + SQUARE)[0]],
    "linalg.eigvals": [lambda x: np.linalg.eigvals(x @ A.T + 0j)],
    "linalg.eigvalsh": [lambda x: np.linalg.eigvalsh(x.T @ x + SQUARE)],
    "linalg.inv": [lambda x: np.linalg.inv(x @ A.T)],
    "linalg.matmul": [lambda x: np.linalg.matmul(x, A.T)],
    "linalg.matrix_norm": [lambda x: np.linalg.matrix_norm(x, ord=1)],
    "linalg.matrix_power": [lambda x: np.linalg.matrix_power(x @ A.T, 3)],
    "linalg.matrix_rank": [np.linalg.matrix_rank],
    "linalg.matrix_transpose": [np.linalg.matrix_transpose],
    "linalg.norm": [
        np.linalg.norm,
        lambda x: np.linalg.norm(x, 1),
        lambda x: np.linalg.norm(x, axis=1, keepdims=True),
        lambda x: np.linalg.norm(x[0], np.inf),
        lambda x: np.linalg.norm(x, axis=(0, 1)),
        lambda x: np.linalg.norm(x[:, None], np.inf, axis=(2, 0), keepdims=True),
        lambda x: np.linalg.norm(x, 3, axis=-1),
    ],
    "linalg.outer": [lambda x: np.linalg.outer(x[0], A[1])],
    "linalg.pinv": [np.linalg.pinv, lambda x: np.linalg.pinv(x, rcond=1e-8)],
    "linalg.qr": [lambda x: np.linalg.qr(x.T)[1]],
    "linalg.slogdet": [lambda x: np.linalg.slogdet(x @ A.T).logabsdet],
    "linalg.solve": [lambda x: np.linalg.solve(SQUARE, x.T), lambda x: np.linalg.solve(x @ A.T, A)],
    "linalg.svd": [lambda x: np.linalg.svd(x, full_matrices=False).S],
    "linalg.svdvals": [np.linalg.svdvals],
    "linalg.tensordot": [lambda x: np.linalg.tensordot(x, A, axes=2)],
    "linalg.trace": [lambda x: np.linalg.trace(x, offset=1)],
    "linalg.vecdot": [lambda x: np.linalg.vecdot(x, A)],
    "linalg.vector_norm": [lambda x: np.linalg.vector_norm(x, axis=0, ord=1)],
}
# Newer than the oldest NumPy.
CALLS |= {
    "cumulative_prod": [lambda x: np.cumulative_prod(x, axis=1, include_initial=True)],
    "cumulative_sum": [lambda x: np.cumulative_sum(x, axis=0)],
    "unstack": [lambda x: np.unstack(x, axis=1)[2]],
}
CALLS = {name: calls for name, calls in CALLS.items() if name in DISPATCHED}


def leaf(values=A):
    return gg.tensor(values, requires_grad=True)


def check(call, values=A):
    """Check that ``call`` gives a Tensor with NumPy's value and, if floating, a graph."""
    x = leaf(values) if values.dtype.kind == "f" else gg.tensor(values)
    result, expected = call(x), call(values)
    assert type(result) is gg.Tensor
    assert result.dtype == np.asarray(expected).dtype
    assert_allclose(result.detach().numpy(), expected, rtol=1e-6, atol=1e-12)
    return x, result


class TestUfuncs:
    @pytest.mark.parametrize("name", FLOAT_UFUNCS)
    def test_floats(self, name):
        ufunc = UFUNCS[name]
        values = A + 1 if name == "arccosh" else A
        others = [np.array([0.4, 1.5, 0.2])] * (ufunc.nin - 1)
        pick = (lambda out: out[1]) if ufunc.nout == 2 else lambda out: out
        for call in (
            lambda x: pick(ufunc(x, *others)),
            lambda x: pick(ufunc(*others, x)),
            lambda x: pick(ufunc(x[0], *([0.5] * len(others)))),
        ):
            _, result = check(call, values)
            assert result.requires_grad

    @pytest.mark.parametrize("name", COMPARISON_UFUNCS)
    def test_comparisons(self, name):
        others = [A[0]] * (UFUNCS[name].nin - 1)
        check(lambda x: UFUNCS[name](x, *others))

    @pytest.mark.parametrize("name", BOOL_UFUNCS)
    def test_bools(self, name):
        others = [A[0] > 0.3] * (UFUNCS[name].nin - 1)
        check(lambda x: UFUNCS[name](x, *others), A > 0.5)

    @pytest.mark.parametrize("name", INTEGER_UFUNCS)
    def test_integers(self, name):
        others = [INTEGERS[0]] * (UFUNCS[name].nin - 1)
        check(lambda x: UFUNCS[name](x, *others), INTEGERS)

    @pytest.mark.parametrize("name", [name for name in PRODUCTS if name in UFUNCS])
    def test_products(self, name):
        _, result = check(lambda x: UFUNCS[name](x, A[0]))
        assert result.requires_grad

    def test_gradients(self):
        for function in (np.exp, lambda x: np.multiply(A, x), lambda x: np.float64(3) * np.tanh(x)):
            gradcheck(function, leaf())

    def test_all_others_are_rejected(self):
        others = UFUNCS.keys() - {
            *FLOAT_UFUNCS,
            *BOOL_UFUNCS,
            *COMPARISON_UFUNCS,
            *INTEGER_UFUNCS,
            *PRODUCTS,
        }
        assert "fmod" in others
        for name in others:
            with pytest.raises(TypeError, match=rf"^numpy\.{name}: .*detach\(\)\.numpy\(\)"):
                UFUNCS[name](*[leaf()] * UFUNCS[name].nin)

    @pytest.mark.parametrize(
        "name", ["add", "multiply", "maximum", "minimum", "logaddexp", "logical_and", "logical_or"]
    )
    def test_reduce(self, name):
        values = A > 0.5 if name.startswith("logical") else A
        reduce = UFUNCS[name].reduce
        for call in (
            reduce,
            lambda x: reduce(x, axis=1),
            lambda x: reduce(x, axis=None),
            lambda x: reduce(x, (0, 1), None, None, True),
            lambda x: reduce(x, axis=-1, keepdims=True),
        ):
            x, result = check(call, values)
            assert result.requires_grad == x.requires_grad
        if values is A:
            gradcheck(reduce, leaf())

    def test_accumulate(self):
        for name in ("add", "multiply"):
            for call in (
                UFUNCS[name].accumulate,
                lambda x, name=name: UFUNCS[name].accumulate(x, axis=1),
            ):
                _, result = check(call)
                assert result.requires_grad
        assert check(lambda x: np.add.reduce(x, dtype=np.float32))[1].dtype == gg.float32

    def test_outer(self):
        for call in (
            lambda x: np.multiply.outer(x, x),
            lambda x: np.subtract.outer(A[0], x),
            lambda x: np.add.outer(x, 2.0),
        ):
            check(call)
            gradcheck(call, leaf())

    @pytest.mark.parametrize(
        "call",
        [
            lambda x: np.subtract.reduce(x),
            lambda x: np.maximum.accumulate(x),
            lambda x: np.add.reduceat(x, [0, 1]),
            lambda x: np.add.at(x, 0, 1.0),
            lambda x: np.add.at(np.ones(3), [0, 0], x),
        ],
    )
    def test_other_methods_are_rejected(self, call):
        with pytest.raises(TypeError, match=r"^numpy\.\w+\.\w+: there is no such function"):
            call(leaf())

    @pytest.mark.parametrize(
        "call",
        [
            lambda x: np.exp(x, out=np.ones((2, 3))),
            lambda x: np.add(A, A, out=x),
            lambda x: np.add(x, 1, where=A > 0.5),
            lambda x: np.add(x, 1, dtype=np.float32),
            lambda x: np.add.reduce(x, out=np.ones(3)),
            lambda x: np.add.reduce(x, initial=1.0),
            lambda x: np.maximum.reduce(x, where=A > 0.5, initial=0.0),
            lambda x: np.matmul(x, A.T, axes=[(0, 1), (0, 1), (0, 1)]),
        ],
    )
    def test_parameters_without_counterpart_are_rejected(self, call):
        with pytest.raises(
            TypeError, match=r"it takes no (out|where|dtype|initial|axes) with Tensors"
        ):
            call(leaf())
        check(lambda x: np.add(x, 1, where=True))

    @pytest.mark.parametrize("requires_grad", [False, True])
    def test_arrays_are_not_written_in_place(self, requires_grad):
        a, x = np.ones((2, 3)), gg.tensor(A, requires_grad=requires_grad)
        with pytest.raises(TypeError, match=r"^numpy\.add: .*write y = y \+ x"):
            a += x
        with pytest.raises(TypeError, match=r"^numpy\.matmul: "):
            a @= x
        assert_array_equal(a, np.ones((2, 3)))
        if requires_grad:
            with pytest.raises(RuntimeError, match=r"detach\(\)"):
                a[0] = x[0]
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
        own = [
            u
            for u in vars(special).values()
            if isinstance(u, np.ufunc) and protocols._of_ufunc(u, "__call__")[1] is not None
        ]
        for ufunc in own:
            assert ufunc.__name__ == "psi" or hasattr(gg.special, ufunc.__name__)
        x = leaf()
        assert_allclose(special.psi(x).detach().numpy(), special.psi(A))
        with pytest.raises(TypeError, match=r"^scipy\.special\.jv: there is no such function"):
            special.jv(1.0, x)


class TestFunctions:
    @pytest.mark.parametrize(
        "call", [pytest.param(c, id=name) for name, calls in CALLS.items() for c in calls]
    )
    def test_value_and_graph(self, call, request):
        _, result = check(call)
        name = request.node.callspec.id.rstrip("0123456789")
        constant = name.endswith("_like")
        assert result.requires_grad == (result.dtype.kind in "fc" and not constant)

    @pytest.mark.parametrize("name", ["sum", "std", "where", "concatenate", "dot", "take", "clip"])
    def test_gradients(self, name):
        for call in CALLS[name]:
            if call(leaf()).requires_grad and call(leaf()).dtype == gg.float64:
                gradcheck(call, leaf())

    def test_all_others_are_rejected(self):
        others = DISPATCHED.keys() - CALLS.keys() - protocols.QUESTIONS
        assert {"median", "linalg.lstsq", "fft.fft2", "copyto", "save", "linspace"} <= others
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
        assert np.isclose(x, A[0]).tolist() == [[True] * 3, [False] * 3]

    @pytest.mark.parametrize(
        "call",
        [
            lambda x: np.sum(x, out=np.ones(())),
            lambda x: np.sum(x, where=A > 0.5),
            lambda x: np.sum(x, initial=2.0),
            lambda x: np.mean(x, dtype=np.float32),
            lambda x: np.round(x, 2),
            lambda x: np.clip(x, 0, 1, out=np.ones((2, 3))),
            lambda x: np.reshape(x, (3, 2), order="F"),
            lambda x: np.concatenate([x, x], dtype=np.float32),
            lambda x: np.linalg.svd(x, compute_uv=False),
            lambda x: np.linalg.eigh(x @ A.T, "U"),
            lambda x: np.sort(x, kind="stable"),
        ],
    )
    def test_parameters_without_counterpart_are_rejected(self, call):
        with pytest.raises(TypeError, match=r"^numpy\..*: it takes no \w+ with Tensors; .*detach"):
            call(leaf())

    def test_remedies_name_existing_functions(self):
        for name, instead in (INSTEAD["numpy"] | protocols.INSTEAD_OF_PARAMETERS).items():
            for word in re.findall(r"gpugrad\.([\w.]+)", instead):
                assert hasattr(gg, word.split(".")[0]), (name, word)
        assert {*INSTEAD["numpy"]} <= {*UFUNCS, *DISPATCHED} - {*INSTEAD["gpugrad"]}

    def test_names_and_parameters_are_numpys(self):
        for name in OF_NUMPY:
            assert name in UFUNCS or name in DISPATCHED or name.startswith("special.")
        for name in protocols.QUESTIONS:
            assert name in DISPATCHED
        for name in (*protocols.REDUCE, *protocols.ACCUMULATE):
            assert name in UFUNCS

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: np.array([x, x]),
            lambda x: np.asarray(x, dtype=object),
            lambda x: np.full((2, 3), x),
            lambda x: np.linspace(x[0], x[1], 3),
            lambda x: np.interp(x[0], A[0], A[1]),
            lambda x: np.vectorize(float)(x),
            lambda x: np.copyto(np.ones((2, 3)), x),
            lambda x: np.nditer(x),
            lambda x: np.ma.exp(x),
            lambda x: np.ma.array(x),
            lambda x: np.zeros(3, like=x),
            lambda x: np.random.default_rng(0).normal(x),
            lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
        ],
    )
    def test_nothing_detaches_silently(self, function):
        with pytest.raises((TypeError, RuntimeError), match=r"detach|requires grad"):
            function(leaf())


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
            for call in (
                lambda a: leaf() * a,
                lambda a: a * leaf(),
                lambda a: a + leaf(),
                lambda a: np.add(leaf(), a),
                lambda a: gg.add(leaf(), a),
                lambda a: np.concatenate([leaf(), a]),
                lambda a: gg.asarray(a),
            ):
                with pytest.raises((TypeError, RuntimeError), match=r"matrix|masked|detach"):
                    call(a)

    def test_object_arrays_are_rejected(self):
        a = np.array([1, "a", None], dtype=object)
        for call in (lambda: leaf()[0] * a, lambda: a * leaf()[0]):
            with pytest.raises(TypeError):
                call()


class TestDLPack:
    def test_shares_memory_with_numpy(self):
        a = np.zeros(3)
        x = gg.asarray(a)
        a[0] = 1
        x.numpy()[1:] = [2, 3]
        assert np.shares_memory(np.from_dlpack(x), a)
        assert a.tolist() == x.tolist() == [1, 2, 3]

    def test_shares_memory_with_torch(self):
        torch = pytest.importorskip("torch")
        a = torch.zeros(3)
        x = gg.asarray(a)
        torch.from_dlpack(x)[0] = 1
        x.array[1] = 2
        assert a.tolist() == x.tolist() == [1, 2, 0]
        y = gg.zeros(3)
        torch.from_dlpack(y)[2] = 3
        assert y.tolist() == [0, 0, 3]

    def test_rejected_while_grad_is_required(self):
        for x in (leaf(), leaf() * 2):
            for leave in (np.from_dlpack, lambda x: x.__dlpack__()):
                with pytest.raises(RuntimeError, match=r"requires grad.*detach\(\)"):
                    leave(x)

    def test_signature(self):
        parameters = inspect.signature(leaf().__dlpack__).parameters.values()
        assert [p.name for p in parameters] == ["stream", "max_version", "dl_device", "copy"]
        assert all(p.kind is p.KEYWORD_ONLY and p.default is None for p in parameters)
        x = gg.ones(3)
        assert x.__dlpack_device__() == (1, 0)
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            assert not np.shares_memory(np.from_dlpack(x, copy=True), x.array)
