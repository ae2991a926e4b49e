"""Show the progress of a run: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from bench.plan.matrix import Cell, Group
from bench.store.media import visible


class Watch:
    """Receive every row as it is stored."""

    def __init__(self, total: int, known: int, left_out: int) -> None:
        self._console = Console(stderr=True)
        self._console.print(
            f"{total} cells to measure ({known} known already, {left_out} left out: see --dry-run)."
        )
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(), console=self._console,
            disable=not self._console.is_terminal,
        )  # fmt: skip
        self._task = self._progress.add_task("preparing", total=total)
        self._seen: set[str] = set()
        self._label = ""

    def row(self, group: Group, cell: Cell, row: dict[str, Any]) -> None:
        again = cell.name in self._seen
        self._seen.add(cell.name)
        self._progress.update(self._task, advance=0 if again else 1, description=group.label)
        if not self._console.is_terminal and group.label != self._label:
            self._label = group.label
            self._console.print(f"[{len(self._seen)}] {group.label}", markup=False, highlight=False)
        if row["status"] in ("crashed", "timeout", "not finite"):
            self.say(f"{group.label}, {row['solver']} {row['gradient']}: {row['status']}, {row['reason']}")

    def hand(self, group: Group, cell: Cell, text: str = "") -> None:
        """Show the solver of a cell that is being prepared or timed beside the problem."""
        self._progress.update(self._task, description=visible(f"{group.label}, {cell.columns['solver']}"))

    def say(self, text: str) -> None:
        self._console.print(visible(text), markup=False, highlight=False)

    def __enter__(self) -> Watch:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
