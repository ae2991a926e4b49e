"""Draw the figures of the paper's theorems: those of stored studies, and those that need no rows."""

from __future__ import annotations

import pandas as pd

from reports.figures import (
    base,
    theory_biconjugate,
    theory_calibration,
    theory_dc,
    theory_divergence,
    theory_items,
    theory_structured,
)


def studied(frame: pd.DataFrame) -> list[base.Drawn]:
    """Return the figures of `gfy theory`, where its rows are at hand."""
    with base.style():
        drawn = [theory_calibration.draw(frame), theory_dc.draw(frame), theory_structured.draw(frame)]
    return [d for d in drawn if d is not None]


def explained() -> list[base.Drawn]:
    """Return the figures that need no rows: small multiples of the geometric picture, biconjugates, divergences,
    items of propositions."""
    with base.style():
        drawn = (
            theory_biconjugate.draw_pictures,
            theory_biconjugate.draw,
            theory_divergence.draw,
            theory_items.draw,
        )
        return [draw() for draw in drawn]
