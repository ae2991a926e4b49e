"""Draw biconjugate envelopes, and the geometric picture in small multiples, from their definitions on a grid."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, GREEN, RED, VIOLET

P = np.linspace(-1.5, 1.5, 301)
SLOPES = np.linspace(-9.0, 9.0, 721)


def double_well(p: np.ndarray) -> np.ndarray:
    return np.asarray((p**2 - 1.0) ** 2)


def envelope(energies: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """Return max_v Phi(v, p) - Omega^Phi(v) for energies [v, p]: conjugate over p, then over v."""
    conjugate = (energies - omega).max(axis=1, keepdims=True)
    return np.asarray((energies - conjugate).max(axis=0))


def envelopes() -> pd.DataFrame:
    """Return a double well and its biconjugates for four couplings."""
    omega = double_well(P)
    linear = SLOPES[:, None] * P
    mild = np.concatenate([linear, linear - P**2])  # a = 0 and a = -2
    strong = np.concatenate([mild, linear - 2.0 * P**2])  # and a = -4, as low as Omega'' ever is
    metric = -np.abs(P[:, None] - P)
    couplings = {
        "v p (the usual biconjugate)": linear,
        "b p + a p²/2, a in {0, -2}": mild,
        "b p + a p²/2, a in {0, -2, -4}": strong,
        "-|v - p| (a metric)": metric,
    }
    parts = [
        pd.DataFrame({"coupling": name, "p": P, "omega": omega, "envelope": envelope(phi, omega)})
        for name, phi in couplings.items()
    ]
    return pd.concat(parts, ignore_index=True)


def draw() -> base.Drawn:
    """Draw one panel per coupling with Omega above and its tightest bound of that kind below."""
    data = envelopes()
    names = list(dict.fromkeys(data["coupling"]))
    figure, axes = base.panels(len(names), across=4, sharey=True)
    handles: dict[str, object] = {}
    for ax, name in zip(axes, names, strict=True):
        part = data[data["coupling"] == name]
        (handles["Ω(p) = (p² - 1)²"],) = ax.plot(part["p"], part["omega"], color=BLUE, lw=2.0)
        (handles["biconjugate"],) = ax.plot(part["p"], part["envelope"], color=RED, ls="--", lw=1.8)
        ax.fill_between(part["p"], part["envelope"], part["omega"], color=RED, alpha=0.12, lw=0)
        ax.set(title=name, xlabel="p")
    base.legend_below(figure, handles)
    left = {n: float((g["omega"] - g["envelope"]).max()) for n, g in data.groupby("coupling", sort=False)}
    caption = (
        "The biconjugate is the tightest lower bound of Ω that is a maximum of functions Φ(v, ·) - constant. A line "
        "can "
        "only reach the convex envelope; bent functions follow Ω into the well; a metric gives the largest 1-Lipschitz "
        "bound. Computed on a grid from the definition."
    )
    alt = "A double well above its biconjugates; the largest gaps are " + ", ".join(
        f"{gap:.2f} for {name}" for name, gap in left.items()
    )
    return base.Drawn(
        "biconjugates",
        "Biconjugates: the tightest bounds from below",
        caption,
        alt + ".",
        figure,
        data,
        wide=True,
    )


GAMMA, TARGET = 1.0, 1.2
SHAPES = ((0.0, 0.4), (0.0, 1.0), (-1.0, 0.4), (-1.0, 1.0), (-3.0, 1.0), (-3.0, 4.0))


def pictures() -> pd.DataFrame:
    """Return Omega and the bound Phi(v, .) - Omega^Phi(v) for several v = (a, b)."""
    p = np.linspace(-0.5, 1.6, 211)
    parts = []
    for a, b in SHAPES:
        bound = 0.5 * a * p**2 + b * p - 0.5 * b**2 / (GAMMA - a)
        parts.append(pd.DataFrame({"a": a, "b": b, "p": p, "omega": 0.5 * GAMMA * p**2, "bound": bound}))
    return pd.concat(parts, ignore_index=True)


def draw_pictures() -> base.Drawn:
    """Draw the paper's Figure 1 for six inputs: where the bound touches, and the loss as a gap."""
    data = pictures()
    figure, axes = base.panels(len(SHAPES), sharey=True)
    handles: dict[str, object] = {}
    losses = []
    for ax, (a, b) in zip(axes, SHAPES, strict=True):
        part = data[(data["a"] == a) & (data["b"] == b)]
        (handles["Ω(p) = p²/2"],) = ax.plot(part["p"], part["omega"], color=BLUE, lw=2.0)
        (handles["Φ(v, p) - conjugate"],) = ax.plot(part["p"], part["bound"], color=GREEN, ls="--")
        touch = b / (GAMMA - a)
        (handles["p*"],) = ax.plot([touch], [0.5 * GAMMA * touch**2], "o", color=base.INK, zorder=4)
        top = 0.5 * GAMMA * TARGET**2
        low = 0.5 * a * TARGET**2 + b * TARGET - 0.5 * b**2 / (GAMMA - a)
        losses.append(top - low)
        (handles["loss at y"],) = ax.plot([TARGET, TARGET], [low, top], color=VIOLET, lw=2.4)
        ax.set(title=f"a = {a:g}, b = {b:g}: loss {top - low:.2f}", xlabel="p", ylim=(-1.2, 1.3))
    base.legend_below(figure, handles)
    best = SHAPES[int(np.argmin(losses))]
    caption = (
        f"Training moves v = (a, b) to close the gap at y = {TARGET:g} (Φ = a p²/2 + b p, γ = 1): the dot is p* = "
        "b/(γ - a), "
        "the bar the loss. Computed from closed forms."
    )
    alt = f"Six panels; the loss is smallest, {min(losses):.2f}, for a = {best[0]:g}, b = {best[1]:g}."
    return base.Drawn("geometry-multiples", "The loss for six inputs", caption, alt, figure, data, wide=True)
