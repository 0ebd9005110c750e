"""The example programs in the style of NumPy, in a short form: results, and that they draw."""

import re

import hidden_markov
import pytest
from test_derivative_examples import run_program
from test_examples import numbers

pytestmark = pytest.mark.slow


def test_gaussian_process(tmp_path):
    text = run_program("gaussian_process", "--steps", 12, cwd=tmp_path)
    before, after = numbers("likelihood from # to #", text)
    assert after < before - 50
    error, share = numbers(r"is # miles.*\nand #% of them", text)
    assert error < 3.2
    assert 85 < share < 100


def test_hidden_markov(tmp_path):
    options = ("--starts", 2, "--steps", 5, "--pieces", 10)
    text = run_program("hidden_markov", *options, cwd=tmp_path)
    before, after = numbers("per letter from # to #", text)
    assert after > before + 0.2
    letters = " ".join(re.findall(r"most of: (.*)", text)).split()
    assert sorted(letters) == [*hidden_markov.LETTERS]


def test_gaussian_mixture(tmp_path):
    text = run_program("gaussian_mixture", "--points", 500, cwd=tmp_path)
    gradient, share = numbers("length is #; #%", text)
    assert gradient < 1e-8
    assert share > 95


def test_bayesian_network(tmp_path):
    text = run_program("bayesian_network", "--steps", 300, cwd=tmp_path)
    before, after = numbers("bound from # to #", text)
    assert after > before + 500


def test_fluid(tmp_path):
    text = run_program("fluid", "--times", 5, "--steps", 6, cwd=tmp_path)
    before, after = numbers("difference from # to #", text)
    assert after < before / 2
