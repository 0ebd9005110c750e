"""Averages of a model's weights over the steps of its training, named as PyTorch's.

The averaged model often generalizes better than the last one::

    averaged = AveragedModel(model, avg_fn=get_ema_avg_fn(0.999))
    for inputs, targets in loader:
        ...
        optimizer.step()
        averaged.update_parameters(model)
    update_bn(loader, averaged)
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, Literal

from .._arguments import one_of, require, whole
from .._creation import zeros
from .._foreign_names import explain_names
from .._tensor import Tensor
from .._thread_state import thread
from ..autograd import no_grad
from ..backends.dtypes import int64
from ..backends.placement import placed_like
from ..nn.module import Module, in_mode, overwrite
from ..nn.normalization import _BatchNorm
from ..ops.elementwise import where
from .optimizer import Optimizer
from .scheduler import LRScheduler, eased

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_swa_avg_fn", "update_bn"]
explain_names(__name__)

_Average = Callable[[Tensor, Tensor, int], Tensor]


def get_swa_avg_fn() -> _Average:
    """The average of all models: ``average + (current - average) / (n + 1)``.

    Izmailov et al. 2018, "Averaging weights leads to wider optima and better generalization".
    """

    def average(averaged: Tensor, current: Tensor, num_averaged: int) -> Tensor:
        return averaged + (current - averaged) / (num_averaged + 1)

    return average


def get_ema_avg_fn(decay: float = 0.999) -> _Average:
    """The exponential moving average: ``decay * average + (1 - decay) * current``.

    decay: from 0 to 1, else ValueError.
    """
    require(0 <= decay <= 1, "get_ema_avg_fn: decay must be from 0 to 1", decay)

    def average(averaged: Tensor, current: Tensor, num_averaged: int) -> Tensor:
        return decay * averaged + (1 - decay) * current

    vars(average)["needs_count"] = False  # so that `update_parameters` can be compiled
    return average


class AveragedModel(Module):
    """A copy of a model, ``module``, whose parameters are averages of the model's.

    model: stays as it is.
    device: where the copy is, by default where the model is.
    avg_fn: ``avg_fn(averaged, current, n)`` returns the new average of a parameter, where ``n``
        models were averaged before; by default `get_swa_avg_fn`.
    use_buffers: whether buffers are averaged too. Otherwise they are those of the last model; for
        those of `BatchNorm1d` see `update_bn`.

    Names in the state dict, among them the count ``n_averaged``, are PyTorch's.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: str | None = None,
        avg_fn: _Average | None = None,
        *,
        use_buffers: bool = False,
    ) -> None:
        self.module = deepcopy(model)
        if device is not None:
            self.module.to(device)
        self.register_buffer("n_averaged", zeros((), dtype=int64, device=device))
        self.avg_fn = avg_fn or get_swa_avg_fn()
        self.use_buffers = bool(use_buffers)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Include the parameters that ``model`` has now in the averages. The first are copied.

        `gpugrad.compile` compiles it if ``avg_fn`` is from `get_ema_avg_fn`. Any other function
        gets the count as a number, which a compiled step must not read: call it after such a step.

        Raises ValueError if the model has other parameters or buffers than the copy, and then
        changes nothing.
        """
        own, others = ([*m.parameters(), *m.buffers()] for m in (self.module, model))
        shapes, new_shapes = ([x.shape for x in xs] for xs in (own, others))
        if shapes != new_shapes:
            raise ValueError(
                f"update_parameters: the model has tensors of shapes {new_shapes}, but the average "
                f"{shapes}; it must be the model that was given to AveragedModel, or like it"
            )
        recorder, count = thread.recorder, self.n_averaged
        is_recorded = recorder is not None and not getattr(self.avg_fn, "needs_count", True)
        if recorder is not None and not is_recorded:
            recorder.stop("it reads a count; call update_parameters outside, or use get_ema_avg_fn")
        number: Any = count if is_recorded else count.item()
        averaged = len(own) if self.use_buffers else len([*self.module.parameters()])
        for i, (mean, x) in enumerate(zip(own, others, strict=True)):
            new = x.detach().to(mean.device)
            if i < averaged and (is_recorded or number):
                first, new = new, self.avg_fn(mean.detach(), new, number)
                new = where(count == 0, first, new) if is_recorded else new
            require(new.shape == mean.shape, "AveragedModel: avg_fn must keep shapes", new.shape)
            overwrite(mean, placed_like(new.array, mean.array))
        overwrite(count, (count + 1).array)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: str | None = None) -> None:
    """Compute the running statistics of batch normalization layers again, as means over batches.

    A model with averaged parameters needs this, since its statistics belong to other parameters.

    loader: batches; of a tuple or list the first member is the input.
    device: where to move the inputs to, by default nowhere.

    Afterwards each module is in the mode, training or not, that it was in.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    layers = [m for m in norms if m.running_mean is not None]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        with in_mode(model, True):
            for batch in loader:
                inputs = batch[0] if isinstance(batch, list | tuple) else batch
                model(inputs if device is None else inputs.to(device))
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


class SWALR(LRScheduler):
    """Rates that go from their present values to ``swa_lr`` in ``anneal_epochs`` epochs, and stay.

    It is meant for training while weights are averaged. With ``a`` going from 0 to 1::

        lr = swa_lr * a + initial_lr * (1 - a)

    swa_lr: a number, or one for each group.
    anneal_strategy: ``"cos"`` to go along a cosine, ``"linear"`` along a line.
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: float | list[float], anneal_epochs: int = 10,
        anneal_strategy: Literal["cos", "linear"] = "cos", last_epoch: int = -1,
    ) -> None:  # fmt: skip
        self.optimizer = self._check_optimizer(optimizer)
        one_of("SWALR: anneal_strategy", anneal_strategy, ("cos", "linear"))
        self.anneal_epochs = whole("SWALR: anneal_epochs", anneal_epochs, 0)
        self._anneal_strategy = anneal_strategy
        rates = self._for_groups("swa_lr", swa_lr)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _share(self, step):
        return eased(max(0.0, min(1.0, step / max(1, self.anneal_epochs))), self._anneal_strategy)

    def get_lr(self) -> list[float]:
        step = max(self._step_count - 1, 0 if self.anneal_epochs else 1)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            rate, last = group["lr"], group["swa_lr"]
            first = last if before == 1 else (rate - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
