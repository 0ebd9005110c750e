"""`compile`: recording the array calls of a function, and repeating them without running it."""

from .compiled import Compiled, compile

__all__ = ["Compiled", "compile"]
__dir__ = __all__.copy
