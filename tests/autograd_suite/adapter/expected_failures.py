"""A pytest plugin: the tests in the file EXPECTED_FAILURES are expected to fail, strictly."""

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    lines = Path(os.environ["EXPECTED_FAILURES"]).read_text().splitlines()
    reasons, reason = {}, ""
    for line in lines:
        if line.startswith("#"):
            reason = line.strip("# ")
        elif line:
            reasons[line] = reason
    for item in items:
        key = f"{item.path.name}::{item.name}"
        if key in reasons:
            item.add_marker(pytest.mark.xfail(reason=reasons[key], strict=True))
