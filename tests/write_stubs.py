"""Write the type stubs of the ops for type checkers and editors: ``python tests/write_stubs.py``.

A decorator makes the ops, and the package adds them to its namespaces and to `Tensor` when it is
imported; type checkers cannot follow either. The stubs have the signatures and docstrings that the
ops have at run time. The types of parameters follow from their names, by the tables below.
`test_types.py` checks that the stubs are up to date.
"""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

import gpugrad
from gpugrad import Tensor, nn, optim
from gpugrad.autograd.operation import Op, composites
from gpugrad.numpy._namespace import FUNCTIONS
from gpugrad.numpy._table import OF_SEQUENCES
from gpugrad.ops.operators import COMPARISONS, OPERATORS
from gpugrad.optim import formulas

ROOT = Path(gpugrad.__file__).parent

# Functions of `gpugrad.numpy` that may return several tensors or none, or take them elsewhere.
NOT_ONE_TENSOR = """
    allclose apply_along_axis apply_over_axes array_split atleast_1d atleast_2d atleast_3d average
    block broadcast_arrays compress divmod dsplit einsum empty_like extract gradient hsplit
    intersect1d linspace meshgrid modf nonzero polyfit select split unique unique_all unique_counts
    unique_inverse unstack vsplit where
    linalg.eig linalg.eigh linalg.lstsq linalg.qr linalg.slogdet linalg.svd
""".split()

# The types of parameters, for all ops or for one of them, each with those that have it. Inputs that
# are not listed are arrays, or also numbers if the op takes those; other parameters have the type
# of their default. A parameter whose default is None may be None.
PARAMETERS = {
    "Any": "dtype key", "Array | float": "rtol", "Sequence[int]": "axes s", "Shape": "shape",
    "bool": "copy", "float": "eps neginf ord p posinf scale", "int": "chunks d groups k n",
    "int | Sequence[int]": "indices_or_sections repetitions",
    "int | Sequence[int] | Sequence[Sequence[int]]": "pad_width",
    "int | tuple[int, ...]": "axis destination dilation shift source stride",
    "int | tuple[int, ...] | tuple[tuple[int, int], ...]": "padding",
    "str": "activation device subscripts", "tuple[int, ...]": "size",
    "tuple[int, int]": "dropout_key",
}  # fmt: skip
PARAMETERS_OF = {
    "Array | complex": "allclose.x1 allclose.x2 special.logsumexp.b",
    "Array | float | Sequence[float]": "quantile.q", "Array | int": "repeat.repeats",
    "float": "allclose.rtol isclose.rtol threshold.threshold threshold.value",
    "float | str | None": "linalg.matrix_norm.ord",
    "int": """
        argmax.axis argmin.axis argsort.axis chunk.axis concat.axis
        cumulative_prod.axis cumulative_sum.axis diff.axis fft.fft.axis fft.hfft.axis fft.ifft.axis
        fft.ihfft.axis fft.irfft.axis fft.rfft.axis linalg.cross.axis linalg.matrix_power.n
        quantile.axis repeat.axis sort.axis split.axis stack.axis take.axis take_along_axis.axis
        topk.axis unstack.axis vecdot.axis
    """,
    "int | Sequence[int]": "fft.fftshift.axes fft.ifftshift.axes",
    "int | tuple[Sequence[int], Sequence[int]]": "tensordot.axes",
    "tuple[int, int]": "dropout.key",
}  # fmt: skip
TYPES, TYPES_OF = (
    {name: kind for kind, names in table.items() for name in names.split()}
    for table in (PARAMETERS, PARAMETERS_OF)
)

# Results that are not one Tensor: a type, or the field names of a named tuple.
RETURNS = {
    **dict.fromkeys(("batch_norm", "lstm"), "tuple[Tensor, Tensor, Tensor]"),
    **dict.fromkeys(("gru", "rnn"), "tuple[Tensor, Tensor]"),
    **dict.fromkeys(
        "broadcast_arrays chunk meshgrid nonzero split unstack".split(), "tuple[Tensor, ...]"
    ),
    "linalg.eig": ["eigenvalues", "eigenvectors"], "linalg.eigh": ["eigenvalues", "eigenvectors"],
    "linalg.qr": ["Q", "R"], "linalg.slogdet": ["sign", "logabsdet"],
    "linalg.svd": ["U", "S", "Vh"], "topk": ["values", "indices"],
    "unique_all": ["values", "indices", "inverse_indices", "counts"],
    "unique_counts": ["values", "counts"], "unique_inverse": ["values", "inverse_indices"],
}  # fmt: skip

# The imports of all stubs, of which ruff removes what one does not use.
HEAD = """\
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self, SupportsIndex, overload
from ._tensor import Tensor as Tensor
from ._typing import Array
from .backends.registry import Shape
from .random import Generator
"""
# NumPy's ufuncs have methods, such as ``numpy.add.reduce``.
UFUNCS = """
class _OfOne:
    @overload
    def __call__(self, x: Tensor, /) -> Tensor: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
class _OfTwo:
    @overload
    def __call__(self, x1: Tensor, x2: Any, /) -> Tensor: ...
    @overload
    def __call__(self, x1: Any, x2: Tensor, /) -> Tensor: ...
    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
"""


class Source(str):
    """An annotation whose repr is its source text."""

    __repr__ = str.__str__


def stubs():
    """Return the text that each stub should have, by its path."""
    ops = {name: value for name in gpugrad.__all__ if is_op(value := getattr(gpugrad, name))}
    texts = {
        "__init__": ["from ._ops import *", *pieces_of(gpugrad, package_piece), *OTHERS],
        "_ops": [op_definition(name, value) for name, value in ops.items()],
        "_tensor_methods": [tensor_methods_stub()],
        **{f: pieces_of(getattr(gpugrad, f), room_piece) for f in ("fft", "linalg", "special")},
        "optim/__init__": pieces_of(optim, optim_piece),
        "optim/formulas": [
            *("from .optimizer import Optimizer", "from .scheduler import LRScheduler"),
            *map(class_definition, formulas.Formula.__subclasses__()),
        ],
        "nn/__init__": pieces_of(nn, nn_piece),
        "nn/functional": pieces_of(nn.functional, nn_piece),
        **{f"numpy/{room or '__init__'}": numpy_stub(room) for room in ("", "linalg", "fft")},
    }
    with TemporaryDirectory() as folder:
        paths = {name: Path(folder, f"{number}.pyi") for number, name in enumerate(texts)}
        for name, pieces in texts.items():
            head = HEAD.replace("from .", "from ..").replace(" as Tensor", "")
            pieces = [*(head if "/" in name else HEAD).splitlines(), *pieces]
            pieces = sorted(dict.fromkeys(pieces), key=lambda piece: not piece.startswith("from "))
            text = "\n".join(["# Written by tests/write_stubs.py.\n", *pieces])
            paths[name].write_text(text, "utf-8")
        for command in ["check", "--fix-only", "--select=F401,I"], ["format"]:
            options = ["--quiet", f"--config={ROOT.parent / 'pyproject.toml'}", folder]
            subprocess.run([sys.executable, "-m", "ruff", *command, *options], check=True)
        return {ROOT / f"{name}.pyi": path.read_text("utf-8") for name, path in paths.items()}


# What the package has besides the names in its list; bfloat16 needs ml_dtypes.
OTHERS = """\
bfloat16: Any
__version__: str
__array_api_version__: str
def __array_namespace_info__() -> Any: ...
""".splitlines()


def pieces_of(space, piece):
    """Return the imports of public modules, and ``piece(name, value)`` for other public names."""
    values = [(name, getattr(space, name)) for name in space.__all__]
    pieces = [imported(n, ".") if isinstance(v, ModuleType) else piece(n, v) for n, v in values]
    return [*filter(None, pieces)]


def imported(name, place):
    """Return the line that imports a name for users of the stub, too."""
    return f"from {place} import {name} as {name}"


def numpy_stub(room):
    """Return the stub of `gpugrad.numpy` or of one of its modules.

    A call has a Tensor as its result where one is its first argument, or the second of two. What
    other calls return depends on where Tensors are in them, and calls of constants are NumPy's own.
    """
    pieces = []
    if not room:
        pieces += [imported(name, ".") for name in ("fft", "linalg", "random")] + [UFUNCS]
    for key, function in sorted(FUNCTIONS.items()):
        space, _, name = key.rpartition(".")
        if space != room or key in NOT_ONE_TENSOR:
            continue
        first, *others = inspect.signature(function).parameters.values()
        if [first.name, *(p.name for p in others)] in (["x"], ["x1", "x2"]) and not room:
            pieces.append(f"{name}: {'_OfTwo' if others else '_OfOne'}")
            continue
        kind = "Sequence[Tensor]" if key in OF_SEQUENCES else "Tensor"
        others = [p.replace(annotation=Source("Any")) for p in others]
        ways = [[first.replace(annotation=Source(kind)), *others]]
        if others and others[0].name in ("x2", "b", "a2", "ar2"):
            second = others[0].replace(annotation=Source(kind))
            ways.append([first.replace(annotation=Source("Any")), second, *others[1:]])
        taken = [inspect.Signature(p, return_annotation=Source("Tensor")) for p in ways]
        for signature in *taken, "(*args: Any, **kwargs: Any) -> Any":
            pieces.append(f"@overload\ndef {name}{signature}: ...")
    return [*pieces, "def __getattr__(name: str) -> Any: ..."]


def package_piece(name, value):
    """Return the line of the package's stub for a name, which another module defines."""
    if type(value) is float or not getattr(value, "__module__", "").startswith("gpugrad"):
        return f"{name}: {'float' if type(value) is float else 'Any'}"
    is_known = value is Tensor or is_op(value)
    return None if is_known else imported(name, value.__module__.removeprefix("gpugrad"))


def nn_piece(name, value):
    """Return the definition or the import of a layer or of a function."""
    if is_op(value):
        return imported(name, ".._ops")
    if isinstance(value, type) and hasattr(value.__init__, "__signature__"):
        return layer_definition(name, value)
    if hasattr(value, "__signature__"):
        return definition(name, annotated_signature(value), value)
    return imported(name, f".{value.__module__.rpartition('.')[2]}")


def layer_definition(name, layer):
    """Return the definition of a layer whose constructor follows from a function."""
    signature = annotated_signature(layer.__init__)
    op, parameters = getattr(layer.function, "op", None), []
    for p in signature.parameters.values():
        if op and p.name in layer._options:
            p = p.replace(annotation=Source(parameter_type(op.name, op, p)))
        parameters.append(p)
    signature = signature.replace(parameters=parameters, return_annotation=Source("None"))
    text = definition(name, "(Module)", layer).replace("def ", "class ", 1)
    attributes = [f"{p.name}: {p.annotation}" for p in parameters if p.name in layer._options]
    forward = annotated_signature(layer.forward)
    if not op:  # what an op returns is what the method says
        result = annotated_signature(layer.function).return_annotation
        forward = forward.replace(return_annotation=result)
    methods = [f"def __init__{signature}: ...", f"def forward{forward}: ..."]
    return "\n    ".join([text, *attributes, *methods])


def room_piece(name, value):
    """Return the definition of a function in a namespace of ops, or its import."""
    if vars(gpugrad).get(name) is value:
        return imported(name, "._ops")
    if is_op(value):
        return op_definition(name, value)
    return definition(name, annotated_signature(value), value)


def optim_piece(name, value):
    """Return the definition of an optimizer whose constructor was made, or the import of others."""
    is_written = inspect.unwrap(value.__init__).__code__.co_filename == inspect.getfile(value)
    return imported(name, value.__module__) if is_written else class_definition(value)


def class_definition(kind):
    """Return the definition of a class with the constructor that was made for it."""
    base = next(base for base in kind.__mro__[1:] if base is not formulas.Formula)
    text = definition(kind.__name__, f"({base.__name__})", kind).replace("def", "class", 1)
    taken = annotated_signature(kind.__init__)
    attributes = [taken.parameters[name] for name in getattr(kind, "_options", ())]
    lines = [f"{p.name}: {p.annotation}" for p in attributes]
    return "\n    ".join([text, *lines, f"def __init__{taken}: ..."])


def tensor_methods_stub():
    """Return the stub of what ops add to `Tensor`; for type checkers it is a base class."""
    other, lines = "(self, other: Array | complex, /)", []
    for name in OPERATORS:
        lines += [f"def __{prefix}{name}__{other} -> Tensor: ..." for prefix in ("", "r")]
        lines.append(f"def __i{name}__{other} -> Self: ...")
    # Other classes answer with a bool to these two.
    override = "(self, other: object, /) -> Tensor: ...  # type: ignore[override]"
    rests = dict.fromkeys(COMPARISONS, f"{other} -> Tensor: ...") | {"eq": override, "ne": override}
    lines += [f"def __{name}__{rest}" for name, rest in rests.items()]
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
        elif is_op(value):
            lines.append(op_definition(name, value, is_method=True))
        else:
            lines.append(definition(name, annotated_signature(value), value))
    return "\n    ".join(["class TensorMethods:", *"\n".join(lines).splitlines()])


def is_op(value):
    return isinstance(getattr(value, "op", None), Op) or value in [*composites.values()]


def definition(name, signature, value):
    """Return the definition of a function whose body is its docstring."""
    doc = inspect.getdoc(value) or ""
    end = "\n" if "\n" in doc else ""
    body = f'"""{doc}{end}"""' if doc else "..."
    return "\n    ".join([f"def {name}{signature}:", *body.splitlines()])


def annotated_signature(function):
    """Return the signature of a function that has annotations."""

    def source(annotation):
        if annotation is inspect.Parameter.empty:
            return annotation
        named = isinstance(annotation, type)
        text = annotation.__name__ if named else inspect.formatannotation(annotation)
        return Source(re.sub(r"typing\.|collections\.abc\.|gpugrad\.(\w+\.)*", "", text))

    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    return signature.replace(
        parameters=[p.replace(annotation=source(p.annotation)) for p in parameters],
        return_annotation=source(signature.return_annotation),
    )


def op_definition(name, call, is_method=False):
    """Return the definition of an op, or of a composite."""
    op = getattr(call, "op", None)
    public = op.name if op else next(key for key, value in composites.items() if value is call)
    signature, parameters = inspect.signature(call), []
    for i, p in enumerate(signature.parameters.values()):
        hint = parameter_type(public, op, p)
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


def parameter_type(public, op, p):
    """Return the type of a parameter: by the tables, by its default, or of an input."""
    if known := TYPES_OF.get(f"{public}.{p.name}"):
        return known
    by_default = type(p.default) in (bool, float, int, str)
    if p.name not in op.inputs if op else p.name in TYPES or by_default:
        return TYPES.get(p.name) or type(p.default).__name__
    if op and op.variadic:
        return "Iterable[Array | complex]"
    is_array = op is None or len(op.inputs) == 1 or p.kind is p.POSITIONAL_ONLY
    return "Array" if is_array else "Array | complex"


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, "utf-8")
