"""Imports go downwards only, and array libraries are imported by backends, and only if needed."""

import ast
import textwrap
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

from samples import every
from stand_in import run

import gpugrad

ROOT = Path(gpugrad.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# A module imports from its own room and from lower floors.
FLOORS = [
    {"_typing"},
    {"backends", "_foreign_names", "_thread_state", "_ops", "_tensor_methods"},
    {"autograd", "_draws"},
    {"_tensor"},
    {"_batched"},
    {"_arguments", "_dtypes"},
    {"ops"},
    {"_creation", "_processes", "_info", "_limits", "random", "cuda", "linalg", "special"},
    {"fft"},
    {"numpy"},
    {"tools", "transforms", "kernels"},
    {"nn", "io", "testing", "einops", "scipy", "tree"},
    {"data", "optim"},
    {"amp", "tape"},
    {"distributed"},
    {"training"},
    {""},  # the package itself, which imports all other rooms
    {"__main__"},
]
# Modules that import by a name that is no text in the code.
COMPUTED = {
    "__init__.py", "autograd/implementation.py", "backends/registry.py", "nn/common.py",
    "numpy/__init__.py", "scipy/__init__.py",
}  # fmt: skip
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room(name):
    """Return the room of a dotted module name: ``backends`` for ``gpugrad.backends.numpy``."""
    return (name.split(".") + [""])[1]


@cache
def imports(path, for_checkers=True):
    """Return the lines and dotted names of all imports of a file, gpugrad's as ``gpugrad...``.

    This includes imports in functions, those by string, and with ``for_checkers`` those under
    ``TYPE_CHECKING``.
    """
    package = ".".join(path.relative_to(ROOT.parent).parts[:-1])
    return [*imports_in(parsed(path), package, for_checkers)]


@cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


def imports_in(tree, package, for_checkers=True):
    for node in nodes(tree, for_checkers):
        if name := named_by_string(node):
            yield node.lineno, resolve_name(name, package)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            for alias in node.names:
                below = ROOT.parent.joinpath(*base.split("."), alias.name)
                is_module = below.is_dir() or below.with_suffix(".py").exists()
                yield node.lineno, f"{base}.{alias.name}" if is_module else base


def named_by_string(node):
    """Return the name in ``import_module("...")``, ``__import__("...")`` and ``modules["..."]``.

    Of an f-string it is what comes before the first value.
    """
    match argument(node):
        case ast.Constant(str(text)) | ast.JoinedStr([ast.Constant(str(text)), *_]):
            return text.rstrip(".")
    return None


def argument(node):
    """Return what says the name in such a call or subscript, or None."""
    match node:
        case ast.Call(ast.Name(called) | ast.Attribute(attr=called), [name, *_]):
            return name if called.strip("_") in ("import_module", "import") else None
        case ast.Subscript(ast.Name(called) | ast.Attribute(attr=called), name):
            return name if called.strip("_") == "modules" else None
    return None


def nodes(tree, for_checkers):
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        is_guard = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        pending += node.orelse if is_guard and not for_checkers else ast.iter_child_nodes(node)


def module_of(path):
    """Return the name of a file's module, ``gpugrad.backends`` for ``backends/__init__.py``."""
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def graph():
    """Return gpugrad's modules, each with those it imports, except imports for type checkers.

    An import from a module in a package counts for that module alone, although Python loads
    the package's ``__init__`` before it.
    """
    found = {module_of(p): imports(p, for_checkers=False) for p in MODULES}
    return {p: {x for _, x in xs if x.split(".")[0] == "gpugrad"} for p, xs in found.items()}


def test_no_modules_import_each_other():
    TopologicalSorter(graph()).prepare()  # its error names a circle of imports


def test_imports_go_downwards_and_array_libraries_stay_in_the_backends():
    assert {room(module_of(path)) for path in MODULES} <= {*FLOOR_OF}, "give each room a floor"
    for (path, _, name), checked in every((p, *found) for p in MODULES for found in imports(p)):
        here, package, there = room(module_of(path)), name.split(".")[0], room(name)
        with checked:
            if package in {"numpy", "cupy", "array_api_compat", "torch", "jax"}:
                assert here in ("backends", "kernels")
            elif package == "gpugrad" and here != there:
                assert there in FLOOR_OF, f"{there} has no floor; give it one"
                assert FLOOR_OF[there] < FLOOR_OF[here], f"{there} is not below {here}"


def test_the_reader_of_imports_sees_imports_by_string():
    source = """
        import_module("gpugrad.numpy")
        importlib.import_module(f"gpugrad.nn.{name}")
        __import__("torch")
        sys.modules["gpugrad.optim"]
        _import_module(".loader")
        import_module(name), modules[name], modules[f"{name}"]
    """
    found = sorted(imports_in(ast.parse(textwrap.dedent(source)), "gpugrad.data"))
    expected = "gpugrad.numpy gpugrad.nn torch gpugrad.optim gpugrad.data.loader".split()
    assert [name for _, name in found] == expected


def test_modules_do_not_reach_the_package_while_they_are_imported():
    """The package is `call.namespace`, for rules that run on Tensors; it is installed last."""
    for path, statement in ((p, s) for p in MODULES for s in parsed(p).body):
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            assert "call.namespace" not in ast.unparse(statement), f"{path}:{statement.lineno}"


def test_imports_by_a_computed_name():
    """Only these are there, which import what is registered with them or named in a table."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        for node in nodes(parsed(path), for_checkers=True)
        if isinstance(node, ast.Call) and argument(node) and not named_by_string(node)
    }
    assert found == COMPUTED


def test_importing_loads_no_other_library_and_no_tools():
    code = "import sys, gpugrad; gpugrad.ones(3).sum(); print(*sys.modules)"
    loaded = {*run("-c", code).stdout.split()}
    assert "gpugrad.ops" in loaded
    others = {"cupy", "torch", "jax", "matplotlib", "optree", "scipy", "safetensors"}
    assert not loaded & {*others, "gpugrad.numpy", "gpugrad.tools"}
