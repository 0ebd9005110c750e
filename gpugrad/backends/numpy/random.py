"""Random numbers on the CPU, by NumPy's generator."""

import numpy as np

from ..dtypes import is_bfloat16


def global_generator():
    """The generator from which `numpy.random.normal` and similar functions draw."""
    return np.random  # importing it takes a fifth of the time that `import numpy` takes


class Random:
    """Seeded random arrays on the CPU."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def uniform(self, shape, dtype):
        """Uniform in [0, 1)."""
        if dtype in (np.float32, np.float64):
            return np.asarray(self.rng.random(shape, dtype=dtype))
        # The dtype can represent all these multiples, so that no number is rounded up to 1.
        count = 256 if is_bfloat16(dtype) else 2048
        steps = np.floor(self.rng.random(shape, dtype=np.float32) * count)
        return np.asarray(steps / count).astype(dtype)

    def normal(self, shape, dtype):
        """Standard normal."""
        if dtype in (np.float32, np.float64):
            return np.asarray(self.rng.standard_normal(shape, dtype=dtype))
        return np.asarray(self.rng.standard_normal(shape, dtype=np.float32)).astype(dtype)

    def integers(self, low, high, shape, dtype):
        """Uniform in [low, high)."""
        return np.asarray(self.rng.integers(low, high, shape, dtype=dtype))

    def permutation(self, n):
        """The integers from 0 to n - 1 in random order."""
        return self.rng.permutation(n)

    def get_state(self):
        """The state from which `set_state` continues."""
        return self.rng.bit_generator.state

    def set_state(self, state):
        self.rng.bit_generator.state = state
