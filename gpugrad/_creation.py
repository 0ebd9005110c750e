"""Functions that make tensors.

All take ``dtype``, ``device`` and ``requires_grad``. The default dtype is float32 for floating
values and int64 for integers. All raise ValueError for an unknown device, and RuntimeError for one
that this machine does not have.
"""

from collections.abc import Sequence
from typing import Any, SupportsIndex

from . import backends
from ._arguments import leaves_in
from ._batched import BatchedTensor
from ._dtypes import DEFAULTS, isdtype, result_type
from ._foreign_names import explains_arguments
from ._tensor import Tensor
from .autograd.call import wrap
from .backends import SCALARS, Shape, adopt, as_shape, backend_for_device, backend_of, namespace_of
from .backends.dtypes import complex64, complex128, float32, float64, int64, number_dtype
from .backends.numpy import backend as host
from .ops.manipulation import broadcast_to, reshape, stack, target_dtype


def tensor(
    data: Any, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """A new leaf with a copy of ``data``: numbers, nested sequences, an array or a tensor.

    The copy of a tensor has no graph, as in PyTorch; ``asarray(x, copy=True)`` keeps the graph.

    dtype: by default that of the array or of NumPy's numbers; for Python numbers float32, int64,
        bool or complex64.
    device: ``"cpu"``, ``"cuda"`` or ``"cuda:N"``; by default where ``data`` is.

    Raises ValueError for ragged sequences, TypeError for values that are not numbers, and
    RuntimeError for sequences of tensors that require grad, for which there is `asarray`.

    >>> import gpugrad
    >>> gpugrad.tensor([1, 2.5])
    tensor([1. , 2.5])
    """
    if type(data) is BatchedTensor:
        data = data.detach()
        return asarray(data, dtype=dtype, device=device, copy=True, requires_grad=requires_grad)
    if isinstance(data, Tensor):
        data = data.array
    elif holds_tensor(data):
        stacked = _stacked("tensor", data, dtype, device)
        if stacked.requires_grad:
            raise RuntimeError(
                "tensor: an element requires grad, which a new tensor would not pass on; "
                "use asarray, which does, or call detach() first"
            )
        return stacked.requires_grad_() if requires_grad else stacked
    return _finish(_array("tensor", data, dtype, device, True), requires_grad)


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: str | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a tensor that shares its memory if possible; otherwise like `tensor`.

    A Tensor is returned as it is, or with a graph that includes the cast, transfer or copy.
    Tensors in nested sequences are stacked with the numbers beside them, and keep their graphs.

    copy: True always copies; False raises ValueError if a copy would be needed.

    gpugrad notices only its own writes. If a program writes to a shared array between an op and
    backward, gradients may be wrong. Share only arrays that do not change, or copy.
    """
    if isinstance(obj, Tensor):
        result = obj.to(device=device, dtype=dtype)
        if copy is False and result is not obj:
            raise ValueError("asarray: this dtype or device needs a copy, but copy is False")
        if copy and result is obj:
            result = obj.astype(obj.dtype)
    elif holds_tensor(obj):
        if copy is False:
            raise ValueError("asarray: stacking tensors needs a copy, but copy is False")
        result = _stacked("asarray", obj, dtype, device)
    else:
        result = wrap(_array("asarray", obj, dtype, device, copy), None)
    return result.requires_grad_() if requires_grad else result


def from_dlpack(
    x: Any, /, *, device: str | None = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """A tensor that shares the memory of ``x``, an array of any library that supports DLPack.

    It holds a NumPy array, or a CuPy array if ``x`` is on a CUDA device. A Tensor keeps its graph.

    device: by default that of ``x``.
    copy: True always copies; False raises ValueError if a copy would be needed.
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy, requires_grad=requires_grad)
    if backend_of.get(type(x)) is not host:
        x = backends.from_dlpack(x)
    return _finish(_array("from_dlpack", x, None, device, copy), requires_grad)


def holds_tensor(x):
    """Whether there is a Tensor in nested lists and tuples, or ``x`` is one."""
    if not isinstance(x, (list, tuple)):
        return isinstance(x, Tensor)
    kinds = {*map(type, x)}  # few, however long the list
    return any(issubclass(kind, Tensor) for kind in kinds) or (
        any(issubclass(kind, (list, tuple)) for kind in kinds) and any(map(holds_tensor, x))
    )


def _stacked(name, data, dtype, device):
    """Nested sequences of Tensors, arrays and numbers as one Tensor with the graph of all."""
    try:
        leaves = [x if isinstance(x, Tensor) else adopt(x) for x in leaves_in(data)]
        like = next(x for x in leaves if isinstance(x, Tensor))
        dtype = result_type(*leaves) if dtype is None else dtype

        def stacked(x):
            if isinstance(x, (list, tuple)):
                return stack([stacked(element) for element in x])
            x = x if isinstance(x, Tensor) else adopt(x)
            if type(x) in SCALARS:
                return _create("full", ((), x), dtype, None, False, like=like._like)
            return asarray(x, dtype=dtype)

        return stacked(data).to(device=device)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


_REAL = float32, int64


def _array(name, data, dtype, device, copy):
    """A raw array made of any data but a Tensor."""
    try:
        given = data
        if not isinstance(data, Sequence):
            data = adopt(data)
        if type(data) not in namespace_of:
            if copy is False:
                raise ValueError("Python numbers need a copy, but copy is False")
            numbers = host.asarray(data)
            default = _default_dtype(given, numbers)
            dtype = default if dtype is None else dtype
            if numbers.dtype != dtype and default in _REAL and isdtype(dtype, "integral"):
                # NumPy turns integers into floats if some are too large for int64. This raises for
                # those that are too large for the dtype, where a cast would wrap around.
                numbers = host.asarray(data, dtype=number_dtype(dtype))
            data = numbers
        if device is not None and not backends.is_on(data, device):
            if copy is False:
                raise ValueError(f"device {device} needs a copy, but copy is False")
            data = backends.transfer(data, device)
        backend = backend_of[type(data)]
        backend.dtype(data.dtype)  # raises for strings and the like
        dtype = None if dtype is None else target_dtype(data, dtype)
        return backend.asarray(data, dtype=dtype, copy=copy)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        remedies = {
            "inhomogeneous shape": " Pad its lists to one length, or make a tensor of each.",
            "neither numeric": "; choose columns of numbers, or convert them, as by astype",
        }
        remedy = next((remedies[words] for words in remedies if words in str(error)), "")
        raise type(error)(f"{name}: {error}{remedy}") from error
    except MemoryError as error:
        raise MemoryError(f"{name}: {backends.explain(error, device, data)}") from error


def _default_dtype(data, numbers):
    """The default dtype of ``data``, from which NumPy has made the array ``numbers``.

    Python's numbers are weak beside NumPy's in nested lists and tuples.
    """
    if (default := DEFAULTS.get(numbers.dtype.kind)) is None:
        made = f"make a NumPy {numbers.dtype}"
        if numbers.dtype == object:
            made = "some are objects, such as None (write nan), or ints of more than 64 bits"
        raise TypeError(f"the values must be numbers or bools, but {made}")
    dtypes = {x.dtype for x in _of_numpy(data)}
    return result_type(*dtypes, numbers.dtype.type().item()) if dtypes else default


def _of_numpy(data):
    if isinstance(data, (list, tuple)):
        if not {*map(type, data)} <= SCALARS:  # few types, however long the list
            for x in data:
                yield from _of_numpy(x)
    else:
        backend = backend_of.get(type(data))
        if getattr(backend, "real", backend) is host:  # also while `compile` records the program
            yield data


def _finish(array, requires_grad):
    result = wrap(array, None)
    return result.requires_grad_() if requires_grad else result


def create(name: str, *args: Any, like: Tensor, dtype: Any = None, **keywords: Any) -> Tensor:
    """A tensor from a function of the array library of ``like``, on its device."""
    array = like._like
    backend = backend_of[type(array)]
    dtype = array.dtype if dtype is None else backend.dtype(dtype)
    return wrap(backend.create(name, *args, dtype=dtype, like=array, **keywords), None)


_OF_SHAPES = {"empty", "full", "ones", "zeros"}  # functions whose first argument is a shape


def _create(name, args, dtype, device, requires_grad, *, like=None, **keywords):
    """A tensor from the backend's creation function, on ``device`` or else where ``like`` is."""
    try:
        if name in _OF_SHAPES:
            args = as_shape(args[0]), *args[1:]
        if like is None or device is not None:
            like, backend = None, backend_for_device(device)
        else:
            backend = backend_of[type(like)]
        dtype = backend.dtype(float32 if dtype is None else dtype)
        array = backend.create(name, *args, dtype=dtype, device=device, like=like, **keywords)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise type(error)(f"{name}: {error}") from error
    except MemoryError as error:
        raise MemoryError(f"{name}: {backends.explain(error, device, like)}") from error
    return _finish(array, requires_grad)


@explains_arguments
def zeros(
    shape: Shape, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Zeros in a shape, which is an int or a tuple."""
    return _create("zeros", (shape,), dtype, device, requires_grad)


@explains_arguments
def empty(
    shape: Shape, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Uninitialized values in a shape, which is an int or a tuple."""
    return _create("empty", (shape,), dtype, device, requires_grad)


@explains_arguments
def ones(
    shape: Shape, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Ones in a shape, which is an int or a tuple."""
    return _create("ones", (shape,), dtype, device, requires_grad)


def full(
    shape: Shape,
    fill_value: complex | Tensor,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A shape, which is an int or a tuple, filled with a number; the dtype defaults to its kind.

    If the number is a 0-d tensor, the result has its dtype, device and graph.
    """
    if isinstance(fill_value, Tensor):
        return _repeated("full", fill_value, shape, dtype, device, requires_grad)
    if dtype is None:
        dtype = _default_dtype(fill_value, host.asarray(fill_value))
    return _create("full", (shape, fill_value), dtype, device, requires_grad)


def _repeated(name, value, shape, dtype, device, requires_grad):
    if value.ndim:
        raise ValueError(f"{name}: fill_value must be a number or 0-d, not of shape {value.shape}")
    value = asarray(value, dtype=dtype, device=device)
    return asarray(broadcast_to(value, as_shape(shape)), copy=True, requires_grad=requires_grad)


def _like(name, x, values, dtype, device, requires_grad):
    array = x._like if isinstance(x, Tensor) else _array(f"{name}_like", x, None, None, None)
    shape = tuple(x.shape if isinstance(x, Tensor) else array.shape)
    dtype = array.dtype if dtype is None else dtype
    return _create(name, (shape, *values), dtype, device, requires_grad, like=array)


def zeros_like(
    x: Any, /, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Zeros with the shape, dtype and device of ``x``, a tensor or an array."""
    return _like("zeros", x, (), dtype, device, requires_grad)


def empty_like(
    x: Any, /, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Uninitialized values with the shape, dtype and device of ``x``, a tensor or an array."""
    return _like("empty", x, (), dtype, device, requires_grad)


def ones_like(
    x: Any, /, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """Ones with the shape, dtype and device of ``x``, a tensor or an array."""
    return _like("ones", x, (), dtype, device, requires_grad)


def full_like(
    x: Any,
    /,
    fill_value: complex | Tensor,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """A number, or a 0-d tensor with its graph, repeated with the shape, dtype and device of ``x``,
    which is a tensor or an array."""
    if isinstance(fill_value, Tensor):
        x = asarray(x)
        dtype, device = dtype or x.dtype, device or x.device
        return _repeated("full_like", fill_value, x.shape, dtype, device, requires_grad)
    return _like("full", x, (fill_value,), dtype, device, requires_grad)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from ``start`` (0 if only one is given) up to, not including, ``stop``."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: step must not be 0; use full for a repeated number")
    if dtype is None:
        dtype = _default_dtype((), host.asarray([start, stop, step]))
    return _create("arange", (start, stop, step), dtype, device, requires_grad)


@explains_arguments
def linspace(
    start: complex | Tensor,
    stop: complex | Tensor,
    /,
    num: SupportsIndex,
    *,
    dtype: Any = None,
    device: str | None = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, the latter included by default.

    If one or both of these are tensors, the result has their dtype (float32 for integers), device
    and graph, and one more axis in front of theirs. An integer ``dtype`` rounds what is between
    numbers down, and what is between tensors towards 0.
    """
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        return _between(start, stop, num, dtype, device, endpoint, requires_grad)
    if dtype is None:
        dtype = complex64 if host.asarray(start + stop).dtype.kind == "c" else float32
    return _create("linspace", (start, stop, num), dtype, device, requires_grad, endpoint=endpoint)


def _between(start, stop, num, dtype, device, endpoint, requires_grad):
    x = start if isinstance(start, Tensor) else stop
    kind = result_type(start, stop, 1.0)
    real = {complex64: float32, complex128: float64}.get(number_dtype(kind), kind)
    share = _create("linspace", (0.0, 1.0, num), real, None, False, like=x._like, endpoint=endpoint)
    share = reshape(share, (-1, *[1] * max(getattr(x, "ndim", 0) for x in (start, stop))))
    result = (1 - share) * start + share * stop
    return asarray(result, dtype=dtype, device=device, requires_grad=requires_grad)


def eye(
    n_rows: SupportsIndex,
    n_cols: SupportsIndex | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Ones on the ``k``-th diagonal and zeros elsewhere."""
    return _create("eye", (n_rows, n_cols), dtype, device, requires_grad, k=k)
