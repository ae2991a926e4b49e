"""What the tests of bench share: an executor that works in this process, where monkeypatches can be seen."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.run.executor import Local

sys.path.insert(0, str(Path(__file__).parent))  # `hostile` and `collected` are imported by name


class Here:
    """A worker's channel without a worker."""

    def __init__(self, executor: Local, group: Any, attempt: int) -> None:
        self.executor, self.group, self.attempt = executor, group, attempt
        self.cells = {cell.name: cell for cell in group.cells}
        self.cell: Any = None

    def hand(self, name: str | None) -> None:
        self.cell = self.cells.get(str(name))

    def row(self, name: str, columns: dict[str, Any], evidence: dict[str, Any] | None = None) -> None:
        facts = self.executor._facts
        if evidence is not None:
            from bench.measure.certification import Question, verdict

            columns = columns | verdict(Question(self.cells[name], evidence, 30.0))
        self.executor.keep(self.group, self.cells[name], columns, self.attempt, facts)

    def rest(self) -> None:
        """Nobody else has a round here."""

    def say(self, text: str) -> None:
        self.executor._notice(self.group, self.cell, text)

    def stopped(self) -> bool:
        return self.executor._stopping.is_set()

    def limit_memory(self, allowed: int | None) -> None:
        """Not of the test's own process."""


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local executors do their jobs in this process; Ctrl-C inside one is a stop."""

    def do(self: Local, groups: list[Any], attempt: int) -> None:
        module, function = self._job.split(":")
        for group in groups:
            try:
                getattr(import_module(module), function)(group, Here(self, group, attempt))
            except KeyboardInterrupt:
                self.stop()
                return

    monkeypatch.setattr(Local, "_pass", do)
