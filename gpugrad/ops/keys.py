"""Keys that index all examples of `vmap` at once."""

from functools import lru_cache

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
    return all(map(_is_basic_item, items(key)))


def _is_basic_item(k):
    return k is None or k is ... or type(k) in (int, slice)


def has_bool(key):
    """Whether a key contains a bool or a 0-d array of bools."""
    return any(getattr(k, "shape", ()) == () and _is_mask(k) for k in items(key))


def _is_mask(k):
    return type(k) is bool or (hasattr(k, "dtype") and isdtype(k.dtype, "bool"))


class ExampleKey:
    """A key into an example with ``ndim_of_x`` axes, from which the key of all examples is made.

    arrays: the arrays among its items.
    ndim: the number of axes of the result.
    index_ndim: how many of them come from the arrays, which broadcast together.
    position: the place of the first of these among the axes of the result.
    """

    def __init__(self, key, ndim_of_x, like):
        self.items = items(key)
        self.like = like
        self.arrays = [k for k in self.items if not _is_basic_item(k)]
        for k in self.arrays:
            if _is_mask(k) and type(k) is BatchedTensor:
                raise TypeError(
                    "index: inside vmap a mask could select a different number of elements in each "
                    "example, but all must have the same shape; choose with where"
                )
            if _is_mask(k) and getattr(k, "shape", ()) == ():
                raise TypeError(
                    "index: inside vmap a bool cannot be used beside arrays; use a slice"
                )
        rest = ndim_of_x - sum(map(_axes_indexed, self.items))  # the axes of ``...``
        if rest < 0:
            raise IndexError(f"index: too many indices for {ndim_of_x} axes")
        self.index_ndim = max([1 if _is_mask(k) else len(k.shape) for k in self.arrays], default=0)
        self.ndim = self.index_ndim + rest + sum(map(_is_axis, self.items))
        self.position = _index_position(self.items, rest, as_numpy=True)
        other = _index_position(self.items, rest, as_numpy=False)
        # Only then is the library asked, because not every library supports the key that is tried.
        if self.arrays and self.position != other and not _follows_numpy(backend_of[type(like)]):
            self.position = other

    @property
    def is_of_one_axis(self):
        """Whether it indexes only one axis, by an array of integers."""
        return len(self.arrays) == 1 and not any(type(k) is int or _is_mask(k) for k in self.items)

    def of_examples(self, sizes, levels=()):
        """The key for an array with all examples. If it has arrays, their axes come first.

        sizes: the number of examples along each axis of the result over examples; None where the
            indexed tensor has no such axis, and only the indices differ between examples. If all
            are None, the axes of the arrays are where they are in an example.
        levels: the levels of `vmap` that these axes belong to, if an index is batched.
        """
        if not self.arrays:
            return (*[WHOLE] * len(sizes), *self.items)
        backend = backend_of[type(self.like)]
        key = []
        for i, n in enumerate(sizes):
            if n is not None:
                places = backend.create("arange", n, dtype=backend.dtype(int64), like=self.like)
                after = len(sizes) - i - 1 + self.index_ndim
                key.append(backend.xp.reshape(places, (n, *[1] * after)))
        for k in self.items:
            if type(k) is BatchedTensor:
                own = dict(zip(levels_of(k), physical(k).shape, strict=False))
                front = [own.get(level, 1) for level in levels]
                shape = (*front, *[1] * (self.index_ndim - k.ndim), *k.shape)
                key.append(backend.xp.reshape(physical(k).array, shape))
            elif _is_mask(k):  # which the standard does not allow beside integers
                with backend.scope(k):
                    key.extend(backend.xp.nonzero(k))
            else:
                key.append(k)
        return tuple(key)


def _is_axis(k):
    """Whether an item of a key stands for one axis of the result."""
    return k is None or type(k) is slice


def _axes_indexed(k):
    """The number of axes that an item of a key indexes."""
    if k is None or k is ...:
        return 0
    return len(k.shape) if _is_mask(k) else 1


def _index_position(key_items, rest, as_numpy):
    """Where the axes of the arrays go: to the first array if all are adjacent, else in front.

    In NumPy an int counts as an array, and ``...`` separates arrays even if it spans no axes.
    """
    places = []  # for each array, its number among the items and among the axes of the result
    number = axis = 0
    for k in key_items:
        if not _is_basic_item(k) or (type(k) is int and as_numpy):
            places.append((number, axis))
        number += as_numpy or k is not ... or rest > 0
        axis += rest if k is ... else _is_axis(k)
    adjacent = places and places[-1][0] - places[0][0] == len(places) - 1
    return places[0][1] if adjacent else 0


@lru_cache
def _follows_numpy(backend):
    """Whether the library puts these axes where NumPy does; PyTorch does not."""
    zeros = backend.create("zeros", (1, 2, 3), dtype=backend.dtype(int64))
    index = backend.create("zeros", (4,), dtype=backend.dtype(int64))
    return tuple(zeros[0, :, index].shape) == (4, 2)
