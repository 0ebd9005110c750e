"""Writes the pages of the reference from the public names of the package.

The build calls it; nothing that it writes is committed. A name is public if it is in the `__all__`
of a public module; there is nothing to add here for a new one. Each function and each class has a
page of its own, ``reference/gpugrad.nn.Conv2d``, with an example from `EXAMPLES` if its docstring
has none. Pages of modules and of topics have tables of them, grouped by the files that define them.
"""

import importlib
import inspect
import re
import shutil
from functools import cache
from pathlib import Path

import gpugrad
from gpugrad.numpy._protocols import FUNCTIONS, _parameters, name_of

EXAMPLES = Path(__file__).parent / "examples"

# The page of each name of `gpugrad` itself: its title, and the name or the modules that define it.
TOPICS = {
    "tensor": ("The tensor", "Tensor"),
    "creation": ("Making tensors", "gpugrad._creation"),
    "dtypes": ("Dtypes and constants", "gpugrad._dtypes gpugrad._limits"),
    "elementwise": ("Elementwise functions", "gpugrad.ops.elementwise gpugrad.ops.transcendental"),
    "reductions": ("Reductions, sums and differences", "gpugrad.ops.reductions"),
    "shapes": ("Shapes, copies and devices", "gpugrad.ops.manipulation gpugrad.ops.padding"),
    "indexing": (
        "Indexing, sorting, searching and sets", "gpugrad.ops.indexing gpugrad.ops.searching",
    ),
    "products": ("Products", "gpugrad.ops.products"),
    "neural": (
        "Operations of networks",
        """gpugrad.ops.neural gpugrad.ops.activations gpugrad.ops.attention gpugrad.ops.convolution
        gpugrad.ops.dropout gpugrad.ops.normalization gpugrad.ops.recurrent gpugrad.ops.windows""",
    ),
    "autograd": ("Gradients", "gpugrad.autograd"),
    "transforms": ("Derivatives of functions", "gpugrad.transforms"),
    "compile": ("Compiling", "gpugrad.tape"),
    "tools": ("Tools", "gpugrad.tools"),
    "files": ("Files and seeds", "gpugrad.io gpugrad.random"),
    "more": ("Other functions", "gpugrad"),  # all that is left
}  # fmt: skip

# The headings of the tables, in their order, by the files that define the names. Names of other
# files come under the file's own name.
GROUPS = {
    "Modules and containers": "nn.module nn.container nn.stateless nn.summaries",
    "Linear layers, embeddings, dropout": "nn.layers",
    "Convolution": "nn.convolution",
    "Pooling": "nn.pooling",
    "Padding": "nn.padding",
    "Resizing and rearranging": "nn.upsampling nn.sampling nn.shuffling",
    "Normalization": "nn.normalization nn.synchronized",
    "Activations": "nn.activations ops.activations ops.neural ops.transcendental",
    "Recurrent layers": "nn.recurrent",
    "Attention and transformers": "nn.attention nn.transformer",
    "Layers as functions": "nn.computations",
    "Distances and similarities": "nn.vectors",
    "Losses": "nn.losses nn.likelihoods nn.margin_losses nn.sequence_losses",
    "Schedules": "optim.lr_scheduler optim.formulas optim.scheduler",
    "Datasets": "data.dataset data.digits data.idx",
    "Loading": "data.loader data.collate",
    "Sampling": "data.samplers",
}

ORIGINALS = {
    "numpy.random": "https://numpy.org/doc/stable/reference/random/generated/",
    "numpy": "https://numpy.org/doc/stable/reference/generated/",
    "scipy": "https://docs.scipy.org/doc/scipy/reference/generated/",
}

DTYPES = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64
    complex64 complex128
""".split()


def write(folder):
    """Write all pages, and remove those that are left from before.

    A page that stays as it was is not touched, so that Sphinx need not read it again.
    """
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    texts = {folder / f"{name}.rst": text for name, text in pages().items()}
    for path in {*folder.rglob("*")} - texts.keys():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def pages():
    """The text of each page by its name."""
    found = topics()
    modules = [name for name in public_modules() if name not in TOPICS]
    found |= {name: module_page(name) for name in modules}
    found |= {names[0]: name_page(names) for names in own_pages().values()}
    found |= {"foreign_names": foreign_page(), "index": index(found, modules)}
    for name, words in keywords().items():
        words = words.replace("_", r"\_")  # at the end of a word it would make a link
        found[name] = f":keywords: {words}\n\n{found[name]}"
    return found


def keywords():
    """What users may search for, by the page that answers it, from a file with a line for each."""
    lines = Path(__file__).with_name("keywords.txt").read_text("utf-8").splitlines()
    found = dict(line.split(": ", 1) for line in lines)
    for name, foreign in foreign_names().items():
        found[name] = ", ".join([*filter(None, [found.get(name)]), *sorted(foreign)])
    return found


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


@cache
def public_names():
    """Each public name that is no module, whole, and its value."""
    found = {}
    for space in ["gpugrad", *(f"gpugrad.{name}" for name in public_modules())]:
        module = importlib.import_module(space)
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value):
                found[f"{space}.{name}"] = value
    return found


@cache
def own_pages():
    """The names of each function and class that has a page, whose name is the first of them."""
    found = {}
    for name, value in public_names().items():
        if callable(value) and not passed_on(name, value):
            found.setdefault(id(value), []).append(name)
    return found


def passed_on(name, value):
    """Whether a name is NumPy's own object: a class or a constant."""
    inside, _, last = name.removeprefix("gpugrad.").rpartition(".")
    if inside.split(".")[0] != "numpy":
        return False
    return getattr(importlib.import_module(inside), last, None) is value


def page_of(name):
    """The name of the page that describes a public name."""
    names = own_pages().get(id(public_names()[name]), [])
    return names[0] if name in names else None


def topics():
    """The pages of the names of `gpugrad` itself, by what they are for."""
    spaces = {"gpugrad", *(f"gpugrad.{topic}" for topic in TOPICS)}
    left = {n for n in public_names() if n.rpartition(".")[0] in spaces and page_of(n) == n}
    found = {}
    for page, (title, homes) in TOPICS.items():
        names = sorted(n for n in left if _belongs(n, homes.split()))
        left -= set(names)
        first = dtypes() if page == "dtypes" else ""
        if names:
            found[page] = heading(title) + first + table(names)
    return found


def _belongs(name, homes):
    home = getattr(public_names()[name], "__module__", "")
    return name.rpartition(".")[2] in homes or any(f"{home}.".startswith(f"{h}.") for h in homes)


def dtypes():
    """The dtypes and the constants, which have no docstrings."""
    constants = [n for n in gpugrad.__all__ if isinstance(getattr(gpugrad, n), float)]
    return (
        "Each dtype is equal to its name, and to NumPy's dtype of this name. Tensors of Python "
        "numbers are float32, unless ``dtype=`` says otherwise: ``gpugrad.tensor([1.0], "
        'dtype=gpugrad.float64)``. ``x.astype("float64")`` and ``gpugrad.astype(x, '
        "gpugrad.float64)`` convert, and ``model.astype`` a module. ``bfloat16`` needs the package "
        "``ml_dtypes``, which the extra ``bf16`` installs.\n\n"
        + data("gpugrad", DTYPES)
        + "``newaxis`` in an index inserts an axis; the other constants are numbers:\n\n"
        + data("gpugrad", [*constants, "newaxis"])
    )


def data(space, names):
    return f".. currentmodule:: {space}\n\n" + "".join(f".. py:data:: {n}\n\n" for n in names)


def module_page(name):
    """The page of a public module: its docstring, and tables of its names."""
    path = f"gpugrad.{name}"
    text = heading(path) + f".. automodule:: {path}\n   :no-members:\n\n"
    inside = [n for n in public_names() if n.rpartition(".")[0] == path]
    shown = [n for n in inside if page_of(n)]
    groups = {}
    for public in shown:
        groups.setdefault(group(public), []).append(public)
    places = [*GROUPS, *(title for title, _ in described().values()), *groups]
    for title in sorted(groups, key=places.index):
        if len(groups) > 1 and name != "random":
            text += f"{title}\n{'-' * len(title)}\n\n"
        text += table(sorted(groups[title]))
    if rest := [n.rpartition(".")[2] for n in inside if n not in shown]:
        text += f"NumPy's own\n-----------\n\nThese are the same as in ``{name}``.\n\n"
        text += data(path, rest)
    return text


def group(name):
    """The heading under which a name is listed on the page of its module."""
    value = public_names()[name]
    space = name.removeprefix("gpugrad.").rpartition(".")[0]
    if space.startswith("numpy"):
        return described()[page_of(name)][0]
    home = value.__module__.removeprefix("gpugrad.")
    for title, homes in GROUPS.items():
        if home in homes.split():
            return title
    return home.rpartition(".")[2].replace("_", " ").capitalize() if "special" in home else "Others"


def table(names):
    """A table of names with the first paragraphs of their docstrings."""
    text = ".. list-table::\n   :widths: auto\n   :class: names\n\n"
    for name in names:
        value = public_names()[name]
        short = described()[page_of(name)][1] if _from_numpy(value) else inspect.getdoc(value) or ""
        short = " ".join(short.partition("\n\n")[0].split())
        text += f"   * - :py:obj:`~{name}`\n     - {short}\n"
    text += "\n.. toctree::\n   :hidden:\n\n"
    return text + "".join(f"   {name}\n" for name in names if page_of(name) == name) + "\n"


def name_page(names):
    """The page of one object, which may have several names."""
    first, *others = names
    space, _, last = first.rpartition(".")
    value = public_names()[first]
    text = heading(first.removeprefix("gpugrad."))
    text += f".. currentmodule:: {space}\n\n"
    kind = "class" if inspect.isclass(value) else "function"
    if _from_numpy(value):
        text += f".. py:{kind}:: {last}{arguments(value)}\n\n{described()[first][1]}"
        if fixed := ", ".join(f"``{n}``" for n in refused(first)):
            text += (
                "    Where a Tensor requires a gradient or is on a GPU, NumPy's other arguments "
                f"must have their default values: {fixed}.\n"
            )
    else:
        text += f".. auto{kind}:: {last}\n"
        if kind == "class" and _documented_members(value):
            text += "   :members:\n" + "   :inherited-members:\n" * (last == "Tensor")
    text += "\n"
    for other in others:
        module, _, last = other.rpartition(".")
        text += f".. py:function:: {last}()\n   :module: {module}\n   :no-typesetting:\n\n"
    if others:
        text += f"The same is ``{'``, ``'.join(others)}``.\n\n"
    if example := examples().get(first):
        text += f".. rubric:: Example\n\n{imports(first)}{example}\n\n"
    if foreign := foreign_names().get(first):
        shown = ", ".join(f"``{n}``" for n in sorted(foreign))
        text += f"Other libraries call it, or something close to it, {shown}.\n\n"
    if _original(first) is not None:
        text += "The original, with its documentation: `{} <{}>`__.\n\n".format(*_address(first))
    return text


def _documented_members(kind):
    return any(name[0] != "_" and callable(value) for name, value in vars(kind).items())


def arguments(value):
    """The signature of a function of NumPy."""
    try:
        return str(inspect.signature(value)).replace("<no value>", "...")
    except ValueError:  # NumPy has no signature either
        return "(...)"


def refused(name):
    """The optional arguments of NumPy's function that it does not take with all Tensors."""
    theirs = _parameters(_original(name))
    own = FUNCTIONS.get(name_of(_original(name)))
    taken = inspect.signature(own).parameters if own else theirs
    return [n for n, p in theirs.items() if p.default is not p.empty and n not in taken]


@cache
def described():
    """The heading and the text of each of NumPy's functions, from a file, by its page.

    Those of which this package has the docstring have no text there.
    """
    file, found = EXAMPLES.with_name("numpy.txt"), {}
    _, *parts = re.split(r"^# (.*)\n", file.read_text("utf-8") + "\n", flags=re.MULTILINE)
    for title, section in zip(parts[::2], parts[1::2], strict=True):
        for name, text in re.findall(r"^(\S+)\n((?:\n| .*\n)*)", section, re.MULTILINE):
            found[f"gpugrad.numpy.{name}"] = title, text
    return found


def _from_numpy(value):
    """Whether the docstring is NumPy's, which has sections with underlined headings."""
    return bool(re.search(r"^ *-{4,}$", value.__doc__ or "", re.MULTILINE)) or (
        getattr(value, "__module__", None) or "numpy"
    ).startswith("numpy")


def _original(name):
    """The object of NumPy or SciPy of this name, if there is one."""
    inside, _, last = name.removeprefix("gpugrad.").rpartition(".")
    if inside.split(".")[0] not in ("numpy", "scipy"):
        return None
    return getattr(importlib.import_module(inside), last, None)


def _address(name):
    """The name of the original, and the address of its page."""
    original = name.removeprefix("gpugrad.")
    for prefix, place in ORIGINALS.items():
        if original.startswith(prefix):
            return original, f"{place}{original}.html"
    raise ValueError(name)


@cache
def examples():
    """The examples of functions whose docstrings have none, by their names.

    The files in `EXAMPLES` have paragraphs of a name and a doctest.
    """
    found = {}
    for path in sorted(EXAMPLES.glob("*.txt")):
        for paragraph in path.read_text("utf-8").strip().split("\n\n"):
            name, _, example = paragraph.partition("\n")
            assert name not in found, name
            found[name] = example
    return found


# What an example can use without importing it, and the lines that import it. In the examples of
# `gpugrad.numpy`, ``np`` is that module.
IMPORTED = {
    "gpugrad": "import gpugrad",
    "np": "import numpy as np",
    "data": "from gpugrad import data",
    "nn": "from gpugrad import nn",
    "optim": "from gpugrad import optim",
    "training": "from gpugrad import training",
    "lr_scheduler": "from gpugrad.optim import lr_scheduler",
    "swa_utils": "from gpugrad.optim import swa_utils",
    "F": "import gpugrad.nn.functional as F",
} | {
    name: f"from gpugrad.scipy import {name}"
    for name in "integrate interpolate linalg optimize signal special stats".split()
}


def imports(name):
    """The lines that import what the example of a name uses."""
    lines, text = IMPORTED, examples()[name]
    if name.startswith("gpugrad.numpy."):
        lines = lines | {"np": "import gpugrad.numpy as np"}
    used = [line for word, line in lines.items() if re.search(rf"(?<![\w.]){word}\.", text)]
    return "".join(f">>> {line}\n" for line in used)


def own_docstring(name):
    """The docstring that the page of a name shows, which is not NumPy's; "" if there is none."""
    value = public_names()[name]
    return "" if _from_numpy(value) else inspect.getdoc(value) or ""


@cache
def foreign_names():
    """What other libraries call each public name, from the file that errors read."""
    found = {}
    for name, _, target in foreign_rows():
        if target:
            found.setdefault(target, set()).add(name)
    return found


@cache
def foreign_rows():
    """Triples of a foreign name, what to write in its place, and a public name in that."""
    lines = Path(gpugrad.__file__).with_name("_foreign_names.ini").read_text("utf-8").splitlines()
    rows, section = [], ""
    for line in lines:
        if line.startswith("["):
            section = line.strip("[]")
        elif line and (section in ("Tensor", "Module") or section.startswith("gpugrad")):
            name, _, remedy = line.partition(" = ")
            targets = [n for n in re.findall(r"gpugrad(?:\.\w+)+", remedy) if n in public_names()]
            target = page_of(targets[0]) if targets else None
            if not target or (name, target) not in {(row[0], row[2]) for row in rows}:
                rows.append((name, remedy, target))
    return sorted(rows, key=lambda row: (row[0].lower(), row[:2]))


def foreign_page():
    """The table of names of other libraries, and what to write in their place."""
    title = "Names of other libraries"
    text = heading(title) + (
        "What PyTorch, NumPy and JAX call differently, or what they have and gpugrad lacks. "
        "An error that such a name raises says the same. The :ref:`index of all names "
        "<genindex>` has these and gpugrad's own.\n\n"
    )
    # The search shows these after the pages of which they are keywords.
    text += f".. index:: {', '.join(names_without_page())}\n\n"
    text += ".. list-table::\n   :header-rows: 1\n   :class: names\n\n   * - there\n     - here\n"
    for name, remedy, _ in foreign_rows():
        text += f"   * - ``{name}``\n     - {_linked(remedy)}\n"
    return text


def names_without_page():
    """The foreign names in whose place no public name stands."""
    found = {name for name, _, target in foreign_rows() if target}
    return sorted({name for name, _, _ in foreign_rows()} - found)


def _linked(text):
    """Text with links from the public names in it."""
    parts = re.split(r"(gpugrad(?:\.\w+)+)", text.replace("`", ""))
    for i, part in enumerate(parts):
        if part in public_names():
            parts[i] = rf":py:obj:`{part}`\ "
        else:
            parts[i] = re.sub(r"([*|_])", r"\\\1", part)
    return "".join(parts).removesuffix("\\ ")


def heading(title):
    return f"{title}\n{'=' * len(title)}\n\n"


def index(found, modules):
    """The list of all pages: those that were found, of topics and of modules."""
    text = heading("Reference")
    text += (
        "Everything public, from the docstrings, with an example each. Functions of arrays are "
        "named as in the `Python array API standard <https://data-apis.org/array-api/latest/>`__; "
        "gradients, layers, optimizers and loaders as in PyTorch; transforms as in JAX. "
        ":doc:`foreign_names` says what is called otherwise than in PyTorch, NumPy and JAX, and "
        "the :ref:`index <genindex>` lists all names. What is not listed here is private and may "
        "change.\n\n"
    )
    of_topics = [page for page in TOPICS if page in found]
    arrays = of_topics[: of_topics.index("autograd")]
    namespaces = ["linalg", "fft", "special", "random"]
    others = [name for name in modules if name.split(".")[0] in ("numpy", "scipy")]
    shown = [*arrays, *namespaces, *others, "tree", "testing"]
    for caption, names in (
        ("Tensors and their functions", arrays),
        (
            "Gradients, derivatives and tools",
            [p for p in of_topics if p not in arrays] + ["tree", "testing"],
        ),
        ("Namespaces", namespaces),
        ("Training and devices", [name for name in modules if name not in shown]),
        ("Other libraries", [*others, "foreign_names"]),
    ):
        text += f".. toctree::\n   :maxdepth: 1\n   :caption: {caption}\n\n"
        text += "".join(f"   {page}\n" for page in names) + "\n"
    return text
