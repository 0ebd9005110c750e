"""Making one batch of several samples."""

from collections.abc import Mapping, Sequence
from typing import Any

from .._creation import asarray
from ..backends import SCALARS
from ..ops.manipulation import stack

_CONTAINERS = Mapping, tuple, list


def default_collate(batch: Sequence[Any]) -> Any:
    """One batch of a list of samples, nested as the samples are.

    Tensors, arrays and numbers are stacked along a new first axis to a Tensor without a graph.
    Python floats become float32. Of dicts, tuples, named tuples and lists, the batch has one with a
    batch for each member. The batch of strings or bytes is a list.

    Raises ValueError if the samples differ in keys, lengths or shapes, and TypeError for values of
    other types.

    >>> from gpugrad import data
    >>> data.default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    {'x': tensor([1., 2.]), 'name': ['a', 'b']}
    """
    if not batch:
        raise ValueError("default_collate: there are no samples")
    return _collate(list(batch), "")


def _collate(samples, path):
    """The batch of what all samples have at ``path``."""
    first = samples[0]
    kind = type(first)
    if len({*map(type, samples)}) > 1 and any(isinstance(s, _CONTAINERS) for s in samples):
        raise _differ(path, "types", [type(s).__name__ for s in samples])
    if isinstance(first, (str, bytes)):
        return samples
    if isinstance(first, Mapping):
        keys = first.keys()
        if not all(s.keys() == keys for s in samples):
            raise _differ(path, "keys", [sorted(s, key=str) for s in samples])
        return {key: _collate([s[key] for s in samples], f"{path}[{key!r}]") for key in keys}
    if isinstance(first, (tuple, list)):
        if len({*map(len, samples)}) > 1:
            raise _differ(path, "lengths", [len(s) for s in samples])
        columns = enumerate(zip(*samples, strict=True))
        batches = [_collate(list(column), f"{path}[{i}]") for i, column in columns]
        return getattr(kind, "_make", list if isinstance(first, list) else tuple)(batches)
    if kind in SCALARS and all(type(s) in SCALARS for s in samples):
        return asarray(samples)
    tensors = [_tensor(sample, path) for sample in samples]
    if len({x.shape for x in tensors}) > 1:
        raise _differ(path, "shapes", [x.shape for x in tensors])
    return stack(tensors)


def _tensor(sample, path):
    try:
        # NumPy's scalars keep their dtype.
        return asarray(sample, dtype=getattr(sample, "dtype", None)).detach()
    except (TypeError, ValueError):
        raise TypeError(
            f"default_collate: sample{path} is of type {type(sample).__name__}, which cannot be "
            f"batched; return arrays, numbers, strings, or dicts, tuples and lists of these, or "
            f"give the DataLoader a collate_fn"
        ) from None


def _differ(path, what, values):
    different = list(dict.fromkeys(map(str, values)))[:3]
    return ValueError(
        f"default_collate: sample{path} differs in {what}: {', '.join(different)}; make the "
        f"samples equal, or give the DataLoader a collate_fn"
    )
