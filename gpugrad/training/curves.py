"""Pictures of a history."""

from collections.abc import Sequence
from typing import Any


def curves(history: Sequence[dict[str, float]], title: str | None = None) -> Any:
    """A Matplotlib figure of the history of a `Trainer`, with a panel for each quantity.

    The entries ``"training/loss"`` and ``"test/loss"`` are two lines in the panel ``loss``, whose
    axis is logarithmic if all values are positive. No screen is needed: the figure's method
    ``savefig(path)`` writes a picture.

    Raises ValueError if the history is empty, and ImportError if Matplotlib is not installed.
    """
    if not history:
        raise ValueError("curves: the history is empty; call fit first")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("curves: needs Matplotlib; pip install matplotlib") from error
    panels: dict[str, list[tuple[str, str]]] = {}
    for name in history[-1]:
        part, _, quantity = name.rpartition("/")
        panels.setdefault(quantity, []).append((part, name))
    figure = Figure(figsize=(5.2 * len(panels), 3.8), dpi=120, layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (quantity, lines) in zip(axes, panels.items(), strict=True):
        for part, name in lines:
            values = [row.get(name, float("nan")) for row in history]
            label = f"{part}, final {values[-1]:.4f}".removeprefix(", ")
            ax.plot(range(1, len(values) + 1), values, ".-", label=label)
        if quantity == "loss" and all(row.get(name, 1) > 0 for row in history for _, name in lines):
            ax.set_yscale("log")
        ax.set(xlabel="epoch", ylabel=quantity)
        ax.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
        ax.legend(frameon=False)
    if title is not None:
        figure.suptitle(title)
    return figure
