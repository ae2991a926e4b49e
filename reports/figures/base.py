"""Define what every figure shares: its style, its SVG for the page and its files."""

from __future__ import annotations

import io
import math
import multiprocessing
import os
import re
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from reports.figures.palette import Palette, dash

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, RULE, PAPER = "#16202c", "#5b6675", "#d5dbe3", "#fefefe"
# In the page these become variables, so that one picture serves the light and the dark page.
VARIABLES = {INK: "var(--ink)", MUTED: "var(--muted)", RULE: "var(--rule)", PAPER: "var(--paper)"}
PANEL_LIMIT = 12
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
STYLE: dict[str, Any] = {
    "figure.constrained_layout.use": True, "figure.facecolor": "none", "axes.facecolor": "none",
    "savefig.facecolor": "none", "font.size": 10.5, "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"], "axes.titlesize": 10.5, "axes.labelsize": 10.5,
    "xtick.labelsize": 9.5, "ytick.labelsize": 9.5, "legend.fontsize": 9.5, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": MUTED, "axes.labelcolor": INK,
    "axes.titlecolor": INK, "text.color": INK, "xtick.color": MUTED, "ytick.color": MUTED,
    "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.grid": True, "grid.color": RULE,
    "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.linewidth": 1.6, "lines.markersize": 5.5,
    "svg.fonttype": "none", "axes.formatter.use_mathtext": False, "xtick.minor.size": 0,
    "ytick.minor.size": 0,
}  # fmt: skip


@dataclass
class Drawn:
    """Hold a figure and its words: `alt` says what there is to see, `caption` how to read it."""

    name: str
    title: str
    caption: str
    alt: str
    figure: Figure
    data: pd.DataFrame
    wide: bool = False


@cache
def settings() -> dict[str, Any]:
    """Return seaborn's grid and context with our own sizes and the colours that the page replaces."""
    import seaborn as sns

    return {**sns.plotting_context("paper"), **sns.axes_style("whitegrid"), **STYLE}


@contextmanager
def style() -> Iterator[None]:
    """Set the one style of all figures, which are drawn without a display."""
    import matplotlib as mpl

    with mpl.rc_context(settings()):
        yield


def new(width: float = 6.0, height: float = 4.0) -> tuple[Figure, Axes]:
    """Make one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def panels(
    number: int, across: int = 3, width: float = 10.5, each: float = 2.9, **share: Any
) -> tuple[Figure, list[Axes]]:
    """Make `number` small multiples in rows of `across`, under room for one legend."""
    from matplotlib.figure import Figure

    columns = min(across, number)
    lines = -(-number // columns)
    wide = width if columns == across else width * max(columns, 1.6) / across
    figure = Figure(figsize=(wide, each * lines + 0.9))
    grid = figure.subplots(lines, columns, squeeze=False, **share).ravel().tolist()
    for spare in grid[number:]:
        spare.set_visible(False)
    return figure, grid[:number]


def legend_below(figure: Figure, handles: dict[str, Any], columns: int = 4) -> None:
    """Draw one legend for the whole figure, each name once, in as many columns as the figure has room for."""
    widest = max((len(name) for name in handles), default=1)
    room = max(1, int(figure.get_figwidth() / max(1.4, 0.085 * widest + 0.75)))
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(columns, room, len(handles)),
        )


def power(value: float) -> str:
    """Return 10 to a power in plain characters, which is much faster to set than mathematics and can be read aloud."""
    exponent = round(math.log10(value)) if value > 0 else 0
    return "10" + str(exponent).translate(RAISED)


def log_axes(ax: Axes, which: str = "xy", ticks: int = 6) -> None:
    """Set logarithmic axes with only decades as ticks, widened to hold at least two of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for name in which:
        axis = getattr(ax, f"{name}axis")
        getattr(ax, f"set_{name}scale")("log")
        low, high = getattr(ax, f"get_{name}lim")()
        if 0 < low < high < low * 110:  # any such span holds two powers of ten
            middle = (low * high) ** 0.5
            getattr(ax, f"set_{name}lim")(middle / 110**0.5, middle * 110**0.5)
        axis.set_major_locator(LogLocator(numticks=ticks))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda x, _: power(x)))


def solver_handles(palette: Palette, solvers: Iterable[str], backends: Iterable[str] = ()) -> dict[str, Any]:
    """Return legend entries: one colour and marker per solver, one dash per backend."""
    from matplotlib.lines import Line2D

    dashes = sorted(set(backends))
    line = "-" if dashes else ""
    out: dict[str, Any] = {}
    for name in sorted(set(solvers)):
        out[name] = Line2D([], [], color=palette.colour(name), marker=palette.marker(name), ls=line)
    for backend in dashes:
        out[backend] = Line2D([], [], color=MUTED, ls=dash(backend))
    return out


def link(row_id: str) -> str:
    """Return the address of a row in the page."""
    return f"#row-{row_id}"


def svg_text(drawn: Drawn) -> str:
    """Return the figure as SVG, with the same bytes for the same data."""
    import matplotlib as mpl

    with mpl.rc_context({**settings(), "svg.hashsalt": drawn.name, "figure.constrained_layout.use": False}):
        if drawn.figure.get_layout_engine() is not None:
            drawn.figure.draw_without_rendering()
            drawn.figure.set_layout_engine(None)  # the places found serve every format: half the work
        text = io.StringIO()
        drawn.figure.savefig(text, format="svg", metadata={"Date": None, "Creator": "gfy report"})
    return text.getvalue()


def inline(svg: str, name: str) -> str:
    """Return the SVG as part of a page: the page's colours, ids of its own, links out of the tab order."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    namespaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    box = re.search(r'viewBox="([^"]+)"', body)
    size = box.group(1) if box else "0 0 432 288"
    # Letters are never blown up: a small figure stays small on a wide page.
    widest = round(1.55 * float(size.split()[2]))
    opening = f'<svg viewBox="{size}" {namespaces} focusable="false" style="max-width:{widest}px">'
    body = re.sub(r"<svg [^>]*>", lambda _: opening, body, count=1)
    for colour, variable in VARIABLES.items():
        body = body.replace(colour, variable)
    body = re.sub(r'<a xlink:href="(#[^"]*)"[^>]*>', r'<a href="\1" tabindex="-1">', slimmed(body, name))
    return re.sub(r"\s*\n\s*", "\n", body)


def slimmed(body: str, name: str) -> str:
    """Write the same drawing in two thirds of the bytes: each style once, short ids that start with the figure's name,
    no groups without an attribute, places to a tenth of a point."""
    used = dict.fromkeys(re.findall(r'(?:url\(|href=")#([^")]+)', re.sub(r"<a [^>]*>", "", body)))
    short = {old: f"{name}-{number}" for number, old in enumerate(used)}
    body = re.sub(r' id="([^"]*)"', lambda m: f' id="{short[m[1]]}"' if m[1] in short else "", body)
    body = re.sub(r"(url\(|<use [^>]*href=\")#([^\")]+)", lambda m: f"{m[1]}#{short[m[2]]}", body)
    # Comments repeat the letters, and a path of one point draws nothing.
    body = re.sub(r"<!--.*?-->|<path d=\"M [\d.-]+ [\d.-]+\s*\"[^>]*/>", "", body, flags=re.S)
    # A marker has an id and is drawn in many places: its own shape keeps a hundredth of a point.
    body = re.sub(
        r'<path id=[^>]*>| (?:d|x|y|transform)="[^"]*"',
        lambda m: _placed(m[0], 2 if m[0][0] == "<" else 1),
        body,
    )
    body = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", body)
    fonts = re.search(r"font-family: [^;\"]*; ", body)
    if fonts is not None:  # the first one counts for the whole drawing
        body = body.replace(fonts.group(0), "").replace(' style="', f' style="{fonts.group(0)}', 1)
    body = re.sub(r' clip-path="([^"]*)"', r' style="clip-path: \1"', _ungrouped(body))
    often = [style for style, count in Counter(re.findall(r' style="([^"]*)"', body)).items() if count > 3]
    for number, style in enumerate(often):
        body = body.replace(f' style="{style}"', f' class="s{number}"')
    body = re.sub(r' class="(s\d+)" class="', r' class="\1 ', body)
    body = re.sub(r' style="([^"]*)" style="', r' style="\1; ', body)
    rules = "".join(f"#{name}-svg .s{number}{{{style}}}" for number, style in enumerate(often))
    return body.replace("<svg ", f'<svg id="{name}-svg" ', 1).replace("</style>", f"{rules}</style>", 1)


def _placed(text: str, decimals: int) -> str:
    """Return coordinates with at most so many decimals, and path commands without the spaces they do not need."""
    text = re.sub(r"\d+\.\d+", lambda m: f"{float(m[0]):.{decimals}f}".rstrip("0").rstrip("."), text)
    return re.sub(r"\s*\b([MLCQz])\s+", r"\1", text)


def _ungrouped(body: str) -> str:
    """Return the drawing without groups that have no attribute."""
    open_groups: list[bool] = []

    def kept(found: re.Match[str]) -> str:
        if found[0].endswith("/>"):
            return ""
        if found[0] != "</g>":
            open_groups.append(found[0] != "<g>")
            return found[0] if open_groups[-1] else ""
        return found[0] if open_groups.pop() else ""

    return re.sub(r"</?g\b[^>]*>", kept, body)  # an empty group is left out as well


def on_white(svg: str) -> str:
    """Return the SVG with a white background, for a file that is viewed by itself."""
    return re.sub(r"(<svg [^>]*>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1)


def save(drawn: Drawn, folder: Path) -> str:
    """Write NAME.svg, NAME.png and NAME.csv, and return the SVG for the page."""
    svg = save_picture(drawn, folder)
    drawn.data.to_csv(folder / f"{drawn.name}.csv", index=False)
    return inline(svg, drawn.name)


def save_all(drawn: Sequence[Drawn], folder: Path) -> list[str]:
    """Save figures, on two cores where the process can be forked, and return their SVG in the same order.

    Setting the letters of a figure takes longer than drawing it, and the figures know nothing of each other.
    """
    alone = len(drawn) < 4 or (os.cpu_count() or 1) < 2 or threading.active_count() > 1
    if alone or "fork" not in multiprocessing.get_all_start_methods() or sys.platform == "darwin":
        return [save(d, folder) for d in drawn]
    # Figures hold functions and cannot be sent: the two processes are copies of this one and take theirs by number.
    turns = sorted(range(len(drawn)), key=lambda i: -len(drawn[i].figure.axes))
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork"), _hold, (drawn, folder)) as pool:
        saved = dict(zip(turns, pool.map(_save_held, turns), strict=True))
    return [saved[i] for i in range(len(drawn))]


_held: tuple[Sequence[Drawn], Path]


def _hold(drawn: Sequence[Drawn], folder: Path) -> None:
    global _held
    _held = drawn, folder


def _save_held(number: int) -> str:
    drawn, folder = _held
    return save(drawn[number], folder)


def save_pdf(drawn: Drawn, folder: Path) -> None:
    """Write NAME.pdf for a paper: the same bytes for the same data, with letters that can be searched."""
    import matplotlib as mpl

    with mpl.rc_context({**settings(), "pdf.fonttype": 42}):
        drawn.figure.savefig(folder / f"{drawn.name}.pdf", metadata={"CreationDate": None})


def save_picture(drawn: Drawn, folder: Path) -> str:
    """Write NAME.svg and NAME.png, and return the SVG without its white background."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    svg = svg_text(drawn)
    (folder / f"{drawn.name}.svg").write_text(on_white(svg), encoding="utf-8")
    with mpl.rc_context({**settings(), "figure.constrained_layout.use": False}):
        drawn.figure.savefig(
            folder / f"{drawn.name}.png", dpi=140, facecolor="#ffffff", pil_kwargs={"compress_level": 3}
        )
    return svg
