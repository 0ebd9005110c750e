"""Functions that make tensors.

All take ``dtype``, ``device`` and ``requires_grad``. The default dtype is
float32 for floating values, int64 for integers.
"""

from .autograd.operation import _tensor
from .backends import adopt, backend_for_device, backend_of, namespace_of
from .backends.numpy import bool_, float32, int64
from .tensor import Tensor


def tensor(data, *, dtype=None, device=None, requires_grad=False):
    """A tensor with a copy of ``data``: numbers, nested sequences, an array or a tensor.

    dtype: by default the array's own; for Python numbers float32, int64 or bool.
    device: ``"cpu"``, ``"cuda"`` or ``"cuda:N"``; by default where ``data`` is.
    Raises ValueError for ragged sequences, TypeError for values that are not numbers.
    """
    if isinstance(data, Tensor):
        data = data.array
    result = _make("tensor", data, dtype, device, copy=True)
    return result.requires_grad_() if requires_grad else result


def asarray(obj, /, *, dtype=None, device=None, copy=None, requires_grad=False):
    """``obj`` as a tensor, sharing its memory where it can.

    A Tensor comes back as itself, or with its graph through the cast or transfer.
    copy: True always copies, False raises ValueError where a copy would be needed.
    """
    if isinstance(obj, Tensor):
        result = obj.to(device=device, dtype=dtype)
        if copy and result is obj:
            result = +obj
        elif copy is False and result is not obj:
            raise ValueError("asarray: this dtype or device needs a copy, but copy is False")
    else:
        result = _make("asarray", obj, dtype, device, copy)
    return result.requires_grad_() if requires_grad else result


def _make(name, data, dtype, device, copy):
    try:
        if type(data) not in namespace_of and hasattr(data, "shape"):
            data = adopt(data)
        source = backend_of.get(type(data))
        if source is None:
            target = backend_for_device(device)
            if dtype is None:
                dtype = _default_dtype(data)
            if copy is False:
                raise ValueError("Python numbers need a copy, but copy is False")
            return _tensor(target.asarray(_raw(data), dtype=dtype, device=device), None)
        target = source
        if device is not None and source.device(data) != device:
            target = backend_for_device(device)
            if target is not source:
                data = source.to_numpy(data)
        return _tensor(target.asarray(data, dtype=dtype, device=device, copy=copy), None)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


def _raw(data):
    """Nested sequences with tensors in them as nested lists."""
    if isinstance(data, Tensor):
        return data.tolist()
    return [_raw(x) for x in data] if isinstance(data, (list, tuple)) else data


def _default_dtype(data):
    found = _kinds(data)
    if complex in found:
        return None
    if float in found or not found:
        return float32
    return int64 if int in found else bool_


def _kinds(data):
    if isinstance(data, (list, tuple)):
        return set().union(*map(_kinds, data))
    if isinstance(data, Tensor):
        data = data.tolist()
        return _kinds(data)
    for kind in (bool, int, float, complex):
        if isinstance(data, kind):
            return {kind}
    if hasattr(data, "dtype"):
        return _kinds(data.tolist())
    raise TypeError(f"cannot make a tensor of {type(data).__name__}")


def _create(name, shape, dtype, device, requires_grad, *args):
    backend = backend_for_device(device)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    dtype = backend.dtype(float32 if dtype is None else dtype)
    result = _tensor(backend.create(name, shape, *args, dtype=dtype, device=device), None)
    return result.requires_grad_() if requires_grad else result


def zeros(shape, *, dtype=None, device=None, requires_grad=False):
    """Zeros of a shape, an int or a tuple."""
    return _create("zeros", shape, dtype, device, requires_grad)


def ones(shape, *, dtype=None, device=None, requires_grad=False):
    """Ones of a shape, an int or a tuple."""
    return _create("ones", shape, dtype, device, requires_grad)


def full(shape, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A shape filled with a number; dtype by default the number's kind's."""
    if dtype is None:
        dtype = _default_dtype(fill_value)
    return _create("full", shape, dtype, device, requires_grad, fill_value)


def _like(name, x, dtype, device, requires_grad, *args):
    backend = backend_of[type(x.array)] if device is None else backend_for_device(device)
    dtype = backend.dtype(x.dtype if dtype is None else dtype)
    like = x.array if device is None else None
    array = backend.create(name, x.shape, *args, dtype=dtype, device=device, like=like)
    result = _tensor(array, None)
    return result.requires_grad_() if requires_grad else result


def zeros_like(x, /, *, dtype=None, device=None, requires_grad=False):
    """Zeros of the shape, dtype and device of ``x``."""
    return _like("zeros", x, dtype, device, requires_grad)


def ones_like(x, /, *, dtype=None, device=None, requires_grad=False):
    """Ones of the shape, dtype and device of ``x``."""
    return _like("ones", x, dtype, device, requires_grad)


def full_like(x, /, fill_value, *, dtype=None, device=None, requires_grad=False):
    """A number repeated in the shape, dtype and device of ``x``."""
    return _like("full", x, dtype, device, requires_grad, fill_value)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None, requires_grad=False):
    """Numbers from ``start`` (0 if only one is given) up to, not including, ``stop``."""
    if stop is None:
        start, stop = 0, start
    backend = backend_for_device(device)
    dtype = backend.dtype(_default_dtype([start, stop, step]) if dtype is None else dtype)
    array = backend.create("arange", start, stop, step, dtype=dtype, device=device)
    result = _tensor(array, None)
    return result.requires_grad_() if requires_grad else result


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True, requires_grad=False):
    """``num`` evenly spaced numbers from ``start`` to ``stop``, the latter included by default."""
    backend = backend_for_device(device)
    dtype = backend.dtype(float32 if dtype is None else dtype)
    array = backend.create("linspace", start, stop, num, endpoint=endpoint, dtype=dtype, device=device)
    result = _tensor(array, None)
    return result.requires_grad_() if requires_grad else result


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None, requires_grad=False):
    """Ones on the ``k``-th diagonal and zeros elsewhere."""
    backend = backend_for_device(device)
    dtype = backend.dtype(float32 if dtype is None else dtype)
    array = backend.create("eye", n_rows, n_cols, k=k, dtype=dtype, device=device)
    result = _tensor(array, None)
    return result.requires_grad_() if requires_grad else result
