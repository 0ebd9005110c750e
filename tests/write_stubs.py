"""Write the stubs, what type checkers and editors read of the ops: ``python tests/write_stubs.py``.

A decorator makes the ops, and the package puts them into its namespaces and on `Tensor` as it is
imported; type checkers follow neither. The stubs have the signatures and docstrings that the ops
have at run time. The types of parameters follow from their names, by the tables below.
`test_types.py` checks that the stubs are up to date.
"""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import gpugrad
from gpugrad import Tensor
from gpugrad.autograd.operation import Op, composites
from gpugrad.ops.operators import COMPARISONS, OPERATORS

ROOT = Path(gpugrad.__file__).parent

# The types of parameters, of one op or of all. Inputs that are not here are arrays, or numbers
# where the op takes those. A parameter whose default is None may be None.
INT_OR_INTS = "int | tuple[int, ...]"
PARAMETERS = {
    "activation": "str",
    "alpha": "float",
    "approximate": "str",
    "axes": "Sequence[int]",
    "axis": INT_OR_INTS,
    "beta": "float",
    "copy": "bool",
    "correction": "float",
    "d": "int",
    "descending": "bool",
    "destination": INT_OR_INTS,
    "device": "str",
    "dtype": "Any",
    "eps": "float",
    "full_matrices": "bool",
    "include_initial": "bool",
    "indexing": "str",
    "input_scale": "float",
    "invert": "bool",
    "k": "int",
    "keepdims": "bool",
    "key": "Any",
    "max_val": "float",
    "min_val": "float",
    "mode": "str",
    "n": "int",
    "ndim": "int",
    "negative_slope": "float",
    "norm": "str",
    "offset": "int",
    "ord": "float",
    "p": "float",
    "reduction": "str",
    "repetitions": "int | Sequence[int]",
    "return_sign": "bool",
    "rtol": "Array | float",
    "s": "Sequence[int]",
    "scale": "float",
    "shape": "Shape",
    "shift": INT_OR_INTS,
    "side": "str",
    "source": INT_OR_INTS,
    "stable": "bool",
    "subscripts": "str",
    "threshold": "float",
    "upper": "bool",
}
PARAMETERS_OF = {
    "dropout.key": "tuple[int, int]",
    "dropout_mask.key": "tuple[int, int]",
    "fft.fftshift.axes": "int | Sequence[int]",
    "fft.ifftshift.axes": "int | Sequence[int]",
    "linalg.matrix_norm.ord": "float | str | None",
    "linalg.matrix_power.n": "int",
    "repeat.repeats": "Array | int",
    "setitem.value": "Array | complex",
    "special.logsumexp.b": "Array | complex",
    "tensordot.axes": "int | tuple[Sequence[int], Sequence[int]]",
}
for _name in """
    add_along_axis argmax argmin argsort concat cumulative_prod cumulative_sum diff fft.fft
    fft.hfft fft.ifft fft.ihfft fft.irfft fft.rfft linalg.cross repeat sort stack take
    take_along_axis unstack vecdot
""".split():
    PARAMETERS_OF[f"{_name}.axis"] = "int"

# What is not one Tensor: a type, or the names in a named tuple.
RETURNS = {
    "batch_norm": "tuple[Tensor, Tensor, Tensor]",
    "broadcast_arrays": "tuple[Tensor, ...]",
    "linalg.eig": ["eigenvalues", "eigenvectors"],
    "linalg.eigh": ["eigenvalues", "eigenvectors"],
    "linalg.qr": ["Q", "R"],
    "linalg.slogdet": ["sign", "logabsdet"],
    "linalg.svd": ["U", "S", "Vh"],
    "meshgrid": "tuple[Tensor, ...]",
    "nonzero": "tuple[Tensor, ...]",
    "unique_all": ["values", "indices", "inverse_indices", "counts"],
    "unique_counts": ["values", "counts"],
    "unique_inverse": ["values", "inverse_indices"],
    "unstack": "tuple[Tensor, ...]",
}

HEAD = """# Written by tests/write_stubs.py.

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self, SupportsIndex, overload

from ._typing import Array
from .backends import Shape
from ._tensor import Tensor as Tensor
"""


class Source(str):
    """An annotation that is shown as it is."""

    __repr__ = str.__str__


def stubs():
    """The text that each stub should have, by its path."""
    texts = {"__init__": package(), "_ops": ops(gpugrad), "_tensor_methods": tensor_methods()}
    for room in "fft", "linalg", "special":
        texts[room] = ops(import_module(f"gpugrad.{room}"))
    return {ROOT / f"{name}.pyi": formatted(HEAD + text) for name, text in texts.items()}


def formatted(text):
    """``text`` without the imports it does not need, as ruff formats it."""
    for command in ["check", "--quiet", "--fix-only", "--select=F401,I"], ["format"]:
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename=gpugrad/stub.pyi", "-"],
            cwd=ROOT.parent,
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def package():
    """The stub of the package, which says where its names come from."""
    lines = ["from ._ops import *"]
    for name in gpugrad.__all__:
        value = getattr(gpugrad, name)
        if isinstance(value, ModuleType):
            lines.append(f"from . import {name} as {name}")
        elif type(value) is float or not getattr(value, "__module__", "").startswith("gpugrad"):
            lines.append(f"{name}: {'float' if type(value) is float else 'Any'}")
        elif value is not gpugrad.Tensor and not is_of_ops(value):
            place = value.__module__.removeprefix("gpugrad")
            lines.append(f"from {place} import {name} as {name}")
    lines.append("bfloat16: Any")  # not in the list, since it needs ml_dtypes
    lines += ["__version__: str", "__array_api_version__: str"]
    lines.append("def __array_namespace_info__() -> Any: ...")
    lines.sort(key=lambda line: not line.startswith("from "))
    return "\n".join(lines)


def ops(module):
    """The stub of a namespace of ops."""
    lines = []
    for name in module.__all__:
        value = getattr(module, name)
        if module is not gpugrad and vars(gpugrad).get(name) is value:
            lines.insert(0, f"from ._ops import {name} as {name}")
        elif is_of_ops(value):
            lines.append(of_op(name, value))
        elif module is not gpugrad:
            lines.append(definition(name, annotated(value), value))
    return "\n".join(lines)


def tensor_methods():
    """The stub of the class that `Tensor` has as its base for type checkers: what ops add to it."""
    other = "(self, other: Array | complex, /)"
    lines = []
    for name in OPERATORS:
        lines += [f"def __{prefix}{name}__{other} -> Tensor: ..." for prefix in ("", "r")]
        lines.append(f"def __i{name}__{other} -> Self: ...")
    for name in COMPARISONS:
        if name in ("eq", "ne"):
            lines.append(f"def __{name}__(self, other: object, /) -> Tensor: ...  {OVERRIDE}")
        else:
            lines.append(f"def __{name}__{other} -> Tensor: ...")
    lines += [
        "def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any: ...",
        "def __array_function__(self, function: Any, types: Any, args: Any, kw: Any) -> Any: ...",
    ]
    written = re.findall(r"__\w+__", "".join(lines))
    for name, value in vars(Tensor).items():
        room = getattr(getattr(value, "fget", value), "__module__", None) or ""
        if name in written or not room.startswith("gpugrad.ops"):
            continue
        if isinstance(value, property):
            lines.append("@property\n" + definition(name, Source("(self) -> Tensor"), value))
        elif is_of_ops(value):
            lines.append(of_op(name, value, is_method=True))
        else:
            lines.append(definition(name, annotated(value), value))
    return "\n    ".join(["class TensorMethods:", *"\n".join(lines).splitlines()])


OVERRIDE = "# type: ignore[override]"  # other classes answer with a bool


def is_of_ops(value):
    return isinstance(getattr(value, "op", None), Op) or value in [*composites.values()]


def definition(name, signature, value):
    """A function whose body is its docstring."""
    doc = inspect.getdoc(value) or ""
    end = "\n" if "\n" in doc else ""
    body = f'"""{doc}{end}"""' if doc else "..."
    return "\n    ".join([f"def {name}{signature}:", *body.splitlines()])


def annotated(function):
    """The signature of a function that has annotations."""

    def source(annotation):
        if annotation is inspect.Parameter.empty:
            return annotation
        named = isinstance(annotation, type)
        text = annotation.__name__ if named else inspect.formatannotation(annotation)
        return Source(re.sub(r"typing\.|collections\.abc\.|gpugrad\.", "", text))

    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    return signature.replace(
        parameters=[p.replace(annotation=source(p.annotation)) for p in parameters],
        return_annotation=source(signature.return_annotation),
    )


def of_op(name, call, is_method=False):
    """The definition of an op, or of a function of several."""
    op = getattr(call, "op", None)
    public = op.name if op else next(key for key, value in composites.items() if value is call)
    signature = inspect.signature(call)
    parameters = []
    for i, p in enumerate(signature.parameters.values()):
        hint = parameter(public, op, p)
        if p.default is None and hint != "Any":
            hint += " | None"
        if op and i < call.__code__.co_posonlyargcount:
            p = p.replace(kind=p.POSITIONAL_ONLY)
        parameters.append(p.replace(annotation=Source(hint)))
    if is_method:
        parameters[0] = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    result, lines = RETURNS.get(public, "Tensor"), []
    if isinstance(result, list):
        kind = "_" + public.rpartition(".")[2].title().replace("_", "") + "Result"
        lines = [f"class {kind}(NamedTuple):", *(f"    {field}: Tensor" for field in result)]
        result = kind
    signature = signature.replace(parameters=parameters, return_annotation=Source(result))
    text = definition(name, signature, call)
    if public == "special.logsumexp":  # its result depends on a parameter
        one = text.replace("return_sign: bool = False", "return_sign: Literal[False] = False")
        two = text.replace("return_sign: bool = False", "*, return_sign: Literal[True]")
        two = two.replace("-> Tensor", "-> tuple[Tensor, Tensor]")
        text = f"@overload\n{one}\n@overload\n{two}"
    return "\n".join([*lines, text])


def parameter(public, op, p):
    """The type of a parameter."""
    if known := PARAMETERS_OF.get(f"{public}.{p.name}"):
        return known
    if p.name not in op.inputs if op else p.name in PARAMETERS:
        return PARAMETERS[p.name]
    if op and op.variadic:
        return "Iterable[Array | complex]"
    is_array = op is None or len(op.inputs) == 1 or p.kind is p.POSITIONAL_ONLY
    return "Array" if is_array else "Array | complex"


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
