"""Programs: a function recorded once as a list of array calls, and replayed without Python."""

from .compiled import Compiled, compile

__all__ = ["Compiled", "compile"]
__dir__ = __all__.copy
