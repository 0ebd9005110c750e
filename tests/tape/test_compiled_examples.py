"""Programs that train, with and without `compile`: the same bits."""

import importlib
import re
import runpy
import sys
from functools import partial
from pathlib import Path

import pytest
from adversarial.harness import bits
from both_ways import is_replayed
from test_examples import QUICK, check_quick, path_of

import gpugrad
from gpugrad.training import Trainer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("error:gpugrad.compile")]

WITH_OPTION = {"train_mlp": ("--epochs", 2, "--hidden", 16), **dict.fromkeys(QUICK, ("--quick",))}
# Each with the function of the program that is compiled here.
WITHOUT_OPTION = {
    "bayesian_network": ("lower_bound", "--steps", 50),
    "hidden_markov": ("log_likelihood", "--starts", 1, "--steps", 3, "--pieces", 4),
    "gaussian_mixture": ("loss", "--points", 200),
    "gaussian_process": ("negative_log_likelihood", "--steps", 3),
    "fluid": ("simulate", "--times", 3, "--steps", 3),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in this process; return what it prints, less times, and its pictures."""

    def run(main, name, *options):
        monkeypatch.setattr(sys, "argv", [name, "--device", "cpu", *map(str, options)])
        monkeypatch.chdir(tmp_path)
        gpugrad.manual_seed(0)
        capsys.readouterr()
        main()
        printed = re.sub(r"[\d.]+ m?s\b", "", capsys.readouterr().out)
        pictures = {path.name: path.read_bytes() for path in Path("runs").glob("*.png")}
        assert pictures
        for path in Path("runs").iterdir():
            path.unlink()
        return printed, pictures

    return run


@pytest.mark.parametrize("name", WITH_OPTION)
def test_programs_with_the_option(name, run, monkeypatch):
    fit, trainers = Trainer.fit, []

    def noted(trainer, *args):
        trainers.append(trainer)
        return fit(trainer, *args)

    monkeypatch.setattr(Trainer, "fit", noted)
    main = partial(runpy.run_path, str(path_of(name)), run_name="__main__")
    eager = run(main, name, *WITH_OPTION[name])
    count = len(trainers)
    if name in QUICK:
        check_quick(name, eager[0])
    assert run(main, name, *WITH_OPTION[name], "--compile") == eager
    assert len(trainers) == 2 * count > 0
    for first, second in zip(trainers[:count], trainers[count:], strict=True):
        assert is_replayed(second._update)
        assert bits(first.model.state_dict()) == bits(second.model.state_dict())


@pytest.mark.parametrize("name", WITHOUT_OPTION)
def test_functions_of_programs(name, run, monkeypatch):
    function, *options = WITHOUT_OPTION[name]
    program = importlib.import_module(name)
    eager = run(program.main, name, *options)
    compiled = gpugrad.compile(getattr(program, function))
    monkeypatch.setattr(program, function, compiled)
    assert run(program.main, name, *options) == eager
    assert is_replayed(compiled)
