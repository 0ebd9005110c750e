"""Solvers for ordinary differential equations, with gradients through them or by the adjoint.

The solver is the adaptive method of Dormand and Prince of order 5, as SciPy's ``"RK45"``. The
lengths of its steps are plain numbers: derivatives are those of the steps that it took. (E. Hairer,
S. Nørsett and G. Wanner, "Solving Ordinary Differential Equations I", 1993, II.4 and II.5)

By default everything else is in the graph. Derivatives of any order are exact for the numbers that
the solver computes, the function may use tensors from outside, and the graph keeps all steps. With
``adjoint=True`` it keeps only the states at the times asked for: the gradient solves the equation
``λ' = -(∂f/∂y)ᵀ λ`` from the last time back to the first. (R. T. Q. Chen et al., "Neural Ordinary
Differential Equations", 2018) Its error is of the size of the tolerances, and tensors that require
grad must then be among ``args``.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from .._arguments import is_complex, is_floating, require
from .._creation import zeros_like
from .._foreign_names import explain_names
from .._tensor import Tensor
from ..autograd.mode import no_grad
from ..transforms import custom_vjp, vjp
from ..transforms.trees import flatten, unflatten
from ._tensors import floating, ops, values

__all__ = ["odeint", "solve_ivp"]
explain_names(__name__)

# Dormand and Prince's coefficients: the times and weights of the stages, the last of which is the
# result, and the weights of the error estimate.
_TIMES = [1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0]
_STAGES = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
_ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]


@dataclass
class OdeResult:
    """The result of `solve_ivp`: times ``t (m,)``, states ``y (n, m)``, SciPy's other fields."""

    t: Tensor
    y: Tensor
    nfev: int
    status: int = 0
    success: bool = True
    message: str = "The solver successfully reached the end of the integration interval."


def odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: tuple[Any, ...] = (), *, tfirst: bool = False,
    rtol: float = 1.49012e-8, atol: float = 1.49012e-8, adjoint: bool = False,
) -> Tensor:  # fmt: skip
    """The states ``(m, *y0.shape)`` at times ``t (m,)`` of ``dy/dt = func(y, t, *args)``.

    y0: the state at the first time, of any shape.
    t: times, ascending or descending. Derivatives by times that require grad are computed too.
    tfirst: whether the function takes the time first.
    rtol, atol: a step's error is at most ``atol + rtol * abs(y)``, in the mean over the elements.
    adjoint: whether gradients come from the adjoint equation; see the module.

    Raises ArithmeticError if no step is short enough, or the function stays nan.
    """
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    f = func if tfirst else lambda t, y, *args: func(y, t, *args)
    y0, t = _start("odeint", y0, t, adjoint)
    solver = _Solver("odeint", f, rtol, atol)
    return _adjoint(solver, y0, t, args) if adjoint else solver.states(y0, t, args)


def solve_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: str = "RK45", t_eval: Any = None, *,
    args: tuple[Any, ...] | None = None, rtol: float = 1e-3, atol: float = 1e-6,
    max_step: float = math.inf, first_step: float | None = None, adjoint: bool = False,
) -> OdeResult:  # fmt: skip
    """Solve ``dy/dt = fun(t, y, *args)`` from ``y0 (n,)`` over the interval ``t_span``.

    t_span: the first time and the last.
    method: only ``"RK45"``.
    t_eval: times in the interval at which to return the state; by default those of the steps.
        The solver steps exactly to each of them, where SciPy interpolates.
    max_step, first_step: the longest step, and the length of the first one to be tried.
    args, rtol, atol, adjoint: as for `odeint`.
    """
    require(method == "RK45", "solve_ivp: method must be 'RK45'", method)
    require(max_step > 0, "solve_ivp: max_step must be above 0", max_step)
    args = () if args is None else tuple(args)
    y0, ends = _start("solve_ivp", y0, t_span, adjoint)
    require(ends.size == 2, "solve_ivp: t_span must be the first time and the last", t_span)
    solver = _Solver("solve_ivp", fun, rtol, atol, max_step, first_step)
    if t_eval is None:
        with no_grad() if adjoint else nullcontext():
            shares, states = solver.path(y0, ends, args)
        t = ends[0] + floating(shares, ends)[0] * (ends[1] - ends[0])
        if not adjoint:
            return OdeResult(t, ops.moveaxis(states, 0, -1), solver.calls)
        inside = slice(None)
    else:
        t = floating(t_eval, ends)[0]
        numbers, (first, last) = values(t.detach()).tolist(), values(ends.detach()).tolist()
        if any(not min(first, last) <= time <= max(first, last) for time in numbers):
            raise ValueError(f"solve_ivp: t_eval must be inside t_span, from {first} to {last}")
        in_order = numbers == sorted(numbers, reverse=last < first)
        require(in_order, "solve_ivp: t_eval must be sorted", numbers)
        begins = bool(numbers) and numbers[0] == first
        inside = slice(0 if begins else 1, None)
        t = t if begins else ops.concat([ends[:1], t])
    states = _adjoint(solver, y0, t, args) if adjoint else solver.states(y0, t, args)
    return OdeResult(t[inside], ops.moveaxis(states[inside], 0, -1), solver.calls)


def _start(name, y0, t, adjoint):
    y0, t = floating(y0, t)
    if is_complex(y0):
        if adjoint:
            raise ValueError(f"{name}: the adjoint equation is solved for real states only")
        t = ops.real(t)
    require(t.ndim == 1 and t.size, f"{name}: the times must be (m,), with at least 1", t.shape)
    return y0, t


class _Solver:
    """A solver of one equation.

    calls: how often it has called the function.
    """

    def __init__(self, name, f, rtol, atol, max_step=math.inf, first_step=None):
        self.name, self.f, self.rtol, self.atol = name, f, rtol, atol
        self.max_step, self.first_step = max_step, first_step
        self.calls = 0

    def slope(self, t, y, args):
        self.calls += 1
        result = self.f(t, y, *args)
        if not isinstance(result, Tensor):
            result = floating(result, y)[0]
        if result.shape != y.shape:
            raise ValueError(
                f"{self.name}: the function must return the shape {y.shape} of the state, not "
                f"{result.shape}"
            )
        return result

    def states(self, y, t, args):
        """The states at the times ``t``, stacked."""
        states, length = [y], self.first_step
        for interval in _intervals(t):
            y, length, _ = self.solve(y, *interval, length, args)
            states.append(y)
        return ops.stack(states)

    def path(self, y, ends, args):
        """The shares of the time between the ends that the solver steps to; the states there."""
        (interval,) = _intervals(ends)
        _, _, steps = self.solve(y, *interval, self.first_step, args)
        return [0.0, *[share for share, _ in steps]], ops.stack([y, *[y for _, y in steps]])

    def solve(self, y, start, span, duration, length, args):
        """The state after ``span``, the length of the next step, and the steps.

        A step is the share of the time that is done after it, and the state there. Time runs from
        0 to 1, as a share of the span, which may be a tensor that requires grad.

        duration: the span as a number.
        length: the length of the first step to try, or None.
        """
        if not duration:
            y = y + span * self.slope(start, y, args)
            return y, length, [(1.0, y)]

        def f(share, y):
            return span * self.slope(start + share * span, y, args)

        slope = f(0.0, y)
        size = self.first_length(slope, y) if length is None else length / abs(duration)
        longest, done, steps, lost = self.max_step / abs(duration), 0.0, [], 0
        while done < 1:
            size = min(size, longest)
            step = 1 - done if size > 0.99 * (1 - done) else size
            slopes = [slope]
            for time, row in zip(_TIMES, _STAGES, strict=True):
                new = y + step * _weighted(row, slopes)
                slopes.append(f(done + time * step, new))
            error = self.norm(step * _weighted(_ERROR, [s.detach() for s in slopes]), y, new)
            lost += error != error and step < 1e-5
            if error <= 1:
                done = done + step if step < 1 - done else 1.0
                y, slope = new, slopes[-1]
                steps.append((done, y))
            factor = 0.9 * max(error, 1e-10) ** -0.2 if error == error else 0.2
            # The end of the span, rather than the error, may have made the step short.
            grown = step * min(5.0, max(0.2, factor))
            size = max(size, grown) if error <= 1 and step < size else grown
            # Where the function becomes nan, short steps that do not change a float32 would succeed
            # in turn with longer ones that fail, for millions of steps.
            if size < 1e-14 or lost > 500:
                raise ArithmeticError(
                    f"{self.name}: no step is short enough for rtol {self.rtol} and atol "
                    f"{self.atol}; the solution may have a singularity"
                )
        return y, size * abs(duration), steps

    def norm(self, off, y, new):
        """The error of a step, relative to the tolerance; the largest one, in `vmap`."""
        size = ops.maximum(ops.abs(y.detach()), ops.abs(new.detach()))
        ratio = ops.abs(off.detach()) / (self.atol + self.rtol * size)
        return float(values(ops.mean(ratio * ratio)).max()) ** 0.5 if y.size else 0.0

    def first_length(self, slope, y):
        """A length at which the state changes by about a hundredth of itself."""
        change, size = self.norm(slope, y, y), self.norm(y, y, y)
        if size < 1e-5 or not 1e-5 < change < math.inf:
            return 1e-6
        return min(0.01 * size / change, 1.0)


def _intervals(t):
    """Each interval's start and span, both of which are in the graph, and the span as a number."""
    numbers = values(t.detach()).tolist()
    times = t if t.requires_grad else numbers
    for i in range(1, len(numbers)):
        yield times[i - 1], times[i] - times[i - 1], numbers[i] - numbers[i - 1]


def _weighted(row, slopes):
    terms = (weight * slope for weight, slope in zip(row, slopes, strict=True) if weight)
    return sum(terms, next(terms))


# The adjoint equation


def _adjoint_forward(solver, y0, t, args):
    states = solver.states(y0, t, args)
    return states, (states, t, args)


def _adjoint_backward(solver, residuals, g):
    """The cotangents of the first state, the times and the arguments.

    A solver goes from each time back to the one before. Its state is the equation's, the adjoint
    and the gradient of the arguments so far.
    """
    states, t, args = residuals
    leaves, structure = flatten(args, none_is_leaf=True)
    is_variable = [isinstance(x, Tensor) and is_floating(x) for x in leaves]
    variables = [x for x, chosen in zip(leaves, is_variable, strict=True) if chosen]
    shapes = [states[0].shape] * 2 + [x.shape for x in variables]

    def backward(time, joint):
        y, adjoint, *_ = _unpacked(joint, shapes)

        def f(y, *variables):
            given = iter(variables)
            pairs = zip(leaves, is_variable, strict=True)
            own = [next(given) if chosen else x for x, chosen in pairs]
            return solver.slope(time, y, unflatten(structure, own))

        slope, pullback = vjp(f, y, *variables)
        of_y, *of_variables = pullback(adjoint)
        return _packed([slope, -of_y, *[-x for x in of_variables]])

    back = _Solver(solver.name, backward, solver.rtol, solver.atol, solver.max_step)
    adjoint, totals = g[-1], [zeros_like(x) for x in variables]
    of_times, length = [], None
    numbers = values(t.detach()).tolist()
    for i in range(len(numbers) - 1, 0, -1):
        of_times.append(ops.sum(g[i] * solver.slope(t[i], states[i], args)))
        joint = _packed([states[i], adjoint, *totals])
        span = t[i - 1] - t[i]
        joint, length, _ = back.solve(joint, t[i], span, numbers[i - 1] - numbers[i], length, ())
        _, adjoint, *totals = _unpacked(joint, shapes)
        if i > 1:
            adjoint = adjoint + g[i - 1]
    if not of_times:
        return g[0], zeros_like(t), None
    of_times.append(-ops.sum(adjoint * solver.slope(t[0], states[0], args)))
    found = iter(totals)
    of_args = unflatten(structure, [next(found) if chosen else None for chosen in is_variable])
    return adjoint + g[0], ops.stack(of_times[::-1]), of_args


def _packed(tensors):
    return ops.concat([x.reshape(x.size) for x in tensors])


def _unpacked(joint, shapes):
    *stops, _ = accumulate(map(math.prod, shapes))
    parts = ops.split(joint, stops)
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def odeint_with_adjoint(solver, y0, t, args):
    return solver.states(y0, t, args)


_adjoint = custom_vjp(odeint_with_adjoint, nondiff_argnums=0)
_adjoint.defvjp(_adjoint_forward, _adjoint_backward)
