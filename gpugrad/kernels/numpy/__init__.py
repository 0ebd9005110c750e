"""Twins of ops for NumPy's arrays, which work in place and on pieces that fit into the cache.

The package is imported when an op first gets a NumPy array. A function returns NotImplemented for
inputs that it does not support.
"""

from . import activations, attention, neural, normalization, recurrent, searching  # noqa: F401
