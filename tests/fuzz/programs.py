"""Random programs as data, which run in gpugrad and in PyTorch.

A program is a list of steps over a pool of tensors, which at first has the inputs. A step takes
tensors from the pool and adds its result, or writes in place to one that is no input.

Programs are valid by construction, and stay away from kinks, ties and singular points. Where the
values decide, constants are added: `Guards.away` moves values away from a kink, `Guards.spread`
moves them apart, and `Guards.bounded` multiplies large results by a power of two. They are
computed once, from the values in double precision, and are inputs of every other run.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from choices import broadcast_shape

import gpugrad as gg

LARGEST = 48  # elements of a tensor
TORCH = {np.dtype(n): getattr(torch, n) for n in (
    "bool", "int64", "float16", "float32", "float64", "complex64", "complex128",
)}  # fmt: skip
NUMPY = {theirs: ours for ours, theirs in TORCH.items()}
REAL = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True)
class Step:
    op: str
    args: tuple[int, ...]
    static: dict
    target: int | None = None  # the position in the pool that is written to


@dataclass(frozen=True)
class Program:
    """inputs: pairs of a shape and the name of a dtype; outputs: positions in the pool."""

    seed: int
    inputs: tuple
    steps: tuple
    outputs: tuple
    shared: tuple  # the inputs that are the same in all examples of a vmap
    piece: tuple  # the steps from one number to another, which checkpoint runs
    dtypes: tuple  # all that occur
    results: tuple  # the dtypes of the outputs

    def __repr__(self):
        lines = [
            f"t{i} = {dtype} {shape}{', shared' if i in self.shared else ''}"
            for i, (shape, dtype) in enumerate(self.inputs)
        ]
        n = len(self.inputs)
        for k, step in enumerate(self.steps):
            static = [f"{name}={value!r}" for name, value in step.static.items()]
            args = ", ".join([*[f"t{i}" for i in step.args], *static])
            target, n = (n, n + 1) if step.target is None else (step.target, n)
            note = "  # checkpointed" if self.piece[0] <= k < self.piece[1] else ""
            lines.append(f"t{target} = {step.op}({args}){note}")
        lines.append(f"return {', '.join(f't{i}' for i in self.outputs)}")
        return f"<program, seed {self.seed}\n  " + "\n  ".join(lines) + "\n>"

    def arrays(self, example=0):
        """The inputs' values as NumPy arrays."""
        values = []
        for i, (shape, dtype) in enumerate(self.inputs):
            key = [self.seed, i, 0 if i in self.shared else example]
            values.append(draw_values(np.random.default_rng(key), shape, dtype))
        return values


def draw_values(rng, shape, dtype):
    """Normal numbers of at most 3."""
    dtype = np.dtype(dtype)
    values = rng.standard_normal(shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return np.asarray(values / np.maximum(1, np.abs(values) / 3)).astype(dtype)


def broadcast_size(*shapes):
    """The size to which shapes broadcast, 0 if it is too large or they do not."""
    shape = broadcast_shape(*shapes)
    size = 0 if shape is None else math.prod(shape)
    return size if size <= LARGEST else 0


def _values(x):
    return x.numpy(force=True)


class Guards:
    """The constants of a run. They are recorded if ``given`` is None.

    cast: makes of a constant what is added to a tensor or multiplied by it.
    perturb: called with the arguments of each step; returns others, and a function that is called
        with the result and returns another.
    wide: whether all floating dtypes are replaced by those of double precision.
    """

    def __init__(self, cast, given=None, *, perturb=None, wide=False, at=0):
        self.cast, self.given, self.perturb, self.wide, self.at = cast, given, perturb, wide, at
        self.recorded = []

    def constant(self, make, like):
        if self.given is None:
            # So few digits that every dtype has them all.
            self.recorded.append(np.asarray(make(), np.float16).astype(np.float64))
            value = self.recorded[-1]
        else:
            value = self.given[self.at]
        self.at += 1
        return self.cast(value, like)

    def away(self, x, *points, than=None):
        """x, at least 1/8 away from the points, or from the tensor ``than``."""

        def offsets():
            # The distances, in double precision also where the draft has fewer digits.
            values = _values(x).astype(np.float64)
            values = values if than is None else values - _values(than).astype(np.float64)
            out = np.zeros(values.shape)
            for p in points or (0,):
                near = abs(values - p) < 1 / 8
                out[near] = np.where(values[near] >= p, 1 / 4, -1 / 4)
            return out

        return x + self.constant(offsets, x)

    def spread(self, x):
        """x with numbers added that keep its elements apart, by 1, or by 1/8 if there are many."""

        def offsets():
            values = _values(x)
            ranks = np.argsort(np.argsort(values.ravel(), kind="stable"))
            apart = np.clip(2.0 ** np.floor(np.log2(8 / values.size)), 1 / 8, 1)
            return (ranks - values.size // 2).reshape(values.shape) * apart

        return x + self.constant(offsets, x)

    def bounded(self, x):
        """A power of two by which x is at most 4."""

        def factor():
            values = _values(x).astype(np.complex128)
            most = np.abs(values).max() if values.size else 0
            return 1.0 if most <= 4 else max(2.0 ** np.floor(np.log2(4 / most)), 2.0**-14)

        return self.constant(factor, x)


@dataclass(frozen=True)
class Op:
    """An op of programs.

    draw: a function of a `Draft` that returns the arguments' positions and a dict.
    ours, theirs: functions of `Guards`, tensors, and static parameters by name.
    grows: whether the result is to be bounded.
    writes: whether the first argument is written to in place.
    """

    name: str
    draw: Callable
    ours: Callable
    theirs: Callable
    grows: bool = False
    writes: bool = False


OPS: dict[str, Op] = {}


def add(name, draw, ours, theirs, **options):
    assert name not in OPS
    OPS[name] = Op(name, draw, ours, theirs, **options)


def run(program, side, pool, guards, part=slice(None)):
    """Run steps of the program; ``pool`` gets their results."""
    for step in program.steps[part]:
        run_step(step, side, pool, guards)


def run_step(step, side, pool, guards):
    op = OPS[step.op]
    args = [pool[i] for i in step.args]
    if guards.perturb is not None:
        args, perturb_result = guards.perturb(args)
    y = getattr(op, side)(guards, *args, **step.static)
    if op.grows:
        factor = guards.bounded(y)
        if op.writes and side == "ours":
            y *= factor
        else:
            y = y * factor
    if guards.perturb is not None:
        y = perturb_result(y)
    if step.target is None:
        pool.append(y)
    else:
        pool[step.target] = y


class Draft:
    """A program that is being drawn, with the shapes and dtypes of its pool from PyTorch."""

    def __init__(self, choices, seed, inputs):
        self.integer, self.flag = choices.integer, choices.flag
        self.choose, self.several = choices.choose, choices.several
        self.inputs = inputs
        self.steps = []
        self.dtypes = {dtype for _, dtype in inputs}
        arrays = Program(seed, inputs, (), (), (), (0, 0), (), ()).arrays()
        self.pool = [torch.from_numpy(a) for a in arrays]
        self.guards = Guards(cast_to_torch)

    def shape(self, i):
        return tuple(self.pool[i].shape)

    def ndim(self, i):
        return self.pool[i].ndim

    def dtype(self, i):
        return NUMPY[self.pool[i].dtype]

    def step(self, op, *args, **static):
        """Add a step; the position of its result."""
        target = args[0] if OPS[op].writes else None
        self.steps.append(step := Step(op, args, static, target))
        run_step(step, "theirs", self.pool, self.guards)
        where = len(self.pool) - 1 if target is None else target
        self.dtypes.add(self.dtype(where).name)
        assert 0 < self.pool[where].numel() <= LARGEST, f"{op} makes too large a tensor"
        return where

    def where(self, test):
        """The positions in the pool of the tensors that pass, the newest first."""
        return [i for i in reversed(range(len(self.pool))) if test(i)]

    def pick(self, kinds="f", ndim=0, most=9, exact=False):
        """A tensor of these kinds of dtype; with fewer or more axes only after a reshape.

        exact: not of 16 bits.
        """

        def kind(i):
            return self.dtype(i).kind in kinds and not (exact and self.dtype(i) == "float16")

        found = self.where(lambda i: kind(i) and ndim <= self.ndim(i) <= most)
        if found:
            return self.choose(found)
        x = self.choose(self.where(lambda i: self.dtype(i).kind in kinds))
        if exact and self.dtype(x) == "float16":
            x = self.step("astype", x, dtype="float32")
        shape = self.shape(x)
        if len(shape) > most:
            x = self.step("reshape", x, shape=(*shape[: most - 1], -1))
        elif len(shape) < ndim:
            x = self.step("reshape", x, shape=(*shape, *[1] * (ndim - len(shape))))
        return x

    def real(self, ndim=0, most=9, exact=False):
        return self.pick("f", ndim, most, exact)

    def any(self, ndim=0, most=9, exact=False):
        return self.pick("fc", ndim, most, exact)

    def axis(self, x):
        """An axis of x, counted from either end."""
        return self.integer(-self.ndim(x), self.ndim(x) - 1)

    def axes(self, x):
        """None, an axis, or a tuple of axes."""
        n, form = self.ndim(x), self.integer(0, 2)
        if form == 0 or n == 0:
            return None
        if form == 1:
            return self.axis(x)
        return tuple(a - n if self.flag() else a for a in self.several(range(n), 1))

    def fitting(self, x, kinds="f"):
        """A tensor that broadcasts with x to a result that is not too large."""
        found = self.where(lambda i: broadcast_size(self.shape(i), self.shape(x)))
        return self.choose([i for i in found if self.dtype(i).kind in kinds])

    def assignable(self, shape, kinds):
        """The tensors whose values broadcast to ``shape``."""
        return self.where(
            lambda i: self.dtype(i).kind in kinds and broadcast_shape(self.shape(i), shape) == shape
        )

    def writable(self):
        """A floating tensor that is no input."""
        found = self.where(lambda i: i >= len(self.inputs) and self.dtype(i).kind in "fc")
        return self.choose(found) if found else self.step("view", self.any())

    def key(self, x):
        """An index that selects something of x."""
        shape, form = self.shape(x), self.integer(0, 5)
        if form == 0:
            return self.mask(shape)
        items, n_arrays = [], self.integer(1, 3) if form <= 2 else 0
        taken, length = self.several(range(len(shape)), most=n_arrays), self.integer(1, 4)
        for a, n in enumerate(shape):
            if self.integer(0, 7) == 0:
                items.append(None)
            if a in taken:
                if form == 1 and len(taken) == 1 and self.flag():
                    items.append(self.mask((n,)))
                else:
                    items.append(np.array([self.integer(-n, n - 1) for _ in range(length)]))
            elif self.integer(0, 3) == 0:
                items.append(self.integer(-n, n - 1))
            else:
                items.append(self.slice(n))
        if items and self.integer(0, 3) == 0:
            at = self.integer(0, len(items) - 1)
            if type(items[at]) is slice:
                items[at] = ...
        elif items and type(items[-1]) is slice and self.flag():
            items.pop()
        return tuple(items)

    def mask(self, shape):
        flat = [self.flag() for _ in range(int(np.prod(shape)))]
        if not any(flat):
            flat[0] = True
        return np.array(flat).reshape(shape)

    def slice(self, n):
        """A slice of an axis of length n that is not empty."""
        if self.flag():
            return slice(None)
        step, start = self.choose([None, 1, 2, -1, -2]), self.integer(0, n - 1)
        stops = range(start + 1, n + 2) if (step or 1) > 0 else range(start)
        stop = self.choose([None, *stops])
        if stop is not None and stop < n and self.flag():
            stop -= n
        return slice(self.choose([start, start - n]), stop, step)


def cast_to_torch(value, like):
    dtype = REAL.get(NUMPY[like.dtype].name, NUMPY[like.dtype].name)
    return torch.from_numpy(np.array(value)).to(getattr(torch, dtype))


def cast_to_ours(value, like):
    return gg.astype(gg.asarray(value), REAL.get(like.dtype.name, like.dtype))
