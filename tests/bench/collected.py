"""A channel of a worker without a process at its other end."""

from __future__ import annotations

from typing import Any

from bench.run.worker import Channel


class Collected(Channel):
    """Keeps the rows of a group, their evidence, and what was said of which cell, in its order."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.evidence: dict[str, dict[str, Any]] = {}
        self.said: list[tuple[str, str | None]] = []

    def hand(self, cell: str | None) -> None:
        self.said.append(("hand", cell))

    def row(self, cell: str, columns: dict[str, Any], evidence: dict[str, Any] | None = None) -> None:
        self.said.append(("row", cell))
        self.rows[cell] = columns
        if evidence is not None:
            self.evidence[cell] = evidence

    def rest(self) -> None:
        """No other worker has a round."""

    def say(self, text: str) -> None:
        """No watcher listens."""

    def stopped(self) -> bool:
        return False

    def limit_memory(self, allowed: int | None) -> None:
        """The limit would be one of the test's own process."""
