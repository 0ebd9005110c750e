"""`MPIGroup`: the processes that an MPI launcher started."""

import atexit
import os
import pickle
import sys
import time
from array import array as numbers
from functools import partial
from itertools import accumulate
from typing import Any

from mpi4py import MPI

from .._dtypes import is_half
from .._thread_state import thread
from ..backends import backend_of, describe, share_processors, usable_processors
from .group import Group, Pending

# Tags of messages that a waiting rank looks for.
_WAITING, _ENDED, _FAILED = 1, 2, 3

# A waiting rank asks MPI again and again, since MPI goes on with a collective only while asked.
# After the first of these times, in seconds, the rank lets other programs run between questions;
# after the second, it sleeps between them.
_SPIN = 0.001
_YIELD = 0.2

# Seconds that a rank waits for the others to say what they wait for.
_GRACE = 1.5

# Seconds that the launcher gets to pass on what a rank has printed before the rank ends all
# others. What it has not passed on by then is lost.
_FLUSH = 0.5

# Seconds in which ranks that fail together learn of each other.
_MEETING = 0.2


class CollectiveError(RuntimeError):
    """The ranks do not do the same, so that a collective cannot end."""


class _Request(Pending):
    """A collective that MPI has begun.

    kept: the arrays of the collective, which stay alive until its end.
    finish: a function to call at its end, or None.
    """

    def __init__(self, group, request, what, kept, finish=None):
        self._group = group
        self._request = request
        self._what = what
        self._kept = kept
        self._finish = finish

    def progress(self):
        if self._request is not None and _has_ended(self._request, self._what):
            self._end()

    def wait(self):
        if self._request is not None:
            self._group.complete(self._request, self._what)
            self._end()

    def _end(self):
        self._request = self._kept = None
        if self._finish is not None:
            self._finish()


class MPIGroup(Group):
    """All processes of MPI; arrays on CUDA devices are reduced by NCCL.

    timeout: for how many seconds to wait in a collective for the other ranks.
    check: compare what the ranks are about to do before each collective.
    """

    def __init__(self, timeout: float, check: bool) -> None:
        self.timeout = timeout
        self.check = check
        self._comm = MPI.COMM_WORLD.Dup()
        self._control = MPI.COMM_WORLD.Dup()
        self.rank, self.size = self._comm.rank, self._comm.size
        local = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank = local.rank
        processors = usable_processors()
        share_processors(local.allgather(processors).count(processors))
        self._count = 0  # of the collectives so far
        self._ended: set[int] = set()
        self._devices: dict[Any, Any] = {}
        self._failed: set[int] = set()
        self._report = sys.excepthook
        sys.excepthook = self._end_all
        atexit.register(self._leave)

    # Collectives

    def all_reduce(self, array):
        what = self._begin("all_reduce", array)
        if others := self._of_device(array):
            return others.all_reduce(array)
        target = _wide(array)
        request = self._comm.Iallreduce(MPI.IN_PLACE, target, MPI.SUM)
        return _Request(self, request, what, target, partial(_round, target, array))

    def broadcast(self, array, root):
        what = self._begin(f"broadcast from {root}", array)
        if others := self._of_device(array):
            return others.broadcast(array, root)
        return _Request(self, self._comm.Ibcast(_as_bytes(array), root), what, array)

    def all_gather(self, array, out):
        what = self._begin("all_gather", array)
        if others := self._of_device(array):
            return others.all_gather(array, out)
        request = self._comm.Iallgather(_as_bytes(array), _as_bytes(out))
        return _Request(self, request, what, (array, out))

    def reduce_scatter(self, array, out):
        what = self._begin("reduce_scatter", array)
        if others := self._of_device(array):
            return others.reduce_scatter(array, out)
        source, target = _wide(array), _wide(out)
        request = self._comm.Ireduce_scatter_block(source, target, MPI.SUM)
        return _Request(self, request, what, (source, target), partial(_round, target, out))

    def any_of(self, flags):
        what = self._begin(f"exchange of {len(flags)} flags")
        buffer = [flags, MPI.UNSIGNED_CHAR]
        return _Request(self, self._comm.Iallreduce(MPI.IN_PLACE, buffer, MPI.MAX), what, flags)

    def barrier(self):
        what = self._begin("barrier")
        self.complete(self._comm.Ibarrier(), what)

    def exchange(self, value):
        return self._exchange(value, self._begin("exchange of objects"))

    def _exchange(self, value, what):
        data = pickle.dumps(value)
        own, lengths = numbers("q", [len(data)]), numbers("q", [0]) * self.size
        request = self._comm.Iallgather([own, MPI.INT64_T], [lengths, MPI.INT64_T])
        self.complete(request, what)
        received = bytearray(sum(lengths))
        request = self._comm.Iallgatherv([data, MPI.BYTE], [received, lengths.tolist(), MPI.BYTE])
        self.complete(request, what)
        parts = zip(lengths, accumulate(lengths), strict=True)
        return [pickle.loads(received[stop - length : stop]) for length, stop in parts]

    def _of_device(self, array):
        """The collectives of the array's device; None for those of MPI."""
        backend = backend_of[type(array)]
        if backend.name == "numpy":
            return None
        device = backend.device(array)
        if device not in self._devices:
            # Made by all ranks together, at the first collective of arrays on this kind of device.
            self._devices[device] = backend.collectives(array, self)
        return self._devices[device]

    # Faults

    def _begin(self, name, x=None):
        """Count a collective, compare it in the checked mode, and return its description."""
        if thread.recorder is not None:
            thread.recorder.stop("it communicates with other processes")
        self._count += 1
        # The devices may have different numbers.
        operand = "" if x is None else f" of {describe(x).split(':')[0]}"
        what = f"collective {self._count}, {name}{operand}"
        if self.check and len({*(texts := self._exchange(what, what))}) > 1:
            raise CollectiveError(f"the ranks differ: {_by_text(texts)}")
        return what

    def complete(self, request: Any, what: str) -> None:
        """Wait for a request of MPI's; raise CollectiveError if it cannot end or takes too long."""
        if _has_ended(request, what):
            return
        start = time.monotonic()
        heard = {self.rank: what}
        asked = given_up = None
        while not _has_ended(request, what):
            waited = time.monotonic() - start
            if waited < _SPIN:
                continue
            if waited < _YIELD and hasattr(os, "sched_yield"):
                os.sched_yield()  # returns at once if no other program waits for the processor
            else:
                time.sleep(0 if waited < _YIELD else 1e-4)
            self._listen(heard)
            if asked is None and (waited > self.timeout or len(heard) > 1):
                asked = [self._control.isend(what, r, _WAITING) for r in self._others()]
            if given_up is None and (waited > self.timeout or self._ended):
                given_up = waited + _GRACE
            if given_up is not None and waited > given_up:
                raise CollectiveError(self._why(heard, what, waited))

    def _others(self):
        return [rank for rank in range(self.size) if rank != self.rank]

    def _listen(self, heard):
        """Receive what other ranks wait for, and which ranks have ended."""
        status = MPI.Status()
        while self._control.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
            text = self._control.recv(source=status.source, tag=status.tag)
            if status.tag == _ENDED:
                self._ended.add(status.source)
            elif status.tag == _FAILED:
                self._failed.add(status.source)
            else:
                heard[status.source] = text

    def _why(self, heard, what, waited):
        heard = heard | dict.fromkeys(self._ended, "has ended")
        silent = "does not answer; it computes, or hangs"
        texts = [heard.get(rank, silent) for rank in range(self.size)]
        message = f"waited {waited:.1f} s in {what}: {_by_text(texts)}"
        if not self._ended:
            message += "; if a rank may take longer, pass a longer timeout to distributed.init"
        return message

    def _end_all(self, kind, error, trace):
        """Show an error that the program does not handle, with the rank, and end all processes.

        Otherwise the others would wait for this one. An error in the program makes all ranks fail
        at the same time; then only the first of them shows its error.
        """
        try:
            for rank in self._others():
                self._control.isend(None, rank, _FAILED)
            stop = time.monotonic() + _MEETING
            while time.monotonic() < stop:
                self._listen({})
                time.sleep(1e-3)
            if min(self._failed, default=self.rank) < self.rank:
                time.sleep(_GRACE)  # the other one ends this process
            sys.stdout.flush()
            sys.stderr.write(f"rank {self.rank} of {self.size}:\n")
            self._report(kind, error, trace)
            sys.stderr.flush()
            time.sleep(_FLUSH)
        finally:
            MPI.COMM_WORLD.Abort(130 if kind is KeyboardInterrupt else 1)

    def abort(self, message: str) -> None:
        """End all processes with a message, from any thread."""
        sys.stderr.write(f"rank {self.rank} of {self.size}: {message}\n")
        sys.stderr.flush()
        time.sleep(_FLUSH)
        MPI.COMM_WORLD.Abort(1)

    def _leave(self):
        """Before this process ends: tell the others, and wait until they end too."""
        if MPI.Is_finalized():
            return
        requests = [self._control.isend(None, rank, _ENDED) for rank in self._others()]
        heard: dict[int, str] = {}
        while len(self._ended) < self.size - 1 or not MPI.Request.Testall(requests):
            self._listen(heard)
            time.sleep(1e-4)


def _has_ended(request, what):
    try:
        return request.Test()
    except MPI.Exception as error:
        raise CollectiveError(
            f"MPI fails in {what}; if the ranks may differ in shapes or dtypes here, "
            f"distributed.init(check=True) names those that do"
        ) from error


def _by_text(texts):
    """``rank 0: ...; ranks 1 and 2: ...``, for a text of each rank."""
    parts = []
    for text in dict.fromkeys(texts):
        ranks = [str(rank) for rank, other in enumerate(texts) if other == text]
        parts.append(f"rank{'s' * (len(ranks) > 1)} {', '.join(ranks)}: {text}")
    return "; ".join(parts)


def _wide(array):
    """The array that MPI sums in place of ``array``: MPI has no 16-bit floats."""
    xp = backend_of[type(array)].xp
    return xp.astype(array, xp.float32) if is_half(array.dtype) else array


def _round(wide, array):
    """Write the sums in an array of `_wide` into ``array``."""
    if wide is not array:
        array[...] = backend_of[type(array)].xp.astype(wide, array.dtype)


def _as_bytes(array):
    """The memory of a contiguous array, of any dtype."""
    return [array.reshape(-1).view("uint8"), MPI.BYTE]
