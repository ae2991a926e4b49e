"""Format numbers for a reader: seconds with a unit, small gaps in powers of ten."""

from __future__ import annotations

import math

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds(value: float) -> str:
    """Return three digits and a unit: 0.00123 -> '1.23 ms'."""
    if not math.isfinite(value):
        return "-"
    for scale, unit in UNITS:
        if abs(value) >= scale:
            return f"{_three(value / scale)} {unit}"
    return "0 s" if value == 0 else f"{value / 1e-9:.2g} ns"


def _three(value: float) -> str:
    digits = max(0, 2 - int(math.floor(math.log10(abs(value)))))
    return f"{value:,.{digits}f}"


def small(value: float) -> str:
    """Return one digit and a power of ten, as gaps are read."""
    return "-" if not math.isfinite(value) else "0" if value == 0 else f"{value:.0e}"


def significant(value: float) -> str:
    """Return three digits, or whole numbers from 100 on: 0.674, 4.4, 1,034."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
