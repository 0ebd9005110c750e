"""Moves arrays to the device of another array, or to a device batch by batch."""

from itertools import chain

from .registry import backend_for_device, backend_of, is_on, namespace_of, transfer


def placed_like(value, like):
    """``value`` as an array of the library, dtype and device of ``like``; a copy only if needed."""
    backend = backend_of[type(like)]
    device = backend.device(like)
    if type(value) is type(like):
        array = backend.to_device(value, device)
    else:
        array = backend.asarray(backend_of[type(value)].to_numpy(value), device=device)
    return backend.xp.astype(array, like.dtype, copy=False)


def take_rows(array, rows):
    """``array[rows]`` for a slice, which gives a view, or an array of indices."""
    if isinstance(rows, slice):
        return array[rows, ...]
    with backend_of[type(array)].scope(array):
        return namespace_of[type(array)].take(array, rows, axis=0)


def transfer_batches(batches, device):
    """Yield ``batches``, lists of ``(array, rows)``, as lists of ``array[rows]`` on ``device``."""
    for batch in batches:
        sources = [backend_of[type(array)] for array, _ in batch]
        own = [source for source in sources if source.has_device(device)]
        backend = own[0] if own else backend_for_device(device)
        if backend.transfer_batches is not None and set(sources) != {backend}:
            yield from backend.transfer_batches(chain([batch], batches), device)
            return
        arrays = [take_rows(array, rows) for array, rows in batch]
        yield [x if is_on(x, device) else transfer(x, device) for x in arrays]
