"""Run everything that needs a GPU: tests, examples and benchmarks.

    pip install ".[test,cuda13x]" torch "jax[cuda13]"    # torch and jax are what it compares with
    python benchmarks/gpu [--out FOLDER] [--parts compile tests benchmarks examples table]
        [--minutes N] [--device cpu] [--short | --full] [--list]

The parts are a run of all tests on all cores ("compile"), the tests of what only a GPU can show
("tests"), the benchmarks, the examples, and the tests of the table of ops and all others on CUDA
arrays ("table"). They are run in this order, and take at most 38 minutes together, or those of
--minutes: what has no time left is named and left out.

The first part is run for what it compiles, not for its results, since tests that run at the same
time disturb each other. CuPy compiles thousands of kernels, each in half a second to six seconds,
and keeps them in CUPY_CACHE_DIR, by default ~/.cupy/kernel_cache. If you keep that folder, only
the first run needs this part.

Each command has a time limit, and runs whether or not the one before succeeded. Its log and the
files that it writes are in FOLDER, by default runs/gpu: pictures, and the benchmarks' gpu_*.json,
gpu_*.md with the tables, and gpu_*.png, which you can move to benchmarks/results/ to keep them. The
results are written after each case, so that a run that is ended keeps them. The exit status is 0
if all commands succeeded.
"""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpugrad import cuda  # noqa: E402

EXAMPLES = (
    "xor fit_quadratic fit_sine train_mlp raw_kernel least_squares ode_fit fixed_point pinn "
    "differentiate_scipy regression variational_autoencoder cnn long_memory character_transformer "
    "gaussian_process hidden_markov gaussian_mixture bayesian_network fluid"
).split()
BENCHMARKS = "mlp", "models", "layers", "ops", "gemm"
PEERS = {"torch": "torch", "jax": "jax[cuda13]"}
# Modules without which pytest cannot collect the tests of a part.
TESTS = "pytest xdist scipy ml_dtypes array_api_strict".split()
ALL_TESTS = [*TESTS, *"matplotlib tqdm safetensors array_api_extra einops sklearn jedi".split()]
NEEDS = {"compile": ALL_TESTS, "tests": TESTS, "table": ALL_TESTS}
# Seconds for each command.
LIMITS = {"compile": 600, "tests": 600, "benchmarks": 400, "examples": 120, "table": 900}


def commands(options, out):
    """Yield ``(part, name, arguments of python)`` for each command."""
    form = ["--short"] if options.short else ["--full"] if options.full else []
    pytest, own = ["-m", "pytest", "-m", "gpu", "-q", "-rs"], str(ROOT / "tests/gpu")
    if options.device == "cuda":
        yield "compile", "all", [*pytest, "-n", str(os.cpu_count()), str(ROOT / "tests")]
    yield "tests", "gpu", [*pytest, own]
    for name in BENCHMARKS:
        files = ["--json", str(out / f"gpu_{name}.json"), "--plot", str(out / f"gpu_{name}.png")]
        script = str(ROOT / "benchmarks/gpu" / f"{name}.py")
        yield "benchmarks", name, [script, "--device", options.device, *form, *files]
    for name in EXAMPLES:
        yield "examples", name, [str(ROOT / "examples" / f"{name}.py"), "--device", options.device]
    yield "table", "ops", [*pytest, str(ROOT / "tests"), f"--ignore={own}"]


def run(words, log, folder, limit):
    """Run a command with its output in the log; return its exit status, or None after the limit."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=folder, env=environment, stdout=file,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # and the processes that it started
                process.wait()


def main():
    parser = argparse.ArgumentParser(
        prog="python benchmarks/gpu", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--device", choices=["cuda", "cpu"], default="cuda", help="default cuda")
    add("--short", action="store_true", help="benchmarks in their short form")
    add("--full", action="store_true", help="benchmarks in their full form, without a time limit")
    add("--parts", nargs="+", choices=LIMITS, default=list(LIMITS), help="default all")
    add("--minutes", type=float, default=38, metavar="N", help="for all parts; default 38")
    add("--out", type=Path, default=Path("runs/gpu"), metavar="FOLDER", help="default runs/gpu")
    add("--list", action="store_true", help="print the commands without running them")
    options = parser.parse_args()
    out = options.out.resolve()
    todo = [c for c in commands(options, out) if c[0] in options.parts]
    if options.list:
        for _, _, words in todo:
            print(shlex.join(["python", *words]))
        return 0
    if options.device == "cuda" and (problem := cuda.why_not()):
        print(problem)
        return 1
    for part, names in NEEDS.items():
        missing = [name for name in names if find_spec(name) is None]
        if missing and part in options.parts:
            print(f"the part {part!r} needs {', '.join(missing)}; pip install '{ROOT}[test]'")
            return 1
    if missing := [package for name, package in PEERS.items() if find_spec(name) is None]:
        print(f"not compared: pip install {shlex.join(missing)}")
    out.mkdir(parents=True, exist_ok=True)
    failed = False
    stop = time.perf_counter() + 60 * options.minutes
    for part, name, words in todo:
        log = out / f"{part}_{name}.log"
        start = time.perf_counter()
        limit = min(LIMITS[part], stop - start)
        if options.full and part == "benchmarks":
            limit = None
        elif limit < 10:
            print(f"{part:<10}  {name:<20}  no time left of {options.minutes:g} minutes")
            failed = True
            continue
        elif part == "benchmarks":  # which then still writes its tables and pictures
            words = [*words, "--minutes", f"{0.8 * limit / 60:.2f}"]
        status = run(words, log, out, limit)
        failed |= status != 0 and part != "compile"
        outcome = "ran out of time" if status is None else f"status {status}" if status else "ok"
        print(f"{part:<10}  {name:<20}{time.perf_counter() - start:7.1f} s  {outcome}", flush=True)
        text = log.read_text(errors="replace").rstrip()
        if status != 0 and part != "compile":
            print(text[-2000:])
        elif part == "benchmarks":
            print(text[text.rfind("must reach") :])
        elif part in ("compile", "tests", "table"):
            print(text.splitlines()[-1] if text else "")
    print(f"logs and results: {out}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
