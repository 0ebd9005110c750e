"""`DataLoader`: batches of a data set."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from inspect import signature
from itertools import islice, repeat
from operator import index
from typing import Any, Generic, Never, TypeVar, overload

from .._arguments import map_tensors, whole
from .._creation import asarray
from .._dtypes import isdtype
from .._foreign_names import INSTEAD
from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.call import wrap
from ..backends import backend_of, explain
from ..backends.dtypes import int64
from ..backends.placement import take_rows, transfer_batches
from ..ops.elementwise import where
from . import samplers
from .collate import default_collate
from .dataset import Subset, TensorDataset, described, samples_of
from .prefetching import prefetched
from .samplers import BatchSampler, RandomSampler, SeededSampler, SequentialSampler

_WHOLE = slice(None)  # all rows of an array, which is already one batch


Batch = TypeVar("Batch")


class DataLoader(Generic[Batch]):
    """Batches of a data set, ``(batch_size, ...)``; one pass is an epoch.

    dataset: a `TensorDataset`, from which the loader takes each batch at once, as a tuple of
        tensors; or any object with ``__len__`` and ``__getitem__(i)``, from whose samples
        ``collate_fn`` makes batches. A `Subset` of a `TensorDataset` is treated like one.
    batch_size: the number of samples in every batch but the last, which has the rest. An
        empty data set has no batches.
    shuffle: whether each epoch has a new order, which depends only on ``seed`` and ``epoch``.
        Without it, the batches of a `TensorDataset` are views of its tensors, so that a write
        to ``batch.array`` changes the data set.
    sampler: an iterable of indices, such as a `WeightedRandomSampler`, in place of ``shuffle``.
    batch_sampler: an iterable of lists of indices, each for a batch, in place of ``batch_size``,
        ``shuffle``, ``sampler`` and ``drop_last``.
    collate_fn: a function of the list of a batch's samples that returns the batch, by default
        `default_collate`.
    transform: a function of the batch that returns the batch to use, such as those of
        `gpugrad.data.images`. It runs before the loader moves the batch to ``device``. If it has a
        method ``for_batch(epoch, number, seed)``, the loader calls this for each batch, and then
        the function that it returns. Its random numbers should depend on these arguments alone.
    drop_last: whether to leave out a last batch that is smaller than the others.
    seed: an int of at least 0; by default one from the default generator, which
        `gpugrad.manual_seed` seeds.
    device: the device to move a batch's Tensors to; by default they stay where they are. The loader
        copies a batch to a CUDA device while the program works on the previous one, and has
        pinned memory for three batches.
    prefetch: how many batches to prepare ahead. A thread then reads the samples, makes batches of
        them and transforms these, in the same order. This pays off if reading waits for files, or
        the transform runs for long in NumPy. Batches are then never views. An error in the thread
        is raised where its batch would have come. Samples and transforms should compute on the CPU,
        with random numbers from a generator of their own.

    epoch: the number of epochs that have begun; assign to it to continue with another epoch.

    An annotation can name the type of the batches, as in ``DataLoader[tuple[Tensor, ...]]``.
    """

    @overload
    def __init__(
        self: "DataLoader[tuple[Tensor, ...]]", dataset: TensorDataset, batch_size: int = 1,
        shuffle: bool = False, *, sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Any] | None = None, drop_last: bool = False,
        seed: int | None = None, device: str | None = None, prefetch: int = 0,
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: "DataLoader[Any]", dataset: Any, batch_size: int = 1, shuffle: bool = False, *,
        sampler: Iterable[int] | None = None, batch_sampler: Iterable[Any] | None = None,
        collate_fn: Callable[[list], Any] | None = None,
        transform: Callable[[Any], Any] | None = None, drop_last: bool = False,
        seed: int | None = None, device: str | None = None, prefetch: int = 0,
    ) -> None: ...  # fmt: skip
    def __init__(
        self, dataset: Any, batch_size: int = 1, shuffle: bool = False, *,
        sampler: Iterable[int] | None = None, batch_sampler: Iterable[Any] | None = None,
        collate_fn: Callable[[list], Any] | None = None,
        transform: Callable[[Any], Any] | None = None, drop_last: bool = False,
        seed: int | None = None, device: str | None = None, prefetch: int = 0, **others: Never,
    ) -> None:  # fmt: skip
        _check_others(others)
        if getattr(batch_size, "shape", ()):
            raise TypeError(
                "DataLoader: batch_size must be an int, not an array; a data set of inputs and "
                "targets is TensorDataset(inputs, targets)"
            )
        batch_size = whole("DataLoader: batch_size", batch_size, 1)
        if lacks := [name for name in ("__len__", "__getitem__") if not hasattr(dataset, name)]:
            raise TypeError(
                f"DataLoader: a data set needs __len__ and __getitem__, but "
                f"{type(dataset).__name__} has no {' and no '.join(lacks)}; "
                f"TensorDataset makes one of arrays"
            )
        if isinstance(dataset, tuple) and sampler is batch_sampler is collate_fn is None:
            _check_samples(dataset, batch_size)
        own = batch_size != 1 or shuffle or sampler is not None or drop_last
        if batch_sampler is not None and own:
            raise ValueError(
                "DataLoader: batch_sampler decides on whole batches; leave out batch_size, "
                "shuffle, sampler and drop_last"
            )
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler decides on the order; leave out shuffle")
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        if sampler is None:
            if shuffle or seed is not None:
                seed = samplers.seed_from("DataLoader", None, seed)
            sampler = RandomSampler(dataset, seed=seed) if shuffle else SequentialSampler(dataset)
        elif seed is not None:
            raise ValueError("DataLoader: sampler decides on the order; pass it the seed")
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.collate_fn = collate_fn
        self.transform = transform
        self._transform_seed = seed
        self._seed_transform()
        self.drop_last = drop_last
        self.device = device
        self.prefetch = whole("DataLoader: prefetch", prefetch, 0)
        self.epoch = 0
        self._progress = _Progress(0, 0)

    def __len__(self) -> int:
        return len(self._batches_of_indices())

    def _batches_of_indices(self) -> Any:
        if self.batch_sampler is not None:
            return self.batch_sampler
        return BatchSampler(self.sampler, self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        if thread.recorder is not None:
            thread.recorder.stop(
                "it iterates over a DataLoader; compile the function of one batch instead, and "
                "call it in a loop over the loader that is not compiled"
            )
        self._seed_transform()
        epoch = index(self.epoch)
        progress = self._progress
        if progress.begun or progress.epoch != epoch:
            progress = _Progress(epoch, 0)
        recipes = self._recipes(epoch, progress.position)
        progress.begun = True
        self._progress = progress
        self.epoch = epoch + 1
        return self._batches(progress, recipes)

    @property
    def seed(self) -> int | None:
        """The seed on which the order depends besides the epoch; None if there is none."""
        seeded = self._seeded()
        return None if seeded is None else seeded.seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        if (seed is None) != (self._seeded() is None):
            raise ValueError(
                f"DataLoader: the seed is {seed}, but here {self.seed}; a loader has a seed if it "
                f"shuffles or its sampler has one"
            )
        if seed is not None:
            self._seeded().seed = whole("DataLoader: seed", seed, 0)

    def _seed_transform(self):
        """Draw a seed for the transform if it needs one; return whether it does."""
        is_random = hasattr(self.transform, "for_batch")
        if is_random and self._transform_seed is None:
            self._transform_seed = samplers.seed_from("DataLoader", None, None)
        return is_random

    def _seeded(self):
        """The sampler that has a seed, or None."""
        sampler = self.sampler if self.batch_sampler is None else self.batch_sampler
        sampler = sampler.sampler if isinstance(sampler, BatchSampler) else sampler
        return sampler if isinstance(sampler, SeededSampler) else None

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: ``"epoch"``, ``"position"`` and ``"seed"``, for `load_state_dict`.

        If the transform has a method ``for_batch``, there is a ``"transform_seed"`` too.

        epoch: the number of the epoch in progress, counted from 0.
        position: how many of its batches the latest iterator has returned. This can be all of
            them, until the loop asks for another one.
        """
        progress = self._progress
        epoch, position = progress.epoch, progress.position
        if progress.done or epoch + progress.begun != self.epoch:
            epoch, position = index(self.epoch), 0
        state = {"epoch": epoch, "position": position, "seed": self.seed}
        if self._seed_transform():
            state["transform_seed"] = self._transform_seed
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue where another loader, of the same data set and options, was.

        The next pass returns exactly the remaining batches of the epoch, possibly none, and
        ``epoch`` is that epoch. For your own ``sampler`` or ``batch_sampler`` see `Sampler`.

        Raises ValueError if the state is not one of such a loader, and then changes nothing.
        """
        try:
            epoch, position, seed = [state_dict[name] for name in ("epoch", "position", "seed")]
        except (KeyError, TypeError):
            raise ValueError(
                f"DataLoader.load_state_dict: a state has epoch, position and seed, not "
                f"{state_dict!r}"
            ) from None
        epoch = whole("DataLoader.load_state_dict: epoch", epoch, 0)
        position = whole("DataLoader.load_state_dict: position", position, 0)
        transform_seed = state_dict.get("transform_seed", self._transform_seed)
        if transform_seed is not None:
            whole("DataLoader.load_state_dict: transform_seed", transform_seed, 0)
        self.seed = seed
        self._transform_seed = transform_seed
        self.epoch = epoch
        self._progress = _Progress(epoch, position)

    def __repr__(self) -> str:
        parts = [described(self.dataset)]
        if self.batch_sampler is None:
            parts.append(f"batch_size={self.batch_size}")
            if self.shuffle:
                parts.append(f"shuffle=True, seed={self.seed}")
            elif not isinstance(self.sampler, SequentialSampler):
                parts.append(f"sampler={type(self.sampler).__name__}")
        else:
            parts.append(f"batch_sampler={type(self.batch_sampler).__name__}")
        usual = {"drop_last": False, "device": None, "prefetch": 0}
        parts += [f"{k}={getattr(self, k)!r}" for k, x in usual.items() if getattr(self, k) != x]
        return f"DataLoader({', '.join(parts)})"

    def _batches(self, progress, recipes):
        if self.prefetch:
            recipes = prefetched(map(_read_on_cpu, recipes), self.prefetch)
        batches = _read(recipes) if self.device is None else _transferred(recipes, self.device)
        try:
            for batch in batches:
                progress.position += 1
                yield batch
            progress.done = True
        except MemoryError as error:
            raise MemoryError(f"DataLoader: {explain(error, self.device)}") from error
        finally:
            batches.close()
            if self.prefetch:
                recipes.close()

    def _recipes(self, epoch, start):
        """Yield a recipe for each batch from number ``start`` on.

        A recipe is a list of pairs of an array and the indices of its rows, and a function. The
        function takes the list of these rows, on the loader's device, and returns the batch.
        """
        keys, order, lists = self._order(epoch, start)
        arrays, mapping = (None, None) if self.collate_fn else _arrays_and_rows(self.dataset)
        if arrays is None:
            if lists is None:
                numbers = range(len(self.dataset)) if order is None else order.tolist()
                lists = (numbers[key] for key in keys)
            batches = map(self._collated, lists)
        else:
            if lists is not None:
                rows = (_rows(indices, len(self.dataset), mapping) for indices in lists)
                pairs = ([(a, _index_for(a, at)) for a in arrays] for at in rows)
            else:
                if mapping is not None:
                    order = mapping if order is None else mapping[order]
                pairs = _slices_of(arrays, keys, order)
            if self.transform is None:
                return zip(pairs, repeat(_as_tuple))
            batches = (_as_tuple([take_rows(*pair) for pair in own]) for own in pairs)
        return (self._recipe(epoch, i, batch) for i, batch in enumerate(batches, start))

    def _collated(self, indices):
        """The batch of the samples at these indices, which may be none."""
        samples = samples_of(self.dataset, indices if len(indices) else [0])
        batch = (self.collate_fn or default_collate)(samples)
        return batch if len(indices) else map_tensors(lambda x: x[:0] if x.ndim else x, batch)

    def _order(self, epoch, start):
        """The samples of each batch of an epoch from number ``start`` on.

        Returns ``(slices, order, lists)``. For the library's own samplers, each slice is a batch's
        part of ``order``, a tensor, or of the data set if ``order`` is None; ``lists`` is None. For
        batch samplers and all other samplers, ``lists`` is an iterator over lists of indices, and
        the others are None.
        """
        sampler = self.sampler
        own = self.batch_sampler is None
        if own and type(sampler) is SequentialSampler and sampler.data_source is self.dataset:
            order, n = None, len(self.dataset)
        elif own and type(sampler).__iter__ is SeededSampler.__iter__:
            samplers.set_epoch(sampler, epoch)
            order = sampler.order()
            n = len(order)
            if getattr(sampler, "data_source", None) is not self.dataset:
                order = _rows(order, len(self.dataset), None)
        else:
            batches = self._batches_of_indices()
            samplers.set_epoch(batches, epoch)
            return None, None, islice(iter(batches), start, None)
        size = self.batch_size
        stop = n - n % size if self.drop_last else n
        return [slice(i, min(i + size, n)) for i in range(start * size, stop, size)], order, None

    def _recipe(self, epoch, number, batch):
        """The recipe, see `_recipes`, for a batch that is not transformed yet."""
        if (transform := self.transform) is not None:
            if hasattr(transform, "for_batch"):
                transform = transform.for_batch(epoch, number, self._transform_seed)
            batch = transform(batch)
        if self.device is None:
            return (), lambda arrays: batch
        pairs: list = []

        def note(x):
            if x.ndim:
                pairs.append((x.detach().array, _WHOLE))

        map_tensors(note, batch)
        return pairs, partial(_moved, batch, self.device)


class _Progress:
    """How far a loader is in an epoch.

    epoch: the number of the epoch.
    position: the number of batches that this loader, or the one whose state it has, has returned.
    begun: whether there is an iterator.
    done: whether the iterator has come to its end.
    """

    def __init__(self, epoch, position):
        self.epoch = epoch
        self.position = position
        self.begun = self.done = False


def _check_samples(samples, batch_size):
    """Raise TypeError for a tuple of arrays that are rather inputs and targets than samples.

    Samples have equally many axes, but their lengths may differ where no batch has all of them.
    """
    shapes = [getattr(x, "shape", None) for x in samples]
    if not all(isinstance(shape, tuple) for shape in shapes):
        return
    if len({*map(len, shapes)}) > 1 or (batch_size >= len(samples) and len({*shapes}) > 1):
        raise TypeError(
            "DataLoader: the arrays of a tuple are taken as its samples, but differ in shape; "
            "a data set of inputs and targets is TensorDataset(inputs, targets)"
        )


def _check_others(others):
    """Raise TypeError for unknown arguments, but not for PyTorch's if they are switched off."""
    known = INSTEAD["DataLoader()"]
    for name, value in others.items():
        if name == "in_order" or (name in known and not value):
            continue
        if name in known:
            raise TypeError(f"DataLoader: there is no {name}: {known[name]}")
        *taken, _ = signature(DataLoader).parameters
        raise TypeError(
            f"DataLoader: got an unexpected keyword argument {name!r}; it takes {', '.join(taken)}"
        )


def _arrays_and_rows(dataset):
    """The arrays of a `TensorDataset` or a `Subset` of one, and the rows that it consists of.

    The rows are a tensor of indices, or None for all in their order. For other data sets, whose
    samples have to be read one by one, arrays and rows are None.
    """
    mapping = None
    while type(dataset) is Subset:
        rows = _rows(dataset.indices, len(dataset.dataset), None)
        mapping = rows if mapping is None else rows[mapping]
        dataset = dataset.dataset
    # A subclass may compute its samples.
    if getattr(type(dataset), "__getitem__", None) is not TensorDataset.__getitem__:
        return None, None
    return [x.array for x in dataset.tensors], mapping


def _rows(indices, n, mapping):
    """Indices of ``n`` samples as a tensor without negative ones, or their rows in ``mapping``."""
    rows = asarray(indices if len(indices) else (), dtype=None if len(indices) else int64)
    if not isdtype(rows.dtype, "integral") or rows.ndim != 1:
        raise TypeError(f"DataLoader: indices must be ints, not {indices!r}")
    rows = rows.to("cpu", int64)
    if len(rows) and not -n <= int(rows.min()) <= int(rows.max()) < n:
        raise IndexError(
            f"DataLoader: the indices from {int(rows.min())} to {int(rows.max())} are out of range "
            f"for {n} samples"
        )
    rows = where(rows < 0, rows + n, rows)
    return rows if mapping is None else mapping[rows]


def _slices_of(arrays, keys, order):
    """Yield for each slice the pairs of an array and its rows there, in the given order."""
    orders = [None if order is None else _index_for(a, order) for a in arrays]
    for key in keys:
        yield [(a, key if o is None else o[key]) for a, o in zip(arrays, orders, strict=True)]


def _index_for(array, order):
    """A tensor of indices as an array of the library and device of ``array``."""
    if type(order.array) is type(array):
        return order.array
    backend = backend_of[type(array)]
    return backend.asarray(order.array, device=backend.device(array))


def _read(recipes):
    """Yield the batches of recipes, see `DataLoader._recipes`, on the devices of their arrays."""
    for pairs, make in recipes:
        yield make([take_rows(array, rows) for array, rows in pairs])


def _transferred(recipes, device):
    """Yield the batches of recipes on ``device``."""
    makers: deque = deque()  # for the batches that are on their way

    def pairs():
        for some, make in recipes:
            makers.append(make)
            yield some

    for arrays in transfer_batches(pairs(), device):
        yield makers.popleft()(arrays)


def _as_tuple(arrays):
    return tuple([wrap(array, None) for array in arrays])


def _moved(batch, device, arrays):
    """The batch with these arrays, which are on ``device``, in place of its Tensors."""
    new = iter(arrays)
    return map_tensors(lambda x: wrap(next(new), None) if x.ndim else x.detach().to(device), batch)


def _read_on_cpu(recipe):
    """A recipe for the same batch, with copies of those rows that are on the CPU."""
    pairs, make = recipe
    read = []
    for array, rows in pairs:
        backend = backend_of[type(array)]
        if backend.device(array) == "cpu" and rows is not _WHOLE:
            is_view = isinstance(rows, slice)
            array, rows = take_rows(array, rows), _WHOLE
            array = backend.asarray(array, copy=True) if is_view else array
        read.append((array, rows))
    return read, make
