"""The state of each thread, such as its grad mode and `vmap` levels, and locks for threads."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import WeakSet

from ._typing import F


class _ThreadState(threading.local):
    """The state; each thread has its own.

    recording: whether ops record the graph; see `autograd.mode`.
    levels: the `vmap` levels that the thread is inside, the innermost last.
    draws: the `Draws` that note what the thread draws.
    repeats: whether the thread is running a piece of a program for a second time.
    event: the run of an op that tools are being shown; None outside of ops.
    autocast: the `Region` of autocast that the thread is inside; None outside of all.
    recorder: the `Recorder` that notes the calls of a function for `compile`, or None. Sweeps tell
        it which leaves get gradients, and writers which memory they overwrite.
    """

    def __init__(self) -> None:
        self.recording = True
        self.levels: tuple[Any, ...] = ()
        self.draws: tuple[Any, ...] = ()
        self.repeats = False
        self.event: Any = None
        self.autocast: Any = None
        self.recorder: Any = None

    @contextmanager
    def having(self, **values: Any) -> Iterator[None]:
        """A context manager that sets some of these; `set_recording` sets ``recording``."""
        state = vars(self)
        before = {name: state[name] for name in values}
        try:
            state.update(values)
            yield
        finally:
            state.update(before)


thread = _ThreadState()

# The identities of all threads that have switched recording off, and sometimes of others, such as
# one that has ended since. An op first asks whether this set is empty, because that takes a sixth
# of the time of reading an attribute of the thread.
paused: set[int] = set()


def set_recording(enabled: bool) -> None:
    """Switch recording on or off. Interrupted anywhere, this leaves a consistent state."""
    if enabled:
        thread.recording = True
        paused.discard(threading.get_ident())
    else:
        paused.add(threading.get_ident())
        thread.recording = False


_locks: WeakSet[Any] = WeakSet()


def make_lock(kind: Callable[[], Any] = threading.RLock) -> Any:
    """A lock that is free in the child of a fork, which lacks the thread that may have held it."""
    lock = kind()
    _locks.add(lock)
    return lock


def _after_fork():
    for lock in [*_locks]:
        if not (hasattr(lock, "_is_owned") and lock._is_owned()):
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def restores_state(function: F) -> F:
    """Make a function leave this thread's state as it found it, whatever happens inside.

    The ``with`` blocks in it restore the state too, unless Ctrl-C interrupts the end of a block
    before the first line of ``__exit__``. Then this function restores it.
    """

    @wraps(function)
    def wrapped(*args, **kwargs):
        state = vars(thread)
        before = state.copy()
        try:
            return function(*args, **kwargs)
        finally:
            if state != before:
                set_recording(before["recording"])
                state.update(before)

    return wrapped  # type: ignore[return-value]
