"""Clipping of gradients."""

import math
import sys
from collections.abc import Iterable
from typing import Any

from ..autograd.call import wrap
from ..backends import backend_of
from ..backends.placement import placed_like
from ..creation import zeros
from ..dtypes import is_half
from ..tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_"]
__dir__ = __all__.copy


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale gradients so that their norm, that of all together, is at most ``max_norm``.

    Each ``.grad`` is multiplied by ``min(1, max_norm / (norm + 1e-6))``, as PyTorch does it.

    parameters: a tensor or an iterable of them; those without a gradient are passed over.
    norm_type: ``p`` of the p-norm, maybe ``inf``.

    Returns the norm before, 0-d, on the device of the first gradient. No device is waited for;
    so there is no ``error_if_nonfinite``: where the norm is not finite, neither is it after.
    Of 16-bit gradients sums are float32.

    Raises ValueError for nan and for a ``max_norm`` below 0.
    """
    max_norm = _number("clip_grad_norm_", "max_norm", max_norm, 0.0)
    norm_type = _number("clip_grad_norm_", "norm_type", norm_type, -math.inf)
    groups: dict[Any, list] = {}
    for grad in _gradients("clip_grad_norm_", parameters):
        array = _own_array(grad)
        key = type(array), grad.device, array.dtype
        groups.setdefault(key, []).append(array)
    if not groups:
        return zeros(())
    parts = [_norm(arrays, norm_type, max_norm) for arrays in groups.values()]
    norm, factor = parts[0]
    if len(parts) > 1:
        norm = _joined([part for part, _ in parts], norm_type)
        factor = _factor(norm, max_norm)
    for arrays, (own, _) in zip(groups.values(), parts, strict=True):
        _scale(arrays, factor if len(parts) == 1 else placed_like(factor, own))
    dtypes = {dtype for _, _, dtype in groups}
    if len(dtypes) == 1 and is_half(array.dtype):
        xp = backend_of[type(norm)].xp
        norm = xp.astype(norm, dtypes.pop())
    return wrap(norm, None)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clip each element of the gradients to between ``-clip_value`` and ``clip_value``; nan stays.

    parameters: a tensor or an iterable of them; those without a gradient are passed over.

    Raises ValueError for nan and for a ``clip_value`` below 0, TypeError for complex gradients.
    """
    most = _number("clip_grad_value_", "clip_value", clip_value, 0.0)
    grads = _gradients("clip_grad_value_", parameters)
    for grad in grads:
        if backend_of[type(grad.array)].is_complex(grad.dtype):
            raise TypeError(
                f"clip_grad_value_: a gradient of {grad.dtype} has no order; use clip_grad_norm_"
            )
    for grad in grads:
        backend = backend_of[type(grad.array)]
        with backend.scope(grad.array):
            grad.array = backend.asarray(backend.xp.clip(grad.array, -most, most))


def _number(name, argument, value, least):
    number = float(value)
    if not number >= least:
        raise ValueError(f"{name}: {argument} must be a number of at least {least}, not {value!r}")
    return number


def _gradients(name, parameters):
    """The gradients, each once and cut from its graph."""
    if hasattr(parameters, "parameters"):
        raise TypeError(f"{name}: parameters is a module; pass model.parameters()")
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    elif not isinstance(parameters, Iterable):
        raise TypeError(f"{name}: parameters must be tensors, not {parameters!r}")
    grads = {}
    for p in parameters:
        grad = p.grad
        if grad is not None and grad.node is not None:  # others may have it, with its graph
            p.grad = grad = wrap(grad.array, None)
        if grad is not None and grad.size:
            grads[id(grad)] = grad
    return list(grads.values())


def _own_array(grad):
    """The array of ``grad``, in memory that nothing else sees."""
    backend = backend_of[type(grad.array)]
    if _references(grad) != _ALONE or not backend.is_unshared(grad.array):
        grad.array = backend.asarray(grad.array, copy=True)
    return grad.array


def _references(tensor):
    return sys.getrefcount(tensor.array)


_ALONE = _references(wrap(object(), None))


def _norm(arrays, norm_type, max_norm):
    """The norm of arrays of a device and dtype, and what to multiply them by."""
    backend = backend_of[type(arrays[0])]
    with backend.scope(arrays[0]):
        lot = backend.lot(arrays[0])
        if lot is not None and norm_type == 2:
            both = lot.norm(arrays, max_norm)
            if both is not None:
                return both
        xp = backend.xp
        if is_half(arrays[0].dtype):
            arrays = [xp.astype(array, xp.float32) for array in arrays]
        norms = [backend.asarray(xp.linalg.vector_norm(array, ord=norm_type)) for array in arrays]
        norm = _joined(norms, norm_type)
        return norm, _factor(norm, max_norm)


def _joined(norms, norm_type):
    """The norm of all whose parts' norms are given, on the device of the first."""
    if len(norms) == 1:
        return norms[0]
    backend = backend_of[type(norms[0])]
    xp = backend.xp
    with backend.scope(norms[0]):
        if len({norm.dtype for norm in norms}) > 1:
            norms = [xp.astype(norms[0], xp.float64), *norms[1:]]
        parts = xp.stack([placed_like(norm, norms[0]) for norm in norms])
        return backend.asarray(xp.linalg.vector_norm(parts, ord=norm_type))


def _factor(norm, max_norm):
    backend = backend_of[type(norm)]
    with backend.scope(norm):
        return backend.asarray(backend.xp.minimum(max_norm / (norm + 1e-6), 1.0))


def _scale(arrays, factor):
    """Multiply arrays of a device and dtype in place."""
    backend = backend_of[type(arrays[0])]
    with backend.scope(arrays[0]):
        lot = backend.lot(arrays[0])
        if lot is not None and lot.scale(arrays, factor):
            return
        xp = backend.xp
        halves = is_half(arrays[0].dtype)
        for array in arrays:
            if halves:
                array[...] = xp.astype(xp.astype(array, xp.float32) * factor, array.dtype)
            else:
                array *= factor
