"""NumPy's functions on Tensors: each is the function of its name here, and keeps the graph.

NumPy hands calls with a Tensor over by the protocols ``__array_ufunc__`` and
``__array_function__``. What has no counterpart here is refused if a Tensor requires grad: it never
becomes an array, which has no graph, unasked. Tensors on the CPU that require no gradient are
ordinary arrays to such a function, which then returns NumPy's result.
"""

from functools import cache, lru_cache, wraps
from inspect import signature

from .._foreign_names import INSTEAD, OF_NUMPY, RENAMED
from .._tensor import Tensor
from ..autograd import call
from ..autograd.operation import exports
from ..backends import backend_of, is_foreign, namespace_of
from ..backends.numpy import ufunc_module

REDUCE = {
    "add": "sum",
    "logaddexp": "logsumexp",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}
ACCUMULATE = {"add": "cumulative_sum", "multiply": "cumulative_prod"}

FLATTENING = {"argsort", "cumprod", "cumsum", "sort"}  # where NumPy's axis is None
LIKE = {"full_like", "ones_like", "zeros_like"}  # no ops, but of tensors all the same

# Answered by NumPy about the values: no gradient can be lost in a bool, a dtype or text.
QUESTIONS_OF_SHAPE = set("can_cast iscomplexobj isrealobj ndim result_type shape size".split())
QUESTIONS = QUESTIONS_OF_SHAPE | {
    *("allclose", "array2string", "array_equal", "array_equiv", "array_repr", "array_str"),
    *("isclose", "may_share_memory", "shares_memory"),
}

# As `numpy.asarray`, these make arrays of tensors that require no gradient.
CONVERSIONS = {"atleast_1d", "atleast_2d", "atleast_3d"}

# What to write for parameters that are refused.
INSTEAD_OF_PARAMETERS = {
    "compute_uv": "gpugrad.linalg.svdvals(x)",
    "decimals": "gpugrad.round(x * 10**decimals) / 10**decimals",
    "dtype": "x.astype(dtype)",
    "out": "y = y + x, a new Tensor, for y += x with an array y",
    "where": "gpugrad.where(condition, x, 0)",
}


def array_ufunc(self, ufunc, method, *inputs, **keywords):
    """``Tensor.__array_ufunc__``: a ufunc of NumPy or SciPy, or a method of it, by ops."""
    for x in inputs + keywords.get("out", ()):
        if type(x) is not Tensor and is_foreign(type(x), "__array_ufunc__"):
            return NotImplemented
    given = inputs, keywords
    if method == "outer":
        x1, x2 = map(call.namespace.asarray, inputs)
        inputs = call.namespace.reshape(x1, x1.shape + (1,) * x2.ndim), x2
    elif method != "__call__":
        keywords = {"axis": 0} | keywords
    shown, counterpart = _of_ufunc(ufunc, method)
    try:
        return _call(shown, counterpart, inputs, keywords)
    except _Refused as refused:
        return _on_arrays(refused, self, getattr(ufunc, method), *given)


@lru_cache(1000)
def _of_ufunc(ufunc, method):
    """What errors call a method of a ufunc, and its counterpart here, or None."""
    module, name = ufunc_module(ufunc), ufunc.__name__
    if method in ("__call__", "outer"):
        if module is None:  # of the same name, maybe, but who knows what it does
            return name, None
        shown = f"{module}.{name}"
        name = shown.removeprefix("numpy.").removeprefix("scipy.")
        return shown, ANSWERS.get(name) or _counterpart(name)
    table = {"reduce": REDUCE, "accumulate": ACCUMULATE}.get(method, {})
    return f"{module}.{name}.{method}", _counterpart(table.get(name)) if module == "numpy" else None


def array_function(self, function, types, args, keywords):
    """``Tensor.__array_function__``: any other function of NumPy, by the one of its name."""
    if any(is_foreign(kind, "__array_function__") for kind in types):
        return NotImplemented
    shown = f"{function.__module__}.{function.__name__}"
    try:
        if function.__name__ in CONVERSIONS and _are_constants(args):
            raise _Refused
        return _of_function(function, shown, args, keywords)
    except _Refused as refused:
        return _on_arrays(refused, self, function, args, keywords)


def _of_function(function, shown, args, keywords):
    name = shown.removeprefix("numpy.")
    if name in QUESTIONS:
        raw = _of_shape if name in QUESTIONS_OF_SHAPE else _raw
        answer = function(*map(raw, args), **{k: raw(v) for k, v in keywords.items()})
        return call.namespace.asarray(answer) if type(answer) in namespace_of else answer
    if name in ANSWERS:
        return _call(shown, ANSWERS[name], args, keywords)
    counterpart = _counterpart(name)
    if counterpart is not None:
        args, keywords = _translate(function, counterpart, args, keywords)
    return _call(shown, counterpart, args, keywords)


def _raw(x):
    return x.array if isinstance(x, Tensor) else x


def _of_shape(x):
    """An array of the shape and dtype of a tensor, or other arguments as they are."""
    if type(x) in call.overriding:
        x = call.namespace.empty_like(x)
    return _raw(x)


@cache
def _counterpart(name):
    """What a function or ufunc of NumPy is here; None if it is nothing."""
    name = OF_NUMPY.get(name, name) or ""
    room, _, own = name.rpartition(".")
    if name in LIKE:
        return getattr(call.namespace, name)
    if room and not hasattr(call.namespace, room):  # imports it if it is there
        return None
    return exports(room).get(own) or (exports().get(own) if room == "linalg" else None)


_signature = cache(signature)


def _translate(function, counterpart, args, keywords):
    """Arguments of NumPy's ``function``, as its counterpart takes them, but those that default."""
    parameters = _signature(function).parameters
    given = _signature(function).bind(*args, **keywords).arguments
    arrays, named = [], {}
    for name, value in given.items():
        kind = parameters[name].kind
        if kind is kind.VAR_POSITIONAL:
            arrays += value
        elif kind is kind.VAR_KEYWORD:
            named |= value
        elif len(arrays) < _required(counterpart):
            arrays.append(value)
        elif value is not parameters[name].default:
            named[RENAMED.get(name, name)] = value
    if function.__name__ in FLATTENING and given.get("axis", parameters["axis"].default) is None:
        arrays[0] = call.namespace.reshape(call.namespace.asarray(arrays[0]), (-1,))
        named["axis"] = 0
    return arrays, named


@cache
def _required(counterpart):
    """How many arguments a function here has that are arrays and not optional."""
    if hasattr(counterpart, "op"):
        return counterpart.op.required
    return sum(p.kind is p.POSITIONAL_ONLY for p in _signature(counterpart).parameters.values())


def _call(shown, function, args, keywords):
    """What ``function`` answers for the one of NumPy that is ``shown``, if it can."""
    if function is None:
        name = shown.removeprefix("numpy.")
        instead = INSTEAD["numpy"].get(name) or INSTEAD["gpugrad"].get(name)
        raise _refusal(shown, "there is no such function of Tensors", instead)
    if keywords:
        known, keywords = _signature(function).parameters, dict(keywords)
        for name in keywords.keys() - known.keys():
            value = keywords.pop(name)
            if value is not None and not (name == "where" and value is True):
                instead = INSTEAD_OF_PARAMETERS.get(name)
                raise _refusal(shown, f"it takes no {name} with Tensors", instead)
    return function(*args, **keywords)


def _refusal(shown, reason, instead):
    options = [f"write {instead}"] if instead else []
    options.append("call it on x.detach().numpy() for a result without gradient")
    return _Refused(f"{shown}: {reason}; {', or '.join(options)}")


class _Refused(TypeError):
    """The error for a call that has no counterpart here."""


def _on_arrays(refused, self, function, args, keywords):
    """What NumPy's function returns if all Tensors are constants on the CPU; else an error.

    self: one of the Tensors, which may be in neither ``args`` nor ``keywords`` (``like=``).

    A result in ``out=`` is assigned to a Tensor there, as ``out[...] = result``.
    """
    if not _are_constants((self, args, keywords)):
        raise TypeError(str(refused)) from None
    out = keywords.get("out")
    is_tuple = isinstance(out, tuple)
    outs = out if is_tuple else (out,)
    arrays = [x.__array__(copy=True) if isinstance(x, Tensor) else x for x in outs]
    keywords = _with_arrays({k: v for k, v in keywords.items() if k != "out"})
    if out is not None:
        keywords["out"] = tuple(arrays) if is_tuple else arrays[0]
    result = function(*_with_arrays(args), **keywords)
    for x, array in zip(outs, arrays, strict=True):
        if isinstance(x, Tensor):
            x[...] = backend_of[type(x.array)].asarray(array, device=x.device)
            result = x if result is array else result
    return result


def _are_constants(x):
    """Whether each Tensor in nested containers is on the CPU and requires no gradient."""
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, (list, tuple)):
        return all(map(_are_constants, x))
    if type(x) in call.overriding:
        return False
    return not isinstance(x, Tensor) or (x.node is None and not x.device.startswith("cuda"))


def _with_arrays(x):
    """The same containers with NumPy arrays in place of Tensors."""
    if isinstance(x, dict):
        return {key: _with_arrays(value) for key, value in x.items()}
    if type(x) in (list, tuple):
        return type(x)(map(_with_arrays, x))
    return x.__array__() if isinstance(x, Tensor) else x


# Functions of NumPy that are no single one here, in terms of those.

ANSWERS: dict = {}


def _answers(name):
    def keep(function):
        @wraps(function)
        def answer(*args, **keywords):
            return function(call.namespace, *args, **keywords)

        ANSWERS[name] = answer
        return function

    return keep


@_answers("divmod")
def _divmod(xp, x1, x2):
    return xp.floor_divide(x1, x2), xp.remainder(x1, x2)


@_answers("where")
def _where(xp, condition, x=None, y=None):
    return xp.nonzero(condition) if x is None else xp.where(condition, x, y)


@_answers("concatenate")
def _concatenate(xp, arrays, axis=0):
    return xp.concat(arrays, axis=axis)


@_answers("hstack")
def _hstack(xp, tup):
    arrays = [xp.reshape(x, x.shape or (1,)) for x in map(xp.asarray, tup)]
    return xp.concat(arrays, axis=0 if arrays[0].ndim == 1 else 1)


@_answers("vstack")
def _vstack(xp, tup):
    arrays = map(xp.asarray, tup)
    return xp.concat([xp.reshape(x, (1, x.size)) if x.ndim < 2 else x for x in arrays])


@_answers("take")
def _take(xp, a, indices, axis=None):
    a, indices = xp.asarray(a), xp.asarray(indices)
    if axis is None:
        a, axis = xp.reshape(a, (-1,)), 0
    axis %= a.ndim
    taken = xp.take(a, xp.reshape(indices, (-1,)), axis=axis)
    return xp.reshape(taken, a.shape[:axis] + indices.shape + a.shape[axis + 1 :])


@_answers("squeeze")
def _squeeze(xp, a, axis=None):
    if axis is None:
        axis = tuple([i for i, n in enumerate(a.shape) if n == 1])
    return xp.squeeze(a, axis)


@_answers("ravel")
def _ravel(xp, a):
    return xp.reshape(a, (-1,))


@_answers("transpose")
def _transpose(xp, a, axes=None):
    return xp.permute_dims(a, tuple(range(a.ndim))[::-1] if axes is None else axes)


@_answers("swapaxes")
def _swapaxes(xp, a, axis1, axis2):
    return xp.moveaxis(a, (axis1, axis2), (axis2, axis1))


@_answers("diagonal")
def _diagonal(xp, a, offset=0, axis1=0, axis2=1):
    return xp.linalg.diagonal(xp.moveaxis(a, (axis1, axis2), (-2, -1)), offset=offset)


@_answers("trace")
def _trace(xp, a, offset=0, axis1=0, axis2=1, dtype=None):
    return xp.linalg.trace(xp.moveaxis(a, (axis1, axis2), (-2, -1)), offset=offset, dtype=dtype)


@_answers("cross")
def _cross(xp, a, b, *, axis=-1):
    return xp.linalg.cross(a, b, axis=axis)


@_answers("outer")
def _outer(xp, a, b):
    return xp.linalg.outer(xp.reshape(a, (-1,)), xp.reshape(b, (-1,)))


@_answers("dot")
def _dot(xp, a, b):
    a, b = xp.asarray(a), xp.asarray(b)
    if not (a.ndim and b.ndim):
        return a * b
    return xp.tensordot(a, b, axes=((-1,), (max(b.ndim - 2, 0),)))


@_answers("tensordot")
@_answers("linalg.tensordot")
def _tensordot(xp, a, b, axes=2):
    if not isinstance(axes, int):
        axes = tuple([(axis,) if isinstance(axis, int) else tuple(axis) for axis in axes])
    return xp.tensordot(a, b, axes=axes)


@_answers("einsum")
def _einsum(xp, subscripts, *operands, optimize=None):
    return xp.einsum(subscripts, *operands)


@_answers("linalg.norm")
def _norm(xp, x, ord=None, axis=None, keepdims=False):
    if ord is None or isinstance(axis, int) or (axis is None and x.ndim == 1):
        return xp.linalg.vector_norm(x, ord=2 if ord is None else ord, axis=axis, keepdims=keepdims)
    axes = (0, 1) if axis is None else axis
    if len(axes) == 2 and (axis is not None or x.ndim == 2):
        x = xp.moveaxis(x, axes, (-2, -1))
        norm = xp.linalg.matrix_norm(x, ord=ord, keepdims=keepdims)
        return xp.moveaxis(norm, (-2, -1), axes) if keepdims else norm
    raise ValueError(f"norm: ord {ord!r} is of vectors and matrices; give one axis or two")
