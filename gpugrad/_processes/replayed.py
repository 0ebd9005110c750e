"""Collectives as calls of a program, which `compile` repeats in place of those that it records.

A function that is recorded does not communicate: `Recording.communicate` notes these calls, and the
program makes them. So the processes start the same collectives in the same order, whichever of them
run the function as it is, record it, or replay it.
"""

from collections.abc import Callable
from typing import Any

from .group import Pending, current

# What was started and has not ended. Others may still write to it, even if the program has raised
# an error meanwhile.
_in_flight: dict[int, "Started"] = {}


class Started:
    """A collective under way: the array of its result, and what to wait for."""

    __slots__ = ("array", "pending")

    def __init__(self, array: Any, pending: Pending) -> None:
        self.array = array
        self.pending = pending
        _in_flight[id(self)] = self

    def wait(self) -> Any:
        """The result, once the collective has ended."""
        self.pending.wait()
        del _in_flight[id(self)]
        return self.array


class Start:
    """Starts a collective: ``function(*operands)`` returns the result's array and its `Pending`."""

    def __init__(self, name: str, function: Callable[..., tuple[Any, Pending]]) -> None:
        self.__name__ = f"start_{name}"
        self._function = function

    def __call__(self, *operands: Any) -> Started:
        return Started(*self._function(*operands))


def poll(*started: Started) -> None:
    """Let collectives go on: MPI moves data only while it is called."""
    for one in started:
        one.pending.test()


def finish(started: Started) -> tuple[Any]:
    """Wait for a collective; its result."""
    return (started.wait(),)


def barrier() -> None:
    """Wait until all processes are here."""
    current().barrier()
