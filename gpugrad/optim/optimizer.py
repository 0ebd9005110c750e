"""The base class of optimizers: parameter groups, state, and the loop over parameters."""

import math
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import partial
from inspect import Parameter, signature
from itertools import count
from typing import Any, ClassVar, NamedTuple

from .._arguments import annotated, check_floating, check_type, constructor, is_made, require
from .._creation import asarray, tensor, zeros_like
from .._dtypes import is_half
from .._foreign_names import Explained, set_constructor
from .._tensor import Tensor
from .._thread_state import thread
from ..autograd import enable_grad
from ..autograd.graph import writes
from ..backends import backend_of
from ..backends.dtypes import float64
from ..backends.placement import placed_like
from ..nn.utils import list_of_parameters

# How many elements of an array on the CPU are updated at a time. The temporaries then stay in
# the cache: a step of a 784-4096-4096-10 network, with its 20 million parameters, takes half the
# time, and no second array of a parameter's size is allocated.
_PIECE_SIZE = 1 << 18

# Options of PyTorch's optimizers that choose how to compute and change no result.
_PYTORCH_ONLY = {"foreach", "fused", "capturable", "differentiable"}

# Schedulers, programs and PyTorch keep these in a group, too, which are no hyper-parameters.
_EXTRAS = set("initial_lr max_lr min_lr swa_lr base_momentum max_momentum name param_names".split())

# Hyper-parameters that become bools, whatever the program passes.
_FLAGS = {"amsgrad", "centered", "decoupled_weight_decay", "maximize", "nesterov"}

# Requirements of hyper-parameters: what an error says of them, and a function that checks a value.
AT_LEAST_0 = "finite and at least 0", lambda x: 0 <= x < math.inf
FINITE = "finite", math.isfinite
UP_TO_1 = "from 0 to 1", lambda x: 0 <= x <= 1
BELOW_1 = "from 0 to below 1", lambda pair: all(0 <= x < 1 for x in pair)


def floats(n, values):
    """A tuple of ``n`` floats; TypeError or ValueError for other values."""
    return tuple([float(x) for x, _ in zip(values, range(n), strict=True)])


PAIR = "two numbers", partial(floats, 2)  # see `Optimizer.kinds`


class Hyper(NamedTuple):
    """The hyper-parameters of a group that the optimizer last checked.

    A program may write to a group at any time, so each step compares the group with these.

    values: in the order of `Optimizer.defaults`.
    arguments: those that ``apply_single`` takes, which are all but ``maximize``. While `compile`
        records a function, Numbers stand for them.
    """

    values: list
    arguments: list


class Named(Explained):
    """A class whose errors begin with its name: what optimizers and schedulers share."""

    _kind = "optimizer"

    @property
    def _name(self):
        return type(self).__name__

    def _misfit(self, what):
        return ValueError(
            f"{self._name}.load_state_dict: the state is not one of this {self._kind}: {what}; "
            f"nothing was loaded"
        )


class Optimizer(Named):
    """Base class of optimizers, which update parameters in place by means of their gradients.

    A subclass defines

    - ``keeps``: the names of the arrays that the optimizer keeps for each parameter and fills with
      zeros; and ``keeps_if``: further names, each with the hyper-parameter that must be true for
      it. Or else ``init_single(array, group)``, which the optimizer calls before the first update
      and which returns the arrays by name;
    - ``apply_single(array, grad, state, step, *hyper)``: makes one update in place. ``array``,
      ``grad`` and the members of the tuple ``state`` are raw arrays, or matching pieces of
      larger ones; if the parameter has 16 bits, they are float32. ``step`` is 1 at the first
      update; ``hyper`` are the group's hyper-parameters, without ``maximize``.

    If all hyper-parameters have defaults, the base class makes ``__init__``, which takes the
    parameters to optimize, the hyper-parameters and ``maximize``. A subclass with its own
    ``__init__`` passes the hyper-parameters on, as keyword arguments or as a dict.

    A subclass may also define

    - ``ranges``: what the values of hyper-parameters must be, by name. The base class has the
      ranges of those with PyTorch's names;
    - ``check(group)``, which raises ValueError for values that do not fit together.

    If the hyper-parameters include ``maximize``, the base class passes the negative gradient to
    ``apply_single`` in groups where it is true.

    param_groups: dicts with ``"params"`` and the hyper-parameters, which may be changed
        between steps.
    kinds: for each hyper-parameter that is neither a number nor a bool, the words in which an error
        says what it must be, and a function that converts a value.
    is_elementwise: whether the update of each element depends on that element alone, and the state
        has the parameter's shape. Then the optimizer calls ``apply_single`` for pieces of large
        parameters.
    keeps_step: whether the number of updates is part of a parameter's state.
    splits_complex: whether ``apply_single`` is called for the real and for the imaginary parts of
        complex parameters, rather than once.
    keyword_only: hyper-parameters that ``__init__`` takes by name only.
    numbers: the names and first values of the floats that the optimizer keeps for each parameter;
        see `next_counts`.
    communicates: whether a step needs other processes. Then the attribute ``optimizer`` is another
        optimizer, which makes the updates.
    fused_kernel: None, or a static method that takes ``step, *hyper``. It returns the name and the
        arguments of a CUDA kernel in ``optimizers.cu`` that updates many parameters at once as
        ``apply_single`` updates one: see `MultiTensorUpdater.update`. A class that inherits
        ``apply_single`` also inherits the kernel.
    """

    keeps: tuple[str, ...] = ()
    keeps_if: ClassVar[Mapping[str, str]] = {}
    kinds: ClassVar[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {"betas": PAIR}
    is_elementwise = True
    ranges: ClassVar[Mapping[str, tuple]] = {
        **dict.fromkeys(("lr", "lr_decay", "eps", "weight_decay"), AT_LEAST_0),
        **dict.fromkeys(("momentum", "momentum_decay", "initial_accumulator_value"), AT_LEAST_0),
        **dict.fromkeys(("alpha", "rho"), UP_TO_1),
        "betas": BELOW_1,
    }
    keeps_step = False
    splits_complex = True
    keyword_only: tuple[str, ...] = ()
    numbers: ClassVar[Mapping[str, float]] = {}
    communicates = False
    fused_kernel: ClassVar[Callable[..., tuple] | None] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        owner = next(kind for kind in cls.__mro__ if "apply_single" in vars(kind))
        cls.fused_kernel = vars(owner).get("fused_kernel")
        if "__init__" not in vars(cls) and "apply_single" in vars(cls) and is_made(cls, Optimizer):
            taken = [*signature(cls.apply_single).parameters.values()]
            hyper = [
                p.replace(kind=p.KEYWORD_ONLY) if p.name in cls.keyword_only else p
                for p in taken[5 + len(cls.numbers) :]
            ]
            if hyper and all(p.default is not p.empty for p in hyper):
                parameters = PARAMS, *annotated(hyper), _MAXIMIZE
                set_constructor(cls, constructor(parameters, Optimizer.__init__))

    def __init__(
        self, params: Iterable[Any], defaults: Mapping[str, Any] | None = None, **hyper: Any
    ) -> None:
        given = {**(defaults or {}), **hyper}
        self.defaults = {k: bool(x) if k in _FLAGS else x for k, x in given.items()}
        numbers = {k for k, x in self.defaults.items() if k in self.ranges and isinstance(x, bool)}
        self.defaults |= {k: float(given[k]) for k in numbers}
        self._checked(self.defaults)
        self.param_groups: list[dict[str, Any]] = []
        self._states: dict[Tensor, ParameterState] = {}
        self._hyper: list[Hyper] = []  # of each group
        self._has_stepped = False  # read by schedulers
        # For each device, an array that is not 0 if the step in progress must change nothing.
        self._skips: dict[str, Any] = {}
        # After a step that the device may have skipped: a function that reads whether it has, and
        # the states' counts before that step.
        self._unread_skip: tuple[Callable[[], Any], list] | None = None
        # How often the optimizer has made a parameter's state. A compiled function compares this
        # number, as it does all attributes, with that of its recording, because its program writes
        # into the state that the optimizer had then.
        self._states_made = 0
        if isinstance(params, Tensor):
            raise TypeError(f"{self._name}: params must be an iterable of tensors; write [tensor]")
        groups = list_of_parameters(f"{self._name}: params", params)
        if not groups:
            raise ValueError(
                f"{self._name}: there are no parameters to optimize; does the model have any, and "
                f"was a generator such as model.parameters() used up before?"
            )
        if not isinstance(groups[0], Mapping):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def check(self, group: Mapping[str, Any]) -> None:
        """Raise ValueError for invalid hyper-parameters."""
        for name, (what, fits) in self.ranges.items():
            if name in group:
                require(fits(group[name]), f"{self._name}: {name} must be {what}", group[name])

    def init_single(self, array: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays to keep for the parameter ``array``, by name."""
        names = [*self.keeps, *[name for name, hyper in self.keeps_if.items() if group[hyper]]]
        return {name: filled(array, 0.0) for name in names}

    def apply_single(self, array: Any, grad: Any, state: tuple, step: int, *hyper: Any) -> None:
        """Update ``array`` and ``state`` in place."""
        raise NotImplementedError

    def next_counts(self, counts: tuple, *hyper: Any) -> tuple:
        """The number of updates and the values of `numbers` after the next update.

        ``apply_single`` takes the new number of updates, but the old values of `numbers`.
        """
        return (counts[0] + 1,)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimize more parameters, with their own hyper-parameters.

        group: ``"params"``, leaves that require grad, and each hyper-parameter that
            differs from the optimizer's. It can also have the entries of a scheduler, such as
            ``"initial_lr"``.

        Raises TypeError or ValueError for parameters that cannot be optimized or that the
        optimizer already has, for unknown names and for invalid values. An error leaves the
        optimizer as it was.
        """
        if not isinstance(group, Mapping) or "params" not in group:
            raise TypeError(f"{self._name}: a parameter group must be a dict with 'params'")
        params = list_of_parameters(f"{self._name}: params", group["params"])
        if not params:
            raise ValueError(f"{self._name}: there are no parameters in the group")
        seen = {id(p) for known in self.param_groups for p in known["params"]}
        for i, p in enumerate(params):
            self._check_parameter(i, p)
            if id(p) in seen:
                raise ValueError(f"{self._name}: parameter {i}, of shape {p.shape}, is given twice")
            seen.add(id(p))
        if unknown := sorted(group.keys() - self.defaults.keys() - {"params"} - _EXTRAS):
            raise TypeError(
                f"{self._name}: a parameter group has no {', '.join(unknown)}; "
                f"it can have {', '.join(self.defaults)}"
            )
        hyper = self._checked({**self.defaults, **group})
        extras = {name: value for name, value in group.items() if name in _EXTRAS}
        self.param_groups.append({"params": params, **hyper, **extras})
        self._set_hyper(len(self.param_groups) - 1, hyper)

    def _check_parameter(self, i, p):
        remedy = "; pass model.parameters(), without names" if isinstance(p, tuple) else ""
        remedy = "; pass its parameters()" if hasattr(p, "parameters") else remedy
        if type(p).__name__ in ("Parameter", "Tensor"):
            remedy = f" of {type(p).__module__.partition('.')[0]}"
        check_type(p, Tensor, f"{self._name}: parameter {i} must be a Tensor", remedy)
        if not p.is_leaf:
            raise ValueError(
                f"{self._name}: parameter {i}, of shape {p.shape}, is a result of "
                f"{p.grad_fn.name}, not a leaf; use detach().requires_grad_()"
            )
        check_floating(p, f"{self._name}: parameter {i}")

    def _checked(self, group):
        """Return the hyper-parameters in ``group`` as Python bools and floats, or raise.

        A NumPy number would not be weak: it would turn float32 into float64.
        """
        hyper = {name: self._converted(name, group[name]) for name in self.defaults}
        self.check(hyper)
        return hyper

    def _converted(self, name, value):
        kind = bool if isinstance(self.defaults[name], bool) else float
        what, read = self.kinds.get(name, ("a number", kind))
        try:
            return read(value)
        except (TypeError, ValueError):
            raise TypeError(f"{self._name}: {name} must be {what}, not {value!r}") from None

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set each parameter's ``grad`` to None, or to zeros if ``set_to_none`` is False."""
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None if set_to_none or p.grad is None else zeros_like(p.grad.detach())

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each parameter that requires grad and has a gradient, in place.

        Tensors that share a parameter's memory, such as ``p[:]`` and ``p.detach()``, change with
        it. Backward through a graph that saved a parameter's old value raises afterwards.

        closure: called first, with recording on. It sets the gradients to zero, computes the
            loss, calls ``backward`` and returns the loss, which ``step`` then returns.
        """
        self._settle()
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._has_stepped = True
        self._follow_groups()
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
            # If the program has removed groups, values are left over at the end.
            for group, members, hyper in zip(self.param_groups, due, self._hyper, strict=False):
                self._update(members, group.get("maximize"), hyper.arguments)
        finally:
            writes.note(places)
        return loss

    def step_unless(self, skips: Mapping[str, Any]) -> Any:
        """A `step` that changes no parameter and no state if ``skips`` are not 0.

        skips: a 0-d float32 array for each device with parameters; all have the same value. This
            method waits for no device: the next `step` or `state_dict` reads the value and corrects
            the counts of updates.
        """
        self._settle()
        before = {state: state.counts for state in self._states.values()}
        array = next(iter(skips.values()))
        self._skips = {**skips}
        try:
            return self.step()
        finally:
            self._skips = {}
            first = 0, *self.numbers.values()
            counts = [(state, before.get(state, first)) for state in self._states.values()]
            self._unread_skip = backend_of[type(array)].read_later(array), counts

    def _settle(self):
        """If the device skipped the last step, restore the counts of updates before it."""
        if self._unread_skip is None:
            return
        is_skipped, counts = self._unread_skip
        if is_skipped():
            for state, before in counts:
                state.counts = before
        self._unread_skip = None  # last, so that after an interrupt the next call does it again

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return vars(self)

    def _skip_for(self, array):
        """The 0-d array that is not 0 if the update of ``array`` must be skipped; usually None."""
        return self._skips[backend_of[type(array)].device(array)] if self._skips else None

    def _update(self, members, maximize, hyper):
        """Update the parameters of a group, given as pairs of a state and a gradient."""
        apply_single = self._apply_negative if maximize else self.apply_single
        grouped: dict[Any, list] = {}
        may_skip = bool(self._skips)
        for state, grad in members:
            if state.is_plain and not may_skip:  # the usual case, which is spared a further call
                step = state.counts[0] + 1
                apply_single(state.array, grad, state.values, step, *hyper)
                state.counts = (step,)
            elif state.entry is None:
                self._update_alone(state, apply_single, grad, hyper)
            else:
                grouped.setdefault((state.updater, state.counts[0]), []).append((state, grad))
        for (updater, step), together in grouped.items():
            self._update_together(updater, together, step + 1, maximize, hyper)

    def _apply_negative(self, array, grad, *rest):
        self.apply_single(array, -grad, *rest)

    def _update_together(self, updater, members, step, maximize, hyper):
        """Update parameters that have the same updater, given with their gradients."""
        states, grads = zip(*members, strict=True)
        if maximize:
            with backend_of[type(grads[0])].scope(grads[0]):
                grads = [-grad for grad in grads]
        entries = [state.entry for state in states]
        skip, kernel = self._skip_for(grads[0]), self.fused_kernel
        if kernel and updater.update(entries, grads, *kernel(step, *hyper), skip):
            for state in states:
                state.counts = (step,)
        else:
            for state, grad in zip(states, grads, strict=True):
                self._update_alone(state, self.apply_single, grad, hyper)

    def _update_alone(self, state, apply_single, grad, hyper):
        """Update one parameter."""
        if (skip := self._skip_for(state.array)) is None:
            state.update(self, apply_single, grad, hyper)
            return
        backend, arrays = backend_of[type(state.array)], (state.array, *state.values)
        before = [backend.asarray(array, copy=True) for array in arrays]
        state.update(self, apply_single, grad, hyper)
        with backend.scope(state.array):
            for array, old in zip(arrays, before, strict=True):
                array[...] = backend.xp.where(skip != 0, old, array)

    def _follow_groups(self):
        """Check and take over the values that the program wrote into groups."""
        for i, group in enumerate(self.param_groups):
            old = self._hyper[i].values
            if [*map(group.__getitem__, self.defaults)] == old:
                continue
            group |= (hyper := self._checked(group))
            self._set_hyper(i, hyper)
            if [*map(bool, old)] != [*map(bool, hyper.values())]:
                for p in group["params"]:  # they may need other state, such as a momentum buffer
                    if p in self._states:
                        self._new_state(p, self._states[p], group)

    def _set_hyper(self, i, hyper):
        """Use these values, which have been checked, for group ``i`` from now on."""
        arguments = [value for name, value in hyper.items() if name != "maximize"]
        self._hyper[i : i + 1] = [Hyper([*hyper.values()], arguments)]

    def _new_state(self, p, old, group):
        """Make the state of a parameter, at its first update or for its new array.

        old: the state so far, whose arrays the new state keeps where the names agree; or None.
        """
        self._check_writeable(p)
        if backend_of[type(p.array)].is_recorder:
            thread.recorder.refuse_state()
        arrays = self.init_single(p.array, group)
        counts = 0, *self.numbers.values()
        kept = {} if old is None else old.spare | old.arrays
        if old is not None and (kept or not arrays):
            names = arrays.keys() & kept.keys()
            arrays |= {name: placed_like(kept.pop(name), p.array) for name in names}
            counts = old.counts
            if not kept and [*map(id, arrays.values())] == [*map(id, old.values)]:
                old.__init__(p.array, old.arrays, counts, self.splits_complex)
                return old
        self._states_made += 1
        state = self._states[p] = ParameterState(p.array, arrays, counts, self.splits_complex)
        state.spare = kept
        return state

    def _check_writeable(self, p):
        if not getattr(getattr(p.array, "flags", None), "writeable", True):
            raise ValueError(
                f"{self._name}: a parameter of shape {p.shape} lies in read-only memory, which a "
                f"step cannot update; make it of a copy, gpugrad.tensor(data)"
            )

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all state, laid out as PyTorch's.

        ``"state"`` maps the position of each parameter that has state, counted over all groups,
        to the arrays kept for it, as tensors by name, and the number of its updates where that
        matters. ``"param_groups"`` are the groups, with positions in place of parameters, and
        with whatever else a scheduler or the program has put into them.
        """
        saved: dict[int, dict[str, Tensor]] = {}
        self._settle()
        groups, places = [], count()
        for group in self.param_groups:
            positions = [next(places) for _ in group["params"]]
            others = {name: value for name, value in group.items() if name != "params"}
            groups.append(deepcopy(others) | {"params": positions})
            for i, p in zip(positions, group["params"], strict=True):
                state = self._states.get(p)
                if state is not None and state.arrays and state.counts[0]:
                    saved[i] = {name: tensor(array) for name, array in state.arrays.items()}
                    step, *numbers = state.counts
                    for name, number in zip(self.numbers, numbers, strict=True):
                        saved[i][name] = tensor(number, dtype=float64)
                    if self.keeps_step:
                        saved[i]["step"] = tensor(float(step))
        return {"state": saved, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a copy of a state that `state_dict` of such an optimizer, or PyTorch's, returned.

        Groups also get the entries of schedulers, such as ``initial_lr``.

        Raises ValueError where groups, parameters, names or shapes do not agree, and then leaves
        the optimizer as it was.
        """
        try:
            self._load(state_dict)
        except (AttributeError, KeyError, TypeError) as error:
            text = f"it has no {error}" if type(error) is KeyError else str(error)
            raise self._misfit(text) from None

    def _load(self, state_dict):
        groups = self._read_groups(state_dict)
        states = {}
        saved = dict(state_dict["state"])
        triples = zip(self.param_groups, groups, state_dict["param_groups"], strict=True)
        for group, (hyper, _), new in triples:
            for i, p in zip(new["params"], group["params"], strict=True):
                if arrays := saved.pop(i, None):
                    kept, counts = self._copied(i, arrays, p, hyper)
                    states[p] = ParameterState(p.array, kept, counts, self.splits_complex)
        if saved:
            raise self._misfit(f"it has state of parameters {sorted(saved)}, which are in no group")
        self._states, self._unread_skip = states, None
        self._take_groups(groups)

    def _read_groups(self, state_dict):
        """The hyper-parameters and the other entries of each group in a state dict."""
        if not isinstance(state_dict, Mapping) or not {"state", "param_groups"} <= {*state_dict}:
            raise self._misfit("it must be a dict with 'state' and 'param_groups'")
        given = state_dict["param_groups"]
        sizes, own = ([len(g["params"]) for g in groups] for groups in (given, self.param_groups))
        if sizes != own:
            raise self._misfit(f"it has groups of {sizes} parameters, this optimizer of {own}")
        groups = []
        for group, new in zip(self.param_groups, given, strict=True):
            if "maximize" in group:
                new = {"maximize": False, **new}  # PyTorch's Muon has none
            own = {*self.defaults, "params"}
            extras = {k: v for k, v in new.items() if k not in own and (k in _EXTRAS or k in group)}
            used = {k for k, v in new.items() if v not in (None, False) or k in group}
            used -= _PYTORCH_ONLY | extras.keys() | {"params"}
            if used != self.defaults.keys():
                raise self._misfit(f"a group has {sorted(used)}, but here {sorted(self.defaults)}")
            groups.append((self._checked(new), deepcopy(extras)))
        return groups

    def _take_groups(self, groups):
        for i, (group, (hyper, extras)) in enumerate(zip(self.param_groups, groups, strict=True)):
            group |= hyper | extras
            self._set_hyper(i, hyper)

    def _copied(self, i, arrays, p, hyper):
        """Copy the ``arrays`` that a state dict has for parameter ``i``, which is ``p``.

        Returns the copies by name, and a tuple of the number of updates and the values of
        `numbers`. The number is 1 if this optimizer's state dicts do not have it.
        """
        shapes = {name: x.shape for name, x in self.init_single(p.array, hyper).items()}
        counts = [*["step"] * self.keeps_step, *self.numbers]
        # Older versions of PyTorch stored None for a momentum buffer that they did not need.
        arrays = {name: x for name, x in arrays.items() if x is not None}
        if {*arrays} != (own := {*shapes, *counts}):
            raise self._misfit(f"parameter {i} has state {sorted(arrays)}, but here {sorted(own)}")
        counted = {"step": 1.0} | {name: float(arrays[name]) for name in counts}
        for name, value in counted.items():
            if not math.isfinite(value) or (name == "step" and value < 0):
                raise self._misfit(f"{name} of parameter {i} is {value}")
        copies = {}
        for name, shape in shapes.items():
            x = tensor(asarray(arrays[name]))
            if x.shape != shape:
                raise self._misfit(f"{name} of parameter {i} has shape {x.shape}, but here {shape}")
            copies[name] = placed_like(x.array, p.array)
        step, *numbers = counted.values()
        return copies, (int(step), *numbers)

    def __repr__(self) -> str:
        lines = [f"{self._name}("]
        for group in self.param_groups:
            hyper = ", ".join([f"{name}={group[name]}" for name in self.defaults])
            lines.append(f"  {len(group['params'])} parameters: {hyper}")
        return "\n".join([*lines, ")"])


PARAMS = Parameter("params", Parameter.POSITIONAL_OR_KEYWORD, annotation=Iterable[Any])
_MAXIMIZE = Parameter("maximize", Parameter.KEYWORD_ONLY, default=False, annotation=bool)


def filled(array, value):
    """An array like ``array`` whose elements are ``value``; of a complex one, both their parts."""
    backend = backend_of[type(array)]
    made = backend.zeros(array.shape, array.dtype, array)
    if value:
        with backend.scope(array):
            made += complex(value, value) if backend.is_complex(array.dtype) else value
    return made


def decayed(array, grad, lr, weight_decay, decoupled=False):
    """The gradient with weight decay; decoupled decay shrinks ``array`` itself instead."""
    if weight_decay and decoupled:
        array *= 1 - lr * weight_decay
    elif weight_decay:
        grad = grad + weight_decay * array
    return grad


def move(average, values, decay):
    """Move a running average, in place, towards new values."""
    average *= decay
    average += (1 - decay) * values


def move_to_square(average, values, decay):
    """Move a running average, in place, towards the squares of new values."""
    square = values * values
    square *= 1 - decay
    average *= decay
    average += square


def over_root(values, square, eps):
    """``values / (sqrt(square) + eps)``."""
    divisor = backend_of[type(square)].xp.sqrt(square)
    divisor += eps
    return values / divisor


def square_root(x):
    """The square root of a float, or of the Number that stands for it in a recorded function."""
    return math.sqrt(x) if type(x) is float else x.sqrt()


class ParameterState:
    """What an optimizer keeps for a parameter whose array is ``array``.

    arrays: the arrays from ``init_single``, by name.
    values: the same arrays as the tuple that ``apply_single`` takes.
    spare: arrays for which the hyper-parameters have no use at present, by name.
    counts: the number of updates so far, and the values of `Optimizer.numbers` after the last one.
    is_split: whether the real and the imaginary part are updated one after the other.
    place: the addresses of the parameter's memory; see `autograd.graph.writes`.
    is_plain: whether one call of ``apply_single`` makes an update.
    updater: updates many parameters together, or None: see `Backend.multi_tensor_updater`.
    entry: the parameter's row in the tables of the updater; None if it is updated alone.
    """

    __slots__ = "array arrays values spare counts is_split place is_plain updater entry".split()

    def __init__(self, array, arrays, counts, splits_complex):
        backend = backend_of[type(array)]
        self.array = array
        self.arrays = arrays
        self.values = tuple(arrays.values())
        self.spare = {}
        self.counts = counts
        self.is_split = is_split = splits_complex and backend.is_complex(array.dtype)
        self.place = writes.place(array)
        is_small = math.prod(array.shape) <= _PIECE_SIZE
        is_on_cpu = backend.device(array) == "cpu"
        is_one_call = is_small and not is_half(array.dtype) and not is_split and len(counts) == 1
        self.is_plain = is_on_cpu and is_one_call
        self.updater = backend.multi_tensor_updater(array)
        self.entry = None if self.updater is None else self.updater.entry((array, *self.values))

    def __reduce__(self):  # a copy has arrays of its own, so it needs a new ``place`` and ``entry``
        return ParameterState, (self.array, self.arrays, self.counts, self.is_split)

    def update(self, optimizer, apply_single, grad, hyper):
        """Update this parameter alone: piece by piece, and if it has 16 bits, in float32."""
        counts = optimizer.next_counts(self.counts, *hyper)
        numbers = counts[0], *self.counts[1:]
        half = is_half(self.array.dtype)
        with backend_of[type(self.array)].scope(self.array):
            pieces = [(self.array, grad, *self.values)]
            if optimizer.is_elementwise:
                pieces = _pieces(*pieces[0])
            for array, piece, *values in _parts(pieces) if self.is_split else pieces:
                if half:
                    _apply_in_float32(apply_single, array, piece, values, *numbers, *hyper)
                else:
                    apply_single(array, piece, tuple(values), *numbers, *hyper)
        self.counts = counts


def _pieces(*arrays):
    """Yield matching pieces of arrays of one shape; on a GPU, the whole arrays.

    A recorded function gets whole arrays too, because its program divides the work itself.
    """
    shape = arrays[0].shape
    size = math.prod(shape)
    backend = backend_of[type(arrays[0])]
    if size <= _PIECE_SIZE or backend.device(arrays[0]) != "cpu" or backend.is_recorder:
        yield arrays
        return
    rows = max(1, _PIECE_SIZE * shape[0] // size)
    for i in range(0, shape[0], rows):
        yield [array[i : i + rows] for array in arrays]


def _parts(pieces):
    """Yield the real and the imaginary parts of arrays, as views, one after the other."""
    for arrays in pieces:
        xp = backend_of[type(arrays[0])].xp
        yield [*map(xp.real, arrays)]
        yield [*map(xp.imag, arrays)]


def _apply_in_float32(apply_single, array, grad, state, *numbers):
    """Make an update of 16-bit arrays in float32.

    In 16 bits, small numbers such as Adam's ``eps`` would be 0, and adding a small update to a
    large value would change nothing.
    """
    xp = backend_of[type(array)].xp
    arrays = array, *state
    wide, *wide_state = [xp.astype(a, xp.float32) for a in arrays]
    apply_single(wide, xp.astype(grad, xp.float32), tuple(wide_state), *numbers)
    for a, w in zip(arrays, (wide, *wide_state), strict=True):
        a[...] = xp.astype(w, a.dtype)
