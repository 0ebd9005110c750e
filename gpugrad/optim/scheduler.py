"""The base class of schedulers: epochs, rates and states."""

import math
import types
import warnings
from collections.abc import Mapping
from copy import deepcopy
from functools import wraps
from typing import Any

from .._arguments import check_type, require
from .._thread_state import thread
from .optimizer import Named, Optimizer

# Attributes of these and PyTorch's schedulers that are always False between steps.
_TRANSIENT = {"_get_lr_called_within_step", "_is_initial"}

# Attributes that are lists with an item for each group or scheduler.
_OF_ONE_LENGTH = {"base_lrs", "_last_lr", "lr_lambdas", "_schedulers"}

# Methods by which a program advances or reads a schedule.
_NOTED = "step", "get_lr", "get_last_lr", "state_dict", "load_state_dict"


def _note_methods(cls):
    """Have `compile` see each call of these methods, also where a program calls a bound method."""

    def noted(name, method):
        @wraps(method)
        def run(self, *args, **kwargs):
            if thread.recorder is None:
                return method(self, *args, **kwargs)
            return thread.recorder.schedule(name, method.__get__(self), *args, **kwargs)

        return run

    for name in vars(cls).keys() & _NOTED:
        if isinstance(method := vars(cls)[name], types.FunctionType):
            setattr(cls, name, noted(name, method))


class LRScheduler(Named):
    """Base class of schedulers. A subclass defines ``get_lr()``.

    ``get_lr`` returns the rates of all groups at ``last_epoch``. ``super().__init__`` makes the
    first step, so a subclass sets its attributes before. These are part of the state.

    optimizer: the optimizer in whose groups the scheduler sets ``lr``. A schedule starts from the
        group's ``"initial_lr"``, which becomes ``lr`` unless an earlier scheduler has set it.
    last_epoch: -1 to start; or the last epoch of an earlier run, to go on after it with an
        optimizer whose groups have ``"initial_lr"``. It is simpler to load the states of the
        optimizer and the scheduler.
    base_lrs: the groups' initial rates.

    Raises TypeError if ``optimizer`` is not an optimizer and ValueError for invalid options.
    """

    _kind = "scheduler"
    _is_initial = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        _note_methods(cls)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = self._check_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise ValueError(
                    f"{self._name}: group {i} has no initial_lr, from which a schedule goes on at "
                    f"last_epoch={last_epoch}; load the optimizer's state first"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._begin()

    def _check_optimizer(self, optimizer):
        check_type(optimizer, Optimizer, f"{self._name}: optimizer must be an Optimizer")
        return optimizer

    def _begin(self):
        """Make the first step, which the constructor makes."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def _unbegin(self):
        """Go back to before the first step."""
        self.last_epoch -= 1

    def _begin_later(self):
        """Set the rates of epoch 0, in the middle of a `SequentialLR`."""
        self._set_epoch(0)

    def get_lr(self) -> list[float]:
        """The rates of all groups at ``last_epoch``; called by `step`, not by programs."""
        raise NotImplementedError(f"{self._name} defines no get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates of all groups after the last step."""
        return list(self._last_lr)

    def step(self) -> None:
        """Set the rates of the next epoch. Call it after the optimizer's ``step``.

        The first call warns if the optimizer has made no step, because the first rate of the
        schedule is then never used. As in PyTorch this is not an error.
        """
        if self._step_count == 1 and not self.optimizer._has_stepped:
            warnings.warn(
                f"{self._name}.step was called before the optimizer's step, which skips the first "
                f"rate of the schedule; call optimizer.step() first",
                stacklevel=3,
            )
        self._step_count += 1
        self._set_epoch(self.last_epoch + 1)

    def _set_epoch(self, epoch):
        before, self.last_epoch = self.last_epoch, epoch
        try:
            self._set_rates(self.get_lr())
        except BaseException:
            self.last_epoch = before
            raise

    def _check_count(self, rates):
        groups = self.optimizer.param_groups
        if len(rates) != len(groups):
            raise ValueError(
                f"{self._name}: the optimizer has {len(groups)} groups now, but the schedule "
                f"{len(rates)} rates; add groups before you make the scheduler"
            )

    def _set_rates(self, rates):
        self._check_count(rates)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = float(rate)
        self._last_lr = self._rates()

    def _rates(self):
        """The present rates of the groups."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _for_groups(self, name, value, kind=float):
        """``value``, or the list of them, as a list with one for each group."""
        groups = self.optimizer.param_groups
        values = [*value] if isinstance(value, list | tuple) else [value] * len(groups)
        what = f"{self._name}: {name} must be one value, or one for each of {len(groups)} groups"
        require(len(values) == len(groups), what, value)
        return [kind(value) for value in values]

    # State

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all state, the options included, under PyTorch's names.

        The values are numbers, strings, None, and lists and dicts of these, which `gpugrad.save`
        can store. The optimizer's state is not in it. In place of a function it has None, in place
        of another callable object the object's attributes.
        """
        hidden = {"optimizer", *_TRANSIENT}
        return {name: _saved(x) for name, x in vars(self).items() if name not in hidden}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a copy of a state that `state_dict` of such a scheduler, or PyTorch's, returned.

        The rates of the optimizer's groups stay: they are part of the optimizer's state.

        Raises ValueError for the state of another kind of scheduler, or for another number of
        groups, and then leaves the scheduler as it was.
        """
        for values, new in self._changes(state_dict):
            values.update(new)

    def _changes(self, state):
        """Pairs of a dict and the values to write into it; ValueError if the state does not fit."""
        if not isinstance(state, Mapping):
            raise self._misfit(f"it must be a dict, not a {type(state).__name__}")
        state = {name: value for name, value in state.items() if name not in _TRANSIENT}
        old = LRScheduler.state_dict(self)  # without what a subclass adds
        if state.keys() != old.keys():
            raise self._misfit(f"it has {sorted(state)}, but here {sorted(old)}")
        changes, simple = [], {}
        for name, value in state.items():
            own, before = vars(self)[name], old[name]
            if None not in (value, before) and _kind(value) != _kind(before):
                raise self._misfit(f"{name} is {value!r}, but here {before!r}")
            if name in _OF_ONE_LENGTH and len(value) != len(before):
                raise self._misfit(f"{name} has {len(value)} values, here {len(before)}")
            parts = own if isinstance(own, list) else [own]
            if not any(isinstance(x, LRScheduler) or callable(x) for x in parts):
                simple[name] = deepcopy(value)
                continue
            for x, new in zip(parts, value if parts is own else [value], strict=True):
                if isinstance(x, LRScheduler):
                    changes += x._changes(new)
                elif (new is None) != (_saved(x) is None):
                    raise self._misfit(f"{name} are other functions or objects")
                elif new is not None:
                    changes.append((vars(x), deepcopy(new)))
        return [*changes, (vars(self), simple)]


_note_methods(LRScheduler)


def _saved(value):
    """What a state dict has for an attribute."""
    if isinstance(value, LRScheduler):
        return value.state_dict()
    if isinstance(value, list):
        return [*map(_saved, value)]
    if callable(value):
        has_state = hasattr(value, "__dict__") and not isinstance(value, types.FunctionType | type)
        return deepcopy(vars(value)) if has_state else None
    return deepcopy(value)


def eased(share, strategy):
    """How much of the way between two rates a schedule has gone after a share of its steps."""
    return (1 - math.cos(math.pi * share)) / 2 if strategy == "cos" else share


def _kind(value):
    for kind in int | float, str, list | tuple, Mapping:
        if isinstance(value, kind):
            return kind
    return type(value)
