"""Calls a module with parameters other than its own."""

from collections.abc import Mapping
from typing import Any

from .._arguments import check_type
from .._foreign_names import explains_arguments
from .._tensor import Tensor
from .module import Module


@explains_arguments
def functional_call(
    module: Module,
    params_and_buffers: Mapping[str, Tensor] | tuple[Mapping[str, Tensor], ...],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """``module(*args, **kwargs)`` with these tensors in place of its parameters and buffers.

    params_and_buffers: a dict of tensors by the names of `Module.named_parameters` and
        `Module.named_buffers`, or a tuple of such dicts. The module's own tensors are used
        for names that are not given. If a tensor has several names, one of them is enough to
        replace it under all.
    args: a tuple; anything else is the only argument.

    The module itself does not change: this calls a copy, which shares everything that is not
    replaced. Therefore several threads may call the same module at the same time, and attributes
    that ``forward`` sets are lost afterwards.

    Raises ValueError for a name that the module does not have and for different values of one
    tensor, and TypeError for a value that is not a Tensor.

    >>> import gpugrad as gg
    >>> net = gg.nn.Linear(2, 1, bias=False)
    >>> gg.nn.functional_call(net, {"weight": gg.ones((1, 2))}, gg.tensor([1.0, 2.0]))
    tensor([3.])
    """
    check_type(module, Module, "functional_call: the first argument must be a Module")
    new = _merged(params_and_buffers)
    own = dict(_named(module, "", set()))
    replacements: dict[int, Any] = {}
    for name, tensor in new.items():
        if name not in own:
            raise ValueError(
                f"functional_call: {type(module).__name__} has no parameter or buffer {name!r}; "
                f"it has {', '.join(own) or 'none'}"
            )
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"functional_call: {name} must be a Tensor, not a {type(tensor).__name__}; make "
                f"one of an array with gpugrad.asarray"
            )
        if replacements.setdefault(id(own[name]), tensor) is not tensor:
            names = ", ".join(n for n, x in own.items() if x is own[name])
            raise ValueError(
                f"functional_call: {names} are names of one tensor, and got different values"
            )
    if not isinstance(args, tuple):
        args = () if args is None else (args,)
    return _copied(module, replacements)(*args, **(kwargs or {}))


def _merged(given):
    dicts = given if isinstance(given, tuple) else (given,)
    merged: dict[str, Any] = {}
    for part in dicts:
        what = "functional_call: params_and_buffers must be a dict of tensors, or a tuple of dicts"
        check_type(part, Mapping, what)
        if twice := merged.keys() & part.keys():
            raise ValueError(f"functional_call: {sorted(twice)[0]!r} is in two of the dicts")
        merged.update(part)
    return merged


def _named(module, path, within):
    """Parameters and buffers under all their names."""
    prefix = f"{path}." if path else ""
    for name, x in (*module._own_parameters(), *module._own_buffers()):
        yield prefix + name, x
    within = {*within, id(module)}
    for name, child in module.named_children():
        if id(child) not in within:  # a module may have its parent as an attribute
            yield from _named(child, prefix + name, within)


def _copied(x, replacements):
    """A copy of a module in which every object with an entry in ``replacements`` is replaced.

    ``replacements`` maps ids to objects. This also copies the modules inside, and the lists, tuples
    and dicts that have replaced objects. It enters the copies in ``replacements``, so that a module
    in two places stays one module.
    """
    if (found := replacements.get(id(x))) is not None:
        return found
    if isinstance(x, Module):
        copy = replacements[id(x)] = object.__new__(type(x))
        vars(copy).update({name: _copied(y, replacements) for name, y in vars(x).items()})
        return copy
    kind = type(x)
    if kind not in (list, tuple, dict):
        return x
    values = list(x.values()) if kind is dict else x
    items = [_copied(item, replacements) for item in values]
    if all(new is old for new, old in zip(items, values, strict=True)):
        return x
    return dict(zip(x, items, strict=True)) if kind is dict else kind(items)
