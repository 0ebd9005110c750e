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
from functools import cache, partial
from typing import Any, ClassVar

from ..backends import describe, explain
from . import call
from .implementation import clear, ops
from .plan import METADATA
from .rules import guards_itself, kept_names, linear_rule


def op(
    forward: Callable[..., Any] | None = None, *,
    differentiable: bool = True, integer: Collection[str] = (), elementwise: bool = False,
    discards: bool = False, materialize: bool = True, vmap: Callable[..., Any] | None = None,
) -> Any:  # fmt: skip
    """Make a differentiable operation from a function ``forward(xp, *inputs, *, **static)``.

    ``forward`` receives the namespace ``xp`` of the array library and raw arrays, and returns a
    new array or a tuple of arrays. It may use only ``xp`` and operators. Its positional
    parameters (those before ``/``, if there is one) are the inputs; the other parameters are
    static. A parameter ``*inputs`` makes an op that takes one sequence of arrays. An input whose
    default is None is optional.

    The result is a function of Tensors, arrays or Python scalars, with these methods:

    ``vjp(**rules)`` takes, for each input, a function ``rule(xp, g, ...)`` that returns the
    cotangent of that input. The names of the rule's further parameters say what the graph keeps
    for it: an input, ``out``, ``<input>_shape``, ``_dtype`` or ``_device``, or a static
    parameter. The rule need not undo broadcasting. It too uses only ``xp`` and operators, so that
    it runs on Tensors under ``create_graph``.

    ``vjp(joint=rule)`` takes one function for all inputs. It returns a sequence with a cotangent
    (or None) for each input, and may ask for ``wanted``, a bool for each input. ``keep_for``
    says, for an input, for whose gradient alone it is kept: by that input's name, or by a
    function ``(wanted, **static)`` that returns whether it is kept. The rule receives None for
    an input that is not kept. If the op has several outputs, ``g`` is a tuple.

    A rule for complex numbers is the same formula as for real numbers, without conjugates: the
    sweep carries the conjugates of gradients, which obey the real chain rule.

    Forward mode and `vmap` need nothing more, but two methods can make them faster:

    ``jvp(*linear, **rules)`` takes, for an input, a function ``rule(xp, t, ...)`` that returns the
    part of the result's tangent that the input's tangent ``t`` causes. Of an input in which the
    op is linear the name is enough: its rule is the forward, given what the input's VJP keeps and
    defaults for the rest. Without a rule, the VJP is transposed by differentiating it. The rule's
    further parameters must be among those of the input's VJP. It need not broadcast, reshape or
    cast to the result's shape and dtype. For an op that takes a sequence, ``t`` is a list of all
    tangents, with None for those that are 0.

    ``vmap(rule)`` takes a function ``rule(call, batched, *inputs, **static)``: ``call`` is the op
    and ``batched`` has a bool for each input that says whether its leading axis counts the
    examples. The rule returns the results with that axis, or NotImplemented. Without one, an
    elementwise op is called once for all examples, and any other op once for each example. If the
    rule raises ValueError, the op is called for one example, whose shapes the error then shows.

    ``twin(library, forward=None, **rules)`` gives one array library a faster way to the same
    values, such as a CUDA kernel for ``"cupy"``: a forward, and VJPs that run on its arrays.
    Their parameters are as above. Each may return NotImplemented for inputs that it does not
    cover, such as a Python number beside an array. `gpugrad.testing.twincheck` compares a
    twin with the definition. Two things spare the twin of an elementwise op passes over memory:

    - A keyword-only parameter ``guarded=False`` of a rule says whether the rule is to return 0
      instead of nan where ``g`` is 0. Without it, the sweep searches the rule's result for nan.
    - ``together``, a rule with this parameter, returns the cotangents of all inputs as a tuple. It
      runs in place of their own rules if all inputs want a cotangent.

    differentiable: False for ops whose result never requires grad.
    integer: names of inputs (labels, indices, conditions) that keep their dtype beside
        floating inputs; other integers are cast to the floating dtype.
    elementwise: whether each element of the result depends on only one element of each
        (broadcast) input, so that a cotangent of 0 gives 0 however steep the slope is. If the op
        also `discards` elements, its rules must ensure this themselves; rules that only
        select elements do.
    discards: set if some input elements cannot affect the result, as in a choice or a
        selection; upstream of it, backward turns 0 * inf into 0.
    materialize: whether rules receive zeros, rather than None, for outputs that nothing depends on.
    vmap: the rule that the method of this name takes.
    """
    options = differentiable, integer, elementwise, discards, materialize

    def define(function):
        call = Op(function, *options).call
        return call if vmap is None else call.vmap(vmap)

    return define if forward is None else define(forward)


elementwise = partial(op, elementwise=True)


NAMESPACES = "linalg", "fft", "special"  # topics with a namespace of their own

composites: dict[str, Callable[..., Any]] = {}


def composite(function: Callable[..., Any]) -> Callable[..., Any]:
    """Export a plain function that calls ops as if it were an op of the same module."""
    composites[_public_name(function)] = function
    return function


def exports(namespace=""):
    """The ops and composites of one of the library's namespaces, by their names there."""
    calls = {name: op.call for name, op in Op.registry.items()} | composites
    split = [(*name.rpartition("."), call) for name, call in calls.items()]
    return {name: call for room, _, name, call in split if room == namespace}


def _public_name(function):
    """The public name of a function in ``gpugrad.ops``; None for other or private functions."""
    module, name = function.__module__ or "", function.__name__
    if not module.startswith("gpugrad.ops.") or name.startswith("_"):
        return None
    topic, name = module.split(".")[2], name.strip("_")
    return f"{topic}.{name}" if topic in NAMESPACES else name


@cache
def _names_for_rules(inputs, static, is_joint):
    """The names of what a graph can keep for the rules of an op."""
    of_inputs = [f"{name}_{what}" for name in inputs for what in METADATA]
    return {"out", *inputs, *static, *of_inputs, *(("wanted",) if is_joint else ())}


class Op:
    """An operation: its definition, its rules, and what it runs on each type of arrays."""

    registry: ClassVar[dict[str, "Op"]] = {}  # the library's own, by their public names
    failures: ClassVar[int] = 0  # how many calls of any op have raised an error

    def __init__(self, forward, differentiable, integer, elementwise, discards, materialize):
        code = forward.__code__
        positional = code.co_varnames[1 : code.co_argcount]
        keyword = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        split = max(code.co_posonlyargcount - 1, 0) or len(positional)
        defaults = forward.__defaults__ or ()
        default_of = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
        default_of |= forward.__kwdefaults__ or {}

        public = _public_name(forward)
        self.public = public is not None  # other ops may take arrays on several devices
        self.name = public or forward.__name__.strip("_")
        self.forward, self.materialize = forward, materialize
        self.differentiable, self.integer = differentiable, frozenset(integer)
        self.elementwise, self.discards = elementwise, discards
        self.variadic = bool(code.co_flags & 0x04)
        self.inputs = positional[:split]
        if self.variadic:
            self.inputs, split = (code.co_varnames[code.co_argcount + code.co_kwonlyargcount],), 0
        if not self.inputs:
            raise TypeError(
                f"{self.name}: an op has an input after the namespace of the array library: "
                f"{self.name}(xp, x)"
            )
        for name, default in default_of.items():
            if default is not None and name in self.inputs:
                raise TypeError(
                    f"{self.name}: {name} counts as an array, whose default can only be None; if "
                    f"it is not one, make it keyword-only: {self.name}(xp, ..., *, {name}=...)"
                )
        self.required = len(self.inputs) - len(default_of.keys() & self.inputs)
        self.static_positional = positional[split:]
        self.static_names = positional[split:] + keyword
        self.static_defaults = {k: v for k, v in default_of.items() if k in self.static_names}
        self.rules, self.keep_for, self.tangents = {}, {}, {}
        self.joint = self.batching = None
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
        self.call.__wrapped__ = self.call.op = self  # `inspect` finds signature and source there
        vars(self.call).update(vjp=self.vjp, jvp=self.jvp, vmap=self.vmap, twin=self.twin)
        ops.add(self)
        if public:
            Op.registry[self.name] = self

    @property
    def __wrapped__(self):
        return self.forward

    @property
    def __signature__(self):
        """The call's signature, for ``help``: the forward's without ``xp``."""
        _, *taken = inspect.signature(self.forward).parameters.values()
        sequence = [p.replace(kind=p.POSITIONAL_ONLY) for p in taken if p.kind is p.VAR_POSITIONAL]
        return inspect.Signature([*sequence, *(p for p in taken if p.kind is not p.VAR_POSITIONAL)])

    def vjp(self, joint=None, keep_for=None, **rules):
        """Define the VJPs; see `op`."""
        known = _names_for_rules(self.inputs, self.static_names, joint is not None)
        for target, rule in {**rules, **({"joint": joint} if joint else {})}.items():
            if target != "joint" and target not in self.inputs:
                raise TypeError(f"{self.name}.vjp: it has no input {target!r}, only {self.inputs}")
            self._check("vjp", target, rule, known)
        self.rules |= rules
        self.joint = joint or self.joint
        self.keep_for = keep_for or self.keep_for
        clear(self)
        return self.call

    def jvp(self, *linear, **rules):
        """Define rules for tangents; see `op`."""
        for target in (*linear, *rules):
            vjp = self.joint or self.rules.get(target)
            kept = kept_names(vjp) if vjp else None
            if target in linear and vjp:
                rules[target] = linear_rule(self, target, kept)
            self._check("jvp", target, rules.get(target), kept)
        self.tangents |= rules
        clear(self)
        return self.call

    def vmap(self, rule):
        """Define the rule for a batch of examples; see `op`."""
        self.batching = rule
        return self.call

    def twin(self, library, forward=None, **rules):
        """Define a faster forward and VJPs for one array library; see `op`."""
        from importlib.util import find_spec

        is_name = isinstance(library, str) and library.isidentifier()
        if library not in ("numpy", "cupy") and not (is_name and find_spec(library)):
            raise ValueError(
                f"{self.name}.twin: {library!r} is no array library; for CUDA arrays it is 'cupy'"
            )
        for target, rule in rules.items():
            if target == "together":
                self._check_together(rule)
                continue
            vjp = self.joint if target == "joint" else self.rules.get(target)
            self._check("twin", target, rule, kept_names(vjp) if vjp else None)
        given = rules if forward is None else {"forward": forward, **rules}
        self.twins[library] = {**self.twins.get(library, {}), **given}
        clear(self)
        return self.call

    def _check(self, what, target, rule, known):
        """Raise TypeError unless the rule asks only for ``known`` names.

        known: for a twin or a rule for tangents, the names that the VJP keeps, or None if there is
            no VJP.
        """
        if known is None:
            raise TypeError(f"{self.name}.{what}: {target!r} has no VJP; give that first")
        if unknown := set(kept_names(rule)).difference(known):
            source = "" if what == "vjp" else "what its VJP keeps, "
            raise TypeError(
                f"{self.name}.{what}: the rule for {target} asks for {sorted(unknown)}; it can "
                f"have {source}{sorted(known)}"
            )

    def _check_together(self, rule):
        """Raise TypeError unless the rule can take the place of those of all inputs."""
        if not (self.elementwise and not self.joint and self.rules.keys() == set(self.inputs)):
            raise TypeError(
                f"{self.name}.twin: together is for elementwise ops with a VJP for each input"
            )
        if not guards_itself(rule):
            raise TypeError(f"{self.name}.twin: together needs a parameter guarded=False")
        kept = {name for vjp in self.rules.values() for name in kept_names(vjp)}
        self._check("twin", "together", rule, kept)

    def failure(self, error, values):
        """The exception to raise for a call on these values that failed with ``error``."""
        Op.failures += 1
        given = ", ".join(map(describe, values))
        own = type(error)
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), RuntimeError)
        if issubclass(own, kind) and own.__init__ is kind.__init__:
            kind = own  # which takes only a message, as LinAlgError does
        text = "; ".join([explain(error, *values), *getattr(error, "__notes__", ())])
        return kind(f"{self.name}: {text}" + (f"; given {given}" if given else ""))


# A call that fails raises one of these, according to the error of its forward, or a RuntimeError.
_KINDS = IndexError, ValueError, TypeError, ZeroDivisionError, FloatingPointError, MemoryError
