"""What runs while a function is recorded, and which of it reaches outside of the program.

A tape repeats no text that is printed, reads no file and no clock. So every call of a function
written in C is seen while a function is recorded, and one that is not known to compute, and nothing
else, is the reason not to use the recording.
"""

import os
import sys
import types

from ..tools.observing import in_line, user_line
from .reach import is_own, names_in

# The modules in C whose functions, and methods of their objects, only compute.
_COMPUTING = {
    "builtins", "math", "cmath", "_operator", "itertools", "_functools", "_collections", "_abc",
    "collections", "_heapq", "_bisect", "_statistics", "_struct", "_json", "_codecs", "_string",
    "_pickle", "_sre", "re", "datetime", "fractions", "random", "unicodedata", "zlib", "binascii",
    "array", "types", "typing", "string", "numpy", "scipy", "cupy", "gpugrad",
}  # fmt: skip
# What is seen by others too if this library itself calls it.
_EFFECTS = {"warn", "warn_explicit", "print", "open"}
# Functions of other modules that only compute.
_HARMLESS = {"fspath", "_path_normpath", "exc_info", "exception", "intern", "getsizeof"}
# Functions of those modules that do more.
_REACHING = {
    "print", "open", "input", "breakpoint", "eval", "exec", "compile", "globals", "__import__",
    "__subclasses__", "now", "utcnow", "today", "seed",
}  # fmt: skip
# Modules that may do what they want, and code that restores what it changes.
_QUIET = (
    "importlib", "_frozen_importlib", "gpugrad._processes.", "gpugrad.backends.", "gpugrad.tape.",
    "gpugrad.tools.", "gpugrad.kernels.cuda.",
)  # fmt: skip
_RESTORING = ("errstate.", "cached_property.")
_CUPY = {"cupy", "cupyx", "cupy_backends"}  # whose code in Python is given arrays only
_GPUGRAD = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Witness:
    """Sees what the thread runs inside of a ``with`` block, and stops the recorder.

    earlier: an earlier tape of the same kind of call, for which all of it was seen; or None.
    codes: what has run, by the id of the code.
    """

    def __init__(self, recorder, earlier=None):
        self.recorder = recorder
        self._is_known = earlier is not None
        self.codes = earlier.codes if self._is_known else {}
        self._known = {}  # functions of modules, and methods by the types of their objects

    def __enter__(self):
        if self._is_known:
            return self
        if sys.getprofile() is None:
            sys.setprofile(self._see)
        else:
            self.recorder.stop("a profiler is on", True)
        return self

    def __exit__(self, *exc_info):
        if not self._is_known and sys.getprofile() == self._see:
            sys.setprofile(None)

    def names(self):
        """The names that the code uses which has run, except for that of this library."""
        found = set()
        for code in self.codes.values():
            if not code.co_filename.startswith(_GPUGRAD):
                found |= names_in(code)
        return found

    def _see(self, frame, event, x):
        if event == "call":
            if (frame.f_globals.get("__name__") or "").partition(".")[0] not in _CUPY:
                self.codes[id(frame.f_code)] = frame.f_code
        elif event == "c_call":
            owner = x.__self__
            kind = type(owner)
            key = x if kind is types.ModuleType else (owner if kind is type else kind, x.__name__)
            computes = self._known.get(key)
            if computes is None:
                computes = self._known[key] = _computes(x, owner, kind)
            if not computes:
                self._look(frame, x)

    def _look(self, frame, function):
        """Stop the recorder if the program itself, or gpugrad, has asked for what is called."""
        at = frame
        while at is not None:
            name = at.f_globals.get("__name__") or ""
            is_imported = at.f_code.co_name == "<module>"
            if is_imported or name.startswith(_QUIET):
                return
            if at.f_code.co_qualname.startswith(_RESTORING):
                return
            if is_own(name) or (name.startswith("gpugrad.") and function.__name__ in _EFFECTS):
                break
            if name.startswith("gpugrad."):
                return
            at = at.f_back
        what = f"it calls {function.__name__}{in_line(user_line())}"
        self.recorder.stop(f"{what}, which reads or changes what compile cannot see", "first")


def _room(function):
    owner = function.__self__
    if not isinstance(owner, (types.ModuleType, types.NoneType)):
        owner = owner if isinstance(owner, type) else type(owner)
        return owner.__module__.partition(".")[0]
    return (function.__module__ or "").partition(".")[0]


def _computes(function, owner, kind):
    if function.__name__ in _REACHING or function.__name__ in _HARMLESS:
        return function.__name__ in _HARMLESS
    if kind is types.ModuleType or owner is None:
        return _room(function) in _COMPUTING
    kinds = owner if kind is type else kind
    return all(
        is_own(base.__module__) or base.__module__.partition(".")[0] in _COMPUTING
        for base in kinds.__mro__
    )
