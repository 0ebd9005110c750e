"""`sum_over_processes`, an op for layers that compute together with those of other processes."""

from .._tensor import Tensor
from ..autograd.operation import op
from ..backends import backend_of
from .communicating import communicate
from .group import current


@op
def sum_over_processes(xp, x):
    """The sum of the arrays ``x`` of all processes, each of which calls this."""
    return _sum(x)


def _sum(x):
    (out,) = communicate(_sum_over_processes, x, results=True)
    return out


def _sum_over_processes(x):
    backend = backend_of[type(x)]
    with backend.scope(x):
        out = backend.xp.reshape(backend.asarray(x, copy=True), (-1,))
        current().all_reduce(out).wait()
        return (backend.xp.reshape(out, x.shape),)


# Each process's result depends on all processes' inputs, and all losses count.
sum_over_processes.vjp(x=lambda xp, g: sum_over_processes(g) if isinstance(g, Tensor) else _sum(g))
# A batch of sums is the sum of the batches.
sum_over_processes.vmap(lambda call, batched, x: call(x))
