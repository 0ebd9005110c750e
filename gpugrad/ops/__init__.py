"""The ops, by topic. Each is one definition: a forward and its VJPs."""

# These import the modules of the other topics.
from . import activations, attention, convolution, dropout, padding, recurrent, searching, windows
