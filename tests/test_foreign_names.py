"""Errors for names of PyTorch and NumPy: each says what to write instead."""

import importlib
import re
import warnings

import pytest

import gpugrad as gg
from gpugrad import nn, random
from gpugrad._foreign_names import INSTEAD

MODULES = [owner for owner in INSTEAD if owner.startswith("gpugrad")]


@pytest.mark.parametrize("space", MODULES)
def test_names_of_other_libraries_are_answered(space):
    for name, remedy in INSTEAD[space].items():
        with pytest.raises(AttributeError) as error:
            getattr(importlib.import_module(space), name)
        assert str(error.value) == f"{space} has no attribute {name!r}; write {remedy}"


@pytest.mark.parametrize("path", ["cuda.manual_seed_all", "linalg.norm", "random.randn"])
def test_names_that_gpugrad_answers_are_answered_in_its_modules(path):
    space, name = path.split(".")
    with pytest.raises(AttributeError, match=re.escape(f"; write {INSTEAD['gpugrad'][name]}")):
        getattr(importlib.import_module(f"gpugrad.{space}"), name)


def test_names_that_tensors_lack_are_answered():
    x = gg.ones(2)
    for name, remedy in INSTEAD["Tensor"].items():
        assert not hasattr(gg.Tensor, name)
        assert name not in dir(x)
        with pytest.raises(AttributeError) as error:
            getattr(x, name)
        assert str(error.value) == f"Tensor has no attribute {name!r}; write {remedy}"
    assert INSTEAD["Tensor"]["log1p"] == "gpugrad.log1p(x)"  # it is not a method


def test_names_that_modules_lack_are_answered():
    layer = nn.Linear(2, 2)
    with pytest.raises(AttributeError, match=r"Linear has no .*'double'; write model\.to\(gpugrad"):
        layer.double()
    assert not {*INSTEAD["Module"]} & {*dir(layer)}


def test_remedies_exist():
    for remedy in [remedy for table in INSTEAD.values() for remedy in table.values()]:
        for path in re.findall(r"gpugrad\.[\w.]*\w", remedy):
            eval(path, {"gpugrad": gg})
        for name in re.findall(r"\bx\.(\w+)", remedy):
            assert hasattr(gg.ones((2, 2)), name)


def test_names_deeper_in_the_package_are_answered():
    for path in "linalg.det", "special.erf", "fft.rfft":
        name = path.partition(".")[2]
        with pytest.raises(AttributeError, match=rf"'{name}'; write gpugrad\.{path}$"):
            getattr(gg, name)


def test_misspelt_names_are_left_to_pythons_own_suggestions():
    for module, name in (gg, "maxmum"), (gg.linalg, "dett"), (gg.special, "erff"):
        with pytest.raises(AttributeError) as error:
            getattr(module, name)
        assert (error.value.name, error.value.obj) == (name, module)


def test_transposing_a_vector():
    with pytest.raises(ValueError, match=r"needs 2 axes, not 1; use x\[:, None\] for a column"):
        _ = gg.ones(3).T


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: gg.sum(x, dim=0), r"sum: .*'dim'; dim is axis here; it takes x, axis"),
        (lambda x: x.sum(axis=0, keepdim=True), "keepdim is keepdims here"),
        (lambda x: gg.var(x, ddof=1), "ddof is correction here"),
        (lambda x: gg.max(x, x), "max: axis must be an int .*; of two arrays use maximum"),
        (lambda x: gg.concat(x, x), r"concat: give one sequence of arrays: concat\(\[x, y\]\)"),
        (lambda x: gg.stack([]), "a Tensor or an array$"),
    ],
)
def test_wrong_arguments_are_answered(call, message):
    with pytest.raises(TypeError, match=message):
        call(gg.ones(2))


def test_the_error_about_a_missing_array_has_no_cause():
    with pytest.raises(TypeError, match="given 2") as error:
        gg.exp(2.0)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


def test_integer_results_have_no_gradient():
    with pytest.raises(ValueError, match=r"int64 .*argmax's .* has no gradient"):
        gg.argmax(gg.ones(2, requires_grad=True)).backward()


def test_format_of_several_elements():
    with pytest.raises(ValueError, match=r"format: '\.2f' is for one number"):
        format(gg.ones(2), ".2f")


def test_several_lengths_in_place_of_a_shape():
    for make in (gg.zeros, gg.ones, gg.empty, random.normal, random.uniform):
        with pytest.raises(TypeError, match=rf"{make.__name__}\(\(2, 3\)\)"):
            make(2, 3)


@pytest.mark.parametrize("module", ["data", "nn", "optim"])
def test_missing_names_of_modules(module):
    module = getattr(gg, module)
    with pytest.raises(AttributeError, match=f"{module.__name__} has no attribute 'Missing'"):
        _ = module.Missing


def test_values_and_indices_unpacked():
    x = gg.tensor([[1.0, 2.0], [4.0, 3.0]])
    with pytest.warns(UserWarning, match="argmax") as found:
        _, _ = x.max(axis=int(x.min()))
    assert found[0].filename == __file__
    with pytest.warns(UserWarning, match="argsort"):
        _, _ = gg.sort(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = x
        first, second = gg.unstack(x.max(axis=1))
        assert [first.item(), second.item()] == [2.0, 4.0]
        assert len([*x.max(axis=1)]) == 2


def test_inplace_is_taken():
    x = gg.tensor([-1.0, 1.0])
    for kind in (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.SiLU, nn.Mish):
        kind(inplace=True)(x)
    nn.Hardtanh(inplace=True)(nn.Hardswish(inplace=True)(nn.Hardsigmoid(inplace=True)(x)))
    nn.Dropout(0.5, inplace=True)(x)
    assert x.tolist() == [-1.0, 1.0]


def test_non_blocking_is_taken():
    x, layer = gg.ones(2), nn.Linear(2, 2)
    assert x.to("cpu", non_blocking=True) is x
    assert layer.to(gg.float64, non_blocking=True).weight.dtype == gg.float64
