"""Rprop."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ..backends import backend_of
from .optimizer import PAIR, Optimizer, filled


class Rprop(Optimizer):
    """Rprop (Riedmiller & Braun 1993, "A direct adaptive method for faster backpropagation").

    As PyTorch has it: for whole batches, because only the signs of gradients matter. An update of
    an element ``p`` with gradient ``g``, the one before it ``h``, at first 0, and a step size
    ``s``, at first ``lr``::

        s = s * (etas[1] if g * h > 0 else etas[0] if g * h < 0 else 1), limited to step_sizes
        g = 0 if g * h < 0 else g
        p = p - s * sign(g)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    lr: the first step size; later changes of it have no effect.
    etas: the factors that shrink and grow a step size; one is below 1 and one above.
    step_sizes: the smallest and the largest step size.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr`` must be finite and at least 0.
    """

    kinds: ClassVar = {"etas": PAIR, "step_sizes": PAIR}
    ranges: ClassVar = {
        **Optimizer.ranges,
        "etas": ("one above 0 and below 1, and one above 1", lambda x: 0 < x[0] < 1 < x[1]),
        "step_sizes": ("at least 0 and in order", lambda x: 0 <= x[0] <= x[1]),
    }
    keeps_step = True

    def init_single(self, array: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        return {"prev": filled(array, 0.0), "step_size": filled(array, group["lr"])}

    def apply_single(
        self, array, grad, state, step, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0)
    ):
        xp = backend_of[type(array)].xp
        before, size = state
        agreement = before * grad
        smaller = xp.where(agreement < 0, etas[0] * size, size)
        size[...] = xp.clip(xp.where(agreement > 0, etas[1] * size, smaller), *step_sizes)
        before[...] = xp.where(agreement < 0, 0.0, grad)
        array -= size * xp.sign(before)
