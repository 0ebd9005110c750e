"""`op`: one definition of an operation, its forward and its VJPs side by side.

    @op
    def multiply(xp, x1, x2):
        \"""Elementwise product; the operands broadcast.\"""
        return xp.multiply(x1, x2)

    multiply.vjp(
        x1=lambda xp, g, x2: g * x2,
        x2=lambda xp, g, x1: g * x1,
    )

Everything that can be decided once is decided here, when the op is defined or
first meets a set of inputs that want gradients; a call only looks it up.
"""

from operator import itemgetter

from ..backends import (
    SCALARS,
    adopt,
    backend_of,
    describe,
    match_dtypes,
    namespace_of,
)
from ..backends.numpy import complex64, float32
from .graph import Node, next_order
from .mode import mode, paused

Tensor = None  # the Tensor class, once `install`ed
namespace = None  # gpugrad itself: the `xp` of rules under create_graph


def install(tensor_class, tensor_namespace):
    """Tell ops what to wrap results in. The package does this as it is imported."""
    global Tensor, namespace
    Tensor, namespace = tensor_class, tensor_namespace


def op(forward=None, *, differentiable=True, integer=()):
    """Make a differentiable operation of a function ``forward(xp, *inputs, *, **static)``.

    ``forward`` gets the backend's namespace ``xp`` and raw arrays, and returns a
    new array or a tuple of arrays; it must use nothing but ``xp`` and operators.
    Inputs are its positional parameters (those before ``/`` if there is one);
    the rest are static. ``*inputs`` makes an op that takes one sequence of arrays.
    An input whose default is None is optional.

    The result is called with Tensors, arrays or Python scalars and has a method
    ``vjp(**rules)``: for each input a function ``rule(xp, g, ...)`` that returns
    its cotangent. The names of the rule's further parameters say what is kept
    for it: an input, ``out``, ``<input>_shape``, ``_dtype`` or ``_device``, or a static
    parameter. The rule need not undo broadcasting. It is written with ``xp``
    and operators too, so that under ``create_graph`` it runs on Tensors.
    One function can serve all inputs, ``vjp(joint=rule)``: it returns a sequence
    with a cotangent (or None) per input, and may ask for ``wanted``, a bool per
    input. With several outputs ``g`` is a tuple.

    differentiable: False for ops whose result never requires grad.
    integer: names of inputs (labels, indices) that keep their integer dtype beside
        floating inputs; others are cast to the floating dtype.
    """
    if forward is None:
        return lambda function: Op(function, differentiable, integer).call
    return Op(forward, differentiable, integer).call


class Op:
    """What is known of an operation: its signature, rules, and plans made from them."""

    registry: dict[str, "Op"] = {}

    def __init__(self, forward, differentiable, integer):
        code = forward.__code__
        positional = code.co_varnames[1 : code.co_argcount]
        keyword = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        split = max(code.co_posonlyargcount - 1, 0) or len(positional)
        defaults = forward.__defaults__ or ()
        default_of = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        default_of |= forward.__kwdefaults__ or {}

        self.name = forward.__name__.strip("_")
        self.forward = forward
        self.differentiable = differentiable
        self.integer = frozenset(integer)
        self.variadic = bool(code.co_flags & 0x04)
        if self.variadic:
            self.inputs = (code.co_varnames[code.co_argcount + code.co_kwonlyargcount],)
            split = 0
        else:
            self.inputs = positional[:split]
        self.required = sum(name not in default_of for name in self.inputs)
        self.static_positional = positional[split:]
        self.static_names = positional[split:] + keyword
        self.static_defaults = {k: v for k, v in default_of.items() if k in self.static_names}
        self.rules = {}
        self.joint = None
        self.plans = {}
        self.hot_plans = [None] * 4

        simple = not self.static_names and not self.variadic and not integer
        if simple and len(self.inputs) == 1:
            self.call = _unary(self)
        elif simple and len(self.inputs) == self.required == 2:
            self.call = _binary(self)
        elif self.required == len(self.inputs) == 1 and not self.variadic:
            self.call = _unary_static(self)
        else:
            self.call = _general(self)
        self.call.__name__ = self.call.__qualname__ = self.name
        self.call.__module__ = forward.__module__
        self.call.__doc__ = forward.__doc__
        self.call.op = self
        self.call.vjp = self.vjp
        if forward.__module__.startswith("gpugrad."):
            Op.registry[self.name] = self

    def vjp(self, joint=None, **rules):
        """Give the rules; see `op`."""
        known = {"out", *self.inputs, *self.static_names, *(("wanted",) if joint else ())}
        known |= {f"{name}_{what}" for name in self.inputs for what in _METADATA}
        for target, rule in {**rules, **({"joint": joint} if joint else {})}.items():
            if target != "joint" and target not in self.inputs:
                raise TypeError(f"{self.name}.vjp: it has no input {target!r}, only {self.inputs}")
            if unknown := set(_names(rule)) - known:
                raise TypeError(
                    f"{self.name}.vjp: the rule for {target} asks for {sorted(unknown)}; "
                    f"it can have {sorted(known)}"
                )
        self.rules |= rules
        self.joint = joint or self.joint
        self.plans.clear()
        self.hot_plans[:] = [None] * 4
        return self.call

    def plan(self, wanted, n_inputs, key):
        """Make and keep the `Plan` for the inputs whose bits are set in ``wanted``."""
        plan = self.plans[key] = Plan(self, [bool(wanted >> i & 1) for i in range(n_inputs)])
        return plan

    def hot_plan(self, wanted):
        """The same for a unary or binary op, kept in a list."""
        plan = self.hot_plans[wanted] = self.plan(wanted, len(self.inputs), wanted)
        return plan

    def failure(self, error, values):
        """The exception to raise when a call failed with ``error``."""
        given = ", ".join(map(describe, values))
        for kind in (IndexError, ValueError, TypeError, ZeroDivisionError, MemoryError):
            if isinstance(error, kind):
                break
        else:
            kind = RuntimeError
        return kind(f"{self.name}: {error}; given {given}")


_METADATA = {
    "shape": lambda x: getattr(x, "shape", None),
    "dtype": lambda x: getattr(x, "dtype", None),
    "device": lambda x: backend_of[type(x)].device(x),
}


def _names(rule):
    """Names of what a rule keeps: its parameters after ``xp`` and ``g``."""
    code = rule.__code__
    return code.co_varnames[2 : code.co_argcount]


class Plan:
    """What a node keeps and runs, decided once per op and set of wanted inputs.

    rules: one function ``(xp, g, saved)`` per wanted input.
    joint: a function ``(xp, g, saved)`` run before them, whose result they pick from, or None.
    special: whether there is a joint rule or more than one output.
    pick: from a call's ``(*inputs, out, static)`` the tuple to save, or None to save nothing.
    sources: where each saved value comes from.
    """

    __slots__ = ("op", "wanted", "rules", "joint", "special", "pick", "sources", "position")
    output = None  # for the node of one of several outputs: which one

    def __init__(self, op, wanted):
        self.op = op
        self.wanted = wanted
        chosen = [i for i, want in enumerate(wanted) if want]
        self.position = {i: k for k, i in enumerate(chosen)}
        whole = op.joint or (op.variadic and op.rules.get(op.inputs[0]))
        if whole:
            names = _names(whole)
        else:
            missing = [op.inputs[i] for i in chosen if op.variadic or op.inputs[i] not in op.rules]
            if missing:
                raise TypeError(
                    f"{op.name}: it has no VJP for {', '.join(missing)}, which requires grad; "
                    f"detach() it, or give a rule with {op.name}.vjp"
                )
            needed = {name: None for i in chosen for name in _names(op.rules[op.inputs[i]])}
            names = tuple(needed)

        self.sources = tuple(_source(op, name) for name in names)
        self.pick = _picker(op, self.sources, len(wanted), wanted)
        self.special = bool(whole)  # and set for ops of several outputs at their first call
        if whole:
            self.joint = _bind(whole, names)
            self.rules = tuple(_pick_cotangent(i) for i in chosen)
        else:
            self.joint = None
            self.rules = tuple(_bind(op.rules[op.inputs[i]], names) for i in chosen)

    def rewrap(self, node, saved):
        """Saved raw values as the Tensors they were, joined to the graph."""

        def tensor(value, i):
            if type(value) not in namespace_of:
                return value
            wanted = self.wanted[i]
            return _tensor(value, node.parents[self.position[i]] if wanted else None)

        values = []
        for value, (kind, which) in zip(saved, self.sources, strict=True):
            if kind == "input":
                if self.op.variadic:
                    value = tuple(tensor(v, i) for i, v in enumerate(value))
                else:
                    value = tensor(value, which)
            elif kind == "out":
                if type(value) is tuple:
                    value = _outputs(value, node)
                else:
                    value = _tensor(value, node)
            values.append(value)
        return values


def _source(op, name):
    if name == "out":
        return "out", None
    if name == "wanted":
        return "wanted", None
    if name in op.inputs:
        return "input", op.inputs.index(name)
    if name in op.static_names:
        return "static", name
    stem, what = name.rsplit("_", 1)
    return what, op.inputs.index(stem)


def _picker(op, sources, n, wanted):
    """A function from ``(*inputs, out, static)`` to the values of ``sources``."""
    if not sources:
        return None
    if not op.variadic and all(kind in ("input", "out") for kind, _ in sources):
        places = [n if kind == "out" else which for kind, which in sources]
        # A slice, so that a single value comes as a tuple too.
        return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))

    def getter(kind, which):
        if kind == "out":
            return itemgetter(n)
        if kind == "static":
            return lambda call: call[-1][which]
        if kind == "wanted":
            return lambda call: wanted
        if op.variadic:
            if kind == "input":
                return itemgetter(slice(0, n))
            return lambda call: tuple([_METADATA[kind](x) for x in call[:n]])
        if kind == "input":
            return itemgetter(which)
        return lambda call: _METADATA[kind](call[which])

    getters = [getter(kind, which) for kind, which in sources]
    return lambda call: tuple([get(call) for get in getters])


def _bind(rule, names):
    """``rule`` as a function of ``(xp, g, saved)``, where ``saved`` holds ``names``."""
    at = [names.index(name) for name in _names(rule)]
    if not at:
        return lambda xp, g, saved: rule(xp, g)
    if len(at) == 1:
        (i,) = at
        return lambda xp, g, saved: rule(xp, g, saved[i])
    if len(at) == 2:
        i, j = at
        return lambda xp, g, saved: rule(xp, g, saved[i], saved[j])
    get = itemgetter(*at)
    return lambda xp, g, saved: rule(xp, g, *get(saved))


def _pick_cotangent(i):
    return lambda xp, cotangents, saved: cotangents[i]


class _OutputPlan:
    """The plan of the node that stands for one of an op's several outputs."""

    special = True
    joint = pick = None
    rules = sources = ()

    def __init__(self, op, output):
        self.op = op
        self.output = output


# Calls, by number of inputs. A unary or binary op without static parameters
# is the hot path, and costs about half of what the general form does.


def _unary(op):
    forward, plans, plan_for, differentiable = op.forward, op.hot_plans, op.hot_plan, op.differentiable

    def call(x, /):
        if type(x) is Tensor:
            array = x.array
            parent = x.node
        else:
            array, parent = _lift(op, x)
        kind = type(array)
        try:
            xp = namespace_of[kind]
            out = forward(xp, array)
        except Exception as error:
            raise _failure(op, error, (array,)) from error
        if type(out) is not kind:
            return _finish(op, out, (array,), (parent,), parent is not None, kind, {})
        result = Tensor()
        result.array = out
        if parent is None or (paused.threads and not mode.enabled) or not differentiable:
            if out.dtype is not float32:
                result.array = _of_integers(op, out, (array,), {})
            result.node = None
            return result
        plan = plans[1] or plan_for(1)
        result.node = node = Node()
        node.order = next_order()
        node.plan = plan
        node.parents = (parent,)
        pick = plan.pick
        node.saved = () if pick is None else pick((array, out))
        node.xp = xp
        node.shape = out.shape
        node.dtype = out.dtype
        node.watch = None
        return result

    return call


def _binary(op):
    forward, plans, plan_for, differentiable = op.forward, op.hot_plans, op.hot_plan, op.differentiable

    def call(x1, x2, /):
        if type(x1) is Tensor and type(x2) is Tensor:
            a1 = x1.array
            a2 = x2.array
            n1 = x1.node
            n2 = x2.node
            kind = type(a1)
            if a1.dtype is not a2.dtype or type(a2) is not kind:
                a1, a2, kind = _align(op, a1, a2)
        elif type(x1) is Tensor and type(x2) in SCALARS:
            a1 = x1.array
            a2 = x2
            n1 = x1.node
            n2 = None
            kind = type(a1)
        else:
            a1, n1 = _lift(op, x1)
            a2, n2 = _lift(op, x2)
            a1, a2, kind = _align(op, a1, a2)
        try:
            xp = namespace_of[kind]
            out = forward(xp, a1, a2)
        except Exception as error:
            raise _failure(op, error, (a1, a2)) from error
        if type(out) is not kind:
            parents = [n for n in (n1, n2) if n is not None]
            wanted = (n1 is not None) + 2 * (n2 is not None)
            return _finish(op, out, (a1, a2), parents, wanted, kind, {})
        result = Tensor()
        result.array = out
        if n2 is None:
            if n1 is None or (paused.threads and not mode.enabled) or not differentiable:
                if out.dtype is not float32:
                    result.array = _of_integers(op, out, (a1, a2), {})
                result.node = None
                return result
            plan = plans[1] or plan_for(1)
            parents = (n1,)
        elif (paused.threads and not mode.enabled) or not differentiable:
            result.node = None
            return result
        elif n1 is None:
            plan = plans[2] or plan_for(2)
            parents = (n2,)
        else:
            plan = plans[3] or plan_for(3)
            parents = (n1, n2)
        result.node = node = Node()
        node.order = next_order()
        node.plan = plan
        node.parents = parents
        pick = plan.pick
        node.saved = () if pick is None else pick((a1, a2, out))
        node.xp = xp
        node.shape = out.shape
        node.dtype = out.dtype
        node.watch = None
        return result

    return call


def _unary_static(op):
    forward, defaults, positional = op.forward, op.static_defaults, op.static_positional
    plans, plan_for, differentiable = op.hot_plans, op.hot_plan, op.differentiable

    def call(x, /, *args, **static):
        if args:
            if len(args) > len(positional):
                raise TypeError(
                    f"{op.name}: takes at most {1 + len(positional)} positional arguments, not "
                    f"{1 + len(args)}; pass others by name: {', '.join(op.static_names)}"
                )
            static.update(zip(positional, args, strict=False))
        if len(static) < len(defaults):
            static = {**defaults, **static}
        if type(x) is Tensor:
            array = x.array
            parent = x.node
        else:
            array, parent = _lift(op, x)
        kind = type(array)
        try:
            xp = namespace_of[kind]
            out = forward(xp, array, **static)
        except Exception as error:
            raise _failure(op, error, (array,)) from error
        wanted = parent is not None and differentiable and mode.enabled
        if type(out) is not kind:
            if type(out) is tuple:
                return _finish_several(op, out, (array,), (parent,), wanted, kind, static)
            if type(out) not in namespace_of:
                out = backend_of[kind].asarray(out)
            kind = type(out)  # another where the op moves its input to another device
        result = Tensor()
        result.array = out
        if not (wanted and backend_of[kind].is_floating(out.dtype)):
            if out.dtype is not array.dtype:
                result.array = _of_integers(op, out, (array,), static)
            result.node = None
            return result
        plan = plans[1] or plan_for(1)
        result.node = node = Node()
        node.order = next_order()
        node.plan = plan
        node.parents = (parent,)
        pick = plan.pick
        node.saved = () if pick is None else pick((array, out, static))
        node.xp = xp
        node.shape = out.shape
        node.dtype = out.dtype
        node.watch = None
        return result

    return call


def _general(op):
    forward, inputs, required, variadic = op.forward, op.inputs, op.required, op.variadic
    n_inputs, defaults, positional = len(inputs), op.static_defaults, op.static_positional
    most = n_inputs + len(positional)

    def call(*args, **static):
        n = len(args)
        if n != n_inputs:
            if n > most:
                raise TypeError(
                    f"{op.name}: takes at most {most} positional arguments, not {n}; "
                    f"pass others by name: {', '.join(op.static_names)}"
                )
            static.update(zip(positional, args[n_inputs:], strict=False))
            args = args[:n_inputs] + tuple([static.pop(name, None) for name in inputs[n:]])
            if None in [x if x is None else 0 for x in args[:required]]:
                raise TypeError(f"{op.name}: needs {', '.join(inputs[:required])}")
        if variadic:
            args = tuple(args[0])
        if len(static) < len(defaults):
            static = {**defaults, **static}

        arrays, parents, wanted, bit = [], [], 0, 1
        kind = dtype = None
        aligned = True
        for x in args:
            if type(x) is Tensor:
                array = x.array
                parent = x.node
            elif x is None:
                array = parent = None
            else:
                array, parent = _lift(op, x)
            arrays.append(array)
            if parent is not None:
                parents.append(parent)
                wanted |= bit
            bit <<= 1
            if array is not None and type(array) not in SCALARS:
                if kind is None:
                    kind = type(array)
                    dtype = array.dtype
                elif array.dtype is not dtype or type(array) is not kind:
                    aligned = False
        if not aligned:
            arrays, kind = _align_all(op, arrays)
        try:
            xp = namespace_of[kind]
            out = forward(xp, *arrays, **static)
        except Exception as error:
            raise _failure(op, error, arrays) from error
        return _finish(op, out, arrays, parents, wanted, kind, static)

    return call


def _finish(op, out, arrays, parents, wanted, kind, static):
    """Wrap and record any result: general ops, several outputs, and scalars made arrays."""
    if type(out) is not kind:
        if type(out) is tuple:
            return _finish_several(op, out, arrays, parents, wanted, kind, static)
        if type(out) not in namespace_of:
            out = backend_of[kind].asarray(out)
        kind = type(out)  # another where the op moves its input to another device
    result = Tensor()
    result.array = out
    if wanted and op.differentiable and mode.enabled and backend_of[kind].is_floating(out.dtype):
        result.node = node = _node(op, out, arrays, parents, wanted, kind, static)
        node.shape = out.shape
        node.dtype = out.dtype
    else:
        result.array = _of_integers(op, out, arrays, static)
        result.node = None
    return result


def _finish_several(op, out, arrays, parents, wanted, kind, static):
    out = tuple([a if type(a) is kind else backend_of[kind].asarray(a) for a in out])
    if not (wanted and op.differentiable and mode.enabled):
        return _outputs(out, None)
    node = _node(op, out, arrays, parents, wanted, kind, static)
    node.plan.special = True
    node.shape = tuple(a.shape for a in out)
    node.dtype = tuple(a.dtype for a in out)
    return _outputs(out, node)


def _node(op, out, arrays, parents, wanted, kind, static):
    key = (wanted, len(arrays)) if op.variadic else wanted
    node = Node()
    node.order = next_order()
    node.plan = plan = op.plans.get(key) or op.plan(wanted, len(arrays), key)
    node.parents = tuple(parents)
    node.saved = () if plan.pick is None else plan.pick((*arrays, out, static))
    node.xp = namespace_of[kind]
    node.watch = None
    return node


def _tensor(array, node):
    result = Tensor()
    result.array = array
    result.node = node
    return result


def _outputs(arrays, node):
    """A tensor for each of an op's several outputs; floating ones have a node that picks them."""
    results = []
    for i, array in enumerate(arrays):
        pick = None
        if node is not None and backend_of[type(array)].is_floating(array.dtype):
            pick = Node()
            pick.order = next_order()
            pick.plan = _OutputPlan(node.plan.op, i)
            pick.parents = (node,)
            pick.saved = ()
            pick.xp = node.xp
            pick.shape = array.shape
            pick.dtype = array.dtype
            pick.watch = None
        results.append(_tensor(array, pick))
    return tuple(results)


def _lift(op, x):
    """An operand that is not exactly a Tensor, as (raw array or Python scalar, node)."""
    if isinstance(x, Tensor):
        return x.array, x.node
    if type(x) in SCALARS or type(x) in namespace_of:
        return x, None
    try:
        return adopt(x), None
    except TypeError as error:
        raise TypeError(f"{op.name}: {error}") from None


def _of_integers(op, out, arrays, static):
    """``out``, or if it is a floating result of integers, one of the default dtype, float32.

    NumPy would make float64 of int64 and float16 of uint8. The op runs again on
    float32, unless the program asked for a ``dtype``.
    """
    kind = type(out)
    backend = backend_of[kind]
    if not backend.is_floating(out.dtype) or static.get("dtype") is not None:
        return out
    xp = backend.xp
    given = [type(a) is kind and a.dtype for a in arrays]
    if any(dtype and backend.is_floating(dtype) for dtype in given):
        return out
    # A bool beside other inputs is a condition.
    cast = ("bool", "integral") if len(arrays) == 1 else "integral"
    arrays = [
        xp.astype(a, float32) if dtype and xp.isdtype(dtype, cast) else a
        for a, dtype in zip(arrays, given, strict=True)
    ]
    out = backend.asarray(op.forward(xp, *arrays, **static))
    default = complex64 if xp.isdtype(out.dtype, "complex floating") else float32
    return xp.astype(out, default, copy=False)


def _align(op, a1, a2):
    (a1, a2), kind = _align_all(op, (a1, a2))
    return a1, a2, kind


def _align_all(op, arrays):
    """The arrays with integers cast to the floating dtype beside them; and their type."""
    kinds = {type(a) for a in arrays if a is not None and type(a) not in SCALARS}
    if len(kinds) > 1:
        names = " and ".join(sorted(backend_of[kind].name for kind in kinds))
        error = TypeError(
            f"inputs are arrays of different libraries, {names}; "
            f"make one of the other with gpugrad.asarray(x.numpy())"
        )
        raise _failure(op, error, arrays)
    if not kinds:
        return arrays, None
    (kind,) = kinds
    names = op.inputs * len(arrays) if op.variadic else op.inputs
    return match_dtypes(kind, [(a, n not in op.integer) for a, n in zip(arrays, names)]), kind


def _failure(op, error, arrays):
    devices = {backend_of[type(a)].device(a) for a in arrays if type(a) in backend_of}
    if len(devices) > 1:
        error = ValueError(
            f"inputs are on different devices, {' and '.join(sorted(devices))}; "
            f"move them to one with .to(device)"
        )
    elif not any(type(a) in namespace_of for a in arrays):
        error = TypeError("at least one input must be a Tensor or an array")
    return op.failure(error, [a for a in arrays if a is not None])
