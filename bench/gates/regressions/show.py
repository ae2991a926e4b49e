"""Print the gate's table: the changes stand first, and what did not change is one line per cell."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.gates.regressions.verdict import METRICS, Verdict

COLOURS = {
    "better": "green",
    "same": "dim",
    "worse": "bold red",
    "cannot tell": "yellow",
    "not comparable": "yellow",
}
ORDER = {"worse": 0, "not comparable": 1, "cannot tell": 2, "better": 3, "same": 4}


def _number(metric: str, x: float) -> str:
    return f"{1e3 * x:.3g} ms" if METRICS[metric][0] == "ratio" else f"{x:.1e}"


def _change(v: Verdict) -> str:
    if METRICS[v.metric][0] == "ratio":
        return f"x {v.change:.2f} [{v.low:.2f}, {v.high:.2f}]"
    return f"{v.change:+.1f} decades [{v.low:+.1f}, {v.high:+.1f}]"


def _control(v: Verdict) -> str:
    return "-" if v.control is None else f"[{v.control[0]:.2f}, {v.control[1]:.2f}]"


def table(verdicts: Sequence[Verdict], console: Console | None = None) -> None:
    """Print every verdict, the worse ones first, and a summary line."""
    shown = Table(
        "cell", "metric", "base", "head", "head against base [99%]", "base against itself", "verdict"
    )
    for v in sorted(verdicts, key=lambda v: (ORDER[v.verdict], v.cell, v.metric)):
        word = f"[{COLOURS[v.verdict]}]{v.verdict}[/]"
        if v.verdict == "not comparable":
            shown.add_row(v.cell, v.metric, "-", "-", v.reason, "-", word)
        else:
            shown.add_row(
                v.cell,
                v.metric,
                _number(v.metric, v.base),
                _number(v.metric, v.head),
                _change(v),
                _control(v),
                word,
            )
    console = console or Console()
    console.print(shown)
    counts = {word: sum(v.verdict == word for v in verdicts) for word in ORDER}
    console.print(", ".join(f"{count} {word}" for word, count in counts.items() if count))
