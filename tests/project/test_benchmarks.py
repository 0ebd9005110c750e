"""Benchmarks: the samples they take from the table of ops, and GPU scripts without a GPU."""

import importlib
import json
import os
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cases import CASES
from samples import every
from stand_in import ROOT, run


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch):
    """Put the folders of the benchmarks on the path, as it is when one is run."""
    for folder in ("benchmarks", "benchmarks/gpu"):
        monkeypatch.syspath_prepend(str(ROOT / folder))


def test_every_op_has_a_sample_of_a_given_size():
    for case, checked in every([case for case in CASES if case.torch]):
        with checked:
            sample = case.at_size(10)
            given = sample.arrays("float32")
            outputs = case(given, sample.static)
            arrays = [*given, *(outputs if isinstance(outputs, tuple) else [outputs])]
            assert 8 <= max(np.prod(getattr(x, "shape", ())) for x in arrays) <= 20


def test_without_gpugrad_nothing_is_measured(monkeypatch):
    import harness

    monkeypatch.setattr(sys, "argv", ["train_step.py"])
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=f"pip install {ROOT}, or set PYTHONPATH={ROOT}"):
        harness.arguments("", ["gpugrad", "torch"])


def made_up(slower):
    """What stands for the libraries' processes; gpugrad's times are multiplied by ``slower``."""
    times = {"gpugrad": 0.7e-3, "gpugrad compiled": 0.09e-3, "torch graph": 0.1e-3}

    def seconds(library, case):
        if str(case) == "copy":
            return 2e-3
        own = slower if library.startswith("gpugrad") else 1
        if hasattr(case, "wide"):
            passes = case.wide.backward if case.direction == "backward" else case.wide.forward
            return own * passes * 1e-3 / 0.92
        if library == "torch" and str(case).startswith("fp16 attention") and not case.how:
            return 0.25e-3  # FlashAttention
        return own * times.get(library, 1e-3)

    def ask(workers, library, function, *args):
        if function.__name__ == "start":
            return {"version": "1.2", "device": "Made-up H200"}, None
        (*_, case), *more = args
        if function.__name__ == "_begin":
            made = {"ready": 2.5, "memory": 3 << 20, "nodes": 15 if "graph" in library else None}
            return ([2.3, 2.2, 2.1, 2.0, 1.9][: more[-1]], made, None), None
        time = seconds(library, case)
        gpu = None if library == "jax jit" else time
        return {"time": time, "cpu": time / 2, "gpu": gpu, "gpu_waits": False}, None

    return ask


HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}  # any GPU of this machine
SMALL = "784-256-128-10, batch 128, fp32"
BOUNDS = {
    "mlp": {
        f"{SMALL}, against torch eager": (0.7, 1.5),
        f"{SMALL}, compiled, against torch graph": (0.9, 1.0),
        f"{SMALL}, compiled, ms on an H100 or H200": (0.09, 0.1),
    },
    "models": {
        "transformer, fp32, compiled, against torch graph": (0.9, 1.0),
        "LSTM, fp32, compiled, against torch graph": (0.9, 1.2),
        "CNN, bf16, compiled, against torch graph": (0.9, 1.5),
    },
    "layers": {
        "fp16 attention 8x12x1024x64, mask, against torch without a mask": (2.8, 3),
        "fp32 attention 8x12x1024x64, mask, backward too, against torch": (0.7, 1.2),
    },
    "ops": {
        "softmax forward, share of the copy's bandwidth": (0.92, 0.85),
        "cross_entropy backward, share of the copy's bandwidth": (0.92, 0.85),
        "elementwise forward, share of the copy's bandwidth (worst: add)": (0.92, 0.9),
    },
    "gemm": {},
}


@pytest.mark.parametrize("slower", [1, 100], ids=["met", "missed"])
@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_tables_and_pictures(name, slower, tmp_path, monkeypatch, capsys):
    """Of all cases that are measured on a GPU, from made-up figures."""
    pytest.importorskip("matplotlib")
    timing, module = importlib.import_module("timing"), importlib.import_module(name)
    monkeypatch.setattr(timing.Workers, "_ask", made_up(slower))
    monkeypatch.setattr(timing.peers, "state", lambda device: None)
    picture = ["--plot", str(tmp_path / "plot.png")] * (slower == 1)  # it takes most of the time
    files = ["--json", str(tmp_path / "results.json"), *picture]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *files])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert not ended.value.code
    assert not picture or (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    results = json.loads((tmp_path / "results.json").read_text())
    table, printed = (tmp_path / "results.md").read_text(), capsys.readouterr().out
    bounds = {b["what"]: b for b in results["bounds"]}
    assert bounds.pop("runs in which gpugrad waits for the GPU", {"met": True})["met"]
    assert {b["met"] for b in bounds.values()} == {slower == 1}
    for what, (figure, limit) in BOUNDS[name].items():
        figure *= 1 / slower if "share" in what else slower
        assert bounds[what]["figure"] == pytest.approx(figure, rel=1e-4)
        assert bounds[what]["limit"] == limit
        assert f"| {what} | {figure:.2f} | " in table
        assert f"{what}  " in printed
    trains = name in ("mlp", "models")
    libraries = timing.peers.LIBRARIES if trains else {"gpugrad", "torch"}
    assert {r["library"] for r in results["rows"]} == {*libraries}
    assert not trains or "| torch graph | 2.5 | 3 | 15 |" in table


@pytest.mark.slow
class TestOnGPU:
    """The scripts in benchmarks/gpu; their CUDA form runs on the stand-in for CuPy."""

    @pytest.mark.skipif(not shutil.which("g++"), reason="the stand-in computes with g++")
    @pytest.mark.parametrize("name", "ops gemm mlp models layers".split())
    def test_all_cases_are_measured(self, name, tmp_path):
        script, least = ROOT / f"benchmarks/gpu/{name}.py", 18 if name == "layers" else 4
        pytest.importorskip("matplotlib")
        files = "--json", tmp_path / "results.json", "--plot", tmp_path / "plot.png"
        done = run(script, "--short", *files, stand_in=True, **HIDDEN)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
        results = json.loads((tmp_path / "results.json").read_text())
        assert results["environment"]["device"] == "Stand-in 0"
        rows = [r for r in results["rows"] if r["library"] == "gpugrad"]
        assert len(rows) == len({(r["section"], r["case"]) for r in rows}) >= least
        positive = ["value", *["ready", "memory"] * (name in ("mlp", "models", "layers"))]
        assert all(r[key] > 0 for r in rows for key in positive)
        table = (tmp_path / "results.md").read_text()
        assert all(re.search(rf"\| {re.escape(r['case'])} \| [\d.]+ µs", table) for r in rows)
        if name in ("mlp", "models"):
            compiled = [r for r in results["rows"] if r["library"] == "gpugrad compiled"]
            assert [r["case"] for r in compiled if r["nodes"] >= 1] == [r["case"] for r in rows]
        # bfloat16 needs a package that may not be installed.
        assert all("ml_dtypes" in words for words in results["left_out"]["cases"])
        for words in ("must reach", "torch is left out: "):
            assert words in done.stdout

    def test_without_a_gpu(self):
        for code, words, *command in (
            (1, "--device cpu measures the CPU", "gemm.py", "--short", "--libraries", "gpugrad"),
            (2, "--save keeps figures of a GPU", "mlp.py", "--device", "cpu", "--save"),
        ):
            done = run(ROOT / "benchmarks/gpu" / command[0], *command[1:], **HIDDEN)
            assert (done.returncode, words in done.stderr) == (code, True)
            assert ("gpugrad is left out: " in done.stdout) == (code == 1)

    def test_a_case_that_fails_is_left_out_and_results_are_written_after_each(self, tmp_path):
        import report
        import timing

        done, path = [], tmp_path / "results.json"
        options = SimpleNamespace(device="cpu", short=True, full=False, minutes=9, json=path)
        options.libraries = ["gpugrad"]

        def written():
            rows = json.loads(path.read_text())["rows"] if path.exists() else []
            return [r["case"] for r in rows]

        def rows_of(result):
            done.append((result.case, bool(result.turns), written()))
            options.minutes *= result.case != "good again"
            seconds = result.seconds().get("gpugrad")
            row = ("s", result.case, "gpugrad", seconds, None)
            return [] if seconds is None else [report.row(*row, unit="s")]

        with timing.Workers("test", options) as workers:
            cases = ["good", "beyond", "wrong", "dead", "good again", "last"]
            workers.race(prepare, cases, rows_of)
        assert done == [
            ("good", True, []),
            *((case, False, ["good"]) for case in ("beyond", "wrong", "dead")),
            ("good again", True, ["good"]),
        ]
        assert written() == ["good", "good again"]
        assert [words[:38] for words in workers.describe_problems()] == [
            "gpugrad: it has none (beyond)",
            "gpugrad: ZeroDivisionError: division b",
            "gpugrad: BrokenProcessPool: A process ",
            "all: no time left after 0 minutes (las",
        ]
        assert workers.failed
        assert "| good again | " in (tmp_path / "results.md").read_text()

    def test_gpu_time_excludes_waiting_for_the_cpu(self, monkeypatch):
        import timing

        gpu = SimulatedGPU()
        monkeypatch.setattr(timing, "time", gpu)
        found = timing.measure(lambda: gpu.enqueue(0.0002, work=0.00005), gpu, 0.02)
        expected = {"gpu": 0.00005, "cpu": 0.0002, "time": 0.0002, "gpu_waits": False}
        assert found == pytest.approx(expected, rel=0.05)
        assert found["gpu"] == pytest.approx(0.00005)
        found = timing.measure(lambda: gpu.wait(gpu.enqueue(0.0002, work=0.00005)), gpu, 0.02)
        assert 0.0002 <= found["gpu"] <= 0.00025
        assert found["gpu_waits"]

    def test_every_command_for_a_gpu_is_listed(self):
        done = run(ROOT / "benchmarks/gpu", "--list", **HIDDEN)
        for path in [*ROOT.glob("examples/*.py"), *ROOT.glob("benchmarks/gpu/[a-z]*.py")]:
            if '__name__ == "__main__"' in path.read_text():
                assert f"{path} --device cuda" in done.stdout


class SimulatedGPU:
    """A GPU that does one task after the other, and a clock for the time of both processors."""

    asynchronous = has_events = True

    def __init__(self):
        self.now = self.idle_from = 0.0

    def perf_counter(self):
        self.now += 1e-7
        return self.now

    def enqueue(self, seconds, work):
        """Keep the CPU busy for ``seconds``, and give the GPU ``work`` seconds of work."""
        self.now += seconds
        self.hold(work)

    def hold(self, seconds):
        self.idle_from = self.mark() + seconds

    def mark(self):
        return max(self.idle_from, self.now)

    def is_done(self, event):
        return self.now >= event

    def seconds(self, start, end):
        return end - start

    def wait(self, result=None):
        self.now = self.mark()


def prepare(library, device, case):
    """Runs in another process."""
    if case == "beyond":
        raise importlib.import_module("peers").LeftOut("it has none")
    if case == "dead":
        os._exit(1)
    return (lambda: 1 / 0) if case == "wrong" else (lambda: None)


def test_the_tables_are_those_of_the_results():
    import renew

    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert renew.BEGIN + renew.table() + renew.END in page, "run benchmarks/renew.py --written"
    text = (ROOT / "README.md").read_text("utf-8")
    assert renew.readme(text) == text, "run benchmarks/renew.py --written"


def test_benchmarks_are_renewed_for_both_kinds_of_kernels(tmp_path):
    """Their tables and pictures are those that were committed, which have both kinds."""
    import renew

    commands = renew.commands(renew.BENCHMARKS, True, tmp_path)
    assert [env.get("OPENBLAS_CORETYPE") for _, env in commands] == [None] * 7 + ["Haswell"] * 7
