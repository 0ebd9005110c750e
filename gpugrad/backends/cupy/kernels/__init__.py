"""Fused CUDA kernels: twins of ops' generic definitions, which stay the definitions.

Each topic has its kernels in ``<topic>.cu`` and in ``<topic>.py`` a table
``twins = {op: {"forward": f, <input>: rule, ...}}`` of functions that launch them, each like the
generic one, which returns NotImplemented where it does not cover what it is given.
"""

from . import neural, normalization, random
from .elementwise import unpoison
from .loader import covers, kernel

__all__ = ["covers", "kernel", "twins", "unpoison"]

twins = {**neural.twins, **normalization.twins, **random.twins}
