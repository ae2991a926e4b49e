"""Draw the sized problems of the gates: families of the registry, from a seed that includes the sizes."""

from __future__ import annotations

from dataclasses import replace

from bench.plan.registry import make_problem, plugin_families, plugin_solvers, solver_classes
from bench.problems.base import Named

# The bars use strong interactions: scores u have standard deviation 2, and factors A standard deviation 1.
STRONG = {"active": 0.6170750774519738, "strength": 1.0}
SIZED = {"pairwise-gini": STRONG, "pairwise-shannon": STRONG}


def make(family: str, k: int, batch: int, rank: int | None = None, seed: int = 0) -> Named:
    """Return a family's problem at a size; equal arguments give equal bytes.

    Args:
        family: A name that `gfy list problems` shows; a plugin's too.
        k: Size of p.
        batch: Number of examples.
        rank: Rank of the interactions, for the families that have one (1 if not given).
        seed: Seeds the draw together with the sizes.

    Returns:
        The instance with what names it.

    Example:
        >>> make("pairwise-gini", 6, 3).name
        'pairwise-gini-k6-b3-r1'
    """
    low_rank = family.startswith("pairwise")
    params = {"k": k, "batch": batch} | SIZED.get(family, {}) | ({"rank": rank or 1} if low_rank else {})
    work = make_problem(family, params, seed, draw=(seed, k, batch, params.get("rank", 0)))
    return replace(work, unusual=())  # all gates measure strong interactions: names show the sizes only


def trained(k: int, batch: int, rank: int = 1, seed: int = 3) -> Named:
    """Return the inner problems of a trained network, as the bars have always drawn them."""
    params = {"k": k, "batch": batch, "rank": rank}
    return make_problem("trained-pairwise", params, seed, draw=(seed, k, batch, rank))


def registered() -> list[tuple[str, str]]:
    """Return (family, solver) of every pair in which one of the two is a plugin: every gate measures them too."""
    pairs = []
    for family in plugin_families():
        problem = make_problem(family).instance.problem
        pairs += [
            (family, name) for name, cls in solver_classes().items() if cls().unsupported(problem) is None
        ]
    problem = make("pairwise-gini", 4, 2).instance.problem
    pairs += [
        ("pairwise-gini", n) for n in plugin_solvers() if solver_classes()[n]().unsupported(problem) is None
    ]
    return list(dict.fromkeys(pairs))
