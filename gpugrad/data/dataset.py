"""Data sets and their batches."""

from collections.abc import Iterator
from operator import index
from typing import Any

from .._arguments import device_and_dtype, moved, whole
from .._creation import asarray
from .._tensor import Tensor
from ..autograd.call import wrap
from ..backends import backend_of, explain
from ..backends.placement import take_rows, transfer_batches
from ..ops.manipulation import stack
from ..random import Generator, integers


class TensorDataset:
    """Samples along the first axis of tensors; ``dataset[i]`` is a tuple of the i-th samples.

    Raises ValueError unless all tensors have the same number of samples.
    """

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tuple([asarray(x).detach() for x in tensors])
        shapes = [x.shape for x in self.tensors]
        if not shapes or () in shapes or len({shape[0] for shape in shapes}) > 1:
            raise ValueError(
                f"TensorDataset: needs tensors (n, ...) of one length n, but they are {shapes}"
            )

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([x[index] for x in self.tensors])

    def to(self, *args: Any, device: str | None = None, dtype: Any = None) -> "TensorDataset":
        """A data set on another device, or with its floating tensors in another dtype, or both.

        Takes what `Tensor.to` takes.
        """
        device, dtype = device_and_dtype(args, device, dtype)
        return TensorDataset(*[moved(x, device, dtype) for x in self.tensors])

    def __repr__(self) -> str:
        parts = [f"{str(x.dtype).split('.')[-1]} {x.shape}" for x in self.tensors]
        return f"TensorDataset({', '.join(parts)})"


class DataLoader:
    """Batches of a data set, as tuples of tensors ``(batch_size, ...)``; one pass is an epoch.

    dataset: a `TensorDataset`, whose batches are cut out as a whole, or any object with
        ``__len__`` and a ``__getitem__(i)`` that returns a tensor, array or number, or a
        tuple of these; such samples are stacked.
    batch_size: the number of samples in every batch but the last, which has the rest. An
        empty data set has no batches.
    shuffle: use a new order in each epoch, which depends only on ``seed`` and ``epoch``.
        Without it, the batches of a `TensorDataset` are views of its tensors, so that a write
        to ``batch.array`` changes the data set.
    seed: an int of at least 0; by default one from the default generator, which
        `gpugrad.manual_seed` seeds.
    drop_last: leave out a last batch that is smaller than the others.
    device: the device to move each batch to; by default it stays on the data set's. A batch
        for a CUDA device is copied while the program works on the previous one, through
        pinned memory for three batches.

    epoch: the number of epochs begun; set it to resume.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int | None = None,
        drop_last: bool = False,
        device: str | None = None,
    ) -> None:
        batch_size = whole("DataLoader: batch_size", batch_size, 1)
        if seed is not None:
            seed = whole("DataLoader: seed", seed, 0)
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise TypeError(
                f"DataLoader: a data set has a length and items, which a "
                f"{type(dataset).__name__} has not; use TensorDataset"
            )
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        if seed is None:
            seed = integers(0, 1 << 62).item() if shuffle else 0
        self.seed = seed
        self.drop_last = drop_last
        self.device = device
        self.epoch = 0

    def __len__(self) -> int:
        n = len(self.dataset)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        order = None
        if self.shuffle:
            order = Generator((self.seed << 32) + index(self.epoch)).permutation(len(self.dataset))
        self.epoch += 1
        return self._batches(order)

    def _batches(self, order):
        cut = _cut_tensors if isinstance(self.dataset, TensorDataset) else _stack_samples
        n = len(self.dataset)
        keys = [slice(i, min(i + self.batch_size, n)) for i in range(0, n, self.batch_size)]
        batches = cut(self.dataset, order, keys[: len(self)])
        if self.device is None:
            batches = ([take_rows(*part) for part in batch] for batch in batches)
        else:
            batches = transfer_batches(batches, self.device)
        try:
            for batch in batches:
                yield tuple([wrap(array, None) for array in batch])
        except MemoryError as error:
            raise MemoryError(f"DataLoader: {explain(error, self.device)}") from error


# A batch is a list of pairs: an array, and the rows of it that belong to the batch.


def _cut_tensors(dataset, order, keys):
    """Batches of a `TensorDataset`."""
    arrays = [x.array for x in dataset.tensors]
    orders = [None if order is None else _index_for(a, order.array) for a in arrays]
    for key in keys:
        yield [(a, key if o is None else o[key]) for a, o in zip(arrays, orders, strict=True)]


def _index_for(array, order):
    if type(order) is type(array):
        return order
    backend = backend_of[type(array)]
    return backend.asarray(order, device=backend.device(array))


def _stack_samples(dataset, order, keys):
    """Batches of any data set, whose samples are read one by one."""
    order = range(len(dataset)) if order is None else order.tolist()
    for key in keys:
        samples = [dataset[i] for i in order[key]]
        samples = [s if isinstance(s, tuple) else (s,) for s in samples]
        columns = [[asarray(x).detach() for x in column] for column in zip(*samples, strict=True)]
        yield [(stack(column).array, slice(None)) for column in columns]
