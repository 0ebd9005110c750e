"""What CUDA's runtime says."""

from .device import COUNT

__all__ = ["CUDARuntimeError", "getDeviceCount"]


class CUDARuntimeError(RuntimeError):
    pass


def getDeviceCount():
    return COUNT
