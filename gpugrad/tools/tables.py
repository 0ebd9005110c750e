"""Reports as text."""

_MOST = 30  # rows shown


def table(columns, rows):
    """A table as text; of many ``rows`` the first.

    columns: by their heads, how to show a number, as for `format`; None for text.
    """
    heads, forms = list(columns), list(columns.values())
    cells = [
        [str(x) if form is None else format(x, form) for x, form in zip(row, forms, strict=True)]
        for row in rows[:_MOST]
    ]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if form is None else cell.rjust(width)
            for cell, width, form in zip(line, widths, forms, strict=True)
        ).rstrip()
        for line in [heads, *cells]
    ]
    if len(rows) > _MOST:
        lines.append(f"... {len(rows) - _MOST} more")
    return "\n".join(lines)
