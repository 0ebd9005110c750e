"""L-BFGS."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from .._arguments import annotated, constructor, map_tensors, one_of, require, whole
from .._creation import asarray, tensor, zeros_like
from .._dtypes import is_half
from .._foreign_names import set_constructor
from .._tensor import Tensor
from .._thread_state import thread
from ..autograd import enable_grad, no_grad
from ..backends import backend_of
from ..backends.dtypes import float32
from ..backends.placement import placed_like
from ..nn.module import overwrite
from ..ops.manipulation import concat, reshape, stack
from ..ops.products import vecdot
from .optimizer import AT_LEAST_0, PARAMS, Optimizer

_SUFFICIENT_DECREASE = 1e-4  # c1 and c2 of the Wolfe conditions
_CURVATURE = 0.9

_TOLERANCES = dict.fromkeys(("tolerance_grad", "tolerance_change"), AT_LEAST_0)


class LBFGS(Optimizer):
    """L-BFGS (Nocedal & Wright 2006, "Numerical optimization", algorithm 7.5), as PyTorch has it.

    For functions without noise, such as losses of all data. An iteration goes from the point
    ``x``, all parameters as one vector with gradient ``g``, to::

        x = x - t * H @ g

    ``H`` approximates the inverse Hessian. It is the matrix that the formula of Broyden,
    Fletcher, Goldfarb and Shanno gives for the last changes ``s`` of ``x`` and ``y`` of ``g``,
    beginning from the identity times ``s @ y / (y @ y)``. The optimizer computes ``H @ g`` from
    these vectors, without the matrix, and leaves out changes with ``s @ y <= 1e-10``. The step
    length ``t`` is ``lr``, in the very first iteration ``lr * min(1, 1 / sum(abs(g)))``. A line
    search starts from this length.

    `step` needs a closure and makes up to ``max_iter`` iterations. In each of them it calls the
    closure at least once, and waits for the device several times to decide whether to go on.

    Parameters that are frozen or without a gradient count as having a gradient of 0. Complex
    parameters are treated as pairs of real numbers.

    params: leaves that require grad, in one group, all of one dtype and on one device.
    max_iter: the most iterations in a step.
    max_eval: the step ends after this many calls of the closure; by default ``max_iter * 5 / 4``.
    tolerance_grad: the step ends where no element of the gradient is larger.
    tolerance_change: the step ends after an iteration that changes the loss, or each parameter, by
        at most this.
    history_size: how many changes to keep. Each takes twice the memory of the parameters.
    line_search_fn: ``"strong_wolfe"`` to search, with cubic interpolation, for a step length that
        fulfills the strong Wolfe conditions (algorithms 3.5 and 3.6 of the book); or None.

    Raises TypeError or ValueError for parameters that cannot be optimized, for more than one group
    and for invalid hyper-parameters.
    """

    ranges: ClassVar = {**Optimizer.ranges, **_TOLERANCES}

    def _begin(self, params, lr, max_iter, max_eval, **others):
        """Initialize an optimizer; ``__init__`` gets its signature from `_minimize`."""
        self._history = _History()
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, lr=lr, max_iter=max_iter, max_eval=max_eval, **others)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        if self.param_groups:
            raise ValueError("LBFGS: all parameters must be in one group")
        super().add_param_group(group)

    def _converted(self, name, value):
        if name in ("max_iter", "max_eval", "history_size"):
            return whole(f"LBFGS: {name}", value, 1)
        return value if name == "line_search_fn" else super()._converted(name, value)

    def check(self, group: Mapping[str, Any]) -> None:
        super().check(group)
        one_of("LBFGS: line_search_fn", group["line_search_fn"], ("strong_wolfe", None))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make up to ``max_iter`` iterations; returns the loss at the beginning.

        closure: called with recording on, once for each point that the step tries. It sets the
            gradients to zero, computes the loss, calls ``backward`` and returns the loss.

        If the closure raises, the parameters are where the last iteration led to.
        """
        if closure is None:
            raise TypeError("LBFGS.step: a closure is needed, which computes loss and gradients")
        if thread.recorder is not None:
            thread.recorder.stop(
                "the losses decide how often LBFGS calls its closure; compile the closure instead, "
                "and call optimizer.step(closure) outside of compiled functions"
            )
        self._follow_groups()
        params = self.param_groups[0]["params"]
        for p in params:
            self._check_writeable(p)
        self._has_stepped = True
        with no_grad():
            return self._minimize(_Problem(params, closure), *self._hyper[0].values)

    def _minimize(
        self, problem,
        lr=1.0, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad=1e-7, tolerance_change=1e-9,
        history_size: int = 100, line_search_fn: str | None = None,
    ):  # fmt: skip
        history = self._history
        calls_before = history.calls
        first_loss, gradient = problem.evaluate()
        history.calls = calls_before + problem.calls
        if _largest(gradient) <= tolerance_grad:
            return first_loss
        loss = _number(first_loss)
        history.to(gradient)
        for iteration in range(1, max_iter + 1):
            history.update(gradient, history_size)
            history.loss = loss
            length = lr
            if history.iterations == 1:
                length = lr * min(1.0, 1.0 / float(abs(gradient).sum()))
            history.length = length
            slope = float(vecdot(gradient, history.direction))
            if slope > -tolerance_change:
                break
            start = problem.vector(problem.params)
            history.length = 0.0  # in case the closure raises
            if line_search_fn:
                at = partial(problem.at, start, history.direction)
                first = _Point(0.0, loss, gradient, slope)
                limits = _largest(history.direction), tolerance_change, max_eval - problem.calls
                length, loss, gradient, _ = _search(at, first, length, *limits)
            if length:  # times 0, an infinite direction would be nan
                problem.move(start + length * history.direction)
            history.length = length
            if not line_search_fn and iteration < max_iter:
                new_loss, gradient = problem.evaluate()
                loss = _number(new_loss)
            history.calls = calls_before + problem.calls
            if (
                problem.calls >= max_eval
                or _largest(gradient) <= tolerance_grad
                or abs(length) * _largest(history.direction) <= tolerance_change
                or abs(loss - history.loss) < tolerance_change
            ):
                break
        return first_loss

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all state, laid out as PyTorch's.

        ``"state"`` has one entry, 0, with the kept changes as lists of 1-d tensors, and numbers.
        """
        state = super().state_dict()
        if self._history.calls:
            state["state"][0] = self._history.state_dict(self.param_groups[0]["history_size"])
        return state

    def _load(self, state_dict):
        groups = self._read_groups(state_dict)
        saved = dict(state_dict["state"])
        history = _History()
        if state := saved.pop(0, None):
            try:
                params = self.param_groups[0]["params"]
                history.load_state_dict(state, _Problem(params).vector(params))
            except (TypeError, ValueError) as error:
                raise self._misfit(str(error)) from None
        if saved:
            raise self._misfit(f"it has state of parameters {sorted(saved)}; all state is under 0")
        self._history = history
        self._take_groups(groups)


_hyper = list(signature(LBFGS._minimize).parameters.values())[2:]
set_constructor(LBFGS, constructor([PARAMS, *annotated(_hyper)], LBFGS._begin))


class _Point(NamedTuple):
    """A point on a line, ``length`` along it, with the loss, its gradient and its slope there."""

    length: float
    loss: float
    gradient: Tensor
    slope: float


class _Problem:
    """The parameters as one vector of real numbers, at least 32 bits wide, and the loss.

    calls: the number of calls of the closure.
    """

    def __init__(self, params, closure=None):
        kinds = sorted({f"{p.dtype} on {p.device}" for p in params})
        what = "LBFGS: all parameters must have one dtype and be on one device"
        require(len(kinds) == 1, what, kinds)
        self.params = params
        self.closure = closure
        self.calls = 0
        self.is_complex = backend_of[type(params[0].array)].is_complex(params[0].dtype)
        self.is_half = is_half(params[0].dtype)
        self.sizes = [p.size * (1 + self.is_complex) for p in params]

    def evaluate(self):
        """The loss and the gradient where the parameters are."""
        self.calls += 1
        with enable_grad():
            loss = self.closure()
        return loss, self.vector([
            zeros_like(p) if p.grad is None or p.node is None else p.grad for p in self.params
        ])  # fmt: skip

    def vector(self, tensors):
        """Tensors of the parameters' shapes as one vector."""
        if self.is_complex:
            tensors = [stack([x.real, x.imag], axis=-1) for x in tensors]
        vector = concat([reshape(x, (-1,)) for x in tensors]).detach()
        return vector.to(float32) if self.is_half else vector

    def move(self, vector):
        """Write the numbers of a vector to the parameters that are not frozen."""
        offset = 0
        for p, size in zip(self.params, self.sizes, strict=True):
            x = vector[offset : offset + size]
            offset += size
            if p.node is None:
                continue
            if self.is_complex:
                x = reshape(x, (-1, 2))
                x = x[:, 0] + x[:, 1] * 1j
            overwrite(p, reshape(x, p.shape).to(p.dtype).array)

    def at(self, start, direction, length):
        """The point ``start + length * direction``; the parameters are left at ``start``."""
        try:
            self.move(start + length * direction)
            loss, gradient = self.evaluate()
        finally:
            self.move(start)
        return _Point(length, _number(loss), gradient, float(vecdot(gradient, direction)))


def _search(at, first, length, scale, tolerance, most):
    """A point on a line that fulfills the strong Wolfe conditions, or the best that was found.

    at: a function of a length that returns the point there.
    first: the point at 0.
    length: the length to try first.
    scale, tolerance: the search ends with an interval shorter than ``tolerance / scale``.
    most: the search tries at most this many points after the first one.
    """

    def is_too_high(point):
        return point.loss > first.loss + _SUFFICIENT_DECREASE * point.length * first.slope

    def is_flat(point):
        return abs(point.slope) <= -_CURVATURE * first.slope

    # Go on until a minimum lies between two points.
    previous, point = first, at(length)
    tries = 0
    while tries < most:
        if is_too_high(point) or (tries > 1 and point.loss >= previous.loss):
            break
        if is_flat(point):
            return point
        if point.slope >= 0:
            break
        least = point.length + 0.01 * (point.length - previous.length)
        length = _minimum_of_cubic(previous, point, least, 10 * point.length)
        previous, point = point, at(length)
        tries += 1
    else:
        return point if point.loss < first.loss else first

    # Narrow the interval down.
    ends = [previous, point]
    low = int(point.loss < previous.loss)  # which end is the lower one
    is_near_end = False
    while tries < most and abs(ends[1].length - ends[0].length) * scale >= tolerance:
        left, right = sorted([ends[0].length, ends[1].length])
        length = _minimum_of_cubic(*ends, left, right)
        margin = 0.1 * (right - left)
        if min(right - length, length - left) >= margin:
            is_near_end = False
        elif is_near_end or not left < length < right:
            is_near_end = False
            length = right - margin if right - length < length - left else left + margin
        else:  # a second such point in a row would make little progress
            is_near_end = True
        point = at(length)
        tries += 1
        if is_too_high(point) or point.loss >= ends[low].loss:
            ends[1 - low] = point
            low = int(ends[1].loss < ends[0].loss)
        elif is_flat(point):
            return point
        else:
            if point.slope * (ends[1 - low].length - ends[low].length) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
    return ends[low]


def _minimum_of_cubic(a, b, least, most):
    """Where the cubic with the losses and slopes of two points is smallest, within bounds."""
    if a.length > b.length:
        a, b = b, a
    if width := b.length - a.length:
        c = a.slope + b.slope - 3 * (b.loss - a.loss) / width
        square = c * c - a.slope * b.slope
        if square >= 0:
            root = math.sqrt(square)
            if divisor := b.slope - a.slope + 2 * root:
                minimum = b.length - width * (b.slope + root - c) / divisor
                return min(max(minimum, least), most)
    return (least + most) / 2


class _History:
    """The state that one iteration leaves for the next.

    calls, iterations: the numbers of calls of closures and of iterations in all steps.
    moves, turns, rates: the last changes of the point and of the gradient, and 1 over their
        products.
    scale: the approximation of the inverse Hessian starts from this multiple of the identity.
    direction, length: the direction and the step length of the last iteration.
    gradient, loss: those before the last iteration.
    """

    def __init__(self):
        self.calls = self.iterations = 0
        self.moves, self.turns, self.rates = [], [], []
        self.scale = 1.0
        self.direction = self.gradient = None
        self.length = self.loss = 0.0

    def to(self, like):
        """Move all vectors to the device and dtype of ``like``."""
        for name in _VECTORS:
            setattr(self, name, map_tensors(lambda x: x.to(like), getattr(self, name)))

    def update(self, gradient, most):
        """Remember the last change, and at most ``most`` in all, and find a new direction."""
        self.iterations += 1
        if self.direction is not None:
            move = self.direction * self.length
            turn = gradient - self.gradient
            product = float(vecdot(turn, move))
            if product > 1e-10:
                news = (self.moves, move), (self.turns, turn), (self.rates, 1 / product)
                last = ([*changes, new][-most:] for changes, new in news)
                self.moves, self.turns, self.rates = last
                self.scale = product / float(vecdot(turn, turn))
        changes = [*zip(self.moves, self.turns, self.rates, strict=True)]
        direction = -gradient
        shares = []
        for move, turn, rate in reversed(changes):
            shares.append(rate * vecdot(move, direction))
            direction = direction - shares[-1] * turn
        direction = self.scale * direction
        for move, turn, rate in changes:
            direction = direction + (shares.pop() - rate * vecdot(turn, direction)) * move
        self.gradient, self.direction = gradient, direction

    def state_dict(self, history_size):
        if self.direction is None:
            return {"func_evals": self.calls, "n_iter": self.iterations}
        state = {theirs: getattr(self, name) for name, theirs in _NAMES.items()}
        return {**map_tensors(tensor, state), "al": [None] * history_size}  # PyTorch's scratch

    def load_state_dict(self, state, like):
        """Take over a state of vectors like this one, or raise TypeError or ValueError."""
        names = dict(islice(_NAMES.items(), None if "d" in state else 2))
        if {*state} - {"al"} != {*names.values()}:
            raise ValueError(f"it has state {sorted(state)}, but here {sorted(names.values())}")

        def vector(x):
            x = tensor(asarray(x))
            if x.shape != like.shape:
                raise ValueError(f"it has a vector of shape {x.shape}, not {like.shape}")
            return asarray(placed_like(x.array, like.array))

        for name, theirs in names.items():
            old, value = getattr(self, name), state[theirs]
            kind = vector if name in _VECTORS else float if name == "rates" else type(old)
            setattr(self, name, [*map(kind, value)] if isinstance(old, list) else kind(value))
        if not len(self.moves) == len(self.turns) == len(self.rates):
            raise ValueError("old_dirs, old_stps and ro have different lengths")


# The attributes of a `_History`, with PyTorch's names, and those that are vectors.
_NAMES = {
    "calls": "func_evals", "iterations": "n_iter", "direction": "d", "length": "t",
    "turns": "old_dirs", "moves": "old_stps", "rates": "ro", "scale": "H_diag",
    "gradient": "prev_flat_grad", "loss": "prev_loss",
}  # fmt: skip
_VECTORS = ("direction", "turns", "moves", "gradient")


def _number(loss):
    return float(loss.item() if isinstance(loss, Tensor) else loss)


def _largest(vector):
    return float(abs(vector).max()) if vector.size else 0.0
