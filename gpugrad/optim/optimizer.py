"""The base class of optimizers: parameter groups, state, and the loop over parameters."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from .._arguments import is_floating
from .._creation import asarray, tensor
from .._dtypes import is_half
from .._tensor import Tensor
from ..autograd.graph import writes
from ..backends import backend_of
from ..backends.placement import placed_like

# How many elements of an array on the CPU are updated at a time. The temporaries then stay in
# the cache: a step of a 784-4096-4096-10 network, with its 20 million parameters, takes half the
# time, and no second array of a parameter's size is allocated.
_PIECE_SIZE = 1 << 18

# Options of PyTorch's optimizers that choose how to compute and change no result.
_PYTORCH_ONLY = {"foreach", "fused", "capturable", "differentiable"}


class Optimizer:
    """Base class of optimizers, which overwrite parameters in place by means of their gradients.

    A subclass passes its hyper-parameters and their defaults to ``__init__`` and defines

    - ``check(group)``: raises ValueError for invalid hyper-parameters;
    - ``init_single(array, group)``: returns the arrays to keep for a parameter, by name, each
      of the parameter's shape; called before its first update;
    - ``apply_single(array, grad, state, step, *hyper)``: makes one update in place. ``array``,
      ``grad`` and the members of the tuple ``state`` are raw arrays, or matching pieces of
      larger ones; if the parameter has 16 bits, they are float32. ``step`` is 1 at the first
      update; ``hyper`` are the group's values.

    param_groups: dicts with ``"params"`` and the hyper-parameters, which may be changed
        between steps.
    pairs: the hyper-parameters that are two numbers; the others are a number or a bool.
    keeps_step: whether the number of updates is part of a parameter's state.
    fused_kernel: a static method called with ``step, *hyper``, or None. It names a CUDA kernel in
        ``optimizers.cu`` that does to many parameters at once what the ``apply_single`` of the
        same class does to one, and gives the kernel's arguments: see `MultiTensorUpdater.update`.
    """

    pairs: tuple[str, ...] = ()
    keeps_step = False
    fused_kernel: ClassVar[Callable[..., tuple] | None] = None

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._states: dict[Tensor, ParameterState] = {}
        self._hyper: list[list] = []  # each group's values when last checked
        if isinstance(params, Tensor):
            raise TypeError(f"{self._name}: params must be an iterable of tensors; write [tensor]")
        groups = self._as_list(params)
        if not groups:
            raise ValueError(f"{self._name}: there are no parameters to optimize")
        if not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    @property
    def _name(self):
        return type(self).__name__

    def check(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for invalid hyper-parameters."""
        raise NotImplementedError

    def init_single(self, array: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays to keep for the parameter ``array``, by name."""
        raise NotImplementedError

    def apply_single(self, array: Any, grad: Any, state: tuple, step: int, *hyper: Any) -> None:
        """Update ``array`` and ``state`` in place."""
        raise NotImplementedError

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimize more parameters, with their own hyper-parameters.

        group: ``"params"``, leaves that require grad, and each hyper-parameter that
            differs from the optimizer's.

        Raises TypeError or ValueError for parameters that cannot be optimized or that the
        optimizer already has, for unknown names and for invalid values; nothing has
        changed then.
        """
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(f"{self._name}: a parameter group must be a dict with 'params'")
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else self._as_list(params)
        if not params:
            raise ValueError(f"{self._name}: there are no parameters in the group")
        seen = {id(p) for known in self.param_groups for p in known["params"]}
        for i, p in enumerate(params):
            self._check_parameter(i, p)
            if id(p) in seen:
                raise ValueError(f"{self._name}: parameter {i}, of shape {p.shape}, is given twice")
            seen.add(id(p))
        if unknown := sorted(group.keys() - self.defaults.keys() - {"params"}):
            raise TypeError(
                f"{self._name}: a parameter group has no {', '.join(unknown)}; "
                f"it can have {', '.join(self.defaults)}"
            )
        hyper = self._checked({**self.defaults, **group})
        self.param_groups.append({"params": params, **hyper})
        self._hyper.append([*hyper.values()])

    def _as_list(self, params):
        if hasattr(params, "parameters"):
            raise TypeError(f"{self._name}: params is a module; pass model.parameters()")
        if not isinstance(params, Iterable):
            raise TypeError(f"{self._name}: params must be an iterable of tensors, not {params!r}")
        return list(params)

    def _check_parameter(self, i, p):
        if not isinstance(p, Tensor):
            raise TypeError(f"{self._name}: parameter {i} must be a Tensor, not {type(p).__name__}")
        if not p.is_leaf:
            raise ValueError(
                f"{self._name}: parameter {i}, of shape {p.shape}, is a result of "
                f"{p.grad_fn.name}, not a leaf; use detach().requires_grad_()"
            )
        if not is_floating(p):
            raise TypeError(f"{self._name}: parameter {i} must be floating, not {p.dtype}")

    def _checked(self, group):
        """Return the hyper-parameters in ``group`` as Python bools and floats, or raise.

        A NumPy number would not be weak: it would turn float32 into float64.
        """
        hyper = {}
        for name, default in self.defaults.items():
            value = group[name]
            kind = _pair if name in self.pairs else bool if isinstance(default, bool) else float
            try:
                hyper[name] = kind(value)
            except (TypeError, ValueError):
                what = "two numbers" if kind is _pair else "a number"
                raise TypeError(f"{self._name}: {name} must be {what}, not {value!r}") from None
        self.check(hyper)
        return hyper

    def zero_grad(self) -> None:
        """Set each parameter's ``grad`` to None."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    def step(self) -> None:
        """Update each parameter that requires grad and has a gradient, in place.

        Tensors that share a parameter's memory, such as ``p[:]`` and ``p.detach()``, change with
        it. Backward through a graph that saved a parameter's old value raises afterwards.
        """
        for i, group in enumerate(self.param_groups):
            if [*map(group.__getitem__, self.defaults)] != self._hyper[i]:
                self._change_hyper(i, group)
        states = self._states
        due, places = [], []
        for group in self.param_groups:
            members = []
            for p in group["params"]:
                grad = p.grad
                if grad is None or p.node is None:
                    continue
                state = states.get(p)
                if state is None or state.array is not p.array:
                    state = self._new_state(p, state, group)
                members.append((state, grad.array))
                places.append(state.place)
            due.append(members)
        writes.note(places)
        try:
            for members, hyper in zip(due, self._hyper, strict=True):
                self._update(members, hyper)
        finally:
            writes.note(places)

    def _update(self, members, hyper):
        """Update the parameters of a group, given as pairs of a state and a gradient."""
        apply_single = self.apply_single
        grouped: dict[Any, list] = {}
        for state, grad in members:
            if state.is_plain:  # the usual case, which is spared a further call
                step = state.step + 1
                apply_single(state.array, grad, state.values, step, *hyper)
                state.step = step
            elif state.entry is None:
                state.update(apply_single, grad, hyper)
            else:
                grouped.setdefault((state.updater, state.step), []).append((state, grad))
        for (updater, step), together in grouped.items():
            self._update_together(updater, together, step + 1, hyper)

    def _update_together(self, updater, members, step, hyper):
        """Update parameters that have the same updater, given with their gradients."""
        # A subclass that overrides apply_single alone must not run its base class's kernel.
        owner = next(kind for kind in type(self).__mro__ if "apply_single" in vars(kind))
        fused_kernel = vars(owner).get("fused_kernel")
        states, grads = zip(*members, strict=True)
        entries = [state.entry for state in states]
        if fused_kernel and updater.update(entries, grads, *fused_kernel(step, *hyper)):
            for state in states:
                state.step = step
        else:
            for state, grad in members:
                state.update(self.apply_single, grad, hyper)

    def _change_hyper(self, i, group):
        """Take over the values that the program wrote into group ``i``."""
        old = self._hyper[i]
        group |= (hyper := self._checked(group))
        self._hyper[i] = new = [*hyper.values()]
        if any(bool(a) != bool(b) for a, b in zip(old, new, strict=True)):
            for p in group["params"]:  # they may need other state now
                if p in self._states:
                    self._new_state(p, self._states[p], group)

    def _new_state(self, p, old, group):
        """Make the state of a parameter, at its first update or for its new array.

        old: the state so far, of which as much as possible is kept; or None.
        """
        if not getattr(getattr(p.array, "flags", None), "writeable", True):
            raise ValueError(
                f"{self._name}: a parameter of shape {p.shape} lies in read-only memory, which a "
                f"step cannot update; make it of a copy, gpugrad.tensor(data)"
            )
        arrays = self.init_single(p.array, group)
        step = 0
        if old is not None and (old.arrays or not arrays):
            kept = [name for name in arrays if name in old.arrays]
            arrays |= {name: placed_like(old.arrays[name], p.array) for name in kept}
            step = old.step
        self._states[p] = state = ParameterState(p.array, arrays, step)
        return state

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all state, laid out as PyTorch's.

        ``"state"`` maps the position of each parameter that has state, counted over all groups,
        to the arrays kept for it, as tensors by name, and the number of its updates where that
        matters. ``"param_groups"`` are the groups, with positions in place of parameters.
        """
        saved: dict[int, dict[str, Tensor]] = {}
        groups = []
        position = 0
        for group in self.param_groups:
            positions = list(range(position, position + len(group["params"])))
            position += len(positions)
            groups.append({**group, "params": positions})
            for i, p in zip(positions, group["params"], strict=True):
                state = self._states.get(p)
                if state is not None and state.arrays and state.step:
                    saved[i] = {name: tensor(array) for name, array in state.arrays.items()}
                    if self.keeps_step:
                        saved[i]["step"] = tensor(float(state.step))
        return {"state": saved, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over copies of what `state_dict` of such an optimizer, or PyTorch's, returned.

        Raises ValueError where groups, parameters, names or shapes do not agree; nothing
        has changed then.
        """
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= {*state_dict}:
            raise self._misfit("it must be a dict with 'state' and 'param_groups'")
        given = state_dict["param_groups"]
        if [len(g["params"]) for g in given] != [len(g["params"]) for g in self.param_groups]:
            raise self._misfit(
                f"it has groups of {[len(g['params']) for g in given]} parameters, this optimizer "
                f"of {[len(g['params']) for g in self.param_groups]}"
            )
        hypers, states = [], {}
        saved = dict(state_dict["state"])
        for group, new in zip(self.param_groups, given, strict=True):
            names = {k for k, v in new.items() if v not in (None, False) or k in group}
            names -= _PYTORCH_ONLY
            if names != group.keys():
                raise self._misfit(
                    f"a group has {sorted(names - {'params'})}, but here {sorted(self.defaults)}"
                )
            hypers.append(self._checked(new))
            for i, p in zip(new["params"], group["params"], strict=True):
                if arrays := saved.pop(i, None):
                    states[p] = ParameterState(p.array, *self._copied(i, arrays, p, hypers[-1]))
        if saved:
            raise self._misfit(f"it has state of parameters {sorted(saved)}, which are in no group")
        self._states = states
        for i, (group, hyper) in enumerate(zip(self.param_groups, hypers, strict=True)):
            group |= hyper
            self._hyper[i] = [*hyper.values()]

    def _copied(self, i, arrays, p, hyper):
        """Copy the ``arrays`` that a state dict has for parameter ``i``, which is ``p``.

        Returns the copies by name, and the number of updates: 1 where the dict does not say.
        """
        names = [*self.init_single(p.array, hyper)]
        expected = [*names, "step"] if self.keeps_step else names
        if {*arrays} != {*expected}:
            raise self._misfit(
                f"parameter {i} has state {sorted(arrays)}, but here {sorted(expected)}"
            )
        step = float(arrays.get("step", 1))
        if not 0 <= step < math.inf:
            raise self._misfit(f"step of parameter {i} is {step}")
        copies = {}
        for name in names:
            value = tensor(asarray(arrays[name]))
            if value.shape != p.shape:
                raise self._misfit(
                    f"{name} of parameter {i} has shape {value.shape}, but the parameter {p.shape}"
                )
            copies[name] = placed_like(value.array, p.array)
        return copies, int(step)

    def _misfit(self, what):
        return ValueError(
            f"{self._name}.load_state_dict: the state is not one of this optimizer: {what}; "
            f"nothing was loaded"
        )

    def __repr__(self) -> str:
        groups = [
            f"  {len(group['params'])} parameters: "
            + ", ".join(f"{name}={group[name]}" for name in self.defaults)
            for group in self.param_groups
        ]
        return "\n".join([f"{self._name}(", *groups, ")"])


def _pair(value):
    first, second = value
    return float(first), float(second)


class ParameterState:
    """What an optimizer keeps for a parameter whose array is ``array``.

    arrays: the arrays from ``init_single``, by name.
    values: the same arrays as the tuple that ``apply_single`` takes.
    step: the number of updates so far.
    place: the addresses of the parameter's memory; see `autograd.graph.writes`.
    is_plain: whether an update is just one call of ``apply_single``.
    updater: what updates the parameter together with others: see `Backend.multi_tensor_updater`.
    entry: what the updater has to know of the parameter; None if it is updated alone.
    """

    __slots__ = ("array", "arrays", "values", "step", "place", "is_plain", "updater", "entry")

    def __init__(self, array, arrays, step):
        backend = backend_of[type(array)]
        self.array = array
        self.arrays = arrays
        self.values = tuple(arrays.values())
        self.step = step
        self.place = writes.place(array)
        is_small = math.prod(array.shape) <= _PIECE_SIZE
        is_on_cpu = backend.device(array) == "cpu"
        self.is_plain = is_on_cpu and is_small and not is_half(array.dtype)
        self.updater = backend.multi_tensor_updater(array)
        self.entry = None if self.updater is None else self.updater.entry((array, *self.values))

    def __reduce__(self):  # a copy has its own arrays, which lie elsewhere
        return ParameterState, (self.array, self.arrays, self.step)

    def update(self, apply_single, grad, hyper):
        """Update this parameter alone: piece by piece, and if it has 16 bits, in float32."""
        step = self.step + 1
        half = is_half(self.array.dtype)
        with backend_of[type(self.array)].scope(self.array):
            for array, piece, *values in _pieces(self.array, grad, *self.values):
                if half:
                    _apply_in_float32(apply_single, array, piece, values, step, *hyper)
                else:
                    apply_single(array, piece, tuple(values), step, *hyper)
        self.step = step


def _pieces(*arrays):
    """Yield matching pieces of arrays of one shape; all of them at once if not on the CPU."""
    shape = arrays[0].shape
    size = math.prod(shape)
    if size <= _PIECE_SIZE or backend_of[type(arrays[0])].device(arrays[0]) != "cpu":
        yield arrays
        return
    rows = max(1, _PIECE_SIZE * shape[0] // size)
    for i in range(0, shape[0], rows):
        yield [array[i : i + rows] for array in arrays]


def _apply_in_float32(apply_single, array, grad, state, step, *hyper):
    """Make an update of 16-bit arrays in float32.

    In 16 bits, small numbers such as Adam's ``eps`` would be 0, and adding a small update to a
    large value would change nothing.
    """
    xp = backend_of[type(array)].xp
    arrays = array, *state
    wide, *wide_state = [xp.astype(a, xp.float32) for a in arrays]
    apply_single(wide, xp.astype(grad, xp.float32), tuple(wide_state), step, *hyper)
    for a, w in zip(arrays, (wide, *wide_state), strict=True):
        a[...] = xp.astype(w, a.dtype)
