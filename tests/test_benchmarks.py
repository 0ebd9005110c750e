"""What benchmarks take from the table of ops."""

import numpy as np
import pytest
from cases import CASES


@pytest.mark.parametrize("case", [c for c in CASES if c.torch], ids=lambda case: case.op)
def test_an_op_has_a_sample_of_a_size(case):
    sample = case.at_size(10)
    given = sample.arrays("float32")
    outputs = case(given, sample.static)
    arrays = [*given, *(outputs if isinstance(outputs, tuple) else [outputs])]
    assert 8 <= max(np.prod(getattr(x, "shape", ())) for x in arrays) <= 20
