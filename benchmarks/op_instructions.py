"""How many instructions an op takes, a measure that other programs do not disturb.

    python benchmarks/op_instructions.py [--short] [--cases NAME ...] [--json PATH]
        [--check] [--against CHECKOUT]

Valgrind's callgrind (a separate program, not a Python package) counts the instructions of an
interpreter that runs chains of 200 ops on four elements. The results are instructions per op
without recording, with recording, and in the backward pass, with a case for each form of call.
Two runs of the same program differ by less than 0.1 percent. The same program in another folder,
with a different memory layout, differs by up to 0.5 percent. The imports are counted too.

--check: compare with results/op_instructions.json and exit with 1 if an op takes more than 1.03
    times the instructions it took there. Other versions of Python, NumPy or valgrind give other
    counts, so nothing is compared if the versions differ.
--against: count the gpugrad of another checkout in the same way and compare with that.
--short: the cases "chain" and "one op" only.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import harness

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "benchmarks/results/op_instructions.json"
LIMIT = 1.03
LENGTH = 200
WARM_UPS = 4  # enough for the interpreter to specialize its instructions
REPEATS = 5

# Whenever the interpreter calls this function of libc, through `os`, callgrind writes the number
# of instructions since the last call.
MARK = "getppid"

# The program to count. It imports gpugrad before anything that this file imports.
PROGRAM = """\
import os
os.getppid()
import numpy
os.getppid()
import gpugrad
os.getppid()
import op_instructions
op_instructions.run({names!r})
"""
IMPORTS = [["start", "", 1], ["import", "numpy", 1], ["import", "gpugrad", 1]]


def steps():
    """Return for each case the step of a chain, which maps result to result, and its op count."""
    import gpugrad

    c = gpugrad.tensor([[0.999, 1.0, 1.001, 1.002]])
    weight = gpugrad.tensor([[0.25] * 4] * 4, requires_grad=True)
    bias = gpugrad.tensor([0.1] * 4, requires_grad=True)

    def chain(y):
        y = y * c
        y = y + c
        y = gpugrad.tanh(y)
        return y - c

    return {
        EMPTY: (lambda y: y, 1),
        "chain": (chain, 4),
        "y * c": (lambda y: y * c, 1),
        "y + 0.5": (lambda y: y + 0.5, 1),
        "1 - y": (lambda y: 1.0 - y, 1),
        "tanh": (lambda y: gpugrad.tanh(y), 1),
        "sum": (lambda y: gpugrad.sum(y, axis=0, keepdims=True), 1),
        "y[:]": (lambda y: y[:], 1),
        "linear": (lambda y: gpugrad.linear(y, weight, bias), 1),
        "concat": (lambda y: gpugrad.concat([y]), 1),
        "unstack, y[None]": (lambda y: gpugrad.unstack(y)[0][None], 2),
    }


EMPTY = "empty loop"  # the cost of a loop without ops
CASES = [
    "chain", "y * c", "y + 0.5", "1 - y", "tanh", "sum", "y[:]", "linear", "concat",
    "unstack, y[None]", "one op", "create_graph", "vmap",
]  # fmt: skip
SHORT = ["chain", "one op"]


def run(names):
    """Run the cases; print gpugrad's path, and as JSON what each segment between marks counts."""
    import gc

    import gpugrad

    gc.disable()
    step_of = steps()
    constant = gpugrad.tensor([[0.5, 1.0, 1.5, 2.0]])
    leaf = gpugrad.tensor([[0.5, 1.0, 1.5, 2.0]], requires_grad=True)
    ones = gpugrad.ones((1, 4))
    segments = [*IMPORTS]

    @contextmanager
    def counted(name, part):
        segments.append(["between", "", 1])
        os.getppid()
        yield
        segments.append([name, part, LENGTH])
        os.getppid()

    def chain(y, name):
        step, ops = step_of[name]
        for _ in range(LENGTH // ops):
            y = step(y)
        return y

    def run_chain(name):
        with gpugrad.no_grad(), counted(name, "not recorded"):
            chain(constant, name)
        with counted(name, "forward"):
            y = chain(leaf, name)
        if name != EMPTY:
            with counted(name, "backward"):
                y.backward(ones)
                del y

    def run_one_op(name):
        """Sweep through one op, many times, to count the fixed cost of a sweep."""
        ys = [leaf * constant for _ in range(LENGTH)]
        with counted(name, "backward"):
            while ys:
                leaf.grad = None
                ys.pop().backward(ones)

    def run_create_graph(name):
        y = chain(leaf, "chain")
        with counted(name, "backward"):
            y.backward(ones, create_graph=True)
            leaf.grad = None
            del y

    def run_vmap(name):
        def batched_chain(y):
            with counted(name, "forward"):
                return chain(y, "chain")

        gpugrad.vmap(batched_chain)(leaf)

    special = {"one op": run_one_op, "create_graph": run_create_graph, "vmap": run_vmap}
    for name in [EMPTY, *names]:
        for _ in range(WARM_UPS + REPEATS):
            leaf.grad = None
            special.get(name, run_chain)(name)
    print(gpugrad.__file__)
    print(json.dumps(segments))


def count(checkout, names):
    """Count instructions per op of the gpugrad in ``checkout``: ``{(case, part): number}``."""
    command = [sys.executable, "-P", "-c", PROGRAM.format(names=names)]
    values = {}
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(checkout), str(ROOT / "benchmarks")]),
            "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        # Run without valgrind first, to write the bytecode.
        path, segments = subprocess.check_output(command, text=True, env=variables).splitlines()
        if Path(path).resolve().parent.parent != checkout:
            sys.exit(f"there is no gpugrad in {checkout}: found {path}")
        valgrind = [
            "valgrind", "--quiet", "--tool=callgrind", f"--dump-before={MARK}",
            f"--callgrind-out-file={folder}/counts",
        ]  # fmt: skip
        subprocess.check_output(valgrind + command, env=variables)
        for k, (case, part, ops) in enumerate(json.loads(segments), 1):
            with open(f"{folder}/counts.{k}") as file:
                total = next(int(line.split()[1]) for line in file if line.startswith("summary:"))
            values.setdefault((case, part), []).append(total / ops)
    medians = {key: median(found[-REPEATS:]) for key, found in values.items()}
    found = {("import", name): medians["import", name] for name in ("numpy", "gpugrad")}
    for (case, part), value in medians.items():
        if case in names:
            loop = 0 if part == "backward" else medians[EMPTY, "forward"]
            found[case, part] = value - loop
    return found


def committed():
    """Return the counts in results/; if other versions made them, say so and return nothing."""
    found = json.loads(REFERENCE.read_text())
    differing = [
        f"{name} {there!r}, now {here!r}"
        for name, here in versions().items()
        if (there := found["environment"]["versions"].get(name)) != here
    ]
    if differing:
        print(f"cannot compare with {REFERENCE.name}: it was made with {'; '.join(differing)}")
        return {}
    return {(row["case"], row["part"]): row["value"] for row in found["rows"]}


def versions():
    """Return the versions of everything else that the counts depend on."""
    valgrind = subprocess.check_output(["valgrind", "--version"], text=True).strip()
    return {
        "python": f"{platform.python_version()}, {platform.python_compiler()}",
        "numpy": importlib.metadata.version("numpy"),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "valgrind": valgrind.removeprefix("valgrind-"),
    }


def report(counts, before):
    """Print the counts and their ratios to those of ``before``; return those over the limit."""
    parts = ["not recorded", "forward", "backward"]
    lines, over = [["", *parts]], []
    for case in dict.fromkeys(case for case, _ in counts if case != "import"):
        line = [case]
        for part in parts:
            value, known = counts.get((case, part)), before.get((case, part))
            line.append("" if value is None else f"{value:.0f}")
            if value is not None and known is not None:
                line[-1] += f" ({value / known:.3f})"
                if value / known > LIMIT:
                    over.append(f"{case}, {part}: {value / known:.3f}")
        lines.append(line)
    print("\ninstructions per op" + (" (ratio to before)" if before else ""))
    harness.print_columns(lines)
    numpy, ours = (counts["import", name] / 1e6 for name in ("numpy", "gpugrad"))
    was = f", before {before['import', 'gpugrad'] / 1e6:.0f}" if before else ""
    print(f"\nmillion instructions: import numpy {numpy:.0f}, then import gpugrad {ours:.0f}{was}")
    return over


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help=f"only {' and '.join(SHORT)}")
    parser.add_argument("--cases", nargs="+", choices=CASES, metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    compared = parser.add_mutually_exclusive_group()
    compared.add_argument("--check", action="store_true", help=f"compare with {REFERENCE.name}")
    compared.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="compare with the gpugrad in this folder"
    )
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("this benchmark needs the program valgrind, which is not installed")
    names = options.cases or (SHORT if options.short else CASES)
    before = {}
    if options.check:
        before = committed()
    elif options.against:
        before = count(options.against.resolve(), names)
    counts = count(ROOT, names)
    over = report(counts, before)
    if options.json:
        about = harness.environment(["numpy"]) | {"versions": versions()}
        rows = [
            {"case": case, "part": part, "value": round(value), "unit": "instructions"}
            for (case, part), value in counts.items()
        ]
        harness.write_json(options.json, "op_instructions", options, about, rows)
    if before:
        print(f"at most {LIMIT} times before: {'met' if not over else 'missed'}", *over, sep="\n")
        sys.exit(bool(over))


if __name__ == "__main__":
    main()
