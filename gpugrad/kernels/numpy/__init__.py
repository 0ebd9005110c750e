"""Twins of ops for NumPy arrays, which compute in place where the definition makes new arrays.

The package is imported when an op first gets a NumPy array.
"""

from . import recurrent

__all__ = ["recurrent"]
