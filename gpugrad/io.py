"""Tensors and other values in files of the safetensors format, read and written by its library.

A dict from str to Tensors is a plain safetensors file with these names. Any other dict that `save`
takes is stored like this:

- Each Tensor is stored under the keys and positions that lead to it, joined by dots:
  ``state["model"]["0.weight"]`` under the name ``model.0.weight``. If that name is taken,
  underscores are appended until it is not.
- The entry ``gpugrad.state`` of the file's metadata is the JSON text
  ``{"version": 1, "state": S}``. ``S`` is the dict, with these forms of the values in it:

  ====================================  ==========================================================
  str, int, finite float, bool, None    as in JSON; the float that is nearest to the text is meant
  list                                  ``[value, ...]``
  tuple                                 ``{"tuple": [value, ...]}``
  dict                                  ``{"dict": [[key, value], ...]}``, each key a str or an int
  Tensor                                ``{"tensor": name}``, each name in the file exactly once
  infinity, nan                         ``{"float": "7ff0000000000000"}``, the IEEE 754 bits
  ====================================  ==========================================================
"""

import json
import math
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ._arguments import check_type
from ._creation import tensor
from ._foreign_names import explains_arguments
from ._tensor import Tensor
from .backends import backend_for_device, backend_of
from .backends.dtypes import bfloat16

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

_ENTRY = "gpugrad.state"  # in the metadata
_VERSION = 1
_MOST_LEVELS = 100

# How files of `torch.save` begin: the pickled number 0x1950a86a20f9469cfc6c, or a zip file whose
# first member is FOLDER/data.pkl.
_TORCH_PICKLE = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_ZIP = b"PK\x03\x04"
_NUMPY = b"\x93NUMPY"


def save(
    state: Mapping[Any, Any],
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a dict of Tensors, or of all that is needed to resume a training run, into one file.

    state: a dict from names to Tensors, such as `nn.Module.state_dict` returns, makes a plain
        safetensors file with these names, which other programs can read. The values of any other
        dict can be Tensors, str, int, float, bool, None, and lists, tuples and dicts of these;
        keys are str or int. So the states of a model, an optimizer and a random generator, and
        counters, can be in one file::

            gpugrad.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                          "random": gpugrad.random.default_generator().get_state(),
                          "epoch": 3}, "run.safetensors")

        The docstring of `gpugrad.io` describes the format.
    metadata: text by name, for `load_metadata`.

    `load` returns an equal dict: every float and every element has the same bits, lists are lists
    and tuples are tuples. Mappings of any type become dicts. Parameters and other Tensors become
    Tensors without a graph, each with memory of its own, even if they were one object or shared
    memory. Devices are not stored.

    An existing file is replaced only once the new one is complete on the disk, so that it
    survives errors and interruptions. The new file gets its permissions; a symbolic link stays, and
    the file that it points to is replaced. If several programs save to one path, the last to
    finish wins. A save that is killed may leave a file named ``.gpugrad-*.tmp`` in the same
    directory, which can be deleted.

    Raises TypeError for values that cannot be saved, and names their place, as in
    ``state['optimizer']['note'] is a set``; ValueError for an int of more than 10,000 bits, for a
    state that is nested more than 100 levels deep or contains itself, and for more than 100 MB of
    names and values other than tensors; OSError if the file cannot be written. The file is then
    unchanged.
    """
    library = safetensors_for("save")
    arrays, entries = _arrays_and_metadata(state, {} if metadata is None else metadata)
    try:
        data = library.numpy.save(arrays, metadata=entries or None)
    except UnicodeEncodeError as error:
        raise ValueError(f"save: {error.object!r} cannot be a name or metadata: {error}") from None
    except library.SafetensorError as error:
        raise ValueError(
            f"save: {error}; names and values other than tensors can take 100 MB, so make long "
            f"lists of numbers tensors"
        ) from None
    _replace_file(path, data)


@explains_arguments
def load(path: str | os.PathLike[str], device: str | None = None) -> dict[Any, Any]:
    """The dict in a file of `save`, or the tensors by name in any other safetensors file.

    device: the device of all tensors, by default the CPU.

    The file is data: nothing in it is executed. Raises FileNotFoundError if there is no such file;
    ValueError if the file is truncated or malformed, is of another kind, such as one of
    ``torch.save``, or has a dtype that gpugrad lacks; ImportError if it has bfloat16 and
    ``ml_dtypes`` is not installed. An unknown device is a ValueError, a missing one a RuntimeError.
    """
    try:
        backend_for_device(device)
    except (RuntimeError, ValueError) as error:
        raise type(error)(f"load: {error}") from error
    tensors = {}
    with _opened("load", path) as file:
        tree = (file.metadata() or {}).get(_ENTRY)
        for name in file.keys():  # noqa: SIM118  it is no mapping
            dtype = file.get_slice(name).get_dtype()
            if dtype not in _DTYPES.values():
                raise ValueError(
                    f"load: {name} in {path} is {dtype}, a dtype that gpugrad lacks; "
                    f"convert it to F32 where it was saved"
                )
            if dtype == "BF16":
                bfloat16()  # raises ImportError if the library cannot make such arrays
            tensors[name] = tensor(file.get_tensor(name), device=device)
    return tensors if tree is None else _read_tree(tree, tensors, path)


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """The ``metadata`` given to `save`, or another program's; raises the same errors as `load`."""
    with _opened("load_metadata", path) as file:
        metadata = file.metadata() or {}
    metadata.pop(_ENTRY, None)
    return metadata


def safetensors_for(name):
    """The safetensors library; if it is not installed, an ImportError that ``name`` begins."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(
            f"{name}: needs the safetensors library; pip install safetensors"
        ) from error
    return safetensors


def _arrays_and_metadata(state, metadata):
    """What the file of a state contains: arrays by name, and text by name."""
    # Asked for an attribute, a dict may look for a key, and raise KeyError.
    hint = "" if isinstance(state, Mapping) else _hint(state)
    if isinstance(state, str | os.PathLike):
        hint = "; the path comes second, as in save(state, path)"
    check_type(state, Mapping, "save: state must be a dict", hint)
    check_type(metadata, Mapping, "save: metadata must be a dict")
    for name, text in metadata.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise TypeError(f"save: metadata is text by name, not {name!r}: {text!r}")
    if _ENTRY in metadata:
        raise ValueError(f"save: metadata must not have {_ENTRY!r}, which describes the state")
    if all(isinstance(name, str) and isinstance(x, Tensor) for name, x in state.items()):
        if "__metadata__" in state:
            raise TypeError("save: '__metadata__' cannot be the name of a tensor")
        arrays = {name: _host_array(f"state[{name!r}]", x) for name, x in state.items()}
        return arrays, dict(metadata)
    arrays = {}
    tree = {"version": _VERSION, "state": _encode(state, "state", "", arrays)}
    return arrays, {**metadata, _ENTRY: json.dumps(tree, allow_nan=False, separators=(",", ":"))}


def _encode(value, where, name, arrays, levels=0):
    """Put the tensors of a tree into ``arrays``, and return the rest of it as JSON.

    where, name: the path of ``value`` as in Python, and as in the names of tensors.
    """
    if levels > _MOST_LEVELS:
        raise ValueError(
            f"save: {where[:80]}... is nested more than {_MOST_LEVELS} levels deep, or in itself"
        )
    if isinstance(value, Tensor):
        while name in arrays or name == "__metadata__":
            name += "_"
        arrays[name] = _host_array(where, value)
        return {"tensor": name}
    if isinstance(value, Mapping):
        for key in value:
            if type(key) not in (str, int):
                raise TypeError(f"save: {where} has the key {key!r}; keys must be str or int")
        members = value.items()
    elif type(value) in (list, tuple):
        members = enumerate(value)
    else:
        return _encode_leaf(value, where)
    prefix = f"{name}." if name else ""
    members = [
        [key, _encode(x, f"{where}[{key!r}]", f"{prefix}{key}", arrays, levels + 1)]
        for key, x in members
    ]
    if isinstance(value, Mapping):
        return {"dict": members}
    values = [x for _, x in members]
    return values if type(value) is list else {"tuple": values}


def _encode_leaf(value, where):
    if type(value) is float and not math.isfinite(value):
        return {"float": struct.pack(">d", value).hex()}
    if type(value) is int and value.bit_length() > 10_000:  # Python reads 4,300 digits at most
        raise ValueError(f"save: {where} is an int of more than 10,000 bits")
    if value is None or type(value) in (str, int, float, bool):
        return value
    raise TypeError(f"save: {where} is a {type(value).__name__}{_hint(value)}")


def _hint(value):
    """What to do about a value that cannot be saved."""
    for method in "state_dict", "get_state":
        if hasattr(value, method):
            return f"; save the result of its {method}()"
    if isinstance(value, Tensor):
        return '; give it a name, as in {"x": x}'
    if hasattr(value, "dtype"):
        return "; save gpugrad.asarray(value), or value.item() if it is a number"
    kinds = "Tensors, str, int, float, bool, None, and lists, tuples and dicts of these"
    return f"; a dict of {kinds} can be saved"


def _read_tree(text, tensors, path):
    """The tree that ``text`` describes; moves the file's tensors from ``tensors`` into it."""
    try:
        tree = json.loads(text)
        version = tree["version"]
        state = _decode(tree["state"], tensors) if version == _VERSION else {}
        if not isinstance(state, dict):
            raise ValueError("it is not a dict")
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError, struct.error) as error:
        raise ValueError(
            f"load: {os.fspath(path)} has a malformed description of its state, the entry "
            f"{_ENTRY!r} of its metadata ({type(error).__name__}: {error})"
        ) from None
    if version != _VERSION:
        raise ValueError(
            f"load: {os.fspath(path)} has version {version!r} of the entry {_ENTRY!r}, and this "
            f"gpugrad reads version {_VERSION}; update it"
        )
    if tensors:
        raise ValueError(f"load: {min(tensors)} in {os.fspath(path)} is not part of its state")
    return state


def _decode(node, tensors):
    if isinstance(node, list):
        return [_decode(x, tensors) for x in node]
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind == "tensor":
        return tensors.pop(content)
    if kind == "float":
        return struct.unpack(">d", bytes.fromhex(content))[0]
    if kind not in ("dict", "tuple") or not isinstance(content, list):
        raise ValueError(f"{kind!r} is unknown, or without a list")
    if kind == "tuple":
        return tuple(_decode(content, tensors))
    result: dict[Any, Any] = {}
    for key, x in content:
        if type(key) not in (str, int) or key in result:
            raise ValueError(f"the key {key!r} is neither a str nor an int, or occurs twice")
        result[key] = _decode(x, tensors)
    return result


def _host_array(where, x):
    host = backend_of[type(x.array)].to_numpy(x.array)
    if host.dtype.name not in _DTYPES:
        raise TypeError(
            f"save: {where} is {host.dtype}, which the format lacks; use astype, or for complex "
            f"numbers save real and imag"
        )
    # The library reads memory in order, whatever the strides.
    return host if host.flags.c_contiguous else host.copy()


@contextmanager
def _opened(name: str, path: Any) -> Iterator[Any]:
    library = safetensors_for(name)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{name}: there is no file {os.fspath(path)}")
    try:
        with library.safe_open(path, framework="np") as file:
            yield file
    except library.SafetensorError as error:
        with open(path, "rb") as file:
            start = file.read(512)
        if start.startswith(_TORCH_PICKLE) or (start.startswith(_ZIP) and b"/data.pkl" in start):
            raise ValueError(
                f"{name}: {os.fspath(path)} is a file of torch.save, not a safetensors file; "
                f"convert the state dict in it where PyTorch is installed: "
                f"safetensors.torch.save_file(torch.load('OLD', weights_only=True), 'NEW')"
            ) from None
        if start.startswith(_NUMPY) or (start.startswith(_ZIP) and b".npy" in start):
            raise ValueError(
                f"{name}: {os.fspath(path)} is a file of NumPy, not a safetensors file; write "
                f"gpugrad.asarray(array) for each array that numpy.load reads from it"
            ) from None
        raise ValueError(
            f"{name}: {os.fspath(path)} is truncated, or not a safetensors file ({error})"
        ) from None


def _replace_file(path, data):
    """Write ``data`` to a file at ``path``: either all of it, or nothing."""
    path = os.fsdecode(path)
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
    path = os.path.realpath(path)  # a link stays a link
    folder = os.path.dirname(path)
    if os.path.isdir(path):
        raise IsADirectoryError(f"save: {path} is a folder; give the name of a file in it")
    if mode is not None and not stat.S_ISREG(mode):  # a device must not be replaced
        raise OSError(f"save: {path} is not a regular file")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"save: there is no directory {folder}; create it")
    # The name does not contain the path's last part, which may be as long as names can be.
    temporary = os.path.join(folder, f".gpugrad-{os.urandom(8).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode & 0o777)
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
