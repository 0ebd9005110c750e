"""Hooks: functions of a user's that are called at a place until they are removed."""

from collections.abc import Callable
from itertools import count
from typing import Any

_number = count().__next__


class Handle:
    """Takes a hook away: by ``remove()``, or as a context manager at the end of the block."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], Any]) -> None:
        self._undo: Callable[[], Any] | None = undo

    def remove(self) -> None:
        """Have the hook not called any more."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def attach(hooks, hook, where, *, prepend=False, entry=None):
    """Put a hook last in the dict ``hooks``, or first; returns a function that takes it out.

    where: the method that the user called, for an error.
    entry: what to put there instead, with the hook in it.
    """
    if not callable(hook):
        raise TypeError(f"{where}: the hook must be a function, not a {type(hook).__name__}")
    number = _number()
    before = {**hooks} if prepend else {}
    for other in before:
        del hooks[other]
    hooks[number] = hook if entry is None else entry
    hooks.update(before)
    return lambda: hooks.pop(number, None)
