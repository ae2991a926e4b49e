"""Draw the items of the paper's propositions that are inequalities between functions, by maxima over a grid."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, RED

P = np.linspace(0.0, 1.0, 2001)  # one label in C = [0, 1]
SCORES = np.linspace(-2.0, 4.0, 121)
SMALLER = (P >= 0.25) & (P <= 0.75)
AT, TARGET = 0.5, 0.5  # the score that others are compared with, and y
BETA = float(np.linalg.norm([[0.0, 1.0], [1.0, -1.0]], 2))  # of u p - p^2/2, whose gradient is (p, u - p)
TITLES = {
    "order": "Conjugates 3: order reversing",
    "continuity": "Conjugates 4: continuity",
    "smoothness": "Conjugates 6: smoothness",
    "sets": "Losses 5: smaller set, smaller loss",
    "lipschitz": "Losses 7: Lipschitz bound",
}


def energy(u: np.ndarray | float) -> np.ndarray:
    """Return Phi(u, p) = u p - p^2/2 on the grid, [..., p]."""
    return np.asarray(np.asarray(u)[..., None] * P - 0.5 * P**2)


def items() -> pd.DataFrame:
    """Return for each item the side that is smaller and the side that is larger, over the score u or the target y."""
    omega = 0.5 * P**2
    values = energy(SCORES) - omega
    conjugate, best = values.max(-1), P[values.argmax(-1)]
    at = energy(AT) - omega
    apart = np.abs(energy(SCORES) - energy(AT)).max(-1)
    off = np.abs(SCORES - AT)
    y = int(np.abs(P - TARGET).argmin())
    inside = np.where(SMALLER, values, -np.inf).max(-1)
    steepest = float(np.abs(np.diff(at) / np.diff(P)).max())
    sides = {
        "order": (SCORES, (energy(SCORES) - 2 * omega).max(-1), conjugate, "2 Ω", "Ω"),
        "continuity": (SCORES, np.abs(conjugate - at.max()), apart, "change of the conjugate", "largest change of Φ"),
        "smoothness": (SCORES, np.abs(best - P[at.argmax()]), BETA * off, "change of p*", "β / γ times that of u"),
        "sets": (SCORES, inside - values[:, y], conjugate - values[:, y], "C = [1/4, 3/4]", "C = [0, 1]"),
        "lipschitz": (P, at.max() - at, steepest * np.abs(P - P[at.argmax()]), "loss", "α |y - p*|"),
    }  # fmt: skip
    parts = [
        pd.DataFrame({"item": item, "x": x, "smaller": low, "larger": high, "low": told, "high": above})
        for item, (x, low, high, told, above) in sides.items()
    ]
    return pd.concat(parts, ignore_index=True)


def draw() -> base.Drawn:
    """Draw one panel per item: the dashed line is never below the other."""
    data = items()
    figure, axes = base.panels(len(TITLES), across=3)
    for ax, (item, title) in zip(axes, TITLES.items(), strict=True):
        part = data[data["item"] == item]
        ax.plot(part["x"], part["larger"], color=RED, ls="--", label=part["high"].iloc[0])
        ax.plot(part["x"], part["smaller"], color=BLUE, label=part["low"].iloc[0])
        ax.set(title=title, xlabel="y" if item == "lipschitz" else "u")
        ax.legend(loc="best")
    least = float((data["larger"] - data["smaller"]).min())
    caption = (
        "One label, Φ = u p - p²/2 and Ω = p²/2 on [0, 1]. The conjugate falls where Ω grows; it changes by at most "
        f"the largest change of Φ (from u = {AT:g}); p*, which is its gradient, moves by at most β/γ times the "
        f"change of u; a smaller set has a smaller loss (y = {TARGET:g}); the loss is at most α |y - p*| "
        f"(u = {AT:g}). In each panel the dashed line less the other is at least {max(least, 0.0):.2g}. "
        "Maxima over a grid, from the definitions."
    )
    alt = "Five panels, each with a solid line that is nowhere above the dashed one."
    return base.Drawn(
        "items",
        "Five items of the propositions",
        caption,
        alt,
        figure,
        data[["item", "x", "smaller", "larger"]],
        wide=True,
    )
