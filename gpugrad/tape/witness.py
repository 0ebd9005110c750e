"""What runs while a function is recorded, and which of it reaches outside of the program.

A tape prints no text, and reads no file and no clock. So all calls of functions are seen while a
function is recorded, and one that may do more than compute is a reason not to use the recording.
"""

import gc
import os
import sys
import types

from ..tools.observing import in_line, user_line
from .libraries import computes, is_own, only_computes
from .reach import names_in

# What is seen by others if this library calls it.
_EFFECTS = {"warn", "warn_explicit", "print", "open"}
# Modules that may do what they want, and code that restores what it changes.
_QUIET = (
    "importlib._bootstrap", "_frozen_importlib", "gpugrad._processes.", "gpugrad.backends.cupy.",
    "gpugrad.kernels.cuda.", "gpugrad.tape.", "gpugrad.tools.",
)  # fmt: skip
_RESTORING = ("errstate.", "cached_property.")
_GPUGRAD = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Functions that read or change what is not on a tape; those of ``os`` are of the environment.
_UNSEEN = {
    ("gpugrad._tensor", "label"), ("gpugrad.random", "get_state"),
    ("gpugrad.random", "initial_seed"), ("gpugrad.backends.numpy.threads", "set_num_threads"),
    ("gpugrad.backends.numpy.threads", "get_num_threads"), ("os", "__getitem__"),
    ("os", "__iter__"), ("os", "__len__"), ("os", "getenvb"),
}  # fmt: skip


class Witness:
    """Sees what the thread runs inside of a ``with`` block, and stops the recorder.

    earlier: an earlier tape of the same kind of call, for which all of it was seen; or None.
    earlier: the codes of an earlier recording of the same kind of call, of which all was seen.
    codes: the code of the program and of this library that has run, by its id.
    """

    def __init__(self, recorder, earlier=None):
        self.recorder = recorder
        self.is_needed = earlier is None
        self.codes = {} if earlier is None else earlier
        self._foreign = set()  # ids of code that may do more than compute
        self._known = {}  # functions of modules, and methods by the types of their objects

    def __enter__(self):
        if self.is_needed and sys.getprofile() is None:
            sys.setprofile(self._see)
        elif self.is_needed:
            self.recorder.stop("a profiler is on", True)
        return self

    def __exit__(self, *exc_info):
        if sys.getprofile() == self._see:
            sys.setprofile(None)

    def names(self):
        """The names that the program's code uses which has run."""
        found = set()
        for code in self.codes.values():
            if code is not None and not code.co_filename.startswith(_GPUGRAD):
                found |= names_in(code)
        return found

    def _see(self, frame, event, function):
        if event == "call":
            code = frame.f_code
            if id(code) not in self.codes:
                name = frame.f_globals.get("__name__") or ""
                is_part = is_own(name) or name.partition(".")[0] == "gpugrad"
                self.codes[id(code)] = code if is_part else None
                is_known = is_part or only_computes(name) or name.startswith(_QUIET)
                is_known |= code in _callbacks()
                if not is_known or (name, code.co_name) in _UNSEEN:
                    self._foreign.add(id(code))
            if id(code) in self._foreign:
                self._look(frame.f_back, code.co_name)
        elif event == "c_call":
            owner = function.__self__
            kind = type(owner)
            if kind is types.ModuleType:
                key = function
            else:
                key = owner if kind is type else kind, function.__name__
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = computes(function)
            if not known:
                self._look(frame, function.__name__)

    def _look(self, frame, called):
        """Stop the recorder if the program itself, or gpugrad, has asked for what is called."""
        callbacks = _callbacks()
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            code = frame.f_code
            if code in callbacks:
                return
            if name.startswith(_QUIET) or code.co_qualname.startswith(_RESTORING):
                return
            if code.co_name == "<module>":  # it is being imported
                return
            is_gpugrad = name.partition(".")[0] == "gpugrad"
            if is_own(name) or (is_gpugrad and called in _EFFECTS):
                what = f"it calls {called}{in_line(user_line())}"
                what += ", which reads or changes what compile cannot see"
                self.recorder.stop(what, "first")
                return
            if is_gpugrad:
                return
            frame = frame.f_back


def _callbacks():
    """The code that Python's garbage collection calls at any time, whatever is running then."""
    return [getattr(function, "__code__", None) for function in gc.callbacks]
