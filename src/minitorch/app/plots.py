"""Curves of a training run. Enters: its history. Leaves: a PNG, or None where matplotlib is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from minitorch.serialization import atomically

LABELS = {
    "loss": "training",
    "end_loss": "at the epoch's end",
    "accuracy": "training",
    "val_loss": "validation",
    "val_accuracy": "validation",
}


def curves(history: list[dict[str, Any]], title: str, path: Path) -> str | None:
    """Draw loss and accuracy over the epochs; return the path, or None without matplotlib."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError:
        return None
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [record["epoch"] for record in history]
    for axes, what in ((left, "loss"), (right, "accuracy")):
        names = [name for name in (history[0] if history else {}) if name.endswith(what)]
        for name in names:
            label = LABELS.get(name, name.removesuffix(what).replace("_", " ").strip())
            marker = "o" if len(history) < 3 else None
            axes.plot(epochs, [record[name] for record in history], label=label, marker=marker)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_ylabel(what)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if names:
            axes.legend(frameon=False)
    left.set_ylim(bottom=0)
    right.set_ylim(0, 1.02)
    right.yaxis.set_major_formatter(PercentFormatter(1))
    figure.suptitle(title)
    with atomically(path) as file:
        figure.savefig(file, format="png", dpi=120)
    return str(path)
