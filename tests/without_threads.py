"""Tests as in Pyodide, where no thread starts: `WITHOUT_THREADS=1 python -m pytest tests/nn`.

Where the library starts a thread, it gets the error that Python raises there, and must do without
the thread. A test that starts one itself is skipped.
"""

import _thread
import os
import sys
import threading
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LIBRARY = TESTS.parent / "gpugrad"
needs_threads = pytest.mark.skipif(
    "WITHOUT_THREADS" in os.environ, reason="it looks at the library's threads"
)


def forbid_threads():
    """Have each start of a thread fail, from now on."""

    def start(*args, **keywords):
        frame = sys._getframe(1)
        while frame and not {TESTS, LIBRARY} & {*Path(frame.f_code.co_filename).parents}:
            frame = frame.f_back
        if frame and TESTS in Path(frame.f_code.co_filename).parents:
            pytest.skip("it starts a thread")
        raise RuntimeError("can't start new thread")

    threading.Thread.start = start
    _thread.start_new_thread = start
