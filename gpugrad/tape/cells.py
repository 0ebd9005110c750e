"""Cells: the places that hold what a function reads and changes, and the guards of what they hold.

A guard is a triple ``(place, value, how)``: the place still has what it had when a function was
recorded. ``how`` is "same", of a `Cell`, or one of the kinds of `content_of`, of an object itself.
The guards of a program are rows of a few kinds, and a loop checks the rows of each kind.
"""

import abc
import decimal
import fractions
import struct
import types
import uuid

from ..autograd.graph import Leaf
from ..backends import backend_of, namespace_of

# Values of these types are compared. Subclasses are not: they may have attributes.
SIMPLE = (bool, int, float, complex, str, bytes, type(None), range, slice, types.EllipsisType)
ABSENT = (AttributeError, KeyError, IndexError, TypeError, ValueError)  # of a place that is gone
_BY_TEXT = frozenset({decimal.Decimal, fractions.Fraction, uuid.UUID})
_EQUAL = frozenset({*SIMPLE, *_BY_TEXT})


class Cell:
    """A place that holds a value.

    kind: "item" of a container, "attr" of an object, or "class" for an attribute in the
        ``__dict__`` of a class.
    """

    __slots__ = ("kind", "container", "key")

    def __init__(self, kind, container, key=None):
        self.kind = kind
        self.container = container
        self.key = key

    def get(self):
        if self.kind == "item":
            return self.container[self.key]
        if self.kind == "class":
            return vars(self.container)[self.key]
        return getattr(self.container, self.key)

    def set(self, value):
        if self.kind == "item":
            self.container[self.key] = value
        elif self.kind == "class":
            setattr(self.container, self.key, value)
        else:
            object.__setattr__(self.container, self.key, value)

    def is_fixed(self):
        """Whether nothing else can be put into it."""
        return self.kind == "item" and isinstance(self.container, (tuple, types.MappingProxyType))

    def __str__(self):
        if self.kind == "item":
            return f"{self.key!r} of a {type(self.container).__name__}"
        if type(self.container) is types.CellType:
            return "a variable of the enclosing function"
        if self.kind == "class":
            return f"{self.container.__name__}.{self.key}"
        return f"{type(self.container).__name__}.{self.key}"


def same(x, y):
    """Whether nothing can tell two values apart.

    Numbers have the same bits, so that nan is equal to itself, and 0.0 not to -0.0 or 0. Objects
    that may change or have attributes are equal to themselves alone.
    """
    if x is y:
        return True
    kind = type(x)
    if kind is not type(y):
        return False
    if kind is float or kind is complex:
        return struct.pack("dd", x.real, x.imag) == struct.pack("dd", y.real, y.imag)
    if kind is range or kind is slice:  # ranges of the same numbers may have other ends
        return same((x.start, x.stop, x.step), (y.start, y.stop, y.step))
    if kind is tuple or kind is frozenset:
        return keys_of(x) == keys_of(y)
    if kind in _BY_TEXT:
        return repr(x) == repr(y)
    if kind in _EQUAL:
        return x == y
    return is_compared(kind) and x.dtype == y.dtype and x.tobytes() == y.tobytes()


def is_compared(kind):
    """Whether `same` compares the values of this type rather than their identity."""
    return kind in _EQUAL or (kind in backend_of and kind not in namespace_of)


class _Exactly:
    """A value that equals only what `same` says."""

    __slots__ = ("value",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return same(self.value, other.value)


def _exact(x):
    return x if type(x) is str else _Exactly(x)


def keys_of(x):
    """The keys of a dict, or the items of a tuple or a set, in their order, each with its type."""
    return [*map(_exact, [*x])]  # a copy first, since another thread may add some


def _bytes_of(x):
    return backend_of[type(x)].to_numpy(x).tobytes()


def _is_missing(cell):
    try:
        cell.get()
    except ABSENT:
        return True
    return False


content_of = {
    "bytes": _bytes_of,
    "keys": keys_of,
    "len": len,
    "missing": _is_missing,
    "registrations": lambda _: abc.get_cache_token(),  # of classes with abstract ones
}


def rows_of(guards):
    """The guards as the lists of rows that `all_hold` takes."""
    rows = contents, kinds, lengths, in_dicts, elsewhere, attributes = [[] for _ in range(6)]
    for place, value, how in guards:
        if how == "len":
            lengths.append((place, value))
        elif how == "type":
            kinds.append((place, value))
        elif how == "lacks":
            contents.append((place.keys().isdisjoint, value, True))
        elif how != "same":
            contents.append((content_of[how], place, value))
        elif place.kind == "attr":
            attributes.append((place.container, place.key, value))
        else:
            x = vars(place.container) if place.kind == "class" else place.container
            (in_dicts if type(x) is dict else elsewhere).append((x, place.key, value))
    return rows


def all_hold(rows):
    """Whether all these guards hold; places that are gone raise errors."""
    contents, kinds, lengths, in_dicts, elsewhere, attributes = rows
    for content, x, value in contents:  # first, for looking at a missing item may make one
        if content(x) != value:
            return False
    for x, kind in kinds:
        if type(x) is not kind:
            return False
    for x, n in lengths:
        if len(x) != n:
            return False
    for x, key, value in in_dicts:  # apart from other containers, for which Python is slower
        if x[key] is not value and not same(x[key], value):
            return False
    for x, key, value in elsewhere:
        if x[key] is not value and not same(x[key], value):
            return False
    for x, name, value in attributes:
        now = getattr(x, name)
        if now is not value and not same(now, value):
            return False
    return True


def holds(place, value, how):
    """Whether a guard still holds."""
    try:
        if how == "same":
            return same(place.get(), value)
        return all_hold(rows_of([(place, value, how)]))
    except ABSENT:
        return False


def leaves_hold(leaves, tensors, statics, apart):
    """Whether the leaves of the arguments are what a program is for.

    tensors: tuples of the position of a Tensor, its type, the type of its node, and whether it has
        a gradient if that is a leaf.
    statics: triples of a position, the value of what is no array, and whether it must be that
        object rather than an equal one.
    apart: the ids of tensors of the state that the program changes, which these Tensors are not.
    """
    for i, kind, node_kind, has_grad in tensors:
        x = leaves[i]
        if type(x) is not kind or type(x.node) is not node_kind or (apart and id(x) in apart):
            return False
        if node_kind is Leaf and (x.node.watch is not None or (x.grad is not None) is not has_grad):
            return False
    for i, value, is_identical in statics:
        x = leaves[i]
        if x is not value and (is_identical or not same(x, value)):
            return False
    return True


def are_no_gradients(leaves, tensors, holders):
    """Whether none of the tensors, given as for `leaves_hold`, is a gradient of the holders."""
    gradients = {id(x.grad) for x in holders}
    return not any(id(leaves[i]) in gradients for i, *_ in tensors)


def layouts_hold(regs, kind, rows):
    """Whether arrays are of this type, with shapes, dtypes and strides that the rows give.

    rows: tuples of an array's position in ``regs``, its shape, dtype, and strides, which may be
        None.
    """
    for at, shape, dtype, strides in rows:
        x = regs[at]
        if type(x) is not kind or x.shape != shape:
            return False
        if x.dtype is not dtype and x.dtype != dtype:
            return False
        if strides is not None and x.strides != strides:
            return False
    return True


def tensors_hold(leaves, bare, others, states):
    """Whether tensors and the state of optimizers are where they were.

    leaves, bare: tuples of a leaf, its node, that node's ``watch``, and its array. Those in
        ``leaves`` have a gradient.
    others: tuples of a Tensor that is no leaf or gets another array, its node, that node if it is
        a leaf or None, its ``watch``, whether it has no gradient, and its array or None.
    states: tuples of a `ParameterState`, its arrays, and one that must have the same numbers.
    """
    for x, node, watch, array in leaves:
        if x.array is not array or x._grad is None or x.node is not node or node.watch is not watch:
            return False
    for x, node, watch, array in bare:
        if (
            x.array is not array
            or x._grad is not None
            or x.node is not node
            or node.watch is not watch
        ):
            return False
    for x, node, leaf, watch, is_bare, array in others:
        if (
            x.node is not node
            or (leaf is not None and leaf.watch is not watch)
            or (x._grad is None) is not is_bare
            or (array is not None and x.array is not array)
        ):
            return False
    for state, values, first in states:
        if state.values is not values:
            return False
        # Programs give all of them the same objects.
        if state.step is not first.step and state.step != first.step:
            return False
        if state.numbers is not first.numbers and state.numbers != first.numbers:
            return False
    return True
