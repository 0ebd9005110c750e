"""Averaged stochastic gradient descent."""

from collections.abc import Mapping
from typing import ClassVar

from .optimizer import AT_LEAST_0, FINITE, Optimizer, decayed, move


class ASGD(Optimizer):
    """Averaged gradient descent (Polyak & Juditsky 1992, "Acceleration of stochastic approximation
    by averaging"), as PyTorch has it.

    Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g``::

        g = g + weight_decay * p
        p = (1 - lambd * eta) * p - eta * g
        ax = ax + mu * (p - ax)
        eta = lr / (1 + lambd * lr * t)**alpha
        mu = 1 / max(1, t - t0)

    At first ``eta`` is ``lr`` and ``mu`` is 1. The average ``ax`` is in the state: use
    ``optimizer.state_dict()["state"][i]["ax"]`` in place of parameter i at the end, after more than
    ``t0`` updates. See `gpugrad.optim.swa_utils` for averages of a whole model.

    The state dict has ``eta`` and ``mu`` in float64, where PyTorch has float32.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    t0: after how many updates the average begins.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters: all must be finite, and all but ``alpha`` and ``t0`` at least 0.
    """

    ranges: ClassVar = {**Optimizer.ranges, "lambd": AT_LEAST_0, "alpha": FINITE, "t0": FINITE}
    keeps = ("ax",)
    keeps_step = True
    splits_complex = False  # it is linear
    numbers: ClassVar[Mapping[str, float]] = {"eta": 0.0, "mu": 1.0}

    def next_counts(self, counts, lr, lambd, alpha, t0, weight_decay):
        step = counts[0] + 1
        one = step / step  # 1.0, or a Number in a recorded function, as all counts are
        return step, lr / (1 + lambd * lr * step) ** alpha, one / max(one, step - t0)

    def apply_single(
        self, array, grad, state, step, eta, mu,
        lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0,
    ):  # fmt: skip
        (average,) = state
        eta = lr if step == 1 else eta
        grad = decayed(array, grad, lr, weight_decay)
        array *= 1 - lambd * eta
        array -= eta * grad
        move(average, array, 1 - mu)
