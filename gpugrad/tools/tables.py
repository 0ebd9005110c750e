"""Tables as text, for reports."""


def table(columns, rows, most=30):
    """A table as text.

    columns: from each column's head to the format of its numbers, as for `format`; None for text.
    most: how many of the first ``rows`` are shown; None for all.
    """
    heads, forms = list(columns), list(columns.values())
    cells = [
        [str(x) if form is None else format(x, form) for x, form in zip(row, forms, strict=True)]
        for row in rows[:most]
    ]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    sides = ["<" if form is None else ">" for form in forms]
    row = "  ".join([f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True)])
    lines = [row.format(*line).rstrip() for line in [heads, *cells]]
    if most is not None and len(rows) > most:
        lines.append(f"... {len(rows) - most} more")
    return "\n".join(lines)
