"""Define the cells of the paper's three multilabel tables, the figures it prints for them, and how each is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bench.experiments.common.models import ENERGIES, Model
from bench.experiments.common.training import Recipe, Settings, grid
from bench.experiments.multilabel.written import protocol
from bench.store import key_of
from gfy.errors import GfyValueError

DATASETS = ("yeast", "scene", "birds", "emotions", "cal500", "mediamill-reduced")
TABLES = ("energies", "gradients", "losses")

# Test accuracy in %, in the order of the paper's columns.
_COLUMNS = ("yeast", "scene", "mediamill", "birds", "emotions", "cal500")
_PAPER = {
    ("unary-linear", "gfy", "envelope"): (79.76, 89.14, 96.84, 86.47, 78.22, 85.67),
    ("unary-rectifier", "gfy", "envelope"): (80.03, 91.35, 96.91, 91.74, 79.79, 86.25),
    ("pairwise", "gfy", "envelope"): (80.19, 91.58, 96.95, 91.55, 80.56, 85.73),
    ("spen", "gfy", "envelope"): (79.99, 91.24, 96.68, 91.41, 79.35, 86.25),
    ("concave-spen", "gfy", "envelope"): (80.00, 90.64, 96.95, 91.77, 79.73, 86.35),
    ("pairwise", "gfy", "implicit"): (80.33, 91.58, 96.95, 91.54, 80.53, 85.57),
    ("pairwise", "energy", "envelope"): (42.35, 33.02, 40.92, 14.29, 55.50, 39.27),
    ("pairwise", "cross_entropy", "implicit"): (79.00, 90.78, 96.77, 91.56, 78.08, 85.89),
    ("pairwise", "perceptron", "envelope"): (68.36, 89.33, 93.24, 88.92, 66.34, 80.11),
}
_ROWS = {
    "energies": [(energy, "gfy", "envelope") for energy in ENERGIES],
    "gradients": [("pairwise", "gfy", "envelope"), ("pairwise", "gfy", "implicit")],
    "losses": [
        ("pairwise", "gfy", "envelope"),
        ("pairwise", "energy", "envelope"),
        ("pairwise", "cross_entropy", "implicit"),
        ("pairwise", "perceptron", "envelope"),
    ],
}


@dataclass(frozen=True)
class Effort:
    """Say how much is spent on a cell: what the protocol requires, or less to see that everything runs."""

    epochs: int = protocol().epochs
    batch: int = protocol().batch
    penalties: int = protocol().penalties[2]
    rates: int = protocol().rates[2]
    seeds: tuple[int, ...] = protocol().seeds
    decay: bool = protocol().schedule == "linear"
    finalists: int = protocol().finalists

    def settings(self, gain: float = 1.0) -> Settings:
        """Return the grid of penalties and rates, in the order in which ties are resolved."""
        written = protocol()
        return grid((*written.penalties[:2], self.penalties), (*written.rates[:2], self.rates), (gain,))


FULL = Effort()
QUICK = Effort(epochs=10, penalties=2, rates=4, seeds=(0,))


@dataclass(frozen=True)
class Cell:
    """Describe one (dataset, model) pair: what is trained on what, with how much effort."""

    dataset: str
    energy: str
    loss: str = "gfy"
    gradient: str = "envelope"
    rank: int = 1
    regularizer: str = "gini"
    solver: str = "auto"
    effort: Effort = FULL

    @property
    def name(self) -> str:
        return f"{self.dataset} {self.energy} {self.loss} {self.gradient}"

    @property
    def columns(self) -> dict[str, Any]:
        """Return what identifies the cell in the store on any machine, since the score depends on no machine."""
        effort = asdict(self.effort)
        return {
            "kind": "multilabel",
            "problem": self.dataset,
            "family": "multilabel",
            "energy": self.energy,
            "regularizer": self.regularizer,
            "batch": effort.pop("batch"),
            "rank": self.rank if self.energy == "pairwise" else None,
            "loss": self.loss,
            "gradient": self.gradient,
            "problem_params": {"protocol": protocol().digest, "solver": self.solver, **effort},
        }

    @property
    def key(self) -> str:
        return key_of(self.columns)

    def recipe(self, features: int, labels: int) -> Recipe:
        """Return the solver: exact to float32's accuracy, or for a SPEN, which has kinks, a few steps on its dual."""
        said = protocol()
        model = Model(self.energy, features, labels, self.rank, self.regularizer, prior_start=said.spen_start)
        inexact = self.energy in ("spen", "concave-spen") and self.solver == "auto"
        tol, steps = (said.spen_tol, said.spen_max_steps) if inexact else (said.tol, said.max_steps)
        return Recipe(
            model,
            self.loss,
            self.gradient,
            self.solver,
            self.effort.epochs,
            self.effort.batch,
            tol,
            steps,
            self.effort.decay,
            said.spen_predict_steps if inexact else None,
        )


def paper_accuracy(cell: Cell) -> float | None:
    """Return the printed figure, or None where the paper has none (the reduced Mediamill is not its Mediamill)."""
    figures = _PAPER.get((cell.energy, cell.loss, cell.gradient))
    if figures is None or cell.dataset not in _COLUMNS or cell.rank != 1 or cell.regularizer != "gini":
        return None
    return figures[_COLUMNS.index(cell.dataset)]


def table_rows(table: str) -> list[tuple[str, str, str]]:
    """Return (energy, loss, gradient) of the lines of a table."""
    if table not in TABLES:
        raise GfyValueError(f"table '{table}' is not known; there are {', '.join(TABLES)}")
    return _ROWS[table]


def plan(datasets: tuple[str, ...], tables: tuple[str, ...], effort: Effort = FULL) -> list[Cell]:
    """Return the cells of the tables on the datasets, each once, with the tables in the given order."""
    lines = [line for table in tables for line in table_rows(table)]
    return [Cell(name, *line, effort=effort) for line in dict.fromkeys(lines) for name in datasets]
