"""The server through which processes that MPI's launcher did not start become one MPI program.

Rank 0 runs this file as a program of its own, with nothing but the standard library. It does what
`mpiexec` does for the processes it starts:

- It waits until all ranks have connected, or tells those that have which ones are missing.
- It answers MPICH's library, which finds the other processes by the line protocol PMI-1 ("PMI: A
  Scalable Parallel Process-Management Interface for Extreme-Scale Systems", Balaji et al., 2010).
- If a process ends too early or calls MPI's abort, it ends all others.

Each process has two connections. The first line of each says which one it is:
``gpugrad JOB rank R`` for the connection that lasts as long as the process, and
``gpugrad JOB mpi R`` for the one that is handed to MPI.
"""

import contextlib
import selectors
import signal
import socket
import sys
import time
import uuid

HERE = b"here\n"  # answers the first line of a process that belongs here
ALL_HERE = b"all here\n"
END = b"end\n"  # tells the other processes that one has failed
LEAVING = b"leaving\n"  # sent by a process that ends as it should
_LONGEST = 1 << 16
_NEEDED = {b"put": {b"key", b"value"}, b"get": {b"key"}}


class _Connection:
    """A connection of a process.

    rank: that of the process; None until the first line has come.
    is_mpi: whether MPI uses the connection, rather than gpugrad.
    """

    def __init__(self, sock):
        self.sock = sock
        self.rank = None
        self.is_mpi = False
        self.received = b""

    def send(self, line):
        with contextlib.suppress(OSError):  # reading it will show that it has ended
            self.sock.sendall(line)


class _Server:
    def __init__(self, listener, job, size, timeout):
        self.job = job
        # MPICH names shared memory after this, and killed processes may have left theirs behind.
        self.name = f"gpugrad_{uuid.uuid4().hex}".encode()
        self.size = size
        self.timeout = timeout
        self.processes = {}  # rank -> the connection that lasts
        self.are_leaving = set()
        self.ended = 0  # the number of processes that have ended
        self.values = {}  # what MPI's processes have published for each other
        self.at_barrier = []
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)

    def run(self):
        """Serve until all processes have ended, or one has failed."""
        deadline = time.monotonic() + self.timeout
        while self.ended < self.size:
            complete = len(self.processes) == self.size
            left = None if complete else max(deadline - time.monotonic(), 0)
            for key, _ in self.selector.select(left):
                if key.data is None:
                    sock, _ = key.fileobj.accept()
                    self.selector.register(sock, selectors.EVENT_READ, _Connection(sock))
                elif not self.read(key.data):
                    return
            if len(self.processes) < self.size and time.monotonic() > deadline:
                missing = [str(r) for r in range(self.size) if r not in self.processes]
                self.send_all(
                    f"rank{'s' * (len(missing) > 1)} {', '.join(missing)} of {self.size} did not "
                    f"call it within {self.timeout:.1f} s\n".encode()
                )
                return

    def read(self, connection):
        """Answer what has come. Returns False if a process has failed."""
        try:
            data = connection.sock.recv(_LONGEST)
        except OSError:
            data = b""
        connection.received += data
        *lines, connection.received = connection.received.split(b"\n")
        for line in lines:
            if connection.rank is None:
                self.welcome(connection, line.decode(errors="replace").split())
            elif not connection.is_mpi:
                self.are_leaving.add(connection.rank)
            elif line.startswith(b"cmd=abort"):
                self.send_all(END)
                return False
            else:
                self.answer(connection, line)
        if data and len(connection.received) < _LONGEST:
            return True
        self.selector.unregister(connection.sock)
        connection.sock.close()
        if connection.rank is None:
            return True
        if connection.rank in self.are_leaving:
            self.ended += not connection.is_mpi
            return True
        sys.stderr.write(f"rank {connection.rank} of {self.size} has ended, so all others end\n")
        sys.stderr.flush()
        self.send_all(END)
        return False

    def send_all(self, line):
        for process in self.processes.values():
            process.send(line)

    def welcome(self, connection, words):
        """Read a connection's first line."""
        match words:
            case ["gpugrad", self.job, "rank" | "mpi" as kind, rank] if rank.isdecimal():
                rank = int(rank)
            case _:
                connection.send(b"this is another program\n")
                return
        connection.is_mpi = kind == "mpi"
        connection.send(HERE)
        if not connection.is_mpi and rank in self.processes:
            connection.send(
                f"there already is a process of rank {rank}; does another program use the same "
                f"port?\n".encode()
            )
            return
        connection.rank = rank
        if not connection.is_mpi:
            self.processes[rank] = connection
            if len(self.processes) == self.size:
                self.send_all(ALL_HERE)

    def answer(self, connection, line):
        """Answer a line of PMI-1: ``cmd=NAME key=value ...``."""
        words = dict(word.partition(b"=")[::2] for word in line.split())
        match words.get(b"cmd"):
            case b"init":
                answer = b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
            case b"get_maxes":
                answer = b"cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024"
            case b"get_appnum":
                answer = b"cmd=appnum rc=0 appnum=0"
            case b"get_universe_size":
                answer = b"cmd=universe_size rc=0 size=%d" % self.size
            case b"get_my_kvsname":
                answer = b"cmd=my_kvsname rc=0 kvsname=" + self.name
            case b"put" | b"get" as name if not _NEEDED[name] <= words.keys():
                answer = b"cmd=%b_result rc=-1 msg=incomplete_line" % name
            case b"put":
                self.values[words[b"key"]] = line.partition(b" value=")[2]
                answer = b"cmd=put_result rc=0 msg=success"
            case b"get":
                value = self.values.get(words[b"key"])
                answer = b"cmd=get_result rc=-1 msg=key_not_found"
                if value is not None:
                    answer = b"cmd=get_result rc=0 msg=success value=" + value
            case b"barrier_in":
                self.at_barrier.append(connection)
                if len(self.at_barrier) == self.size:
                    for other in self.at_barrier:
                        other.send(b"cmd=barrier_out rc=0\n")
                    self.at_barrier = []
                return
            case b"finalize":
                answer = b"cmd=finalize_ack rc=0"
            case _:
                answer = b"cmd=result rc=-1 msg=unknown_command"
        connection.send(answer + b"\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # rank 0 gets it too, and ends
    descriptor, name, processes, seconds = sys.argv[1:]
    with socket.socket(fileno=int(descriptor)) as listening:
        _Server(listening, name, int(processes), float(seconds)).run()
