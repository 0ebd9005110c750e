"""What the workflows on GitHub run: each supported Python, the systems, and pinned actions."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CI = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")


def test_each_version_of_python_that_is_declared_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    (tested,) = re.findall(r"python-version: \[(.*)\]", CI)
    assert declared == re.findall(r"[\d.]+", tested)
    assert project["requires-python"] == f">={declared[0]}"
    assert "numpy>=2" in project["dependencies"]
    assert 'numpy: "numpy==2.0.*"' in CI


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_hash(path):
    used = re.findall(r"uses: (\S+)(.*)", path.read_text("utf-8"))
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


def test_the_paths_that_workflows_name_exist():
    for path in WORKFLOWS:
        for name in re.findall(r"(?<= )(?:tests|benchmarks|\.ci)/[\w./]+", path.read_text("utf-8")):
            assert (ROOT / name).exists(), name
