"""Writes the pages of the reference from the public names of the package.

The build calls it; nothing that it writes is committed. A name is public if it is in the `__all__`
of a module below, and its page shows its docstring.
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
    "compile": ("Compiling", ["gpugrad.program"]),
    "tools": ("Tools", ["gpugrad.tools"]),
}

# The other public modules. Of those in LISTS only the names are shown.
MODULES = """
    amp cuda data fft io linalg nn nn.functional nn.init nn.utils numpy numpy.fft
    numpy.linalg numpy.random optim optim.lr_scheduler
    optim.swa_utils random scipy scipy.integrate scipy.interpolate scipy.linalg scipy.optimize
    scipy.signal scipy.special scipy.stats special testing training
""".split()
LISTS = {"numpy", "numpy.fft", "numpy.linalg", "numpy.random", "scipy.special"}

DTYPES = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
    complex64 complex128
""".split()
CONSTANTS = "e inf nan newaxis pi".split()


def write(folder):
    """Write all pages, in place of those that were there."""
    folder = Path(folder)
    pages = {**topics(), **{name: module_page(name) for name in MODULES}}
    pages["index"] = index()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    for name, text in pages.items():
        (folder / f"{name}.rst").write_text(text, "utf-8")


def topics():
    """The pages of the names of `gpugrad` itself, each on one page."""
    import gpugrad

    pages = {}
    left = {
        name
        for name in gpugrad.__all__
        if not inspect.ismodule(getattr(gpugrad, name, None)) and name not in (*DTYPES, *CONSTANTS)
        if name != "bfloat16"
    }
    left -= {"load", "save", "manual_seed"}  # with the modules `io` and `random`
    for page, (title, homes) in TOPICS.items():
        names = sorted(name for name in left if _belongs(name, getattr(gpugrad, name), homes))
        left -= set(names)
        text = heading(title)
        if page == "dtypes":
            text += dtypes()
        pages[page] = text + entries("gpugrad", names)
    if left:
        raise ValueError(f"give these names a topic in {__file__}: {sorted(left)}")
    return pages


def _belongs(name, value, homes):
    home = getattr(value, "__module__", "")
    return name in homes or any(home == h or home.startswith(f"{h}.") for h in homes)


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
        shared = (
            "``gpugrad.save`` and ``gpugrad.load``" if name == "io" else "``gpugrad.manual_seed``"
        )
        text += f"{shared} are the functions of the same names here.\n\n"
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


def index():
    """The list of all pages."""
    text = heading("Reference")
    text += (
        "Everything public, from the docstrings. Functions of arrays are named as in the `Python "
        "array API standard <https://data-apis.org/array-api/latest/>`__; gradients, layers, "
        "optimizers and loaders as in PyTorch; transforms as in JAX. What is not listed here is "
        "private and may change.\n\n"
    )
    for caption, pages in (
        ("Tensors and their functions", list(TOPICS)[:9]),
        ("Gradients, derivatives and tools", [*list(TOPICS)[9:], "testing"]),
        ("Namespaces", ["linalg", "fft", "special", "random"]),
        (
            "Training",
            [
                n
                for n in MODULES
                if n.split(".")[0] in ("nn", "optim", "data", "io", "training", "amp")
            ],
        ),
        ("Devices", ["cuda"]),
        ("Other libraries", [n for n in MODULES if n.split(".")[0] in ("numpy", "scipy")]),
    ):
        text += f".. toctree::\n   :maxdepth: 1\n   :caption: {caption}\n\n"
        text += "".join(f"   {page}\n" for page in pages) + "\n"
    return text
