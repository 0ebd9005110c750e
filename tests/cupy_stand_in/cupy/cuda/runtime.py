"""The functions of the CUDA runtime."""

import ctypes
import os

from .._capture import do
from .._errors import CUDARuntimeError  # noqa: F401
from . import memory
from .device import COUNT, Device, current_device

__all__ = (
    "CUDARuntimeError deviceGetPCIBusId driverGetVersion getDevice getDeviceCount "
    "getDeviceProperties memGetInfo memcpyAsync memcpyDeviceToDevice runtimeGetVersion setDevice"
).split()


def getDeviceCount():
    return COUNT


def getDevice():
    return current_device().id


def setDevice(device):
    Device(device).use()


def getDeviceProperties(device):
    name = f"Stand-in {device}".encode()
    found = {"name": name, "major": 9, "minor": 0, "totalGlobalMem": memory.CAPACITY}
    # An H100's cache, and the shared memory that every GPU since compute capability 8.0 has.
    return found | {"l2CacheSize": 50 << 20, "sharedMemPerBlockOptin": 99 << 10}


def deviceGetPCIBusId(device):
    return f"{os.environ.get('STAND_IN_PROCESS', '')}:{device}"


def memGetInfo():
    return memory.CAPACITY - memory.taken(current_device().id), memory.CAPACITY


memcpyDeviceToDevice = 3


def memcpyAsync(dst, src, size, kind, stream):
    assert kind == memcpyDeviceToDevice
    do(lambda: ctypes.memmove(dst, src, size))


def driverGetVersion():
    return 13020


def runtimeGetVersion():
    return 13020
