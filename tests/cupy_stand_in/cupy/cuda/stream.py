"""Streams and events. Work on the current stream is done at once, copies on other streams later.

They are done when something waits for them, so that code that forgets to wait sees wrong values.
"""

import itertools
import threading
import time
import weakref

from .._capture import Capture, switch
from .._errors import CUDARuntimeError
from .._reads import note
from .device import current_device

_local, _pointers = threading.local(), itertools.count(16, 16)


_streams: "weakref.WeakValueDictionary[int, Stream]" = weakref.WeakValueDictionary()


def stream_of(pointer):
    """The stream that a library gets as an address; the stand-in's own."""
    return _streams[pointer]


def _currents():
    """Return this thread's stacks of current streams, one for each device."""
    if not hasattr(_local, "stacks"):
        _local.stacks = {}
    return _local.stacks


def get_current_stream(device_id=-1):
    device_id = current_device().id if device_id == -1 else device_id
    return (_currents().get(device_id) or [Stream.null])[-1]


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.ptr = next(_pointers)
        self._device_id = current_device().id
        self._stream = None
        self._position = 0
        self._time = None if disable_timing else 0.0

    @property
    def done(self):
        self._check_device()
        return self._is_reached()

    def _is_reached(self):
        return self._stream is None or self._stream._finished >= self._position

    def _check_device(self):
        if current_device().id != self._device_id:
            raise RuntimeError(f"the event makes a context on device {current_device().id}")

    def record(self, stream=None):
        self._stream = stream or get_current_stream()
        self._stream._check_device("the event was made on", self._device_id)
        self._position = self._stream._enqueued
        if self._time is not None:
            self._time = time.perf_counter()

    def synchronize(self):
        self._check_device()
        if not self._is_reached():
            note("event")
        self._reach()

    def _reach(self):
        if self._stream is not None:
            self._stream._finish(self._position)


def get_elapsed_time(start_event, end_event):
    return 1e3 * (end_event._time - start_event._time)


class Stream:
    null: "Stream"
    ptds: "Stream"

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.ptr = 0 if null else 2 if ptds else next(_pointers)
        _streams[self.ptr] = self
        self.device_id = -1 if null or ptds else current_device().id
        self.is_non_blocking = non_blocking
        self._capture = None
        self._late = []
        self._finished = 0  # how many pieces of work are done

    def __eq__(self, other):
        return isinstance(other, Stream) and self.ptr == other.ptr

    def __hash__(self):
        return self.ptr

    def __enter__(self):
        self._check_device("the current device is", current_device().id)
        self._finish()
        _currents().setdefault(current_device().id, [Stream.null]).append(self)
        switch(self._capture)
        return self

    def __exit__(self, *args):
        _currents()[current_device().id].pop()
        switch(get_current_stream()._capture)

    def begin_capture(self, mode=None):
        if not self.ptr:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported")
        self._finish()
        self._capture = Capture(current_device().id)
        switch(get_current_stream()._capture)

    def end_capture(self):
        from .graph import Graph

        capture, self._capture = self._capture, None
        switch(get_current_stream()._capture)
        if capture is None:
            raise RuntimeError("no capture was begun")
        capture.end()
        if capture.is_invalid:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated")
        return Graph._of(list(capture), capture.memory)

    def is_capturing(self):
        return self._capture is not None

    @property
    def done(self):
        return not self._late

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def wait_event(self, event):
        if self == get_current_stream(self.device_id):
            event._reach()
        else:
            self._enqueue(event._reach)

    def synchronize(self):
        note("stream")
        self._finish()

    def _check_device(self, what, device_id):
        if self.device_id not in (-1, device_id):
            raise RuntimeError(f"a stream of device {self.device_id}, but {what} {device_id}")

    def _enqueue(self, work):
        """Do this work later, or at once if the stream is current."""
        self._late.append(work)
        if self == get_current_stream(self.device_id):
            self._finish()

    @property
    def _enqueued(self):
        return self._finished + len(self._late)

    def _finish(self, position=None):
        while self._late and (position is None or self._finished < position):
            self._finished += 1
            self._late.pop(0)()


Stream.null = Stream(null=True)
Stream.ptds = Stream(ptds=True)
