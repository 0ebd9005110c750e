"""Hooks: a user's functions, called at some point until they are removed."""

from collections.abc import Callable
from itertools import count
from typing import Any

_number = count().__next__


class Handle:
    """Removes a hook: by ``remove()``, or as a context manager at the end of the block."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], Any]) -> None:
        self._undo: Callable[[], Any] | None = undo

    def remove(self) -> None:
        """Remove the hook."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def attach(hooks, hook, where, *, prepend=False, entry=None):
    """Add a hook at the end of a dict, or at its front; returns a function that removes it.

    where: the method that the user called, for errors.
    entry: what to store in place of the hook itself.
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
