"""`gfy.recommend`: advice from stored measurements, given by whoever is installed to give it.

The mathematics knows neither benchmarks nor reports; the entry point `recommend` of the group `gfy.tools` does.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from gfy.errors import GfyValueError


def recommend(*args: Any, **kwargs: Any) -> Any:
    """Which solver, gradient mode and backend to use, from the nearest measured problems.

    The arguments are those of `reports.recommend.recommend` and of the command `gfy recommend`:
    energy, k, rank, batch, device, dtype, need, tol, and the files of rows to consult.
    """
    for point in entry_points(group="gfy.tools", name="recommend"):
        return point.load()(*args, **kwargs)
    raise GfyValueError(
        "gfy.recommend reads stored measurements with the `reports` package: install gfy-suite whole"
    )
