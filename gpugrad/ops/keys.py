"""Splits index keys that contain arrays, so that `vmap` can index all examples at once."""

from functools import lru_cache
from typing import Any

from .._batched import BatchedTensor, levels_of, physical
from .._dtypes import isdtype
from ..backends import backend_of
from ..backends.dtypes import int64

WHOLE = slice(None)


def items(key):
    """The items of a key, as a tuple."""
    return key if type(key) is tuple else (key,)


def is_basic(key):
    """Whether a key contains neither arrays nor bools."""
    return all(_is_basic_item(k) for k in items(key))


def has_bool(key):
    """Whether a key contains a bool or a 0-d array of bools."""
    return any(getattr(k, "shape", ()) == () and _is_mask(k) for k in items(key))


def _is_mask(k):
    return type(k) is bool or (hasattr(k, "dtype") and isdtype(k.dtype, "bool"))


def basic_ndim(key, ndim):
    """The number of axes of the result when a basic key indexes ``ndim`` axes."""
    return ndim - sum(type(k) is int for k in items(key)) + sum(k is None for k in items(key))


def _is_basic_item(k):
    return k is None or k is ... or type(k) in (int, slice)


class SplitKey:
    """A key into one example of ``shape``, split into a basic key and indices applied after it.

    basic: the slices and Nones of the key, with a whole slice for each axis that is indexed.
    shape: the shape of an example after ``basic`` has been applied.
    axes: the axes of that shape which ints or arrays index.
    indices: for each of these axes, an int or an array of ints, raw or batched.
    index_ndim: the number of axes of the indices, broadcast together.
    index_axes: the positions of these axes in the result.
    """

    def __init__(self, key, shape, like):
        self.backend = backend_of[type(like)]
        self.like = like
        self.basic: list[Any] = []
        self.shape: list[int] = []
        self.axes: list[int] = []
        self.indices: list[Any] = []
        key_items = [k if _is_basic_item(k) else _ArrayItem(k) for k in items(key)]
        if sum(k is ... for k in key_items) > 1:
            raise IndexError("index: the key contains more than one ...")
        if not any(k is ... for k in key_items):
            key_items.append(...)
        rest = len(shape) - sum(map(_axes_consumed, key_items))
        if rest < 0:
            raise IndexError(f"index: too many indices for {len(shape)} axes")
        lengths = iter(shape)
        starts = []  # each item's position among the axes of the result that come from slices
        for k in key_items:
            starts.append(len(self.shape) - len(self.axes))
            if k is None:
                self._append(None, 1)
            elif k is ...:
                for _ in range(rest):
                    self._append(WHOLE, next(lengths))
            elif type(k) is slice:
                self._append(k, len(range(*k.indices(next(lengths)))))
            elif type(k) is int:
                self._append_index(next(lengths), k)
            elif not k.is_mask:
                self._append_index(next(lengths), k.value)
            else:
                found = tuple([next(lengths) for _ in k.shape])
                if found != k.shape:
                    raise IndexError(f"index: a mask of shape {k.shape} does not fit axes {found}")
                with self.backend.scope(k.value):
                    all_places = self.backend.xp.nonzero(k.value)
                for n, places in zip(found, all_places, strict=True):
                    self._append_index(n, places)
        self.index_ndim = max(len(getattr(i, "shape", ())) for i in self.indices)
        position = _index_position(key_items, starts, rest, as_numpy=True)
        other = _index_position(key_items, starts, rest, as_numpy=False)
        if position != other and not _follows_numpy(self.backend):
            position = other
        self.index_axes = range(position, position + self.index_ndim)

    def _append(self, item, length):
        self.basic.append(item)
        self.shape.append(length)

    def _append_index(self, length, value):
        self.axes.append(len(self.shape))
        self.indices.append(value)
        self._append(WHOLE, length)

    @property
    def takes_all(self):
        """Whether ``basic`` selects all elements, in order."""
        return all(k is None or k == WHOLE for k in self.basic)

    @property
    def ndim(self):
        """The number of axes of the whole key's result."""
        return len(self.shape) - len(self.axes) + self.index_ndim

    def key(self, sizes, levels=()):
        """The key that indexes all examples at once, where the indexed axes follow the examples'.

        sizes: the number of examples along each axis of the result over examples; None where the
            indexed tensor has no such axis, and only the indices differ between examples.
        levels: the levels of `vmap` that these axes belong to, if an index is batched.
        """
        key = []
        dtype = self.backend.dtype(int64)
        for i, n in enumerate(sizes):
            if n is not None:
                shape = [1] * (len(sizes) + self.index_ndim)
                shape[i] = n
                places = self.backend.create("arange", n, dtype=dtype, like=self.like)
                key.append(self.backend.xp.reshape(places, tuple(shape)))
        for k in self.indices:
            if type(k) is BatchedTensor:
                own = dict(zip(levels_of(k), physical(k).shape, strict=False))
                front = [own.get(level, 1) for level in levels]
                shape = (*front, *[1] * (self.index_ndim - k.ndim), *k.shape)
                k = self.backend.xp.reshape(physical(k).array, shape)
            key.append(k)
        return tuple(key)


class _ArrayItem:
    """An array or a bool in a key."""

    def __init__(self, value):
        self.value = value
        self.shape = tuple(getattr(value, "shape", ()))
        self.is_mask = _is_mask(value)
        if self.is_mask and type(value) is BatchedTensor:
            raise TypeError(
                "index: inside vmap a mask could select a different number of elements in each "
                "example, but all must have the same shape; choose with where"
            )
        if self.is_mask and not self.shape:
            raise TypeError("index: inside vmap a bool cannot be used beside arrays; use a slice")


def _axes_consumed(k):
    """The number of axes that an item of a key indexes."""
    if k is None or k is ...:
        return 0
    return len(k.shape) if type(k) is _ArrayItem and k.is_mask else 1


def _index_position(key_items, starts, rest, as_numpy):
    """Where the axes of the indices go: to the first array if all are adjacent, else in front.

    In NumPy an int counts as an array, and ``...`` separates arrays even if it spans no axes.
    """
    where = []
    position = 0
    for k, start in zip(key_items, starts, strict=True):
        if type(k) is _ArrayItem or (type(k) is int and as_numpy):
            where.append((position, start))
        position += as_numpy or k is not ... or rest > 0
    adjacent = where[-1][0] - where[0][0] == len(where) - 1
    return where[0][1] if adjacent else 0


@lru_cache
def _follows_numpy(backend):
    """Whether the library puts these axes where NumPy does; PyTorch does not."""
    zeros = backend.create("zeros", (1, 2, 3), dtype=backend.dtype(int64))
    index = backend.create("zeros", (4,), dtype=backend.dtype(int64))
    return tuple(zeros[0, :, index].shape) == (4, 2)
