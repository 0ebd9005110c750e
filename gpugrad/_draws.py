"""Random numbers that come again, where a piece of a program is run once more."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Noting(threading.local):
    draws: tuple["Draws", ...] = ()  # being noted in this thread
    repeats = False  # whether what runs in this thread ran before


_noting = _Noting()


def note_draw(generator):
    """Have `Draws` keep the state of ``generator``, which is about to be drawn from."""
    for draws in _noting.draws:
        if generator not in draws.states:
            draws.states[generator] = generator.get_state()


class Draws:
    """Which generators a piece of a program draws from, so that it can draw the same again.

    ``with draws.noted():`` around it keeps the states that it finds generators in, of any it
    uses; ``with draws.repeated():`` puts these back, and at the end those that there were.
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
    """Whether a piece of a program runs once more, for what was forgotten since it ran first."""
    return _noting.repeats
