"""List what the gate measures: few cells that together cover every solver, both frameworks and the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Cell:
    """Describe one solver on one workload in one framework."""

    family: str
    k: int
    batch: int
    rank: int | None
    solver: str
    backend: str
    tol: float = 1e-10
    max_steps: int = 2_000
    dtype: str = "float64"

    @property
    def name(self) -> str:
        place = self.backend if self.dtype == "float64" else f"{self.backend}/{self.dtype}"
        return f"{self.family}-k{self.k}-b{self.batch}/{self.solver}/{place}"

    def asdict(self) -> dict[str, Any]:
        return asdict(self)


_WORK = (
    ("pairwise-gini", 174, 64, 1, ("DualNewton", "CoordinateAscent")),
    ("pairwise-shannon", 100, 64, 1, ("DualNewton",)),
    ("dense-gini", 64, 64, None, ("CoordinateAscent", "ProjectedNewton", "ProjectedGradient")),
    ("simplex-gini", 200, 32, None, ("ProjectedGradient", "FrankWolfe")),
    ("simplex-shannon", 200, 32, None, ("MirrorAscent",)),
    ("concave-spen", 64, 64, None, ("DualNewton",)),
)
CELLS = (
    *(
        Cell(family, k, batch, rank, solver, backend)
        for family, k, batch, rank, solvers in _WORK
        for solver in solvers
        for backend in ("jax", "torch")
    ),
    # A derivative may be wrong in single precision alone.
    *(
        Cell("pairwise-gini", 174, 64, 1, "DualNewton", backend, tol=1e-5, dtype="float32")
        for backend in ("jax", "torch")
    ),
)


def every() -> list[Cell]:
    """Return the cells of this suite, and one for every family and solver that another package registers."""
    from bench.gates.problems import registered

    plugged = [
        Cell(family, 64, 64, None, solver, backend)
        for family, solver in registered()
        for backend in ("jax", "torch")
    ]
    return [*CELLS, *plugged]


def choose(words: Sequence[str]) -> list[Cell]:
    """Return the cells whose name contains every one of the words, or raise a sentence where none does."""
    cells = every()
    found = [cell for cell in cells if all(word.lower() in cell.name.lower() for word in words)]
    if not found:
        listed = ", ".join(cell.name for cell in cells)
        raise GfyValueError(f"No cell's name contains {' and '.join(words)}; the cells are {listed}.")
    return found
