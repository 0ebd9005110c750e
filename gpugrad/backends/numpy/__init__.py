"""NumPy arrays, on the CPU."""

from .backend import array_of_bytes, backend, position, ufunc_module
from .namespace import xp
