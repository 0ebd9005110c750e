"""Schedules of learning rates, named as PyTorch's.

A scheduler changes ``lr`` in the groups of its optimizer: when it is made, and then each time that
`LRScheduler.step` is called, which is after the optimizer's ``step``. A program may do so after
each epoch or after each batch; here every such step is called an epoch, counted from 0.

As in PyTorch, most schedulers multiply the rate that a group has, so that other schedulers, and the
program, can change it too. The formulas hold where nothing else does.
"""

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

from .._arguments import whole
from .._foreign_names import answer, explains_arguments
from .._tensor import Tensor
from .optimizer import Optimizer

# Attributes of these and PyTorch's schedulers that are always False between steps.
_TRANSIENT = {"_get_lr_called_within_step", "_is_initial"}


class LRScheduler:
    """Base class of schedulers. A subclass defines ``get_lr()``.

    ``get_lr`` returns the rates of all groups at ``last_epoch``. A subclass sets its attributes
    before it calls ``super().__init__``, which makes the first step. They are part of the state.

    optimizer: the optimizer whose groups are changed. ``"initial_lr"`` in a group is the rate from
        which a schedule starts; it is set to ``lr`` unless an earlier scheduler has set it.
    last_epoch: -1 to start; or the last epoch of an earlier run, to go on after it with an
        optimizer whose groups have ``"initial_lr"``. It is simpler to load the states of the
        optimizer and the scheduler.
    base_lrs: the groups' initial rates.

    Raises TypeError if ``optimizer`` is not an optimizer and ValueError for options that cannot be.
    """

    _is_initial = False

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls) and cls.__module__.startswith(f"{__package__}."):
            cls.__init__ = explains_arguments(cls.__init__)  # type: ignore[method-assign]

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

    @property
    def _name(self):
        return type(self).__name__

    def _check_optimizer(self, optimizer):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{self._name}: optimizer must be an Optimizer, not {type(optimizer).__name__}"
            )
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

        The first call warns if the optimizer has made no step: the first rate of the schedule is
        then never used. As in PyTorch this is not an error.
        """
        if self._step_count == 1 and not self.optimizer._has_stepped:
            warnings.warn(
                f"{self._name}.step was called before the optimizer's step, which skips the first "
                f"rate of the schedule; call optimizer.step() first",
                stacklevel=2,
            )
        self._step_count += 1
        self._set_epoch(self.last_epoch + 1)

    def _set_epoch(self, epoch):
        before, self.last_epoch = self.last_epoch, epoch
        try:
            rates = self.get_lr()
            self._set_rates(rates)
        except BaseException:
            self.last_epoch = before
            raise

    def _set_rates(self, rates):
        groups = self.optimizer.param_groups
        if len(rates) != len(groups):
            raise ValueError(
                f"{self._name}: the optimizer has {len(groups)} groups now, but the schedule "
                f"{len(rates)} rates; add groups before you make the scheduler"
            )
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = float(rate)
        self._last_lr = self._rates()

    def _rates(self):
        """The rates that the groups have."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor):
        return [rate * factor for rate in self._rates()]

    def _for_groups(self, name, value):
        """``value``, or the list of them, as a list with a float for each group."""
        groups = self.optimizer.param_groups
        values = [*value] if isinstance(value, list | tuple) else [value] * len(groups)
        if len(values) != len(groups):
            raise ValueError(
                f"{self._name}: {name} has {len(values)} values, but the optimizer "
                f"{len(groups)} groups"
            )
        return [float(value) for value in values]

    # State

    def _attributes(self):
        """The attributes that are the state."""
        return {k: v for k, v in vars(self).items() if k not in {"optimizer", *_TRANSIENT}}

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all state, the options included, under PyTorch's names.

        The values are numbers, strings, None, and lists and dicts of these, which `gpugrad.save`
        can store. The optimizer has a state of its own.
        """
        return deepcopy(self._attributes())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a copy of what `state_dict` of such a scheduler, or PyTorch's, returned.

        The rates of the optimizer's groups stay: they are part of the optimizer's state.

        Raises ValueError for the state of another kind of scheduler, or for another number of
        groups; nothing has changed then.
        """
        self._take(self._read(state_dict))

    def _read(self, state):
        """A copy of the attributes in a state that fits, for `_take`."""
        if not isinstance(state, Mapping):
            raise self._misfit(f"it must be a dict, not a {type(state).__name__}")
        old = self._attributes()
        state = {k: v for k, v in state.items() if k not in _TRANSIENT}
        if state.keys() != old.keys():
            raise self._misfit(f"it has {sorted(state)}, but here {sorted(old)}")
        for name, value in state.items():
            if None not in (value, old[name]) and _kind(value) != _kind(old[name]):
                raise self._misfit(f"{name} is {value!r}, but here {old[name]!r}")
        for name in {"base_lrs", "_last_lr"} & state.keys():
            if len(state[name]) != len(old[name]):
                raise self._misfit(f"{name} has {len(state[name])} values, here {len(old[name])}")
        return deepcopy(state)

    def _take(self, state):
        vars(self).update(state)

    def _misfit(self, what):
        return ValueError(
            f"{self._name}.load_state_dict: the state is not one of this scheduler: {what}; "
            f"nothing was loaded"
        )


def check_choice(name, value, *choices):
    """Raise ValueError unless ``value`` is one of the choices."""
    if value not in choices:
        *most, last = map(repr, choices)
        raise ValueError(f"{name} must be {', '.join(most)} or {last}, not {value!r}")


def _kind(value):
    for kind in int | float, str, list | tuple, Mapping:
        if isinstance(value, kind):
            return kind
    return type(value)


class _Recursive(LRScheduler):
    """A scheduler that changes the rates that the groups have."""

    def _begin_later(self):
        for group, rate in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = rate
        self._is_initial = True
        try:
            self._set_epoch(0)
        finally:
            self._is_initial = False


# Functions of the epoch


class _OfFunctions(LRScheduler):
    """A scheduler with ``lr_lambdas``, functions of the epoch, one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = self._check_optimizer(optimizer).param_groups
        given: list[Any] = (
            [*lr_lambda] if isinstance(lr_lambda, list | tuple) else [lr_lambda] * len(groups)
        )
        if len(given) != len(groups):
            raise ValueError(
                f"{self._name}: there are {len(given)} functions, but the optimizer has "
                f"{len(groups)} groups"
            )
        for function in given:
            if not callable(function):
                raise TypeError(f"{self._name}: lr_lambda must be a function, not {function!r}")
        self.lr_lambdas: list[Callable[[int], float]] = given
        super().__init__(optimizer, last_epoch)

    def _attributes(self):
        """Functions have no state; the state of other callable objects is their attributes."""
        return {**super()._attributes(), "lr_lambdas": [*map(_state_of, self.lr_lambdas)]}

    def _read(self, state):
        state = super()._read(state)
        given = [x is None for x in state["lr_lambdas"]]
        if given != [_state_of(function) is None for function in self.lr_lambdas]:
            raise self._misfit("lr_lambdas are other functions or objects")
        return state

    def _take(self, state):
        for function, own in zip(self.lr_lambdas, state["lr_lambdas"], strict=True):
            if own is not None:
                vars(function).update(own)
        super()._take({**state, "lr_lambdas": self.lr_lambdas})


def _state_of(function):
    is_object = hasattr(function, "__dict__") and not isinstance(function, types.FunctionType)
    return dict(vars(function)) if is_object else None


class LambdaLR(_OfFunctions):
    """``lr = initial_lr * lr_lambda(epoch)``.

    lr_lambda: a function of the epoch, or a list of functions, one for each group. Functions are
        not part of the state. The attributes of other objects that can be called are.
    """

    def get_lr(self) -> list[float]:
        return [
            base * function(self.last_epoch)
            for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(_OfFunctions):
    """``lr = lr * lr_lambda(epoch)`` at each epoch from 1.

    lr_lambda: as for `LambdaLR`.
    """

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._rates()
        return [
            rate * function(self.last_epoch)
            for rate, function in zip(self._rates(), self.lr_lambdas, strict=True)
        ]


# Formulas, most of which multiply the rates that the groups have


class StepLR(_Recursive):
    """``lr = initial_lr * gamma**(epoch // step_size)``."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = whole("StepLR: step_size", step_size, 1)
        self.gamma = float(gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        is_time = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if is_time else self._rates()


class MultiStepLR(_Recursive):
    """``lr = initial_lr * gamma**n``, with ``n`` the number of ``milestones`` up to the epoch.

    milestones: epochs, in any order. One that is given twice counts twice.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter([whole("MultiStepLR: a milestone", m, 0) for m in milestones])
        self.gamma = float(gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _take(self, state):
        super()._take({**state, "milestones": Counter(state["milestones"])})


class ConstantLR(_Recursive):
    """``lr = initial_lr * factor`` before epoch ``total_iters``, and ``initial_lr`` from there on.

    factor: above 0 and at most 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < factor <= 1:
            raise ValueError(f"ConstantLR: factor must be above 0 and at most 1, not {factor}")
        self.factor = float(factor)
        self.total_iters = whole("ConstantLR: total_iters", total_iters, 0)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(1 / self.factor if self.last_epoch == self.total_iters else 1.0)


class LinearLR(_Recursive):
    """``lr = initial_lr * f``, with ``f`` linear in the epoch.

    ``f`` goes from ``start_factor`` at epoch 0 to ``end_factor`` at ``total_iters``, and stays.

    start_factor: above 0 and at most 1.
    end_factor: from 0 to 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                f"LinearLR: start_factor must be above 0 and at most 1, not {start_factor}"
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: end_factor must be from 0 to 1, not {end_factor}")
        self.start_factor = float(start_factor)
        self.end_factor = float(end_factor)
        self.total_iters = whole("LinearLR: total_iters", total_iters, 0)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        change = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * change
        return self._scaled(1 + change / before)


class ExponentialLR(_Recursive):
    """``lr = initial_lr * gamma**epoch``."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = float(gamma)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._rates() if self._is_initial else self._scaled(self.gamma)


class PolynomialLR(_Recursive):
    """``lr = initial_lr * (1 - min(epoch, total_iters) / total_iters)**power``."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = whole("PolynomialLR: total_iters", total_iters, 1)
        self.power = float(power)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._rates()
        left = self.total_iters - self.last_epoch
        return self._scaled((left / (left + 1)) ** self.power)


class CosineAnnealingLR(_Recursive):
    """``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Loshchilov & Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts", without the
    restarts. After ``T_max`` epochs the rate rises again.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = whole("CosineAnnealingLR: T_max", T_max, 1)
        self.eta_min = float(eta_min)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._rates()
        if (self.last_epoch - 1) % (2 * self.T_max) == self.T_max:  # the cosine before was -1
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * rise
                for rate, base in zip(self._rates(), self.base_lrs, strict=True)
            ]
        now, before = (
            1 + math.cos(math.pi * epoch / self.T_max)
            for epoch in (self.last_epoch, self.last_epoch - 1)
        )
        return [now / before * (rate - self.eta_min) + self.eta_min for rate in self._rates()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2``.

    Loshchilov & Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts". ``T_cur``
    counts the epochs since the last restart. There is a restart after ``T_i`` epochs, at first
    ``T_0`` and then each time ``T_mult`` times as many.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_0 = self.T_i = whole("CosineAnnealingWarmRestarts: T_0", T_0, 1)
        self.T_mult = whole("CosineAnnealingWarmRestarts: T_mult", T_mult, 1)
        self.eta_min = float(eta_min)
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch, or of ``epoch``, which may be between two integers."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif not 0 <= epoch < math.inf:
            raise ValueError(f"{self._name}.step: epoch must be at least 0, not {epoch}")
        else:
            self.T_cur, self.T_i = epoch, self.T_0
            if self.T_mult == 1:
                self.T_cur %= self.T_i
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        self._set_epoch(math.floor(epoch))


# Cycles, which may change momenta too


class _WithMomentum(LRScheduler):
    """A scheduler that may change momenta too: ``momentum``, or the first of ``betas``."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momentum(self, base, most, is_new):
        """Enter the least and the largest momentum, given for each group, in the groups."""
        defaults = self.optimizer.defaults
        if not defaults.keys() & {"momentum", "betas"}:
            raise ValueError(
                f"{self._name}: {type(self.optimizer).__name__} has neither momentum nor betas; "
                f"pass cycle_momentum=False"
            )
        self.use_beta1 = "betas" in defaults
        if is_new:
            for group, low, high in zip(self.optimizer.param_groups, base, most, strict=True):
                group |= {"base_momentum": low, "max_momentum": high}
            self._set_momenta(most)

    def _set_momenta(self, momenta):
        for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
            if self.use_beta1:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum


class CyclicLR(_WithMomentum):
    """Rates that go linearly from ``base_lr`` to ``max_lr`` and back, again and again.

    Smith 2017, "Cyclical learning rates for training neural networks". With ``x`` going from 0 to 1
    in ``step_size_up`` epochs and back to 0 in ``step_size_down`` epochs in each cycle::

        lr = base_lr + (max_lr - base_lr) * x * scale

    ``scale`` is 1 in the mode ``"triangular"``, ``2**(1 - cycle)`` in ``"triangular2"``, with
    cycles counted from 1, and ``gamma**epoch`` in ``"exp_range"``. If ``scale_fn`` is given, it is
    what that returns for the cycle, or for the epoch if ``scale_mode`` is ``"iterations"``.

    base_lr, max_lr: a number, or one for each group.
    step_size_down: by default ``step_size_up``.
    cycle_momentum: whether momentum, or the first of ``betas``, goes the other way meanwhile, from
        ``max_momentum`` to ``base_momentum`` and back.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = self._check_optimizer(optimizer)
        if scale_fn is None:
            check_choice("CyclicLR: mode", mode, "triangular", "triangular2", "exp_range")
        check_choice("CyclicLR: scale_mode", scale_mode, "cycle", "iterations")
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        if not (up > 0 and down > 0):
            raise ValueError(f"CyclicLR: step sizes must be above 0, not {up} and {down}")
        base_lrs = self._for_groups("base_lr", base_lr)
        self.max_lrs = self._for_groups("max_lr", max_lr)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        self.mode = mode
        self.gamma = float(gamma)
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.scale_mode = scale_mode
        self._scale_fn_custom = scale_fn
        self.cycle_momentum = bool(cycle_momentum)
        if cycle_momentum:
            self.base_momentums = self._for_groups("base_momentum", base_momentum)
            self.max_momentums = self._for_groups("max_momentum", max_momentum)
            self._begin_momentum(self.base_momentums, self.max_momentums, last_epoch == -1)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                group["lr"] = rate
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs  # rather than the initial rates of an earlier scheduler
        self._set_rates(self.get_lr())

    def _scale(self, cycle):
        x = cycle if self.scale_mode == "cycle" else self.last_epoch
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 2.0 ** (1 - x) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        if x <= self.step_ratio:
            height = x / self.step_ratio
        else:
            height = (x - 1) / (self.step_ratio - 1)
        height *= self._scale(cycle)
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, strict=True)
            self._set_momenta([high - (high - low) * height for low, high in ends])
        ends = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in ends]

    def _attributes(self):
        return {**super()._attributes(), "_scale_fn_custom": _state_of(self._scale_fn_custom)}

    def _take(self, state):
        own = state["_scale_fn_custom"]
        if own is not None and self._scale_fn_custom is not None:
            vars(self._scale_fn_custom).update(own)
        super()._take({**state, "_scale_fn_custom": self._scale_fn_custom})


class OneCycleLR(_WithMomentum):
    """One cycle: up to ``max_lr``, and down to almost 0.

    Smith & Topin 2019, "Super-convergence: Very fast training of neural networks using large
    learning rates". The rate goes from ``max_lr / div_factor`` to ``max_lr`` in the share
    ``pct_start`` of all steps, and then to ``max_lr / div_factor / final_div_factor``. With
    ``three_phase`` it first goes back to ``max_lr / div_factor`` in as many steps as it took to go
    up. It is meant to be stepped after each batch. A step after the last one is a ValueError.

    max_lr: a number, or one for each group.
    total_steps: how many steps there are; by default ``epochs * steps_per_epoch``.
    anneal_strategy: ``"cos"`` to go along a cosine, ``"linear"`` along a line.
    cycle_momentum: whether momentum, or the first of ``betas``, goes the other way meanwhile, from
        ``max_momentum`` to ``base_momentum`` and back.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = self._check_optimizer(optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            epochs = whole("OneCycleLR: epochs", epochs, 1)
            total_steps = epochs * whole("OneCycleLR: steps_per_epoch", steps_per_epoch, 1)
        self.total_steps = whole("OneCycleLR: total_steps", total_steps, 1)
        if not 0 <= pct_start <= 1:
            raise ValueError(f"OneCycleLR: pct_start must be from 0 to 1, not {pct_start}")
        check_choice("OneCycleLR: anneal_strategy", anneal_strategy, "cos", "linear")
        up = float(pct_start * self.total_steps) - 1
        names = ["initial_lr", "max_lr", "min_lr"]
        momenta = ["max_momentum", "base_momentum", "max_momentum"]
        stops = [up, self.total_steps - 1]
        if three_phase:
            names.insert(2, "initial_lr")
            momenta.append("max_momentum")
            stops.insert(1, 2 * up)
        self._schedule_phases = [
            {
                "end_step": stops[i],
                "start_lr": names[i],
                "end_lr": names[i + 1],
                "start_momentum": momenta[i],
                "end_momentum": momenta[i + 1],
            }
            for i in range(len(stops))
        ]
        self._anneal_func_type = anneal_strategy
        most = self._for_groups("max_lr", max_lr)
        self.cycle_momentum = bool(cycle_momentum)
        if cycle_momentum:
            base_momenta = self._for_groups("base_momentum", base_momentum)
            max_momenta = self._for_groups("max_momentum", max_momentum)
            self._begin_momentum(base_momenta, max_momenta, last_epoch == -1)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, most, strict=True):
                group["max_lr"] = rate
                group["initial_lr"] = rate / div_factor
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"OneCycleLR: this is step {step}, but total_steps is {self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            stop = phase["end_step"]
            if step <= stop or phase is self._schedule_phases[-1]:
                break
            start = stop
        share = (step - start) / (stop - start) if stop > start else 1.0
        if self._anneal_func_type == "cos":
            share = (1 - math.cos(math.pi * share)) / 2

        def between(what):
            ends = phase[f"start_{what}"], phase[f"end_{what}"]
            for group in self.optimizer.param_groups:
                first, last = map(group.__getitem__, ends)
                yield first + (last - first) * share

        if self.cycle_momentum:
            self._set_momenta(between("momentum"))
        return [*between("lr")]


# A metric


class ReduceLROnPlateau(LRScheduler):
    """``lr = max(lr * factor, min_lr)`` once a metric has not improved for a while.

    That is when more than ``patience`` steps in a row were no better than the best one. After that
    the next ``cooldown`` steps are not counted.

    mode: ``"min"`` if a smaller metric is better, ``"max"`` if a larger one is.
    factor: below 1.
    threshold: how much better a metric must be: with the ``threshold_mode`` ``"rel"`` by this
        share of the best one, with ``"abs"`` by this number.
    min_lr: a number, or one for each group.
    eps: a rate that would change by no more is not changed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        self.optimizer = self._check_optimizer(optimizer)
        if not factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, not {factor}")
        check_choice("ReduceLROnPlateau: mode", mode, "min", "max")
        check_choice("ReduceLROnPlateau: threshold_mode", threshold_mode, "rel", "abs")
        self.factor = float(factor)
        self.min_lrs = self._for_groups("min_lr", min_lr)
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else float(min_lr)
        self.patience = whole("ReduceLROnPlateau: patience", patience, 0)
        self.cooldown = whole("ReduceLROnPlateau: cooldown", cooldown, 0)
        self.eps = float(eps)
        self.last_epoch = 0
        self._last_lr = self._rates()
        self.mode = mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.threshold = float(threshold)
        self.threshold_mode = threshold_mode
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Look at a metric, a number or a 0-d tensor, and reduce the rates if it is time."""
        metric = float(metrics.item() if isinstance(metrics, Tensor) else metrics)
        self.last_epoch += 1
        if self._is_better(metric):
            self.best = metric
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def _is_better(self, metric):
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            bound = self.best * (1 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return metric > bound if self.mode == "max" else metric < bound

    def _reduce(self):
        groups = self.optimizer.param_groups
        if len(self.min_lrs) != len(groups) and self.default_min_lr is not None:
            self.min_lrs = [self.default_min_lr] * len(groups)
        self._set_rates([
            new if rate - (new := max(rate * self.factor, least)) > self.eps else rate
            for rate, least in zip(self._rates(), self.min_lrs, strict=False)
        ])  # fmt: skip


# Other schedulers


class _OfSchedulers(LRScheduler):
    """A scheduler made of others."""

    def _check_schedulers(self, schedulers, optimizer):
        schedulers = [*schedulers]
        if not schedulers:
            raise ValueError(f"{self._name}: there are no schedulers")
        for i, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(
                    f"{self._name}: scheduler {i} must be a scheduler, "
                    f"not {type(scheduler).__name__}"
                )
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{self._name}: scheduler {i} is a ReduceLROnPlateau, whose step needs a "
                    f"metric; step it by itself"
                )
            if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ValueError(f"{self._name}: scheduler {i} is of another optimizer")
        return schedulers

    def _attributes(self):
        states = [scheduler._attributes() for scheduler in self._schedulers]
        return {**super()._attributes(), "_schedulers": states}

    def _read(self, state):
        state = super()._read(state)
        if len(state["_schedulers"]) != len(self._schedulers):
            raise self._misfit(
                f"it has {len(state['_schedulers'])} schedulers, but here {len(self._schedulers)}"
            )
        pairs = zip(self._schedulers, state["_schedulers"], strict=True)
        return {**state, "_schedulers": [scheduler._read(own) for scheduler, own in pairs]}

    def _take(self, state):
        for scheduler, own in zip(self._schedulers, state["_schedulers"], strict=True):
            scheduler._take(own)
        super()._take({**state, "_schedulers": self._schedulers})


class SequentialLR(_OfSchedulers):
    """One scheduler after the other: each next one begins, with its epoch 0, at its milestone.

    That also holds for a `SequentialLR` or `ChainedScheduler` among them. PyTorch begins such a one
    with epoch 1 if it is the first, and fails to begin it if it is not.

    schedulers: of this optimizer.
    milestones: the epochs at which the second one begins, the third one, and so on.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = self._check_optimizer(optimizer)
        self._schedulers = self._check_schedulers(schedulers, optimizer)
        self._milestones = [whole("SequentialLR: a milestone", m, 0) for m in milestones]
        if len(self._milestones) != len(self._schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(self._schedulers)} schedulers need "
                f"{len(self._schedulers) - 1} milestones, not {len(self._milestones)}"
            )
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler._unbegin()
        self._begin()

    def _current(self):
        return self._schedulers[bisect_right(self._milestones, self.last_epoch)]

    def _begin(self):
        self._current()._begin()
        self._last_lr = self._rates()

    def _unbegin(self):
        self._current()._unbegin()

    def _begin_later(self):
        self._current()._begin_later()
        self._last_lr = self._rates()

    def step(self) -> None:
        """Set the rates of the next epoch. Call it after the optimizer's ``step``."""
        self.last_epoch += 1
        if self.last_epoch in self._milestones:
            self._current()._begin_later()
        else:
            self._current().step()
        self._last_lr = self._rates()


class ChainedScheduler(_OfSchedulers):
    """Several schedulers at a time: each step makes a step of each, in their order.

    schedulers: of one optimizer.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._schedulers = self._check_schedulers(schedulers, optimizer)
        self.optimizer = self._schedulers[0].optimizer
        self._last_lr = self._rates()

    def _begin(self):
        for scheduler in self._schedulers:
            scheduler._begin()
        self._last_lr = self._rates()

    def _unbegin(self):
        for scheduler in self._schedulers:
            scheduler._unbegin()

    def _begin_later(self):
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._begin()

    def step(self) -> None:
        """Set the rates of the next epoch. Call it after the optimizer's ``step``."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()


_own = [x for x in globals().values() if isinstance(x, type) and x.__module__ == __name__]
__all__ = sorted([kind.__name__ for kind in _own if kind.__name__[0] != "_"])
__dir__ = __all__.copy
if not TYPE_CHECKING:
    __getattr__ = answer(__name__)
