"""The table of ops: every op with samples, a reference in NumPy and PyTorch's equivalent.

Tests and benchmarks iterate over `CASES`. There is a module here for each module of
`gpugrad.ops`. A new op needs one `Case` there and no test of its own.
"""

from importlib import import_module
from pkgutil import iter_modules

from .base import Case, Sample, values

TOPICS = [import_module(f".{m.name}", __name__) for m in iter_modules(__path__) if m.name != "base"]
CASES = [case for topic in TOPICS for case in topic.CASES]

__all__ = ["CASES", "Case", "Sample", "values"]
