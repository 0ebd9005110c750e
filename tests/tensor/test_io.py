"""Tensors and other values in safetensors files."""

import errno
import json
import math
import os
import stat
import struct
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from samples import values

import gpugrad
from gpugrad import nn

pytest.importorskip("safetensors")
import safetensors.numpy

posix = pytest.mark.skipif(os.name != "posix", reason="files are not so on Windows")


@pytest.fixture
def path(tmp_path):
    """The path of the only file in a folder of its own."""
    return tmp_path / "file"


def is_alone(path):
    """Whether the folder of a file has nothing else."""
    return os.listdir(path.parent) == [path.name]


def saved_and_loaded(path, *values):
    """Save one value after the other in a file and load it."""
    for value in values:
        gpugrad.save({"a": gpugrad.tensor(value)}, path)
        assert gpugrad.load(path)["a"].tolist() == value


def test_saved_tensors_are_loaded(path):
    rng = np.random.default_rng(0)
    dtypes = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    dtypes += "complex64"
    tensors = {
        **{x: gpugrad.tensor(10 * rng.normal(size=(2, 3))).to(x) for x in dtypes.split()},
        "scalar": gpugrad.tensor(3.0), "empty": gpugrad.zeros((0, 4)),
        "transposed": gpugrad.tensor(rng.normal(size=(4, 3))).T,
        "strided": gpugrad.asarray(np.arange(10.0)[::3]),
        "leaf": gpugrad.ones(2, requires_grad=True),
    }  # fmt: skip
    for metadata in {}, {"epoch": "3", "note": "käse"}:
        gpugrad.save(tensors, path, metadata=metadata)
        assert gpugrad.io.load_metadata(path) == metadata
    loaded = gpugrad.load(path)
    assert loaded.keys() == tensors.keys()
    assert all(bits_of(x) == bits_of(tensors[name]) for name, x in loaded.items())
    assert not any(x.requires_grad for x in loaded.values())
    assert all(x.array.flags.writeable for x in loaded.values())
    assert is_alone(path)


def test_arrays_of_any_library_are_saved(library, path):
    gpugrad.save({"a": library.tensor(np.arange(6.0).reshape(2, 3))}, path)
    assert gpugrad.load(path)["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_dtypes_of_pytorch(path, bfloat16):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    given = {"v": torch.arange(3.0), "w": torch.tensor([[1.5, -2], [3e38, 0]]).bfloat16()}
    save_file(given, path)
    loaded = gpugrad.load(path)
    assert [str(x.dtype) for x in loaded.values()] == ["float32", "bfloat16"]
    gpugrad.save(loaded, path)
    back = load_file(path)
    for name, x in given.items():
        assert back[name].dtype == x.dtype
        assert torch.equal(back[name], x)
    save_file({"w": torch.ones(2, dtype=torch.float8_e5m2)}, path)
    with pytest.raises(ValueError, match=r"load: w in .* is F8_E5M2, a dtype that gpugrad lacks"):
        gpugrad.load(path)


# Dicts of other values besides tensors


def bits_of(x):
    """A value with its types, keys in their order, and bits, at every level."""
    if isinstance(x, gpugrad.Tensor):
        return x.dtype, x.shape, values(x).tobytes()
    if isinstance(x, dict):
        return dict, [(key, bits_of(value)) for key, value in x.items()]
    if isinstance(x, (list, tuple)):
        return type(x), [*map(bits_of, x)]
    return type(x), struct.pack("d", x) if isinstance(x, float) else x


def assert_loads(path, state):
    """Save the state; return what is loaded, which must be the state."""
    gpugrad.save(state, path)
    loaded = gpugrad.load(path)
    assert bits_of(loaded) == bits_of(state)
    return loaded


NEGATIVE_NAN = struct.unpack(">d", bytes.fromhex("fff800000000beef"))[0]
LEAVES = {
    "none": None, "bools": [True, False], "ints": (0, -1, 1 << 200, -(1 << 9_999)),
    "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, NEGATIVE_NAN],
    "texts": ["", "käse 🧀", "\ud800", '\0\n"\\', "NaN"],
    "empty": {"dict": {}, "list": [], "tuple": ()},
    "mixed keys": {0: "int", "0": "text", -5: {1: (2, [3, (4,)])}},
    "markers": {"tensor": "x", "tuple": [1], "dict": [["a", 1]], "float": "7ff0000000000000"},
    "": {"": {"": 1.0}}, 3: "at the top",
}  # fmt: skip


@pytest.mark.parametrize("key", LEAVES)
def test_what_is_no_tensor_is_loaded_to_the_bit(path, key):
    assert_loads(path, {key: LEAVES[key], "x": gpugrad.ones(1)})


def test_tensors_anywhere_are_loaded_to_the_bit(path, bfloat16):
    bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32).view(np.float32)
    tied = gpugrad.arange(3.0)
    state = {
        "top": gpugrad.asarray(bits),
        "optimizer": {"state": {0: {"step": gpugrad.tensor(7.0)}, "0": {"step": gpugrad.ones(0)}}},
        "list": [gpugrad.zeros((0, 3)), (gpugrad.tensor([1.5, -0.0], dtype=bfloat16), 1)],
        "tied": {"a": tied, "b": tied, "view": tied[1:], "reversed": tied[::-1]},
    }
    loaded = assert_loads(path, state)
    loaded["tied"]["a"].array[...] = 5
    assert loaded["tied"]["b"].tolist() == [0, 1, 2]


def test_parameters_and_mappings_of_any_type_become_tensors_and_dicts(path):
    loaded = assert_loads(path, OrderedDict(a=OrderedDict(b=nn.Parameter(gpugrad.ones(2))), c=1))
    assert (type(loaded), type(loaded["a"])) == (dict, dict)
    assert type(loaded["a"]["b"]) is gpugrad.Tensor
    assert not loaded["a"]["b"].requires_grad
    assert_loads(path, type("", (dict,), {"__getattr__": dict.__getitem__})(a=1))


def test_a_dict_of_tensors_is_a_plain_file_for_other_programs(path):
    arrays = {"0.weight": np.ones((2, 3), np.float32), "a.b": np.arange(3), "": np.ones(())}
    for given in arrays, {}:
        gpugrad.save({name: gpugrad.asarray(x) for name, x in given.items()}, path)
        assert path.read_bytes() == safetensors.numpy.save(given)
    assert gpugrad.load(path) == {}


def test_other_programs_find_the_tensors_of_a_tree_by_their_paths(path):
    model = nn.MLP(2, [3, 1]).state_dict()
    state = {"model": model, "best": [gpugrad.ones(1), gpugrad.zeros(1)], "epoch": 3}
    gpugrad.save(state, path, metadata={"note": "x"})
    arrays = safetensors.numpy.load_file(path)
    assert arrays.keys() == {*(f"model.{name}" for name in model), "best.0", "best.1"}
    assert gpugrad.io.load_metadata(path) == {"note": "x"}


def test_paths_that_would_have_the_same_name_do_not_collide(path):
    x = [*map(gpugrad.tensor, range(13))]
    assert_loads(path, {
        "a.b": {"c": x[1]}, "a": {"b.c": x[2], "b": {"c": x[3], "c_": x[4]}}, "a.b.c_": x[5],
        "": {"a.b.c": x[6], 0: x[7], "0": x[8]}, "list": [x[9]], "list.0": x[10],
        "__metadata__": x[11], 0: x[12],
    })  # fmt: skip


@pytest.mark.parametrize("state, error, message", [
    ({"optimizer": {"x": {1}}}, TypeError, r"state\['optimizer'\]\['x'\] is a set; a di"),
    ({"a": 1j}, TypeError, r"state\['a'\] is a complex"),
    ({"a": np.float64(1)}, TypeError, r"state\['a'\] is a float64; .*, or value\.item\(\) if"),
    ({"a": np.ones(2)}, TypeError, r"state\['a'\] is a ndarray; save gpugrad\.asarray\(value"),
    ({"a": nn.ReLU()}, TypeError, r"state\['a'\] is a ReLU; save the result of its state_dict"),
    ({"a": gpugrad.random.Generator(0)}, TypeError,
     r"state\['a'\] is a Generator; save the result of its get_state\(\)"),
    ({"a": {None: 1}}, TypeError, r"state\['a'\] has the key None; keys must be str or int"),
    ({"a": {True: 1}}, TypeError, r"state\['a'\] has the key True; keys must be str or int"),
    ({(1, 2): gpugrad.ones(1)}, TypeError, r"state has the key \(1, 2\); keys must be"),
    ({"a": 1 << 10_001}, ValueError, r"state\['a'\] is an int of more than 10,000 bits"),
    ({"a": 1, "b": {"c": gpugrad.ones(1, dtype=gpugrad.complex128)}}, TypeError,
     r"state\['b'\]\['c'\] is complex128, which the format lacks"),
    ({"a": {"\ud800": gpugrad.ones(1)}}, ValueError, r"'a\.\\ud800' cannot be a name"),
    (nn.ReLU(), TypeError, "state must be a dict, not a ReLU; save the result of its st"),
    ([gpugrad.ones(1)], TypeError, "state must be a dict, not a list"),
    ({"__metadata__": gpugrad.ones(1)}, TypeError, "'__metadata__' cannot be the name"),
], ids=lambda value: str(value)[:40])  # fmt: skip
def test_what_cannot_be_saved_is_named_with_its_path(path, state, error, message):
    path.write_bytes(b"old")
    with pytest.raises(error, match=f"save: {message}"):
        gpugrad.save(state, path)
    assert path.read_bytes() == b"old"
    assert is_alone(path)


def test_states_that_contain_themselves_or_are_too_deep_are_refused(path):
    circle = {}
    circle["a"] = [circle]
    deep = 0.5
    for _ in range(99):
        deep = [deep]
    assert_loads(path, {"a": deep})
    for state in circle, {"a": [[deep]]}:
        with pytest.raises(ValueError, match=r"save: state\['a'\]\[0\].* more than 100 levels"):
            gpugrad.save(state, path)
    assert is_alone(path)


def test_more_text_than_the_format_takes_is_refused(path):
    with pytest.raises(ValueError, match=r"save: .*100 MB, so make long lists of numbers tensors"):
        gpugrad.save({"a": '"' * 26_000_000}, path)  # each takes four characters in the file
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("text, message", [
    ("{", "malformed"), ("[" * 100_000, "malformed"), ("9" * 5000, "malformed"),
    ("[]", "malformed"), ("{}", "malformed"),
    ('{"version": 2, "state": {"dict": []}}', "has version 2 .* reads version 1; update it"),
    ('{"version": 1, "state": [1]}', "it is not a dict"),
    *(
        (json.dumps({"version": 1, "state": {"dict": [["a", a], ["t", {"tensor": "t"}]]}}), m)
        for a, m in [
            ({"tensor": "other"}, "KeyError: 'other'"), ({"tensor": "t"}, "KeyError: 't'"),
            ({"tensor": ["t"]}, "malformed"),
            ({"pickle": "gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"}, "'pickle' is unknown"),
            ({}, "malformed"), ({"tuple": [], "dict": []}, "malformed"),
            ({"tuple": "abc"}, "without a list"), ({"dict": {"ab": 1}}, "without a list"),
            ({"dict": [["a"]]}, "malformed"),
            ({"dict": [[["a"], 1]]}, r"the key \['a'\] is neither a str nor an int"),
            ({"dict": [[True, 1]]}, "the key True is neither a str nor an int"),
            ({"dict": [["a", 1], ["a", 2]]}, "the key 'a' .* occurs twice"),
            ({"float": "7ff"}, "malformed"), ({"float": 1.0}, "malformed"),
        ]
    ),
    ('{"version": 1, "state": {"dict": []}}', "load: t in .* is not part of its state"),
], ids=lambda text: text[:60])  # fmt: skip
def test_malformed_descriptions_of_a_state_are_errors(path, text, message):
    path.write_bytes(safetensors.numpy.save({"t": np.ones(1)}, metadata={"gpugrad.state": text}))
    with pytest.raises(ValueError, match=message) as error:
        gpugrad.load(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("metadata, error, message", [
    ({"gpugrad.state": "{}"}, ValueError, r"metadata must not have 'gpugrad\.state'"),
    ({"a": "\udcff"}, ValueError, r"'\\udcff' cannot be a name or metadata"),
    ({"epoch": 3}, TypeError, "metadata is text by name, not 'epoch': 3"),
    (["x"], TypeError, "metadata must be a dict, not a list"),
    ([], TypeError, "metadata must be a dict, not a list"),
], ids=str)  # fmt: skip
def test_metadata_is_text_by_name(path, metadata, error, message):
    with pytest.raises(error, match=f"save: {message}"):
        gpugrad.save({"a": 1}, path, metadata=metadata)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_files_of_torch_save_are_recognized(path, zipped):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(2)}, path, _use_new_zipfile_serialization=zipped)
    for read in gpugrad.load, gpugrad.io.load_metadata:
        with pytest.raises(ValueError, match=r"is a file of torch\.save, .* convert .*save_file\("):
            read(path)


@pytest.mark.parametrize("write", [np.save, np.savez])
def test_files_of_numpy_are_recognized(path, write):
    with open(path, "wb") as file:
        write(file, np.ones(2))
    for read in gpugrad.load, gpugrad.io.load_metadata:
        with pytest.raises(ValueError, match=r"is a file of NumPy, .* that numpy\.load reads"):
            read(path)


# Files that are not as they should be


def test_damaged_files_are_short_errors(path):
    gpugrad.save({"a": gpugrad.ones((10, 10))}, path)
    whole = path.read_bytes()
    for content in (b"", whole[:5], whole[:40], whole[:-1], whole + b"x", b"PK\x03\x04" + whole):
        path.write_bytes(content)
        for read in gpugrad.load, gpugrad.io.load_metadata:
            with pytest.raises(ValueError, match="is truncated, or not a safetensors") as error:
                read(path)
            assert str(path) in str(error.value)
            assert "\n" not in str(error.value)


def test_places_that_are_not_there_are_named(path):
    for place in path, path.parent:
        with pytest.raises(FileNotFoundError, match="load: there is no file"):
            gpugrad.load(place)
    with pytest.raises(FileNotFoundError, match=r"save: there is no directory .*file; create it"):
        gpugrad.save({"a": gpugrad.ones(1)}, path / "file")
    with pytest.raises(ValueError, match=r"^load: device 'tpu' is not known"):
        gpugrad.load(path, device="tpu")


# Nothing is lost


@pytest.mark.parametrize("where", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file_and_no_other(path, monkeypatch, where, error):
    saved_and_loaded(path, 1.0)

    def fail(*args):
        assert gpugrad.load(path)["a"].item() == 1  # also if the process is killed now
        raise error

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(type(error)):
        gpugrad.save({"a": gpugrad.zeros(2)}, path)
    monkeypatch.undo()
    assert is_alone(path)
    assert gpugrad.load(path)["a"].item() == 1
    saved_and_loaded(path, 0.0)


def test_an_error_of_the_disk_names_the_file_and_not_the_temporary_one(path, monkeypatch):
    def fail(old, new):
        raise PermissionError(errno.EACCES, "no", old, None, new)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(PermissionError, match=r"/file'$") as error:
        gpugrad.save({"a": gpugrad.ones(2)}, path)
    assert ".tmp" not in str(error.value)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("name", ["a" * 243, "a" * 255, "ä" * 127])
def test_names_may_be_as_long_as_the_file_system_allows(tmp_path, name):
    saved_and_loaded(tmp_path / name, 1.0, 2.0)
    assert is_alone(tmp_path / name)


@posix
def test_saves_at_the_same_time_leave_one_whole_file(path):
    gpugrad.save({"a": gpugrad.zeros(2000)}, path)
    enough = threading.Event()

    def save(value):
        while not enough.is_set():
            gpugrad.save({"a": gpugrad.full(2000, float(value))}, path)

    with ThreadPoolExecutor(4) as pool:
        saves = pool.map(save, range(4))
        try:
            seen = [gpugrad.load(path)["a"] for _ in range(100)]
        finally:
            enough.set()
    assert [*saves] == [None] * 4
    assert all(len({*x.tolist()}) == 1 for x in seen)
    assert is_alone(path)


@posix
def test_folders_and_other_kinds_of_files_are_not_replaced(path):
    with pytest.raises(IsADirectoryError, match=r"save: .* is a folder; give the name of a file"):
        gpugrad.save({"a": gpugrad.ones(2)}, path.parent)
    assert os.listdir(path.parent) == []
    os.mkfifo(path)
    with pytest.raises(OSError, match="not a regular file"):
        gpugrad.save({"x": gpugrad.ones(1)}, path)
    assert path.is_fifo()


@posix
def test_a_file_that_is_replaced_keeps_its_permissions(path):
    old = os.umask(0o027)
    try:
        for mode in None, 0o600, 0o666, 0o444:
            if mode:
                path.chmod(mode)
            gpugrad.save({"a": gpugrad.ones(2)}, path)
            assert stat.S_IMODE(path.stat().st_mode) == (mode or 0o640)
    finally:
        os.umask(old)


def test_a_link_stays_a_link(tmp_path, path):
    (tmp_path / "there").mkdir()
    path.symlink_to(tmp_path / "there" / "file")
    saved_and_loaded(path, 1.0, 2.0)
    assert path.is_symlink()
    assert gpugrad.load(tmp_path / "there" / "file")["a"].item() == 2
    assert is_alone(tmp_path / "there" / "file")


@posix
def test_names_that_the_system_refuses(tmp_path, path):
    other = tmp_path / "other"
    path.symlink_to(other)
    other.symlink_to(path)
    for name, number, message in (
        (path, errno.ELOOP, "symbolic links"), (path / "file", errno.ELOOP, "symbolic links"),
        (tmp_path / ("a" * 256), errno.ENAMETOOLONG, r"too long.*aaa'$"),
    ):  # fmt: skip
        with pytest.raises(OSError, match=message) as error:
            gpugrad.save({"a": gpugrad.ones(1)}, name)
        assert error.value.errno == number
    assert path.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_a_path_may_be_bytes(path):
    gpugrad.save({"a": gpugrad.ones(1)}, os.fsencode(path))
    assert is_alone(path)


def test_without_the_library_the_error_says_what_to_install(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call, *args in (gpugrad.save, {}, path), (gpugrad.load, path):
        with pytest.raises(ImportError, match="pip install safetensors"):
            call(*args)
