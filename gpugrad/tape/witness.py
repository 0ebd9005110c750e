"""What runs while a function is recorded, and which of it reaches outside of the program.

A tape prints no text, and reads no file and no clock. So all calls of functions are seen while a
function is recorded, and one that may do more than compute is a reason not to use the recording.
"""

import os
import sys
import types
import warnings

from ..tools.observing import in_line, user_line
from .code import facts_of
from .libraries import computes, is_own, only_computes

# What is seen by others if this library calls it.
_EFFECTS = {warnings.warn, warnings.warn_explicit, print, open}
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

    earlier: the codes of an earlier recording of the same kind of call, of which all was seen.
    codes: the code of the program and of this library that has run, by its id.
    """

    def __init__(self, recorder, earlier=None):
        self.recorder = recorder
        self.is_needed = earlier is None
        self.codes = {} if earlier is None else earlier
        self._inside = set()  # ids of the code of this library
        self._foreign = set()  # ids of code that may do more than compute
        self._known = {}  # functions of modules, and methods by the types of their objects

    def __enter__(self):
        if self.is_needed and sys.getprofile() is None:
            sys.setprofile(self._hook())
        elif self.is_needed:
            self.recorder.stop("a profiler is on", True)
        return self

    def __exit__(self, *exc_info):
        if getattr(sys.getprofile(), "witness", None) is self:
            sys.setprofile(None)

    def names(self):
        """The names that the program's code uses which has run."""
        found = set()
        for code in self.codes.values():
            if code is not None and not code.co_filename.startswith(_GPUGRAD):
                found |= facts_of(code).names
        return found

    def _hook(self):
        codes, inside, foreign = self.codes, self._inside, self._foreign

        def see(frame, event, function):  # some thousand times in a recording
            if event == "call":
                number = id(frame.f_code)
                if number not in codes:
                    self._meet(frame)
                if number in foreign:
                    self._look(frame.f_back, frame.f_code)
            elif event == "c_call" and (id(frame.f_code) not in inside or function in _EFFECTS):
                self._called(frame, function)

        see.witness = self
        return see

    def _meet(self, frame):
        """Note what is known of code that runs for the first time."""
        code, name = frame.f_code, frame.f_globals.get("__name__") or ""
        is_inside = name.partition(".")[0] == "gpugrad"
        if is_inside:
            self._inside.add(id(code))
        is_part = is_inside or is_own(name)
        self.codes[id(code)] = code if is_part else None
        is_known = is_part or only_computes(name) or name.startswith(_QUIET)
        if not is_known or (name, code.co_name) in _UNSEEN:
            self._foreign.add(id(code))

    def _called(self, frame, function):
        """Look at the call of a function in C, or of a method of an object in C."""
        owner = function.__self__
        kind = owner if isinstance(owner, type) else type(owner)
        key = function if kind is types.ModuleType else (kind, function.__name__)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = computes(function)
        if not known:
            self._look(frame, function)

    def _look(self, frame, called):
        """Stop the recorder if the program itself, or gpugrad, has asked for what is called."""
        while frame is not None:
            name, code = frame.f_globals.get("__name__") or "", frame.f_code
            if code.co_name == "<module>":  # it is being imported
                return
            if name.startswith(_QUIET) or code.co_qualname.startswith(_RESTORING):
                return
            is_inside = name.partition(".")[0] == "gpugrad"
            if is_own(name) or (is_inside and called in _EFFECTS):
                called = getattr(called, "co_name", None) or called.__name__
                what = f"it calls {called}{in_line(user_line())}"
                what += ", which reads or changes what compile cannot see"
                self.recorder.stop(what, "first")
            if is_own(name) or is_inside:
                return
            frame = frame.f_back
