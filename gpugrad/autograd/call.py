"""Calling an op: unwrap the operands, run the forward, wrap and record the result.

There is one form of call for each form of signature. The unary and the binary form are the hot
path. The op's implementation and its plans have decided beforehand what does not depend on the
call, and the few lines that make a tensor and a node are written out in full.
"""

import math
from collections.abc import Callable
from typing import Any

from .._foreign_names import RENAMED, HidesMissingNames
from .._thread_state import paused, thread
from ..backends import SCALARS, adopt, backend_of, is_foreign, match_dtypes, namespace_of
from ..backends.dtypes import complex64, float32
from .casting import Recast, recast
from .graph import Node, make_node, next_order
from .implementation import implementation_of
from .plan import OutputPlan

Tensor: Any = None  # the Tensor class, once `install`ed
namespace: Any = None  # gpugrad itself: the `xp` of rules under create_graph

# For each subclass of Tensor that answers ops itself, its function ``(op, args, static)``; see
# `Tensor.__op__`.
overriding: dict[type, Callable[..., Any]] = {}


def install(tensor_class, tensor_namespace):
    """Tell ops which class to wrap results in. The package calls this when it is imported."""
    global Tensor, namespace
    Tensor, namespace = tensor_class, tensor_namespace


def unary(op):
    implementations, differentiable = op.implementations, op.differentiable

    def call(x, /):
        if type(x) is Tensor:
            array = x.array
            parent = x.node
        elif type(x) in overriding:
            return overriding[type(x)](op, (x,), {})
        else:
            array, parent = _unwrap(op, x)
        kind = type(array)
        try:
            implementation = implementations[kind]
        except KeyError:
            implementation = _implementation(op, kind, (array,))
        if parent is None or (paused and not thread.recording) or not differentiable:
            order = None
        else:
            order = next_order()
        try:
            forward = implementation.forward  # an attribute is called faster from a local name
            out = forward(implementation.xp, array)
        except Recast as cast:
            return recast(namespace, op, (x,), {}, cast)
        except Exception as error:
            raise _failure(op, error, (array,)) from _cause(op, error)
        if type(out) is not kind:
            return _finish(op, out, (array,), (parent,), 1, order, kind, {})
        result = Tensor()
        result.array = out
        if order is None:
            if out.dtype is not array.dtype:
                result.array = _in_default_dtype(op, out, (array,), {})
            result.node = None
            return result
        plan = implementation.plans[1] or implementation.plan(1)
        result.node = node = Node()
        node.order = order
        node.plan = plan
        node.parents = (parent,)
        pick = plan.pick
        node.saved = () if pick is None else pick((array, out))
        node.shape = out.shape
        node.dtype = out.dtype
        node.watch = None
        return result

    return call


def binary(op, reflected=None):
    """A call with two operands; for an operator, ``reflected`` names its reflected method."""
    implementations, differentiable = op.implementations, op.differentiable

    def call(x1, x2, /):
        if type(x1) is Tensor and type(x2) is Tensor:
            a1 = x1.array
            a2 = x2.array
            n1 = x1.node
            n2 = x2.node
            kind = type(a1)
            if a1.dtype is not a2.dtype or type(a2) is not kind:
                (a1, a2), kind = _align(op, (a1, a2))
        elif type(x1) is Tensor and type(x2) in SCALARS:
            a1 = x1.array
            a2 = x2
            n1 = x1.node
            n2 = None
            kind = type(a1)
        elif type(x2) is Tensor and type(x1) in SCALARS:
            a1 = x1
            a2 = x2.array
            n1 = None
            n2 = x2.node
            kind = type(a2)
        elif type(x1) in overriding or type(x2) in overriding:
            return (overriding.get(type(x1)) or overriding[type(x2)])(op, (x1, x2), {})
        else:
            a1, n1 = _unwrap(op, x1)
            a2, n2 = _unwrap(op, x2, reflected)
            if a2 is NotImplemented:
                return a2
            kind = type(a1)
            if kind in SCALARS:
                kind = type(a2)
            elif type(a2) not in SCALARS and (type(a2) is not kind or a1.dtype is not a2.dtype):
                (a1, a2), kind = _align(op, (a1, a2))
        try:
            implementation = implementations[kind]
        except KeyError:
            implementation = _implementation(op, kind, (a1, a2))
        if (n1 is None and n2 is None) or (paused and not thread.recording) or not differentiable:
            order = None
        else:
            order = next_order()
        try:
            forward = implementation.forward
            out = forward(implementation.xp, a1, a2)
        except Recast as cast:
            return recast(namespace, op, (x1, x2), {}, cast)
        except Exception as error:
            raise _failure(op, error, (a1, a2)) from _cause(op, error)
        if type(out) is not kind:
            parents = [n for n in (n1, n2) if n is not None]
            wanted = (n1 is not None) + 2 * (n2 is not None)
            return _finish(op, out, (a1, a2), parents, wanted, order, kind, {})
        result = Tensor()
        result.array = out
        if order is None:
            if out.dtype is not float32 and out.dtype is not getattr(a1, "dtype", None):
                result.array = _in_default_dtype(op, out, (a1, a2), {})
            result.node = None
            return result
        if n2 is None:
            plan = implementation.plans[1] or implementation.plan(1)
            parents = (n1,)
        elif n1 is None:
            plan = implementation.plans[2] or implementation.plan(2)
            parents = (n2,)
        else:
            plan = implementation.plans[3] or implementation.plan(3)
            parents = (n1, n2)
        result.node = node = Node()
        node.order = order
        node.plan = plan
        node.parents = parents
        pick = plan.pick
        node.saved = () if pick is None else pick((a1, a2, out))
        node.shape = out.shape
        node.dtype = out.dtype
        node.watch = None
        return result

    return call


def unary_static(op):
    implementations, differentiable = op.implementations, op.differentiable
    defaults, n_static = op.static_defaults, len(op.static_names)

    def call(x, /, *args, **static):
        if args:
            _name_positional(op, args, static)
        if len(static) < n_static:
            static = {**defaults, **static}
        if type(x) is Tensor:
            array = x.array
            parent = x.node
        elif type(x) in overriding:
            return overriding[type(x)](op, (x,), static)
        else:
            array, parent = _unwrap(op, x)
        kind = type(array)
        try:
            implementation = implementations[kind]
        except KeyError:
            implementation = _implementation(op, kind, (array,))
        if parent is None or (paused and not thread.recording) or not differentiable:
            order = None
        else:
            order = next_order()
        try:
            forward = implementation.forward
            out = forward(implementation.xp, array, **static)
        except Recast as cast:
            return recast(namespace, op, (x,), static, cast)
        except Exception as error:
            raise _failure(op, error, (array,), static) from _cause(op, error)
        if type(out) is not kind:
            if isinstance(out, tuple):
                return _finish_several(op, out, (array,), (parent,), 1, order, kind, static)
            if type(out) not in namespace_of:
                out = _as_array(op, out, kind)
            kind = type(out)  # differs if the op moves its input to another library's device
        result = Tensor()
        result.array = out
        if order is None or not backend_of[kind].is_floating(out.dtype):
            if out.dtype is not array.dtype:
                result.array = _in_default_dtype(op, out, (array,), static)
            result.node = None
            return result
        plan = implementation.plans[1] or implementation.plan(1)
        result.node = node = Node()
        node.order = order
        node.plan = plan
        node.parents = (parent,)
        pick = plan.pick
        node.saved = () if pick is None else pick((array, out, static))
        node.shape = out.shape
        node.dtype = out.dtype
        node.watch = None
        return result

    return call


def general(op):
    implementations, differentiable, inputs = op.implementations, op.differentiable, op.inputs
    required, variadic = op.required, op.variadic
    n_inputs, defaults, n_static = len(inputs), op.static_defaults, len(op.static_names)
    optional = math.inf if variadic else 1 << required  # the bit of the first that may be None
    keep_dtype = 0 if variadic else sum(1 << inputs.index(name) for name in op.integer)

    def call(*args, **static):
        n = len(args)
        if n != n_inputs:
            _name_positional(op, args[n_inputs:], static)
            args = args[:n_inputs] + tuple([static.pop(name, None) for name in inputs[n:]])
            if any(x is None for x in args[:required]):
                raise TypeError(f"{op.name}: needs {', '.join(inputs[:required])}")
        if variadic:
            args = tuple(args[0])
        if len(static) < n_static:
            static = {**defaults, **static}

        arrays, parents, wanted, bit = [], [], 0, 1
        kind = dtype = None
        aligned = True
        for x in args:
            if type(x) is Tensor:
                array = x.array
                parent = x.node
            elif x is None:
                if bit < optional:
                    name = inputs[0 if variadic else len(arrays)]
                    raise TypeError(f"{op.name}: None was given for {name}; is a return missing?")
                array = parent = None
            elif type(x) in overriding:
                return overriding[type(x)](op, args, static)
            else:
                array, parent = _unwrap(op, x)
            arrays.append(array)
            if parent is not None:
                parents.append(parent)
                wanted |= bit
            if array is not None and type(array) not in SCALARS:
                if kind is None:
                    kind = type(array)
                elif type(array) is not kind:
                    aligned = False
                if not bit & keep_dtype:
                    if dtype is None:
                        dtype = array.dtype
                    elif array.dtype is not dtype:
                        aligned = False
            bit <<= 1
        if not aligned:
            arrays, kind = _align(op, arrays)
        try:
            implementation = implementations[kind]
        except KeyError:
            implementation = _implementation(op, kind, arrays)
        if not wanted or (paused and not thread.recording) or not differentiable:
            order = None
        else:
            order = next_order()
        try:
            forward = implementation.forward
            out = forward(implementation.xp, *arrays, **static)
        except Recast as cast:
            return recast(namespace, op, args, static, cast)
        except Exception as error:
            raise _failure(op, error, arrays, static) from _cause(op, error)
        return _finish(op, out, arrays, parents, wanted, order, kind, static)

    return call


def _implementation(op, kind, arrays):
    """The implementation for a type that the op has not met yet; an error if it is no array."""
    if kind not in namespace_of:
        raise _failure(op, TypeError(), arrays) from None
    return implementation_of(op, kind)


def _name_positional(op, args, static):
    """Add static parameters that were given by position to the dict ``static``, by their names."""
    known = op.static_positional
    if len(args) > len(known):
        raise TypeError(f"{op.name}: {_too_many(op, known, len(op.inputs) + len(args))}")
    for name, value in zip(known, args, strict=False):
        if name in static:
            raise TypeError(f"{op.name}: got two values for {name}")
        static[name] = value


def _too_many(op, known, number):
    """Why an op takes fewer positional arguments than ``number``."""
    if op.variadic:
        example = f"{op.name}([x, y]{''.join([f', {p}=...' for p in op.static_names])})"
        return f"give one sequence of arrays, others by name: {example}"
    taken, named = (*op.inputs, *known), [p for p in op.static_names if p not in known]
    return (
        f"takes at most {len(taken)} positional arguments ({', '.join(taken)}), "
        f"not {number}{'; pass others by name: ' * bool(named)}{', '.join(named)}"
    )


def _finish(op, out, arrays, parents, wanted, order, kind, static):
    """Wrap a result of any kind, such as several outputs or a scalar.

    order: the order number of its node, or None if the call is not recorded.
    """
    if type(out) is not kind:
        if isinstance(out, tuple):
            return _finish_several(op, out, arrays, parents, wanted, order, kind, static)
        if type(out) not in namespace_of:
            out = _as_array(op, out, kind)
        elif backend_of[kind].is_recorder:
            out = backend_of[kind].lifted(out)
        kind = type(out)  # differs if the op moves its input to another library's device
    result = Tensor()
    result.array = out
    if order is not None and backend_of[kind].is_floating(out.dtype):
        result.node = _node(op, out, arrays, parents, wanted, order, kind, static)
    else:
        result.array = _in_default_dtype(op, out, arrays, static)
        result.node = None
    return result


def _finish_several(op, out, arrays, parents, wanted, order, kind, static):
    named = getattr(type(out), "_make", tuple)  # a named tuple stays one
    out = tuple([a if type(a) is kind else _as_array(op, a, kind) for a in out])
    node = None
    if order is not None:
        node = _node(op, out, arrays, parents, wanted, order, kind, static)
    elif any(_is_promoted(a, arrays, static) for a in out):
        out = _computed_in_float32(op, kind, arrays, static)
    return named(wrap_outputs(out, node))


def _as_array(op, out, kind):
    """A forward's result as an array; NumPy returns scalars in place of 0-d arrays."""
    if type(out) not in SCALARS and type(out) not in backend_of:
        problem = f"its forward must return an array, not {type(out).__name__}"
        if isinstance(out, Tensor):
            problem += f"; it computes with xp, and {_takes_tensors(op)}"
        raise TypeError(f"{op.name}: {problem}")
    return backend_of[kind].asarray(out)


def _node(op, out, arrays, parents, wanted, order, kind, static):
    implementation = op.implementations.get(kind) or implementation_of(op, kind)
    if op.variadic:
        key = wanted, len(arrays)
        plan = implementation.plans.get(key) or implementation.plan(key)
    else:
        plan = implementation.plans[wanted] or implementation.plan(wanted)
    pick = plan.pick
    saved = () if pick is None else pick((*arrays, out, static))
    return make_node(plan, tuple(parents), saved, out, order)


def wrap(array, node):
    """A Tensor with a raw array and its node, a leaf, or None."""
    result = Tensor()
    result.array = array
    result.node = node
    return result


def wrap_outputs(arrays, node):
    """A tensor for each of an op's outputs; a floating one has a node that picks it."""
    results = []
    for i, array in enumerate(arrays):
        pick = None
        if node is not None and backend_of[type(array)].is_floating(array.dtype):
            pick = make_node(OutputPlan(node.plan, i), (node,), (), array)
        results.append(wrap(array, pick))
    return tuple(results)


def rewrap(node, saved, connected):
    """A node's saved values as the Tensors that they were; ``connected`` ones have their nodes."""
    plan = node.plan

    def tensor(value, i):
        if type(value) not in namespace_of:
            return value
        return wrap(value, node.parents[plan.position[i]] if connected and plan.wanted[i] else None)

    values = []
    for value, (kind, which) in zip(saved, plan.sources, strict=True):
        if kind == "input" and plan.op.variadic:
            value = tuple(tensor(v, i) for i, v in enumerate(value))
        elif kind == "input":
            value = tensor(value, which)
        elif kind == "out":
            out = node if connected else None
            value = wrap_outputs(value, out) if type(value) is tuple else wrap(value, out)
        values.append(value)
    return values if type(saved) is tuple else saved.holding(values)  # a tool's record is kept


def _unwrap(op, x, reflected=None):
    """The raw array or Python number, and the node, of an operand that is not exactly a Tensor.

    NotImplemented takes the array's place if the operand's class has its own method ``reflected``.
    Python then calls that one.
    """
    if isinstance(type(x), HidesMissingNames):  # a Tensor; isinstance(x, Tensor) takes longer
        return x.array, x.node
    if type(x) in SCALARS or type(x) in namespace_of:
        return x, None
    if reflected is not None and is_foreign(type(x), reflected):
        return NotImplemented, None
    try:
        return adopt(x), None
    except TypeError as error:
        raise TypeError(f"{op.name}: {error}") from None


def _in_default_dtype(op, out, arrays, static):
    """``out``, which is computed again in float32 if it is a floating result of integer inputs."""
    is_promoted = _is_promoted(out, arrays, static)
    return _computed_in_float32(op, type(out), arrays, static)[0] if is_promoted else out


def _is_promoted(out, arrays, static):
    """Whether ``out`` is a floating result of integer inputs for which no ``dtype`` was given.

    NumPy would return float64 for int64, and float16 for uint8.
    """
    kind, is_floating = type(out), backend_of[type(out)].is_floating
    if not is_floating(out.dtype) or static.get("dtype") is not None:
        return False
    return not any(type(a) is kind and is_floating(a.dtype) for a in arrays)


def _computed_in_float32(op, kind, arrays, static):
    """The op's results, as a tuple, with integer inputs cast to float32."""
    backend = backend_of[kind]
    xp = backend.xp
    # A bool beside other inputs is a condition.
    cast = ("bool", "integral") if len(arrays) == 1 else "integral"
    names = op.inputs * len(arrays) if op.variadic else op.inputs
    arrays = list(arrays)
    for i, (a, name) in enumerate(zip(arrays, names, strict=True)):
        if type(a) is kind and name not in op.integer and xp.isdtype(a.dtype, cast):
            arrays[i] = xp.astype(a, float32)
    out = implementation_of(op, kind).uncast(xp, *arrays, **static)
    results = []
    for a in out if isinstance(out, tuple) else (out,):
        a = backend.asarray(a)
        if backend.is_floating(a.dtype):
            a = xp.astype(a, complex64 if backend.is_complex(a.dtype) else float32, copy=False)
        results.append(a)
    return tuple(results)


def _align(op, arrays):
    """The arrays, with integers cast to the dtype of floating ones, and the type of the arrays."""
    kinds = {type(a) for a in arrays if a is not None and type(a) not in SCALARS}
    if len(kinds) > 1:  # while a function is recorded, arrays from outside are constants
        for kind in kinds:
            lifted = backend_of[kind].lifted
            arrays = [a if type(a) not in namespace_of else lifted(a) for a in arrays]
        kinds = {type(a) for a in arrays if a is not None and type(a) not in SCALARS}
    if len(kinds) > 1:
        names = " and ".join(sorted(backend_of[kind].name for kind in kinds))
        error = TypeError(
            f"inputs are arrays of different libraries, {names}; "
            f"make one of the other with gpugrad.asarray(x.numpy()), or of a raw array with "
            f"gpugrad.asarray(numpy.asarray(x))"
        )
        raise _failure(op, error, arrays)
    if not kinds:
        return arrays, None
    (kind,) = kinds
    names = op.inputs * len(arrays) if op.variadic else op.inputs
    operands = [(a, n not in op.integer) for a, n in zip(arrays, names, strict=True)]
    return match_dtypes(kind, operands), kind


def _cause(op, error):
    """The error that a traceback shows before a failure: none if the op is the library's own."""
    return None if op.public else error


def _failure(op, error, arrays, static=()):
    arrays = [a for a in arrays if a is not None]
    kinds = {type(a) for a in arrays if type(a) in namespace_of}
    devices = {backend_of[type(a)].device(a) for a in arrays if type(a) in kinds}
    floating = [n for n in static if n in op.static_names and _is_floating(static[n])]
    if not kinds:
        numbers = arrays and all(type(a) in SCALARS for a in arrays)
        remedy = "; gpugrad.tensor(x) makes one of a number" if numbers else ""
        error = TypeError(f"at least one input must be a Tensor or an array{remedy}")
        raise op.failure(error, arrays) from None  # the cause is only a failed look-up
    if "axis" in static and isinstance(static["axis"], list):
        error = TypeError(f"axis must be an int or a tuple of ints, not the list {static['axis']}")
    elif "axis" in static and isinstance(static["axis"], Tensor):
        pair = {"max": "; of two arrays use maximum", "min": "; of two arrays use minimum"}
        error = TypeError(f"axis must be an int or a tuple of ints{pair.get(op.name, '')}")
    elif floating and not (isinstance(error, ValueError) or f"{floating[0]} must" in str(error)):
        error = TypeError(f"{floating[0]} must not be a tensor; {_takes_tensors(op)}")
    elif op.public and "axis" in static and _lacks_axis(error):
        error = IndexError(
            f"axis {static['axis']} is out of range for {getattr(arrays[0], 'ndim', 0)} axes"
        )
    elif len(devices) > 1 and (len(kinds) == 1 or {d.split(":")[0] for d in devices} == _PLACES):
        error = ValueError(
            f"inputs are on different devices, {' and '.join(sorted(devices))}; "
            f"move them to one with .to(device)"
        )
    elif op.public and op.name == "stack" and isinstance(error, ValueError):
        error = ValueError("the arrays must have the same shape")
    elif "unexpected keyword" in str(error):
        here = [f"{n} is {RENAMED[n]} here" for n in RENAMED if f"'{n}'" in str(error)]
        takes = f"it takes {', '.join((*op.inputs, *op.static_names))}"
        _, parentheses, rest = str(error).partition("() ")
        # Without the name of the forward or twin, which users do not call.
        is_own = parentheses and any(f"'{n}'" in rest for n in static)
        error = TypeError("; ".join([rest if is_own else str(error), *here, takes]))
    elif type(getattr(error, "obj", None)) in SCALARS and not hasattr(error, "__notes__"):
        # An AttributeError in the definition; one in a twin has a note.
        error = TypeError(f"one input must be an array, not the number {error.obj}")
    return op.failure(error, arrays)


def _lacks_axis(error):
    """Whether Python has found an axis missing from a shape, or that there are none to count."""
    return str(error).endswith("index out of range") or isinstance(error, ZeroDivisionError)


def _is_floating(x):
    return isinstance(x, Tensor) and backend_of[type(x._like)].is_floating(x.dtype)


def _takes_tensors(op):
    *others, last = op.inputs
    inputs = f"{', '.join(others)} and {last}" if others else last
    return f"only {inputs} may be tensors; elsewhere give t.item(), which has no gradient"


_PLACES = {"cpu", "cuda"}  # the devices of NumPy and CuPy, between which .to moves arrays
