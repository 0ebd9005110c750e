"""Which modules belong to libraries, and which functions of libraries and in C only compute."""

import functools
import os
import sys
import sysconfig
import types

_PLACES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
_STDLIB = os.path.dirname(os.__file__)
_LIBRARIES = (sys.stdlib_module_names - {"__main__"}) | {
    "gpugrad", "numpy", "cupy", "cupyx", "torch", "scipy", "jax", "optree", "matplotlib", "sklearn",
    "array_api_strict", "array_api_compat", "einops", "pytest",
}  # fmt: skip
# Modules whose functions only compute: they neither keep state nor read that of the process.
_COMPUTING = {
    "builtins", "math", "cmath", "operator", "itertools", "functools", "collections", "abc",
    "collections_abc", "heapq", "bisect", "statistics", "struct", "json", "codecs", "string", "re",
    "sre", "pickle", "copy", "copyreg", "datetime", "fractions", "numbers", "unicodedata",
    "zlib", "binascii", "base64", "hashlib", "array", "types", "typing", "enum", "dataclasses",
    "annotationlib", "contextlib", "weakref", "warnings", "os", "posixpath", "ntpath",
    "genericpath", "pathlib", "reprlib", "textwrap", "inspect", "uuid", "argparse", "numpy",
    "scipy", "cupy", "cupyx", "cupy_backends", "gpugrad", "einops", "optree",
}  # fmt: skip
# Functions in C of these modules that do more, and functions of other modules that do not.
_REACHING = {
    "print", "open", "input", "breakpoint", "eval", "exec", "compile", "globals", "__import__",
    "__subclasses__", "now", "utcnow", "today", "seed", "warn", "warn_explicit", "_filters_mutated",
    "fromfile", "tofile", "timestamp", "fromtimestamp", "astimezone",
}  # fmt: skip
_MAKERS, _MADE_BY_PYTHON = {"types", "abc", "builtins"}, 1 << 9  # a flag of classes
_NAMED_TUPLE = "namedtuple_"  # so begin the modules of the functions that make named tuples
_HARMLESS = {"fspath", "_path_normpath", "exc_info", "exception", "intern", "getsizeof"}


@functools.cache
def is_own(name):
    """Whether a module, by its name, is part of the program rather than of a library."""
    top = name.partition(".")[0] if isinstance(name, str) else ""
    file = getattr(sys.modules.get(top), "__file__", None)
    if top.startswith(_NAMED_TUPLE):
        return False
    if top not in _LIBRARIES:
        return not (file or "").startswith(_PLACES) or "site-packages" not in (file or "")
    # A module of the program may have the name of one of the standard library.
    return top in sys.stdlib_module_names and not (file or _STDLIB).startswith(_STDLIB)


@functools.cache
def takes_stand_ins(name):
    """Whether the functions of a module are known to take traced arrays like real ones."""
    top = name.partition(".")[0]
    is_known = top in sys.stdlib_module_names or (only_computes(top) and top != "scipy")
    return is_known or is_own(name)


def module_of(x):
    """The name of the module that defines a class or a function; "" for a class of the program
    that has the name of the module that made it, such as `types.new_class`."""
    name = getattr(x, "__module__", None)
    if name in _MAKERS and isinstance(x, type) and x.__flags__ & _MADE_BY_PYTHON:
        return name if hasattr(sys.modules[name], x.__name__) else ""
    return name if isinstance(name, str) else "builtins"


def reaches_out(name):
    """Whether classes of a module of the standard library may do more than compute."""
    return name.partition(".")[0] in sys.stdlib_module_names and not only_computes(name)


def only_computes(name):
    """Whether the functions of a module are known to only compute."""
    top = name.partition(".")[0].removeprefix("_")
    if name.startswith("numpy.random"):
        return False
    return top in _COMPUTING or top.startswith(_NAMED_TUPLE)


def computes(function):
    """Whether a function in C, or a method of an object in C, only computes."""
    owner, name = function.__self__, function.__name__
    if name in _REACHING or name in _HARMLESS:
        return name in _HARMLESS
    if owner is None or type(owner) is types.ModuleType:
        return only_computes(module_of(function))
    kinds = (owner if isinstance(owner, type) else type(owner)).__mro__
    return all(is_own(kind.__module__) or only_computes(kind.__module__) for kind in kinds)


@functools.lru_cache(1000)
def slots_of(kind):
    """The names of the slots of instances of a class."""
    found = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if is_private else name)
    return [name for name in found if not name.startswith("__")]
