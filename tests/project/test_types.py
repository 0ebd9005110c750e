"""What type checkers and editors know about the library: mypy, pyright and jedi."""

import ast
import json
import re
import sys
import warnings
from itertools import chain
from pathlib import Path

import jedi
import numpy as np
import numpy_calls
import pytest
from cases import CASES
from stand_in import run
from write_stubs import ROOT, stubs

import gpugrad
import gpugrad.numpy as gnp
from gpugrad import Tensor
from gpugrad.ops.operators import METHODS

RIGHT = """
from typing import Any, assert_type

import numpy as np

import gpugrad
import gpugrad.numpy as gnp
from gpugrad import Tensor, nn, optim
from gpugrad.data import DataLoader, TensorDataset
from gpugrad.nn import functional as F

t = gpugrad.tensor([1.0, 2.0], requires_grad=True)
assert_type(t, Tensor)
assert_type(gpugrad.sin(np.ones(3)), Tensor)
assert_type(1 - t @ np.ones((2, 2)) * 2, Tensor)
# NumPy's stubs say that an array times anything with ``__array__`` is an array, before a checker
# looks at ``__rmul__``, which makes it a Tensor. Without ``__array__``, checkers would refuse
# np.sum(t); with ``__buffer__`` in its place, which a Tensor has not, np.median(t).
assert_type(t * np.ones(2), Tensor)
assert_type(gnp.sum(gnp.add(np.ones(2), t), axis=0), Tensor)
assert_type(gnp.concatenate([t, t]), Tensor)
assert_type(gnp.linalg.norm(gnp.fft.rfft(t)), Tensor)
assert_type(gnp.pad(t, 2, mode="edge"), Tensor)
assert_type(gnp.sin(np.ones(2)), Any)  # NumPy's
assert_type(gnp.where(t > 0, t, gnp.pi), Any)
assert_type(gnp.add.reduce(t), Any)
assert_type(gnp.ones(3, device="cpu"), Any)
assert_type(t == 1, Tensor)
assert_type(t[..., None, 0], Tensor)
assert_type([row for row in t], list[Tensor])
assert_type(t.reshape(2, 1).mT.to("cpu", dtype=gpugrad.float32), Tensor)
assert_type(gpugrad.fft.rfftfreq(4), Tensor)
assert_type(gpugrad.random.normal((2, 3)), Tensor)
assert_type(F.cross_entropy(F.relu(t), t), Tensor)


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        self.layer = nn.Linear(2, width)
        self.scale = nn.Parameter(gpugrad.ones(width))

    def forward(self, x: Tensor, twice: bool = False) -> tuple[Tensor, int]:
        assert_type(self.layer(x), Tensor)
        assert_type(self.layer.weight, nn.Parameter)
        return self.layer(x) * self.scale, 2 if twice else 1


net = Net(3)
assert_type(net(t, twice=True), tuple[Tensor, int])
assert_type(net.to("cpu").train(), Net)
assert_type(nn.MLP(2, [3, 1])(t), Tensor)
assert_type(nn.Sequential(nn.Linear(2, 2), gpugrad.tanh)[1:], nn.Sequential)


def predict(model: nn.Module) -> Tensor:
    return model(t)


optimizer = optim.Adam(net.parameters(), lr=1e-3)
for x, y in DataLoader(TensorDataset(t, t), batch_size=2, shuffle=True):
    optimizer.zero_grad()
    assert_type(x, Tensor)
    F.mse_loss(net(x)[0], y).backward()
    optimizer.step()

loader = DataLoader(TensorDataset(t, t), batch_size=2)
assert_type(loader, DataLoader[tuple[Tensor, ...]])
assert_type(next(iter(loader)), tuple[Tensor, ...])
assert_type(next(iter(DataLoader([1.0], collate_fn=gpugrad.stack))), Any)  # of samples of any kind


@gpugrad.no_grad()
def f(x: Tensor, k: int = 1) -> Tensor:
    net.scale += x
    return x**k


@gpugrad.enable_grad
def g(x: Tensor, k: int = 1) -> Tensor:
    return x * k


with gpugrad.no_grad(), gpugrad.set_grad_enabled(True):
    assert_type(f(t, k=2), Tensor)
    assert_type(g(t, 2), Tensor)
    assert_type(gpugrad.custom_vjp(g)(t), Tensor)

assert_type(gpugrad.checkpoint(g, t, k=2), Tensor)
assert_type(gpugrad.vmap(g)(t, 2), Tensor)
assert_type(gpugrad.value_and_grad(g)(t)[0], Tensor)
assert_type(gpugrad.jvp(gpugrad.sin, (t,), (t,)), tuple[Tensor, Tensor])
assert_type(gpugrad.vjp(g, t)[0], Tensor)
assert_type(gpugrad.linearize(lambda x: gpugrad.sin(x), t)[1](t), Tensor)


def with_aux(x: Tensor, y: Tensor) -> tuple[Tensor, int]:
    return (x * y).sum(), 3


# A gradient has the structure of its argument, which no type can say of all functions.
# `Callable[Concatenate[X, P], X]` takes away the name of the argument, and mypy takes X for `Never`
# in `grad(grad(lambda x: 1))` and rejects what it is called with. An overload for functions of a
# Tensor also takes the argument of each lambda for one, and so rejects a lambda of a dict. A bound
# of X does the same in pyright, and with it mypy no longer rejects `grad(F.mse_loss)(t)`.
assert_type(gpugrad.grad(g)(t, k=2), Any)
assert_type(gpugrad.grad(with_aux, has_aux=True)(t, t), tuple[Any, int])
assert_type(gpugrad.grad(g, (0,))(t), tuple[Any, ...])
assert_type(gpugrad.value_and_grad(with_aux, has_aux=True)(t, t)[0], tuple[Tensor, int])
gradient: Tensor = gpugrad.grad(lambda x: (x**2).sum())(t)
matrix: Tensor = gpugrad.hessian(g)(t, k=2) + gpugrad.jacobian(g, mode="forward")(t)
"""

WRONG = """
import gpugrad
from gpugrad import nn, optim
from gpugrad.data import DataLoader, TensorDataset
from gpugrad.data import DataSet  # wrong
from gpugrad.nn import functional as F
from gpugrad.transforms import jacfwd  # wrong

t = gpugrad.tensor([1.0])
net = nn.MLP(2, [3])
gpugrad.sofmax(t)  # wrong
gpugrad.linalg.invv(t)  # wrong
gpugrad.special.erff(t)  # wrong
gpugrad.cuda.is_avail()  # wrong
gpugrad.random.randn(3)  # wrong
optim.Addam(net.parameters())  # wrong
nn.Liner(2, 2)  # wrong
F.relo(t)  # wrong
t.unsqueeze(0)  # wrong
t.summ()  # wrong
net.layerz  # wrong
net.train().cuda()  # wrong
gpugrad.sum(t, dim=0)  # wrong
gpugrad.sum(t, axis="all")  # wrong
gpugrad.sum(t, 0, True)  # wrong
gpugrad.sin(x=t)  # wrong
gpugrad.sin()  # wrong
gpugrad.sin("t")  # wrong
gpugrad.sin([1.0])  # wrong
gpugrad.matmul(t, 2)  # wrong
gpugrad.concat(t, t)  # wrong
gpugrad.reshape(t, "23")  # wrong
gpugrad.argmax(t, axis=(0, 1))  # wrong
gpugrad.linalg.eigh(t).values  # wrong
gpugrad.ones(2, requires_gard=True)  # wrong
t + "1"  # wrong
t.sum(keepdim=True)  # wrong
t.backward(retain=True)  # wrong
nn.Linear(2)  # wrong
net(t, t)  # wrong
net("t")  # wrong
gpugrad.grad(F.mse_loss)(t)  # wrong
gpugrad.grad(F.mse_loss, (0, 1))(t)  # wrong
DataLoader(TensorDataset(t), batchsize=2)  # wrong
gpugrad.checkpoint(gpugrad.sum, t, dim=0)  # wrong


@gpugrad.no_grad()
def f(x: gpugrad.Tensor) -> gpugrad.Tensor:
    return x


f("t")  # wrong
f(t, 1)  # wrong
"""


def calls():
    """Return a program that makes every call in the table of ops, with the types of results."""
    expected = {}
    for case in CASES:
        if "." not in case.op and case.op not in gpugrad.__all__:  # only VJPs call it
            continue
        is_variadic = hasattr(case.function, "op") and case.function.op.variadic
        for sample in case.samples:
            given = sample.arrays()
            values = [gpugrad.asarray(x) if isinstance(x, np.ndarray) else x for x in given]
            inputs = ["t" if isinstance(x, np.ndarray) else _source(x) for x in given]
            inputs = [f"[{', '.join(inputs)}]"] if is_variadic else inputs
            static = [f"{name}={_source(value)}" for name, value in sample.static.items()]
            calls = [f"gpugrad.{case.op}({', '.join([*inputs, *static])})"]
            if case.op in METHODS and inputs[0] == "t":
                calls.append(f"t.{case.op}({', '.join([*inputs[1:], *static])})")
            if calls[0] not in expected:
                with warnings.catch_warnings(action="ignore"):
                    result = case.function(*([values] if is_variadic else values), **sample.static)
                expected |= {call: _expectations(call, result) for call in calls}
    return "\n".join([RIGHT, "anything: Any = None", *chain(*expected.values())])


def _source(value):
    """Return the source text of a parameter, or of an `Any` if it has no literal."""
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, (tuple, list)):
        return "anything" if "anything" in map(_source, value) else repr(value)
    return repr(value) if isinstance(value, (bool, int, float, complex, str)) else "anything"


def _expectations(call, result):
    if isinstance(result, Tensor):
        return [f"assert_type({call}, Tensor)"]
    parts = [f".{name}" for name in getattr(result, "_fields", ())] or ["[0]"]
    return [f"assert_type({call}{part}, Tensor)" for part in parts]


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a program without type errors, and one with type errors."""
    path = tmp_path_factory.mktemp("program")
    (path / "right.py").write_text(calls())
    (path / "wrong.py").write_text(WRONG)
    return path


def mypy(project):
    """Return the errors of mypy: files, line numbers and messages."""
    options = "--config-file= --strict --follow-imports=silent --output=json --cache-dir=cache"
    words = f"-m mypy {options} right.py wrong.py".split()
    result = run(*words, cwd=project, MYPYPATH=str(ROOT.parent))
    assert not result.stderr
    found = map(json.loads, result.stdout.splitlines())
    return [(e["file"], e["line"], e["message"]) for e in found if e["severity"] == "error"]


def pyright(project):
    """Return the errors of pyright in the same way."""
    settings = {"include": ["."], "extraPaths": [str(ROOT.parent)]}
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    result = run("-m", "pyright", "--outputjson", f"--pythonpath={sys.executable}", cwd=project)
    found = [e for e in json.loads(result.stdout)["generalDiagnostics"] if e["severity"] == "error"]
    lines = [e["range"]["start"]["line"] + 1 for e in found]
    return [(Path(e["file"]).name, i, e["message"]) for e, i in zip(found, lines, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_program(checker, project):
    errors = checker(project)
    assert not [error for error in errors if error[0] == "right.py"]
    wrong = [i for i, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")]
    assert sorted({line for _, line, _ in errors}) == wrong


@pytest.mark.parametrize("room", ["", "linalg", "fft"])
def test_functions_of_numpy_return_what_their_stubs_say(room):
    """Calls with a tensor in the first place return one tensor."""
    stub = (ROOT / "numpy" / f"{room or '__init__'}.pyi").read_text("utf-8")
    typed = re.findall(r"^(?:def )?(\w+)(?:\(|: _Of)", stub, re.MULTILINE)
    seen, theirs = set(), getattr(np, room) if room else np
    for line in numpy_calls.lines(numpy_calls.BOTH):
        call = ast.parse(line, mode="eval").body
        if not isinstance(call, ast.Call) or line in numpy_calls.SINCE:
            continue
        space, _, name = ast.unparse(call.func).removeprefix("np.").rpartition(".")
        is_there = hasattr(theirs, name)  # NumPy 2.0 has no cumulative_prod
        if space == room and is_there and name in typed and "x" in ast.unparse(call.args[:1]):
            with warnings.catch_warnings(action="ignore"):
                value = numpy_calls.evaluate(line, gnp, gpugrad.tensor(numpy_calls.A))
            assert [type(y) for y in value] == [Tensor], line
            seen.add(name)
    assert len(seen) > {"": 100, "linalg": 15, "fft": 10}[room]


def test_the_stubs_are_up_to_date():
    for path, text in stubs().items():
        assert path.read_text("utf-8") == text, "run python tests/write_stubs.py"


PROGRAM = """
import gpugrad
from gpugrad import nn, optim
from gpugrad.nn import functional as F

t = gpugrad.tensor([1.0])
net = nn.MLP(2, [3])

class Net(nn.Module):
    def forward(self, x: gpugrad.Tensor) -> gpugrad.Tensor:
        return x
"""


@pytest.fixture(autouse=True, scope="module")
def cache_of_jedi(tmp_path_factory):
    """Give jedi a folder of its own: it reads files that another process is still writing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jedi.settings, "cache_directory", str(tmp_path_factory.mktemp("jedi")))
        yield


def editor(text):
    """Return jedi's view of a program that ends with ``text``."""
    project = jedi.Project(ROOT.parent)
    return jedi.Script(PROGRAM + text, path=ROOT.parent / "program.py", project=project)


@pytest.mark.slow
@pytest.mark.parametrize("text, expected", [
    ("gpugrad.so", ["softmax", "softplus", "softshrink", "softsign", "sort"]),
    ("gpugrad.linalg.eig", ["eig", "eigh", "eigvals", "eigvalsh"]),
    ("gpugrad.special.gammal", ["gammaln"]), ("gpugrad.fft.fftf", ["fftfreq"]),
    ("gpugrad.sin(t).su", ["sum"]), ("(t - 1)[0].permute", ["permute_dims"]), ("t.unsqueez", []),
    ("gpugrad.linalg.eigh(t).eigenval", ["eigenvalues"]), ("F.relu(t).argma", ["argmax"]),
    ("nn.Linear(2, 2)(t).backw", ["backward"]),
    ("net(t).requires_grad", ["requires_grad", "requires_grad_"]), ("Net()(t).sof", ["softmax"]),
    ("net.named_par", ["named_parameters"]), ("optim.SGD(net.parameters()).zero", ["zero_grad"]),
])  # fmt: skip
def test_completion(text, expected):
    assert [completion.name for completion in editor(text).complete()] == expected


@pytest.mark.parametrize("text, signature, doc", [
    ("gpugrad.mean(", "mean(x: Array, /, axis: int | tuple[int, ...] | None=None", "Mean of"),
    ("t.cos(", "cos() -> Tensor", "Elementwise cosine."),
    ("gpugrad.linalg.inv(", "inv(x: Array, /) -> Tensor", "Inverses of square matrices"),
    ("nn.Linear(", "Linear(in_features: int, out_features: int, bias: bool=True", "Affine"),
    ("nn.ReLU(", "ReLU(inplace: bool=False)", "``max(x, 0)``"),
    ("nn.CrossEntropyLoss(", "CrossEntropyLoss(weight: Any=None, *, ", "Cross entropy"),
    ("optim.AdamW(", "AdamW(params: Iterable[Any], lr: float=1e-3", "Adam with decoupled"),
    ("optim.SGD(", "SGD(params: Iterable[Any], lr: float=", "Stochastic"),
    ("optim.lr_scheduler.StepLR(", "StepLR(optimizer: Optimizer, step_size: int", "``lr ="),
    ("gpugrad.tensor(", "tensor(data: Any, *, dtype: Any=None, ", "A new leaf"),
])  # fmt: skip
def test_signature(text, signature, doc):
    (found,) = editor(text).get_signatures()
    assert found.to_string().startswith(signature)
    assert found.docstring(raw=True).startswith(doc)
