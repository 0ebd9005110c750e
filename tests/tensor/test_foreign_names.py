"""Errors for names of PyTorch, NumPy and JAX: each says what to write instead."""

import importlib
import re

import pytest

import gpugrad as gg
from gpugrad import data, distributed, nn, optim, random, training
from gpugrad._foreign_names import INSTEAD
from gpugrad.nn import functional as F
from gpugrad.optim import lr_scheduler as schedules


@pytest.mark.parametrize("space", [owner for owner in INSTEAD if owner.startswith("gpugrad")])
def test_names_of_other_libraries_are_answered(space):
    for name, remedy in INSTEAD[space].items():
        with pytest.raises(AttributeError) as error:
            getattr(importlib.import_module(space), name)
        assert str(error.value) == f"{space} has no attribute {name!r}; write {remedy}"


def test_names_that_tensors_and_modules_lack_are_answered():
    x = gg.ones(2)
    for kind, value in ("Tensor", x), ("Module", LAYER):
        assert not {*INSTEAD[kind]} & {*dir(value)}
    for name, remedy in INSTEAD["Tensor"].items():
        with pytest.raises(AttributeError) as error:
            getattr(x, name)
        assert str(error.value) == f"Tensor has no attribute {name!r}; write {remedy}"
    assert INSTEAD["Tensor"]["log1p"] == "gpugrad.log1p(x)"  # it is not a method


def test_remedies_exist():
    for remedy in [remedy for table in INSTEAD.values() for remedy in table.values()]:
        for path in re.findall(r"gpugrad\.[\w.]*\w", remedy):
            eval(path, {"gpugrad": gg})
        for name in re.findall(r"\bx\.(\w+)", remedy):
            assert hasattr(gg.ones((2, 2)), name)


def helper(x):
    return x


@gg.op
def forwarding(xp, x):
    return helper(x, dim=0)


LAYER = nn.Linear(2, 2)
X, GIVEN = gg.ones(2), [nn.Parameter([1.0])]
SGD = optim.SGD(GIVEN)

# What takes the keywords of PyTorch that a section with parentheses is about, and its arguments.
TAKES = {
    "DataLoader": [(data.DataLoader, [1, 2])], "Embedding": [(nn.Embedding, 3, 2)],
    "DataParallel": [(distributed.DataParallel, LAYER)], "init": [(distributed.init,)],
    "LRScheduler": [(schedules.StepLR, SGD, 2), (schedules.ReduceLROnPlateau, SGD)],
    "Optimizer": [(kind, GIVEN) for kind in (optim.SGD, optim.AdamW, optim.LBFGS, optim.Lion)],
    "_Loss": [(nn.MSELoss,), (nn.CrossEntropyLoss,), (nn.TripletMarginLoss,)],
    "all_gather": [(distributed.all_gather, X)], "all_reduce": [(distributed.all_reduce, X)],
    "broadcast": [(distributed.broadcast, X, 0)], "compile": [(gg.compile, gg.exp)],
    "checkpoint": [(gg.checkpoint, LAYER, X)], "vmap": [(gg.vmap, gg.exp)],
    "clip_grad_norm_": [(nn.utils.clip_grad_norm_, GIVEN, 1.0)],
    "grad": [(gg.autograd.grad, GIVEN[0] * 2, GIVEN)], "integers": [(random.integers, 0, 2, 3)],
    "linspace": [(gg.linspace, 0, 1)], "load": [(gg.load, "model.safetensors")],
    "nonzero": [(X.nonzero,)], "normal": [(random.normal, 3)],
    "state_dict": [(LAYER.state_dict,)], "uniform": [(random.uniform, 3)],
}  # fmt: skip


def test_there_is_a_call_for_all_that_take_keywords_of_pytorch():
    kinds = {kind[:-2] for kind, names in INSTEAD.items() if {*names} != {"too many"}}
    assert {kind for kind in kinds if f"{kind}()" in INSTEAD} == TAKES.keys()


@pytest.mark.parametrize("kind", TAKES)
def test_keywords_of_pytorch_are_answered(kind):
    for function, *args in TAKES[kind]:
        for keyword, remedy in INSTEAD[f"{kind}()"].items():
            with pytest.raises(TypeError) as error:
                function(*args, **{keyword: True})
            what = "option " * (kind == "compile")
            assert str(error.value) == f"{function.__name__}: there is no {what}{keyword}: {remedy}"


@pytest.mark.parametrize("call, message", [
    (lambda: gg.concat([X], dim=0), "^concat: got an unexpected keyword argument 'dim'; dim is"),
    (lambda: forwarding(X), r"^forwarding: helper\(\) got an unexpected keyword argument 'dim'"),
    (lambda: gg.var(X, ddof=1), "ddof is correction here"),
    (lambda: gg.max(X, X), "max: axis must be an int .*; of two arrays use maximum"),
    (lambda: gg.concat([X], 1), r"one sequence .*, others by name: concat\(\[x, y\], axis="),
    (lambda: gg.permute_dims(X, 1, 0), r"takes at most 2 positional arguments \(x, axes\), not 3$"),
    (lambda: gg.mean(X, 1, True), r"2 .* \(x, axis\), not 3; pass others by name: keepdims$"),
    (lambda: gg.stack([]), "a Tensor or an array$"),
    (lambda: optim.SGD(GIVEN, learning_rate=0.1), r"^SGD: .*; learning_rate is lr here; it takes"),
    (lambda: optim.SGD(LAYER.parameters), "an iterable of tensors, not a method; call it$"),
    (lambda: training.Trainer(LAYER, F.mse_loss, SGD, []), "must be an Optimizer, not a function"),
    (lambda: optim.AdamW(GIVEN, fused=True, foreach=True), "no fused: .*; there is no foreach: "),
    (lambda: nn.Conv2d(3, 4), "Conv2d: missing .*'kernel_size'; it takes in_channels, out_ch"),
    (lambda: nn.Linear(2, 3, 4, 5), "Linear: too many positional arguments; it takes in_f"),
    (lambda: nn.Softmax(axis=1), "Softmax: missing .*'dim'; axis is dim here"),
    (lambda: distributed.broadcast(X, src=0), "src is root here; it takes tree, root"),
    (lambda: gg.set_num_threads("2"), "^set_num_threads: the number must be an int, not '2'$"),
    (lambda: X.cumsum(dim=0), "^cumsum: .*'dim'; dim is axis here; it takes axis$"),
    (lambda: gg.quantile(X, 0.5, keepdim=True), "keepdim is keepdims here"),
    (lambda: gg.hvp(gg.sum, X, X), r"^hvp: .* is returned: hvp\(f\)\(x, v\)"),
    (lambda: gg.random.normal(0.0, 1.0), "^normal: .* one tuple, .*; it takes shape, mean, "),
    (lambda: gg.random.uniform(-1, 1, 3), "^uniform: .* one tuple, .*; it takes shape, low, "),
    *((lambda f=f: f(2, 3), rf"^{f.__name__}: .* the shape is one tuple, as in {f.__name__}\(\(2, ")
      for f in (gg.zeros, gg.ones, gg.empty, random.normal, random.uniform)),
    (lambda: gg.zeros((2, 3), gg.float32), "^zeros: .*; pass all else by name; it .*, dtype, "),
    (lambda: gg.random.normal(loc=1, size=2), "^normal: .*; loc is mean here; size is shape"),
    (lambda: gg.random.integers(0, 5, size=2), "^integers: .*; size is shape here; it takes"),
    (lambda: training.Trainer(LAYER, SGD, F.mse_loss, [], epochs=2), "'epochs'; it takes mo"),
    (lambda: optim.SGD(nn.Linear(2, 2).named_parameters()), "tuple; pass model.parameters()"),
])  # fmt: skip
def test_arguments_that_do_not_fit(call, message):
    with pytest.raises(TypeError, match=message) as error:
        call()
    assert error.value.__cause__ is None or "helper" in message
    assert error.value.__suppress_context__ or error.value.__context__ is None


def test_errors_from_within_are_not_taken_for_errors_about_arguments():
    with pytest.raises(TypeError, match=r"^Linear\.forward\(\) takes 2 positional arguments"):
        nn.functional_call(LAYER, {}, (gg.ones(2), gg.ones(2)))


STEP = gg.compile(LAYER)


@pytest.mark.parametrize("value, name, message", [
    (gg.cuda, "manual_seed_all", re.escape(f"; write {INSTEAD['gpugrad']['manual_seed_all']}")),
    (gg.linalg, "norm", re.escape(f"; write {INSTEAD['gpugrad']['norm']}")),
    (random, "randn", re.escape(f"; write {INSTEAD['gpugrad']['randn']}")),
    *((gg, path.rpartition(".")[2], rf"'; write gpugrad\.{path}$") for path in (
        "linalg.det", "special.erf", "fft.rfft", "random.shuffle", "nn.functional.conv2d")),
    (nn, "relu", r"^gpugrad\.nn has .*'relu'; write gpugrad\.nn\.functional\.relu$"),
    (LAYER, "double", r"Linear has no .*'double'; write model\.to\(gpugrad"),
    (gg.Tensor, "exp_", r"'exp_'; write x\[\.\.\.\] = gpugrad\.exp\(x\)"),
    (SGD, "state", r"SGD has no .*'state'; write optimizer\.state_dict"),
    (SGD, "missing", "'SGD' object has no attribute 'missing'"),
    (STEP, "parameters", "'parameters'; use that of the Linear itself"),
    (STEP, "missing", "'Compiled' object has no attribute 'missing'"),
    *((module, name, rf"{name}'; did you mean {module.__name__}.{right}\?$")
      for module, name, right in (
        (gg, "maxmum", "maximum"), (gg.linalg, "dett", "det"), (gg.special, "erff", "erf"),
        (nn, "BatchNorm2D", "BatchNorm2d"), (F, "relu_", "relu"),
        (nn.init, "xavier_normal", "xavier_normal_"),
        (nn.utils, "clip_grad_norm", "clip_grad_norm_"))),
    *((module, "Qqqq", rf"^{module.__name__} has no attribute 'Qqqq'$")
      for module in (gg, data, nn, optim)),
])  # fmt: skip
def test_missing_names_are_answered(value, name, message):
    assert not hasattr(value, name)
    with pytest.raises(AttributeError, match=message):
        getattr(value, name)


def test_what_some_tensors_lack():
    with pytest.raises(ValueError, match=r"format: '\.2f' is for one number"):
        format(gg.ones(2), ".2f")
    with pytest.raises(RuntimeError, match="CUDA"):
        X.cuda(non_blocking=True)


def test_parameters_without_effect_are_taken():
    x, layer = gg.tensor([-1.0, 1.0]), nn.Linear(2, 2)
    kinds = "ReLU ReLU6 LeakyReLU ELU SELU CELU SiLU Mish Hardtanh Hardswish Hardsigmoid"
    for kind in kinds.split():
        getattr(nn, kind)(inplace=True)(x)
    nn.Dropout(0.5, inplace=True)(x)
    for function in (F.relu, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu, F.silu, F.mish):
        gg.testing.assert_close(function(x, inplace=True), function(x), rtol=0, atol=0)
    F.hardtanh(F.hardswish(F.hardsigmoid(x, True), True), -1.0, 1.0, True)
    F.dropout(x, 0.5, True, True)
    assert F.dropout(x, 0.5, False, True) is x.to("cpu", non_blocking=True) is x
    assert x.tolist() == [-1.0, 1.0]
    assert layer.to(gg.float64, non_blocking=True).weight.dtype == gg.float64
