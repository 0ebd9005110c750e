"""Twins of ops for NumPy's arrays: several operations at a time on pieces that fit the cache.

The package is imported when an op first gets a NumPy array. A function returns NotImplemented for
inputs that it does not support.
"""

from . import activations

__all__ = ["activations"]
