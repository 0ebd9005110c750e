"""Comparing what many places in Python's objects contain with what they did, by one call in C."""

import ctypes
import struct
import sys
from functools import cache
from types import MemberDescriptorType

from . import base

# The functions of Python that `objects.c` calls, in its order.
_FUNCTIONS = (
    "PyObject_GetAttr PyObject_GetItem PyDict_GetItem PyList_GetItem PyObject_Size PyDict_Next "
    "Py_DecRef PyBool_FromLong"
).split()
_KINDS = "", "slot", "other", "same", "of dict", "of list", "item", "attribute", "names", "length"
_NO_ARGUMENTS = 4  # a flag of methods in C


class _Method(ctypes.Structure):
    """What Python is told of a method in C."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    ]


@cache
def _method(library):
    found = [ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p).value for name in _FUNCTIONS]
    head = ctypes.c_int64(bytes.__basicsize__ - 1)
    library.gg_set_python((ctypes.c_void_p * len(found))(*found), head)
    function = ctypes.cast(library.gg_are_same, ctypes.c_void_p)
    return _Method(b"are_same", function, _NO_ARGUMENTS, None)


@cache
def _offset(slot):
    """Where a slot, given by its descriptor in a class, lies in an object."""
    kind = slot.__objclass__
    x, mark = object.__new__(kind), object()
    slot.__set__(x, mark)
    size = ctypes.sizeof(ctypes.c_void_p)
    words = (ctypes.c_void_p * (kind.__basicsize__ // size)).from_address(id(x))
    return [*words].index(id(mark)) * size


def comparison(rows):
    """A function without arguments that returns whether places contain what they did.

    It compares by identity, so that False may also mean that they contain equal objects, and raises
    what looking them up raises. The objects in the rows, which it keeps no references to, must live
    as long as the function is called. Returns None if there is no such function.

    rows: tuples ``(kind, x, key, value)``, whose kinds are

    - "item" and "attribute": whether the item or the attribute ``key`` of ``x`` is ``value``.
    - "slot" and "other": whether the slot ``key`` contains ``value``, or anything else.
    - "same": whether the slots ``key`` of ``x`` and of ``value`` contain the same.
    - "names": whether the keys of a dict are those in the list ``value``, in this order.
    - "length": whether ``x`` has ``value`` items.
    """
    library = base.base()
    if library is None or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    places, names = [], []
    for kind, x, key, value in rows:
        where, what, expected = id(x), id(key), id(value)
        if kind in ("slot", "other", "same"):
            slot = getattr(type(x), key)
            if type(slot) is not MemberDescriptorType:
                return None
            where += _offset(slot)
            expected += _offset(slot) if kind == "same" else 0
        elif kind == "names":
            what, expected = len(value), 32 * (1 + len(rows)) + 8 * len(names)
            names += map(id, value)
        elif kind == "length":
            expected = value
        elif kind == "item" and type(x) is dict and type(key) is str:
            kind = "of dict"  # its function would drop an error of hashing another key, or Ctrl-C
        elif kind == "item" and type(x) is list and type(key) is int and key >= 0:
            kind, what = "of list", key
        places += _KINDS.index(kind), where, what, expected
    packed = struct.pack(f"={len(places) + 4 + len(names)}Q", *places, 0, 0, 0, 0, *names)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    return make(ctypes.byref(_method(library)), ctypes.py_object(packed), None)
