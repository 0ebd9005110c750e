"""IDX, the file format of MNIST and of similar data sets."""

import math
import os
from pathlib import Path
from typing import Any

from .._creation import asarray
from .._tensor import Tensor
from ..backends.dtypes import float32, float64, int8, int16, int32, int64, uint8
from ..backends.numpy import array_of_bytes
from .dataset import TensorDataset

_DTYPES = {0x08: uint8, 0x09: int8, 0x0B: int16, 0x0C: int32, 0x0D: float32, 0x0E: float64}
KINDS = "images-idx3-ubyte", "labels-idx1-ubyte"  # the ends of names of files
_GZIP = b"\x1f\x8b"
_CHUNK_SIZE = 1 << 20


def read_idx(path: str | os.PathLike) -> Tensor:
    """The array in an IDX file, gzipped or not, as a tensor on the CPU with the file's dtype.

    This reads or decompresses at most one byte more than the file's header announces. Raises
    FileNotFoundError if there is no such file; ValueError if it is truncated, too long, or not an
    IDX file, or if NumPy cannot make its array.
    """
    import gzip
    import zlib

    path = Path(path)
    try:
        with path.open("rb") as file:
            is_gzip = file.read(2) == _GZIP
        with gzip.open(path) if is_gzip else path.open("rb") as file:
            return _read_array(file, path)
    except (FileNotFoundError, IsADirectoryError):
        raise FileNotFoundError(f"read_idx: there is no file {path}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"read_idx: {path} is a truncated or damaged gzip file ({error}); download it again"
        ) from None


def _read_array(file, path):
    head = _read(file, 4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _DTYPES:
        raise ValueError(
            f"read_idx: {path} is not an IDX file: it begins with {head.hex(' ') or 'nothing'}"
        )
    dtype, ndim = _DTYPES[head[2]], head[3]
    start = 4 + 4 * ndim
    lengths = _read(file, 4 * ndim)
    if len(lengths) < 4 * ndim:
        raise ValueError(
            f"read_idx: {path} is truncated: {4 + len(lengths)} bytes, where the header alone "
            f"takes {start}; download it again"
        )
    shape = tuple([int.from_bytes(lengths[i : i + 4], "big") for i in range(0, 4 * ndim, 4)])
    try:
        array_of_bytes(b"", dtype, (0, *shape))  # fails if NumPy cannot make such an array
    except ValueError as error:
        raise ValueError(f"read_idx: {path} cannot be read as an IDX file: {error}") from None
    size = math.prod(shape) * dtype.itemsize
    data = _read(file, size + 1)
    if len(data) != size:
        what = f"truncated: {start + len(data)}" if len(data) < size else "too long: more"
        raise ValueError(
            f"read_idx: {path} is {what} bytes, where an array {shape} of {dtype} takes "
            f"{start + size}; download it again"
        )
    return asarray(array_of_bytes(data, dtype, shape, byteorder=">"))


def _read(file, size):
    """The next ``size`` bytes of a file, or the rest if it has fewer.

    ``file.read(size)`` would allocate ``size`` bytes before it knows whether there are so many.
    """
    data = bytearray()
    while part := file.read(min(size - len(data), _CHUNK_SIZE)):
        data += part
    return data


def idx_dataset(directory: str | os.PathLike, classes: int = 10) -> tuple[Any, Any]:
    """The training and test parts of MNIST, Fashion-MNIST or another data set in their format.

    directory: the folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the
        same two with ``t10k`` instead of ``train``, each with or without ``.gz``.
    classes: the number of different labels.

    Returns two `TensorDataset` of ``(n, rows * columns)`` float32 images in [0, 1], row
    after row, and ``(n,)`` int64 labels.

    Raises FileNotFoundError, which names the missing file, and ValueError for files that are
    damaged or do not belong together.
    """
    directory = Path(directory)
    paths = [[_find(directory, f"{part}-{kind}") for kind in KINDS] for part in ("train", "t10k")]
    train, test = [labelled_images(*pair, white=255, classes=classes) for pair in paths]
    if train.tensors[0].shape[1:] != test.tensors[0].shape[1:]:
        raise ValueError(
            f"idx_dataset: training and test images in {directory} differ in size: "
            f"{train.tensors[0].shape} and {test.tensors[0].shape}"
        )
    return train, test


def _find(directory, name):
    for path in directory / f"{name}.gz", directory / name:
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"idx_dataset: {directory} has no {name}.gz or {name}; download the data set's four files "
        f"into that directory, or name the one where they are"
    )


def labelled_images(image_path: Any, label_path: Any, *, white: int, classes: int) -> TensorDataset:
    """Images scaled from 0..``white`` to [0, 1] and flattened, and their labels."""
    images, labels = read_idx(image_path), read_idx(label_path)
    if images.ndim != 3 or images.dtype != uint8:
        raise ValueError(
            f"{image_path} holds {images.dtype} {images.shape}, not uint8 images (n, rows, cols)"
        )
    if labels.ndim != 1 or labels.dtype != uint8 or len(labels) != len(images):
        raise ValueError(
            f"{label_path} holds {labels.dtype} {labels.shape}, not the uint8 labels of the "
            f"{len(images)} images in {image_path}"
        )
    if len(labels) and int(labels.max()) >= classes:
        raise ValueError(
            f"{label_path} has the label {int(labels.max())}, but labels must be from 0 to "
            f"{classes - 1}"
        )
    n, rows, columns = images.shape
    pixels = images.reshape(n, rows * columns).astype(float32)
    pixels.array /= white  # in place: a second array would take 188 MB for MNIST
    return TensorDataset(pixels, labels.astype(int64))
