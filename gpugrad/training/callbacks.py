"""What `Trainer` calls during training: progress, and logs of the history."""

import csv
import os
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

from .._arguments import whole

if TYPE_CHECKING:
    from .trainer import Trainer


class Callback:
    """Base class of callbacks; its methods do nothing.

    ::

        class LearningRate(Callback):
            def on_epoch(self, trainer, row):
                row["lr"] = trainer.optimizer.param_groups[0]["lr"]

    every_process: whether all processes call it, or only that of rank 0; see
        `gpugrad.distributed`. The callbacks here are called by that of rank 0.
    """

    every_process = True

    def on_start(self, trainer: "Trainer") -> None:
        """`Trainer.fit` begins."""

    def on_step(self, trainer: "Trainer") -> None:
        """The optimizer has made a step, and the gradients are still there."""

    def on_epoch(self, trainer: "Trainer", row: dict[str, float]) -> None:
        """An epoch has ended. ``row`` will be added to the history; a callback can add entries.

        The epoch's number is ``len(trainer.history) + 1``.
        """

    def on_end(self, trainer: "Trainer") -> None:
        """`Trainer.fit` ends, possibly with an error or Ctrl-C."""


class Progress(Callback):
    """Prints a line for each epoch, and at the end how long it took and which epoch was best.

    If tqdm is installed, it also shows a bar on standard error.

    every: print only every so many epochs, and the last one.
    """

    every_process = False

    def __init__(self, every: int = 1) -> None:
        self.every = whole("Progress: every", every, 1)

    def on_start(self, trainer: "Trainer") -> None:
        self._bar = None
        self._begun = time.perf_counter(), len(trainer.history), trainer.steps
        try:
            from tqdm import tqdm
        except ImportError:
            return
        total = None
        if hasattr(trainer.loader, "__len__"):
            total = trainer.epochs * -(-len(trainer.loader) // trainer.accumulate)
        self._bar = tqdm(
            initial=trainer.steps, total=total, unit="step", mininterval=0.25, leave=False
        )

    def on_step(self, trainer: "Trainer") -> None:
        if self._bar is not None:
            self._bar.update()

    def on_epoch(self, trainer: "Trainer", row: dict[str, float]) -> None:
        epoch = len(trainer.history) + 1
        if epoch % self.every and epoch != trainer.epochs:
            return
        words = [f"epoch {epoch:{len(str(trainer.epochs))}}/{trainer.epochs}"]
        before = None
        for name, value in row.items():
            part, _, quantity = name.rpartition("/")
            digits = ".4f" if value == 0 or abs(value) >= 5e-5 else ".1e"
            if part != before:
                words.append(f"  {part}" if part else " ")
            words.append(f"{quantity} {value:{digits}}")
            before = part
        self._print(" ".join(words))

    def on_end(self, trainer: "Trainer") -> None:
        start, epochs, before = self._begun
        epochs, steps = len(trainer.history) - epochs, trainer.steps - before
        line = f"{epochs} epochs, {steps} steps in {_duration(time.perf_counter() - start)}"
        if trainer.best is not None:
            epoch = trainer.best["epoch"]
            value = trainer.history[epoch - 1][trainer.monitor]
            line += f"; best {trainer.monitor} {value:.4g} in epoch {epoch}"
        if steps:
            self._print(line)
        if self._bar is not None:
            self._bar.close()

    def _print(self, line):
        if self._bar is None:
            print(line)
        else:
            self._bar.write(line)


def _duration(seconds):
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class CSVLog(Callback):
    """Writes the history to a file, with a column ``epoch`` and one for each entry.

    Each row is on the disk once its epoch has ended. A run that is continued overwrites the file,
    beginning with its history. A new run raises FileExistsError rather than overwrite a file.
    """

    every_process = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._file: Any = None

    def on_start(self, trainer: "Trainer") -> None:
        mode, path = "w" if trainer.steps else "x", os.fspath(self.path)
        try:  # the end of training closes the file, so it is opened without `with`
            self._file = open(path, mode, newline="", encoding="utf-8")  # noqa: SIM115
        except FileExistsError:
            message = f"CSVLog: there is a file {path}; delete it, or give another name"
            raise FileExistsError(message) from None
        self._names: list[str] = []
        self._write(trainer.history)

    def on_epoch(self, trainer: "Trainer", row: dict[str, float]) -> None:
        self._write([*trainer.history, row])

    def on_end(self, trainer: "Trainer") -> None:
        self._file.close()

    def _write(self, history):
        """Write the last row; if that has new entries, the whole file again."""
        rows = [{"epoch": epoch, **row} for epoch, row in enumerate(history, 1)]
        names, self._names = self._names, [*dict.fromkeys(chain(*rows))]
        writer = csv.DictWriter(self._file, self._names)
        if names == self._names:
            del rows[:-1]
        else:
            self._file.truncate(self._file.seek(0))
            writer.writeheader()
        writer.writerows(rows)
        self._file.flush()


class TensorBoardLog(Callback):
    """Gives each entry of the history to a writer of TensorBoard's files.

    writer: an object with TensorBoard's ``add_scalar(name, value, step)`` and ``flush()``, such as
        ``torch.utils.tensorboard.SummaryWriter(folder)``; or a folder, for which tensorboardX makes
        the writer.
    """

    every_process = False

    def __init__(self, writer: Any) -> None:
        if isinstance(writer, str | os.PathLike):
            try:
                from tensorboardX import SummaryWriter
            except ImportError as error:
                raise ImportError(
                    "TensorBoardLog: needs tensorboardX to write to a folder; pip install "
                    "tensorboardX, or pass torch.utils.tensorboard.SummaryWriter(folder)"
                ) from error
            writer = SummaryWriter(os.fspath(writer))
        self.writer = writer

    def on_epoch(self, trainer: "Trainer", row: dict[str, float]) -> None:
        for name, value in row.items():
            self.writer.add_scalar(name, value, len(trainer.history) + 1)
        self.writer.flush()
