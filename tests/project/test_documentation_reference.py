"""The reference: each public name has a page and an example, and the examples do what they say."""

import doctest
import importlib
import math
import re
import sys
from pathlib import Path

import pytest
from samples import every

import gpugrad
from gpugrad.numpy._table import lookup

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))
reference = importlib.import_module("write_reference")
PAGES = {names[0]: names for names in reference.own_pages().values()}
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?")


class Checker(doctest.OutputChecker):
    """Compares numbers up to rounding, which differs between processors."""

    def check_output(self, want, got, optionflags):
        if super().check_output(want, got, optionflags | doctest.NORMALIZE_WHITESPACE):
            return True
        texts = [re.sub(r"\s+", "", NUMBER.sub("0", text)) for text in (want, got)]
        numbers = [[float(n) for n in NUMBER.findall(text)] for text in (want, got)]
        return texts[0] == texts[1] and all(
            math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4) for a, b in zip(*numbers, strict=True)
        )


def example(name):
    """The example of a name: from its docstring, or from the files in docs/examples."""
    text = reference.own_docstring(name)
    if ">>>" not in text and name in reference.examples():
        text = reference.imports(name) + reference.examples()[name]
    return doctest.DocTestParser().get_doctest(text, {}, name, None, 0)


@pytest.mark.parametrize("space", sorted({name.rpartition(".")[0] for name in PAGES}))
def test_each_name_has_an_example_that_does_what_it_says(space, tmp_path, monkeypatch):
    for name, checked in every(name for name in PAGES if name.rpartition(".")[0] == space):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with checked:
            gpugrad.manual_seed(0)
            test, report = example(name), []
            assert test.examples, "it needs an example: `>>>` in its docstring or in docs/examples"
            runner = doctest.DocTestRunner(Checker(), verbose=False)
            runner.run(test, out=report.append)
            assert not runner.failures, "".join(report)


def test_no_text_is_of_a_name_that_is_gone_or_has_an_example_in_its_docstring():
    for name in reference.examples() | reference.described():
        # Older versions of NumPy lack some of its functions.
        if not name.startswith("gpugrad.numpy.") or lookup(name.removeprefix("gpugrad.numpy.")):
            assert name in PAGES, name
            assert ">>>" not in reference.own_docstring(name), name


@pytest.fixture(scope="module")
def pages():
    return reference.pages()


def test_each_public_name_is_on_one_page(pages):
    for name, value in reference.public_names().items():
        page = reference.page_of(name)
        if page is None:
            assert not callable(value) or reference.passed_on(name, value), name
            last = name.rpartition(".")[2]
            space = name.removeprefix("gpugrad.").rpartition(".")[0] or "dtypes"
            assert re.search(rf"^.. py:data:: {last}$", pages[space], re.MULTILINE), name
        elif page == name:
            assert re.search(rf":: {name.rpartition('.')[2]}\b", pages[page]), name
        else:
            module, _, last = name.rpartition(".")
            assert f":: {last}()\n   :module: {module}\n   :no-typesetting:" in pages[page]


def test_each_page_is_listed_once(pages):
    listed = re.findall(r"^   ([\w.]+)$", "\n".join(pages.values()), re.MULTILINE)
    assert sorted(listed) == sorted(pages.keys() - {"index"})


@pytest.mark.parametrize("foreign, name", [
    ("clamp", "clip"), ("permute", "permute_dims"), ("jit", "compile"),
    ("unsqueeze", "expand_dims"), ("DistributedDataParallel", "distributed.DataParallel"),
])  # fmt: skip
def test_foreign_names_lead_to_the_page_of_what_to_use(pages, foreign, name):
    assert re.search(rf"^:keywords:.*\b{foreign}\b", pages[f"gpugrad.{name}"], re.MULTILINE)
    assert f"``{foreign}``\n     - :py:obj:`gpugrad.{name}`" in pages["foreign_names"]
