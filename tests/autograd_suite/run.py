"""Run HIPS autograd's own tests with gpugrad in its place.

    python tests/autograd_suite/run.py CHECKOUT [PYTEST OPTIONS]

CHECKOUT is a checkout of https://github.com/HIPS/autograd. Python finds the package ``autograd``
in `adapter`, which makes its functions of gpugrad's. ``expected.txt`` lists the tests that cannot
pass, with reasons; another one that fails, and one of these that passes, is an error.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOPICS = """
    binary_ops complex fft graphs jacobian linalg numpy scalar_ops scipy systematic truediv
""".split()


def main(arguments):
    if not arguments or not Path(arguments[0], "tests", "numpy_utils.py").exists():
        raise SystemExit(__doc__)
    checkout, *options = arguments
    tests = Path(checkout).resolve() / "tests"
    path = [HERE / "adapter", HERE.parent.parent, tests, os.environ.get("PYTHONPATH")]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",  # the arrays are small
        "PYTHONPATH": os.pathsep.join([str(entry) for entry in path if entry]),
        "AUTOGRAD_CHECKOUT": str(Path(checkout).resolve()),
        "EXPECTED_FAILURES": str(HERE / "expected.txt"),
    }
    files = [str(tests / f"test_{topic}.py") for topic in TOPICS]
    command = [sys.executable, "-m", "pytest", *files, "--quiet", "-p", "expected_failures"]
    command += ["-c", os.devnull, "-p", "no:cacheprovider", "--rootdir", str(tests), *options]
    raise SystemExit(subprocess.run(command, cwd=HERE, env=environment).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
