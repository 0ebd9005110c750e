"""The twin of the op in gpugrad/ops/dropout.py."""

from ...backends.cupy.kernels.loader import covers
from ...backends.cupy.kernels.random import dropout as launch
from ...ops.dropout import dropout


def _dropout(xp, x, p, key):
    return launch(x, p, key) if covers(x.dtype) else NotImplemented


dropout.twin("cupy", _dropout, x=lambda xp, g, p, key: _dropout(xp, g, p, key))
