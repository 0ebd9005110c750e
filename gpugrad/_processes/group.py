"""`Group`: processes that compute together, and the group of a single one."""

from typing import Any

from .launcher import processes_launched


class Pending:
    """A collective that has been started; the base class is one that has already ended."""

    def progress(self) -> None:
        """Let the collective go on, which MPI does only inside its calls."""

    def wait(self) -> None:
        """Wait until the collective has ended."""


class Group:
    """Processes that call the same collectives, in the same order; this one is a process alone.

    Collectives take raw arrays that are contiguous. Each method starts one and returns a `Pending`.
    Nothing else may read or write the arrays before that has ended.

    rank: the number of this process, from 0 to ``size - 1``.
    local_rank: its number among those of the group on the same machine.
    """

    rank = 0
    size = 1
    local_rank = 0

    def all_reduce(self, array: Any) -> Pending:
        """Replace the array by the elementwise sum of all ranks'."""
        return Pending()

    def broadcast(self, array: Any, root: int) -> Pending:
        """Replace the array by that of rank ``root``."""
        return Pending()

    def all_gather(self, array: Any, out: Any) -> Pending:
        """Write the array of each rank ``r`` into ``out[r]``."""
        out[0, ...] = array
        return Pending()

    def reduce_scatter(self, array: Any, out: Any) -> Pending:
        """Write the sum of all ranks' ``array[rank]`` into ``out``."""
        out[...] = array[0, ...]
        return Pending()

    def any_of(self, flags: bytearray) -> Pending:
        """Replace each byte by the greatest of all ranks' bytes at its place."""
        return Pending()

    def barrier(self) -> None:
        """Wait until all ranks are here."""

    def exchange(self, value: Any) -> list[Any]:
        """The values of all ranks, which may be any objects that can be pickled."""
        return [value]


_current: Group | None = None


def current() -> Group:
    """The group of all processes. Raises RuntimeError if there are several and none was installed.

    Without this error, a program that forgets `gpugrad.distributed.init` would train several
    separate models.
    """
    if _current is None:
        size, launcher = processes_launched()
        if size > 1:
            raise RuntimeError(
                f"{launcher} started {size} processes; call gpugrad.distributed.init() at the "
                f"beginning of the program"
            )
        install(Group())
    return _current  # type: ignore[return-value]


def install(group: Group) -> None:
    """Make this the group of all processes."""
    global _current
    _current = group
