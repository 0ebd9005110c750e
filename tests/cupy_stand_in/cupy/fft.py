"""Fourier transforms."""

import functools
import threading
import types
import weakref

import numpy as np

from ._capture import do, spoil
from ._wrapping import of_class, through

__all__ = (
    "config fft fftfreq fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftfreq "
    "rfftn"
).split()


class _Plan:
    """The memory that transforms of one kind and size use."""


class PlanCache(dict):
    """The plans that were used last, of which the last used one is at the end."""

    _size = 16

    def __iter__(self):
        for key, plan in reversed(self.items()):
            yield key, types.SimpleNamespace(key=key, plan=plan)

    def __getitem__(self, key):
        self[key] = plan = self.pop(key)
        return plan

    def __setitem__(self, key, plan):
        super().__setitem__(key, plan)
        self.set_size(self._size)

    def get_size(self):
        return self._size

    def set_size(self, size):
        self._size = size
        while 0 <= size < len(self):
            del self[next(dict.__iter__(self))]

    def get_memsize(self):
        return -1

    def set_memsize(self, memsize):
        assert memsize == -1  # as much as there is


_local = threading.local()


class config:
    @staticmethod
    def get_plan_cache():
        if not hasattr(_local, "cache"):
            _local.cache = PlanCache()
        return _local.cache


def _kernel(function):
    """A transform; its launches in a graph use the plan, whose memory is lost with it."""
    transform, name = through(np.fft)(function), function.__name__

    @functools.wraps(function)
    def call(a, *args, **options):
        out = transform(a, *args, **options)
        cache, key = config.get_plan_cache(), (name, a.shape, a.dtype, str((args, options)))
        try:
            plan = cache[key]
        except KeyError:
            plan = cache[key] = _Plan()
        known, values = weakref.ref(plan), out._values
        do(lambda: None if known() else spoil(values))
        return out

    return call


def _nonempty(transform):
    """Make a transform along several axes refuse what CuPy's refuses or takes for a length."""

    @functools.wraps(transform)
    def call(a, s=None, axes=None, norm=None):
        if not a.size or (s is not None and min(s) < 1):
            raise ValueError(f"Invalid number of FFT data points in {a.shape}, {s}")
        return transform(a, s, axes, norm)

    return call


class _AlongOne:
    """Transforms along an axis."""

    def fft(a, n=None, axis=-1, norm=None): ...
    def ifft(a, n=None, axis=-1, norm=None): ...
    def rfft(a, n=None, axis=-1, norm=None): ...
    def irfft(a, n=None, axis=-1, norm=None): ...
    def hfft(a, n=None, axis=-1, norm=None): ...
    def ihfft(a, n=None, axis=-1, norm=None): ...


class _AlongSeveral:
    """Transforms along axes."""

    def fftn(a, s=None, axes=None, norm=None): ...
    def ifftn(a, s=None, axes=None, norm=None): ...
    def rfftn(a, s=None, axes=None, norm=None): ...
    def irfftn(a, s=None, axes=None, norm=None): ...


class _Others:
    """Functions without a plan."""

    def fftfreq(n, d=1.0): ...
    def rfftfreq(n, d=1.0): ...
    def fftshift(x, axes=None): ...
    def ifftshift(x, axes=None): ...


globals().update(of_class(_AlongOne, _kernel))
globals().update(of_class(_AlongSeveral, lambda function: _nonempty(_kernel(function))))
globals().update(of_class(_Others, through(np.fft)))
