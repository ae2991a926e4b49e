"""Read which solver of quadratic energies was the fastest at which size, from rows that were measured and stored.

The file `measured.json` is made by `python -m bench.gates.auto_choice docs/results/full.sqlite --write`. It holds one
entry per form of the problem, framework and size: by how much longer than the fastest each solver took, and in how
many settings that was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gfy.energies.base import Dense, LowRank
from gfy.problem import InnerProblem
from gfy.protocols import Input

FILE = Path(__file__).with_name("measured.json")
LEVEL = 1.3  # A solver that takes at most this many times as long as the fastest counts as level with it.
# A size that differs from the nearest measured one by more than this factor is chosen for by counts of operations.
_FAR = 4.0


class Form(NamedTuple):
    """Say what a problem with a quadratic energy is like, as far as the choice of a solver depends on it."""

    U: str  # "dense" or "low rank"
    omega: str  # "quadratic" or "entropic"
    total: str  # "free", or "fixed" where the set fixes sum p
    k: int
    rank: int  # 0 where U is dense


def form(problem: InnerProblem, v: Input) -> Form | None:
    """Return the form of a problem, or None where its energy is not quadratic in p.

    Args:
        problem: The inner problem.
        v: The energy's Input, of which only the shapes are read.

    Returns:
        The form.

    Example:
        >>> form(problem, v)
        Form(U='dense', omega='quadratic', total='free', k=30, rank=0)
    """
    curvature = problem.energy.curvature(v)
    if not isinstance(curvature, Dense | LowRank):
        return None
    rank = int(curvature.A.shape[-1]) if isinstance(curvature, LowRank) else 0
    omega = "quadratic" if problem.regularizer.quadratic else "entropic"
    total = "free" if problem.domain.total is None else "fixed"
    return Form("low rank" if rank else "dense", omega, total, int(problem.energy.dim(v)), rank)


@cache
def entries() -> tuple[dict[str, Any], ...]:
    """Return the entries of the file."""
    return tuple(json.loads(FILE.read_text("utf-8")))


def fastest(asked: Form, framework: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the first of some solvers that is level with the fastest at the nearest measured size, and a sentence.

    Args:
        asked: The form of the problem.
        framework: "jax" or "torch"; the rows are those of processors.
        names: The solvers that serve the problem, in the order in which equals are preferred.

    Returns:
        A name and what was measured; None where fewer than two of the solvers were measured at a comparable size.

    Example:
        >>> fastest(form(problem, v), "torch", ["ActiveSet", "ProjectedGradient"])
        ('ActiveSet', 'measured at k = 16 in torch: ProjectedGradient took 139 times as long (9 settings)')
    """
    alike = {"U": asked.U, "omega": asked.omega, "total": asked.total, "framework": framework}
    near = [
        (_apart(asked, entry), entry)
        for entry in entries()
        if alike.items() <= entry.items() and sum(name in entry["times"] for name in names) > 1
    ]
    if not near:
        return None
    distance, entry = min(near, key=lambda pair: pair[0])
    if distance > math.log(_FAR):
        return None
    times = {name: entry["times"][name] for name in names if name in entry["times"]}
    chosen = next(name for name, time in times.items() if time <= LEVEL * min(times.values()))
    others = [f"{name} took {time / times[chosen]:.3g}" for name, time in times.items() if name != chosen]
    size = f"k = {entry['k']}" + (f", rank {entry['rank']}" if entry["rank"] else "")
    said = f"measured at {size} in {framework}: {' and '.join(others)} times as long ({entry['settings']} settings)"
    return chosen, said


def _apart(asked: Form, entry: dict[str, Any]) -> float:
    """Return how far two sizes are apart: the larger of the ratios of k and of the rank, as a logarithm."""
    ranks = math.log(asked.rank / entry["rank"]) if asked.rank else 0.0
    return max(abs(math.log(asked.k / entry["k"])), abs(ranks))
