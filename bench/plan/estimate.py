"""Estimate how long a plan takes: programs to compile, programs to time, problems to set up."""

from __future__ import annotations

from bench.plan import registry
from bench.plan.matrix import Cell, Plan

# These are seconds on a small machine with two cores, which both prepare cells: means of runs of `default` and `full`.
START_S = 20.0  # to start the workers and the judges, which import the frameworks
PROBLEM_S = 0.7  # to make one problem in one framework: its numbers, its start, the reference of its gradient
STAGED = ("jax",)
# To trace, lower and compile one program: by whether the solver's own loop is compiled, or code on the host is called,
# and by whether it solves the derivative of the maximiser as well.
COMPILED_S = {(True, False): 1.0, (True, True): 2.0, (False, False): 0.4, (False, True): 0.8}
NETWORKS = ("ConcaveSpen", "Spen", "InputConvexNetwork", "Hopfield")  # energies
NETWORK_COMPILED = 3.0  # times as long for a network energy
# To call one program for the first time and to judge its answer; to time it, when it has the machine to itself.
FIRST_S = {"jax": 0.03, "torch": 0.06}
TIMED_S = {"jax": 0.015, "torch": 0.04}
NETWORK_CALLED = 3.0  # times as long for a network energy
CORES = 2


def estimate(plan: Plan, cores: int = CORES) -> float:
    """Return the seconds that a plan takes on a machine with so many cores, within a factor of about 1.5.

    Args:
        plan: What is to be measured.
        cores: The cores on which groups are prepared side by side; timed calls have the machine to themselves.

    Returns:
        Seconds.

    Example:
        >>> estimate(Plan())
        0.0
    """
    compiled: dict[tuple[object, ...], float] = {}
    prepared, timed = 0.0, 0.0
    for group in plan.groups:
        first = group.cells[0].columns
        backend, network = str(first.get("backend")), first.get("energy") in NETWORKS
        programs = {part: cell for cell in group.cells for part in _programs(cell)}
        called = len(programs) * (NETWORK_CALLED if network else 1.0)
        if backend in STAGED:
            # All seeds and levels share these programs.
            place = (first["problem"], first["dtype"], first["device"])
            for part, cell in programs.items():
                compiled[(*place, *part[:3])] = _compile_seconds(part, cell, network)
        prepared += PROBLEM_S + FIRST_S.get(backend, FIRST_S["torch"]) * called
        timed += TIMED_S.get(backend, TIMED_S["torch"]) * called
    prepared += sum(compiled.values()) + (START_S if plan.groups else 0.0)
    return prepared / max(1, min(cores, CORES)) + timed


def _compile_seconds(part: tuple[object, ...], cell: Cell, network: bool) -> float:
    """Return the seconds that one program takes to compile."""
    own_loop = hasattr(registry.make_solver(cell.solver), "step")
    differentiated = part[0] != "solve" and cell.columns["gradient"] != "envelope"
    return COMPILED_S[own_loop, differentiated] * (NETWORK_COMPILED if network else 1.0)


def _programs(cell: Cell) -> list[tuple[object, ...]]:
    """Return what a cell compiles and times: the solve, the loss with its gradient, the derivative of the maximiser."""
    c = cell.columns
    mode = (c["gradient"], str(c.get("gradient_params")))
    level = None if c["gradient"] == "unrolled" else c["tol"]
    own = mode if c["gradient"] == "unrolled" else None
    found: list[tuple[object, ...]] = [("solve", cell.solver, own, level), ("loss", cell.solver, mode, level)]
    return found if c["gradient"] == "envelope" else [*found, ("argmax", cell.solver, mode, level)]
