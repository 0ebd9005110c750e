"""Adagrad."""

from collections.abc import Mapping
from typing import Any

from .optimizer import Optimizer, decayed, filled, over_root


class Adagrad(Optimizer):
    """Adagrad (Duchi, Hazan & Singer 2011, "Adaptive subgradient methods"), as PyTorch has it.

    Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g`` and with the sum ``s``
    of squares, which starts at ``initial_accumulator_value``::

        g = g + weight_decay * p
        s = s + g**2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters, which must be finite and at least 0.
    """

    keeps_step = True

    def init_single(self, array: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        return {"sum": filled(array, group["initial_accumulator_value"])}

    def apply_single(
        self, array, grad, state, step,
        lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10,
    ):  # fmt: skip
        grad = decayed(array, grad, lr, weight_decay)
        (total,) = state
        total += grad * grad
        change = over_root(grad, total, eps)
        change *= lr / (1 + (step - 1) * lr_decay)
        array -= change
