"""Samplers, splits, collation, transforms, prefetch, memory-mapped sets and resumption."""

import gc
import signal
import threading
import time
from collections import Counter, namedtuple
from itertools import chain

import numpy as np
import pytest
from without_threads import needs_threads

import gpugrad as gg
from gpugrad import data

Pair = namedtuple("Pair", "left right")


def flat(loader):
    """The first member of all batches, one after the other."""
    return [i for batch in loader for i in batch[0].tolist()]


def numbers(n):
    return data.TensorDataset(np.arange(n))


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("DataLoader")]


# Data sets


class Squares(data.Dataset[int]):
    def __init__(self, n):
        self.n = n
        self.read = []

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.read.append(i)
        return i * i


def test_data_sets_are_parts_and_sums_of_others():
    both = Squares(3) + numbers(4)
    assert isinstance(both, data.ConcatDataset)
    assert len(both) == 7
    assert both.cumulative_sizes == [3, 7]
    assert [both[i] for i in (0, 1, 2, -7)] == [0, 1, 4, 0]
    assert [both[i][0].item() for i in (3, 6, -1, -4)] == [0, 3, 3, 0]
    for i in 7, -8:
        with pytest.raises(IndexError, match=f"index {i} is out of range for 7 samples"):
            both[i]
    part = data.Subset(Squares(9), [8, 2, 5])
    assert (len(part), part[0], [*part[1:]], [*part[[2, 0]]]) == (3, 64, [4, 25], [25, 64])
    assert repr(data.Subset(part, [1])) == "Subset(1 of Subset(3 of Squares of 9 samples))"
    for make, kind, message in (
        (lambda: data.ConcatDataset([]), ValueError, "at least one data set"),
        (lambda: data.Dataset()[0], NotImplementedError, "Dataset must define __getitem__"),
        (lambda: iter(data.Sampler()), NotImplementedError, "Sampler must define __iter__"),
    ):
        with pytest.raises(kind, match=message):
            make()


THIRDS = [1 / 3, 1 / 3, 1 / 3]
SPLITS = [
    (10, [3, 7]), (10, [0.3, 0.7]), (10, THIRDS), (1, [0.5, 0.5]), (1, [1, 0]), (0, [0, 0]),
    (7, [0.5, 0.25, 0.25]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about empty parts
def test_random_split_takes_lengths_or_fractions():
    torch = pytest.importorskip("torch")
    for n, lengths in SPLITS:
        parts = data.random_split(range(n), lengths, seed=0)
        theirs = torch.utils.data.random_split(range(n), lengths)
        assert [*map(len, parts)] == [*map(len, theirs)], (n, lengths)
        assert sorted(i for part in parts for i in part) == [*range(n)]
    for bad in ([3, 6], [0.5, 0.4], [-1, 11], [0.5, 9.5], []):
        with pytest.raises(ValueError, match="random_split: lengths must be ints that add up"):
            data.random_split(range(10), bad)


def test_a_split_depends_on_its_seed_or_generator():
    def split(**options):
        return [part.indices for part in data.random_split(range(50), [25, 25], **options)]

    assert split(seed=1) == split(seed=1) != split(seed=2)
    generator = gg.random.Generator(3)
    assert split(generator=generator) == split(generator=gg.random.Generator(3))
    assert split(generator=generator) != split(generator=gg.random.Generator(3))
    gg.manual_seed(0)
    first = split()
    gg.manual_seed(0)
    assert split() == first
    with pytest.raises(TypeError, match=r"must be a gpugrad\.random\.Generator, not 3; .* seed"):
        split(generator=3)


def test_parts_of_tensor_data_sets_are_cut_out_as_a_whole(monkeypatch):
    x = np.arange(20.0).reshape(10, 2)
    part = data.Subset(data.Subset(data.TensorDataset(x), [9, 7, 5, 3, -9]), [3, 0, 1, 4])
    expected = [[6, 7], [18, 19], [14, 15], [2, 3]]
    assert flat(data.DataLoader(part, 4)) == expected
    assert flat(data.DataLoader(part, 4, collate_fn=data.default_collate)) == expected
    monkeypatch.setattr(data.Subset, "__getitems__", None)
    assert sorted(flat(data.DataLoader(part, 3, shuffle=True))) == sorted(expected)
    assert flat(data.DataLoader(part, sampler=[-1, 0], batch_size=2)) == [[2, 3], [6, 7]]
    with pytest.raises(IndexError, match="indices from 0 to 10 are out of range for 10 samples"):
        iter(data.DataLoader(data.Subset(data.TensorDataset(x), [0, 10])))


def test_subclasses_of_tensor_dataset_may_compute_samples():
    class Doubled(data.TensorDataset):
        def __getitem__(self, i):
            return super().__getitem__(i)[0] * 2

    assert [x.tolist() for x in data.DataLoader(Doubled(np.arange(3)), 2)] == [[0, 2], [4]]


# Samplers


def test_samplers_give_indices():
    assert [*data.SequentialSampler("abc")] == [0, 1, 2]
    sampler = data.RandomSampler(range(6), seed=0)
    first, second = [*sampler], [*sampler]
    assert sorted(first) == sorted(second) == [*range(6)]
    assert first != second
    sampler.set_epoch(0)
    assert [*sampler] == first
    few, many = (data.RandomSampler(range(6), num_samples=n, seed=0) for n in (4, 15))
    assert (len(few), len(many)) == (4, 15)
    assert len({*few}) == 4
    assert sorted(Counter(many).values()) == [2, 2, 2, 3, 3, 3]
    drawn = [*data.RandomSampler(range(3), replacement=True, num_samples=600, seed=0)]
    assert all(150 < count < 250 for count in Counter(drawn).values())
    assert len(Counter(drawn)) == 3
    for batches, drop_last in (([[0, 1], [2]], False), ([[0, 1]], True)):
        sampler = data.BatchSampler(range(3), 2, drop_last)
        assert [*sampler] == batches
        assert len(sampler) == len(batches)


@pytest.mark.parametrize("replacement", [True, False])
def test_weights_are_the_probabilities_of_the_first_draw(replacement):
    weights = [0, 1, 0, 3, 4, 0]
    sampler = data.WeightedRandomSampler(weights, 3, replacement, seed=0)
    passes = [[*sampler] for _ in range(800)]
    first = Counter(drawn[0] for drawn in passes)
    for i, w in enumerate(weights):
        assert abs(first[i] - 100 * w) < 70, first
    assert all(len({*drawn}) == 3 for drawn in passes) is not replacement
    assert all(weights[i] for drawn in passes for i in drawn)


def test_samplers_reject_invalid_arguments():
    for weights in [], [0, 0], [-1, 2], [float("nan")], [float("inf")], [[1]], 1.0:
        with pytest.raises(ValueError, match="WeightedRandomSampler: weights must be"):
            data.WeightedRandomSampler(weights, 1)
    with pytest.raises(ValueError, match="cannot draw 3 of 2 indices with a weight above 0"):
        data.WeightedRandomSampler([1, 2, 0], 3, replacement=False)
    with pytest.raises(ValueError, match="num_samples must be an int of at least 1"):
        data.RandomSampler(range(3), num_samples=0)
    with pytest.raises(ValueError, match="cannot draw 2 samples, as there are none"):
        iter(data.RandomSampler([], num_samples=2))


@pytest.mark.parametrize("make", [numbers, range])
def test_loaders_take_samplers(make):
    def batches(**options):
        loader = data.DataLoader(make(6), **options)
        found = [b[0].tolist() if make is numbers else b.tolist() for b in loader]
        assert len(found) == len(loader)
        return found

    assert batches(sampler=[5, 0, 5], batch_size=2) == [[5, 0], [5]]
    assert batches(sampler=[5, 0, 5], batch_size=2, drop_last=True) == [[5, 0]]
    assert batches(batch_sampler=[[1], [2, 3], [4, 4, -1]]) == [[1], [2, 3], [4, 4, 5]]
    shuffled = batches(batch_sampler=data.BatchSampler(data.RandomSampler(range(6), seed=0), 4))
    assert shuffled == batches(sampler=data.RandomSampler(range(6), seed=0), batch_size=4)
    assert shuffled == batches(shuffle=True, seed=0, batch_size=4)


BY_BATCHES = "batch_sampler decides on whole batches"
REJECTED = [
    (ValueError, BY_BATCHES, {"batch_sampler": [[0]], "batch_size": 2}),
    (ValueError, BY_BATCHES, {"batch_sampler": [[0]], "shuffle": True}),
    (ValueError, BY_BATCHES, {"batch_sampler": [[0]], "sampler": np.arange(2)}),
    (ValueError, BY_BATCHES, {"batch_sampler": [[0]], "drop_last": True}),
    (ValueError, "order; leave out shuffle", {"sampler": [0], "shuffle": True}),
    (ValueError, "sampler decides on the order; pass it the seed", {"sampler": [0], "seed": 0}),
    (IndexError, "indices from 4 to 4 are out of range for 4 samples", {"sampler": [4]}),
    (TypeError, r"indices must be ints, not \[0\.5\]", {"sampler": [0.5]}),
]


@pytest.mark.parametrize("kind, message, options", REJECTED)
def test_samplers_that_do_not_fit_are_rejected(kind, message, options):
    with pytest.raises(kind, match=message):
        list(data.DataLoader(numbers(4), **options))


# Collation


def test_batches_are_nested_as_samples_are():
    torch = pytest.importorskip("torch")

    def sample(i, library):
        pair = Pair(np.int16(i), bool(i))
        image = np.full((2, 3), i, np.float32)
        more = pair, [library.ones(2) * i, float(i)]
        return {"image": image, "label": i, "name": f"image {i}", "more": more}

    (ours,) = data.DataLoader([sample(i, gg) for i in range(3)], 3, device="cpu")
    theirs = torch.utils.data.default_collate([sample(i, torch) for i in range(3)])
    assert [*ours] == [*theirs]
    assert ours["name"] == theirs["name"] == ["image 0", "image 1", "image 2"]
    (pair, [x, number]), (their_pair, [y, their_number]) = ours["more"], theirs["more"]
    assert isinstance(pair, Pair)
    assert number.dtype == gg.float32  # as gg.tensor makes it, and not float64
    pairs = [*zip(pair, their_pair, strict=True), (x, y), (number, their_number.float())]
    for a, b in [*((ours[name], theirs[name]) for name in ("image", "label")), *pairs]:
        np.testing.assert_array_equal(a.numpy(), b.numpy())
        assert f"torch.{a.dtype}" == str(b.dtype)


UNLIKE = [
    ([np.ones(2), np.ones(3)], ValueError, r"sample differs in shapes: \(2,\), \(3,\); .*coll"),
    ([{"x": [1]}, {"x": [1, 2]}], ValueError, r"sample\['x'\] differs in lengths: 1, 2"),
    ([{"x": 1}, {"y": 1}], ValueError, r"sample differs in keys: \['x'\], \['y'\]"),
    ([(1, None)] * 2, TypeError, r"sample\[1\] is of type NoneType, which cannot be batched"),
    ([1, None], TypeError, "sample is of type NoneType, which cannot be batched"),
    ([(1,), 2], ValueError, "sample differs in types: tuple, int"),
    ([], ValueError, "there are no samples"),
]


@pytest.mark.parametrize("samples, error, message", UNLIKE)
def test_samples_that_do_not_go_together(samples, error, message):
    with pytest.raises(error, match=f"default_collate: .*{message}"):
        data.default_collate(samples)


def test_collate_fn_and_transform_make_the_batch():
    def pad(samples):
        width = max(map(len, samples))
        rows = [[*s, *[0] * (width - len(s))] for s in samples]
        return {"rows": gg.tensor(rows), "width": gg.tensor(width), "of": "text"}

    loader = data.DataLoader([[1], [2, 3], [4]], 2, collate_fn=pad, device="cpu")
    assert loader.collate_fn is pad
    first, second = loader
    assert first["rows"].tolist() == [[1, 0], [2, 3]]
    assert (first["width"].item(), first["of"]) == (2, "text")
    assert second["rows"].tolist() == [[4]]

    def scaled(batch):
        x, y = batch
        return {"x": x / 2, "y": y}

    dataset = data.TensorDataset(np.arange(4.0), np.arange(4))
    for options in {}, {"device": "cpu"}, {"prefetch": 1}, {"collate_fn": data.default_collate}:
        batches = list(data.DataLoader(dataset, 3, transform=scaled, **options))
        assert [b["x"].tolist() for b in batches] == [[0, 0.5, 1], [1.5]], options
        assert [b["y"].tolist() for b in batches] == [[0, 1, 2], [3]], options


# Prefetch


@pytest.mark.parametrize("make", [numbers, Squares])
@pytest.mark.parametrize("shuffle", [False, True])
def test_prefetched_batches_come_in_the_same_order(make, shuffle):
    def batches(**options):
        loader = data.DataLoader(make(23), 4, shuffle, seed=0, **options)
        return [[b[0].tolist() if make is numbers else b.tolist() for b in loader] for _ in "ab"]

    expected = batches()
    for prefetch in 1, 3, 100:
        assert batches(prefetch=prefetch) == expected
    assert batches(prefetch=2, device="cpu") == expected
    assert not threads()


@needs_threads
def test_prefetch_is_as_far_ahead_as_asked():
    dataset = Squares(20)
    loader = data.DataLoader(dataset, 1, prefetch=3)
    batches = iter(loader)
    assert not dataset.read  # nothing happens before the first batch is wanted
    for i in range(5):
        next(batches)
        deadline = time.monotonic() + 60
        while len(dataset.read) < i + 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(0.01)
        assert len(dataset.read) == i + 4
    assert loader.state_dict()["position"] == 5
    batches.close()
    assert not threads()


@needs_threads
def test_an_abandoned_iterator_leaves_no_thread():
    def loop(error=None):
        for batch in data.DataLoader(Squares(100), 4, prefetch=2):
            assert len(batch) == 4
            assert len(threads()) == 1
            if error:
                raise error
            break

    gc.disable()
    try:
        loop()
        assert not threads()
        with pytest.raises(KeyboardInterrupt):
            loop(KeyboardInterrupt)
        assert not threads()
    finally:
        gc.enable()


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


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals between threads")
@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach only that"
)
def test_ctrl_c_while_waiting_for_a_batch():
    class Slow(Squares):
        def __getitem__(self, i):
            if i == 7:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.02)
            return super().__getitem__(i)

    loader = data.DataLoader(Slow(1000), 5, prefetch=2)
    # A shell starts programs in the background with a handler that ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(loader)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not threads()
    assert len(loader.dataset.read) < 500


# Files larger than memory


@pytest.mark.parametrize("options", [{}, {"prefetch": 2}, {"device": "cpu"}], ids=str)
def test_memory_mapped_arrays_are_read_batch_by_batch(tmp_path, options):
    """The file has a hole of 8 GB, of which a few pages can be read."""
    path = tmp_path / "data"
    n, width = 1 << 20, 1 << 10
    try:
        x = np.memmap(path, np.float64, "w+", shape=(n, width))
    except OSError:
        pytest.skip("the file system has no sparse files")
    for i in 0, 3, n - 1:
        x[i] = i
    x.flush()
    x = np.memmap(path, np.float64, "r", shape=(n, width))
    dataset = data.TensorDataset(x, np.arange(n))
    assert np.shares_memory(dataset.tensors[0].array, x)
    rows = [n - 1, 3, 0, 17]
    for given in (
        data.DataLoader(dataset, 2, sampler=rows, **options),
        data.DataLoader(data.Subset(dataset, rows), 2, **options),
    ):
        batches = list(given)
        assert [y.tolist() for _, y in batches] == [[n - 1, 3], [0, 17]]
        for x, y in batches:
            assert x[:, 5].tolist() == [i if i != 17 else 0 for i in y.tolist()]
    first = next(iter(data.DataLoader(dataset, 4, shuffle=True, seed=0, **options)))
    assert first[0].shape == (4, width)


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
    "weighted": lambda: data.DataLoader(
        numbers(11), 3, sampler=data.WeightedRandomSampler(range(11), 9)
    ),
    "batch sampler": lambda: data.DataLoader(
        numbers(11), batch_sampler=data.BatchSampler(data.RandomSampler(range(11)), 3)
    ),
    "own sampler": lambda: data.DataLoader(numbers(11), 2, sampler=[5, 3, 1, 2, 8]),
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_continues_in_the_middle_of_an_epoch(name):
    loader = LOADERS[name]()
    seen = [(0, loader.state_dict())]  # the number of batches so far, and a state
    batches = []
    for _ in range(3):
        for (x,) in loader:
            batches.append(x.tolist())
            seen.append((len(batches), loader.state_dict()))
        seen.append((len(batches), loader.state_dict()))
    for i, state in seen:
        resumed = LOADERS[name]()
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        epochs = [[x.tolist() for (x,) in resumed] for _ in range(resumed.epoch, 3)]
        assert [*chain(*epochs)] == batches[i:], state
        # A state from inside the loop ends its own epoch, if with no batch.
        assert [*map(len, epochs[:1])] in ([], [len(batches) // 3 - state["position"]])
    assert state == {**seen[0][1], "epoch": 3}


def test_the_state_follows_the_latest_loop():
    loader = data.DataLoader(numbers(6), 2)

    def state():
        epoch, position, seed = loader.state_dict().values()
        assert seed is None
        return epoch, position

    assert state() == (0, 0)
    next(iter(loader))
    assert state() == (0, 1)
    loader.epoch = 4
    assert state() == (4, 0)
    a, b = iter(loader), iter(loader)
    next(a)
    assert state() == (5, 0)
    next(b)
    assert state() == (5, 1)


def test_states_of_other_loaders_are_rejected():
    loader = data.DataLoader(numbers(6), 2, shuffle=True, seed=7)
    for state, message in (
        ({"epoch": 0}, "a state has epoch, position and seed"),
        (None, "a state has epoch, position and seed"),
        ({"epoch": -1, "position": 0, "seed": 1}, "epoch must be an int of at least 0"),
        ({"epoch": 1, "position": 0.5, "seed": 1}, "position must be an int of at least 0"),
        ({"epoch": 1, "position": 0, "seed": None}, "the seed is None, but here 7"),
        ({"epoch": 1, "position": 0, "seed": "x"}, "seed must be an int of at least 0"),
    ):
        with pytest.raises(ValueError, match=message):
            loader.load_state_dict(state)
        assert loader.state_dict() == {"epoch": 0, "position": 0, "seed": 7}
    with pytest.raises(ValueError, match="the seed is 1, but here None"):
        data.DataLoader(numbers(6)).load_state_dict({"epoch": 0, "position": 0, "seed": 1})


# What PyTorch's loaders have besides


def test_arguments_of_pytorch_are_answered():
    for name, message in {
        "num_workers": "prefetch=2 prepares batches in a thread",
        "pin_memory": 'with device="cuda" batches always go through pinned memory',
        "persistent_workers": "prefetch=n",
        "generator": "seed=0",
        "batchsize": "unexpected keyword argument 'batchsize'",
    }.items():
        with pytest.raises(TypeError, match=f"DataLoader: .*{message}"):
            data.DataLoader(numbers(3), **{name: 1})
    data.DataLoader(numbers(3), num_workers=0, pin_memory=False, generator=None, in_order=True)


def test_the_repr_of_a_loader_says_what_it_is():
    dataset = numbers(3)
    for loader, text in (
        (data.DataLoader(dataset), "TensorDataset(int64 (3,)), batch_size=1"),
        (
            data.DataLoader(range(3), 2, True, seed=0, drop_last=True, prefetch=1),
            "range of 3 samples, batch_size=2, shuffle=True, seed=0, drop_last=True, prefetch=1",
        ),
        (
            data.DataLoader(dataset, batch_sampler=data.BatchSampler([0], 2)),
            "TensorDataset(int64 (3,)), batch_sampler=BatchSampler",
        ),
    ):
        assert repr(loader) == f"DataLoader({text})"
