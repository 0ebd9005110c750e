"""NumPy arrays, on the CPU."""

import numpy as library

from .backend import array_of_bytes, backend, position, ufunc_module
from .namespace import xp
