"""Fused CUDA kernels, as twins of ops for CuPy's arrays.

Each topic has its kernels in ``<topic>.cu``. ``<topic>.py`` has the functions that launch them and
gives these to the ops, whose definitions stay what they are: ``relu.twin("cupy", x=...)``. A
function returns NotImplemented for inputs that its kernel does not cover. The package is imported
when an op first meets an array of CuPy's.
"""

from pathlib import Path

from ...backends.cupy.kernels.loader import add_sources

add_sources(Path(__file__).parent)

from . import dropout, neural, normalization  # noqa: E402

__all__ = ["dropout", "neural", "normalization"]
