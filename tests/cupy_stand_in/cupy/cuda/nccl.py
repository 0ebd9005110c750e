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
_DTYPES = "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64 bfloat16".split()
globals().update({f"NCCL_{name.upper()}": number for number, name in enumerate(_DTYPES)})
_REDUCE = {NCCL_SUM: np.add, NCCL_PROD: np.multiply, NCCL_MAX: np.maximum, NCCL_MIN: np.minimum}

_calls: list[tuple] = []  # the stand-in's own record: the collective, the count and the stream


class NcclError(RuntimeError):
    """What NCCL refuses, or leaves undefined."""


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
        what = "allReduce", count, datatype, op
        self._enqueue(what, stream, sendbuf, count, recvbuf, _REDUCE[op].reduce)

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        what = "broadcast", count, datatype, root
        self._enqueue(what, stream, sendbuff, count, recvbuff, lambda values: values[root])

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        what = "allGather", count, datatype
        self._enqueue(what, stream, sendbuf, count, recvbuf, np.concatenate)

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        what, own = ("reduceScatter", recvcount, datatype, op), self._rank * recvcount

        def scattered(values):
            return _REDUCE[op].reduce(values)[own : own + recvcount]

        self._enqueue(what, stream, sendbuf, recvcount * self._size, recvbuf, scattered)

    def _enqueue(self, what, stream, sent, count, received, compute):
        """Later send ``count`` elements, and receive what ``compute`` makes of all ranks'."""
        if current_device().id != self._device:
            raise NcclError("NCCL_ERROR_INVALID_USAGE: another device is current")
        _calls.append((*what[:2], stream))
        gather = (lambda x: [x]) if self._comm is None else lambda x: self._comm.allgather(x)

        def work():
            others = gather(what)
            if others != [what] * self._size:
                raise NcclError(f"the ranks call different collectives: {others}")
            out = compute(gather(_memory(sent, count, what[2]).copy()))
            _memory(received, out.size, what[2])[...] = out

        stream_of(stream)._enqueue(work)


def _memory(pointer, count, datatype):
    """The array at an address."""
    dtype = np.dtype(_DTYPES[datatype])
    return np.frombuffer((ctypes.c_byte * (count * dtype.itemsize)).from_address(pointer), dtype)
