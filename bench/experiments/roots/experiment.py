"""Time one bracketed Newton root beside bisections of a fixed length, both at the same certified accuracy.

The bisection gets the fewest halvings that certify on every example, with a relative gap and a distance of p from the
simplex below the accuracy. It is timed at two accuracies; the Newton root always ends at the rounding of float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import gfy
from bench.experiments.theory.rows import Say, as_arrays, good, theory_row
from bench.measure.clock import Program, Stopwatch, rotate
from bench.problems.roots import NAMES, Setting, bisected
from bench.store import Store, key_of
from gfy.backend import get_backend

SIZES = ((10, 128), (100, 128), (1000, 128))  # (k, batch)
ACCURACIES = (1e-10, 1e-5)  # certified accuracies; the Newton root must reach the first
MOST_HALVINGS = 70
ROUNDS = 7


def off(problem: gfy.InnerProblem, theta: np.ndarray, p: np.ndarray) -> float:
    """Return the larger of the certified relative gap and the distance of p from the simplex, over all examples."""
    proof = gfy.certify(problem, theta, p)
    return float(np.maximum(proof.gap / np.maximum(1, np.abs(proof.value)), proof.feasibility).max())


def fewest_halvings(setting: Setting, accuracy: float) -> int:
    """Return how many halvings certify at an accuracy, counted on the host; `MOST_HALVINGS` where none does."""
    problem, theta = setting.problem, setting.theta
    for halvings in range(1, MOST_HALVINGS):
        if off(problem, theta, bisected(theta, setting.prior, setting.f, halvings)) <= accuracy:
            return halvings
    return MOST_HALVINGS


def measured(setting: Setting) -> dict[float | None, dict[str, Any]]:
    """Return the columns of one row for the Newton root (None) and one per accuracy of the bisection."""
    backend, arrays = get_backend(setting.backend), as_arrays(setting.backend)
    problem, theta, q = setting.problem, arrays(setting.theta), arrays(setting.prior)
    halvings = {accuracy: fewest_halvings(setting, accuracy) for accuracy in ACCURACIES}
    calls: dict[float | None, Any] = {None: lambda t: problem.regularizer.argmax(t, problem.domain)}
    for given, number in halvings.items():
        calls[given] = partial(bisected, prior=q, f=setting.f, halvings=number)
    programs = {
        n: Program(partial(backend.jit(call), theta), backend.sync, str(n)) for n, call in calls.items()
    }
    columns: dict[float | None, dict[str, Any]] = {}
    for accuracy, program in programs.items():
        found = off(problem, setting.theta, np.asarray(backend.to_numpy(program.first())))
        sure = found <= (ACCURACIES[0] if accuracy is None else accuracy)
        extra = {} if accuracy is None else {"halvings": halvings[accuracy]}
        columns[accuracy] = {"gap_rel": found, "status": "ok" if sure else "not converged", "extra": extra}
    watch = Stopwatch()
    rotate(programs.values(), ROUNDS, 0.25)
    for accuracy, program in programs.items():
        columns[accuracy] |= {
            "steady_s": program.best, "steady_median_s": program.median, "steady_spread_s": program.spread,
            "first_s": program.first_s, "repeats": len(program.samples), "samples": program.samples,
            **watch.columns(),
        }  # fmt: skip
    return columns


def settings(quick: bool) -> list[Setting]:
    """Return what is measured: every divergence, size and framework, or the smallest size alone."""
    return [
        Setting(f, k, batch, backend)
        for k, batch in (SIZES[:1] if quick else SIZES)
        for f in NAMES
        for backend in ("jax", "torch")
    ]


def run(store: Store, say: Say, quick: bool = False) -> list[dict[str, Any]]:
    """Measure three rows per setting; settings that are stored are not measured again.

    Args:
        store: Where rows go.
        say: Told of every setting.
        quick: The smallest size alone; False by default.

    Returns:
        The stored rows.
    """
    found: list[dict[str, Any]] = []
    for setting in settings(quick):
        rows = {accuracy: _row(setting, accuracy) for accuracy in (None, *ACCURACIES)}
        if not all(good(store.get(key_of(row))) for row in rows.values()):
            for accuracy, columns in measured(setting).items():
                store.put(rows[accuracy] | columns)
                way = "Newton root" if accuracy is None else f"{columns['extra']['halvings']} halvings"
                say(f"{setting.f}, k = {setting.k}, batch {setting.batch}, {setting.backend}, {way}: "
                    f"{1e3 * columns['steady_s']:.3f} ms, off by {columns['gap_rel']:.0e}")  # fmt: skip
        stored = [store.get(key_of(row)) for row in rows.values()]
        found += [row for row in stored if row is not None]
    return found


def _row(setting: Setting, accuracy: float | None) -> dict[str, Any]:
    ours = accuracy is None
    return theory_row(
        "roots", setting.f, setting.problem, {"prior": "1 / j", "scores": "standard normal"},
        k=setting.k, batch=setting.batch, seed=0, backend=setting.backend,
        solver="Newton root" if ours else "bisection", tol=ACCURACIES[0] if ours else accuracy,
        gradient="none", score_name="seconds per call",
    )  # fmt: skip
