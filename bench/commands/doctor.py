"""`gfy doctor` shows what is installed, and which command installs what is missing."""

from __future__ import annotations

import os
from importlib.util import find_spec

import typer

# For each library: what it is for, and the optional group of pyproject that installs it.
OPTIONAL = {
    "jax": ("the JAX backend", "jax"),
    "torch": ("the torch backend", "torch"),
    "cvxpy": ("the independent reference", "reference"),
    "jaxopt": ("a peer to measure", "peers"),
    "scipy": ("a peer to measure", "peers"),
    "optax": ("training", "train"),
    "river": ("the yeast data, offline", "data"),
    "sklearn": ("metrics and splits", "data"),
    "pooch": ("fetching datasets", "data"),
    "distributed": ("--scheduler", "cluster"),
    "matplotlib": ("the report", "report"),
    "jinja2": ("the report", "report"),
    "pyarrow": ("Parquet exports", "bench"),
    "pytest": ("the tests", "test"),
    "gymnasium": ("imitation learning", "imitation"),
}
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def missing() -> list[tuple[str, str, str]]:
    """Return (library, its purpose, the command that installs it) for each library that is absent."""
    from bench.store.environment import install_command

    return [
        (name, purpose, install_command(group))
        for name, (purpose, group) in OPTIONAL.items()
        if find_spec(name) is None
    ]


def doctor() -> None:
    """Show versions, devices, threads and load, and what is missing with the command that installs it.

    The command exits with 1 when neither backend is installed.

    Example:

        gfy doctor
    """
    from bench.commands.terminal import show
    from bench.store import environment
    from gfy.calling.shadows import ROOMS, place_of, shadowed

    info = environment.machine_info()
    commit, dirty = environment.git()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    facts = [
        ("machine", environment.machine()),
        ("processor", f"{info['cpu']}, {info['cores']} cores, {info['memory_gib']} GiB"),
        ("graphics", ", ".join(info["gpus"]) or "none found"),
        ("frequency scaling", info["scaling"] or "not told by the system"),
        ("load now", f"{load:.2f}" + (" (timings would be flagged)" if load > environment.cores() else "")),
        (
            "threads set",
            " ".join(f"{n}={x}" for n, x in info["threads"].items()) or "nothing: the libraries choose",
        ),
        ("commit", "not a checkout" if commit is None else commit[:12] + (" with changes" if dirty else "")),
        *(("BLAS / OpenMP", pool) for pool in threads()),
    ]
    show(("what", "value"), facts, "This machine")
    places = [(name, str(place_of(name) or "not found")) for name in ROOMS]
    show(("package", "taken from"), places, "The packages of this suite")
    for said in filter(None, map(shadowed, ROOMS)):
        typer.echo(said)
    libraries = [
        (name, environment.version(DISTRIBUTIONS.get(name, name)) or "-", purpose)
        for name, (purpose, _) in OPTIONAL.items()
    ]
    show(("library", "version", "for"), libraries, "Libraries")
    absent = missing()
    for name, purpose, command in absent:
        typer.echo(f"Missing: {name} ({purpose}). Install it with: {command}")
    if not absent:
        typer.echo("Nothing is missing.")
    if find_spec("jax") is None and find_spec("torch") is None:
        typer.echo("Neither backend is installed: nothing can be solved.", err=True)
        raise typer.Exit(1)


def threads() -> list[str]:
    """Return the thread pools of the numerical libraries, where threadpoolctl is installed."""
    if find_spec("threadpoolctl") is None:
        return []
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))  # this product makes sure that BLAS is loaded
    return [
        f"{p['internal_api']} {p.get('version') or ''}: {p['num_threads']} threads" for p in threadpool_info()
    ]
