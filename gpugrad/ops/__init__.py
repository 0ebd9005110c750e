"""The ops, by topic. Each is one definition: a forward and its VJPs."""

from . import (
    elementwise,
    indexing,
    manipulation,
    neural,
    products,
    reductions,
    searching,
    transcendental,
)

__all__ = [
    "elementwise",
    "indexing",
    "manipulation",
    "neural",
    "products",
    "reductions",
    "searching",
    "transcendental",
]
