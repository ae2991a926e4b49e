"""Make the table of the ranking experiment: Kendall's tau by loss and dataset, from stored rows."""

from __future__ import annotations

import pandas as pd

from reports.answers.tables import Cell, Table

NOTE = (
    "Kendall's tau on the test part in %, mean and standard deviation over seeds, each a bootstrap sample of the "
    "training part; in brackets the processor seconds of one training. Linear networks; the rate of each loss (the "
    "penalty of the exact solution) was chosen on a held-out quarter of the training part, all else is one recipe."
)


def ranking(frame: pd.DataFrame) -> Table | None:
    """Return one line per loss, one column per dataset; the best mean of a dataset is marked.

    Args:
        frame: Stored rows; those of the kind "ranking" are shown. Where trainings of several lengths are stored the
            longest count.

    Returns:
        The table, None where there are no such rows.

    Example:
        >>> table = ranking(load([Path("results/beyond.sqlite")]).frame)
        >>> table.columns
        ['loss', 'synthetic (k = 10)', 'yeast (k = 14)']
    """
    rows = frame[(frame["kind"] == "ranking") & (frame["status"] == "ok")]
    if rows.empty:
        return None
    rows = rows[rows["steps"] == rows.groupby("problem")["steps"].transform("max")]
    datasets = {str(name): int(part["k"].iloc[0]) for name, part in rows.groupby("problem", sort=False)}
    best = rows.groupby(["problem", "loss"])["score"].mean().groupby("problem").max()
    lines = []
    for loss in dict.fromkeys(rows["loss"]):
        cells = [Cell(str(loss))]
        for name in datasets:
            part = rows[(rows["loss"] == loss) & (rows["problem"] == name)]
            if part.empty:
                cells.append(Cell("-"))
                continue
            mean, spread = float(part["score"].mean()), float(part["score"].std(ddof=0))
            text = f"{mean:.2f} ± {spread:.2f} ({part['steady_s'].mean():.2g})"
            ids = tuple(str(key) for key in part.get("id", part["key"]))
            cells.append(Cell(text, bool(mean == best[name]), rows=ids, value=mean))
        lines.append(cells)
    columns = ["loss", *(f"{name} (k = {k})" for name, k in datasets.items())]
    return Table("ranking", "Label ranking", columns, lines, NOTE, [False] + [True] * len(datasets))
