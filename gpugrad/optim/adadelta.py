"""Adadelta."""

from ..backends import backend_of
from .optimizer import Optimizer, decayed, move_to_square


class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012, "ADADELTA: An adaptive learning rate method"), as PyTorch has it.

    An update of a parameter ``p`` with gradient ``g``, where the average ``v`` of the squares of
    gradients and ``u`` of the squares of changes start at 0::

        g = g + weight_decay * p
        v = rho * v + (1 - rho) * g**2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d**2
        p = p - lr * d

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    rho: the decay of the averages, from 0 to 1.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps`` and ``weight_decay`` must be finite and at least 0.
    """

    keeps = "square_avg", "acc_delta"
    keeps_step = True

    def apply_single(self, array, grad, state, step, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0):
        xp = backend_of[type(array)].xp
        grad = decayed(array, grad, lr, weight_decay)
        square, changes = state
        move_to_square(square, grad, rho)
        change = xp.sqrt(changes + eps)
        change /= xp.sqrt(square + eps)
        change *= grad
        move_to_square(changes, change, rho)
        change *= lr
        array -= change
