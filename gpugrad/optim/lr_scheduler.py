"""Schedules of learning rates, named as PyTorch's.

A scheduler sets ``lr`` in the groups of its optimizer when it is made, and again in each
`LRScheduler.step`. The program calls that after the optimizer's ``step``, once for each epoch or
for each batch. Here every such step is called an epoch, counted from 0.

As in PyTorch, most schedulers multiply the rate that a group has, so that other schedulers and the
program can change it too. The formulas hold if nothing else changes the rates.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

from .._arguments import check_type, one_of, require, whole
from .._foreign_names import explain_names
from .._tensor import Tensor
from .formulas import ConstantLR as ConstantLR
from .formulas import CosineAnnealingLR as CosineAnnealingLR
from .formulas import ExponentialLR as ExponentialLR
from .formulas import LinearLR as LinearLR
from .formulas import MultiStepLR as MultiStepLR
from .formulas import PolynomialLR as PolynomialLR
from .formulas import StepLR as StepLR
from .optimizer import Optimizer
from .scheduler import LRScheduler as LRScheduler
from .scheduler import eased

# Functions of the epoch


class _OfFunctions(LRScheduler):
    """A scheduler with ``lr_lambdas``, functions of the epoch, one for each group."""

    def __init__(
        self, optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._check_optimizer(optimizer)
        self.lr_lambdas: list[Callable[[int], float]]
        self.lr_lambdas = self._for_groups("lr_lambda", lr_lambda, self._function)
        super().__init__(optimizer, last_epoch)

    def _function(self, function):
        check_type(function, Callable, f"{self._name}: lr_lambda must be a function")
        return function

    def _times_functions(self, rates):
        pairs = zip(rates, self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]


class LambdaLR(_OfFunctions):
    """``lr = initial_lr * lr_lambda(epoch)``.

    lr_lambda: a function of the epoch, or a list of functions, one for each group. The state dict
        leaves functions out, but has the attributes of other callable objects.
    """

    def get_lr(self) -> list[float]:
        return self._times_functions(self.base_lrs)


class MultiplicativeLR(_OfFunctions):
    """``lr = lr * lr_lambda(epoch)`` at each epoch from 1.

    lr_lambda: as for `LambdaLR`.
    """

    def get_lr(self) -> list[float]:
        return self._rates() if self._is_initial else self._times_functions(self._rates())


class CosineAnnealingWarmRestarts(LRScheduler):
    """``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2``.

    Loshchilov & Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts". ``T_cur``
    counts the epochs since the last restart. There is a restart after ``T_i`` epochs, at first
    ``T_0`` and then each time ``T_mult`` times as many.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
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
            epoch, self.T_cur = self.last_epoch + 1, self.T_cur + 1
        else:
            require(0 <= epoch < math.inf, f"{self._name}.step: epoch must be at least 0", epoch)
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

    def _begin_momentum(self, base_momentum, max_momentum, is_new):
        """Enter the least and the largest momentum in the groups; returns them for each group."""
        defaults = self.optimizer.defaults
        base = self._for_groups("base_momentum", base_momentum)
        most = self._for_groups("max_momentum", max_momentum)
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
        return base, most

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
    cycles counted from 1, and ``gamma**epoch`` in ``"exp_range"``. If ``scale_fn`` is given,
    ``scale`` is its result for the cycle, or for the epoch if ``scale_mode`` is ``"iterations"``.

    base_lr, max_lr: a number, or one for each group.
    step_size_down: by default ``step_size_up``.
    cycle_momentum: whether momentum, or the first of ``betas``, goes the other way meanwhile, from
        ``max_momentum`` to ``base_momentum`` and back.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: float | list[float], max_lr: float | list[float],
        step_size_up: int = 2000, step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8, max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._check_optimizer(optimizer)
        if scale_fn is None:
            one_of("CyclicLR: mode", mode, ("triangular", "triangular2", "exp_range"))
        one_of("CyclicLR: scale_mode", scale_mode, ("cycle", "iterations"))
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        require(up > 0 and down > 0, "CyclicLR: step sizes must be above 0", (up, down))
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
            ends = self._begin_momentum(base_momentum, max_momentum, last_epoch == -1)
            self.base_momentums, self.max_momentums = ends
        if last_epoch == -1:
            self._set_rates(base_lrs)
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
        self._check_count(self.base_lrs)
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        peak = self.step_ratio
        height = (x / peak if x <= peak else (x - 1) / (peak - 1)) * self._scale(cycle)
        if self.cycle_momentum:
            ends = zip(self.base_momentums, self.max_momentums, strict=True)
            self._set_momenta([high - (high - low) * height for low, high in ends])
        ends = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in ends]


class OneCycleLR(_WithMomentum):
    """One cycle: up to ``max_lr``, and down to almost 0.

    Smith & Topin 2019, "Super-convergence: Very fast training of neural networks using large
    learning rates". The rate goes from ``max_lr / div_factor`` to ``max_lr`` in the share
    ``pct_start`` of all steps, and then to ``max_lr / div_factor / final_div_factor``. With
    ``three_phase`` it first goes back to ``max_lr / div_factor`` in as many steps as it took to go
    up. It is meant to be stepped after each batch. More than ``total_steps`` steps are a
    ValueError.

    max_lr: a number, or one for each group.
    total_steps: how many steps there are; by default ``epochs * steps_per_epoch``.
    anneal_strategy: ``"cos"`` to go along a cosine, ``"linear"`` along a line.
    cycle_momentum: whether momentum, or the first of ``betas``, goes the other way meanwhile, from
        ``max_momentum`` to ``base_momentum`` and back.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: float | list[float], total_steps: int | None = None,
        epochs: int | None = None, steps_per_epoch: int | None = None, pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos", cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85, max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._check_optimizer(optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            epochs = whole("OneCycleLR: epochs", epochs, 1)
            total_steps = epochs * whole("OneCycleLR: steps_per_epoch", steps_per_epoch, 1)
        self.total_steps = whole("OneCycleLR: total_steps", total_steps, 1)
        require(0 <= pct_start <= 1, "OneCycleLR: pct_start must be from 0 to 1", pct_start)
        one_of("OneCycleLR: anneal_strategy", anneal_strategy, ("cos", "linear"))
        up = float(pct_start * self.total_steps) - 1
        ends = [  # of the phases
            (0, "initial_lr", "max_momentum"),
            (up, "max_lr", "base_momentum"),
            (2 * up, "initial_lr", "max_momentum"),
            (self.total_steps - 1, "min_lr", "max_momentum"),
        ]
        if not three_phase:
            del ends[2]
        names = "end_step", "start_lr", "end_lr", "start_momentum", "end_momentum"
        self._schedule_phases = [
            dict(zip(names, (stop, lr, end_lr, momentum, end_momentum), strict=True))
            for (_, lr, momentum), (stop, end_lr, end_momentum) in pairwise(ends)
        ]
        self._anneal_func_type = anneal_strategy
        most = self._for_groups("max_lr", max_lr)
        self.cycle_momentum = bool(cycle_momentum)
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch == -1)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, most, strict=True):
                group["max_lr"] = rate
                group["initial_lr"] = rate / div_factor
                group["min_lr"] = group["initial_lr"] / final_div_factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._check_count(self.base_lrs)
        step = self.last_epoch
        what = f"OneCycleLR: the step must be at most total_steps {self.total_steps}"
        require(step <= self.total_steps, what, step)
        start = 0.0
        for phase in self._schedule_phases:
            stop = phase["end_step"]
            if step <= stop or phase is self._schedule_phases[-1]:
                break
            start = stop
        gone = (step - start) / (stop - start) if stop > start else 1.0
        share = eased(gone, self._anneal_func_type)

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

    The rates change after more than ``patience`` steps in a row that were no better than the best
    one. The ``cooldown`` steps after a change are not counted.

    mode: ``"min"`` if a smaller metric is better, ``"max"`` if a larger one is.
    factor: below 1.
    threshold: how much better a metric must be: with the ``threshold_mode`` ``"rel"`` by this
        share of the best one, with ``"abs"`` by this number.
    min_lr: a number, or one for each group.
    eps: a rate stays as it is if it would change by at most this.
    """

    def __init__(
        self, optimizer: Optimizer, mode: Literal["min", "max"] = "min", factor: float = 0.1,
        patience: int = 10, threshold: float = 1e-4, threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0, min_lr: float | list[float] = 0.0, eps: float = 1e-8,
    ) -> None:  # fmt: skip
        self.optimizer = self._check_optimizer(optimizer)
        require(factor < 1, "ReduceLROnPlateau: factor must be below 1", factor)
        one_of("ReduceLROnPlateau: mode", mode, ("min", "max"))
        one_of("ReduceLROnPlateau: threshold_mode", threshold_mode, ("rel", "abs"))
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
        change = self.threshold if self.mode == "max" else -self.threshold
        bound = self.best * (1 + change) if self.threshold_mode == "rel" else self.best + change
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
            check_type(scheduler, LRScheduler, f"{self._name}: scheduler {i} must be a scheduler")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{self._name}: scheduler {i} is a ReduceLROnPlateau, whose step needs a "
                    f"metric; step it by itself"
                )
            if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ValueError(f"{self._name}: scheduler {i} is of another optimizer")
        return schedulers

    def _active(self):
        """The schedulers that change the rates at the current epoch."""
        return self._schedulers

    def _begin(self):
        for scheduler in self._active():
            scheduler._begin()
        self._last_lr = self._rates()

    def _unbegin(self):
        for scheduler in self._active():
            scheduler._unbegin()

    def step(self) -> None:
        """Set the rates of the next epoch. Call it after the optimizer's ``step``."""
        for scheduler in self._active():
            scheduler.step()
        self._last_lr = self._rates()


class SequentialLR(_OfSchedulers):
    """One scheduler after the other: each next one begins, with its epoch 0, at its milestone.

    That also holds for a `SequentialLR` or `ChainedScheduler` among them. In PyTorch, such a
    scheduler begins with epoch 1 if it is the first, and raises an error if it is not.

    schedulers: of this optimizer.
    milestones: the epochs at which the second one begins, the third one, and so on.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._check_optimizer(optimizer)
        self._schedulers = self._check_schedulers(schedulers, optimizer)
        self._milestones = [whole("SequentialLR: a milestone", m, 0) for m in milestones]
        in_order = self._milestones == sorted(self._milestones)
        require(in_order, "SequentialLR: milestones must be in order", milestones)
        n, found = len(self._schedulers), len(self._milestones)
        require(found == n - 1, f"SequentialLR: {n} schedulers need {n - 1} milestones", found)
        self.last_epoch = last_epoch + 1
        self._set_rates([group["initial_lr"] for group in optimizer.param_groups])
        for scheduler in self._schedulers:
            scheduler._unbegin()
        self._begin()

    def _active(self):
        return [self._schedulers[bisect_right(self._milestones, self.last_epoch)]]

    def _begin_later(self):
        self._active()[0]._begin_later()
        self._last_lr = self._rates()

    def step(self) -> None:
        """Set the rates of the next epoch. Call it after the optimizer's ``step``."""
        self.last_epoch += 1
        if self.last_epoch in self._milestones:
            self._begin_later()
        else:
            super().step()


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

    def _begin_later(self):
        self._set_rates([group["initial_lr"] for group in self.optimizer.param_groups])
        self._begin()


_kinds = [x for x in globals().values() if isinstance(x, type) and issubclass(x, LRScheduler)]
__all__ = sorted([kind.__name__ for kind in _kinds if kind.__name__[0] != "_"])
explain_names(__name__)
