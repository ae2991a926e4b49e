"""Draw Dolan-Moré performance profiles: the share of problems certified in at most so many times the fastest time."""

from __future__ import annotations

from typing import Any

import pandas as pd

from reports.answers.choices import Grid
from reports.answers.profiles import profiles
from reports.figures import base
from reports.figures.palette import Palette, dash

LINES = 12


def draw(table: Grid, palette: Palette, tol: float, need: str) -> base.Drawn | None:
    """Draw one step curve per choice, the best dozen by area; return None where nothing was certified."""
    curves = profiles(table)
    if not curves:
        return None
    data = pd.DataFrame(
        [(*_fields(c.choice), f, s) for c in curves for f, s in zip(c.factor, c.share, strict=True)],
        columns=["solver", "gradient", "backend", "device", "dtype", "factor", "share"],
    )
    shown = curves[:LINES]
    names = _names([curve.choice for curve in shown])
    figure, ax = base.new(6.2, 3.7 + 0.2 * -(-len(shown) // _columns(names)))
    largest = max(10.0, min(1e4, float(data["factor"].max())))
    for curve, name in zip(shown, names, strict=True):
        c = curve.choice
        x = [1.0, *curve.factor, largest * 1.5]
        y = [curve.at(1.0), *curve.share, curve.share[-1]]
        open_marker = {} if c.gradient in ("none", "envelope") else {"markerfacecolor": "none", "lw": 1.0}
        ax.step(x, y, where="post", color=palette.colour(c.solver), ls=dash(c.backend), label=name,
                marker=palette.marker(c.solver), markevery=[0], **open_marker)  # fmt: skip
    base.log_axes(ax, "x")
    ax.set(xlim=(0.97, largest * 1.2), ylim=(0, 1.03), xlabel="factor of the fastest certified time",
           ylabel="share of problems")  # fmt: skip
    figure.legend(
        loc="outside lower center", ncols=_columns(names), fontsize=9.5, columnspacing=1.2, handlelength=2.0
    )
    problems = int(table.solved.any(axis=0).sum())
    nobody = len(table.instances) - problems
    caption = (
        f"{problems} problems certified at {tol:.0e} by someone"
        + (f" ({nobody} by nobody)" if nobody else "")
        + ". "
        "The height at the left edge is how often a choice is fastest; the height at the right how often it "
        f"certifies at all. The {min(LINES, len(curves))} best of {len(curves)} choices by area are drawn."
    )
    top = curves[0]
    alt = (
        f"Performance profile of {min(LINES, len(curves))} choices on {problems} problems. "
        f"{top.choice.label()} is "
        f"ahead: fastest on {100 * top.at(1.0):.0f}% and within a factor of ten on {100 * top.at(10.0):.0f}%."
    )
    words = {"solve": "solving", "loss-gradient": "loss and gradient"}.get(need, need)
    return base.Drawn(f"profile-{need}", f"Performance profile, {words}", caption, alt, figure, data)


def _names(choices: list[Any]) -> list[str]:
    """Return the solver and whatever else the choices differ in; what they have in common is left out."""
    fields = [_fields(c) for c in choices]
    told = [0, *(i for i in range(1, 5) if len({f[i] for f in fields}) > 1)]
    return [" · ".join(f[i] for i in told if f[i] != "none") for f in fields]


def _columns(names: list[str]) -> int:
    """Set two columns of names where they fit the width, else one."""
    return 2 if max(map(len, names)) <= 34 else 1


def _fields(choice: object) -> tuple[str, ...]:
    return tuple(getattr(choice, f) for f in ("solver", "gradient", "backend", "device", "dtype"))
