"""Train a multilayer perceptron on images of digits or clothes, on a CPU or a GPU.

    python examples/train_mlp.py --device auto
    python examples/train_mlp.py --dataset fashion-mnist --data-dir path/to/its/files
    mpiexec -n 4 python examples/train_mlp.py

The program prints loss and accuracy after each epoch, and writes the weights and a picture of
the learning curves. It saves the weights and the optimizer's state after every epoch. An
interrupted run that is started again with --resume and otherwise the same options ends as it
would have without interruption. Several processes share each batch, and train the same model, but
for rounding, as one does.
"""

from common import CLASSES, Parser, add_data_set, load_data_set, positive, save_figure

import argparse
import itertools
import math
import os
import sys
import tempfile
import warnings
from pathlib import Path

import gpugrad
from gpugrad import data, distributed, nn, optim
from gpugrad.training import Progress, Trainer, curves

BATCH_SIZE = {"digits": 32, "mnist": 128, "fashion-mnist": 128}


def options_from_command_line(parser):
    add = parser.add_argument
    add_data_set(parser)
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


def load(parser, options):
    """Return training and test set on the device, standardized by the pixels of the former."""
    train, test = load_data_set(parser, options)
    mean, deviation = train.tensors[0].mean(), gpugrad.sqrt(train.tensors[0].var())
    return (
        data.TensorDataset((images - mean) / deviation, labels).to(
            options.device, getattr(gpugrad, options.dtype)
        )
        for images, labels in (train.tensors, test.tensors)
    )


def build(options, train, test):
    """Return a trainer of a model with random weights."""
    gpugrad.manual_seed(options.seed)
    # Made on the CPU, so that a seed gives the same weights on every device.
    pixels = train.tensors[0].shape[1]
    model = nn.MLP(pixels, [*options.hidden, CLASSES], dtype=getattr(gpugrad, options.dtype))
    model = distributed.DataParallel(model.to(options.device))
    optimizer = optim.SGD(
        model.parameters(),
        lr=options.lr,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
    )
    loader = batches(train, data.RandomSampler(train, seed=options.seed), options.batch_size)
    names = ("epochs", "batch_size", "lr", "momentum", "weight_decay", "seed", "dtype")
    return Trainer(
        model,
        optimizer,
        loss,
        loader,
        evaluate_on={
            "training": batches(train, data.SequentialSampler(train), 1000),
            "test": batches(test, data.SequentialSampler(test), 1000),
        },
        scheduler=optim.lr_scheduler.LambdaLR(optimizer, cosine(options, len(loader))),
        schedule_per="step",
        checkpoint=options.save,
        # The options on which the result depends.
        notes={
            "dataset": options.dataset,
            "options": {name: getattr(options, name) for name in names},
        },
        callbacks=[Progress()],
        compile=options.compile,
    )


def batches(dataset, sampler, size):
    """Return a loader of each process's parts of batches of this size."""
    parts = data.DistributedBatchSampler(sampler, size)
    return data.DataLoader(dataset, batch_sampler=parts)


def loss(model, images, labels):
    """Return the mean loss and the share of right answers."""
    logits = model(images)
    right = logits.argmax(axis=1) == labels
    return nn.functional.cross_entropy(logits, labels), {"accuracy": right.mean()}


def cosine(options, steps_per_epoch):
    """Return a function of the steps made so far that falls from 1 to 0 along a cosine."""

    def factor(step):
        epoch, i = divmod(step, steps_per_epoch)
        done = (epoch + i / steps_per_epoch) / options.epochs
        return (1 + math.cos(math.pi * done)) / 2

    return factor


def resume(trainer, options):
    """Take over the file of an earlier run."""
    state = gpugrad.load(options.resume)
    try:
        check_saved(state, options)
        for name, value in trainer.notes["options"].items():
            before = state["options"][name]
            if value != before:
                print(f"--{name.replace('_', '-')} is {value}, and was {before} before")
        trainer.load_state_dict(state)
    except KeyError as error:
        raise ValueError(f"--resume {options.resume}: has no {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"--resume {options.resume}: {error}") from None
    # What the command line says counts.
    trainer.loader.seed = options.seed
    scheduler = trainer.scheduler
    scheduler.base_lrs = [options.lr]
    scheduler.last_epoch = len(trainer.history) * len(trainer.loader)
    trainer.optimizer.param_groups[0] |= {
        "lr": scheduler.get_lr()[0],
        "momentum": options.momentum,
        "weight_decay": options.weight_decay,
    }


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
    return isinstance(row, dict) and [type(x) for x in row.values()] == [float] * 4


def main():
    distributed.init()
    parser = Parser(__doc__, compile=True)
    if distributed.rank():
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  one process tells of the run
    options = options_from_command_line(parser)
    try:
        train, test = load(parser, options)
        trainer = build(options, train, test)
        if options.resume:
            resume(trainer, options)
        check_outputs(options)
    except (OSError, ValueError, RuntimeError, MemoryError) as error:
        parser.error(" ".join(str(error).split()))
    print(f"{options.dataset}: {len(train)} training and {len(test)} test images")
    # An overflow makes the loss infinite or nan, which raises an error.
    warnings.simplefilter("ignore", RuntimeWarning)
    try:
        trainer.fit(options.epochs)
        print(f"weights: {options.save}")
        if distributed.rank():
            return
        layers = "-".join(map(str, options.hidden))
        title = f"{options.dataset}, MLP with hidden layers {layers}"
        save_figure(curves(trainer.history, title), options.plot)
    except KeyboardInterrupt:
        saved = f"; to continue, add --resume {options.save}" if options.save.exists() else ""
        parser.exit(130, f"{parser.prog}: interrupted{saved}\n")
    except FloatingPointError as error:
        parser.exit(1, f"{parser.prog}: {error}; try a smaller --lr or --momentum\n")
    except (OSError, MemoryError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
