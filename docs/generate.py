"""Write the parts of the documents that are measured or drawn: tables between markers, pages and figures.

    python docs/generate.py            fills README.md, docs/measured.md and docs/reference/rows.md, and draws their two
                                       pictures
    python docs/generate.py --check    changes nothing; exits 1 where one of these differs from the stored rows
    python docs/generate.py --site     also makes what the site shows and the source tree does not keep: the report,
                                       the experiments' pages and the other figures (`nox -s docs` does this first)

Everything comes from the rows in docs/results. Where there are none, the section names the command that makes them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # a checkout that was never installed
    sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    import pandas as pd

    from reports.answers.evidence import Evidence
    from reports.answers.question import Question
    from reports.figures.base import Drawn

RESULTS = ROOT / "docs" / "results"
FULL = RESULTS / "full.sqlite"
FIGURES = ROOT / "docs" / "figures"
MOST_LINES = 18  # of the table in the README, which is to stay under 120 lines
MAKE_BARS = "nox -s bars -- --store docs/results/bars.sqlite"
KEPT = ("headline", "answers")  # the README and the results show these, so the source tree keeps them
# What `--site` makes beside them, and what the site calls it; none of it is in the source tree.
PAGES = {
    "results/imitation.md": "Imitation learning",
    "results/multilabel.md": "Multilabel classification",
    "results/report/report.html": "What to use, and how sure (gfy report)",
    "results/published.md": "Published runs (gfy archive)",
}
MADE = (*PAGES, "figures/geometry.svg", "figures/loss-curves.svg")


def between(text: str, name: str, body: str) -> str:
    """Return the text with the section between the markers replaced."""
    begin, end = f"<!-- begin {name}: written by `python docs/generate.py` -->", f"<!-- end {name} -->"
    head, found, rest = text.partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"the section {name!r} has no markers: it needs {begin} and {end}")
    return f"{head}{begin}\n{body.strip()}\n{end}{rest.partition(end)[2]}"


def bars() -> pd.DataFrame | None:
    """Return the newest rows of the bars, or None where the store is not there or holds no race."""
    from bench.store import read
    from reports.answers.bars import newest, races

    path = RESULTS / "bars.sqlite"
    frame = newest(read(path)) if path.is_file() else None
    return frame if frame is not None and races(frame) else None


def headline() -> str:
    """Return the README's table in words, or the command that would fill it."""
    from reports.answers.bars import where, words_table

    frame = bars()
    if frame is None:
        return f"No rows are kept yet: `{MAKE_BARS}` measures them and `python docs/generate.py` fills this table in."
    return (
        f"{words_table(frame, MOST_LINES)}\n\n"
        "Each time is that of one call for the whole batch, of the fastest "
        f"entry of its column that was certified. {where(frame)} The [results](docs/measured.md) name every contender; "
        f"`{MAKE_BARS}` measures the [rows](docs/results/bars.sqlite) again."
    )


def answer() -> str:
    """Return the published comparison in one picture and one sentence, or the command that would make it."""
    store = RESULTS / "compare.sqlite"
    if not store.is_file():
        return "No comparison is kept yet: `nox -s compare` makes one, and this picture with it."
    evidence, question = published_answer()
    from dataclasses import replace

    from reports.answers.question import answer as answered
    from reports.data.words import BACKENDS

    told = []
    for place in sorted(
        p for p in evidence.counts if p._replace(backend="") == question.place._replace(backend="")
    ):
        lines = answered(evidence, replace(question, place=place))
        wins = Counter(line.best.solver for line in lines if line.best is not None)
        ties = sum(line.sure == "tie" for line in lines)
        words = ", ".join(f"{name} on {number}" for name, number in wins.most_common())
        told.append(
            f"in {BACKENDS.get(place.backend, place.backend)} {words} of the {sum(wins.values())} problems with such a "
            f"choice ({ties} by a tie)"
        )
    alt = "For each problem the fastest certified choice and its time, in each framework"
    return (
        f"![{alt}](figures/answers.svg){{ .figure }}\n\n"
        "*The fastest choice for the loss and its gradient that is certified to a relative gap of 1e-6, one line per "
        f"problem, frameworks apart: {'; '.join(told)}. From {sum(evidence.counts.values()):,} "
        "[rows](results/compare.sqlite); `gfy report --results docs/results/compare.sqlite --open` answers for "
        "your framework, need and size.*"
    )


def published_answer() -> tuple[Evidence, Question]:
    """Return the evidence in the published comparison, and the question that the README answers."""
    from reports.answers.evidence import collect
    from reports.answers.question import preset
    from reports.data.load import load

    evidence = collect(load([RESULTS / "compare.sqlite"]).compared, ["loss-gradient"], [1e-6])
    question = preset(evidence)
    assert question is not None, "the published comparison has rows"
    return evidence, question


def results() -> str:
    """Return the results page: speed, bars, and the pages that the site has beside it."""
    from reports.answers.bars import bars_table, speed_table, where
    from reports.figures.headline import ALT

    frame = bars()
    parts = ["## The fastest choice for each problem", "", answer(), "", "## Ours against peers", ""]
    if frame is None:
        parts.append(f"No rows are kept yet: `{MAKE_BARS}` measures them.")
    else:
        parts += [f"![{ALT}](figures/headline.svg){{ .figure }}", "", speed_table(frame), "", where(frame)]
        parts += ["", "## The bars", "", bars_table(frame)]
        parts += ["", f"The rows are in [bars.sqlite](results/bars.sqlite); `{MAKE_BARS}` makes them again."]
    if FULL.is_file():
        parts += ["", "## The whole matrix", "", whole()]
    parts += ["", "## What the commands write", "", "Made from the stored rows when the site is built:", ""]
    return "\n".join([*parts, *(f"- [{title}]({path})" for path, title in PAGES.items())])


def whole() -> str:
    """Return what the rows of the suite `full` say of each solver."""
    from bench.plan.suite import read
    from reports.answers.matrix import counts, matrix_table
    from reports.answers.tables import busy
    from reports.data.load import load

    frame = load([FULL]).compared
    asked, found = {entry.family for entry in read("full").problems}, sorted(set(frame["family"]))
    partly = (
        f" The run was stopped before its end: it covers {len(found)} of the {len(asked)} families "
        f"({', '.join(found)})."
    )
    stopped = partly if len(found) < len(asked) else ""
    local = frame[(frame["family"] == "spen-gini") & (frame["status"] == "not converged")]
    older = (
        " Auto's answers that are not certified to 1e-6 are local maxima of `spen-gini`, whose energy is not concave: "
        "their rows are older than the certificate that uses the multipliers of its kinks, and their gaps are about "
        "1e-12 by that certificate."
    )
    old = older if (local["converged"] == 1).any() else ""
    return (
        "The suite `full` measures every family at several sizes, ranks, conditionings and seeds, with every solver "
        f"and gradient mode that serves it.{stopped} {counts(frame)}{busy(frame)} A problem is counted once per seed "
        "and framework, in float64, and is certified where the relative gap of one of its rows is small enough. A "
        'solver\'s "converged" is true where the certified gap is at most ten times the tolerance, or rounding.'
        f"{old}\n\n{matrix_table(frame)}\n\nThe rows are in [full.sqlite](results/full.sqlite); "
        "`nox -s compare -- --suite full` makes them again."
    )


def beyond(kind: str) -> str:
    """Return the table of an experiment beyond the paper, or the command that would fill it."""
    from reports.answers.beyond import tables, text
    from reports.data.load import load

    path, make = RESULTS / "beyond.sqlite", f"`gfy reproduce {kind} --out docs/results`"
    frame = load([path]).frame if path.is_file() else None
    if frame is None or kind not in (table.name for table in tables(frame)):
        return f"No rows are kept yet: {make} measures them."
    return f"{text(frame, kind)}\n\nThe rows are in [beyond.sqlite](../results/beyond.sqlite); {make} makes them again."


def documents() -> dict[Path, str]:
    """Return each document with its sections filled."""
    from bench.store.schema import reference

    sections = {
        ROOT / "README.md": {"headline": headline},
        ROOT / "docs" / "measured.md": {"results": results},
        ROOT / "docs" / "reference" / "rows.md": {"columns": reference},
        ROOT / "docs" / "how-to" / "amortise.md": {"amortised": lambda: beyond("amortised")},
        ROOT / "docs" / "how-to" / "joint.md": {"minmin": lambda: beyond("minmin")},
        ROOT / "docs" / "how-to" / "rankings.md": {"ranking": lambda: beyond("ranking")},
        ROOT / "docs" / "how-to" / "f-divergences.md": {"roots": lambda: beyond("roots")},
    }
    found = {}
    for path, parts in sections.items():
        text = path.read_text("utf-8")
        for name, make in parts.items():
            text = between(text, name, make())
        found[path] = text
    return found


def pictures() -> list[Drawn]:
    """Return the pictures of the README, from the stored rows."""
    from reports.answers.bars import races
    from reports.figures import base, draw_all, headline
    from reports.figures.palette import Palette

    frame, store = bars(), RESULTS / "compare.sqlite"
    drawn: list[Drawn | None] = []
    with base.style():
        drawn.append(headline.draw(races(frame)) if frame is not None else None)
        if store.is_file():
            evidence, question = published_answer()
            drawn += draw_all.answered(evidence, question, Palette(evidence.origins))
    return [d for d in drawn if d is not None]


def digest(drawn: Drawn) -> str:
    """Return a fingerprint of the data behind a picture, which is kept in its file, since the pixels depend
    on matplotlib."""
    from bench.store import content_hash

    told = drawn.data.map(lambda x: f"{x:.6g}" if isinstance(x, float) else str(x))
    return content_hash(told.to_dict("list"))[:16]


def draw(folder: Path = FIGURES) -> None:
    """Draw the pictures of the README as SVG files that name the data they show."""
    from reports.figures.base import on_white, svg_text

    folder.mkdir(parents=True, exist_ok=True)
    for drawn in pictures():
        svg = re.sub(
            r"(<svg [^>]*>)", rf"\1<desc>data {digest(drawn)}</desc>", on_white(svg_text(drawn)), count=1
        )
        (folder / f"{drawn.name}.svg").write_text(svg, "utf-8")


def site(docs: Path = ROOT / "docs") -> None:
    """Make what the site shows and the source tree does not keep (`MADE`), from the rows in docs/results."""
    from bench.experiments.multilabel.written import check_rows, protocol
    from bench.store import read
    from reports.answers.multilabel import STUDIES, study
    from reports.figures import base, draw_all
    from reports.pages.imitation import write_imitation
    from reports.pages.multilabel import write_multilabel, write_study
    from reports.pages.render import build_report

    out = docs / "results"
    stores = [
        RESULTS / f"{name}.sqlite" for name in ("compare", "multilabel", "imitation", "theory", "beyond")
    ]
    kept = {store.stem: store for store in stores if store.is_file()}
    for drawn in draw_all.explained():
        base.save_picture(drawn, docs / "figures")
    build_report(list(kept.values()), out / "report")
    trained = read(kept["multilabel"])
    check_rows(trained, protocol().digest)
    write_multilabel(trained, out)
    for name in STUDIES:
        if len(study(trained, name)):
            write_study(trained, name, out)
    write_imitation(read(kept["imitation"]), out)
    published(docs)


def published(docs: Path, archive: Path = ROOT / "docs" / "published") -> Path:
    """Write the index of all published runs, and the report of each beside it."""
    import tempfile

    from bench.sharing.archive import runs, unpacked
    from reports.pages.render import build_report

    out = docs / "results"
    head = (
        "# Published runs\n\nEvery run here was checked when it came: its checksums, the agreement of its columns, "
        "and a sample of its rows that was certified again. Times of two machines are never compared.\n"
    )
    lines = [
        "| run | rows | machines | version | problems | from | to | pack |",
        "|---|---|---|---|---|---|---|---|",
    ]
    listed = runs(str(archive))
    for run in listed:
        with tempfile.TemporaryDirectory() as folder:
            store = unpacked(archive / run.file, Path(folder) / f"{run.name}.sqlite")
            build_report([store], out / "published" / run.name)
        lines.append(
            f"| [{run.name}](published/{run.name}/report.html) | {run.rows} | {', '.join(run.machines)} "
            f"| {run.version} | {len(run.problems)} | {run.first[:10]} | {run.last[:10]} "
            f"| [{run.file}](../published/{run.file}) |"
        )
    if not listed:
        lines = ["No run is published yet: `gfy submit pack` makes one ready."]
    if (out / "asv" / "index.html").is_file():
        lines += ["", "[The dashboard of asv](asv/index.html) shows every stored benchmark over the commits."]
    page = out / "published.md"
    page.write_text("\n".join([head, *lines, ""]), "utf-8")
    return page


def stale() -> list[Path]:
    """Return the documents and pictures that differ from the stored rows."""
    found = [path for path, text in documents().items() if path.read_text("utf-8") != text]
    for drawn in pictures():
        path = FIGURES / f"{drawn.name}.svg"
        if not path.is_file() or f"<desc>data {digest(drawn)}</desc>" not in path.read_text("utf-8"):
            found.append(path)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="Change nothing, and exit with 1 where something is out of date."
    )
    parser.add_argument(
        "--site", action="store_true", help="Also make what the site shows and the source tree does not keep."
    )
    options = parser.parse_args()
    if options.check:
        found = stale()
        for path in found:
            print(f"{path.relative_to(ROOT)} is not what the stored rows say: run `python docs/generate.py`")
        return 1 if found else 0
    for path, text in documents().items():
        path.write_text(text, "utf-8")
    draw()
    if options.site:
        site()
    return 0


if __name__ == "__main__":
    sys.exit(main())
