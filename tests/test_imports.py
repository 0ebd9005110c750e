"""Imports go downwards only, array libraries stay in the backends, and none is loaded unasked."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gpugrad

ROOT = Path(gpugrad.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# A module imports from its own room and from lower floors.
FLOORS = [
    {"backends", "foreign_names", "_draws", "_ops", "_tensor_methods", "_typing"},
    {"autograd", "display"},
    {"tensor"},
    {"batched"},
    {"arguments", "dtypes"},
    {"ops"},
    {"creation", "info", "random", "cuda", "linalg", "special"},
    {"fft"},
    {"tools", "transforms"},
    {"nn", "optim", "data", "io", "testing", "einops"},
    {""},  # the package itself, which shows it all to users and is imported by none of it
]
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def room(name):
    """The room of a dotted module name: ``backends`` of ``gpugrad.backends.numpy``."""
    return (name.split(".") + [""])[1]


def imports(path):
    """The dotted names of all modules that a file imports, ours as ``gpugrad...``."""
    package = ["gpugrad", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                base = package[: len(package) - node.level + 1]
                source = ".".join([*base, *filter(None, [source])])
            for alias in node.names:
                below = source.replace("gpugrad", str(ROOT), 1).replace(".", "/")
                is_module = source.startswith("gpugrad") and (
                    Path(below, alias.name).is_dir() or Path(below, f"{alias.name}.py").exists()
                )
                yield node.lineno, f"{source}.{alias.name}" if is_module else source


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_downwards(path):
    relative = path.relative_to(ROOT)
    here = "" if relative.name == "__init__.py" and len(relative.parts) == 1 else relative.parts[0]
    here = here.removesuffix(".py")
    assert here in FLOOR_OF, f"{relative} has no floor; give it one"
    for line, name in imports(path):
        if name.split(".")[0] != "gpugrad":
            continue
        there = room(name)
        assert there in FLOOR_OF, f"{relative}:{line} imports {name}, which has no floor"
        if here == there:
            continue
        allowed = FLOOR_OF[there] < FLOOR_OF[here]
        assert allowed, f"{relative}:{line} imports {name}, which is not below it"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_array_libraries_stay_in_the_backends(path):
    if path.relative_to(ROOT).parts[0] == "backends":
        return
    libraries = {"numpy", "cupy", "array_api_compat", "torch", "jax"}
    for line, name in imports(path):
        assert name.split(".")[0] not in libraries, f"{path.name}:{line} imports {name}"


def test_the_reader_of_imports_sees_them():
    found = {name for _, name in imports(ROOT / "autograd" / "sweep.py")}
    assert {"sys", "gpugrad.backends", "gpugrad.autograd.graph", "gpugrad.autograd.mode"} <= found
    found = {name for _, name in imports(ROOT / "backends" / "numpy.py")}
    assert {"numpy", "gpugrad.backends.base"} <= found


def test_importing_loads_no_other_array_library():
    code = "import sys, gpugrad; print(*{name.partition('.')[0] for name in sys.modules})"
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "gpugrad" in output
    assert not {"cupy", "torch", "jax", "matplotlib", "scipy", "safetensors"} & set(output)
