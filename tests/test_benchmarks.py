"""Benchmarks: the samples they take from the table of ops, and GPU scripts without a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import CASES

ROOT = Path(__file__).parents[1]
STAND_IN = ROOT / "tests/cupy_stand_in"


@pytest.mark.parametrize("case", [c for c in CASES if c.torch], ids=lambda case: case.op)
def test_every_op_has_a_sample_of_a_given_size(case):
    sample = case.at_size(10)
    given = sample.arrays("float32")
    outputs = case(given, sample.static)
    arrays = [*given, *(outputs if isinstance(outputs, tuple) else [outputs])]
    assert 8 <= max(np.prod(getattr(x, "shape", ())) for x in arrays) <= 20


def test_without_gpugrad_nothing_is_measured(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import harness

    monkeypatch.setattr(sys, "argv", ["train_step.py"])
    monkeypatch.setattr(harness.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=f"pip install {ROOT}, or set PYTHONPATH={ROOT}"):
        harness.arguments("", ["gpugrad", "torch"])


def run(*words, stand_in=False, cwd=ROOT):
    """Run a program, with any GPU of this machine hidden; return the finished process."""
    paths = [str(STAND_IN)] * stand_in + [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "CUDA_VISIBLE_DEVICES": "",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=cwd, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
class TestOnGPU:
    """The scripts in benchmarks/gpu; their CUDA form runs on the stand-in for CuPy."""

    @pytest.mark.parametrize("name, least", [("ops", 4), ("gemm", 4), ("mlp", 4), ("models", 2)])
    def test_all_cases_are_measured(self, name, least, tmp_path):
        script = ROOT / f"benchmarks/gpu/{name}.py"
        pytest.importorskip("matplotlib")
        files = "--json", tmp_path / "results.json", "--plot", tmp_path / "plot.png"
        done = run(script, "--short", *files, stand_in=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
        results = json.loads((tmp_path / "results.json").read_text())
        assert results["environment"]["device"] == "Stand-in 0"
        rows = [r for r in results["rows"] if r["library"] == "gpugrad"]
        assert len(rows) == len({(r["section"], r["case"]) for r in rows}) >= least
        assert all(r["value"] > 0 for r in rows)
        if name in ("mlp", "models"):
            compiled = [r for r in results["rows"] if r["library"] == "gpugrad compiled"]
            assert [r["case"] for r in compiled] == [r["case"] for r in rows]
        # bfloat16 needs a package that may not be installed.
        assert all("ml_dtypes" in words for words in results["left_out"]["cases"])
        for words in ("must reach", "torch is left out: "):
            assert words in done.stdout

    def test_without_a_gpu(self):
        done = run(ROOT / "benchmarks/gpu/gemm.py", "--short", "--libraries", "gpugrad")
        assert done.returncode == 1
        assert "gpugrad is left out: " in done.stdout
        assert "--device cpu measures the CPU" in done.stderr

    def test_figures_of_a_cpu_are_not_saved_as_those_of_a_gpu(self):
        done = run(ROOT / "benchmarks/gpu/mlp.py", "--device", "cpu", "--save")
        assert done.returncode == 2
        assert "--save keeps figures of a GPU" in done.stderr

    def test_a_case_that_fails_is_left_out_and_the_rest_continues(self, tmp_path):
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(paths=[str(ROOT), str(ROOT / "benchmarks/gpu")]))
        done = run(program)
        assert done.stdout.splitlines() == [
            "[True, False, False, False, True]",
            "gpugrad: it has none (beyond)",
            "gpugrad: ZeroDivisionError: division b",
            "gpugrad: BrokenProcessPool: A process ",
            "True",
        ], done.stderr

    def test_gpu_time_excludes_waiting_for_the_cpu(self, monkeypatch):
        for folder in ("benchmarks", "benchmarks/gpu"):
            monkeypatch.syspath_prepend(ROOT / folder)
        import timing

        gpu = SimulatedGPU()
        monkeypatch.setattr(timing, "time", gpu)
        found = timing.measure(lambda: gpu.enqueue(0.0002, work=0.00005), gpu, 0.02)
        assert found["gpu"] == pytest.approx(0.00005)
        assert found["cpu"] == pytest.approx(0.0002, rel=0.01)
        assert found["time"] == pytest.approx(0.0002, rel=0.05)
        assert not found["gpu_waits"]
        found = timing.measure(lambda: gpu.wait(gpu.enqueue(0.0002, work=0.00005)), gpu, 0.02)
        assert 0.0002 <= found["gpu"] <= 0.00025
        assert found["gpu_waits"]

    def test_every_command_for_a_gpu_is_listed(self):
        done = run(ROOT / "benchmarks/gpu", "--list")
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


PROGRAM = """
import os
import sys
from types import SimpleNamespace

sys.path[:0] = {paths}
sys.path.append(os.path.dirname({paths}[1]))
import peers
import timing


def prepare(library, device, case):
    if case == "beyond":
        raise peers.LeftOut("it has none")
    if case == "wrong":
        return lambda: 1 / 0
    if case == "dead":
        os._exit(1)
    return lambda: None


if __name__ == "__main__":
    options = SimpleNamespace(device="cpu", short=True, full=False, libraries=["gpugrad"])
    with timing.Workers(options) as workers:
        results, _ = workers.race(prepare, ["good", "beyond", "wrong", "dead", "good again"])
    print([bool(turns) for turns in results.values()])
    for words in workers.describe_problems():
        print(words[:38])
    print(workers.failed)
"""
