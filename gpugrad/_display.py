"""How notebooks show a tensor: HTML of a few of its elements, on the host."""

from html import escape

from .backends import backend_of

_EDGE = 4  # rows and columns shown at each end of a long axis


def html(tensor):
    """A line that describes ``tensor``, and a table of its elements or the first and last.

    Of a tensor with more than two axes it shows the first matrix. Only what is shown comes to the
    host.
    """
    kind = type(tensor).__name__
    said = [f"<b>{escape(tensor.label)}</b>"] if tensor.label is not None else []
    said += [f"{kind} {tensor.shape}", str(tensor.dtype).split(".")[-1], tensor.device]
    if not tensor.is_leaf:
        said.append(f"grad_fn={escape(tensor.grad_fn.name)}")
    elif tensor.requires_grad:
        said.append("requires_grad")
    if tensor.is_leaf and tensor.grad is not None:
        said.append("has grad")
    first = max(tensor.ndim - 2, 0)
    if first and tensor.size:
        said.append(f"shown is [{', '.join(['0'] * first)}]")
    line = " &middot; ".join(said)
    return f"<div><div>{line}</div>{_table(tensor.array, first)}</div>"


def _table(array, first):
    if 0 in array.shape:
        return ""
    backend = backend_of[type(array)]
    xp = backend.xp
    if first:
        array = array[(0,) * first + (...,)]
    shown = [_shown(n) for n in array.shape]
    for axis, places in enumerate(shown):
        if None in places:
            chosen = [i for i in places if i is not None]
            chosen = backend.asarray(chosen, dtype=xp.int64, device=backend.device(array))
            with backend.scope(array):
                array = xp.take(array, chosen, axis=axis)
    values = backend.to_list(array)
    if not shown:
        return f"<table><tr>{_cell(values)}</tr></table>"
    rows, heads = ([values], None) if len(shown) == 1 else (values, shown[0])
    columns = shown[-1]
    lines = ["<tr>" + ("<th></th>" if heads else "") + "".join(map(_head, columns)) + "</tr>"]
    rows = iter(rows)
    for head in heads or [0]:
        if head is None:
            cells = "<td>&hellip;</td>" * len(columns)
        else:
            row = iter(next(rows))
            cells = "".join(
                "<td>&hellip;</td>" if place is None else _cell(next(row)) for place in columns
            )
        lines.append(f"<tr>{_head(head) if heads else ''}{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _shown(n):
    """The places of an axis that are shown, with None for a gap."""
    if n <= 2 * _EDGE + 1:
        return list(range(n))
    return [*range(_EDGE), None, *range(n - _EDGE, n)]


def _head(place):
    return f"<th>{'&hellip;' if place is None else place}</th>"


def _cell(value):
    text = format(value, ".5g") if isinstance(value, float | complex) else str(value)
    return f"<td>{escape(text)}</td>"
