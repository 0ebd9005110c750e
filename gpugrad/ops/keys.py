"""Keys with arrays in them, taken apart, so that `vmap` can make keys into all examples of them."""

from functools import lru_cache
from typing import Any

from ..backends import backend_of
from ..backends.dtypes import int64
from ..batched import BatchedTensor, levels_of, physical
from ..dtypes import isdtype

WHOLE = slice(None)


def items(key):
    """What a key consists of, as a tuple."""
    return key if type(key) is tuple else (key,)


def is_basic(key):
    """Whether there are neither arrays nor bools in a key."""
    return all(_is_plain(k) for k in items(key))


def has_bool(key):
    """Whether there is a bool in a key, or an array of one without axes."""
    return any(getattr(k, "shape", ()) == () and _is_mask(k) for k in items(key))


def _is_mask(k):
    return type(k) is bool or (hasattr(k, "dtype") and isdtype(k.dtype, "bool"))


def basic_ndim(key, ndim):
    """How many axes a key without arrays leaves of ``ndim``."""
    return ndim - sum(type(k) is int for k in items(key)) + sum(k is None for k in items(key))


def _is_plain(k):
    return k is None or k is ... or type(k) in (int, slice)


class Parts:
    """A key into one example of ``shape``: its slices, and the arrays that index what these take.

    before: the slices, one that is whole for each axis that is indexed, and None.
    shape: of what ``before`` takes.
    axes: those of its axes that are indexed.
    indices: for each of these an int or an array of ints, raw or batched.
    ndim: how many axes the arrays bring.
    at: where in the result these are.
    """

    def __init__(self, key, shape, like):
        self.backend = backend_of[type(like)]
        self.like = like
        self.before: list[Any] = []
        self.shape: list[int] = []
        self.axes: list[int] = []
        self.indices: list[Any] = []
        parts = [k if _is_plain(k) else _Array(k) for k in items(key)]
        if sum(k is ... for k in parts) > 1:
            raise IndexError("index: there is more than one ... in the key")
        if not any(k is ... for k in parts):
            parts.append(...)
        rest = len(shape) - sum(map(_consumed, parts))
        if rest < 0:
            raise IndexError(f"index: too many indices for {len(shape)} axes")
        lengths = iter(shape)
        starts = []  # of each part, among the axes of the result that no array brings
        for k in parts:
            starts.append(len(self.shape) - len(self.axes))
            if k is None:
                self._take(None, 1)
            elif k is ...:
                for _ in range(rest):
                    self._take(WHOLE, next(lengths))
            elif type(k) is slice:
                self._take(k, len(range(*k.indices(next(lengths)))))
            elif type(k) is int:
                self._index(next(lengths), k)
            elif not k.is_mask:
                self._index(next(lengths), k.value)
            else:
                found = tuple([next(lengths) for _ in k.shape])
                if found != k.shape:
                    raise IndexError(f"index: a mask of shape {k.shape} is not of axes {found}")
                with self.backend.scope(k.value):
                    all_places = self.backend.xp.nonzero(k.value)
                for n, places in zip(found, all_places, strict=True):
                    self._index(n, places)
        self.ndim = max(len(getattr(i, "shape", ())) for i in self.indices)
        self.at = _place(parts, starts, rest, True)
        unlike = _place(parts, starts, rest, False)
        if self.at != unlike and not _places_as_numpy(self.backend):
            self.at = unlike

    def _take(self, item, length):
        self.before.append(item)
        self.shape.append(length)

    def _index(self, length, value):
        self.axes.append(len(self.shape))
        self.indices.append(value)
        self._take(WHOLE, length)

    @property
    def takes_all(self):
        """Whether ``before`` takes all elements in their order."""
        return all(k is None or k == WHOLE for k in self.before)

    @property
    def result_ndim(self):
        """How many axes the whole key's result has."""
        return len(self.shape) - len(self.axes) + self.ndim

    def count(self, n):
        """The raw integers from 0 to ``n - 1``."""
        return self.backend.create("arange", n, dtype=self.backend.dtype(int64), like=self.like)

    def key(self, sizes, levels=()):
        """The key of all examples into the indexed axes, in front of which are those of examples.

        sizes: of the examples along each axis of the result over them; None where what is
            indexed has no such axis, and the arrays, of these ``levels``, alone differ.
        """
        key = []
        for i, n in enumerate(sizes):
            if n is not None:
                shape = [1] * (len(sizes) + self.ndim)
                shape[i] = n
                key.append(self.backend.xp.reshape(self.count(n), tuple(shape)))
        for k in self.indices:
            if type(k) is BatchedTensor:
                own = dict(zip(levels_of(k), physical(k).shape, strict=False))
                front = [own.get(level, 1) for level in levels]
                shape = (*front, *[1] * (self.ndim - k.ndim), *k.shape)
                k = self.backend.xp.reshape(physical(k).array, shape)
            key.append(k)
        return tuple(key)


class _Array:
    """An array in a key."""

    def __init__(self, value):
        self.value = value
        self.shape = tuple(getattr(value, "shape", ()))
        self.is_mask = _is_mask(value)
        if self.is_mask and type(value) is BatchedTensor:
            raise TypeError(
                "index: inside vmap a mask may take another number of elements from each example, "
                "which have one shape; choose with where"
            )
        if self.is_mask and not self.shape:
            raise TypeError("index: inside vmap a bool cannot stand beside arrays; use a slice")


def _consumed(k):
    """How many axes an item of a key is for."""
    if k is None or k is ...:
        return 0
    return len(k.shape) if type(k) is _Array and k.is_mask else 1


def _place(parts, starts, rest, as_numpy):
    """Where arrays' axes go: to the first array if all stand in a row, else to the front.

    In NumPy an int counts as an array, and ``...`` parts them even where it is for no axes.
    """
    where = []
    position = 0
    for k, start in zip(parts, starts, strict=True):
        if type(k) is _Array or (type(k) is int and as_numpy):
            where.append((position, start))
        position += as_numpy or k is not ... or rest > 0
    in_a_row = where[-1][0] - where[0][0] == len(where) - 1
    return where[0][1] if in_a_row else 0


@lru_cache
def _places_as_numpy(backend):
    """Whether the library does that as NumPy; PyTorch does not."""
    zeros = backend.create("zeros", (1, 2, 3), dtype=backend.dtype(int64))
    index = backend.create("zeros", (4,), dtype=backend.dtype(int64))
    return tuple(zeros[0, :, index].shape) == (4, 2)
