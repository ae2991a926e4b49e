"""The references of one batch: p*, the maximum, and differences along random directions of every leaf.

The inputs are drawn until every example is well away from a point where p* is not differentiable.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from . import catalogue
from .catalogue import LAYOUTS, EnergyEntry, OmegaEntry, SetEntry
from .reference import NoReference, Point, Problem, neighbour, solve

MARGIN = 4e-3  # the least multiplier and slack of a differentiable point
CONDITION = 25.0  # the largest norm of dp* / d(scores)
STEP = 2e-4
DIRECTIONS = 2
_DRAWS = 60
_KINK = 1e-4  # the least jump of a slope that is seen as a kink, relative to the loss
SEVERAL = "the maximum is attained by several p"


@dataclass
class Expected:
    """What is right for one energy, set, regularizer and layout."""

    leaves: dict[str, np.ndarray]
    y: np.ndarray
    points: np.ndarray  # [...] of Point
    p: np.ndarray
    value: np.ndarray
    loss: np.ndarray
    condition: float
    scale: float
    cotangent: np.ndarray
    weights: np.ndarray
    unique: bool = True  # whether one p attains the maximum
    directions: dict[str, list[np.ndarray]] = field(default_factory=dict)
    slopes: dict[str, list[Slope]] = field(default_factory=dict)


@dataclass
class Slope:
    """The derivatives along one direction: of p, of the maximum, of the loss; and its second derivative."""

    p: np.ndarray
    value: np.ndarray
    loss: np.ndarray
    second: np.ndarray


def batch_of(layout: str) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(*LAYOUTS[layout]))


def draw(energy: EnergyEntry, k: int, layout: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The leaves of a batch; the first leaf has the layout's first axes, the others its second."""
    found = {}
    for number, (name, (rank, make)) in enumerate(energy.leaves.items()):
        axes = LAYOUTS[layout][min(number, 1)]
        stacked = [make(rng, k) for _ in range(int(np.prod(axes, dtype=int)))]
        found[name] = np.array(stacked).reshape(axes + np.shape(stacked[0]))
        assert found[name].ndim == len(axes) + rank
    return found


def example(
    energy: EnergyEntry, leaves: dict[str, np.ndarray], index: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """One example's leaves."""
    found = {}
    for name, (rank, _) in energy.leaves.items():
        axes = leaves[name].ndim - rank
        found[name] = leaves[name][index[len(index) - axes :] if axes else ()]
    return found


def seed_of(*names: str) -> int:
    return zlib.crc32("/".join(names).encode())


@lru_cache(maxsize=4096)
def expected(energy: str, domain: str, omega: str, layout: str) -> Expected:
    """The reference of a concave problem; raises NoReference where none is found."""
    entry, place, regularizer = by_name(energy, domain, omega)
    k = entry.size(place)
    rng = np.random.default_rng(seed_of(energy, domain, omega, layout))
    reason = "no draw was tried"
    for _ in range(_DRAWS):
        leaves = draw(entry, k, layout, rng)
        try:
            return measure(entry, place, regularizer, leaves, layout, rng, None)
        except NoReference as found:
            reason = str(found)
            if reason == SEVERAL:
                return measure(entry, place, regularizer, leaves, layout, rng, None, unique=False)
    raise NoReference(f"none of {_DRAWS} draws gave a reference; the last reason: {reason}")


@lru_cache(maxsize=4096)
def by_name(energy: str, domain: str, omega: str) -> tuple[EnergyEntry, SetEntry, OmegaEntry]:
    def pick(entries: Any, name: str) -> Any:
        return next(entry for entry in entries if entry.name == name)

    return (
        pick(catalogue.ENERGIES, energy),
        pick(catalogue.SETS, domain),
        pick(catalogue.REGULARIZERS, omega),
    )


def measure(
    entry: EnergyEntry,
    place: SetEntry,
    regularizer: OmegaEntry,
    leaves: dict[str, np.ndarray],
    layout: str,
    rng: np.random.Generator,
    starts: np.ndarray | None,
    unique: bool = True,
) -> Expected:
    """Solve every example (from `starts` [..., k] where the energy is not concave) and its neighbours."""
    k, batch = entry.size(place), batch_of(layout)
    region, omega = place.region(k), regularizer.omega

    def problem(given: dict[str, np.ndarray], index: tuple[int, ...], near: np.ndarray | None) -> Problem:
        formula = entry.formula()
        if near is not None and hasattr(formula, "near"):
            formula.near = near
        return Problem(formula, omega, region, example(entry, given, index))

    points = np.empty(batch, dtype=object)
    for index in np.ndindex(*batch):
        start = None if starts is None else starts[index]
        here = problem(leaves, index, start)
        if here.formula.smooth_in_v(here.v) < MARGIN:
            raise NoReference("the energy is not differentiable at this v")
        points[index] = check(solve(here, start)) if unique else solve(here, start)
    y = np.array([place.target(rng, k) for _ in range(int(np.prod(batch, dtype=int)))]).reshape((*batch, k))

    def results(given: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ps, values, losses = np.empty((*batch, k)), np.empty(batch), np.empty(batch)
        for index in np.ndindex(*batch):
            base: Point = points[index]
            here = problem(given, index, base.p)
            moved = base if given is leaves else neighbour(here, base)
            ps[index], values[index] = moved.p, moved.value
            losses[index] = moved.value + omega.value(y[index]) - bare_value(here, y[index])
        return ps, values, losses

    def bare_value(here: Problem, target: np.ndarray) -> float:
        formula = here.formula
        if hasattr(formula, "near"):  # the energy itself, wherever the target lies
            z = target @ here.v["W1"].T + here.v["b1"]
            w = formula._weights(here.v)
            sigma = np.maximum(z, 0) if formula.activation == "relu" else catalogue.energies.softplus(z)
            return float(here.v["u"] @ target - w @ sigma - here.v["b2"])
        return formula.value(here.v, target)

    base = results(leaves)
    found = Expected(
        leaves, y, points, *base,
        max(point.condition for point in points.ravel()),
        1 + max(float(np.abs(leaf).max()) for leaf in leaves.values()),
        rng.normal(size=(*batch, k)), rng.uniform(0.5, 1.5, size=batch),
    )  # fmt: skip
    found.unique = unique
    if not unique:
        return found
    for name, leaf in leaves.items():
        found.directions[name], found.slopes[name] = [], []
        for _ in range(DIRECTIONS):
            direction = rng.normal(size=leaf.shape)
            if name == "U":
                direction = (direction + np.swapaxes(direction, -1, -2)) / 2
            direction /= max(1.0, float(np.abs(direction).max()))
            samples = {
                c: results(leaves | {name: leaf + c * STEP * direction}) for c in (-2.0, -1.0, 1.0, 2.0)
            }

            def slope(n: int, samples: Any = samples) -> np.ndarray:
                near = (samples[1.0][n] - samples[-1.0][n]) / (2 * STEP)
                far = (samples[2.0][n] - samples[-2.0][n]) / (4 * STEP)
                return (4 * near - far) / 3

            _check_target(base[2], samples)
            near = (samples[1.0][2] - 2 * base[2] + samples[-1.0][2]) / STEP**2
            far = (samples[2.0][2] - 2 * base[2] + samples[-2.0][2]) / (4 * STEP**2)
            found.directions[name].append(direction)
            found.slopes[name].append(Slope(slope(0), slope(1), slope(2), (4 * near - far) / 3))
    return found


def _check_target(loss: np.ndarray, samples: dict[float, tuple[np.ndarray, ...]]) -> None:
    """Raise where the loss has a kink among these samples, as Phi(v, y) has one where y lies on a kink of the energy.

    The third and the fourth difference of a smooth function shrink with h^3 and h^4, those at a kink with h.
    """
    low, left, right, high = (samples[c][2] for c in (-2.0, -1.0, 1.0, 2.0))
    third, fourth = high - 2 * right + 2 * left - low, high - 4 * right + 6 * loss - 4 * left + low
    if (np.maximum(np.abs(third), np.abs(fourth)) > _KINK * STEP * (1 + np.abs(loss))).any():
        raise NoReference("a target lies on a kink of the energy")


def check(point: Point) -> Point:
    """The point where it is differentiable and well conditioned; a sentence otherwise."""
    if not point.unique:
        raise NoReference(SEVERAL)
    if point.margin < MARGIN:
        raise NoReference(f"the point is {point.margin:.2g} from one where p* is not differentiable")
    if point.condition > CONDITION:
        raise NoReference(f"dp* / d(scores) has the norm {point.condition:.3g}")
    return point
