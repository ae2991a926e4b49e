"""Solvers by name: ours, those that other packages register, and one in a file of your own."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from gfy.errors import GfyTypeError, GfyValueError

GROUP = "gfy.solvers"


def names() -> list[str]:
    """Every solver that can be asked for by name."""
    theirs = [point.name for point in entry_points(group=GROUP) if point.name != "default"]
    return sorted({*import_module("solvers").__all__, *theirs})


def find(reference: str, **parameters: Any) -> Any:
    """A solver from "Name" (ours, or an entry point of the group gfy.solvers) or from "path/to/file.py:Name"."""
    thing = _from_file(reference) if ".py:" in reference else _by_name(reference)
    solver = thing(**parameters) if inspect.isclass(thing) else thing
    absent = [part for part in ("name", "unsupported", "solve") if not hasattr(solver, part)]
    if absent:
        raise GfyTypeError(
            f"{reference} is not a solver: it has no {', '.join(absent)} (see gfy.protocols.InnerSolver "
            "and solvers/_template.py)"
        )
    return solver


def _by_name(name: str) -> Any:
    package = import_module("solvers")
    if name in package.__all__:
        return getattr(package, name)
    for point in entry_points(group=GROUP, name=name):
        return point.load()
    raise GfyValueError(
        f"there is no solver {name!r}; there are {', '.join(names())}, or path/to/file.py:Name"
    )


def _from_file(reference: str) -> Any:
    path, _, name = reference.rpartition(":")
    file = Path(path).expanduser()
    if not file.is_file():
        raise GfyValueError(f"there is no file {path} (asked for as {reference!r})")
    spec = importlib.util.spec_from_file_location(f"gfy_solver_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise GfyValueError(f"{path} defines no {name!r}")
    return getattr(module, name)
