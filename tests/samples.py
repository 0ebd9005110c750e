"""Check many samples in one test that reports each failure, and name parameters of tests."""

import re
import traceback
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pytest


def values(x):
    """The values of a tensor as an array of NumPy."""
    return np.asarray(x.detach())


def peak_of(call):
    """The most memory, in bytes, that a call has in use besides what there was before."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check_errors(kind, rows):
    """Check that each call raises an error of a kind; a row is a message and a call."""
    for (message, call), checked in every(rows):
        with checked, pytest.raises(kind, match=message):
            call()


def error_test(rows):
    """A test that each call raises an error of a kind; a row is the call, the kind, a message."""

    @pytest.mark.parametrize("call, kind, message", rows)
    def test(call, kind, message):
        with pytest.raises(kind, match=message):
            call()

    return test


def every(samples):
    """Yield each sample, or tuple that identifies one, with a context in which to check it.

    The context collects the errors that its checks raise. After the last sample, an AssertionError
    names every sample that failed; its cause is the first failure. Do not leave the loop early.
    """
    failures, count = [], 0
    for sample in samples:
        count += 1
        yield sample, _checked(sample, failures)
    if failures:
        texts = [_describe(*failure) for failure in failures]
        raise AssertionError(
            "\n".join([f"{len(failures)} of {count} samples fail:", *texts])
        ) from failures[0][1]


@contextmanager
def _checked(sample, failures):
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  `every` reports it
        failures.append((sample, error))


def _describe(sample, error):
    name = " ".join(map(str, sample)) if isinstance(sample, tuple) else str(sample)
    place = traceback.extract_tb(error.__traceback__)[-1]
    message = "".join(traceback.format_exception_only(error)).strip().replace("\n", "\n    ")
    return f"- {name}\n    at {place.filename}:{place.lineno}\n    {message}"


def stable_repr(value):
    """Name a test's parameter by its repr, without addresses, which differ between processes."""
    return re.sub(r" at 0x\w+", "", repr(value))
