"""Clipping of gradients."""

import math
from collections.abc import Iterable
from typing import Any

from .._arguments import check_type, require
from .._creation import zeros
from .._dtypes import is_half
from .._foreign_names import explain_names, explains_arguments
from .._tensor import Tensor
from ..autograd.call import wrap
from ..backends import backend_of
from ..backends.placement import placed_like
from .module import is_unshared

__all__ = ["clip_grad_norm_", "clip_grad_value_"]
explain_names(__name__)


@explains_arguments
def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale gradients so that the norm of all of them together is at most ``max_norm``.

    Each ``.grad`` is multiplied by ``min(1, max_norm / (norm + 1e-6))``, as PyTorch does it.

    parameters: a tensor or an iterable of tensors; those without a gradient are skipped.
    norm_type: ``p`` of the p-norm, possibly ``inf``; 0 counts the gradients that are not zero.

    Returns the norm before the scaling, 0-d, on the device of the first gradient. The function
    waits for no device, so it has no ``error_if_nonfinite``: a norm that is not finite stays so. It
    sums over 16-bit gradients in float32.

    Raises ValueError for nan and for a ``max_norm`` below 0.
    """
    max_norm, norm_type = float(max_norm), float(norm_type)
    require(max_norm >= 0, "clip_grad_norm_: max_norm must be a number of at least 0", max_norm)
    require(not math.isnan(norm_type), "clip_grad_norm_: norm_type must be a number", norm_type)
    groups = grouped_gradients("clip_grad_norm_", parameters)
    if not groups:
        return zeros(())
    parts = [_norm(arrays, norm_type, max_norm) for arrays in groups]
    norm, factor = parts[0]
    if len(parts) > 1:
        # With `norm_type` 0 each part is a number of gradients; these are added.
        norm = _norm_of_norms([part for part, _ in parts], norm_type or 1.0)
        factor = _factor(norm, max_norm)
    for arrays, (own, _) in zip(groups, parts, strict=True):
        scale_arrays(arrays, factor if len(parts) == 1 else placed_like(factor, own))
    dtypes = {arrays[0].dtype for arrays in groups}
    if len(dtypes) == 1 and is_half(dtype := dtypes.pop()):
        norm = backend_of[type(norm)].xp.astype(norm, dtype)
    return wrap(norm, None)


@explains_arguments
def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clip each element of the gradients to between ``-clip_value`` and ``clip_value``; nan stays.

    parameters: a tensor or an iterable of tensors; those without a gradient are skipped.

    Raises ValueError for nan and for a ``clip_value`` below 0, TypeError for complex gradients.
    """
    most = float(clip_value)
    require(most >= 0, "clip_grad_value_: clip_value must be a number of at least 0", clip_value)
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


def _gradients(name, parameters):
    """The gradients of the parameters, each only once and detached from its graph."""
    grads = {}
    for p in list_of_parameters(f"{name}: parameters", parameters):
        grad = p.grad
        if grad is not None and grad.node is not None:  # other code may hold it, with its graph
            p.grad = grad = wrap(grad.array, None)
        if grad is not None and grad.size:
            grads[id(grad)] = grad
    return list(grads.values())


def list_of_parameters(name, parameters):
    """A tensor or an iterable of tensors as a list; TypeError for a module and anything else."""
    if isinstance(parameters, Tensor):
        return [parameters]
    if hasattr(parameters, "parameters"):
        raise TypeError(f"{name} is a module; pass model.parameters()")
    remedy = "; call it" if callable(parameters) else ""
    check_type(parameters, Iterable, f"{name} must be an iterable of tensors", remedy)
    return list(parameters)


def grouped_gradients(name, parameters):
    """The arrays of the gradients, in a list for each library, device and dtype.

    An array is copied first if anything else can see its memory.
    """
    groups: dict[Any, list] = {}
    for grad in _gradients(name, parameters):
        backend = backend_of[type(grad.array)]
        if not is_unshared(grad):
            grad.array = backend.asarray(grad.array, copy=True)
        array = grad.array
        groups.setdefault((type(array), grad.device, array.dtype), []).append(array)
    return list(groups.values())


def _norm(arrays, norm_type, max_norm):
    """The norm of arrays of one device and dtype, and the factor that clips them."""
    backend = backend_of[type(arrays[0])]
    updater = backend.multi_tensor_updater(arrays[0])
    if updater is not None and norm_type == 2:
        norm_and_factor = updater.norm(arrays, max_norm)
        if norm_and_factor is not None:
            return norm_and_factor
    xp = backend.xp
    with backend.scope(arrays[0]):
        if is_half(arrays[0].dtype):
            arrays = [xp.astype(array, xp.float32) for array in arrays]
        norms = [backend.asarray(xp.linalg.vector_norm(array, ord=norm_type)) for array in arrays]
        norm = _norm_of_norms(norms, norm_type)
        return norm, _factor(norm, max_norm)


def _norm_of_norms(norms, norm_type):
    """The norm of everything, given the norms of its parts; on the device of the first."""
    if len(norms) == 1 and norm_type != 0:
        return norms[0]
    backend = backend_of[type(norms[0])]
    xp = backend.xp
    with backend.scope(norms[0]):
        if len({norm.dtype for norm in norms}) > 1:
            norms = [xp.astype(norms[0], xp.float64), *norms[1:]]
        parts = xp.stack([placed_like(norm, norms[0]) for norm in norms])
        return backend.asarray(xp.linalg.vector_norm(parts, ord=norm_type))


def _factor(norm, max_norm):
    """The factor that reduces a norm to at most ``max_norm``."""
    backend = backend_of[type(norm)]
    with backend.scope(norm):
        return backend.asarray(backend.xp.minimum(max_norm / (norm + 1e-6), 1.0))


def scale_arrays(arrays, factor, found=None):
    """Multiply arrays of one device and dtype, in place, by ``factor``, a 0-d array.

    found: None, or a 0-d float32 array. It keeps its value if all elements are finite, and else is
        not 0 afterwards. With it ``factor`` must be float32 too.

    Returns ``found``, or an array in its place.
    """
    backend = backend_of[type(arrays[0])]
    updater = backend.multi_tensor_updater(arrays[0])
    if updater is not None and updater.scale(arrays, factor, found):
        return found
    xp = backend.xp
    with backend.scope(arrays[0]):
        halves = is_half(arrays[0].dtype)
        for array in arrays:
            if found is not None:
                bad = backend.asarray(xp.any(xp.logical_not(xp.isfinite(array))))
                found = backend.asarray(found + xp.astype(bad, found.dtype))
            if halves:
                array[...] = xp.astype(xp.astype(array, xp.float32) * factor, array.dtype)
            else:
                array *= factor
    return found
