"""Print as JSON the names in modules and classes and, where known, their parameters.

Standard input may hold this output for the stand-in, to ask CuPy for the same names only.
"""

import importlib
import importlib.util
import inspect
import json
import re
import sys
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace

MODULES = (
    "cupy cupy.linalg cupy.fft cupy.cuda cupy.cuda.device cupy.cuda.function cupy.cuda.memory "
    "cupy.cuda.pinned_memory cupy.cuda.runtime "
    "cupy._core cupy._core._routines_linalg cupyx"
)
CLASSES = (
    "cupy.ndarray cupy.ufunc cupy.RawKernel cupy.RawModule cupy.cuda.Device cupy.cuda.Event "
    "cupy.cuda.Graph cupy.cuda.MemoryPointer cupy.cuda.MemoryPool cupy.cuda.Stream "
    "cupy.cuda.memory.PooledMemory"
)
# Classes whose objects only CuPy makes.
MADE_BY_CUPY = "ndarray ufunc MemoryAsync PooledMemory UnownedMemory"


def public_names(owner):
    """Return the public names, and for a class the special methods."""
    names = getattr(owner, "__all__", None) or dir(owner)
    if not inspect.isclass(owner):
        return [n for n in names if n[0] != "_" and not inspect.ismodule(getattr(owner, n))]
    hidden = {"__dict__", "__module__", "__weakref__"}
    return [n for n in names if n.endswith("__") or not n.startswith("_") if n not in hidden]


def parameters(function, name):
    """Return names, kinds and whether there is a default; from docstrings only the names."""
    if isinstance(function, str):
        return names_in(function, name)
    is_known = callable(function) and name not in MADE_BY_CUPY.split()
    if name.startswith("__") or not is_known or type(function).__name__ == "ufunc":
        return None
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # compiled code has its signature in its docstring
        return names_in((function.__doc__ or "").partition("\n")[0], name)
    return [(p.name, int(p.kind), p.default is not p.empty) for p in found]


def names_in(line, name):
    text = re.search(rf"\b{name}\((.*)\)", line)
    return text and re.findall(r"(\w+)(?:=[^,]*)?(?:,|$)", text[1])


def cublas():
    """Return the module; for CuPy's own, which loads cuBLAS, the signatures in its file."""
    if Path(importlib.import_module("cupy").__file__).parents[1] == Path(__file__).parent:
        return importlib.import_module("cupy.cuda.cublas")
    file = Path(importlib.util.find_spec("cupy_backends.cuda.libs.cublas").origin)
    lines = re.findall(rb"\0(((?:gemm|setMath)\w+)\([\w ,]+\))\0", file.read_bytes())
    return SimpleNamespace(**{name.decode(): line.decode() for line, name in lines})


owners = {name: importlib.import_module(name) for name in MODULES.split()}
owners["cupy.cuda.cublas"] = cublas()
owners["cupyx.scipy.special"] = importlib.import_module("cupyx.scipy.special")
for name in CLASSES.split():
    owners[name] = attrgetter(name.removeprefix("cupy."))(owners["cupy"])
requested, described = json.loads(sys.stdin.read() or "{}"), {}
for path, owner in owners.items():
    names = [n for n in requested.get(path, public_names(owner)) if hasattr(owner, n)]
    described[path] = {n: parameters(getattr(owner, n), n) for n in names}
print(json.dumps(described))
