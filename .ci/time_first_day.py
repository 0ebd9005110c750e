"""Time what a new user does, on a fresh copy of the repository; fail where it takes too long.

    python .ci/time_first_day.py

First the README's command, from nothing to a trained model: 45 seconds. Then, with what that has
installed, the page "Your own data", to a picture: 5 minutes together.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMITS = {"a trained model": 45, "a plot of one's own data": 300}
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def blocks(page, language):
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def main():
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "gpugrad")
        start = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        command = next(b for b in blocks("README.md", "sh") if "train_mlp.py" in b)
        command = command.splitlines()[-1]  # the line before it clones
        subprocess.run(["bash", "-c", command], cwd=clone, check=True, **QUIET)
        assert (clone / "runs" / "digits.png").exists()
        taken = {"a trained model": time.perf_counter() - start}

        cells = json.loads((ROOT / "docs" / "start" / "own_data.ipynb").read_text("utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        python = clone / ".venv" / "bin" / "python"
        subprocess.run([python, "-c", "\n".join(code)], cwd=clone, check=True, **QUIET)
        assert (clone / "runs" / "weather.png").exists()
        taken["a plot of one's own data"] = time.perf_counter() - start
    for what, seconds in taken.items():
        print(f"{what}: {seconds:.0f} s, at most {LIMITS[what]}")
    return any(seconds > LIMITS[what] for what, seconds in taken.items())


if __name__ == "__main__":
    sys.exit(main())
