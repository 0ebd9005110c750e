"""A kernel: one C function in the place of several bound calls of NumPy."""

import ctypes
from functools import partial

import numpy as np

from ..numpy.binding import address_of, arena, owner
from ..numpy.threads import run_kernel
from . import base, compiler
from .calls import TYPES, operations
from .loops import Root, Schedule
from .source import BLOCK, Source

__all__ = ["TYPES", "Kernel", "Root", "address_of", "is_available", "operations", "owner"]

_HEAD = object.__basicsize__
_PRELUDE = f"#define HEAD {_HEAD}\n#define BLOCK {BLOCK}\n{base.text_of('kernel.h')}"


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
        self._memory = arena(source.nbytes)
        self._entries = source.table
        self._kept = operations

    @property
    def is_done(self):
        """Whether the libraries that it needs are there, or cannot be had."""
        return self.build.is_done and base.is_done()

    def wait(self):
        self.build.wait()
        base.wait()

    def step(self, registers):
        """A function without arguments that runs it; None if one of its libraries is missing."""
        library, found = self.build.library, base.base()
        if library is None or found is None:
            return None
        addresses = [self._address(x, found) for x in self._entries]
        self._table = (ctypes.c_void_p * len(addresses))(*addresses)
        function = library.gg_kernel
        table = ctypes.c_void_p(ctypes.addressof(self._table))
        items = ctypes.c_void_p(id(registers))
        if self._is_divided:
            run = partial(run_kernel, function, table, items)
        else:
            run = partial(function, table, items, ctypes.c_int64(1))

        def step():
            if run():
                raise RuntimeError("a register holds no array")

        step.func = function
        return step

    def _address(self, x, library):
        if isinstance(x, Root):
            return x.place
        if x == "memory":
            return address_of(self._memory)
        if x == "array":
            return id(np.ndarray)
        if isinstance(x, str):
            return ctypes.cast(library[x], ctypes.c_void_p).value
        if x[0] == "number":
            return base.number_of(x[1])
        if x[0] == "data":
            return base.loop_of(*x[1:])[1]
        return base.loop_of(*x)[0]
