"""Draw the paper's geometric picture, and loss and argmax per regularizer, from their closed forms."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.figures import base
from reports.figures.palette import BLUE, GREEN, RED, VIOLET

GAMMA, A, B, U, TARGET = 1.0, -1.0, 1.0, 0.6, 1.2


def geometric(p: np.ndarray) -> pd.DataFrame:
    """Return Omega(p) = gamma/2 p^2, its tangent of slope u, the tightest bound of the form Phi(v, p) - const."""
    conjugate = 0.5 * U**2 / GAMMA
    generalized = 0.5 * B**2 / (GAMMA - A)
    energy = 0.5 * A * p**2 + B * p
    return pd.DataFrame(
        {"p": p, "omega": 0.5 * GAMMA * p**2, "line": U * p - conjugate, "bound": energy - generalized}
    )


def draw_geometry() -> base.Drawn:
    """Draw Figure 1 of the paper: the loss is the gap at the target between Omega and the energy's lower bound."""
    data = geometric(np.linspace(-0.5, 1.5, 201))
    figure, ax = base.new(6.0, 4.2)
    ax.plot(data["p"], data["omega"], color=BLUE, lw=2.2, label="Ω(p) = γ p²/2")
    ax.plot(data["p"], data["line"], color=RED, ls="--", label="u p - Ω*(u), u = 0.6")
    ax.plot(
        data["p"], data["bound"], color=GREEN, ls=(0, (4, 1, 1, 1)), label="Φ(v, p) - conjugate, v = (-1, 1)"
    )
    touch_line, touch = U / GAMMA, B / (GAMMA - A)
    for x in (touch_line, touch):
        ax.plot([x], [0.5 * GAMMA * x**2], "o", color=base.INK, zorder=4)
    at = geometric(np.array([TARGET])).iloc[0]
    ax.annotate(
        "", (TARGET, at["omega"]), (TARGET, at["bound"]), arrowprops={"arrowstyle": "<->", "color": base.INK}
    )
    ax.text(TARGET + 0.04, (at["omega"] + at["bound"]) / 2, "loss at y", va="center")
    ax.set(xlabel="p", ylim=(-1.0, 1.2))
    figure.legend(loc="outside lower center", ncols=2)
    loss = at["omega"] - at["bound"]
    caption = (
        "The tangent and the generalized bound touch Ω at their maximisers (dots); the loss is the "
        "gap at the target. "
        f"Here p* = b/(γ - a) = {touch:g} and the loss at y = {TARGET:g} is {loss:.2f}. Computed from "
        "closed forms."
    )
    alt = (
        f"A parabola touched from below by a line at p = {touch_line:g} and by a concave parabola at "
        f"p = {touch:g}; an "
        f"arrow at y = {TARGET:g} marks the generalized Fenchel-Young loss of {loss:.2f}."
    )
    return base.Drawn("geometry", "The geometric picture of the loss", caption, alt, figure, data)


def regularized(s: np.ndarray) -> pd.DataFrame:
    """Return the loss at y = 1 and the argmax for scores s, one label in [0, 1] (the squared norm on the
    whole line)."""
    gini = np.clip((s + 1.0) / 2.0, 0.0, 1.0)
    box = np.clip(s, 0.0, 1.0)
    sigmoid = 0.5 * (1.0 + np.tanh(0.5 * s))
    # Pairwise energy of one label, Phi = -p^2/2 + s p, with Gini: maximise s p - p^2/2 - p^2 + p.
    pair = np.clip((s + 1.0) / 3.0, 0.0, 1.0)
    names = {
        "squared norm, line": (0.5 * (s - 1.0) ** 2, s),
        "squared norm, box": (s * box - 0.5 * box**2 + 0.5 - s, box),
        "binary Gini": (s * gini - gini * (gini - 1.0) - s, gini),
        "binary Shannon": (np.logaddexp(0.0, s) - s, sigmoid),
        "none (perceptron)": (np.maximum(s, 0.0) - s, (s > 0).astype(float)),
        "binary Gini, energy -p²/2 + s p": (s * pair - 0.5 * pair**2 - pair * (pair - 1.0) + 0.5 - s, pair),
    }
    parts = [
        pd.DataFrame({"regularizer": n, "score": s, "loss": v, "argmax": p}) for n, (v, p) in names.items()
    ]
    return pd.concat(parts, ignore_index=True)


def draw_losses() -> base.Drawn:
    """Draw the losses on the left and the argmax maps on the right, one line per regularizer."""
    from matplotlib.figure import Figure

    data = regularized(np.linspace(-4.0, 4.0, 321))
    figure = Figure(figsize=(10.5, 4.2))
    left, right = figure.subplots(1, 2)
    styles = ((base.MUTED, "-"), (VIOLET, "--"), (BLUE, "-"), (RED, "-"), (base.MUTED, ":"), (GREEN, "-."))
    handles: dict[str, object] = {}
    for (name, part), (colour, ls) in zip(data.groupby("regularizer", sort=False), styles, strict=True):
        (handles[str(name)],) = left.plot(part["score"], part["loss"], color=colour, ls=ls)
        right.plot(part["score"], part["argmax"], color=colour, ls=ls)
    left.set(ylim=(-0.1, 5.0), xlabel="score s", ylabel="loss at y = 1")
    right.set(ylim=(-0.4, 1.4), xlabel="score s", ylabel="argmax p*")
    base.legend_below(figure, handles, 3)
    caption = "One label, target 1. Every loss is zero where its argmax is the target, and never negative."
    alt = "Loss and argmax against the score for five regularizers and a pairwise energy; all fall to zero."
    return base.Drawn(
        "loss-curves", "Losses and argmax per regularizer", caption, alt, figure, data, wide=True
    )
