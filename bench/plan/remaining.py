"""What a run has to do: the cells that the store lacks, or whose row does not answer what is asked now."""

from __future__ import annotations

from typing import Any

from bench.plan.cells import Cell, Group
from bench.plan.matrix import Plan
from bench.store.records import Store

FAILED = ("crashed", "timeout", "not finite")


def done(row: dict[str, Any] | None, group: Group, retry: bool = False) -> bool:
    """Whether a stored row answers the cell: measured as long and as often as asked, and not under load."""
    if row is None:
        return False
    if row["status"] == "timeout" and (row["timeout_s"] or 0) < group.settings.timeout:
        return False
    if row["status"] in FAILED:
        return not retry
    if group.settings.accuracy_only:
        return True
    enough = (row["repeat_asked"] or 0) >= group.settings.repeat and row["steady_s"] is not None
    quiet = not row["loaded"] or (row["attempt"] or 1) > 1  # once is measured again, not for ever
    return enough and quiet


def remaining(plan: Plan, store: Store, machine: str, retry: bool = False) -> list[Group]:
    """The groups with the cells that are still to be measured on this machine."""
    todo = []
    for group in plan.groups:
        missing = {c.name for c in group.cells if not done(store.get(c.key(machine)), group, retry)}
        if missing:
            todo.append(group.only(missing))
    return todo


def measured_anywhere(store: Store) -> dict[str, dict[str, Any]]:
    """Stored rows by cell, whichever machine measured them: what a cluster need not do again."""
    from bench.store.keys import key_of
    from bench.store.read import plain_rows

    return {key_of({**row, "machine": None}): row for row in plain_rows(store.frame())}


def store_refusals(plan: Plan, store: Store, facts: dict[str, Any]) -> int:
    """Rows for what is left out, so that a report can say why a solver has no number."""
    new = 0
    for cell, reason in plan.left_out:
        key = cell.key(facts["machine"])
        if cell.solver and not store.has(key):
            row = {**facts, **cell.columns, "kind": "compare", "status": "unsupported", "reason": reason}
            store.put(row)
            new += 1
    return new


def count(groups: list[Group]) -> int:
    return sum(len(group.cells) for group in groups)


def cells_of(groups: list[Group]) -> list[Cell]:
    return [cell for group in groups for cell in group.cells]
