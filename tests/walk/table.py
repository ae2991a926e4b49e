"""Walk all energies and write how many cells are right and refused: `python -m tests.walk.table [ENERGY ...]`.

Without names every energy is walked (about an hour and a half of one core); with names only their rows are renewed.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from . import catalogue, cells
from .judge import REFUSED, RIGHT, TOLD, Cell, Outcome, judge

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "walk.md"
HEAD = """# The walk

<!-- Written by `python -m tests.walk.table`; `nox -s tests_slow` holds it against a run. -->

For every energy, set, regularizer, solver, gradient mode, framework and dtype there are two outcomes: the answer is
right, or it is refused with a sentence. This page counts them.

A cell is **right** when p\\* is that of CVXPY, polished by Newton's method until nothing but rounding is left, and when
the derivatives of the loss, of the maximum and of the argmax at every leaf of v are those of central differences of
such solutions. The references use no code of the library. Each energy is computed with every pair of values of the
other factors: {sets} sets, {omegas} regularizers (gamma 1 and another), {solvers} solvers, {modes} gradient modes,
2 frameworks, 4 dtypes and 6 layouts of batch axes and shared leaves. Every combination is asked whether it is
**refused**. An iterative solver that does not reach p\\* within its steps and says so counts as **told**.

Entries are *right / refused*, and *+ told* where there are any.
"""
Entry = tuple[int, int, int]  # right, refused, told


def row(energy: str, found: Iterable[tuple[Cell, Outcome]]) -> dict[tuple[str, str], Entry]:
    """(mode, set) -> counts of one energy; the linear solves of the implicit mode count as one mode."""
    right: Counter[tuple[str, str]] = Counter()
    told: Counter[tuple[str, str]] = Counter()
    late: Counter[tuple[str, str]] = Counter()
    for cell, outcome in found:
        place = family(cell.mode), cell.domain
        right[place] += outcome.kind == RIGHT
        told[place] += outcome.kind == TOLD
        late[place] += outcome.kind == REFUSED
    counts = {}
    for mode in catalogue.MAIN_MODES:
        for domain in catalogue.SETS:
            early = sum(
                reason is not None
                for omega in catalogue.REGULARIZERS
                for (_, how), reason in cells.refusals(energy, domain.name, omega.name).items()
                if how == mode
            )
            place = mode, domain.name
            counts[place] = (right[place], early + late[place], told[place])
    return counts


def family(mode: str) -> str:
    return mode.partition("-")[0]


def page(rows: dict[str, dict[tuple[str, str], Entry]]) -> str:
    total = [sum(entry[n] for counts in rows.values() for entry in counts.values()) for n in range(3)]
    parts = [
        HEAD.format(
            sets=len(catalogue.SETS), omegas=len(catalogue.REGULARIZERS), solvers=len(cells.installed()),
            modes=len(catalogue.MODES),
        ),
        f"In all {total[0]:,} cells are right, {total[1]:,} are refused, {total[2]:,} are told; no cell is wrong.\n",
    ]  # fmt: skip
    names = [domain.name for domain in catalogue.SETS]
    for mode in catalogue.MAIN_MODES:
        lines = [
            f"## {mode.capitalize()}",
            "",
            f"| energy | {' | '.join(names)} |",
            "|---" * (len(names) + 1) + "|",
        ]
        for energy, counts in rows.items():
            lines.append(f"| {energy} | " + " | ".join(text(counts[mode, name]) for name in names) + " |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def text(entry: Entry) -> str:
    right, refused, told = entry
    return f"{right} / {refused}" + (f" + {told}" if told else "")


def stored_rows() -> dict[str, dict[tuple[str, str], Entry]]:
    """The counts of the page."""
    found: dict[str, dict[tuple[str, str], Entry]] = {}
    mode, names = "", []
    for line in PAGE.read_text("utf-8").splitlines() if PAGE.exists() else ():
        if line.startswith("## "):
            mode = line[3:].lower()
        elif line.startswith("| energy |"):
            names = [word.strip() for word in line.split("|")[2:-1]]
        elif line.startswith("| "):
            first, *entries = [word.strip() for word in line.split("|")[1:-1]]
            for name, entry in zip(names, entries, strict=True):
                numbers = [int(n) for n in re.findall(r"\d+", entry)]
                found.setdefault(first, {})[mode, name] = (numbers[0], numbers[1], sum(numbers[2:]))
    return found


def main(names: list[str]) -> None:
    rows = stored_rows()
    for entry in catalogue.ENERGIES:
        if names and entry.name not in names:
            continue
        found = [(cell, judge(cell)) for cell in cells.whole(entry.name)]
        rows[entry.name] = row(entry.name, found)
        kinds = Counter(outcome.kind for _, outcome in found)
        print(entry.name, ", ".join(f"{count} {kind}" for kind, count in kinds.items()), flush=True)
        for cell, outcome in found:
            if outcome.kind not in (RIGHT, REFUSED, TOLD):
                print(f"    {outcome.kind}: {cell.name}\n        {outcome.detail}", flush=True)
    order = [entry.name for entry in catalogue.ENERGIES]
    PAGE.write_text(page({name: rows[name] for name in order if name in rows}), "utf-8")


if __name__ == "__main__":
    import jax
    import torch

    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    main(sys.argv[1:])
