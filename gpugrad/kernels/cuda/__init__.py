"""Fused CUDA kernels, as twins of ops for CuPy arrays.

``<topic>.cu`` has the kernels of a topic. ``<topic>.py`` has the functions that launch them and
registers these with the ops, whose definitions do not change: ``relu.twin("cupy", x=...)``. A
function returns NotImplemented for inputs that its kernel does not support. The package is imported
when an op first gets a CuPy array.
"""

from pathlib import Path

from ...backends.cupy.kernels.loader import add_sources

add_sources(Path(__file__).parent)

from . import attention, convolution, dropout, elementwise, neural, normalization, recurrent  # noqa: E402, F401
