"""The witness, which sees all calls while a function is recorded.

A program does not repeat it when the function prints, or reads a file or a clock. So a call of
anything that may do more than compute is a reason not to use the recording.
"""

import gc
import signal
import sys
import types
import warnings
from typing import NamedTuple

from ..tools.observing import user_line
from .code import facts_of
from .draws import state_of_numpy
from .libraries import computes, is_own, only_computes

# These have an effect for the user even if gpugrad calls them.
_EFFECTS = {warnings.warn, warnings.warn_explicit, print, open}
# Modules of which any call is allowed, and functions that restore what they change.
_QUIET = (
    "importlib._bootstrap", "_frozen_importlib", "_py_warnings", "gpugrad._processes.",
    "gpugrad.backends.cupy.", "gpugrad.backends.native.", "gpugrad.kernels.cuda.", "gpugrad.tape.",
    "gpugrad.tools.observing",
)  # fmt: skip
_WALKS = "Module._own_parameters", "Module.named_children", "_check_nothing_hidden"
_RESTORING = ("errstate.", "cached_property.")
_STEPS = {"step", "_follow_groups", "zero_grad", "unscale_", "step_unless"}
# Functions that read or change something which a program does not; those of ``os`` read the
# environment.
_UNSEEN = {
    ("gpugrad._tensor", "label"), ("gpugrad.random", "get_state"), ("gpugrad.io", "load"),
    ("gpugrad.io", "load_metadata"), ("os", "__repr__"), ("os", "copy"),
    ("gpugrad.random", "initial_seed"), ("gpugrad.backends.numpy.threads", "set_num_threads"),
    ("gpugrad.backends.numpy.threads", "get_num_threads"), ("os", "__getitem__"),
    ("os", "__iter__"), ("os", "__len__"), ("os", "getenvb"),
}  # fmt: skip


class Judged(NamedTuple):
    """Facts about code that has run.

    is_inside: whether it belongs to gpugrad.
    is_own: whether it belongs to the user's program.
    is_foreign: whether it may do more than compute.
    reads_groups: whether it may read an optimizer's ``param_groups``, other than for a step.
    """

    code: types.CodeType
    is_inside: bool
    is_own: bool
    is_foreign: bool
    reads_groups: bool


# Modules whose code may read these groups, since each step of a scheduler is noted as a whole.
_SCHEDULERS = {
    f"gpugrad.optim.{name}" for name in ("scheduler", "lr_scheduler", "formulas", "swa_utils")
}


def _judge(frame):
    code, name = frame.f_code, frame.f_globals.get("__name__") or ""
    is_inside, is_owned = name.partition(".")[0] == "gpugrad", is_own(name)
    is_known = is_inside or is_owned or only_computes(name) or name.startswith(_QUIET)
    is_foreign = not is_known or (name, code.co_name) in _UNSEEN
    reads = is_owned and "param_groups" in facts_of(code).names
    if is_inside and (code.co_name == "__getstate__" or "param_groups" in code.co_names):
        reads = code.co_name not in _STEPS and name not in _SCHEDULERS
    return Judged(code, is_inside, is_owned, is_foreign, reads)


def _is_called_by_own(frame):
    """Whether the program's own code has called what runs in ``frame``, and not by an import."""
    while frame is not None and frame.f_code.co_name != "<module>":
        name = frame.f_globals.get("__name__") or ""
        if is_own(name) or name.startswith(("gpugrad.", *_QUIET[:2])):
            return is_own(name)
        frame = frame.f_back
    return False


class Witness:
    """Sees what the thread calls inside a ``with`` block, and stops the recorder if need be.

    own: the code of the program that `Reach` has found, or None if that is no matter.
    codes: `Judged` of all code that has run, by the id of the code, which it keeps alive.
    called: that code of other libraries which the program itself calls, directly or through them.
    """

    def __init__(self, recorder, own):
        self.recorder, self._own = recorder, own
        self.codes, self.called = {}, {}

    def __enter__(self):
        self._before = state_of_numpy()
        if sys.getprofile() is None:
            self.recorder.watch = self._hook()
            sys.setprofile(self.recorder.watch)
        else:
            self.recorder.stop("a profiler is on", True)

    def __exit__(self, *exc_info):
        watch, self.recorder.watch = self.recorder.watch, None
        if watch is not None and sys.getprofile() is watch:
            sys.setprofile(None)
        if self._before != state_of_numpy():
            what = "it draws random numbers from NumPy; draw them with gpugrad.random"
            self.recorder.stop(what)

    def facts(self):
        """The `Facts` of the program's own code that has run, and of the library code it called."""
        own = [facts_of(x.code) for x in self.codes.values() if x.is_own]
        return own, [*map(facts_of, self.called.values())]

    def walks_modules(self):
        """Whether gpugrad has looked for modules or parameters in the attributes of modules."""
        names = [x.code.co_qualname for x in self.codes.values() if x.is_inside]
        return any(name.startswith(_WALKS) for name in names)

    def _hook(self):
        codes, called, own = self.codes, self.called, self._own
        handlers = {*map(signal.getsignal, signal.valid_signals())}
        handlers = {getattr(handler, "__code__", None) for handler in handlers}

        def see(frame, event, function):  # Python calls this some thousand times in a recording
            if event == "call":
                number = id(frame.f_code)
                if (known := codes.get(number)) is None:
                    known = codes[number] = _judge(frame)
                    if own is not None and known.is_own and known.code not in own:
                        known = codes[number] = known._replace(is_foreign=True)
                    if known.is_own and self.recorder.is_scheduling:  # which is noted as a whole
                        known = codes[number] = known._replace(is_own=False)
                    if known.code in handlers:
                        self.recorder.stop("a signal handler runs in the middle of it", "once")
                if known.is_foreign:
                    self._look(frame.f_back, frame.f_code)
                is_of_library = not (known.is_inside or known.is_own)
                if is_of_library and number not in called and _is_called_by_own(frame.f_back):
                    called[number] = known.code
            elif event == "c_call":
                known = codes.get(id(frame.f_code))
                is_judged = known is None or not known.is_inside or function in _EFFECTS
                if known is not None and known.is_own:
                    self.recorder.lines[id(getattr(function, "__self__", None))] = user_line()
                if is_judged and not computes(function):
                    self._look(frame, function)

        return see

    def _look(self, frame, called):
        """Stop the recorder if the program itself or gpugrad has made this call.

        frame: where the call was made.
        """
        # Python calls these whenever it collects garbage, whatever runs then.
        callbacks = [getattr(function, "__code__", None) for function in gc.callbacks]
        is_code = type(called) is types.CodeType
        is_deleting = is_code and called.co_name == "__del__"
        while frame is not None and not is_deleting and called not in callbacks:
            name, code = frame.f_globals.get("__name__") or "", frame.f_code
            # A module is being imported, or an object deleted that has nothing to do with this.
            is_deleted = code.co_name == "__del__" and code not in (self._own or ())
            if is_deleted or code.co_name == "<module>" or code in callbacks:
                return
            is_owned, is_inside = is_own(name), name.partition(".")[0] == "gpugrad"
            is_unseen = is_code and self._own is not None and code not in self._own
            # Code that was not found was itself looked at when it was called.
            if (is_owned and is_unseen) or name == "gpugrad._foreign_names":
                frame = frame.f_back
                continue
            is_restoring = code.co_qualname.startswith(_RESTORING) and not is_owned
            if name.startswith(_QUIET) or is_restoring:
                return
            if is_owned or (is_inside and called in _EFFECTS):
                called = getattr(called, "co_name", None) or called.__name__
                what = f"it calls {called}; compile cannot see what that reads or changes, so call "
                what += "it outside: return what it needs, or pass its result as an argument"
                self.recorder.stop(what, "once")
            if is_owned or is_inside:
                return
            frame = frame.f_back
