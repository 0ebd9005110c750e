"""Grad mode: whether ops record the graph, decided per thread."""

import threading
from collections.abc import Callable, Generator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any


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

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _switch(self.previous)
        return _decorate(function, lambda: set_grad_enabled(self.enabled))


class _Switch:
    """A context manager and decorator that sets grad mode while it is entered."""

    enabled: bool

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self.previous: list[bool] = []

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if function is not None:  # @no_grad without parentheses
            return _decorate(function, cls)
        return super().__new__(cls)

    def __enter__(self) -> None:
        self.previous.append(mode.enabled)
        _switch(self.enabled)

    def __exit__(self, *exc_info: object) -> None:
        _switch(self.previous.pop())

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return _decorate(function, type(self))


class no_grad(_Switch):
    """Record nothing: ``with no_grad():`` or ``@no_grad()``. Results do not require grad."""

    enabled = False


class enable_grad(_Switch):
    """Record again inside a `no_grad` block: ``with enable_grad():`` or ``@enable_grad()``."""

    enabled = True


class _Steps(Generator):
    """A generator whose steps, but not what its user does between them, run inside ``switch()``."""

    def __init__(self, steps, switch):
        self.steps = steps
        self.switch = switch

    def send(self, value):
        with self.switch():
            return self.steps.send(value)

    def throw(self, *error):
        with self.switch():
            return self.steps.throw(*error)


def _decorate(function, switch):
    @wraps(function)
    def wrapped(*args, **kwargs):
        with switch():
            result = function(*args, **kwargs)
        return _Steps(result, switch) if isgeneratorfunction(function) else result

    return wrapped
