"""Measure a group: the cells of one problem in one place are prepared one by one, then timed in turn.

This is the job that a worker process runs (see `bench.run.worker`); it may be killed at any moment, so every cell
is announced before it is touched and every row leaves as soon as it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import gfy
from bench.measure.certification import certificate_columns, envelope_bound, gradient_columns
from bench.measure.clock import Program, break_even, rotate
from bench.measure.environment import LoadMeter
from bench.measure.memory import Peak
from bench.measure.programs import Bench, Staged, forward, set_up, value_and_gradient
from bench.measure.reference import Reference, reference
from bench.plan import registry
from bench.plan.cells import Cell, Group, Settings
from bench.run.worker import Channel, limit_memory

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
    backward: Program | None
    columns: dict[str, Any] = field(default_factory=dict)


class Preparation:
    """Stages, runs and judges the cells of one group; what cells have in common is made once."""

    def __init__(self, bench: Bench, settings: Settings, device: str, dtype: str) -> None:
        self._bench, self._settings, self._device, self._dtype = bench, settings, device, dtype
        self._staged: dict[Any, Staged] = {}
        self._forwards: dict[Any, Forward] = {}
        self.known: Reference | None = None

    def first(
        self, kind: str, make: Any, cell: Cell, mode: Any, starts: Any = None
    ) -> tuple[Staged, Program, Any, dict[str, Any]]:
        """A program that has run once, its result and its memory; its tolerance is fixed if it must be."""
        staged = self.stage(kind, make, cell, mode)
        try:
            return staged, *self._once(staged, cell, starts)
        except Exception:
            if not staged.dynamic:
                raise
        staged = self.stage(kind, make, cell, mode, fixed=True)
        return staged, *self._once(staged, cell, starts)

    def _once(self, staged: Staged, cell: Cell, starts: Any) -> tuple[Program, Any, dict[str, Any]]:
        program = staged.at(float(cell.columns["tol"]), starts)
        program.owner = cell.name
        with Peak(self._bench.backend.name, self._device) as peak:
            result = program.first()
        return program, result, peak.columns()

    def stage(self, kind: str, make: Any, cell: Cell, mode: Any, fixed: bool = False) -> Staged:
        """The staged program of a solver and mode that fits the cell's tolerance."""
        tol, steps = float(cell.columns["tol"]), int(cell.columns["max_steps"])
        own = kind == "backward" or mode.name == "unrolled"
        key = (kind, cell.solver, repr(mode) if own else None)
        known = self._staged.get(key)
        if known is not None and known.fits(tol) and not (fixed and known.dynamic):
            return known
        function = make(self._bench, solver_of(cell.solver), mode, steps)
        fixed = fixed or (known is not None and not known.dynamic)
        self._staged[key] = Staged(self._bench, function, tol, cell.name, fixed)
        return self._staged[key]

    def forward(self, cell: Cell, mode: Any) -> Forward:
        tol = float(cell.columns["tol"])
        key = (cell.solver, tol, repr(mode) if mode.name == "unrolled" else None)
        if key not in self._forwards:
            staged, program, result, peak = self.first("forward", forward, cell, mode)
            solutions = result if self._bench.sequence else [result]
            claims = mode.name != "unrolled"
            columns = certificate_columns(self._bench, solutions, tol, self._dtype, claims) | peak
            if self._settings.break_even and self._bench.backend.name == "jax":
                columns["eager_s"] = staged.eager_seconds(tol)
            self._forwards[key] = Forward(program, solutions, columns)
        return self._forwards[key]

    def __call__(self, cell: Cell) -> Prepared:
        mode = registry.gradient_of(cell.columns)
        solves = self.forward(cell, mode)
        columns = dict(solves.columns)
        prepared = Prepared(cell, solves, None, columns)
        if columns["status"] in UNSTEADY:
            return prepared
        starts = None
        if self._bench.instance.warm:
            starts = [self._bench.start, *(s.p for s in solves.solutions[:-1])]
        staged, program, result, peak = self.first("backward", value_and_gradient, cell, mode, starts)
        _, gradient = result[-1] if self._bench.sequence else result
        columns |= gradient_columns(self._bench, gradient, self.known)
        if mode.name == "envelope":
            columns["grad_bound"] = envelope_bound(self._bench, solves.solutions[-1], self.known, self._dtype)
        prepared.backward = program
        columns |= {
            "backward_trace_s": program.trace_s,
            "backward_compile_s": program.compile_s,
            "backward_first_s": program.first_s,
            "backward_temp_bytes": program.temp_bytes,
            "backward_peak_host_bytes": peak.get("peak_host_bytes"),
            "one_program": staged.dynamic,
        }
        if self.known is not None:
            columns |= {
                "grad_reference": f"{self.known.solver}, {self.known.mode}",
                "grad_reference_gap": self.known.gap,
                "grad_reference_residual": self.known.residual,
            }
        return prepared


@cache
def solver_of(text: str) -> Any:
    return registry.make_solver(text)


def build(cell: Cell) -> Bench:
    """The arrays a group works on, from the columns of any of its cells."""
    columns = cell.columns
    family = registry.make_family(cell.problem)
    instance = family.make(np.random.default_rng(int(columns["seed"])), **columns["problem_params"])
    return set_up(instance, columns["backend"], columns["device"], columns["dtype"])


def complaint(error: BaseException) -> dict[str, Any]:
    """The row of a cell that raised: what was said, in one line."""
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return {"status": "crashed", "reason": f"out of memory ({type(error).__name__}: {error})"[:500]}
    if isinstance(error, gfy.UnsupportedError):
        return {"status": "unsupported", "reason": str(error)[:500]}
    first = (str(error).strip().splitlines() or [""])[0]
    return {"status": "crashed", "reason": f"{type(error).__name__}: {first}"[:500]}


def measure_group(group: Group, channel: Channel) -> None:
    """The job: announce, prepare, time in rotation, send the rows."""
    settings = group.settings
    limit_memory(settings.memory)
    place = group.cells[0].columns
    bench = build(group.cells[0])
    prepare = Preparation(bench, settings, place["device"], place["dtype"])
    prepare.known = reference(bench)
    ready: list[Prepared] = []
    for cell in group.cells:
        if channel.stopped():
            break
        channel.hand(cell.name)
        try:
            prepared = prepare(cell)
        except Exception as error:
            channel.row(cell.name, complaint(error))
            continue
        if prepared.columns["status"] in UNSTEADY:
            channel.row(cell.name, prepared.columns)
            continue
        ready.append(prepared)
    channel.hand(None)
    meter = LoadMeter()
    if not settings.accuracy_only:
        forwards = {id(p.forward): p.forward.program for p in ready}
        programs = [*forwards.values(), *(p.backward for p in ready if p.backward is not None)]
        rotate(programs, settings.repeat, settings.budget, int(place["seed"]), channel.hand)
    load = None if settings.accuracy_only else meter.read()
    for prepared in ready:
        channel.row(prepared.cell.name, row_of(prepared, load, settings))


def row_of(prepared: Prepared, load: float | None, settings: Settings) -> dict[str, Any]:
    """The measured columns of a row."""
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
        "loaded": int(load is not None and load > settings.load_limit),
    }
    if backward is not None:
        columns |= {
            "backward_s": backward.best,
            "backward_median_s": backward.median,
            "backward_spread_s": backward.spread,
            "backward_samples": backward.samples,
        }
    return columns
