"""The ops, by topic. Each is one definition: a forward and its VJPs."""

from . import (
    dropout,
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
    "dropout",
    "indexing",
    "manipulation",
    "neural",
    "products",
    "reductions",
    "searching",
    "transcendental",
]
