"""The table of NumPy's functions: what each is for Tensors, under NumPy's name and signature.

Both ways to a function go through it: ``gpugrad.numpy.pad(x, 2)``, which `of_numpy` makes, and
``numpy.pad(x, 2)``, which NumPy hands over (`gpugrad.numpy._protocols`).
"""

from functools import cache, update_wrapper
from inspect import Parameter, signature
from sys import maxsize
from types import FunctionType
from typing import Any

from .._creation import holds_tensor
from .._tensor import Tensor
from ..backends.numpy import library as numpy
from ._tensors import tensor

# The functions for calls in which there is a Tensor, by NumPy's names, as "pad" or "linalg.norm".
FUNCTIONS: dict[str, Any] = {}
# The names of functions that take sequences of arrays.
OF_SEQUENCES: set[str] = set()
# For each function that is a reduction, the op.
REDUCTIONS: dict[str, Any] = {}


def of_numpy(*names, of_sequence=False, reduction=None):
    """Enter a function in the table, under its own name or these, and return NumPy's with it.

    The decorated function is for calls in which there is a Tensor. It has NumPy's positional
    parameters, in order, up to the last one that it takes; others are refused unless they have
    their default values. The function that is returned passes calls without Tensors on to NumPy.

    of_sequence: whether the function takes sequences of arrays. For all others, lists and tuples
        that have Tensors in them become Tensors.
    reduction: the op that equals the function for floating Tensors, axes and ``keepdims``. Such
        calls, which are by far the most frequent, go to the op directly.
    """

    def decorated(own):
        keys = names or (own.__name__.strip("_"),)
        enter({" ".join(keys): own}, of_sequence=of_sequence)
        if reduction is not None:
            REDUCTIONS.update(dict.fromkeys(keys, reduction))
        return public(keys[0])

    return decorated


def enter(table: dict[str, Any], of_sequence: bool = False) -> None:
    """Enter functions for calls in which there is a Tensor, by NumPy's names; see `of_numpy`."""
    for names, own in table.items():
        first, *_ = keys = names.split()
        own.__name__ = own.__qualname__ = first.rpartition(".")[2]  # for errors about arguments
        FUNCTIONS.update(dict.fromkeys(keys, own))
        if of_sequence:
            OF_SEQUENCES.update(keys)


def enter_functions(module: dict[str, Any]) -> None:
    """Enter all functions that a module, given by its names, defines without a leading underscore.

    They serve as decorated by `of_numpy`, and the module's names then stand for NumPy's functions.
    """
    path = module["__name__"]
    for name, x in [*module.items()]:
        if name[0] != "_" and isinstance(x, FunctionType) and x.__module__ == path:
            module[name] = of_numpy()(x)


def lookup(name):
    """NumPy's object of a name such as "linalg.norm"; None if this version of NumPy lacks it."""
    found = numpy
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def name_of(function):
    """NumPy's name for a function or a ufunc, as the table has it; None for all else."""
    if isinstance(function, numpy.ufunc):
        return function.__name__
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    if not isinstance(module, str) or module.split(".")[0] != "numpy":
        return None
    return f"{module}.{name}".removeprefix("numpy.")


@cache
def public(name):
    """NumPy's function of this name, which calls the one in the table for a Tensor.

    Subclasses of Tensor, and Tensors in other places, reach that function by NumPy's protocols.
    """
    function, own = lookup(name), FUNCTIONS[name]
    if function is None:
        return own
    if isinstance(function, numpy.ufunc) and function.nin < 3 and function.nout == 1:
        wrapper = (_of_one if function.nin == 1 else _of_two)(function, own)
        for part in ("accumulate", "at", "outer", "reduce", "reduceat", "nin", "nout", "identity"):
            setattr(wrapper, part, getattr(function, part))
    else:
        wrapper = _of_any(function, own, name in OF_SEQUENCES)
    if name in REDUCTIONS:
        wrapper = _of_reduction(wrapper, REDUCTIONS[name])
    return update_wrapper(wrapper, function)


def _of_reduction(of_any, op):
    def wrapper(a, axis=None, *args, **keywords):
        # What has a node is floating.
        if type(a) is Tensor and a.node is not None and not args:
            if not keywords:
                return op(a, axis=axis)
            if len(keywords) == 1 and "keepdims" in keywords:
                return op(a, axis=axis, keepdims=keywords["keepdims"])
        return of_any(a, axis, *args, **keywords)

    return wrapper


def _of_any(function, own, of_sequence):
    limit, names = positional(own), signature(own).parameters.keys()

    def wrapper(*args, **keywords):
        if len(args) <= limit and (not keywords or keywords.keys() <= names):
            for x in args:
                if type(x) is Tensor:
                    return own(*args, **keywords)
            if of_sequence and args and type(args[0]) in _SEQUENCES:
                for x in args[0]:
                    if type(x) is Tensor:
                        return own(*args, **keywords)
            # NumPy hands over calls for most parameters only, and would lose the graph of others.
            if any(isinstance(x, Tensor) and x.node is not None for x in keywords.values()):
                return own(*args, **keywords)
        if not of_sequence and any(map(_is_sequence_with_tensor, args)):
            return wrapper(*map(_stacked, args), **keywords)
        return function(*args, **keywords)

    return wrapper


def _is_sequence_with_tensor(x):
    return type(x) in _SEQUENCES and holds_tensor(x)


def _stacked(x):
    return tensor(x) if _is_sequence_with_tensor(x) else x


def _of_one(ufunc, own):
    def wrapper(x, /, *args, **keywords):
        if type(x) is Tensor and not (args or keywords):
            return own(x)
        return ufunc(_stacked(x), *args, **keywords)

    return wrapper


def _of_two(ufunc, own):
    def wrapper(x1, x2, /, *args, **keywords):
        kind1, kind2 = type(x1), type(x2)
        if not (args or keywords) and (
            (kind1 is Tensor and (kind2 is Tensor or kind2 in _ORDINARY))
            or (kind2 is Tensor and kind1 in _ORDINARY)
        ):
            return own(x1, x2)
        return ufunc(_stacked(x1), _stacked(x2), *args, **keywords)

    return wrapper


_SEQUENCES = list, tuple
_ORDINARY = {int, float, complex, bool, numpy.ndarray}


@cache
def positional(own):
    """How many positional arguments a function takes."""
    kinds = [p.kind for p in signature(own).parameters.values()]
    if Parameter.VAR_POSITIONAL in kinds:
        return maxsize
    return sum(k in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for k in kinds)
