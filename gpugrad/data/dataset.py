"""Data sets: samples that are read by their index."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice
from typing import Any, Generic, TypeVar

from .._arguments import device_and_dtype, moved
from .._creation import asarray
from .._tensor import Tensor
from ..random import Generator
from .samplers import seed_from

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Base class of data sets, which define ``__len__`` and ``__getitem__(i)`` for an int ``i``.

    A `DataLoader` takes any object with these two methods, such as a list or a NumPy array. If
    there is a ``__getitems__(indices)``, it is called once for each batch, with a list of ints,
    and returns the list of samples.

    ``a + b`` is a `ConcatDataset`.
    """

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(index)")

    def __add__(self, other: Any) -> "ConcatDataset":
        return ConcatDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples along the first axis of tensors; ``dataset[i]`` is a tuple of the i-th samples.

    Arrays are not copied. Those in a memory-mapped file, from ``numpy.load(path, mmap_mode="r")``
    or ``numpy.memmap``, may be larger than memory: only the rows of a batch are read.

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


class Subset(Dataset[Any]):
    """The samples of ``dataset`` at ``indices``, a sequence of ints, in that order."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (list, slice)):
            chosen = self.indices[index] if isinstance(index, slice) else self._at(index)
            return Subset(self.dataset, chosen)
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Any) -> list[Any]:
        return samples_of(self.dataset, self._at(indices))

    def _at(self, indices):
        return [self.indices[i] for i in indices]

    def __repr__(self) -> str:
        return f"Subset({len(self)} of {described(self.dataset)})"


class ConcatDataset(Dataset[Any]):
    """The samples of several data sets, one set after the other.

    Raises ValueError if there are no data sets.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: needs at least one data set")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> Any:
        n = len(self)
        i = index + n if index < 0 else index
        if not 0 <= i < n:
            raise IndexError(f"ConcatDataset: index {index} is out of range for {n} samples")
        which = bisect_right(self.cumulative_sizes, i)
        return self.datasets[which][i - (self.cumulative_sizes[which - 1] if which else 0)]

    def __repr__(self) -> str:
        return f"ConcatDataset({', '.join(map(described, self.datasets))})"


def random_split(
    dataset: Any,
    lengths: Sequence[float],
    generator: Generator | None = None,
    *,
    seed: int | None = None,
) -> list[Subset]:
    """Split a data set at random into a `Subset` of each of these lengths.

    lengths: ints that add up to the number of samples; or fractions that add up to 1, which give
        numbers of samples that are rounded down. The first parts get one more each, until no sample
        is left over.
    generator, seed: what the split depends on; by default the default generator.

    Raises ValueError for other lengths.

    >>> from gpugrad import data
    >>> train, test = data.random_split(range(10), [0.8, 0.2], seed=0)
    >>> len(train), len(test)
    (8, 2)
    """
    n = len(dataset)
    sizes: list[Any] = list(lengths)
    if math.isclose(math.fsum(sizes), 1) and all(0 <= x <= 1 for x in sizes):
        sizes = [math.floor(n * fraction) for fraction in sizes]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if not all(hasattr(x, "__index__") and x >= 0 for x in sizes) or sum(sizes) != n:
        raise ValueError(
            f"random_split: lengths must be ints that add up to the {n} samples, or fractions that "
            f"add up to 1, not {lengths}"
        )
    order = iter(Generator(seed_from("random_split", generator, seed)).permutation(n).tolist())
    return [Subset(dataset, list(islice(order, size))) for size in sizes]


def samples_of(dataset, indices):
    """The samples at these indices, as a list."""
    if hasattr(dataset, "__getitems__"):
        return dataset.__getitems__(list(indices))
    return [dataset[i] for i in indices]


def described(dataset):
    """A data set as text, without its samples."""
    if isinstance(dataset, (TensorDataset, Subset, ConcatDataset)):
        return repr(dataset)
    return f"{type(dataset).__name__} of {len(dataset)} samples"
