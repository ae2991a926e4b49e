"""Find a dataset's files: the folder given, then the folder GFY_DATA names, then the user cache.

A folder may hold the files under their catalogue path (mulan/yeast/yeast-train.arff) or side by side.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.datasets.catalogue import Entry
from gfy.errors import GfyValueError


def cache_dir() -> Path:
    """Return the folder of this user where fetched data is kept."""
    if "GFY_CACHE" in os.environ:
        return Path(os.environ["GFY_CACHE"])
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "gfy-suite"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gfy-suite"


def search_dirs(data_dir: str | Path | None = None) -> list[Path]:
    """Return the folders that are searched, in order; the first that has the files is used."""
    if data_dir is not None and not Path(data_dir).is_dir():
        raise GfyValueError(f"--data-dir {data_dir} is not a folder; give one that holds the datasets")
    named = [Path(data_dir)] if data_dir is not None else []
    variable = os.environ.get("GFY_DATA")
    return [*named, *([Path(variable)] if variable else []), cache_dir()]


def find(entry: Entry, data_dir: str | Path | None = None) -> dict[str, Path] | None:
    """Return all the files of a dataset from one folder, by role, or None where no folder holds them all."""
    for folder in search_dirs(data_dir):
        for place in (lambda path: Path(path), lambda path: Path(Path(path).name)):
            found = {role: folder / place(file.path) for role, file in entry.files.items()}
            if all(path.is_file() for path in found.values()):
                return found
    return None


def find_or_say(entry: Entry, data_dir: str | Path | None = None) -> dict[str, Path]:
    """Return what `find` does, and raise a sentence that says what to do where nothing is found."""
    found = find(entry, data_dir)
    if found is None:
        places = ", ".join(str(folder) for folder in search_dirs(data_dir))
        raise GfyValueError(
            f"dataset '{entry.name}' was not found in {places}; "
            f"fetch it with `gfy data fetch {entry.name}`, or name its folder with --data-dir or GFY_DATA"
        )
    return found
