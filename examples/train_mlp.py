"""Train a multilayer perceptron on images of digits or clothes, on a CPU or a GPU.

    python examples/train_mlp.py --device auto
    python examples/train_mlp.py --dataset fashion-mnist --data-dir path/to/its/files

The program prints loss and accuracy after each epoch, and writes the weights and a picture of
the learning curves. It saves the weights and the optimizer's state after every epoch. An
interrupted run that is started again with --resume and otherwise the same options ends as it
would have without interruption.
"""

from common import Parser, panels, positive, progress_bar, save_figure

import argparse
import itertools
import math
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import gpugrad
from gpugrad import data, nn, optim

BATCH_SIZE = {"digits": 32, "mnist": 128, "fashion-mnist": 128}
CLASSES = 10  # in each data set


def options_from_command_line(parser):
    add = parser.add_argument
    add("--dataset", choices=BATCH_SIZE, default="digits", help="default digits, built in")
    add("--data-dir", type=Path, help="folder of the IDX files of mnist or fashion-mnist")
    add("--hidden", type=positive, nargs="+", default=[256, 128], help="sizes, default 256 128")
    add("--epochs", type=positive, default=20, help="epochs in total, default 20")
    add("--batch-size", type=positive, help="default 128, for digits 32")
    add("--lr", type=number, default=0.1, help="default 0.1, falls to 0 along a cosine")
    add("--momentum", type=number, default=0.9, help="default 0.9")
    add("--weight-decay", type=number, default=5e-4, help="default 0.0005")
    add("--dtype", choices=["float32", "float64"], default="float32", help="default float32")
    add("--save", type=Path, help="weights and state, default runs/DATASET.safetensors, numbered")
    add("--resume", type=Path, help="continue a saved run, and save it to the same file by default")
    add("--plot", type=Path, help="learning curves, default beside the weights")
    options = parser.parse_args()
    options.batch_size = options.batch_size or BATCH_SIZE[options.dataset]
    options.save = options.save or options.resume or unused(options.dataset)
    options.plot = (
        options.plot or options.save.parent / f"{options.save.stem or options.dataset}.png"
    )
    return options


def unused(name):
    """The path runs/NAME.safetensors, with a number behind the name if there is such a file."""
    numbers = itertools.chain([""], map("-{}".format, itertools.count(2)))
    paths = (Path("runs", f"{name}{number}.safetensors") for number in numbers)
    return next(path for path in paths if not path.exists())


def number(text):
    """Parse a finite float of at least 0 from the command line."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number of at least 0")
    return value


def check_outputs(options):
    """Raise before training for outputs that could not be written after it."""
    if options.plot.suffix not in (".pdf", ".png", ".svg"):
        raise ValueError(f"--plot {options.plot}: the name must end in .pdf, .png or .svg")
    if options.plot == options.save:
        raise ValueError(f"--plot and --save both name {options.save}")
    if options.save.is_file() and options.save != options.resume:
        raise ValueError(
            f"--save {options.save}: there is such a file; give another name, or continue that run "
            f"with --resume {options.save}"
        )
    for path in (options.save, options.plot):
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give the name of a file")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise ValueError(f"cannot write to {path.parent}: {error.strerror}") from None


def load(options):
    """Return training and test set on the device, standardized by the pixels of the former."""
    if options.dataset == "digits":
        if options.data_dir is not None:
            raise ValueError("--data-dir is for another --dataset; digits is built in")
        train, test = data.digits()
    elif options.data_dir is None:
        raise ValueError(f"--dataset {options.dataset} needs --data-dir, the folder of its files")
    else:
        train, test = data.idx_dataset(options.data_dir, CLASSES)
    if not len(train) or not len(test):
        raise ValueError(f"--data-dir {options.data_dir}: the files hold no images")
    mean, deviation = train.tensors[0].mean(), gpugrad.sqrt(train.tensors[0].var())
    return (
        data.TensorDataset((images - mean) / deviation, labels).to(
            options.device, getattr(gpugrad, options.dtype)
        )
        for images, labels in (train.tensors, test.tensors)
    )


def build(options, pixels):
    """Return a model with random weights, and its optimizer."""
    gpugrad.manual_seed(options.seed)
    # Made on the CPU, so that a seed gives the same weights on every device.
    model = nn.MLP(pixels, [*options.hidden, CLASSES], dtype=getattr(gpugrad, options.dtype))
    model.to(options.device)
    optimizer = optim.SGD(
        model.parameters(),
        lr=options.lr,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
    )
    return model, optimizer


class Pace:
    """Notices, once, that steps have become many times slower than at first."""

    def __init__(self, clock=time.perf_counter):
        self.clock = clock
        self.durations = []
        self.usual = None  # the first median of 50 durations
        self.last = clock()

    def after_step(self):
        """Return a warning if one is due, else None."""
        now = self.clock()
        self.durations.append(now - self.last)
        self.last = now
        if len(self.durations) < 50:
            return None
        median = statistics.median(self.durations)
        self.durations.clear()
        self.usual = self.usual or median
        if median < 4 * self.usual:
            return None
        times = median / self.usual
        self.usual = math.inf
        return (
            f"steps take {times:.0f} times as long as at first; if another program is using the "
            f"processors, set OPENBLAS_NUM_THREADS=1 (NumPy's threads wait for each other busily)"
        )


def train_epoch(model, optimizer, loader, options, progress, pace):
    """Train for one pass through the training set."""
    loss = nn.CrossEntropyLoss()
    start = loader.epoch
    for i, (images, labels) in enumerate(loader):
        done = (start + i / len(loader)) / options.epochs
        optimizer.param_groups[0]["lr"] = options.lr * (1 + math.cos(math.pi * done)) / 2
        optimizer.zero_grad()
        loss(model(images), labels).backward()
        optimizer.step()
        progress.update()
        warning = pace.after_step()
        if warning and options.device == "cpu":
            progress.write(warning)


@gpugrad.no_grad()
def evaluate(model, dataset):
    """Return the mean loss and the share of right answers."""
    loss = right = 0
    for images, labels in data.DataLoader(dataset, batch_size=1000):
        logits = model(images)
        loss += nn.functional.cross_entropy(logits, labels, reduction="sum").item()
        right += (logits.argmax(axis=1) == labels).sum().item()
    return loss / len(dataset), right / len(dataset)


def save(model, optimizer, history, options):
    """Write what `resume` needs into one file."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "dataset": options.dataset,
        "history": history,
    }
    gpugrad.save(state, options.save)


def resume(model, optimizer, options):
    """Take over a file of `save`; returns the history."""
    state = gpugrad.load(options.resume)
    try:
        check_saved(state, options)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    except KeyError as error:
        raise ValueError(f"--resume {options.resume}: has no {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"--resume {options.resume}: {error}") from None
    # What the command line says counts; the learning rate is set at every step.
    optimizer.param_groups[0] |= {
        "momentum": options.momentum,
        "weight_decay": options.weight_decay,
    }
    return state["history"]


def check_saved(state, options):
    """Raise ValueError unless the state is one of the run that the options describe."""
    weights = state["model"]
    if not isinstance(weights, dict) or not all(map(is_tensor, weights.values())):
        raise ValueError("its model is not a dict of tensors")
    sizes = [x.shape[0] for x in weights.values() if x.ndim == 2]
    if sizes != [*options.hidden, CLASSES]:
        raise ValueError(f"layers of {sizes}, not {[*options.hidden, CLASSES]}")
    if state["dataset"] != options.dataset:
        raise ValueError(f"trained on {state['dataset']}, not on {options.dataset}")
    history = state["history"]
    if not isinstance(history, list) or not all(map(is_row, history)):
        raise ValueError("its history is not a list of four numbers for each epoch")
    if len(history) >= options.epochs:
        raise ValueError(f"has had {len(history)} epochs; give more than that as --epochs")


def is_tensor(x):
    return isinstance(x, gpugrad.Tensor)


def is_row(row):
    return isinstance(row, tuple) and [type(x) for x in row] == [float] * 4


def draw(history, options):
    """Draw loss and accuracy of both sets over the epochs."""
    figure, axes = panels()
    epochs = range(1, len(history) + 1)
    columns = list(zip(*history, strict=True))
    for ax, quantity, train, test in (
        (axes[0], "loss", columns[0], columns[2]),
        (axes[1], "accuracy", columns[1], columns[3]),
    ):
        ax.plot(epochs, train, ".-", label=f"training, final {train[-1]:.4f}")
        ax.plot(epochs, test, ".-", label=f"test, final {test[-1]:.4f}")
        ax.set(xlabel="epoch", ylabel=quantity)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.legend(frameon=False)
    axes[0].set_yscale("log")
    layers = "-".join(map(str, options.hidden))
    figure.suptitle(f"{options.dataset}, MLP with hidden layers {layers}")
    save_figure(figure, options.plot)


def fit(model, optimizer, train, test, history, options):
    """Train until ``history`` has a row for each epoch; save after every epoch."""
    # An overflow makes the loss infinite or nan, which raises below.
    warnings.simplefilter("ignore", RuntimeWarning)
    loader = data.DataLoader(train, options.batch_size, shuffle=True, seed=options.seed)
    pace = Pace()
    loader.epoch = len(history)  # with the seed, this decides the order of the images
    with progress_bar((options.epochs - len(history)) * len(loader)) as progress:
        while len(history) < options.epochs:
            train_epoch(model, optimizer, loader, options, progress, pace)
            row = *evaluate(model, train), *evaluate(model, test)
            if not math.isfinite(row[0]):
                raise FloatingPointError(
                    f"the training loss is {row[0]}; try a smaller --lr or --momentum"
                )
            history.append(row)
            save(model, optimizer, history, options)
            progress.write(
                f"epoch {len(history):{len(str(options.epochs))}}/{options.epochs}   "
                f"training loss {row[0]:.4f} accuracy {row[1]:.4f}   "
                f"test loss {row[2]:.4f} accuracy {row[3]:.4f}"
            )


def main():
    parser = Parser(__doc__)
    options = options_from_command_line(parser)
    try:
        train, test = load(options)
        model, optimizer = build(options, pixels=train.tensors[0].shape[1])
        history = resume(model, optimizer, options) if options.resume else []
        check_outputs(options)
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        parser.error(" ".join(str(error).split()))
    print(f"{options.dataset}: {len(train)} training and {len(test)} test images")
    try:
        fit(model, optimizer, train, test, history, options)
        print(f"weights: {options.save}")
        draw(history, options)
    except KeyboardInterrupt:
        saved = f"; to continue, add --resume {options.save}" if history else ""
        parser.exit(130, f"{parser.prog}: interrupted{saved}\n")
    except (OSError, FloatingPointError, MemoryError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
