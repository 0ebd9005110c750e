"""The functions of the CUDA runtime."""

import ctypes

from .._capture import do
from .._errors import CUDARuntimeError  # noqa: F401
from .device import COUNT, Device, current_device
from .memory import pool

__all__ = (
    "CUDARuntimeError driverGetVersion getDevice getDeviceCount getDeviceProperties memGetInfo "
    "memcpyAsync memcpyDeviceToDevice runtimeGetVersion setDevice"
).split()


def getDeviceCount():
    return COUNT


def getDevice():
    return current_device().id


def setDevice(device):
    Device(device).use()


def getDeviceProperties(device):
    name = f"Stand-in {device}".encode()
    return {"name": name, "major": 9, "minor": 0, "totalGlobalMem": 8 * 2**30}


def memGetInfo():
    total = 8 * 2**30
    return total - pool.total_bytes(), total


memcpyDeviceToDevice = 3


def memcpyAsync(dst, src, size, kind, stream):
    assert kind == memcpyDeviceToDevice
    do(lambda: ctypes.memmove(dst, src, size))


def driverGetVersion():
    return 13020


def runtimeGetVersion():
    return 13020
