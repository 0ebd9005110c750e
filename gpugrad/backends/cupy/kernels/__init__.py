"""The CUDA kernels that the backend itself runs; those of ops are in `gpugrad.kernels.cuda`."""

from . import random
from .elementwise import unpoison
from .loader import covers, kernel

__all__ = ["covers", "kernel", "random", "unpoison"]
