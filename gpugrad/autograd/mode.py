"""Grad mode: whether ops record the graph, decided per thread."""

import threading
from collections.abc import Generator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any, overload

from .._typing import F


class _Mode(threading.local):
    enabled = True


class _Paused:
    """How many threads have recording switched off now.

    Reading a plain attribute costs a sixth of reading a thread-local one, so an
    op asks this first.
    """

    __slots__ = ("threads", "lock")

    def __init__(self):
        self.threads = 0
        self.lock = threading.Lock()


mode = _Mode()
paused = _Paused()


def _switch(enabled):
    if mode.enabled != enabled:
        with paused.lock:
            paused.threads += -1 if enabled else 1
        mode.enabled = enabled


def is_grad_enabled() -> bool:
    """Whether ops called in this thread record the graph."""
    return mode.enabled


class _Switch:
    """Sets grad mode while it is entered, or during each call of a function it decorates."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.previous: list[bool] = []

    def __enter__(self) -> None:
        self.previous.append(mode.enabled)
        _switch(self.enabled)

    def __exit__(self, *exc_info: object) -> None:
        _switch(self.previous.pop())

    def __call__(self, function: F) -> F:
        return _decorate(function, self.enabled)


class set_grad_enabled:
    """Switch recording on or off for this thread.

    Takes effect at once; as a context manager it is undone on leaving, and as
    a decorator it holds during each call of the function.
    """

    def __init__(self, enabled: bool) -> None:
        self.enabled = bool(enabled)
        self.previous = mode.enabled
        _switch(self.enabled)

    def __enter__(self) -> "set_grad_enabled":
        _switch(self.enabled)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _switch(self.previous)

    def __call__(self, function: F) -> F:
        _switch(self.previous)
        return _decorate(function, self.enabled)


@overload
def no_grad() -> _Switch: ...
@overload
def no_grad(function: F) -> F: ...
def no_grad(function: Any = None) -> Any:
    """Record nothing: ``with no_grad():`` or ``@no_grad()``. Results do not require grad."""
    return _Switch(False) if function is None else _decorate(function, False)


@overload
def enable_grad() -> _Switch: ...
@overload
def enable_grad(function: F) -> F: ...
def enable_grad(function: Any = None) -> Any:
    """Record again inside a `no_grad` block: ``with enable_grad():`` or ``@enable_grad()``."""
    return _Switch(True) if function is None else _decorate(function, True)


class _Steps(Generator):
    """A generator whose steps, but not what its user does between them, run in a grad mode."""

    def __init__(self, steps, enabled):
        self.steps = steps
        self.enabled = enabled

    def send(self, value):
        with _Switch(self.enabled):
            return self.steps.send(value)

    def throw(self, *error):
        with _Switch(self.enabled):
            return self.steps.throw(*error)


def _decorate(function, enabled):
    @wraps(function)
    def wrapped(*args, **kwargs):
        with _Switch(enabled):
            result = function(*args, **kwargs)
        return _Steps(result, enabled) if isgeneratorfunction(function) else result

    return wrapped
