"""Walk energies and write how many cells are right and refused: `python -m tests.walk.table [--whole] [ENERGY ...]`.

Without names every energy is walked; with names only their rows are renewed, so that several processes can each walk
some energies and write the one page. `--whole` computes every pair of the factors' values, which takes several hours of
one core, prints what it finds and leaves the page as it is.
"""

from __future__ import annotations

import os
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
such solutions. The references use no code of the library. A cell is **refused** where the library raises a sentence,
and where the problem has no maximum and `result` says so.

The default solver `Auto` has these two outcomes in single and double precision. Another iterative solver may end
without p\\* and say so (`converged` is false, and `result` is the reason): such a cell counts as **told**, and the page
ends with a list of them. They have these causes:

* Gradient steps, `ProjectedGradient`, `FrankWolfe` and `MirrorAscent` among them, stall at the kinks of relu networks
  and of the manhattan metric. `DualNewton` and `MultiStart` solve these.
* First-order steps and peers that take them converge slowly where Omega is weak, zero or steep at the boundary.
* `ClosedForm` of a metric holds where v lies in C, and says so elsewhere.

An energy that is not concave has several local maxima. p\\* is then the local maximum at which the solver ends, and the
reference starts there: it confirms a local maximum, not that it is the largest.

**How the cells were chosen.** The factors are {energies} energies, {sets} sets, {omegas} regularizers (gamma 1 and
another), {solvers} solvers, {modes} gradient modes, 2 frameworks, 4 dtypes and 6 layouts of batch axes and shared
leaves. Every combination of energy, set, regularizer, solver and mode is asked whether it is **refused**, and for each
one that is accepted a framework, a dtype and a layout are drawn (seed {seed}). A computed cell costs a second in torch
and ten in JAX, which compiles it; so each energy is computed with every value of every other factor, with JAX in every
gradient mode that it has, and with one in {share} of the cells that together hold every pair of values.
`nox -s walk -- --whole` computes all of these.

Entries are *right / refused*, with the number of cells that are told or wrong where there are any.
"""
LIST = "Told"
KINDS = ("right", "refused", "told", "wrong")
Entry = tuple[int, ...]  # as KINDS


def row(energy: str, found: Iterable[tuple[Cell, Outcome]]) -> dict[tuple[str, str], Entry]:
    """(mode, set) -> counts of one energy; the linear solves of the implicit mode count as one mode."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for cell, outcome in found:
        kind = outcome.kind if outcome.kind in (RIGHT, REFUSED, TOLD) else "wrong"
        counted[family(cell.mode), cell.domain, kind] += 1
    counts = {}
    for mode in catalogue.MAIN_MODES:
        for domain in catalogue.SETS:
            counted[mode, domain.name, REFUSED] += sum(
                reason is not None
                for omega in catalogue.REGULARIZERS
                for (_, how), reason in cells.refusals(energy, domain.name, omega.name).items()
                if how == mode
            )
            counts[mode, domain.name] = tuple(counted[mode, domain.name, kind] for kind in KINDS)
    return counts


def family(mode: str) -> str:
    return mode.partition("-")[0]


def page(rows: dict[str, dict[tuple[str, str], Entry]], told: dict[str, list[str]]) -> str:
    total = [
        sum(entry[n] for counts in rows.values() for entry in counts.values()) for n in range(len(KINDS))
    ]
    head = HEAD.format(
        energies=len(rows), sets=len(catalogue.SETS), omegas=len(catalogue.REGULARIZERS),
        solvers=len(cells.installed()), modes=len(catalogue.MODES), seed=cells.SEED, share=cells.SHARE,
    )  # fmt: skip
    parts = [
        head,
        f"In all {total[0]:,} cells are right, {total[1]:,} are refused, {total[2]:,} are told and {total[3]:,} are "
        f"wrong. Computed were {listed('framework', rows)}; {listed('dtype', rows)}.\n",
    ]
    left = [entry.name for entry in catalogue.ENERGIES if entry.name not in rows]
    if left:
        parts.append(
            f"These energies have not been walked on this code and are not counted: {', '.join(left)}.\n"
        )
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
    items = [item for energy in rows for item in told.get(energy, ())]
    parts.append("\n".join([f"## {LIST}", "", *(items or ["There are none."])]) + "\n")
    return "\n".join(parts)


def told_of(found: Iterable[tuple[Cell, Outcome]]) -> list[str]:
    """A line for each cell that is told."""
    return [f"* `{cell.name}`: {outcome.detail}" for cell, outcome in found if outcome.kind == TOLD]


def stored_told() -> dict[str, list[str]]:
    """The lines of the page, by energy."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text("utf-8").splitlines() if PAGE.exists() else ():
        if line.startswith("* `") and "/" in line:
            found.setdefault(line[3:].partition("/")[0], []).append(line)
    return found


def listed(factor: str, energies: Iterable[str]) -> str:
    """How many of the computed cells have each value of a factor, in words."""
    counts = Counter(getattr(cell, factor) for energy in energies for cell in cells.shown(energy))
    return ", ".join(f"{count:,} in {value}" for value, count in counts.most_common())


def text(entry: Entry) -> str:
    first, *others = zip(entry[1:], KINDS[1:], strict=True)
    return f"{entry[0]} / {first[0]}" + "".join(f", {count} {kind}" for count, kind in others if count)


def read(text: str) -> Entry:
    """The counts of an entry."""
    right, refused = (int(n) for n in re.findall(r"\d+", text)[:2])
    return (
        right,
        refused,
        *(int(n[1]) if (n := re.search(rf"(\d+) {kind}", text)) else 0 for kind in KINDS[2:]),
    )


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
                found.setdefault(first, {})[mode, name] = read(entry)
    return found


def renew(rows: dict[str, dict[tuple[str, str], Entry]], told: dict[str, list[str]]) -> None:
    """Put these rows on the page; a lock on its folder keeps those that another process writes meanwhile."""
    import fcntl

    folder = os.open(PAGE.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        rows, told = stored_rows() | rows, stored_told() | told
        order = (entry.name for entry in catalogue.ENERGIES)
        PAGE.write_text(page({name: rows[name] for name in order if name in rows}, told), "utf-8")
    finally:
        os.close(folder)


def main(words: list[str]) -> None:
    whole, names = "--whole" in words, [word for word in words if word != "--whole"]
    order = [entry.name for entry in catalogue.ENERGIES]
    if unknown := sorted(set(names) - set(order)):
        raise SystemExit(f"no energy of the walk: {', '.join(unknown)}; there are {', '.join(order)}")
    for energy in order:
        if names and energy not in names:
            continue
        found = []
        for cell in (cells.whole if whole else cells.shown)(energy):
            outcome = judge(cell)
            found.append((cell, outcome))
            if outcome.kind not in (RIGHT, REFUSED):
                print(f"    {outcome.kind}: {cell.name}\n        {outcome.detail}", flush=True)
        kinds = Counter(outcome.kind for _, outcome in found)
        print(energy, ", ".join(f"{count} {kind}" for kind, count in kinds.items()), flush=True)
        if not whole:
            renew({energy: row(energy, found)}, {energy: told_of(found)})


# XLA spends most of a cell's time on making its code fast, which runs for milliseconds here.
QUICK_TO_COMPILE = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}"
    import jax
    import torch

    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    main(sys.argv[1:])
