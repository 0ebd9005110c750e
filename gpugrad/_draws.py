"""Drawing the same random numbers again when a piece of a program runs once more."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ._thread_state import thread


def note_draw(generator):
    """Before a draw from ``generator``, note its state in the `Draws` of this thread."""
    for draws in thread.draws:
        if generator not in draws.states:
            draws.states[generator] = generator.get_state()


class Draws:
    """The generators that a piece of a program draws from, so that it can draw the same again.

    ``with draws.noted():`` around the piece keeps the state of every generator before the piece
    first uses it. ``with draws.repeated():`` restores these states for the length of the block.
    """

    __slots__ = ("states",)

    def __init__(self) -> None:
        self.states: dict[Any, Any] = {}

    def noted(self) -> AbstractContextManager[None]:
        return thread.having(draws=(*thread.draws, self))

    @contextmanager
    def repeated(self) -> Iterator[None]:
        present = [(generator, generator.get_state()) for generator in self.states]
        with thread.having(draws=(), repeats=True):
            try:
                for generator, state in self.states.items():
                    generator.set_state(state)
                yield
            finally:
                for generator, state in present:
                    generator.set_state(state)


def is_repeated() -> bool:
    """Whether a piece of a program is running again, to recompute values that were dropped."""
    return thread.repeats
