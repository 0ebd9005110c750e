"""The table of ops: every op with samples, a reference in NumPy and PyTorch's equivalent.

Tests and benchmarks iterate over `CASES`. There is a module here for each module of
`gpugrad.ops`. A new op needs one `Case` there and no test of its own.
"""

from importlib import import_module
from pkgutil import iter_modules

from .base import LAYOUTS, Case, Sample, values

TOPICS = {m.name for m in iter_modules(__path__)} - {"base", "draws", "kinds"}
CASES = [c for topic in sorted(TOPICS) for c in import_module(f".{topic}", __name__).CASES]
# Ops whose results have shapes that depend on values.
SHAPED_BY_VALUES = {"argwhere", "bincount", "nonzero"}
SHAPED_BY_VALUES |= {case.op for case in CASES if case.op.startswith("unique_")}

__all__ = ["CASES", "LAYOUTS", "SHAPED_BY_VALUES", "Case", "Sample", "values"]
