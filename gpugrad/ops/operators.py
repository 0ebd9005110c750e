"""Python's operators, indexing and methods of Tensor, each one of the ops."""

import math
from collections.abc import Iterator
from operator import index
from typing import Any

from .._arguments import axis_of, device_and_dtype
from .._batched import BatchedTensor, become
from .._dtypes import isdtype
from .._foreign_names import INSTEAD, MissingName, explains_arguments
from .._tensor import Tensor, check_writable
from .._thread_state import thread
from ..autograd import call
from ..autograd.graph import Node, watched
from ..autograd.mode import is_grad_enabled
from ..autograd.operation import composite, exports
from ..backends import SCALARS, Shape, adopt, backend_of, describe, is_foreign, is_on, namespace_of
from ..backends.dtypes import int64
from . import elementwise, indexing, linalg, manipulation, products, reductions, searching
from .indexing import getitem, getitem_batched, scatter_add_batched, setitem, setitem_batched
from .keys import is_basic, items

OPERATORS = {
    "add": ("+", "add"), "sub": ("-", "subtract"), "mul": ("*", "multiply"),
    "truediv": ("/", "divide"), "floordiv": ("//", "floor_divide"), "mod": ("%", "remainder"),
    "pow": ("**", "pow"), "matmul": ("@", "matmul"), "and": ("&", "bitwise_and"),
    "or": ("|", "bitwise_or"), "xor": ("^", "bitwise_xor"), "lshift": ("<<", "bitwise_left_shift"),
    "rshift": (">>", "bitwise_right_shift"),
}  # fmt: skip

COMPARISONS = {
    "lt": ("gt", "less"), "le": ("ge", "less_equal"), "gt": ("lt", "greater"),
    "ge": ("le", "greater_equal"), "eq": ("eq", "equal"), "ne": ("ne", "not_equal"),
}  # fmt: skip

UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}

# Methods of NumPy's arrays or PyTorch's tensors that programs often chain, with the same meaning
# but for sort, which returns only the values, as in JAX. All other ops are functions only.
METHODS = """
    abs all any argmax argmin argsort astype clip conj cos exp log log_softmax logsumexp matmul
    max mean min permute_dims pow prod relu round sigmoid sign sin softmax sort sqrt square
    std sum tanh var
""".split()


def _reflected(op):
    def operator(self, other):
        return op(other, self)

    return operator


def _equality(operator):
    def equality(self, other):
        if type(other) not in SCALARS and not isinstance(other, Tensor):
            if is_foreign(type(other), "__eq__"):
                return NotImplemented
            try:
                other = adopt(other)
            except TypeError:
                return NotImplemented  # None, strings and the like are not equal
        return operator(self, other)

    return equality


def _in_place(binary, symbol):
    def operator(self, other):
        stays_leaf = check_writable(self, symbol)
        result = binary(self, other)
        if result is NotImplemented:
            return result
        if result.dtype != self.dtype and _kinds(result) == _kinds(self):
            result = manipulation.astype(result, self.dtype)  # as NumPy and PyTorch do
        if result.shape != self.shape or result.dtype != self.dtype:
            raise ValueError(
                f"{symbol}: the result, {describe(result)}, does not fit the tensor, "
                f"{describe(self)}; write x = x {symbol[:-1]} y for a new one"
            )
        return _replace(self, result, stays_leaf)

    return operator


def _kinds(x):
    return [isdtype(x.dtype, k) for k in ("integral", "real floating", "complex floating")]


def _replace(tensor, result, stays_leaf):
    """Give ``tensor`` the value of ``result``; other tensors that shared its memory keep theirs."""
    if type(result) is BatchedTensor:
        if stays_leaf:
            raise ValueError(
                "a value that differs between vmap's examples cannot be kept in a leaf"
            )
        become(tensor, result)
        return tensor
    tensor.array = result.array
    if not stays_leaf:
        watch = tensor.node.watch if type(tensor.node) is Node else None
        if watch is not None and result.node is not None:
            # A gradient is kept for the value that the tensor has at last. Hooks stay with the old.
            watched(result.node).leaf, watch.leaf = watch.leaf, None
            result.node.watch.label = watch.label
        tensor.node = result.node
    return tensor


def _key(key, array):
    """An index into ``array``, with raw arrays in place of tensors, lists and other arrays."""
    if type(key) is tuple:  # a tuple in it is a list of indices, as in NumPy
        return tuple([_key([*k] if type(k) is tuple else k, array) for k in key])
    if type(key) in (int, slice, bool, BatchedTensor) or key is None or key is ...:
        return key
    if isinstance(key, Tensor):
        key = key.array
    elif isinstance(key, list | range):
        backend, key = backend_of[type(array)], [*key]
        dtype = None if key else backend.dtype(int64)
        key = backend.asarray(key, dtype=dtype, device=backend.device(array))
    else:
        try:
            key = adopt(key)
        except TypeError as error:
            raise TypeError(f"index: {error}") from None
        if type(key) is type(array):  # the caller's, who may write to it before backward
            key = backend_of[type(array)].asarray(key, copy=True)
    if type(key) in namespace_of and type(key) is not type(array):
        key = backend_of[type(array)].lifted(key)
        array = backend_of[type(key)].lifted(array)
    if type(key) in namespace_of and type(key) is not type(array):
        raise TypeError(f"index: {describe(array)} cannot be indexed by {describe(key)}; move one")
    return key


def _recorded(tensor, key):
    """The tensor to index. Beside an index that `compile` records, it becomes a constant."""
    for k in items(key):
        if type(k) in namespace_of and type(k) is not type(tensor._like):
            if type(tensor) is BatchedTensor:
                return tensor.of(_recorded(tensor.payload, key))
            return call.wrap(backend_of[type(k)].lifted(tensor.array), tensor.node)
    return tensor


def _getitem(self, key: Any, /) -> Tensor:
    if type(key) is not int and type(key) is not slice:
        key = _key(key, self._like)
        if thread.recorder is not None:
            self = _recorded(self, key)
        if _is_batched(key):
            return getitem_batched(self, key)
    return getitem(self, key)


def _is_batched(key):
    return any(type(k) is BatchedTensor for k in items(key))


def _setitem(self, key: Any, value: Any, /) -> None:
    stays_leaf = check_writable(self, "x[...] = value")
    if isinstance(value, (list, tuple)):
        value = backend_of[type(self._like)].asarray(value, dtype=self.dtype)
    key = _key(key, self._like)
    if _is_batched(key):
        result = setitem_batched(self, value, key)
    else:
        result = setitem(self if thread.recorder is None else _recorded(self, key), value, key)
    floating = backend_of[type(self._like)].is_floating(self.dtype)
    if not floating and getattr(value, "requires_grad", False) and is_grad_enabled():
        raise TypeError(
            f"x[...] = value: the value requires grad, but {self.dtype} holds no gradient"
        )
    _replace(self, result, stays_leaf)


@composite
def scatter_add(values: Any, /, shape: Shape, key: Any) -> Tensor:
    """Zeros of ``shape`` with ``values`` added at ``key``; values at a repeated index add up.

    key: an index as in ``x[key]``, whose arrays may be tensors.
    """
    if not is_basic(key) and type(values) not in SCALARS:
        if not isinstance(values, Tensor):
            try:
                values = call.wrap(adopt(values), None)
            except TypeError as error:
                raise TypeError(f"scatter_add: {error}") from None
        key = _key(key, values._like)
        if _is_batched(key):
            return scatter_add_batched(values, shape, key)
        if thread.recorder is not None:
            values = _recorded(values, key)
    return indexing.scatter_add(values, shape, key)


def _iter(self) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(manipulation.unstack(self))


def _round(self, ndigits: int | None = None) -> Tensor:
    """Round each element to the nearest integer, halves to even."""
    if ndigits is not None:
        raise TypeError("round: to a number of digits takes a Python number, such as x.item()")
    return elementwise.round(self)


def _reshape(self, *shape: Shape) -> Tensor:
    """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    return manipulation.reshape(self, shape[0] if len(shape) == 1 else shape)


def _ravel(self) -> Tensor:
    """The elements in row-major order, along one axis."""
    return manipulation.reshape(self, (-1,))


def _flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The axes from ``start_dim`` to ``end_dim``, both included, merged into one; by default all.

    Raises ValueError unless they are axes in this order.
    """
    ndim = len(shape := self.shape)
    if ndim == 0 and start_dim in (0, -1) and end_dim in (0, -1):
        return manipulation.reshape(self, (1,))
    first, last = index(start_dim), index(end_dim)
    first, last = first + ndim * (first < 0), last + ndim * (last < 0)
    if not 0 <= first <= last < ndim:
        raise ValueError(
            f"flatten: start_dim {start_dim} and end_dim {end_dim} are not axes in order "
            f"of a tensor of shape {shape}"
        )
    size = math.prod(shape[first : last + 1])
    return manipulation.reshape(self, (*shape[:first], size, *shape[last + 1 :]))


def _squeeze(self, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The tensor without these axes, which must have length 1; by default without all such."""
    if axis is None:
        axis = tuple([i for i, n in enumerate(self.shape) if n == 1])
    return manipulation.squeeze(self, axis)


def _permuted(self, *axes: int | tuple[int, ...]) -> Tensor:
    """The tensor with its axes in reverse order, or in the order ``axes``, as in NumPy.

    PyTorch's method, which swaps two axes, is `swapaxes`; ``x.mT`` transposes matrices.
    Raises ValueError for ``x.transpose(0, 1)`` of a matrix, where NumPy and PyTorch differ.
    """
    if not axes:
        return manipulation.permute_dims(self, tuple(range(self.ndim))[::-1])
    order: Any = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    if len(axes) == 2 and (self.ndim != 2 or [a % 2 for a in axes] == [0, 1]):  # type: ignore[operator]
        raise ValueError(
            "transpose: to swap two axes, as in PyTorch, write x.swapaxes(a, b); in NumPy, the "
            "arguments are the order of all axes, as for x.permute_dims(axes)"
        )
    order = tuple([axis_of("transpose", a, self.ndim) for a in order])
    return manipulation.permute_dims(self, order)


def _swapaxes(self, axis1: int, axis2: int) -> Tensor:
    """The tensor with two axes swapped."""
    order = list(range(self.ndim))
    axis1, axis2 = [axis_of("swapaxes", a, self.ndim) for a in (axis1, axis2)]
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return manipulation.permute_dims(self, tuple(order))


def _diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements whose indices along two axes differ by ``offset``, along a new last axis."""
    return linalg.diagonal(manipulation.moveaxis(self, (axis1, axis2), (-2, -1)), offset=offset)


def _trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The sums of the `diagonal`."""
    return reductions.sum(_diagonal(self, offset, axis1, axis2), axis=-1)


def _take(self, indices: Any, axis: int | None = None) -> Tensor:
    """The slices at ``indices`` of any shape along ``axis``; None flattens the array first."""
    if axis is None:
        return _ravel(self)[(indices,)]
    return self[(*[slice(None)] * axis_of("take", axis, self.ndim), indices)]


@explains_arguments
def _nonzero(self) -> tuple[Tensor, ...]:
    """Indices of the elements that are not 0, a tensor for each axis; PyTorch's is `argwhere`."""
    return searching.nonzero(self)


@explains_arguments
def _repeat(self, repeats: Any, *, axis: int | None = None) -> Tensor:
    """Each element ``repeats`` times in a row along ``axis``; None flattens the array first.

    repeats: an int, or an array of integers (n,). PyTorch's method is `tile`.
    """
    if isinstance(repeats, (list, tuple)):
        raise TypeError(
            f"repeat: repeats must be an int or an array, not {repeats}; to repeat the whole "
            f"tensor write gpugrad.tile(x, {repeats})"
        )
    return manipulation.repeat(self, repeats, axis=axis)


def _copy(self) -> Tensor:
    """The same values in new memory; differentiable."""
    return manipulation.astype(self, self.dtype, copy=True)


def _dot(self, other: Any) -> Tensor:
    """The product of vectors or matrices, ``x @ other``."""
    if not 0 < self.ndim < 3 or not 0 < getattr(other, "ndim", 0) < 3:
        raise ValueError("dot: takes vectors and matrices; for others use @, * or tensordot")
    return products.matmul(self, other)


@explains_arguments
def _cumsum(self, axis: int | None = None) -> Tensor:
    """The sums of the elements up to each one along ``axis``; None flattens the array first."""
    return reductions.cumulative_sum(self if axis is not None else _ravel(self), axis=axis)


@explains_arguments
def _cumprod(self, axis: int | None = None) -> Tensor:
    """The products of the elements up to each one along ``axis``; None flattens the array first."""
    return reductions.cumulative_prod(self if axis is not None else _ravel(self), axis=axis)


def _to(
    self, *args: Any, device: str | None = None, dtype: Any = None, non_blocking: bool = False
) -> Tensor:
    """The tensor on another device, in another dtype, or both: ``x.to("cuda")``,
    ``x.to(gpugrad.float64)``; or with the device and the dtype of another tensor, ``x.to(y)``.

    non_blocking: accepted as PyTorch does, and ignored.

    It is differentiable, and returns the tensor itself if there is nothing to change.
    """
    device, dtype = device_and_dtype(args, device, dtype)
    if device is not None and not is_on(self._like, device):
        self = manipulation.to_device(self, device)
    if dtype is not None and self.dtype != backend_of[type(self._like)].dtype(dtype):
        self = manipulation.astype(self, dtype)
    return self


def _to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device, as the array API standard has it; `to` takes a dtype too."""
    if stream is not None:
        raise ValueError("to_device: a transfer has no stream of its own; leave stream out")
    return _to(self, device)


def _cuda(self, index: int | None = None, non_blocking: bool = False) -> Tensor:
    """The tensor on a CUDA device, by default the current one; `to` explains ``non_blocking``."""
    return _to(self, "cuda" if index is None else f"cuda:{index}")


def _cpu(self) -> Tensor:
    """The tensor on the CPU."""
    return _to(self, "cpu")


def _transpose(self) -> Tensor:
    """The two axes of a matrix swapped."""
    if self.ndim != 2:
        instead = "x[:, None] for a column" if self.ndim == 1 else "mT or permute_dims"
        raise ValueError(f"T: needs 2 axes, not {self.ndim}; use {instead}")
    return products.matrix_transpose(self)


# These import `gpugrad.numpy`, which replaces them on the class.


def _array_ufunc(self, *args, **keywords):
    return call.namespace.numpy._protocols.array_ufunc(self, *args, **keywords)


def _array_function(self, *args):
    return call.namespace.numpy._protocols.array_function(self, *args)


def _put(name, operator):
    operator.__name__, operator.__qualname__ = name, f"Tensor.{name}"
    setattr(Tensor, name, operator)


_METHODS = (
    _copy, _cpu, _cuda, _cumprod, _cumsum, _diagonal, _dot, _flatten, _nonzero, _ravel, _repeat,
    _reshape, _squeeze, _swapaxes, _take, _to, _to_device, _trace,
)  # fmt: skip


def install():
    """Add the operators and methods to the class."""
    ops = exports()
    for name, (symbol, function) in OPERATORS.items():
        operator = call.binary(ops[function].op, reflected=f"__r{name}__")
        _put(f"__{name}__", operator)
        _put(f"__r{name}__", _reflected(ops[function]))
        _put(f"__i{name}__", _in_place(operator, f"{symbol}="))
    for name, (reflected, function) in COMPARISONS.items():
        operator = call.binary(ops[function].op, reflected=f"__{reflected}__")
        _put(f"__{name}__", _equality(operator) if name in ("eq", "ne") else operator)
    for name, function in UNARY.items():
        setattr(Tensor, f"__{name}__", ops[function])
    for name in METHODS:
        setattr(Tensor, name, ops[name])
    Tensor.__array_ufunc__ = _array_ufunc
    Tensor.__array_function__ = _array_function
    for method in _getitem, _setitem, _iter, _round:
        _put(f"_{method.__name__}__", method)
    for method in _METHODS:
        _put(method.__name__.strip("_"), method)
    _put("transpose", _permuted)
    Tensor.T = property(_transpose)
    Tensor.mT = property(products.matrix_transpose)
    Tensor.real = property(ops["real"])
    Tensor.imag = property(ops["imag"])
    remedies = {name: f"gpugrad.{name}(x)" for name in ops}
    for name, function in ops.items():
        if len(getattr(getattr(function, "op", None), "inputs", ())) == 1:
            remedies[f"{name}_"] = f"x[...] = gpugrad.{name}(x)"
    for name, remedy in remedies.items():
        if name not in INSTEAD["Tensor"] and name not in vars(Tensor):
            INSTEAD["Tensor"][name] = remedy
            setattr(Tensor, name, MissingName(name, "Tensor"))


install()
