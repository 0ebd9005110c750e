"""lifelines' parametric models, unmodified, with gpugrad in the place of HIPS autograd."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent


def fitted(library):
    command = [sys.executable, str(HERE / "survival.py"), library]
    plain = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, env=plain)
    assert not ran.returncode, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.slow
def test_the_models_are_those_that_autograd_fits():
    pytest.importorskip("lifelines")
    expected, found = fitted("autograd"), fitted("gpugrad")
    adapter = HERE.parent / "autograd_suite" / "adapter"
    assert Path(found.pop("autograd")).is_relative_to(adapter)
    assert not Path(expected.pop("autograd")).is_relative_to(adapter)
    assert len(found) == 10
    for model, columns in expected.items():
        for column, values in zip(found[model], columns, strict=True):
            np.testing.assert_allclose(column, values, rtol=1e-6, err_msg=model)
