"""What is to be measured: one cell becomes one row, a group is the cells that compete in one process."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from bench.store.records import key_of


@dataclass(frozen=True)
class Cell:
    """One solver with one gradient mode on one problem at one tolerance.

    `columns` are the columns of the row that are known beforehand (all that determine it but the machine);
    `problem` and `solver` are the texts from which a worker makes the objects.
    """

    columns: dict[str, Any]
    problem: str
    solver: str

    @property
    def name(self) -> str:
        """The key of the cell on no particular machine: how a cell is called between processes."""
        return key_of(self.columns | {"machine": None})

    def key(self, machine: str) -> str:
        return key_of(self.columns | {"machine": machine})


@dataclass(frozen=True)
class Settings:
    """How a group is measured."""

    timeout: float = 60.0  # seconds a cell may take in all
    repeat: int = 7  # timed calls of each program
    budget: float = 1.0  # seconds after which a program is not repeated any more (three calls at least)
    memory: int | None = None  # bytes a worker may allocate
    accuracy_only: bool = False  # no timings: several workers may run side by side
    break_even: bool = False  # also call the program unstaged, to tell when staging pays
    load_limit: float = 0.3  # cores busy with other work above which a timing is flagged


@dataclass(frozen=True)
class Group:
    """The cells of one problem, backend, device and dtype: prepared together, timed in rotation."""

    label: str
    cells: tuple[Cell, ...]
    settings: Settings = field(default_factory=Settings)

    def only(self, names: set[str]) -> Group:
        return replace(self, cells=tuple(c for c in self.cells if c.name in names))
