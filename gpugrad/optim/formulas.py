"""Schedulers whose rates follow a formula of the epoch."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from typing import Any, ClassVar

from .._arguments import annotated, constructor, is_made, require, whole
from .._foreign_names import set_constructor
from .optimizer import UP_TO_1, Optimizer
from .scheduler import LRScheduler

_OPTIMIZER = Parameter("optimizer", Parameter.POSITIONAL_OR_KEYWORD, annotation=Optimizer)
_LAST_EPOCH = Parameter("last_epoch", Parameter.POSITIONAL_OR_KEYWORD, default=-1, annotation=int)


_ABOVE_0 = "above 0 and at most 1", lambda x: 0 < x <= 1


class Formula(LRScheduler):
    """``lr = eta_min + (initial_lr - eta_min) * share(epoch, *options)``.

    A subclass defines ``share``, and ``__init__`` takes the options that ``share`` takes. A step
    multiplies the groups' rates by the quotient of the share now and the share before, so that
    other schedulers and the program can change the rates too.

    wholes: the options that are ints, with their least values. ``milestones`` are ints too; all
        other options become floats.
    ranges: requirements of options, as in `Optimizer.ranges`.
    is_stepwise: whether the constructor also multiplies if it gets a ``last_epoch``, as in PyTorch.
    """

    wholes: ClassVar[dict[str, int]] = {"step_size": 1, "total_iters": 0, "T_max": 1}
    ranges: ClassVar = {"factor": _ABOVE_0, "start_factor": _ABOVE_0, "end_factor": UP_TO_1}
    eta_min = 0.0
    is_stepwise = False
    share: Callable[..., float]
    _options: ClassVar[list[str]]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "share" in vars(cls) and "__init__" not in vars(cls) and is_made(cls, Formula):
            _, _, *options = signature(cls.share).parameters.values()
            cls._options = [p.name for p in options]
            parameters = _OPTIMIZER, *annotated(options), _LAST_EPOCH
            set_constructor(cls, constructor(parameters, Formula.__init__))

    def __init__(self, optimizer, last_epoch, **options):
        for name, value in options.items():
            setattr(self, name, self._converted(name, value))
        super().__init__(optimizer, last_epoch)

    def _converted(self, name, value):
        if name == "milestones":
            return Counter([whole(f"{self._name}: a milestone", m, 0) for m in value])
        if name in self.wholes:
            return whole(f"{self._name}: {name}", value, self.wholes[name])
        if name in self.ranges:
            what, fits = self.ranges[name]
            require(fits(value), f"{self._name}: {name} must be {what}", value)
        return float(value)

    def _share(self, epoch):
        try:
            return self.share(epoch, *[getattr(self, name) for name in self._options])
        except OverflowError:
            return math.inf

    def get_lr(self) -> list[float]:
        epoch, low, rates = self.last_epoch, self.eta_min, self._rates()
        if self._is_initial and epoch and not self.is_stepwise:
            return rates
        quotient = self._quotient(epoch) if epoch else self._share(0)
        if quotient is None:  # the rate has lost what other schedulers multiplied it by
            pairs = zip(rates, self.base_lrs, strict=True)
            return [rate + (base - low) * self._share(epoch) for rate, base in pairs]
        rates = [low + (rate - low) * quotient if quotient != 1 else rate for rate in rates]
        # A rate that should be 0 may be below it by rounding, which optimizers refuse.
        return [0.0 if -1e-9 * low < rate < 0 else rate for rate in rates]

    def _quotient(self, epoch):
        """The share of an epoch divided by that of the epoch before; None for a division by 0."""
        now, before = self._share(epoch), self._share(epoch - 1)
        if now == before:
            return 1.0
        return now / before if before else None

    def _begin_later(self):
        self._set_rates(self.base_lrs)
        super()._begin_later()


class StepLR(Formula):
    """``lr = initial_lr * gamma**(epoch // step_size)``."""

    is_stepwise = True

    def share(self, epoch, step_size: int, gamma: float = 0.1):
        return gamma ** (epoch // step_size)

    def _quotient(self, epoch):
        return self.gamma ** (epoch // self.step_size - (epoch - 1) // self.step_size)


class MultiStepLR(Formula):
    """``lr = initial_lr * gamma**n``, with ``n`` the number of ``milestones`` up to the epoch.

    milestones: epochs, in any order. One that is given twice counts twice.
    """

    is_stepwise = True

    def share(self, epoch, milestones: Iterable[int], gamma: float = 0.1):
        return gamma ** sum([n for m, n in Counter(milestones).items() if m <= epoch])

    def _quotient(self, epoch):
        return self.gamma ** self.milestones.get(epoch, 0)


class ConstantLR(Formula):
    """``lr = initial_lr * factor`` before epoch ``total_iters``, and ``initial_lr`` from there on.

    factor: above 0 and at most 1.
    """

    is_stepwise = True

    def share(self, epoch, factor: float = 1.0 / 3, total_iters: int = 5):
        return factor if epoch < total_iters or not total_iters else 1.0


class LinearLR(Formula):
    """``lr = initial_lr * f``, with ``f`` linear in the epoch.

    ``f`` goes from ``start_factor`` at epoch 0 to ``end_factor`` at ``total_iters``, and stays.

    start_factor: above 0 and at most 1.
    end_factor: from 0 to 1.
    """

    def share(
        self, epoch, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5
    ):
        way = min(epoch / total_iters, 1.0) if total_iters else 0.0
        return start_factor + (end_factor - start_factor) * way


class ExponentialLR(Formula):
    """``lr = initial_lr * gamma**epoch``."""

    def share(self, epoch, gamma: float):
        return gamma**epoch

    def _quotient(self, epoch):
        return self.gamma


class PolynomialLR(Formula):
    """``lr = initial_lr * (1 - min(epoch, total_iters) / total_iters)**power``."""

    wholes: ClassVar = {"total_iters": 1}

    def share(self, epoch, total_iters: int = 5, power: float = 1.0):
        return (1 - min(epoch / total_iters, 1.0)) ** power


class CosineAnnealingLR(Formula):
    """``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Loshchilov & Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts", without the
    restarts. After ``T_max`` epochs the rate rises again.
    """

    def share(self, epoch, T_max: int, eta_min: float = 0.0):
        return (1 + math.cos(math.pi * epoch / T_max)) / 2
