"""Lion."""

from ..backends import backend_of
from .optimizer import Optimizer, decayed, move


class Lion(Optimizer):
    """Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms").

    An update of a parameter ``p`` with gradient ``g`` and with the average ``m`` of gradients,
    which starts at 0::

        p = (1 - lr * weight_decay) * p
        p = p - lr * sign(beta1 * m + (1 - beta1) * g)
        m = beta2 * m + (1 - beta2) * g

    The sign of 0 is 0. The real and the imaginary parts of complex parameters are treated as
    separate numbers. PyTorch has no Lion; ``exp_avg`` is the name of ``m`` in the state dict, as
    in the authors' implementation.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    lr: about a third to a tenth of a good rate for `AdamW`, with a ``weight_decay`` that is larger
        by the same factor.
    betas: ``beta1`` and ``beta2`` in the formula, from 0 to below 1.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr`` and ``weight_decay`` must be finite and at least 0.
    """

    keeps = ("exp_avg",)

    def apply_single(self, array, grad, state, step, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        (average,) = state
        beta1, beta2 = betas
        decayed(array, grad, lr, weight_decay, decoupled=True)
        change = beta1 * average
        change += (1 - beta1) * grad
        array -= lr * backend_of[type(array)].xp.sign(change)
        move(average, grad, beta2)
