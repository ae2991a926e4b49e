"""Link each number of a page to the rows that made it; several rows are a numbered set."""

from __future__ import annotations

from collections.abc import Iterable

SET_LIMIT = 500  # rows of one set; a number over more rows than anyone will read names the first of them


class Links:
    """Make addresses inside the page, and collect the rows that the page must hold for them."""

    def __init__(self) -> None:
        self.sets: dict[tuple[str, ...], int] = {}
        self.rows: dict[str, None] = {}

    def to(self, rows: Iterable[str]) -> str:
        """Return the address for a number made from these rows; it is empty where it was made from none."""
        ids = tuple(dict.fromkeys(rows))[:SET_LIMIT]
        if not ids:
            return ""
        for i in ids:
            self.rows.setdefault(i)
        if len(ids) == 1:
            return f"#row-{ids[0]}"
        return f"#rows-{self.sets.setdefault(ids, len(self.sets))}"
