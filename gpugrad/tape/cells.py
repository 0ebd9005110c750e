"""Cells: the places that hold what a function reads and changes, and the guards of what they hold.

A guard is a triple ``(place, value, how)``: the place still has what it had when a function was
recorded. ``how`` is "same", of a `Cell`, or one of the kinds of `content_of`, of an object itself.
The guards of a program are rows of a few kinds, and a loop checks the rows of each kind.
"""

import abc
import decimal
import fractions
import operator
import struct
import types
import uuid
from dataclasses import dataclass
from typing import Any

from ..autograd.graph import Leaf
from ..backends import backend_of, namespace_of

# Values of these types are compared. Subclasses are not: they may have attributes.
SIMPLE = (bool, int, float, complex, str, bytes, type(None), range, slice, types.EllipsisType)
ABSENT = (AttributeError, KeyError, IndexError, TypeError, ValueError)  # of a place that is gone
_BY_TEXT = frozenset({decimal.Decimal, fractions.Fraction, uuid.UUID})
_EQUAL = frozenset({*SIMPLE, *_BY_TEXT})


@dataclass(slots=True, eq=False)
class Cell:
    """A place that holds a value.

    kind: "item" of a container, "attr" of an object, or "class" for an attribute in the
        ``__dict__`` of a class.
    """

    kind: str
    container: Any
    key: Any = None

    def get(self):
        return _ACCESS[self.kind][0](self.container, self.key)

    def set(self, value):
        _ACCESS[self.kind][1](self.container, self.key, value)

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


_ACCESS = {
    "item": (operator.getitem, operator.setitem),
    "attr": (getattr, object.__setattr__),
    "class": (lambda kind, name: vars(kind)[name], setattr),
}


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


class Exactly:
    """A value that equals only what `same` says."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Exactly and same(self.value, other.value)


def keys_of(x):
    """The keys of a dict, or the items of a tuple or a set, in their order, each with its type."""
    keys = [*x]  # a copy first, since another thread may add some
    return keys if {str}.issuperset(map(type, keys)) else [*map(Exactly, keys)]


def _content_of(x):
    """All that may be seen of a raw array."""
    layout = x.shape, x.dtype, getattr(x, "strides", None)
    is_writable = getattr(getattr(x, "flags", None), "writeable", None)
    return *layout, is_writable, backend_of[type(x)].to_numpy(x).tobytes()


def _is_missing(cell):
    try:
        cell.get()
    except ABSENT:
        return True
    return False


content_of = {
    "array": _content_of,
    "keys": keys_of,
    "len": len,
    "missing": _is_missing,
    "registrations": lambda _: abc.get_cache_token(),  # of classes with abstract ones
}


def rows_of(guards):
    """The guards as the lists of rows that `all_hold` takes."""
    contents, kinds, items, attributes = [], [], [], []
    for place, value, how in guards:
        if how == "type":
            kinds.append((place, value))
        elif how == "lacks":
            contents.append((place.keys().isdisjoint, value, True))
        elif how != "same":
            contents.append((content_of[how], place, value))
        elif place.kind == "attr":
            attributes.append((place.container, place.key, value))
        else:
            x = vars(place.container) if place.kind == "class" else place.container
            items.append((x, place.key, value))
    return contents, kinds, items, attributes


def all_hold(rows):
    """Whether all these guards hold; places that are gone raise errors."""
    contents, kinds, items, attributes = rows
    for content, x, value in contents:  # first, for looking at a missing item may make one
        if content(x) != value:
            return False
    for x, kind in kinds:
        if type(x) is not kind:
            return False
    for x, key, value in items:
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


def leaves_hold(leaves, rows, apart, holders):
    """Whether the leaves of the arguments are what a program is for.

    rows: the leaves of its tape.
    apart: the ids of tensors of the state that the program changes, which Tensors among the
        arguments are not; neither are these gradients of the ``holders``, or one Tensor twice.
    """
    seen = {id(x.grad) for x in holders} if holders else set()
    for x, (kind, value) in zip(leaves, rows, strict=True):
        if kind == "tensor":
            cls, node_kind, has_grad = value
            if type(x) is not cls or type(x.node) is not node_kind:
                return False
            if id(x) in apart or id(x) in seen:
                return False
            if node_kind is Leaf and (
                x.node.watch is not None or (x.grad is not None) is not has_grad
            ):
                return False
            seen.add(id(x))
        elif kind == "static":
            value, is_identical = value
            if x is not value and (is_identical or not same(x, value)):
                return False
        elif (kind == "state" and x is not value) or (kind == "same" and x is not leaves[value]):
            return False
    return True


def inputs_hold(regs, rows, kind, device_of):
    """Whether arrays are of this type, and as the rows say; puts them into registers.

    rows: tuples of a function of what is in a register, which returns the array, that register, the
        one for the array, and its shape, dtype, strides and device; the last two may be None.
    """
    for get, holder, at, shape, dtype, strides, device in rows:
        regs[at] = x = get(regs[holder])
        if type(x) is not kind or x.shape != shape:
            return False
        if x.dtype is not dtype and x.dtype != dtype:
            return False
        if strides is not None and x.strides != strides:
            return False
        if device is not None and device_of(x) != device:
            return False
    return True


def tensors_hold(tensors, states):
    """Whether tensors and the state of optimizers are where they were.

    tensors: tuples of a Tensor, its node, that node if it is a leaf or None, its ``watch``, whether
        the Tensor has a gradient, and its array, or None if it gets another one.
    states: tuples of a `ParameterState`, its arrays, and one that must have the same counts.
    """
    for x, node, leaf, watch, has_grad, array in tensors:
        if (
            x.node is not node
            or (leaf is not None and leaf.watch is not watch)
            or (x._grad is not None) is not has_grad
            or (array is not None and x.array is not array)
        ):
            return False
    for state, values, first in states:
        if state.values is not values:
            return False
        # Programs give all of them the same objects.
        if state.counts is not first.counts and state.counts != first.counts:
            return False
    return True
