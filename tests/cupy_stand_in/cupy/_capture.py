"""Work on a stream that is being captured: noted, not done, and done at each launch of the graph.

What is noted reads and writes the memory that it was given and has the numbers that it was given.
"""

import threading

import numpy as np

from ._errors import CUDARuntimeError

_local = threading.local()  # the capture in progress, on this thread's current stream


def current():
    """The list of what has been captured so far; None while nothing is captured on this device."""
    from .cuda.device import current_device

    capture = getattr(_local, "capture", None)
    return capture if capture is None or capture.device_id == current_device().id else None


def switch(capture):
    _local.capture = capture


_under_way: list = []  # all captures, of all threads


class Capture(list):
    """The work captured so far, on a stream of a device.

    is_invalid: whether something was refused, after which nothing can be captured any more.
    memory: addresses of the memory that was taken for it from a pool.
    """

    is_invalid = False

    def __init__(self, device_id):
        self.device_id, self.memory = device_id, []
        _under_way.append(self)

    def end(self):
        _under_way[:] = [x for x in _under_way if x is not self]

    def note(self, work):
        if self.is_invalid:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated: by an error before")
        self.append(work)


def refuse_on(device_id, what):
    """Raise if any thread captures a stream of the device, whose capture is lost then."""
    lost = [x for x in list(_under_way) if x.device_id == device_id]
    for capture in lost:
        capture.is_invalid = True
    if lost:
        raise _unsupported(what)


def _unsupported(what):
    why = f"{what} is not permitted when stream is capturing"
    return CUDARuntimeError(f"cudaErrorStreamCaptureUnsupported: {why}")


def refuse(what):
    """Raise if a stream is being captured, for what CUDA or CuPy refuses then."""
    capture = current()
    if capture is not None:
        capture.is_invalid = True
        raise _unsupported(what)


def silent(compute):
    """The result of ``compute()``; a GPU does not warn of what is infinite or nan."""
    with np.errstate(all="ignore"):
        return compute()


def do(work):
    """Do work that writes into memory, now or when it is launched."""
    capture = current()
    if capture is None:
        silent(work)
    else:
        capture.note(lambda: silent(work))


def spoil(values):
    """Fill memory that nothing has been computed into yet."""
    values.fill(np.nan if values.dtype.kind in "fc" else 85)
