"""The example programs in the style of NumPy, in a short form: results, and that they draw."""

import re

import hidden_markov
import pytest
from test_derivative_examples import run_program
from test_examples import numbers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("program, options, pattern, is_right", [
    ("gaussian_process", "--steps 12",
     r"likelihood from # to #(?:.*\n)+.* is # miles.*\nand #% of them",
     lambda before, after, error, share: after < before - 50 and error < 3.2 and 85 < share < 100),
    ("gaussian_mixture", "--points 500", "length is #; #%",
     lambda gradient, share: gradient < 1e-8 and share > 95),
    ("bayesian_network", "--steps 300", "bound from # to #", lambda old, new: new > old + 500),
    ("fluid", "--times 5 --steps 6", "difference from # to #", lambda old, new: new < old / 2),
    ("hidden_markov", "--starts 2 --steps 5 --pieces 10", "per letter from # to #",
     lambda old, new: new > old + 0.2),
])  # fmt: skip
def test_program(program, options, pattern, is_right, tmp_path):
    text = run_program(program, *options.split(), cwd=tmp_path)
    assert is_right(*numbers(pattern, text)), text
    if program == "hidden_markov":
        letters = " ".join(re.findall(r"most of: (.*)", text)).split()
        assert sorted(letters) == [*hidden_markov.LETTERS]
