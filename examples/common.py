"""Code that the example programs share: command line, choice of device, pictures, Ctrl-C.

The programs import it before anything that takes a while to load.
"""

import os
import sys


def report_error(kind, error, trace):
    """Report Ctrl-C in one line, with the status that shells use for it; else as usual."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write(f"\n{os.path.basename(sys.argv[0])}: interrupted\n")
        sys.exit(130)
    sys.__excepthook__(kind, error, trace)


sys.excepthook = report_error

import argparse  # noqa: E402  Ctrl-C may come while modules are loaded
import time  # noqa: E402
import tracemalloc  # noqa: E402
from pathlib import Path  # noqa: E402

import gpugrad  # noqa: E402
from gpugrad import distributed  # noqa: E402

try:
    import safetensors  # noqa: F401  gpugrad needs it to save and load
    from matplotlib.figure import Figure
    from tqdm import tqdm
except ImportError as error:
    raise SystemExit(f'{error}; install what is missing: pip install ".[examples]"') from None


CLASSES = 10  # in each data set


class Parser(argparse.ArgumentParser):
    """A parser that adds ``--device`` and reports an error in one line.

    seed: whether to add ``--seed``.
    compile: whether to add ``--compile``.
    plot: the default of ``--plot``, the path of the picture; None leaves the option out.
    """

    def __init__(self, description, *, seed=True, compile=False, plot=None):
        super().__init__(description=description.split("\n\n")[0], allow_abbrev=False)
        self.add_argument("--device", default="auto", help="auto (default), cpu, cuda or cuda:N")
        if seed:
            self.add_argument("--seed", type=whole, default=0, help="default 0")
        if compile:
            what = "record a step and repeat it, which is faster and gives the same weights"
            self.add_argument("--compile", action="store_true", help=what)
        if plot:
            self.add_argument("--plot", type=picture, default=plot, help=f"default {plot}")

    def error(self, message):
        self.exit(2, f"{self.prog}: {message}\n")

    def exit(self, status=0, message=None):
        """End the program; of several processes only the first shows the message."""
        super().exit(status, None if distributed.rank() else message)

    def parse_args(self, *args):
        """Parse as usual, then replace ``auto`` by a device, check it, and print the choice.

        Each process on a machine has a GPU of its own if there are as many.
        """
        sys.stdout.reconfigure(line_buffering=True)  # so that a log file grows line by line
        options = super().parse_args(*args)
        why = "as requested"
        if options.device == "auto":
            problem = gpugrad.cuda.why_not()
            options.device = "cpu" if problem else "cuda"
            why = problem or "a GPU is available"
            if distributed.size() > 1 and not problem:
                number = distributed.local_rank() % gpugrad.cuda.device_count()
                options.device = f"cuda:{number}"
        try:
            gpugrad.zeros(1, device=options.device)
        except (RuntimeError, ValueError) as error:
            problem = str(error).removeprefix("zeros: ").replace("use 'cpu'", "use 'auto', 'cpu'")
            self.error(f"--device {options.device}: {problem}")
        print(f"device: {options.device} ({why})")
        return options


def whole(text):
    """Parse an int of at least 0 from the command line."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is less than 0")
    return value


def positive(text):
    """Parse an int of at least 1 from the command line."""
    value = whole(text)
    if value == 0:
        raise argparse.ArgumentTypeError("0 is too small; the smallest number is 1")
    return value


def picture(text):
    """Parse the path of a picture from the command line."""
    if Path(text).suffix not in (".pdf", ".png", ".svg"):
        raise argparse.ArgumentTypeError(f"{text} must end in .pdf, .png or .svg")
    return Path(text)


def add_data_set(parser):
    """Add ``--dataset`` and ``--data-dir``, for `load_data_set`."""
    names = ["digits", "mnist", "fashion-mnist"]
    parser.add_argument(
        "--dataset", choices=names, default="digits", help="default digits, built in"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="folder of the IDX files of mnist or fashion-mnist"
    )


def load_data_set(parser, options):
    """Return training and test set, with float32 images ``(n, pixels)`` in [0, 1], on the CPU.

    Ends the program if the options or the files are wrong.
    """
    try:
        if options.dataset == "digits":
            if options.data_dir is not None:
                raise ValueError("--data-dir is for another --dataset; digits is built in")
            train, test = gpugrad.data.digits()
        elif options.data_dir is None:
            raise ValueError(
                f"--dataset {options.dataset} needs --data-dir, the folder of its files"
            )
        else:
            train, test = gpugrad.data.idx_dataset(options.data_dir, CLASSES)
        if not len(train) or not len(test):
            raise ValueError(f"--data-dir {options.data_dir}: the files hold no images")
        return train, test
    except (OSError, ValueError, MemoryError) as error:
        parser.error(" ".join(str(error).split()))


class NewBatches:
    """A loader whose batches are new in each epoch: so many results of ``draw()``."""

    def __init__(self, draw, steps):
        self.draw = draw
        self.steps = steps

    def __len__(self):
        return self.steps

    def __iter__(self):
        return (self.draw() for _ in range(self.steps))


def progress_bar(steps):
    """Return a progress bar on standard error; its ``write`` prints a line above the bar."""
    return tqdm(total=steps, unit="step", mininterval=0.25, leave=False)


def measure(f):
    """Call ``f``; return its result, the seconds it takes, and its peak host memory in bytes."""
    began = time.perf_counter()
    result = f()
    seconds = time.perf_counter() - began
    tracemalloc.start()
    f()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return result, seconds, peak


def panels(count=2):
    """Return a figure and its axes, side by side; no screen is needed."""
    figure = Figure(figsize=(5.2 * count, 3.8), dpi=120, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.12)
    axes = figure.subplots(1, count)
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    return figure, axes


def save_figure(figure, path):
    """Write a figure in the format given by the suffix, and replace an older file when done."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    figure.savefig(part, format=path.suffix[1:])
    part.replace(path)
    print(f"picture: {path}")
