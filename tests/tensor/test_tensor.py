"""Tensor: operators and their operands, value semantics, and conversions to other types."""

import copy
import enum
import fractions
import operator
import pickle
import re
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from samples import stable_repr

import gpugrad as gg
from gpugrad.ops import operators

ARITHMETIC, COMPARISONS, BITWISE, IN_PLACE = (
    [getattr(operator, name) for name in names.split()]
    for names in (
        "add sub mul truediv floordiv mod pow",
        "lt le gt ge eq ne",
        "and_ or_ xor lshift rshift",
        "iadd isub imul itruediv ifloordiv imod ipow",
    )
)

ROWS = np.random.default_rng(0).permutation(312)[:156]


def name(function):
    return function.__name__


def leaf(*values, dtype=gg.float32):
    return gg.tensor(values, dtype=dtype, requires_grad=True)


class Color(enum.IntEnum):
    RED = 2


class TestOperands:
    @pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS], ids=name)
    @pytest.mark.parametrize("other", [
        *(2, 2.0, True, np.bool(True), fractions.Fraction(2), Color.RED),
        *(number(2) for number in (np.float64, np.float16, np.int64, np.uint8, np.longdouble)),
        *(np.array([2.0, 3.0], np.float32), np.array([2, 3]), np.array(2.0, np.float32)),
    ], ids=lambda x: f"{type(x).__name__}{getattr(x, 'shape', '')}")  # fmt: skip
    def test_either_side(self, op, other):
        values = np.array([1.5, 2.5], dtype=np.float32)
        plain = np.asarray(other, dtype=np.float32)
        for left in (False, True):
            x = leaf(1.5, 2.5)
            result = op(other, x) if left else op(x, other)
            expected = op(plain, values) if left else op(values, plain)
            assert type(result) is gg.Tensor
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-6)
            if op in ARITHMETIC:
                result.sum().backward()
                assert x.grad.dtype == gg.float32
            else:
                assert not result.requires_grad

    @pytest.mark.parametrize("other", [object(), [1.0, 2.0], None, {}], ids=stable_repr)
    @pytest.mark.parametrize("op", ARITHMETIC, ids=name)
    def test_unknown_operands(self, op, other):
        for args in ((leaf(1.0, 2.0), other), (other, leaf(1.0, 2.0))):
            with pytest.raises(TypeError, match=f"cannot take a {type(other).__name__}"):
                op(*args)

    def test_equality_with_something_else(self):
        x = leaf(1.0, 2.0)
        assert (x == None) is False  # noqa: E711
        assert (x != "a") is True
        assert x in [x]

    def test_ops_need_an_array(self):
        for call in (lambda: gg.exp(2.0), lambda: gg.add(1, 2), lambda: gg.sum(1.0)):
            with pytest.raises(TypeError, match=r"at least one input must be .*; gpugrad\.tensor"):
                call()
        for x in gg.exp(np.zeros(2)), gg.add(1.0, np.zeros(2)):
            assert type(x) is gg.Tensor

    @pytest.mark.parametrize("op", [*ARITHMETIC, operator.matmul, *BITWISE, *COMPARISONS], ids=name)
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
        in_place = getattr(operator, f"i{short}", None)
        for x in (gg.tensor([1, 2]), gg.nn.Parameter(gg.ones(2))):
            assert op(x, Foreign()) == "answered"
            with gg.no_grad():
                assert in_place is None or in_place(x, Foreign()) == "answered"

    def test_foreign_classes_without_the_operator(self):
        class Foreign:
            def __radd__(self, other):
                return NotImplemented

        for call, message in (
            (operator.add, r"unsupported operand .* 'Tensor' and 'Foreign'"),
            (operator.mul, r"^multiply: cannot take a Foreign"),
            (gg.add, r"^add: cannot take a Foreign"),
        ):
            with pytest.raises(TypeError, match=message):
                call(leaf(1.0), Foreign())

    @pytest.mark.parametrize("op", BITWISE, ids=name)
    def test_bits(self, op):
        i, j = np.array([6, 3, 1], dtype=np.int32), np.array([3, 1, 2], dtype=np.int32)
        x, y = gg.tensor(i), gg.tensor(j)
        for result, expected in (
            (op(x, y), op(i, j)),
            (op(x, 2), op(i, 2)),
            (op(2, x), op(2, i)),
            (op(i, y), op(i, j)),
            (op(np.int64(2), y), op(2, j)),
            (getattr(operator, f"i{op.__name__.strip('_')}")(gg.tensor(i), y), op(i, j)),
        ):
            assert type(result) is gg.Tensor
            assert result.dtype == gg.int32
            assert_array_equal(result.numpy(), expected)
        with pytest.raises(TypeError, match=r"^bitwise_\w+: .*given float32"):
            op(leaf(1.0), leaf(1.0))

    def test_unary(self):
        x = leaf(-1.0, 2.0)
        for y, expected in ((-x, [1, -2]), (+x, [-1, 2]), (abs(x), [1, 2])):
            assert y.requires_grad
            assert y.tolist() == expected
        assert (+x).array is not x.array
        assert (~gg.tensor([0, 5])).tolist() == [-1, -6]
        with pytest.raises(TypeError, match=r"^bitwise_invert: "):
            operator.invert(x)


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
        assert x.to("cpu") is x
        assert x.to(gg.float32) is x
        assert x.to(dtype="float32", device="cpu") is x
        assert x.to("cpu", gg.float64).dtype == gg.float64
        assert x.cpu() is x
        x.to(gg.float64).sum().backward()
        assert x.grad.dtype == gg.float32
        assert x.to(gg.zeros(1, dtype=gg.float64)).dtype == x.to("float64").dtype == gg.float64
        for wrong, cast in product((object, "datetime64[s]"), (x.to, x.astype)):
            with pytest.raises((TypeError, ValueError), match=r"object|datetime64"):
                cast(wrong)
        with pytest.raises(ValueError, match="device 'float' is not known"):
            x.to("float")


class TestValues:
    """`x += y` and `x[i] = v` replace the value of x; nothing else changes."""

    @pytest.mark.parametrize("op", IN_PLACE, ids=name)
    def test_in_place_operators(self, op):
        x, y = leaf(1.5, 2.5), leaf(2.0, 3.0)
        a = x * 1
        b = op(a, y)
        assert b is a
        plain = getattr(operator, op.__name__[1:])
        expected = plain(x * 1, y)
        assert_array_equal(a.detach().numpy(), expected.detach().numpy())
        found, gradients = (gg.autograd.grad(out.sum(), [x, y]) for out in (a, expected))
        assert [g.tolist() for g in found] == [g.tolist() for g in gradients]

    def test_a_write_changes_no_other_tensor(self):
        x = gg.tensor([1.0, 2.0, 3.0])
        source = x.array
        view, detached, flat, same = x[:2], x.detach(), x.reshape((3, 1)), gg.asarray(x.array)
        others = [view, detached, flat, same]
        before = [t.tolist() for t in others]
        x += 1
        x[0] = 9.0
        x *= 2
        assert x.tolist() == [18, 6, 8]
        assert [t.tolist() for t in others] == before
        assert source.tolist() == [1, 2, 3]

    def test_setitem_makes_a_constant_require_grad(self):
        y, v = gg.zeros(2), leaf(3.0)
        y[1] = v[0]
        assert y.requires_grad
        y.sum().backward()
        assert v.grad.item() == 1

    def test_setitem_keys_and_values(self):
        a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
        for key, value in [
            (1, 5.0),
            ((slice(None), 2), [1.0, 2.0, 3.0]),
            (..., np.arange(4)),
            ([0, 2], gg.ones((2, 4))),
            (range(0, 3, 2), gg.ones((2, 4))),
            ((slice(None), range(2)), gg.ones((3, 2))),
            (a > 5, 0),
            (gg.tensor([0, 1]), 7),
            ((gg.tensor([0, 1]), [2, 3]), np.float64(7)),
            (np.int64(1), 2),
        ]:
            x = gg.tensor(a)
            x[key] = value
            expected = a.copy()
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

    def test_leaf_is_written_only_under_no_grad(self):
        x = leaf(1.0, 2.0)
        for write in (lambda: operator.iadd(x, 1), lambda: operator.setitem(x, 0, 5.0)):
            with pytest.raises(RuntimeError, match=r"leaf .* no_grad\(\)"):
                write()
        node = x.node
        with gg.no_grad():
            x -= 1
            x[0] = 7.0
        assert x.tolist() == [7, 1]
        assert x.node is node
        assert x.is_leaf
        (x * x).sum().backward()
        assert_array_equal(x.grad.numpy(), [14, 2])

    def test_in_place_result_must_fit(self):
        x, i = gg.ones(2), gg.tensor([1, 2])
        with pytest.raises(ValueError, match=r"\+=: the result, float32 \(3, 2\).*does not fit"):
            x += gg.ones((3, 2))
        with pytest.raises(ValueError, match=r"/=: the result, float32.*x = x / y"):
            i /= 2
        assert i.tolist() == [1, 2]

    def test_in_place_keeps_the_dtype(self):
        x, i = gg.ones(2), gg.tensor([1, 2], dtype=gg.int8)
        x += (y := leaf(1.0, 2.0, dtype=gg.float64))
        i += gg.tensor([1, 2])
        assert (x.dtype, x.tolist()) == (gg.float32, [2, 3])
        assert (i.dtype, i.tolist()) == (gg.int8, [2, 4])
        assert gg.autograd.grad(x.sum(), y)[0].dtype == gg.float64

    def test_integers_hold_no_gradient(self):
        i = gg.tensor([1, 2])
        with pytest.raises(TypeError, match="int64 holds no gradient"):
            i[0] = leaf(1.0)[0]
        i[0] = 5
        assert i.tolist() == [5, 2]


class TestIndexing:
    @pytest.mark.parametrize(
        "key",
        [-1, True, np.True_, (..., None, 0), [0, 2], [], ([0, 1], [1, 2]), (np.int64(1), slice(2))],
        ids=repr,
    )
    def test_as_numpy(self, key):
        a = np.arange(12.0).reshape(3, 4)
        x = gg.tensor(a, requires_grad=True)
        y = x[key]
        assert_array_equal(y.detach().numpy(), a[key])
        y.sum().backward()
        expected = np.zeros_like(a)
        np.add.at(expected, key, 1.0)
        assert_array_equal(x.grad.numpy(), expected)

    def test_tensor_keys(self):
        a = np.arange(12.0).reshape(3, 4)
        x = gg.tensor(a)
        for key, plain in (
            (gg.tensor([2, 0]), [2, 0]), (x > 5, a > 5), (gg.tensor(1), 1),
            (slice(gg.tensor(0), gg.tensor(2)), slice(2)),
        ):  # fmt: skip
            assert_array_equal(x[key].numpy(), a[plain])

    def test_errors(self):
        x = gg.ones((2, 3))
        for key, message in ((5, ": index 5 is out of bounds"), ((0, 0, 0), ""), (1.5, "")):
            with pytest.raises(IndexError, match=f"getitem{message}"):
                x[key]
        with pytest.raises(TypeError, match="index: cannot take a str"):
            x["a"]


class TestConversions:
    def test_numpy_shares_memory(self):
        x = gg.tensor([1.0, 2.0])
        assert np.shares_memory(x.numpy(), x.array)
        assert np.shares_memory(np.asarray(x), x.array)
        assert np.asarray(x, dtype=np.float64).dtype == np.float64
        assert not np.shares_memory(np.array(x), x.array)
        assert np.shares_memory(np.from_dlpack(x), x.array)

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
            assert item == value
            assert type(item) is kind
        assert gg.tensor([[2.0]]).item() == 2
        assert leaf(2.0).item() == 2
        for x, message in (leaf(1.0, 2.0), "2 elements, not 1"), (gg.zeros(0), "0 elements"):
            with pytest.raises(ValueError, match=message):
                x.item()

    def test_python_numbers(self):
        assert float(gg.tensor(1.5)) == 1.5
        assert int(gg.tensor([2.7])) == 2
        assert complex(gg.tensor(1.0)) == 1
        assert [10, 20][gg.tensor(1)] == 20
        for t in (gg.tensor(1.0), gg.tensor([1]), gg.tensor(True)):
            with pytest.raises(TypeError, match="0-d integer tensor"):
                operator.index(t)
        assert complex(gg.tensor(1j)) == 1j
        for number, x, error, message in (
            *((number, leaf(1.0), RuntimeError, r"requires grad.*item\(\)")
              for number in (float, int, complex)),
            (float, gg.tensor(1j), TypeError, None), (int, gg.tensor(1j), TypeError, None),
            (int, gg.tensor(float("inf")), OverflowError, None),
            (int, gg.tensor(float("nan")), ValueError, "NaN"),
            (float, gg.ones(2), ValueError, "2 elements"),
        ):  # fmt: skip
            with pytest.raises(error, match=message):
                number(x)

    def test_truth_value(self):
        assert gg.tensor(1.0)
        assert not gg.tensor([0])
        for t in (gg.ones(2), gg.zeros(0)):
            with pytest.raises(ValueError, match="no single truth value; use any or all"):
                bool(t)

    def test_len_and_iter(self):
        x = leaf(1.0, 2.0)
        assert len(x) == 2
        first, second = x
        (first * second).backward()
        assert_array_equal(x.grad.numpy(), [2, 1])
        assert [len(row) for row in gg.ones((2, 3))] == [3, 3]
        assert list(gg.zeros((0, 3))) == []
        for function in (len, iter):
            with pytest.raises(TypeError, match="0-d tensor"):
                function(gg.tensor(1.0))


class TestState:
    def test_requires_grad(self):
        x = gg.ones(2)
        assert not x.requires_grad
        assert x.requires_grad_() is x
        assert x.requires_grad
        x.requires_grad = False
        assert not x.requires_grad
        y = x.requires_grad_() * 2
        assert y.requires_grad_() is y
        with pytest.raises(ValueError, match=r"result of multiply, not a leaf.*detach\(\)"):
            y.requires_grad_(False)

    @pytest.mark.parametrize("dtype", [gg.int64, gg.bool, gg.uint8], ids=str)
    def test_only_floating_tensors_require_grad(self, dtype):
        with pytest.raises(TypeError, match=f"not {dtype}; use astype"):
            gg.ones(2, dtype=dtype).requires_grad_()
        with pytest.raises(TypeError, match="floating"):
            gg.ones(2, dtype=dtype, requires_grad=True)

    def test_setting_grad(self):
        x = leaf(1.0, 2.0)
        x.grad = gg.ones(2)
        (x * 2).sum().backward()
        assert_array_equal(x.grad.numpy(), [3, 3])
        for wrong in (gg.ones(3), gg.ones(2, dtype=gg.float64), np.ones(2, dtype=np.float32)):
            with pytest.raises(ValueError, match=r"grad: must be a tensor of shape \(2,\)"):
                x.grad = wrong
        with pytest.raises(ValueError, match="does not require grad"):
            gg.ones(2).grad = gg.ones(2)

    def test_repr_as_numpy_is_told_to_print(self):
        x = gg.tensor([1 / 3, 2.0])
        assert repr(x) == "tensor([0.33333, 2.     ])"
        with np.printoptions(precision=2, linewidth=10):
            assert repr(x) == "tensor([0.33,\n        2.  ])"

    def test_round(self):
        assert round(gg.tensor([0.5, 1.6])).tolist() == [0.0, 2.0]
        with pytest.raises(TypeError, match="round"):
            round(gg.tensor(1.25), 1)

    def test_repr(self):
        assert len(repr(gg.zeros(100_000))) < 200
        empty = gg.zeros((2, 0), dtype=gg.float16, requires_grad=True)
        for y, text in (
            (gg.tensor([1.0, 2.0]), "tensor([1., 2.])"),
            (leaf(1.0, 2.0), "tensor([1., 2.], requires_grad=True)"),
            (leaf(1.0, 2.0) * 2, "tensor([2., 4.], grad_fn=<multiply>)"),
            (gg.tensor(1), "tensor(1)"),
            (empty, "tensor([], shape=(2, 0), dtype=float16, requires_grad=True)"),
            (gg.ones(2, dtype=gg.float64), "tensor([1., 1.], dtype=float64)"),
            (gg.ones(2, dtype=gg.int8, device="cpu"), "tensor([1, 1], dtype=int8)"),
            (gg.tensor([True]), "tensor([ True])"),
            (gg.tensor(1j), "tensor(0.+1.j)"),
            (gg.tensor([]), "tensor([])"),
            (gg.zeros(0, dtype=gg.int64), "tensor([], dtype=int64)"),
            (gg.zeros((0, 3)), "tensor([], shape=(0, 3))"),
        ):
            assert repr(y) == text
        assert f"{gg.tensor(1.25):.1f}" == "1.2"
        assert f"{gg.tensor([1.0])}" == "tensor([1.])"

    def test_users_cannot_add_attributes(self):
        with pytest.raises(AttributeError):
            gg.ones(2).name = "x"


class TestCopies:
    @pytest.mark.parametrize(
        "copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))], ids=["copy", "pickle"]
    )
    @pytest.mark.parametrize("requires_grad", [False, True])
    def test_deepcopy_and_pickle(self, copied, requires_grad):
        x = gg.tensor([1.0, 2.0], dtype=gg.float16, requires_grad=requires_grad)
        y = copied(x)
        assert type(y) is gg.Tensor
        assert_array_equal(y.detach().numpy(), [1, 2])
        assert (y.dtype, y.requires_grad) == (gg.float16, requires_grad)
        assert not np.shares_memory(x.array, y.array)
        assert y.node is None or y.node is not x.node

    def test_results_are_rejected(self):
        for function in (copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=r"result of multiply.*detach\(\)"):
                function(leaf(1.0) * 2)
        assert copy.deepcopy((leaf(1.0) * 2).detach()).tolist() == [2]


class TestMethods:
    def test_reshape_and_transposes(self):
        x = gg.tensor(np.arange(6.0).reshape(2, 3))
        assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == x.reshape(3, -1).shape == (3, 2)
        assert x.reshape(-1).shape == (6,)
        assert x.T.shape == x.mT.shape == (3, 2)
        for shape in (np.int64(6), (np.int64(3), np.int8(-1)), [3, 2], np.array([3, 2])):
            assert x.reshape(shape).size == 6
        with pytest.raises(TypeError, match=r"^reshape: shape must be an int or a tuple.*2\.5"):
            x.reshape(2.5)
        assert gg.ones((2, 3, 4)).mT.shape == (2, 4, 3)
        for shape, words in (((), "0"), ((3,), r"1; use x\[:, None\] for a col"), ((2, 3, 4), "3")):
            with pytest.raises(ValueError, match=rf"^T: needs 2 axes, not {words}"):
                _ = gg.ones(shape).T
        for shape in (), (2,):
            with pytest.raises((ValueError, IndexError), match=r"^matrix_transpose: "):
                _ = gg.ones(shape).mT

    @pytest.mark.parametrize("method", operators.METHODS)
    def test_ops_as_methods(self, method):
        x = gg.tensor([[0.25, 0.75]], dtype=gg.float32)
        args = {"astype": ("float64",), "matmul": (x.mT,), "permute_dims": ((1, 0),), "pow": (2,)}
        args = args.get(method, (0,) if method == "squeeze" else ())
        result = getattr(x, method)(*args)
        assert_array_equal(result.numpy(), getattr(gg, method)(x, *args).numpy())

    def test_methods_exist_in_other_libraries(self):
        torch = pytest.importorskip("torch")
        own = {"permute_dims"}  # the others have permute and transpose
        assert {m for m in operators.METHODS if not hasattr(torch.Tensor, m)} <= own | {"astype"}

    def test_to_device(self):
        x = leaf(1.0)
        assert x.to_device("cpu") is x
        assert x.to_device(x.device, stream=None) is x
        with pytest.raises(ValueError, match="stream"):
            x.to_device("cpu", stream=1)


def test_write_to_a_result_under_no_grad():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    for write, message in (
        (lambda: operator.setitem(y, 0, 5.0), r"x\[...\] = value: .* result of multiply .*detach"),
        (lambda: operator.iadd(y, 1), r"\+=: .*lose its graph"),
    ):
        with gg.no_grad(), pytest.raises(RuntimeError, match=message):
            write()
    y.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_an_index_changed_later_changes_no_gradient():
    x = gg.tensor([1.0, 2.0], requires_grad=True)
    key = np.array([1, 1])
    y = x[key]
    key[:] = 0
    y.sum().backward()
    assert x.grad.tolist() == [0, 2]
