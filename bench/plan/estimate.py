"""Estimate how long a plan takes: programs to compile, programs to time, problems to set up."""

from __future__ import annotations

from bench.plan.matrix import Cell, Plan

# These are seconds of one core: the means of a run of the suite `default` on a small machine with two cores.
COMPILED_S = 1.2  # to trace, lower and compile one program, in a framework that stages
FIRST_S = 0.05  # to call one program for the first time and to judge its answers
TIMED_S = 0.05  # to time one program, which has the machine to itself
PROBLEM_S = 1.0  # to make one problem in one framework: its numbers, its start, the reference of its gradient
STAGED = ("jax",)
CORES = 2


def estimate(plan: Plan, cores: int = CORES) -> float:
    """Return the seconds that a plan takes on a machine with so many cores, within a factor of about two.

    Args:
        plan: What is to be measured.
        cores: The cores on which groups are prepared side by side; timed calls have the machine to themselves.

    Returns:
        Seconds.

    Example:
        >>> estimate(Plan())
        0.0
    """
    compiled: set[tuple[object, ...]] = set()
    prepared, timed = 0.0, 0.0
    for group in plan.groups:
        programs = {part for cell in group.cells for part in _programs(cell)}
        first = group.cells[0].columns
        if first.get("backend") in STAGED:
            place = (first["problem"], first["dtype"], first["device"])  # all seeds share these programs
            compiled |= {(*place, *part[:3]) for part in programs}
        prepared += PROBLEM_S + FIRST_S * len(programs)
        timed += TIMED_S * len(programs)
    prepared += COMPILED_S * len(compiled)
    return prepared / max(1, min(cores, CORES)) + timed


def _programs(cell: Cell) -> list[tuple[object, ...]]:
    """Return what a cell compiles and times: the solve, the loss with its gradient, the derivative of the maximiser."""
    c = cell.columns
    mode = (c["gradient"], str(c.get("gradient_params")))
    level = None if c["gradient"] == "unrolled" else c["tol"]
    own = mode if c["gradient"] == "unrolled" else None
    found: list[tuple[object, ...]] = [("solve", cell.solver, own, level), ("loss", cell.solver, mode, level)]
    return found if c["gradient"] == "envelope" else [*found, ("argmax", cell.solver, mode, level)]
