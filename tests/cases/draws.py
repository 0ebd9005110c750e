"""Distributions of samples' inputs, functions of a generator and a shape.

They keep away from kinks, ties and poles, which finite differences would cross. Those have samples
of their own, with the gradients expected there.
"""

import numpy as np


def normal(rng, shape):
    return rng.standard_normal(shape)


def distinct(rng, shape):
    """Values at least 0.25 apart."""
    size = int(np.prod(shape))
    return (rng.permutation(size).reshape(shape) - size / 2) / 4 + rng.uniform(0, 0.05)


def away_from_even(rng, shape):
    """Values at least 0.5 away from multiples of 2, where the rounded quotient by 2 or -2 jumps."""
    return 2 * rng.integers(-3, 3, shape) + rng.uniform(0.5, 1.5, shape)


def plus_or_minus_two(rng, shape):
    return rng.choice([-2.0, 2.0], shape)


def bools(rng, shape):
    return rng.random(shape) < 0.5


def near_one(rng, shape):
    """Values so close to 1 that the product of a million neither overflows nor underflows."""
    return np.exp(rng.normal(0, 0.01, shape))


def integers(low, high, dtype="int64"):
    def draw(rng, shape):
        return rng.integers(low, high, shape).astype(dtype)

    return draw


def between(low, high):
    def draw(rng, shape):
        return rng.uniform(low, high, shape)

    return draw


def both_signs(low, high):
    """Return a distribution of values with absolute values in the interval, and both signs."""

    def draw(rng, shape):
        return rng.uniform(low, high, shape) * rng.choice([-1.0, 1.0], shape)

    return draw


positive, nonzero = between(0.5, 2.0), both_signs(0.3, 2.0)
