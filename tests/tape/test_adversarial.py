"""Programs that try to get something else from a compiled function than from the function.

Compiled is what eager would have done, in every call and to the bit, or it is not compiled.
"""

import importlib
import os
import pkgutil
import subprocess
import sys

import adversarial
import numpy as np
import pytest
from adversarial.harness import PROGRAMS, failure

for _module in pkgutil.iter_modules(adversarial.__path__):
    importlib.import_module(f"adversarial.{_module.name}")


def _case(name):
    # What a timer interrupts depends on chance, and under load on the machine.
    by_chance = "-a_timer_" in name or "_at_any_time_" in name
    return pytest.param(name, marks=pytest.mark.fuzz if by_chance else ())


@pytest.mark.parametrize("name", [*map(_case, PROGRAMS)])
def test_compiled_is_what_eager_would_have_done(name, tmp_path):
    function = PROGRAMS[name]
    if function.needs:
        pytest.skip(function.needs)
    different = failure(function, str(tmp_path))
    if different:
        pytest.fail(different, pytrace=False)


# Runs the products in a process whose OpenBLAS has other kernels.
SOURCE = """
from adversarial import products
from adversarial.harness import PROGRAMS, failure

for name, function in PROGRAMS.items():
    different = failure(function, ".")
    if different:
        print(name, different.splitlines()[0])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernels, feature",
    [("Haswell", "AVX2"), ("Sandybridge", "AVX"), ("SkylakeX", "AVX512F"), ("Prescott", "SSE3")],
)
def test_products_with_other_kernels(kernels, feature):
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    if "openblas" not in blas:
        pytest.skip(f"NumPy uses {blas}, not OpenBLAS")
    if not np._core._multiarray_umath.__cpu_features__.get(feature):
        pytest.skip(f"the processor has no {feature}")
    here = os.path.dirname(os.path.abspath(__file__))
    paths = [here, os.path.dirname(here), os.environ.get("PYTHONPATH", "")]
    found = subprocess.run(
        [sys.executable, "-c", SOURCE],
        env=os.environ
        | {"OPENBLAS_CORETYPE": kernels, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert found.stdout == ""
