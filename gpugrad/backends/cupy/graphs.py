"""CUDA graphs: work captured once and launched as a whole."""

import gc
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial

import cupy

from ..registry import parse_device
from .devices import tf32
from .kernels.random import DeviceKey
from .kernels.transfers import Numbers, copy_arrays
from .products import captured_on

_ATTEMPTS = 3
_capturing = threading.Lock()  # garbage collection is off meanwhile, in all threads


class Graph:
    """Work on the current device that `capture` has recorded, and what it needs to be launched.

    All memory that the work allocates comes from a pool of the graph's own, which nothing else
    allocates from, so what the device finds at the captured addresses is never another's. The pool
    is kept until all of its memory is free, see `free_memory`.
    """

    def __init__(self, work, warm_up):
        """Capture what the function ``work`` does, and keep what it returns as ``kept``.

        warm_up: the same on copies of what ``work`` overwrites. It runs first, so that kernels are
            compiled and the pool has the memory.
        """
        free_memory()
        self._device = cupy.cuda.Device()
        self._pool = cupy.cuda.MemoryPool()
        _pools[self._pool] = None
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._last = None  # the stream of the last launch
        self._event = cupy.cuda.Event(disable_timing=True)
        self.tf32 = tf32()
        own_memory = cupy.cuda.using_allocator(self._pool.malloc)
        with (
            _capturing, self._stream, own_memory,
            captured_on(self._stream) as self._blas, _own_plans() as self._plans,
        ):  # fmt: skip
            self._device.synchronize()  # an earlier graph may use the same arrays
            usual = cupy.get_default_memory_pool()
            if usual.free_bytes() > cupy.cuda.runtime.memGetInfo()[0]:
                usual.free_all_blocks()  # else it might keep what the graph needs
            warm_up()
            for _ in range(_ATTEMPTS):
                graph = self.kept = None  # whose memory is used again
                self._stream.synchronize()
                size = self._pool.total_bytes()
                graph, self.kept = _capture(self._stream, work)
                if self._pool.total_bytes() == size:
                    break
            else:
                raise RuntimeError("every attempt to capture it takes more memory")
            self._graph = graph
            self._graph.upload(self._stream)
            self._stream.synchronize()

    def __del__(self):
        if not sys.is_finalizing():
            with self._device:
                self._graph = self._blas = self._plans = self.kept = None
            _pools[self._pool] = self._device
            free_memory()

    def follow(self):
        """Order what comes after on the current stream after the last launch."""
        stream = cupy.cuda.get_current_stream()
        last = self._last
        if last is not stream:
            if last is not None and last != stream:
                self._event.record(last)
                stream.wait_event(self._event)
            self._last = stream

    def launch(self):
        """Launch the graph on the current stream, after `follow`."""
        self._graph.launch(self._last)

    def is_current(self):
        """Whether nothing has changed that products of matrices were captured with."""
        return self.tf32 == tf32()


# The pools of all graphs, and of those that are gone until all of their memory is free; for the
# latter the device.
_pools: dict = {}


def free_memory():
    """Free the memory of graphs that are gone.

    CuPy itself never frees what a pool holds that is gone. What an error's traceback still refers
    to is freed by a later call.
    """
    for pool, device in list(_pools.items()):
        if device is not None:
            with device:
                pool.free_all_blocks()
                if not pool.total_bytes():
                    _pools.pop(pool, None)


def _capture(stream, work):
    with _without_garbage_collection():
        stream.begin_capture()
        try:
            kept = work()
        except BaseException:
            with suppress(Exception):  # what was refused has spoilt the capture
                stream.end_capture()
            raise
        return stream.end_capture(), kept


@contextmanager
def _own_plans():
    """The plans of Fourier transforms that the block makes, as a list that is complete at its end.

    What is captured uses their memory, but CuPy keeps only the plans that were used last.
    """
    cache, plans = cupy.fft.config.get_plan_cache(), []
    sizes = cache.get_size(), cache.get_memsize()
    others = _taken_from(cache)
    cache.set_size(-1)
    cache.set_memsize(-1)
    try:
        yield plans
    finally:
        plans += [plan for _, plan in _taken_from(cache)]
        cache.set_size(sizes[0])
        cache.set_memsize(sizes[1])
        for key, plan in reversed(others):
            cache[key] = plan


def _taken_from(cache):
    """Take all plans out of a cache; returns pairs of a key and a plan, the last used first."""
    found = [(key, node.plan) for key, node in cache]
    for key, _ in found:
        del cache[key]
    return found


@contextmanager
def _without_garbage_collection():
    # It could free what CUDA does not allow to be freed in the meantime.
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def maker(shape, dtype, strides):
    """A function that makes an array with these strides; None if it would not fill its memory."""
    expected, step = {}, dtype.itemsize
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    for axis in reversed(order):
        expected[axis] = step
        step *= shape[axis]
    if step and any(n != 1 and expected[axis] != strides[axis] for axis, n in enumerate(shape)):
        return None
    if order == sorted(order):
        return partial(cupy.ndarray, shape, dtype)
    back = [order.index(axis) for axis in range(len(shape))]
    turned = tuple([shape[axis] for axis in order])
    return lambda: cupy.ndarray(turned, dtype).transpose(back)


def addresses(arrays):
    """Where the elements of each array begin."""
    return [x.data.ptr for x in arrays]


def scope(device):
    """A context in which ``device``, such as "cuda:1", is the current one."""
    return cupy.cuda.Device(parse_device(device)[1])


__all__ = [
    "DeviceKey", "Graph", "Numbers", "addresses", "copy_arrays", "free_memory", "maker", "scope",
]  # fmt: skip
