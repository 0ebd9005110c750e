"""Tensors in safetensors files."""

import errno
import os
import stat
import sys

import numpy as np
import pytest

import gpugrad
from gpugrad import nn

pytest.importorskip("safetensors")


def values(x):
    return np.asarray(x.detach())


def test_saved_tensors_are_loaded(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "all.safetensors"
    tensors = {
        dtype: gpugrad.tensor((rng.normal(size=(2, 3)) * 10).astype(dtype))
        for dtype in (
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "complex64"),
        )
    }
    tensors["scalar"] = gpugrad.tensor(3.0)
    tensors["empty"] = gpugrad.zeros((0, 4))
    tensors["transposed"] = gpugrad.tensor(rng.normal(size=(4, 3))).T
    tensors["strided"] = gpugrad.asarray(np.arange(10.0)[::3])
    tensors["leaf"] = gpugrad.ones(2, requires_grad=True)
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


def test_metadata_is_empty_if_there_is_none(tmp_path):
    gpugrad.save({"a": gpugrad.ones(1)}, tmp_path / "a")
    assert gpugrad.io.load_metadata(tmp_path / "a") == {}


def test_arrays_of_any_library_are_saved(library, tmp_path):
    gpugrad.save({"a": library.tensor(np.arange(6.0).reshape(2, 3))}, tmp_path / "a")
    assert gpugrad.load(tmp_path / "a")["a"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_loaded_weights_are_a_model_that_trains(tmp_path):
    model = nn.MLP(3, [4, 2])
    gpugrad.save(model.state_dict(), tmp_path / "model")
    twin = nn.MLP(3, [4, 2])
    twin.load_state_dict(gpugrad.load(tmp_path / "model", device="cpu"))
    x = gpugrad.ones((2, 3))
    assert twin(x).tolist() == model(x).tolist()
    twin(x).sum().backward()
    gpugrad.optim.SGD(twin.parameters()).step()


def test_weights_saved_by_pytorch_load_by_name_and_give_its_outputs(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    theirs = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4), torch.nn.Sigmoid()
    )
    save_file(theirs.state_dict(), tmp_path / "theirs")
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    for ours in (
        nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4), nn.Sigmoid()),
        nn.Sequential(*nn.MLP(8, [16, 4], nn.Tanh), nn.Sigmoid()),
    ):
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
    with pytest.raises(ValueError, match=r"load: w in .* is F8_E5M2, which arrays here have not"):
        gpugrad.load(tmp_path / "w")


# Damaged and missing files


def test_damaged_files_are_short_errors(tmp_path):
    path = tmp_path / "file"
    gpugrad.save({"a": gpugrad.ones((10, 10))}, path)
    whole = path.read_bytes()
    for content in (b"", whole[:5], whole[:40], whole[:-1], whole + b"x", b"PK\x03\x04" * 50):
        path.write_bytes(content)
        for read in gpugrad.load, gpugrad.io.load_metadata:
            with pytest.raises(
                ValueError, match="is truncated, or not a safetensors file"
            ) as error:
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


def test_tensors_that_the_format_cannot_hold_are_rejected_and_the_old_file_stays(tmp_path):
    path = tmp_path / "file"
    gpugrad.save({"a": gpugrad.ones(2)}, path)
    before = path.read_bytes()
    one = gpugrad.ones(1)
    for tensors, metadata, message in (
        ({"a": one.astype(gpugrad.complex128)}, None, "save: a is complex128, which the format"),
        ([one], None, "save: tensors must be a dict of tensors by name, not a list"),
        ({"a": one}, ["x"], "save: metadata must be a dict of text by name, not a list"),
        ({"a": [1.0]}, None, "save: a must be a Tensor, not list"),
        ({1: one}, None, "save: 1 cannot be the name of a tensor"),
        ({"__metadata__": one}, None, "save: '__metadata__' cannot be the name"),
        ({"a": one}, {"epoch": 3}, "save: metadata is text by name, not 'epoch': 3"),
    ):
        with pytest.raises(TypeError, match=message):
            gpugrad.save(tensors, path, metadata=metadata)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["file"]


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


def test_a_folder_is_not_replaced(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"save: .* is a folder; give the name of a file"):
        gpugrad.save({"a": gpugrad.ones(2)}, tmp_path)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="these are POSIX permissions")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    def saved(path):
        gpugrad.save({"a": gpugrad.ones(2)}, path)
        return stat.S_IMODE(path.stat().st_mode)

    path = tmp_path / "file"
    old = os.umask(0o027)
    try:
        assert saved(path) == 0o640
        for mode in 0o600, 0o666, 0o444:
            path.chmod(mode)
            assert saved(path) == mode
    finally:
        os.umask(old)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "file")
    gpugrad.save({"a": gpugrad.ones(1)}, link)
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").is_file()


def test_without_the_library_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (
        lambda: gpugrad.save({}, tmp_path / "file"),
        lambda: gpugrad.load(tmp_path / "file"),
    ):
        with pytest.raises(ImportError, match="pip install safetensors"):
            call()


def test_save_leaves_other_kinds_of_files_alone(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        gpugrad.save({"x": gpugrad.ones(1)}, pipe)
    assert pipe.is_fifo()
