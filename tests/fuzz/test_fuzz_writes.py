"""Random sequences of views, writes, steps, loads and sweeps against a model of what they mean.

The model has immutable values. A tensor shows certain places of a piece of memory. A step of an
optimizer, or `load_state_dict` into a parameter that requires grad, writes to memory, and all
tensors that share it show the new values. ``x[...] = v`` and ``x += v`` give ``x`` new memory.
Whether a reshaped tensor shares memory is NumPy's matter, and is looked up.

A recorded op keeps the values that its inputs had. A gradient that is expected is computed anew,
by a graph of fresh tensors with these values. Each sweep must give this gradient, or raise a
RuntimeError and change no ``.grad``. It may raise only if an op that it goes through

- needs memory for its derivative to which something was written since the op ran, or during the
  sweep. Memory is a range of addresses, so that a write to every second element is one to all
  between them. What each op needs is in `NEEDS`; `checkpoint` and `custom_vjp` need all that they
  read.
- was gone through before without ``retain_graph``.
"""

import gc
from collections import defaultdict
from contextlib import suppress
from functools import partial
from itertools import count

import numpy as np
import pytest
from choices import Choices, broadcast_shape, examples
from optimizers import adam, sgd

import gpugrad as gg
from gpugrad import nn, optim

NUMBERS = 10  # of an action
FIRST = [1]  # makes a parameter
SHAPES = [(2, 3), (6,), (3,), ()]


def constant(values):
    return gg.tensor(values, dtype=gg.float64)


class Memory:
    def __init__(self, values):
        self.values = np.array(values, dtype=np.float64).ravel()
        self.written = []  # a time and the first and the last place of each write


class Shown:
    """What the model knows of a tensor.

    at: the places in ``memory`` that it shows.
    expression: an `Expression`, a `Leaf`, or None if it does not require grad.
    gradient: the value of ``.grad``.
    """

    def __init__(self, tensor, memory, at, expression, name):
        self.tensor, self.memory, self.at, self.name = tensor, memory, at, name
        self.expression, self.gradient = expression, None

    @property
    def value(self):
        return np.asarray(self.memory.values[self.at])

    @property
    def place(self):
        return self.memory, self.at.min(), self.at.max()

    def is_leaf(self):
        return type(self.expression) is Leaf

    def is_free(self):
        """Whether it is no result of a recorded op."""
        return not isinstance(self.expression, Expression)


class Leaf:
    """The leaf that the tensor of ``owner`` was when it last began to require grad."""

    def __init__(self, owner):
        self.owner = owner


class Expression:
    """A recorded op.

    compute: from fresh tensors to the result.
    inputs: pairs of an expression, a leaf or None, and a value; None if it is theirs.
    needs: the places that its derivative needs, as `Shown.place` gives them.
    """

    def __init__(self, compute, inputs, needs, time):
        self.compute, self.inputs, self.needs, self.time = compute, inputs, needs, time
        self.freed = False


class Gradient(Expression):
    """That of a gradient by one of its inputs; its graph goes on in theirs."""


class Again:
    """The graph of expressions, recorded again with fresh tensors."""

    def __init__(self):
        self.tensors = {}

    def of(self, expression):
        if expression not in self.tensors:
            if type(expression) is Leaf:
                made = gg.zeros(expression.owner.at.shape, dtype=gg.float64, requires_grad=True)
            else:
                made = expression.compute(*[self.input(e, v) for e, v in expression.inputs])
            self.tensors[expression] = made
        return self.tensors[expression]

    def input(self, expression, value):
        """A tensor with this value, and the derivatives of an expression."""
        if expression is None:
            return constant(value)
        x = self.of(expression)
        return x if value is None else x + constant(value - x.detach().numpy())


def below(expression):
    """Everything that an expression was computed from, and itself."""
    found, stack = [], [expression]
    while stack:
        e = stack.pop()
        if e is not None and e not in found:
            found.append(e)
            if isinstance(e, Expression):
                stack += [parent for parent, _ in e.inputs]
    return found


def between(root, targets):
    """The ops on paths from the root to the targets; not what the targets were computed from."""
    leading = set(targets)

    def visit(e):
        if e in seen or e in leading or not isinstance(e, Expression):
            return
        seen.add(e)
        for parent, _ in e.inputs:
            visit(parent)
        if not leading.isdisjoint([parent for parent, _ in e.inputs]):
            leading.add(e)

    seen = set()
    visit(root)
    return [e for e in leading if isinstance(e, Expression) and e not in targets]


# By name: the optimizer, its formula, and options of both.
OPTIMIZERS = {
    "SGD": (optim.SGD, sgd, {"lr": 0.25, "momentum": 0.5}),
    "Adam": (optim.Adam, adam, {"lr": 0.25}),
}


class Trainer:
    """An optimizer, and the model of it."""

    def __init__(self, kind, members):
        self.kind, self.members = kind, members
        make, self.formula, self.options = OPTIMIZERS[kind]
        self.optimizer = make([m.tensor for m in members], **self.options)
        self.states = {}

    def __repr__(self):
        return f"{self.kind}({', '.join(m.name for m in self.members)})"

    def step(self, world):
        """What a step does to the model."""
        for m in [m for m in self.members if m.gradient is not None and m.expression is not None]:
            state = self.states.setdefault(m, defaultdict(float))
            state["t"] += 1
            world.write(m, self.formula(state["t"], m.value, m.gradient, state, **self.options))


UNARY = {
    "sin": gg.sin, "tanh": gg.tanh, "negative": lambda x: -x, "sum": gg.sum,
    "copy": lambda x: gg.asarray(x, copy=True),
}  # fmt: skip
VIEWS = {
    "detach": (gg.Tensor.detach, lambda at: at),
    "x[...]": (lambda x: x[...], lambda at: at), "x[1:]": (lambda x: x[1:], lambda at: at[1:]),
    "x[::-2]": (lambda x: x[::-2], lambda at: at[::-2]),
    "x[0]": (lambda x: x[0], lambda at: at[0]), "x[0:1]": (lambda x: x[0:1], lambda at: at[0:1]),
    "permuted": (lambda x: gg.permute_dims(x, range(x.ndim)[::-1]), np.transpose),
    "flattened": (lambda x: x.reshape(-1), lambda at: at.reshape(-1)),
    "column": (lambda x: x.reshape((-1, 1)), lambda at: at.reshape((-1, 1))),
    "real": (gg.real, lambda at: at),
    "astype": (lambda x: gg.astype(x, gg.float64, copy=False), lambda at: at),
}  # fmt: skip
BINARY = {
    "x + y": lambda x, y: x + y,
    "x * y": lambda x, y: x * y,
    "x / (2 + sin(y))": lambda x, y: x / (2 + gg.sin(y)),
    "tanh(x * y) * x": lambda x, y: gg.tanh(x * y) * x,
}
# Which values the derivative of an op needs: those of inputs, by position, and "out".
NEEDS = {
    "sin": [0], "tanh": [0, "out"], "x * y": [0, 1], "x / (2 + sin(y))": [0, 1, "out"],
    "tanh(x * y) * x": [0, 1],
}  # fmt: skip


class Impossible(Exception):
    """There is no tensor for an action."""


class World(Choices):
    """Tensors and the model of them, to which actions are applied.

    An action is a tuple of numbers, which choose what is done among what can be done.
    """

    def __init__(self):
        self.clock, self.names = count(1), count(1)
        self.pool, self.trainers, self.log = [], [], []
        self.during, self.after = [], []  # trainers that stepped in a sweep

    def below(self, n):
        return self.numbers.pop(0) % n if self.numbers else 0

    def tensor(self, test=lambda t: True):
        """A tensor of the pool that passes."""
        found = [t for t in self.pool if test(t)]
        if not found:
            raise Impossible
        return self.choose(found)

    def drawn(self, shape):
        size, start = int(np.prod(shape)), self.below(97)
        return np.array([((start + 31 * k) % 17 - 8) / 4 for k in range(size)]).reshape(shape)

    # The model

    def write(self, shown, values):
        """Write to the memory that a tensor shows."""
        memory = shown.memory
        memory.values = memory.values.copy()
        memory.values[shown.at] = values
        memory.written.append((next(self.clock), shown.at.min(), shown.at.max()))

    def rebind(self, shown, values, expression):
        """Give a tensor new memory."""
        shown.memory = Memory(values)
        shown.at = np.arange(shown.memory.values.size).reshape(values.shape)
        shown.expression = expression

    def add(self, tensor, expression, values=None, source=None, places=None):
        """A tensor, with values of its own unless it shares the memory of ``source``."""
        if source is not None and np.shares_memory(tensor.array, source.tensor.array):
            memory, at = source.memory, np.asarray(places(source.at))
        else:
            values = places(source.value) if values is None else values
            memory = Memory(values)
            at = np.arange(memory.values.size).reshape(np.shape(values))
        shown = Shown(tensor, memory, at, expression, f"t{next(self.names)}")
        self.pool.append(shown)
        return shown

    def check(self):
        for t in self.pool:
            close(t.tensor.detach().numpy(), t.value, f"the value of {t.name}")
            assert t.tensor.requires_grad == (t.expression is not None), (
                f"{t.name}.requires_grad is {t.tensor.requires_grad}"
            )
            g = t.tensor.grad
            assert (g is None) == (t.gradient is None), f"{t.name}.grad is {g}"
            if g is not None:
                close(g.detach().numpy(), t.gradient, f"{t.name}.grad")

    # Actions

    def recorded(self, compute, operands, needs, enabled=True):
        """The expression of an op's result, None if it is not recorded."""
        if not enabled or all(t.expression is None for t in operands):
            return None
        inputs = [(t.expression, t.value) for t in operands]
        return Expression(compute, inputs, needs, next(self.clock))

    def apply(self, name, compute, *operands, enabled=True, needs=None, call=None):
        """Apply an op to tensors of the pool and add the result.

        needs: as in `NEEDS`.
        call: what is called instead of ``compute``, which says what that means.
        """
        needs = NEEDS.get(name, []) if needs is None else needs
        places = [operands[i].place for i in needs if i != "out"]
        expression = self.recorded(compute, operands, places, enabled)
        with gg.set_grad_enabled(enabled):
            result = (call or compute)(*[t.tensor for t in operands])
        values = compute(*[constant(t.value) for t in operands]).numpy()
        shown = self.add(result, expression, values)
        if expression is not None and "out" in needs:
            expression.needs.append(shown.place)
        names = ", ".join(t.name for t in operands)
        self.log.append(f"{shown.name} = {name} of {names}{'' if enabled else ' under no_grad'}")

    def make(self):
        if len(self.pool) > 8:
            self.forget()
        values = self.drawn(self.choose(SHAPES))
        make = gg.asarray if self.below(3) == 2 else nn.Parameter
        shown = self.add(make(constant(values)), None, values)
        if make is nn.Parameter:
            shown.expression = Leaf(shown)
        self.log.append(f"{shown.name} = {make.__name__}({values.tolist()})")

    def share(self):
        """A parameter in memory of another tensor, or in a part of it."""
        # A gradient may be a sum's, the same number in all places, which nobody may write to.
        x = self.tensor(lambda t: t.tensor.array.flags.writeable)
        name = self.choose(["x[...]", *(["x[::-2]", "x[0:1]"] if x.at.ndim else [])])
        of_tensor, places = VIEWS[name]
        shown = self.add(nn.Parameter(of_tensor(x.tensor.detach())), None, source=x, places=places)
        shown.expression = Leaf(shown)
        self.log.append(f"{shown.name} = Parameter of {name} of {x.name}.detach()")

    def nothing(self):
        """Leave all as it is; what actions become when an example is made shorter."""

    def forget(self):
        if len(self.pool) == 1:
            return
        x = self.tensor()
        self.pool.remove(x)
        self.trainers = [t for t in self.trainers if x not in t.members]
        del x.tensor
        gc.collect(0)
        self.log.append(f"del {x.name}")

    def view(self):
        x = self.tensor(lambda t: t.at.ndim)
        name, enabled = self.choose(VIEWS), self.flag() or self.flag()
        of_tensor, places = VIEWS[name]
        if x.at.shape[0] < 2 and name == "x[1:]":
            return
        expression = None if name == "detach" else self.recorded(of_tensor, [x], [], enabled)
        with gg.set_grad_enabled(enabled):
            result = of_tensor(x.tensor)
        if result is x.tensor:  # which astype without a copy may return
            return
        shown = self.add(result, expression, source=x, places=places)
        self.log.append(f"{shown.name} = {name} of {x.name}{'' if enabled else ' under no_grad'}")

    def unary(self):
        name = self.choose(UNARY)
        self.apply(name, UNARY[name], self.tensor(), enabled=self.below(4) > 0)

    def binary(self):
        x = self.tensor(lambda t: np.abs(t.value).max() < 100)
        y = self.tensor(lambda t: broadcast(t, x) and np.abs(t.value).max() < 100)
        name = self.choose(BINARY)
        self.apply(name, BINARY[name], x, y, enabled=self.below(4) > 0)

    def write_in_place(self):
        x, how = self.tensor(), self.choose(["x += y", "x[0] = y", "x[...] = y"])
        enabled = self.flag()
        if how == "x[0] = y" and not x.at.ndim:
            how = "x[...] = y"
        shape = x.at.shape[1:] if how == "x[0] = y" else x.at.shape
        number = Shown(0.5, Memory(0.5), np.array(0), None, "0.5")
        found = [t for t in self.pool if broadcast_shape(t.at.shape, shape) == shape]
        y = self.choose(found or [number])

        def compute(x, y):
            return write(x + 0, how, y)

        line = f"{how} of {x.name}, {y.name}{'' if enabled else ' under no_grad'}"
        refused = x.is_leaf() if enabled else isinstance(x.expression, Expression)
        expression = self.recorded(compute, [x, y], [], enabled)
        values = compute(constant(x.value), constant(y.value)).numpy()
        t, v = x.tensor, y.tensor
        with gg.set_grad_enabled(enabled):
            if refused:
                with pytest.raises(RuntimeError):
                    write(t, how, v)
                line += " is refused"
            else:
                write(t, how, v)
                self.rebind(x, values, x.expression if x.is_leaf() else expression)
        self.log.append(line)

    def freeze(self):
        x = self.tensor(lambda t: t.is_free() and t.tensor.array.flags.writeable)
        becomes_leaf = x.expression is None
        x.tensor.requires_grad_(becomes_leaf)
        x.expression = Leaf(x) if becomes_leaf else None
        self.log.append(f"{x.name}.requires_grad_({becomes_leaf})")

    def set_gradient(self):
        self.give_gradient(self.tensor(lambda t: t.is_leaf()))

    def give_gradient(self, x):
        values = self.drawn(x.at.shape)
        x.tensor.grad = constant(values)
        x.gradient = values
        self.log.append(f"{x.name}.grad = {values.tolist()}")

    def optimizer(self):
        if not self.trainers or self.below(3) == 0:
            members = [*dict.fromkeys(self.tensor(Shown.is_leaf) for _ in range(2))]
            self.trainers.append(Trainer(self.choose(OPTIMIZERS), members))
        return self.choose(self.trainers)

    def step(self):
        trainer = self.optimizer()
        for m in trainer.members:
            if m.gradient is None and m.expression is not None:
                self.give_gradient(m)
        trainer.optimizer.step()
        trainer.step(self)
        self.log.append(f"{trainer}.step()")

    def load(self):
        x = self.tensor(lambda t: t.is_free() and type(t.tensor) is nn.Parameter)
        values = self.drawn(x.at.shape)
        nn.ParameterList([x.tensor]).load_state_dict({"0": values})
        if x.is_leaf():
            self.write(x, values)
        else:
            self.rebind(x, values, None)
        self.log.append(f"load_state_dict of {x.name}: {values.tolist()}")

    def hook(self):
        x, trainer = self.tensor(lambda t: t.expression is not None), self.optimizer()
        after = self.flag() and x.is_leaf()

        def step(_):
            trainer.optimizer.step()
            (self.after if after else self.during).append(trainer)

        t = x.tensor
        (t.register_post_accumulate_grad_hook if after else t.register_hook)(step)
        self.log.append(f"{trainer}.step() in a hook of {x.name}{', after' if after else ''}")

    def checkpointed(self):
        x = self.tensor()
        y = self.tensor(lambda t: broadcast(t, x))

        def f(x, y):
            return gg.tanh(gg.sin(x) * y[...] + y)

        if self.flag():
            call = partial(gg.checkpoint, f)
        else:
            y = detached(y)

            def call(x, y):
                return gg.checkpoint(lambda x: f(x, y), x)

        self.apply("checkpoint", f, x, y, needs=[0, 1], call=call)

    def custom(self):
        x = self.tensor()
        y = detached(self.tensor(lambda t: broadcast(t, x)))

        def f(x, y):
            return gg.sin(x) * y

        def backward(_, residuals, g):
            x, y = residuals
            return gg.vjp(lambda x: f(x, y), x)[1](g)

        call = gg.custom_vjp(f, nondiff_argnums=1)
        call.defvjp(lambda x, y: (f(x, y), (x, y)), backward)
        self.apply("custom_vjp", f, x, y, needs=[0, 1], call=call)

    def sweep(self, y, targets, g, call, retain, create_graph=False):
        """Call a sweep from ``y``, which may raise.

        Returns whether it did not, its result, the gradients that are expected, and the ops on
        the way.
        """
        visited, again, message = between(y.expression, targets), Again(), None
        root, sources = again.of(y.expression), [again.of(e) for e in targets]
        options = {"create_graph": create_graph, "allow_unused": True}
        expected = gg.autograd.grad([root], sources, [constant(g)], **options)
        try:
            result = call()
        except RuntimeError as error:
            result, message = None, str(error)
        for trainer in self.during:
            trainer.step(self)
        self.during.clear()
        if message is not None:
            if "overwritten in place" in message:
                assert any(map(self.overwritten, visited)), f"nothing was overwritten: {message}"
            elif "a second time" in message:
                assert any(e.freed for e in visited), f"nothing was freed: {message}"
            else:
                raise AssertionError(f"another error: {message}")
            self.log.append(f"  raises: {message[:60]}")
        if message is not None or not retain:
            for e in visited:
                e.freed = True
        return message is None, result, expected, visited

    def overwritten(self, expression):
        return any(
            time > expression.time and first <= high and low <= last
            for memory, low, high in expression.needs
            for time, first, last in memory.written
        )

    def backward(self):
        y = self.tensor(lambda t: t.expression is not None)
        g, retain = self.drawn(y.at.shape), self.flag()
        self.log.append(f"{y.name}.backward({g.tolist()}, retain_graph={retain})")
        leaves = [e for e in below(y.expression) if type(e) is Leaf]
        call = partial(y.tensor.backward, constant(g), retain_graph=retain)
        succeeds, _, expected, _ = self.sweep(y, leaves, g, call, retain)
        for e, c in zip(leaves, expected, strict=True):
            if succeeds and c is not None:
                old = e.owner.gradient
                e.owner.gradient = c.numpy() if old is None else old + c.numpy()
        for trainer in self.after:
            trainer.step(self)
        self.after.clear()

    def gradient(self):
        y = self.tensor(lambda t: t.expression is not None)
        inside = below(y.expression)
        if any(type(e) is Gradient for e in inside):
            # Whether a rule uses an op's result, or computes it again, is its own matter.
            inside = [e for e in inside if type(e) is Leaf]
        x = self.tensor(lambda t: t.expression is not None and t.expression in inside)
        g, mode = self.drawn(y.at.shape), self.below(3)
        retain, twice = mode > 0, mode == 2
        options = f"retain_graph={retain}, create_graph={twice}"
        self.log.append(f"grad({y.name}, {x.name}, {g.tolist()}, {options})")
        arguments = [y.tensor], [x.tensor], [constant(g)], retain, twice, True
        call = partial(gg.autograd.grad, *arguments)
        of_both = [(e, None) for e in (y.expression, x.expression)]
        success, found, (expected,), visited = self.sweep(y, [x.expression], g, call, retain, twice)
        if not success:
            return
        (found,) = found
        assert (found is None) == (expected is None)
        if found is None:
            return
        close(found.detach().numpy(), expected.detach().numpy(), "the gradient")

        def compute(root, target):
            return gg.autograd.grad([root], [target], [constant(g)], create_graph=True)[0]

        expression = None
        if expected.requires_grad:
            needs = [place for e in visited for place in e.needs]
            expression = Gradient(compute, of_both, needs, next(self.clock))
        self.add(found, expression, expected.detach().numpy())

    ACTIONS = (
        "nothing make share forget view view view unary unary binary binary binary write_in_place "
        "write_in_place freeze set_gradient step step step load load hook checkpointed "
        "checkpointed custom custom backward backward backward gradient gradient gradient"
    ).split()


def detached(x):
    """The same values without derivatives."""
    return Shown(x.tensor.detach(), x.memory, x.at, None, f"{x.name}.detach()")


def write(t, how, v):
    if how == "x += y":
        t += v
    else:
        t[0 if how == "x[0] = y" else ...] = v
    return t


def broadcast(x, y):
    shape = broadcast_shape(x.at.shape, y.at.shape)
    return shape is not None and np.prod(shape) <= 36


def close(found, expected, what):
    scale = max(1, np.abs(expected).max())
    assert found.shape == expected.shape, f"{what} has shape {found.shape}, not {expected.shape}"
    assert np.abs(found - expected).max() <= 1e-10 * scale, f"{what} is {found}, not {expected}"


class Script:
    """A list of actions; what they did when they were last applied."""

    def __init__(self, actions):
        self.actions, self.log = actions, []

    def __repr__(self):
        return "\n".join(self.log)


def draw_script(choices, most=60):
    n = choices.integer(1, most)
    return Script([[choices.below(5040) for _ in range(NUMBERS)] for _ in range(n)])


def check(script):
    world = World()
    script.log = world.log
    for numbers in [FIRST, *script.actions]:
        world.numbers = [*numbers]
        with suppress(Impossible):
            getattr(world, world.choose(World.ACTIONS))()
        world.check()


@pytest.mark.slow
@pytest.mark.parametrize("number", [500, pytest.param(10_000, marks=pytest.mark.fuzz)])
def test_writes(number):
    examples(draw_script, check, number)
