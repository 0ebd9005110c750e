"""Write what PyTorch computes for each row of `test_layers` into `layer_values.json`."""

import json
import sys
import warnings
from pathlib import Path

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS.parent), str(TESTS)]
import torch  # noqa: E402
from test_layers import NAMED, STORED, digest, of_theirs  # noqa: E402

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    values = {name: digest(torch, of_theirs, row, row.theirs()) for name, row in NAMED.items()}
    lines = [f'"{name}": {[float(f"{x:.12g}") for x in xs]}' for name, xs in values.items()]
    STORED.write_text("{" + ",\n".join(lines).replace("nan", "NaN") + "}\n", "utf-8")
    json.loads(STORED.read_text("utf-8"))
