"""Batches brought to a CUDA device through pinned memory, each while the one before is used.

Copies go on a stream of their own. What keeps every batch right, without the host waiting
for the step that it is about to ask for:

- a pinned buffer is filled again only when its last copy is done;
- a copy waits for what the consumer's stream was asked before it: memory that the pool takes
  for free may still be read there;
- the consumer's stream waits for the copy before the batch is handed out, or dropped.
"""

import math
from collections import defaultdict, deque

import cupy
import cupyx
import numpy as np

from ..placement import taken
from ..registry import backend_of

# While one batch is used the next is copied, and the buffer of the one before that is ready.
_SLOTS = 3
_ALIGNED = 256  # bytes, as cudaMalloc aligns

# Their pinned memory is kept, as a copy may still read it when its iterator ends.
_idle: defaultdict = defaultdict(deque)  # device id -> lanes that no iterator uses


def bring(batches, device):
    """Yield ``batches``, lists of ``(array, rows)``, as lists of arrays on a ``cupy`` device."""
    try:
        lane = _idle[device.id].popleft()
    except IndexError:
        with device:
            lane = _Lane()
    pending = None
    try:
        while True:
            try:
                batch = next(batches, None)
                following = None if batch is None else lane.start(batch, device)
            except Exception:
                if pending is not None:  # what came before the error is good
                    ready, pending = pending, None
                    yield ready.finish()
                raise
            ready, pending = pending, following
            if ready is not None:
                yield ready.finish()
            if pending is None:
                return
    finally:
        if pending is not None:
            pending.drop()
        _idle[device.id].append(lane)


class _Lane:
    """What one iterator at a time needs: a stream for copies, and pinned buffers in turn."""

    def __init__(self):
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.slots = deque([_Slot() for _ in range(_SLOTS)])

    def start(self, batch, device):
        """Begin to copy ``array[rows]`` of each ``(array, rows)``."""
        self.slots.rotate(-1)
        slot = self.slots[0]
        hosts = slot.fill(batch)
        with device:
            # The consumer's stream is to own the memory: the pool keeps an arena per stream.
            consumer = cupy.cuda.get_current_stream()
            arrays = [cupy.empty(host.shape, host.dtype) for host in hosts]
            self.stream.wait_event(consumer.record(slot.allocated))
            try:
                for array, host in zip(arrays, hosts, strict=True):
                    array.set(host, stream=self.stream)
                self.stream.record(slot.copied)
            except BaseException:  # an interruption, say: nothing is to be left on its way
                self.stream.synchronize()
                raise
        return _Copy(arrays, consumer, slot.copied, device)


class _Slot:
    """A pinned buffer, and events.

    allocated: the memory that its last copy goes to was free.
    copied: that copy was done.
    """

    def __init__(self):
        self.buffer = np.empty(0, np.uint8)
        self.allocated = cupy.cuda.Event(disable_timing=True)
        self.copied = cupy.cuda.Event(block=True, disable_timing=True)

    def fill(self, batch):
        """The batch as arrays in the buffer."""
        parts, size = [], 0
        for array, rows in batch:
            if type(array) is not np.ndarray:
                array = backend_of[type(array)].to_numpy(taken(array, rows))
                rows = slice(None)
            is_cut = isinstance(rows, slice)
            shape = array[rows].shape if is_cut else (*rows.shape, *array.shape[1:])
            parts.append((array, rows, is_cut, shape, size))
            nbytes = array.itemsize * math.prod(shape)
            size += -(-nbytes // _ALIGNED) * _ALIGNED
        self.copied.synchronize()
        if size > self.buffer.nbytes:
            self.buffer = cupyx.empty_pinned(size, np.uint8)
        hosts = []
        for array, rows, is_cut, shape, start in parts:
            host = np.ndarray(shape, array.dtype, self.buffer, start)
            if is_cut:
                np.copyto(host, array[rows])
            else:  # "clip" is without a buffer in between; the rows are there
                np.take(array, rows, axis=0, out=host, mode="clip")
            hosts.append(host)
        return hosts


class _Copy:
    """A batch on its way."""

    def __init__(self, arrays, consumer, copied, device):
        self.arrays = arrays
        self.consumer = consumer
        self.copied = copied
        self.device = device

    def finish(self):
        """The arrays, for the current stream."""
        with self.device:
            current = cupy.cuda.get_current_stream()
            current.wait_event(self.copied)
            if current == self.consumer:
                return self.arrays
            # Another stream than they were made for: it gets arrays of its own.
            arrays = [array.copy() for array in self.arrays]
            self.consumer.wait_event(current.record())
            return arrays

    def drop(self):
        with self.device:
            self.consumer.wait_event(self.copied)
