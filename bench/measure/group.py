"""Measure a group: the cells of one problem in one place are prepared one by one, then timed in turn.

This is the job that a worker process runs (see `bench.run.worker`); it may be killed at any moment, so every cell
is announced before it is touched and every row leaves as soon as it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import gfy
from bench.measure.certification import (
    argmax_columns,
    certificate_columns,
    envelope_bound,
    gradient_columns,
)
from bench.measure.clock import LoadMeter, Peak, Program, break_even, overloaded, rotate
from bench.measure.programs import Bench, Staged, argmax_gradient, forward, set_up, value_and_gradient
from bench.measure.reference import Reference, reference
from bench.plan import registry
from bench.plan.matrix import Cell, Group, Settings
from gfy.errors import GfyValueError

UNSTEADY = ("not finite", "crashed", "unsupported")


@dataclass
class Forward:
    """The solves of one solver at one tolerance: shared by the cells that differ in the gradient mode."""

    program: Program
    solutions: list[Any]
    columns: dict[str, Any]


@dataclass
class Prepared:
    """A cell that has been run once and judged, waiting to be timed."""

    cell: Cell
    forward: Forward
    backward: Program | None = None
    argmax: Program | None = None
    columns: dict[str, Any] = field(default_factory=dict)


class Preparation:
    """Stages, runs and judges the cells of one group; what cells have in common is made once."""

    def __init__(self, bench: Bench, settings: Settings, place: dict[str, Any]) -> None:
        self._bench, self._settings = bench, settings
        self._device, self._dtype = str(place["device"]), str(place["dtype"])
        self._staged: dict[Any, Staged] = {}
        self._forwards: dict[Any, Forward] = {}
        self._known: Reference | str = reference(bench, min(30.0, settings.timeout))

    def first(self, make: Any, cell: Cell, mode: Any, starts: Any = None) -> tuple[Staged, Program, Any, Any]:
        """A staged program that has run once, its result and its memory."""
        staged = self.stage(make, cell, mode)
        program = staged.at(given_tolerance(cell), starts)
        program.owner = cell.name
        with Peak(self._bench.backend.name, self._device) as peak:
            result = program.first()
        return staged, program, result, peak.columns()

    def stage(self, make: Any, cell: Cell, mode: Any) -> Staged:
        """The staged program of a solver and mode that fits the cell's tolerance."""
        tol, steps = given_tolerance(cell), int(cell.columns["max_steps"])
        own = make is not forward or mode.name == "unrolled"
        key = (make, cell.solver, repr(mode) if own else None)
        known = self._staged.get(key)
        if known is not None and known.fits(tol):
            return known
        solver = solver_of(cell.solver)
        # A solver of steps is stopped by the loop, which compares; of any other it is not known what it does with it.
        fixed = getattr(solver, "fixed_tolerance", None if hasattr(solver, "step") else True)
        fixed = fixed or (True if known is not None and not known.dynamic else fixed)
        self._staged[key] = Staged(self._bench, make(self._bench, solver, mode, steps), tol, cell.name, fixed)
        return self._staged[key]

    def forward(self, cell: Cell, mode: Any) -> Forward:
        tol = float(cell.columns["tol"])
        key = (cell.solver, tol, repr(mode) if mode.name == "unrolled" else None)
        if key not in self._forwards:
            staged, program, result, peak = self.first(forward, cell, mode)
            solutions = result if self._bench.sequence else [result]
            claims = mode.name != "unrolled"
            columns = certificate_columns(self._bench, solutions, tol, self._dtype, claims) | peak
            if self._settings.break_even and self._bench.backend.staged:
                columns["eager_s"] = staged.eager_seconds(given_tolerance(cell))
            self._forwards[key] = Forward(program, solutions, columns)
        return self._forwards[key]

    def __call__(self, cell: Cell) -> Prepared:
        mode = registry.gradient_of(cell.columns)
        solves = self.forward(cell, mode)
        prepared = Prepared(cell, solves, columns=dict(solves.columns))
        if prepared.columns["status"] in UNSTEADY:
            return prepared
        starts = None
        if self._bench.instance.warm:
            starts = [self._bench.start, *(s.p for s in solves.solutions[:-1])]
        staged, prepared.backward, result, peak = self.first(value_and_gradient, cell, mode, starts)
        prepared.columns |= gradient_columns(self._gradient(result), self._known)
        prepared.columns |= {
            "backward_peak_host_bytes": peak.get("peak_host_bytes"),
            "one_program": staged.dynamic,
        }
        if mode.name == "envelope":  # it has no derivative of the maximiser to give
            bound = envelope_bound(self._bench, solves.solutions[-1], self._known, self._dtype)
            prepared.columns["grad_bound"] = bound
        else:
            _, prepared.argmax, result, _ = self.first(argmax_gradient, cell, mode, starts)
            prepared.columns |= argmax_columns(self._gradient(result), self._known)
        return prepared

    def _gradient(self, result: Any) -> Any:
        """The gradient of the last input: what the reference is of."""
        return result[-1][1] if self._bench.sequence else result[1]


def given_tolerance(cell: Cell) -> float:
    """What the solver is given as its tolerance: the level, or what a search found to reach it."""
    return float(cell.columns.get("tol_given") or cell.columns["tol"])


@cache
def solver_of(text: str) -> Any:
    return registry.make_solver(text)


def build(cell: Cell) -> Bench:
    """The arrays a group works on, from the columns of any of its cells."""
    columns = cell.columns
    work = registry.make_problem(cell.problem, columns["problem_params"], int(columns["seed"]))
    if not work.same_numbers(columns.get("problem_probe")):
        raise GfyValueError(
            f"The problem {work.name} made other numbers from the seed {work.seed} than when it was planned: its "
            "recipe must draw from nothing but the generator that it is given."
        )
    return set_up(work.instance, columns["backend"], columns["device"], columns["dtype"])


def complaint(error: BaseException) -> dict[str, Any]:
    """The row of a cell that raised: what was said, in one line."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return {"status": "crashed", "reason": f"out of memory ({type(error).__name__}: {error})"[:500]}
    if isinstance(error, gfy.UnsupportedError):
        return {"status": "unsupported", "reason": str(error)[:500]}
    first = (str(error).strip().splitlines() or [""])[0]
    return {"status": "crashed", "reason": f"{type(error).__name__}: {first}"[:500]}


def measure_group(group: Group, channel: Any) -> None:
    """The job: announce, prepare, time in rotation, send the rows (see `bench.run.worker.Channel`)."""
    settings = group.settings
    channel.limit_memory(settings.memory)
    prepare = Preparation(build(group.cells[0]), settings, group.cells[0].columns)
    ready: list[Prepared] = []
    for cell in group.cells:
        if channel.stopped():
            break
        channel.hand(cell.name)
        try:
            prepared = prepare(cell)
        except Exception as error:  # whatever a solver raises is the row of its cell
            channel.row(cell.name, complaint(error))
            continue
        if prepared.columns["status"] in UNSTEADY:
            channel.row(cell.name, prepared.columns)
            continue
        ready.append(prepared)
    channel.hand(None)
    load = None
    if not settings.accuracy_only:
        meter = LoadMeter()
        forwards = {id(p.forward): p.forward.program for p in ready}
        others = [program for p in ready for program in (p.backward, p.argmax) if program is not None]
        seed = int(group.cells[0].columns["seed"])
        rotate([*forwards.values(), *others], settings.repeat, settings.budget, seed, channel.hand)
        load = meter.read()
    for prepared in ready:
        channel.row(prepared.cell.name, measured(prepared, load, settings))


def measured(prepared: Prepared, load: float | None, settings: Settings) -> dict[str, Any]:
    """All columns of a row that were measured; `Cell.row` adds what was known beforehand."""
    program, backward = prepared.forward.program, prepared.backward
    staging = None if program.compile_s is None else program.compile_s + (program.trace_s or 0.0)
    columns = {
        **prepared.columns,
        "trace_s": program.trace_s,
        "compile_s": program.compile_s,
        "temp_bytes": program.temp_bytes,
        "first_s": program.first_s,
        "steady_s": program.best,
        "steady_median_s": program.median,
        "steady_spread_s": program.spread,
        "repeats": len(program.samples),
        "samples": program.samples,
        "break_even": break_even(staging, prepared.columns.get("eager_s"), program.best),
        "load": load,
        "loaded": overloaded(load, settings.load_limit),
    }
    if backward is not None:
        columns |= {
            "backward_trace_s": backward.trace_s,
            "backward_compile_s": backward.compile_s,
            "backward_first_s": backward.first_s,
            "backward_temp_bytes": backward.temp_bytes,
            "backward_s": backward.best,
            "backward_median_s": backward.median,
            "backward_spread_s": backward.spread,
            "backward_samples": backward.samples,
        }
    if prepared.argmax is not None:
        columns["argmax_grad_s"] = prepared.argmax.best
    return columns
