"""Calls that communicate with other processes, and are noted where `compile` records a function.

While `compile` records a function, the function makes these calls, and later its program makes them
again. So all processes start the same collectives in the same order, even if one of them runs the
function as it is, another records it, and a third one replays it.
"""

from collections.abc import Callable
from typing import Any

from .._thread_state import thread
from .group import Pending, current

# This keeps alive the arrays of all collectives under way: even after an error in this process,
# other processes may still write to them.
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
        self.var: Any = None  # the variable for it in a program that is being recorded
        self.pending = collective(*args)

    def wait(self) -> Any:
        """The result, once the collective has ended."""
        self.pending.wait()
        del _in_flight[id(self)]
        return self.array


def poll(started: list[Started]) -> None:
    """Let collectives go on; see `Pending.progress`."""
    for one in started:
        one.pending.progress()


def finish(started: Started) -> tuple[Any]:
    """Wait for a collective; its result."""
    return (started.wait(),)
