"""`Tensor`: an array and its place in the graph.

This module has its state and properties. The operators and methods that compute are ops;
`gpugrad.ops.operators` puts them on the class.
"""

from __future__ import annotations  # from Python 3.14 on they would find int as Tensor.int

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

from ._foreign_names import INSTEAD, HidesMissingNames, MissingName
from .autograd import call, sweep
from .autograd.graph import Leaf, Node, watched
from .autograd.hooks import Handle, attach
from .autograd.mode import is_grad_enabled
from .backends import adopt, backend_of
from .backends.numpy import backend as host

if TYPE_CHECKING:
    from ._tensor_methods import TensorMethods
else:
    TensorMethods = object

# Of the array API standard; each has all that the ones before it have.
_API_VERSIONS = "2022.12", "2023.12", "2024.12", "2025.12"

# The dtypes that Python numbers become. A repr leaves them out, as its numbers already show them.
_DEFAULT_DTYPES = ("float32", "int64", "bool", "complex64")


class Tensor(TensorMethods, metaclass=HidesMissingNames):
    """An n-dimensional array that can remember how it was computed.

    Made by `gpugrad.tensor` and `gpugrad.asarray`, by the other creation
    functions, and by every op.

    array: the raw array, of NumPy, CuPy or another library; not a copy.
    """

    __module__ = "gpugrad"  # where users find the class
    __slots__ = ("__weakref__", "_grad", "array", "node")  # ops set only the last two

    array: Any
    node: Any  # what stands for it in the graph: a Node, a Leaf, or None

    __hash__ = object.__hash__

    # A subclass that does not stand for one array may define a static method
    # ``__op__(op, args, static)``. Ops that are called with one of its instances return what
    # that returns: ``args`` are the inputs, as a tuple, ``static`` the parameters by name.

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if answer := getattr(cls, "__op__", None):
            call.overriding[cls] = answer

    # The array

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> Any:
        """Element type."""
        return self.array.dtype

    @property
    def device(self) -> str:
        """``"cpu"`` or ``"cuda:N"``."""
        return backend_of[type(self.array)].device(self.array)

    @property
    def _like(self) -> Any:
        """A raw array of this dtype, library and device, where the values do not matter."""
        return self.array

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len: a 0-d tensor has no length")
        return self.shape[0]

    # The graph

    @property
    def requires_grad(self) -> bool:
        """Whether gradients reach this tensor. Settable on leaves."""
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Make this a leaf whose gradient is wanted, or no longer; returns the tensor.

        Raises TypeError for dtypes other than floating, ValueError for results of ops.
        """
        if not self.is_leaf:
            if requires_grad:
                return self
            raise ValueError(
                f"requires_grad_: this is a result of {self.grad_fn.name}, not a leaf; "
                f"use detach() for a tensor without gradient"
            )
        if not requires_grad:
            self.node = None
        elif self.node is None:
            if not backend_of[type(self.array)].is_floating(self.dtype):
                raise TypeError(
                    f"requires_grad: only floating tensors have gradients, not {self.dtype}; "
                    f"use astype first, or make it with dtype=gpugrad.float32"
                )
            self.node = Leaf(self)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether this was made by the user rather than recorded as an op's result."""
        return type(self.node) is not Node

    @property
    def grad_fn(self) -> Any:
        """The node of the op that made this, with ``name`` and ``next_functions``; or None."""
        return None if self.is_leaf else self.node

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient, of this shape, dtype and device; None until there is one."""
        return getattr(self, "_grad", None)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_requires_grad("grad")
            own = self.shape, self.dtype, self.device
            if not isinstance(value, Tensor) or (value.shape, value.dtype, value.device) != own:
                raise ValueError(
                    f"grad: must be a tensor of shape {self.shape}, {self.dtype}, on "
                    f"{self.device}, not {value!r}"
                )
        self._grad = value

    def _check_requires_grad(self, how):
        if self.node is None:
            raise ValueError(
                f"{how}: this tensor does not require grad; call requires_grad_() first"
            )

    def retain_grad(self) -> None:
        """Have backward keep ``.grad`` of this result too; a leaf's is kept anyway."""
        self._check_requires_grad("retain_grad")
        if not self.is_leaf and watched(self.node).leaf is None:
            self.node.watch.leaf = Leaf(self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Have each backward pass call ``hook`` with the complete gradient of this tensor.

        If the hook returns a Tensor of the gradient's shape and device, it replaces the gradient:
        for what this tensor was computed from, and for ``.grad``. Hooks run in the order in which
        they were registered, in `gpugrad.autograd.grad` too, and without recording unless
        ``create_graph``. If a hook raises, the pass ends, and no ``.grad`` has changed. A hook
        belongs to the value: after ``x += y`` it still sees the gradient of what ``x`` was before.

        Returns a handle whose ``remove()`` removes the hook; as a context manager it does so at
        the end. Raises ValueError for a tensor that does not require grad.

        >>> import gpugrad
        >>> w = gpugrad.tensor([1.0, 2.0], requires_grad=True)
        >>> handle = w.register_hook(lambda gradient: gradient.clip(-1, 1))
        >>> (w * w).sum().backward()
        >>> w.grad
        tensor([1., 1.])
        """
        self._check_requires_grad("register_hook")
        return Handle(attach(watched(self.node).hooks, hook, "register_hook"))

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        """Have `backward` call ``hook`` with this leaf once every leaf's ``.grad`` is set.

        The hook may, for example, make an optimizer's step for this one parameter. Nothing in
        it is recorded, unless ``create_graph``. Returns a handle as `register_hook` does;
        raises ValueError for anything but a leaf that requires grad.
        """
        where = "register_post_accumulate_grad_hook"
        if type(self.node) is not Leaf:
            what = "does not require grad" if self.is_leaf else f"is a result of {self.node.name}"
            raise ValueError(f"{where}: this tensor {what}; it is for leaves that require grad")
        return Handle(attach(watched(self.node).accumulated, hook, where))

    @property
    def label(self) -> str | None:
        """A name for people, which the repr and `gpugrad.draw` show; None at first.

        It stays in the graph when this object is gone.
        """
        if id(self) in _labels:
            return _labels[id(self)][1]
        watch = getattr(self.node, "watch", None)
        return watch and watch.label

    @label.setter
    def label(self, label: str | None) -> None:
        if not isinstance(label, str | None):
            raise TypeError(f"label: must be a str or None, not a {type(label).__name__}")
        key, forget = id(self), _labels.pop
        if label is None:
            forget(key, None)
        else:
            _labels[key] = ref(self, lambda _: forget(key, None)), label
        node = self.node
        if node is not None and (label is not None or node.watch is not None):
            watched(node).label = label

    def backward(
        self,
        gradient: Any = None,
        *,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Sequence[Tensor] | None = None,
    ) -> None:
        """Add this tensor's gradient to ``.grad`` of the leaves it was computed from.

        gradient: the cotangent of this tensor, of its shape; by default 1, for a single element.
        retain_graph: keep what the graph saved, for another backward through it;
            by default as ``create_graph``.
        create_graph: record the sweep, so that the gradients are differentiable.
        inputs: only these leaves get a gradient.

        Raises ValueError for a tensor without a graph or a gradient that does not
        fit, RuntimeError where the graph was freed or a saved value overwritten;
        then no ``.grad`` has changed.
        """
        if inputs is not None:
            inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        sweep.backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Tensor:
        """The same array without the graph. Shares memory: an optimizer's step shows in both."""
        result = Tensor()
        result.array = self.array
        result.node = None
        return result

    # Leaving gpugrad

    def numpy(self) -> Any:
        """The values as a NumPy array that shares this tensor's memory.

        Raises RuntimeError while the tensor requires grad (`detach` first) and,
        on another device than the CPU, TypeError (`cpu` first).
        """
        self._check_leaving("numpy")
        return backend_of[type(self.array)].to_numpy(self.array)

    def _check_leaving(self, how):
        if self.node is not None:
            # Most programs that meet this one have called another library.
            more = _OF_LIBRARIES if how == "numpy.asarray" else ""
            raise RuntimeError(
                f"{how}: this tensor requires grad, and its gradient would be lost; call detach() "
                f"first{more}"
            )
        if self.device.startswith("cuda") and how != "__dlpack__":
            raise TypeError(f"{how}: this tensor is on {self.device}; call cpu() first")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._check_leaving("numpy.asarray")
        values = backend_of[type(self.array)].to_numpy(self.array)
        return host.asarray(values, dtype=dtype, copy=copy)

    def __dlpack__(
        self,
        /,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._check_leaving("__dlpack__")
        asked = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        with backend_of[type(self.array)].scope(self.array):  # orders by its current stream
            return self.array.__dlpack__(**{k: v for k, v in asked.items() if v is not None})

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory, for CuPy, Numba and others, of a tensor on a CUDA device.

        Other tensors, and those that require grad, have no such attribute.
        """
        is_shown = self.node is None and type(self) not in call.overriding
        if not (is_shown and self.device.startswith("cuda")):
            raise AttributeError(
                "__cuda_array_interface__: only CUDA tensors that do not require grad have it"
            )
        with backend_of[type(self.array)].scope(self.array):
            return self.array.__cuda_array_interface__

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """`gpugrad`, a namespace of the array API standard.

        Raises ValueError for a version of the standard that it does not conform to.
        """
        if api_version not in (None, *_API_VERSIONS):
            raise ValueError(
                f"__array_namespace__: version {api_version!r} is not known; "
                f"use one of {', '.join(_API_VERSIONS)}"
            )
        return call.namespace

    def item(self) -> Any:
        """The only element as a Python number; ValueError if there is not exactly one."""
        if self.size != 1:
            raise ValueError(f"item: the tensor has {self.size} elements, not 1; use tolist()")
        backend = backend_of[type(self.array)]
        return backend.to_numpy(backend.xp.reshape(self.array, ())).item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return backend_of[type(self.array)].to_numpy(self.array).tolist()

    def _number(self, how):
        # Other libraries convert tensors in this way, and do not know of the graph. A program that
        # calls `item` asks for a plain number.
        if self.node is not None:
            raise RuntimeError(
                f"{how}: this tensor requires grad, and its gradient would be lost; "
                f"use item(), or call detach() first; to keep the gradient, use gpugrad's "
                f"functions, not math's, and write into tensors, not NumPy arrays"
            )
        return self.item()

    def __float__(self) -> float:
        return float(self._number("float"))

    def __int__(self) -> int:
        return int(self._number("int"))

    def __index__(self) -> int:
        if self.ndim or not backend_of[type(self.array)].xp.isdtype(self.dtype, "integral"):
            raise TypeError("only a 0-d integer tensor can be an index")
        return self.item().__index__()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"bool: a tensor of shape {self.shape} has no single truth value; use any or all"
            )
        return bool(self.item())

    def __complex__(self) -> complex:
        return complex(self._number("complex"))

    def __repr__(self) -> str:
        backend = backend_of[type(self.array)]
        text = host.format(backend.to_numpy(self.array), prefix="tensor(")
        dtype = str(self.dtype).split(".")[-1]  # without the library's name, as in torch.float32
        if self.device != "cpu":
            text += f", device='{self.device}'"
        if not self.size and self.shape != (0,):
            text += f", shape={self.shape}"
        if dtype not in (_DEFAULT_DTYPES if self.size else ("float32",)):
            text += f", dtype={dtype}"
        library = backend.name.removeprefix("traced ")
        if library not in ("numpy", "cupy"):  # beside which it cannot be used
            text += f", library={library}"
        if not self.is_leaf:
            text += f", grad_fn=<{self.grad_fn.name}>"
        elif self.requires_grad:
            text += ", requires_grad=True"
        if self.label is not None:
            text += f", label={self.label!r}"
        return f"tensor({text})"

    def __format__(self, spec: str) -> str:
        if spec and self.size != 1:
            raise ValueError(
                f"format: {spec!r} is for one number, not a tensor of shape {self.shape}; "
                f"format x.tolist()'s elements"
            )
        return format(self.item(), spec) if spec else repr(self)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *getattr(self, "__dict__", ())})

    def __reduce__(self) -> Any:
        # copy.deepcopy and pickle: a leaf with its array; a graph is not copied.
        if not self.is_leaf:
            raise TypeError(
                f"copy: this is a result of {self.grad_fn.name} and has a graph; detach() it first"
            )
        return _rebuild, (type(self), self.array, self.requires_grad, self.label)


_OF_LIBRARIES = (
    ". To keep the gradient: SciPy takes tensors if SCIPY_ARRAY_API=1 is set before it is first "
    "imported, scikit-learn with set_config(array_api_dispatch=True), and gpugrad.asarray([x, y]) "
    "makes one tensor of several; for functions that take NumPy arrays only there are gpugrad's "
    "own, such as those in gpugrad.linalg and gpugrad.special"
)


def _rebuild(kind, array, requires_grad, label=None):
    array = adopt(array)  # in another process its library may be new
    backend_of[type(array)].dtype(array.dtype)  # asks for bfloat16 where it is that
    tensor = kind.__new__(kind)
    tensor.array = array
    tensor.node = Leaf(tensor) if requires_grad else None
    if label is not None:  # a subclass may have a property of this name
        tensor.label = label
    return tensor


# The labels of living tensors: from id, since ``==`` of tensors is elementwise, to a weak reference
# to the tensor and its label. The labels of recorded tensors are in the graph too. A slot would
# make every tensor larger.
_labels: dict[int, tuple[Any, str]] = {}


def labelled():
    """The labelled tensors that are still there, with their labels."""
    entries = [(tensor(), label) for tensor, label in list(_labels.values())]
    return [(tensor, label) for tensor, label in entries if tensor is not None]


def is_recorded(x):
    """Whether ops that take ``x`` are recorded now."""
    return isinstance(x, Tensor) and x.node is not None and is_grad_enabled()


def check_writable(tensor, how):
    """Raise unless values of ``tensor`` may be replaced now; True if it is to stay a leaf."""
    if type(tensor.node) is Leaf:
        if is_grad_enabled():
            raise RuntimeError(
                f"{how}: a leaf that requires grad can be written only under no_grad(); "
                f"or write to a copy, x = x + 0"
            )
        return True
    if tensor.node is not None and not is_grad_enabled():
        raise RuntimeError(
            f"{how}: under no_grad() this result of {tensor.grad_fn.name} would lose its graph; "
            f"write to a copy, x = x.detach() + 0"
        )
    return False


for _name in INSTEAD["Tensor"]:
    setattr(Tensor, _name, MissingName(_name, "Tensor"))
