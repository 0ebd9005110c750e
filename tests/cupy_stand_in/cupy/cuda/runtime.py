"""What CUDA's runtime says."""

from .device import COUNT, Device, current_device

__all__ = ["CUDARuntimeError", "getDevice", "getDeviceCount", "setDevice"]


class CUDARuntimeError(RuntimeError):
    pass


def getDeviceCount():
    return COUNT


def getDevice():
    return current_device().id


def setDevice(device):
    Device(device).use()
