# Written by tests/write_stubs.py.

from collections.abc import Iterable

from .optimizer import Optimizer
from .scheduler import LRScheduler

class StepLR(LRScheduler):
    """``lr = initial_lr * gamma**(epoch // step_size)``."""

    step_size: int
    gamma: float
    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None: ...

class MultiStepLR(LRScheduler):
    """``lr = initial_lr * gamma**n``, with ``n`` the number of ``milestones`` up to the epoch.

    milestones: epochs, in any order. One that is given twice counts twice.
    """

    milestones: Iterable[int]
    gamma: float
    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None: ...

class ConstantLR(LRScheduler):
    """``lr = initial_lr * factor`` before epoch ``total_iters``, and ``initial_lr`` from there on.

    factor: above 0 and at most 1.
    """

    factor: float
    total_iters: int
    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 0.3333333333333333,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None: ...

class LinearLR(LRScheduler):
    """``lr = initial_lr * f``, with ``f`` linear in the epoch.

    ``f`` goes from ``start_factor`` at epoch 0 to ``end_factor`` at ``total_iters``, and stays.

    start_factor: above 0 and at most 1.
    end_factor: from 0 to 1.
    """

    start_factor: float
    end_factor: float
    total_iters: int
    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 0.3333333333333333,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None: ...

class ExponentialLR(LRScheduler):
    """``lr = initial_lr * gamma**epoch``."""

    gamma: float
    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None: ...

class PolynomialLR(LRScheduler):
    """``lr = initial_lr * (1 - min(epoch, total_iters) / total_iters)**power``."""

    total_iters: int
    power: float
    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None: ...

class CosineAnnealingLR(LRScheduler):
    """``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Loshchilov & Hutter 2017, "SGDR: Stochastic gradient descent with warm restarts", without the
    restarts. After ``T_max`` epochs the rate rises again.
    """

    T_max: int
    eta_min: float
    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None: ...
