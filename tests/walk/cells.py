"""Which cells are walked: all of them are asked whether they are accepted, and a covering selection is computed.

For every energy the quick part holds every value of each other factor, the whole every pair of values. Cheap cells are
preferred where any would do.
"""

from __future__ import annotations

import heapq
import itertools
import random
import zlib
from collections.abc import Iterator
from functools import cache

import gfy
from gfy.errors import GfyError

from . import catalogue
from .expected import by_name
from .judge import Cell

GAMMA_ONE = 8  # the first regularizers of the catalogue have gamma = 1
COSTLY = {
    "MultiStart": 3,
    "MirrorAscent": 2,
    "FrankWolfe": 2,
    "CvxpyReference": 1,
    "CvxpyLayers": 1,
    "PyepoFrankWolfe": 2,
    "JaxoptBoxOSQP": 2,
    "ByHand": 2,
}
ITERATED = (
    "CappedSimplex",
    "Birkhoff",
    "OracleHull",
)  # sets whose argmax maps are loops, long ones to differentiate
SEED = 20220519
SHARE = 200  # one in so many cells of `whole` is computed for the page


@cache
def refusals(
    energy: str, domain: str, omega: str, framework: str = "torch"
) -> dict[tuple[str, str], str | None]:
    """The sentence (None: accepted) for every solver and mode on a problem."""
    entry, place, regularizer = by_name(energy, domain, omega)
    k = entry.size(place)
    pairs = list(itertools.product(installed(), catalogue.MODES))
    try:
        problem = gfy.InnerProblem(entry.make(framework, k), regularizer.make(), place.make(k))
    except GfyError as error:
        return dict.fromkeys(pairs, str(error))
    found: dict[tuple[str, str], str | None] = {}
    for name in installed():
        solver = catalogue.SOLVERS[name]()
        reason = solver.unsupported(problem)
        for mode, how in catalogue.MODES.items():
            found[name, mode] = reason or how.unsupported(problem, solver)
    return found


@cache
def installed() -> tuple[str, ...]:
    return tuple(name for name in catalogue.SOLVERS if catalogue.installed(name))


def layouts(energy: str) -> list[str]:
    """The layouts of the leaves; with one leaf there is nothing to share."""
    entry = next(e for e in catalogue.ENERGIES if e.name == energy)
    return list(catalogue.LAYOUTS) if len(entry.leaves) > 1 else ["one", "batch", "two axes"]


def accepted(energy: str, omegas: int | None = None) -> Iterator[tuple[str, str, str, str, str]]:
    """(energy, set, regularizer, solver, mode) that nothing refuses."""
    for domain in catalogue.SETS:
        for omega in catalogue.REGULARIZERS[:omegas]:
            for (solver, mode), reason in refusals(energy, domain.name, omega.name).items():
                if reason is None and (mode in catalogue.MAIN_MODES or solver == "Auto"):
                    yield energy, domain.name, omega.name, solver, mode


def cost(cell: Cell) -> int:
    """A rough order of what a cell takes, in steps of several times."""
    steps = COSTLY.get(cell.solver, 0)
    steps += 3 if cell.solver == "MultiStart" and cell.domain.endswith("Hull") else 0
    steps += 2 if cell.mode == "unrolled" else 0
    steps += 2 if cell.mode == "unrolled" and cell.domain.startswith(ITERATED) else 0
    return steps + (3 if cell.framework == "jax" else 0)


def candidates(energy: str, omegas: int | None) -> list[Cell]:
    """One cell per accepted combination, framework, dtype and layout drawn."""
    rng = random.Random(f"{SEED} {energy}")
    found = []
    for five in accepted(energy, omegas):
        for framework in catalogue.FRAMEWORKS:
            dtype = rng.choices(catalogue.DTYPES, (4, 3, 1, 1))[0]
            found.append(Cell(*five, framework, dtype, rng.choice(layouts(energy))))
    rng.shuffle(found)
    return found


def cover(cells: list[Cell], strength: int) -> list[Cell]:
    """Cells that together hold every value (strength 1) or pair of values (2) of the factors that the given ones hold.

    The cell that adds most for its cost is taken first. What a cell adds only shrinks as others are taken, so that a
    cell whose share is unchanged when it comes up is the best one.
    """
    groups = [set(itertools.combinations(enumerate(cell), strength)) for cell in cells]
    queue = [
        (-len(held) / (1 + cost(cell)), n) for n, (cell, held) in enumerate(zip(cells, groups, strict=True))
    ]
    heapq.heapify(queue)
    found: list[Cell] = []
    covered: set[object] = set()
    while queue:
        before, n = heapq.heappop(queue)
        groups[n] -= covered
        now = -len(groups[n]) / (1 + cost(cells[n]))
        if now == before:
            found.append(cells[n])
            covered |= groups[n]
        elif now < 0:
            heapq.heappush(queue, (now, n))
    return found


@cache
def quick(energy: str) -> tuple[Cell, ...]:
    """The energy with every set, regularizer, solver, mode, framework, dtype and layout; the costliest left out."""
    cheap = [cell for cell in candidates(energy, GAMMA_ONE) if cost(cell) <= 4]
    return tuple(cover(cheap, 1))


@cache
def whole(energy: str) -> tuple[Cell, ...]:
    """The energy with every pair of the other factors' values."""
    return tuple(cover(candidates(energy, None), 2))


def draw_of(cell: Cell) -> int:
    """A number drawn for the cell from its name, the same in every process."""
    return zlib.crc32(f"{SEED} {cell.name}".encode())


@cache
def compiled(energy: str) -> tuple[Cell, ...]:
    """One JAX cell per gradient mode, the cheapest: `quick` has one for the framework, whichever its mode."""
    staged = [cell for cell in candidates(energy, GAMMA_ONE) if cell.framework == "jax"]
    staged.sort(key=lambda cell: (cost(cell), draw_of(cell)))
    return tuple({cell.mode: cell for cell in reversed(staged)}.values())


@cache
def shown(energy: str) -> tuple[Cell, ...]:
    """What the page of the documentation counts: `quick`, `compiled` and one in SHARE of the others, by their names."""
    more = (cell for cell in whole(energy) if draw_of(cell) % SHARE == 0)
    return tuple(dict.fromkeys((*quick(energy), *compiled(energy), *more)))
