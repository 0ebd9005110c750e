"""The CUDA kernels that the backend itself runs; `gpugrad.kernels.cuda` has those of ops."""

from . import random, windows
from .elementwise import blend, zero_discarded_nans
from .loader import copy, covers

__all__ = ["blend", "copy", "covers", "random", "windows", "zero_discarded_nans"]
