"""Stochastic gradient descent."""

from collections.abc import Mapping
from typing import Any, ClassVar

from .optimizer import FINITE, Optimizer, decayed


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as PyTorch defines it.

    For a parameter ``p`` with gradient ``g`` and momentum buffer ``b``, which the first
    update sets to ``g``::

        g = g + weight_decay * p
        b = momentum * b + (1 - dampening) * g
        p = p - lr * (g + momentum * b if nesterov else b)

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters: all must be finite, and all but ``dampening`` at least 0; ``nesterov``
    needs momentum and no dampening.
    """

    keeps_if: ClassVar = {"momentum_buffer": "momentum"}
    ranges: ClassVar = {**Optimizer.ranges, "dampening": FINITE}
    splits_complex = False  # it is linear

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        if group["nesterov"] and (not group["momentum"] or group["dampening"]):
            raise ValueError("SGD: nesterov needs a momentum above 0 and a dampening of 0")

    def apply_single(
        self, array, grad, state, step,
        lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False,
    ):  # fmt: skip
        grad = decayed(array, grad, lr, weight_decay)
        if momentum:
            (buffer,) = state
            buffer *= momentum
            buffer += grad if not dampening or step == 1 else (1 - dampening) * grad
            grad = grad + momentum * buffer if nesterov else buffer
        array -= lr * grad

    @staticmethod
    def fused_kernel(step, lr, momentum, dampening, weight_decay, nesterov):
        if not momentum:
            return "sgd", (lr, weight_decay)
        new_share = 1.0 if step == 1 else 1 - dampening
        return "sgd_momentum", (lr, weight_decay, momentum, new_share, nesterov)
