"""From a suite to cells: every combination is either a cell to measure or is left out with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bench.measure.environment import fingerprint, library_fingerprint, versions
from bench.plan import registry
from bench.plan.cells import Cell, Group, Settings
from bench.plan.names import resolve, suggest
from bench.plan.suite import Entry, Suite
from bench.problems.base import Instance, Recipe
from gfy.errors import GfyValueError


@dataclass
class Plan:
    """What will be measured, in groups, and what will not, with its reason."""

    groups: list[Group] = field(default_factory=list)
    left_out: list[tuple[Cell, str]] = field(default_factory=list)

    @property
    def cells(self) -> list[Cell]:
        return [cell for group in self.groups for cell in group.cells]


def plan(suite: Suite, memory: int | None = None) -> Plan:
    """Every combination of the suite, in the order in which it will be measured."""
    settings = Settings(
        timeout=suite.timeout,
        repeat=suite.repeat,
        budget=suite.budget,
        memory=memory,
        accuracy_only=suite.accuracy_only,
        break_even=suite.break_even,
    )
    found = Plan()
    for entry in suite.problems:
        _plan_entry(entry, suite, settings, found)
    found.groups = _joined(found.groups)
    return found


def _joined(groups: list[Group]) -> list[Group]:
    """Entries of one problem in one place compete with each other: they become one group."""
    by_label: dict[str, dict[str, Cell]] = {}
    for group in groups:
        by_label.setdefault(group.label, {}).update({cell.name: cell for cell in group.cells})
    first = {group.label: group for group in reversed(groups)}
    return [replace(first[label], cells=tuple(cells.values())) for label, cells in by_label.items()]


def _plan_entry(entry: Entry, suite: Suite, settings: Settings, found: Plan) -> None:
    family = registry.make_family(entry.family)
    params = checked_params(family, entry)
    axes = {name: entry.axes.get(name, getattr(suite, name)) for name in ("devices", "dtypes", "tolerances")}
    chosen = solvers(entry.axes.get("solvers", suite.solvers))
    modes = [registry.make_gradient(text) for text in entry.axes.get("gradients", suite.gradients)]
    backends = [resolve(b, registry.BACKENDS, "backend") for b in entry.axes.get("backends", suite.backends)]
    dtypes = [resolve(d, ("float64", "float32"), "dtype") for d in axes["dtypes"]]
    tolerances = sorted((float(t) for t in axes["tolerances"]), reverse=True)
    try:
        instance = family.make(np.random.default_rng(suite.seed), **params)
    except (GfyValueError, ModuleNotFoundError) as error:
        columns = {"kind": "compare", "problem": label(family.name, params), "family": family.name}
        found.left_out.append((Cell(columns, entry.family, ""), f"the problem cannot be made here: {error}"))
        return
    common = problem_columns(family, params, instance, suite)
    for backend in backends:
        for device in axes["devices"]:
            for dtype in dtypes:
                place = {"backend": backend, "device": device, "dtype": dtype}
                cells = []
                missing = registry.backend_missing(backend, device)
                for text, solver in chosen:
                    for mode in modes:
                        base = {**common, **place, **solver_columns(solver, mode)}
                        reason = missing or refuses(solver, mode, instance, backend)
                        if reason is not None:
                            found.left_out.append((Cell({**base, "tol": None}, entry.family, text), reason))
                            continue
                        whole = suite.full_ladder or mode.name == "envelope"
                        for tol in tolerances if whole else tolerances[-1:]:
                            cells.append(Cell({**base, "tol": tol}, entry.family, text))
                if cells:
                    name = f"{common['problem']} · {backend} {device} {dtype}"
                    found.groups.append(Group(name, tuple(cells), settings))


def solvers(texts: list[str]) -> list[tuple[str, Any]]:
    """The named solvers, `all` being every one that is known; each with the text that makes it again."""
    named: list[str] = []
    for text in texts:
        named += list(registry.solver_classes()) if text.lower() == "all" else [text]
    return [(text, registry.make_solver(text)) for text in dict.fromkeys(named)]


def refuses(solver: Any, mode: Any, instance: Instance, backend: str) -> str | None:
    """Why this solver or this mode does not serve the problem here, in the solver's own words."""
    backends = getattr(solver, "backends", None)
    if backends is not None and backend not in backends:
        return f"{solver.name} runs on {' and '.join(backends)} only"
    reason = solver.unsupported(instance.problem)
    if reason is None:
        reason = mode.unsupported(instance.problem, solver)
    return None if reason is None else str(reason)


def checked_params(family: Recipe, entry: Entry) -> dict[str, Any]:
    for name in entry.params:
        if name not in family.defaults:
            raise GfyValueError(
                f"The problem {family.name} has no parameter {name!r}. {suggest(name, family.defaults)}"
            )
    return {**family.defaults, **entry.params}


def label(family: str, params: dict[str, Any]) -> str:
    """A name for a problem of one size: pairwise-gini-k174-b64-r1."""
    short = {"k": "k", "batch": "b", "rank": "r"}
    return "-".join([family, *(f"{short[n]}{params[n]}" for n in short if n in params)])


def problem_columns(
    family: Recipe, params: dict[str, Any], instance: Instance, suite: Suite
) -> dict[str, Any]:
    file = registry.source_file(getattr(family, "build", family))
    return {
        "kind": "compare",
        "problem": label(family.name, {**params, "k": instance.k, "batch": instance.batch}),
        "family": family.name,
        "energy": instance.problem.energy.name,
        "regularizer": instance.problem.regularizer.name,
        "domain": instance.problem.domain.name,
        "k": instance.k,
        "batch": instance.batch,
        "rank": params.get("rank"),
        "seed": suite.seed,
        "problem_params": params,
        "problem_source": fingerprint(file) if file else None,
        "max_steps": suite.max_steps,
    }


def solver_columns(solver: Any, mode: Any) -> dict[str, Any]:
    file = registry.source_file(solver)
    return {
        "solver": registry.shown(solver),
        "solver_params": registry.parameters(solver),
        "gradient": mode.name,
        "gradient_params": registry.parameters(mode) or None,
        "versions": {
            **versions(),
            "gfy": library_fingerprint(),
            "solver": fingerprint(file) if file else None,
        },
    }


def reasons(found: Plan) -> Iterator[tuple[str, str, str, str, str]]:
    """The cells left out: problem, solver, gradient, where, why."""
    for cell, reason in found.left_out:
        c = cell.columns
        where = " ".join(str(c[n]) for n in ("backend", "device", "dtype") if n in c)
        yield str(c["problem"]), str(c.get("solver", "-")), str(c.get("gradient", "-")), where, reason
