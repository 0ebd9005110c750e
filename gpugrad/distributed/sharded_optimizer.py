"""`ShardedOptimizer`: each process keeps and updates a share of an optimizer's state."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .._processes import current
from .._processes.communicating import Started, communicate
from ..autograd.graph import writes
from ..autograd.mode import enable_grad
from ..backends import backend_of
from ..optim import LBFGS
from ..optim.optimizer import Optimizer


class ShardedOptimizer(Optimizer):
    """An optimizer whose state is divided among the processes (stage 1 of ZeRO).

    ::

        model = distributed.DataParallel(model)
        optimizer = distributed.ShardedOptimizer(optim.Adam(model.parameters(), lr=1e-3))

    Each process updates some of the parameters, keeps only their state, and then gets the other
    parameters from the processes that updated these. All processes must have the same gradients, as
    with `DataParallel`; the parameters get the values that ``optimizer`` alone would give them.
    Schedulers, `gpugrad.compile` and `gpugrad.training.Trainer` take it as any other optimizer.

    optimizer: the optimizer that makes the updates, new, and of all parameters.

    `state_dict` and `load_state_dict` are called by all processes. The former returns the whole
    state to each, as ``optimizer`` alone would, so that a run can be continued with another number
    of processes. Raises TypeError for `LBFGS`, which updates all parameters as one vector.
    (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion parameter
    models")
    """

    communicates = True

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer) or isinstance(optimizer, LBFGS):
            raise TypeError(
                f"ShardedOptimizer: optimizer must be one that updates each parameter by itself, "
                f"such as optim.Adam(parameters), not {type(optimizer).__name__}"
            )
        self.optimizer = optimizer
        self.defaults = optimizer.defaults
        self.param_groups = optimizer.param_groups  # the same list, which schedulers write to
        self._has_stepped = False
        self._group = current()
        self._owners: list[int] = []

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Optimize more parameters; see `Optimizer.add_param_group`."""
        self.optimizer.add_param_group(group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update each parameter that requires grad and has a gradient, in some process."""
        loss = None if closure is None else enable_grad(closure)()  # it sets all gradients
        self._shared(self.optimizer.step)
        return loss

    def step_unless(self, skips: Mapping[str, Any]) -> Any:
        """A `step` that changes nothing if ``skips`` are not 0; see `Optimizer.step_unless`."""
        return self._shared(lambda: self.optimizer.step_unless(skips))

    def _shared(self, step):
        """Call ``step`` with the gradients of this process's parameters, then share all of them."""
        self._has_stepped, group = True, self._group
        if group.size == 1:
            return step()
        with_owner = self._with_owner()
        hidden = [(p, p.grad) for p, owner in with_owner if owner != group.rank]
        for p, _ in hidden:
            p.grad = None
        try:
            result = step()
        finally:
            for p, grad in hidden:
                p.grad = grad
        self._share([(p, owner) for p, owner in with_owner if p.grad is not None])
        return result

    def _share(self, with_owner):
        """Give all processes the parameters of their owners."""
        arrays = [p.array for p, _ in with_owner]
        places = [writes.place(array) for array in arrays]
        writes.note(places)
        try:
            communicate(partial(_broadcast, [r for _, r in with_owner]), arrays, writes=True)
        finally:
            writes.note(places)

    def _with_owner(self):
        """All parameters, with the rank that updates each."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        if len(self._owners) != len(parameters):
            self._owners = _divided([math.prod(p.shape) for p in parameters], self._group.size)
        return list(zip(parameters, self._owners, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Copies of the state of all processes, on the CPU; see `Optimizer.state_dict`."""
        state = self.optimizer.state_dict()
        owners = [owner for _, owner in self._with_owner()]
        own = {
            i: {name: x.cpu() for name, x in arrays.items()}
            for i, arrays in state["state"].items()
            if owners[i] == self._group.rank
        }
        merged = {i: arrays for part in current().exchange(own) for i, arrays in part.items()}
        return {**state, "state": {i: merged[i] for i in sorted(merged)}}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over this process's share of such a state; see `Optimizer.load_state_dict`."""
        if isinstance(state_dict, Mapping) and isinstance(state_dict.get("state"), Mapping):
            owners = dict(enumerate(owner for _, owner in self._with_owner()))
            own = {
                i: arrays
                for i, arrays in state_dict["state"].items()
                if owners.get(i, self._group.rank) == self._group.rank
            }
            state_dict = {**state_dict, "state": own}
        self.optimizer.load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("ShardedOptimizer: cannot be copied or pickled; use state_dict()")

    def __repr__(self) -> str:
        return f"ShardedOptimizer({self.optimizer!r})"


def _broadcast(owners, arrays):
    """Overwrite each array by that of its owner."""
    started = []
    for array, owner in zip(arrays, owners, strict=True):
        with backend_of[type(array)].scope(array):
            flat = array.reshape(-1)
            started.append(Started(flat, current().broadcast, flat, owner))
    for array, one in zip(arrays, started, strict=True):
        address_range, flat = backend_of[type(array)].address_range, one.wait()
        if address_range(flat) != address_range(array):  # its memory is not contiguous
            array[...] = flat.reshape(array.shape)


def _divided(sizes, count):
    """The rank for each size, so that the ranks have similar sums: the largest come first."""
    sums, owners = [0] * count, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owners[i] = sums.index(min(sums))
        sums[owners[i]] += sizes[i]
    return owners
