"""Tensors and other values in safetensors files."""

import errno
import json
import math
import os
import stat
import struct
import subprocess
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import gpugrad
from gpugrad import nn

pytest.importorskip("safetensors")
import safetensors.numpy

posix = pytest.mark.skipif(os.name != "posix", reason="files are not so on Windows")


def values(x):
    return np.asarray(x.detach())


def test_saved_tensors_are_loaded(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "all.safetensors"
    dtypes = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64"
    )
    tensors = {
        **{x: gpugrad.tensor(10 * rng.normal(size=(2, 3))).to(x) for x in dtypes.split()},
        "scalar": gpugrad.tensor(3.0),
        "empty": gpugrad.zeros((0, 4)),
        "transposed": gpugrad.tensor(rng.normal(size=(4, 3))).T,
        "strided": gpugrad.asarray(np.arange(10.0)[::3]),
        "leaf": gpugrad.ones(2, requires_grad=True),
    }
    gpugrad.save(tensors, path, metadata={"epoch": "3", "note": "käse"})
    loaded = gpugrad.load(path)
    assert loaded.keys() == tensors.keys()
    for name, x in loaded.items():
        assert x.dtype == tensors[name].dtype
        assert not x.requires_grad
        np.testing.assert_array_equal(values(x), values(tensors[name]))
        assert x.array.flags.writeable
    assert gpugrad.io.load_metadata(path) == {"epoch": "3", "note": "käse"}
    assert os.listdir(tmp_path) == ["all.safetensors"]
    gpugrad.save(tensors, path)
    assert gpugrad.io.load_metadata(path) == {}


def test_arrays_of_any_library_are_saved(library, tmp_path):
    gpugrad.save({"a": library.tensor(np.arange(6.0).reshape(2, 3))}, tmp_path / "a")
    assert gpugrad.load(tmp_path / "a")["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_weights_saved_by_pytorch_load_by_name_and_give_its_outputs(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    theirs, same = (
        m.Sequential(m.Linear(8, 16), m.Tanh(), m.Linear(16, 4), m.Sigmoid())
        for m in (torch.nn, nn)
    )
    save_file(theirs.state_dict(), tmp_path / "theirs")
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    for ours in same, nn.Sequential(*nn.MLP(8, [16, 4], nn.Tanh), nn.Sigmoid()):
        ours.load_state_dict(gpugrad.load(tmp_path / "theirs"))
        np.testing.assert_allclose(values(ours(gpugrad.asarray(x))), expected, rtol=1e-5)

    gpugrad.save(ours.state_dict(), tmp_path / "ours")
    theirs.load_state_dict(load_file(tmp_path / "ours"))
    np.testing.assert_allclose(theirs(torch.from_numpy(x)).detach(), expected)


def test_bfloat16_of_pytorch(tmp_path, bfloat16):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    given = {"v": torch.arange(3.0), "w": torch.tensor([[1.5, -2], [3e38, 0]]).bfloat16()}
    save_file(given, tmp_path / "w")
    loaded = gpugrad.load(tmp_path / "w")
    assert [str(x.dtype) for x in loaded.values()] == ["float32", "bfloat16"]
    gpugrad.save(loaded, tmp_path / "back")
    back = load_file(tmp_path / "back")
    for name, x in given.items():
        assert back[name].dtype == x.dtype
        assert torch.equal(back[name], x)


def test_a_dtype_that_arrays_do_not_have(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    save_file({"w": torch.ones(2, dtype=torch.float8_e5m2)}, tmp_path / "w")
    with pytest.raises(ValueError, match=r"load: w in .* is F8_E5M2, a dtype that gpugrad lacks"):
        gpugrad.load(tmp_path / "w")


# Dicts of other values besides tensors


def assert_same(a, b):
    """The same types, keys in the same order, and bits, at every level."""
    assert type(a) is type(b)
    if isinstance(a, gpugrad.Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert values(a).tobytes() == values(b).tobytes()
    elif isinstance(a, dict):
        assert_same([*a.items()], [*b.items()])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, float):
        assert struct.pack("d", a) == struct.pack("d", b)
    else:
        assert a == b


def assert_loads(tmp_path, state, expected=None):
    """Save the state; return what is loaded, which must be the state, or what is expected."""
    gpugrad.save(state, tmp_path / "file")
    loaded = gpugrad.load(tmp_path / "file")
    assert_same(loaded, state if expected is None else expected)
    return loaded


NEGATIVE_NAN = struct.unpack(">d", bytes.fromhex("fff800000000beef"))[0]
LEAVES = {
    "none": None,
    "bools": [True, False],
    "ints": (0, -1, 1 << 200, -(1 << 9_999)),
    "floats": [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, NEGATIVE_NAN],
    "texts": ["", "käse 🧀", "\ud800", '\0\n"\\', "NaN"],
    "empty": {"dict": {}, "list": [], "tuple": ()},
    "mixed keys": {0: "int", "0": "text", -5: {1: (2, [3, (4,)])}},
    "markers": {"tensor": "x", "tuple": [1], "dict": [["a", 1]], "float": "7ff0000000000000"},
    "": {"": {"": 1.0}},
    3: "at the top",
}


@pytest.mark.parametrize("key", LEAVES)
def test_what_is_no_tensor_is_loaded_to_the_bit(tmp_path, key):
    assert_loads(tmp_path, {key: LEAVES[key], "x": gpugrad.ones(1)})


def test_tensors_anywhere_are_loaded_to_the_bit(tmp_path, bfloat16):
    bits = np.array([0x7F800001, 0xFFC12345, 0x80000000, 1], np.uint32).view(np.float32)
    tied = gpugrad.arange(3.0)
    state = {
        "top": gpugrad.asarray(bits),
        "optimizer": {"state": {0: {"step": gpugrad.tensor(7.0)}, "0": {"step": gpugrad.ones(0)}}},
        "list": [gpugrad.zeros((0, 3)), (gpugrad.tensor([1.5, -0.0], dtype=bfloat16), 1)],
        "tied": {"a": tied, "b": tied, "view": tied[1:], "reversed": tied[::-1]},
    }
    loaded = assert_loads(tmp_path, state)
    loaded["tied"]["a"].array[...] = 5
    assert loaded["tied"]["b"].tolist() == [0, 1, 2]


def test_parameters_and_mappings_of_any_type_become_tensors_and_dicts(tmp_path):
    parameter = nn.Parameter(gpugrad.ones(2))
    state = OrderedDict(a=OrderedDict(b=parameter), c=1)
    loaded = assert_loads(tmp_path, state, {"a": {"b": gpugrad.ones(2)}, "c": 1})
    assert not loaded["a"]["b"].requires_grad


def test_a_dict_of_tensors_is_a_plain_file_for_other_programs(tmp_path):
    arrays = {"0.weight": np.ones((2, 3), np.float32), "a.b": np.arange(3), "": np.ones(())}
    gpugrad.save({name: gpugrad.asarray(x) for name, x in arrays.items()}, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == safetensors.numpy.save(arrays)
    gpugrad.save({}, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == safetensors.numpy.save({})
    assert gpugrad.load(tmp_path / "file") == {}


def test_other_programs_find_the_tensors_of_a_tree_by_their_paths(tmp_path):
    model = nn.MLP(2, [3, 1])
    state = {"model": model.state_dict(), "best": [gpugrad.ones(1), gpugrad.zeros(1)], "epoch": 3}
    gpugrad.save(state, tmp_path / "file", metadata={"note": "x"})
    arrays = safetensors.numpy.load_file(tmp_path / "file")
    weights = {f"model.{name}" for name in model.state_dict()}
    assert arrays.keys() == {*weights, "best.0", "best.1"}
    assert gpugrad.io.load_metadata(tmp_path / "file") == {"note": "x"}


def test_paths_that_would_have_the_same_name_do_not_collide(tmp_path):
    state = {
        "a.b": {"c": gpugrad.tensor(1)},
        "a": {"b.c": gpugrad.tensor(2), "b": {"c": gpugrad.tensor(3), "c_": gpugrad.tensor(4)}},
        "a.b.c_": gpugrad.tensor(5),
        "": {"a.b.c": gpugrad.tensor(6), 0: gpugrad.tensor(7), "0": gpugrad.tensor(8)},
        "list": [gpugrad.tensor(9)],
        "list.0": gpugrad.tensor(10),
        "__metadata__": gpugrad.tensor(11),
        0: gpugrad.tensor(12),
    }
    assert_loads(tmp_path, state)


@pytest.mark.parametrize("state, error, message", [
    ({"optimizer": {"x": {1}}}, TypeError, r"save: state\['optimizer'\]\['x'\] is a set; a di"),
    ({"a": 1j}, TypeError, r"save: state\['a'\] is a complex"),
    ({"a": np.float64(1)}, TypeError, r"state\['a'\] is a float64; .*, or value\.item\(\) if"),
    ({"a": np.ones(2)}, TypeError, r"state\['a'\] is a ndarray; save gpugrad\.asarray\(value"),
    ({"a": nn.ReLU()}, TypeError, r"state\['a'\] is a ReLU; save the result of its state_dict"),
    ({"a": gpugrad.random.Generator(0)}, TypeError,
     r"state\['a'\] is a Generator; save the result of its get_state\(\)"),
    ({"a": {None: 1}}, TypeError, r"state\['a'\] has the key None; keys must be str or int"),
    ({"a": {True: 1}}, TypeError, r"state\['a'\] has the key True; keys must be str or int"),
    ({(1, 2): gpugrad.ones(1)}, TypeError, r"save: state has the key \(1, 2\); keys must be"),
    ({"a": 1 << 10_001}, ValueError, r"save: state\['a'\] is an int of more than 10,000 bits"),
    ({"a": 1, "b": {"c": gpugrad.ones(1, dtype=gpugrad.complex128)}}, TypeError,
     r"save: state\['b'\]\['c'\] is complex128, which the format lacks"),
    ({"a": {"\ud800": gpugrad.ones(1)}}, ValueError, r"save: 'a\.\\ud800' cannot be a name"),
    (nn.ReLU(), TypeError, "save: state must be a dict, not a ReLU; save the result of its st"),
    (gpugrad.ones(1), TypeError, "save: state must be a dict, not a Tensor"),
    ([gpugrad.ones(1)], TypeError, "save: state must be a dict, not a list"),
    ({"__metadata__": gpugrad.ones(1)}, TypeError, "save: '__metadata__' cannot be the name"),
], ids=lambda value: str(value)[:40])  # fmt: skip
def test_what_cannot_be_saved_is_named_with_its_path(tmp_path, state, error, message):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(error, match=message):
        gpugrad.save(state, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_states_that_contain_themselves_or_are_too_deep_are_refused(tmp_path):
    circle = {}
    circle["a"] = [circle]
    deep = 0.5
    for _ in range(99):
        deep = [deep]
    assert_loads(tmp_path, {"a": deep})
    for state in circle, {"a": [[deep]]}:
        with pytest.raises(ValueError, match=r"save: state\['a'\]\[0\].* more than 100 levels"):
            gpugrad.save(state, tmp_path / "other")
    assert os.listdir(tmp_path) == ["file"]


def test_more_text_than_the_format_takes_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"save: .*100 MB, so make long lists of numbers tensors"):
        gpugrad.save({"a": "x" * 101_000_000}, tmp_path / "file")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text, message", [
    ("{", "malformed"), ("[" * 100_000, "malformed"), ("9" * 5000, "malformed"),
    ("[]", "malformed"), ("{}", "malformed"),
    ('{"version": 2, "state": {"dict": []}}', "has version 2 .* reads version 1; update it"),
    ('{"version": 1, "state": [1]}', "it is not a dict"),
    *[
        (json.dumps({"version": 1, "state": {"dict": [["a", a], ["t", {"tensor": "t"}]]}}), m)
        for a, m in [
            ({"tensor": "other"}, "KeyError: 'other'"),
            ({"tensor": "t"}, "KeyError: 't'"),
            ({"tensor": ["t"]}, "malformed"),
            ({"pickle": "gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"}, "'pickle' is unknown"),
            ({}, "malformed"),
            ({"tuple": [], "dict": []}, "malformed"),
            ({"tuple": "abc"}, "without a list"),
            ({"dict": {"ab": 1}}, "without a list"),
            ({"dict": [["a"]]}, "malformed"),
            ({"dict": [[["a"], 1]]}, r"the key \['a'\] is neither a str nor an int"),
            ({"dict": [[True, 1]]}, "the key True is neither a str nor an int"),
            ({"dict": [["a", 1], ["a", 2]]}, "the key 'a' .* occurs twice"),
            ({"float": "7ff"}, "malformed"),
            ({"float": 1.0}, "malformed"),
        ]
    ],
    ('{"version": 1, "state": {"dict": []}}', "load: t in .* is not part of its state"),
], ids=lambda text: text[:60])  # fmt: skip
def test_malformed_descriptions_of_a_state_are_errors(tmp_path, text, message):
    path = tmp_path / "file"
    data = safetensors.numpy.save({"t": np.ones(1)}, metadata={"gpugrad.state": text})
    path.write_bytes(data)
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
def test_metadata_is_text_by_name(tmp_path, metadata, error, message):
    with pytest.raises(error, match=f"save: {message}"):
        gpugrad.save({"a": 1}, tmp_path / "file", metadata=metadata)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_files_of_torch_save_are_recognized(tmp_path, zipped):
    torch = pytest.importorskip("torch")
    path = tmp_path / "model.pt"
    torch.save({"w": torch.ones(2)}, path, _use_new_zipfile_serialization=zipped)
    for read in gpugrad.load, gpugrad.io.load_metadata:
        with pytest.raises(ValueError, match=r"is a file of torch\.save, .* convert .*save_file\("):
            read(path)
    np.savez(tmp_path / "other.npz", w=np.ones(2))
    with pytest.raises(ValueError, match="is truncated, or not a safetensors file"):
        gpugrad.load(tmp_path / "other.npz")


# Files that are not as they should be


def test_damaged_files_are_short_errors(tmp_path):
    path = tmp_path / "file"
    gpugrad.save({"a": gpugrad.ones((10, 10))}, path)
    whole = path.read_bytes()
    for content in (b"", whole[:5], whole[:40], whole[:-1], whole + b"x", b"PK\x03\x04" * 50):
        path.write_bytes(content)
        for read in gpugrad.load, gpugrad.io.load_metadata:
            with pytest.raises(ValueError, match="is truncated, or not a safetensors") as error:
                read(path)
            assert str(path) in str(error.value)
            assert "\n" not in str(error.value)


def test_missing_files_are_named(tmp_path):
    for path in tmp_path / "none", tmp_path:
        with pytest.raises(FileNotFoundError, match="load: there is no file"):
            gpugrad.load(path)
    with pytest.raises(FileNotFoundError, match=r"save: there is no directory .*none; create it"):
        gpugrad.save({"a": gpugrad.ones(1)}, tmp_path / "none" / "file")


def test_a_device_that_is_not_there_is_an_error(tmp_path):
    gpugrad.save({"a": gpugrad.ones(1)}, tmp_path / "a")
    with pytest.raises(ValueError, match=r"^load: device 'tpu' is not known"):
        gpugrad.load(tmp_path / "a", device="tpu")


# Nothing is lost


@pytest.mark.parametrize("where", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch, where, error):
    path = tmp_path / "file"
    gpugrad.save({"a": gpugrad.ones(2)}, path)

    def fail(*args):
        raise error

    monkeypatch.setattr(os, where, fail)
    with pytest.raises(type(error)):
        gpugrad.save({"a": gpugrad.zeros(2)}, path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["file"]
    assert gpugrad.load(path)["a"].tolist() == [1.0, 1.0]
    gpugrad.save({"a": gpugrad.zeros(2)}, path)
    assert gpugrad.load(path)["a"].tolist() == [0.0, 0.0]


def test_an_error_of_the_disk_names_the_file_and_not_the_temporary_one(tmp_path, monkeypatch):
    path = tmp_path / "file"

    def fail(old, new):
        raise PermissionError(errno.EACCES, "no", old, None, new)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(PermissionError, match=r"/file'$") as error:
        gpugrad.save({"a": gpugrad.ones(2)}, path)
    assert ".tmp" not in str(error.value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a" * 243, "a" * 255, "ä" * 127])
def test_names_may_be_as_long_as_the_file_system_allows(tmp_path, name):
    for value in 1.0, 2.0:
        gpugrad.save({"a": gpugrad.tensor(value)}, tmp_path / name)
        assert gpugrad.load(tmp_path / name)["a"].item() == value
    assert os.listdir(tmp_path) == [name]


@posix
def test_a_name_that_is_too_long_is_an_error(tmp_path):
    with pytest.raises(OSError, match=r"too long.*aaa'$") as error:
        gpugrad.save({"a": gpugrad.ones(1)}, tmp_path / ("a" * 256))
    assert error.value.errno == errno.ENAMETOOLONG
    assert os.listdir(tmp_path) == []


def test_a_save_that_is_killed_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    gpugrad.save({"a": gpugrad.ones(2)}, path)
    program = (
        "import os, sys, gpugrad\n"
        "os.fsync = lambda *args: os.kill(os.getpid(), 9)\n"
        "gpugrad.save({'a': gpugrad.zeros(1000)}, sys.argv[1])"
    )
    root = str(Path(gpugrad.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=root)
    assert done.returncode in (-9, 9)  # the latter on Windows
    assert gpugrad.load(path)["a"].tolist() == [1.0, 1.0]


@posix
def test_saves_at_the_same_time_leave_one_whole_file(tmp_path):
    path = tmp_path / "file"
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
    assert os.listdir(tmp_path) == ["file"]


@posix
def test_folders_and_other_kinds_of_files_are_not_replaced(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"save: .* is a folder; give the name of a file"):
        gpugrad.save({"a": gpugrad.ones(2)}, tmp_path)
    assert os.listdir(tmp_path) == []
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        gpugrad.save({"x": gpugrad.ones(1)}, pipe)
    assert pipe.is_fifo()


@posix
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    path = tmp_path / "file"
    old = os.umask(0o027)
    try:
        for mode in None, 0o600, 0o666, 0o444:
            if mode:
                path.chmod(mode)
            gpugrad.save({"a": gpugrad.ones(2)}, path)
            assert stat.S_IMODE(path.stat().st_mode) == (mode or 0o640)
    finally:
        os.umask(old)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "file")
    for value in 1.0, 2.0:
        gpugrad.save({"a": gpugrad.tensor(value)}, link)
        assert link.is_symlink()
        assert gpugrad.load(tmp_path / "there" / "file")["a"].item() == value
    assert os.listdir(tmp_path / "there") == ["file"]


@posix
def test_a_link_to_itself_is_an_error_and_stays(tmp_path):
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(other)
    other.symlink_to(link)
    for path in link, link / "file":
        with pytest.raises(OSError, match="symbolic links") as error:
            gpugrad.save({"a": gpugrad.ones(1)}, path)
        assert error.value.errno == errno.ELOOP
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "other"]


def test_a_path_may_be_bytes(tmp_path):
    gpugrad.save({"a": gpugrad.ones(1)}, os.fsencode(tmp_path / "file"))
    assert os.listdir(tmp_path) == ["file"]


def test_without_the_library_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call, *args in (gpugrad.save, {}, tmp_path / "file"), (gpugrad.load, tmp_path / "file"):
        with pytest.raises(ImportError, match="pip install safetensors"):
            call(*args)
