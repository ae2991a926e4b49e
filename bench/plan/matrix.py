"""Turn a suite into cells: every combination is either a cell to measure or is left out with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from bench.plan import registry
from bench.plan.names import resolve
from bench.plan.suite import Entry, Suite
from bench.problems.base import Instance, label
from bench.store import key_of
from bench.store.environment import fingerprint, library_fingerprint, versions
from bench.store.media import visible
from gfy.errors import GfyValueError

NAMED = ("problem", "family", "energy", "regularizer", "domain")
FINEST = {"float64": 0.0, "float32": 1e-6}  # relative gap; a finer accuracy level is not asked of the dtype
# The search for the tolerance with which a solver meets its level.
MOST_TRIES = 4
# Relative gaps in this dtype do not get below this, so that no smaller tolerance is tried.
SMALLEST = {"float64": 1e-15, "float32": 1e-7}
USEFUL = 0.5  # part of the gap before; a try that leaves a larger gap is the last one


@dataclass(frozen=True)
class Cell:
    """Describe one row to be: one solver and gradient mode on one problem at one tolerance, or a part of an experiment.

    `columns` are the columns of the row that are known beforehand: all that determine it but the machine. `problem` and
    `solver` are the texts from which a worker makes the objects. `work` is the input of an experiment's own job, and
    `called` names a cell whose columns are not all known beforehand.
    """

    columns: dict[str, Any]
    problem: str = ""
    solver: str = ""
    work: Any = None
    called: str = ""

    @property
    def name(self) -> str:
        """Return the key of the cell without a machine, which names the cell between processes."""
        return self.called or key_of(self.columns | {"machine": None})

    def key(self, machine: str) -> str:
        return key_of(self.columns | {"machine": machine})

    def row(
        self, measured: dict[str, Any], facts: Mapping[str, Any], settings: Settings, attempt: int = 0
    ) -> dict[str, Any]:
        """Return the row of the cell: what determines it, where it was measured, what was measured, and how."""
        how = {"attempt": attempt + 1, "timeout_s": settings.timeout, "repeat_asked": settings.repeat}
        place = {"machine": facts["machine"]}
        return {**facts, **self.columns, **how, **measured, **place}

    @property
    def given_tol(self) -> float:
        """Return the tolerance that the solver gets: the level, or the one that a search found to reach it."""
        return float(self.columns.get("tol_given") or self.columns["tol"])

    def tightened(self, row: Mapping[str, Any]) -> Cell | None:
        """Return the cell with a tighter tolerance, or None where a tighter one is not needed or would not help.

        A tolerance means something different to each solver. A solver that ends at its tolerance, says that it
        converged, and misses the level by its certificate is measured again with a tighter tolerance.

        Args:
            row: The row that came of the cell.

        Returns:
            The cell that is to be measured again; its columns `tol_given` and `search` say what is tried now and what
            was.

        Example:
            >>> columns = {"kind": "compare", "tol": 1e-6, "dtype": "float64"}
            >>> row = columns | {"status": "not converged", "gap_rel": 1e-4, "converged": 1.0}
            >>> Cell(columns).tightened(row).columns["tol_given"]
            5e-09
        """
        level, gap = self.columns.get("tol"), row.get("gap_rel")
        if row["status"] != "not converged" or not level or not gap or row.get("converged") != 1:
            return None
        before = list(self.columns.get("search") or [])
        tried = [*before, {"tol": self.given_tol, "gap_rel": gap, "converged": row["converged"]}]
        tighter = float(f"{self.given_tol * min(0.1, 0.5 * level / gap):.0e}")
        stuck = bool(before) and gap > USEFUL * before[-1]["gap_rel"]
        if stuck or len(tried) >= MOST_TRIES or tighter < SMALLEST[str(self.columns.get("dtype", "float64"))]:
            return None
        return replace(self, columns=self.columns | {"tol_given": tighter, "search": tried})


@dataclass(frozen=True)
class Settings:
    """Say how a group is measured."""

    timeout: float = 60.0  # seconds that a cell may take in all
    repeat: int = 7  # timed samples of each program; a sample holds several calls where these are short
    # Seconds; a program that has used them is timed no further, but for its first three samples.
    budget: float = 1.0
    # Bytes that a worker may allocate; None stands for four fifths of the machine's.
    memory: int | None = None
    accuracy_only: bool = False  # nothing is timed, so that several workers may run side by side
    break_even: bool = False  # the program is also called without staging, to compute when staging pays
    # The group has a new process, without the memory of programs that were compiled before.
    fresh_worker: bool = False
    load_limit: float = 0.3  # cores; a timing is flagged where other work keeps more than this many busy


@dataclass(frozen=True)
class Group:
    """Hold the cells of one problem, backend, device and dtype, which are prepared together and timed in rotation."""

    label: str
    cells: tuple[Cell, ...]
    settings: Settings = field(default_factory=Settings)

    def only(self, names: set[str]) -> Group:
        return replace(self, cells=tuple(c for c in self.cells if c.name in names))


@dataclass
class Plan:
    """Hold what will be measured, in groups, and what will not, with its reason."""

    groups: list[Group] = field(default_factory=list)
    left_out: list[tuple[Cell, str]] = field(default_factory=list)

    @property
    def cells(self) -> list[Cell]:
        return [cell for group in self.groups for cell in group.cells]


def plan(suite: Suite, memory: int | None = None) -> Plan:
    """Return every combination of the suite, in the order in which it will be measured."""
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
    found.groups = join(found.groups)
    return found


def join(groups: list[Group]) -> list[Group]:
    """Group the entries of one problem in one place, since they compete with each other."""
    by_label: dict[str, dict[str, Cell]] = {}
    for group in groups:
        by_label.setdefault(group.label, {}).update({cell.name: cell for cell in group.cells})
    first = {group.label: group for group in reversed(groups)}
    return [replace(first[label], cells=tuple(cells.values())) for label, cells in by_label.items()]


def _plan_entry(entry: Entry, suite: Suite, settings: Settings, found: Plan) -> None:
    axes = {name: entry.axes.get(name, getattr(suite, name)) for name in ("devices", "dtypes", "tolerances")}
    named = solvers(entry.axes.get("solvers", suite.solvers))
    chosen = [(text, registry.make_solver(text)) for text in named]
    modes = [registry.make_gradient(text) for text in entry.axes.get("gradients", suite.gradients)]
    # The cheapest mode comes first, since it shows whether the solver is too slow.
    modes.sort(key=lambda mode: mode.name != "envelope")
    backends = [resolve(b, registry.BACKENDS, "backend") for b in entry.axes.get("backends", suite.backends)]
    devices = [resolve(d, ("cpu", "cuda"), "device") for d in axes["devices"]]
    dtypes = [resolve(d, ("float64", "float32"), "dtype") for d in axes["dtypes"]]
    tolerances = sorted((float(t) for t in axes["tolerances"]), reverse=True)
    family = registry.make_family(entry.family)
    registry.check_params(family, entry.params)
    ways = [(text, solver, mode, solver_columns(solver, mode)) for text, solver in chosen for mode in modes]
    probes: dict[float, int] = {}
    # A refusal of a solver and a mode holds for every seed and dtype, so that it is asked once per backend.
    asked: dict[tuple[int, str], str | None] = {}
    for seed in entry.axes.get("seeds") or suite.seeds or [suite.seed]:
        try:
            work = registry.make_problem(entry.family, entry.params, int(seed))
        except (GfyValueError, ModuleNotFoundError) as error:
            name = label(family.name, {**family.defaults, **entry.params})
            columns = {"kind": "compare", "problem": name, "family": family.name}
            reason = f"the problem cannot be made here: {error}"
            found.left_out.append((Cell(columns, entry.family, ""), reason))
            return
        same = probes.setdefault(work.probe, int(seed))
        if same != seed:
            reason = f"the problem ignores its seed: the numbers of seed {seed} are those of seed {same}"
            found.left_out.append((Cell({"kind": "compare", **work.columns}, entry.family, ""), reason))
            continue
        for backend, device, dtype in product(backends, devices, dtypes):
            place = {"backend": backend, "device": device, "dtype": dtype}
            common = {"kind": "compare", **work.columns, "max_steps": suite.max_steps, **place}
            common |= {name: visible(common[name]) for name in NAMED}
            cells: list[Cell] = []
            missing = registry.backend_missing(backend, device)
            held = [t for t in tolerances if t >= FINEST[dtype]]
            for number, (text, solver, mode, columns) in enumerate(ways):
                base = {**common, **columns}
                if missing is None and (number, backend) not in asked:
                    asked[number, backend] = refuses(solver, mode, work.instance, backend)
                refused = missing or asked[number, backend]
                if refused is None and not held:
                    refused = f"{dtype} does not hold a relative gap of {tolerances[0]:g}"
                if refused is not None:
                    found.left_out.append((Cell({**base, "tol": None}, entry.family, text), refused))
                    continue
                # Unrolled steps and their program are the same at every level, so that all levels cost little.
                whole = suite.full_ladder or mode.name in ("envelope", "unrolled")
                for tol in held if whole else held[-1:]:
                    cells.append(Cell({**base, "tol": tol}, entry.family, text))
            if cells:
                name = f"{common['problem']}{f', seed {seed}' if seed else ''} · {backend} {device} {dtype}"
                found.groups.append(Group(name, tuple(cells), settings))


def solvers(texts: list[str]) -> list[str]:
    """Return the texts of the named solvers; `all` stands for every one that is known."""
    named: list[str] = []
    for text in texts:
        named += registry.solver_names() if text.lower() == "all" else [text]
    return list(dict.fromkeys(named))


def refuses(solver: Any, mode: Any, instance: Instance, backend: str) -> str | None:
    """Return the reason why this solver or this mode does not serve the problem here, as its `unsupported` says it."""
    backends = getattr(solver, "backends", None)
    if backends is not None and backend not in backends:
        return f"{solver.name} runs on {' and '.join(backends)} only"
    try:
        reason = solver.unsupported(instance.problem)
        if reason is None:
            reason = mode.unsupported(instance.problem, solver)
    except Exception as error:
        return visible(f"its `unsupported` raised {type(error).__name__}: {error}")
    if reason is None or isinstance(reason, str):
        return None if reason is None else visible(reason)
    return f"its `unsupported` returned {type(reason).__name__} instead of a sentence or None"


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
    """Return the cells left out: problem, solver, gradient, where, why."""
    for cell, reason in found.left_out:
        c = cell.columns
        where = " ".join(str(c[n]) for n in ("backend", "device", "dtype") if n in c)
        yield str(c["problem"]), str(c.get("solver", "-")), str(c.get("gradient", "-")), where, reason
