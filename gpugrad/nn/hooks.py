"""Hooks of modules.

Calling a module calls its ``forward`` directly. When a module gets hooks, its class is replaced
by a subclass of the same name whose ``__call__`` runs them. A module without hooks therefore
pays nothing for them.
"""

import operator
from functools import update_wrapper, wraps
from types import SimpleNamespace

from .._batched import equally
from .._tensor import Tensor, is_recorded
from ..autograd.graph import watched
from ..autograd.hooks import Handle, attach
from ..autograd.operation import op


def register(module, which, hook, where, prepend, with_kwargs=None):
    """Add a hook to the module; returns its handle.

    which: "before", "after" or "backward". The attribute ``_hooks`` has the hooks of each kind by
        number, of the first two kinds pairs (hook, with_kwargs).
    """
    hooks = vars(module).get("_hooks") or SimpleNamespace(before={}, after={}, backward={})
    entry = hook if with_kwargs is None else (hook, with_kwargs)
    take_out = attach(getattr(hooks, which), hook, where, prepend=prepend, entry=entry)
    if "_hooks" not in vars(module):
        vars(module)["_hooks"] = hooks
        object.__setattr__(module, "__class__", _hooked_class(type(module)))

    def undo():
        take_out()
        if not any(vars(hooks).values()) and vars(module).get("_hooks") is hooks:
            object.__setattr__(module, "__class__", type(module).__base__)
            del vars(module)["_hooks"]

    return Handle(undo)


def _hooked_class(kind):
    """The subclass of ``kind`` for modules with hooks, made when it is first needed."""
    if "_with_hooks" in vars(kind):
        return kind._with_hooks

    class Hooked(kind):
        __slots__ = ()

        @wraps(kind.__call__)
        def __call__(self, *args, **kwargs):
            hooks = vars(self).get("_hooks")
            if hooks is None:  # another thread has just removed them
                return kind.__call__(self, *args, **kwargs)
            return _call(kind, self, hooks, args, kwargs)

        def __reduce_ex__(self, protocol):
            # Copies have no hooks, so they get the original class.
            plain = object.__new__(kind)
            vars(plain).update({name: x for name, x in vars(self).items() if name != "_hooks"})
            function, args, *rest = plain.__reduce_ex__(protocol)
            # `operator.call` makes it, because pickle wants `__newobj__` to make `type(self)`.
            return (operator.call, (function, *args), *rest)

    kind._with_hooks = Hooked._with_hooks = update_wrapper(Hooked, kind, updated=())
    return Hooked


def _call(kind, module, hooks, args, kwargs):
    for hook, with_kwargs in tuple(hooks.before.values()):
        replaced = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if replaced is None:
            continue
        if not with_kwargs:
            args = replaced if isinstance(replaced, tuple) else (replaced,)
        elif isinstance(replaced, tuple) and [*map(type, replaced)] == [tuple, dict]:
            args, kwargs = replaced
        else:
            raise TypeError(
                f"register_forward_pre_hook: a hook with_kwargs must return None or "
                f"(args, kwargs), a tuple and a dict, not {replaced!r}"
            )
    backward = tuple(hooks.backward.values())
    passage = _Passage(module, backward) if backward else None
    if passage:
        args = passage.enter(args)
    output = kind.__call__(module, *args, **kwargs)
    for hook, with_kwargs in tuple(hooks.after.values()):
        given = (args, kwargs, output) if with_kwargs else (args, output)
        if (replaced := hook(module, *given)) is not None:
            output = replaced
    return passage.leave(output) if passage else output


@op(materialize=False)
def _module(xp, *tensors):
    """Return the tensors unchanged, through one node where all their gradients meet."""
    return tensors


_module.vjp(joint=lambda xp, g: g)
_module.vmap(lambda call, batched, *tensors: call(equally(batched, tensors)))


class _Passage:
    """One call of a module with backward hooks, which run once its gradients are known."""

    def __init__(self, module, hooks):
        self.module = module
        self.hooks = hooks
        self.inputs = self.outputs = ()  # whether each requires grad
        self.grad_output = None

    def enter(self, args):
        args, self.inputs = _through_node(args, self._at_inputs)
        return args

    def leave(self, output):
        is_sequence = isinstance(output, (tuple, list))
        if not is_sequence and not isinstance(output, Tensor):
            raise TypeError(
                f"register_full_backward_hook: {type(self.module).__name__}.forward must return a "
                f"Tensor or a sequence of them, not a {type(output).__name__}; register the hook "
                f"with a module inside it"
            )
        passed, self.outputs = _through_node(output if is_sequence else (output,), self._at_outputs)
        if not is_sequence:
            return passed[0]
        return getattr(type(output), "_make", type(output))(passed)

    def _at_outputs(self, gradients):
        self.grad_output = _with_nones(gradients, self.outputs)
        if not any(self.inputs):
            self._run((None,) * len(self.inputs))

    def _at_inputs(self, gradients):
        grad_input = self._run(_with_nones(gradients, self.inputs))
        return [g for g, there in zip(grad_input, self.inputs, strict=True) if there]

    def _run(self, grad_input):
        grad_output = self.grad_output or (None,) * len(self.outputs)
        self.grad_output = None
        for hook in self.hooks:
            if (replaced := hook(self.module, grad_input, grad_output)) is None:
                continue
            replaced = replaced if isinstance(replaced, (tuple, list)) else (replaced,)
            if len(replaced) != len(grad_input):
                raise ValueError(
                    f"register_full_backward_hook: the hook must return None or "
                    f"{len(grad_input)} gradients, one of each input, not {len(replaced)}"
                )
            grad_input = tuple(replaced)
        return grad_input


def _through_node(values, hook):
    """Pass those values that are recorded tensors through one node with ``hook``.

    Returns all values, and for each whether it was recorded.
    """
    recorded = [is_recorded(x) for x in values]
    if not any(recorded):
        return values, recorded
    passed = iter(_module([x for x, there in zip(values, recorded, strict=True) if there]))
    values = [next(passed) if there else x for x, there in zip(values, recorded, strict=True)]
    (node,) = values[recorded.index(True)].node.parents
    attach(watched(node).hooks, hook, "")
    return tuple(values), recorded


def _with_nones(gradients, requires_grad):
    """A tuple of the gradients, with None for each value that requires none."""
    gradients = iter(gradients)
    return tuple([next(gradients) if there else None for there in requires_grad])
