"""Time cold, warm and amortised solves of the problems of one training run to the same certified accuracy.

All ways solve the same recorded problems in the same order, by a Newton method or by a first-order method. *cold*
starts every solve anew. *warm* starts at the solution that the same example had an epoch ago. *amortised* starts at the
proposal of a network, takes a few steps, and has a fallback; the network is fitted at the end of every epoch to the
problems of that epoch and, with less weight, to those of the epochs before. *proposed* starts at the same proposal and
takes as many steps as it needs. *perfect* starts at the solution itself, which no proposal can improve on: the time of
*cold* less that of *perfect* is the most that a proposal may cost. In the first epoch all ways start cold. The fits are
timed apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gfy
import solvers
from bench.experiments.amortised.course import Course, recorded
from bench.experiments.common.models import Model
from bench.experiments.theory.rows import as_arrays, good, theory_row
from bench.measure.clock import Program, Stopwatch, rotate
from bench.store import Store, key_of
from gfy.backend import get_backend
from solvers.amortised import Proposal, ProposalLearner

Say = Callable[[str], None]
WAYS = ("cold", "warm", "amortised", "proposed", "perfect")
LEARNED = ("amortised", "proposed")
STOP = gfy.Stop(1e-8, 500)
ACCURATE = 1e-8  # the certified relative gap that every way must reach on every example
STEPS = {"DualNewton": 3, "ProjectedGradient": 30}  # steps of the attempt, for each solver
HIDDEN, ROUNDS = 32, 5
TURN_S = 1.0  # seconds of one turn of a way, which goes through a training several times


@dataclass(frozen=True)
class Setting:
    """Describe a training whose inner problems are replayed, and the framework that solves them."""

    dataset: str
    rank: int
    regularizer: str
    solver: str
    backend: str
    epochs: int = 6

    @property
    def problem(self) -> gfy.InnerProblem:
        found: gfy.InnerProblem = Model(
            "pairwise", 1, 1, rank=self.rank, regularizer=self.regularizer
        ).problem()
        return found

    def full(self) -> Any:
        return getattr(solvers, self.solver)()

    def amortised(self, layers: Any, way: str = "amortised") -> solvers.Amortised:
        """Return the solver that starts from the proposal of these layers and falls back where it is not certified."""
        proposal = Proposal(self.problem, *layers)
        steps = STEPS[self.solver] if way == "amortised" else STOP.max_steps
        return solvers.Amortised(proposal, steps, self.full(), self.full())


class Replay:
    """Hold the recorded problems as arrays of a framework, and run one pass over them for every way."""

    def __init__(self, setting: Setting, course: Course) -> None:
        self.problem, self.course, self.setting = setting.problem, course, setting
        self.backend = get_backend(setting.backend)
        self._arrays = as_arrays(setting.backend)
        self.inputs = [
            gfy.Pairwise.Input(*map(self._arrays, pair)) for pair in zip(course.u, course.A, strict=True)
        ]
        self.fit_s = 0.0
        full, problem, jit = setting.full(), self.problem, self.backend.jit
        self._solve = jit(lambda v: full.solve(problem, v, None, STOP))
        self._from = jit(lambda v, p0: full.solve(problem, v, p0, STOP))
        self._keep = jit(self.backend.set_at)

        def warm(v: Any, known: Any, rows: Any) -> tuple[Any, Any]:
            found = full.solve(problem, v, known[rows], STOP)
            return found, self.backend.set_at(known, rows, found.p)

        self._warm = jit(warm)
        self._learned = {
            way: jit(lambda layers, v, way=way: setting.amortised(layers, way).solve(problem, v, None, STOP))
            for way in LEARNED
        }
        self.proposals = self._fit()

    def _fit(self) -> list[Any]:
        """Return the layers that the second epoch and those after it begin with."""
        learner = ProposalLearner(self.problem, hidden=HIDDEN, keep=0.95)
        found: list[Any] = []
        self.solutions: list[Any] = []
        for n, v in enumerate(self.inputs):
            p = self._solve(v).p
            self.solutions.append(p)
            watch = Stopwatch()
            learner.see(v, p)
            if (n + 1) % self.course.epoch == 0:
                found.append([self._arrays(x) for x in learner.proposal().layers])
            self.fit_s += watch.wall_s
        return found

    def passed(self, way: str) -> list[Any]:
        """Return the solutions of every step, in their order; what a way keeps between steps belongs to it."""
        epoch = self.course.epoch
        first = [self._solve(v) for v in (self.inputs if way == "cold" else self.inputs[:epoch])]
        if way == "cold":
            return first
        later = range(epoch, len(self.inputs))
        if way == "perfect":
            return first + [self._from(self.inputs[n], self.solutions[n]) for n in later]
        if way in self._learned:
            solve = self._learned[way]
            return first + [solve(self.proposals[n // epoch - 1], self.inputs[n]) for n in later]
        known, found = self._arrays(np.full((self.course.examples, self.course.u.shape[-1]), 0.5)), first
        for part, rows in zip(first, self.rows[:epoch], strict=True):
            known = self._keep(known, rows, part.p)
        for n in later:
            part, known = self._warm(self.inputs[n], known, self.rows[n])
            found.append(part)
        return found

    @property
    def rows(self) -> list[Any]:
        """Return the examples of every step, as indices of the framework."""
        if not hasattr(self, "_rows"):
            whole = self.backend.indices(self.course.examples, self.inputs[0].u)
            self._rows = [whole[index] for index in self.course.index]
        return self._rows

    def accepted(self, way: str) -> float:
        """Return the share of examples that the certificate accepts before any fallback, or 1 where there is none."""
        if way not in self._learned:
            return 1.0
        shares = []
        epoch = self.course.epoch
        for n in range(epoch, len(self.inputs), max(1, len(self.inputs) // 40)):
            solver = self.setting.amortised(self.proposals[n // epoch - 1], way)
            found = solver.attempt(self.problem, self.inputs[n], None, STOP)
            shares.append(np.asarray(self.backend.to_numpy(found.converged)).mean())
        return float(np.mean(shares))


def measured(setting: Setting, data_dir: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return the columns of one row per way: certified accuracy, steps, and microseconds per example."""
    course = recorded(setting.dataset, setting.rank, setting.regularizer, setting.epochs, data_dir=data_dir)
    replay = Replay(setting, course)
    backend, count = replay.backend, course.index.size
    columns: dict[str, dict[str, Any]] = {}
    programs = {way: Program(lambda way=way: replay.passed(way), backend.sync, way) for way in WAYS}
    for way, program in programs.items():
        found = program.first()
        proof = [gfy.certify(replay.problem, v, part.p) for v, part in zip(replay.inputs, found, strict=True)]
        gap = np.stack([p.gap / np.maximum(1, np.abs(p.value)) for p in proof])
        told = np.stack([backend.to_numpy(part.converged) for part in found])
        steps = np.stack([backend.to_numpy(part.steps) for part in found])
        columns[way] = {
            "gap_rel": float(gap.max()), "converged": float(told.mean()), "steps": float(steps.mean()),
            "steps_max": float(steps.max()), "status": "ok" if gap.max() <= ACCURATE else "not converged",
            "extra": {"accepted": replay.accepted(way), "fit_us": 1e6 * replay.fit_s / count * (way in LEARNED)},
        }  # fmt: skip
    watch = Stopwatch()
    rotate(programs.values(), ROUNDS, TURN_S)
    for way, program in programs.items():
        assert program.best is not None
        columns[way] |= {
            "steady_s": program.best, "steady_median_s": program.median, "steady_spread_s": program.spread,
            "first_s": program.first_s, "repeats": len(program.samples), "samples": program.samples,
            "score": 1e6 * program.best / count, **watch.columns(),
        }  # fmt: skip
    return columns


def settings(quick: bool) -> list[Setting]:
    """Return the trainings that are replayed."""
    if quick:
        return [Setting("synthetic", 1, "gini", "DualNewton", backend, 2) for backend in ("torch", "jax")]
    newton = [("yeast", 1, "gini"), ("yeast", 8, "gini"), ("yeast", 8, "shannon"), ("cal500", 8, "gini"),
              ("cal500", 8, "shannon")]  # fmt: skip
    cases = [(*case, "DualNewton") for case in newton] + [("yeast", 8, "gini", "ProjectedGradient")]
    return [
        Setting(*case, backend, 2 if case[-1] == "ProjectedGradient" else 6)
        for case in cases
        for backend in ("torch", "jax")
    ]


def run(store: Store, say: Say, quick: bool = False, data_dir: Path | None = None) -> list[dict[str, Any]]:
    """Return one row per setting and way; settings that are stored are not measured again.

    Args:
        store: where rows go.
        say: told of every row.
        quick: one small training per framework; False by default.
        data_dir: folder searched before GFY_DATA; None by default.

    Returns:
        The rows of all settings.
    """
    found = []
    for setting in settings(quick):
        rows = {way: _row(setting, way) for way in WAYS}
        stored = [store.get(key_of(row)) for row in rows.values()]
        if not all(good(row) for row in stored):
            for way, columns in measured(setting, data_dir).items():
                rows[way] |= columns
                store.put(rows[way])
                say(
                    f"{setting.dataset}, rank {setting.rank}, {setting.regularizer}, {setting.solver}, "
                    f"{setting.backend}, {way}: "
                    f"{rows[way]['score']:.2f} us per example, {rows[way]['steps']:.2f} steps, "
                    f"{100 * rows[way]['extra']['accepted']:.1f} % accepted, gap {rows[way]['gap_rel']:.0e}"
                )
            stored = [store.get(key_of(row)) for row in rows.values()]
        found += [row for row in stored if row is not None]
    return found


def _row(setting: Setting, way: str) -> dict[str, Any]:
    params = {
        "dataset": setting.dataset,
        "epochs": setting.epochs,
        "hidden": HIDDEN,
        "steps": STEPS[setting.solver],
    }
    return theory_row(
        "amortised", setting.dataset, setting.problem, params, batch=32, rank=setting.rank, seed=0,
        backend=setting.backend, solver=setting.solver, solver_params={"start": way},
        tol=ACCURATE, tol_given=STOP.tol, max_steps=STOP.max_steps,
        gradient="none", score_name="us per example",
    )  # fmt: skip
