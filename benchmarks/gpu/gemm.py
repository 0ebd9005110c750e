"""How fast matrix products are in each precision, compared to PyTorch.

    python benchmarks/gpu/gemm.py [--device cpu] [--short | --full] [--libraries NAME ...]
        [--precisions P ...] [--json PATH] [--plot PATH] [--save]

The products are square ones; those that the layers of an MLP with 4096 hidden features need in a
training step, forward and backward; and batches of small ones with a transposed operand, as in
attention. TFLOP/s are 2 m n k operations divided by the time that the GPU works.
"""

import sys
from math import prod
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import report
from peers import use
from timing import Workers

LIMIT = 1.05
LARGE = 2 * 4096**3  # the limit holds for products of at least this many operations


class Product(NamedTuple):
    """``(..., m, k) @ (..., k, n)``; transposed operands have their last axes swapped in memory."""

    what: str
    batch: tuple
    m: int
    k: int
    n: int
    transposed: tuple
    precision: str

    @property
    def operations(self):
        return 2 * prod(self.batch) * self.m * self.k * self.n

    @property
    def shapes(self):
        m, k, n = self.m, self.k, self.n
        first, second = self.transposed
        return (
            (*self.batch, *((k, m) if first else (m, k))),
            (*self.batch, *((n, k) if second else (k, n))),
        )

    def __str__(self):
        return f"{self.precision} {self.what}"


def products(options):
    """Return the products to measure, by precision."""
    sizes = (64, 128) if options.short else (1024, 2048, 4096, 8192)
    batch, wide, into = (64, 128, 96) if options.short else (8192, 4096, 784)
    heads, tokens, features = (4, 32, 16) if options.short else (256, 1024, 64)
    no, first, second = (False, False), (True, False), (False, True)
    shapes = [(f"{n}x{n}x{n}", (), n, n, n, no) for n in sizes]
    shapes += [
        ("layer 1", (), batch, into, wide, second),
        ("layer 2", (), batch, wide, wide, second),
        ("layer 2, to x", (), batch, wide, wide, no),
        ("layer 2, to weight", (), wide, batch, wide, first),
        ("layer 3", (), batch, wide, 10, second),
        ("batch, scores", (heads,), tokens, features, tokens, second),
        ("batch, mixing", (heads,), tokens, tokens, features, no),
        ("batch, to keys", (heads,), tokens, tokens, features, first),
    ]
    if not options.full:
        shapes = [s for s in shapes if s[0] != "batch, to keys"]
    return [Product(*s, p) for p in report.precisions(options) for s in shapes]


def prepare(library, device, product):
    """Return a function that computes the product once."""
    dtype = use(library, product.precision, device)
    transposed = product.transposed
    if library == "gpugrad":
        import gpugrad

        def operand(shape, swap):
            x = gpugrad.random.normal(shape, device=device).astype(dtype)
            return gpugrad.matrix_transpose(x) if swap else x

        matmul = gpugrad.matmul
    else:
        import torch

        def operand(shape, swap):
            x = torch.randn(shape, device=device).to(dtype)
            return x.mT if swap else x

        matmul = torch.matmul
    a, b = map(operand, product.shapes, transposed)
    return lambda: matmul(a, b)


def main():
    options = report.arguments(
        __doc__.splitlines()[0], ["gpugrad", "torch"], precisions=list(report.PRECISIONS)
    )
    with Workers("gemm", options) as workers:
        workers.race(prepare, products(options), rows_of)
    for r in workers.rows:
        best = max(s["teraflops"] for s in workers.rows if s["precision"] == r["precision"])
        r["fraction"] = r["teraflops"] / best
    bounds = show(options, workers.rows)
    sys.exit(report.finish(workers, bounds, draw(workers.rows)))


def rows_of(result):
    """Return a row for each library, with its rate."""
    product, rows = result.case, []
    times = result.seconds("gpu")  # on a CPU only the time of a run is known
    for library, seconds in times.items():
        rows.append(
            report.row(
                "gemm", str(product), library, seconds, times.get(report.BASELINE), unit="s",
                target=LIMIT if library == "gpugrad" else None,
                precision=product.precision, operations=product.operations,
                teraflops=product.operations / median(seconds) / 1e12,
                cpu=median(result.seconds("cpu")[library]),
            )
        )  # fmt: skip
    return rows


def show(options, rows):
    """Print the tables and return the bounds."""
    bounds = []
    large = min(LARGE, max(r["operations"] for r in rows)) if rows else 0
    for precision in dict.fromkeys(r["precision"] for r in rows):
        mine = [r for r in rows if r["precision"] == precision]
        lines = [["", "gpugrad TFLOP/s", "torch TFLOP/s", "of best", "time / torch", "spread", ""]]
        worst = None
        for case in dict.fromkeys(r["case"] for r in mine):
            of = {r["library"]: r for r in mine if r["case"] == case}
            own, torch = of.get("gpugrad"), of.get("torch")
            verdict = ""
            if own and own["operations"] >= large and own["ratio"]:
                verdict = report.verdict(report.bound(case, own["ratio"], LIMIT))
                if worst is None or own["ratio"] > worst["ratio"]:
                    worst = own
            lines.append([
                case,
                report.number(own and own["teraflops"]),
                report.number(torch and torch["teraflops"]),
                report.ratio(own and own["fraction"]),
                report.ratio(own and own["ratio"]),
                report.spread(own["rounds"]) if own else "",
                verdict,
            ])  # fmt: skip
        report.table(f"matrix products, {precision}", lines)
        what = f"time of large products in {precision}, against torch"
        what += f" (worst: {worst['case']})" if worst else ""
        bounds.append(report.bound(what, worst and worst["ratio"], LIMIT))
    return bounds


def draw(rows):
    def draw_on(figure):
        figure.set_size_inches(11, 2 + 0.2 * len({r["case"] for r in rows}))
        left, right = figure.subplots(1, 2)
        report.bars(left, rows, key="teraflops", title="rate", label="TFLOP/s", log=True)
        own = [r for r in rows if r["library"] == "gpugrad"]
        report.bars(
            right, own, key="ratio", title="time against torch's",
            label="ratio (lower is better)", mark=(LIMIT, "bound for large products"),
        )  # fmt: skip

    return draw_on


if __name__ == "__main__":
    main()
