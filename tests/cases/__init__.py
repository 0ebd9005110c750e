"""The table of ops: every op with samples, a reference in NumPy and PyTorch's equivalent.

Tests and benchmarks iterate `CASES`, which has a module for each one of `gpugrad.ops`.
A new op needs one `Case` there and no test of its own.
"""

from . import elementwise, fft, indexing, manipulation, neural, products, reductions
from .base import Case, Sample, values

TOPICS = [elementwise, reductions, products, manipulation, indexing, neural, fft]
CASES = [case for topic in TOPICS for case in topic.CASES]

__all__ = ["CASES", "Case", "Sample", "values"]
