"""Generators whose state is an array of the device, as CuPy's is."""

import numpy as np

from ._array import on_current, wrap

__all__ = ["Generator", "default_rng"]


class BitGenerator:
    def __init__(self, seed=None):
        (start,) = np.random.SeedSequence(seed).generate_state(1, np.uint64)
        self._state = wrap(np.array([start, 0], np.uint64), [])  # and the number of draws


class Generator:
    def __init__(self, bit_generator):
        self.bit_generator = bit_generator

    def _next(self):
        on_current([self.bit_generator._state])
        state = self.bit_generator._state._values
        rng = np.random.default_rng(state)
        state[1] += 1
        return rng

    def random(self, size=None, dtype=np.float64, out=None):
        return wrap(np.asarray(self._next().random(size, dtype)), [])

    def standard_normal(self, size=None, dtype=np.float64, out=None):
        return wrap(np.asarray(self._next().standard_normal(size, dtype)), [])

    def integers(self, low, high=None, size=None, dtype=np.int64, endpoint=False):
        return wrap(np.asarray(self._next().integers(low, high, size, dtype, endpoint)), [])


def default_rng(seed=None):
    return Generator(BitGenerator(seed))
