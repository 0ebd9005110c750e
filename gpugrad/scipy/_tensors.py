"""How the functions of this package read their arguments, and the ops that they call."""

from numbers import Number
from types import SimpleNamespace
from typing import Any

from .._arguments import is_complex, is_floating
from .._batched import physical
from .._creation import asarray, create
from .._dtypes import result_type
from .._tensor import Tensor
from ..autograd.operation import exports
from ..backends import backend_of
from ..backends.dtypes import complex64, float32, float64

# All ops by their public names: ``ops.exp(x)``.
ops: Any = SimpleNamespace(**exports())


def floating(*values: Any) -> list[Tensor]:
    """The values as tensors of one floating dtype.

    Numbers, and sequences of numbers, are weak: they take the dtype, library and device of the
    arrays among the values. If no array is floating, the dtype is float32, but without a Tensor
    among the values it is float64, as in SciPy.
    """
    tensors = [x if isinstance(x, Tensor) else asarray(x) for x in values]
    weak = [*map(_is_weak, values)]
    arrays = [x for x, is_weak in zip(tensors, weak, strict=True) if not is_weak]
    has_tensor = any(isinstance(x, Tensor) for x in values)
    dtypes = {x.dtype for x in arrays if is_floating(x)} or {float32 if has_tensor else float64}
    arrays = arrays or tensors
    dtype = dtypes.pop() if len(dtypes) == 1 else result_type(*dtypes)
    if any(is_weak and is_complex(x) for x, is_weak in zip(tensors, weak, strict=True)):
        dtype = result_type(dtype, complex64)
    return [
        create("asarray", value, like=arrays[0], dtype=dtype) if is_weak else x.astype(dtype)
        for x, value, is_weak in zip(tensors, values, weak, strict=True)
    ]


def _is_weak(x):
    return all(map(_is_weak, x)) if isinstance(x, (list, tuple)) else isinstance(x, Number)


def values(x: Tensor) -> Any:
    """The values of a tensor, on the host and without graph; in `vmap` those of all examples."""
    array = physical(x).array
    return backend_of[type(array)].to_numpy(array)


def call_in_rule(function: Any, xp: Any, *arrays: Any, **static: Any) -> Any:
    """Call an op of this package from a rule, which runs on raw arrays or on Tensors."""
    if any(isinstance(x, Tensor) for x in arrays):
        return function(*arrays, **static)
    return function.op.forward(xp, *arrays, **static)
