"""Tools to see what a program's ops do. They cost nothing while they are off."""

from .anomaly import detect_anomaly
from .memory import memory_report
from .profiler import profile

__all__ = ["detect_anomaly", "memory_report", "profile"]
