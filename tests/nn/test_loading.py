"""Samplers, splits, collation, transforms, prefetch, memory-mapped sets and resumption."""

import math
import threading
import time
from collections import Counter, namedtuple
from itertools import chain, combinations

import numpy as np
import pytest
from samples import check_errors
from without_threads import needs_threads

import gpugrad as gg
from gpugrad import data

Pair = namedtuple("Pair", "left right")


def numbers(n):
    return data.TensorDataset(np.arange(n))


def first_members(loader):
    """The batches, or their first members, as lists."""
    return [(b[0] if isinstance(b, tuple) else b).tolist() for b in loader]


def batches(dataset, *args, **options):
    return first_members(data.DataLoader(dataset, *args, **options))


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("DataLoader")]


class Squares(data.Dataset[int]):
    def __init__(self, n):
        self.n = n
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.read.append(i)
        return i * i


# Data sets


def test_data_sets_are_parts_and_sums_of_others():
    both = Squares(3) + numbers(4)
    assert isinstance(both, data.ConcatDataset)
    assert (len(both), both.cumulative_sizes) == (7, [3, 7])
    assert [both[i] for i in (0, 1, 2, -7)] == [0, 1, 4, 0]
    assert [both[i][0].item() for i in (3, 6, -1, -4)] == [0, 3, 3, 0]
    part = data.Subset(Squares(9), [8, 2, 5])
    assert (len(part), part[0], [*part[1:]], [*part[[2, 0]]]) == (3, 64, [4, 25], [25, 64])
    assert repr(data.Subset(part, [1])) == "Subset(1 of Subset(3 of Squares of 9 samples))"


SPLITS = [
    (10, [3, 7]), (10, [0.3, 0.7]), (10, [1 / 3, 1 / 3, 1 / 3]), (1, [0.5, 0.5]), (1, [1, 0]),
    (0, [0, 0]), (7, [0.5, 0.25, 0.25]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about empty parts
@pytest.mark.parametrize("n, lengths", SPLITS)
def test_random_split_takes_lengths_or_fractions(n, lengths):
    theirs = pytest.importorskip("torch").utils.data.random_split(range(n), lengths)
    parts = data.random_split(range(n), lengths, seed=0)
    assert [*map(len, parts)] == [*map(len, theirs)]
    assert sorted(i for part in parts for i in part) == [*range(n)]


def test_a_split_depends_on_its_seed_or_generator():
    def split(**options):
        return [part.indices for part in data.random_split(range(50), [25, 25], **options)]

    assert split(seed=1) == split(seed=1) != split(seed=2)
    generator = gg.random.Generator(3)
    first = split(generator=generator)
    assert split(generator=gg.random.Generator(3)) == first != split(generator=generator)
    gg.manual_seed(0)
    first = split()
    gg.manual_seed(0)
    assert split() == first


def test_parts_of_tensor_data_sets_are_cut_out_as_a_whole(monkeypatch):
    x = np.arange(20.0).reshape(10, 2)
    part = data.Subset(data.Subset(data.TensorDataset(x), [9, 7, 5, 3, -9]), [3, 0, 1, 4])
    expected = [[[6, 7], [18, 19], [14, 15], [2, 3]]]
    assert batches(part, 4) == batches(part, 4, collate_fn=data.default_collate) == expected
    monkeypatch.setattr(data.Subset, "__getitems__", None)
    assert sorted(chain(*batches(part, 3, shuffle=True))) == sorted(expected[0])
    assert batches(part, sampler=[-1, 0], batch_size=2) == [[[2, 3], [6, 7]]]


def test_subclasses_of_tensor_dataset_may_compute_samples():
    class Doubled(data.TensorDataset):
        def __getitem__(self, i):
            return super().__getitem__(i)[0] * 2

    assert batches(Doubled(np.arange(3)), 2) == [[0, 2], [4]]


# Samplers


def test_samplers_give_indices():
    assert [*data.SequentialSampler("abc")] == [0, 1, 2]
    sampler = data.RandomSampler(range(6), seed=0)
    first, second = [*sampler], [*sampler]
    assert first != second
    assert sorted(first) == sorted(second) == [*range(6)]
    sampler.set_epoch(0)
    assert [*sampler] == first
    few, many = (data.RandomSampler(range(6), num_samples=n, seed=0) for n in (4, 15))
    assert (len(few), len({*few}), len(many)) == (4, 4, 15)
    assert sorted(Counter(many).values()) == [2, 2, 2, 3, 3, 3]
    drawn = Counter(data.RandomSampler(range(3), replacement=True, num_samples=600, seed=0))
    assert [150 < count < 250 for count in drawn.values()] == [True] * 3
    for expected, drop_last in (([[0, 1], [2]], False), ([[0, 1]], True)):
        sampler = data.BatchSampler(range(3), 2, drop_last)
        assert ([*sampler], len(sampler)) == (expected, len(expected))


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_are_the_probabilities_of_the_first_draw(replacement):
    weights = [0, 1, 0, 3, 4, 0]
    sampler = data.WeightedRandomSampler(weights, 3, replacement, seed=0)
    passes = [[*sampler] for _ in range(800)]
    first = Counter(drawn[0] for drawn in passes)
    assert all(abs(first[i] - 100 * w) < 70 for i, w in enumerate(weights)), first
    assert all(len({*drawn}) == 3 for drawn in passes) is not replacement
    assert all(weights[i] for drawn in passes for i in drawn)


@pytest.mark.parametrize("make", [numbers, range])
def test_loaders_take_samplers(make):
    def found(**options):
        loader = data.DataLoader(make(6), **options)
        found = first_members(loader)
        assert len(found) == len(loader)
        return found

    assert found(sampler=[5, 0, 5], batch_size=2) == [[5, 0], [5]]
    assert found(sampler=[5, 0, 5], batch_size=2, drop_last=True) == [[5, 0]]
    assert found(batch_sampler=[[1], [2, 3], [4, 4, -1]]) == [[1], [2, 3], [4, 4, 5]]
    shuffled = found(batch_sampler=data.BatchSampler(data.RandomSampler(range(6), seed=0), 4))
    assert shuffled == found(sampler=data.RandomSampler(range(6), seed=0), batch_size=4)
    assert shuffled == found(shuffle=True, seed=0, batch_size=4)


# Orders and sizes


@pytest.mark.parametrize("drop_last, sizes", [(False, [4, 4, 2]), (True, [4, 4])])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_cover_the_data_set(library, drop_last, sizes, shuffle):
    x = library.tensor(np.arange(20, dtype=np.float32).reshape(10, 2))
    pairs, seen = data.TensorDataset(x, library.tensor(np.arange(10))), []
    for a, b in data.DataLoader(pairs, 4, shuffle=shuffle, seed=0, drop_last=drop_last):
        assert (type(a), type(a.array)) == (gg.Tensor, type(x.array))
        np.testing.assert_array_equal(library.values(a)[:, 0], 2 * library.values(b))
        seen.append(library.values(b).tolist())
    assert [*map(len, seen)] == sizes
    seen = [*chain(*seen)]
    assert len({*seen}) == sum(sizes)
    assert (seen == sorted(seen)) is not shuffle


def test_the_order_depends_on_seed_and_epoch_only():
    def epochs(n, number=int, **options):
        loader = data.DataLoader(numbers(50), number(10), shuffle=True, **options)
        return [first_members(loader) for _ in range(n)]

    first = epochs(3, seed=5)
    gg.random.uniform(7)
    assert epochs(3, np.int64, seed=np.int64(5)) == first
    resumed = data.DataLoader(numbers(50), 10, shuffle=True, seed=5)
    resumed.epoch = np.int64(2)
    assert (first_members(resumed), resumed.epoch) == (first[2], 3)
    gg.manual_seed(0)  # which decides without a seed
    others = [*epochs(1), *epochs(1)]
    gg.manual_seed(0)
    assert [*epochs(1), *epochs(1)] == others
    assert all(a != b for a, b in combinations([*first, *epochs(1, seed=6), *others], 2))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("make", [numbers, Squares])
def test_data_sets_that_are_empty_or_smaller_than_a_batch(make, shuffle):
    for n, drop_last, sizes in (0, False, []), (0, True, []), (3, True, []), (3, False, [3]):
        loader = data.DataLoader(make(n), 4, shuffle=shuffle, drop_last=drop_last)
        assert ([*map(len, first_members(loader))], len(loader)) == (sizes, len(sizes))


def test_a_tuple_of_arrays_is_a_data_set_unless_they_are_inputs_and_targets():
    for other, size in (gg.ones(3), 1), (gg.ones((3, 1)), 2), (gg.ones((3, 1)), 9):
        with pytest.raises(TypeError, match=r"is TensorDataset\(inputs, targets\)$"):
            data.DataLoader((gg.ones((3, 4)), other), size)
    samples = tuple([np.ones(n) for n in (2, 2, 3, 3)])
    for sizes, loader in (
        ([1, 1, 1, 1], data.DataLoader(samples)),
        ([2, 2], data.DataLoader(samples, 2)),
        ([2, 1], data.DataLoader(samples, batch_sampler=[[0, 1], [3]])),
        ([2], data.DataLoader(samples, 4, sampler=[0, 1])),
        ([4], data.DataLoader(samples, 4, collate_fn=list)),
        ([1, 1], data.DataLoader(("a", np.ones(3)))),
    ):
        assert [len(batch) for batch in loader] == sizes


# Collation


def test_batches_are_nested_as_samples_are():
    torch = pytest.importorskip("torch")

    def sample(i, library):
        pair, image = Pair(np.int16(i), bool(i)), np.full((2, 3), i, np.float32)
        more = pair, [library.ones(2) * i, float(i)]
        return {"image": image, "label": i, "name": f"image {i}", "more": more}

    (ours,) = data.DataLoader([sample(i, gg) for i in range(3)], 3, device="cpu")
    theirs = torch.utils.data.default_collate([sample(i, torch) for i in range(3)])
    assert [*ours] == [*theirs]
    assert ours["name"] == theirs["name"] == ["image 0", "image 1", "image 2"]
    (pair, [x, number]), (their_pair, [y, their_number]) = ours["more"], theirs["more"]
    # As gg.tensor makes it, the number is not in float64.
    assert (type(pair), number.dtype) == (Pair, gg.float32)
    pairs = [*zip(pair, their_pair, strict=True), (x, y), (number, their_number.float())]
    for a, b in [*((ours[name], theirs[name]) for name in ("image", "label")), *pairs]:
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert f"torch.{a.dtype}" == str(b.dtype)


def test_collate_fn_and_transform_make_the_batch():
    def pad(samples):
        width = max(map(len, samples))
        return {"rows": gg.tensor([[*s, *[0] * (width - len(s))] for s in samples]), "of": "text"}

    loader = data.DataLoader([[1], [2, 3], [4]], 2, collate_fn=pad, device="cpu")
    found = [(batch["rows"].tolist(), batch["of"]) for batch in loader]
    assert found == [([[1, 0], [2, 3]], "text"), ([[4]], "text")]

    def scaled(batch):
        return {"x": batch[0] / 2, "y": batch[1]}

    dataset = data.TensorDataset(np.arange(4.0), np.arange(4))
    empty = data.DataLoader([*dataset], batch_sampler=[[]], transform=scaled)
    assert [x.shape for batch in empty for x in batch.values()] == [(0,), (0,)]
    for options in {}, {"device": "cpu"}, {"prefetch": 1}, {"collate_fn": data.default_collate}:
        loader = data.DataLoader(dataset, 3, transform=scaled, **options)
        found = [(batch["x"].tolist(), batch["y"].tolist()) for batch in loader]
        assert found == [([0, 0.5, 1], [0, 1, 2]), ([1.5], [3])], options


# Prefetch


@pytest.mark.parametrize("make", [numbers, Squares])
@pytest.mark.parametrize("shuffle", [False, True])
def test_prefetched_batches_come_in_the_same_order(make, shuffle):
    def found(**options):
        loader = data.DataLoader(make(23), 4, shuffle, seed=0, **options)
        return [first_members(loader) for _ in range(2)]

    for options in *({"prefetch": n} for n in (1, 3, 100)), {"prefetch": 2, "device": "cpu"}:
        assert found(**options) == found()
    assert not threads()


@needs_threads
def test_prefetch_is_as_far_ahead_as_asked():
    dataset = Squares(20)
    loader = data.DataLoader(dataset, 1, prefetch=3)
    loop = iter(loader)
    assert not dataset.read  # nothing happens before the first batch is wanted
    for i in range(5):
        next(loop)
        deadline = time.monotonic() + 60
        while len(dataset.read) < i + 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert len(dataset.read) == i + 4
    assert loader.state_dict()["position"] == 5
    loop.close()
    assert not threads()


@needs_threads
@pytest.mark.usefixtures("no_collector")
def test_an_abandoned_iterator_leaves_no_thread():
    def loop(error=None):
        for batch in data.DataLoader(Squares(100), 4, prefetch=2):
            assert (len(batch), len(threads())) == (4, 1)
            if error:
                raise error
            break

    loop()
    assert not threads()
    with pytest.raises(KeyboardInterrupt):
        loop(KeyboardInterrupt)
    assert not threads()


@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt, SystemExit])
def test_errors_of_samples_are_raised_in_the_loop(kind):
    class Fails(Squares):
        def __getitem__(self, i):
            if i == 5:
                raise kind("no sample 5")
            return super().__getitem__(i)

    found = []
    with pytest.raises(kind, match="no sample 5"):
        found.extend(map(gg.Tensor.tolist, data.DataLoader(Fails(9), 2, prefetch=2)))
    assert found == [[0, 1], [4, 9]]
    assert not threads()


# Files larger than memory


@pytest.mark.parametrize("options", [{}, {"prefetch": 2}, {"device": "cpu"}], ids=str)
def test_memory_mapped_arrays_are_read_batch_by_batch(tmp_path, options):
    """The file has a hole of 8 GB, of which a few pages can be read."""
    path, n = tmp_path / "data", 1 << 20
    try:
        x = np.memmap(path, np.float64, "w+", shape=(n, 1 << 10))
    except OSError:
        pytest.skip("the file system has no sparse files")
    for i in 0, 3, n - 1:
        x[i] = i
    x.flush()
    x = np.memmap(path, np.float64, "r", shape=x.shape)
    dataset = data.TensorDataset(x, np.arange(n))
    assert np.shares_memory(dataset.tensors[0].array, x)
    rows = [n - 1, 3, 0, 17]
    for given in (
        data.DataLoader(dataset, 2, sampler=rows, **options),
        data.DataLoader(data.Subset(dataset, rows), 2, **options),
    ):
        found = [(x[:, 5].tolist(), y.tolist()) for x, y in given]
        assert found == [([n - 1, 3], [n - 1, 3]), ([0, 0], [0, 17])]
    first, _ = next(iter(data.DataLoader(dataset, 4, shuffle=True, seed=0, **options)))
    assert first.shape == (4, 1 << 10)


def test_mapped_npy_files_are_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(6, 2))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    (batch,) = next(iter(data.DataLoader(data.TensorDataset(x), 3)))
    assert np.shares_memory(batch.array, x)
    ((batch,), _) = data.DataLoader(data.TensorDataset(x), 3, prefetch=1)
    assert not np.shares_memory(batch.array, x)
    assert batch.tolist() == [[0, 1], [2, 3], [4, 5]]


# Resumption


LOADERS = {
    "in order": lambda: data.DataLoader(numbers(11), 3),
    "shuffled": lambda: data.DataLoader(numbers(11), 3, shuffle=True),
    "drop_last": lambda: data.DataLoader(numbers(11), 3, shuffle=True, drop_last=True),
    "samples": lambda: data.DataLoader([(i,) for i in range(11)], 3, shuffle=True, prefetch=3),
    "weighted":
        lambda: data.DataLoader(numbers(11), 3, sampler=data.WeightedRandomSampler(range(11), 9)),
    "batch sampler": lambda: data.DataLoader(
        numbers(11), batch_sampler=data.BatchSampler(data.RandomSampler(range(11)), 3)),
    "own sampler": lambda: data.DataLoader(numbers(11), 2, sampler=[5, 3, 1, 2, 8]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_continues_in_the_middle_of_an_epoch(name):
    loader = LOADERS[name]()
    seen, expected = [(0, loader.state_dict())], []  # the number of batches so far, and a state
    for _ in range(3):
        for (x,) in loader:
            expected.append(x.tolist())
            seen.append((len(expected), loader.state_dict()))
        seen.append((len(expected), loader.state_dict()))
    for i, state in seen:
        resumed = LOADERS[name]()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        epochs = [first_members(resumed) for _ in range(resumed.epoch, 3)]
        assert [*chain(*epochs)] == expected[i:], state
        # A state from inside the loop ends its own epoch, if with no batch.
        assert [*map(len, epochs[:1])] in ([], [len(expected) // 3 - state["position"]])
    assert state == {**seen[0][1], "epoch": 3}


def test_the_state_follows_the_latest_loop():
    loader = data.DataLoader(numbers(6), 2)

    def state():
        return [*loader.state_dict().values()]

    seen = [state()]
    next(iter(loader))
    seen.append(state())
    loader.epoch = 4
    seen.append(state())
    for loop in [iter(loader), iter(loader)]:
        next(loop)
        seen.append(state())
    assert seen == [[0, 0, None], [0, 1, None], [4, 0, None], [5, 0, None], [5, 1, None]]


# Errors, and what PyTorch's loaders have besides


def load(state, **options):
    return lambda: data.DataLoader(numbers(6), 2, **options).load_state_dict(state)


def loaded(epoch, position, seed):
    return load({"epoch": epoch, "position": position, "seed": seed}, shuffle=True, seed=7)


FOUR = numbers(4)


def loop(dataset=FOUR, **options):
    return lambda: batches(dataset, **options)


def collate(*samples):
    return lambda: data.default_collate(samples)


OUT_OF_RANGE = data.Subset(numbers(10), [0, 10])
WEIGHTED, BY_BATCHES = data.WeightedRandomSampler, "batch_sampler decides on whole batches"
ERRORS = {
    IndexError: [
        *((f"index {i} is out of range for 7 samples", lambda i=i: (Squares(3) + numbers(4))[i])
          for i in (7, -8)),
        ("indices from 0 to 10 are out of range for 10 samples", loop(OUT_OF_RANGE)),
        ("indices from 4 to 4 are out of range for 4 samples", loop(sampler=[4])),
    ],
    NotImplementedError: [
        ("Dataset must define __getitem__", lambda: data.Dataset()[0]),
        ("Sampler must define __iter__", lambda: iter(data.Sampler())),
    ],
    TypeError: [
        (r"must be a gpugrad\.random\.Generator, not 3; .* seed",
         lambda: data.random_split(range(2), [1, 1], generator=3)),
        (r"indices must be ints, not \[0\.5\]", loop(sampler=[0.5])),
        (r"collate: sample\[1\] is of type NoneType, which cannot", collate((1, None), (1, None))),
        ("collate: sample is of type NoneType, which cannot be batched", collate(1, None)),
        ("DataLoader: .*unexpected keyword argument 'batchsize'", loop(batchsize=1)),
        ("but list_iterator has no __len__ and no __getitem__", loop(iter([1]))),
    ],
    ValueError: [
        ("at least one data set", lambda: data.ConcatDataset([])),
        ("random_split: with a seed, generator must be None",
         lambda: data.random_split([1], [1], gg.random.Generator(0), seed=0)),
        *(("random_split: lengths must be ints that add up",
           lambda bad=bad: data.random_split(range(10), bad))
          for bad in ([3, 6], [0.5, 0.4], [-1, 11], [0.5, 9.5], [])),
        *(("WeightedRandomSampler: weights must be", lambda bad=bad: WEIGHTED(bad, 1))
          for bad in ([], [0, 0], [-1, 2], [math.nan], [math.inf], [[1]], 1.0)),
        ("cannot draw 3 of 2 indices with a weight", lambda: WEIGHTED([1, 2, 0], 3, False)),
        ("num_samples must be an int of at", lambda: data.RandomSampler(range(3), num_samples=0)),
        ("cannot draw 2 samples", lambda: iter(data.RandomSampler([], num_samples=2))),
        *((BY_BATCHES, loop(batch_sampler=[[0]], **x)) for x in (
            {"batch_size": 2}, {"shuffle": True}, {"sampler": np.arange(2)}, {"drop_last": True})),
        ("order; leave out shuffle", loop(sampler=[0], shuffle=True)),
        ("sampler decides on the order; pass it the seed", loop(sampler=[0], seed=0)),
        *(("DataLoader: batch_size must be an int of at least 1", loop(batch_size=x))
          for x in (0, -1, 2.0, True, "2", None)),
        *(("DataLoader: seed must be an int of at least 0", loop(shuffle=True, seed=x))
          for x in (-1, 1.5, False, "1")),
        (r"differs in shapes: \(2,\), \(3,\); .*coll", collate(np.ones(2), np.ones(3))),
        (r"sample\['x'\] differs in lengths: 1, 2", collate({"x": [1]}, {"x": [1, 2]})),
        (r"sample differs in keys: \['x'\], \['y'\]", collate({"x": 1}, {"y": 1})),
        ("sample differs in types: tuple, int", collate((1,), 2)),
        ("default_collate: there are no samples", collate()),
        *(("a state has epoch, position and seed", load(x)) for x in ({"epoch": 0}, None)),
        ("epoch must be an int of at least 0", loaded(-1, 0, 7)),
        ("position must be an int of at least 0", loaded(1, 0.5, 7)),
        ("the seed is None, but here 7", loaded(1, 0, None)),
        ("seed must be an int of at least 0", loaded(1, 0, "x")),
        ("the seed is 1, but here None", load({"epoch": 0, "position": 0, "seed": 1})),
        *(("TensorDataset: needs tensors", lambda x=x: data.TensorDataset(*map(gg.ones, x)))
          for x in ([], [()], [(2,), (3,)], [(2,), ()])),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_errors(kind):
    check_errors(kind, ERRORS[kind])


def test_a_state_of_another_loader_changes_nothing():
    loader = data.DataLoader(numbers(6), 2, shuffle=True, seed=7)
    with pytest.raises(ValueError, match="position"):
        loader.load_state_dict({"epoch": 1, "position": 0.5, "seed": 1})
    assert loader.state_dict() == {"epoch": 0, "position": 0, "seed": 7}


def test_the_repr_of_a_loader_says_what_it_is():
    given = {"seed": 0, "drop_last": True, "prefetch": 1}
    unused = {"num_workers": 0, "pin_memory": False, "generator": None, "in_order": True}
    whole = data.DataLoader(range(3), 2, True, **given, **unused)
    by_batches = data.DataLoader(numbers(3), batch_sampler=data.BatchSampler([0], 2))
    more = "shuffle=True, seed=0, drop_last=True, prefetch=1"
    for loader, text in (
        (data.DataLoader(numbers(3)), "TensorDataset(int64 (3,)), batch_size=1"),
        (whole, f"range of 3 samples, batch_size=2, {more}"),
        (by_batches, "TensorDataset(int64 (3,)), batch_sampler=BatchSampler"),
    ):
        assert repr(loader) == f"DataLoader({text})"
