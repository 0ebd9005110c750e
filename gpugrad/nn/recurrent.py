"""Recurrent layers and their cells, with PyTorch's parameter names, shapes and initial values."""

import math
import warnings
from typing import Any, ClassVar

from .._arguments import one_of, whole
from .._creation import create
from .._tensor import Tensor
from ..ops.manipulation import concat, expand_dims, moveaxis, reshape, squeeze, stack
from ..ops.neural import linear
from ..ops.recurrent import gru, lstm, rnn
from ..random import Generator
from . import functional
from .common import check_probability, check_shape
from .init import uniform_parameters
from .module import Module, Parameter

_NONLINEARITIES = "tanh", "relu"
_KINDS = "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"  # of a layer's parameters


class _Recurrent(Module):
    """Layers of a recurrent network; a subclass defines one layer in one direction.

    gates: how many matrices of ``hidden_size`` rows each weight consists of.
    states: the names of the initial states, for errors.
    """

    gates: int
    states: tuple[str, ...] = ("h_0",)
    _shown = "input_size", "hidden_size"
    _shown_unless: ClassVar = {
        "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0,
        "bidirectional": False,
    }  # fmt: skip

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
        proj_size: int = 0, *, dtype: Any = None, device: str | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.input_size = whole(f"{name}: input_size", input_size, 1)
        self.hidden_size = whole(f"{name}: hidden_size", hidden_size, 1)
        self.num_layers = whole(f"{name}: num_layers", num_layers, 1)
        self.proj_size = whole(f"{name}: proj_size", proj_size, 0)
        if proj_size and (self.gates != 4 or proj_size >= hidden_size):
            least = f"be less than hidden_size {hidden_size}" if self.gates == 4 else "be 0"
            raise ValueError(f"{name}: proj_size {proj_size} must {least}; it is for LSTM alone")
        self.bias = bias
        self.batch_first = batch_first
        check_probability(f"{name}: dropout", dropout)
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        if dropout and num_layers == 1:
            warnings.warn(
                f"{name}: dropout={dropout} has no effect with one layer, as it is applied "
                f"between layers",
                stacklevel=4,  # the caller of the constructor, which `explains_arguments` wraps
            )
        parameter = uniform_parameters(1 / math.sqrt(hidden_size), dtype, device, generator)
        rows, columns = self.gates * hidden_size, self.proj_size or hidden_size
        for layer, suffix in self._layers_and_directions():
            features = columns * (1 + bidirectional) if layer else input_size
            setattr(self, f"weight_ih_l{layer}{suffix}", parameter(rows, features))
            setattr(self, f"weight_hh_l{layer}{suffix}", parameter(rows, columns))
            for kind in ("ih", "hh") if bias else ():
                setattr(self, f"bias_{kind}_l{layer}{suffix}", parameter(rows))
            if self.proj_size:
                setattr(self, f"weight_hr_l{layer}{suffix}", parameter(columns, hidden_size))

    def _layers_and_directions(self):
        """The number of the layer, and the suffix for the direction, of each pair of weights."""
        suffixes = ("", "_reverse") if self.bidirectional else ("",)
        return [(layer, suffix) for layer in range(self.num_layers) for suffix in suffixes]

    def _run(self, x, w_ih, w_hh, b_ih, b_hh, w_hr, states, reverse):
        """One layer in one direction: its outputs, and its states after the last step."""
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out, (h,) = self._all_layers(input, [hx])
        return out, h

    def _all_layers(self, input, states):
        """The outputs of the last layer, and each of the final states of all layers.

        states: the initial states of all layers, each of which may be None.
        """
        batched = self._check(input, states)
        if not batched:
            input = expand_dims(input, 0 if self.batch_first else 1)
            states = [None if s is None else expand_dims(s, 1) for s in states]
        x = moveaxis(input, 0, 1) if self.batch_first else input
        directions, final = [], []
        for number, (layer, suffix) in enumerate(self._layers_and_directions()):
            if layer and not directions:
                x = functional.dropout(x, self.dropout, self.training)
            parameters = [vars(self).get(f"{kind}_l{layer}{suffix}") for kind in _KINDS]
            own = [None if s is None else s[number, ...] for s in states]
            out, *last = self._run(x, *parameters, own, bool(suffix))
            directions.append(out)
            final.append(last)
            if len(directions) == 1 + self.bidirectional:
                x = concat(directions, axis=-1) if self.bidirectional else out
                directions = []
        out = moveaxis(x, 0, 1) if self.batch_first else x
        last_states = [stack(list(kind)) for kind in zip(*final, strict=True)]
        if not batched:
            out = squeeze(out, 0 if self.batch_first else 1)
            last_states = [squeeze(s, 1) for s in last_states]
        return out, last_states

    def _check(self, input, states):
        """Whether the input has an axis for the batch. Raises ValueError if shapes do not fit."""
        name = type(self).__name__
        shape = _shape_of(name, input)
        if len(shape) not in (2, 3) or shape[-1] != self.input_size:
            batched = "(batch, length" if self.batch_first else "(length, batch"
            raise ValueError(
                f"{name}: the input must be {batched}, {self.input_size}) or "
                f"(length, {self.input_size}), not {shape}"
            )
        lead = (self.num_layers * (1 + self.bidirectional),)
        if len(shape) == 3:
            lead = (*lead, shape[0 if self.batch_first else 1])
        for what, state in zip(self.states, states, strict=True):
            size = "proj_size" if what == "h_0" and self.proj_size else "hidden_size"
            axes = f"batch, {size}" if len(shape) == 3 else size
            message = "{}: for an input of shape {}, {} (layers and directions, {})"
            check_shape(state, (*lead, getattr(self, size)), message, name, shape, what, axes)
        return len(shape) == 3


def _shape_of(layer, input):
    if not isinstance(input, Tensor):
        raise TypeError(
            f"{layer}: the input must be a Tensor, not a {type(input).__name__}; of sequences of "
            f"different lengths make one with zeros at their ends, and use the outputs up to "
            f"each length"
        )
    return input.shape


def _two_states(layer, hx):
    if hx is None:
        return None, None
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        given = f"a Tensor of shape {hx.shape}" if isinstance(hx, Tensor) else f"{hx!r:.80}"
        raise TypeError(f"{layer}: the initial states must be a tuple (h_0, c_0), not {given}")
    return tuple(hx)


class RNN(_Recurrent):
    """Layers of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, applied at each time of a sequence.

    input_size, hidden_size: lengths of x and h.
    num_layers: every layer but the first takes the outputs of the one below it.
    nonlinearity: ``"tanh"`` or ``"relu"``.
    bias: if False, there are no ``b_ih`` and ``b_hh``.
    batch_first: whether the batch, not the length, is the first axis of input and output.
    dropout: probability of `Dropout` between two layers, in training.
    bidirectional: whether each layer also goes through the sequence backwards, with weights of
        its own; its outputs follow those of the forward direction on the last axis.
    dtype, device, generator: as for `Linear`.

    Called with an input and, optionally, the initial state, it returns the outputs of the last
    layer at all times, and the last states of all layers:

    input: ``(length, batch, input_size)``, or ``(length, input_size)`` for a single sequence.
    hx: ``(num_layers * directions, batch, hidden_size)``, by default 0; without the batch for a
        single sequence. The last states have this shape too.
    output: ``(length, batch, hidden_size * directions)``, or without the batch.

    weight_ih_l0, weight_hh_l0: ``(hidden_size, input_size)``, ``(hidden_size, hidden_size)``, of
        layer 0; ``weight_ih_l1`` and so on are ``(hidden_size, hidden_size * directions)``. Those
        of the other direction end in ``_reverse``.
    bias_ih_l0, bias_hh_l0: ``(hidden_size,)``. All are uniform within ``1 / sqrt(hidden_size)`` of
        0.

    There are no packed sequences: pad sequences of different lengths to one length. Raises
    ValueError for shapes that do not fit.
    """

    gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
        bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, *, dtype: Any = None, device: str | None = None,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.nonlinearity = one_of("RNN: nonlinearity", nonlinearity, _NONLINEARITIES)
        layout: Any = bias, batch_first, dropout, bidirectional
        place: Any = {"dtype": dtype, "device": device, "generator": generator}
        super().__init__(input_size, hidden_size, num_layers, *layout, **place)

    def _run(self, x, w_ih, w_hh, b_ih, b_hh, w_hr, states, reverse):
        options = {"nonlinearity": self.nonlinearity, "reverse": reverse}
        return rnn(x, w_ih, w_hh, b_ih, b_hh, *states, **options)


class LSTM(_Recurrent):
    """Layers of long short-term memory, applied at each time of a sequence.

    ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``, where i, f,
    g and o are the quarters of ``W_ih x + b_ih + W_hh h + b_hh``.

    The arguments, the input, the output and the parameters are those of `RNN`. The initial and the
    last states are tuples ``(h, c)``. The input is ``(length, batch, input_size)``, the output
    ``(length, batch, hidden_size * directions)``, and each state
    ``(num_layers * directions, batch, hidden_size)``. Weights and biases have
    ``4 * hidden_size`` rows.

    proj_size: if it is not 0, h is projected to this many elements, fewer than ``hidden_size``:
        ``h = W_hr (sigmoid(o) * tanh(c))``, where W_hr is ``weight_hr_l0`` and so on. The outputs
        and ``h``, but not ``c``, then have ``proj_size`` elements (Sak et al. 2014).
    """

    gates = 4
    states = "h_0", "c_0"

    def _run(self, x, w_ih, w_hh, b_ih, b_hh, w_hr, states, reverse):
        if w_hr is None:
            return lstm(x, w_ih, w_hh, b_ih, b_hh, *states, reverse=reverse)
        # `W_hh h` is `(W_hh W_hr) m` with m = sigmoid(o) * tanh(c), so that an LSTM without a
        # projection computes m. The initial h has no m: make it further inputs of the first step.
        h, c = states
        if h is not None:
            zeros = create("zeros", (x.shape[0] - 1, *h.shape), like=h)
            parts = [zeros, expand_dims(h, 0)] if reverse else [expand_dims(h, 0), zeros]
            x = concat([x, concat(parts, axis=0)], axis=-1)
            w_ih = concat([w_ih, w_hh], axis=1)
        out, _, c = lstm(x, w_ih, w_hh @ w_hr, b_ih, b_hh, None, c, reverse=reverse)
        out = linear(out, w_hr)
        return out, out[0 if reverse else -1, ...], c

    def forward(  # type: ignore[override]
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        out, (h, c) = self._all_layers(input, _two_states("LSTM", hx))
        return out, (h, c)


class GRU(_Recurrent):
    """Layers of gated recurrent units, applied at each time of a sequence.

    ::

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h = (1 - z) * n + z * h

    Each weight and bias has ``3 * hidden_size`` rows, those for r, z and n one below the other. The
    arguments, the input, the output, the states and the parameters are those of `RNN`: the input is
    ``(length, batch, input_size)``, the output ``(length, batch, hidden_size * directions)``, and
    the state ``(num_layers * directions, batch, hidden_size)``.
    """

    gates = 3

    def _run(self, x, w_ih, w_hh, b_ih, b_hh, w_hr, states, reverse):
        return gru(x, w_ih, w_hh, b_ih, b_hh, *states, reverse=reverse)


class _Cell(Module):
    """One step of a recurrent layer."""

    gates: int
    bias_ih: Parameter | None
    bias_hh: Parameter | None
    _shown = "input_size", "hidden_size"
    _shown_unless: ClassVar[dict[str, Any]] = {"bias": True}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: Any = None,
        device: str | None = None,
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        self.input_size = whole(f"{name}: input_size", input_size, 1)
        self.hidden_size = whole(f"{name}: hidden_size", hidden_size, 1)
        self.bias = bias
        parameter = uniform_parameters(1 / math.sqrt(hidden_size), dtype, device, generator)
        rows = self.gates * hidden_size
        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size)
        self.bias_ih = parameter(rows) if bias else None
        self.bias_hh = parameter(rows) if bias else None

    def _step(self, run, input, *states, **options):
        """The states after one step; ``run`` is the op for a sequence."""
        name = type(self).__name__
        shape = _shape_of(name, input)
        if len(shape) not in (1, 2) or shape[-1] != self.input_size:
            raise ValueError(
                f"{name}: the input must be (batch, {self.input_size}) or "
                f"({self.input_size},), not {shape}"
            )
        expected = (*shape[:-1], self.hidden_size)
        for state in states:
            check_shape(state, expected, "{}: for an input of shape {}, a state", name, shape)
        rows = shape[0] if len(shape) == 2 else 1
        x = reshape(input, (1, rows, self.input_size))
        states = [None if s is None else reshape(s, (rows, self.hidden_size)) for s in states]
        parameters = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        _, *after = run(x, *parameters, *states, **options)
        return [reshape(s, expected) for s in after]


class RNNCell(_Cell):
    """One step of an `RNN`: ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``.

    Called with the input, ``(batch, input_size)``, and optionally the state before the step,
    ``(batch, hidden_size)``, it returns the state after it; all may lack the batch. The default
    state is 0. The arguments are those of `RNN`.

    weight_ih, weight_hh: ``(hidden_size, input_size)``, ``(hidden_size, hidden_size)``.
    bias_ih, bias_hh: ``(hidden_size,)``. All are uniform within ``1 / sqrt(hidden_size)`` of 0.
    """

    gates = 1
    _shown_unless: ClassVar = {"bias": True, "nonlinearity": "tanh"}

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", *,
        dtype: Any = None, device: str | None = None, generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.nonlinearity = one_of("RNNCell: nonlinearity", nonlinearity, _NONLINEARITIES)
        place: Any = {"dtype": dtype, "device": device, "generator": generator}
        super().__init__(input_size, hidden_size, bias, **place)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (h,) = self._step(rnn, input, hx, nonlinearity=self.nonlinearity)
        return h


class LSTMCell(_Cell):
    """One step of an `LSTM`, from the states ``(h, c)`` to those after it.

    ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``, where i, f, g
    and o are the quarters of ``W_ih x + b_ih + W_hh h + b_hh``.

    Called with the input, ``(batch, input_size)``, and optionally the pair of states, each
    ``(batch, hidden_size)``, it returns the pair after the step; all may lack the batch. The
    default states are 0. The arguments are those of `RNN`.

    weight_ih, weight_hh: ``(4 * hidden_size, input_size)``, ``(4 * hidden_size, hidden_size)``.
    bias_ih, bias_hh: ``(4 * hidden_size,)``. For the initial values see `RNNCell`.
    """

    gates = 4

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = self._step(lstm, input, *_two_states("LSTMCell", hx))
        return h, c


class GRUCell(_Cell):
    """One step of a `GRU`.

    ::

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h = (1 - z) * n + z * h

    Called with the input, ``(batch, input_size)``, and optionally the state before the step,
    ``(batch, hidden_size)``, it returns the state after it; all may lack the batch. The default
    state is 0. The arguments are those of `RNN`.

    weight_ih, weight_hh: ``(3 * hidden_size, input_size)``, ``(3 * hidden_size, hidden_size)``.
    bias_ih, bias_hh: ``(3 * hidden_size,)``. For the initial values see `RNNCell`.
    """

    gates = 3

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        (h,) = self._step(gru, input, hx)
        return h
