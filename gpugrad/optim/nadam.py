"""NAdam."""

from collections.abc import Mapping
from typing import ClassVar

from ..backends import backend_of
from .optimizer import Optimizer, decayed, move, move_to_square, square_root


class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016, "Incorporating Nesterov momentum into Adam").

    As PyTorch has it. Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g`` and
    with the averages ``m`` and ``v``, which start at 0::

        g = g + weight_decay * p
        mu(t) = beta1 * (1 - 0.96**(t * momentum_decay) / 2)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        c(t) = mu(1) * ... * mu(t)
        n = mu(t + 1) * m / (1 - c(t + 1)) + (1 - mu(t)) * g / (1 - c(t))
        p = p - lr * n / (sqrt(v / (1 - beta2**t)) + eps)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    betas: the decays of the averages of gradients and of their squares, from 0 to below 1.
    decoupled_weight_decay: replace the first line by ``p = (1 - lr * weight_decay) * p``, as
        `AdamW` does.
    maximize: go up: use ``-g`` in place of ``g``.

    The state dict has ``c(t)`` as ``mu_product``, in float64, where PyTorch has float32.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps``, ``weight_decay`` and ``momentum_decay`` must be finite and
    at least 0.
    """

    keeps = "exp_avg", "exp_avg_sq"
    keeps_step = True
    numbers: ClassVar[Mapping[str, float]] = {"mu_product": 1.0}

    def next_counts(self, counts, lr, betas, eps, weight_decay, momentum_decay, decoupled):
        step, product = counts
        return step + 1, product * _mu(step + 1, betas, momentum_decay)

    def apply_single(
        self, array, grad, state, step, mu_product,
        lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
        decoupled_weight_decay=False,
    ):  # fmt: skip
        xp = backend_of[type(array)].xp
        grad = decayed(array, grad, lr, weight_decay, decoupled_weight_decay)
        average, square = state
        beta1, beta2 = betas
        move(average, grad, beta1)
        move_to_square(square, grad, beta2)
        divisor = xp.sqrt(square)
        divisor /= square_root(1 - beta2**step)
        divisor += eps
        mu, next_mu = (_mu(t, betas, momentum_decay) for t in (step, step + 1))
        mu_product = mu_product * mu
        change = grad * ((1 - mu) / (1 - mu_product))
        change += average * (next_mu / (1 - mu_product * next_mu))
        change /= divisor
        change *= lr
        array -= change


def _mu(step, betas, momentum_decay):
    return betas[0] * (1 - 0.5 * 0.96 ** (step * momentum_decay))
