"""`custom_vjp`: a function whose VJP the user defines."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property, update_wrapper
from inspect import signature
from typing import Any, Generic, NamedTuple

from .._arguments import is_floating
from .._batched import behind, levels_among, lifted, physical, reentered
from .._tensor import Tensor
from .._typing import P, R
from ..autograd.call import wrap
from ..autograd.graph import next_order, writes
from ..autograd.mode import is_grad_enabled, no_grad
from ..autograd.sweep import conjugate
from ..backends import backend_of
from .arguments import callable_or_error, kind_of, pair, parameters
from .cotangents import checked, leaves_like, like, outward
from .pieces import Call, Piece, Rerun, op_of_calls, overwritten, record_outputs, to_graph_axes
from .recording import fresh, is_recordable, without_graph
from .trees import as_tensor, flatten, flatten_each, map_tensors, names, unflatten


class custom_vjp(Generic[P, R]):
    """A function whose VJP the user defines, instead of one derived from its ops.

    f: a function of arrays and nested containers of arrays.
    nondiff_argnums: positions of the arguments that are not arrays or have no derivatives.

    ``f.defvjp(fwd, bwd)`` sets two functions. ``fwd`` takes the arguments of ``f`` and returns
    a pair: the result, and residuals, which are whatever ``bwd`` needs. ``bwd`` takes the
    arguments at ``nondiff_argnums``, the residuals, and a cotangent with the structure of the
    result (None for leaves that are not floating). It returns a tuple with one cotangent for
    each of the other arguments, with that argument's structure, shapes and dtypes, or None for
    0, as for integers. Complex cotangents follow the convention of `vjp`.

    When a call is recorded, ``fwd`` runs in place of ``f``, and its ops are not recorded: every
    derivative comes from ``bwd``, which forward mode transposes. Higher derivatives differentiate
    ``bwd`` and the residuals. To record the residuals, ``fwd`` runs once more, for which the graph
    keeps the arguments. Tensors that ``bwd`` uses as variables of an enclosing function count in
    higher derivatives; those that it finds in another way, such as a module's, may not.

    Raises TypeError or ValueError, naming the argument, for cotangents that do not fit, and
    ValueError if ``fwd`` uses a tensor from outside that requires grad, whose gradient would
    be lost. A recorded call raises TypeError if ``fwd`` returns a floating number or another
    library's array, to which no cotangent could come; it has to be a tensor.

    >>> import gpugrad as gg
    >>> @gg.custom_vjp
    ... def clip_gradient(x, most):
    ...     return x
    >>> clip_gradient.defvjp(
    ...     lambda x, most: (x, most), lambda most, g: (gg.clip(g, -most, most), None)
    ... )
    >>> gg.grad(lambda x: (clip_gradient(x, 1.0) ** 2).sum())(gg.tensor([0.25, 3.0]))
    tensor([0.5, 1. ])
    """

    def __init__(self, f: Callable[P, R], nondiff_argnums: int | Sequence[int] = ()) -> None:
        callable_or_error("custom_vjp", f)
        self.f: Callable[..., R] = f
        update_wrapper(self, f)
        self._name = getattr(f, "__name__", type(f).__name__)
        if isinstance(nondiff_argnums, int):
            nondiff_argnums = (nondiff_argnums,)
        chosen = tuple(nondiff_argnums)
        if not all(type(i) is int and i >= 0 for i in chosen):
            raise TypeError(
                f"custom_vjp: nondiff_argnums must be positions of arguments, from 0, not "
                f"{nondiff_argnums!r}"
            )
        self._nondiff = tuple(sorted({*chosen}))
        self._fwd: Callable[..., Any] | None = None
        self._bwd: Callable[..., Any] | None = None
        # A zero that bwd returns may mean that an element is discarded.
        self._op = op_of_calls(self._name, discards=True)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the functions that define the VJP; see `custom_vjp`."""
        for name, function in (("fwd", fwd), ("bwd", bwd)):
            callable_or_error(f"{self._name}.defvjp", function, name)
        self._fwd, self._bwd = fwd, bwd

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._fwd is None:
            raise TypeError(
                f"{self._name}: it has no VJP yet; give one with {self._name}.defvjp(fwd, bwd)"
            )
        if kwargs or len(args) < len(self._parameters[1]):
            args = self._positional(args, kwargs)
        if not is_grad_enabled():
            return self.f(*args)
        if self._nondiff and self._nondiff[-1] >= len(args):
            raise TypeError(
                f"{self._name}: nondiff_argnums names argument {self._nondiff[-1]}, but "
                f"{len(args)} are given"
            )
        fixed = tuple([args[i] for i in self._nondiff])
        for i, value in zip(self._nondiff, fixed, strict=True):
            if any(isinstance(x, Tensor) and x.node is not None for x in flatten(value)[0]):
                raise TypeError(
                    f"{self._name}: argument {self._parameters[0](i)} requires grad, but "
                    f"nondiff_argnums names it, and its gradient would be lost; detach() it"
                )
        call = Call([x for i, x in enumerate(args) if i not in self._nondiff], {})
        return self._record(fixed, call) if call.places else self.f(*args)

    def _positional(self, args, kwargs):
        try:
            bound = signature(self.f).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        bound.apply_defaults()
        if named := [name for name in bound.kwargs if name in kwargs]:
            raise TypeError(
                f"{self._name}: arguments that have no position, {', '.join(named)}, cannot "
                f"be given to bwd; define {self._name} without * in its parameters"
            )
        return bound.args

    @cached_property
    def _parameters(self):
        """A function from argument positions to names, and a dict from names to positions."""
        return parameters(self.f)

    def _forward(self, fixed, values):
        """The result and residuals that ``fwd`` returns for these arguments."""
        values = list(values)
        for i, value in zip(self._nondiff, fixed, strict=True):
            values.insert(i, value)
        what = f"{self._name}: fwd must return a pair (result, residuals)"
        return pair(self._fwd(*values), what)

    def _record(self, fixed, call):
        # The arguments are detached, so what is recorded now depends on tensors from outside.
        values, _ = call.arguments()
        with call.draws.noted():
            result, residuals = self._forward(fixed, values)
        end = next_order()
        leaves, structure = flatten(result, none_is_leaf=True)
        kept, _ = flatten(residuals, none_is_leaf=True)
        for found, what in ((leaves, "result"), (kept, "residuals")):
            nodes = [x.node for x in found if isinstance(x, Tensor) and x.node is not None]
            if Piece(nodes, (), call.start).outside:
                raise ValueError(
                    f"{self._name}: the {what} of fwd depends on a tensor from outside that "
                    f"requires grad, whose gradient would be lost; make it an argument of "
                    f"{self._name}, or detach() it"
                )
        for i, y in enumerate(leaves):
            if not isinstance(y, Tensor) and without_graph(y) is not None:
                self._check_number(y, structure, i)
        places = [i for i, y in enumerate(leaves) if is_recordable(y)]
        if not places:
            return result
        # New objects, because the program may assign to its own.
        fixed, residuals = [map_tensors(fresh, x) for x in fixed], map_tensors(fresh, residuals)
        # Every output gets the vmap levels of all that bwd may use. So the cotangent of an output
        # that all examples share still has a part for each example.
        every = [*leaves, *kept, *flatten_each(values, True)[0]]
        levels = levels_among(self._name, [x for x in every if isinstance(x, Tensor)])
        outputs = {i: lifted(leaves[i], levels) for i in places}
        recorded = RecordedVjp(self, fixed, call, end, residuals)
        outside = self._closed_over()
        return record_outputs(self._op, call, outside, leaves, structure, outputs, recorded)

    def _closed_over(self):
        """The nodes of the tensors in the closure of ``bwd``, on which derivatives depend.

        They become parents without a cotangent, so that transforms see that there are some.
        """
        found = {}
        for cell in getattr(self._bwd, "__closure__", None) or ():
            with suppress(ValueError):  # the variable has no value yet
                x = cell.cell_contents
                if isinstance(x, Tensor) and x.node is not None:
                    found[x.node] = None
        return found

    def _check_number(self, y, structure, i):
        """Raise TypeError if leaf ``i`` of the result, which has no graph, needs a cotangent."""
        label = f"{self._name}: {names(structure, 'the result')[i]} of fwd"
        if is_floating(as_tensor(y, label)):
            raise TypeError(
                f"{label} is {without_graph(y)}, so bwd would not be called for it; return a "
                f"tensor, such as gpugrad.asarray(y)"
            )

    def __repr__(self) -> str:
        return f"<custom_vjp {self._name}>"


class RecordedVjp(NamedTuple):
    """A recorded call, and its VJP.

    end: an order number from after ``fwd``, which may itself overwrite memory, for example by an
        optimizer's step.
    """

    function: custom_vjp
    fixed: list[Any]
    call: Call
    end: int
    residuals: Any

    def pull(self, cotangents, inputs):
        """The cotangents of the inputs, given those of the outputs."""
        call, name = self.call, self.function._name
        tensors = isinstance(cotangents[0], Tensor)
        of_closure = len(inputs) - len(call.levels)
        inputs = inputs[: len(call.levels)]
        leaves = [None] * call.structure.num_leaves
        # bwd may differentiate, and its tensors must not get axes of levels that no cotangent has.
        newer = levels_among(name, cotangents if tensors else [])
        with reentered(call.active, newer), nullcontext() if tensors else no_grad():
            for output, c in zip(call.outputs, cotangents, strict=True):
                if not tensors:
                    # NumPy's 0-d results are scalars.
                    c = wrap(backend_of[type(c)].asarray(c), None)
                leaves[output.leaf] = outward(conjugate(c), output.levels)
            fixed = [map_tensors(fresh, x) for x in self.fixed]
            residuals = map_tensors(fresh, self.residuals)
            if writes.last < self.end and any(map(self._is_stale, (*fixed, residuals))):
                raise overwritten(name)
            if tensors and is_grad_enabled() and any(x.node is not None for x in inputs):
                values, _ = call.arguments(inputs)
                with call.repeated(name):
                    _, residuals = self.function._forward(fixed, values)
            given = [physical(c).array for c in leaves if c is not None]
            with Rerun(name, self.end, given):  # a closure may read what was overwritten
                returned = self.function._bwd(*fixed, residuals, unflatten(call.structure, leaves))
            found = self._checked(returned, inputs)
            summed = call.outputs[0].levels
            results = [
                c if c is None else to_graph_axes(conjugate(c), levels, call.active, summed)
                for c, levels in zip(found, call.levels, strict=True)
            ]
        results += [None] * of_closure
        return results if tensors else [c if c is None else c.array for c in results]

    def _is_stale(self, tree):
        """Whether a value that was kept for ``bwd`` was overwritten in place since."""
        leaves, _ = flatten(tree, none_is_leaf=True)
        arrays = [physical(x).array if isinstance(x, Tensor) else x for x in leaves]
        return any(writes.overwritten(array, self.end) for array in arrays)

    def _checked(self, returned, inputs):
        """The cotangents of the inputs that ``bwd`` returned, as Tensors or None."""
        name, call = self.function._name, self.call
        labels, structures = self._labels(), call.structures
        if not isinstance(returned, (tuple, list)) or len(returned) != len(structures):
            raise TypeError(
                f"{name}: bwd must return a tuple with a cotangent for each argument, "
                f"({', '.join(labels)},), not {kind_of(returned)}"
            )
        what = f"{name}: the cotangent that bwd returned for"
        found = []
        for tree, structure, label in zip(returned, structures, labels, strict=True):
            if tree is None:
                found += [None] * structure.num_leaves
            else:
                found += leaves_like(f"{what} {label}", tree, structure, none_is_leaf=True)
        xs = [x if isinstance(x, Tensor) else wrap(x, None) for x in inputs]
        expected = [like(behind(x, own)) for x, own in zip(xs, call.levels, strict=True)]
        return checked(what, [found[i] for i in call.places], expected, self)

    @property
    def names(self):
        """The names of the inputs, for errors."""
        every = self.call.names(self._labels())
        return [every[i] for i in self.call.places]

    def _labels(self):
        """The names of the arguments that have cotangents."""
        label = self.function._parameters[0]
        n = len(self.call.structures) + len(self.fixed)
        return [label(i) for i in range(n) if i not in self.function._nondiff]
