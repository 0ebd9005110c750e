"""`GradScaler`: keeps small gradients in float16 from becoming 0."""

from collections.abc import Mapping
from typing import Any

from .._arguments import between, check_type, require, whole
from .._creation import asarray, full
from .._tensor import Tensor
from .._thread_state import thread
from ..autograd.call import wrap
from ..autograd.mode import no_grad
from ..backends import backend_of
from ..backends.dtypes import float32, float64, int32
from ..backends.placement import placed_like
from ..nn.common import can_be_read
from ..nn.module import overwrite
from ..nn.utils import grouped_gradients, scale_arrays
from ..ops.elementwise import isfinite, logical_and, logical_or, where
from ..optim import LBFGS, Optimizer

_RANGE = 0, 2.0**128  # of scales, which are float32
_OPTIONS = "growth_factor", "backoff_factor", "growth_interval"


class GradScaler:
    """Scales a loss, so that gradients in float16 do not underflow, and adapts the scale.

    bfloat16 has float32's range and does not need it. In each step of a training::

        optimizer.zero_grad()
        with gpugrad.amp.autocast(dtype=gpugrad.float16):
            loss = ...
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # only if gradients are to be looked at or clipped
        scaler.step(optimizer)
        scaler.update()

    `step` divides the gradients by the scale. If one of them is inf or nan it leaves all parameters
    and the optimizer's state as they are, and `update` multiplies the scale by ``backoff_factor``.
    After ``growth_interval`` steps without that, `update` multiplies it by ``growth_factor``.

    On a CUDA device all this happens on the device, and only `get_scale` and `state_dict` wait for
    it. The optimizer's count of steps depends on whether a step was skipped. The next step reads
    this from the device, so the program runs at most one step ahead.

    device: accepted for programs written for PyTorch; arrays on every device are scaled.
    init_scale: the first scale.
    growth_factor: above 1. backoff_factor: above 0 and below 1. growth_interval: at least 1.
    enabled: if False, `scale` returns what it is given, and `step` only calls ``optimizer.step``.

    Raises ValueError for other values.
    """

    is_program_state = True  # so that `gpugrad.compile` looks into it

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        require(isinstance(device, str), "GradScaler: device must be a name such as 'cuda'", device)
        self._enabled = bool(enabled)
        self._init_scale = between("GradScaler: init_scale", init_scale, *_RANGE)
        self.set_growth_factor(growth_factor)
        self.set_backoff_factor(backoff_factor)
        self.set_growth_interval(growth_interval)
        self._init_tracker = 0
        # The scale and the steps since it last changed: 0-d, on the device of the first loss.
        self._scale: Any = None
        self._tracker: Any = None
        # Since the last update: for each unscaled optimizer, 0-d arrays by device that are not 0 if
        # a gradient was not finite; and the optimizers that have stepped.
        self._found: dict[Optimizer, dict[str, Any]] = {}
        self._stepped: set[Optimizer] = set()

    def scale(self, outputs: Any) -> Any:
        """``outputs``, a Tensor or a list or tuple of them, times the scale.

        Tensors of 16 bits become float32.
        """
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                self._make_scale(outputs.device)
            return outputs * self._scale.to(outputs.device)
        what = "GradScaler.scale: needs a Tensor, or a list or tuple of Tensors"
        check_type(outputs, (list, tuple), what)
        return getattr(outputs, "_make", type(outputs))([self.scale(x) for x in outputs])

    def _make_scale(self, device):
        self._tracker = full((), self._init_tracker, dtype=int32, device=device)
        self._scale = full((), self._init_scale, dtype=float32, device=device)

    @no_grad()
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, in place.

        `step` calls it unless the program has. Raises RuntimeError if it was called already since
        the last `update`, and ValueError for gradients in float16: their parameters should be
        float32.
        """
        if not self._enabled:
            return
        check_type(optimizer, Optimizer, "GradScaler.unscale_: needs an optimizer of gpugrad.optim")
        if optimizer in self._stepped:
            raise RuntimeError("GradScaler.unscale_: it is called after step; call update first")
        if self._found.get(optimizer):  # it is empty if there was no gradient
            raise RuntimeError(
                "GradScaler.unscale_: the gradients are unscaled already; call it once before each "
                "step, and update after the step"
            )
        scale = self._scale_or_error("unscale_")
        params = [p for group in optimizer.param_groups for p in group["params"]]
        groups = grouped_gradients("GradScaler.unscale_", params)
        if any(str(arrays[0].dtype).split(".")[-1] == "float16" for arrays in groups):
            raise ValueError(
                "GradScaler.unscale_: a gradient is float16; keep the parameters in float32, and "
                "compute in float16 by autocast"
            )
        inverse = (1 / scale.astype(float64)).astype(float32)
        found: dict[str, Any] = {}
        for arrays in groups:
            first = arrays[0]
            device = backend_of[type(first)].device(first)
            before = found[device] if device in found else _zero(first)
            found[device] = scale_arrays(arrays, _placed_scalar(inverse.array, first), before)
        self._found[optimizer] = found

    def step(self, optimizer: Optimizer, *args: Any, **options: Any) -> Any:
        """Call ``optimizer.step(*args, **options)``, unless a gradient is inf or nan.

        Gradients are unscaled first, unless `unscale_` was called. Returns what ``optimizer.step``
        returns, None for a step that the CPU skips. Raises RuntimeError for a second step without
        `update` and if no parameter has a gradient, TypeError for closures and so for `LBFGS`, and
        what `unscale_` raises.
        """
        if not self._enabled:
            return optimizer.step(*args, **options)
        check_type(optimizer, Optimizer, "GradScaler.step: needs an optimizer of gpugrad.optim")
        if args or options or isinstance(optimizer, LBFGS):
            raise TypeError(
                "GradScaler.step: takes no closure, since it could not unscale the gradients that "
                "it computes"
            )
        if optimizer in self._stepped:
            raise RuntimeError(
                "GradScaler.step: it was called already; call update after each step"
            )
        if not self._found.get(optimizer):
            self.unscale_(optimizer)
        found = self._found[optimizer]
        if not found:
            raise RuntimeError("GradScaler.step: no parameter of the optimizer has a gradient")
        if "cpu" in found and thread.recorder is None:
            result = None if any(map(bool, found.values())) else optimizer.step()
        else:
            result = optimizer.step_unless(self._on_all_devices(found))
        self._stepped.add(optimizer)
        return result

    def _on_all_devices(self, found):
        """For each device, an array that is not 0 if any device found a gradient not finite."""
        if len(found) == 1:
            return found
        return {
            device: sum([_placed_scalar(other, own) for other in found.values()])
            for device, own in found.items()
        }

    @no_grad()
    def update(self, new_scale: Any = None) -> None:
        """Adapt the scale after the steps of all optimizers; or set it to ``new_scale``.

        Raises RuntimeError if there was no step, and ValueError unless ``new_scale`` is a positive,
        finite number; a tensor is checked on the CPU only.
        """
        if not self._enabled:
            return
        scale = self._scale_or_error("update")
        if new_scale is not None:
            name, given = "GradScaler.update: new_scale", new_scale
            if isinstance(given, Tensor):
                require(given.shape == (), f"{name} must be a number", given)
                # A GPU would be waited for.
                given = given.item() if given.device == "cpu" and can_be_read(given) else None
            if given is not None:
                new_scale = between(name, given, *_RANGE)
            overwrite(scale, asarray(new_scale).detach().to(scale.device, float32).array)
        else:
            founds = [x for found in self._found.values() for x in found.values()]
            if not founds:
                raise RuntimeError("GradScaler.update: no optimizer has stepped; call step before")
            found = sum([wrap(_placed_scalar(x, scale.array), None) for x in founds]) > 0
            tracker = self._tracker + 1
            grows = tracker == self._growth_interval
            grown = scale * self._growth_factor
            grown = where(logical_and(grows, isfinite(grown)), grown, scale)
            overwrite(scale, where(found, scale * self._backoff_factor, grown).array)
            overwrite(self._tracker, where(logical_or(found, grows), 0, tracker).array)
        self._found.clear()
        self._stepped.clear()

    def _scale_or_error(self, name):
        if self._scale is None:
            raise RuntimeError(f"GradScaler.{name}: nothing was scaled; call scale(loss) before")
        return self._scale

    def get_scale(self) -> float:
        """The scale; 1 if disabled. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def get_growth_factor(self) -> float:
        """What the scale is multiplied by to grow."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set `get_growth_factor`."""
        self._growth_factor = between("GradScaler: growth_factor", new_factor, 1)

    def get_backoff_factor(self) -> float:
        """What the scale is multiplied by after inf or nan."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set `get_backoff_factor`."""
        self._backoff_factor = between("GradScaler: backoff_factor", new_factor, 0, 1)

    def get_growth_interval(self) -> int:
        """After how many steps the scale grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set `get_growth_interval`."""
        self._growth_interval = whole("GradScaler: growth_interval", new_interval, 1)

    def is_enabled(self) -> bool:
        """Whether the scaler does anything."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and all else that `load_state_dict` needs, as PyTorch's; {} if disabled."""
        if not self._enabled:
            return {}
        tracker = self._init_tracker if self._scale is None else int(self._tracker)
        options = {name: getattr(self, f"_{name}") for name in _OPTIONS}
        return {"scale": self.get_scale(), **options, "_growth_tracker": tracker}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` of such a scaler, or PyTorch's, returned.

        Raises ValueError if it is not the state of an enabled scaler; nothing has changed then.
        """
        if not self._enabled:
            return
        try:
            scale = float(state_dict["scale"])
            new = GradScaler(init_scale=scale, **{name: state_dict[name] for name in _OPTIONS})
            tracker = whole("_growth_tracker", state_dict["_growth_tracker"], 0)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"GradScaler.load_state_dict: the state is not one of an enabled scaler "
                f"({type(error).__name__}: {error}); nothing was loaded"
            ) from None
        device = None if self._scale is None else self._scale.device
        vars(self).update(vars(new) | {"_found": self._found, "_stepped": self._stepped})
        self._init_tracker = tracker
        if device is not None:
            self._make_scale(device)

    def __repr__(self) -> str:
        options = [f"{x}={getattr(self, '_' + x)}" for x in ("init_scale", *_OPTIONS, "enabled")]
        return f"GradScaler({', '.join(options)})"


def _zero(like):
    """A 0-d float32 array of 0 on the device, and of the library, of ``like``."""
    backend = backend_of[type(like)]
    return backend.zeros((), backend.dtype(float32), like)


def _placed_scalar(value, like):
    """A 0-d array as float32 on the device, and of the library, of ``like``."""
    return placed_like(value, _zero(like))
