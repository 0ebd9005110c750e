"""Fixtures of the tests of threads and of native code."""

import signal

import numpy as np
import pytest
from native import Interrupted

import gpugrad as gg
from gpugrad.backends.native import base
from gpugrad.backends.numpy import threads


@pytest.fixture
def quiet():
    """The library is there, and floating-point errors are ignored."""
    assert base.wait() is not None, [base._build(name).error for name in base.ALL]
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def number():
    """Several threads, also where the environment sets another number."""
    before = threads._threads.number
    gg.set_num_threads(3)
    yield 3
    threads._threads.resize(before)
    assert threads._blas.get() == threads._blas.usual
    assert not threads._blas.inside


@pytest.fixture
def small_pieces(monkeypatch):
    """Products of a few thousand elements are divided, and other threads help with them."""
    rules = {"_LEAST": 1 << 12, "_PIECE": 1 << 12, "_WORTH": 0, "_SMALL": 1 << 14}
    for name, value in rules.items():
        monkeypatch.setattr(threads, name, value)
    tell_rules()
    yield
    monkeypatch.undo()
    tell_rules()


def tell_rules():
    threads._division.cache_clear()
    if threads._library is not None:
        threads.use(threads._library)


@pytest.fixture
def timer():
    """A function that has `Interrupted` raised in a millisecond."""

    def interrupt(*args):
        raise Interrupted

    if not hasattr(signal, "setitimer"):
        pytest.skip("there is no such timer")
    before = signal.signal(signal.SIGALRM, interrupt)
    yield lambda: signal.setitimer(signal.ITIMER_REAL, 1e-3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
