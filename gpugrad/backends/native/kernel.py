"""A kernel: one C function in the place of several bound calls of NumPy."""

import ctypes
from pathlib import Path

import numpy as np

from ..numpy.threads import run_kernel
from . import base, compiler
from .calls import TYPES, operations
from .loops import Root, Schedule, address_of, owner_of
from .source import Source

__all__ = ["TYPES", "Kernel", "Root", "address_of", "is_available", "operations", "owner_of"]

_HEAD = object.__basicsize__
_PRELUDE = f"#define HEAD {_HEAD}\n" + Path(__file__).with_name("kernel.h").read_text("utf-8")


def is_available():
    """Whether there will be kernels, unless the compiler fails."""
    return base.is_expected() and _lie_as_expected()


def _lie_as_expected():
    """Whether lists and arrays lie in memory as kernels read them."""
    array = np.empty(1)
    objects = [None, array]
    items = ctypes.c_void_p.from_address(id(objects) + _HEAD + 8).value or 0
    found = ctypes.c_void_p.from_address(items + 8).value or 0
    return found == id(array) and (
        ctypes.c_void_p.from_address(found + _HEAD).value == address_of(array)
    )


class Kernel:
    """Operations in the order of the calls, as one function.

    roots: the memory of their arrays, see `Schedule`.
    """

    def __init__(self, operations, roots, name):
        source = Source(Schedule(operations, roots))
        self.text = source.text
        self.build = compiler.build(_PRELUDE + source.text, name)
        self._is_divided = source.is_divided
        self._memory = np.empty(source.nbytes + 64, np.uint8)
        self._entries = source.table
        self._kept = operations

    @property
    def is_done(self):
        """Whether it is known whether there are the libraries that it needs."""
        return self.build.is_done and base.is_done()

    def wait(self):
        self.build.wait()
        base.wait()

    def step(self, registers):
        """A function without arguments that runs it; None if there is no library for it."""
        library, found = self.build.library, base.base()
        if library is None or found is None:
            return None
        addresses = [self._address(x, found) for x in self._entries]
        self._table = (ctypes.c_void_p * len(addresses))(*addresses)
        function = library.gg_kernel
        table = ctypes.c_void_p(ctypes.addressof(self._table))
        items, one = ctypes.c_void_p(id(registers)), ctypes.c_int64(1)

        def run():
            if function(table, items, one):
                raise RuntimeError("a register holds no array")

        def run_divided():
            if run_kernel(function, table, items):
                raise RuntimeError("a register holds no array")

        step = run_divided if self._is_divided else run
        step.func = function
        return step

    def _address(self, x, library):
        if isinstance(x, Root):
            return x.place
        if x == "memory":
            return (address_of(self._memory) + 63) // 64 * 64
        if x == "array":
            return id(np.ndarray)
        if isinstance(x, str):
            return ctypes.cast(library[x], ctypes.c_void_p).value
        if x[0] == "number":
            return base.number_of(x[1])
        *_, ufunc, types = x
        return base.loop_of(ufunc, types)[len(x) - 2]
