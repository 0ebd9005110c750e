"""Indexing and assignment."""

from dataclasses import replace

import numpy as np

from .base import A, Case, S, Z, beyond, values
from .draws import integers
from .kinds import square


def _index_samples():
    """Return keys into the shape ``(3, 4)``: standard ones, wider ones, and with negative steps."""
    i = np.asarray
    standard = [
        (0, ...), (-1, ...), (1, 2), (slice(None), -1), (slice(1, None), slice(None, None, 2)),
        (..., 0), (None, slice(None), 1), (slice(0, 0), ...), (...,),
        i([[True, False, True, True], [False] * 4, [True] * 4]), np.zeros((3, 4), bool), i(True),
        i(False), (i([0, 2, 0, 0]), i([1, 3, 1, -1])), (i([[0], [2]]), i([1, -1])),
    ]  # fmt: skip
    wider = [
        (i([2, 0, 2, 2]),), (i([2, 0, 2, -1], dtype="int32"),), (i([[0, 1], [1, 1]]), slice(None)),
        (slice(None), i([3, 3, 0])), (slice(1, None), i([3, 3, 0])), (i([0, 0]), None, 1),
        (None, i([0, 0]), ..., None), (i([True, False, True]), slice(1, 3)),
        (i([True, False, True]), ...), (..., i([True, False, True, True])),
        (i([True, False, True]), None, 1),
        (None, i([[True, False, True, True], [False] * 4, [True] * 4])),
        (i([True, False, True]), i([1, 1])), (slice(None), i([True, False, True, True])),
        (i([], dtype="int64"),), 0, -2, slice(1, 2),
    ]  # fmt: skip
    return standard, wider, [(slice(None, None, -1), slice(3, 0, -2)), (..., slice(None, None, -1))]


STANDARD_KEYS, WIDER_KEYS, BACKWARD_KEYS = _index_samples()


def indexing(make):
    """Return samples ``make(key)`` for keys into an array of shape ``(3, 4)``."""
    return [
        *(make(key) for key in STANDARD_KEYS),
        *beyond("array_api_strict", *(make(key) for key in WIDER_KEYS)),
        *beyond("torch", *(make(key) for key in BACKWARD_KEYS)),
    ]


def _random_indices(n):
    """Return a key of ``n`` integers below ``n``, in random order."""
    return np.random.default_rng(0).integers(0, n, n)


def _shape_taken(key):
    """Return the shape of ``x[key]``."""
    return np.zeros((3, 4))[key].shape


def _setitem_samples():
    i = np.asarray
    whole = indexing(lambda key: S(A(3, 4), A(*_shape_taken(key)), key=key))
    scalar = indexing(lambda key: S(A(3, 4), A(), key=key))
    samples = [
        *whole, *scalar, S(A(3, 4), 2.0, key=(slice(None), 1)),
        S(A(3, 4), A(4), key=(slice(1, 3), ...)), S(A(3, 4), A(2, 1), key=(slice(1, 3), ...)),
        S(A(3, 4), A(1, 4), key=(0, ...)), S(A(), A(), key=()), S(A(), 1.5, key=...),
        S(A(3, 4, layout="transposed"), A(3, layout="reversed"), key=(slice(None), 0)),
        *beyond("array_api_strict", S(A(3, 4), A(4), key=(i([2, 0, 2]),)),
                S(A(3, 4), A(3, 1), key=(i([2, 0, 2]),)),
                S(A(3, 4), A(1, 4), key=i([True, False, True]))),
    ]  # fmt: skip
    why = "PyTorch gives a gradient to values that are overwritten"
    reasons = [why if _has_duplicates(s.static["key"]) else None for s in samples]
    return [replace(s, unlike_torch=r) for s, r in zip(samples, reasons, strict=True)]


def _has_duplicates(key):
    """Return whether a key into an array of shape (3, 4) selects an element twice."""
    places = np.arange(12).reshape(3, 4)[key]
    return np.unique(places).size < places.size


def _assigned(out, value, key):
    out[key] = value
    return out


def _scatter_add(values, *, shape, key):
    out = np.zeros(shape, values.dtype)
    np.add.at(out, key, values)
    return out


def _torch_scatter_add(torch, values, *, shape, key):
    number = torch.arange(int(np.prod(shape))).reshape(shape)[key]
    out = torch.zeros(int(np.prod(shape)), dtype=values.dtype)
    values = values.expand(number.shape).reshape(-1)
    return out.index_add(0, number.reshape(-1), values).reshape(shape)


def _is_last_written(x, *, key):
    places = np.arange(x.size).reshape(x.shape)[key]
    writes = [*enumerate(places.ravel().tolist())]
    last = {place: number for number, place in writes}
    return np.array([last[p] == n for n, p in writes], bool).reshape(places.shape)


def _add_along_axis(values, indices, *, shape, axis):
    out, where = np.zeros(shape, values.dtype), np.broadcast_to(indices, values.shape)
    for place in np.ndindex(values.shape):
        at = list(np.minimum(place, np.subtract(shape, 1)))  # an axis of length 1 receives all
        at[axis] = where[place]
        out[tuple(at)] += values[place]
    return out


def _torch_add_along_axis(torch, values, indices, *, shape, axis):
    indices, full = (indices % shape[axis]).expand(values.shape), list(values.shape)
    full[axis] = shape[axis]
    out = torch.zeros(full, dtype=values.dtype).scatter_add(axis, indices, values)
    return out.sum_to_size(shape)


CASES = [
    Case("getitem", [
        *indexing(lambda key: S(A(3, 4), key=key)),
        S(A(3, 4, layout="transposed"), key=(slice(1, None), 2)),
        S(A(3, 4, layout="reversed"), key=(np.array([2, 0, 2]), 1)), S(A(), key=()),
        S(A(), key=None), S(A(), key=...), S(A(5), key=np.array([4, 4, -5, 0, 4])),
        S(A(0, 3), key=(slice(None), 1)), S(Z(3, 4), key=(1, ...)),
    ], lambda x, *, key: x[key], lambda torch, x, *, key: x[key], complex=True,
         sized=lambda n: S(A(n), key=_random_indices(n))),
    Case("setitem", _setitem_samples(), lambda x, value, *, key: _assigned(x.copy(), value, key),
         lambda torch, x, value, *, key: _assigned(x.clone(), value, key), complex=True,
         sized=lambda n: S(A(n), A(n), key=_random_indices(n))),
    Case("take", [
        S(A(5), values([4, 4, -5, 0, 4])), S(A(5), values([1]), axis=0),
        S(A(3, 4), values([2, 0, 2, -1]), axis=0), S(A(3, 4), values([3, 3, -4]), axis=-1),
        S(A(2, 3, 4), values([0, 2, 0]), axis=1), S(A(2, 3, 4), values([-1, -2]), axis=-3),
        S(A(3, 4), Z(2, below=3, dtype="int32"), axis=0), S(A(3, 4), Z(0, below=3), axis=0),
        S(A(0, 4), values([1, 3, 1]), axis=1), S(Z(3, 4), values([2, 0, 2]), axis=1),
    ], lambda x, indices, *, axis=0: np.take(x, indices, axis),
         lambda torch, x, i, *, axis=0: torch.index_select(x, axis, i.long() % x.shape[axis]),
         complex=True,
         sized=lambda n: S(square(n), values(_random_indices(round(n**0.5))), axis=0)),
    Case("take_along_axis",
         [
             S(A(5), values([4, 4, -5, 0, 4, 1])), S(A(3, 4), Z(3, 4, low=-4, below=4)),
             S(A(3, 4), Z(2, 4, low=-3, below=3), axis=0),
             S(A(2, 3, 4), Z(2, 5, 4, below=3), axis=1),
             S(A(2, 3, 4), Z(2, 1, 4, below=3), axis=-2),
             S(A(2, 3, 4), Z(1, 5, 1, low=-3, below=3), axis=1),
             S(A(1, 3), Z(2, 2, low=-3, below=3), axis=1), S(A(2, 3), Z(2, 0, below=3), axis=1),
             S(A(0, 3), Z(0, 2, below=3), axis=1), S(Z(3, 4), Z(3, 2, below=4)),
             # NumPy before 2.3 has no default for the axis.
         ], lambda x, indices, *, axis=-1: np.take_along_axis(x, indices, axis),
         lambda torch, x, i, *, axis=-1: torch.take_along_dim(x, i % x.shape[axis], axis),
         complex=True, sized=lambda n: S(square(n), square(n, integers(0, round(n**0.5))))),
    Case("add_along_axis", [
        S(A(5), values([2, 2, -3, 0, 2]), shape=(3,), axis=0),
        S(A(3, 4), Z(3, 4, low=-2, below=2), shape=(3, 2), axis=1),
        S(A(2, 5, 4), Z(2, 5, 4, below=3), shape=(2, 3, 4), axis=-2),
        S(A(2, 5, 4), Z(1, 5, 1, below=3), shape=(2, 3, 4), axis=1),
        S(A(2, 5), Z(2, 5, below=3), shape=(1, 3), axis=1),
        S(A(2, 0), Z(2, 0, below=3), shape=(2, 3), axis=1),
    ], _add_along_axis, _torch_add_along_axis, complex=True,
         sized=lambda n: S(square(n), square(n, integers(0, round(n**0.5))), shape=square(n).shape,
                           axis=1)),
    Case("scatter_add", [
        *indexing(lambda key: S(A(*_shape_taken(key)), shape=(3, 4), key=key)),
        S(A(), shape=(3,), key=slice(None)), S(A(3), shape=(5,), key=np.array([1, 1, -1])),
    ], _scatter_add, _torch_scatter_add, complex=True,
         sized=lambda n: S(A(n), shape=(n,), key=_random_indices(n))),
    Case("last_written", indexing(lambda key: S(A(3, 4), key=key)), _is_last_written,
         differentiable=False),
]  # fmt: skip
