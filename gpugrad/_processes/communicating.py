"""Calls that communicate with other processes, and are noted where `compile` records a function.

A function that is recorded makes these calls, and its program makes them again. So the processes
start the same collectives in the same order, whichever of them run the function as it is, record
it, or replay it.
"""

from collections.abc import Callable
from typing import Any

from .._thread_state import thread
from .group import Pending, current

# The collectives under way. Other processes may still write to their arrays, even if an error was
# raised meanwhile.
_in_flight: dict[int, "Started"] = {}


def communicate(
    function: Callable[..., Any], *operands: Any, results: bool = False, writes: bool = False
) -> Any:
    """``function(*operands)``, noted as one call if there is a recorder.

    operands: arrays, lists of arrays, and `Started`.
    results: whether it returns a list of new arrays; else it returns a `Started` or None.
    writes: whether it overwrites the arrays in the first operand, a list.
    """
    if thread.recorder is None or current().size == 1:
        return function(*operands)
    return thread.recorder.communicate(function, operands, results, writes)


class Started:
    """A collective under way, ``collective(*args)``, whose result will be in ``array``."""

    __slots__ = ("array", "pending", "var", "_args")

    def __init__(self, array: Any, collective: Callable[..., Pending], *args: Any) -> None:
        _in_flight[id(self)] = self
        self.array = array
        self._args = args
        self.var: Any = None  # what stands for it in a program that is recorded
        self.pending = collective(*args)

    def wait(self) -> Any:
        """The result, once the collective has ended."""
        self.pending.wait()
        del _in_flight[id(self)]
        return self.array


def poll(started: list[Started]) -> None:
    """Give MPI the time to go on with collectives: it moves data only while it is called."""
    for one in started:
        one.pending.test()


def finish(started: Started) -> tuple[Any]:
    """Wait for a collective; its result."""
    return (started.wait(),)
