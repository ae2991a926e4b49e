"""Describe what a reader must know to judge the numbers: machines, versions, settings, and what they cannot say."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from reports.answers.choices import CHARGE, SHIFT
from reports.answers.standings import PRACTICAL, TIE
from reports.data.labels import parsed
from reports.data.load import Rows


@dataclass(frozen=True)
class Place:
    """Describe one machine with one set of library versions: facts as (name, value) pairs."""

    group: str
    rows: int
    machine: list[tuple[str, str]] = field(default_factory=list)
    versions: list[tuple[str, str]] = field(default_factory=list)
    measured: list[tuple[str, str]] = field(default_factory=list)


def places(frame: pd.DataFrame) -> list[Place]:
    """Return the machines of the rows, and how each measured."""
    out = []
    for group, part in frame.groupby("group", sort=True):
        machine: dict[str, str] = {}
        versions: dict[str, str] = {}
        for text in part["machine_info"].dropna().unique():
            machine |= {k: _text(v) for k, v in parsed(text).items()}
        for text in part["versions"].dropna().unique():
            versions |= {k: _text(v) for k, v in parsed(text).items() if v is not None}
        out.append(
            Place(str(group), len(part), sorted(machine.items()), sorted(versions.items()), _measured(part))
        )
    return out


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items())
    if isinstance(value, list):
        return ", ".join(_text(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _measured(part: pd.DataFrame) -> list[tuple[str, str]]:
    def listed(name: str) -> str:
        return ", ".join(sorted({str(x) for x in part[name].dropna()}))

    commits = part["git_commit"].dropna().str.slice(0, 10).unique()
    dirty = int((part["git_dirty"] == 1).sum())
    tols = sorted(part["tol"].dropna().unique(), reverse=True)
    created = part["created"].dropna()
    span = f"{_when(created.min())} to {_when(created.max())}" if len(created) else ""
    changed = f" ({dirty:,} rows from a changed tree)" if dirty else ""
    facts = [
        ("rows", f"{len(part):,}"), ("from", span), ("commit", ", ".join(commits[:5]) + changed),
        ("backends", listed("backend")), ("devices", listed("device")), ("dtypes", listed("dtype")),
        ("gradient modes", listed("gradient")),
        ("tolerances asked", ", ".join(f"{t:.0e}" for t in tols[:12])),
        ("step limits", ", ".join(f"{int(s):,}" for s in sorted(part["max_steps"].dropna().unique())[:6])),
        ("repeats", _span(part["repeats"])), ("load", _span(part["load"])),
        ("problem seeds", ", ".join(str(int(s)) for s in sorted(part["seed"].dropna().unique())[:10])),
    ]  # fmt: skip
    return [(name, value) for name, value in facts if value]


def _when(text: str) -> str:
    return str(text)[:16].replace("T", " ")


def _span(values: pd.Series) -> str:
    known = values.dropna()
    if known.empty:
        return ""
    low, high = known.min(), known.max()
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def rules(tol: float) -> list[str]:
    """Return how the numbers of the page are made."""
    return [
        "A row counts as solved where its relative gap, certified in float64 outside the solver and outside the clock, "
        f"is at most {tol:.0e} (in the table on top: the accuracy chosen), whatever the solver says of itself; where a "
        "gradient is asked, its relative error must be known and at most the square root of that "
        f"({tol**0.5:.0e}: what such a gap leaves of distance). A gradient that nobody checked is not certified.",
        "Of a choice's rows on one problem (several tolerances) the fastest solved one counts.",
        "Times are steady ones: the minimum over repeats after compiling. Loss and gradient are timed together, and so "
        "are p* and its derivative.",
        "Frameworks are answered apart, and a choice is ranked on the problems to which it applies.",
        f"Several problems are combined by shifted geometric means (shift {SHIFT * 1e6:.0f} µs) of the times relative "
        f"to the fastest; a problem tried and not solved is charged {CHARGE:.0f} times the slowest solved time on it.",
        "An interval runs from the minimum to the median plus half the interquartile range, widened by the spread over "
        "seeds; with a single repeat 10% is assumed, and no interval is narrower than "
        f"{100 * (PRACTICAL - 1):.0f}%. Choices tie where intervals overlap and times differ by less than a factor of "
        f"{TIE}.",
        "At a size that was not measured, the time is estimated by a power law in k and in the batch, fitted to each "
        "solver.",
        "Rank intervals are 95% bootstrap intervals over the problems (1000 draws, seed 0).",
        "Machines, and sets of library versions, are never mixed: each has its own verdict, tables "
        "and figures.",
    ]


def limitations(rows: Rows) -> list[str]:
    """Return what these rows cannot show; the general ones, then those seen in the data."""
    frame = rows.compared
    out = [
        "Problems are synthetic or taken from a few trainings; a family's winner need not win on yours: "
        "`gfy recommend` says how far the evidence is, `gfy compare` measures your own.",
        "Solvers run with the parameters stored in their rows; none was tuned to a problem.",
        "Certificates of energies that are not concave in p show stationarity, not a global maximum.",
        "The gradient error is that of the loss (or argmax) at the measured inputs only.",
    ]
    if frame.empty:
        return out + rows.notes
    if not (frame["device"] != "cpu").any():
        out.append("No accelerator was measured: nothing here speaks about GPUs.")
    if frame["group"].nunique() == 1:
        out.append("One machine only: orders of magnitude carry over to others, small ratios do not.")
    loaded = int((frame["loaded"] == 1).sum())
    if loaded:
        out.append(
            f"{loaded:,} of {len(frame):,} rows were timed while the machine was busy; they are flagged."
        )
    single = int(((frame["repeats"] < 2) & (frame["status"] == "ok")).sum())
    if single:
        out.append(f"{single:,} rows have one repeat: their spread is unknown.")
    dirty = int((frame["git_dirty"] == 1).sum())
    if dirty:
        out.append(f"{dirty:,} rows were made from a tree with uncommitted changes.")
    ladders = frame[frame["status"] != "unsupported"].groupby("gradient")["tol"].nunique()
    short = sorted(ladders[(ladders < ladders.max())].index)
    if short:
        out.append(
            f"Gradient modes {', '.join(short)} were measured at fewer tolerances than the others: at those they "
            "lack, their time is that of a tighter one."
        )
    beyond = int((frame["grad_error"] > frame["grad_bound"] * (1 + 1e-6) + 1e-12).sum())
    if beyond:
        out.append(f"{beyond:,} rows have a gradient error beyond the bound computed from their certificate.")
    few = frame.groupby("family")["instance"].nunique()
    if (few < 3).any():
        out.append(f"{int((few < 3).sum())} of {len(few)} families have fewer than three problems.")
    return out + rows.notes
