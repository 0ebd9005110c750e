"""The ops, by topic. Each is one definition: a forward and its VJPs."""

from . import (
    activations,
    attention,
    convolution,
    dropout,
    elementwise,
    indexing,
    manipulation,
    neural,
    normalization,
    padding,
    products,
    recurrent,
    reductions,
    searching,
    transcendental,
    windows,
)
