"""Collectives of arrays on a CUDA device, by NCCL, on a stream of its own."""

import socket
import threading
import time
from collections import deque
from importlib import import_module

import cupy

_BFLOAT16 = 9  # ncclBfloat16 of nccl.h; older versions of CuPy have no name for it


class Enqueued:
    """A collective that has been put on the device's stream of collectives.

    kept: the arrays whose memory the collective uses, which must not be freed before its end.
    """

    def __init__(self, device, event, kept):
        self._device, self._event, self._kept = device, event, kept

    def progress(self):
        """NCCL's collectives go on by themselves."""

    def wait(self):
        """Make later work on the current stream wait for the collective; the host does not wait."""
        if self._event is not None:
            with self._device:
                cupy.cuda.get_current_stream().wait_event(self._event)
            self._event = self._kept = None


class Collectives:
    """The collectives of the processes of a `Group`, each of which has one device.

    All processes create it together and call the same collectives in the same order, in which NCCL
    runs them. No call waits for the device.
    """

    def __init__(self, device, group):
        self._device, self._nccl = device, _library()
        bus = cupy.cuda.runtime.deviceGetPCIBusId(device.id)
        _check_devices(group.exchange((socket.gethostname(), bus)))
        identity = group.exchange(None if group.rank else self._nccl.get_unique_id())[0]
        with device:
            self._communicator = self._nccl.NcclCommunicator(group.size, identity, group.rank)
            self._stream = cupy.cuda.Stream(non_blocking=True)
        self._waiting = deque()  # the end of each collective, and when it was enqueued
        threading.Thread(target=self._watch, args=(group,), daemon=True).start()

    def all_reduce(self, array):
        """Replace the array by the sum of all ranks'."""
        args = array.data.ptr, array.data.ptr, *self._numbers(array), self._nccl.NCCL_SUM
        return self._enqueue("allReduce", args, array)

    def broadcast(self, array, root):
        """Replace the array by that of rank ``root``."""
        pointer = array.data.ptr
        args = pointer, pointer, array.nbytes, self._nccl.NCCL_UINT8, root
        return self._enqueue("broadcast", args, array)

    def all_gather(self, array, out):
        """Write the array of each rank ``r`` into ``out[r]``."""
        args = array.data.ptr, out.data.ptr, array.nbytes, self._nccl.NCCL_UINT8
        return self._enqueue("allGather", args, array, out)

    def reduce_scatter(self, array, out):
        """Write the sum of all ranks' ``array[rank]`` into ``out``."""
        args = array.data.ptr, out.data.ptr, *self._numbers(out), self._nccl.NCCL_SUM
        return self._enqueue("reduceScatter", args, array, out)

    def _numbers(self, array):
        """How many numbers NCCL is to reduce, and their type; a complex number is two."""
        is_complex = array.dtype.kind == "c"
        name = f"float{array.itemsize * 4}" if is_complex else array.dtype.name
        dtype = getattr(self._nccl, f"NCCL_{name.upper()}", _BFLOAT16 if "bf" in name else None)
        if dtype is None:
            raise TypeError(f"NCCL cannot reduce {array.dtype}; convert it to another dtype")
        return array.size * (1 + is_complex), dtype

    def _enqueue(self, name, args, *arrays):
        """Enqueue a collective of NCCL's after the work that the current stream has.

        arrays: those whose memory it uses.
        """
        if not arrays[0].size:
            return Enqueued(self._device, None, ())
        with self._device:
            ready, end = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
            ready.record(cupy.cuda.get_current_stream())
            self._stream.wait_event(ready)
            getattr(self._communicator, name)(*args, self._stream.ptr)
            end.record(self._stream)
        self._waiting.append((end, time.monotonic()))
        return Enqueued(self._device, end, arrays)

    def _watch(self, group):
        """End all processes if a collective takes too long.

        The program cannot notice that itself, because it waits for its device. The time of a
        collective counts from when it was enqueued or, if that is later, from the end of the one
        before, and so includes other work of the device.
        """
        self._device.use()  # else CUDA would make a context on the first device
        since = time.monotonic()
        while True:
            time.sleep(min(1, group.timeout / 4))
            while self._waiting and self._waiting[0][0].done:
                self._waiting.popleft()
                since = time.monotonic()
            if self._waiting and time.monotonic() - max(since, self._waiting[0][1]) > group.timeout:
                group.abort(
                    f"a collective on {self._device} has not ended after {group.timeout:g} s: "
                    f"a rank does not take part in it, or its device has more work than that; "
                    f"in the latter case pass a longer timeout to distributed.init"
                )


def _library():
    nccl = import_module("cupy.cuda.nccl")
    if not nccl.available:
        version = cupy.cuda.runtime.runtimeGetVersion() // 1000
        raise ImportError(
            f"CuPy does not find NCCL, which several processes with CUDA devices need: "
            f"pip install nvidia-nccl-cu{version}"
        )
    return nccl


def _check_devices(places):
    """Raise RuntimeError if two ranks use the same device, which NCCL does not support.

    places: the machine of each rank, and the bus of its device.
    """
    for rank, place in enumerate(places):
        if place in places[:rank]:
            raise RuntimeError(
                f"ranks {places.index(place)} and {rank} use the same CUDA device of "
                f"{place[0]}; each needs one of its own: "
                f'device=f"cuda:{{gpugrad.distributed.local_rank()}}"'
            )
