"""Write the report as PDF: printed by Chromium where it is installed, else drawn page by page with matplotlib."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from reports.data.numbers import seconds
from reports.pages.content import Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update",    "--disable-sync", "--no-first-run", "--no-pdf-header-footer",
)  # fmt: skip


def write_pdf(report: Report, page: Path, out: Path) -> str:
    """Write `out` from the page already written; return what made it."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser and _print(browser, page, out):
        return f"Chromium ({browser})"
    _draw(report, out)
    return "matplotlib"


def _print(browser: str, page: Path, out: Path) -> bool:
    out.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="gfy-print-", ignore_cleanup_errors=True) as profile:
        command = [browser, *QUIET, f"--user-data-dir={profile}", f"--print-to-pdf={out.resolve()}",
                   page.resolve().as_uri()]  # fmt: skip
        try:
            subprocess.run(command, capture_output=True, timeout=120, check=True)
        except (subprocess.SubprocessError, OSError):
            return False  # the drawn PDF is the answer then; the page itself is already written
    return out.is_file() and out.stat().st_size > 1000


def _draw(report: Report, out: Path) -> None:
    """Draw a page of verdicts, then one page per figure."""
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure

    lines = [report.headline, ""]
    for v in report.verdicts:
        if v.winner is None:
            answer = "nothing certified"
        else:
            tie = f", tie with {v.ties[0].choice.label()}" if v.ties else ""
            answer = f"{v.winner.choice.label()}, {seconds(v.winner.time)}{tie}"
        lines.append(f"{v.group} | {v.need} | {v.family} ({v.device}): {answer}")
    lines += [
        "",
        "Known limitations",
        *report.limitations,
        "",
        "Drawn with matplotlib (Chromium was not found).",
    ]
    with PdfPages(out) as pages:
        for start in range(0, len(lines), 60):
            sheet = Figure(figsize=(8.27, 11.69))
            text = "\n".join(line[:130] for line in lines[start : start + 60])
            sheet.text(0.06, 0.96, text, va="top", fontsize=8, parse_math=False)
            pages.savefig(sheet)
        for picture in report.pictures:
            pages.savefig(picture.drawn.figure, bbox_inches="tight")
