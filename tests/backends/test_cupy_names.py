"""CuPy has every name, keyword and parameter that gpugrad uses of it; no GPU is needed.

The uses are read from the source of the package, so there is no list of them here.
"""

import ast
import builtins
import importlib
import importlib.util
import inspect
import re
from collections import deque
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import gpugrad

cupy = pytest.importorskip("cupy", exc_type=ImportError)
if hasattr(cupy, "_reads"):
    pytest.skip("the stand-in for CuPy has no signatures", allow_module_level=True)

from cupy.fft._cache import PlanCache  # noqa: E402

from gpugrad.backends.cupy.cublas import _SIGNATURES  # noqa: E402  cuBLAS's own functions

PACKAGE = Path(gpugrad.__file__).parent
ROOTS = ("cupy", "cupyx", "cupy_backends")


class Use(NamedTuple):
    """A name of CuPy that gpugrad uses, such as ``cupy.cuda.Stream``, and the call, if it is one.

    For attributes of variables only the last word is known, as in ``.wait_event``.
    """

    name: str
    where: str
    call: ast.Call | None


def uses():
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        where = str(path.relative_to(PACKAGE))
        found = list(uses_in_tree(tree, {}, set(imported_elsewhere(tree)), where))
        if any(use.name[0] != "." for use in found):  # else the file does not use CuPy
            yield from found


def uses_in_tree(tree, known, imported_elsewhere, where):
    """Yield the uses of CuPy in a syntax tree.

    known: CuPy's names, by what they are called in this scope.
    imported_elsewhere: names that are imported from other packages.
    """
    calls = {node.func: node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    known = known | dict(imported_from_cupy(tree))
    for name in dict(imported_from_cupy(tree)).values():
        yield Use(name, where, None)
    waiting = deque(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from uses_in_tree(node, known, imported_elsewhere, where)
            continue
        line = f"{where}:{getattr(node, 'lineno', '')}"
        if isinstance(node, ast.Attribute):
            words = dotted_words(node)
            if words is None:
                yield Use(f".{node.attr}", line, calls.get(node))
            elif words[0] in known:
                yield Use(".".join((known[words[0]], *words[1:])), line, calls.get(node))
            elif words[0] not in ("xp", *imported_elsewhere) and words[:-1] != ["self"]:
                yield Use(f".{node.attr}", line, calls.get(node))
        elif isinstance(node, ast.Name) and node.id in known:
            yield Use(known[node.id], line, calls.get(node))
        waiting += ast.iter_child_nodes(node)


def imported_from_cupy(tree):
    """Yield what a function or module imports from CuPy: the local name, and CuPy's name."""
    waiting = deque(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.Import):
            for a in node.names:
                root = a.name.split(".")[0]
                if root in ROOTS:
                    yield a.asname or root, a.name if a.asname else root
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for a in node.names:
                if node.module.split(".")[0] in ROOTS:
                    yield a.asname or a.name, f"{node.module}.{a.name}"
        elif not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def imported_elsewhere(tree):
    """Yield the local names of a file's imports from other packages."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for a in node.names:
                name = getattr(node, "module", None) or a.name
                if name.split(".")[0] not in ROOTS and not getattr(node, "level", 0):
                    yield a.asname or a.name.split(".")[0]


def dotted_words(node):
    """Split ``cupy.cuda.Stream`` into its words; None if it does not begin with a plain name."""
    words = []
    while isinstance(node, ast.Attribute):
        words.insert(0, node.attr)
        node = node.value
    return [node.id, *words] if isinstance(node, ast.Name) else None


# The names that CuPy has


def resolve(name):
    parts = name.split(".")
    found = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(".".join(parts[:i]))
        except ImportError:  # its library is not installed, but the files have its signatures
            library = importlib.util.find_spec(f"cupy_backends.cuda.libs.{part}")
            found = compiled_functions(library.origin) if library else sources(parts[:i])
    return found


def sources(parts):
    """Return the functions in a package's files as objects that have only a signature."""
    folder = Path(importlib.import_module(parts[0]).__file__).parent.joinpath(*parts[1:])
    trees = [ast.parse(path.read_text("utf-8")) for path in folder.glob("*.py")]
    functions = [f for tree in trees for f in tree.body if isinstance(f, ast.FunctionDef)]
    return documented((f"{f.name}({ast.unparse(f.args)})", f.name) for f in functions)


def documented(signatures):
    return SimpleNamespace(**{name: SimpleNamespace(__doc__=line) for line, name in signatures})


def compiled_functions(path):
    """Return the functions of a compiled module as objects that have only a docstring."""
    lines = re.findall(rb"\0((\w+)\([\w ,=*]*\)(?: -> \w+)?)\0", Path(path).read_bytes())
    return documented((line.decode(), name.decode()) for line, name in lines)


def signature(function, name, of_method=False):
    """Return a function's signature, for compiled code from its docstring, or None.

    of_method: without ``self``.
    """
    if isinstance(function, cupy.ufunc):
        inputs = ", ".join(f"x{i}" for i in range(function.nin))
        return parse_signature(f"{inputs}, /, out=None, *, casting='same_kind', dtype=None")
    try:
        known = inspect.signature(function)
    except (TypeError, ValueError):
        lines = (function.__doc__ or "").splitlines()
        texts = [re.search(rf"\b{name}\((.*?)\)(?: ->.*)?$", line.strip()) for line in lines]
        known = next((parse_signature(x[1].replace("\\", "")) for x in texts if x), None)
    if of_method and known is not None and "self" in known.parameters:
        known = known.replace(parameters=list(known.parameters.values())[1:])
    return known


def parse_signature(text):
    """Parse the signature in a docstring, such as ``str code=None, *, tuple options=()``."""
    kind, result = inspect.Parameter.POSITIONAL_OR_KEYWORD, []
    for part in re.split(r",(?![^(]*\))", text):
        head, _, default = part.strip().partition("=")
        stars, name = re.fullmatch(r"(\**)(?:.*\W)?(\w*)/?", head.strip()).groups()
        if head.strip() == "/":
            result = [p.replace(kind=p.POSITIONAL_ONLY) for p in result]
        elif stars == "*" and not name:
            kind = inspect.Parameter.KEYWORD_ONLY
        elif stars:
            variable = {"*": "VAR_POSITIONAL", "**": "VAR_KEYWORD"}[stars]
            result.append(inspect.Parameter(name, getattr(inspect.Parameter, variable)))
            kind = inspect.Parameter.KEYWORD_ONLY
        elif name and name != "self":
            default = default or inspect.Parameter.empty
            result.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(result)


def fits(call, known):
    """Return whether a call fits a signature; unpacked arguments may be anything."""
    args = [a for a in call.args if not isinstance(a, ast.Starred)]
    keywords = {k.arg: k.value for k in call.keywords if k.arg}
    is_whole = len(args) == len(call.args) and len(keywords) == len(call.keywords)
    try:
        (known.bind if is_whole else known.bind_partial)(*args, **keywords)
    except TypeError:
        return False
    return True


CUBLAS = compiled_functions(importlib.util.find_spec("cupy_backends.cuda.libs.cublas").origin)
CUPY_TYPES = [
    CUBLAS,
    cupy.ndarray,
    cupy.ufunc,
    cupy.cuda.Device,
    cupy.cuda.Event,
    cupy.cuda.Stream,
    PlanCache,
    cupy.cuda.graph.Graph,
    cupy.cuda.MemoryPool,
    cupy.cuda.MemoryPointer,
    cupy.cuda.memory.PooledMemory,
    cupy.RawModule,
    cupy.RawKernel,
    cupy._core.flags.Flags,
]
PYTHON_TYPES = [
    np.dtype, deque, Path, MappingProxyType, str, bytes, dict, list, tuple, set,
    int, float, type, BaseException, ImportError, type(ast),
]  # fmt: skip


def has_attribute(kind, name):
    """Return whether a class has the attribute, or documents that its instances have it."""
    if hasattr(kind, name) or kind is CUBLAS:
        return hasattr(kind, name)
    return name in re.findall(rf"~{kind.__name__}\.(\w+)", kind.__doc__ or "")


def in_compiled_code(name):
    """Return whether compiled code of CuPy contains the name, so that instances may have it."""
    files = {inspect.getfile(importlib.import_module(k.__module__)) for k in CUPY_TYPES[1:]}
    files.add(importlib.util.find_spec("cupy_backends.cuda.libs.nccl").origin)
    return any(re.search(rf"\b{name}\b".encode(), Path(file).read_bytes()) for file in files)


def own_names():
    """Yield every name that gpugrad itself defines or sets as an attribute."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.ImportFrom):
                yield from [a.asname or a.name for a in node.names]
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.id if isinstance(node, ast.Name) else node.attr


USES = list(uses())
OWN_NAMES = {*own_names(), *dir(builtins)}


def problem(use):
    """Return what CuPy lacks for a use, or None."""
    word = use.name.rpartition(".")[2]
    if use.name[0] != ".":
        try:
            known = [signature(resolve(use.name), word)] if use.call else []
            resolve(use.name)
        except ModuleNotFoundError:
            return f"{use.where}: CuPy has no {use.name}"
        if None in known:
            return f"{use.where}: {use.name} has no signature"
    else:
        kinds = [kind for kind in CUPY_TYPES if has_attribute(kind, word)]
        ours = word in OWN_NAMES | set(_SIGNATURES) or any(
            has_attribute(kind, word) for kind in PYTHON_TYPES
        )
        if not (kinds or ours or in_compiled_code(word)):
            return f"{use.where}: nothing has {use.name}"
        kinds += [kind for kind in PYTHON_TYPES if kinds and has_attribute(kind, word)]
        known = [signature(getattr(kind, word), word, True) for kind in kinds] if use.call else []
        known = [] if None in known else known
    if known and not any(fits(use.call, s) for s in known):
        return f"{use.where}: {ast.unparse(use.call)} does not fit {word}{known[0]}"
    return None


def test_the_source_is_read():
    names = {use.name for use in USES}
    assert {"cupy.array", "cupyx.errstate", "cupy.cuda.Stream", "cupyx.empty_pinned"} <= names
    assert {".wait_event", ".set", ".astype"} <= names


@pytest.mark.parametrize("name", sorted({use.name for use in USES}))
def test_cupy_has(name):
    """Some class has each method or attribute of a variable, and calls fit CuPy's signature."""
    assert [p for use in USES if use.name == name and (p := problem(use))] == []


@pytest.mark.parametrize(
    "wrong, message",
    [
        ("cupy.cuda.Streem()", "CuPy has no cupy.cuda.Streem"),
        ("cupy.no.such", "CuPy has no cupy.no.such"),
        ("cupy.empty((2,), device=0)", "does not fit empty"),
        ("cupy.add(1)", "does not fit add"),
        ("cupy.cuda.Device(0, 1)", "does not fit Device"),
        ("cupy.RawModule('')", None),
        ("cupy.RawModule(code='', option=())", "does not fit RawModule"),
        ("event.wait_for()", "nothing has .wait_for"),
        ("stream.wait_event(event)", None),
        ("stream.wait_event()", "does not fit wait_event"),
        ("array.set(host, queue=stream)", "does not fit set"),
        ("array.set(host, stream=stream)", None),
    ],
)
def test_missing_names_are_found(wrong, message):
    found = [
        problem(use) for use in uses_in_tree(ast.parse(f"import cupy\n{wrong}"), {}, set(), "here")
    ]
    found = [p for p in found if p]
    assert (message is None and not found) or any(message in p for p in found)
