"""NCCL between processes that MPI started; each has the stand-in's devices for itself.

As in NCCL, a collective is work on the given stream, and is done when something waits for that, so
that a missing wait gives wrong values. What NCCL leaves undefined is an error: ranks that differ in
the collective, the count or the type, and calls while another device is current.
"""

import ctypes

import numpy as np

from .device import current_device
from .stream import stream_of

available = True

NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN = range(4)
(
    NCCL_INT8, NCCL_UINT8, NCCL_INT32, NCCL_UINT32, NCCL_INT64, NCCL_UINT64, NCCL_FLOAT16,
    NCCL_FLOAT32, NCCL_FLOAT64, NCCL_BFLOAT16,
) = range(10)  # fmt: skip
_DTYPES = ("int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16").split()
_REDUCE = {NCCL_SUM: np.add, NCCL_PROD: np.multiply, NCCL_MAX: np.maximum, NCCL_MIN: np.minimum}

_calls: list[tuple] = []  # the stand-in's own record: the collective, the count and the stream


class NcclError(RuntimeError):
    pass


def get_unique_id():
    return bytes(range(128))


class NcclCommunicator:
    def __init__(self, ndev, commId, rank):
        if not isinstance(commId, bytes) or len(commId) != 128:
            raise TypeError("commId is not 128 bytes")
        self._device = current_device().id
        self._rank, self._size = rank, ndev
        self._comm = None
        if ndev > 1:
            from mpi4py import MPI

            self._comm = MPI.COMM_WORLD.Dup()
            if (self._comm.rank, self._comm.size) != (rank, ndev):
                raise NcclError("NCCL_ERROR_INVALID_USAGE")

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        def work():
            values = self._gathered(sendbuf, count, datatype)
            _memory(recvbuf, count, datatype)[...] = _REDUCE[op].reduce(values)

        self._enqueue(("allReduce", count, datatype, op), stream, work)

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        def work():
            values = self._gathered(sendbuff, count, datatype)
            _memory(recvbuff, count, datatype)[...] = values[root]

        self._enqueue(("broadcast", count, datatype, root), stream, work)

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        def work():
            values = self._gathered(sendbuf, count, datatype)
            _memory(recvbuf, count * self._size, datatype)[...] = np.concatenate(values)

        self._enqueue(("allGather", count, datatype), stream, work)

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        def work():
            values = self._gathered(sendbuf, recvcount * self._size, datatype)
            own = slice(self._rank * recvcount, (self._rank + 1) * recvcount)
            _memory(recvbuf, recvcount, datatype)[...] = _REDUCE[op].reduce(values)[own]

        self._enqueue(("reduceScatter", recvcount, datatype, op), stream, work)

    def _enqueue(self, what, stream, work):
        if current_device().id != self._device:
            raise NcclError("NCCL_ERROR_INVALID_USAGE: another device is current")
        _calls.append((*what[:2], stream))

        def checked():
            others = [what] if self._comm is None else self._comm.allgather(what)
            if others != [what] * self._size:
                raise NcclError(f"the ranks call different collectives: {others}")
            work()

        stream_of(stream)._enqueue(checked)

    def _gathered(self, pointer, count, datatype):
        own = _memory(pointer, count, datatype).copy()
        return [own] if self._comm is None else self._comm.allgather(own)


def _memory(pointer, count, datatype):
    """The array at an address."""
    dtype = np.dtype(_DTYPES[datatype])
    return np.frombuffer((ctypes.c_byte * (count * dtype.itemsize)).from_address(pointer), dtype)
