"""Measure a group: the cells of one problem in one place are prepared one by one, then timed in turn.

A worker process runs this job (see `bench.run.worker`). It may be killed at any moment; so it announces every cell
before it works on it, and sends every row as soon as the row's last sample is taken. What solvers return is sent as
arrays, and another process, in which no measured solver runs, judges it (see `bench.measure.certification`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import gfy
from bench.measure.clock import LoadMeter, Program, break_even, lacks_memory, overloaded, rotate
from bench.measure.programs import (
    Bench,
    Staged,
    argmax_gradient,
    forward,
    set_up,
    to_numpy,
    value_and_gradient,
)
from bench.measure.resources import Peak
from bench.plan import registry
from bench.plan.matrix import Cell, Group, Settings
from bench.problems.base import Instance
from gfy.backend import leaves
from gfy.errors import GfyValueError
from solvers.kernels.at_once import AtOnce


@dataclass
class Prepared:
    """Hold a cell that has run once and waits to be timed: its programs, what they returned, and its columns so far."""

    cell: Cell
    forward: Program
    backward: Program | None = None
    argmax: Program | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def programs(self) -> list[Program]:
        return [program for program in (self.forward, self.backward, self.argmax) if program is not None]


Call = tuple[tuple[Any, ...], Any]  # the arguments of a call, and what it returned as arrays of NumPy


def answer(call: Call | None) -> dict[str, Any]:
    """Return what a call of a program of solves returned, as arrays of NumPy."""
    assert call is not None
    (number, _), solutions = call
    parts = ("p", "steps", "converged")
    return {"number": number, **{name: [np.asarray(getattr(s, name)) for s in solutions] for name in parts}}


def gradient(call: Call | None) -> dict[str, Any]:
    """Return the gradient that a call of a program returned for its last input, leaf by leaf."""
    assert call is not None
    (number, _), results = call
    return {"number": number, "leaves": list(leaves(results[-1][1]))}


def later(program: Program, of: Callable[[Call | None], dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return what the fastest and the last timed call of a program returned; one entry where these are one call."""
    same = program.fastest is program.last
    return {"last": of(program.last)} if same else {"fastest": of(program.fastest), "last": of(program.last)}


def plain(x: Any) -> np.ndarray:
    return np.array(to_numpy(x))


class SpoiledInputs(Exception):
    """A solver wrote into the arrays that it was given."""


class Preparation:
    """Stage and run the cells of one group; what cells have in common is made once."""

    def __init__(self, bench: Bench, settings: Settings, device: str) -> None:
        self._bench, self._settings, self._device = bench, settings, device
        self._staged: dict[Any, Staged] = {}
        self._programs: dict[Any, tuple[Staged, Program, dict[str, Any]]] = {}

    def first(
        self, make: Any, cell: Cell, mode: Any, starts: Any = None
    ) -> tuple[Staged, Program, dict[str, Any]]:
        """Return a staged program that has run once, and its memory; cells whose work is the same share one."""
        key = (*self._work(make, cell, mode), self._level(cell, mode))
        if key not in self._programs:
            staged = self.stage(make, cell, mode)
            program = staged.at(cell.given_tol, starts)
            program.owner = cell.name
            with Peak(self._bench.backend, self._device) as peak:
                program.first()
            untouched(program)
            self._programs[key] = staged, program, peak.columns()
        program = self._programs[key][1]
        program.contests |= {(make.__name__, float(cell.columns["tol"]))}
        return self._programs[key]

    def _work(self, make: Any, cell: Cell, mode: Any) -> tuple[Any, ...]:
        """Return what a program does, whatever its tolerance."""
        own = make is not forward or mode.name == "unrolled"
        return make.__name__, cell.solver, repr(mode) if own else None

    def _level(self, cell: Cell, mode: Any) -> float | None:
        """Return the tolerance, or None where the work is the same at each: fixed steps, or a solver that
        ignores it."""
        blind = mode.name == "unrolled" or getattr(solver_of(cell.solver), "ignores_tolerance", False)
        return None if blind else cell.given_tol

    def stage(self, make: Any, cell: Cell, mode: Any) -> Staged:
        """Return the staged program of a solver and mode that fits the cell's tolerance."""
        tol, steps = cell.given_tol, int(cell.columns["max_steps"])
        key = self._work(make, cell, mode)
        known = self._staged.get(key)
        if known is not None and known.fits(tol):
            return known
        solver = solver_of(cell.solver)
        # The library's loop stops a solver that has a `step`, and only compares with the tolerance. What any
        # other solver does with its tolerance is not known, so that it is compiled for a fixed one.
        fixed = getattr(solver, "fixed_tolerance", None if hasattr(solver, "step") else True)
        if fixed and without_kernels(solver, self._bench):
            fixed = False
        fixed = fixed or (True if known is not None and not known.dynamic else fixed)
        work, title = make(self._bench, solver, mode, steps), f"{key}, {steps} steps"
        self._staged[key] = Staged(self._bench, work, tol, cell.name, fixed, title)
        return self._staged[key]

    def forward(self, cell: Cell, mode: Any) -> tuple[Program, dict[str, Any]]:
        """Return the solves of one solver at one tolerance, shared by the cells that differ in the gradient mode."""
        staged, program, columns = self.first(forward, cell, mode)
        if self._settings.break_even and self._bench.backend.staged:
            columns["eager_s"] = staged.eager_seconds(cell.given_tol)
        return program, columns

    def __call__(self, cell: Cell) -> Prepared:
        mode = registry.gradient_of(cell.columns)
        program, columns = self.forward(cell, mode)
        first = answer(program.last)
        prepared = Prepared(cell, program, evidence={"first": first}, columns=dict(columns))
        if not all(np.isfinite(p).all() for p in first["p"]):
            return prepared  # a solution that is not finite has no derivative
        starts = None
        if self._bench.instance.warm:
            starts = [plain(self._bench.start), *first["p"][:-1]]
        staged, prepared.backward, peak = self.first(value_and_gradient, cell, mode, starts)
        prepared.evidence["gradient"] = gradient(prepared.backward.last)
        prepared.columns |= {
            "backward_peak_host_bytes": peak.get("peak_host_bytes"),
            "one_program": staged.dynamic,
        }
        if mode.name != "envelope":  # the envelope mode gives no derivative of the maximiser
            _, prepared.argmax, _ = self.first(argmax_gradient, cell, mode, starts)
            prepared.evidence["argmax"] = gradient(prepared.argmax.last)
        return prepared


def untouched(program: Program) -> None:
    """Raise where the last call of a program wrote into its arguments."""
    if program.last is not None and not program.intact(*program.last[0]):
        raise SpoiledInputs("it writes into the arrays that it is given")


def without_kernels(solver: Any, bench: Bench) -> bool:
    """Return whether a solver that has kernels solves this problem without them, so that the tolerance may be traced.

    Only a kernel must know its tolerance while a call is staged.
    """
    return isinstance(solver, AtOnce) and not solver.compiled(bench.problem, bench.inputs[0])


@cache
def solver_of(text: str) -> Any:
    return registry.make_solver(text)


def instance_of(cell: Cell) -> Instance:
    """Return the problem of a cell in NumPy, made again from what names it."""
    columns = cell.columns
    work = registry.make_problem(cell.problem, columns["problem_params"], int(columns["seed"]))
    if not work.same_numbers(columns.get("problem_probe")):
        raise GfyValueError(
            f"The problem {work.name} made other numbers from the seed {work.seed} than when it was planned: its "
            "recipe must draw from nothing but the generator that it is given."
        )
    return work.instance


def build(cell: Cell) -> Bench:
    """Return the arrays a group works on, from the columns of any of its cells."""
    columns = cell.columns
    return set_up(instance_of(cell), columns["backend"], columns["device"], columns["dtype"])


def complaint(error: BaseException) -> dict[str, Any]:
    """Return the row of a cell that raised, with its message in one line."""
    if isinstance(error, gfy.UnsupportedError):
        return {"status": "unsupported", "reason": str(error)[:500]}
    first = (str(error).strip().splitlines() or [""])[0]
    return {"status": "crashed", "reason": f"{type(error).__name__}: {first}"[:500]}


# Rows hold the times of torch itself; the time of torch code that XLA compiles is a bar of its own.
@gfy.staging(after=None)
def measure_group(group: Group, channel: Any) -> None:
    """Do the job: announce, prepare, time in rotation, send the rows (see `bench.run.worker.Channel`)."""
    settings = group.settings
    channel.limit_memory(settings.memory)
    bench = build(group.cells[0])
    prepare = Preparation(bench, settings, str(group.cells[0].columns["device"]))
    # Groups are prepared side by side on the same cores. When each of them used all threads, first calls took
    # up to 20 times as long as later ones.
    with bench.backend.one_thread():
        ready = list(prepared_cells(group, prepare, channel))
    channel.hand(None)
    if ready:
        Timing(ready, settings, channel)(int(group.cells[0].columns["seed"]))


def prepared_cells(group: Group, prepare: Preparation, channel: Any) -> Iterator[Prepared]:
    """Yield the cells of a group that wait to be timed; the rows of the others leave at once."""
    for cell in group.cells:
        if channel.stopped():
            break
        channel.hand(cell.name)
        try:
            prepared = prepare(cell)
        except Exception as error:  # whatever a solver raises becomes the row of its cell
            if lacks_memory(error):
                raise  # this process cannot continue; another one measures the remaining cells
            channel.row(cell.name, complaint(error))
            continue
        if group.settings.accuracy_only or prepared.backward is None:
            channel.row(cell.name, prepared.columns, prepared.evidence)
            continue
        yield prepared


class Timing:
    """Time prepared cells in rotation; the row of each is sent when its last program has its last sample."""

    def __init__(self, ready: list[Prepared], settings: Settings, channel: Any) -> None:
        self._waiting, self._settings, self._channel = list(ready), settings, channel
        self._meter = LoadMeter(running=False)  # other workers of this run are busy until the first round

    def __call__(self, seed: int) -> None:
        programs = {id(program): program for cell in self._waiting for program in cell.programs}
        rotate(
            programs.values(),
            self._settings.repeat,
            self._settings.budget,
            seed,
            self._channel.hand,
            rest=self._rest,
            finished=self._finished,
            failed=self._failed,
        )

    def _rest(self) -> None:
        self._meter.pause()
        self._channel.rest()  # returns when the other workers of this run have had their round
        self._meter.resume()

    def _finished(self, program: Program) -> None:
        try:
            untouched(program)
        except SpoiledInputs as error:
            self._failed(program, error)
            return
        for prepared in self._waiting[:]:
            if all(p.over for p in prepared.programs):
                self._send(prepared)
        self._waiting = [c for c in self._waiting if not all(p.over for p in c.programs)]

    def _send(self, prepared: Prepared) -> None:
        columns = measured(prepared, self._meter.read(), self._settings)
        assert prepared.backward is not None
        timed = {"answers": later(prepared.forward, answer), "gradients": later(prepared.backward, gradient)}
        if prepared.argmax is not None:
            timed["argmaxes"] = later(prepared.argmax, gradient)
        self._meter.pause()
        self._channel.row(prepared.cell.name, columns, prepared.evidence | timed)
        self._meter.resume()

    def _failed(self, program: Program, error: Exception) -> None:
        """Record the failure of a program in every cell that uses it; their other programs are timed no further."""
        told = complaint(error)
        told["reason"] = f"while it was timed: {told['reason']}"[:500]
        ended = [cell for cell in self._waiting if any(program is p for p in cell.programs)]
        self._waiting = [cell for cell in self._waiting if all(program is not p for p in cell.programs)]
        needed = {id(p) for prepared in self._waiting for p in prepared.programs}
        for prepared in ended:
            for other in prepared.programs:
                other.over = other.over or id(other) not in needed
            self._channel.row(prepared.cell.name, told)


def measured(prepared: Prepared, load: float | None, settings: Settings) -> dict[str, Any]:
    """Return all columns of a row that were measured; `Cell.row` adds what was known beforehand."""
    program, backward = prepared.forward, prepared.backward
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
