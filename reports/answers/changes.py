"""Say what would change the answer: a faster rival, another tolerance, another device, size, or few calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reports.answers.choices import grid
from reports.answers.standings import Standing, runner_up, standings

TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10)


@dataclass(frozen=True)
class Change:
    """Hold one sentence on what would (or would not) change the answer, and the rows behind it."""

    text: str
    rows: tuple[str, ...] = ()


def what_would_change(
    order: list[Standing],
    best: pd.DataFrame,
    ladder: Mapping[float, pd.DataFrame],
    elsewhere: Mapping[str, pd.DataFrame],
    tol: float,
) -> list[Change]:
    """Return the sentences under a verdict; `best` holds the rows at `tol`, `ladder` those at other tolerances."""
    changes = [_rival(order), _other_solver(order), *_tolerances(order[0], ladder, tol)]
    changes += [*_devices(order[0], elsewhere), _sizes(order[0], best), _few_calls(order, best)]
    return [c for c in changes if c is not None]


def _rival(order: list[Standing]) -> Change:
    second = runner_up(order)
    if second is None:
        return Change("Nothing else certified here, so there is no rival to compare with.")
    ratio = second.time / order[0].time
    if second.overlaps(order[0]):
        text = (
            f"{second.choice.label()} ({ratio:.2f} x the time) ties: repeats on an idle machine could decide."
        )
    elif second.solved < second.total:
        text = (
            f"{second.choice.label()} is next, but certified only {second.solved} of {second.total} problems."
        )
    else:
        text = f"{second.choice.label()} is next: it would have to become {ratio:.3g} x faster."
    return Change(text, second.rows)


def _other_solver(order: list[Standing]) -> Change | None:
    """Return the best other algorithm, where the runner-up is the same one under another mode or backend."""
    second = runner_up(order)
    if second is None or second.choice.solver != order[0].choice.solver:
        return None
    other = next((s for s in order if s.choice.solver != order[0].choice.solver), None)
    if other is None:
        return None
    text = f"The best other solver is {other.choice.label()}, at {other.time / order[0].time:.3g} x the time."
    return Change(text, other.rows)


def _tolerances(winner: Standing, ladder: Mapping[float, pd.DataFrame], tol: float) -> list[Change]:
    looser: list[tuple[float, list[Standing]]] = []
    tighter: list[tuple[float, list[Standing]]] = []
    same: list[float] = []
    for t, best in sorted(ladder.items()):
        order = standings(grid(best))
        if not order:
            continue
        if order[0].choice == winner.choice or any(
            s.choice == winner.choice and s.overlaps(order[0]) for s in order
        ):
            same.append(t)
        else:
            (looser if t > tol else tighter).append((t, order))
    out = []
    for word, found in (("looser", looser[:1]), ("tighter", tighter[-1:])):
        for t, order in found:
            mine = next((s for s in order if s.choice == winner.choice), None)
            by = f", {mine.time / order[0].time:.3g} x faster" if mine else ", which this one does not reach"
            text = f"At a {word} tolerance of {t:.0e} the answer is {order[0].choice.label()}{by}."
            out.append(Change(text, order[0].rows))
    if same and not out:
        span = f"from {max(same):.0e} to {min(same):.0e}" if len(same) > 1 else f"of {same[0]:.0e}"
        out.append(Change(f"The same choice wins or ties at every other tolerance asked, {span}."))
    return out


def _devices(winner: Standing, elsewhere: Mapping[str, pd.DataFrame]) -> list[Change]:
    out = []
    for device, best in sorted(elsewhere.items()):
        order = standings(grid(best))
        if order:
            ratio = winner.time / order[0].time
            how = f"{ratio:.3g} x faster" if ratio > 1 else f"{1 / ratio:.3g} x slower"
            out.append(Change(f"On {device} the answer is {order[0].choice.label()}, {how}.", order[0].rows))
    return out


def _sizes(winner: Standing, best: pd.DataFrame) -> Change | None:
    """Return the problems of the family on which another choice is clearly faster, with the smallest and
    largest named."""
    solved = best[best["solved"]]
    first = solved.sort_values("time", kind="stable").drop_duplicates("instance")
    mine = _of(solved, winner).set_index("instance")
    lost = []
    for row in first.itertuples():
        own = mine.loc[row.instance] if row.instance in mine.index else None
        if row.id in winner.rows or (own is not None and own["time"] <= max(row.high, 1.05 * row.time)):
            continue
        lost.append(row)
    if not lost:
        return None
    names = ", ".join(f"{row.instance}: {row.solver} · {row.backend}" for row in lost[:2])
    more = f" and {len(lost) - 2} more" if len(lost) > 2 else ""
    text = f"Other problems of the family have other winners ({names}{more})."
    return Change(text, tuple(str(row.id) for row in lost))


def _few_calls(order: list[Standing], best: pd.DataFrame) -> Change | None:
    """Say after how many calls a choice that compiles less is no longer the faster one."""
    setup = {s.choice: _setup(best, s) for s in order if s.solved == order[0].solved}
    mine = setup.get(order[0].choice, float("nan"))
    if not np.isfinite(mine) or mine <= 0:
        return None
    calls = []
    for s in order[1:]:
        cost = setup.get(s.choice, float("nan"))
        if np.isfinite(cost) and cost < 0.8 * mine and not s.overlaps(order[0]):
            calls.append(((mine - cost) / (s.time - order[0].time), s))
    if not calls:
        return None
    number, other = max(calls, key=lambda c: c[0])
    if number < 2:
        return None
    text = (
        f"For fewer than {number:,.0f} calls {other.choice.label()} is sooner done: it has less to compile."
    )
    return Change(text, other.rows)


def _of(rows: pd.DataFrame, standing: Standing) -> pd.DataFrame:
    return rows[rows["id"].isin(standing.rows)]


def _setup(best: pd.DataFrame, standing: Standing) -> float:
    return float(_of(best, standing)["setup"].median())
