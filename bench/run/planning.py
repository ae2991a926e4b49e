"""Plan a suite; foreign code runs in a process of its own, with a limit.

Foreign code runs when a file is imported, when a solver's `name` is read or its `unsupported` is asked, and when a
problem is made. Whatever goes wrong there becomes a reason in the list of what is left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.plan import registry
from bench.plan.matrix import Cell, Group, Plan, Settings, join, plan, solvers
from bench.plan.suite import Entry, Suite
from bench.run.isolation import Worker
from gfy.errors import GfyValueError

JOB = "bench.run.planning:job"
PLANNING_LIMIT = 60.0  # seconds; the import and the answers of foreign code may take this long


def planned(suite: Suite, memory: int | None = None, limit_s: float = PLANNING_LIMIT) -> Plan:
    """Plan every combination of a suite as a cell, or leave it out with its reason.

    Args:
        suite: What is to be measured.
        memory: Bytes that a worker may allocate; four fifths of the machine's where None.
        limit_s: Seconds that a stranger's code may take to be asked.

    Returns:
        The plan; ours first, then each stranger's cells in the same groups.

    Raises:
        GfyValueError: The suite names something that does not exist.
    """
    found = Plan()
    for (family, solver), part in _parts(suite).items():
        if family is None and solver is None:
            ours = plan(part, memory)
            found.groups += ours.groups
            found.left_out += ours.left_out
        else:
            _ask(part, memory, solver, limit_s, found)
    found.groups = join(found.groups)
    return found


def _parts(suite: Suite) -> dict[tuple[str | None, str | None], Suite]:
    """Return the suite in parts, by the foreign problem and the foreign solver of each."""
    parts: dict[tuple[str | None, str | None], list[Entry]] = {(None, None): []}
    for entry in suite.problems:
        family = entry.family if registry.is_stranger(entry.family) else None
        _there(entry.family)
        named = solvers(entry.axes.get("solvers", suite.solvers))
        ours = [text for text in named if not registry.is_stranger(text)]
        if ours or not named:
            own = replace(entry, axes={**entry.axes, "solvers": ours})
            parts.setdefault((family, None), []).append(own)
        for text in named:
            if text not in ours:
                _there(text)
                alone = replace(entry, axes={**entry.axes, "solvers": [text]})
                parts.setdefault((family, text), []).append(alone)
    return {key: replace(suite, problems=entries) for key, entries in parts.items()}


def _there(text: str) -> None:
    """Raise where a text names a file that does not exist, or is not of the form of a name with parameters."""
    registry.parse(text)
    file = registry.file_of(text)
    if file is not None and not file.is_file():
        raise GfyValueError(f"There is no file {file} (asked for as {text!r}).")


def _ask(part: Suite, memory: int | None, solver: str | None, limit_s: float, found: Plan) -> None:
    """Plan a part in a worker; an error there is the reason for which the part is left out."""
    worker, answer, reason = Worker(), None, "its code ended without an answer"
    try:
        for event in worker.run(JOB, (part, memory), limit_s, limit_s):
            if event.kind == "row":
                answer = event.value
            elif event.kind == "timeout":
                reason = f"its code gave no answer within {limit_s:g} s"
            elif event.kind in ("died", "failed"):
                reason, answer = str(event.value), None
    finally:
        worker.close()
    if isinstance(answer, dict):
        for label, cells in answer["groups"]:
            found.groups.append(
                Group(label, tuple(Cell(*cell) for cell in cells), Settings(**answer["settings"]))
            )
        found.left_out += [(Cell(*cell), why) for cell, why in answer["left_out"]]
        return
    for entry in part.problems:
        columns = {
            "kind": "compare",
            "problem": entry.family,
            "family": entry.family,
            "solver": solver or "-",
        }
        found.left_out.append((Cell(columns), f"it could not be used: {reason}"))


def job(asked: tuple[Suite, int | None], channel: Any) -> None:
    """Do the job of the planning process: return a plan as plain data."""
    suite, memory = asked
    found = plan(suite, memory)
    plain = lambda cell: (cell.columns, cell.problem, cell.solver)  # noqa: E731
    groups = [(group.label, [plain(cell) for cell in group.cells]) for group in found.groups]
    settings = vars(found.groups[0].settings) if found.groups else {}
    left_out = [(plain(cell), reason) for cell, reason in found.left_out]
    channel.row("", {"groups": groups, "settings": settings, "left_out": left_out})
