"""Measure all that the README and the documentation show of CPUs, and write it there.

    python benchmarks/renew.py            # an hour and a half, on an idle machine
    python benchmarks/renew.py --kernels Haswell    # only those with the kernels for AVX2
    python benchmarks/renew.py --short --out runs/renewed    # ten minutes, to see that it runs
    python benchmarks/renew.py --written  # what was measured before into pages and pictures

Each benchmark runs with the kernels that OpenBLAS chooses for this processor, into
benchmarks/results, and with those for AVX2, into benchmarks/results/Haswell. The results record
which were in use. Then the table of docs/benchmarks.md and two rows of the README's are written
from them, and the pictures are drawn. With ``--out`` the results go elsewhere, and no page changes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
# Folders in `RESULTS`, which are values of OPENBLAS_CORETYPE, by the names for `--kernels`.
KINDS = {"chosen": "", "Haswell": "Haswell"}
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

# By benchmark: its options in the short form, and whether it draws.
BENCHMARKS = {
    "op_overhead": ([], True),
    "train_step": ([], True),
    "model_step": ([], True),
    "op_table": (["--sizes", "10"], True),
    "transforms": (["--sizes", "small"], True),
    "checkpoint": ([], False),
    "distributed": ([], False),
}

# Rows of the table in docs/benchmarks.md: a benchmark, its section and its case.
ROWS = {
    "one op and its backward, 4 elements": ("op_overhead", "elementwise", "4"),
    "the same, 64x64 elements": ("op_overhead", "elementwise", "64x64"),
    "the same, 256x256 elements": ("op_overhead", "elementwise", "256x256"),
    "step of an MLP 784-256-128-10, batch 1": ("train_step", "speed", "784-256-128-10, batch 1"),
    "the same, batch 32": ("train_step", "speed", "784-256-128-10, batch 32"),
    "the same, batch 128": ("train_step", "speed", "784-256-128-10, batch 128"),
    "the same, batch 1024": ("train_step", "speed", "784-256-128-10, batch 1024"),
    "the same, batch 128, beside a program that keeps one core busy": (
        "train_step", "busy", "784-256-128-10, batch 128",
    ),
    "step of an MLP 2-16-16-1, batch 4": ("train_step", "speed", "2-16-16-1, batch 4"),
    "step of a CNN, 28x28, batch 64": ("model_step", "speed", "CNN"),
    "step of a transformer, 4 layers, 128 wide": ("model_step", "speed", "transformer"),
    "step of an LSTM, 128 states, 50 times": ("model_step", "speed", "LSTM"),
    "Adam, 100 parameters of 1000 elements": ("model_step", "speed", "Adam, 100 of 1000"),
    "Adam, one parameter of 10 million elements": (
        "model_step", "speed", "Adam, 1 of 10,000,000",
    ),
}  # fmt: skip
BEGIN, END = "% The table is written by benchmarks/renew.py.\n\n", "\n% Here it ends.\n"


def commands(names, short, out, kinds=KINDS):
    """Return the commands of the benchmarks, each with variables for its environment."""
    found = []
    for kind in map(KINDS.get, kinds):
        for name in names:
            options, draws = BENCHMARKS[name]
            path = out / kind / name
            command = [sys.executable, ROOT / "benchmarks" / f"{name}.py", "--json", f"{path}.json"]
            command += ["--plot", f"{path}.png"] if draws else []
            command += ["--short", *options] if short else []
            threads = ONE_THREAD if name in ("transforms", "checkpoint") else {}
            found.append((command, threads | ({"OPENBLAS_CORETYPE": kind} if kind else {})))
    return found


def measured(kind, name, section, case, key="ratio", out=RESULTS):
    """Return the values of a case, by library; none if it was not measured."""
    path = out / kind / f"{name}.json"
    rows = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    return {r["library"]: r[key] for r in rows if (r["section"], r["case"]) == (section, case)}


def kernels(kind="", out=RESULTS):
    """Return which of OpenBLAS's kernels the results of a kind are of."""
    known = json.loads((out / kind / "train_step.json").read_text("utf-8"))["environment"]
    # Those that record none are of a time when this machine was set to use these.
    return known["libraries"]["gpugrad"].get("kernels", "Haswell").split(", ")[0]


def table(out=RESULTS):
    """Return the table of docs/benchmarks.md."""
    kinds = [kind for kind in KINDS.values() if (out / kind / "train_step.json").exists()]
    head = [f"{kernels(kind, out)} | the same, compiled" for kind in kinds]
    lines = [f"| OpenBLAS's kernels: | {' | '.join(head)} |", f"|{'---|' * (2 * len(kinds) + 1)}"]
    for label, place in ROWS.items():
        found = [measured(kind, *place, out=out) for kind in kinds]
        ratios = [own.get(x) for own in found for x in ("gpugrad", "gpugrad_compiled")]
        lines.append(f"| {label} | {' | '.join(f'{x:.2f}' if x else '' for x in ratios)} |")
    return "\n".join(lines) + "\n"


def readme(text, out=RESULTS):
    """Return the README with the rows of its table that `train_step` measures."""
    batch = measured("", "train_step", "speed", "784-256-128-10, batch 32", "value", out)
    ms = {name: f"{value / 1000:.2g} ms" for name, value in batch.items()}
    own = f"{batch['gpugrad'] / 1000:.2f} ms, compiled {batch['gpugrad_compiled'] / 1000:.2f}"
    memory = measured("", "train_step", "memory", "whole process", "value", out)
    rows = {
        "step of an MLP 784-256-128-10, batch 32": (
            own, ms["torch"], f"{ms['jax']}, by `jit`", ms["autograd"],
        ),
        "peak memory of a process with 784-4096-4096-10": [
            f"{memory[name]:.0f} MB" for name in ("gpugrad", "torch", "jax", "autograd")
        ],
    }  # fmt: skip
    for label, cells in rows.items():
        row = f"| {label} | {' | '.join(cells)} |"
        text, count = re.subn(rf"^\| {re.escape(label)} \|.*$", row, text, flags=re.MULTILINE)
        assert count == 1, label
    return text


def write():
    page = ROOT / "docs" / "benchmarks.md"
    before, rest = page.read_text("utf-8").split(BEGIN)
    page.write_text(before + BEGIN + table() + END + rest.split(END)[1], "utf-8")
    page = ROOT / "README.md"
    page.write_text(readme(page.read_text("utf-8")), "utf-8")
    subprocess.run([sys.executable, ROOT / "docs" / "pictures.py"], check=True)
    print("The sentences around tables and pictures are not written: read them, and mend them.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="to see that it runs")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=[*BENCHMARKS])
    parser.add_argument("--kernels", nargs="+", choices=KINDS, default=[*KINDS])
    parser.add_argument("--written", action="store_true", help="measure nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder for the results")
    options = parser.parse_args()
    if options.short and options.out == RESULTS:
        parser.error("the short form measures too little for the pages; give it an --out")
    kept = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
    failed, names = [], [] if options.written else options.only
    for command, variables in commands(names, options.short, options.out, options.kernels):
        words = " ".join([*(f"{k}={v}" for k, v in variables.items()), *map(str, command[1:])])
        print(f"\n{words}", flush=True)
        if subprocess.run(command, env=kept | variables, check=False).returncode:
            failed.append(words)
    print(table(options.out))
    if options.out == RESULTS:
        write()
    return (
        "\n".join(["These failed, and their results are the old ones:", *failed]) if failed else 0
    )


if __name__ == "__main__":
    sys.exit(main())
