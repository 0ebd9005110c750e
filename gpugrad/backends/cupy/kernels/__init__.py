"""The CUDA kernels that the backend itself runs; those of ops are in `gpugrad.kernels.cuda`."""

from . import random
from .elementwise import zero_discarded_nans
from .loader import covers, kernel

__all__ = ["covers", "kernel", "random", "zero_discarded_nans"]
