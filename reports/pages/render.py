"""Write gathered content to files: one self-contained page, Markdown, LaTeX and PDF."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.store import RecordsError
from reports.data.links import Links
from reports.data.numbers import seconds, small
from reports.data.payload import ROW_LIMIT, csv_columns, embedded, packed, payload
from reports.data.sources import writing
from reports.figures.base import save_pdf
from reports.pages.asking import embedded_evidence, factor, said, shade, sure
from reports.pages.content import Report, gather
from reports.pages.markup import escape_latex, escape_markdown, latex, markdown

FORMATS = {"html": "report.html", "md": "report.md", "latex": "report.tex", "pdf": "report.pdf"}
TEMPLATES = Path(__file__).parent.parent / "templates"
NEED_TITLES = {
    "loss-gradient": "Loss and its gradient",
    "argmax-gradient": "p* with its derivative",
    "solve": "Solving alone",
}
# d3 and Observable Plot draw the details; a page without a question has only the data and the table of rows.
QUESTION_SCRIPTS = ("vendor/d3.min.js", "vendor/plot.umd.min.js", "chart.js", "question.js")


def build_report(
    results: Sequence[Path], out: Path, formats: Sequence[str] = ("html",), tol: float = 1e-6
) -> Path:
    """Write a report of the result files into the folder `out`; return the file of the first format.

    The folder then also holds rows.csv (every row), figures/ (SVG, PNG and data of each) and tables/ (CSV of each).

    Args:
        results: Result files, such as results/compare.sqlite.
        out: The folder; it is made where it is missing.
        formats: One or more of "html", the default, "md", "latex" and "pdf".
        tol: The certified relative gap that counts as solved; 1e-6 by default.

    Returns:
        The file of the first format, such as out/report.html.

    Raises:
        RecordsError: A format is not known, a file cannot be read or holds no rows, or the folder cannot be written.

    Example:
        >>> from pathlib import Path
        >>> from bench.store import Store
        >>> from reports.pages.render import build_report
        >>> with Store("results.sqlite") as store:
        ...     key = store.put({"kind": "compare", "status": "ok", "problem": "toy", "solver": "DualNewton"})
        >>> build_report([Path("results.sqlite")], Path("page"), formats=["md"]).name
        'report.md'
    """
    wrong = [f for f in formats if f not in FORMATS]
    if wrong or not formats:
        raise RecordsError(
            f"format is {', '.join(wrong) or 'empty'}; it must be one of {', '.join(FORMATS)}."
        )
    out = Path(out)
    with writing(out):
        report = gather(results, out / "figures", tol)
        return write_formats(report, out, formats, FORMATS)


def write_formats(report: Report, out: Path, formats: Sequence[str], names: Mapping[str, str]) -> Path:
    """Write the gathered report under the given file names; return the file of the first format."""
    (out / "tables").mkdir(parents=True, exist_ok=True)
    _write_tables(report, out)
    for name in dict.fromkeys(["html", *formats] if "pdf" in formats else formats):
        if name == "html":
            (out / names[name]).write_text(page(report), encoding="utf-8")
        elif name == "md":
            (out / names[name]).write_text(_fill("report.md.j2", report, md=True), encoding="utf-8")
        elif name == "latex":
            for picture in report.pictures:
                save_pdf(picture.drawn, out / "figures")
            (out / names[name]).write_text(_fill("report.tex.j2", report, md=False), encoding="utf-8")
        else:
            from reports.pages.pdf import write_pdf

            write_pdf(report, out / names["html"], out / names["pdf"])
    return out / names[formats[0]]


def _write_tables(report: Report, out: Path) -> None:
    frame = report.rows.frame
    frame[list(csv_columns(frame))].to_csv(out / "rows.csv", index=False)
    for table in report.tables:
        table.frame().to_csv(out / "tables" / f"{table.name}.csv", index=False)


def page(report: Report, limit: int = ROW_LIMIT) -> str:
    """Return the whole page as text with style, script, figures and rows; nothing is fetched when it opens."""
    links = Links()
    names = ("data.js", *(QUESTION_SCRIPTS if report.asking else ()), "table.js")
    scripts = [(TEMPLATES / name).read_text("utf-8") for name in names]
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    context = _context(report) | {
        "link": links.to, "style": (TEMPLATES / "style.css").read_text("utf-8"), "scripts": scripts,
        "hashes": " ".join(f"'sha256-{h}'" for h in hashes), "factor": factor, "shade": shade, "sure": sure,
        "said": said(report.asking.question, report.asking.lines) if report.asking else "",
    }  # fmt: skip
    environment = _environment()
    # The body is filled first: only then is it known which rows its numbers link to.
    body = environment.get_template("body.html.j2").render(context)
    evidence = embedded_evidence(report.asking, links) if report.asking else None
    held = embedded(report.rows.frame, links, limit)
    numbers = report.asking.evidence.numbers if report.asking else None
    context |= {
        "body": _safe(body), "held": len(held), "payload": _safe(payload(held, links, numbers)),
        "evidence": _safe(packed(evidence) if evidence else ""),
    }  # fmt: skip
    return environment.get_template("page.html.j2").render(context)


def _context(report: Report) -> dict[str, Any]:
    return {"report": report, "seconds": seconds, "small": small, "need_titles": NEED_TITLES}


def _code(text: str) -> Any:
    """Return escaped text in which what stands between backquotes is set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _safe(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _environment() -> Any:
    """Return the environment that escapes everything in the page, unless a template says otherwise about our
    own SVG."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined,
    )  # fmt: skip
    environment.filters["code"] = _code
    return environment


def _fill(template: str, report: Report, md: bool) -> str:
    """Return the environment of Markdown or LaTeX: without HTML, each text goes through its own escape, `e`."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    marks = ("{{", "}}", "{%", "%}", "{#", "#}") if md else ("<<", ">>", "<%", "%>", "<#", "#>")
    names: Any = ("variable_start_string", "variable_end_string", "block_start_string", "block_end_string",
             "comment_start_string", "comment_end_string")  # fmt: skip
    delimiters: dict[str, Any] = dict(zip(names, marks, strict=True))
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=False, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined, **delimiters,
    )  # fmt: skip
    environment.filters["e"] = escape_markdown if md else escape_latex
    environment.filters["table"] = markdown if md else latex
    return environment.get_template(template).render(_context(report))
