"""Tell from which files the four packages are imported, since a folder of the same name may come first.

`solvers`, `bench` and `reports` are plain names that another project may use too. All four packages lie in one
folder, so a package of another project is recognised by its folder.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
ROOMS = ("gfy", "solvers", "bench", "reports")


def place_of(name: str) -> Path | None:
    """Return the folder from which a package is or would be imported, or None where there is none."""
    loaded = sys.modules.get(name)
    paths = list(getattr(loaded, "__path__", []))
    if loaded is None:
        spec = find_spec(name)
        paths = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(paths[0]).resolve() if paths else None


def shadowed(name: str) -> str | None:
    """Return a sentence where a package of this suite is hidden by another one of the same name, or None
    where it is not.

    Example:
        >>> shadowed("gfy") is None
        True
    """
    place = place_of(name)
    if place is None or place.parent == HOME or not (HOME / name).is_dir():
        return None
    return (
        f"The package {name!r} is taken from {place} and not from {HOME / name}, which belongs to gfy-suite: start "
        "Python in another folder, or rename the other package."
    )


def warn_of_shadows() -> None:
    """Warn of every package of this suite that is hidden by another one of the same name."""
    for name in ROOMS:
        said = shadowed(name)
        if said is not None:
            warnings.warn(said, RuntimeWarning, stacklevel=3)
