"""Going through many samples in one test, which reports every one that fails, and their names."""

import re
import traceback
from contextlib import contextmanager

import pytest


def every(samples):
    """Each sample, or tuple of what identifies one, and a context in which to check it.

    The context keeps what its checks raise. After the last sample an AssertionError names every
    sample that failed, and the first failure is its cause. The loop must not be left early.
    """
    failures = []
    count = 0
    for sample in samples:
        count += 1
        yield sample, _checked(sample, failures)
    if failures:
        texts = [_text(*failure) for failure in failures]
        raise AssertionError(
            "\n".join([f"{len(failures)} of {count} samples fail:", *texts])
        ) from failures[0][1]


@contextmanager
def _checked(sample, failures):
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  `every` raises it
        failures.append((sample, error))


def _text(sample, error):
    name = " ".join(map(str, sample)) if isinstance(sample, tuple) else str(sample)
    place = traceback.extract_tb(error.__traceback__)[-1]
    what = "".join(traceback.format_exception_only(error)).strip().replace("\n", "\n    ")
    return f"- {name}\n    at {place.filename}:{place.lineno}\n    {what}"


def shown(value):
    """A parameter's name for a test: its repr without addresses, which differ between processes."""
    return re.sub(r" at 0x\w+", "", repr(value))
