"""A kernel: one C function in the place of several bound calls of NumPy."""

import ctypes
from functools import partial
from pathlib import Path

import numpy as np

from ..numpy import threads
from . import compiler
from .calls import operations
from .calls import TYPES
from .loops import Root, Schedule, address_of, owner_of
from .source import Source

__all__ = ["TYPES", "Kernel", "Root", "address_of", "is_available", "operations", "owner_of"]

_PRELUDE = Path(__file__).with_name("kernel.h").read_text()
_HEAD = object.__basicsize__


def is_available():
    """Whether there is a compiler, and objects lie in memory as kernels read them."""
    return compiler.command() is not None and _are_as_expected()


def _are_as_expected():
    array = np.empty(1)
    objects = [None, array]
    items = ctypes.c_void_p.from_address(id(objects) + _HEAD + 8).value
    found = ctypes.c_void_p.from_address(items + 8).value
    return found == id(array) and (
        ctypes.c_void_p.from_address(found + _HEAD).value == array.ctypes.data
    )


class Kernel:
    """Operations in the order of the calls, as one function.

    roots: the memory of their arrays, see `Schedule`.
    """

    def __init__(self, operations, roots, name):
        source = Source(Schedule(operations, roots))
        self.text = source.text
        self.build = compiler.build(f"#define HEAD {_HEAD}\n{_PRELUDE}{source.text}", name)
        self._memory = np.empty(source.nbytes + 64, np.uint8)
        self._table = (ctypes.c_void_p * len(source.table))(*map(self._address, source.table))
        self._kept = operations, source.table

    def _address(self, x):
        if isinstance(x, Root):
            return x.place
        if x == "memory":
            data = self._memory.ctypes.data
            return data + -data % 64
        return x[1] if isinstance(x, tuple) else x

    def step(self, registers):
        """A function without arguments that runs it; None if its library could not be made."""
        library = self.build.library
        if library is None:
            return None
        function = library.gg_kernel
        function.restype = None
        table, items = ctypes.c_void_p(ctypes.addressof(self._table)), ctypes.c_void_p(id(registers))
        step = partial(function, table, items)
        step.kernel = self  # type: ignore[attr-defined]
        return step


_ = threads
