"""The documentation site: `python -m sphinx -W --keep-going docs build/docs` writes it."""

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
REPOSITORY = "https://github.com/gpugrad/gpugrad/blob/main"
sys.path[:0] = [str(DOCS), str(DOCS.parent)]
os.environ["PYTHONPATH"] = str(DOCS.parent)  # for the notebooks

import write_reference  # noqa: E402
from docutils import nodes  # noqa: E402
from myst_nb.sphinx_ import NbMetadataCollector  # noqa: E402
from sphinx import addnodes  # noqa: E402
from sphinx.transforms import SphinxTransform  # noqa: E402
from sphinx.transforms.post_transforms import SphinxPostTransform  # noqa: E402
from sphinx.util.logging import getLogger  # noqa: E402

import gpugrad  # noqa: E402

project = "gpugrad"
author = "The gpugrad authors"
copyright = author
version = release = gpugrad.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["_build", "README.md"]
templates_path: list[str] = []

# Pages are Markdown; the recipes are notebooks without outputs, which the build executes.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "repo": f"{REPOSITORY}/{{{{path}}}}",
}
myst_fence_as_directive = ["mermaid"]
nb_execution_mode = "cache"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120  # of a cell; `warn_of_long_notebooks` has the same limit for all of them
nb_merge_streams = True

# Docstrings are written with single backticks around names, which become links.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_preserve_defaults = True
toc_object_entries = False

html_theme = "pydata_sphinx_theme"
html_title = "gpugrad"
html_static_path = ["_static"]
html_css_files = ["gpugrad.css"]
# Without a list of pages: those with none below, and those of the reference, which are too many.
html_search_scorer = str(DOCS / "search_scorer.js")
html_sidebars = {"benchmarks": [], "index": [], "reference/gpugrad.*": []}
mermaid_fullscreen = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "gpugrad"},
    "github_url": "https://github.com/gpugrad/gpugrad",
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = ">>> "

# Pages of the section Development, and where they are written.
PAGES_OF_THE_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# A description of a parameter, as "axis: the axis along which ...", perhaps of several.
_PARAMETER = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)")


def describe_parameters(app, what, name, obj, options, lines):
    """Make a definition list of the parameters, which docstrings describe as ``name: text``."""
    result, inside = [], False
    for line in lines:
        found = _PARAMETER.fullmatch(line)
        if found and (inside or not result or not result[-1].strip()):
            inside = True
            result.append(", ".join(f"``{name}``" for name in found[1].split(", ")))
            line = f"    {found[2]}"
        elif inside and line and not line[0].isspace():
            inside = False
            result.append("")
        result.append(line)
    lines[:] = result


def include_pages_of_the_root():
    """Write the pages of `PAGES_OF_THE_ROOT`, with links that hold on the site."""

    def link(found):
        path, mark, place = found[2].partition("#")
        target = PAGES_OF_THE_ROOT.get(path, f"repo:{path}")
        return f"[{found[1]}]({target}{mark}{place})"

    for name, page in PAGES_OF_THE_ROOT.items():
        text = (DOCS.parent / name).read_text("utf-8")
        text = re.sub(r"\[([^\]]+)\]\((?!https?:|#)([^)]+)\)", link, text)
        (DOCS / "development" / page).write_text(text, "utf-8")


def warn_of_long_notebooks(app, env):
    """Warn, which with `-W` is an error, of each notebook that took two minutes as a whole."""
    for page in sorted(env.found_docs):
        run = NbMetadataCollector.get_exec_data(env, page)
        if run and run["runtime"] and run["runtime"] >= nb_execution_timeout:
            text = "the notebook took %.0f s, and must take less than %d s"
            getLogger(__name__).warning(text, run["runtime"], nb_execution_timeout, location=page)


class Keywords(SphinxTransform):
    """Index entries for the ``keywords`` of a page's front matter, by which the search finds it."""

    default_priority = 700

    def apply(self, **others):
        for field in list(self.document.findall(nodes.field)):
            if field[0].astext() == "keywords":
                words = [word.strip() for word in field[1].astext().split(",")]
                entries = [("single", word, "", "main", None) for word in words]
                self.document.append(addnodes.index(entries=entries))


class BreakNames(SphinxPostTransform):
    """Let the browser break names at their dots and underscores, where they are code."""

    default_priority = 900
    formats = ("html",)

    def run(self, **others):
        code = (nodes.literal, nodes.title, addnodes.desc_name, addnodes.desc_addname)
        for text in list(self.document.findall(nodes.Text)):
            parts = re.split(r"(?<=[_.])(?=\w)", text)
            if len(parts) > 1 and isinstance(text.parent, code) and " " not in text:
                broken = [nodes.Text(parts[0])]
                for part in parts[1:]:
                    broken += [nodes.raw("", "<wbr>", format="html"), nodes.Text(part)]
                place = text.parent.index(text)
                text.parent[place : place + 1] = broken


def setup(app):
    app.add_transform(Keywords)
    app.add_post_transform(BreakNames)
    app.connect("autodoc-process-docstring", describe_parameters)
    app.connect("env-check-consistency", warn_of_long_notebooks)
    write_reference.write(DOCS / "reference")
    include_pages_of_the_root()
