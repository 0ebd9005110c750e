"""Tools to see what a program's ops do. They cost nothing while they are off."""

from .anomaly import detect_anomaly
from .drawing import draw
from .memory import memory_report
from .profiler import profile

__all__ = ["detect_anomaly", "draw", "memory_report", "profile"]
__dir__ = __all__.copy
