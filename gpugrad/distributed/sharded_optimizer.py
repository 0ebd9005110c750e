"""`ShardedOptimizer`: each process keeps and updates a share of an optimizer's state."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .._foreign_names import explains_arguments
from .._processes import current
from .._processes.replayed import Start, finish
from .._thread_state import thread
from ..autograd.graph import writes
from ..backends import backend_of
from ..optim import LBFGS
from ..optim.optimizer import Optimizer


class ShardedOptimizer(Optimizer):
    """An optimizer whose state is divided among the processes (stage 1 of ZeRO).

    ::

        model = distributed.DataParallel(model)
        optimizer = distributed.ShardedOptimizer(optim.Adam(model.parameters(), lr=1e-3))

    Each process updates some of the parameters, so that it keeps only their state, and then gets
    the others from the processes that updated them. All processes must have the same gradients, as
    with `DataParallel`; the parameters become those that ``optimizer`` alone would give them.
    Schedulers, `gpugrad.compile` and `gpugrad.training.Trainer` take it as any other optimizer.

    optimizer: the optimizer that makes the updates, new, and of all parameters.

    `state_dict` and `load_state_dict` are called by all processes. The former returns the whole
    state to each, as ``optimizer`` alone would, so that a run can be continued with another number
    of processes. Raises TypeError for `LBFGS`, which updates all parameters as one vector.
    (Rajbhandari et al. 2020, "ZeRO: memory optimizations toward training trillion parameter
    models")
    """

    communicates = True

    @explains_arguments
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
        self._has_stepped = True
        return self._shared(lambda: self.optimizer.step(closure))

    def step_unless(self, skips: Mapping[str, Any]) -> Any:
        """A `step` that changes nothing if ``skips`` are not 0; see `Optimizer.step_unless`."""
        self._has_stepped = True
        return self._shared(lambda: self.optimizer.step_unless(skips))

    def _shared(self, step):
        """Call ``step`` with the gradients of this process's parameters, then share all of them."""
        group = self._group
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
        if thread.recorder is not None:
            self._note(with_owner)
            return
        places = [writes.place(p.array) for p, owner in with_owner if owner != self._group.rank]
        writes.note(places)
        try:
            started = []
            for p, owner in with_owner:
                backend = backend_of[type(p.array)]
                with backend.scope(p.array):
                    flat = p.array.reshape(-1)
                    copied = backend.address_range(flat) != backend.address_range(p.array)
                    pending = current().broadcast(flat, owner)
                    started.append((p.array, flat if copied else None, pending))
            for array, copy, pending in started:
                pending.wait()
                if copy is not None:  # its memory is not contiguous
                    array[...] = copy.reshape(array.shape)
        finally:
            writes.note(places)

    def _note(self, with_owner):
        """Record what `_share` does, for `compile`."""
        note, rank = thread.recorder.communicate, self._group.rank
        tokens = [
            note(Start("broadcast", partial(self._broadcast, p, owner)), [p.array][: owner == rank])
            for p, owner in with_owner
        ]
        for (p, owner), token in zip(with_owner, tokens, strict=True):
            (values,) = note(finish, (token,), [(p.shape, p.array)])
            if owner != rank:
                p.array[...] = values

    def _broadcast(self, p, owner, own=None):
        """Start to send the array ``own`` to all, or to receive one like ``p`` from its owner."""
        like = p.array
        backend = backend_of[type(like)]
        with backend.scope(like):
            array = backend.create("empty", p.shape, dtype=like.dtype, like=like)
            if own is not None:
                array[...] = own
            return array, current().broadcast(array.reshape(-1), owner)

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


def _divided(sizes, count):
    """The rank for each size, so that the ranks have similar sums: the largest come first."""
    sums, owners = [0] * count, [0] * len(sizes)
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        owners[i] = sums.index(min(sums))
        sums[owners[i]] += sizes[i]
    return owners
