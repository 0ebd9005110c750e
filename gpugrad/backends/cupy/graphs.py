"""CUDA graphs: work captured once and launched as a whole."""

import gc
import threading
from contextlib import contextmanager, suppress
from sys import is_finalizing

import cupy
import numpy as np
from cupy.cuda.memory import OutOfMemoryError

from ..base import address_range
from .captures import capturing, if_not_capturing
from .devices import tf32
from .kernels.fused import Fused
from .kernels.loader import maker
from .kernels.random import DeviceKey
from .kernels.transfers import Numbers, copy_arrays
from .products import captured_on

_ATTEMPTS = 4
_UNSUPPORTED, _INVALIDATED = 900, 901  # cudaError_t, "stream capture"
_making = threading.Lock()  # garbage collection is off while capturing, in all threads


class Graph:
    """Captured work of the current device, and all that it needs to be launched.

    All memory that the work allocates comes from a pool of the graph's own. Nothing else allocates
    from it, so no other arrays are ever at the captured addresses. The pool is kept until all of
    its memory is free, see `free_memory`. Only the workspace of cuBLAS is shared with other graphs,
    which therefore take turns.
    """

    def __init__(self, work, warm_up):
        """Capture what the function ``work`` does, and keep what it returns as ``kept``.

        warm_up: the same on copies of what ``work`` overwrites. It runs first, so that kernels are
            compiled and the pool has the memory.
        """
        free_memory()
        self._device = cupy.cuda.Device()
        self._allocator = _Allocator()
        self._pool = cupy.cuda.MemoryPool(self._allocator.malloc)
        _pools[self._pool] = None
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._turns = _Turns()
        self._graph = self._plans = self.kept = None
        self.tf32 = tf32()
        own_memory = cupy.cuda.using_allocator(self._pool.malloc)
        products = _products.setdefault(self._device.id, _Turns())
        with (
            _making, self._stream, own_memory,
            captured_on(self._stream) as blas, _own_plans() as self._plans,
        ):  # fmt: skip
            with products.lock:  # the products of `warm_up` use the workspace too
                self._device.synchronize()  # an earlier graph may use the same arrays
                _empty_usual_pool()
                warm_up()
                self._stream.synchronize()
            self._graph, self.kept = self._captured(work)
            self._graph.upload(self._stream)
            self._stream.synchronize()
        self._products = products if blas.is_used else None
        free_memory()  # of graphs that were gone meanwhile

    def _captured(self, work):
        """The graph of ``work`` and what it returns; repeats attempts that failed by chance."""
        for _ in range(_ATTEMPTS):
            graph = kept = None  # whose memory is used again
            self._stream.synchronize()
            size = self._pool.total_bytes()
            try:
                graph, kept = _capture(self._stream, work, self._allocator)
            except _RetryError as error:
                why, frees = error.args
                if frees:
                    cupy.get_default_memory_pool().free_all_blocks()
                continue
            if self._pool.total_bytes() == size:
                return graph, kept
            why = "every attempt to capture it takes more memory"
        raise NotNowError(why)

    # The function is bound because at interpreter exit a module's names vanish before its objects.
    def __del__(self, is_finalizing=is_finalizing):
        if not is_finalizing():
            gone = [self._graph, self._plans, self.kept]
            self._graph = self._plans = self.kept = None
            _pools[self._pool] = self._device, gone
            del gone
            free_memory()

    def follow(self):
        """Make later work of the current stream wait for the last launch."""
        self._turns.take(cupy.cuda.get_current_stream())

    def launch(self):
        """Launch the graph on the current stream, after `follow`."""
        stream, products = self._turns.stream, self._products
        if products is None:
            self._graph.launch(stream)
        else:
            with products.lock:  # no launch may come between these two
                products.take(stream)
                self._graph.launch(stream)

    def is_current(self):
        """Whether products of matrices would still be captured with the same precision."""
        return self.tf32 == tf32()


class _Turns:
    """Orders several streams of the current device that use the same memory.

    stream: the one that used it last.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.stream = None
        self._event = cupy.cuda.Event(disable_timing=True)

    def take(self, stream):
        """Make later work of ``stream`` wait for all work that the last stream has so far."""
        last = self.stream
        if last is not stream:
            if last is not None and last != stream:
                self._event.record(last)
                stream.wait_event(self._event)
            self.stream = stream


# For each device, the order of the graphs that multiply matrices, whose workspace is shared.
_products: dict = {}


class _Allocator:
    """Allocates memory for the pool of a graph.

    While a stream is captured, as ``is_capturing`` says, CuPy must not see CUDA's error for missing
    memory: it would free the memory that the pool holds, which captured work uses, and try again.
    """

    def __init__(self):
        self.is_capturing, self._total = False, 0

    def malloc(self, size):
        try:
            memory = cupy.cuda.Memory(size)
        except cupy.cuda.runtime.CUDARuntimeError as error:
            if not self.is_capturing or "MemoryAllocation" not in str(error):
                raise
            raise OutOfMemoryError(size, self._total, 0) from error
        self._total += size
        return cupy.cuda.MemoryPointer(memory, 0)


def _empty_usual_pool():
    """Free the memory that the usual pool holds in reserve, if a graph may need it."""
    usual = cupy.get_default_memory_pool()
    if usual.free_bytes() > cupy.cuda.runtime.memGetInfo()[0]:
        usual.free_all_blocks()


# The pools of all graphs. The value is None while the graph exists, and then its device and the
# objects that it held, until all memory of the pool is free.
_pools: dict = {}


def free_memory():
    """Free the memory of graphs that no longer exist.

    CuPy itself never frees the memory of a pool that no longer exists. A later call frees what an
    error's traceback still refers to, and that of graphs that vanish while a stream of their device
    is captured.
    """
    for pool, gone in list(_pools.items()):
        if gone is None:
            continue
        device, held = gone
        with if_not_capturing(device.id) as may_wait, device:
            if may_wait:
                held.clear()
                pool.free_all_blocks()
                if not pool.total_bytes():
                    _pools.pop(pool, None)


class NotNowError(RuntimeError):
    """Raised if every attempt to capture has failed, but a later one may succeed."""


class _RetryError(Exception):
    """Raised if a capture has failed that may succeed when it is repeated.

    Its arguments say why, and whether memory must be freed first.
    """


def _capture(stream, work, allocator):
    """The graph of ``work`` and what it returns; raises `_RetryError` if it may be repeated."""
    with capturing(cupy.cuda.Device().id):
        was_on = gc.isenabled()  # it could free memory, which CUDA does not allow in a capture
        try:
            gc.disable()
            stream.begin_capture()
            allocator.is_capturing = True
            try:
                kept = work()
            except BaseException as error:
                is_lost = False
                with suppress(Exception):
                    is_lost = _end(stream) is None
                if (retry := _retry_error(error, is_lost)) is None:
                    raise
            else:
                if (graph := _end(stream)) is not None:
                    return graph, kept
                retry = _RetryError(_SPOILT, False)
        finally:
            allocator.is_capturing = False
            if was_on:
                gc.enable()
    raise retry


_SPOILT = "each attempt to capture it was spoilt by another thread, which waited for the device"


def _end(stream):
    """The graph of what was captured, or None if that is lost."""
    try:
        return stream.end_capture()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        if error.status != _INVALIDATED:
            raise
    return None


def _retry_error(error, is_lost):
    """The `_RetryError` for an error of ``work``; None if CUDA refuses what ``work`` does."""
    chain = []
    while error is not None and error not in chain:
        if not isinstance(error, Exception):  # an interruption
            return None
        chain.append(error)
        error = error.__cause__ or error.__context__
    for x in chain:
        if isinstance(x, OutOfMemoryError):
            return _RetryError(str(x), True)
    if is_lost and all(getattr(x, "status", None) != _UNSUPPORTED for x in chain):
        return _RetryError(_SPOILT, False)
    return None


@contextmanager
def _own_plans():
    """A list to which the plans of the block's Fourier transforms are added at its end.

    Captured transforms use the memory of their plans, but CuPy keeps only the plans used last.
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


def copy_with_layout(x):
    """A copy with the same strides, as many bytes behind a multiple of 16."""
    lowest, end = address_range(0, x.shape, x.strides, x.itemsize)
    memory = cupy.empty(end - lowest + 15, np.uint8).data + -lowest
    out = cupy.ndarray(x.shape, x.dtype, memory + (x.data.ptr - memory.ptr) % 16, x.strides)
    out[...] = x
    return out


def addresses(arrays):
    """Where the elements of each array begin."""
    return [x.data.ptr for x in arrays]


__all__ = [
    "DeviceKey", "Fused", "Graph", "NotNowError", "Numbers", "addresses", "copy_arrays",
    "copy_with_layout", "free_memory", "maker",
]  # fmt: skip
