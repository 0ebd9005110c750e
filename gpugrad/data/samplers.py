"""Samplers: the order in which a `DataLoader` reads the samples of a data set."""

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import index
from typing import Any, Generic, TypeVar

from .._arguments import require, whole
from .._creation import arange, asarray
from .._processes import current
from .._tensor import Tensor
from ..backends.dtypes import float64
from ..ops.manipulation import concat
from ..random import Generator, default_generator

Index = TypeVar("Index", covariant=True)


class Sampler(Generic[Index]):
    """Base class of samplers, which yield the indices of samples; one pass is an epoch.

    Your own sampler defines ``__iter__``, and ``__len__`` if the program calls ``len(loader)``. If
    its order is random, it also defines ``set_epoch(epoch)``, which a `DataLoader` calls before
    each pass. Let the order depend on a seed and the epoch only, so that a run can be resumed in
    the middle of an epoch.
    """

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__()")


class SequentialSampler(Sampler[int]):
    """The indices of ``data_source`` from 0 on."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __len__(self) -> int:
        return len(self.data_source)

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))


class SeededSampler(Sampler[int]):
    """Base class of samplers whose order depends only on ``seed`` and ``epoch``.

    A subclass defines ``order()``, which returns a tensor of indices on the CPU.
    """

    seed: int
    epoch: int = 0

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be that of this epoch."""
        self.epoch = whole(f"{type(self).__name__}: epoch", epoch, 0)

    def order(self) -> Tensor:
        raise NotImplementedError

    def _generator(self):
        return Generator((self.seed << 32) + index(self.epoch))

    def __iter__(self) -> Iterator[int]:
        order = self.order()
        self.epoch += 1
        return iter(order.tolist())


class RandomSampler(SeededSampler):
    """The indices of ``data_source`` in a random order, another one in each pass.

    replacement: draw each index independently, so that some come several times and others never.
    num_samples: how many to draw, by default as many as there are. If more are drawn without
        replacement, one random order follows the other.
    generator: a `gpugrad.random.Generator` from which the seed is drawn; by default the default
        one.
    seed: an int of at least 0 instead. The order depends only on ``seed`` and ``epoch``, the number
        of passes so far.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = (
            None if num_samples is None else whole("RandomSampler: num_samples", num_samples, 1)
        )
        self.seed = seed_from("RandomSampler", generator, seed)

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __len__(self) -> int:
        return self.num_samples

    def order(self) -> Tensor:
        n, size, generator = len(self.data_source), self.num_samples, self._generator()
        if size and not n:
            raise ValueError(f"RandomSampler: cannot draw {size} samples, as there are none")
        if self.replacement and size:
            return generator.integers(0, n, size)
        if size <= n:
            return generator.permutation(n)[:size]
        return concat([generator.permutation(n) for _ in range(-(-size // n))])[:size]


class WeightedRandomSampler(SeededSampler):
    """Random indices from 0 to ``len(weights) - 1``, each with a probability by its weight.

    weights: ``(n,)``, at least 0 and not all 0; they need not add up to 1.
    num_samples: how many to draw.
    replacement: whether an index can be drawn several times. If not, each draw is among the
        remaining indices.
    generator, seed: as in `RandomSampler`.

    Raises ValueError for other weights, and without replacement for fewer than ``num_samples``
    weights above 0.
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        name = "WeightedRandomSampler"
        self.weights = asarray(weights, dtype=float64, device="cpu").detach()
        self.num_samples = whole(f"{name}: num_samples", num_samples, 1)
        self.replacement = replacement
        values = self.weights.tolist() if self.weights.ndim == 1 else []
        fits = any(values) and all(0 <= w < float("inf") for w in values)
        require(fits, f"{name}: weights must be (n,), finite, at least 0 and not all 0", weights)
        possible = sum(w > 0 for w in values)
        if not replacement and possible < self.num_samples:
            raise ValueError(
                f"{name}: without replacement it cannot draw {num_samples} of {possible} indices "
                f"with a weight above 0"
            )
        self.seed = seed_from(name, generator, seed)

    def __len__(self) -> int:
        return self.num_samples

    def order(self) -> Tensor:
        return self._generator().multinomial(self.weights, self.num_samples, self.replacement)


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` indices from a sampler; the last may be shorter.

    drop_last: leave out a last list that is shorter.
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool = False) -> None:
        self.sampler = sampler
        self.batch_size = whole("BatchSampler: batch_size", batch_size, 1)
        self.drop_last = drop_last

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be that of this epoch, if the sampler knows epochs."""
        set_epoch(self.sampler, epoch)

    def __len__(self) -> int:
        n: int = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch


class DistributedSampler(SeededSampler):
    """Indices of ``data_source`` for one of several processes: each index is in one of them.

    All processes make the same order of all indices. Process ``rank`` has its positions ``rank``,
    ``rank + num_replicas`` and so on. The processes may have different numbers of
    batches; `DistributedBatchSampler` gives each process a part of each batch instead.

    data_source: any object with a length.
    num_replicas, rank: by default those of `gpugrad.distributed`.
    shuffle: use a random order, another one in each pass.
    seed: an int of at least 0, the same in all processes. The order depends only on ``seed`` and
        ``epoch``.
    drop_last: leave out the last samples if the processes would have different numbers of them.
    """

    def __init__(
        self,
        data_source: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.data_source = data_source
        self.rank, self.num_replicas = _rank_and_size("DistributedSampler", rank, num_replicas)
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = whole("DistributedSampler: seed", seed, 0)

    def __len__(self) -> int:
        n = len(self.data_source)
        return (n if self.drop_last else n + self.num_replicas - 1 - self.rank) // self.num_replicas

    def order(self) -> Tensor:
        n = len(self.data_source)
        order = self._generator().permutation(n) if self.shuffle else arange(n)
        return order[self.rank :: self.num_replicas][: len(self)]


class DistributedBatchSampler(BatchSampler):
    """For one of several processes, its part of each batch of ``batch_size`` indices.

    Together the processes have the batches of `BatchSampler`. Apart from rounding, training
    therefore does not depend on the number of processes. All processes have the same number of
    batches; the lengths of the parts of a batch differ by at most one, and a part may be empty.

    sampler: the indices of all processes, which must be in the same order in each of them: pass a
        ``seed`` to a `RandomSampler`.
    batch_size: the number of samples in a batch, of all processes together.
    drop_last: leave out a last batch that is shorter.
    num_replicas, rank: by default those of `gpugrad.distributed`.
    """

    def __init__(
        self,
        sampler: Iterable[int],
        batch_size: int,
        drop_last: bool = False,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self.rank, self.num_replicas = _rank_and_size("DistributedBatchSampler", rank, num_replicas)

    def __iter__(self) -> Iterator[list[int]]:
        return (batch[self.rank :: self.num_replicas] for batch in super().__iter__())


def _rank_and_size(name, rank, size):
    """The number of this process, and how many there are: both as given, or both by default."""
    if (rank is None) != (size is None):
        raise TypeError(f"{name}: give both num_replicas and rank, or neither")
    if rank is None:
        return current().rank, current().size
    if whole(f"{name}: rank", rank, 0) >= whole(f"{name}: num_replicas", size, 1):
        raise ValueError(f"{name}: rank must be below num_replicas {size}, not {rank}")
    return index(rank), index(size)


def set_epoch(sampler, epoch):
    """Tell a sampler the epoch of its next pass, if it has a method for that."""
    if hasattr(sampler, "set_epoch"):
        sampler.set_epoch(epoch)


def seed_from(name, generator, seed):
    """The seed that was given; or one from a `Generator`, or from the default one."""
    if seed is not None:
        require(generator is None, f"{name}: with a seed, generator must be None", generator)
        return whole(f"{name}: seed", seed, 0)
    if generator is None:
        generator = default_generator()
    elif not isinstance(generator, Generator):
        raise TypeError(
            f"{name}: generator must be a gpugrad.random.Generator, not {generator!r}; "
            f"an int can be passed as seed"
        )
    return generator.integers(0, 1 << 62).item()
