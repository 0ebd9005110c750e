"""Adamax."""

from ..backends import backend_of
from .optimizer import Optimizer, decayed, move


class Adamax(Optimizer):
    """Adamax (Kingma & Ba 2015, "Adam: A method for stochastic optimization"), as PyTorch has it.

    Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g``, its average ``m`` and
    its decaying greatest magnitude ``u``, which start at 0::

        g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, abs(g) + eps)
        p = p - lr * m / (1 - beta1**t) / u

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    betas: the decays of ``m`` and of ``u``, from 0 to below 1.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps`` and ``weight_decay`` must be finite and at least 0.
    """

    keeps = "exp_avg", "exp_inf"
    keeps_step = True

    def apply_single(
        self, array, grad, state, step, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0
    ):
        xp = backend_of[type(array)].xp
        grad = decayed(array, grad, lr, weight_decay)
        average, greatest = state
        beta1, beta2 = betas
        move(average, grad, beta1)
        greatest *= beta2
        magnitude = xp.abs(grad)
        magnitude += eps
        greatest[...] = xp.maximum(greatest, magnitude)
        change = average / greatest
        change *= lr / (1 - beta1**step)
        array -= change
