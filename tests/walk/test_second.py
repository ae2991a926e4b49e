"""Second derivatives of the loss through `Implicit`, against second differences of the references, at every leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy
from gfy.errors import GfyError
from walk.expected import Expected, by_name, expected

PROBLEMS = [
    ("Bilinear", "Simplex", "Shannon", "batch"),
    ("Pairwise", "Box", "BinaryGini", "shared rest"),
    ("Pairwise", "CappedSimplex(2)", "SquaredNorm", "one"),
    ("LinearQuadratic", "Simplex", "Gini", "batch"),
    ("LinearQuadratic", "Box", "BinaryShannon", "outer"),
    ("ConcaveSpen(softplus)", "Box", "BinaryGini", "shared rest"),
    ("InputConvexNetwork(softplus)", "Simplex", "Shannon", "one"),
    ("CustomEnergy(dict)", "Box", "BinaryGini", "shared rest"),
]
QUICK = (0, 1)


def cases() -> list[Any]:
    return [
        pytest.param(*problem, id="-".join(problem), marks=() if number in QUICK else pytest.mark.slow)
        for number, problem in enumerate(PROBLEMS)
    ]


def parts(names: tuple[str, ...], framework: str) -> tuple[Expected, Any, Any]:
    """The reference, the entry of the energy, and the loss with its gradient mode."""
    right = expected(*names)
    entry, place, regularizer = by_name(*names[:3])
    k = entry.size(place)
    problem = gfy.InnerProblem(entry.make(framework, k), regularizer.make(), place.make(k))
    return (
        right,
        entry,
        gfy.FenchelYoungLoss(problem, gradient=gfy.Implicit(), stop=gfy.Stop(1e-11), target_tol=0.05),
    )


def check(right: Expected, name: str, number: int, found: float) -> None:
    slope = right.slopes[name][number]
    truth = float((right.weights * slope.second).sum())
    # second differences of values that are right to 1e-14 with a step of 2e-4
    assert found == pytest.approx(truth, rel=1e-4, abs=1e-4), name


@pytest.mark.parametrize(("energy", "domain", "omega", "layout"), cases())
def test_jax(energy: str, domain: str, omega: str, layout: str) -> None:
    import jax
    import jax.numpy as jnp

    right, entry, loss = parts((energy, domain, omega, layout), "jax")
    leaves = {name: jnp.asarray(x) for name, x in right.leaves.items()}
    y, weights = jnp.asarray(right.y), jnp.asarray(right.weights)

    def scalar(leaves: dict[str, Any]) -> Any:
        return (weights * loss(entry.tree(loss.problem.energy, leaves), y)).sum()

    @jax.jit
    def second(leaves: dict[str, Any], along: dict[str, Any]) -> Any:
        _, moved = jax.jvp(jax.grad(scalar), (leaves,), (along,))
        return sum((moved[name] * along[name]).sum() for name in leaves)

    for name in leaves:
        for number, direction in enumerate(right.directions[name]):
            along = {other: jnp.zeros_like(x) for other, x in leaves.items()}
            along[name] = jnp.asarray(direction)
            check(right, name, number, float(second(leaves, along)))


@pytest.mark.parametrize(("energy", "domain", "omega", "layout"), cases())
def test_torch_is_right_or_refuses(energy: str, domain: str, omega: str, layout: str) -> None:
    import torch

    right, entry, loss = parts((energy, domain, omega, layout), "torch")
    leaves = {name: torch.tensor(np.array(x)).requires_grad_() for name, x in right.leaves.items()}
    y, weights = torch.tensor(right.y), torch.tensor(right.weights)
    value = (weights * loss(entry.tree(loss.problem.energy, leaves), y)).sum()
    for name, leaf in leaves.items():
        for number, direction in enumerate(right.directions[name]):
            try:
                (grad,) = torch.autograd.grad(value, leaf, create_graph=True)
                along = (grad * torch.tensor(direction)).sum()
                moved = torch.zeros_like(leaf)
                if along.requires_grad:  # not where the gradient is a constant, as that in an offset is
                    (moved,) = torch.autograd.grad(along, leaf, retain_graph=True)
            except GfyError:
                return  # refused with a sentence
            check(right, name, number, float((moved * torch.tensor(direction)).sum()))
