"""Run the code of a README with the gpugrad that is installed, and look for its files."""

import re
import sys
from importlib.metadata import files
from pathlib import Path

import gpugrad

assert "site-packages" in gpugrad.__file__, gpugrad.__file__
installed = {Path(str(path)) for path in files("gpugrad")}
for pattern in "*.c", "*.h", "*.cu", "*.cuh", "*.gz", "*.ini", "*.pyi", "py.typed", "LICENSE":
    assert any(path.match(pattern) for path in installed), f"the wheel has no {pattern}"
outside = {path.parts[0] for path in installed} - {"gpugrad"}
assert outside == {f"gpugrad-{gpugrad.__version__}.dist-info"}, outside

code = re.findall(r"```python\n(.*?)```", Path(sys.argv[1]).read_text("utf-8"), re.DOTALL)
for block in code:  # each by itself, as people copy them
    exec(compile(block, sys.argv[1], "exec"), {"__name__": "__main__"})
train, test = gpugrad.data.digits()
print(f"gpugrad {gpugrad.__version__}: {len(train)} digits; the README's code runs")
