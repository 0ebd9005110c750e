"""Copies batches to a CUDA device through pinned memory, each while the previous one is used.

Copies run on a stream of their own. Three rules keep every batch right without making the host
wait for the step that it is about to launch:

- a pinned buffer is filled again only when its last copy is done;
- a copy waits for the work already on the consumer's stream, which may still read memory that the
  pool considers free;
- the consumer's stream waits for the copy before the batch is handed out or dropped.
"""

import math
from collections import defaultdict, deque
from functools import partial

import cupy
import cupyx
import numpy as np

from ..placement import take_rows
from ..registry import backend_of

# While one batch is used and the next is copied, a third buffer is free to be filled.
_SLOTS = 3
_ALIGNMENT = 256  # bytes, as in cudaMalloc

# device id -> lanes that no iterator uses. They keep their pinned memory, because a copy may still
# read it when its iterator ends.
_idle: defaultdict = defaultdict(deque)


def transfer_batches(batches, device):
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
                if pending is not None:  # batches before the error are good
                    finish, pending = pending, None
                    yield finish()
                raise
            finish, pending = pending, following
            if finish is not None:
                yield finish()
            if pending is None:
                return
    finally:
        if pending is not None:
            pending()
        _idle[device.id].append(lane)


class _Lane:
    """A stream for copies and pinned buffers used in turn, for one iterator at a time."""

    def __init__(self):
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.slots = deque([_Slot() for _ in range(_SLOTS)])

    def start(self, batch, device):
        """Begin to copy ``array[rows]`` for each ``(array, rows)``; return how to `_finish` it."""
        self.slots.rotate(-1)
        slot = self.slots[0]
        with device:
            hosts = slot.fill(batch)
            # Allocate on the consumer's stream, because the pool keeps an arena per stream.
            consumer = cupy.cuda.get_current_stream()
            arrays = [cupy.empty(host.shape, host.dtype) for host in hosts]
            self.stream.wait_event(consumer.record(slot.allocated))
            try:
                for array, host in zip(arrays, hosts, strict=True):
                    array.set(host, stream=self.stream)
                self.stream.record(slot.copied)
            except BaseException:  # an interruption, for example, must not leave a copy running
                self.stream.synchronize()
                raise
        return partial(_finish, arrays, consumer, slot.copied, device)


class _Slot:
    """A pinned buffer and two events.

    allocated: the target of its last copy became free.
    copied: its last copy was done.
    """

    def __init__(self):
        self.buffer = np.empty(0, np.uint8)
        self.allocated = cupy.cuda.Event(disable_timing=True)
        self.copied = cupy.cuda.Event(block=True, disable_timing=True)

    def fill(self, batch):
        """Copy the batch into the buffer; return its arrays there."""
        parts, size = [], 0
        for array, rows in batch:
            if type(array) is not np.ndarray:
                array, rows = backend_of[type(array)].to_numpy(take_rows(array, rows)), None
            elif isinstance(rows, slice):
                array, rows = array[rows], None
            shape = array.shape if rows is None else (*rows.shape, *array.shape[1:])
            parts.append((array, rows, shape, size))
            size += -(-array.itemsize * math.prod(shape) // _ALIGNMENT) * _ALIGNMENT
        self.copied.synchronize()
        if size > self.buffer.nbytes:
            self.buffer = cupyx.empty_pinned(size, np.uint8)
        hosts = []
        for array, rows, shape, start in parts:
            host = np.ndarray(shape, array.dtype, self.buffer, start)
            if rows is None:
                np.copyto(host, array)
            else:  # "clip" avoids an intermediate buffer; the rows are known to be in range
                np.take(array, rows, axis=0, out=host, mode="clip")
            hosts.append(host)
        return hosts


def _finish(arrays, consumer, copied, device):
    """Make the current stream wait for a copy, and return its arrays.

    consumer: the stream for which they were allocated.
    """
    with device:
        current = cupy.cuda.get_current_stream()
        current.wait_event(copied)
        if current == consumer:
            return arrays
        # The consumer has changed streams: the new one gets arrays of its own.
        arrays = [array.copy() for array in arrays]
        consumer.wait_event(current.record())
        return arrays
