"""Grad mode: whether ops record the graph, decided per thread."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from threading import get_ident
from typing import Any, overload

from .._thread_state import set_recording, thread
from .._typing import F


def is_grad_enabled() -> bool:
    """Whether ops called in this thread record the graph."""
    return thread.recording


class _Switch:
    """Sets grad mode while it is entered, or during each call of a function it decorates."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        # The modes before, by thread, one for each time that it is entered.
        self.previous: dict[int, list[bool]] = {}

    def __enter__(self) -> Any:
        self.previous.setdefault(get_ident(), []).append(thread.recording)
        set_recording(self.enabled)
        return self

    def __exit__(self, *exc_info: object) -> None:
        set_recording(self.previous[get_ident()].pop())

    def __call__(self, function: F) -> F:
        return _decorate(function, self.enabled)


@contextmanager
def rules_on_tensors(enabled):
    """A context manager for a sweep that runs rules on Tensors.

    The rules record if ``enabled``. They keep the dtypes of the forward pass: autocast is off.
    """
    with _Switch(enabled), thread.having(autocast=None):
        yield


class set_grad_enabled(_Switch):
    """Switch recording on or off for this thread.

    Takes effect at once; as a context manager it is undone on leaving, and as
    a decorator it holds during each call of the function.
    """

    def __init__(self, enabled: bool) -> None:
        super().__init__(bool(enabled))
        self.before = thread.recording
        set_recording(self.enabled)

    def __enter__(self) -> "set_grad_enabled":
        set_recording(self.before)
        return super().__enter__()

    def __call__(self, function: F) -> F:
        set_recording(self.before)
        return super().__call__(function)


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
    """A generator whose steps run in a grad mode; what its user does between them does not."""

    def __init__(self, steps, enabled):
        self.steps, self.enabled = steps, enabled

    def send(self, value):
        with _Switch(self.enabled):
            return self.steps.send(value)

    def throw(self, *error):
        with _Switch(self.enabled):
            return self.steps.throw(*error)


def _decorate(function, enabled):
    if iscoroutinefunction(function) or isasyncgenfunction(function):
        name = "enable_grad" if enabled else "no_grad"
        raise TypeError(
            f"{name}: {function.__name__} is an async function, whose steps belong to other tasks "
            f"too; write `with {name}():` in it, around code that awaits nothing"
        )

    @wraps(function)
    def wrapped(*args, **kwargs):
        with _Switch(enabled):
            result = function(*args, **kwargs)
        return _Steps(result, enabled) if isgeneratorfunction(function) else result

    return wrapped
