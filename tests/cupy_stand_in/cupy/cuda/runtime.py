"""What CUDA's runtime says."""

from .device import COUNT, Device, current_device
from .memory import pool

__all__ = (
    "CUDARuntimeError driverGetVersion getDevice getDeviceCount getDeviceProperties memGetInfo "
    "runtimeGetVersion setDevice"
).split()


class CUDARuntimeError(RuntimeError):
    pass


def getDeviceCount():
    return COUNT


def getDevice():
    return current_device().id


def setDevice(device):
    Device(device).use()


def getDeviceProperties(device):
    return {"name": f"Stand-in {device}".encode()}


def memGetInfo():
    total = 8 * 2**30
    return total - pool.total_bytes(), total


def driverGetVersion():
    return 13020


def runtimeGetVersion():
    return 13020
