"""Tensors in files of the safetensors format, read and written by the ``safetensors`` library."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ._creation import tensor
from ._tensor import Tensor
from .backends import backend_for_device, backend_of
from .backends.dtypes import bfloat16
from .backends.numpy import array_of_bytes

__all__ = ["load", "load_metadata", "save"]
__dir__ = __all__.copy

# The dtypes that both gpugrad and the format have, with the format's names.
_DTYPES = {
    "bool": "BOOL",
    **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    "bfloat16": "BF16",
    "complex64": "C64",
}


def save(
    tensors: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors by name, such as those of `nn.Module.state_dict`, into one file.

    metadata: text by name, for `load_metadata`.

    An existing file is replaced only once the new one is complete on the disk, so that it
    survives errors and interruptions. The new file gets its permissions. Raises TypeError for
    values that the format cannot hold, such as complex128, and OSError if the file cannot be
    written.
    """
    library = _safetensors("save")
    for what, given in ("tensors", tensors), ("metadata", metadata or {}):
        if not isinstance(given, Mapping):
            raise TypeError(
                f"save: {what} must be a dict of {'tensors' if what == 'tensors' else 'text'} "
                f"by name, not a {type(given).__name__}"
            )
    arrays = {name: _host_array(name, x) for name, x in tensors.items()}
    metadata = dict(metadata or {})
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"save: metadata is text by name, not {name!r}: {text!r}")
    _replace_file(path, library.numpy.save(arrays, metadata=metadata or None))


def load(path: str | os.PathLike[str], device: str | None = None) -> dict[str, Tensor]:
    """The tensors in a safetensors file by name, on ``device``, by default the CPU.

    Raises FileNotFoundError if there is no such file; ValueError if the file is truncated, is of
    another kind, or has a dtype that gpugrad lacks; ImportError if it has bfloat16 and
    ``ml_dtypes`` is not installed. An unknown device is a ValueError, a missing one a RuntimeError.
    """
    try:
        backend_for_device(device)
    except (RuntimeError, ValueError) as error:
        raise type(error)(f"load: {error}") from error
    tensors = {}
    with _opened("load", path) as file:
        for name in file.keys():  # noqa: SIM118  it is no mapping
            dtype = file.get_slice(name).get_dtype()
            if dtype not in _DTYPES.values():
                raise ValueError(
                    f"load: {name} in {path} is {dtype}, which arrays here have not; "
                    f"convert it to F32 where it was saved"
                )
            values = _bfloat16s(path, name) if dtype == "BF16" else file.get_tensor(name)
            tensors[name] = tensor(values, device=device)
    return tensors


def _bfloat16s(path, name):
    """An array of bfloat16, which the NumPy part of the library cannot read."""
    import json

    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start, stop = header[name]["data_offsets"]
        file.seek(start, os.SEEK_CUR)
        return array_of_bytes(file.read(stop - start), bfloat16(), header[name]["shape"])


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The metadata in a safetensors file; raises the same errors as `load`."""
    with _opened("load_metadata", path) as file:
        return file.metadata() or {}


def _safetensors(name):
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            f"{name}: needs the safetensors library; pip install safetensors"
        ) from error
    return safetensors


def _host_array(name, x):
    if not isinstance(name, str) or name == "__metadata__":
        raise TypeError(f"save: {name!r} cannot be the name of a tensor")
    if not isinstance(x, Tensor):
        raise TypeError(f"save: {name} must be a Tensor, not {type(x).__name__}")
    host = backend_of[type(x.array)].to_numpy(x.array)
    if host.dtype.name not in _DTYPES:
        raise TypeError(f"save: {name} is {host.dtype}, which the format has not; use astype")
    # The library reads memory in order, whatever the strides.
    return host if host.flags.c_contiguous else host.copy()


@contextmanager
def _opened(name: str, path: Any) -> Iterator[Any]:
    library = _safetensors(name)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{name}: there is no file {os.fspath(path)}")
    try:
        with library.safe_open(path, framework="np") as file:
            yield file
    except library.SafetensorError as error:
        raise ValueError(
            f"{name}: {os.fspath(path)} is truncated, or not a safetensors file ({error})"
        ) from None


def _replace_file(path, data):
    """Put ``data`` into a file at ``path``: either all of it, or nothing."""
    path = os.path.realpath(path)  # a link stays a link
    if os.path.isdir(path):
        raise IsADirectoryError(f"save: {path} is a folder; give the name of a file in it")
    if os.path.exists(path) and not os.path.isfile(path):  # a device must not be replaced
        raise OSError(f"save: {path} is not a regular file")
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(f"save: there is no directory {os.path.dirname(path)}; create it")
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        with open(temporary, "xb") as file:
            if os.path.exists(path):
                os.chmod(temporary, os.stat(path).st_mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if os.path.exists(temporary):
            os.remove(temporary)
        if isinstance(error, OSError) and error.errno:
            raise OSError(error.errno, error.strerror, path) from None  # not the temporary name
        raise
