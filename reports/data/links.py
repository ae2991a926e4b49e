"""Which rows a page speaks of: each number names the rows that made it, several as a numbered set."""

from __future__ import annotations

from collections.abc import Iterable

SET_LIMIT = 500  # rows of one set; a number over more rows than anyone will read names the first of them


class Links:
    """Addresses inside the page; collects the rows that the page must hold for them to lead somewhere."""

    def __init__(self) -> None:
        self.sets: dict[tuple[str, ...], int] = {}
        self.rows: dict[str, None] = {}

    def to(self, rows: Iterable[str]) -> str:
        """The address for a number made from these rows; empty where it was made from none."""
        ids = tuple(dict.fromkeys(rows))[:SET_LIMIT]
        if not ids:
            return ""
        for i in ids:
            self.rows.setdefault(i)
        if len(ids) == 1:
            return f"#row-{ids[0]}"
        return f"#rows-{self.sets.setdefault(ids, len(self.sets))}"
