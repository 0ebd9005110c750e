"""Looking at many places in Python's objects, and changing some, by one call in C."""

import ctypes
import struct
import sys
from functools import cache
from types import CellType, MemberDescriptorType

import numpy as np

from . import base

# The functions of Python that `objects.c` calls, in its order.
_FUNCTIONS = (
    "PyObject_GetAttr PyObject_GetItem PyDict_GetItem PyList_GetItem PyObject_Size PyDict_Next "
    "PyObject_IsInstance Py_IncRef Py_DecRef PyBool_FromLong PyEval_SaveThread "
    "PyEval_RestoreThread PyObject_CallNoArgs"
).split()
_OF_REGISTERS = "is equals differs type field load apart layout outside new".split()
_TO_REGISTERS = "equals differs load kept make put".split()
_KINDS = {
    name: number
    for number, names in enumerate(
        [
            [], ["slot", "is"], ["other"], ["same", "equals"], ["differs"], ["type"], ["field"],
            ["load"], ["apart"], ["layout"], ["outside"], ["names"], ["length"], ["kept"],
            ["item of dict"], ["item of list"], ["item"], ["attribute"], ["call"],
            ["make"], ["put"], ["new"],
        ]
    )
    for name in names
}  # fmt: skip
_HEAD = object.__basicsize__
_NO_ARGUMENTS = 4  # a flag of methods in C
_OBJECT = 16  # the type of members that are slots


class _Method(ctypes.Structure):
    """What Python is told of a method in C."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    ]


def method(name, content, kept=None):
    """A function of `objects.c` that takes no arguments, as the method of a bytes object.

    kept: an object that lives as long as the method.
    """
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    return make(ctypes.byref(_method(name)), ctypes.py_object(content), ctypes.py_object(kept))


@cache
def _method(name):
    library = base.base()
    told = [base.address(ctypes.pythonapi[name]) for name in _FUNCTIONS]
    told += _HEAD, bytes.__basicsize__ - 1, id(np.ndarray), id(None)
    library.gg_set_python((ctypes.c_void_p * len(told))(*told))
    return _Method(name.encode(), base.address(library[f"gg_{name}"]), _NO_ARGUMENTS, None)


class _Member(ctypes.Structure):
    """What Python knows of a slot: a PyMemberDef."""

    _fields_ = [("name", ctypes.c_char_p), ("type", ctypes.c_int), ("offset", ctypes.c_ssize_t)]


def _member(slot):
    """The `_Member` of a descriptor in a class, which has the class and two names before it."""
    place = id(slot) + _HEAD + 3 * ctypes.sizeof(ctypes.c_void_p)
    return ctypes.POINTER(_Member).from_address(place).contents


def _is_slot(x):
    """Whether an attribute of a class is a slot for an object, not for a number in C."""
    return type(x) is MemberDescriptorType and _member(x).type == _OBJECT


def _offset(slot):
    """Where a slot, given by its descriptor in a class, lies in an object."""
    return _member(slot).offset


def _place_of(x, name, value):
    """Where an attribute lies in memory, if to look it up does no more than read that."""
    at = None
    if type(x) is CellType:
        at = id(x) + _HEAD
    elif name == "__class__":
        kinds = type(x).__mro__[:-1]
        is_plain = not any(vars(k).keys() & {"__class__", "__getattribute__"} for k in kinds)
        at = id(x) + _HEAD - 8 if is_plain else None
    return at if at and ctypes.c_void_p.from_address(at).value == id(value) else None


def visiting(rows, registers=()):
    """A function without arguments that goes through places, compares them and changes some.

    It returns whether all contain what they did, and stops at the first that does not. It compares
    by identity, so that False may also mean that they contain equal objects, and raises
    what looking them up raises. The objects in the rows, which it keeps no references to, must live
    as long as the function is called, and the list ``registers`` must not become longer. Returns
    None if there is no such function.

    rows: tuples ``(kind, x, key, value)``, whose kinds are

    - "item" and "attribute": whether the item or the attribute ``key`` of ``x`` is ``value``.
    - "slot" and "other": whether the slot ``key`` contains ``value``, or anything else.
    - "same": whether the slots ``key`` of ``x`` and of ``value`` contain the same.
    - "names": whether the keys of a dict are those in the list ``value``, in this order.
    - "length": whether ``x`` has ``value`` items.
    - "kept": whether the item ``key``, a str, of a dict is the one in register ``value``.

    In other kinds, ``x`` is an index of registers, in which there is an object.

    - "is": whether it is ``value``.
    - "equals" and "differs": whether it is the one in register ``value``, or another one.
    - "type": whether its type is ``value``.
    - "field": whether its slot, given by the descriptor ``key``, contains ``value``.
    - "load": puts what its slot contains, or itself if ``key`` is None, into register ``value``.
    - "apart": whether its `id` is in the list ``value``.
    - "layout": whether it is an array with the shape, dtype and strides in ``value``.
    - "outside": whether an array lies in no array whose elements begin at the addresses ``value``.

    Other kinds change something:

    - "call" and "make": call ``x`` without arguments; the latter puts the result into register
      ``value``.
    - "put": put the content of register ``value`` into the slot ``key`` of ``x``, or make it the
      item ``key`` of a list whose length never changes.
    - "new": make an object, put the content of register ``x`` into the first of the slots in
      ``value``, None into the others, and the object into the last of these slots of the object in
      register ``key``. If register ``x`` contains None, put that there instead of an object.
    """
    library = base.base()
    if library is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    places, lists = [], []
    items = ctypes.c_void_p.from_address(id(registers) + _HEAD + 8).value or 0
    for kind, x, key, value in rows:
        found = None  # a list of numbers
        where, what, expected = id(x), id(key), id(value)
        if kind in _OF_REGISTERS:
            where = items + 8 * x
        if kind in _TO_REGISTERS:
            expected = items + 8 * value
        if kind == "put" and type(x) is list:
            where = (ctypes.c_void_p.from_address(id(x) + _HEAD + 8).value or 0) + 8 * key
        elif kind in ("slot", "other", "same", "put"):
            slot = getattr(type(x), key)
            if not _is_slot(slot):
                return None
            where += _offset(slot)
            expected += _offset(slot) if kind == "same" else 0
        elif kind in ("field", "load"):
            what = 0 if key is None else _offset(key)
        elif kind == "new":
            what, found = items + 8 * key, [id(value[0].__objclass__), *map(_offset, value)]
        elif kind == "layout":
            shape, dtype, strides = value
            found = [id(dtype), *shape, *strides]
        elif kind in ("apart", "outside"):
            found = [*value]
        elif kind == "names":
            found = [*map(id, value)]
        elif kind == "length":
            expected = value
        elif kind == "item" and type(x) is dict and type(key) is str:
            # Its function would drop an error of hashing another key, or Ctrl-C.
            kind = "item of dict"
        elif kind == "item" and type(x) is list and type(key) is int and key >= 0:
            kind, what = "item of list", key
        elif kind == "attribute" and (place := _place_of(x, key, value)):
            kind, where = "slot", place
        if found is not None:
            expected = 32 * (1 + len(rows)) + 8 * len(lists)
            lists += len(found), *found
        places += _KINDS[kind], where, what, expected
    packed = struct.pack(f"={len(places) + 4 + len(lists)}q", *places, 0, 0, 0, 0, *lists)
    return method("visit", packed)
