"""`summary`: the layers of a model as a table."""

from contextlib import ExitStack
from typing import Any, NamedTuple

from .._arguments import check_type, leaves_in
from .._tensor import Tensor
from ..autograd.mode import no_grad
from ..backends import backend_of
from ..tools.tables import table
from .module import Module, Parameter, in_mode


class Row(NamedTuple):
    """A module of a model.

    name: its dotted name, ``""`` for the model itself.
    kind: the name of its class.
    outputs: the shapes of its outputs; None if it was not called.
    parameters: the number of elements of the parameters of its own, not of modules in it.
    nbytes: the bytes of its own parameters and buffers.
    """

    name: str
    kind: str
    outputs: tuple[tuple[int, ...], ...] | None
    parameters: int
    nbytes: int


class Summary:
    """The layers of a model; ``print`` shows them as a table.

    rows: a `Row` for each module, parents first.
    parameters: the number of elements of all parameters.
    trained: how many of these require grad.
    nbytes: the bytes of all parameters and buffers.
    """

    def __init__(self, rows: list[Row], trained: int) -> None:
        self.rows = rows
        self.parameters = sum(row.parameters for row in rows)
        self.trained = trained
        self.nbytes = sum(row.nbytes for row in rows)

    def __repr__(self) -> str:
        called = any(row.outputs is not None for row in self.rows)
        columns: dict[str, str | None] = {"layer": None}
        columns |= {"outputs": None} if called else {}
        columns |= {"parameters": ",d", "bytes": ",d"}
        cells = []
        for row in self.rows:
            *parents, own = row.name.split(".")
            depth = len(parents) + bool(own)
            layer = "  " * depth + (f"{own}: {row.kind}" if own else row.kind)
            outputs = "-" if row.outputs is None else ", ".join(map(str, row.outputs))
            cells.append([layer, *([outputs] if called else []), row.parameters, row.nbytes])
        totals = f"parameters: {self.parameters:,}, of which trained: {self.trained:,}"
        totals += f"; bytes with buffers: {self.nbytes:,}"
        return f"{table(columns, cells, most=None)}\n\n{totals}"


def summary(model: Module, *inputs: Any, **keywords: Any) -> Summary:
    """The layers of a model, with the shapes of their outputs, their parameters and bytes.

    inputs, keywords: example inputs, with which the model is called once in `eval` mode, without
        gradients; without any, the outputs are not shown.

    A parameter that several modules share counts once, for the first of them. If a layer is called
    several times, the table has its last outputs.

    >>> import gpugrad
    >>> from gpugrad import nn
    >>> nn.summary(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), gpugrad.ones((2, 3)))
    layer         outputs  parameters  bytes
    Sequential    (2, 4)            0      0
      0: Linear   (2, 4)           16     64
      1: ReLU     (2, 4)            0      0
    <BLANKLINE>
    parameters: 16, of which trained: 16; bytes with buffers: 64
    """
    check_type(model, Module, "summary: the model must be a Module")
    if any(isinstance(x, tuple) and x and all(type(n) is int for n in x) for x in inputs):
        raise TypeError(
            f"summary: give example inputs, not their shapes, as in "
            f"summary(model, gpugrad.zeros({inputs[0]}))"
        )
    modules = dict(model.named_modules())
    outputs = _outputs(model, inputs, keywords) if inputs or keywords else {}
    rows: list[Row] = []
    seen: set[int] = set()
    for name, module in modules.items():
        count = nbytes = 0
        for kind in module._own_parameters, module._own_buffers:
            own = [x for _, x in kind() if id(x) not in seen]
            seen.update(map(id, own))
            nbytes += sum(backend_of[type(x.array)].nbytes(x.array) for x in own)
            count += sum(x.size for x in own if isinstance(x, Parameter))
        rows.append(Row(name, type(module).__name__, outputs.get(module), count, nbytes))
    return Summary(rows, sum(p.size for p in model.parameters() if p.requires_grad))


def _outputs(model, inputs, keywords):
    """The shapes of the outputs of each module that is called."""
    found: dict[Module, tuple] = {}

    def note(module, args, output):
        found[module] = tuple([x.shape for x in leaves_in(output) if isinstance(x, Tensor)])

    with ExitStack() as stack:
        for module in model.modules():
            stack.enter_context(module.register_forward_hook(note))
        with in_mode(model, False), no_grad():
            model(*inputs, **keywords)
    return found
