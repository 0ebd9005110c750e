"""`DataParallel`: a model whose gradients are averaged over processes while backward goes on."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from .._arguments import require, whole
from .._dtypes import is_half, isdtype
from .._processes import current
from .._processes.communicating import Started, communicate, poll
from ..autograd.call import wrap
from ..autograd.graph import Listener
from ..backends import backend_of, describe
from ..backends.dtypes import number_dtype
from ..nn.module import Module, overwrite
from .collectives import broadcast

# Backward reaches the parameters of the last layers first. A small first bucket lets the first
# reduction start early; after it, larger ones spare the latency of many.
_FIRST_BUCKET = 1 << 20
_BUCKET = {"cpu": 4 << 20, "cuda": 25 << 20}  # NCCL's latency grows with the number of GPUs


class DataParallel(Module):
    """A model that each process has, trained on a part of each batch by each of them.

    ::

        distributed.init()
        model = distributed.DataParallel(nn.MLP(784, [256, 10]))
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        ...
        loss(model(part_of_the_batch)).backward()  # .grad is the mean over all processes
        optimizer.step()

    At the start all processes get the parameters and buffers of rank 0. Each backward pass
    averages the gradients, bucket by bucket while it goes on, so that the optimizers do the same
    in all processes. If each process has an equal part of the batch and the loss is a mean, this is
    the gradient of the whole batch. It is the same bits in all processes and from run to run.

    The loss must reach at least one of the parameters in each process. If it reaches a parameter in
    some processes only, the others count as having a gradient of 0. If it reaches a parameter in no
    process, this keeps its ``grad``, which is usually None. Freeze parameters before you wrap the
    module. Buffers, such as the running statistics of batch normalization, differ between the
    processes afterwards; see `gpugrad.nn.SyncBatchNorm`. The names in `state_dict` are those of
    ``module``.

    bucket_bytes: a reduction begins as soon as this many bytes of gradients are complete, by
        default 4 MiB on the CPU and 25 MiB on CUDA devices. Smaller buckets begin earlier, larger
        ones have less overhead.
    sum_dtype: the dtype to sum in, such as float32 for a model in float16. By default it is the
        gradients' own, except that the CPU sums 16-bit gradients in float32. Each process divides
        its gradients by the number of processes before the sum.

    With one process, and in copies, this only calls ``module``. Raises ValueError if the models
    differ in shapes or dtypes; backward raises RuntimeError under ``create_graph``.

    Compiled functions also average gradients while backward goes on, and get the same bits. The
    processes may record a function in different calls. A program fits only the parameters that the
    loss reached in any process when it was recorded. If the loss reaches others, but in other
    processes only, the call raises RuntimeError before it writes to a parameter.
    """

    def __init__(
        self, module: Module, *, bucket_bytes: int | None = None, sum_dtype: Any = None
    ) -> None:
        if not isinstance(module, Module):
            raise TypeError(f"DataParallel: module must be a Module, not {module!r}")
        if bucket_bytes is not None:
            whole("DataParallel: bucket_bytes", bucket_bytes, 1)
        self.module = module
        self._reducer: _Reducer | None = None
        group = current()
        if group.size > 1:
            _share_initial_values(group, module)
            self._reducer = _Reducer([*module.parameters()], bucket_bytes, sum_dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._reducer is not None:
            self._reducer.listen_to_all()
        return self.module(*args, **kwargs)

    def _state(self, path=""):
        return self.module._state(path)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_reducer": None}

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block, backward adds to each process's own gradients and averages nothing.

        The first backward pass after it averages the sum of all::

            with model.no_sync():
                loss(model(first)).backward()
            loss(model(second)).backward()
        """
        if (reducer := self._reducer) is None:
            yield
            return
        before, reducer.mode.enabled = reducer.mode.enabled, False
        try:
            yield
        finally:
            reducer.mode.enabled = before

    def synchronize(self) -> None:
        """Average the gradients that are there now, after backward passes under `no_sync`.

        A process that has no gradients, as it had no part of the batch, counts as one of zeros.
        """
        if self._reducer is not None:
            self._reducer.average()


def _share_initial_values(group, module):
    """Give the parameters and buffers of rank 0 to all."""
    tensors = [*module.parameters(), *module.buffers()]
    described = [f"{x.dtype} {x.shape}" for x in tensors]
    for rank, other in enumerate(group.exchange(described)):
        if other != described:
            pairs = zip(described, other, strict=False)
            counts = f"{len(described)} and {len(other)} of them"
            differences = [f"{a} and {b}" for a, b in pairs if a != b] or [counts]
            raise ValueError(
                f"DataParallel: the models of ranks {group.rank} and {rank} differ in their "
                f"parameters and buffers: {differences[0]}"
            )
    for x in tensors:
        overwrite(x, broadcast(x.detach()).array)


class _Bucket:
    """Parameters whose gradients are reduced together, one after the other in one array.

    members: the number of each parameter, and where its gradient begins and ends.
    """

    def __init__(self, dtype, like):
        self.dtype = dtype
        self.like = like
        self.size = 0
        self.members = []

    def add(self, number, size):
        self.members.append((number, self.size, self.size + size))
        self.size += size

    def start_mean(self, grads):
        """Start the reduction of these gradients, of which None stands for zeros."""
        backend, factor = backend_of[type(self.like)], 1 / current().size
        array = backend.create("empty", (self.size,), dtype=self.dtype, like=self.like)
        with backend.scope(array):
            for grad, (_, start, stop) in zip(grads, self.members, strict=True):
                part = array[start:stop]
                if grad is None:
                    part[...] = 0
                elif grad.dtype == part.dtype:
                    backend.xp.multiply(grad.reshape(-1), factor, out=part)
                else:
                    part[...] = grad.reshape(-1)
                    part *= factor
        return Started(array, current().all_reduce, array)

    def end_mean(self, places, started):
        """The gradients in the array, given where each of them begins and ends, and its shape."""
        array, xp = started.wait(), backend_of[type(self.like)].xp
        parts = [array[start:stop].reshape(shape) for start, stop, shape in places]
        return [xp.astype(x, self.like.dtype, copy=False) for x in parts]


def _start_exchange(flags):
    flags = bytearray(flags)
    return Started(flags, current().any_of, flags)


class _Exchange:
    """Ends an exchange of flags. Later calls, by a program, must have the flags of the first call.

    flags: whether each parameter has a gradient in any process; None before the first call.
    """

    __name__ = "end_exchange"

    def __init__(self, shapes, mode):
        self._shapes = shapes
        self._mode = mode
        self.flags = None

    def __call__(self, started):
        flags = started.wait()
        if self.flags is None:
            self.flags = flags
        elif flags != self.flags:
            self._mode.surprises += 1  # the function will be recorded anew
            rows = zip(self._shapes, flags, self.flags, strict=True)
            changed = [str(shape) for shape, a, b in rows if a != b]
            raise RuntimeError(
                f"DataParallel: in another process the loss of a compiled function reaches other "
                f"parameters than in the calls before; those that differ have the shapes "
                f"{', '.join(changed)}. Let it reach the same in each call, or leave the function "
                f"uncompiled"
            )


class _Reducer(Listener):
    """Averages gradients over processes."""

    def __init__(self, parameters, bucket_bytes, sum_dtype):
        self.tensors = [p for p in parameters if p.requires_grad]
        self._frozen = [p for p in parameters if not p.requires_grad]
        self._numbers = {id(p): i for i, p in enumerate(self.tensors)}
        self._buckets = _divided(self.tensors, bucket_bytes, sum_dtype)
        self.mode = SimpleNamespace(enabled=True, surprises=0)
        self._pass = None

    def listen_to_all(self):
        """Listen to the leaves of all parameters. A parameter that was frozen has a new leaf."""
        for p in self.tensors:
            leaf = p.node
            if leaf is not None and (leaf.watch is None or leaf.watch.listener is not self):
                self.listen(leaf)
        if any(p.requires_grad for p in self._frozen):
            raise RuntimeError(
                "DataParallel: a parameter was frozen before and is not now; wrap the module again"
            )

    # What backward calls

    def started(self, leaves, create_graph):
        if not self.mode.enabled:
            return
        if create_graph:
            raise RuntimeError(
                "DataParallel: backward cannot average gradients under create_graph, as the mean "
                "over the processes has no derivative; use no_sync()"
            )
        self._begin({self._numbers[id(leaf.owner())] for leaf in leaves})

    def arrived(self, leaf):
        if (now := self._pass) is None:
            return
        now.waited_for.discard(self._numbers[id(leaf.owner())])
        self._start_full_buckets()
        if now.reductions:
            communicate(poll, now.reductions)

    def ended(self):
        if self._pass is not None:
            self._finish()

    def failed(self):
        self._pass = None

    def average(self):
        """Average the gradients that are there now."""
        try:
            self._begin(set())
            self._finish()
        except BaseException:
            self.failed()
            raise

    # The pass

    def _begin(self, reached):
        """Begin a pass in which backward will set the gradients of these parameters.

        waited_for: the numbers of the parameters whose gradients are not there yet.
        flags, reductions: what has been started: the exchange of which parameters have gradients,
            and the reductions of the first buckets.
        """
        flags = [i in reached or p.grad is not None for i, p in enumerate(self.tensors)]
        flags = communicate(partial(_start_exchange, flags))
        self._pass = SimpleNamespace(waited_for=set(reached), flags=flags, reductions=[])
        self._start_full_buckets()

    def _start_full_buckets(self):
        """Start the reductions of the next buckets if all their gradients are there.

        All ranks must do so in the same order, which that of the gradients may not be.
        """
        now = self._pass
        for bucket in self._buckets[len(now.reductions) :]:
            numbers = [number for number, _, _ in bucket.members]
            if not now.waited_for.isdisjoint(numbers):
                break
            grads = [self._grad(bucket, number) for number in numbers]
            now.reductions.append(communicate(bucket.start_mean, grads))

    def _grad(self, bucket, number):
        """The gradient of a parameter, or None, for its bucket."""
        p, like = self.tensors[number], bucket.like
        if p.grad is None:
            return None
        grad = p.grad.detach().array
        if backend_of[type(grad)].real is not backend_of[type(like)] or grad.dtype != like.dtype:
            raise RuntimeError(
                f"DataParallel: a parameter is now {describe(p)}; move the module first, and wrap "
                f"it then"
            )
        return grad

    def _finish(self):
        """Wait for all reductions, and set the gradients."""
        now = self._pass
        now.waited_for.clear()  # backward has not reached these parameters after all
        self._start_full_buckets()
        exchange = _Exchange([p.shape for p in self.tensors], self.mode)
        communicate(exchange, now.flags)
        for bucket, started in zip(self._buckets, now.reductions, strict=True):
            members = [member for member in bucket.members if exchange.flags[member[0]]]
            places = [(start, stop, self.tensors[n].shape) for n, start, stop in members]
            grads = communicate(partial(bucket.end_mean, places), started, results=True)
            for (number, _, _), grad in zip(members, grads, strict=True):
                self.tensors[number].grad = wrap(grad, None)
        self._pass = None


def _divided(parameters, bucket_bytes, sum_dtype):
    """The buckets of these parameters, from the last parameter to the first."""
    buckets: list[_Bucket] = []
    open_buckets: dict[Any, _Bucket] = {}
    for number in reversed(range(len(parameters))):
        array = parameters[number].array
        backend = backend_of[type(array)]
        dtype = array.dtype
        if sum_dtype is not None:
            dtype = backend.dtype(sum_dtype)
            kind = "complex floating" if backend.is_complex(array.dtype) else "real floating"
            require(isdtype(dtype, kind), f"DataParallel: sum_dtype must be {kind}", sum_dtype)
        elif is_half(dtype) and backend.device(array) == "cpu":
            dtype = backend.xp.float32
        key = dtype, backend.device(array)
        if key not in open_buckets:
            open_buckets[key] = _Bucket(dtype, array)
            buckets.append(open_buckets[key])
        bucket = open_buckets[key]
        bucket.add(number, math.prod(array.shape))
        full = bucket_bytes or _BUCKET["cpu" if backend.device(array) == "cpu" else "cuda"]
        full = full if buckets[1:] else min(_FIRST_BUCKET, full)
        if bucket.size * number_dtype(dtype).itemsize >= full:
            del open_buckets[key]
    return buckets
