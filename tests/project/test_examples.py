"""The example programs, run in the way users run them: results, repeatability, bad input."""

import functools
import gzip
import importlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import train_mlp
from stand_in import ROOT, environment, run
from test_data import write_mnist

import gpugrad
from gpugrad import data, nn, optim
from gpugrad.training import Trainer


def path_of(program):
    return ROOT / "examples" / f"{program}.py"


def succeed(program, *options, cwd, picture=None):
    """Run an example, which must succeed and draw the picture, if any; return its output."""
    done = run(path_of(program), "--device", "cpu", *options, cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert not picture or (cwd / picture).read_bytes().startswith(b"\x89PNG")
    return done.stdout


train = functools.partial(succeed, "train_mlp")


def start(*options, cwd):
    """Start the training program; return a process with its output as text."""
    command = [sys.executable, path_of("train_mlp"), "--device", "cpu", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    # A shell's background processes ignore the signal, and this one might inherit it.
    restore = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    settings = {"cwd": cwd, "env": environment(stand_in=False), "preexec_fn": restore}
    return subprocess.Popen([*map(str, command)], **settings, **pipes)


def numbers(pattern, text):
    """Return the numbers in the place of each # of a pattern, which occurs once."""
    (found,) = re.findall(pattern.replace("#", r"([-+]?\d+\.?\d*(?:e[-+]?\d+)?)"), text)
    return [float(x) for x in ([found] if isinstance(found, str) else found)]


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


INTERRUPTING = """
import runpy, sys

class Interrupt:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
sys.argv = [{path!r}]
sys.path.insert(0, {folder!r})
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("program, module", [
    ("train_mlp", "argparse"), ("train_mlp", "matplotlib.figure"), ("fit_sine", "gpugrad"),
    ("fixed_point", "numpy"), ("fixed_point", "gpugrad.data.digits"),
])  # fmt: skip
def test_ctrl_c_is_reported_in_one_line(program, module, tmp_path):
    path = path_of(program)
    text = INTERRUPTING.format(module=module, path=str(path), folder=str(path.parent))
    done = run("-c", text, cwd=tmp_path)
    assert (done.returncode, done.stderr.strip()) == (130, f"{program}.py: interrupted")


@pytest.mark.slow
class TestTrainMLP:
    def test_reaches_its_accuracy_and_writes_weights_and_picture(self, tmp_path):
        printed = succeed("train_mlp", cwd=tmp_path, picture="runs/digits.png")
        rows = [line.split() for line in printed.splitlines() if line.startswith("epoch")]
        assert len(rows) == 20
        assert float(rows[-1][-1]) >= 0.97
        model = nn.MLP(64, [256, 128, 10])
        model.load_state_dict(gpugrad.load(tmp_path / "runs/digits.safetensors")["model"])

    def test_another_run_does_not_overwrite_the_weights(self, tmp_path):
        problem = gpugrad.cuda.why_not()
        device = f"device: cpu ({problem})" if problem else "device: cuda (a GPU is available)"
        for number in ("", "-2"):
            done = run(path_of("train_mlp"), "--epochs", 1, "--hidden", 4, cwd=tmp_path)
            assert done.stdout.splitlines()[0] == device
            assert "step/s" in done.stderr  # the progress bar
            assert f"weights: runs/digits{number}.safetensors" in done.stdout
            assert f"picture: runs/digits{number}.png" in done.stdout
        done = run(path_of("train_mlp"), "--save", "runs/digits.safetensors", cwd=tmp_path)
        assert done.returncode == 2
        assert "there is such a file; give another name, or continue that run" in done.stderr

    def test_an_interrupted_run_resumes_to_the_same_result(self, tmp_path):
        """Its log grows line by line, and the result is the same to the last bit."""
        # So many epochs that the run is not finished before the interruption.
        options = ("--epochs", 40, "--hidden", 16)
        whole, saved = tmp_path / "whole", Path("runs/digits.safetensors")
        whole.mkdir()
        train(*options, cwd=whole)
        for name, compiled in ("broken", []), ("compiled", ["--compile"]):
            broken = tmp_path / name
            broken.mkdir()
            with start(*options, *compiled, cwd=broken) as process:
                for line in process.stdout:
                    if line.startswith("epoch  2/40"):
                        process.send_signal(signal.SIGINT)
            assert process.returncode == 130
            assert len(gpugrad.load(broken / saved)["history"]) < 40
            train(*options, *compiled, "--resume", saved, cwd=broken)
            for path in (saved, saved.with_suffix(".png")):
                assert (broken / path).read_bytes() == (whole / path).read_bytes()

    def test_resumes_many_layers_in_float64_with_options_from_the_command_line(self, tmp_path):
        saved = "runs/digits.safetensors"
        options = ("--dtype", "float64", "--hidden", 9, 8, 7, 6, 5, 4)
        train("--epochs", 1, *options, cwd=tmp_path)
        options += ("--momentum", 0, "--weight-decay", 0.25, "--resume", saved)
        printed = train("--epochs", 2, *options, cwd=tmp_path)
        assert "epoch 2/2" in printed
        assert "--epochs is 2, and was 1 before\n--momentum is 0.0, and was 0.9 before" in printed
        state = gpugrad.load(tmp_path / saved)
        (group,) = state["optimizer"]["param_groups"]
        assert (group["momentum"], group["weight_decay"]) == (0, 0.25)
        assert {x.dtype for x in state["model"].values()} == {gpugrad.float64}

    def test_reads_idx_files(self, tmp_path):
        write_mnist(tmp_path)
        options = ("--dataset", "fashion-mnist", "--data-dir", ".", "--epochs", 1)
        assert "fashion-mnist: 20 training and 6 test images" in train(*options, cwd=tmp_path)
        assert (tmp_path / "runs/fashion-mnist.png").exists()

    def test_a_loss_that_is_not_finite(self, tmp_path):
        options = ("--lr", 1e6, "--hidden", 8, "--device", "cpu")
        done = run(path_of("train_mlp"), *options, cwd=tmp_path)
        assert (done.returncode, files(tmp_path)) == (1, {})
        assert done.stderr.endswith("try a smaller --lr or --momentum\n")
        assert "Traceback" not in done.stderr


def saved_state():
    """Return what the program saves for a network with 8 hidden units after one epoch."""
    model = nn.MLP(64, [8, 10])
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = data.DataLoader(data.TensorDataset(gpugrad.ones((1, 64)), [0]))
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1)
    names = "epochs", "batch_size", "lr", "momentum", "weight_decay", "seed", "dtype"
    notes = {"dataset": "digits", "options": dict.fromkeys(names)}
    trainer = Trainer(model, optimizer, train_mlp.loss, loader, scheduler=schedule, notes=notes)
    trainer.fit(1)
    row = dict.fromkeys(("training/loss", "training/accuracy", "test/loss", "test/accuracy"), 0.5)
    return trainer.state_dict() | {"history": [row]}


SMALLER = {name: gpugrad.zeros(x.shape) for name, x in nn.MLP(10, [8, 10]).state_dict().items()}


class TestBadInput:
    """Bad input gives one line that names the mistake, exit code 2, and changes no file."""

    @pytest.fixture
    def error_of(self, tmp_path, monkeypatch, capsys):
        """A function that runs a program in ``tmp_path`` and returns its error message."""

        def run_here(*options, program="train_mlp"):
            before = files(tmp_path)
            monkeypatch.chdir(tmp_path)
            monkeypatch.setattr("sys.argv", [f"{program}.py", *map(str, options)])
            with pytest.raises(SystemExit) as stop:
                importlib.import_module(program).main()
            assert (stop.value.code, files(tmp_path)) == (2, before)
            line = capsys.readouterr().err
            assert (line.partition(" ")[0], line.count("\n")) == (f"{program}.py:", 1)
            return line

        return run_here

    @pytest.mark.parametrize("options, words", [
        (["--device", "tpu"], "device 'tpu' is not known"),
        (["--dataset", "cifar"], "invalid choice: 'cifar'"),
        (["--dataset", "mnist"], "needs --data-dir"),
        (["--data-dir", "."], "for another --dataset"),
        (["--dataset", "mnist", "--data-dir", "nowhere"], "nowhere has no train-images"),
        (["--hidden", "0"], "argument --hidden"), (["--hidden", "1000000000000000"], "llocate"),
        (["--epochs", "0"], "argument --epochs"),
        (["--lr", "-1"], "-1 is not a finite number of at least 0"),
        (["--lr", "nan"], "nan is not a finite number"), (["--seed", "-1"], "argument --seed"),
        (["--resume", "none.safetensors"], "no file none.safetensors"),
        (["--save", "."], "is a folder"),
        (["--save", "x.png", "--plot", "x.png"], "both name x.png"),
        (["--plot", "x.doc"], "must end in"), (["--unknown"], "unrecognized arguments: --unknown"),
    ], ids=lambda value: " ".join(value) if isinstance(value, list) else "")  # fmt: skip
    def test_bad_options(self, error_of, options, words):
        assert words in error_of(*options)

    @pytest.mark.parametrize("program, option, value", [
        ("gaussian_mixture", "--points", 2), ("ode_fit", "--rtol", "nan"),
        ("ode_fit", "--rtol", -1), ("long_memory", "--length", 1),
        ("character_transformer", "--length", 1_000_000),
    ])  # fmt: skip
    def test_options_out_of_range(self, error_of, program, option, value):
        assert f"{program}.py: {option} must be " in error_of(option, value, program=program)

    def test_unknown_picture_format(self, error_of):
        line = error_of("--plot", "picture.doc", program="raw_kernel")
        assert "argument --plot: picture.doc must end in .pdf, .png or .svg" in line

    def test_a_device_that_is_not_there(self, error_of):
        problem = gpugrad.cuda.why_not() or "device cuda:1000 does not exist"
        assert problem in error_of("--device", "cuda:1000")

    @pytest.mark.parametrize("spoil, words", [
        (lambda content: content[:-1], "truncated"),
        (lambda content: gzip.compress(content)[:-6], "truncated"),
        (lambda content: b"label\n7\n", "not an IDX file"),
        (lambda content: content[:-1] + b"\x0a", "label 10"),
    ])  # fmt: skip
    def test_bad_data(self, error_of, spoil, words, tmp_path):
        write_mnist(tmp_path)
        path = tmp_path / "train-labels-idx1-ubyte"
        path.write_bytes(spoil(path.read_bytes()))
        line = error_of("--dataset", "mnist", "--data-dir", tmp_path)
        assert words in line
        assert str(path) in line

    def test_resume_of_another_run_and_of_a_damaged_file(self, error_of, tmp_path):
        write_mnist(tmp_path)
        small, saved = ["--hidden", 8], tmp_path / "digits.safetensors"
        gpugrad.save(saved_state(), saved)
        whole = saved.read_bytes()
        for content, words, options in (
            (whole, "layers of [8, 10], not [32, 10]", ["--hidden", 32]),
            (whole, "has had 1 epoch", [*small, "--epochs", 1]),
            (whole, "on digits, not on mnist", [*small, "--dataset", "mnist", "--data-dir", "."]),
            (whole[:-100], "truncated, or not a safetensors file", ["--epochs", 40]),
            (b"weights", "truncated, or not a safetensors file", ["--save", saved]),
        ):
            saved.write_bytes(content)
            assert words in error_of("--resume", saved, *options)

    @pytest.mark.parametrize("change, words", [
        ({"model": None}, "has no 'model'"),
        ({"model": {"0.weight": 5}}, "its model is not a dict of tensors"),
        ({"model": SMALLER}, "has shape (8, 10), not (8, 64)"),
        ({"dataset": []}, "trained on [], not on digits"), ({"options": 5}, "--resume"),
        ({"options": {}}, "has no 'epochs'"),
        ({"history": [{"a": 1.0, "b": 1.0, "c": 1.0}]}, "its history is not"),
        ({"history": [{"a": 1.0, "b": 1.0, "c": 1.0, "d": "1"}]}, "its history is not"),
        ({"optimizer": {"state": {}, "param_groups": [{}]}}, "has no 'params'"),
    ], ids=lambda value: str(value)[:40] if isinstance(value, dict) else "")  # fmt: skip
    def test_resume_of_a_state_of_another_kind(self, error_of, change, words, tmp_path):
        saved, state = tmp_path / "saved.safetensors", saved_state() | change
        if change == {"model": None}:
            del state["model"]
        gpugrad.save(state, saved)
        line = error_of("--resume", saved, "--hidden", 8)
        assert f"--resume {saved}: " in line
        assert words in line


@pytest.mark.slow
@pytest.mark.parametrize("program, words", [
    ("xor", "33 parameters"), ("fit_quadratic", "after 5 epochs"), ("fit_sine", "97 parameters")
])  # fmt: skip
def test_small_examples(program, words, tmp_path):
    options = {"cwd": tmp_path, "picture": f"runs/{program}.png"}
    assert words in succeed(program, "--epochs", 5, "--seed", 3, **options)


# What the quick form of a program prints last, with the bounds of the numbers in it.
QUICK = {
    "regression": [
        (r"\nnetwork +RMSE # miles per gallon, R\^2 #", (2.5, 0.85), (3.1, 0.9)),
        (r"linear least squares +RMSE # miles per gallon", (3.3,), (3.5,)),
    ],
    "variational_autoencoder": [("ELBO of a test image # nats", (-20,), (10,))],
    "cnn": [("digits: test accuracy #,", (0.93,), (1,))],
    "long_memory": [("LSTM over 10 steps: mean squared error #,", (0,), (0.03,))],
    "character_transformer": [("test cross-entropy # bits a character", (3,), (4,))],
}


def check_quick(program, text):
    for pattern, *bounds in QUICK[program]:
        for number, low, high in zip(numbers(pattern, text), *bounds, strict=True):
            assert low <= number <= high, text


@pytest.mark.slow
def test_quick_form_with_an_option(tmp_path):
    """`test_compiled_examples.py` has the others, with `compile` and without."""
    check_quick("cnn", succeed("cnn", "--quick", "--augment", cwd=tmp_path, picture="runs/cnn.png"))


@pytest.mark.slow
def test_differentiate_scipy(tmp_path):
    picture = "runs/differentiate_scipy.png"
    text = succeed("differentiate_scipy", "--seed", 1, cwd=tmp_path, picture=picture)
    shifts = re.findall(r" (\S+) m ± (\S+), true value +(\S+)", text)
    assert len(shifts) == 3
    for found, spread, truth in (map(float, shift) for shift in shifts):
        assert abs(found - truth) < 4 * spread
    off, expected = map(float, re.findall(r"(\S+)°", text))
    assert off < 4 * expected < 2
