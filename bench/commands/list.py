"""Implement `gfy list`: print the names that the other verbs understand."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer


class Kind(StrEnum):
    solvers = "solvers"
    problems = "problems"
    gradients = "gradients"
    backends = "backends"
    suites = "suites"
    datasets = "datasets"


def list_command(
    kind: Annotated[
        Kind, typer.Argument(help="Choose solvers, problems, gradients, backends, suites or datasets.")
    ] = Kind.solvers,
) -> None:
    """List solvers, problems, gradients, backends, suites or datasets, one per line.

    Examples:

        gfy list solvers

        gfy list problems
    """
    from bench.commands.terminal import show

    show(*ROWS[kind]())


Rows = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]


def first_line(thing: Any) -> str:
    return ((thing.__doc__ or "").strip().splitlines() or [""])[0]


def solvers() -> Rows:
    from bench.plan.registry import solver_classes

    return ("solver", "what it does"), [(name, first_line(cls)) for name, cls in solver_classes().items()]


def problems() -> Rows:
    from bench.plan.registry import families

    rows = []
    for name, family in families().items():
        defaults = " ".join(f"{n}={x}" for n, x in family.defaults.items())
        rows.append((name, str(getattr(family, "about", "")), defaults))
    return ("problem", "what it is", "parameters"), rows


def gradients() -> Rows:
    from bench.plan.registry import GRADIENTS

    return ("gradient", "what it does"), [(name, first_line(cls)) for name, cls in GRADIENTS.items()]


def backends() -> Rows:
    from bench.plan.registry import BACKENDS, backend_missing
    from bench.store.environment import gpus, version

    devices = ["cpu", "cuda"] if gpus() else ["cpu"]
    rows = []
    for name in BACKENDS:
        for device in devices:
            rows.append((name, device, version(name) or "-", backend_missing(name, device) or "ready"))
    return ("backend", "device", "version", "state"), rows


def suites() -> Rows:
    from bench.plan.suite import read
    from bench.plan.suite import suites as known

    rows = [(name, str(len(read(name).problems)), read(name).description) for name in known()]
    return ("suite", "problems", "what it is for"), rows


def datasets() -> Rows:
    from bench.datasets.catalogue import ENTRIES

    rows = [(name, f"{e.features} features, {e.labels} labels") for name, e in sorted(ENTRIES.items())]
    return ("dataset", "size"), rows


ROWS = {
    Kind.solvers: solvers,
    Kind.problems: problems,
    Kind.gradients: gradients,
    Kind.backends: backends,
    Kind.suites: suites,
    Kind.datasets: datasets,
}
