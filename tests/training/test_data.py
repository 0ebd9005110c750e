"""Data sets, batches, the embedded digits and the reader of IDX files."""

import gzip
import math

import numpy as np
import pytest
from samples import peak_of, values

import gpugrad
from gpugrad import data


def idx_bytes(array, code=0x08):
    """Return the bytes of an IDX file."""
    header = bytes([0, 0, code, array.ndim])
    header += b"".join(n.to_bytes(4, "big") for n in array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


# TensorDataset


def test_tensor_dataset_has_samples():
    x = gpugrad.arange(6.0).reshape(3, 2).requires_grad_()
    dataset = data.TensorDataset(x, np.array([7, 8, 9]))
    assert len(dataset) == 3
    x, y = dataset[1]
    assert (x.tolist(), y.tolist()) == ([2.0, 3.0], 8)
    assert not x.requires_grad
    x, y = dataset[[2, 0]]
    assert (x.tolist(), y.tolist()) == ([[4.0, 5.0], [0.0, 1.0]], [9, 7])
    assert [y.item() for _, y in dataset] == [7, 8, 9]
    assert repr(dataset) == "TensorDataset(float32 (3, 2), int64 (3,))"
    (batch, _), *_ = data.DataLoader(dataset, 2)
    assert np.shares_memory(batch.array, dataset.tensors[0].array)


@pytest.mark.parametrize("how", [(gpugrad.float64,), ("cpu", gpugrad.float64)])
def test_tensor_dataset_casts_floating_tensors(how):
    dataset = data.TensorDataset(gpugrad.ones(2), gpugrad.tensor([1, 2])).to(*how)
    assert [x.dtype for x in dataset.tensors] == [gpugrad.float64, gpugrad.int64]


# Digits


def test_digits_are_scikit_learns_split_by_fives():
    train, test = data.digits()
    assert repr(train) == "TensorDataset(float32 (1437, 64), int64 (1437,))"
    assert repr(test) == "TensorDataset(float32 (360, 64), int64 (360,))"
    x, _ = train.tensors
    assert (values(x).min(), values(x).max()) == (0, 1)
    datasets = pytest.importorskip("sklearn.datasets")
    theirs, is_test = datasets.load_digits(), np.arange(1797) % 5 == 0
    for part, mask in ((train, ~is_test), (test, is_test)):
        np.testing.assert_array_equal(values(part.tensors[0]) * 16, theirs.data[mask])
        np.testing.assert_array_equal(values(part.tensors[1]), theirs.target[mask])


# IDX


each_compression = pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["raw", "gzip"])
DTYPES = {8: np.uint8, 9: np.int8, 11: np.int16, 12: np.int32, 13: np.float32, 14: np.float64}


@each_compression
@pytest.mark.parametrize("code", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 28, 28), ()], ids=str)
def test_read_idx_reads_every_dtype(tmp_path, compress, code, shape):
    array = np.arange(-12, 12)[: math.prod(shape)].reshape(shape).astype(DTYPES[code])
    path = tmp_path / "file"
    path.write_bytes(compress(idx_bytes(array, code)))
    x = data.read_idx(str(path))
    assert x.dtype == DTYPES[code]
    assert x.array.flags.writeable
    np.testing.assert_array_equal(values(x), array)


GOOD = idx_bytes(np.arange(60, dtype=np.uint8).reshape(5, 3, 4))


ZIPPED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize("content, message", [
    (b"", "is not an IDX file: it begins with nothing"),
    (b"hello world", "is not an IDX file: it begins with 68 65 6c 6c"),
    (b"\0\0\x07\x01" + GOOD[4:], "is not an IDX file: it begins with 00 00 07 01"),
    (GOOD[:3], "is not an IDX file: it begins with 00 00 08"),
    (GOOD[:10], "is truncated: 10 bytes"),
    (GOOD[:-1], r"is truncated: 75 bytes, where an array \(5, 3, 4\) of uint8 takes 76"),
    (GOOD + b"x", r"is too long: more bytes, where an array \(5, 3, 4\) of uint8 takes 76"),
    (gzip.compress(GOOD + b"x", mtime=0), "is too long: more bytes"),
    (b"\0\0\x08\x01" + b"\xff" * 4, "is truncated: 8 bytes, where .* takes 4294967303"),
    (b"\0\0\x08\x03" + b"\xff" * 12, "cannot be read .*: array is too big"),
    (b"\0\0\x08\x04" + b"\0" * 4 + b"\xff" * 12, "cannot be read .*: array is too big"),
    (b"\0\0\x08\x20" + b"\xff" * 128, "cannot be read .*: array is too big"),
    (b"\0\0\x08\xff", "is truncated: 4 bytes, .* header alone takes 1024"),
    (b"\0\0\x08\x20" + b"\xff" * 99, "is truncated: 103 bytes, .* header alone takes 132"),
    (b"\0\0\x08\xff" + b"\0" * 2000, "cannot be read .*: maximum supported dimension"),
    (ZIPPED[:-10], "is a truncated or damaged gzip file"),
    (ZIPPED[:20] + b"\0" * 30, "is a truncated or damaged gzip file"),
    (b"\x1f\x8b" + b"garbage", "is a truncated or damaged gzip file"),
    (gzip.compress(GOOD[:-1], mtime=0), "is truncated: 75 bytes"),
])  # fmt: skip
def test_read_idx_describes_damaged_files(tmp_path, content, message):
    path = tmp_path / "some-idx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        data.read_idx(path)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < len(str(path)) + 200


@each_compression
@pytest.mark.parametrize("header, error, most", [
    (idx_bytes(np.zeros((3, 4), np.uint8)), "is too long", 2 << 20),
    # The data themselves, and what a growing buffer needs besides.
    (b"\0\0\x08\x02" + (1 << 20).to_bytes(4, "big") * 2, "is truncated: 12582924", 24 << 20),
], ids=["more than promised", "less than promised"])  # fmt: skip
def test_read_idx_allocates_no_more_than_promised(tmp_path, compress, header, error, most):
    """The file has 12 MB of zeros, and its header promises 12 bytes or a terabyte."""
    path = tmp_path / "file"
    path.write_bytes(compress(header + bytes(12 << 20)))

    def read():
        with pytest.raises(ValueError, match=error):
            data.read_idx(path)

    assert peak_of(read) < most


def write_mnist(folder):
    """Write a tiny data set in MNIST's format, some files gzipped."""
    rng = np.random.default_rng(0)
    for part, n in (("train", 20), ("t10k", 6)):
        images = rng.integers(0, 256, (n, 3, 4), np.uint8)
        labels = (np.arange(n) % 10).astype(np.uint8)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))


@pytest.fixture
def mnist(tmp_path):
    write_mnist(tmp_path)
    return tmp_path


def test_idx_dataset_reads_the_four_files(mnist):
    train, test = data.idx_dataset(mnist)
    assert repr(train) == "TensorDataset(float32 (20, 12), int64 (20,))"
    assert repr(test) == "TensorDataset(float32 (6, 12), int64 (6,))"
    raw = data.read_idx(mnist / "train-images-idx3-ubyte.gz")
    np.testing.assert_allclose(values(train.tensors[0]), values(raw).reshape(20, 12) / 255)
    assert test.tensors[1].tolist() == [0, 1, 2, 3, 4, 5]
    (mnist / "train-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(20, dtype=np.uint8)))
    train, _ = data.idx_dataset(mnist, classes=20)
    assert train.tensors[1].max().item() == 19


@pytest.mark.parametrize("name, array, message", [
    ("labels-idx1", np.zeros(5), r"labels-idx1-ubyte holds uint8 \(5,\), "),
    ("labels-idx1", np.zeros((6, 1)), r"uint8 labels of the 6 images"),
    ("labels-idx1", np.full(6, 10), "has the label 10, but labels must"),
    ("images-idx3", np.zeros((6, 12)), r"\(6, 12\), not uint8 images"),
    ("images-idx3", np.zeros((6, 4, 4)), r"differ in size: \(20, 12\)"),
])  # fmt: skip
def test_idx_dataset_rejects_files_that_do_not_match(mnist, name, array, message):
    (mnist / f"t10k-{name}-ubyte.gz").unlink(missing_ok=True)
    (mnist / f"t10k-{name}-ubyte").write_bytes(idx_bytes(array.astype(np.uint8)))
    with pytest.raises(ValueError, match=message):
        data.idx_dataset(mnist)


def test_missing_files_are_named(mnist, tmp_path):
    (mnist / "t10k-labels-idx1-ubyte").unlink()
    for call, path, message in (
        (data.idx_dataset, mnist, r"has no t10k-labels-idx1-ubyte\.gz or t10k-"),
        (data.idx_dataset, tmp_path / "nowhere", "idx_dataset: .*nowhere has no train-images"),
        (data.read_idx, tmp_path / "none", "read_idx: there is no file"),
        (data.read_idx, tmp_path, "read_idx: there is no file"),
    ):
        with pytest.raises(FileNotFoundError, match=message):
            call(path)
