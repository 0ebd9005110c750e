"""Programs that try to get something else from a compiled function than from the function.

Compiled is what eager would have done, in every call and to the bit, or it is not compiled.
"""

import importlib
import pkgutil

import adversarial
import pytest
from adversarial.harness import PROGRAMS, failure, refuse_failures, run
from both_ways import is_replayed

import gpugrad as gg

for _module in pkgutil.iter_modules(adversarial.__path__):
    importlib.import_module(f"adversarial.{_module.name}")


def _case(name):
    # What a timer interrupts depends on chance, and under load on the machine.
    return pytest.param(name, marks=pytest.mark.fuzz if "-a_timer_" in name else ())


def _compare(name, directory, **options):
    function = PROGRAMS[name]
    if function.needs:
        pytest.skip(function.needs)
    different = failure(function, str(directory), **options)
    if different:
        pytest.fail(different, pytrace=False)


@pytest.mark.parametrize("name", [*map(_case, PROGRAMS)])
def test_compiled_is_what_eager_would_have_done(name, tmp_path, monkeypatch):
    refuse_failures(monkeypatch)
    _compare(name, tmp_path)


@pytest.mark.parametrize("name", [
    "arguments-arguments_that_the_function_changes", "arguments-iterators",
    "errors-labels_that_are_out_of_range", "modules_and_hooks-hooks_that_a_function_adds",
    "optimizers-options_of_adam", "random_numbers-draws_of_python",
    "random_numbers-a_generator_of_numpy", "replaced-in_an_attribute", "numbers-counts_Plain",
])  # fmt: skip
def test_a_check_leaves_no_trace(name, tmp_path):
    """It runs the function too."""
    _compare(name, tmp_path, check=1)


@pytest.mark.parametrize("name", [
    "arguments-a_model_and_an_optimizer_as_arguments", "arguments-methods_of_records",
    "arrays-a_rule_of_an_op_that_reads_a_table", "numbers-hyper_parameters_of_functions",
    "python_features-a_module_of_a_package_that_the_first_call_imports",
    "transforms-the_hessian_compiled", "optimizers-options_of_adam", "replaced-in_a_module",
    "optimizers-weights_that_the_function_clips", "structures-batches_of_raw_arrays",
    "optimizers-gradients_that_are_missing_at_times", "replaced-in_an_attribute",
    "structures-containers_that_are_one", "structures-named_tuples_that_make_themselves",
    "replaced-in_a_tuple", "replaced-with_a_graph", "replaced-an_average_of_weights",
    "numbers-counts_outside", "numbers-counts_in_Slots", "numbers-counts_in_Module",
    "optimizers-rates_for_averaged_weights", "backward-a_parameter_that_is_frozen_for_a_while",
    "backward-a_parameter_that_stays_frozen", "backward-a_parameter_that_was_frozen_in_a_graph",
    *(f"replaced-nothing_or_a_tensor_in_a_{name}" for name in (
        "attribute", "module", "slot", "item", "global", "sum", "pair", "argument", "cache")),
])  # fmt: skip
@pytest.mark.filterwarnings("error:gpugrad.compile")
def test_changes_are_no_reason_not_to_compile(name, tmp_path, monkeypatch):
    made, compile = [], gg.compile
    monkeypatch.setattr(gg, "compile", lambda f: made.append(compile(f)) or made[-1])
    run(PROGRAMS[name], {}, directory=str(tmp_path))
    assert made
    assert all(map(is_replayed, made))
