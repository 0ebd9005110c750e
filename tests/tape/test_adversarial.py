"""Programs that try to get something else from a compiled function than from the function.

Compiled is what eager would have done, in every call and to the bit, or it is not compiled.
"""

import importlib
import pkgutil

import adversarial
import pytest
from adversarial.harness import PROGRAMS, failure
from both_ways import refuse_failures

for _module in pkgutil.iter_modules(adversarial.__path__):
    importlib.import_module(f"adversarial.{_module.name}")


def _case(name):
    # What a timer interrupts depends on chance, and under load on the machine.
    return pytest.param(name, marks=pytest.mark.fuzz if "-a_timer_" in name else ())


@pytest.mark.parametrize("name", [*map(_case, PROGRAMS)])
def test_compiled_is_what_eager_would_have_done(name, tmp_path, monkeypatch):
    refuse_failures(monkeypatch)
    function = PROGRAMS[name]
    if function.needs:
        pytest.skip(function.needs)
    different = failure(function, str(tmp_path))
    if different:
        pytest.fail(different, pytrace=False)
