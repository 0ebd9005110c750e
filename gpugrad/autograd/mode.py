"""Grad mode: whether ops record the graph, decided per thread."""

import threading
from functools import wraps


class _Mode(threading.local):
    enabled = True


mode = _Mode()


def is_grad_enabled():
    """Whether ops called in this thread record the graph."""
    return mode.enabled


class set_grad_enabled:
    """Switch recording on or off for this thread.

    Takes effect at once; as a context manager it is undone on leaving, and as
    a decorator it holds during each call of the function.
    """

    def __init__(self, enabled):
        self.enabled = bool(enabled)
        self.previous = mode.enabled
        mode.enabled = self.enabled

    def __enter__(self):
        mode.enabled = self.enabled
        return self

    def __exit__(self, *exc_info):
        mode.enabled = self.previous

    def __call__(self, function):
        mode.enabled = self.previous
        return _decorate(function, lambda: set_grad_enabled(self.enabled))


class _Switch:
    """A context manager and decorator that sets grad mode while it is entered."""

    enabled: bool

    def __init__(self):
        self.previous = []

    def __new__(cls, function=None):
        if function is not None:  # @no_grad without parentheses
            return _decorate(function, cls)
        return super().__new__(cls)

    def __enter__(self):
        self.previous.append(mode.enabled)
        mode.enabled = self.enabled

    def __exit__(self, *exc_info):
        mode.enabled = self.previous.pop()

    def __call__(self, function):
        return _decorate(function, type(self))


class no_grad(_Switch):
    """Record nothing: ``with no_grad():`` or ``@no_grad()``. Results do not require grad."""

    enabled = False


class enable_grad(_Switch):
    """Record again inside a `no_grad` block: ``with enable_grad():`` or ``@enable_grad()``."""

    enabled = True


def _decorate(function, switch):
    @wraps(function)
    def wrapped(*args, **kwargs):
        with switch():
            return function(*args, **kwargs)

    return wrapped
