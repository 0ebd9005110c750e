"""`join`: makes one MPI program of processes that know only their ranks and rank 0's address."""

import contextlib
import os
import socket
import sys
import threading
import time

from . import process_manager
from .launcher import MeetingPoint

# The server listens on one of this many ports after the given one, which torchrun uses itself.
_PORTS = 8

# Seconds between two attempts to reach it, and seconds for an answer.
_PAUSE = 0.05
_ANSWER = 2.0

# The environment variables that tell MPICH how to reach the server, and this process's rank.
_VARIABLES = ("PMI_FD", "PMI_RANK", "PMI_SIZE")


class Membership:
    """The connection of this process to the server, through which it ends when another fails."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        # A forked child would keep the connection open after this process has ended.
        os.register_at_fork(after_in_child=connection.close)
        threading.Thread(target=self._watch, name="gpugrad: other processes", daemon=True).start()

    def unset_environment(self) -> None:
        """Unset what `join` has set, as it is not for processes that this one starts."""
        for name in _VARIABLES:
            del os.environ[name]

    def leave(self) -> None:
        """Say that this process ends as it should."""
        with contextlib.suppress(OSError):  # all processes end anyway
            self._connection.sendall(process_manager.LEAVING)

    def _watch(self):
        try:
            line = self._connection.recv(len(process_manager.END))
        except OSError:
            line = b""
        if not line:
            sys.stderr.write("gpugrad.distributed: the connection to the other processes is lost\n")
            sys.stderr.flush()
        os._exit(1)


def join(point: MeetingPoint, size: int, timeout: float) -> Membership:
    """Meet the other processes, and set the environment by which MPI finds them.

    Call `Membership.unset_environment` when MPI has been initialized. Raises RuntimeError if it was
    before, or if not all processes are there within ``timeout`` seconds.
    """
    if "mpi4py.MPI" in sys.modules:
        raise RuntimeError(
            "distributed.init: call it before mpi4py.MPI is imported, as no launcher of MPI has "
            "started this process"
        )
    deadline = time.monotonic() + timeout
    if point.rank == 0:
        _start_server(point, size, timeout)
    lasting = _connect(point, "rank", deadline)
    lasting.settimeout(timeout + _ANSWER)
    answer = _line(lasting)
    if answer != process_manager.ALL_HERE:
        is_over = answer in (b"", process_manager.END)
        reason = "another process has ended" if is_over else answer.decode().strip()
        raise RuntimeError(f"distributed.init: {reason}")
    lasting.settimeout(None)
    mpi = _connect(point, "mpi", time.monotonic() + timeout)
    mpi.settimeout(None)
    os.environ.update(zip(_VARIABLES, map(str, (mpi.detach(), point.rank, size)), strict=True))
    return Membership(lasting)


def _ports(point):
    return [1024 + (point.port + i - 1023) % (65536 - 1024) for i in range(_PORTS)]


def _start_server(point, size, timeout):
    is_local = point.address in ("localhost", "127.0.0.1")
    errors = []
    for port in _ports(point):
        try:
            listener = socket.create_server(("127.0.0.1" if is_local else "", port))
        except OSError as error:
            errors.append(f"{port}: {error.strerror}")
            continue
        with listener:
            listener.set_inheritable(True)
            arguments = [listener.fileno(), point.job, size, timeout]
            # Not a thread, because no other thread of Python runs while MPI is being initialized.
            os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", process_manager.__file__, *map(str, arguments)],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                ],
            )
        return
    raise RuntimeError(
        f"distributed.init: rank 0 finds no free port after MASTER_PORT ({'; '.join(errors)})"
    )


def _connect(point, kind, deadline):
    """A connection to the server of this job; other programs may have some of its ports."""
    greeting = f"gpugrad {point.job} {kind} {point.rank}\n".encode()
    reason = ""
    # By port; kept, since a server that is still starting will take each one for a process.
    unanswered: dict[int, socket.socket] = {}
    try:
        while True:
            for port in _ports(point):
                try:
                    connection = unanswered.pop(port, None)
                    if connection is None:
                        connection = socket.create_connection((point.address, port), _ANSWER)
                        connection.sendall(greeting)
                    if _line(connection) == process_manager.HERE:
                        return connection
                    connection.close()
                    reason = "other programs answer there"
                except TimeoutError as error:
                    if connection is not None:
                        unanswered[port] = connection
                    reason = str(error)
                except OSError as error:
                    reason = str(error)
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"distributed.init: rank {point.rank} does not reach rank 0 at "
                    f"{point.address}, ports {_ports(point)[0]} to {_ports(point)[-1]} ({reason})"
                )
            time.sleep(_PAUSE)
    finally:
        for connection in unanswered.values():
            connection.close()


def _line(connection):
    with connection.makefile("rb", buffering=0) as file:  # reads nothing beyond the line
        return file.readline(200)
