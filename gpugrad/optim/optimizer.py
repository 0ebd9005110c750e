"""What optimizers share: parameter groups, state, and going through them."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from .._arguments import is_floating
from ..autograd.graph import writes
from ..backends import backend_of, namespace_of
from ..backends.placement import placed_like
from ..creation import asarray, tensor
from ..dtypes import is_half
from ..tensor import Tensor

# Elements of an array on the CPU that are updated at a time. Temporaries then stay in the
# cache: for the 20 million of 784-4096-4096-10 that takes 0.5 of the time, and no second array.
_PIECE = 1 << 18

# How PyTorch's optimizers compute, which changes no result.
_WAYS = {"foreach", "fused", "capturable", "differentiable"}


class Optimizer:
    """Base of optimizers: algorithms that overwrite parameters in place by their gradients.

    A subclass gives its hyper-parameters and their defaults to ``__init__`` and defines

    - ``check(group)``: raise ValueError for hyper-parameters that cannot be;
    - ``init_single(array, group)``: the arrays to keep for a parameter, by name, each of
      its shape; asked for before its first update;
    - ``apply_single(array, grad, state, step, *hyper)``: one update in place. ``array``,
      ``grad`` and those in the tuple ``state`` are raw arrays, or matching pieces of
      larger ones, those of 16 bits as float32; ``step`` is 1 at the first update;
      ``hyper`` are the group's values.

    param_groups: dicts with ``"params"`` and the hyper-parameters, which may be changed
        between steps.
    pairs: hyper-parameters that are two numbers; the others are a number or a bool.
    keeps_step: whether the number of updates is part of a parameter's state.
    routine: a backend's name for what it may run for many parameters at once in place of
        the ``apply_single`` of the same class.
    """

    pairs: tuple[str, ...] = ()
    keeps_step = False
    routine: str | None = None

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._slots: dict[Tensor, _Slot] = {}
        self._hyper: list[list] = []  # each group's values as last checked
        if isinstance(params, Tensor):
            raise TypeError(f"{self._name}: params must be an iterable of tensors; write [tensor]")
        groups = self._listed(params)
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
        """Raise ValueError for hyper-parameters that cannot be."""
        raise NotImplementedError

    def init_single(self, array: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays to keep for the parameter ``array``, by name."""
        raise NotImplementedError

    def apply_single(self, array: Any, grad: Any, state: tuple, step: int, *hyper: Any) -> None:
        """Update ``array`` and ``state`` in place."""
        raise NotImplementedError

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimize more parameters, with hyper-parameters of their own.

        group: ``"params"``, leaves that require grad, and any hyper-parameter that is
            to differ from the optimizer's.

        Raises TypeError or ValueError for parameters that cannot be optimized or are
        in the optimizer already, for unknown names and for values that cannot be;
        then nothing has changed.
        """
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(f"{self._name}: a parameter group must be a dict with 'params'")
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else self._listed(params)
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

    def _listed(self, params):
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
        """The hyper-parameters in ``group`` as Python's own bools and floats, or an error.

        A NumPy number would not be weak and make float32 float64.
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

        Backward through a graph that saved a parameter's old value raises afterwards.
        """
        for i, group in enumerate(self.param_groups):
            if [group[name] for name in self.defaults] != self._hyper[i]:
                self._change_hyper(i, group)
        slots = self._slots
        apply_single = self.apply_single
        written = []
        lots: dict[Any, list] = {}
        try:
            for group, hyper in zip(self.param_groups, self._hyper, strict=True):
                for p in group["params"]:
                    grad = p.grad
                    leaf = p.node
                    if grad is None or leaf is None:
                        continue
                    slot = slots.get(p)
                    if slot is None or slot.array is not p.array:
                        slot = self._new_slot(p, slot, group)
                    grad = grad.array
                    written.append((leaf, slot.buffer))
                    if slot.waits:
                        key = slot.lot, slot.handle is None, slot.step
                        lots.setdefault(key, []).append((slot, grad))
                        continue
                    step = slot.step + 1
                    for key, array, state in slot.pieces:
                        piece = grad if key is None else grad[key]
                        apply_single(array, piece, state, step, *hyper)
                    slot.step = step
                while lots:
                    (lot, _, step), members = lots.popitem()
                    self._update_lot(lot, members, step + 1, hyper)
        finally:
            writes.note(written)

    def _update_lot(self, lot, members, step, hyper):
        """Update parameters with their gradients: those of a device in one go if it has a way."""
        slots, grads = zip(*members, strict=True)
        handles = [slot.handle for slot in slots]
        owner = next(kind for kind in type(self).__mro__ if "apply_single" in vars(kind))
        routine = None if handles[0] is None else vars(owner).get("routine")
        with backend_of[type(slots[0].array)].scope(slots[0].array):
            if routine is None or not lot.update(routine, handles, grads, step, *hyper):
                for slot, grad in members:
                    apply = self._apply_in_single if slot.narrow else self.apply_single
                    for key, array, state in slot.pieces:
                        apply(array, grad if key is None else grad[key], state, step, *hyper)
        for slot in slots:
            slot.step = step

    def _apply_in_single(self, array, grad, state, step, *hyper):
        """The update of what has 16 bits computed in 32: small numbers such as Adam's eps are 0
        there, and a sum of two that are far apart is the greater."""
        xp = namespace_of[type(array)]
        arrays = array, *state
        wide = [xp.astype(a, xp.float32) for a in arrays]
        self.apply_single(wide[0], xp.astype(grad, xp.float32), tuple(wide[1:]), step, *hyper)
        for a, w in zip(arrays, wide, strict=True):
            a[...] = xp.astype(w, a.dtype)

    def _change_hyper(self, i, group):
        """Take over what the program wrote in a group."""
        old = self._hyper[i]
        group |= (hyper := self._checked(group))
        self._hyper[i] = new = [*hyper.values()]
        if any(bool(a) != bool(b) for a, b in zip(old, new, strict=True)):
            for p in group["params"]:  # it may need other state now
                if p in self._slots:
                    self._new_slot(p, self._slots[p], group)

    def _new_slot(self, p, old, group):
        """A slot for a parameter's first update, or with the state of before for its new array."""
        if not getattr(getattr(p.array, "flags", None), "writeable", True):
            raise ValueError(
                f"{self._name}: a parameter of shape {p.shape} lies in read-only memory, which a "
                f"step cannot update; make it of a copy, gpugrad.tensor(data)"
            )
        state = self.init_single(p.array, group)
        step = 0
        if old is not None and (old.state or not state):
            kept = [name for name in state if name in old.state]
            state |= {name: placed_like(old.state[name], p.array) for name in kept}
            step = old.step
        self._slots[p] = slot = _Slot(p.array, state, step)
        return slot

    def state_dict(self) -> dict[str, Any]:
        """Copies of all state, by PyTorch's layout.

        ``"state"``: for each parameter that has some, by its position over all groups,
        the arrays kept for it, as tensors by name, and the number of its updates where that
        matters. ``"param_groups"``: the groups, with positions for parameters.
        """
        state = {}
        groups = []
        position = 0
        for group in self.param_groups:
            positions = list(range(position, position + len(group["params"])))
            position += len(positions)
            groups.append({**group, "params": positions})
            for i, p in zip(positions, group["params"], strict=True):
                slot = self._slots.get(p)
                if slot is not None and slot.state and slot.step:
                    state[i] = {name: tensor(array) for name, array in slot.state.items()}
                    if self.keeps_step:
                        state[i]["step"] = tensor(float(slot.step))
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of such an optimizer, or PyTorch's, returned; values are
        copied.

        Raises ValueError where groups, parameters, names or shapes do not agree; then
        nothing has changed.
        """
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= {*state_dict}:
            raise self._misfit("it must be a dict with 'state' and 'param_groups'")
        given = state_dict["param_groups"]
        if [len(g["params"]) for g in given] != [len(g["params"]) for g in self.param_groups]:
            raise self._misfit(
                f"it has groups of {[len(g['params']) for g in given]} parameters, this optimizer "
                f"of {[len(g['params']) for g in self.param_groups]}"
            )
        hypers, slots = [], {}
        state = dict(state_dict["state"])
        for group, new in zip(self.param_groups, given, strict=True):
            known = {k for k, v in new.items() if v not in (None, False) or k in group} - _WAYS
            if known != group.keys():
                raise self._misfit(
                    f"a group has {sorted(known - {'params'})}, but here {sorted(self.defaults)}"
                )
            hypers.append(self._checked(new))
            for i, p in zip(new["params"], group["params"], strict=True):
                if arrays := state.pop(i, None):
                    slots[p] = _Slot(p.array, *self._taken(i, arrays, p, hypers[-1]))
        if state:
            raise self._misfit(f"it has state of parameters {sorted(state)}, which are in no group")
        self._slots = slots
        for i, (group, hyper) in enumerate(zip(self.param_groups, hypers, strict=True)):
            group |= hyper
            self._hyper[i] = [*hyper.values()]

    def _taken(self, i, arrays, p, hyper):
        """Copies, for ``p``, of the arrays that a state dict has for parameter ``i``, and the
        number of its updates, 1 where that is not told."""
        names = [*self.init_single(p.array, hyper)]
        expected = [*names, "step"] if self.keeps_step else names
        if {*arrays} != {*expected}:
            raise self._misfit(
                f"parameter {i} has state {sorted(arrays)}, but here {sorted(expected)}"
            )
        step = float(arrays.get("step", 1))
        if not 0 <= step < math.inf:
            raise self._misfit(f"step of parameter {i} is {step}")
        taken = {}
        for name in names:
            value = tensor(asarray(arrays[name]))
            if value.shape != p.shape:
                raise self._misfit(
                    f"{name} of parameter {i} has shape {value.shape}, but the parameter {p.shape}"
                )
            taken[name] = placed_like(value.array, p.array)
        return taken, int(step)

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


class _Slot:
    """What an optimizer knows of a parameter whose array is ``array``.

    state: arrays by name.
    step: how many updates there have been.
    buffer: the identity of the array's allocation.
    pieces: a key, and the array and the tuple of state at that key; None is all of it.
    narrow: whether it is of 16 bits.
    lot: the `Backend.lot` of arrays that it can be updated with; None if it is by itself.
    handle: what the lot's routines want to know of it; None if they are not for it.
    waits: whether it is updated after those that need no more than `apply_single`.
    """

    __slots__ = ("array", "state", "step", "buffer", "pieces", "narrow", "lot", "handle", "waits")

    def __init__(self, array, state, step):
        backend = backend_of[type(array)]
        self.array = array
        self.state = state
        self.step = step
        self.buffer = backend.buffer(array)
        arrays = tuple(state.values())
        self.narrow = is_half(array.dtype)
        self.lot = backend.lot(array)
        self.handle = None if self.lot is None else self.lot.handle((array, *arrays))
        self.waits = self.narrow or self.lot is not None
        size = math.prod(array.shape)
        self.pieces = [(None, array, arrays)]
        if size > _PIECE and backend.device(array) == "cpu":
            rows = max(1, _PIECE * array.shape[0] // size)
            keys = [slice(i, i + rows) for i in range(0, array.shape[0], rows)]
            self.pieces = [(key, array[key], tuple([a[key] for a in arrays])) for key in keys]

    def __reduce__(self):  # a copy's pieces are those of its own arrays
        return _Slot, (self.array, self.state, self.step)
