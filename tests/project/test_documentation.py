"""The README and the pages of the documentation: their code runs, their links lead somewhere."""

import contextlib
import io
import json
import os
import re
import sys
import warnings
from pathlib import Path
from urllib.parse import unquote

import matplotlib.pyplot as plt
import pytest
from stand_in import ROOT, run

DOCS, SITE = ROOT / "docs", "https://gpugrad.github.io/gpugrad/"
REPOSITORY = "https://github.com/gpugrad/gpugrad/blob/main/"
RAW = "https://raw.githubusercontent.com/gpugrad/gpugrad/main/"
# What the build writes beside the pages.
NAMES = "architecture", "changelog", "contributing"
WRITTEN = {DOCS / "development" / f"{name}.md" for name in NAMES}
PAGES = sorted({*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")} - WRITTEN)
PAGES = [ROOT / "README.md", *(p for p in PAGES if ".ipynb_checkpoints" not in p.parts)]


def code(page):
    """The Python program of a page, each line where it is in the file; of a notebook, its cells."""
    if page.suffix == ".ipynb":
        return cells(page, "code")
    text, program = page.read_text("utf-8"), ""
    for block in re.finditer(r"^ *```python\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE):
        program += "\n" * (text.count("\n", 0, block.start(1)) - program.count("\n")) + block[1]
    return program


def cells(notebook, kind):
    """The text of all cells of one kind."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == kind)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs_and_prints_what_it_promises(page, tmp_path, monkeypatch):
    """The comment behind a ``print(...)`` is the line that it prints.

    A notebook takes less than two minutes of all processors together, with that of its children.
    """
    if not (program := code(page)).strip():
        return
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    Path("runs").mkdir()
    plt.switch_backend("agg")
    module = type(sys)("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    printed, before = io.StringIO(), sum(os.times()[:4])
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(action="error"):
        exec(compile(program, str(page), "exec"), vars(module))
    plt.close("all")
    seconds = sum(os.times()[:4]) - before
    assert page.suffix != ".ipynb" or seconds < 120, f"the notebook took {seconds:.0f} s"
    lines = iter(printed.getvalue().splitlines())
    for promised in re.findall(r"^ *print\(.*\)  # (.*)", program, re.MULTILINE):
        # In this order, possibly with other lines between them.
        assert any(line == promised for line in lines), f"{promised}\n{printed.getvalue()}"


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_each_program_of_the_readme_runs_by_itself(number, tmp_path):
    text = (ROOT / "README.md").read_text("utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(programs) == 2
    done = run("-W", "error", "-c", programs[number], cwd=tmp_path)
    assert not done.returncode, done.stderr


def prose(path):
    """The text without its programs."""
    return re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)


def links(page):
    text = cells(page, "markdown") if page.suffix == ".ipynb" else prose(page)
    return re.findall(r"\]\(<?([^)>\s]+)|(?:src|srcset|href)=\"([^\"]+)\"", text)


def anchors(page):
    """The anchors of a page's headings."""
    for heading in re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page):
    for target in ("".join(found) for found in links(page)):
        path, _, anchor = target.partition("#")
        if path.startswith(SITE):
            place = DOCS / path.removeprefix(SITE).replace(".html", ".md")
            place = place if place.exists() else place.with_suffix(".ipynb")
            place = place / "index.md" if place.is_dir() else place
        elif path.startswith((REPOSITORY, RAW, "repo:")):
            place = ROOT / re.sub(f"^({REPOSITORY}|{RAW}|repo:)", "", path)
        elif path.startswith(("https:", "http:")):
            continue
        else:
            # Package indexes show the README, and have no other file.
            assert page.parent != ROOT or not path, f"{target}: write the whole address"
            place = page.parent / unquote(path) if path else page
        place = Path(os.path.normpath(place))
        assert place.exists() or place in WRITTEN or place.parent == DOCS / "reference", target
        if anchor and place.suffix == ".md" and place.exists():
            assert anchor in anchors(place), target


def test_the_architecture_names_every_folder():
    text = ROOT.joinpath("ARCHITECTURE.md").read_text("utf-8")
    packages = [p.parent for p in ROOT.glob("gpugrad/**/__init__.py")]
    parts = [p.parent for part in ("tests", "benchmarks") for p in ROOT.glob(f"{part}/*/*.py")]
    folders = {f"`{folder.relative_to(ROOT).as_posix()}/`" for folder in (*packages, *parts)}
    assert not [folder for folder in sorted(folders - {"`gpugrad/`"}) if folder not in text]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_names_in_the_pages_for_developers_are_in_the_code(page):
    """Those with a dot or a leading underscore; others may belong to an example."""
    files = [p for part in ("gpugrad", "tests") for p in ROOT.glob(f"{part}/**/*.*")]
    sources = [p.read_text("utf-8") for p in files if p.suffix in (".py", ".c", ".cu", ".cuh")]
    known = {*re.findall(r"\w+", " ".join([*map(str, files), *sources]))}
    spans = re.findall(r"`([^`\s]+)`", prose(ROOT / page))
    names = {name for span in spans for name in re.findall(r"\b_\w+|\w+(?:\.\w+)+", span)}
    assert not [name for name in sorted(names) if not {*name.split(".")} <= known]


def test_the_pictures_are_those_that_their_script_draws(tmp_path):
    done = run(DOCS / "pictures.py", tmp_path)
    assert not done.returncode, done.stderr
    drawn = sorted(tmp_path.iterdir())
    assert len(drawn) == 10
    for path in drawn:
        committed = (DOCS / "_static" / path.name).read_text("utf-8")
        assert path.read_text("utf-8") == committed, f"run docs/pictures.py: {path.name} differs"
    assert sum(os.path.getsize(path) for path in (DOCS / "_static").iterdir()) < 200_000
