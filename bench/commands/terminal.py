"""Print tables for a terminal: 80 columns are enough, and a pipe gets tab-separated text."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from itertools import chain

import typer

from bench.store.media import visible

HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # where a name such as CoordinateAscent can be broken


def interactive() -> bool:
    """Return whether a person reads the output."""
    return sys.stdout.isatty()


def folded(text: str, width: int) -> str:
    """Return a text in lines of at most `width`, broken after hyphens and spaces, or before a long name's capitals."""
    lines = [""]
    words = re.split(r"(?<=[-\s])", text)
    for piece in chain.from_iterable([w] if len(w.rstrip()) <= width else HUMP.split(w) for w in words):
        if lines[-1] and len((lines[-1] + piece).rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def show(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    wide: bool = False,
    drop_constant: bool = False,
) -> None:
    """Print a table: fitted to the terminal, or as tab-separated text with a heading where it is piped.

    Args:
        columns: The headings.
        rows: One sequence of texts per line.
        title: Printed above the table on a terminal.
        wide: Whether no column is folded, however wide the terminal is.
        drop_constant: Whether a column with one value in all lines is said once above the table; a pipe gets it all.
    """
    lines = [[visible(cell) for cell in row] for row in rows]
    if not interactive():
        for line in [list(columns), *lines]:
            typer.echo("\t".join(re.sub(r"\s+", " ", cell) for cell in line))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    kept = list(range(len(columns)))
    if drop_constant and len(lines) > 1:
        kept = [i for i in kept if len({line[i] for line in lines}) > 1]
        same = [f"{columns[i]} {lines[0][i]}" for i in range(len(columns)) if i not in kept]
        title = f"{title} ({', '.join(same)})" if same and title else title
    widths = [max(len(line[i]) for line in [list(columns), *lines]) for i in kept]
    needed = sum(widths) + 2 * len(kept) + 1
    console = Console(width=max(80, needed)) if wide else Console()
    while not wide and needed > console.width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1  # the widest column gives way
        needed -= 1
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title=Text(title) if title else None,
        title_justify="left",
    )
    for i in kept:
        table.add_column(Text(columns[i]), overflow="fold")
    for line in lines:
        table.add_row(*(Text(folded(line[i], width)) for i, width in zip(kept, widths, strict=True)))
    console.print(table)
