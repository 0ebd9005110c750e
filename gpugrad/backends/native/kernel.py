"""A kernel: one C function in the place of several bound calls of NumPy."""

import ctypes
import struct
from functools import partial

import numpy as np

from ..numpy.binding import address_of, arena, owner
from ..numpy.threads import run_kernel
from . import base, compiler
from .calls import TYPES, operations
from .loops import Root, Schedule
from .objects import method
from .source import BLOCK, PART, Source

__all__ = ["TYPES", "Kernel", "Root", "address_of", "is_available", "operations", "owner"]

_HEAD = object.__basicsize__
_OF_A_CALL = "size", "pieces", "errors"  # entries that each call of a `Formula` fills
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
        functions = [x for x in source.table if isinstance(x, str) and x.startswith("gg_")]
        self._libraries = {"pool", *map(base.library_of, functions)}
        base.is_done(*self._libraries)  # which has them compiled

    @property
    def is_done(self):
        """Whether the libraries that it needs are there, or cannot be had."""
        return self.build.is_done and base.is_done(*self._libraries)

    def wait(self):
        self.build.wait()
        base.wait(*self._libraries)

    def step(self, registers, otherwise):
        """A function without arguments that runs it; None if one of its libraries is missing.

        otherwise: what to call in its place where an array in a register is not aligned.
        """
        library = self.build.library
        if library is None or None in map(base.base, self._libraries):
            return None
        addresses = [*map(self._address, self._entries)]
        self._table = (ctypes.c_void_p * len(addresses))(*addresses)
        function, table = library.gg_kernel, ctypes.addressof(self._table)
        if self._is_divided:
            items = ctypes.c_void_p(id(registers))
            run = partial(run_kernel, function, ctypes.c_void_p(table), items)
            return lambda: otherwise() if run() else None
        numbers = base.address(function), table, id(registers), id(otherwise)
        return method("run_kernel", struct.pack("=4q", *numbers), otherwise)

    def _address(self, x):
        return address_of(self._memory) if x == "memory" else _entry(x)


class Formula:
    """Operations on single elements as one function for arrays of any number of elements.

    operations: those for arrays of one axis, in their order.
    arrays: the operands that have an element for each of the result, or only one, and the result.
    """

    def __init__(self, operations, arrays):
        roots = [Root(x, "register") for x in arrays]
        for slot, root in enumerate(roots):
            root.slot = slot
        schedule = Schedule(operations, roots)
        self.build = self._run = None
        can_be = len(schedule.loops) == 1 and all(x.kind in ("map", "call") for x in operations)
        # Another array is one that the function has made of something else, such as random numbers.
        own = schedule.own.values()
        if can_be and all(x.kind == "private" or x.array.size == 1 for x in own):
            source = Source(schedule, is_sized=False)
            # The other arrays, which only stand for those of a call, are large.
            self._constants = [x.array for x in own if x.kind != "private"]
            self._entries = [x.place if isinstance(x, Root) else x for x in source.table]
            if "size" in source.table and not source.nbytes:
                text = f"#define NOTES_ERRORS\n{_PRELUDE}{source.text}"
                self.build = compiler.build(text, "formula")

    def __call__(self, arrays, size):
        """Fill the last of the arrays; returns whether it did, without errors to report."""
        if (run := self._run or self._bound()) is None:
            return False
        errors = run(id(arrays), size > PART and base.are_allowed(), size)
        return not errors or not base.is_reported(errors)

    def _bound(self):
        """The function in C with its table; None if it is not there yet."""
        library = self.build and self.build.library
        if library is None or base.base() is None:
            return None
        entries = [0 if x in _OF_A_CALL else _entry(x) for x in self._entries]
        table = (ctypes.c_void_p * len(entries))(*entries)
        library.gg_kernel.argtypes = *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2
        self._run = partial(library.gg_kernel, table)
        return self._run


def _entry(x):
    """What an entry of the table of a `Source` points to, or a number."""
    if isinstance(x, int):
        return x
    if isinstance(x, Root):
        return x.place
    if x == "array":
        return id(np.ndarray)
    if isinstance(x, str):
        return base.address(base.function_of(x))
    if x[0] == "number":
        return base.number_of(x[1])
    return base.loop_of(*x[1:])[1] if x[0] == "data" else base.loop_of(*x)[0]
