"""Bringing an array to where another one is."""

from .registry import backend_of


def placed_like(value, like):
    """``value`` as an array of the library, dtype and device of ``like``; a copy only if needed."""
    backend = backend_of[type(like)]
    device = backend.device(like)
    if type(value) is type(like):
        array = backend.to_device(value, device)
    else:
        array = backend.asarray(backend_of[type(value)].to_numpy(value), device=device)
    return backend.xp.astype(array, like.dtype, copy=False)
