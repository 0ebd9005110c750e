"""The training loop."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from itertools import chain, islice
from typing import Any, Literal

from .._arguments import check_type, one_of, require, whole
from .._creation import asarray, tensor
from .._foreign_names import Explained
from .._processes import Group, current
from .._tensor import Tensor
from ..autograd.mode import no_grad
from ..distributed import DataParallel, all_reduce
from ..io import load, safetensors_for, save
from ..nn import functional
from ..nn.losses import _Loss
from ..nn.module import Module, in_mode
from ..nn.utils import clip_grad_norm_
from ..optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from ..optim.optimizer import Optimizer
from ..random import default_generator
from ..tape import compile as compiled
from .callbacks import Callback

_PARTS = "model optimizer scheduler loader random steps means history best callbacks".split()


class Trainer(Explained):
    """Trains a model, with a history, checkpoints and callbacks.

    ::

        def loss(model, images, labels):
            logits = model(images)
            right = logits.argmax(axis=1) == labels
            return nn.functional.cross_entropy(logits, labels), {"accuracy": right.mean()}

        trainer = Trainer(model, optimizer, loss, loader, evaluate_on={"test": test_loader},
                          checkpoint="run.safetensors", callbacks=[Progress()])
        history = trainer.fit(epochs=10)

    loss: ``loss(model, *batch)`` returns the mean loss over a batch that is a tuple or a list,
        alone or with a dict of further means by other names than ``"loss"``, the metrics. The
        trainer passes a batch of another kind as one argument.
    loader: an iterable over the batches of one epoch, such as a `gpugrad.data.DataLoader`.
    evaluate_on: loaders by name. After each epoch the trainer computes the loss and the metrics for
        each of them in evaluation mode.
    scheduler, schedule_per: a scheduler of learning rates, and whether the trainer calls its
        ``step`` after each ``"epoch"`` or after each ``"step"`` of the optimizer.
        `ReduceLROnPlateau` gets the value of ``monitor``.
    accumulate: how many batches to use for each step of the optimizer. The step's gradient is that
        of the mean loss over all their samples.
    max_norm: clip the norm of the gradient to this number.
    monitor: the entry of the history, such as ``"test/loss"``, that decides which epoch is best:
        the one with the smallest value for the ``mode`` ``"min"``, the largest for ``"max"``. The
        trainer keeps the weights after the best epoch, for `restore_best`.
    patience: stop when the monitor has not improved for this many epochs.
    checkpoint: a safetensors file to write after each epoch. With ``checkpoint_steps`` the trainer
        also writes it each time that it has made so many steps, and needs a loader with a
        ``state_dict``. Raises ImportError if safetensors is not installed.
    notes: further entries of the checkpoint, for instance the program's options.
    compile: compile the computation of the loss and the gradients, and the optimizer's update, with
        `gpugrad.compile`. On a CPU the weights are the same, to the bit.
    callbacks: called in their order; see `Callback`. The state of those with a ``state_dict`` and
        a ``load_state_dict`` is part of the checkpoint.

    With several processes, ``model`` is a `gpugrad.distributed.DataParallel`, and each process
    makes the same trainer, with a loader of its part of the samples. Then each step has the
    gradient of the mean loss over the samples of all processes, which may have different numbers
    of them, and the history has the means over all samples. Only process 0 writes checkpoints, and
    calls callbacks whose ``every_process`` is False. The number of processes may change from one
    run to the next. A checkpoint has the states of the random generators of process 0.

    history: a dict for each epoch, from names such as ``"training/loss"`` and ``"test/accuracy"``
        to floats. The values of ``"training"`` are means over the epoch's samples, each computed
        with the weights that its step had; or those of ``evaluate_on``, if that has a loader of
        this name.
    steps: how many steps the optimizer has made.
    should_stop: a callback may set it to True to end `fit` after the current epoch.

    A run that is continued from its checkpoint ends as it would have without an interruption, to
    the last bit. For this the checkpoint has the loader's ``state_dict``, or if it has none, its
    attributes ``seed`` and ``epoch`` if there are any. It also has the states of the default
    generators, from which dropout draws.
    """

    def __init__(
        self, model: Module, optimizer: Optimizer, loss: Callable[..., Any], loader: Iterable[Any],
        *, evaluate_on: Mapping[str, Iterable[Any]] | None = None,
        scheduler: LRScheduler | None = None, schedule_per: Literal["epoch", "step"] = "epoch",
        accumulate: int = 1, max_norm: float | None = None, monitor: str | None = None,
        mode: Literal["min", "max"] = "min", patience: int | None = None,
        checkpoint: str | os.PathLike[str] | None = None, checkpoint_steps: int | None = None,
        notes: Mapping[str, Any] | None = None, callbacks: Sequence[Callback] = (),
        compile: bool = False,
    ) -> None:  # fmt: skip
        check_type(optimizer, Optimizer, "Trainer: optimizer must be an Optimizer")
        one_of("Trainer: schedule_per", schedule_per, ("epoch", "step"))
        one_of("Trainer: mode", mode, ("min", "max"))
        name = getattr(loss, "__name__", type(loss).__name__)
        if isinstance(loss, _Loss) or getattr(functional, name, None) is loss:
            raise TypeError(
                f"Trainer: loss is called with the model and a batch, which {name} does not take; "
                f"write a function, such as lambda model, x, y: criterion(model(x), y)"
            )
        if monitor is None and (patience is not None or isinstance(scheduler, ReduceLROnPlateau)):
            raise ValueError("Trainer: patience and ReduceLROnPlateau need a monitor")
        if isinstance(scheduler, ReduceLROnPlateau) and schedule_per == "step":
            raise ValueError("Trainer: ReduceLROnPlateau is stepped per epoch")
        if checkpoint_steps is not None:
            checkpoint_steps = whole("Trainer: checkpoint_steps", checkpoint_steps, 1)
            if checkpoint is None or not hasattr(loader, "state_dict"):
                raise ValueError(
                    "Trainer: checkpoint_steps needs a checkpoint and a loader with a state_dict, "
                    "which says where in the epoch it is; leave it out to save after each epoch"
                )
        if checkpoint is not None:
            safetensors_for("Trainer: checkpoint")
        if taken := sorted({*(notes or {})} & {*_PARTS}):
            raise ValueError(f"Trainer: {taken} in notes are the trainer's own; rename them")
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.loader: Any = loader
        self.evaluate_on = dict(evaluate_on or {})
        self.scheduler = scheduler
        self.schedule_per = schedule_per
        self.accumulate = whole("Trainer: accumulate", accumulate, 1)
        self.max_norm = max_norm
        self.monitor = monitor
        self.mode = mode
        self.patience = None if patience is None else whole("Trainer: patience", patience, 1)
        self.checkpoint = checkpoint
        self.checkpoint_steps = checkpoint_steps
        self.notes = dict(notes or {})
        self.callbacks = list(callbacks)
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Any] | None = None
        self.epochs = self.steps = 0
        self.should_stop = False
        self._means = _Means()
        self._group = current() if isinstance(model, DataParallel) else Group()
        is_first = self._group.rank == 0
        self._called = [x for x in self.callbacks if is_first or getattr(x, "every_process", True)]
        compute: Callable[..., Any] = partial(_add_gradients, model, loss)
        apply: Callable[..., Any] = partial(_apply_gradients, model, optimizer, max_norm)
        self._update: Callable[..., Any]
        if self._group.size > 1:
            if compile:
                compute, apply = compiled(compute), compiled(apply)
            self._update = partial(_update_of_processes, model, optimizer, compute, apply)
        else:
            self._update = partial(_update, optimizer, compute, apply)
            if compile:
                self._update = compiled(self._update)

    def fit(self, epochs: int) -> list[dict[str, float]]:
        """Train until the history has ``epochs`` rows, or patience ends; return the history.

        Raises FloatingPointError if the mean training loss of an epoch is not finite, and
        FileExistsError if a new run would overwrite a checkpoint. After an error or Ctrl-C the last
        checkpoint is unchanged.
        """
        self.epochs = whole("Trainer.fit: epochs", epochs, 1)
        if self.checkpoint is not None and not self.steps and os.path.exists(self.checkpoint):
            raise FileExistsError(
                f"Trainer.fit: there is a file {os.fspath(self.checkpoint)}; load it to continue "
                f"that run, or give another name as checkpoint"
            )
        self.model.train()
        self.should_stop = False
        with ExitStack() as stack:
            for callback in self._called:
                callback.on_start(self)
                stack.callback(callback.on_end, self)
            try:
                while len(self.history) < self.epochs and not self._is_finished():
                    self._train_epoch()
            finally:
                self._means = _Means()  # drop those of an epoch that was broken off
        return self.history

    def _is_finished(self):
        waited = len(self.history) - (0 if self.best is None else self.best["epoch"])
        should_stop = any(self._group.exchange(self.should_stop))
        return should_stop or (self.patience is not None and waited >= self.patience)

    def _train_epoch(self):
        batches = iter(self.loader)
        while group := list(islice(batches, self.accumulate)):
            self.step(group)
            if self.checkpoint_steps and self.steps % self.checkpoint_steps == 0:
                self.save(self.checkpoint)
        row = self._means.named("training", self._group)
        if not row:
            raise ValueError("Trainer.fit: the loader has no batches")
        for name, loader in self.evaluate_on.items():
            row |= self.evaluate(loader, name)
        if not math.isfinite(row["training/loss"]):
            raise FloatingPointError(
                f"the training loss is {row['training/loss']} in epoch {len(self.history) + 1}"
            )
        for callback in self._called:
            callback.on_epoch(self, row)
        self.history.append(row)
        self._means = _Means()
        self._keep_best()
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(row[self.monitor])
        elif self.scheduler is not None and self.schedule_per == "epoch":
            self.scheduler.step()
        if self.checkpoint is not None:
            self.save(self.checkpoint)

    def step(self, batches: Sequence[Any]) -> None:
        """Make one step of the optimizer, with the gradient of the mean loss over some batches.

        A subclass may replace it, to compute the gradient in another way.
        """
        if self._group.size > 1:
            batches = [batch for batch in batches if _batch_size(batch)]
        for batch, values in zip(batches, self._update(batches), strict=True):
            self._means.add(values, _batch_size(batch))
        if self.scheduler is not None and self.schedule_per == "step":
            self.scheduler.step()
        self.steps += 1
        for callback in self._called:
            callback.on_step(self)

    @no_grad()
    def evaluate(self, loader: Iterable[Any], name: str | None = None) -> dict[str, float]:
        """The means of loss and metrics over all samples, in evaluation mode and without a graph.

        name: put it in front of the names, as in ``"test/loss"``.

        Afterwards each module is in the mode, training or not, that it was in. With several
        processes all of them call this, each with a loader of its part of the samples.
        """
        means = _Means()
        with in_mode(self.model, False):
            for batch in loader:
                if count := _batch_size(batch):
                    means.add(_loss_and_metrics(self.loss, self.model, batch), count)
        return means.named(name, self._group)

    def _keep_best(self):
        if self.monitor is None:
            return
        if self.monitor not in self.history[-1]:
            raise ValueError(
                f"Trainer: monitor is {self.monitor!r}, which is not among {[*self.history[-1]]}"
            )
        sign, least = 1 if self.mode == "min" else -1, math.inf
        if self.best is not None:
            least = sign * self.history[self.best["epoch"] - 1][self.monitor]
        if sign * self.history[-1][self.monitor] < least:  # this is False for nan
            self.best = {"epoch": len(self.history), "model": self.model.state_dict()}

    def restore_best(self) -> int:
        """Give the model the weights after the best epoch; return its number, counted from 1."""
        if self.best is None:
            raise RuntimeError("Trainer.restore_best: no epoch was best; give a monitor, and fit")
        self.model.load_state_dict(self.best["model"])
        return self.best["epoch"]

    # State

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to continue the run, for `gpugrad.save`, and ``notes``."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "loader": _loader_state(self.loader),
            "random": {name: default_generator(name).get_state() for name in self._devices()},
            "steps": self.steps,
            "means": _added_up(chain(*self._group.exchange(self._means.totals()))),
            "history": [dict(row) for row in self.history],
            "best": self.best,
            "callbacks": [callback.state_dict() for callback in self._stateful_callbacks()],
            **self.notes,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the run whose state `state_dict` returned, by a trainer with the same parts.

        Raises ValueError or TypeError if a part does not fit, and then changes nothing.
        """
        what = "Trainer: the state must be a dict"
        check_type(state, Mapping, what, "; to read a file, call load")
        if missing := [name for name in _PARTS if name not in state]:
            raise ValueError(f"Trainer: the state has no {', '.join(map(repr, missing))}")
        check_type(state["random"], Mapping, "Trainer: the state's 'random' must be a dict")
        history = state["history"]
        if not isinstance(history, list) or not all(map(_is_row, history)):
            raise ValueError("Trainer: its history is not a list of dicts of numbers")
        whole("Trainer: the state's steps", state["steps"], 0)
        if (state["scheduler"] is None) != (self.scheduler is None):
            raise ValueError("Trainer: only one of the state and the trainer has a scheduler")
        if len(state["callbacks"]) != len(self._stateful_callbacks()):
            raise ValueError(
                f"Trainer: it has states of {len(state['callbacks'])} callbacks, but "
                f"{len(self._stateful_callbacks())} callbacks here have a state"
            )
        before = self.state_dict()
        try:
            self._set_state(state)
        except BaseException:
            self._set_state(before)
            raise

    def _set_state(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        _load_loader_state(self.loader, state["loader"])
        for device in self._devices() & state["random"].keys():
            default_generator(device).set_state(state["random"][device])
        for callback, own in zip(self._stateful_callbacks(), state["callbacks"], strict=True):
            callback.load_state_dict(own)
        self.steps = state["steps"]
        self.best = state["best"]
        self._means = _Means(_added_up(state["means"]) if self._group.rank == 0 else ())
        self.history = [dict(row) for row in state["history"]]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `state_dict` to a file, as `gpugrad.save` does.

        With several processes all of them call this.
        """
        state = self.state_dict()
        if self._group.rank == 0:
            save(state, path)
        self._group.barrier()

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continue the run that `save` or ``checkpoint`` wrote; raises what `gpugrad.load` does.

        Raises ValueError or TypeError if the file is that of another run, and then changes nothing.
        """
        self.load_state_dict(load(path))

    def _stateful_callbacks(self) -> list[Any]:
        return [callback for callback in self.callbacks if hasattr(callback, "state_dict")]

    def _devices(self):
        """The devices whose default generators the model may draw from."""
        devices = {parameter.device for parameter in self.model.parameters()}
        return {"cpu"} | {device for device in devices if device.startswith("cuda")}


def _update(optimizer, compute, apply, batches):
    """Make one step of the optimizer; return the loss and the metrics of each batch, by name.

    compute: a function of a batch and its share of the samples that adds to the gradients.
    apply: a function that makes the step with the gradients.
    """
    optimizer.zero_grad()
    total = max(sum(map(_batch_size, batches)), 1)
    found = [compute(batch, _batch_size(batch) / total) for batch in batches]
    apply()
    return found


def _update_of_processes(model, optimizer, compute, apply, batches):
    """`_update` for several processes, each of which has a part of the batches.

    `DataParallel` averages their gradients, so each process weights its loss by its share of the
    samples.
    """
    total = all_reduce(asarray(sum(map(_batch_size, batches)))).item()
    share = current().size / max(total, 1)
    optimizer.zero_grad()
    found = []
    for i, batch in enumerate(batches):
        with nullcontext() if i == len(batches) - 1 else model.no_sync():
            found.append(compute(batch, _batch_size(batch) * share))
    if not batches:
        model.synchronize()
    apply()
    return found


def _add_gradients(model, loss, batch, weight):
    """Go backward from a batch's loss times ``weight``; return its loss and metrics by name.

    They are copies, since they may lie in the memory of parameters, which the step changes.
    """
    values = _loss_and_metrics(loss, model, batch)
    (values["loss"] if weight == 1 else values["loss"] * weight).backward()
    return {k: tensor(x) if isinstance(x, Tensor) else x for k, x in values.items()}


def _apply_gradients(model, optimizer, max_norm):
    if max_norm is not None:
        clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()


def _added_up(triples):
    """One triple of a name, a sum and a count for each name in the triples."""
    sums = {}
    for name, total, count in triples:
        before, counted = sums.get(name, (0.0, 0))
        sums[name] = before + total, counted + count
    return [(name, total, count) for name, (total, count) in sums.items()]


def _loss_and_metrics(loss, model, batch):
    """The loss and the metrics of a batch, by name."""
    result = loss(model, *(batch if isinstance(batch, tuple | list) else (batch,)))
    parts = result if isinstance(result, tuple) else (result, {})
    if len(parts) != 2 or not isinstance(parts[0], Tensor) or not isinstance(parts[1], Mapping):
        types = ", ".join([type(part).__name__ for part in parts])
        given = f"({types})" if isinstance(result, tuple) else type(result).__name__
        raise TypeError(
            f"Trainer: the loss function must return a Tensor, the mean loss over the batch, or a "
            f"tuple of that and a dict of metrics, not {given}"
        )
    mean, metrics = parts
    require("loss" not in metrics, "Trainer: a metric must have a name of its own", "loss")
    if mean.size != 1:
        raise ValueError(
            f"Trainer: the loss function must return one number, not a tensor of shape "
            f"{mean.shape}; return its mean()"
        )
    return {"loss": mean, **metrics}


class _Means:
    """Means of values by name, over samples.

    This reads the values only when it is asked for the means, so that no step waits for a GPU.
    """

    def __init__(self, totals=()):
        self._totals = [*totals]
        self._unread = []

    def add(self, values, size):
        values = {k: x.detach() if isinstance(x, Tensor) else x for k, x in values.items()}
        self._unread.append((values, size))

    def totals(self):
        """Triples of a name, the sum of its values, and the number of samples."""
        for values, size in self._unread:
            self._totals += [(name, float(x) * size, size) for name, x in values.items()]
        self._unread.clear()
        self._totals = _added_up(self._totals)
        return self._totals

    def named(self, prefix, group):
        """The means over all processes of a group, by their names after the prefix."""
        start = f"{prefix}/" if prefix else ""
        totals = _added_up(chain(*group.exchange(self.totals())))
        return {f"{start}{name}": total / count for name, total, count in totals}


def _batch_size(batch):
    """The number of samples in a batch: the length of its first tensor."""
    if isinstance(batch, Mapping):
        batch = [*batch.values()]
    return _batch_size(batch[0]) if isinstance(batch, tuple | list) else len(batch)


def _is_row(row):
    return isinstance(row, dict) and all(type(x) in (int, float) for x in row.values())


def _loader_state(loader):
    if hasattr(loader, "state_dict"):
        return loader.state_dict()
    return {name: getattr(loader, name) for name in ("seed", "epoch") if hasattr(loader, name)}


def _load_loader_state(loader, state):
    if hasattr(loader, "load_state_dict"):
        loader.load_state_dict(state)
    else:
        for name, value in state.items():
            setattr(loader, name, value)
