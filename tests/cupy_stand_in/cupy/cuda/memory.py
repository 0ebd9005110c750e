"""The pool that arrays get their memory from and return it to, with counts for each device."""

import gc
import threading
import weakref
from collections import Counter
from contextlib import contextmanager

import numpy as np

from .._capture import current
from .._errors import CUDARuntimeError
from .device import current_device

__all__ = [
    "Memory", "MemoryAsync", "MemoryPointer", "MemoryPool", "OutOfMemoryError", "PooledMemory",
    "UnownedMemory",
]  # fmt: skip

CAPACITY = 8 * 2**30  # bytes of each device

_UNIT = 512  # the pool counts in units of this many bytes


class OutOfMemoryError(MemoryError):
    def __init__(self, size, total, limit=0):
        text = f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes"
        super().__init__(text + (f", limit set to: {limit:,} bytes)." if limit else ")."))


_raw: Counter = Counter()  # bytes of each device that no pool has


class Memory:
    """Memory that CUDA gives, for a pool's `Block` or for its own sake."""

    def __init__(self, size):
        self._device, self._raw = current_device().id, 0
        if taken(self._device) + size > CAPACITY:
            raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        self._count(size)
        self.size = size
        self.values = np.empty(size + _UNIT, np.uint8)
        self.ptr = self.values.ctypes.data
        freed.discard(self.ptr)

    def _count(self, size):
        _raw[self._device] += size - self._raw
        self._raw = size

    def given_to_a_pool(self):
        """The memory itself, which the pool counts from now on."""
        self._count(0)
        return self.values

    def __del__(self):
        if self._raw:
            freed.add(self.ptr)
        self._count(0)


class MemoryPointer:
    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class PooledMemory:
    """An allocation."""

    def __init__(self, values):
        self.ptr = values.__array_interface__["data"][0] if values.nbytes else 0
        self.size = values.nbytes


class MemoryAsync:
    """An allocation of CUDA's own pool, which `MemoryAsyncPool` asks."""

    __init__ = PooledMemory.__init__


class UnownedMemory:
    """An allocation of another library."""

    __init__ = PooledMemory.__init__


_lost: Counter = Counter()  # bytes of each device that belonged to pools that are gone
_pools: weakref.WeakSet = weakref.WeakSet()
freed: set = set()  # addresses of memory that pools have given back


def taken(device):
    """How many bytes of a device are not free."""
    return _lost[device] + _raw[device] + sum(pool._total[device] for pool in list(_pools))


class MemoryPool:
    _kind = PooledMemory  # that of its allocations

    def __init__(self, allocator=None):
        _pools.add(self)
        self._allocator = allocator or _malloc
        self._used, self._total, self._limit = Counter(), Counter(), {}
        weakref.finalize(self, _lost.update, self._total)
        # Memory that is to be used again, by device and size; of all pools but the usual one.
        self._free = {}

    def malloc(self, size):
        raise NotImplementedError("arrays get their memory otherwise")

    def used_bytes(self):
        return self._used[current_device().id]

    def total_bytes(self):
        return self._total[current_device().id]

    def free_bytes(self):
        return self.total_bytes() - self.used_bytes()

    def free_all_blocks(self, stream=None):
        device = current_device().id
        self._total[device] = self._used[device]
        for place in [place for place in self._free if place[0] == device]:
            freed.update([memory.ctypes.data for memory in self._free.pop(place)])

    def set_limit(self, size=None, fraction=None):
        self._limit[current_device().id] = size

    def _take(self, size, device):
        """Return a block that holds memory of this size until it is deleted, or raise."""
        size = -(-size // _UNIT) * _UNIT
        free = self._free.setdefault((device, size), [])
        memory, limit = free.pop() if free else None, self._limit.get(device)
        if memory is None and limit and self._total[device] + size > limit:
            gc.collect()
            self._total[device] = self._used[device]
            if self._used[device] + size > limit:
                raise OutOfMemoryError(size, self._total[device], limit)
        if self is pool:
            self._total[device] = max(self._total[device], self._used[device] + size)
        elif memory is None and size:
            memory = self._allocated(size)
            freed.discard(memory.ctypes.data)
            self._total[device] += size
        if memory is not None and current() is not None:
            current().memory.append(memory.ctypes.data)
        self._used[device] += size
        return Block(self, size, device, memory)

    def _allocated(self, size):
        """New memory; where CUDA has none, CuPy frees what the pool holds and tries again."""
        for attempt in range(3):
            try:
                return self._allocator(size).mem.given_to_a_pool()
            except CUDARuntimeError as error:
                if error.status != 2:
                    raise
                why = error
            if attempt == 1:
                gc.collect()
            self.free_all_blocks()
        raise OutOfMemoryError(size, self.total_bytes()) from why


class Block:
    def __init__(self, pool, size, device, memory=None):
        self.pool, self.size, self.device, self.memory = pool, size, device, memory

    def __del__(self):
        self.pool._used[self.device] -= self.size
        if self.memory is not None:
            self.pool._free.setdefault((self.device, self.size), []).append(self.memory)

    def hold(self, values):
        """Return a copy of an array in this memory, or, in the usual pool's, the array itself."""
        if self.memory is None:
            return values
        start = -self.memory.ctypes.data % _UNIT
        part = self.memory[start : start + self.size]
        held = np.ndarray(values.shape, values.dtype, part, strides=np.empty_like(values).strides)
        held[...] = values
        return held


_local = threading.local()


def current_pool():
    """The pool that this thread allocates from."""
    return getattr(_local, "pool", pool)


@contextmanager
def using_allocator(allocator=None):
    before = current_pool()
    _local.pool = pool if allocator is None else allocator.__self__
    try:
        yield
    finally:
        _local.pool = before


def _malloc(size):
    return MemoryPointer(Memory(size), 0)


pool = MemoryPool()
