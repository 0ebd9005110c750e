"""A pytest plugin: the tests in the file EXPECTED_FAILURES are expected to fail, strictly."""

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    reasons, reason = {}, ""
    for line in Path(os.environ["EXPECTED_FAILURES"]).read_text().splitlines():
        if line.startswith("#"):
            reason = line.strip("# ")
        else:
            reasons[line] = reason
    for item in items:
        if reason := reasons.get(f"{item.path.name}::{item.name}"):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
