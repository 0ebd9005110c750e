"""Python's operators, indexing and methods of Tensor, each one of the ops."""

from ..arguments import device_and_dtype
from ..autograd.graph import Node
from ..autograd.mode import is_grad_enabled
from ..backends import SCALARS, adopt, backend_of, describe, is_on, namespace_of
from ..backends.numpy import int64
from ..tensor import Tensor, check_writable
from . import elementwise, manipulation, neural, products, reductions, transcendental
from .indexing import getitem, setitem

OPERATORS = {
    "add": ("+", elementwise.add),
    "sub": ("-", elementwise.subtract),
    "mul": ("*", elementwise.multiply),
    "truediv": ("/", elementwise.divide),
    "floordiv": ("//", elementwise.floor_divide),
    "mod": ("%", elementwise.remainder),
    "pow": ("**", elementwise.pow),
    "matmul": ("@", products.matmul),
    "and": ("&", elementwise.logical_and),
    "or": ("|", elementwise.logical_or),
}

DIRECT = {
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
    "neg": elementwise.negative,
    "pos": elementwise.positive,
    "abs": elementwise.abs,
    "invert": elementwise.logical_not,
}

METHODS = [
    *(getattr(elementwise, name) for name in "abs clip pow sign sqrt".split()),
    *(getattr(transcendental, name) for name in "cos exp log sin tanh".split()),
    *(getattr(reductions, name) for name in "all any argmax argmin logsumexp".split()),
    *(getattr(reductions, name) for name in "max mean min sum var".split()),
    *(getattr(neural, name) for name in "log_softmax relu sigmoid softmax".split()),
    *(getattr(manipulation, name) for name in "permute_dims squeeze astype".split()),
    products.matmul,
]


def _reflected(op):
    def operator(self, other):
        return op(other, self)

    return operator


def _equality(op):
    def operator(self, other):
        if type(other) is not Tensor and type(other) not in SCALARS:
            try:
                adopt(other.array if isinstance(other, Tensor) else other)
            except TypeError:
                return NotImplemented  # as None and strings do: they are not equal
        return op(self, other)

    return operator


def _in_place(op, symbol):
    def operator(self, other):
        stays_leaf = check_writable(self, symbol)
        result = op(self, other)
        if result.shape != self.shape or result.dtype != self.dtype:
            raise ValueError(
                f"{symbol}: the result, {describe(result)}, does not fit the tensor, "
                f"{describe(self)}; write x = x {symbol[:-1]} y for a new one"
            )
        return _replace(self, result, stays_leaf)

    return operator


def _replace(tensor, result, stays_leaf):
    """Give ``tensor`` the value of ``result``; other tensors that shared its memory keep theirs."""
    tensor.array = result.array
    if not stays_leaf:
        if type(tensor.node) is Node and result.node is not None:  # after retain_grad
            result.node.watch, tensor.node.watch = tensor.node.watch, None
        tensor.node = result.node
    return tensor


def _key(key, array):
    """An index into ``array`` as ops take it: tensors, lists, foreign integers in it made raw."""
    if type(key) is tuple:
        return tuple([_key(k, array) for k in key])
    if type(key) in (int, slice, bool) or key is None or key is ...:
        return key
    if isinstance(key, Tensor):
        key = key.array
    elif isinstance(key, list):
        backend = backend_of[type(array)]
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
        raise TypeError(f"index: {describe(array)} cannot be indexed by {describe(key)}; move one")
    return key


def _getitem(self, key):
    if type(key) is not int and type(key) is not slice:
        key = _key(key, self.array)
    return getitem(self, key)


def _setitem(self, key, value):
    stays_leaf = check_writable(self, "x[...] = value")
    if isinstance(value, (list, tuple)):
        value = backend_of[type(self.array)].asarray(value, dtype=self.dtype)
    result = setitem(self, value, _key(key, self.array))
    floating = backend_of[type(self.array)].is_floating(self.dtype)
    if not floating and getattr(value, "requires_grad", False) and is_grad_enabled():
        raise TypeError(
            f"x[...] = value: the value requires grad, but {self.dtype} holds no gradient"
        )
    _replace(self, result, stays_leaf)


def _iter(self):
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(manipulation.unstack(self))


def _reshape(self, *shape):
    """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    return manipulation.reshape(self, shape[0] if len(shape) == 1 else shape)


def _to(self, *args, device=None, dtype=None):
    """On another device, in another dtype, or both: ``x.to("cuda")``, ``x.to(gpugrad.float64)``,
    or as another tensor: ``x.to(y)``.

    Differentiable; the tensor itself if there is nothing to change.
    """
    device, dtype = device_and_dtype(args, device, dtype)
    if device is not None and not is_on(self.array, device):
        self = manipulation.to_device(self, device)
    if dtype is not None and self.dtype != backend_of[type(self.array)].dtype(dtype):
        self = manipulation.astype(self, dtype)
    return self


def _cuda(self, index=None):
    """On a CUDA device, by default the current one."""
    return _to(self, "cuda" if index is None else f"cuda:{index}")


def _cpu(self):
    """On the CPU."""
    return _to(self, "cpu")


def _transpose(self):
    """The two axes of a matrix swapped."""
    if self.ndim != 2:
        raise ValueError(f"T: needs 2 axes, not {self.ndim}; use mT or permute_dims")
    return products.matrix_transpose(self)


def install():
    """Put everything on the class."""
    for name, (symbol, op) in OPERATORS.items():
        setattr(Tensor, f"__{name}__", op)
        setattr(Tensor, f"__r{name}__", _reflected(op))
        setattr(Tensor, f"__i{name}__", _in_place(op, f"{symbol}="))
    for name, op in DIRECT.items():
        setattr(Tensor, f"__{name}__", op)
    Tensor.__eq__ = _equality(elementwise.equal)
    Tensor.__ne__ = _equality(elementwise.not_equal)
    for op in METHODS:
        setattr(Tensor, op.__name__, op)
    Tensor.__getitem__ = _getitem
    Tensor.__setitem__ = _setitem
    Tensor.__iter__ = _iter
    Tensor.reshape = _reshape
    Tensor.to = _to
    Tensor.cpu = _cpu
    Tensor.cuda = _cuda
    Tensor.T = property(_transpose)
    Tensor.mT = property(products.matrix_transpose)


install()
