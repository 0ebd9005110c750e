"""Writes the pages of the reference from the public names of the package.

The build calls it; nothing that it writes is committed. A name is public if it is in the `__all__`
of a public module; there is nothing to add here for a new one.
"""

import importlib
import inspect
import shutil
from pathlib import Path

# The page of each name of `gpugrad` itself, by the module in which it is defined.
TOPICS = {
    "tensor": ("The tensor", ["Tensor"]),
    "creation": ("Making tensors", ["gpugrad._creation"]),
    "dtypes": (
        "Dtypes and constants",
        ["gpugrad._dtypes", "gpugrad._limits"],
    ),
    "elementwise": (
        "Elementwise functions",
        ["gpugrad.ops.elementwise", "gpugrad.ops.transcendental"],
    ),
    "reductions": ("Reductions, sums and differences", ["gpugrad.ops.reductions"]),
    "shapes": (
        "Shapes, copies and devices",
        ["gpugrad.ops.manipulation", "gpugrad.ops.padding"],
    ),
    "indexing": (
        "Indexing, sorting, searching and sets",
        ["gpugrad.ops.indexing", "gpugrad.ops.searching"],
    ),
    "products": ("Products", ["gpugrad.ops.products"]),
    "neural": (
        "Operations of networks",
        [
            "gpugrad.ops.neural",
            "gpugrad.ops.activations",
            "gpugrad.ops.attention",
            "gpugrad.ops.convolution",
            "gpugrad.ops.dropout",
            "gpugrad.ops.normalization",
            "gpugrad.ops.recurrent",
            "gpugrad.ops.windows",
        ],
    ),
    "autograd": ("Gradients", ["gpugrad.autograd", "gpugrad.autograd.mode"]),
    "transforms": ("Derivatives of functions", ["gpugrad.transforms"]),
    "compile": ("Compiling", ["gpugrad.tape"]),
    "tools": ("Tools", ["gpugrad.tools"]),
    "more": ("Other functions", ["gpugrad"]),  # all that is left
}

# Of these modules only the names are shown.
LISTS = {"numpy", "numpy.fft", "numpy.linalg", "numpy.random", "scipy.special"}

DTYPES = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
    complex64 complex128
""".split()
CONSTANTS = "e inf nan newaxis pi".split()


def write(folder):
    """Write all pages, in place of those that were there."""
    folder = Path(folder)
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    for name, text in pages().items():
        (folder / f"{name}.rst").write_text(text, "utf-8")


def pages():
    """The text of each page by its name."""
    found = topics()
    modules = [name for name in public_modules() if name not in TOPICS]
    found |= {name: module_page(name) for name in modules}
    return {**found, "index": index(found, modules)}


def public_modules(name=""):
    """The modules below ``gpugrad`` that are in an ``__all__``, without that prefix."""
    path = f"gpugrad.{name}".rstrip(".")
    module = importlib.import_module(path)
    for inner in sorted(module.__all__):
        value = getattr(module, inner)
        if inspect.ismodule(value) and value.__name__ == f"{path}.{inner}":
            inner = f"{name}.{inner}".lstrip(".")
            yield inner
            yield from public_modules(inner)


def topics():
    """The pages of the names of `gpugrad` itself, each on one page."""
    import gpugrad

    elsewhere = {*DTYPES, *CONSTANTS, "load", "save", "manual_seed"}
    left = {
        name
        for name in {*gpugrad.__all__} - elsewhere
        if not inspect.ismodule(getattr(gpugrad, name))
    }
    found = {}
    for page, (title, homes) in TOPICS.items():
        names = sorted(name for name in left if _belongs(name, getattr(gpugrad, name), homes))
        left -= set(names)
        first = dtypes() if page == "dtypes" else ""
        if names:
            found[page] = heading(title) + first + entries("gpugrad", names)
    return found


def _belongs(name, value, homes):
    home = getattr(value, "__module__", "")
    return name in homes or any(f"{home}.".startswith(f"{h}.") for h in homes)


def dtypes():
    """A list of the dtypes and the constants, which have no docstrings."""
    return (
        "The dtypes are " + ", ".join(f"``{name}``" for name in DTYPES) + ", all attributes of "
        "``gpugrad``. Each is equal to its name, and to NumPy's dtype of this name. ``bfloat16`` "
        "needs the package ``ml_dtypes``, which the extra ``bf16`` installs.\n\n"
        "The constants are " + ", ".join(f"``{name}``" for name in CONSTANTS) + ".\n\n"
    )


def module_page(name):
    """The page of a public module: its docstring, a table of its names, then each name."""
    path = f"gpugrad.{name}"
    module = importlib.import_module(path)
    names = [n for n in module.__all__ if not inspect.ismodule(getattr(module, n))]
    text = heading(path) + f".. automodule:: {path}\n   :no-members:\n\n"
    if name in LISTS:
        return text + ", ".join(f"``{n}``" for n in sorted(names)) + "\n"
    if name in ("io", "random"):
        at_the_top = "save and load" if name == "io" else "manual_seed"
        text += f"The package itself has {at_the_top} too.\n\n"
    return text + entries(path, names)


def entries(space, names):
    """A table of names with the first lines of their docstrings, then each whole."""
    if not names:
        return ""
    module = importlib.import_module(space)
    text = f".. currentmodule:: {space}\n\n.. autosummary::\n   :nosignatures:\n\n"
    text += "".join(f"   {name}\n" for name in names) + "\n"
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value):
            members = "\n   :members:" if _documented_members(value) else ""
            inherited = "\n   :inherited-members:" if name in ("Tensor",) else ""
            text += f".. autoclass:: {name}{members}{inherited}\n\n"
        elif callable(value):
            text += f".. autofunction:: {name}\n\n"
        else:
            text += f".. autodata:: {name}\n   :no-value:\n\n"
    return text


def _documented_members(kind):
    return any(name[0] != "_" and callable(value) for name, value in vars(kind).items())


def heading(title):
    return f"{title}\n{'=' * len(title)}\n\n"


def index(found, modules):
    """The list of all pages: those that were found, of topics and of modules."""
    text = heading("Reference")
    text += (
        "Everything public, from the docstrings. Functions of arrays are named as in the `Python "
        "array API standard <https://data-apis.org/array-api/latest/>`__; gradients, layers, "
        "optimizers and loaders as in PyTorch; transforms as in JAX. What is not listed here is "
        "private and may change.\n\n"
    )
    of_topics = [page for page in TOPICS if page in found]
    arrays = of_topics[: of_topics.index("autograd")]
    namespaces = ["linalg", "fft", "special", "random"]
    others = [name for name in modules if name.split(".")[0] in ("numpy", "scipy")]
    shown = [*arrays, *namespaces, *others, "tree", "testing"]
    for caption, pages in (
        ("Tensors and their functions", arrays),
        (
            "Gradients, derivatives and tools",
            [p for p in of_topics if p not in arrays] + ["tree", "testing"],
        ),
        ("Namespaces", namespaces),
        ("Training and devices", [name for name in modules if name not in shown]),
        ("Other libraries", others),
    ):
        text += f".. toctree::\n   :maxdepth: 1\n   :caption: {caption}\n\n"
        text += "".join(f"   {page}\n" for page in pages) + "\n"
    return text
