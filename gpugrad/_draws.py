"""Random numbers that come again, where a piece of a program is run once more."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Noting(threading.local):
    draws: tuple["Draws", ...] = ()  # those that note what this thread draws
    repeats = False  # whether this thread runs code for a second time


_noting = _Noting()


def note_draw(generator):
    """Have `Draws` keep the state of ``generator``, which is about to be drawn from."""
    for draws in _noting.draws:
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

    @contextmanager
    def noted(self) -> Iterator[None]:
        outer = _noting.draws
        _noting.draws = (*outer, self)
        try:
            yield
        finally:
            _noting.draws = outer

    @contextmanager
    def repeated(self) -> Iterator[None]:
        present = [(generator, generator.get_state()) for generator in self.states]
        outer, _noting.draws = _noting.draws, ()
        repeats, _noting.repeats = _noting.repeats, True
        try:
            for generator, state in self.states.items():
                generator.set_state(state)
            yield
        finally:
            _noting.draws = outer
            _noting.repeats = repeats
            for generator, state in present:
                generator.set_state(state)


def is_repeated() -> bool:
    """Whether a piece of a program is being run again, to recompute values that were dropped."""
    return _noting.repeats
