"""Tensor: operators and their operands, value semantics, and conversions to other types."""

import copy
import enum
import fractions
import math
import operator
import pickle
import re
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from samples import error_test, stable_repr

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.ops import operators

KINDS = "add sub mul truediv floordiv mod pow", "lt le gt ge eq ne", "and_ or_ xor lshift rshift"
ARITHMETIC, COMPARISONS, BITWISE = ([getattr(operator, n) for n in kind.split()] for kind in KINDS)

ROWS = np.random.default_rng(0).permutation(312)[:156]
GRID = np.arange(12.0).reshape(3, 4)


def in_place(op):
    """The operator that writes, as ``+=`` for ``+``; None if there is none."""
    return getattr(operator, f"i{op.__name__.strip('_')}", None)


def leaf(*values, dtype=gg.float32):
    return gg.tensor(values, dtype=dtype, requires_grad=True)


class TestOperands:
    @pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS])
    @pytest.mark.parametrize("other", [
        *(2, 2.0, True, np.bool(True), fractions.Fraction(2), enum.IntEnum("E", "A B").B),
        *(number(2) for number in (np.float64, np.float16, np.int64, np.uint8, np.longdouble)),
        *(np.array([2.0, 3.0], np.float32), np.array([2, 3]), np.array(2.0, np.float32)),
    ], ids=lambda x: f"{type(x).__name__}{getattr(x, 'shape', '')}")  # fmt: skip
    def test_either_side(self, op, other):
        x, values, plain = leaf(1.5, 2.5), np.float32([1.5, 2.5]), np.asarray(other, np.float32)
        for args, arrays in ((other, x), (plain, values)), ((x, other), (values, plain)):
            result, expected = op(*args), op(*arrays)
            assert type(result) is gg.Tensor
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)
            assert result.requires_grad is (op in ARITHMETIC)
            if result.requires_grad:
                assert grad(result.sum(), x)[0].dtype == gg.float32

    @pytest.mark.parametrize("other", [object(), [1.0, 2.0], None, {}], ids=stable_repr)
    @pytest.mark.parametrize("op", ARITHMETIC)
    def test_unknown_operands(self, op, other):
        for args in ((leaf(1.0, 2.0), other), (other, leaf(1.0, 2.0))):
            with pytest.raises(TypeError, match=f"cannot take a {type(other).__name__}"):
                op(*args)

    def test_equality_with_something_else(self):
        x = leaf(1.0, 2.0)
        assert (x == None, x != "a", x in [x]) == (False, True, True)  # noqa: E711
        for y in gg.exp(np.zeros(2)), gg.add(1.0, np.zeros(2)):  # arrays are operands, too
            assert type(y) is gg.Tensor

    @pytest.mark.parametrize("op", [*ARITHMETIC, operator.matmul, *BITWISE, *COMPARISONS])
    def test_foreign_classes_answer_operators(self, op):
        class Foreign:
            def answer(self, other):
                return "answered"

            __eq__ = answer

            def __array__(self, dtype=None, copy=None):
                raise AssertionError("it was made an array")

        short = op.__name__.strip("_")
        reflected = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
        setattr(Foreign, f"__{reflected.get(short, 'r' + short)}__", Foreign.answer)
        for x in (gg.tensor([1, 2]), gg.nn.Parameter(gg.ones(2))):
            assert op(x, Foreign()) == "answered"
            with gg.no_grad():
                assert (in_place(op) or op)(x, Foreign()) == "answered"

    @pytest.mark.parametrize("op", BITWISE)
    def test_bits(self, op):
        i, j = np.int32([6, 3, 1]), np.int32([3, 1, 2])
        x, y = gg.tensor(i), gg.tensor(j)
        for result, expected in (
            (op(x, y), op(i, j)), (op(x, 2), op(i, 2)), (op(2, x), op(2, i)), (op(i, y), op(i, j)),
            (op(np.int64(2), y), op(2, j)), (in_place(op)(gg.tensor(i), y), op(i, j)),
        ):  # fmt: skip
            assert (type(result), result.dtype) == (gg.Tensor, gg.int32)
            assert_array_equal(result.numpy(), expected)
        with pytest.raises(TypeError, match=r"^bitwise_\w+: .*given float32"):
            op(leaf(1.0), leaf(1.0))

    def test_unary(self):
        x = leaf(-1.0, 2.0)
        for y, expected in ((-x, [1, -2]), (+x, [-1, 2]), (abs(x), [1, 2])):
            assert (y.requires_grad, y.tolist()) == (True, expected)
        assert (+x).array is not x.array
        assert (~gg.tensor([0, 5])).tolist() == [-1, -6]


class TestDtypes:
    @pytest.mark.parametrize("function", [
        gg.exp, gg.sqrt, gg.mean, gg.var, lambda i: gg.softmax(i.astype(gg.int16)), lambda i: i / i,
        lambda i: i / 2, lambda i: 2 / i, lambda i: i * 2.5, lambda i: i**0.5,
        lambda i: gg.where(i > 1, 1.0, 0.0), lambda i: gg.exp(i[0]), lambda i: i[0] * 2.5,
        lambda i: (i > 1) * 0.5,
    ])  # fmt: skip
    def test_floating_results_of_integers_have_the_default_dtype(self, function):
        for dtype in (gg.int64, gg.int32, gg.uint8):
            result = function(gg.tensor([1, 2, 3], dtype=dtype))
            assert result.dtype == gg.float32
            expected = function(gg.tensor([1, 2, 3], dtype=gg.float64))
            np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)

    def test_to(self):
        x = leaf(1.0, 2.0)
        for same in (
            x.to("cpu"), x.to(gg.float32), x.to(dtype="float32", device="cpu"), x.cpu(),
            x.to_device("cpu"), x.to_device(x.device, stream=None),
        ):  # fmt: skip
            assert same is x
        for y in x.to("cpu", gg.float64), x.to(gg.zeros(1, dtype=gg.float64)), x.to("float64"):
            assert (y.dtype, grad(y.sum(), x)[0].dtype) == (gg.float64, gg.float32)
        for wrong, cast in product((object, "datetime64[s]"), (x.to, x.astype)):
            with pytest.raises((TypeError, ValueError), match=r"object|datetime64"):
                cast(wrong)


class TestValues:
    """`x += y` and `x[i] = v` replace the value of x; nothing else changes."""

    @pytest.mark.parametrize("op", ARITHMETIC)
    def test_in_place_operators(self, op):
        x, y = leaf(1.5, 2.5), leaf(2.0, 3.0)
        a, expected = x * 1, op(x * 1, y)
        assert in_place(op)(a, y) is a
        assert a.tolist() == expected.tolist()
        found, gradients = (grad(out.sum(), [x, y]) for out in (a, expected))
        assert [g.tolist() for g in found] == [g.tolist() for g in gradients]

    def test_setitem_keys_and_values(self):
        i = gg.tensor([0, 1])
        for key, value in (
            (1, 5.0), ((slice(None), 2), [1.0, 2.0, 3.0]), (..., np.arange(4)), (GRID > 5, 0),
            ([0, 2], gg.ones((2, 4))), (range(0, 3, 2), gg.ones((2, 4))), (i, 7),
            ((slice(None), range(2)), gg.ones((3, 2))), ((i, [2, 3]), np.float64(7)),
            (np.int64(1), 2),
        ):  # fmt: skip
            x, expected = gg.tensor(GRID, dtype=gg.float32), GRID.copy()
            x[key] = value
            key, value = gg.tree.map(lambda k: getattr(k, "array", k), (key, value))
            expected[key] = value
            assert_array_equal(x.numpy(), expected)
            assert x.dtype == gg.float32

    @pytest.mark.parametrize("shape, key", [
        ((312, 1), ROWS), ((312, 1), ROWS.tolist()), ((312, 3), ROWS), ((312, 3), (ROWS, slice(1))),
        ((312, 2), (slice(156), [1])), ((312,), ROWS[:, None]), ((312, 1), np.arange(312) % 2 == 0),
        ((312, 1), slice(None, None, 2)), ((1, 312, 1), (0, ROWS)), ((156, 1), ...),
        ((312,), ROWS), ((312, 2), (ROWS, [0])), ((156,), slice(None)), ((156, 1), (..., 0)),
    ])  # fmt: skip
    def test_a_column_is_set_as_numpy_does(self, shape, key):
        """Where NumPy refuses a value with more axes than its place, so do Tensors."""
        column, expected = np.random.default_rng(0).random((156, 1)), np.zeros(shape)
        x, value = gg.zeros(shape, dtype=gg.float64), gg.tensor(column, requires_grad=True)
        try:
            expected[key] = column
        except ValueError as error:
            with pytest.raises(ValueError, match=f"^setitem: {re.escape(str(error).strip())}"):
                x[key] = value
            return
        x[key] = value
        assert_array_equal(x.detach().numpy(), expected)
        x.sum().backward()
        assert_array_equal(value.grad.numpy(), np.full((156, 1), expected[key].size / 156))

    def test_in_place_keeps_the_dtype(self):
        x, i = gg.ones(2), gg.tensor([1, 2], dtype=gg.int8)
        x += (y := leaf(1.0, 2.0, dtype=gg.float64))
        i += gg.tensor([1, 2])
        assert (x.dtype, x.tolist()) == (gg.float32, [2, 3])
        assert (i.dtype, i.tolist()) == (gg.int8, [2, 4])
        assert grad(x.sum(), y)[0].dtype == gg.float64
        with pytest.raises(ValueError, match=r"/=: the result, float32.*x = x / y"):
            i /= 2
        with pytest.raises(TypeError, match="int8 holds no gradient"):
            i[0] = y[0]
        assert i.tolist() == [2, 4]


class TestIndexing:
    @pytest.mark.parametrize("key, plain", [
        *((x, x) for x in (True, np.True_, [0, 2], [], ([0, 1], [1, 2]), (np.int64(1), slice(2)))),
        (gg.tensor([2, 0]), [2, 0]), (gg.tensor(GRID) > 5, GRID > 5), (gg.tensor(1), 1),
        (slice(gg.tensor(0), gg.tensor(2)), slice(2)),
    ], ids=repr)  # fmt: skip
    def test_keys_that_are_no_arrays(self, key, plain):
        x, expected = gg.tensor(GRID, requires_grad=True), np.zeros_like(GRID)
        assert_array_equal(x[key].detach().numpy(), GRID[plain])
        np.add.at(expected, plain, 1.0)
        assert_array_equal(grad(x[key].sum(), x)[0].numpy(), expected)


class TestConversions:
    def test_numpy_shares_memory(self):
        x = gg.tensor([1.0, 2.0])
        for array in x.numpy(), np.asarray(x), np.from_dlpack(x):
            assert np.shares_memory(array, x.array)
        assert not np.shares_memory(np.array(x), x.array)
        assert np.asarray(x, dtype=np.float64).dtype == np.float64

    @pytest.mark.parametrize("leave", [
        lambda x: x.numpy(), np.asarray, np.from_dlpack, np.array, lambda x: np.asarray([x, x]),
        lambda x: gg.tensor([x[0], 1.0]),
    ])  # fmt: skip
    def test_rejected_while_grad_is_required(self, leave):
        x = leaf(1.0, 2.0)
        for t in (x, x * 2):
            with pytest.raises(RuntimeError, match=r"requires? grad.*detach\(\)"):
                leave(t)
            leave(t.detach())

    def test_item(self):
        for value, kind in ((1.5, float), (3, int), (True, bool), (1j, complex)):
            item = gg.tensor(value).item()
            assert (item, type(item)) == (value, kind)
        assert gg.tensor([[2.0]]).item() == leaf(2.0).item() == 2

    def test_python_numbers(self):
        assert (float(gg.tensor(1.5)), int(gg.tensor([2.7]))) == (1.5, 2)
        assert (complex(gg.tensor(1.0)), complex(gg.tensor(1j))) == (1, 1j)
        assert [10, 20][gg.tensor(1)] == 20
        assert gg.tensor(1.0)
        assert not gg.tensor([0])
        assert round(gg.tensor([0.5, 1.6])).tolist() == [0.0, 2.0]

    def test_len_and_iter(self):
        x = leaf(1.0, 2.0)
        assert len(x) == 2
        first, second = x
        assert grad(first * second, x)[0].tolist() == [2, 1]
        assert ([len(row) for row in gg.ones((2, 3))], [*gg.zeros((0, 3))]) == ([3, 3], [])


class TestState:
    def test_requires_grad(self):
        x = gg.ones(2)
        assert not x.requires_grad
        for value in True, False, True:
            x.requires_grad = value
            assert x.requires_grad is value
        for y in x, x * 2:
            assert y.requires_grad_() is y

    def test_setting_grad(self):
        x = leaf(1.0, 2.0)
        x.grad = gg.ones(2)
        (x * 2).sum().backward()
        assert x.grad.tolist() == [3, 3]
        for wrong in (gg.ones(3), gg.ones(2, dtype=gg.float64), np.ones(2, dtype=np.float32)):
            with pytest.raises(ValueError, match=r"grad: must be a tensor of shape \(2,\)"):
                x.grad = wrong

    def test_repr(self):
        assert len(repr(gg.zeros(100_000))) < 200
        empty = gg.zeros((2, 0), dtype=gg.float16, requires_grad=True)
        for y, text in (
            (gg.tensor([1 / 3, 2.0]), "[0.33333, 2.     ]"), (gg.tensor(1), "1"),
            (leaf(1.0, 2.0), "[1., 2.], requires_grad=True"), (gg.tensor([True]), "[ True]"),
            (leaf(1.0, 2.0) * 2, "[2., 4.], grad_fn=<multiply>"), (gg.tensor(1j), "0.+1.j"),
            (empty, "[], shape=(2, 0), dtype=float16, requires_grad=True"), (gg.tensor([]), "[]"),
            (gg.ones(2, dtype=gg.float64), "[1., 1.], dtype=float64"),
            (gg.ones(2, dtype=gg.int8, device="cpu"), "[1, 1], dtype=int8"),
            (gg.zeros(0, dtype=gg.int64), "[], dtype=int64"),
            (gg.zeros((0, 3)), "[], shape=(0, 3)"),
        ):  # fmt: skip
            assert repr(y) == f"tensor({text})"
        with np.printoptions(precision=2, linewidth=10):
            assert repr(gg.tensor([1 / 3, 2.0])) == "tensor([0.33,\n        2.  ])"
        assert (f"{gg.tensor(1.25):.1f}", f"{gg.tensor([1.0])}") == ("1.2", "tensor([1.])")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_deepcopy_and_pickle(copied, requires_grad):
    x = gg.tensor([1.0, 2.0], dtype=gg.float16, requires_grad=requires_grad)
    y = copied(x)
    assert type(y) is gg.Tensor
    assert (y.tolist(), y.dtype, y.requires_grad) == ([1, 2], gg.float16, requires_grad)
    assert not np.shares_memory(x.array, y.array)
    assert y.node is None or y.node is not x.node
    with pytest.raises(TypeError, match=r"result of multiply.*detach\(\)"):
        copied(leaf(1.0) * 2)


class TestMethods:
    def test_reshape_and_transposes(self):
        x = gg.tensor(np.arange(6.0).reshape(2, 3))
        for shape in ((3, 2), ((3, 2),), (3, -1), ([3, 2],), (np.array([3, 2]),)):
            assert x.reshape(*shape).shape == (3, 2)
        for shape in (-1, np.int64(6), (np.int64(2), np.int8(-1))):
            assert x.reshape(shape).size == 6
        assert x.T.shape == x.mT.shape == (3, 2)
        assert gg.ones((2, 3, 4)).mT.shape == (2, 4, 3)
        for shape, words in ((), "0"), ((3,), r"1; use x\[:, None\] for a col"):
            with pytest.raises(ValueError, match=rf"^T: needs 2 axes, not {words}"):
                _ = gg.ones(shape).T
            with pytest.raises((ValueError, IndexError), match=r"^matrix_transpose: "):
                _ = gg.ones(shape).mT

    @pytest.mark.parametrize("method", operators.METHODS)
    def test_ops_as_methods(self, method):
        x = gg.tensor([[0.25, 0.75]], dtype=gg.float32)
        args = {"astype": ("float64",), "matmul": (x.mT,), "permute_dims": ((1, 0),), "pow": (2,),
                "squeeze": (0,)}.get(method, ())  # fmt: skip
        assert_array_equal(getattr(x, method)(*args).numpy(), getattr(gg, method)(x, *args).numpy())

    def test_methods_exist_in_other_libraries(self):
        tensor = pytest.importorskip("torch").Tensor
        own = {"permute_dims", "astype"}  # the others have permute, transpose and to
        assert {m for m in operators.METHODS if not hasattr(tensor, m)} <= own


def test_write_to_a_result_under_no_grad():
    x = leaf(1.0, 2.0)
    y = x * x
    with gg.no_grad():
        with pytest.raises(RuntimeError, match=r"x\[...\] = value: .* result of multiply .*detach"):
            y[0] = 5.0
        with pytest.raises(RuntimeError, match=r"\+=: .*lose its graph"):
            y += 1
    assert grad(y.sum(), x)[0].tolist() == [2, 4]


def test_an_index_changed_later_changes_no_gradient():
    x, key = leaf(1.0, 2.0), np.array([1, 1])
    y = x[key].sum()
    key[:] = 0
    assert grad(y, x)[0].tolist() == [0, 2]


class Foreign:
    def __radd__(self, other):
        return NotImplemented


NO_ARRAY = r"at least one input must be .*; gpugrad\.tensor.* given [12]"
LOST = r"requires grad.*item\(\)"


test_errors = error_test([
    *((lambda f=f, args=args: f(*args), TypeError, NO_ARRAY)
      for f, *args in ((gg.exp, 2.0), (gg.add, 1, 2), (gg.sum, 1.0))),
    (lambda: leaf(1.0) + Foreign(), TypeError, r"unsupported operand .* 'Tensor' and 'Foreign'"),
    (lambda: leaf(1.0) * Foreign(), TypeError, r"^multiply: cannot take a Foreign"),
    (lambda: gg.add(leaf(1.0), Foreign()), TypeError, r"^add: cannot take a Foreign"),
    (lambda: ~leaf(1.0), TypeError, r"^bitwise_invert: "),
    (lambda: leaf(1.0).to("float"), ValueError, "device 'float' is not known"),
    (lambda: leaf(1.0).to_device("cpu", stream=1), ValueError, "stream"),
    (lambda: operator.iadd(gg.ones(2), gg.ones((3, 2))), ValueError,
     r"\+=: the result, float32 \(3, 2\).*does not fit"),
    (lambda: gg.ones((2, 3))[0, 0, 0], IndexError, "getitem"),
    (lambda: gg.ones((2, 3))[1.5], IndexError, "getitem"),
    (lambda: gg.ones((2, 3))["a"], TypeError, "index: cannot take a str"),
    (lambda: gg.zeros(0).item(), ValueError, "0 elements"),
    *((lambda x=x: operator.index(x), TypeError, "0-d integer tensor")
      for x in (gg.tensor(1.0), gg.tensor([1]), gg.tensor(True))),
    *((lambda number=number: number(leaf(1.0)), RuntimeError, LOST) for number in (int, complex)),
    (lambda: float(gg.tensor(1j)), TypeError, None), (lambda: int(gg.tensor(1j)), TypeError, None),
    (lambda: int(gg.tensor(math.inf)), OverflowError, None),
    (lambda: int(gg.tensor(math.nan)), ValueError, "NaN"),
    (lambda: float(gg.ones(2)), ValueError, "2 elements"),
    (lambda: bool(gg.zeros(0)), ValueError, "no single truth value; use any or all"),
    (lambda: len(gg.tensor(1.0)), TypeError, "0-d tensor"),
    (lambda: iter(gg.tensor(1.0)), TypeError, "0-d tensor"),
    (lambda: round(gg.tensor(1.25), 1), TypeError, "round"),
    (lambda: (leaf(1.0) * 2).requires_grad_(False), ValueError,
     r"result of multiply, not a leaf.*detach\(\)"),
    *((lambda dtype=dtype: gg.ones(2, dtype=dtype).requires_grad_(), TypeError,
       f"not {dtype}; use astype") for dtype in (gg.int64, gg.bool, gg.uint8)),
    (lambda: setattr(gg.ones(2), "grad", gg.ones(2)), ValueError, "does not require grad"),
    (lambda: setattr(gg.ones(2), "name", "x"), AttributeError, None),
    (lambda: gg.ones(6).reshape(2.5), TypeError, r"^reshape: shape must be an int or a.*2\.5"),
])  # fmt: skip
