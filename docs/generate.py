"""Write the parts of the documents that are measured or drawn: tables between markers, and figures.

    python docs/generate.py            fills README.md and docs/measured.md, draws docs/figures
    python docs/generate.py --check    changes nothing; exits 1 where a document differs from the stored rows

Everything comes from the rows in docs/results. Where there are none, the section names the command that makes them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # a checkout that was never installed
    sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    import pandas as pd

RESULTS = ROOT / "docs" / "results"
FIGURES = ROOT / "docs" / "figures"
ALT = (
    "How many times faster the best of ours is than the fastest certified peer, a bar for each piece of work"
)
MAKE_BARS = "nox -s bars -- --store docs/results/bars.sqlite"


def between(text: str, name: str, body: str) -> str:
    """The text with what stands between the markers of a section replaced."""
    begin, end = f"<!-- begin {name}: written by `python docs/generate.py` -->", f"<!-- end {name} -->"
    head, found, rest = text.partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"the section {name!r} has no markers: it needs {begin} and {end}")
    return f"{head}{begin}\n{body.strip()}\n{end}{rest.partition(end)[2]}"


def rows_of(name: str) -> pd.DataFrame | None:
    """The newest row of each cell of a kept store; None where the store is not there."""
    from bench.store import read

    path = RESULTS / name
    if not path.is_file():
        return None
    frame = read(path).sort_values("created")
    return frame.drop_duplicates(["problem", "solver", "backend", "score_name"], keep="last")


def races(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Of each bar and work: the quickest of ours and of the peers among those that were certified."""
    timed = frame[frame["score_name"].str.startswith("time in bar ") & (frame["status"] == "ok")].copy()
    timed["bar"] = timed["score_name"].str.removeprefix("time in bar ")
    timed["ours"] = [bool(json.loads(x).get("ours")) for x in timed["extra"]]
    found = []
    for (bar, problem), part in timed.groupby(["bar", "problem"], sort=False):
        sides = [part[part["ours"] == side].sort_values("steady_s") for side in (True, False)]
        if all(len(side) for side in sides):
            ours, peer = sides[0].iloc[0], sides[1].iloc[0]
            found.append({
                "bar": bar, "problem": problem, "ours": ours, "peer": peer,
                "ratio": float(peer["steady_s"] / ours["steady_s"]),
            })  # fmt: skip
    return found


def speed_table(frame: pd.DataFrame) -> str:
    """Ours against the fastest certified peer, a line for each piece of work."""
    lines = ["| work | best of ours | fastest peer | times faster |", "|---|---|---|---|"]
    for race in races(frame):
        shown = [_timing(race[side]) for side in ("ours", "peer")]
        lines.append(f"| {_work(race)} | {shown[0]} | {shown[1]} | {_significant(race['ratio'])} |")
    return "\n".join(lines)


def bars_table(frame: pd.DataFrame) -> str:
    """Every bar: what was measured beside what it must reach."""
    lines = ["| bar | measured | must be | holds |", "|---|---|---|---|"]
    told = {"ok": "yes", "why": "no: eager torch, see the solvers' notes", "SHORT": "**no**"}
    for _, row in frame[frame["solver"] == "bar"].iterrows():
        extra = json.loads(row["extra"])
        value = row["reason"] if row["status"] != "ok" else _significant(row["score"])
        lines.append(
            f"| {row['score_name']} | {value} | {extra['sense']} {_significant(extra['bar'])} "
            f"| {told[extra['verdict']]} |"
        )
    return "\n".join(lines)


def _work(race: dict[str, Any]) -> str:
    return f"{race['problem']}" + (", as met in training" if "trained" in str(race["bar"]) else "")


def _timing(row: Any) -> str:
    where = f" ({row['backend']})" if row["backend"] else ""
    gap = f", gap {row['gap_rel']:.0e}" if row["gap_rel"] == row["gap_rel"] else ""
    return f"{row['solver']}{where}: {_significant(1e3 * row['steady_s'])} ms{gap}"


def _significant(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _where(frame: pd.DataFrame) -> str:
    timed = frame[frame["steady_s"].notna()]
    machines = sorted({str(json.loads(x).get("cpu", "?")) for x in timed["machine_info"].dropna()})
    flagged = int(timed["loaded"].fillna(0).sum())
    load = f" {flagged} of {len(timed)} timings were taken while other programs were busy." if flagged else ""
    return (
        f"Machine: {'; '.join(machines) or 'unknown'}. float64, at a certified relative gap of 1e-10.{load}"
    )


def headline() -> str:
    """The README's table, or the command that would fill it."""
    frame = rows_of("bars.sqlite")
    if frame is None or not races(frame):
        return f"No rows are kept yet: `{MAKE_BARS}` measures them and `python docs/generate.py` fills this table in."
    picture = f'<img src="docs/figures/headline.svg" width="640" alt="{ALT}">'
    source = "Rows: [bars.sqlite](docs/results/bars.sqlite); made again by"
    return f"{picture}\n\n{speed_table(frame)}\n\n{_where(frame)} {source} `{MAKE_BARS}`."


def answer() -> str:
    """The published comparison in one picture and one sentence, or the command that would make it."""
    store, picture = RESULTS / "compare.sqlite", RESULTS / "report" / "figures" / "profile-loss-gradient.svg"
    if not store.is_file() or not picture.is_file():
        return "No comparison is kept yet: `nox -s compare` makes one, and this picture with it."
    from reports.answers.verdict import verdicts
    from reports.data.load import load

    frame = load([store]).compared
    judged = [v for v in verdicts(frame, needs=("loss-gradient",)) if v.winner is not None]
    wins = Counter(v.winner.choice.solver for v in judged if v.winner is not None)
    ties = sum(bool(v.ties) for v in judged)
    told = ", ".join(f"{name} on {number}" for name, number in wins.most_common())
    alt = "For each choice the share of problems on which it is within a factor of the fastest certified time"
    return (
        f'<img src="{picture.relative_to(ROOT)}" width="560" alt="{alt}">\n\n'
        "*How often is a choice of solver, gradient mode and framework within a factor of the fastest one, at equal "
        f"certified accuracy? Of {len(judged)} problem families the quickest loss and gradient comes from {told} "
        f"({ties} by a tie). From [the published report](docs/results/report/report.html), "
        f"{len(frame):,} [rows](docs/results/compare.sqlite).*"
    )


def results() -> str:
    """The results page: speed, bars, and what the experiments wrote."""
    frame = rows_of("bars.sqlite")
    parts = ["## Ours against peers", ""]
    if frame is None or not races(frame):
        parts.append(f"No rows are kept yet: `{MAKE_BARS}` measures them.")
    else:
        parts += [f"![{ALT}](figures/headline.svg){{ .figure }}", "", speed_table(frame), "", _where(frame)]
        parts += ["", "## The bars", "", bars_table(frame)]
        parts += ["", f"Rows: [bars.sqlite](results/bars.sqlite); made again by `{MAKE_BARS}`."]
    written = (path for path in RESULTS.rglob("*") if path.suffix in (".md", ".html") and path.is_file())
    # a page that is there as Markdown too is one page of the site
    kept = sorted(p for p in written if p.suffix == ".md" or not p.with_suffix(".md").is_file())
    parts += [
        "",
        "## What the commands wrote",
        "",
        *(f"- [{_title(p)}]({p.relative_to(ROOT / 'docs')})" for p in kept),
    ]
    return "\n".join(parts)


def _title(path: Path) -> str:
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        return next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), path.stem)
    return text.partition("<title>")[2].partition("</title>")[0] or path.stem


def documents() -> dict[Path, str]:
    """Each document with its sections filled."""
    readme, page = ROOT / "README.md", ROOT / "docs" / "measured.md"
    return {
        readme: between(between(readme.read_text("utf-8"), "headline", headline()), "answer", answer()),
        page: between(page.read_text("utf-8"), "results", results()),
    }


def draw(folder: Path = FIGURES) -> None:
    """The figures that are computed: SVG for the page, CSV of what it shows."""
    from reports.figures import base, geometry

    frame = rows_of("bars.sqlite")
    found = [] if frame is None else races(frame)
    makers: list[Any] = [geometry.draw_geometry, geometry.draw_losses]
    for make in [*makers, *([lambda: draw_headline(found)] if found else [])]:
        with base.style():
            drawn = make()
            base.save(drawn, folder)
        (folder / f"{drawn.name}.png").unlink()


def draw_headline(found: list[dict[str, Any]]) -> Any:
    """A bar for each piece of work: how many times faster the best of ours is than the fastest certified peer."""
    import pandas as pd

    from reports.figures import base
    from reports.figures.palette import BLUE

    data = pd.DataFrame({"work": [_work(race) for race in found], "times": [race["ratio"] for race in found]})
    figure, ax = base.new(8.0, 0.8 + 0.42 * len(data))
    ax.barh(range(len(data)), data["times"] - 1.0, color=BLUE, left=1.0)
    for place, times in enumerate(data["times"]):
        ax.text(max(times, 1.0) * 1.08, place, f"{_significant(times)} x", va="center", fontsize=9.5)
    ax.set_yticks(range(len(data)), data["work"].str.replace(", ", ",\n"))
    ax.invert_yaxis()
    ax.set_xscale("log")
    ax.set_xlim(min(0.5, data["times"].min() / 2), data["times"].max() * 4)
    ax.set_xlabel("times faster than the fastest certified peer")
    ax.axvline(1.0, color=base.INK, lw=1)
    ax.grid(visible=False, axis="y")
    return base.Drawn("headline", "Ours against peers", ALT, ALT, figure, data, wide=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing, exit 1 where a document is out of date"
    )
    check = parser.parse_args().check
    stale = [path for path, text in documents().items() if path.read_text("utf-8") != text]
    if check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is not what the stored rows say: run `python docs/generate.py`")
        return 1 if stale else 0
    for path, text in documents().items():
        path.write_text(text, "utf-8")
    draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
