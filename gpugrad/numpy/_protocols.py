"""NumPy's functions on Tensors, which NumPy hands over: ``numpy.pad(x, 2)``.

NumPy hands calls with a Tensor over by the protocols ``__array_ufunc__`` and
``__array_function__``. Functions in the table keep the graph. All others refuse tensors that
require grad or are on another device: a Tensor becomes an array, which has no graph, only if the
program asks for it. They take other tensors as ordinary arrays.
"""

from functools import cache, lru_cache, partial
from inspect import signature

from .._arguments import leaves_in, map_tensors, mapped
from .._foreign_names import INSTEAD
from .._tensor import Tensor
from ..autograd import call
from ..autograd.operation import exports
from ..backends import backend_of, is_foreign, namespace_of
from ..backends.numpy import ufunc_module
from ._namespace import FUNCTIONS, maker_of
from ._table import name_of, positional
from ._tensors import constant, gg, tensor, tensors

REDUCE = {
    "add": "sum", "logaddexp": "logsumexp", "logical_and": "all", "logical_or": "any",
    "maximum": "max", "minimum": "min", "multiply": "prod",
}  # fmt: skip
ACCUMULATE = {"add": "cumulative_sum", "multiply": "cumulative_prod"}

# NumPy itself answers these questions, from the values and without a gradient. Some are about a
# shape or a dtype.
QUESTIONS_OF_SHAPE = set(
    "can_cast common_type diag_indices_from iscomplexobj isrealobj min_scalar_type ndim "
    "result_type shape size tril_indices_from triu_indices_from einsum_path".split()
)
# The results of others are bools, counts or indices, which are constant almost everywhere.
CONSTANTS = set(
    "argpartition array_equal array_equiv digitize histogram histogram2d "
    "histogram_bin_edges histogramdd ix_ iscomplex isneginf isposinf isreal lexsort nanargmax "
    "nanargmin packbits ravel_multi_index unpackbits unravel_index".split()
)
# The rest are about text and memory.
TEXTS = set("array2string array_repr array_str may_share_memory shares_memory".split())
QUESTIONS = QUESTIONS_OF_SHAPE | CONSTANTS | TEXTS

# Functions that make arrays from constants, on the device of the argument ``like``.
MAKERS = set(
    "arange array asanyarray asarray ascontiguousarray empty eye fromfunction full identity ones "
    "tri zeros".split()
)

# Like `numpy.asarray`, these make arrays of tensors that require no gradient. SciPy relies on it.
CONVERSIONS = {"atleast_1d", "atleast_2d", "atleast_3d"}

# Functions that write into their first argument.
IN_PLACE = set("copyto fill_diagonal place put put_along_axis putmask".split())

# The defaults of ufuncs and other functions in C, which do not show them.
DEFAULTS = {"casting": "same_kind", "order": "K", "subok": True, "where": True}

# What to write for parameters that are refused.
INSTEAD_OF_PARAMETERS = {
    "dtype": "x.astype(dtype)",
    "out": "y = y + x, a new Tensor, for y += x with an array y",
    "where": "gpugrad.where(condition, x, 0)",
}


def array_ufunc(self, ufunc, method, *inputs, **keywords):
    """``Tensor.__array_ufunc__``: a ufunc of NumPy or SciPy, or a method of it, by ops."""
    for x in inputs + keywords.get("out", ()):
        if type(x) is not Tensor and is_foreign(type(x), "__array_ufunc__"):
            return NotImplemented
    shown, own = _of_ufunc(ufunc, method)
    args, given = inputs, keywords
    if method == "outer":
        x1, x2 = tensors(*inputs)
        args = gg.reshape(x1, x1.shape + (1,) * x2.ndim), x2
    elif method != "__call__":
        given = {"axis": 0} | keywords
    args = [tensor(x, self) if isinstance(x, (list, tuple)) else x for x in args]
    raw = ufunc if method == "__call__" else getattr(ufunc, method)
    written = inputs[: method == "at"]
    return _call(shown, own, args, given, {}, partial(raw, *inputs, **keywords), written)


@lru_cache(1000)
def _of_ufunc(ufunc, method):
    """The name of a ufunc's method in errors, and the function that computes it, or None."""
    module, name = ufunc_module(ufunc), ufunc.__name__
    if method in ("__call__", "outer"):
        if module is None:  # a ufunc of another library, whatever its name
            return name, None
        own = FUNCTIONS.get(name) if module == "numpy" else getattr(gg.special, name, None)
        return f"{module}.{name}", own
    table = {"reduce": REDUCE, "accumulate": ACCUMULATE}.get(method, {})
    own = exports().get(table.get(name)) if module == "numpy" else None
    return f"{module}.{name}.{method}", own


def array_function(self, function, types, args, keywords):
    """``Tensor.__array_function__``: any other function of NumPy, by the one of its name."""
    if any(is_foreign(kind, "__array_function__") for kind in types):
        return NotImplemented
    name = name_of(function)
    if name in QUESTIONS:
        if name.startswith("histogram"):
            _check_weights(name, function, args, keywords)
        raw = _of_shape if name in QUESTIONS_OF_SHAPE else _values
        return _as_tensors(function(*map(raw, args), **{k: raw(v) for k, v in keywords.items()}))
    if name in MAKERS:  # the tensor is the argument `like`
        found = maker_of(name)(*args, **keywords)
        return found if isinstance(found, Tensor) else constant(found, self)
    own, shown = FUNCTIONS.get(name), f"{function.__module__}.{function.__name__}"
    parameters = _parameters(function)
    written = args[:1] if name in IN_PLACE else ()
    raw = partial(function, *args, **keywords)
    if name in CONVERSIONS and all(map(_is_constant, leaves_in(args))):
        return _on_arrays(raw)
    return _call(shown, own, args, keywords, parameters, raw, written)


def _check_weights(name, function, args, keywords):
    """Raise TypeError for weights whose gradient would be lost; places have no gradient."""
    weights = _signature(function).bind(*args, **keywords).arguments.get("weights")
    if isinstance(weights, Tensor) and weights.node is not None:
        raise TypeError(
            f"numpy.{name}: weights requires grad, which the counts do not pass on; write "
            "gpugrad.bincount(places, weights), with places from digitize, or call weights.detach()"
        )


_values = partial(map_tensors, lambda x: x.array)
_as_tensors = partial(mapped, lambda x: gg.asarray(x) if type(x) in namespace_of else x)
_with_arrays = partial(map_tensors, lambda x: x.__array__())


def _of_shape(x):
    """An array of the shape and dtype of a tensor, or other arguments as they are."""
    if type(x) in call.overriding:
        x = gg.empty_like(x)
    return _values(x)


_signature = cache(signature)


@cache
def _parameters(function):
    """The parameters of a function of NumPy; before 2.4 functions in C do not show theirs."""
    try:
        return signature(function).parameters
    except ValueError:
        return {}


def _call(shown, own, args, keywords, theirs, raw, written):
    """Call ``own`` in place of a function of NumPy, or that function if its tensors are constants.

    Raises TypeError, which says what to write instead, if neither is possible.

    shown: the name of NumPy's function for the error.
    own: the function of the table, or None.
    theirs: the parameters of NumPy's function, if they are known.
    raw: NumPy's function with these arguments.
    written: arguments other than ``out`` that it writes into; none of them may be a tensor.
    """
    reason = instead = None
    if own is None:
        name = shown.removeprefix("numpy.")
        reason = "there is no such function of Tensors"
        instead = INSTEAD["numpy"].get(name) or INSTEAD["gpugrad"].get(name)
    else:
        parameters, limit, given = _signature(own).parameters, positional(own), {}
        if len(args) > limit:
            names = [*theirs] or [f"argument {i}" for i, _ in enumerate(args, 1)]
            keywords = dict(zip(names[limit:], args[limit:], strict=False)) | keywords
            args = args[:limit]
        for key, value in keywords.items():
            if key in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                given[key] = value
            elif not _is_default(key, value, theirs):
                reason, instead = f"it takes no {key} with Tensors", INSTEAD_OF_PARAMETERS.get(key)
        if reason is None:
            return own(*args, **given)
    values = leaves_in((raw.args, raw.keywords))
    if all(map(_is_constant, values)) and not any(isinstance(x, Tensor) for x in written):
        return _on_arrays(raw)
    options = [f"write {instead}"] if instead else []
    options.append("call it on x.detach().numpy() for a result without gradient")
    raise TypeError(f"{shown}: {reason}; {', or '.join(options)}")


def _is_default(name, value, theirs):
    default = getattr(theirs.get(name), "default", DEFAULTS.get(name))
    return value is None or (type(value) is type(default) and value == default)


def _on_arrays(raw):
    """Call NumPy's function with arrays in place of Tensors, which are constants on the CPU.

    If ``out`` is a Tensor, the result is assigned to it, as by ``out[...] = result``.
    """
    out = raw.keywords.get("out")
    outs = out if isinstance(out, tuple) else (out,)
    arrays = [x.__array__(copy=True) if isinstance(x, Tensor) else x for x in outs]
    keywords = _with_arrays({k: v for k, v in raw.keywords.items() if k != "out"})
    if out is not None:
        keywords["out"] = tuple(arrays) if isinstance(out, tuple) else arrays[0]
    result = raw.func(*_with_arrays(raw.args), **keywords)
    for x, array in zip(outs, arrays, strict=True):
        if isinstance(x, Tensor):
            x[...] = backend_of[type(x.array)].asarray(array, device=x.device)
            result = x if result is array else result
    return result


def _is_constant(x):
    """Whether x is no Tensor, or one on the CPU that requires no gradient."""
    if type(x) in call.overriding:
        return False
    return not isinstance(x, Tensor) or (x.node is None and not x.device.startswith("cuda"))


Tensor.__array_ufunc__ = array_ufunc  # type: ignore[method-assign]
Tensor.__array_function__ = array_function  # type: ignore[method-assign]
