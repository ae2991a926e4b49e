"""Draw generalized Bregman divergences of a double well beside the usual ones, from their definitions on a grid."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, RED
from reports.figures.theory_biconjugate import SLOPES, P, double_well

PLACES = (-1.2, 0.0, 0.6)
BENDS = (0.0, -2.0, -4.0)  # a in b p + a p^2 / 2; with a = -4 = min Omega'' every point is touched


def divergences() -> pd.DataFrame:
    """Return D(p, p') for three p': the usual one, and that of the coupling b p + a p^2 / 2."""
    omega = double_well(P)
    energies = np.concatenate([SLOPES[:, None] * P + 0.5 * a * P**2 for a in BENDS])
    conjugate = (energies - omega).max(axis=1)
    parts = []
    for place in PLACES:
        at = int(np.abs(P - place).argmin())
        touching = energies[(energies[:, at] - conjugate).argmax()]
        slope = 4.0 * P[at] * (P[at] ** 2 - 1.0)
        told = {
            "usual": omega - omega[at] - slope * (P - P[at]),
            "generalized": omega - touching - omega[at] + touching[at],
        }
        parts += [
            pd.DataFrame({"place": place, "kind": kind, "p": P, "divergence": d}) for kind, d in told.items()
        ]
    return pd.concat(parts, ignore_index=True)


def draw() -> base.Drawn:
    """Draw one panel per p': the usual divergence goes below zero, the generalized one does not."""
    data = divergences()
    figure, axes = base.panels(len(PLACES), across=3, sharey=True)
    handles: dict[str, object] = {}
    styles = {"usual": (BLUE, "-"), "generalized": (RED, "--")}
    for ax, (place, part) in zip(axes, data.groupby("place", sort=False), strict=True):
        ax.axhline(0.0, color="0.6", lw=0.8)
        for kind, (colour, ls) in styles.items():
            line = part[part["kind"] == kind]
            (handles[kind],) = ax.plot(line["p"], line["divergence"], color=colour, ls=ls, lw=1.8)
        ax.set(title=f"p' = {place:g}", xlabel="p")
    axes[0].set_ylabel("D(p, p')")
    base.legend_below(figure, handles)
    least = data.groupby("kind")["divergence"].min()
    words = f"least value {least['usual']:.2f} for the usual one, {least['generalized']:.2f} for the generalized one"
    caption = (
        "Ω(p) = (p² - 1)² is not convex, so that its usual Bregman divergence is negative in places. With the coupling "
        "b p + a p²/2 it is Ψ-convex, and the generalized divergence is the loss at the input that touches Ω at p': "
        f"never negative, zero at p' ({words}). Computed on a grid from the definition."
    )
    alt = f"Divergences of a double well from three points; {words}."
    return base.Drawn("divergences", "Generalized Bregman divergences", caption, alt, figure, data, wide=True)
