"""`op`: one definition of an operation, its forward and its VJPs side by side.

@op
def multiply(xp, x1, x2):
    \"""Elementwise product; the operands broadcast.\"""
    return xp.multiply(x1, x2)

multiply.vjp(
    x1=lambda xp, g, x2: g * x2,
    x2=lambda xp, g, x1: g * x1,
)
"""

import inspect
from collections.abc import Callable, Collection
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar

from ..backends import describe, explain
from . import call
from .implementation import ops
from .plan import METADATA
from .rules import kept_names


def op(
    forward: Callable[..., Any] | None = None,
    *,
    differentiable: bool = True,
    integer: Collection[str] = (),
    elementwise: bool = False,
    discards: bool = False,
    materialize: bool = True,
) -> Any:
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
    input. ``keep_for`` says, for an input, for whose gradient alone it is kept: by that input's
    name, or by a function ``(wanted, **static)`` that returns whether it is kept. The rule gets
    None for an input that is not kept. With several outputs ``g`` is a tuple.

    Of complex numbers a rule is the same formula as of real ones, with no conjugate
    in it: the sweep carries the conjugates of gradients, which obey the real chain rule.

    Nothing more is needed for forward mode and for `vmap`. Two further methods say how to
    do these faster: ``jvp(**rules)`` takes for an input a function ``rule(xp, t, ...)`` that
    returns the tangent of the result which comes of the input's tangent ``t``, by default
    the transpose of the VJP, found by differentiating it; its further parameters must be
    among those of the input's VJP. It need not broadcast, reshape or cast to the result's shape
    and dtype. For an op that takes a sequence ``t`` is a list of the tangents of all in it, None
    for those that are 0. ``vmap(rule)`` takes a function
    ``rule(call, batched, *inputs, **static)`` of the op's call, a bool for each input, and the
    inputs, in which a leading axis counts the examples where the bool says so; it returns the
    results with that axis, or NotImplemented. By default an elementwise op is called once for
    all examples, any other once for each.

    A third, ``twin(library, forward=None, **rules)``, gives one array library's faster way to the
    same values, such as a CUDA kernel for ``"cupy"``: a forward, and VJPs of arrays, with
    parameters as above, of which each may return NotImplemented for what it does not cover,
    a Python number beside an array for instance. `gpugrad.testing.twincheck` compares them.

    differentiable: False for ops whose result never requires grad.
    integer: names of inputs (labels, indices, conditions) that keep their dtype beside
        floating inputs; other integers are cast to the floating dtype.
    elementwise: whether each element of the result depends on one of each (broadcast) input
        only, so that a cotangent of 0 there means 0 for it, however steep the slope. Where it
        `discards` besides, its rules must see to that themselves, as those that only select do.
    discards: whether some elements of an input may leave no trace in the result, as in
        a choice or a selection: from there on a sweep sees to the above.
    materialize: whether rules get zeros, not None, for those of several outputs that nothing
        depends on.
    """
    options = differentiable, integer, elementwise, discards, materialize
    if forward is None:
        return lambda function: Op(function, *options).call
    return Op(forward, *options).call


elementwise = partial(op, elementwise=True)


NAMESPACES = "linalg", "fft", "special"  # topics whose ops are not at the top of the package


composites: dict[str, Callable[..., Any]] = {}


def composite(function: Callable[..., Any]) -> Callable[..., Any]:
    """Export a plain function that calls ops from where they are defined, as they are."""
    composites[_public_name(function)] = function
    return function


def exports(namespace=""):
    """The library's ops and composites in one of its namespaces, by their names there."""
    calls = {name: op.call for name, op in Op.registry.items()} | composites
    split = [(*name.rpartition("."), call) for name, call in calls.items()]
    return {name: call for room, _, name, call in split if room == namespace}


def _public_name(function):
    """The name under `gpugrad` of a function in ``gpugrad.ops``; None elsewhere, or of `_f`."""
    module, name = function.__module__ or "", function.__name__
    if not module.startswith("gpugrad.ops.") or name.startswith("_"):
        return None
    topic, name = module.split(".")[2], name.strip("_")
    return f"{topic}.{name}" if topic in NAMESPACES else name


class Op:
    """What is known of an operation: its signature, rules, and plans made from them."""

    registry: ClassVar[dict[str, "Op"]] = {}  # the library's own, by their public names

    def __init__(self, forward, differentiable, integer, elementwise, discards, materialize):
        code = forward.__code__
        positional = code.co_varnames[1 : code.co_argcount]
        keyword = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        split = max(code.co_posonlyargcount - 1, 0) or len(positional)
        defaults = forward.__defaults__ or ()
        default_of = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        default_of |= forward.__kwdefaults__ or {}

        public = _public_name(forward)
        self.public = public is not None  # others may take what is on several devices
        self.name = public or forward.__name__.strip("_")
        self.forward = forward
        self.differentiable = differentiable
        self.elementwise = elementwise
        self.discards = discards
        self.materialize = materialize
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
        self.keep_for = {}
        self.tangents = {}
        self.batching = None
        self.twins = {}  # by library: "forward", and rules by input
        self.implementations = {}  # by the type of the arrays; see `implementation_of`

        simple = not self.static_names and not self.variadic and not integer
        if simple and len(self.inputs) == 1:
            self.call = call.unary(self)
        elif simple and len(self.inputs) == self.required == 2:
            self.call = call.binary(self)
        elif self.required == len(self.inputs) == 1 and not self.variadic:
            self.call = call.unary_static(self)
        else:
            self.call = call.general(self)
        self.call.__name__ = self.call.__qualname__ = forward.__name__.strip("_")
        self.call.__module__ = forward.__module__
        self.call.__doc__ = forward.__doc__
        self.call.__signature__ = self.signature()
        self.call.op = self
        self.call.vjp = self.vjp
        self.call.jvp = self.jvp
        self.call.vmap = self.vmap
        self.call.twin = self.twin
        ops.add(self)
        if public:
            Op.registry[self.name] = self

    def signature(self):
        """The call's signature, for ``help``: the forward's without ``xp``."""
        parameters = list(inspect.signature(self.forward).parameters.values())[1:]
        if self.variadic:
            positional = inspect.Parameter.POSITIONAL_ONLY
            parameters = [
                p.replace(kind=positional) if p.kind is p.VAR_POSITIONAL else p for p in parameters
            ]
        return inspect.Signature(parameters)

    def vjp(self, joint=None, keep_for=None, **rules):
        """Give the rules; see `op`."""
        known = {"out", *self.inputs, *self.static_names, *(("wanted",) if joint else ())}
        known |= {f"{name}_{what}" for name in self.inputs for what in METADATA}
        for target, rule in {**rules, **({"joint": joint} if joint else {})}.items():
            if target != "joint" and target not in self.inputs:
                raise TypeError(f"{self.name}.vjp: it has no input {target!r}, only {self.inputs}")
            if unknown := set(kept_names(rule)) - known:
                raise TypeError(
                    f"{self.name}.vjp: the rule for {target} asks for {sorted(unknown)}; "
                    f"it can have {sorted(known)}"
                )
        self.rules |= rules
        self.joint = joint or self.joint
        self.keep_for = keep_for or self.keep_for
        self.implementations.clear()
        return self.call

    def jvp(self, **rules):
        """Give rules for tangents; see `op`."""
        for target, rule in rules.items():
            self._check("jvp", target, rule, self.joint or self.rules.get(target))
        self.tangents |= rules
        self.implementations.clear()
        return self.call

    def vmap(self, rule):
        """Give the rule for a batch of examples; see `op`."""
        self.batching = rule
        return self.call

    def twin(self, library, forward=None, **rules):
        """Give one array library's faster forward and VJPs of arrays; see `op`."""
        if library not in ("numpy", "cupy") and not (
            isinstance(library, str) and library.isidentifier() and find_spec(library)
        ):
            raise ValueError(
                f"{self.name}.twin: {library!r} is no array library; for CUDA arrays it is 'cupy'"
            )
        for target, rule in rules.items():
            vjp = self.joint if target == "joint" else self.rules.get(target)
            self._check("twin", target, rule, vjp)
        given = rules if forward is None else {"forward": forward, **rules}
        self.twins[library] = {**self.twins.get(library, {}), **given}
        self.implementations.clear()
        return self.call

    def _check(self, what, target, rule, vjp):
        """Raise TypeError unless a rule has what the VJP keeps, and there is one."""
        if vjp is None:
            raise TypeError(f"{self.name}.{what}: {target!r} has no VJP; give that first")
        if unknown := set(kept_names(rule)) - set(kept_names(vjp)):
            raise TypeError(
                f"{self.name}.{what}: the rule for {target} asks for {sorted(unknown)}; it can "
                f"have what its VJP keeps, {sorted(kept_names(vjp))}"
            )

    def failure(self, error, values):
        """The exception to raise when a call failed with ``error``."""
        given = ", ".join(map(describe, values))
        for kind in _KINDS:
            if isinstance(error, kind):
                break
        else:
            kind = RuntimeError
        if type(error).__init__ is kind.__init__:  # made of a message alone, as LinAlgError is
            kind = type(error)
        text = "; ".join([explain(error, *values), *getattr(error, "__notes__", ())])
        return kind(f"{self.name}: {text}" + (f"; given {given}" if given else ""))


# Of errors that come from forwards: calls that fail raise one of these, else a RuntimeError.
_KINDS = IndexError, ValueError, TypeError, ZeroDivisionError, FloatingPointError, MemoryError
