"""Programs that train, with and without `compile`: the same bits."""

import importlib
import re
import runpy
import sys
from pathlib import Path

import pytest
from adversarial.harness import bits
from both_ways import is_replayed
from test_examples import QUICK, check_quick, numbers, path_of

import gpugrad
from gpugrad.training import Trainer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("error:gpugrad.compile")]

WITH_OPTION = {"train_mlp": ("--epochs", 2, "--hidden", 16), **dict.fromkeys(QUICK, ("--quick",))}
# Each with the function of the program that is compiled here, its options, and what it prints.
FUNCTIONS = {
    "gaussian_process": (
        "negative_log_likelihood", "--steps 12",
        r"likelihood from # to #(?:.*\n)+.* is # miles.*\nand #% of them",
        lambda old, new, error, share: new < old - 50 and error < 3.2 and 85 < share < 100),
    "gaussian_mixture": ("loss", "--points 500", "length is #; #%",
                         lambda gradient, share: gradient < 1e-8 and share > 95),
    "bayesian_network": ("lower_bound", "--steps 300", "bound from # to #",
                         lambda old, new: new > old + 500),
    "fluid": ("simulate", "--times 5 --steps 6", "difference from # to #",
              lambda old, new: new < old / 2),
    "hidden_markov": ("log_likelihood", "--starts 2 --steps 5 --pieces 5",
                      "per letter from # to #", lambda old, new: new > old + 0.2),
}  # fmt: skip


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in this process; return what it prints, less times, and its pictures.

    main: a function to call; by default it is run as a script.
    """

    def run(name, *options, main=None):
        monkeypatch.setattr(sys, "argv", [name, "--device", "cpu", *map(str, options)])
        monkeypatch.chdir(tmp_path)
        gpugrad.manual_seed(0)
        capsys.readouterr()
        main() if main else runpy.run_path(str(path_of(name)), run_name="__main__")
        printed = re.sub(r"[\d.]+ m?s\b", "", capsys.readouterr().out)
        pictures = {path.name: path.read_bytes() for path in Path("runs").glob("*.png")}
        assert {picture[:4] for picture in pictures.values()} == {b"\x89PNG"}
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
    eager = run(name, *WITH_OPTION[name])
    count = len(trainers)
    if name in QUICK:
        check_quick(name, eager[0])
    assert run(name, *WITH_OPTION[name], "--compile") == eager
    assert len(trainers) == 2 * count > 0
    for first, second in zip(trainers[:count], trainers[count:], strict=True):
        assert is_replayed(second._update)
        assert bits(first.model.state_dict()) == bits(second.model.state_dict())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_programs(name, run, monkeypatch):
    (function, options, pattern, is_right), program = FUNCTIONS[name], importlib.import_module(name)
    text, _ = eager = run(name, *options.split())
    assert is_right(*numbers(pattern, text)), text
    if name == "hidden_markov":
        letters = " ".join(re.findall(r"most of: (.*)", text)).split()
        assert sorted(letters) == [*program.LETTERS]
    compiled = gpugrad.compile(getattr(program, function))
    monkeypatch.setattr(program, function, compiled)
    assert run(name, *options.split(), main=program.main) == eager
    assert is_replayed(compiled)
