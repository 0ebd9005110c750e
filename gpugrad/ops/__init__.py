"""The ops, by topic. Each is one definition: a forward and its VJPs."""

from . import elementwise, indexing, linalg, manipulation, neural, reductions

__all__ = ["elementwise", "indexing", "linalg", "manipulation", "neural", "reductions"]
