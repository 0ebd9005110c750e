"""Run the array API standard's own tests with gpugrad on each array library.

    python tests/conformance/run.py CHECKOUT [LIBRARY ...] [-- PYTEST OPTIONS]

CHECKOUT is a checkout of https://github.com/data-apis/array-api-tests with its submodule, at
the commit that .github/workflows/ci.yml names, with its requirements.txt installed. The file
with a library's name in this folder lists the tests that the library itself fails, with reasons.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARIES = {
    "numpy": {"ARRAY_API_TESTS_MODULE": "gpugrad"},
    "array_api_strict": {"ARRAY_API_TESTS_MODULE": "over", "GPUGRAD_OVER": "array_api_strict"},
    "torch": {
        "ARRAY_API_TESTS_MODULE": "over",
        "GPUGRAD_OVER": "array_api_compat.torch",
        # PyTorch stores these dtypes, but has almost no arithmetic for them.
        "ARRAY_API_TESTS_SKIP_DTYPES": "uint16,uint32,uint64",
    },
}


def run(checkout, library, options):
    """Run the suite; return its exit status."""
    path = [str(HERE.parent.parent), str(HERE), os.environ.get("PYTHONPATH")]
    environment = os.environ | {
        "ARRAY_API_TESTS_VERSION": "2025.12",
        "OMP_NUM_THREADS": "1",  # the arrays are small
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        **LIBRARIES[library],
    }
    command = [
        *(sys.executable, "-m", "pytest", "array_api_tests", "--quiet", "-rX"),
        *("--max-examples", "20", "--derandomize", "--disable-deadline"),
        *("--xfails-file", str(HERE / f"{library}.txt"), "-p", "no:cacheprovider", *options),
    ]
    print(f"\n-- over {library}", flush=True)
    return subprocess.run(command, cwd=checkout, env=environment).returncode


def main(arguments):
    split = [*arguments, "--"].index("--")
    arguments, options = arguments[:split], arguments[split + 1 :]
    if not arguments or not set(arguments[1:]) <= set(LIBRARIES):
        raise SystemExit(__doc__)
    checkout, *libraries = arguments
    if not Path(checkout, "array-api", "src").is_dir():
        raise SystemExit(f"{checkout} is not a checkout of array-api-tests with its submodule")
    failed = [name for name in libraries or LIBRARIES if run(checkout, name, options)]
    if failed:
        raise SystemExit(f"array API conformance: failures over {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
