"""Describe problems, solvers and needs in words for a newcomer: "dense interactions, sparse labels on a box"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

ENERGIES = {
    "Pairwise": "low-rank interactions",
    "LinearQuadratic": "dense interactions",
    "Bilinear": "linear scores",
    "Spen": "network prior (SPEN)",
    "ConcaveSpen": "concave network prior (SPEN)",
    "InputConvexNetwork": "input-concave network",
    "Probabilistic": "probabilistic energy",
    "Rectifier": "rectifier network",
    "LogSumExp": "log-sum-exp network",
    "Maxout": "maxout network",
    "Metric": "metric energy",
    "Hopfield": "associative memory",
    "CustomEnergy": "an energy of your own",
}
REGULARIZERS = {
    "BinaryGini": "sparse labels",
    "BinaryShannon": "sigmoid labels",
    "Gini": "sparse probabilities",
    "Shannon": "softmax probabilities",
    "SquaredNorm": "squared norm",
}
SETS = {
    "Box": "on a box",
    "Simplex": "on a simplex",
    "CappedSimplex": "on a capped simplex",
    "Birkhoff": "on doubly stochastic matrices",
    "ConvexHull": "on a convex hull",
    "Ball": "on a ball",
    "Reals": "without constraints",
}
BACKENDS = {"jax": "JAX", "torch": "PyTorch", "numpy": "NumPy"}
OURS = (
    "ActiveSet", "Amortised", "Auto", "ClosedForm", "CoordinateAscent", "DualNewton", "FrankWolfe", "InteriorPoint",
    "MirrorAscent", "MultiStart", "ProjectedGradient", "ProjectedNewton",
)  # fmt: skip
PEERS = (
    "ByHand", "Clarabel", "Cvxpy", "Daqp", "Jaxopt", "Moreau", "Mujoco", "Osqp", "Piqp", "Proxsuite", "Pyepo",
    "Qpax", "Quadprog", "Scipy",
)  # fmt: skip
SIZES = ("k", "batch", "rank")


def problem(
    energy: str | None, regularizer: str | None, domain: str | None, rank: float | None, family: str
) -> str:
    """Return an inner problem in words, without its size, or its family's name where the energy is not known."""
    if not energy:
        return family
    first = ENERGIES.get(energy, energy)
    if rank is not None and rank == rank:
        first = f"rank-{int(rank)} interactions" if energy == "Pairwise" else f"{first}, rank {int(rank)}"
    second = " ".join(
        part
        for part in (
            REGULARIZERS.get(regularizer or "", regularizer or ""),
            SETS.get(domain or "", f"on {domain}" if domain else ""),
        )
        if part
    )
    return f"{first}, {second}" if second else first


def told_apart(names: list[str], families: list[str], params: list[Mapping[str, Any]]) -> list[str]:
    """Return the names, with the family and then the parameters added where names would otherwise be the same."""
    out = [f"{n} ({f})" if names.count(n) > 1 else n for n, f in zip(names, families, strict=True)]
    if len(set(out)) == len(out):
        return out
    same = [[j for j, other in enumerate(out) if other == name] for name in out]
    return [_with_params(out[i], params[i], [params[j] for j in group]) for i, group in enumerate(same)]


def _with_params(name: str, mine: Mapping[str, Any], others: list[Mapping[str, Any]]) -> str:
    differ = [k for k in sorted(mine) if len({json.dumps(o.get(k), sort_keys=True) for o in others}) > 1]
    inside = ", ".join(f"{k} = {mine[k]}" for k in differ)
    return f"{name}; {inside}" if inside else name


def size(k: float, batch: float) -> str:
    """Return the size of a problem: "k = 50, batch 64"."""
    parts = [f"k = {int(k)}" if k == k else "", f"batch {int(batch)}" if batch == batch else ""]
    return ", ".join(p for p in parts if p)


def origin(solver: str) -> str:
    """Return the origin of a solver by its name: "ours", "peer", or "yours" for every other."""
    plain = re.sub(r"[^a-z]", "", solver.partition("(")[0].lower())
    if plain in (name.lower() for name in OURS):
        return "ours"
    return "peer" if plain.startswith(tuple(p.lower() for p in PEERS)) else "yours"
